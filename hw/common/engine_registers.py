# SPDX-License-Identifier: Apache-2.0
"""Registers that all engines have, and how an engine drives them.

An engine is given commands by writes, keeps count of what it completed and refused, and raises an
interrupt. The functions declare these registers; `EngineRegisters` joins them to an engine.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Value
from amaranth.lib.wiring import connect, flipped
from amaranth.utils import bits_for

from hw.common.axi import AXI4LiteSignature
from hw.common.register_map import Field, Register, RegisterMap
from hw.common.registers import RegisterFile

__all__ = [
    "CSR_SIGNATURE",
    "VERSION",
    "EngineRegisters",
    "counter_registers",
    "identity_register",
    "memory_end_registers",
    "number_register",
    "outcome_registers",
    "record",
    "shape_register",
    "wide_registers",
]

CSR_SIGNATURE = AXI4LiteSignature(addr_width=12)
"""The register bus of every engine, seen from software."""

VERSION = 5
"""Of the register maps of all engines: one more with every release that changes one of them in
name, place, width, access or meaning, so that a driver can tell."""


def identity_register(engine: int) -> Register:
    """The register that tells software which engine this is, a number of 16 bits."""
    return Register(
        "identity",
        "ro",
        [
            Field("engine", 16, f"0x{engine:04X}", init=engine),
            Field("version", 16, "Of this register map.", init=VERSION),
        ],
        "What this is.",
    )


def wide_registers(name: str, doc: str = "", *, bits: int = 64, init: int = 0) -> list[Register]:
    """A number of *bits* bits, 33 to 64, in two registers: ``{name}_low`` and ``{name}_high``."""
    return [
        number_register(f"{name}_low", doc, init=init & 0xFFFF_FFFF),
        Register(f"{name}_high", "rw", [Field("value", bits - 32, init=init >> 32)]),
    ]


def number_register(name: str, doc: str, access: str = "rw", *, init: int = 0) -> Register:
    """A number of 32 bits, the field ``value``."""
    return Register(name, access, [Field("value", 32, init=init)], doc)


def counter_registers(
    counted: Mapping[str, tuple[str, str]], *, count: int | None = None,
    bits: Mapping[str, int] | None = None,
) -> list[Register]:
    """Numbers of 32 bits that the engine counts up: name -> field, i.e. what is counted, and
    document; *count* of each. What comes in a cycle is a number of so many *bits*, or one bit."""
    widths = bits or {}
    return [
        Register(name, "ro", [Field(unit, 32)], doc, count=count, adds=widths.get(name, 1))
        for name, (unit, doc) in counted.items()
    ]


def memory_end_registers(address_bits: int) -> list[Register]:
    """The last byte that an engine may touch: at first, that of the whole address space."""
    return wide_registers("memory_end", "Last byte of memory.", init=(1 << address_bits) - 1)


def shape_register(
    of: str, shape: Mapping[str, tuple[int, str]], values: Mapping[str, Any]
) -> Register:
    """The register of an engine's configuration: name -> width and meaning, and values."""
    return Register(
        "shape",
        "ro",
        [Field(name, bits, doc, init=int(values[name])) for name, (bits, doc) in shape.items()],
        f"Configuration of {of}.",
    )


def outcome_registers(
    *,
    of: str,
    tag: str,
    status: Sequence[Field],
    completed: Sequence[Field],
    errors: type,
    interrupts: Mapping[str, str],
) -> list[Register]:
    """Registers ``status``, ``completed``, ``refusal``, ``interrupt`` and ``interrupt_enable``.

    Parameters
    ----------
    of : str
        What the status is of, for the document.
    tag : str
        Field of 8 bits that names a command, as software gave it.
    status, completed : sequence of Field
        Of the registers of these names, beside ``idle`` (lowest) and the tag (highest).
    errors : enumeration
        Why a command may be refused.
    interrupts : mapping of str to str
        Causes of an interrupt, from bit 0 upwards, with their meanings.
    """
    causes = [Field(name, 1, doc) for name, doc in interrupts.items()]
    return [
        Register(
            "status",
            "ro",
            [Field("idle", 1, "Nothing is queued, running or in flight.", init=1), *status],
            f"State of {of}.",
        ),
        Register("completed", "ro", [*completed, Field(tag, 8, "The last of them.")], "Progress."),
        Register(
            "refusal",
            "ro",
            [
                Field("error", errors, "Why the last refused command was refused."),
                Field(tag, 8, "Which one it was."),
                Field("count", 16, "Commands refused."),
            ],
            "Refused commands.",
        ),
        Register("interrupt", "w1c", causes, "Pending interrupts."),
        Register("interrupt_enable", "rw", causes, "Those that raise `irq`."),
    ]


def record(m: Module, value: Any, event: Any, *, number: Any = 1, **fields: Any) -> None:
    """With *event*, ``count`` of *value* rises by *number* and *fields* are kept."""
    with m.If(event):
        m.d.sync += value.count.eq(value.count + number)
        m.d.sync += [value[field].eq(source) for field, source in fields.items()]


class EngineRegisters:
    """The registers of an engine, as a part of its module.

    Every register of the map is an attribute, as in `RegisterFile`.

    Parameters
    ----------
    m : Module
        The engine's module; gets the submodule ``registers``.
    registers : RegisterMap
        With `identity_register` and `outcome_registers` among them, and perhaps
        `shape_register`.
    csr : interface of `CSR_SIGNATURE`
        The engine's member, to which the registers are connected.
    """

    def __init__(self, m: Module, registers: RegisterMap, *, csr: Any) -> None:
        self._m = m
        self._file: Any = RegisterFile(registers, addr_width=CSR_SIGNATURE.addr_width)
        m.submodules.registers = self._file
        connect(m, flipped(csr), self._file.bus)
        for register in registers.registers.values():
            if register.name in ("identity", "shape"):
                self.show(
                    register.name, **{field.name: field.init for field in register.fields}
                )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def wide(self, name: str) -> Value:
        """The number that `wide_registers` hold."""
        low, high = getattr(self._file, f"{name}_low"), getattr(self._file, f"{name}_high")
        return Cat(low.value, high.value)

    def show(self, name: str, **fields: Any) -> None:
        """Fields of a read-only register, as they are in every cycle."""
        value = getattr(self._file, name).value
        self._m.d.comb += [value[field].eq(source) for field, source in fields.items()]

    def record(self, name: str, event: Any, *, number: Any = 1, **fields: Any) -> None:
        """With *event*, ``count`` of a read-only register rises by *number* and *fields* are
        kept."""
        record(self._m, getattr(self._file, name).value, event, number=number, **fields)

    def count(self, counter: Any, *events: Any) -> None:
        """Add *events*, bits or numbers, to a counter of `counter_registers` in every cycle.

        Raises
        ------
        ValueError
            They may come to more in a cycle than the counter takes.
        """
        most = sum((1 << len(Value.cast(event))) - 1 for event in events)
        if bits_for(most) > len(counter.event):
            raise ValueError(
                f"a counter of events of {len(counter.event)} bits cannot take {most} in a cycle"
            )
        self._m.d.comb += counter.event.eq(sum(events))

    def interrupt_by(self, **causes: Any) -> Value:
        """Make each cause, a bit, pending; whether a pending one is enabled.

        A failed register access is the cause ``fault`` of every engine.
        """
        for name, event in {**causes, "fault": self._file.fault}.items():
            self._m.d.comb += self._file.interrupt.set[name].eq(event)
        pending, enabled = self._file.interrupt.value, self._file.interrupt_enable.value
        return (Value.cast(pending) & Value.cast(enabled)).any()

# SPDX-License-Identifier: Apache-2.0
"""Control and status registers behind an AXI4-Lite bus."""

from collections.abc import Mapping
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.axi import AXI4LiteSignature, AXIResponse
from hw.common.params import require_int, require_type
from hw.common.register_map import WORD_BYTES, Access, Field, Register, RegisterMap

__all__ = ["Field", "Register", "RegisterFile", "RegisterMap"]

_PART_REGISTERS = 16
"""So many, arrays or not, are chosen from in the first of two steps of a read."""


class RegisterFile(wiring.Component):
    """AXI4-Lite slave that holds the registers of a map.

    A write is answered, and its value visible, 2 cycles after the later of address and data was
    accepted; a read is answered 3 cycles after its address was accepted, with the value of two
    cycles before. One write and one read at a time, independent of each other: at best a write
    every 3 cycles and a read every 4. Bus outputs depend on registers only.

    Byte strobes are obeyed; a write without any enabled byte is answered and has no effect. The low
    two address bits are ignored. An address without a register is answered with DECERR, a write to
    a read-only register and a read of a write-only one with SLVERR; these accesses have no effect
    except that they are counted.

    Parameters
    ----------
    registers : RegisterMap
        What to hold.
    addr_width : int or None
        Bits of an address, at least what the map needs, which is the default.

    Members
    -------
    bus : ``In(AXI4LiteSignature(...))``
        Where software reads and writes.
    faults : ``Out(16)``
        Number of accesses that were answered with an error; stays at its greatest value.
    fault : ``Out(1)``
        High for one cycle for each such access (for two at once, too).

    Each register is a member of its own name, or an array of them, with its fields as a structure:

    ====== =============================================================================
    access members
    ====== =============================================================================
    rw     ``value`` out; ``strobe`` out, if it is strobed
    wo     ``value`` out; ``strobe`` out, high in the first cycle of a newly written value
    ro     ``value`` in; ``event`` in, a number to add, if it is a counter
    w1c    ``value`` out; ``set`` in, bits to set (wins over a simultaneous clear)
    ====== =============================================================================

    A counter shows an event two cycles later: what an event is made of does not lead to the carry
    of its counter.

    A guarded register also has ``refuse`` in: a write now is answered with SLVERR.
    """

    bus: Any
    faults: Signal
    fault: Signal

    def __init__(self, registers: RegisterMap, *, addr_width: int | None = None) -> None:
        self._map = require_type("RegisterFile registers", registers, RegisterMap)
        width = require_int(
            "RegisterFile addr_width",
            registers.addr_width if addr_width is None else addr_width,
            minimum=registers.addr_width,
            maximum=64,
        )
        members = {
            "bus": In(AXI4LiteSignature(addr_width=width)),
            "faults": Out(16),
            "fault": Out(1),
        }
        for name, register in registers.registers.items():
            if name in members or hasattr(RegisterFile, name):
                raise ValueError(f"RegisterFile cannot hold a register of the name {name!r}")
            member = Out(self._signature(register))
            members[name] = member if register.count is None else member.array(register.count)
        super().__init__(members)

    @property
    def registers(self) -> RegisterMap:
        """The declaration."""
        return self._map

    @property
    def _words(self) -> int:
        """Number of word addresses up to the last one of the map."""
        return 1 + max((index for index, _, _ in self._ports()), default=0)

    @staticmethod
    def _signature(register: Register) -> wiring.Signature:
        access = Access(register.access)
        if register.adds is not None:
            return wiring.Signature({"event": In(register.adds)})
        if access is Access.RO:
            return wiring.Signature({"value": In(register.layout)})
        init = {field.name: field.init for field in register.fields}
        value = Out(register.layout, init=init)  # type: ignore[call-arg]  # missing in the stubs
        if access is Access.W1C:
            return wiring.Signature({"value": value, "set": In(register.layout)})
        strobe = {"strobe": Out(1)} if _strobed(register) else {}
        refuse = {"refuse": In(1)} if register.guarded else {}
        return wiring.Signature({"value": value, **strobe, **refuse})

    def _ports(self) -> list[tuple[int, Register, Any]]:
        """Word address, declaration and port of every word."""
        found = []
        for name, register in self._map.registers.items():
            first = self._map.offset(name) // WORD_BYTES
            elements = self._elements(register)
            found += [(first + index, register, port) for index, port in enumerate(elements)]
        return found

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        counters = self._count(m)
        write_fault = self._write_channels(m)
        read_fault = self._read_channels(m, counters)
        faulty = Signal(2)
        m.d.sync += faulty.eq(Cat(write_fault, read_fault))
        m.d.comb += self.fault.eq(faulty.any())
        count = self.faults + faulty[0] + faulty[1]
        limit = (1 << len(self.faults)) - 1
        m.d.sync += self.faults.eq(Mux(count > limit, limit, count))
        return m

    def _count(self, m: Module) -> dict[str, list[Signal]]:
        """The elements of each counter; those of one place in their arrays come together."""
        counters = [each for each in self._map.registers.values() if each.adds is not None]
        found: dict[str, list[Signal]] = {each.name: [] for each in counters}
        for place in range(max((each.words for each in counters), default=0)):
            for register in counters:
                if place < register.words:
                    port = self._elements(register)[place]
                    name = register.name if register.count is None else f"{register.name}_{place}"
                    seen = Signal.like(port.event, name=f"seen_{name}")
                    total = Signal(register.layout.size, name=name)
                    m.d.sync += [seen.eq(port.event), total.eq(total + seen)]
                    found[register.name].append(total)
        return found

    def _elements(self, register: Register) -> list[Any]:
        """The ports of a register, one for each word."""
        member = getattr(self, register.name)
        return [member] if register.count is None else list(member)

    def _write_channels(self, m: Module) -> Signal:
        bus = self.bus.write
        address = self._address()
        word = Signal.like(bus.wdata)
        mask = Signal.like(bus.wdata)  # bits of the word whose byte is enabled
        have_address = Signal()
        have_word = Signal()
        execute = Signal()
        fault = Signal()
        m.d.comb += [
            bus.awready.eq(~have_address),
            bus.wready.eq(~have_word),
            execute.eq(have_address & have_word & ~bus.bvalid),
        ]
        with m.If(bus.awvalid & bus.awready):
            m.d.sync += [address.eq(self._within(bus.awaddr)), have_address.eq(1)]
        with m.If(bus.wvalid & bus.wready):
            enabled = Cat(strobe.replicate(8) for strobe in bus.wstrb)
            m.d.sync += [word.eq(bus.wdata), mask.eq(enabled), have_word.eq(1)]
        with m.If(execute):
            m.d.sync += bus.bvalid.eq(1)
        with m.If(bus.bvalid & bus.bready):
            m.d.sync += [bus.bvalid.eq(0), have_address.eq(0), have_word.eq(0)]

        ports = self._ports()
        for _, register, port in ports:
            if Access(register.access) is Access.W1C:
                value = Value.cast(port.value)
                m.d.sync += value.eq(value | Value.cast(port.set))
            elif _strobed(register):
                m.d.sync += port.strobe.eq(0)
        known, writable = self._known(address), self._known(address, "writable")
        refused = Cat(
            (address == index) & port.refuse for index, register, port in ports if register.guarded
        )
        denied = ~writable | refused.any()
        m.d.comb += fault.eq(execute & denied)
        with m.If(execute):
            error = Mux(known, AXIResponse.SLVERR, AXIResponse.DECERR)
            m.d.sync += bus.bresp.eq(Mux(denied, error, AXIResponse.OKAY))
            with m.Switch(address):
                for index, register, port in ports:
                    if Access(register.access).writable:
                        with m.Case(index):
                            self._write_word(m, register, port, word, mask)
        return fault

    def _write_word(
        self, m: Module, register: Register, port: Any, word: Signal, mask: Signal
    ) -> None:
        value = Value.cast(port.value)
        if Access(register.access) is Access.W1C:
            m.d.sync += value.eq(value & ~(word & mask) | Value.cast(port.set))
            return
        with m.If(~port.refuse if register.guarded else Const(1)):
            m.d.sync += value.eq(value & ~mask | word & mask)
            if _strobed(register):
                m.d.sync += port.strobe.eq(mask.any())

    def _read_channels(self, m: Module, counters: Mapping[str, list[Signal]]) -> Signal:
        bus = self.bus.read
        address = self._address()
        have_address = Signal()
        fault = Signal()
        m.d.comb += bus.arready.eq(~have_address)
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [address.eq(self._within(bus.araddr)), have_address.eq(1)]
        with m.If(bus.rvalid & bus.rready):
            m.d.sync += [bus.rvalid.eq(0), have_address.eq(0)]
        known, readable = Signal(), Signal()
        parts = self._read_parts(m, address, counters)
        chosen = Signal()
        m.d.sync += [
            known.eq(self._known(address)), readable.eq(self._known(address, "readable")),
            chosen.eq(have_address & ~chosen & ~bus.rvalid),
        ]
        with m.If(chosen):
            m.d.sync += [
                bus.rvalid.eq(1), bus.rdata.eq(reduce(or_, parts) if parts else 0),
                bus.rresp.eq(AXIResponse.OKAY),
            ]
            with m.If(~readable):
                m.d.sync += bus.rresp.eq(Mux(known, AXIResponse.SLVERR, AXIResponse.DECERR))
        m.d.comb += fault.eq(chosen & ~readable)
        return fault

    def _read_parts(
        self, m: Module, address: Value, counters: Mapping[str, list[Signal]]
    ) -> list[Signal]:
        """The word at this *address*, in one of several registers, and 0 in the others: wires
        from all parts of an engine end there."""
        readable: list[tuple[int, list[Any]]] = []  # the place of the first word, and all words
        for name, register in self._map.registers.items():
            if Access(register.access).readable:
                first = self._map.offset(name) // WORD_BYTES
                words = counters.get(name) or [port.value for port in self._elements(register)]
                readable.append((first, words))
        found: list[Signal] = []
        for start in range(0, len(readable), _PART_REGISTERS):
            held = {
                first + at: Value.cast(word)
                for first, words in readable[start : start + _PART_REGISTERS]
                for at, word in enumerate(words)
            }
            width = max(map(len, held.values()))
            part = Signal(width, name=f"part_{len(found)}", reset_less=True)
            m.d.sync += part.eq(0)
            with m.Switch(address):
                for index, word in held.items():
                    with m.Case(index):
                        m.d.sync += part.eq(word)
            found.append(part)
        return found

    def _address(self) -> Signal:
        """For the address of a word: one of the map's, or the first beyond it."""
        return Signal(range(self._words + 1), name="address")

    def _within(self, address: Value) -> Value:
        """The word that software means. All that are beyond the map are one: so a word is known by
        few bits, and the choice between words is short."""
        word = address[2:]
        return Mux(word < self._words, word, self._words)

    def _known(self, address: Signal, way: str = "") -> Value:
        """High if a word address has a register; *way*: a ``readable`` or ``writable`` one."""
        words = sorted(
            index for index, register, _ in self._ports()
            if not way or getattr(Access(register.access), way)
        )
        edges = [n for n, word in enumerate(words) if n == 0 or words[n - 1] != word - 1]
        runs = [(words[a], words[b - 1]) for a, b in pairwise([*edges, len(words)])]
        return Cat(
            address == low if low == high
            else (address >= low) & (address <= high) if low else address <= high
            for low, high in runs
        ).any()


def _strobed(register: Register) -> bool:
    return register.strobed or Access(register.access) is Access.WO

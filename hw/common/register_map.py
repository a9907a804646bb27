# SPDX-License-Identifier: Apache-2.0
"""Declaration of control and status registers, for the hardware, its drivers and its document."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, EnumMeta
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import data
from amaranth.utils import ceil_log2

from hw.common.params import require, require_choice, require_int, require_type

__all__ = ["WORD_BYTES", "Access", "Field", "Register", "RegisterMap"]

WORD_BYTES = 4
"""Distance of registers, and the size of each."""


class Access(Enum):
    """Access of software to a register."""

    RW = "rw"
    RO = "ro"
    W1C = "w1c"
    WO = "wo"

    @property
    def readable(self) -> bool:
        """True if a read returns the register."""
        return self is not Access.WO

    @property
    def writable(self) -> bool:
        """True if a write has an effect."""
        return self is not Access.RO

    @property
    def meaning(self) -> str:
        """The access in words."""
        return {
            "rw": "read and write",
            "ro": "read only",
            "w1c": "read; writing a 1 clears the bit",
            "wo": "write only",
        }[self.value]


def _check_name(owner: str, name: Any) -> None:
    require_type(f"{owner} name", name, str)
    ok = name.isidentifier() and name == name.lower()
    require(ok, f"{owner} name", "a lower-case identifier", name)


@dataclass(frozen=True)
class Field:
    """Some bits of a register.

    Parameters
    ----------
    name : str
        Lower-case identifier.
    shape : int or enumeration
        Number of bits, or an ``amaranth.lib.enum.Enum`` whose members are the allowed values.
    doc : str
        One sentence for the document.
    init : int
        Value after reset; of a read-only one what the hardware then shows.
    """

    name: str
    shape: Any = 1
    doc: str = ""
    init: int = 0

    def __post_init__(self) -> None:
        _check_name("Field", self.name)
        if not isinstance(self.shape, EnumMeta):
            require_int(f"Field {self.name} width", self.shape, maximum=8 * WORD_BYTES)
        require_int(f"Field {self.name} init", self.init, minimum=0, maximum=2**self.width - 1)

    @property
    def width(self) -> int:
        """Number of bits."""
        return Shape.cast(self.shape).width

    @property
    def choices(self) -> dict[str, int]:
        """Allowed values by name, empty if the field is a number."""
        if not isinstance(self.shape, EnumMeta):
            return {}
        members: Iterable[Enum] = self.shape
        return {member.name: member.value for member in members}


@dataclass(frozen=True)
class Register:
    """A word, or an array of words, that software sees.

    Parameters
    ----------
    name : str
        Lower-case identifier.
    access : str
        ``"rw"``, ``"ro"``, ``"w1c"`` or ``"wo"``.
    fields : sequence of Field
        From bit 0 upwards, 32 bits at most.
    doc : str
        One or two sentences for the document.
    offset : int or None
        Byte offset; ``None`` puts the register after the one declared before it.
    count : int or None
        Number of elements if this is an array, one word each.
    guarded : bool
        The hardware may refuse a write, which is then answered with SLVERR and has no effect.
    strobed : bool
        The hardware is told of every write; of one to a write-only register it always is.
    adds : int or None
        Bits of a number that the hardware adds to it in every cycle, if it is a counter: a
        read-only one of one field.
    """

    name: str
    access: str
    fields: Sequence[Field]
    doc: str = ""
    offset: int | None = None
    count: int | None = None
    guarded: bool = False
    strobed: bool = False
    adds: int | None = None

    def __post_init__(self) -> None:
        _check_name("Register", self.name)
        require_choice(f"Register {self.name} access", self.access, [each.value for each in Access])
        names = [field.name for field in self.fields]
        distinct = names and len(set(names)) == len(names)
        require(distinct, f"Register {self.name} fields", "distinct and one at least", names)
        width = sum(field.width for field in self.fields)
        require_int(f"Register {self.name} width", width, maximum=8 * WORD_BYTES)
        if self.offset is not None:
            name = f"Register {self.name} offset"
            require_int(name, self.offset, minimum=0, multiple_of=WORD_BYTES)
        if self.count is not None:
            require_int(f"Register {self.name} count", self.count)
        require(not self.strobed or self.access == Access.RW.value,
                f"Register {self.name} strobed", "False but for what is read and written", True)
        if self.adds is not None:
            name = f"Register {self.name} adds"
            counter = self.access == Access.RO.value and len(self.fields) == 1
            require(counter, name, "None but for a read-only register of one field", self.adds)
            require_int(name, self.adds, maximum=width)

    @property
    def layout(self) -> data.StructLayout:
        """The fields as a structure, from bit 0 upwards."""
        return data.StructLayout({field.name: field.shape for field in self.fields})

    @property
    def init(self) -> int:
        """Value after reset."""
        return self.pack(**{field.name: field.init for field in self.fields})

    @property
    def words(self) -> int:
        """Number of words it takes."""
        return 1 if self.count is None else self.count

    def pack(self, **values: Any) -> int:
        """Word with the given field values and zero in the other fields.

        Values are numbers or, for a field with choices, members or their names.
        """
        unknown = set(values) - {field.name for field in self.fields}
        if unknown:
            raise ValueError(f"Register {self.name} has no field {min(unknown)!r}")
        word = lsb = 0
        for field in self.fields:
            value = values.get(field.name, 0)
            value = value.value if isinstance(value, Enum) else field.choices.get(value, value)
            name = f"Field {self.name}.{field.name}"
            word |= require_int(name, value, minimum=0, maximum=2**field.width - 1) << lsb
            lsb += field.width
        return word

    def unpack(self, word: int) -> dict[str, int]:
        """Field values in *word*."""
        values = {}
        for field in self.fields:
            values[field.name] = word & (1 << field.width) - 1
            word >>= field.width
        return values


class RegisterMap:
    """Registers with their byte offsets.

    Parameters
    ----------
    name : str
        What the registers belong to, for the document's title.
    registers : sequence of Register
        In the order of their offsets. Those without an offset follow the one before.

    Raises
    ------
    ValueError
        If two registers have one name or overlap.
    """

    def __init__(self, name: str, registers: Sequence[Register]) -> None:
        self.name = name
        self.registers: dict[str, Register] = {}
        self._offsets: dict[str, int] = {}
        end = 0
        for register in registers:
            if register.name in self.registers:
                raise ValueError(f"RegisterMap {name} declares register {register.name!r} twice")
            offset = end if register.offset is None else register.offset
            if offset < end:
                raise ValueError(
                    f"Register {register.name} offset must be at least {end:#x}, "
                    f"the end of the register before it, not {offset:#x}"
                )
            self.registers[register.name] = register
            self._offsets[register.name] = offset
            end = offset + WORD_BYTES * register.words
        if not self.registers:
            raise ValueError(f"RegisterMap {name} must have one register at least")
        self.size = end

    @property
    def addr_width(self) -> int:
        """Address bits that reach every register."""
        return ceil_log2(self.size)

    def offset(self, name: str, index: int | None = None) -> int:
        """Byte offset of a register, or of element *index* of an array."""
        if name not in self.registers:
            raise KeyError(f"RegisterMap {self.name} has no register {name!r}")
        words = self.registers[name].words
        position = require_int(
            f"index of register {name}", index or 0, minimum=0, maximum=words - 1
        )
        return self._offsets[name] + WORD_BYTES * position

    def to_dict(self) -> dict[str, Any]:
        """Everything that a driver needs, in types that JSON knows."""
        registers = []
        for register in self.registers.values():
            fields, lsb = [], 0
            for field in register.fields:
                fields.append(
                    {
                        "name": field.name,
                        "lsb": lsb,
                        "width": field.width,
                        "init": field.init,
                        "choices": field.choices,
                        "doc": field.doc,
                    }
                )
                lsb += field.width
            registers.append(
                {
                    "name": register.name,
                    "offset": self._offsets[register.name],
                    "count": register.count,
                    "access": register.access,
                    "init": register.init,
                    "doc": register.doc,
                    "fields": fields,
                }
            )
        return {"name": self.name, "size": self.size, "registers": registers}

    def to_json(self) -> str:
        """:meth:`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def markdown(self) -> str:
        """The register map document."""
        lines = [
            f"# Registers of {self.name}",
            "",
            f"{WORD_BYTES * 8}-bit words, little-endian, {self.size} bytes.",
            "",
            "| offset | register | access | after reset | |",
            "|---|---|---|---|---|",
        ]
        entries = self.to_dict()["registers"]
        for entry in entries:
            first = entry["offset"]
            where, what = f"`{first:#06x}`", f"`{entry['name']}`"
            if entry["count"] is not None:
                where += f" ... `{first + WORD_BYTES * (entry['count'] - 1):#06x}`"
                what = f"`{entry['name']}[0..{entry['count'] - 1}]`"
            lines.append(
                f"| {where} | {what} | {entry['access']} | `{entry['init']:#x}` | {entry['doc']} |"
            )
        for entry in entries:
            access = Access(entry["access"]).meaning
            lines += ["", f"## `{entry['name']}`: {access}", ""]
            if entry["doc"]:
                lines += [entry["doc"], ""]
            lines += ["| bits | field | after reset | |", "|---|---|---|---|"]
            for field in entry["fields"]:
                low, high = field["lsb"], field["lsb"] + field["width"] - 1
                bits = f"{low}" if low == high else f"{high}:{low}"
                choices = ", ".join(f"{value} = {name}" for name, value in field["choices"].items())
                doc = f"{field['doc']} ({choices})".strip() if choices else field["doc"]
                lines.append(f"| {bits} | `{field['name']}` | {field['init']:#x} | {doc} |")
        return "\n".join(lines) + "\n"

# SPDX-License-Identifier: Apache-2.0
"""The register map in SystemRDL 2.0."""

from collections.abc import Iterator, Mapping

from foldwire.handoff.accessors import enumeration_name, enumerations
from hw.common.register_map import WORD_BYTES, Access, Field, Register, RegisterMap

__all__ = ["system_rdl"]

_SOFTWARE = {
    Access.RW: "sw = rw; hw = r;",
    Access.RO: "sw = r; hw = w;",
    Access.W1C: "sw = rw; onwrite = woclr; hw = rw;",
    Access.WO: "sw = w; hw = r;",
}


def system_rdl(registers: RegisterMap, *, name: str) -> str:
    """The address map `name`; all names are escaped, since some are words of the language."""
    bits = 8 * WORD_BYTES
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        f"// Registers of {registers.name}: generated; change the generator, not this file.",
        f"addrmap {name} {{",
        f"  name = {_text(registers.name)};",
        f"  default regwidth = {bits};", f"  default accesswidth = {bits};",
        "  littleendian;",
    ]
    widths = {
        enumeration_name(field.shape): field.width
        for register in registers.registers.values() for field in register.fields if field.choices
    }
    for each, values in enumerations(registers).items():
        lines += _enumeration(each, widths[each], values)
    for register in registers.registers.values():
        lines += _register(register, registers.offset(register.name))
    return "\n".join([*lines, "};"]) + "\n"


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _enumeration(name: str, width: int, values: Mapping[str, int]) -> Iterator[str]:
    yield f"  enum {name}_e {{"
    for choice, value in values.items():
        yield f"    \\{choice} = {width}'d{value};"
    yield "  };"


def _register(register: Register, offset: int) -> Iterator[str]:
    yield "  reg {"
    if register.doc:
        yield f"    desc = {_text(register.doc)};"
    lsb = 0
    for field in register.fields:
        yield from _field(field, Access(register.access), lsb)
        lsb += field.width
    array = "" if register.count is None else f"[{register.count}]"
    every = "" if register.count is None else f" += {WORD_BYTES:#x}"
    yield f"  }} \\{register.name} {array}@ {offset:#x}{every};"


def _field(field: Field, access: Access, lsb: int) -> Iterator[str]:
    parts = [_SOFTWARE[access]]
    if field.doc:
        parts.append(f"desc = {_text(field.doc)};")
    if field.choices:
        parts.append(f"encode = {enumeration_name(field.shape)}_e;")
    bits, reset = f"[{lsb + field.width - 1}:{lsb}]", f"{field.width}'h{field.init:x}"
    yield f"    field {{ {' '.join(parts)} }} \\{field.name} {bits} = {reset};"

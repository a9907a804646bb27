# SPDX-License-Identifier: Apache-2.0
"""Functions and enumerations of the C header: access to registers and fields of a device.

For a register ``reg`` of ``name``, with one more argument ``index`` if it is an array:

``name_reg_read(device)``, ``name_reg_write(device, word)``
    As far as its access allows.
``name_reg_read64(device)``, ``name_reg_write64(device, value)``
    Of ``reg_low`` and ``reg_high``, the low half first.
``name_reg_pack(field, ...)``
    The word with these values of its fields, to be written.
``name_reg_field_get(device)``, ``name_reg_field_set(device, value)``
    One field; the latter of registers that keep what is written, the other fields as they are.
"""

import re
from collections.abc import Iterator, Mapping
from enum import EnumMeta

from foldwire.handoff.part import Layout
from hw.common.register_map import WORD_BYTES, Access, Field, Register, RegisterMap

__all__ = ["accessors", "device", "enumeration_name", "enumerations"]

_WORD_BITS = 8 * WORD_BYTES


def device(prefix: str) -> list[str]:
    """Access to a word of a device: by a pointer, unless whoever includes the header says how."""
    return [
        "/* A device is a pointer to its registers, unless these three are defined before: its",
        " * type, and the read and the write of the word at a byte offset. */",
        f"#ifndef {prefix}_DEVICE",
        f"#define {prefix}_DEVICE volatile uint32_t *",
        f"#define {prefix}_READ32(device, offset) ((device)[(offset) / 4])",
        f"#define {prefix}_WRITE32(device, offset, word) ((device)[(offset) / 4] = (word))",
        "#endif",
        f"typedef {prefix}_DEVICE {prefix.lower()}_device;",
    ]


def enumerations(
    registers: RegisterMap, more: Mapping[str, Mapping[str, int]] | None = None
) -> dict[str, Mapping[str, int]]:
    """Enumerations of all fields, and `more`: codes by name.

    Raises
    ------
    ValueError
        If two would have one name.
    """
    made = dict(more or {})
    for register in registers.registers.values():
        for field in register.fields:
            if field.choices:
                name = enumeration_name(field.shape)
                if made.setdefault(name, field.choices) != field.choices:
                    raise ValueError(f"two enumerations of the header are called {name!r}")
    return made


def enumeration_name(shape: EnumMeta) -> str:
    """Name of an enumeration in small letters."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", shape.__name__).lower()


def accessors(
    registers: RegisterMap, prefix: str, enums: Mapping[str, Mapping[str, int]],
    layouts: Mapping[str, Layout],
) -> list[str]:
    """Enumerations, then functions of all registers, then of `layouts`.

    Raises
    ------
    ValueError
        If two functions would have one name.
    """
    lines = [line for name, values in enums.items() for line in _enumeration(prefix, name, values)]
    found = set[str]()
    functions = [
        *_of_registers(registers, prefix),
        *(_pack64(prefix, name, layout) for name, layout in layouts.items()),
    ]
    for text in functions:
        (name,) = re.findall(r"(\w+)\(", text.partition("\n")[0])[:1]
        if name in found:
            raise ValueError(f"two functions of the header are called {name!r}")
        found.add(name)
        lines += text.splitlines()
    return lines


def _enumeration(prefix: str, name: str, values: Mapping[str, int]) -> Iterator[str]:
    yield f"enum {prefix.lower()}_{name} {{"
    for choice, value in values.items():
        yield f"  {prefix}_{name.upper()}_{choice.upper()} = {value},"
    yield "};"
    yield ""


def _function(result: str, name: str, parameters: str, *body: str) -> str:
    head = f"static inline {result} {name}({parameters})"
    return "\n".join([f"{head} {{", *(f"  {line}" for line in body), "}"])


def _of_registers(registers: RegisterMap, prefix: str) -> Iterator[str]:
    for register in registers.registers.values():
        yield from _of_register(prefix, register)
    for name, low in registers.registers.items():
        whole, _, half = name.rpartition("_")
        high = registers.registers.get(f"{whole}_high") if half == "low" else None
        if whole and high is not None and low.count is None and high.count is None:
            yield from _of_halves(prefix, whole, low, high)


def _of_register(prefix: str, register: Register) -> Iterator[str]:
    access = Access(register.access)
    name, upper = f"{prefix.lower()}_{register.name}", f"{prefix}_{register.name.upper()}"
    array = register.count is not None
    at = f"{upper}_OFFSET(index)" if array else f"{upper}_OFFSET"
    index = ", uint32_t index" if array else ""
    this = f"{prefix.lower()}_device device{index}"
    read, write = f"{prefix}_READ32(device, {at})", f"{prefix}_WRITE32(device, {at}, "
    if access.readable:
        yield _function("uint32_t", f"{name}_read", this, f"return {read};")
    if access.writable:
        yield _function("void", f"{name}_write", f"{this}, uint32_t word", f"{write}word);")
    if len(register.fields) == 1 and register.fields[0].width == _WORD_BITS:
        return
    if access.writable:
        parameters = ", ".join(f"{_type(prefix, each)} {each.name}" for each in register.fields)
        words = [f"{upper}_{each.name.upper()}_SET({each.name})" for each in register.fields]
        body = f"return {' | '.join(words)};"
        yield _function("uint32_t", f"{name}_pack", parameters, body)
    for field in register.fields:
        kind, part = _type(prefix, field), f"{upper}_{field.name.upper()}"
        if access.readable:
            body = f"return ({kind}){part}_GET({read});"
            yield _function(kind, f"{name}_{field.name}_get", this, body)
        if access is Access.RW:
            kept = f"uint32_t word = {read} & ~{part}_MASK;" if len(register.fields) > 1 else (
                "uint32_t word = 0;"
            )
            yield _function(
                "void", f"{name}_{field.name}_set", f"{this}, {kind} value", kept,
                f"{write}word | {part}_SET(value));",
            )


def _type(prefix: str, field: Field) -> str:
    if not field.choices:
        return "uint32_t"
    return f"enum {prefix.lower()}_{enumeration_name(field.shape)}"


def _of_halves(prefix: str, whole: str, low: Register, high: Register) -> Iterator[str]:
    this, name = f"{prefix.lower()}_device device", f"{prefix.lower()}_{whole}"
    upper = f"{prefix}_{whole.upper()}"
    both = Access(low.access), Access(high.access)
    if all(each.readable for each in both):
        yield _function(
            "uint64_t", f"{name}_read64", this,
            f"uint32_t low = {prefix}_READ32(device, {upper}_LOW_OFFSET);",
            f"return low | (uint64_t){prefix}_READ32(device, {upper}_HIGH_OFFSET) << 32;",
        )
    if all(each.writable for each in both):
        yield _function(
            "void", f"{name}_write64", f"{this}, uint64_t value",
            f"{prefix}_WRITE32(device, {upper}_LOW_OFFSET, (uint32_t)value);",
            f"{prefix}_WRITE32(device, {upper}_HIGH_OFFSET, (uint32_t)(value >> 32));",
        )


def _pack64(prefix: str, name: str, layout: Layout) -> str:
    """The function that makes a word of 64 bits of its fields; reserved ones are 0."""
    terms, lsb, parameters = list[str](), 0, list[str]()
    for field, width in layout.items():
        if field != "reserved":
            parameters.append(f"uint64_t {field}")
            terms.append(f"({field} & UINT64_C({(1 << width) - 1:#x})) << {lsb}")
        lsb += width
    body = " |\n    ".join(terms)
    return _function(
        "uint64_t", f"{prefix.lower()}_{name}_pack", ", ".join(parameters), f"return {body};"
    )


# SPDX-License-Identifier: Apache-2.0
"""The register map as a C header."""

from collections.abc import Mapping
from typing import Any

from foldwire.handoff.accessors import accessors, device, enumerations
from foldwire.handoff.part import Layout
from hw.common.register_map import RegisterMap

__all__ = ["c_header"]


def c_header(
    registers: RegisterMap, *, name: str, parameters: Mapping[str, Any] | None = None,
    codes: Mapping[str, Mapping[str, int]] | None = None,
    layouts: Mapping[str, Layout] | None = None,
) -> str:
    """Macros, enumerations and functions for `registers`, valid C11 and C++17; `name` begins all.

    ``NAME_REG_OFFSET`` is a byte offset (``NAME_REG_OFFSET(i)`` of an array, which has
    ``NAME_REG_COUNT`` elements), ``NAME_REG_RESET`` the value after reset. A field has ``_SHIFT``,
    ``_MASK`` (in place), and ``NAME_REG_FIELD_GET(word)`` and ``NAME_REG_FIELD_SET(value)``; the
    values of an enumeration are ``NAME_REG_FIELD_VALUE``. Functions are those of
    `foldwire.handoff.accessors`.

    Parameters
    ----------
    parameters : mapping
        Numbers of the configuration: ``NAME_CONFIG_PARAMETER``.
    codes : mapping of mappings
        Further enumerations, by name: codes by name.
    layouts : mapping
        Words of 64 bits that are no registers, by name: ``name_word_pack``.
    """
    prefix, enums = name.upper(), enumerations(registers, codes)
    guard = f"{prefix}_REGISTERS_H"
    lines = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        f"/* Registers of {registers.name}: generated; change the generator, not this file. */",
        f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", "",
        f"#define {prefix}_REGISTERS_SIZE UINT32_C({registers.size:#x})",
        *(f"#define {prefix}_CONFIG_{key.upper()} UINT64_C({int(value)})"
          for key, value in (parameters or {}).items() if isinstance(value, int)),
    ]
    for register in registers.to_dict()["registers"]:
        lines += ["", *_register(prefix, register, enums)]
    lines += ["", *device(prefix), "", *accessors(registers, prefix, enums, layouts or {})]
    return "\n".join([*lines, "", f"#endif /* {guard} */"]) + "\n"


def _comment(text: str) -> str:
    return f"/* {text.replace('*/', '* /')} */"


def _register(
    prefix: str, register: dict[str, Any], enums: Mapping[str, Mapping[str, int]]
) -> list[str]:
    name = f"{prefix}_{register['name'].upper()}"
    title = f"{register['name']} ({register['access']}). {register['doc']}".strip()
    offset = f"UINT32_C({register['offset']:#x})"
    lines = [_comment(title)]
    if register["count"] is None:
        lines.append(f"#define {name}_OFFSET {offset}")
    else:
        lines.append(f"#define {name}_OFFSET(index) ({offset} + UINT32_C(4) * (uint32_t)(index))")
        lines.append(f"#define {name}_COUNT {register['count']}")
    lines.append(f"#define {name}_RESET UINT32_C({register['init']:#x})")
    for field in register["fields"]:
        part = f"{register['name']}_{field['name']}"
        # A field that is called as its enumeration has its values there.
        choices = {} if part in enums else field["choices"]
        lines += _field(f"{prefix}_{part.upper()}", field, choices)
    return lines


def _field(name: str, field: dict[str, Any], choices: Mapping[str, int]) -> list[str]:
    mask = ((1 << field["width"]) - 1) << field["lsb"]
    lines = [_comment(field["doc"])] if field["doc"] else []
    lines += [
        f"#define {name}_SHIFT {field['lsb']}",
        f"#define {name}_MASK UINT32_C({mask:#x})",
        f"#define {name}_GET(word) (((uint32_t)(word) & {name}_MASK) >> {name}_SHIFT)",
        f"#define {name}_SET(value) (((uint32_t)(value) << {name}_SHIFT) & {name}_MASK)",
    ]
    return lines + [
        f"#define {name}_{choice.upper()} UINT32_C({value})"
        for choice, value in choices.items()
    ]

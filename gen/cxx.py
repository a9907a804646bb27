# SPDX-License-Identifier: Apache-2.0
"""Adapt the C++ that CXXRTL writes to the shim, and to what compilers can handle.

Debug information, which the shim does not need, is removed, and the edge detector of the clock
becomes a constant when one evaluation settles the design. Then the evaluation is cut: CXXRTL
writes all of a flat design as one function with thousands of local variables, for which optimising
compilers take more than linear time and memory. Its statements come in nodes, each headed by a
comment, and run in order; so the function is cut between nodes into several that are called one
after the other. A variable that only one of them uses stays local to it, the others become members
of the class.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gen.rtlil import RESET, DesignPort

__all__ = ["CxxSource", "prepare"]

_CLASS = "p_fw__top"
_CHUNK = 40_000
_UNIT = 160_000
"""Characters of one function, and of the functions in one file."""

_EDGE = re.compile(r"return !prev_p_clk\.slice<0>\(\)\.val\(\) && p_clk\.slice<0>\(\)\.val\(\);")
_OTHER_EDGE = re.compile(r"bool (?:neg|pos)edge_(\w+)\(\) const")
_KEPT_OUTPUT = re.compile(r"^\t*(i_kept\d+__\d+) = (cell_\w+\.\w+\.curr);$", re.MULTILINE)
_DEBUG_INFO = re.compile(
    r"^CXXRTL_EXTREMELY_COLD\nvoid \w+::debug_info\(.*?^}\n", re.MULTILINE | re.DOTALL
)
_DEBUG_DECLARATION = re.compile(r"^\tvoid debug_info\([^\n]*\n", re.MULTILINE)
_DEBUG_CONSTANT = re.compile(r"^\s*(static const value<\d+> const_\w+ = [^;]*;)$", re.MULTILINE)
_DEBUG_ITEM = re.compile(
    r'items->add\(path, "(?P<name>\w+)", "(?:[^"\\]|\\.)*", '
    r"(?:debug_eval_outline, |debug_alias\(\), )?(?P<member>\w+)(?:, 0, [^)]*)?\);"
)


_EVAL = re.compile(
    r"^bool (?P<name>p_\w+)::eval\(performer \*performer\) \{\n(?P<body>.*?)^\}\n",
    re.MULTILINE | re.DOTALL,
)
_LOCAL = re.compile(r"^\tvalue<\d+> (\w+);$")
_IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*")


@dataclass(frozen=True)
class CxxSource:
    """Files to compile.

    Members
    -------
    files:
        Name -> contents: `model.h`, `model.cc` and `ports.inc`, which the shim includes, and the
        units.
    units:
        Names of the files to be compiled besides the shim.
    single_pass:
        True if one evaluation settles the design.
    defines:
        Preprocessor definitions for the shim.
    """

    files: dict[str, str]
    units: tuple[str, ...]
    single_pass: bool
    defines: tuple[str, ...]


def prepare(header: str, source: str, ports: Sequence[DesignPort]) -> CxxSource:
    """Make the files of a model with these `ports` from the output of `write_cxxrtl -header`."""
    for name in _OTHER_EDGE.findall(header):
        if name != "p_clk":
            raise ValueError(
                f"a compiled model has one clock, 'clk', and rising edges; this one has {name}"
            )
    items = {
        item["name"]: ("" if item["member"].startswith("const_") else "top.") + item["member"]
        for item in _DEBUG_ITEM.finditer(source)
    }
    missing = [port.name for port in ports if port.name not in items and port.name != RESET]
    if missing:
        raise ValueError(f"CXXRTL lost the ports {', '.join(missing)}")
    table = "".join(
        f'PORT("{port.name}", {port.width}, {int(port.is_input)}, {items[port.name]})\n'
        for port in ports
        if port.name in items
    )
    constants = "\n".join(_DEBUG_CONSTANT.findall(source))
    single_pass = "bool converged = false;" not in source
    if single_pass:
        header = _EDGE.sub("return true;", header)
    # Outlines leave out the outputs of kept modules. These are registers: read them directly.
    for wire, register in dict(_KEPT_OUTPUT.findall(source)).items():
        source = re.sub(rf"(value<\d+> {wire});", rf"\1 = {register};", source)
    if lost := re.search(r"value<\d+> i_kept\w+;", source):
        raise ValueError(f"no register was found for {lost.group(0)}")
    header = _DEBUG_DECLARATION.sub("", header)
    header, source, parts = _split(header, _DEBUG_INFO.sub("", source))
    files = {"model.h": header, "model.cc": f"{source}\n{constants}\n", "ports.inc": table}
    for index, unit in enumerate(_chunks(parts, _UNIT)):
        files[f"unit{index}.cc"] = (
            '#include "fast_values.h"\n#include "model.h"\n\nusing namespace cxxrtl_yosys;\n\n'
            f"namespace cxxrtl_design {{\n\n{unit}\n}}\n"
        )
    defines = (
        f"-DFW_SINGLE_PASS={int(single_pass)}",
        f"-DFW_CLOCKED={int('value<1> prev_p_clk;' in header)}",
        f"-DFW_OUTLINES={int(f'void {_CLASS}::debug_eval()' in source)}",
    )
    units = tuple(name for name in files if name.startswith("unit"))
    return CxxSource(files, units, single_pass, defines)


def _chunks(nodes: list[str], size: int) -> list[str]:
    chunks: list[str] = []
    current: list[str] = []
    length = 0
    for node in nodes:
        if current and length + len(node) > size:
            chunks.append("".join(current))
            current, length = [], 0
        current.append(node)
        length += len(node)
    if current:
        chunks.append("".join(current))
    return chunks


def _split(header: str, source: str) -> tuple[str, str, list[str]]:
    """Header and source with long evaluations cut, and the functions that were cut out."""
    parts: list[str] = []
    declarations: dict[str, list[str]] = {}

    def cut(match: re.Match[str]) -> str:
        name, body = match["name"], match["body"]
        if len(body) <= _CHUNK:
            return match[0]
        # A comment after one tab heads a node, unless it states an attribute (`\\init`) of a local
        # variable; these come first.
        preamble, *nodes = re.split(r"^(?=\t// [^\\])", body, flags=re.MULTILINE)
        tail = "\treturn converged;\n"
        if not nodes or not nodes[-1].endswith(tail):
            raise ValueError("the C++ that CXXRTL wrote does not have the form that is known")
        nodes[-1] = nodes[-1].removesuffix(tail)
        chunks = _chunks(nodes, _CHUNK)
        common = [
            line
            for line in preamble.splitlines()
            if not _LOCAL.match(line) and not line.startswith("\t//")
        ]
        users: dict[str, list[int]] = {}
        for index, chunk in enumerate(chunks):
            for identifier in dict.fromkeys(_IDENTIFIER.findall(chunk)):
                users.setdefault(identifier, []).append(index)
        own: list[list[str]] = [[] for _ in chunks]
        members = declarations.setdefault(name, [])
        for line in preamble.splitlines():
            if local := _LOCAL.match(line):
                where = users.get(local[1], [])
                if len(where) == 1:
                    own[where[0]].append(line)
                elif where:
                    members.append(line)
        calls = []
        for index, chunk in enumerate(chunks):
            members.append(f"\tbool eval_{index}(performer *performer);")
            calls.append(f"\tconverged &= eval_{index}(performer);\n")
            lines = "\n".join([*common, *own[index]])
            parts.append(
                f"bool {name}::eval_{index}(performer *performer) {{\n{lines}\n{chunk}{tail}}}\n"
            )
        return (
            f"bool {name}::eval(performer *performer) {{\n"
            f"\tbool converged = true;\n{''.join(calls)}{tail}}}\n"
        )

    source = _EVAL.sub(cut, source)
    for name, lines in declarations.items():
        start = header.index(f"struct {name} : public module {{\n")
        where = header.index("\tbool eval(performer *performer", start)
        header = header[:where] + "\n".join(lines) + "\n" + header[where:]
    return header, source, parts

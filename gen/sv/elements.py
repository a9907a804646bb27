"""Fields of elements of arrays of structures.

Yosys knows no arrays of structures, so an array holds vectors, and a field of an element is some of
its bits. In a loop these bits get a name, or an element is assembled as a structure first.
"""

from __future__ import annotations

import re

from gen.sv import ir
from gen.sv.context import Apart, Context
from gen.sv.expressions import range_of
from gen.sv.lists import Array
from gen.sv.names import identifier

__all__ = ["loosened", "named_in_loop", "sliced", "without_copies"]

_FIELD = re.compile(r"\b([A-Za-z_]\w*)((?:\[[^\[\]]+\])+)((?:\.[A-Za-z_]\w*)+)(\[\d+(?::\d+)?\])?")
_COPY = re.compile(r" *assign (\w+)(?:\[\w+\])+ = one_\w+;")
_TARGET = re.compile(
    r"\s*(?:assign |(?:else )?if \(.*?\) (?=[\w{])|for \(.*?\) (?=[\w{])|[^?=]*?: )*"
    r"(\{[^={}]*\}|[\w.]+(?:\[[^\[\]]+\])*(?:\.\w+)*(?:\[[^\[\]]+\])?) <?= "
)


def _written(line: str) -> str:
    """The target of the assignment in *line*; empty if there is none."""
    found = _TARGET.match(line)
    return found[1] if found else ""


def _bits(array: Array, path: str, part: str | None) -> tuple[int, int]:
    """First bit and width of a field, or of a *part* of one, in an element of *array*."""
    lo, width, fields = 0, array.width, array.elements[0].fields
    for word in path.split(".")[1:]:
        field = next(field for field in fields if identifier(field.name) == word)
        lo, width, fields = lo + field.lo, field.width, field.fields
    if part:
        high, _, low = part[1:-1].partition(":")
        lo, width = lo + int(low or high), int(high) - int(low or high) + 1
    return lo, width


def _structures(c: Context) -> dict[str, Array]:
    """The arrays of structures, by name, of which single fields are read or written."""
    found: dict[str, Array] = {}
    for array, _ in c.element.values():
        if array.elements[0].fields and array.name not in found and c.by_field(array):
            found[array.name] = array
    return found


def named_in_loop(c: Context, lines: list[str], loop: str) -> list[str]:
    """The body of a loop, with names for the fields that it uses.

    *loop* is its variable; fields that do not depend on it get no names here.
    """
    text = "\n".join(lines)
    arrays = _structures(c)
    found = [match for match in _FIELD.finditer(text) if match[1] in arrays]
    if not found:
        return lines
    procedural = set(re.findall(r"for \(int (\w+) = ", text))
    before: dict[str, str] = {}
    after: list[str] = []
    indent = " " * (len(lines[0]) - len(lines[0].lstrip()))
    targets = {_written(line) for line in lines}
    copied = set(re.findall(r"(?m)^ *assign [\w\[\]]+ = ([\w.\[\]]+);$", text))
    for match in found:
        array, element = arrays[match[1]], match[1] + match[2]
        variables = set(re.findall(r"[a-z_]\w*", match[2]))
        if procedural & variables or loop not in variables or match[0] in copied:
            continue
        if any(re.match(rf"\W*{re.escape(element)}\.", target) for target in targets):
            if element not in before:
                name = c.taken.new(f"one_{array.name}")
                kind = c.types.name(array.elements[0].fields)
                before[element] = f"{indent}{kind} {name};"
                after.append(f"{indent}assign {element} = {name};")
                text = re.sub(rf"\b{re.escape(element)}(?!\[)", name, text)
        elif match[0] not in before:
            lo, width = _bits(array, match[3], match[4])
            name = c.taken.new(array.name + match[3].replace(".", "_"))
            bits = f"{element}[{lo + width - 1}:{lo}]" if width > 1 else f"{element}[{lo}]"
            before[match[0]] = f"{indent}wire{range_of(width)} {name} = {bits};"
            text = re.sub(rf"\b{re.escape(match[0])}(?![\w\[])", name, text)
    return [*before.values(), *text.split("\n"), *after]


def without_copies(c: Context, body: list[str], others: list[str]) -> list[str]:
    """*body* without arrays whose elements are read only in their loops, by their names there.

    *others* are the other lines of the module.
    """
    text = "\n".join([*body, *others])
    arrays = {
        name: array for name, array in _structures(c).items()
        if set(array.elements) <= set(c.local)  # no port
    }
    copies = set()
    for line in body:
        found = _COPY.fullmatch(line)
        if found and found[1] in arrays and len(re.findall(rf"\b{found[1]}\b", text)) == 1:
            copies.add(line)
            c.hidden.update(arrays[found[1]].elements)
    return [line for line in body if line not in copies]


def sliced(c: Context, lines: list[str]) -> list[str]:
    """*lines* with bit ranges for fields of elements that have no name."""
    arrays = _structures(c)
    if not arrays:
        return lines

    def bits(match: re.Match[str]) -> str:
        if match[1] not in arrays:
            return match[0]
        lo, width = _bits(arrays[match[1]], match[3], match[4])
        chosen = f"[{lo}]" if width == 1 else f"[{lo + width - 1}:{lo}]"
        return match[1] + match[2] + chosen

    made = []
    for line in lines:
        target = _FIELD.search(_written(line))
        if target and target[1] in arrays:
            c.plan.loose.update(arrays[target[1]].elements)
            raise Apart
        made.append(_FIELD.sub(bits, line) if "]." in line else line)
    return made


def loosened(c: Context, hidden: set[ir.Var]) -> bool:
    """Keep or give up arrays of which only some elements are declared; True if the plan changed."""
    known = len(c.plan.loose)
    for array in dict.fromkeys(array for array, _ in c.element.values()):
        count = sum(var in hidden for var in array.elements)
        if 0 < count < len(array.elements):
            if not c.plan.kept.issuperset(array.elements):
                c.plan.kept.update(array.elements)
                return True
            c.plan.loose.update(array.elements)
    return len(c.plan.loose) > known

"""Merge modules of one class that differ only in numbers into one module with parameters.

Every number that differs must be one of the integers that the class was made with, or derived from
one, in the same way in all modules: then inserting the parameters gives back their texts.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gen.sv import ir
from gen.sv.layout import guarded

__all__ = ["Member", "One", "made_with", "unified"]

_NUMBER = re.compile(
    r"(?<![\w'$])(?:(?P<width>\d+)'(?P<base>[dhb])(?P<value>[0-9a-f]+)\b|(?P<cast>\d+)(?='\()|"
    r"(?P<plain>\d+)(?![\w']))"
)
_BASES = {"d": 10, "h": 16, "b": 2}
_PORT = re.compile(r"    (input |output) (\S.*?) +(\w+,?)((?: *//.*)?)$")


@dataclass(frozen=True)
class Member:
    """A module: the text, and the integers that it was made with, by name of the parameter."""

    text: str
    made_with: Mapping[str, int]


@dataclass(frozen=True)
class One:
    """One module for several members: its text, and the values of its parameters for each."""

    text: str
    values: dict[int, dict[str, int]]


def made_with(module: ir.Module) -> dict[str, int]:
    """The integers that a component was made with; for a shape, the width of its payload."""
    found: dict[str, int] = {}
    if module.origin is None:
        return found
    for name in inspect.signature(type(module.origin).__init__).parameters:
        value = getattr(module.origin, f"_{name}", getattr(module.origin, name, None))
        if name == "shape":
            bits = (var.width for path, var, _ in module.members if path[-1] == "payload")
            found["WIDTH"] = next(bits, 0)
        elif isinstance(value, int) and not isinstance(value, bool):
            found[name.strip("_").upper()] = value
    return found


def unified(members: Sequence[Member]) -> list[One]:
    """Modules that stand for all of *members*; the keys of their `values` index *members*."""
    groups: dict[object, list[int]] = defaultdict(list)
    for number, member in enumerate(members):
        key = _skeleton(member.text), tuple(member.made_with)
        groups[key].append(number)
    found: list[One] = []
    for group in groups.values():
        found += _family(members, group)
    return sorted(found, key=lambda one: min(one.values))


def _code(line: str) -> tuple[str, str]:
    """Split a line into code and comment."""
    if line.lstrip().startswith("//"):
        return "", line
    code, mark, note = line.partition("  // ")
    return code, mark + note


def _skeleton(text: str) -> str:
    def blank(match: re.Match[str]) -> str:
        if match["base"] in ("d", "h"):  # large numbers are hexadecimal
            return "\0d"
        return "\0b" if match["base"] else "\0'" if match["cast"] else "\0"

    lines = []
    for line in text.split("\n"):
        code, note = _code(line)
        lines.append(re.sub(r"(?<=\S) +", " ", _NUMBER.sub(blank, code)) + note)
    return "\n".join(lines)


def _numbers(text: str) -> list[int]:
    found = []
    for line in text.split("\n"):
        for match in _NUMBER.finditer(_code(line)[0]):
            if match["base"]:
                found += [int(match["width"]), int(match["value"], _BASES[match["base"]])]
            else:
                found.append(int(match["cast"] or match["plain"]))
    return found


def _family(members: Sequence[Member], group: list[int]) -> list[One]:
    """Merge *group*, all of one skeleton, into as few modules as possible."""
    first = members[group[0]]
    if len(group) == 1:
        return [One(first.text, {group[0]: {}})]
    columns = list(zip(*(_numbers(members[number].text) for number in group), strict=True))
    terms = _terms([members[number].made_with for number in group])
    said = [
        None if len(set(column)) == 1 else terms.get(tuple(column), "") for column in columns
    ]
    text = None if "" in said else _rewritten(first.text, said)
    if text is None:
        # Members that agree on the numbers that no parameter explains may still be merged.
        apart: dict[object, list[int]] = defaultdict(list)
        for place, number in enumerate(group):
            apart[tuple(
                column[place] for column, term in zip(columns, said, strict=True) if term == ""
            )].append(number)
        if len(apart) == 1:
            return [One(members[number].text, {number: {}}) for number in group]
        return [one for part in apart.values() for one in _family(members, part)]
    code = "\n".join(_code(line)[0] for line in text.split("\n"))
    # `.N(2)` gives a value to the parameter of a block inside, which may have the same name.
    names = [
        name
        for name in first.made_with
        if any(re.search(rf"(?<!\.)\b{form.format(name)}\b", code) for form in _DERIVED)
    ]
    values = {
        number: {name: members[number].made_with[name] for name in names} for number in group
    }
    return [One(_with_parameters(text, values[group[0]]), values)]


def _bits(count: int) -> int:
    return max(0, count - 1).bit_length()


_INT_BITS = 31
_DERIVED: dict[str, tuple[Callable[[int], int], str]] = {
    "{}": (lambda value: value, ""),
    "{}_BITS": (_bits, "$clog2({})"),
    "{}_COUNT_BITS": (lambda value: _bits(value + 1), "$clog2({} + 1)"),
    "{}_MASK": (lambda value: 1 << value if value < _INT_BITS else -1, "1 << {}"),
}
"""Values derived from a parameter: name -> function, and definition in SystemVerilog."""


def _terms(made: Sequence[Mapping[str, int]]) -> dict[tuple[int, ...], str]:
    """Values in each module -> the parameter, or value derived from it, that has these values."""
    found: dict[tuple[int, ...], str] = {}
    for form, (value, _) in _DERIVED.items():
        for name in made[0]:
            column = tuple(value(each[name]) for each in made)
            found.setdefault(column, form.format(name))
    for column, term in list(found.items()):
        found.setdefault(tuple(number - 1 for number in column), f"{term}-1")
    return found


def _rewritten(text: str, said: Sequence[str | None]) -> str | None:
    """*text* with terms in place of numbers; None if one would not be legal there."""
    terms = iter(said)
    fits = True

    def term(match: re.Match[str]) -> str:
        nonlocal fits
        if not match["base"]:
            one = next(terms)
            fits &= not (match["cast"] and one and "-" in one)
            return one or match[0]
        width, value = next(terms), next(terms)
        if width is None and value is None:
            return match[0]
        fits &= not (width and "-" in width)
        number = value or str(int(match["value"], _BASES[match["base"]]))
        return f"{width or match['width']}'({number.replace('-', ' - ')})"

    lines = []
    for line in text.split("\n"):
        code, note = _code(line)
        lines.append(guarded(_NUMBER.sub(term, code)) + note)
    return "\n".join(lines) if fits else None


def _with_parameters(text: str, values: Mapping[str, int]) -> str:
    """*text* with its parameters in the head, and the ports aligned."""
    rows = [f"    parameter int {name} = {value}" for name, value in values.items()]
    for form, (_, means) in list(_DERIVED.items())[1:]:
        for name in values:
            if re.search(rf"\b{form.format(name)}\b", text):
                rows.append(f"    localparam int {form.format(name)} = {means.format(name)}")
    head = " #(\n" + ",\n".join(rows) + "\n) (\n"
    text = re.sub(r"(?m)^(module \S+) \(\n", lambda match: match[1] + head, text, count=1)
    lines = text.split("\n")
    ports = {number: match for number, line in enumerate(lines) if (match := _PORT.match(line))}
    wide = max((len(match[2]) for match in ports.values()), default=0)
    for number, match in ports.items():
        lines[number] = f"    {match[1]} {match[2]:{wide}} {match[3]}{match[4]}"
    return "\n".join(lines)

# SPDX-License-Identifier: Apache-2.0
"""Merge modules of one class that differ only in numbers into one module with parameters.

Every number that differs must be one of the integers that the class was made with, or derived from
one, in the same way in all modules: then inserting the parameters gives back their texts.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gen.sv import ir
from gen.sv.tree import (
    Code,
    Comment,
    Form,
    ModuleText,
    Number,
    Part,
    PortLine,
    SizeCast,
    mapped,
    plain,
    rewritten,
    rows,
)

__all__ = ["Member", "One", "made_with", "unified"]

@dataclass(frozen=True)
class Member:
    """A module: its tree, and the integers that it was made with, by name of the parameter."""

    text: ModuleText
    made_with: Mapping[str, int]


@dataclass(frozen=True)
class One:
    """One module for several members: its tree, the values of its parameters for each, and what
    is derived from parameters, with definitions.
    """

    text: ModuleText
    values: dict[int, dict[str, int]]
    derived: dict[str, str] = field(default_factory=dict)


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


def _leaves(text: ModuleText) -> Iterator[str | Number]:
    """Words and numbers, as they are spelled, of the ports and statements of *text*."""
    found: list[str | Number] = [f"{comment.text}\n" for comment in text.above]
    for port in text.ports:
        if isinstance(port, Comment):
            found.append(f"{port.text}\n")
        else:
            found += [port.direction, *port.kind.leaves, f" {port.name} {port.note}\n"]
    for indent, row in rows(text.body):
        if isinstance(row, Comment):
            found.append(f"\n//{row.text}")
        else:
            found += ["\n", " " * indent, *row.code.leaves, f" // {row.note}"]
    for leaf in found:
        yield from leaf.spelled() if isinstance(leaf, Number) else (leaf,)


def _skeleton(text: ModuleText) -> str:
    """The text without its numbers: equal for modules that may be one."""
    def blank(number: Number) -> str:
        return f"\0{number.form.name}{number.form is Form.LITERAL and number.width == 1}"

    return "".join(
        leaf if isinstance(leaf, str) else blank(leaf) for leaf in _leaves(text)
    )


def _numbers(text: ModuleText) -> list[int]:
    return [
        number for leaf in _leaves(text) if isinstance(leaf, Number)
        for number in ([leaf.width] if leaf.form is Form.LITERAL else []) + [leaf.value]
    ]


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
    used = {term.removesuffix("-1") for term in said if term}
    names = [
        name for name in first.made_with if any(form.format(name) in used for form in _DERIVED)
    ]
    values = {
        number: {name: members[number].made_with[name] for name in names} for number in group
    }
    derived = {
        form.format(name): means.format(name)
        for form, (_, means) in _DERIVED.items() for name in names
        if means and form.format(name) in used
    }
    return [One(text, values, derived)]


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


def _rewritten(text: ModuleText, said: Sequence[str | None]) -> ModuleText | None:
    """*text* with terms in place of numbers; None if one would not be legal there."""
    terms = iter(said)
    fits = True

    def term(number: Number) -> Part:
        nonlocal fits
        width = next(terms) if number.form is Form.LITERAL else None
        value = next(terms)
        if width is None and value is None:
            return number
        if number.form is not Form.LITERAL:
            fits &= not (number.form is Form.CAST and "-" in str(value))
            return str(value)
        fits &= "-" not in (width or "")
        inner = plain(number.value) if value is None else value.replace("-", " - ")
        return SizeCast(width or plain(number.width), "'(", inner, ")")

    def new(part: Part) -> Part | None:
        if not isinstance(part, Number):
            return None
        made = [each if isinstance(each, str) else term(each) for each in part.spelled()]
        return made[0] if len(made) == 1 else Code(*made)

    ports: list[Comment | PortLine] = []
    for port in text.ports:
        if isinstance(port, PortLine):
            kind = mapped(port.kind, new)
            assert isinstance(kind, Code)
            port = replace(port, kind=kind)
        ports.append(port)
    made = replace(text, ports=tuple(ports), body=rewritten(text.body, new))
    return made if fits else None

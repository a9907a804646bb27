# SPDX-License-Identifier: Apache-2.0
"""Lists of the source as arrays: find the signals of a module that are the elements of one.

A list is found by its place in a signature (``link[0].tx``), by the numbers of equal submodules
(``fsm_0``, ``fsm_1``), or because one statement of the source made all of its signals.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gen.sv import ir
from gen.sv.tree import Code, Form, Number, Part, Ref, Unary, bits, logic

__all__ = ["Array", "ListPlan", "common", "compressed", "element", "made_together", "numbered",
           "of_members", "ranges"]


@dataclass(frozen=True, eq=False)
class Array:
    """Equal signals under one name: element ``[i][j]`` is number ``i * dims[1] + j``."""

    name: str
    dims: tuple[int, ...]
    elements: tuple[ir.Var, ...]

    @property
    def width(self) -> int:
        """Bits of an element."""
        return self.elements[0].width

    def declared(self) -> Code:
        """The type of its declaration."""
        return logic(*self.dims, *([self.width] if self.width > 1 else []))

    def names(self) -> list[Ref]:
        """Names of its elements, in order."""
        return [
            Ref(self.name, *(bits(index, 1) for index in indices))
            for indices in itertools.product(*map(range, self.dims))
        ]


@dataclass
class ListPlan:
    """Findings of earlier attempts at a module.

    Attributes
    ----------
    loose:
        Signals that are in no array.
    kept:
        Signals that keep their names and are not inlined, so that equal instances stay equal.
    chained:
        Those of `loose` that depend on one another.
    beside:
        Stems of submodules that are connected through arrays made for that.
    apart:
        Stems of submodules that are written one by one.
    flat:
        True if ports of the top are used by their own names only.
    """

    loose: set[ir.Var] = field(default_factory=set)
    kept: set[ir.Var] = field(default_factory=set)
    chained: set[ir.Var] = field(default_factory=set)
    beside: set[str] = field(default_factory=set)
    apart: set[str] = field(default_factory=set)
    flat: bool = False


_Named = tuple[tuple[str, ...], tuple[int, ...], ir.Var]


def _like(var: ir.Var) -> tuple[object, ...]:
    return var.width, tuple(f.key() for f in var.fields), tuple(f.name for f in var.fields)


def _arrays(
    found: Iterable[_Named], allowed: Callable[[ir.Var], bool]
) -> list[tuple[str, tuple[int, ...], tuple[ir.Var, ...]]]:
    """Groups of equal names whose indices fill a box: name, sizes, signals in order."""
    groups: dict[tuple[str, ...], dict[tuple[int, ...], ir.Var]] = defaultdict(dict)
    for name, indices, var in found:
        if indices:
            groups[name][indices] = var
    made = []
    for name, members in groups.items():
        lengths = {len(indices) for indices in members}
        if len(lengths) != 1:
            continue
        dims = tuple(1 + max(indices[axis] for indices in members) for axis in range(lengths.pop()))
        elements = tuple(var for _, var in sorted(members.items(), key=lambda item: item[0]))
        full = len(elements) == math.prod(dims) and len(set(elements)) == len(elements)
        dims = tuple(size for size in dims if size > 1)
        if full and len(elements) > 1 and len({_like(var) for var in elements}) == 1 and (
            all(map(allowed, elements))
        ):
            made.append(("_".join(name), dims, elements))
    return made


def of_members(
    members: Iterable[tuple[tuple[str, ...], tuple[int, ...], tuple[str | int, ...], ir.Var]],
    allowed: Callable[[ir.Var], bool],
) -> list[tuple[str, tuple[int, ...], tuple[ir.Var, ...]]]:
    """Lists among members; each has a name and numbers before its path, which may add more."""
    return _arrays(
        (
            (
                (*name, *(part for part in path if isinstance(part, str))),
                (*numbers, *(part for part in path if isinstance(part, int))),
                var,
            )
            for name, numbers, path, var in members
        ),
        allowed,
    )


def made_together(
    signals: Sequence[ir.Var], allowed: Callable[[ir.Var], bool], called: Collection[str]
) -> list[tuple[str, tuple[int, ...], tuple[ir.Var, ...]]]:
    """Lists of signals that one statement made: with two numbers, unless anything else is *called*
    so, with one, or several of one name.
    """
    tables: dict[object, list[_Named]] = defaultdict(list)
    for var in signals:
        match = re.fullmatch(r"(.*\D)_(\d+)_(\d+)", var.name)
        if match and var.loc is not None and match[1] not in called:
            indices = int(match[2]), int(match[3])
            tables[match[1], var.loc, var.site].append(((match[1],), indices, var))
    made = [
        each for table in tables.values() if any(indices[0] for _, indices, _ in table)
        for each in _arrays(table, allowed)
    ]
    done = {var for _, _, elements in made for var in elements}
    groups: dict[tuple[str, object], list[ir.Var]] = defaultdict(list)
    for var in signals:
        stem = re.sub(r"_?\d+$", "", var.name)
        if var.loc is not None and stem and var not in done:
            groups[stem, (var.loc, var.site, _like(var))].append(var)
    for (stem, _), group in groups.items():
        ordered = sorted(group, key=lambda var: var.serial)
        numbers = [re.search(r"(\d+)$", var.name) for var in ordered]
        counted = [int(n[1]) if n else -1 for n in numbers] == list(range(len(ordered)))
        same = len({var.name for var in ordered}) == 1
        if len(ordered) > 1 and (counted or same) and all(map(allowed, ordered)):
            made.append((stem if counted else ordered[0].name, (len(ordered),),
                         tuple(ordered)))
    return made


def numbered(names: Mapping[str, object]) -> dict[str, tuple[str, int]]:
    """Names with consecutive numbers that stand for equal things -> stem, and number from 0."""
    stems: dict[str, dict[int, str]] = defaultdict(dict)
    for name in names:
        if match := re.fullmatch(r"(.*\D)_(0|[1-9]\d*)", name):
            stems[match[1]][int(match[2])] = name
    found: dict[str, tuple[str, int]] = {}
    for stem, members in stems.items():
        first = min(members)
        whole = sorted(members) == list(range(first, first + len(members))) and len(members) > 1
        if whole and len({names[name] for name in members.values()}) == 1:
            found |= {name: (stem, number - first) for number, name in members.items()}
    return found


def common(names: Sequence[str]) -> str:
    """``mem_awid`` of ``mem_0_awid`` and ``mem_1_awid``; empty if they have no such name."""
    stems = {re.sub(r"_\d+(?=_|$)", "", name, count=1) for name in names}
    return stems.pop() if len(stems) == 1 else ""


def compressed(words: Sequence[Part], dims: Mapping[str, tuple[int, ...]]) -> list[Part]:
    """*words*, most significant first, with the name of a list in place of all its elements."""
    found = list(words)
    while True:
        shorter = _compressed(found, dims)
        if len(shorter) == len(found):
            return shorter
        found = shorter


def element(word: Part) -> tuple[Ref, int] | None:
    """The list that *word* is an element of, and its number; None for other words."""
    steps = word.steps if isinstance(word, Ref) else ()
    if not isinstance(word, Ref) or not steps or not all(
        isinstance(step, Number) and step.form is Form.BIT and not step.terms for step in steps
    ):
        return None
    last = steps[-1]
    assert isinstance(last, Number)
    return Ref(*word.parts[:-1]), last.value


def _inverted(word: Part) -> Part | None:
    """The word that *word* is the inverse of; None if it is none."""
    return word.parts[1] if isinstance(word, Unary) and word.parts[0] == "~" else None


def ranges(words: Sequence[Part]) -> list[Part]:
    """*words*, most significant first, with a range in place of consecutive elements."""
    made: list[Part] = []
    for word in words:
        last = made[-1].parts[-1] if made and isinstance(made[-1], Ref) else None
        at = element(word)
        if at and isinstance(last, Number) and not at[0].steps and (
            made[-1] == at[0].then(last) and at[1] == last.value - 1
        ):
            made[-1] = at[0].then(bits(at[1], last.width + 1 if last.form is Form.RANGE else 2))
        else:
            made.append(word)
    return made


def _compressed(words: list[Part], dims: Mapping[str, tuple[int, ...]]) -> list[Part]:
    made: list[Part] = []
    at = 0
    while at < len(words):
        inverse = _inverted(words[at])
        if found := element(words[at] if inverse is None else inverse):
            head, last = found
            axis = len(head.steps)
            size = dims[head.name][axis] if axis < len(dims.get(head.name, ())) else 0
            run = words[at : at + size]
            own = run if inverse is None else [_inverted(word) for word in run]
            if size and last == size - 1 and own == [
                head.then(bits(index, 1)) for index in reversed(range(size))
            ]:
                made.append(head if inverse is None else Unary("~", head))
                at += size
                continue
        made.append(words[at])
        at += 1
    return made

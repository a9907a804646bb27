# SPDX-License-Identifier: Apache-2.0
"""Statements that repeat for each element of a list, written once in a loop.

A loop is made of statements that are equal except for numbers, where every number is constant or
grows by a constant from one piece to the next: ``unrolled`` gives back the pieces, so a loop has
their meaning. Numbers are indices, sized decimal literals and values of parameters.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

from gen.sv.layout import WIDTH
from gen.sv.tree import (
    BLANK,
    MOST_ZEROS,
    Assignment,
    Code,
    Comment,
    For,
    Form,
    Line,
    Nested,
    Number,
    Part,
    Ref,
    Stmt,
    plain,
    rewritten,
    rows,
    walk,
)

__all__ = [
    "Dims", "Item", "Taken", "aligned", "looped", "parsed", "repeated", "rolled", "statements",
    "unrolled",
]

Dims: TypeAlias = Mapping[str, tuple[int, ...]]
"""Sizes of the arrays of a module by their names."""

Taken: TypeAlias = Callable[[str], bool]
"""Tells if a name is taken."""

_PERIOD = 48  # most statements in the body of a loop
_SHORT = 6  # in that of one that is tried first, to be within others
_GENERATED, _PROCEDURAL = "ijhg", "kmnq"


@dataclass(frozen=True)
class Item:
    """Statements with their numbers apart.

    Attributes
    ----------
    stmts:
        The statements of the first iteration.
    words:
        What stands before, between and behind the numbers.
    numbers:
        The numbers in their order, with terms for the loops around them.
    notes:
        The comments.
    sizes:
        Iterations of each loop around it, the inner ones first.
    place:
        Position of its first piece among the statements.
    """

    stmts: tuple[Stmt, ...]
    words: tuple[str, ...]
    numbers: tuple[Number, ...]
    notes: frozenset[str] = frozenset()
    sizes: tuple[int, ...] = ()
    place: int = 0

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Equal for items that may form one loop."""
        kinds = tuple((each.form, each.width, each.terms) for each in self.numbers)
        return self.words, kinds, self.sizes

    @cached_property
    def values(self) -> tuple[int, ...]:
        """The numbers of the first iteration."""
        return tuple(each.value for each in self.numbers)

    def body(self, names: Sequence[str]) -> tuple[Stmt, ...]:
        """The statements inside of the loops, whose variables have *names*."""
        numbers = iter(self.numbers)

        def named(part: Part) -> Part | None:
            if not isinstance(part, Number) or not part.moves:
                return None
            number = next(numbers)
            return replace(number, terms=tuple((a, names[int(n)]) for a, n in number.terms))

        return rewritten(self.stmts, named)

    def written(self, dims: Dims, taken: Taken | None, indent: int) -> tuple[Stmt, ...]:
        """The statements, with procedural loops around them."""
        if not self.sizes:
            return self.stmts
        names = _free(_PROCEDURAL, [self], taken)[: len(self.sizes)][::-1]
        stmts = self.body(names)
        for name, size in zip(names, self.sizes, strict=False):
            stmts = (_loop(stmts, name, size, dims, indent),)
        return stmts


def parsed(stmts: Sequence[Stmt], place: int = 0) -> Item:
    """Take the numbers of *stmts* apart."""
    words: list[str] = []
    numbers: list[Number] = []
    notes: list[str] = []
    run: list[str] = []

    for indent, row in rows(stmts):
        if isinstance(row, Comment):
            notes.append(row.text)
            continue
        run.append("\n" + " " * (indent + row.inset))
        for part in row.code.leaves:
            if isinstance(part, Number) and part.moves:
                words.append("".join(run))
                run.clear()
                numbers.append(part)
            else:
                run.append(str(part))
        run.append(row.note)
    words.append("".join(run))
    return Item(tuple(stmts), tuple(words), tuple(numbers), frozenset(notes), (), place)


def unrolled(item: Item) -> list[tuple[Stmt, ...]]:
    """The pieces that *item* was made of."""
    if not item.sizes:
        return [item.body(())]
    outer = len(item.sizes) - 1
    made = []
    for turn in range(item.sizes[-1]):
        numbers = tuple(
            replace(
                each, value=each.value + sum(a for a, n in each.terms if n == outer) * turn,
                terms=tuple(term for term in each.terms if term[1] != outer),
            )
            for each in item.numbers
        )
        made += unrolled(replace(item, numbers=numbers, sizes=item.sizes[:-1]))
    return made


def _steps(one: Item, other: Item) -> tuple[int, ...] | None:
    """Steps of the numbers from *one* to *other*; None if the two cannot be in one loop."""
    if one.key != other.key or not other.notes <= one.notes:
        return None
    return tuple(b - a for a, b in zip(one.values, other.values, strict=True))


def _as_loop(first: Item, steps: Sequence[int], size: int) -> Item:
    level = len(first.sizes)
    numbers = tuple(
        replace(each, terms=(*each.terms, (step, level))) if step else each
        for each, step in zip(first.numbers, steps, strict=True)
    )
    return replace(first, numbers=numbers, sizes=(*first.sizes, size))


def _worth(item: Item, size: int, least: int) -> bool:
    lines = sum(word.count("\n") for word in item.words)
    return size >= least or (size > 1 and (size - 1) * lines >= least + 1)


def rolled(items: Sequence[Item], *, least: int = 3, flat: bool = False) -> list[Item]:
    """*items*, whose order does not matter, with loops of *least* elements, or fewer long ones.

    With *flat*, loops are not nested.
    """
    left = list(items)
    while True:
        groups: dict[tuple[object, ...], list[Item]] = defaultdict(list)
        for item in left:
            groups[item.key].append(item)
        made: list[Item] = []
        for group in groups.values():
            # Of elements with two numbers, the second one may give the longer loops.
            turned = sorted(group, key=lambda item: item.values[::-1])
            one, other = _runs(group, least), _runs(turned, least)
            made += one if len(one) <= len(other) else other
        made.sort(key=lambda item: item.place)
        if flat or len(made) == len(left):
            return made
        left = made


def _runs(items: Sequence[Item], least: int) -> list[Item]:
    made: list[Item] = []
    at = 0
    while at < len(items):
        size, steps = 1, None
        if at + 1 < len(items):
            steps = _steps(items[at], items[at + 1])
        if steps is not None and any(steps):
            size = 2
            while at + size < len(items) and (
                _steps(items[at + size - 1], items[at + size]) == steps
            ):
                size += 1
        if steps is not None and size > 1 and _worth(items[at], size, least):
            first = min(items[at : at + size], key=lambda item: item.place)
            made.append(replace(_as_loop(items[at], steps, size), place=first.place))
            at += size
        else:
            made.append(items[at])
            at += 1
    return made


def aligned(items: Sequence[Item]) -> bool:
    """Return True if *items*, in their order, are equal or can be one loop."""
    steps = [_steps(one, other) for one, other in pairwise(items)]
    return None not in steps and len(set(steps)) <= 1


def _joined(
    items: Sequence[Item], steps: Sequence[int], dims: Dims, taken: Taken | None, indent: int
) -> tuple[Item, list[int]] | None:
    """Several items as one, one below the other, with loops in it, and those of *steps* that are
    of its numbers; None if numbers that count the turns of these loops grow, too.
    """
    numbers = [number for item in items for number in item.numbers]
    if any(step for step, number in zip(steps, numbers, strict=True) if number.terms):
        return None
    stmts = [stmt for item in items for stmt in item.written(dims, taken, indent)]
    left = [step for step, number in zip(steps, numbers, strict=True) if not number.terms]
    return parsed(stmts, items[0].place), left


def _sequence(
    items: list[Item], longest: int, dims: Dims, taken: Taken | None, indent: int
) -> list[Item]:
    """Statements in their order, with loops where runs of up to *longest* statements repeat."""
    made: list[Item] = []
    keys = [hash(item.key) for item in items]
    at = 0
    while at < len(items):
        best: tuple[int, Item, int] | None = None
        for period in range(1, min(longest, (len(items) - at) // 2) + 1):
            if keys[at : at + period] != keys[at + period : at + 2 * period]:
                continue
            size, steps = _repeats(items, at, period)
            if size < 2 or not any(steps):
                continue
            first: Item = items[at]
            if period > 1:
                both = _joined(items[at : at + period], steps, dims, taken, indent + 2)
                if both is None:
                    continue
                first, steps = both[0], tuple(both[1])
            gain = size * period
            if _worth(first, size, 3) and (best is None or gain > best[0]):
                best = gain, _as_loop(first, steps, size), size * period
        if best is None:
            made.append(items[at])
            at += 1
        else:
            made.append(best[1])
            at += best[2]
    return made


def _repeats(items: Sequence[Item], at: int, period: int) -> tuple[int, tuple[int, ...]]:
    """Number of repetitions of the *period* items at *at*, and the steps of their numbers."""
    size, steps = 1, None
    while at + (size + 1) * period <= len(items):
        found: list[int] = []
        for number in range(at + (size - 1) * period, at + size * period):
            grown = _steps(items[number], items[number + period])
            if grown is None:
                break
            found += grown
        else:
            if steps is None or tuple(found) == steps:
                steps = tuple(found)
                size += 1
                continue
        break
    return size, steps or ()


def repeated(
    parts: Sequence[Sequence[Stmt]], dims: Dims, taken: Taken, indent: int
) -> list[tuple[int, int, tuple[Stmt, ...]]]:
    """Runs of *parts* that can be written as a loop: index of the first part, number of parts, and
    the loop.
    """
    items = [parsed(part, place) for place, part in enumerate(parts)]
    return [
        (item.place, item.sizes[0], item.written(dims, taken, indent))
        for item in _sequence(items, 1, dims, taken, indent) if item.sizes
    ]


def statements(
    parts: Sequence[Sequence[Stmt]], dims: Dims, taken: Taken, indent: int
) -> tuple[Stmt, ...]:
    """Statements in their order, indented by *indent*, with loops for those that repeat."""
    if len(parts) < 2:
        return tuple(stmt for part in parts for stmt in part)
    plain = [parsed(part) for part in parts if part]
    found = []
    for periods in ((1, _PERIOD), (1, _SHORT, _PERIOD)):
        items = plain
        for longest in periods:
            while len(made := _sequence(items, longest, dims, taken, indent)) < len(items):
                items = made
        found.append(tuple(stmt for item in items for stmt in item.written(dims, taken, indent)))
    return min(found, key=lambda stmts: sum(1 for _ in rows(stmts)))


def _free(letters: str, items: Sequence[Item], taken: Taken | None) -> list[str]:
    """Those of *letters* that none of *items* uses for anything else."""
    used = {
        part.lstrip(".") for item in items for node in walk(item.stmts) for part in node.parts
        if isinstance(part, str)
    }
    return [letter for letter in letters if letter not in used and not (taken and taken(letter))]


def _each(value: Part, name: str) -> tuple[str, tuple[Part, ...]] | None:
    """Name and outer indices of *value* if it is the element *name* of an array, else None."""
    if not isinstance(value, Ref) or not value.steps:
        return None
    *outer, last = value.steps
    simple = all(
        isinstance(step, Number) and step.form is Form.BIT and len(step.spelled()) == 3
        for step in value.steps
    )
    own = isinstance(last, Number) and last.value == 0 and last.terms == ((1, name),)
    if not simple or not own or any(
        isinstance(step, Number) and step.terms and step.terms[0][1] == name for step in outer
    ):
        return None
    return value.name, tuple(outer)


def _whole(line: Line, name: str, size: int, dims: Dims) -> Line | None:
    """*line* as one assignment to a whole array, if it does the same for each element."""
    if not isinstance(line.code, Assignment):
        return None
    start, target, arrow, value = line.code.parts
    found = _each(target, name)
    if found is None:
        return None
    left, inside = found
    if left not in dims or dims[left][len(inside) : len(inside) + 1] != (size,):
        return None
    if value == "'0" or (isinstance(value, Number) and not value.value and not value.terms):
        if math.prod(dims[left][len(inside) :]) > MOST_ZEROS:
            return None
        value = "'0"
    else:
        other = _each(value, name)
        if other is None or other[0] not in dims or (
            dims[other[0]][len(other[1]) :] != dims[left][len(inside) :]
        ):
            return None
        value = Ref(other[0], *other[1])
    return replace(line, code=Assignment(start, Ref(left, *inside), arrow, value))


def _only_line(stmts: Sequence[Stmt]) -> Line | None:
    return stmts[0] if len(stmts) == 1 and isinstance(stmts[0], Line) else None


def _loop(stmts: Sequence[Stmt], name: str, size: int, dims: Dims, indent: int) -> Stmt:
    """A procedural loop around *stmts*."""
    head = For("int", name, plain(size))
    if line := _only_line(stmts):
        if whole := _whole(line, name, size, dims):
            return whole
        single = replace(line, code=Code(head, " ", line.code))
        if indent + len(str(single)) <= WIDTH:
            return single
    return Nested(((Line(Code(head, " begin")), tuple(stmts)),))


def looped(
    items: Sequence[Item],
    dims: Dims,
    taken: Taken,
    scope: Callable[[Sequence[Stmt]], str],
    inside: Callable[[Sequence[Stmt], str], tuple[Stmt, ...]],
) -> tuple[Stmt, ...]:
    """Items of a module as statements: neighbours of equal size share a loop.

    *scope* names a loop by its body; *inside* rewrites a body, given the variable of the loop.
    """
    names = _free(_GENERATED, items, taken) if any(item.sizes for item in items) else []
    left: list[_Left] = []
    for item in items:
        own = names[: len(item.sizes)][::-1]
        stmts, sizes = item.body(own) if item.sizes else item.stmts, item.sizes
        while sizes and (line := _only_line(stmts)):
            whole = _whole(line, own[-len(sizes)], sizes[0], dims)
            if whole is None:
                break
            stmts, sizes = (whole,), sizes[1:]
        left.append((stmts, sizes))
    return _nested(left, names, scope, inside)


_Left: TypeAlias = tuple[tuple[Stmt, ...], tuple[int, ...]]
"""Statements, and the sizes of the loops that are still to be put around them."""


def _nested(
    left: Sequence[_Left],
    names: Sequence[str],
    scope: Callable[[Sequence[Stmt]], str],
    inside: Callable[[Sequence[Stmt], str], tuple[Stmt, ...]],
    inner: bool = False,
) -> tuple[Stmt, ...]:
    made: list[Stmt] = []
    if inner:  # their order does not matter
        left = sorted(left, key=lambda each: each[1][::-1])
    at = 0
    while at < len(left):
        found, sizes = left[at]
        group = [left[at]]
        at += 1
        if sizes:
            while at < len(left) and left[at][1][-1:] == sizes[-1:]:
                group.append(left[at])
                at += 1
            within = [(body, around[:-1]) for body, around in group]
            body = inside(_nested(within, names[1:], scope, inside, True), names[0])
            head = For("genvar", names[0], plain(sizes[-1]))
            found = (Nested(((Line(Code(head, " begin : ", scope(body))), body),)),)
        apart = not inner and _only_line(found) is None
        made += [BLANK] if apart and made and made[-1] is not BLANK else []
        made += [*found, BLANK] if apart else found
    while made and made[-1] is BLANK:
        made.pop()
    return tuple(made)

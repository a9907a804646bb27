"""Text that repeats for each element of a list, written once in a loop.

A loop is made of pieces of text that are equal except for numbers, where every number is constant
or grows by a constant from one piece to the next: ``unrolled`` gives back the pieces, so a loop has
their meaning. Numbers are those in brackets, sized decimal ones and values of parameters.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from gen.sv.layout import WIDTH, guarded

__all__ = [
    "Dims", "Item", "Taken", "aligned", "looped", "parsed", "repeated", "rolled", "statements",
    "unrolled",
]

Dims: TypeAlias = Mapping[str, tuple[int, ...]]
"""Sizes of the arrays of a module by their names."""

Taken: TypeAlias = Callable[[str], bool]
"""Tells if a name is taken."""

_SLOT = re.compile(r"\[(\d+):(\d+)\]|\[(\d+)\]|\b(\d+)'d(\d+)\b|(?<=[A-Z]\()(\d+)(?=\))")
_PERIOD = 48  # most statements in the body of a loop
_GENERATED, _PROCEDURAL = "ijhg", "kmnq"


@dataclass(frozen=True)
class _Slot:
    """A number in a text: a literal of `width` bits, the low index of a `width`-bit slice, or a
    parameter. For each of `terms`, ``a`` and the number of a loop, it has a term ``a * variable``.
    """

    kind: str
    width: int
    terms: tuple[tuple[int, int], ...] = ()

    def text(self, value: int, names: Sequence[str]) -> str:
        if not self.terms:
            last = value + self.width - 1
            return {
                "bit": f"[{value}]",
                "range": f"[{last}:{value}]",
                "number": f"{self.width}'d{value}",
                "parameter": str(value),
            }[self.kind]
        words = [
            names[n] if a == 1 else f"{a}*{names[n]}" for a, n in reversed(self.terms) if a > 0
        ]
        if value or not words:
            words.append(str(value))
        sum_ = " + ".join(words)
        sum_ += "".join(
            f" - {names[n]}" if a == -1 else f" - {-a}*{names[n]}" for a, n in self.terms if a < 0
        )
        return {
            "bit": f"[{sum_}]",
            "range": f"[{sum_} +: {self.width}]",
            "number": f"{self.width}'({sum_})",
            "parameter": sum_,
        }[self.kind]


@dataclass(frozen=True)
class Item:
    """A piece of text with its numbers apart.

    Attributes
    ----------
    pieces, values:
        The text, with a slot for each of the values.
    notes:
        Comment lines, each with the number of code lines above it.
    sizes:
        Iterations of each loop around it, the inner ones first.
    place:
        Position of its first piece among the statements.
    """

    pieces: tuple[str | _Slot, ...]
    values: tuple[int, ...]
    notes: tuple[tuple[int, str], ...] = ()
    sizes: tuple[int, ...] = ()
    place: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for items that may form one loop."""
        return self.pieces, self.sizes

    def body(self, names: Sequence[str]) -> list[str]:
        """The lines inside of the loops, whose variables have *names*."""
        values = iter(self.values)
        text = "".join(
            piece if isinstance(piece, str) else piece.text(next(values), names)
            for piece in self.pieces
        )
        lines = guarded(text).split("\n")
        for above, note in reversed(self.notes):
            lines.insert(above, note)
        return lines

    def lines(self, dims: Dims, taken: Taken | None = None) -> list[str]:
        """The text, with procedural loops around it."""
        names = _free(_PROCEDURAL, [self], taken)[: len(self.sizes)][::-1] if self.sizes else []
        lines = self.body(names)
        for name, size in zip(names, self.sizes, strict=False):
            lines = _loop(lines, name, size, dims)
        return lines


def parsed(lines: Sequence[str], place: int = 0) -> Item:
    """Parse *lines* into text and numbers."""
    notes: list[tuple[int, str]] = []
    code: list[str] = []
    for line in lines:
        if line.lstrip().startswith("//"):
            notes.append((len(code), line))
        else:
            code.append(line)
    text = "\n".join(code)
    pieces: list[str | _Slot] = []
    values: list[int] = []
    end = 0
    for match in _SLOT.finditer(text):
        high, low, bit, width, number, given = match.groups()
        if high is not None:
            slot = _Slot("range", int(high) - int(low) + 1)
            value = int(low)
        elif bit is not None:
            slot, value = _Slot("bit", 1), int(bit)
        elif given is not None:
            slot, value = _Slot("parameter", 0), int(given)
        else:
            slot, value = _Slot("number", int(width)), int(number)
        pieces += [text[end : match.start()], slot]
        values.append(value)
        end = match.end()
    pieces.append(text[end:])
    return Item(tuple(pieces), tuple(values), tuple(notes), (), place)


def unrolled(item: Item) -> list[list[str]]:
    """The pieces that *item* was made of."""
    if not item.sizes:
        return [item.body(())]
    outer = len(item.sizes) - 1
    made = []
    for number in range(item.sizes[-1]):
        pieces: list[str | _Slot] = []
        values = []
        given = iter(item.values)
        for piece in item.pieces:
            if isinstance(piece, _Slot):
                step = sum(a for a, level in piece.terms if level == outer)
                values.append(next(given) + step * number)
                piece = replace(piece, terms=tuple(t for t in piece.terms if t[1] != outer))
            pieces.append(piece)
        made += unrolled(
            replace(item, pieces=tuple(pieces), values=tuple(values), sizes=item.sizes[:-1])
        )
    return made


def _steps(one: Item, other: Item) -> tuple[int, ...] | None:
    """Steps of the numbers from *one* to *other*; None if the two cannot be in one loop."""
    said = {note for _, note in one.notes}
    if one.key != other.key or any(note not in said for _, note in other.notes):
        return None
    return tuple(b - a for a, b in zip(one.values, other.values, strict=True))


def _as_loop(first: Item, steps: Sequence[int], size: int) -> Item:
    level = len(first.sizes)
    pieces: list[str | _Slot] = []
    grown = iter(steps)
    for piece in first.pieces:
        if isinstance(piece, _Slot) and (step := next(grown)):
            piece = replace(piece, terms=(*piece.terms, (step, level)))
        pieces.append(piece)
    return replace(first, pieces=tuple(pieces), sizes=(*first.sizes, size))


def _worth(item: Item, size: int, least: int) -> bool:
    lines = sum(piece.count("\n") for piece in item.pieces if isinstance(piece, str)) + 1
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


def _joined(items: Sequence[Item]) -> Item:
    """Join several items without loops into one, one below the other."""
    pieces: list[str | _Slot] = []
    notes: list[tuple[int, str]] = []
    above = 0
    for number, item in enumerate(items):
        pieces += ["\n"] * bool(number) + list(item.pieces)
        notes += [(above + line, note) for line, note in item.notes]
        above += 1 + sum(p.count("\n") for p in item.pieces if isinstance(p, str))
    return Item(
        tuple(pieces), tuple(v for item in items for v in item.values), tuple(notes), (),
        items[0].place,
    )


def _sequence(items: list[Item], longest: int) -> list[Item]:
    """Statements in their order, with loops where runs of up to *longest* statements repeat."""
    made: list[Item] = []
    keys = [hash(item.key) for item in items]
    at = 0
    while at < len(items):
        best: tuple[int, Item, int] | None = None
        for period in range(1, min(longest, (len(items) - at) // 2) + 1):
            if keys[at : at + period] != keys[at + period : at + 2 * period]:
                continue
            if period > 1 and any(item.sizes for item in items[at : at + period]):
                continue
            size, steps = _repeats(items, at, period)
            if size < 2 or not any(steps):
                continue
            first = items[at] if period == 1 else _joined(items[at : at + period])
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
    parts: Sequence[Sequence[str]], dims: Dims, taken: Taken
) -> list[tuple[int, int, list[str]]]:
    """Runs of *parts* that can be written as a loop: index of the first part, number of parts, and
    the loop.
    """
    items = [parsed(part, place) for place, part in enumerate(parts)]
    return [
        (item.place, item.sizes[0], item.lines(dims, taken))
        for item in _sequence(items, 1) if item.sizes
    ]


def statements(parts: Sequence[Sequence[str]], dims: Dims, taken: Taken) -> list[str]:
    """Statements in their order as lines, with loops for those that repeat."""
    if len(parts) < 2:
        return [line for part in parts for line in part]
    items = [parsed(part) for part in parts if part]
    for longest in (1, _PERIOD):
        while len(made := _sequence(items, longest)) < len(items):
            items = made
    return [line for item in items for line in item.lines(dims, taken)]


def _free(letters: str, items: Sequence[Item], taken: Taken | None) -> list[str]:
    """Those of *letters* that none of *items* uses for anything else."""
    text = " ".join(piece for item in items for piece in item.pieces if isinstance(piece, str))
    used = set(re.findall(r"\b[a-z]\b", text))
    return [letter for letter in letters if letter not in used and not (taken and taken(letter))]


_ZERO = r"'0|\d+'[dbh]0+"


def _whole(line: str, name: str, size: int, dims: Dims) -> str | None:
    """*line* as one assignment to a whole array, if it does the same for each element."""
    match = re.fullmatch(
        rf"(\s*(?:assign )?)(\w+)((?:\[\w+\])*)\[{name}\] (<?=) "
        rf"(?:({_ZERO})|(\w+)((?:\[\w+\])*)\[{name}\]);( *//.*)?",
        line,
    )
    if match is None:
        return None
    start, left, inside, arrow, zero, right, other, note = match.groups()
    depth = inside.count("[")
    if left not in dims or dims[left][depth : depth + 1] != (size,):
        return None
    if zero is not None:
        value = "'0"
    else:
        behind = other.count("[")
        if right not in dims or dims[right][behind:] != dims[left][depth:]:
            return None
        if re.search(rf"\b{name}\b", inside + other):
            return None
        value = right + other
    return f"{start}{left}{inside} {arrow} {value};{note or ''}"


def _loop(lines: list[str], name: str, size: int, dims: Dims) -> list[str]:
    """A procedural loop around *lines*."""
    if len(lines) == 1 and (whole := _whole(lines[0], name, size, dims)):
        return [whole]
    indent = " " * (len(lines[0]) - len(lines[0].lstrip()))
    head = f"for (int {name} = 0; {name} < {size}; {name}++)"
    single = lines[0].strip()
    if len(lines) == 1 and len(f"{indent}{head} {single}") <= WIDTH:
        return [f"{indent}{head} {single}"]
    return [f"{indent}{head} begin", *(f"  {line}" for line in lines), f"{indent}end"]


def looped(
    items: Sequence[Item],
    dims: Dims,
    taken: Taken,
    scope: Callable[[list[str]], str],
    inside: Callable[[list[str], str], list[str]],
) -> list[str]:
    """Items of a module as lines: neighbours of equal size share a loop.

    *scope* names a loop by its body; *inside* rewrites a body, given the variable of the loop.
    """
    names = _free(_GENERATED, items, taken)
    left: list[_Left] = []
    for item in items:
        own = names[: len(item.sizes)][::-1]
        lines, sizes = item.body(own), item.sizes
        while sizes and len(lines) == 1:
            whole = _whole(lines[0], own[-len(sizes)], sizes[0], dims)
            if whole is None:
                break
            lines, sizes = [whole], sizes[1:]
        left.append((lines, sizes))
    return _nested(left, names, scope, inside)


_Left: TypeAlias = tuple[list[str], tuple[int, ...]]
"""Lines, and the sizes of the loops that are still to be put around them."""


def _nested(
    left: Sequence[_Left],
    names: Sequence[str],
    scope: Callable[[list[str]], str],
    inside: Callable[[list[str], str], list[str]],
    inner: bool = False,
) -> list[str]:
    lines: list[str] = []
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
            found = _generate(body, names[0], sizes[-1], scope(body))
        apart = len(found) > 1 and not inner
        lines += [""] if apart and lines and lines[-1] else []
        lines += [*found, ""] if apart else found
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _generate(lines: list[str], name: str, size: int, scope: str) -> list[str]:
    indent = " " * (len(lines[0]) - len(lines[0].lstrip()))
    head = f"{indent}for (genvar {name} = 0; {name} < {size}; {name}++) begin : {scope}"
    return [head, *(f"  {line}" if line else line for line in lines), f"{indent}end"]

# SPDX-License-Identifier: Apache-2.0
"""Planted errors: single changes of an emitted text, drawn by syntax and seed.

`draw` changes single lines. `draw_in_structures` changes the structures that stand for many lines:
values of parameters and what follows from them, bounds of loops, indices in loops, and connections
of instances.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["STRUCTURES", "Mutant", "draw", "draw_in_structures"]


@dataclass(frozen=True)
class Mutant:
    """A text with one change: its line, before and after."""

    text: str
    line: int
    before: str
    after: str


# Pattern and replacement. Operators stand between blanks in the text.
_CHANGES: tuple[tuple[str, str], ...] = (
    (r" & ", " | "), (r" \| ", " & "), (r" \^ ", " | "), (r" \+ ", " - "), (r" - ", " + "),
    (r" == ", " != "), (r" != ", " == "), (r" < ", " >= "), (r" <= (?=[\w'(])", " < "),
    (r" << ", " >> "), (r" >> ", " << "), (r"(?<=[ (])~", ""),
    (r"\? (\S+) : (\S+?)(?=[;,)])", r"? \2 : \1"),
    (r"1'b0", "1'b1"), (r"1'b1", "1'b0"), (r"if \((\w[\w.]*)\)", r"if (~\1)"),
)
_NUMBER = re.compile(r"\b(\d+)'d(\d+)\b")
_WRITE = re.compile(r"^\s+[\w.\[\]:+' ]+ (<=|=) .*;")


def _edits(line: str) -> Iterator[str]:
    """Every way to change *line* once."""
    left, arrow, _ = line.partition(" <= ")
    clocked = bool(_WRITE.match(line)) and arrow and "(" not in left
    for pattern, replacement in _CHANGES:
        for found in re.finditer(pattern, line):
            if clocked and found.start() == len(left):
                continue  # the arrow of an assignment
            yield line[: found.start()] + found.expand(replacement) + line[found.end() :]
    for found in _NUMBER.finditer(line):
        width, value = int(found[1]), int(found[2])
        other = (value + 1) % (1 << width)
        yield f"{line[: found.start()]}{width}'d{other}{line[found.end() :]}"
    if _WRITE.match(line) and not line.lstrip().startswith(("assign", "wire", "logic")):
        yield re.sub(r"\S.*", ";", line, count=1)


def draw(text: str, count: int, seed: int | str) -> list[Mutant]:
    """*count* mutants of *text*, each with one change of executed code."""
    lines = text.splitlines()
    inside = False
    places = []
    for number, line in enumerate(lines):
        inside = line.startswith(");") or (inside and not line.startswith("endmodule"))
        plain = line.partition("//")[0]
        declared = re.match(r"\s*(logic|localparam|typedef|\w+_[te]|initial|wire unused)\b", plain)
        if inside and plain.strip() and not declared:
            places += [(number, edit) for edit in _edits(plain) if edit != plain]
    chosen = random.Random(seed).sample(places, min(count, len(places)))
    return [
        Mutant("\n".join([*lines[:number], edit, *lines[number + 1 :]]) + "\n", number + 1,
               lines[number].strip(), edit.strip())
        for number, edit in chosen
    ]


STRUCTURES = ("parameter", "bound", "index", "port")
"""Structures that `draw_in_structures` changes."""

_GIVEN = re.compile(r"#\((\.\w+\(\d+\).*?)\) \w")
_LOOP = re.compile(r"^( *)for \((?:genvar|int) (\w) = 0; \2 < (\w+); \2\+\+\)(.*)")
_CONNECTED = re.compile(r"\.(\w+)\(([^()]+)\)")


def _of_parameters(line: str, parameters: set[str]) -> Iterator[str]:
    """Other values of parameters at an instance, or of those that a module derives."""
    if given := _GIVEN.search(line):
        for found in re.finditer(r"\((\d+)\)", given[1]):
            start = given.start(1) + found.start(1)
            for other in (int(found[1]) + 1, int(found[1]) - 1):
                if other > 0:
                    yield f"{line[:start]}{other}{line[start + len(found[1]):]}"
    for found in re.finditer(r"\b([A-Z]\w*)( ?- ?1)?\b(?!')", line):
        if found[1] in parameters and "parameter" not in line:
            less = found[2] and found[2].replace("1", "2")
            yield f"{line[: found.start()]}{found[1]}{less or ' - 1'}{line[found.end() :]}"


def _of_bounds(line: str) -> Iterator[str]:
    if found := _LOOP.match(line):
        start, end = found.span(3)
        yield f"{line[:start]}{found[3]} - 1{line[end:]}"
        yield line.replace(f"{found[2]} = 0;", f"{found[2]} = 1;", 1)


def _of_indices(line: str, loops: dict[str, str]) -> Iterator[str]:
    """Other indices of the elements in a loop."""
    for name, size in loops.items():
        for found in re.finditer(rf"(?<=[\[(*]){name}\b|\b{name}(?=\])", line):
            if not line[found.end() :].startswith((" =", " <", "++")):
                yield f"{line[: found.start()]}({size} - 1 - {name}){line[found.end() :]}"
        for found in re.finditer(rf"\b{name} \+ (\d+)", line):
            number = int(found[1]) - 1
            yield f"{line[: found.start()]}{name} + {number}{line[found.end() :]}"


def _of_ports(line: str) -> Iterator[str]:
    """Connections of an instance that are swapped, or lead to a neighbour in an array."""
    both = list(_CONNECTED.finditer(line))
    for one, other in pairwise(both):
        if one[2] != other[2]:
            yield (f"{line[: one.start(2)]}{other[2]}{line[one.end(2) : other.start(2)]}"
                   f"{one[2]}{line[other.end(2) :]}")
    for found in both:
        for index in re.finditer(r"\[(\d+)\]$", found[2]):
            start = found.start(2) + index.start(1)
            number = int(index[1]) + 1 if index[1] == "0" else int(index[1]) - 1
            yield f"{line[:start]}{number}{line[start + len(index[1]):]}"


def _structures(text: str) -> Iterator[tuple[str, int, str]]:
    """Yield every possible change: its structure, line number, and the new line."""
    parameters: set[str] = set()
    loops: list[tuple[int, str, str]] = []
    instance = False
    for number, whole in enumerate(text.splitlines()):
        line = whole.partition("//")[0].rstrip()
        if line.startswith("module "):
            parameters, loops, instance = set(), [], False
            if line.startswith("module sram_"):
                return  # bodies of macros stand at the end
        parameters |= set(re.findall(r"^ +(?:parameter|localparam) int (\w+)", line))
        depth = len(line) - len(line.lstrip())
        if line:
            loops = [each for each in loops if each[0] < depth]
        inside = {name: size for _, name, size in loops}
        instance = bool(re.match(r" +\w+ (?:#\(.*\) )?\w+ \($", line)) or (
            instance and not line.endswith(");")
        )
        found: list[tuple[str, Iterator[str]]] = []
        if not re.match(r" +(?:localparam|wire unused)", line):
            found.append(("parameter", _of_parameters(line, parameters)))
        if loop := _LOOP.match(line):
            found.append(("bound", _of_bounds(line)))
            if loop[4].strip() != "begin" and "begin :" not in loop[4]:
                inside |= {loop[2]: loop[3]}  # all of it stands in one line
            elif "begin" in loop[4]:
                loops.append((depth, loop[2], loop[3]))
                inside = {}
        found.append(("index", _of_indices(line, inside)))
        if instance:
            found.append(("port", _of_ports(line)))
        for kind, edits in found:
            yield from ((kind, number, edit) for edit in edits if edit != line)


def draw_in_structures(text: str, seed: int | str) -> dict[str, Iterator[Mutant]]:
    """For each of `STRUCTURES` all mutants of *text*, in an order that is drawn."""
    lines = text.splitlines()
    places: dict[str, list[tuple[int, str]]] = {kind: [] for kind in STRUCTURES}
    for kind, number, edit in _structures(text):
        places[kind].append((number, edit))

    def mutants(kind: str) -> Iterator[Mutant]:
        order = random.Random(f"{seed} {kind}").sample(places[kind], len(places[kind]))
        for number, edit in order:
            yield Mutant("\n".join([*lines[:number], edit, *lines[number + 1 :]]) + "\n",
                         number + 1, lines[number].strip(), edit.strip())

    return {kind: mutants(kind) for kind in STRUCTURES}

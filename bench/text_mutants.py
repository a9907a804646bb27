"""Planted errors: single changes of an emitted text, drawn by syntax and seed."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Mutant", "draw"]


@dataclass(frozen=True)
class Mutant:
    """A text with one change: in which line, and what became of it."""

    text: str
    line: int
    before: str
    after: str


# What is searched for, and what takes its place. Operators stand between blanks in the text.
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
    """*count* mutants of *text*, each with one change in what is executed."""
    lines = text.splitlines()
    inside = False
    places = []
    for number, line in enumerate(lines):
        inside = line.startswith(");") or (inside and not line.startswith("endmodule"))
        plain = line.partition("//")[0]
        declared = re.match(r"\s*(logic|localparam|\w+_t|initial|wire unused)\b", plain)
        if inside and plain.strip() and not declared:
            places += [(number, edit) for edit in _edits(plain) if edit != plain]
    chosen = random.Random(seed).sample(places, min(count, len(places)))
    return [
        Mutant("\n".join([*lines[:number], edit, *lines[number + 1 :]]) + "\n", number + 1,
               lines[number].strip(), edit.strip())
        for number, edit in chosen
    ]

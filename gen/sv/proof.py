"""Proof that a text says what Amaranth says of the same component.

Amaranth's own netlist of the component (its RTLIL, through none of this package's code) and the
text as Yosys reads it (`read_verilog -sv`) are put side by side. The writer knows both names of
each register and of each row of a memory, so these are matched, their initial values compared, and
what is left to prove is that equal states and inputs give equal next states and outputs.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from amaranth.lib import wiring

from gen.rtlil import MacroPlatform, to_rtlil
from gen.sv.writer import Text, write_design
from gen.yosys import Step, YosysError, run_yosys

__all__ = ["Proof", "Side", "prove", "reference", "written"]

_TOP = "top"


@dataclass(frozen=True)
class Side:
    """One design as a file: Amaranth's netlist or a text."""

    text: str
    verilog: bool
    boxes: str = ""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What a proof came to.

    Attributes
    ----------
    proved:
        Whether the two are equal.
    undecided:
        Whether neither that nor a difference was found in the time given.
    why:
        What is not equal; empty if `proved`.
    state:
        Registers and rows of memories that were matched.
    seconds:
        How long it took.
    """

    proved: bool
    undecided: bool
    why: str
    state: int
    seconds: float


def written(make: Callable[[], wiring.Component]) -> tuple[Side, Text]:
    """The component that *make* gives, as this package writes it."""
    platform = MacroPlatform()
    text = write_design(make(), name=_TOP, platform=platform)
    return Side(text.text, True, _boxes(platform)), text


def reference(make: Callable[[], wiring.Component]) -> Side:
    """The component that *make* gives, as Amaranth writes it."""
    platform = MacroPlatform()
    return Side(to_rtlil(make(), name=_TOP, platform=platform), False, _boxes(platform))


def _boxes(platform: MacroPlatform) -> str:
    """The ports of the SRAM macros: their bodies are the same on both sides."""
    empty = [
        re.sub(r"\);.*?endmodule", ");\nendmodule", body, count=1, flags=re.S)
        for _, body in sorted(platform.sram_macros.items())
    ]
    return "\n".join(f"(* blackbox *)\n{body}" for body in empty)


def prove(
    gold: Side, gate: Side, text: Text, *, timeout: float | None = None, narrow: bool = False
) -> Proof:
    """Prove that *gate*, a text with the registers that *text* lists, equals *gold*.

    Each of two runs of Yosys may take *timeout* seconds of CPU time, whatever else the machine
    does. With *narrow* Yosys cuts operators to the bits that matter first (`wreduce`), without
    which no multiplier is proved.

    Raises
    ------
    YosysError
        One of the two could not be read.
    YosysTimeoutError
        Or not in time.
    """
    start = time.perf_counter()
    reduce = ["wreduce", "opt_expr", "opt_clean"] if narrow else []
    names = {f"state_{number}": register for number, register in enumerate(text.registers)}
    with tempfile.TemporaryDirectory(prefix="proof-") as folder:
        work = Path(folder)
        steps: list[Step] = []
        own: dict[str, _Names] = {}
        for side, which in ((gold, "gold"), (gate, "gate")):
            own[which] = {
                name: (
                    (".".join(each.name), each.bits or each.part) if side.verilog
                    else (".".join(each.reference), each.part)
                )
                for name, each in names.items()
            }
            cells = dict(text.boxes) if side.verilog else {}
            steps += _prepared(side, which, own[which], cells, work)
        boxes = ["read_verilog -sv -lib gold.boxes.v"] if gold.boxes else []
        both = [f"design -copy-from {side} -as {side} {_TOP}" for side in ("gold", "gate")]
        steps += [*boxes, *both]
        read = run_yosys([*steps, "write_rtlil both.il"], cwd=work, cpu_s=timeout)
        missing = re.findall(r"^no state: (.*)$", read, re.M)
        why = _different_starts(
            *(_starts(work / f"{which}.il", own[which]) for which in ("gold", "gate"))
        )
        if missing:
            why = f"registers not found: {', '.join(missing[:5])}"
        solve: list[Step] = [
            "read_rtlil both.il", *reduce, "setattr -unset init w:*", "equiv_make gold gate equiv",
            "hierarchy -top equiv", "opt_clean", "opt_merge", "equiv_struct",
            "equiv_simple -short", "equiv_simple",
            # No induction through a box, of which nothing but the ports is known.
            *([] if gold.boxes else ["equiv_induct -seq 3"]),
            "tee -o open.txt equiv_status", "equiv_status -assert",
        ]
        undecided = False
        try:
            run_yosys(solve, cwd=work, cpu_s=timeout)
        except YosysError as error:
            # Without the file Yosys came to no end; its log is not complete then.
            said = work / "open.txt"
            open_ = re.findall(r"Unproven \$equiv (.*)", said.read_text()) if said.exists() else []
            undecided = not open_ and not why
            first = ", ".join(open_[:5])
            why = why or (f"not equal: {first}" if open_ else str(error).splitlines()[0])
    return Proof(
        proved=not why, undecided=undecided, why=why, state=len(names),
        seconds=time.perf_counter() - start,
    )


_Names: TypeAlias = dict[str, tuple[str, tuple[int, int] | None]]
"""Of state: the name that it is matched by -> its own, and which bits of that if not all."""


def _prepared(
    side: Side, which: str, names: _Names, cells: dict[str, str], work: Path
) -> list[Step]:
    """Steps that flatten one side down to registers and logic, and put it aside."""
    suffix = "sv" if side.verilog else "il"
    (work / f"{which}.src.{suffix}").write_text(side.text)
    steps: list[Step] = []
    if side.boxes:
        (work / f"{which}.boxes.v").write_text(side.boxes)
        steps.append(f"read_verilog -sv -lib {which}.boxes.v")
    naming: dict[str, object] = {
        "cells": cells,
        "names": {old: new for new, (old, part) in names.items() if part is None},
        "parts": [(old, new, *part) for new, (old, part) in names.items() if part],
    }
    read = "read_verilog -sv" if side.verilog else "read_rtlil"
    return [
        *steps, f"{read} {which}.src.{suffix}", f"hierarchy -top {_TOP}", "proc", "flatten",
        "opt_expr", "memory_collect", "memory_map", ("name_state", naming),
        f"write_rtlil {which}.il", "opt_expr", "opt_clean",
        f"design -stash {which}",
    ]


def _starts(file: Path, names: _Names) -> dict[str, str]:
    """Initial values of the state of one side, as bits; undefined ones are ``x``."""
    found: dict[str, str] = {}
    value = ""
    for line in file.read_text().splitlines():
        if match := re.fullmatch(r"\s*attribute \\init (.*)", line):
            value = match[1]
        elif match := re.fullmatch(r"\s*wire (?:width (\d+) )?.*\\(\S+)", line):
            found[match[2]] = _binary(value, int(match[1] or 1))
            value = ""
    starts = {}
    for name, (old, part) in names.items():
        whole = found.get(name if part is None else old, "")
        starts[name] = whole if part is None else whole[::-1][part[0] : sum(part)][::-1]
    return starts


def _binary(value: str, width: int) -> str:
    if match := re.fullmatch(r"\d+'([01xz]+)", value):
        return match[1].rjust(width, "0")
    if re.fullmatch(r"-?\d+", value):
        return format(int(value) & ((1 << width) - 1), f"0{width}b")
    return "x" * width


def _different_starts(gold: dict[str, str], gate: dict[str, str]) -> str:
    """What does not start as it should. What Amaranth leaves open, the text may fix."""
    wrong = []
    for name, start in gold.items():
        other = gate[name]
        fits = len(start) == len(other) and all(
            one in ("x", bit) for one, bit in zip(start, other, strict=True)
        )
        if not fits:
            wrong.append(f"{name} starts as {start} and as {other}")
    return "; ".join(wrong[:5])

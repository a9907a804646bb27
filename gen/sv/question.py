# SPDX-License-Identifier: Apache-2.0
"""Decide if a module of a text equals one of a netlist: the question, and its proof."""

from __future__ import annotations

import hashlib
import math
import re
import subprocess
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from gen.sv.miter import PREPARE, Miter, MiterError, miter
from gen.sv.netlists import Bits, NetlistSlice, read_modules
from gen.yosys import Step, run_yosys

__all__ = ["Proof", "Question", "prove"]


@dataclass(frozen=True)
class Question:
    """The question whether a module of a text equals one of a netlist.

    Attributes
    ----------
    gold, gate:
        RTLIL of the module of the netlist and of that of the text, opened.
    inputs:
        Ports of the text, each with the bits of `gold` that drive it, or a number of free bits.
    same:
        Pairs that must be equal: bits of `gold`, and a port of the text with the first of its bits.
    registers:
        Bits of `gold` and of the text that are one state; a width of -1 is that of the whole wire.
    memories:
        Names of matched memories of `gold` and of the text.
    """

    gold: str
    gate: str
    inputs: tuple[tuple[str, tuple[Bits | int, ...]], ...]
    same: tuple[tuple[Bits, str, int], ...]
    registers: tuple[tuple[NetlistSlice, NetlistSlice], ...]
    memories: tuple[tuple[str, str], ...]

    def key(self) -> str:
        """A hash of all of it."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:24]


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The result of a proof.

    Attributes
    ----------
    proved:
        True if the two are equal.
    undecided:
        True if neither that nor a difference was found in the time given.
    why:
        The difference, or how the proof ended; empty if `proved`.
    state:
        Registers and rows of memories that were matched.
    """

    proved: bool
    undecided: bool
    why: str
    state: int


def prove(question: Question, *, timeout: float | None = None) -> Proof:
    """Decide *question*; each of the programs that work on it may take *timeout* seconds of CPU.

    Raises
    ------
    YosysError
        Yosys refuses what it wrote before.
    YosysTimeoutError
        Yosys does not finish in time.
    """
    with tempfile.TemporaryDirectory(prefix="proof-") as folder:
        work = Path(folder)
        steps: list[Step] = []
        for side, text in (("gold", question.gold), ("gate", question.gate)):
            (work / f"{side}.il").write_text(text)
            steps += [f"read_rtlil {side}.il", *PREPARE]
            if side == "gate":
                steps += [("open_ranges", {}), "setundef -anyseq"]
            steps += [f"write_rtlil {side}.cut.il", "design -reset"]
        run_yosys(steps, cwd=work, cpu_s=timeout)
        sides = (read_modules((work / f"{side}.cut.il").read_text()) for side in ("gold", "gate"))
        gold, gate = next(sides)["\\gold"], next(sides)["\\gate"]
        try:
            made = miter(
                gold, gate, inputs=question.inputs, same=question.same,
                registers=question.registers, memories=question.memories,
            )
        except MiterError as error:
            return Proof(proved=False, undecided=False, why=str(error), state=0)
        if not made.outputs:
            return Proof(proved=True, undecided=False, why="", state=made.state)
        text = _DIVIDES_NOTHING.sub(r"\1 1\n\2    connect \\A 1'0", made.text)
        (work / "miter.il").write_text(text)
        run_yosys([*_BITS], cwd=work, cpu_s=timeout)
        return _decided(work, made, timeout)


_BITS = (
    "read_rtlil miter.il", "hierarchy -top top", "flatten",
    # Before other passes can make an operand of no bits, for which there is no technology map.
    "techmap t:$div t:$mod t:$divfloor t:$modfloor",
    "opt_expr", "opt_clean", "opt_merge", "wreduce", "opt_expr", "opt_merge", "opt_clean",
    "simplemap", "techmap", "setundef -zero", "opt_expr", "opt_clean", "aigmap", "opt_clean",
    "write_aiger miter.aig",
)

_DIVIDES_NOTHING = re.compile(
    r"(  cell \$(?:div|mod)\w* .*\n(?:    parameter .*\n)*?    parameter \\A_WIDTH) 0\n"
    r"((?:    parameter .*\n)*)    connect \\A \{ \}"
)
"""A division of a number of no bits, for which Yosys has no technology map."""


def _decided(work: Path, made: Miter, timeout: float | None) -> Proof:
    """Let ABC decide if any output of the file can be 1.

    It checks one output only, so all of them are OR-ed into one first.
    """
    limit = "" if timeout is None else f" -T {math.ceil(timeout)}"
    log = _abc(f"read_aiger miter.aig; print_stats; strash; orpos; print_stats; &get -n; "
               f"&cec -m -C 1000000{limit}", work)
    outputs = re.findall(r"i/o = *\d+/ *(\d+)", log)
    if outputs != [str(len(made.outputs)), "1"]:
        raise RuntimeError(f"ABC lost outputs of {len(made.outputs)}:\n{log}")
    if "Networks are equivalent" in log:
        return Proof(proved=True, undecided=False, why="", state=made.state)
    if "NOT EQUIVALENT" in log:
        what = _which(work, made)
        return Proof(proved=False, undecided=False, why=f"not equal: {what}", state=made.state)
    return Proof(proved=False, undecided=True, why=f"no end: {log.strip()[-200:]}",
                 state=made.state)


def _which(work: Path, made: Miter) -> str:
    """Name of the first output that can be 1, if one is found soon."""
    log = _abc("read_aiger miter.aig; strash; iprove", work, 10)
    found = re.search(r"output = (\d+)", log)
    return made.outputs[int(found[1])] if found else "one of its outputs or registers"


def _abc(commands: str, work: Path, most_s: float | None = None) -> str:
    """The output of ABC; empty if it takes too long."""
    abc = Path(str(metadata.distribution("pyosys").locate_file("pyosys"))) / "yosys-abc"
    try:
        run = subprocess.run(
            [str(abc), "-c", commands], cwd=work, capture_output=True, text=True, check=True,
            timeout=most_s,
        )
    except subprocess.TimeoutExpired:
        return ""
    return re.sub(r"\x1b\[[\d;]*m", "", run.stdout)

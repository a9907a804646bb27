"""Every component proved equal to Amaranth's netlist, planted errors found, components replayed.

Components are those of `bench/parts.py`; whole engines are proved with their parts as black boxes.
Errors are single changes of the text, drawn by syntax and seed; one that the proof does not find is
proved to change nothing. What one engine of a ring saw and said during an all-reduce of the
compiled models is replayed by the text under Verilator, every output in every cycle.
"""

import argparse
import multiprocessing
import random
import resource
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amaranth.hdl import UnusedElaboratable

from bench._proofs import COMPONENTS, Judged, Planted, Prover
from bench._recordings import RINGS
from bench._replay import Verilator
from bench.result import result
from foldwire.console import say
from gen.verilator import has_verilator
from gen.verilog import emit

__all__ = ["main", "shares"]

CYCLES = 1000
COMPONENTS_WANTED, MUTANTS_WANTED, REPLAYS_WANTED = 30, 40, 3
MOST_MINUTES, CORES = 20, 2
LONG = (
    "RingEngine", "Dispatcher", "AceEngine", "ReductionUnit", "Port", "ReduceALU", "Receive",
    "PhaseFSM", "HomeStore", "NicReducePath", "SendGenerator", "ReceiveUnit", "Transmit", "Fetch",
)
"""What takes longest, and so begins first."""


def shares(count: int, seed: int) -> dict[str, int]:
    """How many of *count* errors each component gets: as equally as it goes, the rest by *seed*."""
    names = list(COMPONENTS)
    random.Random(seed).shuffle(names)
    drawn = Counter(names[number % len(names)] for number in range(count))
    return {name: drawn[name] for name in COMPONENTS if drawn[name]}


def _replay(name: str) -> tuple[int, int]:
    """Cycles recorded, and those in which the text under Verilator says something else."""
    engine = RINGS[name]
    text = emit(engine.component(), name="ace").text
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        trace = engine.trace(Path(folder))
        return len(trace.stimulus), Verilator(text, trace, Path(folder), "-O1").mismatches()


@dataclass
class Totals:
    """What all tasks came to; `known_s` is the CPU time of verdicts of earlier runs."""

    components: int = 0
    proved: int = 0
    undecided: int = 0
    replayed: int = 0
    mismatches: int = 0
    mutants: int = 0
    found: int = 0
    equivalent: int = 0
    known: int = 0
    known_s: float = 0.0

    def add_proof(self, name: str, judged: Judged) -> None:
        """Count and print a proof."""
        proof = judged.proof
        verdict = "proved" if proof.proved else "undecided: " * proof.undecided + proof.why
        say(f"  {name:28}{proof.state:5} registers {self._took([judged])}  {verdict}")
        self.components += 1
        self.proved += proof.proved
        self.undecided += proof.undecided

    def add_planted(self, name: str, planted: Planted) -> None:
        """Count and print what became of errors."""
        tried, equal = len(planted.judged), len(planted.equivalent)
        undecided = len(planted.undecided)
        say(f"  {name:28}{planted.found} of {tried} errors  {self._took(planted.judged)}  found"
            + f", {equal} proved equivalent" * (equal > 0)
            + f", {undecided} undecided" * (undecided > 0))
        for what, mutants in (("equivalent", planted.equivalent), ("undecided", planted.undecided)):
            for mutant in mutants:
                say(f"    line {mutant.line}, {what}: {mutant.before} -> {mutant.after}")
        self.mutants += tried
        self.found += planted.found
        self.equivalent += equal
        self.undecided += undecided

    def add_replay(self, name: str, replay: tuple[int, int]) -> None:
        """Count and print a replay."""
        cycles, wrong = replay
        say(f"  {name}: {cycles} cycles replayed, {wrong} differ")
        self.replayed += cycles >= CYCLES
        self.mismatches += wrong

    def _took(self, all_judged: Sequence[Judged]) -> str:
        """Count what was known; the CPU time of *all_judged* in words."""
        known = [judged for judged in all_judged if judged.known]
        self.known += len(known)
        self.known_s += sum(judged.cpu_s for judged in known)
        spent = sum(judged.cpu_s for judged in all_judged)
        return f"{spent:7.1f} s of CPU" + ", known" * (0 < len(known) == len(all_judged))

    def good(self, cpu_minutes: float) -> bool:
        """Whether everything was shown, and *cpu_minutes* are few enough."""
        proofs = self.proved == self.components >= COMPONENTS_WANTED and not self.undecided
        errors = self.found + self.equivalent == self.mutants >= MUTANTS_WANTED
        replays = self.replayed >= REPLAYS_WANTED and not self.mismatches
        return proofs and errors and replays and cpu_minutes <= CORES * MOST_MINUTES


def _tasks(
    options: argparse.Namespace, totals: Totals
) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...], Callable[[str, Any], None]]]:
    """Name, work, its arguments and who takes what comes of it; what takes longest comes first."""
    prover = Prover(options.timeout, anew=options.anew)
    planted = shares(options.mutants, options.seed)
    names = [*LONG, *(name for name in COMPONENTS if name not in LONG)]
    for name in names:
        if name in (options.parts or COMPONENTS):
            yield name, prover.proved, (name,), totals.add_proof
        if name == LONG[-1]:  # a simulator is built for each
            if has_verilator():
                for engine in RINGS:
                    yield engine, _replay, (engine,), totals.add_replay
            else:
                say("Verilator is not installed: nothing is replayed")
    for name in names:
        if name in planted:
            arguments = (name, planted[name], options.seed)
            yield name, prover.planted, arguments, totals.add_planted


def _start_worker() -> None:
    warnings.filterwarnings("ignore", category=UnusedElaboratable)  # parts behind boxes


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench equivalence", description=__doc__)
    parser.add_argument("parts", nargs="*", help="components to prove; all if none is named")
    parser.add_argument("--mutants", type=int, default=len(COMPONENTS),
                        help=f"how many errors to plant ({len(COMPONENTS)}, one in each component)")
    parser.add_argument("--seed", type=int, default=1, help="of the draws (1)")
    parser.add_argument("--timeout", type=float, default=300,
                        help="CPU seconds of a run of Yosys (300)")
    parser.add_argument("--jobs", type=int, default=CORES, help=f"processes at a time ({CORES})")
    parser.add_argument("--anew", action="store_true", help="prove again what was proved before")
    options = parser.parse_args(argv)
    for name in options.parts:
        if name not in COMPONENTS:
            there = ", ".join(COMPONENTS)
            raise SystemExit(f"bench equivalence: no part {name!r}; there are: {there}")
    return options


def main(argv: Sequence[str]) -> int:
    """Print what was proved, found and replayed; equal texts are not proved twice."""
    options = _options(argv)
    start = time.perf_counter()
    totals = Totals()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, context, initializer=_start_worker) as pool:
        running = {
            pool.submit(work, *arguments): (name, taken)
            for name, work, arguments, taken in _tasks(options, totals)
        }
        try:
            for future in as_completed(running):
                name, taken = running[future]
                taken(name, future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    used = resource.getrusage(resource.RUSAGE_CHILDREN)  # the pool is closed: all have ended
    minutes = (time.perf_counter() - start) / 60
    cpu_minutes = (used.ru_utime + used.ru_stime + totals.known_s) / 60
    say(f"{minutes:.1f} min; {cpu_minutes:.1f} min of CPU time with the "
        f"{totals.known_s / 60:.1f} min of {totals.known} verdicts of earlier runs")
    counts = {name: value for name, value in vars(totals).items() if name != "known_s"}
    result("equivalence", **counts, minutes=minutes, cpu_minutes=cpu_minutes,
           verdict="ok" if totals.good(cpu_minutes) else "short")
    return 0

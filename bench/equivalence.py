"""Every component proved equal to Amaranth's netlist, planted errors found, components replayed.

Components are those of `bench/parts.py`; whole engines are proved with their parts as black boxes.
Errors are single changes of the text, drawn by syntax and seed; one that the proof does not find is
proved to change nothing. What one engine of a ring saw and said during an all-reduce of the
compiled models is replayed by the text under Verilator, every output in every cycle.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.hdl import UnusedElaboratable
from numpy.typing import NDArray

from bench._replay import Verilator, record
from bench.parts import MULTIPLIERS, PARTS, WHOLE
from bench.result import result
from bench.text_mutants import Mutant, draw
from foldwire.console import say
from gen.sv.proof import Proof, Side, prove, reference, written
from gen.verilator import has_verilator
from gen.verilog import emit
from gen.yosys import YosysError
from hw.ace.config import preset as ace_preset
from hw.smartnic.config import preset as nic_preset
from sim.cycles.ring import RingSettings
from sim.rtl.ace_ring import AceRing
from sim.rtl.nic_ring import NicRing
from sim.rtl.ring import RingDriver

__all__ = ["main"]

CYCLES = 1000
COMPONENTS = {**PARTS, **WHOLE}
LONG = (*MULTIPLIERS, "ReduceALU", "Receive", "ReceiveUnit", "PhaseFSM", "NicReducePath",
        "Transmit", "Port")
"""What takes longest, and so begins first."""
# Proofs with a multiplier are no place to look for errors: each would take minutes.
MUTATED = [name for name in PARTS if name not in MULTIPLIERS]


def _proved(name: str, timeout: float) -> Proof:
    make = COMPONENTS[name]
    gate, text = written(make)
    narrow = name in MULTIPLIERS
    try:
        return prove(reference(make), gate, text, timeout=timeout, narrow=narrow)
    except YosysError as error:
        why = str(error).partition("\n")[0]
        return Proof(proved=False, undecided=True, why=why, state=0, seconds=0.0)


@dataclass(frozen=True)
class Planted:
    """What became of the errors in one component."""

    tried: int = 0
    found: int = 0
    undecided: int = 0
    equivalent: tuple[Mutant, ...] = ()


def _planted(name: str, count: int, seed: int, timeout: float) -> Planted:
    """Plant *count* errors in a component, one at a time; what no tool reads is drawn again."""
    gold = reference(PARTS[name])
    gate, text = written(PARTS[name])
    tried = found = undecided = 0
    equivalent = []
    for mutant in draw(gate.text, 8 * count, f"{seed} {name}"):
        if tried == count:
            break
        try:
            proof = prove(gold, Side(mutant.text, True, gate.boxes), text, timeout=timeout)
        except YosysError:
            continue
        tried += 1
        found += not proof.proved and not proof.undecided
        undecided += proof.undecided
        if proof.proved:
            equivalent.append(mutant)
    return Planted(tried, found, undecided, tuple(equivalent))


def _shares(count: int) -> dict[str, int]:
    """How many of *count* errors each component gets: all of them as equally as it goes."""
    places = [count * place // len(MUTATED) for place in range(len(MUTATED) + 1)]
    shares = {name: places[k + 1] - places[k] for k, name in enumerate(MUTATED)}
    return {name: share for name, share in shares.items() if share}


def _ace(preset: str) -> tuple[type[RingDriver], Any, Callable[[], object]]:
    config = ace_preset(preset)
    ring = partial(AceRing, config, RingSettings(nodes=4, latency_cycles=16), skip_idle=False)
    return AceRing, config, lambda: ring().all_reduce(_arrays(512))


def _nic(preset: str) -> tuple[type[RingDriver], Any, Callable[[], object]]:
    config = nic_preset(preset)
    ring = partial(NicRing, config, RingSettings(nodes=4, latency_cycles=16), skip_idle=False)
    return NicRing, config, lambda: ring().all_reduce(_arrays(4096))


def _arrays(elements: int) -> list[NDArray[np.float32]]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(elements).astype(np.float32) for _ in range(4)]


ENGINES: dict[str, Callable[[], tuple[type[RingDriver], Any, Callable[[], object]]]] = {
    "ACE test": partial(_ace, "test"),
    "ACE duo": partial(_ace, "duo"),
    "smart NIC test": partial(_nic, "test"),
}
"""An engine in a ring of four: its driver, its configuration, an all-reduce."""


def _replay(name: str) -> tuple[int, int]:
    """Cycles recorded, and those in which the text under Verilator says something else."""
    driver, config, run = ENGINES[name]()
    text = emit(driver.component(config), name="ace").text
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        trace = record(driver, config, run, Path(folder))
        return len(trace.stimulus), Verilator(text, trace, Path(folder), "-O1").mismatches()


@dataclass
class Totals:
    """What all tasks came to."""

    components: int = 0
    proved: int = 0
    undecided: int = 0
    replayed: int = 0
    mismatches: int = 0
    mutants: int = 0
    found: int = 0
    equivalent: int = 0

    def add_proof(self, name: str, proof: Proof) -> None:
        """Count and print a proof."""
        verdict = "proved" if proof.proved else "undecided: " * proof.undecided + proof.why
        say(f"  {name:28}{proof.state:5} registers {proof.seconds:7.1f} s  {verdict}")
        self.components += 1
        self.proved += proof.proved
        self.undecided += proof.undecided

    def add_planted(self, name: str, planted: Planted) -> None:
        """Count and print what became of errors."""
        equal = len(planted.equivalent)
        say(f"  {name:28}{planted.found} of {planted.tried} errors found"
            + f", {equal} proved equivalent" * (equal > 0)
            + f", {planted.undecided} undecided" * (planted.undecided > 0))
        for mutant in planted.equivalent:
            say(f"    line {mutant.line}, equivalent: {mutant.before} -> {mutant.after}")
        self.mutants += planted.tried
        self.found += planted.found
        self.equivalent += equal
        self.undecided += planted.undecided

    def add_replay(self, name: str, replay: tuple[int, int]) -> None:
        """Count and print a replay."""
        cycles, wrong = replay
        say(f"  {name}: {cycles} cycles replayed, {wrong} differ")
        self.replayed += cycles >= CYCLES
        self.mismatches += wrong

    @property
    def good(self) -> bool:
        """Whether everything was shown."""
        proofs = self.proved == self.components >= 30 and not self.undecided
        errors = self.found + self.equivalent == self.mutants >= 40
        return proofs and errors and self.replayed >= 3 and not self.mismatches


def _tasks(
    options: argparse.Namespace, totals: Totals
) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...], Callable[[str, Any], None]]]:
    """Name, work, its arguments and who takes what comes of it; what takes longest comes first."""
    names = options.parts or list(COMPONENTS)
    names = sorted(names, key=lambda name: LONG.index(name) if name in LONG else len(LONG))
    for name in names:
        yield name, _proved, (name, options.timeout), totals.add_proof
    if has_verilator():
        for name in ENGINES:
            yield name, _replay, (name,), totals.add_replay
    else:
        say("Verilator is not installed: nothing is replayed")
    for name, count in _shares(options.mutants).items():
        yield name, _planted, (name, count, options.seed, options.timeout), totals.add_planted


def _start_worker() -> None:
    warnings.filterwarnings("ignore", category=UnusedElaboratable)  # parts behind boxes


def main(argv: Sequence[str]) -> int:
    """Print what was proved, found and replayed."""
    parser = argparse.ArgumentParser(prog="python -m bench equivalence", description=__doc__)
    parser.add_argument("parts", nargs="*", help="components to prove; all if none is named")
    parser.add_argument("--mutants", type=int, default=len(MUTATED),
                        help=f"how many errors to plant ({len(MUTATED)})")
    parser.add_argument("--seed", type=int, default=1, help="of the draws (1)")
    parser.add_argument("--timeout", type=float, default=300,
                        help="CPU seconds of a run of Yosys (300)")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
    options = parser.parse_args(argv)
    for name in options.parts:
        if name not in COMPONENTS:
            there = ", ".join(COMPONENTS)
            raise SystemExit(f"bench equivalence: no part {name!r}; there are: {there}")
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
    say(f"{time.perf_counter() - start:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU time")
    result("equivalence", **asdict(totals), verdict="ok" if totals.good else "short")
    return 0

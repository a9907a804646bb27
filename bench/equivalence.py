"""Every component proved equal to Amaranth's netlist, planted errors found, components replayed.

Components are those of `bench/parts.py`; whole engines are proved with their parts as black boxes.
Errors are single changes of the text, drawn by syntax and seed; one that the proof does not find is
proved to change nothing. What one engine of a ring saw and said during an all-reduce of the
compiled models is replayed by the text under Verilator, every output in every cycle.
"""

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.hdl import UnusedElaboratable
from numpy.typing import NDArray

from bench._replay import Verilator, record
from bench.parts import MULTIPLIERS, PARTS, WHOLE
from bench.result import result
from bench.text_mutants import draw
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
# What takes longest is left out: a difference there is found only after all other proofs of it.
MUTATED = [name for name in PARTS if name not in (*MULTIPLIERS, "ReduceALU", "Receive", "Port",
                                                  "NicReducePath", "PhaseFSM")]


def _proved(name: str, timeout: float) -> Proof:
    make = COMPONENTS[name]
    gate, text = written(make)
    narrow = name in MULTIPLIERS
    return prove(reference(make), gate, text, timeout=timeout, narrow=narrow)


def _mutants(count: int, seed: int, timeout: float) -> tuple[int, int, int]:
    """Mutants tried, found, and proved equivalent; what no tool reads is drawn again."""
    tried = found = equivalent = 0
    for place, name in enumerate(MUTATED):
        gold = reference(PARTS[name])
        gate, text = written(PARTS[name])
        # Shared out over all blocks, in the order in which they stand.
        left = count * (place + 1) // len(MUTATED) - count * place // len(MUTATED)
        for mutant in draw(gate.text, 8 * left, seed):
            if not left:
                break
            try:
                proof = prove(gold, Side(mutant.text, True, gate.boxes), text, timeout=timeout)
            except YosysError:
                continue
            left -= 1
            tried += 1
            found += not proof.proved and not proof.undecided
            equivalent += proof.proved
            if proof.proved:
                say(f"  {name} line {mutant.line}, equivalent: {mutant.before} -> {mutant.after}")
    return tried, found, equivalent


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


def main(argv: Sequence[str]) -> int:
    """Print what was proved, found and replayed."""
    parser = argparse.ArgumentParser(prog="python -m bench equivalence", description=__doc__)
    parser.add_argument("parts", nargs="*", help="components to prove; all if none is named")
    parser.add_argument("--mutants", type=int, default=63, help="how many errors to plant (63)")
    parser.add_argument("--seed", type=int, default=1, help="of the draws (1)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds of a proof (300)")
    options = parser.parse_args(argv)
    for name in options.parts:
        if name not in COMPONENTS:
            there = ", ".join(COMPONENTS)
            raise SystemExit(f"bench equivalence: no part {name!r}; there are: {there}")
    warnings.filterwarnings("ignore", category=UnusedElaboratable)  # parts behind boxes
    start = time.perf_counter()
    proofs = {}
    for name in options.parts or COMPONENTS:
        proof = proofs[name] = _proved(name, options.timeout)
        verdict = "proved" if proof.proved else "undecided" if proof.undecided else proof.why
        say(f"  {name:28}{proof.state:5} registers {proof.seconds:7.1f} s  {verdict}")
    tried, found, equivalent = _mutants(options.mutants, options.seed, options.timeout)
    replayed = mismatches = 0
    if has_verilator():
        for name in ENGINES:
            cycles, wrong = _replay(name)
            say(f"  {name}: {cycles} cycles replayed, {wrong} differ")
            replayed, mismatches = replayed + (cycles >= CYCLES), mismatches + wrong
    else:
        say("Verilator is not installed: nothing is replayed")
    say(f"{time.perf_counter() - start:.0f} s")
    proved = sum(proof.proved for proof in proofs.values())
    undecided = sum(proof.undecided for proof in proofs.values())
    good = proved == len(proofs) >= 30 and found + equivalent == tried >= 40
    result(
        "equivalence", components=len(proofs), proved=proved, undecided=undecided,
        replayed=replayed, mismatches=mismatches, mutants=tried, found=found, equivalent=equivalent,
        verdict="ok" if good and replayed >= 3 and not mismatches else "short",
    )
    return 0

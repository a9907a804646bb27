# SPDX-License-Identifier: Apache-2.0
"""Test accuracy with block floating point on the wire: all formats, five seeds, one run on RTL."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.result import result
from foldwire.console import print_table, say, step
from hw.bfp.format import PRESETS
from sim.hosts.surroundings import Surroundings
from sim.learning.accuracy import (
    CODECS,
    FormatResult,
    error_table,
    golden_all_reduce,
    nic_config,
    study,
    study_table,
)
from sim.learning.datasets import DATA_SETS, load_digits
from sim.learning.figures import study_figure
from sim.learning.training import train
from sim.rtl.smartnic.ring import NicRing

__all__ = ["main"]

WORKERS = 6
STEPS = 120
SEEDS = 5
RTL_WORKERS = 4
BAR_POINTS = 0.5
"""Accuracy that BFP16 may cost on average, in percentage points."""

Floats = npt.NDArray[np.float32]


def main(argv: Sequence[str]) -> int:
    """Train on all data sets, print tables, draw losses, and repeat one run on RTL."""
    parser = argparse.ArgumentParser(prog="python -m bench nic_accuracy", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"default: {SEEDS}")
    parser.add_argument("--rtl-steps", type=int, default=STEPS, help=f"default: {STEPS}")
    parser.add_argument("-o", "--output", type=Path, default=Path("build", "nic_accuracy"))
    options = parser.parse_args(list(argv))

    options.output.mkdir(parents=True, exist_ok=True)
    results: dict[str, list[FormatResult]] = {}
    for name, load in DATA_SETS.items():
        with step(f"training on {name}, {len(CODECS)} formats x {options.seeds} seeds") as progress:
            done = 0

            def count() -> None:
                nonlocal done
                done += 1
                progress(done / len(CODECS) / options.seeds)

            results[name] = study(
                load, workers=WORKERS, steps=STEPS, seeds=range(options.seeds), on_run=count
            )
        table = study_table(f"{name}: {WORKERS} workers, {STEPS} steps", results[name])
        table.write(options.output / f"{name}.csv")
        study_figure(
            options.output / f"{name}.svg",
            results[name],
            title=f"Training on {name} with compressed all-reduces, {options.seeds} seeds",
        )
        print_table(table)
    with step("error of one all-reduce of real gradients, by the number of hops"):
        errors = error_table(_gradients)
    errors.write(options.output / "errors.csv")
    print_table(errors)
    equal = _by_rtl(options.rtl_steps)
    say(f"tables and loss curves: {options.output}")

    by_codec = {name: {each.codec: each for each in found} for name, found in results.items()}
    drops = {
        (name, codec): 100 * (found["none"].accuracy - each.accuracy)
        for name, found in by_codec.items()
        for codec, each in found.items()
    }
    worst = max((key for key in drops if key[1] in PRESETS), key=lambda key: drops[key])
    digits = by_codec["digits"]
    agree = not any(each.diverged for found in results.values() for each in found)
    met = equal and agree and all(drops[name, "bfp16"] <= BAR_POINTS for name in results)
    result(
        "nic_accuracy",
        fp32=100 * digits["none"].accuracy,
        bfp16=100 * digits["bfp16"].accuracy,
        worst_drop=drops[worst],
        worst_of="/".join(worst),
        drop_bfp16=max(drops[name, "bfp16"] for name in results),
        seeds=options.seeds,
        rtl_equal=equal,
        verdict="ok" if met else "short",
    )
    return 0


def _gradients(workers: int) -> list[Floats]:
    """Gradients of as many workers in the first step on the digits, small shards for many."""
    kept: list[Floats] = []

    def keep(vectors: list[Floats]) -> list[Floats]:
        kept.extend(vectors)
        return vectors

    train(keep, load_digits(), workers=workers, steps=1, batch=32)
    return kept


def _by_rtl(steps: int) -> bool:
    """Train once on RTL and once with the golden model; whether every bit is the same."""
    config = nic_config("bfp16", base="test")
    digits = load_digits()
    with step("compiling the smart NIC (kept in the cache)"):
        settings = Surroundings(
            nodes=RTL_WORKERS, latency_cycles=50, write_latency_cycles=10, memory_bytes=1 << 15
        )
        ring = NicRing(config, settings)
    cycles = 0

    def reduce(vectors: list[Floats]) -> list[Floats]:
        nonlocal cycles
        sums = ring.all_reduce(vectors, compress=True)
        assert ring.last_run is not None
        cycles += ring.last_run.cycles
        return sums

    started = time.perf_counter()
    with step(f"training on the RTL of {RTL_WORKERS} NICs, bfp16, {steps} steps") as progress:
        rtl = train(
            reduce,
            digits,
            workers=RTL_WORKERS,
            steps=steps,
            on_step=lambda done: progress(done / steps),
        )
    wall_s = time.perf_counter() - started
    model = train(golden_all_reduce(config), digits, workers=RTL_WORKERS, steps=steps)
    pairs = zip(rtl.weights, model.weights, strict=True)
    equal = (
        rtl.losses == model.losses
        and rtl.diverged_at is None
        and all(np.array_equal(a.view(np.uint32), b.view(np.uint32)) for a, b in pairs)
    )
    say(
        f"on RTL: {steps} all-reduces in {cycles} cycles, {wall_s:.1f} s; accuracy "
        f"{100 * rtl.accuracy:.2f} %; losses and weights of all workers equal the golden model's "
        f"bit for bit: {'yes' if equal else 'NO'}"
    )
    return equal

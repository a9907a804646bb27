# SPDX-License-Identifier: Apache-2.0
"""CPU time and memory of cold processes, beside reference simulators, scaled to this machine."""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from bench._calibration import calibration_s, cpu_of
from bench._speed_run import CASES
from bench.result import result

REFERENCE = Path(__file__).with_name("astra_sim_speed.json")
LONG_S = 7.0
TARGET_RATIO = 10.0
TARGET_SHORT_S = 0.6
SHORTEST = "all-reduce ring 8 4/1"
NUMPY = "from foldwire.process import settle; settle(); import numpy"
"""A process that could do no less."""


def main(argv: Sequence[str]) -> int:
    """Time every case in processes of its own, the cases taking turns.

    Times of the references were taken on another machine. They are scaled by what a fixed program
    takes here, in turns with the cases, and takes there.
    """
    parser = argparse.ArgumentParser(prog="python -m bench sim_speed", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="of each case (default: 5)")
    options = parser.parse_args(argv)
    stored = json.loads(REFERENCE.read_text(encoding="utf-8"))
    _measure(next(iter(CASES)), "off")  # fills the cache of compiled code
    samples: dict[str, list[tuple[float, float]]] = {case: [] for case in CASES}
    output, calibrations = {}, [calibration_s()]
    for _ in range(options.runs):
        for case in CASES:
            output[case], cpu, memory = _measure(case, "off")
            samples[case].append((cpu, memory))
        calibrations.append(calibration_s())
    here = statistics.median(calibrations)
    print(f"a fixed program takes {min(calibrations):.2f}..{max(calibrations):.2f} s here")
    print(
        f"reference: CPU seconds of ASTRA-sim, {stored['machine']}; there the program takes "
        f"{stored['least_s']:.2f}..{stored['most_s']:.2f} s ({stored['calibrated']})"
    )
    print(
        f"\n{'case':34} {'reference':>13} {'cpu s':>7} {'spread':>13} {'MB':>5} {'messages':>10} "
        f"{'ratio':>7}  {'folded s':>8}"
    )
    long_ratios, ratios, slowest_short, peak = [], [], 0.0, 0.0
    for case in CASES:
        cpus = [sample[0] for sample in samples[case]]
        cpu, memory = statistics.median(cpus), max(sample[1] for sample in samples[case])
        folded = min(_measure(case, "auto")[1] for _ in range(2))
        shown, ratio = f"{'-':>13}", "-"
        known = stored["cases"].get(case)
        if known is not None:
            scaled = known["cpu_s"] * here / stored["calibration_s"]
            ratios.append(scaled / cpu)
            shown, ratio = f"{known['release']:>4} {scaled:8.3f}", f"{ratios[-1]:.1f}"
            if known["cpu_s"] >= LONG_S:
                long_ratios.append(ratios[-1])
            else:
                slowest_short = max(slowest_short, cpu)
        peak = max(peak, memory)
        print(
            f"{case:34} {shown} {cpu:7.3f} {f'{min(cpus):.3f}..{max(cpus):.3f}':>13} {memory:5.0f} "
            f"{output[case].split()[0]:>10} {ratio:>7}  {folded:8.3f}"
        )
    # As if the other machine were as slow as the derivation allows.
    least = min(long_ratios) * stored["calibration_s"] / stored["most_s"]
    ok = least >= TARGET_RATIO and slowest_short <= TARGET_SHORT_S
    print(f"slowest run whose reference needs less than {LONG_S:g} s: {slowest_short:.3f} s")
    over_numpy = _over_numpy(options.runs)
    print(f"{SHORTEST} takes {over_numpy:.2f} times the CPU of a process that loads numpy")
    result(
        "sim_speed",
        min_ratio=least,
        derived_ratio=min(long_ratios),
        median_ratio=statistics.median(ratios),
        peak_mb=peak,
        slowest_short_s=slowest_short,
        shortest_over_numpy=over_numpy,
        calibration_s=here,
        ref="stored",
        verdict="ok" if ok else "short",
    )
    return 0


def _over_numpy(runs: int) -> float:
    """CPU time of the shortest case over that of a process that only loads numpy, in turns."""
    commands = _command(SHORTEST, "off"), [sys.executable, "-c", NUMPY]
    cpus = [[cpu_of(command)[1] for command in commands] for _ in range(runs)]
    case, numpy = (statistics.median(each) for each in zip(*cpus))
    return float(case / numpy)


def _measure(case: str, fold: str) -> tuple[str, float, float]:
    """Output, CPU seconds and peak MB of one process."""
    return cpu_of(_command(case, fold))


def _command(case: str, fold: str) -> list[str]:
    return [sys.executable, "-m", "bench._speed_run", case, fold]

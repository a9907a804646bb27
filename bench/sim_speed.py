"""Cold-process time and memory of the runs on which reference simulators were timed."""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from bench._speed_run import CASES
from bench.result import result

LONG_S = 7.0
TARGET_RATIO = 10.0
TARGET_SHORT_S = 0.6


def main(argv: Sequence[str]) -> int:
    """Time every case in processes of its own, the cases taking turns."""
    parser = argparse.ArgumentParser(prog="python -m bench sim_speed", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="of each case (default: 5)")
    options = parser.parse_args(argv)
    for case in list(CASES)[:1]:
        _measure(case, "off")  # fills the cache of compiled code
    samples: dict[str, list[tuple[float, float, float]]] = {case: [] for case in CASES}
    output = {}
    for _ in range(options.runs):
        for case in CASES:
            *sample, output[case] = _measure(case, "off")
            samples[case].append(tuple(sample))  # type: ignore[arg-type]
    print("reference: seconds of ASTRA-sim, one core, measured on another small machine")
    print(
        f"{'case':34} {'reference':>13} {'wall s':>7} {'spread':>13} {'cpu s':>6} {'MB':>5} "
        f"{'messages':>10} {'ratio':>7}  {'folded s':>8}"
    )
    long_ratios, ratios, slowest_short, peak = [], [], 0.0, 0.0
    for case, (version, reference, _) in CASES.items():
        walls = [sample[0] for sample in samples[case]]
        wall = statistics.median(walls)
        cpu = statistics.median(sample[1] for sample in samples[case])
        memory = max(sample[2] for sample in samples[case])
        folded = min(_measure(case, "auto")[0] for _ in range(2))
        ratio = None if reference is None else reference / wall
        if ratio is not None:
            ratios.append(ratio)
            if reference >= LONG_S:
                long_ratios.append(ratio)
            else:
                slowest_short = max(slowest_short, wall)
        peak = max(peak, memory)
        print(
            f"{case:34} {version:>4} {'-' if reference is None else f'{reference:8.3f}':>8} "
            f"{wall:7.3f} {f'{min(walls):.3f}..{max(walls):.3f}':>13} {cpu:6.2f} {memory:5.0f} "
            f"{output[case].split()[0]:>10} {'-' if ratio is None else f'{ratio:7.1f}':>7}  "
            f"{folded:8.3f}"
        )
    ok = min(long_ratios) >= TARGET_RATIO and slowest_short <= TARGET_SHORT_S
    print(f"slowest run whose reference needs less than {LONG_S:g} s: {slowest_short:.3f} s")
    result(
        "sim_speed",
        min_ratio=min(long_ratios),
        median_ratio=statistics.median(ratios),
        peak_mb=peak,
        slowest_short_s=slowest_short,
        ref="stored",
        verdict="ok" if ok else "short",
    )
    return 0


def _measure(case: str, fold: str) -> tuple[float, float, float, str]:
    """Wall and CPU seconds, peak MB and output of one process."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "bench._speed_run", case, fold],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{case} failed")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output.strip()

# SPDX-License-Identifier: Apache-2.0
"""Cost per simulated message from 8 to 4096 NPUs, and folded to 100 000."""

import argparse
import math
import statistics
import time
from collections.abc import Sequence

from bench._reference import collective
from bench.result import result
from sim.collectives.plan import AlgorithmChoice
from sim.endpoint.kinds import IdealEndpoint
from sim.events.record import RunRecord
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.network.network import Network
from sim.units import MIB

SHAPES = [(8,), (8, 8), (8, 8, 8), (8, 8, 8, 8)]
FOLDED = [(8, 8, 8, 8), (32, 32, 32), (50, 50, 40)]
# Enough chunks for every run to simulate about as many messages, and for all links to be at work
# most of the time. While those of four dimensions fill one after the other a third of the messages
# wait, and each that waits is an event more: no cost of size, so the last row shows it apart.
MESSAGES = 3_500_000
LEAST_CHUNKS = 64
FILLING = ((8, 8, 8, 8), 15)
TARGET_FLATNESS = 1.2
TARGET_FOLDED_S = 10.0


def main(argv: Sequence[str]) -> int:
    """All-reduces on tori of one to four dimensions of 8, in turns; CPU time of this one thread."""
    parser = argparse.ArgumentParser(prog="python -m bench sim_scale", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="of each size (default: 5)")
    options = parser.parse_args(argv)
    _run((2, 2, 2), 8, "off")  # loads the compiled kernel
    cases = [*((shape, _splits(shape)) for shape in SHAPES), FILLING]
    times: dict[tuple[tuple[int, ...], int], list[float]] = {case: [] for case in cases}
    records: dict[tuple[tuple[int, ...], int], RunRecord] = {}
    for _ in range(options.runs):
        for case in cases:
            record, seconds = _run(*case, "off")
            records[case] = record
            times[case].append(1e9 * seconds / int(record.phases.messages.sum()))
    print(f"{'torus':>10} {'NPUs':>6} {'chunks':>7} {'messages':>10} {'ns/message':>11} "
          f"{'spread':>15} {'events/message':>15} {'ns/event':>9}")
    medians = []
    for shape, chunks in cases:
        record, took = records[shape, chunks], times[shape, chunks]
        medians.append(statistics.median(took))
        spread = f"{min(took):.0f}..{max(took):.0f}"
        messages = int(record.phases.messages.sum())
        assert record.events is not None  # a run of the event simulator
        per_message = record.events / messages
        print(
            f"{'x'.join(map(str, shape)):>10} {record.nodes:6} {chunks:7} {messages:10} "
            f"{medians[-1]:11.1f} {spread:>15} {per_message:15.2f} {medians[-1] / per_message:9.1f}"
        )
    print(f"\n{'torus':>10} {'NPUs':>6} {'folded s':>9} {'time us':>10} {'full run equal':>15}")
    for shape in FOLDED:
        begin = time.perf_counter()
        record, _ = _run(shape, 64, "on")
        seconds = time.perf_counter() - begin
        equal = "-"
        if shape in SHAPES:
            equal = "yes" if _run(shape, 64, "off")[0].end_fs == record.end_fs else "NO"
        print(
            f"{'x'.join(map(str, shape)):>10} {record.nodes:6} {seconds:9.2f} "
            f"{record.end_fs / 1e9:10.1f} {equal:>15}"
        )
    *medians, filling = medians
    flatness = max(medians) / min(medians)
    ok = flatness <= TARGET_FLATNESS and seconds <= TARGET_FOLDED_S and equal != "NO"
    result(
        "sim_scale",
        flatness=flatness,
        filling_ratio=filling / min(medians),
        folded_100k_s=seconds,
        verdict="ok" if ok else "short",
    )
    return 0


def _splits(shape: Sequence[int]) -> int:
    steps = 2 * sum(size - 1 for size in shape)
    nodes = math.prod(shape)
    return max(LEAST_CHUNKS, round(MESSAGES / (steps * nodes)))


def _run(shape: Sequence[int], splits: int, fold: str) -> tuple[RunRecord, float]:
    begin = time.process_time()
    network = Network.torus(shape, bandwidth_bytes_per_s=50e9, latency_s=500e-9)
    record = simulate(
        network,
        collective(64 * MIB),
        endpoint=IdealEndpoint(message_bytes=None),
        scheduler=Scheduler(splits=splits, concurrency=8),
        algorithms=AlgorithmChoice(style="dimension_ordered"),
        fold=fold,
    )
    return record, time.process_time() - begin

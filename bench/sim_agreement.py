# SPDX-License-Identifier: Apache-2.0
"""Times predicted for ASTRA-sim's systems against those it prints, with its simplifications."""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench._reference import (
    LINK,
    Description,
    all_reduce,
    record_and_job,
    record_of,
    release_1,
    release_2,
)
from bench._release_2 import Case, cases
from bench.result import result
from sim.collectives.plan import BY_DIMENSION
from sim.events.record import RunRecord
from sim.results.breakdown import break_down
from sim.units import GIB, MIB
from sim.workload.graph import Job

__all__ = ["main", "run_times"]

TARGET_PCT = 2.0
# Printed by ASTRA-sim 2.x (ns) with 50 GB/s links: topology, MiB, splits, active, unaware, aware.
RELEASE_2 = [
    ((8,), 1, 4, 1, 64440, 64440),
    ((8,), 16, 4, 1, 602908, 602908),
    ((8,), 64, 4, 1, 2326112, 2326112),
    ((4, 4), 1, 4, 1, 43040, 43040),
    ((4, 4), 16, 4, 1, 504644, 504644),
    ((4, 4), 64, 4, 1, 1981676, 1981676),
    ((4, 4, 4), 1, 4, 1, 43040, 43040),
    ((4, 4, 4), 16, 4, 1, 504644, 504644),
    ((4, 4, 4), 64, 4, 1, 1981676, 1981676),
    ((8,), 64, 4, 2, 1163056, 2187992),
    ((8,), 64, 64, 8, 344200, 2187656),
    ((4, 4), 64, 4, 2, 990838, 1805778),
    ((4, 4), 64, 64, 8, 270712, 1842043),
]
# Printed by ASTRA-sim 1.0 (cycles of 1 ns): topology, MiB or workload.
RELEASE_1 = [
    ((8,), 1, 26777),
    ((8,), 64, 1709409),
    ((4, 4), 1, 22933),
    ((4, 4), 64, 1465189),
    ((4, 4, 4), 1, 22933),
    ((4, 4, 4), 64, 1465189),
    ((4, 4), "resnet50", 4875201),
    ((4, 4, 4), "resnet50", 4875201),
    ((4, 4, 4), "dlrm", 172673),
    ((4, 4, 4), "transformer", 1155589689),
]


def main(argv: Sequence[str]) -> int:
    """Predict every printed result."""
    parser = argparse.ArgumentParser(prog="python -m bench sim_agreement", description=__doc__)
    parser.add_argument(
        "--examples", type=Path, metavar="FOLDER",
        help="a checkout of ASTRA-sim 2.x: its own example files are read where cases are of them",
    )
    options = parser.parse_args(argv)
    print(
        "Simplifications switched on: one direction, chunks stored and forwarded whole, one queue "
        "per dimension;\nunaware: links are never shared; 1.0: both links of a dimension bundled.\n"
        "ours: both directions, all dimensions at once, 64 KiB chunks, same links.\n"
    )
    print(f"{'case':46} {'printed ns':>13} {'predicted ns':>13} {'error %':>8} {'ours ns':>13}")
    errors = []
    for name, printed, passes, system, ours in _cases():
        predicted, own = (record_of(each, passes=passes).end_fs / 1e6 for each in (system, ours))
        error = 100 * (predicted / printed - 1)
        errors.append(abs(error))
        print(f"{name:46} {printed:13d} {predicted:13.0f} {error:8.2f} {own:13.0f}")
    times, exposed, excused = _from_files(options.examples)
    errors += times
    _show_options()
    worst, worst_exposed = max(errors), max(exposed)
    result(
        "sim_agreement",
        cases=len(errors) + excused,
        excused=excused,
        worst_pct=worst,
        exposed=len(exposed),
        worst_exposed_pct=worst_exposed,
        ref="stored",
        verdict="ok" if max(worst, worst_exposed) <= TARGET_PCT else "short",
    )
    return 0


def _from_files(examples: Path | None) -> tuple[list[float], list[float], int]:
    """Run 2.x cases from files in its formats; return errors of run times and of exposed
    communication, in %, and the number of cases that are excused from both."""
    print(
        "\n2.x, system, network and traces read from its files; exposed: run time less computing, "
        f"mean over NPUs\n{'case':70} {'run ns':>11} {'error %':>8} {'exposed ns':>11} "
        f"{'error %':>8}"
    )
    times, exposed, excused = [], [], 0
    for case in cases():
        record, job = _read_run(case, examples)
        waited = float(break_down(record, job).mean_fs[1])
        error = 100 * (record.end_fs / 1e6 / case.run_ns - 1)
        of_exposed = 100 * (waited / 1e6 / case.exposed_ns - 1)
        print(
            f"{case.name:70} {case.run_ns:11.0f} {error:8.2f} {case.exposed_ns:11.0f} "
            f"{of_exposed:8.2f}"
        )
        if case.excuse is not None:
            print(f"  excused: {case.excuse}")
            excused += 1
            continue
        times.append(abs(error))
        exposed.append(abs(of_exposed))
    return times, exposed, excused


def _read_run(case: Case, examples: Path | None = None) -> tuple[RunRecord, Job]:
    with tempfile.TemporaryDirectory() as folder:
        return record_and_job(case.write(Path(folder), examples))


def run_times() -> Iterator[tuple[float, float]]:
    """Printed and predicted nanoseconds of every case that is not excused."""
    for _, printed, passes, system, _ in _cases():
        yield printed, record_of(system, passes=passes).end_fs / 1e6
    for case in cases():
        if case.excuse is None:
            yield case.run_ns, _read_run(case)[0].end_fs / 1e6


def _cases() -> Iterator[tuple[str, int, int, Description, Description]]:
    """Name, printed time, passes, the system with its simplifications, and the same links of ours.
    """
    for shape, size, splits, active, unaware, aware in RELEASE_2:
        work = all_reduce(size * MIB)
        for mode, printed in (("unaware", unaware), ("aware", aware)):
            name = f"2.x {_name(shape)} {size} MiB, {splits} splits, {active} active, {mode}"
            system = release_2(shape, work, splits=splits, active=active, aware=mode == "aware")
            yield name, printed, 1, system, _ours(shape, (50,) * 3, 500e-9, work)
    for shape, what, printed in RELEASE_1:
        alone = isinstance(what, int)
        work = all_reduce(what * MIB) if isinstance(what, int) else {"shipped": what}
        label = f"{what} MiB" if alone else str(what)
        ours, passes = _ours(shape, (32, 16, 16), 1e-9, work), 1 if alone else 2
        yield f"1.0 {_name(shape)} {label}", printed, passes, release_1(shape, work), ours


def _ours(
    shape: Sequence[int], rates: Sequence[int], latency_s: float, workload: Description
) -> Description:
    link = {"kind": "ring", "latency_s": latency_s}
    return {
        "dimension": [
            {**link, "size": size, "bandwidth_bytes_per_s": rate * GIB}
            for size, rate in zip(shape, rates)
        ],
        "scheduler": {"chunk_bytes": 65536, "concurrency": 8},
        "workload": workload,
    }


def _show_options() -> None:
    """Print the effect of each simplification on one case."""
    job = all_reduce(64 * MIB)
    print("\neffect of the options, 4x4, 64 MiB:")
    two: dict[str, Any] = {"splits": 4, "active": 2}
    rows = [
        ("2.x, all-gather the other way round", release_2((4, 4), job, **two), "on"),
        ("", release_2((4, 4), job, **two, gather_backwards=False), "off"),
        ("2.x, links shared", release_2((4, 4), job, **two), "on"),
        ("", release_2((4, 4), job, **two, aware=False), "off"),
        ("1.0, links bundled", release_1((4, 4, 4), job), "on"),
        ("", release_1((4, 4, 4), job, bundled=False), "off"),
    ]
    for name, system, state in rows:
        print(f"  {name:40} {state:3} {record_of(system).end_fs / 1e6:12.0f} ns")
    for style in BY_DIMENSION:
        ours = _ours((4, 4), (50, 50), 500e-9, job) | {"algorithm": {"style": style}}
        print(f"  ours, style {style:29} {record_of(ours).end_fs / 1e6:16.0f} ns")
    bound = 2 * 15 / 16 * 64 * MIB / (4 * LINK) * 1e9
    print(f"  bound of the links {bound:39.0f} ns")


def _name(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) if len(shape) > 1 else f"ring {shape[0]}"

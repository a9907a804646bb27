# SPDX-License-Identifier: Apache-2.0
"""The demonstration's look at a whole system: one training job, five kinds of endpoint."""

from collections.abc import Sequence
from dataclasses import dataclass

from gen.table import Column, Table
from sim.results.breakdown import Breakdown
from sim.run import run as run_system
from sim.units import FS_PER_S

__all__ = ["ENDPOINTS", "EndpointRun", "endpoints_table", "run_endpoints"]

ENDPOINTS = {
    "baseline_no_overlap": "NPU, communication after backward",
    "baseline_comm_opt": "NPU, 6 cores and 450 GB/s to communication",
    "baseline_comp_opt": "NPU, 2 cores and 128 GB/s to communication",
    "ace": "ACE engine, 128 GB/s",
    "ideal": "ideal",
}


@dataclass(frozen=True, kw_only=True)
class EndpointRun:
    """A run of the job with one kind of endpoint."""

    kind: str
    result: Breakdown


def run_endpoints(endpoints: Sequence[str] = tuple(ENDPOINTS)) -> list[EndpointRun]:
    """Two iterations of the public ResNet-50 workload on the 4 x 4 x 4 torus of the ACE papers."""
    runs = []
    for kind in endpoints:
        done = run_system(
            {
                "topology": {"kind": "hierarchical_torus", "shape": [4, 4, 4]},
                "endpoint": {"kind": kind},
                "algorithm": {"style": "enhanced"},
                "workload": {"shipped": "resnet50"},
                "run": {"passes": 2},
            }
        )
        runs.append(EndpointRun(kind=kind, result=done.breakdown))
    return runs


def endpoints_table(runs: Sequence[EndpointRun]) -> Table:
    """One row per endpoint; speed relative to the fastest baseline."""
    table = Table(
        "ResNet-50 on 64 NPUs, by endpoint",
        [
            Column("endpoint", "collectives run on"),
            Column("compute_s", "compute", "ms", 3),
            Column("exposed_s", "exposed communication", "ms", 3),
            Column("time_s", "two iterations", "ms", 3),
            Column("speed", "speed over the best baseline", "", 3),
        ],
        note="A 4 x 4 x 4 torus with 200 GB/s in packages and 25 GB/s between them; compute times "
        "of the public workload file.",
    )
    best = min(run.result.run_fs for run in runs if run.kind.startswith("baseline"))
    for run in runs:
        compute, exposed = run.result.mean_fs[:2]
        table.add(
            ENDPOINTS[run.kind],
            compute / FS_PER_S,
            exposed / FS_PER_S,
            run.result.run_fs / FS_PER_S,
            best / run.result.run_fs,
        )
    return table

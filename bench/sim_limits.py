# SPDX-License-Identifier: Apache-2.0
"""Collectives against their lower bounds, on every topology, with an ideal endpoint.

A run that is faster than its bound is an error of the program and ends the bench. Every case is
run under a few dispatchers; the best one counts and is named.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from bench.result import result
from foldwire.console import print_table, step
from gen.table import Column, Table
from sim.collectives.plan import AlgorithmChoice
from sim.describe.topologies import named_dimensions
from sim.endpoint.kinds import IdealEndpoint
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.limits.network import call_bound
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.units import FS_PER_S, GB
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

__all__ = ["Case", "cases", "links", "main"]

CHUNK = 1 << 18
SCHEDULERS = {
    "8 a queue": Scheduler(chunk_bytes=CHUNK, concurrency=8),
    "128 a queue": Scheduler(chunk_bytes=CHUNK, concurrency=128),
    "16 admitted": Scheduler(chunk_bytes=CHUNK, concurrency=None, threshold=16, issue=16),
    "64 admitted": Scheduler(chunk_bytes=CHUNK, concurrency=None, threshold=64, issue=16),
}
ENDPOINT = IdealEndpoint(message_bytes=None)  # many small messages would only take longer
TORUS_TARGET, TARGET = 95.0, 97.0
FOUR_PHASES = AlgorithmChoice(style="enhanced")


@dataclass(frozen=True)
class Case:
    """A topology; ``rotated``: its all-reduce takes several orders of dimensions."""

    name: str
    dimensions: tuple[Dimension, ...]
    rotated: bool = False


def links(kind: str, size: int, gb: float = 25, ns: float = 200, lanes: int = 1) -> Dimension:
    return Dimension(
        kind=kind,
        size=size,
        bandwidth_bytes_per_s=gb * GB,
        latency_s=ns * 1e-9,
        lanes=lanes,
        efficiency=0.94,
    )


def _named(kind: str, *shape: int) -> tuple[Dimension, ...]:
    return tuple(Dimension(**fields) for fields in named_dimensions(kind, shape))


def cases() -> list[Case]:
    ring = links("ring", 4)
    package = links("ring", 4, 200, 90)
    return [
        Case("ring 8", (links("ring", 8),)),
        Case("ring 9", (links("ring", 9),)),
        Case("ring 64", (links("ring", 64),)),
        Case("torus 4x4", (ring,) * 2, rotated=True),
        Case("torus 5x3", (links("ring", 5), links("ring", 3)), rotated=True),
        Case("torus 4x4x4", (ring,) * 3, rotated=True),
        Case("torus 8x8x8", (links("ring", 8),) * 3, rotated=True),
        Case("torus 4x4x4, 400/50/50 GB/s", (package, ring, ring), rotated=True),
        Case("switch 16, 6 lanes", (links("switch", 16, lanes=6),)),
        Case("switch 12", (links("switch", 12),)),
        Case("switch 64", (links("switch", 64),)),
        Case("fully connected 8", (links("fully_connected", 8),)),
        Case("ring 4 x switch 16", (package, links("switch", 16, lanes=4)), rotated=True),
        Case("DGX-2", _named("dgx2", 16)),
        Case("fat tree 64", _named("fat_tree", 64)),
    ]


def _job(call: CollectiveCall) -> Job:
    graph = GraphBuilder()
    graph.add(call.kind.value, TaskKind.COLLECTIVE, call=call)
    return Job(name=call.kind.value, graphs=(graph.graph(),))


def _seconds(network: Network, job: Job, scheduler: Scheduler, style: AlgorithmChoice) -> float:
    record = simulate(network, job, endpoint=ENDPOINT, scheduler=scheduler, algorithms=style)
    return record.end_fs / FS_PER_S


def main(argv: Sequence[str]) -> int:
    """``--size MB`` of every collective (256)."""
    parser = argparse.ArgumentParser(prog="python -m bench sim_limits", description=__doc__)
    parser.add_argument("--size", type=int, default=256, help="MB of each collective")
    size = parser.parse_args(list(argv)).size << 20
    table = Table(
        f"{size >> 20} MB, ideal endpoint: share of the closed-form bound",
        (
            Column("topology"),
            Column("collective"),
            Column("bound_s", "bound", "µs", 1),
            Column("set by"),
            Column("time_s", "time", "µs", 1),
            Column("reached_percent", "reached", "%", 2),
            Column("target_percent", "target", "%", 0),
            Column("dispatcher"),
            Column("four_phases_percent", "four phases", "%", 2),
        ),
        note="Four phases: reduce-scatter in the first dimension, all-reduce in the others, "
        "all-gather in the first, under the best dispatcher.",
    )
    reached, met = [], True
    topologies = cases()
    with step("collectives on all topologies") as progress:
        for number, case in enumerate(topologies):
            network = Network(case.dimensions)
            for kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_TO_ALL):
                call = CollectiveCall(kind=kind, size_bytes=size)
                job, bound = _job(call), call_bound(network, call)
                times = {
                    name: _seconds(network, job, scheduler, AlgorithmChoice())
                    for name, scheduler in SCHEDULERS.items()
                }
                best = min(times, key=lambda name: times[name])
                rotated = case.rotated and kind is CollectiveKind.ALL_REDUCE
                phases = None
                if rotated:
                    phases = max(
                        bound.percent(_seconds(network, job, scheduler, FOUR_PHASES))
                        for scheduler in SCHEDULERS.values()
                    )
                percent = bound.percent(times[best])
                target = TORUS_TARGET if rotated else TARGET
                reached.append(percent)
                met = met and percent >= target
                table.add(
                    case.name, kind.value, bound.seconds, bound.resource,
                    times[best], percent, target, best, phases,
                )
            progress((number + 1) / len(topologies))
    print_table(table)
    result(
        "sim_limits",
        verdict="ok" if met else "short",
        min_pct=min(reached),
        max_pct=max(reached),
    )
    return 0

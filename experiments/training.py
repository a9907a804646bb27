# SPDX-License-Identifier: Apache-2.0
"""Quantities of training runs that the papers plot: compute, exposed communication, network use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.figure import Bars
from experiments.systems import EFFICIENCY
from sim.results.breakdown import Breakdown
from sim.units import FS_PER_S
from sim.workload.graph import TaskKind, TrainingPhase

__all__ = ["Outcome", "outcome", "time_bars", "union"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A training run, times in milliseconds, mean over NPUs.

    ``network_bytes_per_s`` is what a node sends, headers included, while collectives are under way;
    ``active_forward`` and ``active_backward`` the shares of the compute time of forward and
    backward passes during which at least one collective was under way; ``active_s`` all the time
    during which one was.
    """

    compute_ms: float
    exposed_ms: float
    total_ms: float
    network_bytes_per_s: float
    active_forward: float
    active_backward: float
    active_s: float


def union(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Intervals that overlap or touch, merged."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _overlap(one: Sequence[tuple[int, int]], two: Sequence[tuple[int, int]]) -> int:
    return sum(max(0, min(b, d) - max(a, c)) for a, b in one for c, d in two)


def outcome(run: Breakdown) -> Outcome:
    """The first row of the record stands for all; in these runs every NPU does the same."""
    record, graph = run.record, run.job.graphs[int(run.record.graph_of[0])]
    spans: dict[object, list[tuple[int, int]]] = {}
    for number, task in enumerate(graph.tasks):
        span = int(record.task_start_fs[0, number]), int(record.task_end_fs[0, number])
        if task.kind is TaskKind.COLLECTIVE:
            spans.setdefault("collectives", []).append(span)
        elif task.kind is TaskKind.COMPUTE:
            forward = task.phase is TrainingPhase.FORWARD
            spans.setdefault("forward" if forward else "backward", []).append(span)
    active = union(spans.get("collectives", []))
    shares = {}
    for part in ("forward", "backward"):
        there = union(spans.get(part, []))
        length = sum(b - a for a, b in there)
        shares[part] = _overlap(active, there) / length if length else 0.0
    active_s = sum(b - a for a, b in active) / FS_PER_S
    leaving = [i for i, link in enumerate(record.links) if link.source < record.nodes]
    sent = float(record.link_bytes[leaving].sum()) / (1 if record.folded else record.nodes)
    compute, exposed, _, _ = run.mean_fs / FS_PER_S * 1e3
    return Outcome(
        compute_ms=float(compute),
        exposed_ms=float(exposed),
        total_ms=run.run_fs / FS_PER_S * 1e3,
        network_bytes_per_s=sent / EFFICIENCY / active_s if active_s else 0.0,
        active_forward=shares["forward"],
        active_backward=shares["backward"],
        active_s=active_s,
    )


def time_bars(title: str, outcomes: Mapping[str, Mapping[str, Outcome]]) -> Bars:
    """Compute and exposed communication of two iterations; ``outcomes[group][bar]``."""
    groups = {
        group: {
            name: {"compute": each.compute_ms, "exposed communication": each.exposed_ms}
            for name, each in bars.items()
        }
        for group, bars in outcomes.items()
    }
    return Bars(title=title, x="", y="time of two iterations (ms)", groups=groups)

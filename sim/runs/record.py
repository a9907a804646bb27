# SPDX-License-Identifier: Apache-2.0
"""Turns a run of engines, cycle models or RTL, into a record like that of an event simulation.

Known from outside the engines are the tasks and the traffic of links and memory; cycle models of
ACE count the work of their parts, too. Chunks and messages inside an engine are not known, so a
record of engines has none.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.link.packet import FLIT_BYTES
from sim.events.record import RunRecord
from sim.network.link import Link
from sim.network.network import Network
from sim.runs.job import JobPlan
from sim.runs.scripts import EngineRun
from sim.units import FS_PER_S, cycles_to_fs, fs_per_byte
from sim.workload.graph import Job

__all__ = ["record_of"]


def record_of(
    job: Job,
    plan: JobPlan,
    run: EngineRun,
    network: Network,
    *,
    clock_hz: float,
    bus_bytes: int,
    nodes: Sequence[int],
    crossed: Callable[[int, int], Sequence[int]] | None = None,
    network_reduces: bool = False,
    wire_factor: float = 1.0,
    folded: bool = False,
) -> tuple[RunRecord, Job]:
    """The record, and the job with all waits of its hosts.

    Parameters
    ----------
    network : Network
        The ring uses its links; every engine's links are found by the ranks at their ends.
    bus_bytes : int
        Bytes of a link per cycle.
    nodes : sequence of int
        The node of each rank.
    crossed : callable or None
        The links of the network that the traffic of a rank's port crosses; None: those of a ring.
    network_reduces : bool
        Switches reduce, which bounds must know.
    wire_factor : float
        Size of data on the links over that of the job.
    folded : bool
        The run is that of rank 0, which stands for all.
    """
    job, plan = _as_run(job, plan)
    npus = network.nodes
    # Scripts are indexed by rank, rows by node.
    rank_of = np.zeros(1, np.int64) if folded else np.argsort(nodes)
    times = [plan.times(rank, run.steps[rank], begin=run.begin) for rank in rank_of]
    graph_of = np.array(plan.graph_of, np.int32)[rank_of]
    start_fs, end_fs = (
        np.where(cycles < 0, -1, cycles_to_fs(cycles, clock_hz))
        for cycles in (
            np.stack([each.start for each in times]),
            np.stack([each.end for each in times]),
        )
    )
    calls = [
        (graph, number)
        for graph, each in enumerate(job.graphs)
        for number, task in enumerate(each.tasks)
        if task.call is not None
    ]
    end = int(end_fs.max(initial=0))
    links = network.links()
    of_port = crossed or (lambda rank, port: _crossed(nodes, rank, port, links))
    bucket_cycles = max((each.bucket_cycles for each in run.links.values()), default=0)
    bucket = int(cycles_to_fs(bucket_cycles, clock_hz))
    sent, busy, series = _links(
        run, links, network, of_port, clock_hz, bus_bytes, bucket_cycles,
        -(-end // bucket) if bucket else 0,
    )
    row_of = [0] if folded else nodes
    units = _units(run, row_of, clock_hz, bus_bytes, bucket_cycles, series.shape[1])
    if folded:
        own = [number for number, each in enumerate(links) if each.source == nodes[0]]
        links, sent, busy = [links[number] for number in own], sent[own], busy[own]
    record = RunRecord(
        nodes=npus,
        folded=folded,
        end_fs=end,
        wall_s=run.wall_s,
        task_ready_fs=_ready(job, graph_of, start_fs, end_fs),
        task_start_fs=start_fs,
        task_end_fs=end_fs,
        graph_of=graph_of,
        calls=calls,
        links=links,
        link_bytes=sent,
        link_busy_fs=busy,
        unit_names=units.names,
        unit_busy_fs=units.busy_fs,
        unit_bytes=units.moved,
        unit_servers=units.servers,
        unit_series_fs=units.series_fs,
        engine_busy_fs=np.array([_busy(calls, *row) for row in zip(graph_of, start_fs, end_fs)]),
        bucket_fs=bucket,
        link_series_fs=series,
        spans=np.zeros(0, np.dtype([("kind", np.int8)])),
        counts=dict(run.counts),
        network_reduces=network_reduces,
        wire_factor=wire_factor,
    )
    return record, job


def _as_run(job: Job, plan: JobPlan) -> tuple[Job, JobPlan]:
    """The job as its hosts ran it, and the plan with updates in their collectives.

    A host's work between the end of a wait and the next task is the update of the collectives that
    it waited for, which a record counts to them.
    """
    graphs, all_spans = [], []
    for graph, script, planned in zip(job.graphs, plan.scripts, plan.spans):
        starts = {first for first, _ in planned}
        spans = []
        for task, (first, last) in zip(graph.tasks, planned):
            follows = 0 <= last < len(script) - 1 and last + 1 not in starts
            spans.append((first, last + (task.call is not None and follows)))
        tasks = tuple(
            task
            if task.call is None or spans[number] != planned[number]
            else replace(task, duration_s=0.0)
            for number, task in enumerate(graph.tasks)
        )
        graphs.append(replace(graph, tasks=tasks))
        all_spans.append(tuple(spans))
    made = replace(job, graphs=tuple(graphs), graph_of=plan.graph_of)
    return made, replace(plan, spans=tuple(all_spans))


def _ready(job: Job, graph_of: Any, start_fs: Any, end_fs: Any) -> NDArray[np.int64]:
    """Time at which all that a task waits for had ended.

    A collective starts with its command, which comes after all that it waits for.
    """
    ready = np.zeros_like(start_fs)
    for graph, each in enumerate(job.graphs):
        rows = np.flatnonzero(graph_of == graph)
        for number, task in enumerate(each.tasks):
            if task.after:
                ready[rows, number] = end_fs[np.ix_(rows, np.array(task.after))].max(axis=1)
    limited: NDArray[np.int64] = np.minimum(ready, np.maximum(start_fs, 0))
    return limited


def _busy(calls: Sequence[tuple[int, int]], graph: int, start_fs: Any, end_fs: Any) -> int:
    """Time in which an NPU has at least one collective in progress."""
    busy = reached = 0
    chosen = [task for number, task in calls if number == graph and start_fs[task] >= 0]
    for task in sorted(chosen, key=lambda each: int(start_fs[each])):
        busy += max(0, int(end_fs[task]) - max(reached, int(start_fs[task])))
        reached = max(reached, int(end_fs[task]))
    return busy


def _links(
    run: EngineRun,
    links: Sequence[Link],
    network: Network,
    crossed: Callable[[int, int], Sequence[int]],
    clock_hz: float,
    bus_bytes: int,
    bucket_cycles: int,
    buckets: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Bytes and busy time of every link, and busy time per dimension and bucket.

    A link is busy while it carries a beat at its own rate.
    """
    sent = np.zeros(len(links), np.int64)
    busy = np.zeros(len(links), np.int64)
    bucket_fs = int(cycles_to_fs(bucket_cycles, clock_hz))
    series = np.zeros((len(network.dimensions), buckets), np.int64)
    first = run.begin // bucket_cycles if bucket_cycles else 0
    for (rank, port), activity in run.links.items():
        for index in crossed(rank, port) if activity.beats else ():
            # Rates of links are of payload; beats of headers are counted, too.
            share = network.dimensions[links[index].dimension].efficiency
            beat_fs = fs_per_byte(links[index].bytes_per_s) * share * bus_bytes
            sent[index] += activity.flits * FLIT_BYTES
            busy[index] += round(activity.beats * beat_fs)
            if buckets:
                beats = activity.beats_per_bucket[first : first + buckets]
                series[links[index].dimension, : len(beats)] += np.round(
                    np.minimum(beats * beat_fs, bucket_fs)
                ).astype(np.int64)
    return sent, busy, series


def _crossed(nodes: Sequence[int], rank: int, port: int, links: Sequence[Link]) -> list[int]:
    """The links of the network that a port's traffic to the next or previous rank crosses: even
    ports lead to the next rank, odd ones to the previous."""
    ends = nodes[rank], nodes[(rank + (-1 if port % 2 else 1)) % len(nodes)]
    direct = [index for index, each in enumerate(links) if (each.source, each.target) == ends]
    if len(direct) > 1:  # a ring of two has a link for each way round
        return [direct[port % len(direct)]]
    if direct:
        return direct
    # Over a switch: up from one rank, down to the other.
    return [
        index
        for index, each in enumerate(links)
        if each.source == ends[0] or (each.target == ends[1] and each.source >= len(nodes))
    ]


class _Units(NamedTuple):
    """Parts of the engines; arrays have a row for each."""

    names: list[str]
    servers: tuple[int, ...]
    busy_fs: NDArray[np.int64]
    moved: NDArray[np.int64]
    series_fs: NDArray[np.int64] | None


def _units(
    run: EngineRun, nodes: Sequence[int], clock_hz: float, bus_bytes: int, bucket_cycles: int,
    buckets: int,
) -> _Units:
    """Work of the parts that cycle models count, and of the memory ports of RTL ranks."""
    memory: tuple[str, ...] = ("memory read", "memory write") if run.memory else ()
    names = [*run.units, *(name for name in memory if name not in run.units)]
    servers = dict.fromkeys(memory, 1 + max((port for _, port in run.memory), default=0))
    cycles = np.zeros((len(names), len(nodes)), np.int64)
    moved = np.zeros((len(names), len(nodes)), np.int64)
    series = np.zeros((len(names), buckets))
    first = run.begin // bucket_cycles if bucket_cycles else 0
    for row, name in enumerate(names):
        unit = run.units.get(name)
        if unit is not None:
            servers[name] = unit.servers
            for rank, node in enumerate(nodes):
                cycles[row, node] += unit.cycles[rank]
                moved[row, node] += unit.beats[rank] * bus_bytes
            series[row] += unit.per_bucket(first * bucket_cycles, bucket_cycles, buckets)
        for (rank, _), port in run.memory.items() if name in memory else ():
            read = name == memory[0]
            count = port.read_bytes if read else port.written_bytes
            carried = port.read_bytes_per_bucket if read else port.written_bytes_per_bucket
            cycles[row, nodes[rank]] += math.ceil(count / bus_bytes)
            moved[row, nodes[rank]] += count
            chosen = carried[first : first + buckets]
            series[row, : len(chosen)] += chosen / bus_bytes
    busy_fs = cycles_to_fs(cycles, clock_hz)
    over_time = np.round(series / clock_hz * FS_PER_S).astype(np.int64) if buckets else None
    return _Units(names, tuple(servers[name] for name in names), busy_fs, moved, over_time)

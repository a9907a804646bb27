# SPDX-License-Identifier: Apache-2.0
"""Speed of the collectives of a run, compared with the limits of their network."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from gen.table import Cell, Column, Table
from sim.collectives.in_switch import PULL_WHOLE
from sim.endpoint.rates import EndpointRates
from sim.events.record import RunRecord
from sim.limits.bounds import LATENCY, Bound, bound_of
from sim.limits.network import call_bound
from sim.network.network import Network
from sim.results.held import HeldBy, held
from sim.units import FS_PER_S, seconds_to_fs
from sim.workload.graph import CollectiveCall, CollectiveKind, Job

__all__ = ["NEAR", "bandwidths", "held_note", "limits_table", "switch_bound"]

NEAR = 0.9
"""Share of the bound below which the reason is named."""
INJECTION = "injection"
"""Name of the bound by all links out of NPUs, or into them."""


@dataclass(frozen=True)
class _Done:
    """A collective that ended: its number among the calls, the graph that calls it, its bound, and
    when it was in progress."""

    number: int
    graph: int
    call: CollectiveCall
    bound: Bound
    start_fs: int
    end_fs: int

    @property
    def seconds(self) -> float:
        return (self.end_fs - self.start_fs) / FS_PER_S


def limits_table(record: RunRecord, job: Job, network: Network) -> Table:
    """One row for all collectives together, and one per different collective.

    Each has its lower bound, the resource that sets it, and the share of the possible speed that
    was reached. The bound of all together is the sum of their needs of one resource, and their time
    is that in which at least one of them is in progress.

    Raises
    ------
    BoundViolation
        A collective was faster than possible: the simulation or the bound is wrong.
    """
    known = record.call_phases is not None
    table = Table(
        "Limits",
        [
            Column("collective"),
            Column("size_bytes", "size", "B"),
            Column("dimensions"),
            Column("calls"),
            Column("bound_s", "lower bound", "µs", 3),
            Column("set_by"),
            Column("shortest_s", "shortest", "µs", 3),
            Column("mean_s", "mean", "µs", 3),
            Column("algbw_bytes_per_s", "algbw", "GB/s", 3),
            Column("busbw_bytes_per_s", "busbw", "GB/s", 3),
            *([Column("held_by", "held by")] if known else []),
            Column("best_percent", "reached at best", "%", 1),
            Column("mean_percent", "reached on average", "%", 1),
        ],
        note="Bounds are of the network and of the endpoints' memory, bus and adders; those of a "
        "collective are of it alone, though others may run at the same time. Times are from the "
        "first issue to the last end, without the update that follows. algbw and busbw: those of "
        "nccl-tests, of the mean time."
        + (f" Held by: what kept it below {100 * NEAR:.0f} %." if known else "")
        + ("" if record.shared_links else " Links are not shared, which no network can do."),
    )
    done = list(_done(record, job, network))
    if len(done) > 1:
        seconds, resource = _together(done)
        busy = _in_progress(done)
        share = 100 * seconds / busy if busy else None
        table.add(
            "all together", sum(each.call.size_bytes for each in done), None, len(done),
            seconds, resource, busy, busy, None, None,
            *([_held_by(record, done)] if known else []), share, share,
        )
    seen = network if job.shape is None else network.split(job.shape)
    groups: dict[tuple[object, ...], list[_Done]] = {}
    for each in done:
        key = (each.call.kind, each.call.size_bytes, each.call.dimensions)
        groups.setdefault(key, []).append(each)
    for same in groups.values():
        call, bound = same[0].call, same[0].bound
        times = [each.seconds for each in same]
        mean = sum(times) / len(times)
        held_by = _held_by(record, done) if len(groups) == 1 else _own_held_by(record, same)
        table.add(
            call.kind.value,
            call.size_bytes,
            "all" if call.dimensions is None else ", ".join(map(str, call.dimensions)),
            len(same),
            bound.seconds,
            bound.resource,
            min(times),
            mean,
            *_bandwidths(call, seen, mean),
            *([held_by] if known else []),
            *(_percent(bound, time, record) for time in (min(times), mean)),
        )
    return table


def held_note(record: RunRecord, job: Job, network: Network) -> list[str]:
    """Notes in the summary of a run whose collectives together stayed well below their bound."""
    done = list(_done(record, job, network))
    share, _ = _reached(done)
    if record.call_phases is None or not done or share >= NEAR or not record.shared_links:
        return []
    found = _held(record, done)
    by = "nothing that was recorded explains it" if found is None else f"held by {found}"
    return [f"collectives: {100 * share:.3g} % of their bound, {by}"]


def switch_bound(
    network: Network, call: CollectiveCall, *, own_travels: bool,
    endpoint: EndpointRates | None = None,
) -> Bound:
    """The bound of a call on switches that reduce.

    Where own operands travel, a rank that pulls the n-th part of a vector sends all of its operands
    and the sums of that part; if endpoints send less among each other, they do without switches.
    """
    bound = call_bound(network, call, endpoint=endpoint, network_reduces=True)
    if call.kind is not CollectiveKind.ALL_REDUCE or not own_travels:
        return bound
    terms = [
        replace(term, seconds=term.seconds * (1 + 1 / bound.nodes))
        if term.resource == INJECTION else term
        for term in bound.terms
    ]
    pulled = bound_of(call.kind, call.size_bytes, bound.nodes, terms)
    without = call_bound(network, call, endpoint=endpoint)
    return min(pulled, without, key=lambda each: each.seconds)


def _held_by(record: RunRecord, done: Sequence[_Done]) -> str | None:
    share, _ = _reached(done)
    found = _held(record, done) if done and share < NEAR else None
    return None if found is None else found.by


def _own_held_by(record: RunRecord, same: Sequence[_Done]) -> str | None:
    """Likewise for equal collectives, which shared the network with others."""
    lasted_s = sum(each.seconds for each in same)
    share = sum(each.bound.seconds for each in same) / lasted_s if lasted_s else 1.0
    if share >= NEAR:
        return None
    calls = [each.number for each in same]
    found = held(record, share, lasted_s * FS_PER_S, calls=calls)
    return None if found is None else found.by


def _held(record: RunRecord, done: Sequence[_Done]) -> HeldBy | None:
    share, busy_s = _reached(done)
    return held(record, share, busy_s * FS_PER_S)


def _reached(done: Sequence[_Done]) -> tuple[float, float]:
    """Share of the bound of all together, and the time in which at least one is in progress."""
    if len(done) == 1:
        seconds, busy = done[0].bound.seconds, done[0].seconds
    else:
        (seconds, _), busy = _together(done), _in_progress(done)
    return (seconds / busy if busy else 1.0), busy


def bandwidths(record: RunRecord, job: Job, network: Network) -> dict[str, float]:
    """Metrics of a run whose collectives are all alike: algorithm and bus bandwidth, of the mean
    time; nothing of other runs."""
    done = list(_done(record, job, network))
    if len({(each.call.kind, each.call.size_bytes, each.call.dimensions) for each in done}) != 1:
        return {}
    seen = network if job.shape is None else network.split(job.shape)
    mean = sum(each.seconds for each in done) / len(done)
    names = "algbw_bytes_per_s", "busbw_bytes_per_s"
    found = zip(names, _bandwidths(done[0].call, seen, mean))
    return {name: float(rate) for name, rate in found if isinstance(rate, float)}


def _bandwidths(call: CollectiveCall, network: Network, seconds: float) -> tuple[Cell, Cell]:
    """Algorithm and bus bandwidth as nccl-tests define them.

    The size is that of the whole vector; the bus carries what an ideal algorithm sends per rank.
    """
    shape = network.shape
    ranks = prod(shape if call.dimensions is None else [shape[each] for each in call.dimensions])
    whole = call.size_bytes * (ranks if call.kind is CollectiveKind.ALL_GATHER else 1)
    if not seconds:
        return None, None
    share = {CollectiveKind.ALL_REDUCE: 2 * (ranks - 1) / ranks, CollectiveKind.BROADCAST: 1.0}
    rate = whole / seconds
    return rate, rate * share.get(call.kind, (ranks - 1) / ranks)


def _percent(bound: Bound, seconds: float, record: RunRecord) -> float:
    """Percent of the possible speed; above 100 only where links are not shared."""
    if record.shared_links or seconds >= bound.seconds:
        return bound.percent(seconds)
    return 100 * bound.seconds / seconds if seconds else 100.0


def _done(record: RunRecord, job: Job, network: Network) -> Iterable[_Done]:
    network = network if job.shape is None else network.split(job.shape)
    bounds: dict[tuple[object, ...], Bound] = {}
    for number, (graph, index) in enumerate(record.calls):
        task = job.graphs[graph].tasks[index]
        rows = record.graph_of == graph
        if task.call is None or not rows.any() or (record.task_start_fs[rows, index] < 0).any():
            continue
        names = [] if record.call_phases is None else record.call_phases.names[number]
        travels = any(name.startswith(PULL_WHOLE) for name in names)
        key = (task.call.kind, task.call.size_bytes, task.call.dimensions, travels)
        if key not in bounds:
            on_wire = int(task.call.size_bytes * record.wire_factor)
            call, rates = replace(task.call, size_bytes=on_wire), record.endpoint_rates
            bounds[key] = (
                switch_bound(network, call, own_travels=travels, endpoint=rates)
                if record.network_reduces else call_bound(network, call, endpoint=rates)
            )
        update_fs = seconds_to_fs(task.duration_s)
        yield _Done(
            number=number,
            graph=graph,
            call=task.call,
            bound=bounds[key],
            start_fs=int(record.task_start_fs[rows, index].min()),
            end_fs=int(record.task_end_fs[rows, index].max()) - update_fs,
        )


def _together(done: Iterable[_Done]) -> tuple[float, str]:
    """The largest sum of the needs that the collectives of one NPU have of one resource."""
    needs: dict[tuple[int, str], float] = {}
    for each in done:
        for term in each.bound.terms:
            if term.resource != LATENCY:
                key = (each.graph, term.resource)
                needs[key] = needs.get(key, 0.0) + term.seconds
    if not needs:
        return 0.0, "nothing to do"
    graph, resource = max(needs, key=lambda key: needs[key])
    return needs[graph, resource], resource


def _in_progress(done: Iterable[_Done]) -> float:
    """Seconds in which at least one of them is in progress."""
    covered = reached = 0
    for each in sorted(done, key=lambda each: each.start_fs):
        covered += max(0, each.end_fs - max(reached, each.start_fs))
        reached = max(reached, each.end_fs)
    return covered / FS_PER_S

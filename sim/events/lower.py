# SPDX-License-Identifier: Apache-2.0
"""From network, job, plans and endpoint to the arrays of the kernel."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sim.collectives.phases import group_ranks
from sim.collectives.plan import AlgorithmChoice
from sim.collectives.program import Phase, Plan
from sim.endpoint.endpoint import Endpoint, EndpointModel, Piece
from sim.events.kernel import constants, tables
from sim.events.kernel.packets import PacketState
from sim.events.lowering import Lowering
from sim.events.packets import PacketOptions, packet_state
from sim.events.record import Admission
from sim.events.scheduler import Scheduler
from sim.events.sends import Row
from sim.events.state import make_state
from sim.events.transfers import Transfer, match_transfers
from sim.fields import FieldError
from sim.network.network import Network
from sim.units import MOST_TIME_S, seconds_to_fs
from sim.workload.graph import CollectiveKind, Job, TaskGraph, TaskKind
from sim.workload.host import has_messages, why_not_alike

__all__ = ["Lowered", "LoweringOptions", "job_network", "lower"]

_Cut = tuple[list[tuple[float, int, int]], tuple[list[float], list[float]]]
"""A call in chunks: size, first phase record and number of phases of each; the mean latency of a
message by column of phases, and the bytes that a chunk takes by buffer."""

MOST_LEVELS = 4096
"""Levels of priority: the rank of a chunk is 64-bit, with its level in the upper bits."""


class LoweringOptions(NamedTuple):
    """Options of a run, apart from its parts; see :func:`sim.events.simulate.simulate`.

    Parameters
    ----------
    packets : PacketOptions or None
        None: messages travel whole.
    software : bool
        Nodes on the way receive a message and send it again.
    reserve : bool
        Nodes admit their least live chunk even where queues and rooms are full.
    shared_links, check, fold
        As in `simulate`.
    stragglers : mapping of node to factor
        Factors by which the nodes' computations take longer.
    bucket_fs, buckets : int
        Width and number of the intervals of link utilisation over time; 0 buckets record none.
    spans : int
        Most spans that are recorded; 0: none.
    """

    packets: PacketOptions | None
    software: bool
    reserve: bool
    shared_links: bool
    check: bool
    fold: str
    stragglers: Mapping[int, float]
    bucket_fs: int
    buckets: int
    spans: int


class Lowered(NamedTuple):
    """The kernel's state, and what :func:`sim.events.simulate.simulate` needs beside it."""

    state: tables.State
    packets: PacketState | None
    folded: bool
    why_not_folded: str | None
    calls: list[tuple[int, int]]
    phases: list[Phase | None]
    transfers: list[Transfer]
    software: bool
    chunks: np.ndarray
    phase_names: list[list[str]]
    unit_names: list[str]
    unit_servers: tuple[int, ...]
    columns: int
    rows: int
    notes: list[str]
    wire_factor: float
    latency_s: np.ndarray
    admission: Admission
    times: Mapping[str, float]


def lower(
    network: Network,
    job: Job,
    *,
    endpoint: Endpoint,
    scheduler: Scheduler,
    choice: AlgorithmChoice | Mapping[CollectiveKind, AlgorithmChoice],
    options: LoweringOptions,
) -> Lowered:
    """Build the state of a run."""
    fold, stragglers = options.fold, options.stragglers
    _check_fold(fold)
    low = Lowering(
        network, endpoint, scheduler, choice, options.packets, options.software, options.check
    )
    calls = _calls(job)
    streams = _streams(scheduler, [_call_of(job, users[0]).dimensions for users in calls])
    for call_task in calls:
        call = _call_of(job, call_task[0])
        low.plan(call.kind, call.dimensions)
    graph_of = _graph_of(network, job)
    reason = why_not_alike(job, stragglers)
    if scheduler.queues == "auto":
        _choose_queues(low, job, graph_of, waits=has_messages(job) or bool(stragglers))
    if reason is None and fold != "off":
        reason = next(filter(None, map(low.why_not_alike, low.plans.values())), None)
        if any(each.graph is not None for each in network.dimensions):
            reason = reason or "links that are listed are all simulated"
    if fold == "off":
        reason = "switched off"
    if fold == "on" and reason is not None:
        raise ValueError(f"the system cannot be folded: {reason}")
    if reason is None:
        low.fold()
    low.share_rooms()
    levels = _levels([_call_of(job, users[0]).priority for users in calls])
    times = _check_times(low, [_call_of(job, users[0]).size_bytes for users in calls])
    chunk_rows: list[Row] = []
    call_rows: list[Row] = []
    means: list[tuple[list[float], list[float]]] = []
    same: dict[tuple[object, ...], _Cut] = {}
    for number, users in enumerate(calls):
        call = _call_of(job, users[0])
        key = (call.kind, call.dimensions, call.size_bytes)
        if key not in same:
            same[key] = _chunk_rows(low, *key, len(calls))
        made, of_chunks = same[key]
        means.append(of_chunks)
        model = low.models[id(low.plans[call.kind, call.dimensions])]
        rank = _rank(scheduler, call.policy, levels[call.priority], number)
        load, store = model.moved(call.size_bytes)
        call_rows.append(
            (
                len(chunk_rows),
                len(made),
                *low._stages(load),
                *low._stages(store),
                streams[number],
                *_polls(model),
            )
        )
        chunk_rows += [
            (size, rank, number, first, phases, -1, 0, left if model.oldest_first else 0)
            for left, (size, first, phases) in zip(range(len(made), 0, -1), made, strict=True)
        ]
    transfers = match_transfers(job, graph_of)
    first_transfer = len(chunk_rows)
    if transfers:
        low.transfers(transfers, len(calls), chunk_rows)
        # An NPU of ASTRA-sim 2.x, which runs one collective at a time, also sends one message.
        stream = 0 if scheduler.collectives == "one" else -1
        call_rows.append((first_transfer, 0, 0, 0, 0, 0, stream, 0, 0, 0))
    if len(chunk_rows) >= constants.LIMITS["chunks"]:
        raise ValueError(
            f"{len(chunk_rows)} chunks are more than {constants.LIMITS['chunks']}; "
            "use larger chunks"
        )
    state = make_state(
        low, job, calls, chunk_rows, call_rows, graph_of, stragglers,
        options.bucket_fs, options.buckets, options.spans,
    )
    low.note_choices()
    state.numbers[constants.FIRST_TRANSFER] = first_transfer
    state.numbers[constants.RESERVE] = options.reserve
    state.numbers[constants.CHECK] = options.check
    state.numbers[constants.TOGETHER] = scheduler.together
    state.numbers[constants.SHARED_LINKS] = options.shared_links
    # A message alone takes its length once, plus every latency: its first byte goes ahead.
    ahead = not options.shared_links or any(model.cut_through for model in low.models.values())
    state.numbers[constants.CUT_THROUGH_BYTES] = int(ahead)
    return Lowered(
        state=state,
        packets=_packets(low),
        folded=low.folded,
        why_not_folded=reason,
        calls=[users[0] for users in calls],
        phases=low.phase_of_row,
        transfers=transfers,
        software=options.software,
        chunks=np.array([row[1] for row in call_rows[: len(calls)]], np.int64),
        phase_names=[
            low.plans[_call_of(job, u[0]).kind, _call_of(job, u[0]).dimensions].phase_names()
            for u in calls
        ],
        unit_names=low.units,
        unit_servers=tuple(low.servers),
        columns=low.columns,
        rows=low.rows,
        notes=low.notes,
        times=times,
        wire_factor=low.wire_factor,
        latency_s=_table([latency for latency, _ in means], low.columns),
        admission=Admission(
            places=tuple(each for each in low.queue_limit if 0 < each < constants.UNBOUND),
            contexts=tuple(each for each in low.pool_limit if each < constants.UNBOUND),
            rooms=tuple(zip(low.partitions, low.partition_bytes)),
            held_bytes=_table([taken for _, taken in means], len(low.partitions)),
            ready=scheduler.threshold is not None,
        ),
    )


def _table(rows: Sequence[Sequence[float]], columns: int) -> np.ndarray:
    """An array of the rows with so many columns; 0 where rows are shorter."""
    made = np.zeros((len(rows), columns))
    for number, row in enumerate(rows):
        made[number, : len(row)] = row[:columns]
    return made


def _check_fold(fold: str) -> None:
    if fold not in ("auto", "on", "off"):
        raise FieldError("fold", f"must be auto, on or off, not {fold!r}")


def job_network(network: Network, job: Job) -> Network:
    """The network as the dimensions of *job* see it: split where its groups cover parts.

    Raises
    ------
    ValueError
        If the shape of the job is another one.
    """
    if job.shape is None or job.shape == network.shape:
        return network
    made_for = job.shape if job.topology_shape is None else job.topology_shape
    if made_for == network.whole_shape:
        return network.split(job.shape)
    advice = f"give the network logical_shape={tuple(made_for)}"
    if math.prod(made_for) != network.nodes:
        advice = f"load the workload with shape={network.whole_shape}"
    raise ValueError(
        f"the job is for a logical shape of {tuple(made_for)}, the network's is "
        f"{network.whole_shape}; {advice}"
    )


def _choose_queues(low: Lowering, job: Job, graph_of: np.ndarray, *, waits: bool) -> None:
    """Choose queues of dimensions for plans whose groups are in step, whatever else the job does,
    and queues of phases for others.

    The choice is the same whether the job is folded or not: folding is exact.
    """
    in_step: dict[tuple[int, ...] | None, bool] = {}
    for (_, dimensions), plan in low.plans.items():
        if dimensions not in in_step:
            in_step[dimensions] = not waits and _in_step(low.network, job, graph_of, dimensions)
        alike = in_step[dimensions] and low.why_not_alike(plan) is None
        low.queues_of[id(plan)] = "dimension" if alike else "phase"


def _in_step(
    network: Network, job: Job, graph_of: np.ndarray, dimensions: tuple[int, ...] | None
) -> bool:
    """True if the members of every group over *dimensions* do the same, calls of other groups
    aside."""
    if len(job.graphs) == 1:
        return True
    known: dict[tuple[object, ...], int] = {}
    parts = [_without_others(graph, dimensions) for graph in job.graphs]
    does = np.array([known.setdefault(part, len(known)) for part in parts])[graph_of]
    inside = range(len(network.shape)) if dimensions is None else dimensions
    group = group_ranks(network, [d for d in range(len(network.shape)) if d not in inside])
    first = np.zeros(int(group.max()) + 1, np.int64)
    first[group[::-1]] = does[::-1]
    return bool((first[group] == does).all())


def _without_others(
    graph: TaskGraph, dimensions: tuple[int, ...] | None
) -> tuple[object, ...]:
    """The tasks that collectives over *dimensions* wait for, and all computations, without
    collectives over other dimensions."""
    ours = [task.call is not None and task.call.dimensions == dimensions for task in graph.tasks]
    needed: set[int] = set()
    for number, task in reversed(list(enumerate(graph.tasks))):
        if ours[number] or number in needed or task.kind is TaskKind.COMPUTE:
            needed |= {number, *task.after}
    kept: list[object] = []
    stands: list[tuple[int, ...]] = []  # for each task, among those that are kept
    for number, task in enumerate(graph.tasks):
        after = tuple(sorted({each for earlier in task.after for each in stands[earlier]}))
        if number not in needed or (task.call is not None and not ours[number]):
            stands.append(after)
            continue
        stands.append((len(kept),))
        kept.append((task.kind, after, task.duration_s, task.call, task.peer, task.tag,
                     task.size_bytes))
    return tuple(kept)


def _packets(low: Lowering) -> PacketState | None:
    if low.packets is None:
        return None
    if low.wire_factor != 1:
        raise FieldError("packets", "cannot be simulated with an endpoint that compresses data")
    classes = low.network.link_classes()[1] if low.folded else None
    return packet_state(low.network, low.packets, low.routes, low.route_of_entry, classes)


def _graph_of(network: Network, job: Job) -> np.ndarray:
    if job.graph_of is None:
        if len(job.graphs) != 1:
            raise ValueError("a job with several graphs must say which NPU runs which (graph_of)")
        return np.zeros(network.nodes, np.int32)
    if len(job.graph_of) != network.nodes:
        raise ValueError(
            f"the job is for {len(job.graph_of)} NPUs, the network has {network.nodes}"
        )
    return np.array(job.graph_of, np.int32)


def _call_of(job: Job, user: tuple[int, int]):  # type: ignore[no-untyped-def]
    return job.graphs[user[0]].tasks[user[1]].call


def _calls(job: Job) -> list[list[tuple[int, int]]]:
    """For every collective call the (graph, task) that make it, one of each graph."""
    found: dict[tuple[object, int], list[tuple[int, int]]] = {}
    for number, graph in enumerate(job.graphs):
        seen: dict[object, int] = {}
        for index, task in enumerate(graph.tasks):
            if task.kind is not TaskKind.COLLECTIVE:
                continue
            if task.call is None:
                raise ValueError(f"task {index} ({task.name!r}) is a collective without a call")
            place = seen.get(task.call.dimensions, 0)
            seen[task.call.dimensions] = place + 1
            users = found.setdefault((task.call.dimensions, place), [])
            if users and _call_of(job, users[0]) != task.call:
                raise ValueError(
                    f"task {index} ({task.name!r}) of graph {number} is not the same collective as "
                    f"its counterpart in graph {users[0][0]}"
                )
            users.append((number, index))
    return list(found.values())


def _streams(
    scheduler: Scheduler, dimensions: Sequence[tuple[int, ...] | None]
) -> list[int]:
    """The stream of each call, -1 for none; those over the same dimensions are of one group."""
    if scheduler.collectives == "all":
        return [-1] * len(dimensions)
    if scheduler.collectives == "one":
        return [0] * len(dimensions)
    groups = {each: number for number, each in enumerate(dict.fromkeys(dimensions))}
    return [groups[each] for each in dimensions]


def _chunk_rows(
    low: Lowering,
    kind: CollectiveKind,
    dimensions: tuple[int, ...] | None,
    size: float,
    calls: int,
) -> _Cut:
    """Cut a call, one of so many, into chunks."""
    plan = low.plans[kind, dimensions]
    if size == 0 or not any(v.phases for v in plan.variants):
        return [], ([], [])
    if (cut := low.models[id(plan)].cut) is not None:
        return _as_cut(low, plan, list(cut(size)))
    total = low.scheduler.chunks(size, len(plan.variants), low.chunk_bytes(plan, size, calls))
    weights = np.array([v.weight for v in plan.variants])
    weights = weights / weights.sum()
    if total < len(weights):
        # Too few chunks for all variants: the first ones take all, in equal parts.
        weights = np.full(total, 1 / total)
    counts = np.maximum(1, np.round(weights * total)).astype(int)
    pieces = (size * weights / counts).tolist()
    uses = low.uses(plan, list(zip(pieces, counts.tolist())))
    places = low.places(plan, uses)
    rows = [
        (piece, *low.rows_of(plan, number, piece, places)) for number, piece in enumerate(pieces)
    ]
    variants = np.repeat(np.arange(len(counts)), counts)
    positions = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
    in_turns = np.lexsort((variants, positions))
    return [rows[variant] for variant in variants[in_turns].tolist()], low.means_of(uses)


def _polls(model: EndpointModel) -> tuple[int, int, int]:
    """Period of the host's polls, end of the first, and least delay of the one that sees an end."""
    polls = model.polls
    if polls is None:
        return 0, 0, 0
    first, seen = seconds_to_fs(polls.first_s), seconds_to_fs(polls.seen_s)
    return seconds_to_fs(polls.period_s), first, seen


def _as_cut(low: Lowering, plan: Plan, pieces: Sequence[Piece]) -> _Cut:
    """Chunks of a call as the engine cuts it."""
    sizes = [
        [piece.size_bytes for piece in pieces if piece.variant == variant]
        for variant in range(len(plan.variants))
    ]
    uses = low.uses(plan, [(sum(each) / max(1, len(each)), len(each)) for each in sizes])
    places = low.places(plan, uses)
    rows = [
        (size, *low.rows_of(plan, variant, size, places, message))
        for variant, size, message in pieces
    ]
    return rows, low.means_of(uses)


def _check_times(low: Lowering, sizes: Sequence[int]) -> dict[str, float]:
    """The longest times of the endpoint by name; refuses rates so slow that times, 64-bit
    femtoseconds, would overflow at once. Sums that overflow are found during the run."""
    size_bytes = sum(sizes)
    within = f"must handle the collectives within {MOST_TIME_S:g} s of simulated time"
    for number, dim in enumerate(low.network.dimensions):
        link_s = 2 * size_bytes / dim.payload_bytes_per_s + dim.latency_s
        if link_s > MOST_TIME_S:
            raise ValueError(
                f"dimension {number} of the network {within}; at {dim.bandwidth_bytes_per_s:g} "
                f"bytes/s and a latency of {dim.latency_s:g} s it may take {link_s:.3g} s"
            )
    stages = [
        stage
        for model in low.models.values()
        for group in (
            *model.moved(max(sizes)), *model.before.values(), *model.after.values()
        )
        for stage in group
    ]
    ways = 2 * len(low.network.dimensions)
    longest_s = max((size_bytes * ways * stage.s_per_byte for stage in stages), default=0.0)
    if longest_s > MOST_TIME_S:
        raise ValueError(
            f"endpoint {within}; at its rates it may take {longest_s:.3g} s"
        )
    models = low.models.values()
    starts = [0.0 if each.start_of is None else each.start_of(max(sizes)) for each in models]
    times = {
        "the endpoint's time for a message": max(
            [stage.fixed_s + stage.latency_s for stage in stages], default=0.0
        ),
        "the endpoint's delay after a message": max(
            [each.receive_delay_s for each in models], default=0.0
        ),
        "the endpoint's start of a call": max(
            [each.start_s + start for each, start in zip(models, starts)], default=0.0
        ),
    }
    for name, value_s in times.items():
        if not value_s <= MOST_TIME_S:
            raise FieldError(name, f"must be at most {MOST_TIME_S:g} s, not {value_s:g} s")
    return times


def _levels(priorities: Sequence[int]) -> dict[int, int]:
    """Levels of priorities, which may be any integers, by their order; 0, for sends, stays 0."""
    ordered = sorted({0, *priorities})
    levels = {priority: level - ordered.index(0) for level, priority in enumerate(ordered)}
    if len(levels) > MOST_LEVELS:
        raise FieldError(
            "priorities", f"of collectives must be at most {MOST_LEVELS} different ones, "
            f"not {len(levels)}"
        )
    return levels


def _rank(scheduler: Scheduler, policy: str | None, priority: int, call: int) -> int:
    """Rank of a call's chunks; lower goes first. FIFO calls among LIFO ones line up behind them."""
    newest_first = (policy or scheduler.policy) == "lifo"
    place = -call if newest_first else call + (1 << 20)
    return -priority * (1 << 50) + place * (1 << 22)

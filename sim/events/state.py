# SPDX-License-Identifier: Apache-2.0
"""The arrays of the kernel, made of the collected records."""

from collections.abc import Mapping, Sequence

import numpy as np

from sim.collectives.sweeps import PARTIAL, RESULT
from sim.endpoint.endpoint import Tables
from sim.events.kernel import constants, tables
from sim.events.kernel.queue import BUCKET, EVENT, queue_arrays
from sim.events.lowering import Lowering
from sim.events.sends import Row
from sim.fields import FieldError
from sim.memory import available_bytes
from sim.units import seconds_to_fs
from sim.workload.graph import Job, TaskGraph, TaskKind

__all__ = ["make_state"]

LEAST_EVENTS, MOST_EVENTS = 1 << 24, (1 << 31) - (1 << 21)
EVENT_SHARE, SLOT_SHARE = 0.5, 0.25
"""Shares of the memory that the machine has to spare: for events, and for chunks in flight."""
EVENT_BYTES = EVENT.itemsize + (BUCKET.itemsize + 4) / 4
"""Bytes of an event, with a quarter as many buckets as events, and a place in the heap for each."""
NEVER_BUSY = -(1 << 62)
"""Time from which units are free at first: those that work ahead have done so."""

Arrays = dict[str, np.ndarray]
"""Members of the state, by name."""


def event_room(spare_bytes: int, waits: bool) -> int:
    """Number of events in flight that fit in memory; memory that they do not need is not touched.

    *waits*: messages may wait in line; as many of them fit as events.
    """
    each = EVENT_BYTES + waits * tables.WAITER.itemsize
    return max(LEAST_EVENTS, min(MOST_EVENTS, int(EVENT_SHARE * spare_bytes / each)))


def make_state(
    low: Lowering,
    job: Job,
    calls: list[list[tuple[int, int]]],
    chunk_rows: list[Row],
    call_rows: list[Row],
    graph_of: np.ndarray,
    stragglers: Mapping[int, float],
    bucket_fs: int,
    buckets: int,
    spans: int,
) -> tables.State:
    """The arrays that a run begins with.

    Parameters
    ----------
    low, chunk_rows, call_rows:
        Records of plans and transfers; chunks of calls come first, then those of transfers.
    calls:
        Graph and task of the users of each call.
    graph_of:
        The graph that each node runs.
    stragglers:
        Factors by which some nodes compute longer.
    bucket_fs, buckets:
        Width and number of the intervals of link utilisation over time.
    spans:
        Most spans that are recorded; 0: none.
    """
    spare = available_bytes()
    in_calls = sum(int(row[1]) for row in call_rows)
    slots = _slots(low, in_calls, spare)
    streams = 1 + max((int(row[6]) for row in call_rows), default=-1)
    most_tasks = max(1, max(len(graph.tasks) for graph in job.graphs))
    numbers = _numbers(low)
    numbers[constants.STREAMS] = streams
    numbers[constants.MAX_TASKS] = most_tasks
    numbers[constants.BUCKET_FS] = bucket_fs
    numbers[constants.BUCKETS] = buckets
    numbers[constants.RECORD] = spans > 0
    numbers[constants.FREE_SLOTS] = slots
    link = _links(low)
    held = _tables(low)
    credits = _credit_arrays(low, link)
    numbers[constants.HAS_CREDITS] = bool(credits)
    waits = bool(link["most_left"].any()) or held is not None or bool(low.with_outboxes)
    room = event_room(spare, waits)
    return tables.State(
        numbers=numbers,
        **_event_arrays(room),
        **_program_arrays(low),
        **_relay_arrays(low, slots),
        **{**_pool_arrays(low, held), **credits},
        counts=np.zeros(len(constants.COUNTED), np.int64),
        **_unit_arrays(low, len(link)),
        link=link,
        waiters=np.empty(room if waits else 1, tables.WAITER),
        link_series=np.zeros(max(1, len(low.network.dimensions) * buckets), np.int64),
        **_chunk_arrays(low, chunk_rows, call_rows, slots),
        **_queue_arrays(low),
        **_stream_arrays(low.rows, streams),
        nodes=_nodes(low.rows, len(chunk_rows)),
        node_graph=graph_of[: low.rows],
        node_scale=_node_scale(low.network.nodes, low.rows, stragglers),
        **_graph_arrays(job, calls, _starts(low, job, calls)),
        **_transfer_arrays(low, most_tasks, in_calls),
        **_task_arrays(low.rows * most_tasks),
        **_time_arrays(low, len(call_rows)),
        spans=np.empty(max(1, spans), tables.SPAN),
        work=np.empty(3 * constants.STACK, np.int64),
    )


def _slots(low: Lowering, chunks: int, spare_bytes: int) -> int:
    """Number of calls' chunks that may be in flight at a time."""
    each = low.rows * (4 * low.width + tables.CHUNK_AT_NODE.itemsize) + 4 * low.relay_width
    return max(1, min(chunks, int(SLOT_SHARE * spare_bytes) // max(1, each)))


def _event_arrays(room: int) -> Arrays:
    names = ("events", "buckets", "heap", "cache", "registers")
    return dict(zip(names, queue_arrays(room, room >> 2), strict=True))


def _program_arrays(low: Lowering) -> Arrays:
    """Programs of chunks, step by step, and the ways of their messages."""
    return {
        "steps": _steps(low.segments),
        "programs": _records(low.programs, tables.PROGRAM),
        "role_program": _joined(low.role_program),
        "entries": _records(low.entries, tables.ENTRY),
        "phases": _records(low.phases, tables.PHASE),
        "stages": _records(low.stages, tables.STAGE),
        "peers": _joined(low.peers),
        "links": _joined(low.links),
        "expected": _joined(low.expected),
    }


def _steps(segments: list[Row]) -> np.ndarray:
    """Expand segments, which are runs of similar steps, into steps."""
    columns = np.array(segments or np.zeros((0, 8)), np.int64).T
    counts, slot, slot_stride, count, count_stride, entry, entry_stride, entries = columns
    which = np.repeat(np.arange(len(counts)), counts)
    inside = np.arange(len(which)) - (np.cumsum(counts) - counts)[which]
    steps = np.zeros(max(1, len(which)), tables.STEP)
    for name, first, stride in (
        ("slot", slot, slot_stride), ("count", count, count_stride), ("entry", entry, entry_stride),
        ("entries", entries, np.zeros_like(entries)),
    ):
        steps[name][: len(which)] = first[which] + inside * stride[which]
    return steps


def _relay_arrays(low: Lowering, slots: int) -> Arrays:
    return {
        "relays": _records(low.relays, tables.RELAY),
        "relay_needs": _joined(low.relay_needs),
        "relay_counts": np.zeros(max(1, slots * low.relay_width), np.int32),
        "relay_tables": _joined(low.relay_tables),
    }


def _unit_arrays(low: Lowering, links: int) -> Arrays:
    """Units of endpoints: from when on each server is free, and time and bytes that they served;
    and their outboxes, one for each server and link."""
    count = max(1, len(low.units) * low.rows)
    base = np.concatenate([[0], np.cumsum(np.array(low.servers, np.int64) * low.rows)])
    places = np.array(
        [links * n * (unit in low.with_outboxes) for unit, n in enumerate(low.servers)], np.int64
    )
    outboxes = np.zeros(max(1, int(places.sum())), tables.OUTBOX)
    outboxes["first"] = -1
    rows = zip(base.tolist(), low.servers, low.turns, (np.cumsum(places) - places).tolist())
    return {
        "units": _records(list(rows), tables.UNIT),
        "outboxes": outboxes,
        "unit_free": np.full(max(1, int(base[-1])), NEVER_BUSY, np.int64),
        "unit_busy": np.zeros(count, np.int64),
        "unit_bytes": np.zeros(count, np.int64),
    }


def _chunk_arrays(
    low: Lowering, chunk_rows: list[Row], call_rows: list[Row], slots: int
) -> Arrays:
    """Calls and their chunks, and the state at each node of those in flight."""
    rows = low.rows
    return {
        "calls": _records(call_rows, tables.CALL),
        "chunks": _records(chunk_rows, tables.CHUNK),
        "free_slots": np.arange(slots - 1, -1, -1, dtype=np.int32),
        "slot_state": np.empty(slots * rows, tables.CHUNK_AT_NODE),
        "counters": np.empty(slots * rows * low.width, np.int32),
        "call_left": np.zeros(max(1, 2 * len(call_rows) * rows), np.int32),
    }


def _queue_arrays(low: Lowering) -> Arrays:
    """Queues of chunks that wait for places, partitions and contexts, and the parts in use."""
    rows, queues = low.rows, _queues(low)
    return {
        "queue_group": np.array(low.queue_group or [0], np.int32),
        "queue_limit": np.array(low.queue_limit or [constants.UNBOUND], np.int64),
        "queue_used": np.zeros(rows * queues, np.int32),
        "queue_taken": np.zeros(rows * queues, np.int32),
        "queue_head": np.full(rows * (queues + 1), -1, np.int32),
        "queue_tail": np.full(rows * (queues + 1), -1, np.int32),
        "begun": np.zeros(queues * constants.MOST_BEGUN, tables.BEGUN),
        "begun_count": np.zeros(queues, np.int32),
        "partition_limit": np.array(low.partition_bytes or [1 << 60], np.int64),
        "partition_used": np.zeros(rows * _partitions(low), np.int64),
        "pool_limit": np.array(low.pool_limit or [1 << 30], np.int64),
        "pool_used": np.zeros(max(1, rows * len(low.pool_limit)), np.int32),
    }


def _queues(low: Lowering) -> int:
    return max(1, len(low.queue_group))


def _partitions(low: Lowering) -> int:
    return max(1, len(low.partitions))


def _stream_arrays(rows: int, streams: int) -> Arrays:
    names = ("stream_task", "stream_head", "stream_tail")
    return {name: np.full(max(1, rows * streams), -1, np.int32) for name in names}


def _nodes(rows: int, chunks: int) -> np.ndarray:
    nodes = np.zeros(rows, tables.NODE)
    nodes["task_head"] = -1
    nodes["busy"] = -1
    nodes["least"] = chunks
    return nodes


def _transfer_arrays(low: Lowering, most_tasks: int, in_calls: int) -> Arrays:
    """Messages of tasks, and for each task that sends one, its chunk."""
    task_transfer = np.full(low.rows * most_tasks if low.transfer_rows else 1, -1, np.int32)
    for number, row in enumerate(low.transfer_rows):
        task_transfer[int(row[2]) * most_tasks + int(row[3])] = in_calls + number
    return {
        "transfers": _records(low.transfer_rows, tables.TRANSFER),
        "task_transfer": task_transfer,
    }


def _task_arrays(tasks: int) -> Arrays:
    """Progress of the tasks of nodes, and its times; -1: not yet."""
    return {
        "task_waits": np.zeros(tasks, np.int32),
        "task_next": np.zeros(tasks, np.int32),
        **{name: np.full(tasks, -1, np.int64) for name in ("task_ready", "task_start", "task_end")},
    }


def _time_arrays(low: Lowering, calls: int) -> Arrays:
    """Sums of delays, times and messages of calls, by phase, and of the working time of endpoints.
    """
    names = ("queue_delay", "phase_time", "network_delay", "bus_delay", "messages")
    return {
        "engine_busy": np.zeros(low.rows, np.int64),
        **{name: np.zeros(max(1, calls * low.columns), np.int64) for name in names},
    }


def _numbers(low: Lowering) -> np.ndarray:
    """Sizes and limits that the kernel reads, as far as they follow from *low* alone."""
    numbers = np.zeros(constants.NUMBERS, np.int64)
    numbers[constants.NODES] = low.rows
    numbers[constants.QUEUES] = _queues(low)
    numbers[constants.UNITS] = len(low.units)
    numbers[constants.PARTITIONS] = _partitions(low)
    numbers[constants.WIDTH] = low.width
    numbers[constants.POOLS] = len(low.pool_limit)
    numbers[constants.COLUMNS] = low.columns
    numbers[constants.THRESHOLD] = low.scheduler.threshold or 1 << 40
    numbers[constants.ISSUE] = low.scheduler.issue or 1 << 40
    delays = {model.receive_delay_s for model in low.models.values()}
    numbers[constants.RECEIVE_FS] = seconds_to_fs(max(delays, default=0.0))
    numbers[constants.VERTICES] = low.network.vertices
    numbers[constants.RELAY_WIDTH] = low.relay_width
    held = _tables(low)
    numbers[constants.HAS_TABLES] = held is not None
    numbers[constants.DETOUR_FS] = numbers[constants.TIMEOUT_FS] = 0
    if held is not None:
        numbers[constants.TIMEOUT_FS] = seconds_to_fs(held.timeout_s)
        # To an endpoint and back.
        way_s = max(dim.hop_s for dim in low.network.dimensions if dim.has_switches)
        numbers[constants.DETOUR_FS] = seconds_to_fs(held.detour_s + way_s)
    return numbers


def _tables(low: Lowering) -> Tables | None:
    """Tables and buffers of the switches, if relays use them."""
    found = [model.tables for model in low.models.values() if model.tables is not None]
    return found[0] if found and low.relay_tables else None


def _pool_arrays(low: Lowering, held: Tables | None) -> Arrays:
    """The tables at the ports of all links, and the credits of each class on them."""
    if held is None:
        return {
            "pools": np.zeros(1, tables.POOL),
            "windows": np.zeros(1, tables.WINDOW),
            "credits": np.zeros(1, np.int64),
            "packet_bytes": np.ones(1),
        }
    network = low.network
    count, rate = len(network.link_source), 1 / network.link_fs_per_byte
    down = network.link_target < network.nodes
    # Number of links of the members' rate that each link stands for.
    slowest = np.array([rate[network.link_dimension == d].min() for d in range(
        len(network.dimensions))])
    lanes = np.maximum(1, np.rint(rate / slowest[network.link_dimension])).astype(np.int64)
    pools = np.zeros(count + network.vertices, tables.POOL)
    members = network.link_source < network.nodes
    ports = np.bincount(network.link_target[members], minlength=network.vertices)
    pools["most"] = held.entries * np.concatenate([lanes, constants.STORED * ports])
    pools["left"], pools["first"], pools["last"] = pools["most"], -1, -1
    pools["lanes"][:count] = lanes
    dims = network.dimensions
    back = np.array([seconds_to_fs(dims[d].latency_s) for d in network.link_dimension.tolist()])
    away = network.link_latency_fs + back + seconds_to_fs(held.credit_s)
    away[network.link_target >= network.nodes] -= seconds_to_fs(held.pass_s)
    from_switch = network.link_source >= network.nodes
    sizes = np.where(down, held.credits_down, held.credits_up) * lanes
    packet_fs = held.packet_bytes * network.link_fs_per_byte
    stops = from_switch & (away - sizes * packet_fs > seconds_to_fs(held.stopped_s))
    away[stops] += seconds_to_fs(held.reopening_s)
    windows = np.zeros((count, constants.CLASSES), tables.WINDOW)
    windows["places"], windows["away_fs"] = sizes[:, None], away[:, None]
    windows["places"][:, constants.READS] = held.reads
    windows["away_fs"][:, constants.READS] = seconds_to_fs(held.read_s)
    first = np.cumsum(windows["places"].ravel()) - windows["places"].ravel()
    windows["first"] = first.reshape(windows.shape)
    credits = np.zeros(int(windows["places"].sum()), np.int64)
    if held.contract:
        for traffic, links in ((PARTIAL, ~from_switch), (RESULT, from_switch)):
            last = windows["first"] + windows["places"] - 1  # the others are used before it
            credits[last[links, traffic]] = away[links]
    return {
        "pools": pools,
        "windows": windows.ravel(),
        "credits": credits,
        "packet_bytes": np.array([held.packet_bytes, held.ask_share]),
    }


def _credit_arrays(low: Lowering, link: np.ndarray) -> Arrays:
    """The credits of all links, where messages wait for them; nothing where none ever has to."""
    found = {
        (model.credits, model.message_bytes) for model in low.models.values()
        if model.credits is not None and model.message_bytes is not None
    }
    if len(found) > 1:
        raise FieldError("credits", f"must be the same for all, not {sorted(map(str, found))}")
    if not found:
        return {}
    credits, message = next(iter(found))
    busy = message * link["fs_per_byte"] + link["header_fs"]
    away = 2 * link["latency_fs"] + busy + seconds_to_fs(credits.handled_s)
    if (away <= credits.places * busy).all():
        return {}
    windows = np.zeros(len(link), tables.WINDOW)
    windows["first"] = credits.places * np.arange(len(link))
    windows["places"], windows["away_fs"] = credits.places, away
    return {"windows": windows, "credits": np.zeros(credits.places * len(link), np.int64)}


def _node_scale(nodes: int, rows: int, stragglers: Mapping[int, float]) -> np.ndarray:
    """Factor by which each node computes longer."""
    scale = np.ones(rows)
    for node, factor in stragglers.items():
        if not 0 <= node < nodes:
            raise FieldError("straggler", f"must be a node from 0 to {nodes - 1}, not {node}")
        scale[node] = factor
    return scale


def _links(low: Lowering) -> np.ndarray:
    """All links; in a folded system, the first of each class."""
    network = low.network
    numbers = np.arange(len(network.link_source))
    if low.folded:
        _, numbers = np.unique(network.link_classes()[1], return_index=True)
    links = np.zeros(len(numbers), tables.LINK)
    header, share = low.header
    links["fs_per_byte"] = network.link_fs_per_byte[numbers] * low.wire_factor * share
    links["header_fs"] = header * network.link_fs_per_byte[numbers] * share
    links["latency_fs"] = network.link_latency_fs[numbers]
    links["dimension"] = network.link_dimension[numbers]
    links["first"] = -1
    least = np.full(len(numbers), constants.LIMITS["phases"] + 1)
    most = np.zeros(len(numbers), np.int64)
    for place, left in low.phases_left.items():
        used = low.links[place]
        used = used[used >= 0]
        least[used] = np.minimum(least[used], min(left))
        most[used] = np.maximum(most[used], max(left))
    links["most_left"] = np.where(most > least, most, 0)
    return links


def _starts(low: Lowering, job: Job, calls: list[list[tuple[int, int]]]) -> list[float]:
    """Seconds that the endpoint takes once for each call."""
    made = []
    for users in calls:
        graph, task = users[0]
        call = job.graphs[graph].tasks[task].call
        assert call is not None
        model = low.models[id(low.plans[call.kind, call.dimensions])]
        by_size = 0.0 if model.start_of is None else model.start_of(call.size_bytes)
        made.append(model.start_s + by_size)
    return made


def _graph_arrays(
    job: Job, calls: list[list[tuple[int, int]]], starts: Sequence[float]
) -> Arrays:
    call_of = {user: number for number, users in enumerate(calls) for user in users}
    rows: list[Row] = []
    successors: list[int] = []
    first = [0]
    for number, graph in enumerate(job.graphs):
        rows += _task_rows(graph, number, call_of, starts, successors)
        first.append(len(rows))
    return {
        "tasks": _records(rows, tables.TASK),
        "successors": np.array(successors or [0], np.int32),
        "graph_first": np.array(first, np.int64),
    }


def _task_rows(
    graph: TaskGraph,
    number: int,
    call_of: dict[tuple[int, int], int],
    starts: Sequence[float],
    successors: list[int],
) -> list[Row]:
    after: list[list[int]] = [[] for _ in graph.tasks]
    for index, task in enumerate(graph.tasks):
        for earlier in task.after:
            after[earlier].append(index)
    rows: list[Row] = []
    for index, task in enumerate(graph.tasks):
        first = len(successors)
        successors += after[index]
        call = call_of.get((number, index), -1)
        pause_s = starts[call] if call >= 0 else 0.0
        if task.kind is TaskKind.SEND:
            call = len(starts)
        rows.append(
            (
                int(task.kind),
                call,
                len(task.after),
                first,
                len(successors),
                seconds_to_fs(task.duration_s) + seconds_to_fs(pause_s),
            )
        )
    return rows


def _records(rows: Sequence[Row], kind: np.dtype) -> np.ndarray:
    return np.array(rows, kind) if rows else np.zeros(1, kind)


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts or [np.zeros(1, np.int32)])

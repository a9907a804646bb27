"""From network, job, plans and endpoint to the arrays of the kernel."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sim.algorithms.plan import AlgorithmChoice, plan_collective
from sim.algorithms.program import Phase, Plan, Program, Receipt, Send, Source, Variant
from sim.endpoint.endpoint import Endpoint, EndpointModel, Stage
from sim.kernel import loop, tables
from sim.kernel.packets import PacketState
from sim.kernel.queue import queue_arrays
from sim.network.network import Channel, Network
from sim.network.symmetry import why_not_symmetric
from sim.system.legs import chains_of
from sim.system.packets import PacketOptions, dated_dimensions, packet_state
from sim.system.record import FS_PER_S
from sim.system.scheduler import Scheduler
from sim.system.transfers import Transfer, channels_of, match_transfers
from sim.workload.graph import CollectiveKind, Job, TaskGraph, TaskKind

__all__ = ["Lowered", "lower"]

Row: TypeAlias = tuple[float, ...]
"""One record of the kernel; integers are floats to the type checker."""

MOST_MESSAGES = loop.LIMITS["messages"] - 1
EVENT_ROOM = 1 << 26
SLOT_BYTES = 6 << 30


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """What :func:`sim.system.simulate.simulate` needs beside the state."""

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
    places: int
    rows: int
    notes: list[str]
    wire_factor: float


class Lowering:
    """Collects records; indices into the lists become indices into the kernel's arrays."""

    def __init__(
        self,
        network: Network,
        endpoint: Endpoint,
        scheduler: Scheduler,
        choice: AlgorithmChoice | Mapping[CollectiveKind, AlgorithmChoice],
        packets: PacketOptions | None,
        software: bool,
        check: bool,
    ) -> None:
        self.network = network
        self.packets = packets
        self.software = software
        self.check = check
        self.endpoint = endpoint
        self.scheduler = scheduler
        self.choice = choice
        self.folded = False
        self.rows = network.nodes
        self.segments: list[Row] = []
        self.programs: list[tuple[int, int]] = []
        self.role_program: list[np.ndarray] = []
        self.entries: list[Row] = []
        self.phases: list[Row] = []
        self.phase_of_row: list[Phase | None] = []  # None: of transfers
        self.stages: list[Row] = []
        self.stage_ranges: dict[tuple[Stage, ...], tuple[int, int]] = {}
        self.peers: list[np.ndarray] = []
        self.links: list[np.ndarray] = []
        self.routes: list[np.ndarray] = []
        self.route_of_entry: list[int] = []
        self.chains: dict[int, list[list[Channel]]] = {}
        self.expected: list[np.ndarray] = []
        self.transfer_rows: list[Row] = []
        self.channel_at: dict[int, tuple[int, int, int, int]] = {}
        self.peer_count = 0
        self.link_count = 0
        self.units: list[str] = []
        self.servers: list[int] = []
        self.rooms: list[str] = []
        self.room_bytes: list[float] = []
        self.queues: dict[tuple[object, ...], int] = {}
        self.queue_limit: list[int] = []
        self.plans: dict[tuple[CollectiveKind, tuple[int, ...] | None], Plan] = {}
        self.models: dict[int, EndpointModel] = {}
        self.program_at: dict[tuple[int, int], int] = {}
        self.variant_rows: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.width = 1
        self.places = 1
        self.notes: list[str] = []
        self._classes: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def wire_factor(self) -> float:
        """Of the endpoint's models, the same for all."""
        factors = {model.wire_factor for model in self.models.values()} or {1.0}
        if len(factors) > 1:
            raise ValueError(
                f"wire_factor must be the same for all collectives of a run, not {sorted(factors)}"
            )
        return factors.pop()

    # ---- Plans.

    def plan(self, kind: CollectiveKind, dimensions: tuple[int, ...] | None) -> Plan:
        key = (kind, dimensions)
        if key not in self.plans:
            choice = self.choice
            if not isinstance(choice, AlgorithmChoice):
                choice = choice.get(kind, AlgorithmChoice())
            made = plan_collective(self.network, kind, choice, dimensions)
            self.plans[key] = made
            self.models[id(made)] = self.endpoint.model(self.network, kind, made)
            deepest = max((len(v.phases) for v in made.variants), default=0)
            if deepest > loop.LIMITS["phases"]:
                raise ValueError(
                    f"a collective may have at most {loop.LIMITS['phases']} phases, not {deepest}"
                )
            self.places = max(self.places, deepest + 1)
        return self.plans[key]

    def fold(self) -> str | None:
        """Fold onto one node if the plans made so far allow it; returns why not."""
        channels = {}
        for plan in self.plans.values():
            for variant in plan.variants:
                for phase in variant.phases:
                    if phase.role is not None:
                        return f"{phase.name} gives nodes different roles"
                    for program in phase.programs:
                        for segment in program.segments:
                            for step in segment.sends:
                                for send in step:
                                    channels[id(send.channel)] = (phase.name, send.channel)
        reason = why_not_symmetric(self.network, channels.values())
        if reason is None and self.packets is not None:
            legs = [leg for _, c in channels.values() for way in self._ways(c) for leg in way]
            dated = dated_dimensions(self.network, [leg.links for leg in legs])
            if dated:
                reason = f"the dateline of dimension {min(dated)} makes the nodes of a ring differ"
        if reason is None:
            self.folded, self.rows = True, 1
        return reason

    def rows_of(self, plan: Plan, variant: int, size: float) -> tuple[int, int]:
        """First phase record and number of phases of a variant for chunks of a size."""
        phases = plan.variants[variant].phases
        model = self.models[id(plan)]
        counts = [self._messages(phase, model, size) for phase in phases]
        key = (id(plan), variant, hash(tuple(counts)))
        if key in self.variant_rows:
            return self.variant_rows[key]
        first, offset = len(self.phases), 0
        rooms = self._rooms(model, len(phases))
        for index, (phase, count) in enumerate(zip(phases, counts)):
            width = 1 + max(program.slots for program in phase.programs)
            made = [self._program(program, model) for program in phase.programs]
            roles = -1
            if phase.role is not None:
                roles = sum(len(part) for part in self.role_program)
                self.role_program.append(np.asarray(made, np.int32)[phase.role])
            self.phases.append(
                (
                    made[0],
                    self._queue(plan, index, phase, model),
                    offset,
                    count,
                    width,
                    index + 1,
                    roles,
                    rooms[index],
                    rooms[index + 1],
                    phase.data_in,
                    phase.data_out,
                    self._expected(phase),
                )
            )
            self.phase_of_row.append(phase)
            offset += count * width
        self.width = max(self.width, offset)
        self.variant_rows[key] = first, len(phases)
        return first, len(phases)

    def _messages(self, phase: Phase, model: EndpointModel, size: float) -> int:
        if model.message_bytes is None:
            return 1
        largest = max(
            (
                send.fraction
                for program in phase.programs
                for segment in program.segments
                for step in segment.sends
                for send in step
            ),
            default=0.0,
        )
        count = max(1, math.ceil(largest * size / model.message_bytes - 1e-9))
        if count > MOST_MESSAGES:
            self.notes.append(
                f"{phase.name}: {count} messages a step are more than {MOST_MESSAGES}; larger "
                "messages are simulated"
            )
        return min(count, MOST_MESSAGES)

    def _rooms(self, model: EndpointModel, phases: int) -> list[int]:
        if not model.rooms:
            return [-1] * (phases + 1)
        if len(model.rooms) < phases + 1:
            raise ValueError(f"{phases} phases need {phases + 1} rooms, not {len(model.rooms)}")
        for room in model.rooms:
            if room.name not in self.rooms:
                self.rooms.append(room.name)
                self.room_bytes.append(room.size_bytes)
        return [self.rooms.index(room.name) for room in model.rooms[: phases + 1]]

    def _queue(self, plan: Plan, index: int, phase: Phase, model: EndpointModel) -> int:
        if model.contexts is not None:
            key: tuple[object, ...] = ("context", index)
            limit = model.contexts[min(index, len(model.contexts) - 1)]
        elif self.scheduler.queues == "phase":
            key = (index, phase.dimension, phase.ring)
            limit = self.scheduler.concurrency or 1 << 30
        else:
            key = (phase.dimension, phase.ring)
            limit = self.scheduler.concurrency or 1 << 30
        if key not in self.queues:
            self.queues[key] = len(self.queue_limit)
            self.queue_limit.append(limit)
        return self.queues[key]

    # ---- Programs.

    def _program(self, program: Program, model: EndpointModel) -> int:
        key = (id(program), id(model))
        if key in self.program_at:
            return self.program_at[key]
        first_segment, step = len(self.segments), 0
        for segment in program.segments:
            steps = [
                [row for send in sends for row in self._entries(send, model)]
                for sends in segment.sends
            ]
            first, per_step = len(self.entries), max(len(rows) for rows in steps)
            for rows in steps:
                for row in rows:
                    self._add(*row)
                for _ in range(per_step - len(rows)):
                    self._add(*self._silent())
            self.segments.append(
                (
                    step,
                    step + segment.steps,
                    segment.slot,
                    segment.slot_stride,
                    segment.count,
                    segment.count_stride,
                    first,
                    per_step if len(segment.sends) > 1 else 0,
                    per_step,
                )
            )
            step += segment.steps
        if len(self.entries) >= loop.LIMITS["entries"]:
            raise ValueError(
                f"the plans of this job have more than {loop.LIMITS['entries']} different sends; "
                "use fewer rings or an algorithm with fewer partners"
            )
        self.programs.append((first_segment, step))
        self.program_at[key] = len(self.programs) - 1
        return self.program_at[key]

    def _ways(self, channel: Channel) -> list[list[Channel]]:
        """The channel itself, or with software routing its chains of legs."""
        if not self.software:
            return [[channel]]
        if id(channel) not in self.chains:
            self.chains[id(channel)] = chains_of(self.network, channel)
        return self.chains[id(channel)]

    def _add(self, row: Row, route: int) -> int:
        self.entries.append(row)
        self.route_of_entry.append(route)
        return len(self.entries) - 1

    def _entries(self, send: Send, model: EndpointModel) -> list[tuple[Row, int]]:
        """The entries that the node itself makes for a send, and their routes. Those of nodes that
        pass the message on are added at once."""
        return [
            self._chain(
                way,
                send.fraction,
                send.slot,
                model.before.get(send.source, ()),
                model.after.get(send.receipt, ()),
                model,
            )
            for way in self._ways(send.channel)
        ]

    def _chain(
        self,
        way: Sequence[Channel],
        fraction: float,
        slot: int,
        before: Sequence[Stage],
        after: Sequence[Stage],
        model: EndpointModel,
    ) -> tuple[Row, int]:
        onward = -1
        for leg in range(len(way) - 1, -1, -1):
            last = leg + 1 == len(way)
            peers, links, hops, route = self._channel(way[leg])
            row = (
                fraction,
                peers,
                links,
                hops,
                slot if last else -1,
                *self._stages(before if leg == 0 else model.before.get(Source.FORWARD, ())),
                *self._stages(after if last else model.after.get(Receipt.KEEP, ())),
                onward,
            )
            if leg > 0:
                onward = self._add(row, route)
        return row, route

    def _silent(self) -> tuple[Row, int]:
        """An entry by which nobody sends anything."""
        nobody = np.full(self.network.nodes, -1)
        channel = self.network.table("nobody", nobody)
        peers, links, hops, route = self._channel(channel)
        return (0.0, peers, links, hops, -1, 0, 0, 0, 0, -1), route

    def _expected(self, phase: Phase) -> int:
        """Where the counts of messages stand that every node must have got, if they are checked."""
        first = sum(part.size for part in self.expected)
        if not self.check:
            return first
        slots = max(program.slots for program in phase.programs)
        counts = np.zeros((self.network.nodes, slots), np.int32)
        role = np.zeros(self.network.nodes, np.int64) if phase.role is None else phase.role
        for number, program in enumerate(phase.programs):
            for segment in program.segments:
                for sends in segment.sends:
                    times = segment.steps if len(segment.sends) == 1 else 1
                    for send in sends:
                        goals = send.channel.peer[(role == number) & (send.channel.peer >= 0)]
                        np.add.at(counts, (goals, send.slot), times)
        self.expected.append(counts[: self.rows].ravel())
        return first

    # ---- Transfers.

    def transfers(self, found: Sequence[Transfer], pseudo_call: int, chunk_rows: list[Row]) -> None:
        """Add a chunk for every transfer."""
        plan = Plan(name="messages", variants=(Variant(phases=(), weight=1.0),))
        model = self.endpoint.model(self.network, CollectiveKind.ALL_TO_ALL, plan)
        self.models[id(plan)] = model
        self.plans_of_transfers = plan  # keeps its id from being used again
        self.places = max(self.places, 2)
        entry_of: dict[int, int] = {}
        before = (*model.load, *model.before.get(Source.FRESH, ()))
        after = (*model.after.get(Receipt.KEEP, ()), *model.store)
        for channel, numbers in channels_of(self.network, found):
            for way in self._ways(channel):
                entry = self._add(*self._chain(way, 1.0, -1, before, after, model))
                for number in numbers:
                    if way[0].peer[found[number].source] >= 0:
                        entry_of[number] = entry
        rows: dict[int, int] = {}
        for number, transfer in enumerate(found):
            count = 1
            if model.message_bytes is not None:
                count = max(1, math.ceil(transfer.size_bytes / model.message_bytes))
                count = min(count, MOST_MESSAGES)
            if count not in rows:
                rows[count] = len(self.phases)
                self.phases.append((0, 0, 0, count, 1, 1, -1, -1, -1, 0.0, 0.0, 0))
                self.phase_of_row.append(None)
            chunk_rows.append((transfer.size_bytes, 0, pseudo_call, rows[count], 0, -1, 0))
            self.transfer_rows.append(
                (entry_of[number], count, transfer.source, transfer.send, transfer.goal,
                 transfer.receive)
            )  # fmt: skip

    # ---- Channels and stages.

    def _channel(self, channel: Channel) -> tuple[int, int, int, int]:
        """First of its peers, first of its links, hops, and number of the route."""
        if id(channel) not in self.channel_at:
            peer, links = channel.peer, channel.links
            if len(links) > loop.LIMITS["hops"]:
                raise ValueError(
                    f"a route has {len(links)} hops, more than {loop.LIMITS['hops']}; use an "
                    "algorithm that sends to neighbours, or smaller rings"
                )
            if self.folded:
                if self._classes is None:
                    self._classes = self.network.link_classes()
                peer, links = np.zeros(1, np.int64), self._classes[1][links[:, :1]]
            place = self.peer_count, self.link_count, len(links), len(self.routes)
            self.channel_at[id(channel)] = place
            self.routes.append(channel.links)
            self.peers.append(peer.astype(np.int32))
            self.links.append(links.astype(np.int32).ravel())
            self.peer_count += peer.size
            self.link_count += links.size
        return self.channel_at[id(channel)]

    def _stages(self, stages: Sequence[Stage]) -> tuple[int, int]:
        key = tuple(stages)
        if key not in self.stage_ranges:
            first = len(self.stages)
            for stage in key:
                unit = -1 if stage.unit is None else self._unit(stage.unit)
                self.stages.append(
                    (
                        unit,
                        stage.s_per_byte * FS_PER_S,
                        round(stage.fixed_s * FS_PER_S),
                        round(stage.latency_s * FS_PER_S),
                    )
                )
            self.stage_ranges[key] = first, first + len(key)
        return self.stage_ranges[key]

    def _unit(self, name: str) -> int:
        if name not in self.units:
            servers = 1
            for model in self.models.values():
                for unit in model.units:
                    if unit.name == name:
                        servers = unit.servers
            self.units.append(name)
            self.servers.append(servers)
        return self.units.index(name)


def lower(
    network: Network,
    job: Job,
    *,
    endpoint: Endpoint,
    scheduler: Scheduler,
    choice: AlgorithmChoice | Mapping[CollectiveKind, AlgorithmChoice],
    packets: PacketOptions | None,
    software: bool,
    reserve: bool,
    check: bool,
    fold: str,
    stragglers: dict[int, float],
    bucket_fs: int,
    buckets: int,
    spans: int,
) -> Lowered:
    """Build the state of a run."""
    if fold not in ("auto", "on", "off"):
        raise ValueError(f"fold must be auto, on or off, not {fold!r}")
    if job.shape is not None and tuple(job.shape) != network.shape:
        raise ValueError(
            f"the job is for a logical shape of {tuple(job.shape)}, the network's is "
            f"{network.shape}; give the network logical_shape={tuple(job.shape)}"
        )
    low = Lowering(network, endpoint, scheduler, choice, packets, software, check)
    calls = _calls(job)
    for call_task in calls:
        call = _call_of(job, call_task[0])
        low.plan(call.kind, call.dimensions)
    reason = _why_not_folded(job, stragglers) if fold != "off" else "switched off"
    if reason is None:
        reason = low.fold()
    if fold == "on" and reason is not None:
        raise ValueError(f"the system cannot be folded: {reason}")
    chunk_rows: list[Row] = []
    call_rows: list[Row] = []
    for number, users in enumerate(calls):
        call = _call_of(job, users[0])
        made = _chunk_rows(low, call.kind, call.dimensions, call.size_bytes, number)
        model = low.models[id(low.plans[call.kind, call.dimensions])]
        rank = _rank(scheduler, call.policy, call.priority, number)
        call_rows.append(
            (len(chunk_rows), len(made), *low._stages(model.load), *low._stages(model.store))
        )
        chunk_rows += [(size, rank, number, first, phases, -1, 0) for size, first, phases in made]
    graph_of = _graph_of(network, job)
    transfers = match_transfers(job, graph_of)
    first_transfer = len(chunk_rows)
    if transfers:
        low.transfers(transfers, len(calls), chunk_rows)
        call_rows.append((first_transfer, 0, 0, 0, 0, 0))
    if len(chunk_rows) >= loop.LIMITS["chunks"]:
        raise ValueError(
            f"{len(chunk_rows)} chunks are more than {loop.LIMITS['chunks']}; use larger chunks"
        )
    state = _state(
        low, job, calls, chunk_rows, call_rows, graph_of, stragglers, bucket_fs, buckets, spans
    )
    state.numbers[loop.FIRST_TRANSFER] = first_transfer
    state.numbers[loop.RESERVE] = reserve
    state.numbers[loop.CHECK] = check
    return Lowered(
        state=state,
        packets=_packets(low),
        folded=low.folded,
        why_not_folded=reason,
        calls=[users[0] for users in calls],
        phases=low.phase_of_row,
        transfers=transfers,
        software=software,
        chunks=np.array([row[1] for row in call_rows[: len(calls)]], np.int64),
        phase_names=[
            low.plans[_call_of(job, u[0]).kind, _call_of(job, u[0]).dimensions].phase_names()
            for u in calls
        ],
        unit_names=low.units,
        places=low.places,
        rows=low.rows,
        notes=low.notes,
        wire_factor=low.wire_factor,
    )


def _packets(low: Lowering) -> PacketState | None:
    if low.packets is None:
        return None
    if low.wire_factor != 1:
        raise ValueError("packets cannot be simulated with an endpoint that compresses data")
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


def _why_not_folded(job: Job, stragglers: dict[int, float]) -> str | None:
    if len(job.graphs) > 1 and len(set(job.graph_of or ())) != 1:
        return "nodes run different graphs"
    if stragglers:
        return "some nodes are slower than others"
    if any(t.kind in (TaskKind.SEND, TaskKind.RECEIVE) for g in job.graphs for t in g.tasks):
        return "nodes exchange single messages"
    return None


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


def _chunk_rows(
    low: Lowering,
    kind: CollectiveKind,
    dimensions: tuple[int, ...] | None,
    size: float,
    call: int,
) -> list[tuple[float, int, int]]:
    """Size, first phase record and number of phases of each chunk of a call."""
    plan = low.plans[kind, dimensions]
    if size == 0 or not any(v.phases for v in plan.variants):
        return []
    total = low.scheduler.chunks(size, len(plan.variants))
    weights = np.array([v.weight for v in plan.variants])
    weights = weights / weights.sum()
    if total < len(weights):
        # Too few chunks for all variants: the first ones take all, in equal parts.
        weights = np.full(total, 1 / total)
    counts = np.maximum(1, np.round(weights * total)).astype(int)
    made = []
    for variant, (weight, count) in enumerate(zip(weights, counts)):
        piece = size * weight / count
        rows = low.rows_of(plan, variant, piece)
        made += [((i + 0.5) / count, variant, piece, rows) for i in range(count)]
    made.sort(key=lambda row: row[:2])  # the variants take turns
    return [(piece, *rows) for _, _, piece, rows in made]


def _rank(scheduler: Scheduler, policy: str | None, priority: int, call: int) -> int:
    """Lower goes first. FIFO calls among LIFO ones line up behind them."""
    newest_first = (policy or scheduler.policy) == "lifo"
    place = -call if newest_first else call + (1 << 20)
    return -priority * (1 << 50) + place * (1 << 22)


def _state(
    low: Lowering,
    job: Job,
    calls: list[list[tuple[int, int]]],
    chunk_rows: list[Row],
    call_rows: list[Row],
    graph_of: np.ndarray,
    stragglers: dict[int, float],
    bucket_fs: int,
    buckets: int,
    spans: int,
) -> tables.State:
    network, rows = low.network, low.rows
    graphs = _graph_tables(job, calls)
    most_tasks = max(1, max(len(graph.tasks) for graph in job.graphs))
    queues, units, rooms = max(1, len(low.queue_limit)), len(low.units), max(1, len(low.rooms))
    per_slot = rows * (4 * low.width + tables.CHUNK_AT_NODE.itemsize)
    in_calls = sum(int(row[1]) for row in call_rows)
    slots = max(1, min(in_calls, SLOT_BYTES // max(1, per_slot)))
    numbers = np.zeros(loop.NUMBERS, np.int64)
    numbers[loop.NODES] = rows
    numbers[loop.WIDTH] = low.width
    numbers[loop.QUEUES] = queues
    numbers[loop.UNITS] = units
    numbers[loop.ROOMS] = rooms
    numbers[loop.PLACES] = low.places
    numbers[loop.MAX_TASKS] = most_tasks
    numbers[loop.THRESHOLD] = low.scheduler.threshold or 1 << 40
    numbers[loop.ISSUE] = low.scheduler.issue or 1 << 40
    delays = {model.receive_delay_s for model in low.models.values()}
    numbers[loop.RECEIVE_FS] = round(max(delays, default=0.0) * FS_PER_S)
    numbers[loop.BUCKET_FS] = bucket_fs
    numbers[loop.BUCKETS] = buckets
    numbers[loop.RECORD] = spans > 0
    numbers[loop.FREE_SLOTS] = slots
    if low.folded:
        _, kind = network.link_classes()
        _, first = np.unique(kind, return_index=True)
    else:
        first = np.arange(len(network.link_source))
    link_count = len(first)
    unit_base = np.concatenate([[0], np.cumsum(np.array(low.servers, np.int64) * rows)])
    nodes = np.zeros(rows, tables.NODE)
    nodes["task_head"] = -1
    nodes["busy"] = -1
    nodes["least"] = len(chunk_rows)
    scale = np.ones(rows)
    for node, factor in stragglers.items():
        if not 0 <= node < network.nodes:
            raise ValueError(f"straggler must be a node from 0 to {network.nodes - 1}, not {node}")
        scale[node] = factor
    task_transfer = np.full(rows * most_tasks if low.transfer_rows else 1, -1, np.int32)
    for number, row in enumerate(low.transfer_rows):
        task_transfer[int(row[2]) * most_tasks + int(row[3])] = in_calls + number
    events = queue_arrays(EVENT_ROOM, EVENT_ROOM >> 2)
    places = low.places
    return tables.State(
        numbers=numbers,
        events=events[0],
        buckets=events[1],
        heap=events[2],
        cache=events[3],
        registers=events[4],
        segments=_records(low.segments, tables.SEGMENT),
        programs=_records(low.programs, tables.PROGRAM),
        role_program=np.concatenate(low.role_program or [np.zeros(1, np.int32)]),
        entries=_records(low.entries, tables.ENTRY),
        phases=_records(low.phases, tables.PHASE),
        stages=_records(low.stages, tables.STAGE),
        units=_records(list(zip(unit_base.tolist(), low.servers)), tables.UNIT),
        unit_free=np.zeros(max(1, int(unit_base[-1])), np.int64),
        unit_busy=np.zeros(max(1, units * rows), np.int64),
        unit_bytes=np.zeros(max(1, units * rows), np.int64),
        peers=np.concatenate(low.peers or [np.zeros(1, np.int32)]),
        links=np.concatenate(low.links or [np.zeros(1, np.int32)]),
        link_free=np.zeros(link_count, np.int64),
        link_rate=network.link_fs_per_byte[first] * low.wire_factor,
        link_latency=network.link_latency_fs[first],
        link_bytes=np.zeros(link_count, np.int64),
        link_busy=np.zeros(link_count, np.int64),
        link_dimension=network.link_dimension[first],
        link_series=np.zeros(max(1, len(network.dimensions) * buckets), np.int64),
        calls=_records(call_rows, tables.CALL),
        chunks=_records(chunk_rows, tables.CHUNK),
        free_slots=np.arange(slots - 1, -1, -1, dtype=np.int32),
        slot_state=np.empty(slots * rows, tables.CHUNK_AT_NODE),
        counters=np.empty(slots * rows * low.width, np.int32),
        call_left=np.zeros(max(1, 2 * len(call_rows) * rows), np.int32),
        queue_limit=np.array(low.queue_limit or [1 << 30], np.int64),
        queue_used=np.zeros(rows * queues, np.int32),
        queue_head=np.full(rows * (queues + 1), -1, np.int32),
        queue_tail=np.full(rows * (queues + 1), -1, np.int32),
        room_limit=np.array(low.room_bytes or [1 << 60], np.int64),
        room_used=np.zeros(rows * rooms, np.int64),
        nodes=nodes,
        node_graph=graph_of[:rows],
        node_scale=scale,
        graph_first=graphs.graph_first,
        tasks=graphs.tasks,
        successors=graphs.successors,
        transfers=_records(low.transfer_rows, tables.TRANSFER),
        task_transfer=task_transfer,
        expected=np.concatenate(low.expected or [np.zeros(1, np.int32)]),
        task_waits=np.zeros(rows * most_tasks, np.int32),
        task_next=np.zeros(rows * most_tasks, np.int32),
        task_ready=np.full(rows * most_tasks, -1, np.int64),
        task_start=np.full(rows * most_tasks, -1, np.int64),
        task_end=np.full(rows * most_tasks, -1, np.int64),
        engine_busy=np.zeros(rows, np.int64),
        queue_delay=np.zeros(max(1, len(call_rows) * places), np.int64),
        phase_time=np.zeros(max(1, len(call_rows) * places), np.int64),
        network_delay=np.zeros(max(1, len(call_rows) * places), np.int64),
        bus_delay=np.zeros(max(1, len(call_rows) * places), np.int64),
        messages=np.zeros(max(1, len(call_rows) * places), np.int64),
        spans=np.empty(max(1, spans), tables.SPAN),
        work=np.empty(3 * loop.STACK, np.int64),
    )


def _graph_tables(job: Job, calls: list[list[tuple[int, int]]]) -> tables.GraphTables:
    call_of = {user: number for number, users in enumerate(calls) for user in users}
    rows: list[Row] = []
    successors: list[int] = []
    first = [0]
    for number, graph in enumerate(job.graphs):
        rows += _task_rows(graph, number, call_of, successors)
        first.append(len(rows))
    return tables.GraphTables(
        tasks=_records(rows, tables.TASK),
        successors=np.array(successors or [0], np.int32),
        graph_first=np.array(first, np.int64),
        calls=[users[0] for users in calls],
    )


def _task_rows(
    graph: TaskGraph,
    number: int,
    call_of: dict[tuple[int, int], int],
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
        rows.append(
            (
                int(task.kind),
                call_of.get((number, index), -1),
                len(task.after),
                first,
                len(successors),
                round(task.duration_s * FS_PER_S),
            )
        )
    return rows


def _records(rows: Sequence[Row], kind: np.dtype) -> np.ndarray:
    return np.array(rows, kind) if rows else np.zeros(1, kind)

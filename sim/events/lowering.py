# SPDX-License-Identifier: Apache-2.0
"""Plans and transfers as records: phases, programs, queues and partitions."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from sim.collectives.plan import AlgorithmChoice
from sim.collectives.program import (
    Phase,
    Plan,
    Program,
    Receipt,
    Source,
    Variant,
    relays_of,
)
from sim.endpoint.endpoint import Endpoint, EndpointModel, plan_of
from sim.events import defaults
from sim.events.kernel import constants
from sim.events.packets import PacketOptions, dated_dimensions
from sim.events.scheduler import AUTO, Scheduler
from sim.events.sends import Row, SendTables
from sim.events.transfers import Transfer, channels_of
from sim.fields import FieldError
from sim.network.embedding import embedding
from sim.network.network import Channel, Network
from sim.network.symmetry import why_not_symmetric
from sim.workload.graph import CollectiveKind

__all__ = ["Lowering"]

MOST_MESSAGES = constants.LIMITS["messages"] - 1


class Lowering(SendTables):
    """Adds plans, their phases and programs, queues, partitions and transfers."""

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
        super().__init__(network, software)
        self.packets = packets
        self.check = check
        self.endpoint = endpoint
        self.scheduler = scheduler
        self.choice = choice
        self.segments: list[Row] = []
        self.steps = 0  # of all segments
        self.programs: list[tuple[int, int]] = []
        self.role_program: list[np.ndarray] = []
        self.phases: list[Row] = []
        self.phase_of_row: list[Phase | None] = []  # None: of transfers
        self.expected: list[np.ndarray] = []
        self.transfer_rows: list[Row] = []
        self.partitions: list[str] = []
        self.partition_bytes: list[float] = []
        self.queues: dict[tuple[object, ...], int] = {}
        self.queue_group: list[int] = []
        self.groups: dict[tuple[object, ...], int] = {}
        self.queue_limit: list[int] = []  # places of each group, for chunks that find most
        self.chosen_bytes: set[float] = set()  # of chunks, by the rule; the next: places, likewise
        self.chosen_places: set[int] = set()
        self.phase_times: dict[tuple[int, int], defaults.PhaseTimes] = {}
        self.pool_limit: list[int] = []  # contexts of the phases of that index
        self.plans: dict[tuple[CollectiveKind, tuple[int, ...] | None], Plan] = {}
        self.views: dict[int, Network] = {}  # of the network, that plans see
        self.queues_of: dict[int, str] = {}  # of plans
        self.program_at: dict[tuple[int, int], int] = {}
        self.variant_rows: dict[tuple[object, ...], tuple[int, int]] = {}
        self.phases_left: dict[int, set[int]] = {}  # of messages, by the links of a channel
        self.width = 1
        self.relay_width = 0
        self.columns = 1
        self.notes: list[str] = []

    @property
    def wire_factor(self) -> float:
        """Wire factor of the endpoint's models, the same for all."""
        factors = {model.wire_factor for model in self.models.values()} or {1.0}
        if len(factors) > 1:
            raise FieldError(
                "wire_factor",
                f"must be the same for all collectives of a run, not {sorted(factors)}"
            )
        return factors.pop()

    @property
    def header(self) -> tuple[float, float]:
        """Header of a message on the links, in bytes, and the part of the time of long messages
        that is not theirs; the same for all of the endpoint's models."""
        found = {
            (model.header_bytes, model.message_bytes) for model in self.models.values()
            if model.header_bytes and model.message_bytes is not None
        }
        if len(found) > 1:
            raise FieldError("header_bytes", f"must be the same for all, not {sorted(found)}")
        header, message = next(iter(found), (0.0, 1.0))
        return header, message / (message + header)

    # ---- Plans.

    def plan(self, kind: CollectiveKind, dimensions: tuple[int, ...] | None) -> Plan:
        key = (kind, dimensions)
        if key not in self.plans:
            choice = self.choice
            if not isinstance(choice, AlgorithmChoice):
                choice = choice.get(kind, AlgorithmChoice())
            mode = getattr(self.endpoint, "in_switch", None)
            if mode is not None and (self.software or self.packets is not None):
                raise ValueError(
                    "in_switch needs messages that travel whole (granularity message) and that "
                    "routers forward (packet_routing hardware)"
                )
            view, inside = self.network.view(dimensions)
            made = plan_of(self.endpoint, view, kind, choice, inside)
            self.plans[key] = made
            self.views[id(made)] = view
            if inside is not None and (note := embedding(view, inside)) not in ("", *self.notes):
                self.notes.append(note)
            self.queues_of[id(made)] = self.scheduler.queues
            self.models[id(made)] = self.endpoint.model(view, kind, made)
            deepest = max((len(v.phases) for v in made.variants), default=0)
            if deepest > constants.LIMITS["phases"]:
                raise ValueError(
                    f"a collective may have at most {constants.LIMITS['phases']} phases, "
                    f"not {deepest}"
                )
            self.columns = max(self.columns, deepest + 1)
        return self.plans[key]

    def fold(self) -> None:
        """Let one node stand for all from now on."""
        self.folded, self.rows = True, 1

    def why_not_alike(self, plan: Plan) -> str | None:
        """Reason why a plan is not the same at all nodes; None if it is."""
        channels = {}
        for variant in plan.variants:
            for phase in variant.phases:
                if relays_of(phase):
                    return f"{phase.name} is done by switches"
                if phase.role is not None:
                    return f"{phase.name} gives nodes different roles"
                for channel in _channels(phase):
                    channels[id(channel)] = (phase.name, channel)
        reason = why_not_symmetric(self.views[id(plan)], channels.values())
        if reason is None and self.packets is not None:
            legs = [leg for _, c in channels.values() for way in self._ways(c) for leg in way]
            dated = dated_dimensions(self.network, [leg.links for leg in legs])
            if dated:
                reason = f"the dateline of dimension {min(dated)} makes the nodes of a ring differ"
        return reason

    def share_rooms(self) -> None:
        """Divide buffers and contexts as the collective with the largest groups does, of equal ones
        the first: collectives of smaller groups beside it do not change that."""
        shape = self.network.shape

        def members(key: tuple[CollectiveKind, tuple[int, ...] | None]) -> int:
            return math.prod(shape if key[1] is None else (shape[each] for each in key[1]))

        for key in sorted(self.plans, key=members, reverse=True):
            plan = self.plans[key]
            deepest = max((len(variant.phases) for variant in plan.variants), default=0)
            if deepest:
                model = self.models[id(plan)]
                self._partitions(model, deepest)
                self._pool(deepest - 1, model)

    def rows_of(
        self, plan: Plan, variant: int, size: float, places: int, message: float | None = None
    ) -> tuple[int, int]:
        """First phase record and number of phases of a variant for chunks of *size* bytes, which
        find so many *places* in a queue. *message*: the most that one carries, if not as in the
        model."""
        phases = plan.variants[variant].phases
        model = self.models[id(plan)]
        counts = [self._messages(phase, model, size, message) for phase in phases]
        key = (id(plan), variant, tuple(counts), places)
        if key in self.variant_rows:
            return self.variant_rows[key]
        first, offset, relays = len(self.phases), 0, 0
        partitions = self._partitions(model, len(phases))
        for index, (phase, count) in enumerate(zip(phases, counts)):
            width = 1 + max(program.slots for program in phase.programs)
            behind = relays_of(phase)
            self.relay_number |= {id(relay): number for number, relay in enumerate(behind)}
            self.place = phase.dimension, phase.ring
            made = [self._program(program, model) for program in phase.programs]
            self.place = 0, 0
            roles = -1
            if phase.role is not None:
                roles = sum(len(part) for part in self.role_program)
                self.role_program.append(np.asarray(made, np.int32)[phase.role])
            self.phases.append(
                (
                    made[0],
                    self._queue(index, phase, plan),
                    places,
                    offset,
                    count,
                    model.grain_bytes,
                    width,
                    index + 1,
                    roles,
                    partitions[index],
                    partitions[index + 1],
                    self._pool(index, model),
                    phase.data_in,
                    phase.data_out,
                    self._expected(phase),
                    relays,
                )
            )
            self.phase_of_row.append(phase)
            # Links of an engine that cuts by itself do not tell phases apart.
            self._note_phases_left(phase, 1 if model.cut else len(phases) - index)
            if model.oldest_first:
                self._note_phases_left(phase, constants.OLDEST + 1)
            offset += count * width
            relays += count * len(behind) * self.network.vertices
        self.width = max(self.width, offset)
        self.relay_width = max(self.relay_width, relays)
        self.variant_rows[key] = first, len(phases)
        return first, len(phases)

    def _note_phases_left(self, phase: Phase, left: int) -> None:
        """Note that the links of a phase's sends carry messages of chunks with *left* phases to go.
        """
        for channel in _channels(phase):
            for way in self._ways(channel):
                for leg in way:
                    self._channel(leg)
                    self.phases_left.setdefault(self.links_at[id(leg)], set()).add(left)

    def _messages(
        self, phase: Phase, model: EndpointModel, size: float, most: float | None = None
    ) -> int:
        longest = model.message_bytes if most is None else most
        if longest is None:
            return 1
        largest = max(
            (
                max(send.fraction, send.asks)
                for program in phase.programs
                for segment in program.segments
                for step in segment.sends
                for send in step
            ),
            default=0.0,
        )
        count = max(1, math.ceil(largest * size / longest - 1e-9))
        if count > MOST_MESSAGES:
            note = (
                f"{phase.name}: {count} messages a step are more than {MOST_MESSAGES}; larger "
                "messages are simulated"
            )
            if note not in self.notes:
                self.notes.append(note)
        return min(count, MOST_MESSAGES)

    def _partitions(self, model: EndpointModel, phases: int) -> list[int]:
        if not model.rooms:
            return [-1] * (phases + 1)
        if len(model.rooms) < phases + 1:
            raise ValueError(f"{phases} phases need {phases + 1} rooms, not {len(model.rooms)}")
        for room in model.rooms:
            if room.name not in self.partitions:
                self.partitions.append(room.name)
                self.partition_bytes.append(room.size_bytes)
        return [self.partitions.index(room.name) for room in model.rooms[: phases + 1]]

    def _queue(self, index: int, phase: Phase, plan: Plan) -> int:
        """The scheduling queue of a phase. The places in it are the same for all endpoints. Rings
        of groups that cover part of a dimension have queues of their own.

        Where chunks of a queue may wait for different contexts or buffers, those of different
        phases wait apart, so that none is held up by one that needs something else.
        """
        model = self.models[id(plan)]
        ring = (*self.views[id(plan)].place(phase.dimension), phase.ring)
        places = ring if self.queues_of[id(plan)] == "dimension" else (index, *ring)
        key = (index, *ring) if _shares(model) else places
        if places not in self.groups:
            self.groups[places] = len(self.queue_limit)
            self.queue_limit.append(0)
        if key not in self.queues:
            self.queues[key] = len(self.queue_group)
            self.queue_group.append(self.groups[places])
        return self.queues[key]

    # ---- Chunks and places that nobody has stated.

    def chunk_bytes(self, plan: Plan, size_bytes: float, calls: int) -> float:
        """Bytes of a chunk where the scheduler does not say: as the endpoint cuts collectives, or
        by the rule."""
        own = getattr(self.endpoint, "chunk_of", None)
        if own is not None:
            return float(own(self.network.dimensions))
        return defaults.chunk_bytes(size_bytes, calls, plan, self.models[id(plan)])

    def places(self, plan: Plan, uses: Sequence[defaults.RoomUse]) -> int:
        """Chunks of a call that may be in a queue at a time: as stated, or as many as the endpoint
        has in flight, or by the rule."""
        by_endpoint = (
            getattr(self.endpoint, "chunk_of", None) is not None
            or self.models[id(plan)].cut is not None
        )
        if not self.scheduler.cuts and not by_endpoint:
            self.chosen_bytes |= {each.size_bytes for each in uses}
        stated = self.scheduler.concurrency
        own = getattr(self.endpoint, "concurrency_of", None)
        bound = stated
        if stated == AUTO and own is not None:
            bound = own(self.network.dimensions)
        elif stated == AUTO:
            bound = defaults.places(uses, self.models[id(plan)])
            self.chosen_places.add(bound)
        limit = constants.UNBOUND if bound is None else min(int(bound), constants.UNBOUND)
        for group in {each.group for each in uses}:
            self.queue_limit[group] = max(self.queue_limit[group], limit)
        return limit

    def note_choices(self) -> None:
        """Add a note on the chunks and places that nobody has stated."""
        said = []
        if self.chosen_bytes:
            said.append(f"chunks of {_range(self.chosen_bytes)} bytes (scheduler.chunk_bytes)")
        if self.chosen_places:
            said.append(f"{_range(self.chosen_places)} in a queue (scheduler.concurrency)")
        if said:
            self.notes.append(f"chosen: {', '.join(said)}")

    def uses(self, plan: Plan, of_each: Sequence[tuple[float, int]]) -> list[defaults.RoomUse]:
        """The phases of all chunks of a call, and the queues before them. *of_each*: size and
        number of the chunks of each variant."""
        model = self.models[id(plan)]
        found = []
        for variant, (size_bytes, chunks) in zip(plan.variants, of_each):
            for index, phase in enumerate(variant.phases):
                key = (id(phase), id(model))
                if key not in self.phase_times:
                    self.phase_times[key] = defaults.times_of(
                        self.views[id(plan)], phase, model, software=self.software
                    )
                found.append(
                    defaults.RoomUse(
                        group=self.queue_group[self._queue(index, phase, plan)],
                        index=index,
                        last=index + 1 == len(variant.phases),
                        phase=phase,
                        times=self.phase_times[key],
                        chunks=chunks,
                        size_bytes=size_bytes,
                        messages=self._messages(phase, model, size_bytes),
                    )
                )
        return found

    def means_of(self, uses: Sequence[defaults.RoomUse]) -> tuple[list[float], list[float]]:
        """Means over the chunks of a call: by column of its phases, the link latency on the way of
        a message, and by buffer the bytes that a chunk takes."""
        latency_s, messages = [0.0] * self.columns, [0.0] * self.columns
        taken = [0.0] * (self.columns + 1)
        total = sum(use.chunks for use in uses if use.index == 0)
        for use in uses:
            sent = use.chunks * use.times.messages * use.messages
            messages[use.index + 1] += sent
            latency_s[use.index + 1] += sent * use.times.latency_s
            taken[use.index] += use.chunks * use.size_bytes * use.phase.data_in / total
            if use.last:
                taken[use.index + 1] += use.chunks * use.size_bytes * use.phase.data_out / total
        return [each / max(1.0, sent) for each, sent in zip(latency_s, messages)], taken

    def _pool(self, index: int, model: EndpointModel) -> int:
        """Number of the contexts that the queues of all phases of an index share; -1: no bound."""
        if not _shares(model):
            return -1
        contexts = model.contexts or (1 << 30,)
        for limit in contexts[len(self.pool_limit) : index + 1]:
            self.pool_limit.append(limit)
        return min(index, len(self.pool_limit) - 1)

    # ---- Programs.

    def _program(self, program: Program, model: EndpointModel) -> int:
        key = (id(program), id(model))
        if key in self.program_at:
            return self.program_at[key]
        steps_before = self.steps
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
                    segment.steps,
                    segment.slot,
                    segment.slot_stride,
                    segment.count,
                    segment.count_stride,
                    first,
                    per_step if len(segment.sends) > 1 else 0,
                    per_step,
                )
            )
            self.steps += segment.steps
        if len(self.entries) >= constants.LIMITS["entries"]:
            raise ValueError(
                f"the plans of this job have more than {constants.LIMITS['entries']} "
                "different sends; "
                "use fewer rings or an algorithm with fewer partners"
            )
        self.programs.append((steps_before, self.steps - steps_before))
        self.program_at[key] = len(self.programs) - 1
        return self.program_at[key]

    def _expected(self, phase: Phase) -> int:
        """Index of the counts of messages that every node must have got, if they are checked."""
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
                        if send.relay is None:
                            goals = send.channel.peer[(role == number) & (send.channel.peer >= 0)]
                            np.add.at(counts, (goals, send.slot), times)
        for relay in relays_of(phase):
            for send in relay.sends:
                if send.relay is None:
                    goals = send.channel.peer[(relay.needs > 0) & (send.channel.peer >= 0)]
                    np.add.at(counts, (goals, np.full_like(goals, send.slot)), 1)
        self.expected.append(counts[: self.rows].ravel())
        return first

    # ---- Transfers.

    def transfers(self, found: Sequence[Transfer], pseudo_call: int, chunk_rows: list[Row]) -> None:
        """Add a chunk for every transfer."""
        plan = Plan(name="messages", variants=(Variant(phases=(), weight=1.0),))
        model = self.endpoint.model(self.network, CollectiveKind.ALL_TO_ALL, plan)
        self.models[id(plan)] = model
        self.plans_of_transfers = plan  # keeps its id from being used again
        self.columns = max(self.columns, 2)
        entry_of: dict[int, int] = {}
        before = (*model.load, *model.stages_before(Source.FRESH))
        after = (*model.stages_after(Receipt.KEEP), *model.store)
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
                self.phases.append((0, 0, 0, 0, count, 1, 1, 1, -1, -1, -1, -1, 0.0, 0.0, 0, 0))
                self.phase_of_row.append(None)
            chunk_rows.append((transfer.size_bytes, 0, pseudo_call, rows[count], 0, -1, 0, 0))
            self.transfer_rows.append(
                (entry_of[number], count, transfer.source, transfer.send, transfer.goal,
                 transfer.receive)
            )


def _channels(phase: Phase) -> Iterator[Channel]:
    """Channels of all sends of a phase, also those of switches."""
    for program in phase.programs:
        for segment in program.segments:
            for step in segment.sends:
                for send in step:
                    yield send.channel
    for relay in relays_of(phase):
        for send in relay.sends:
            yield send.channel


def _range(numbers: Collection[float]) -> str:
    """Least and most, in whole numbers."""
    ends = [f"{each:.0f}" for each in (min(numbers), max(numbers))]
    return " to ".join(dict.fromkeys(ends))


def _shares(model: EndpointModel) -> bool:
    """True if chunks of different queues need the same contexts or buffers."""
    return model.contexts is not None or bool(model.rooms)

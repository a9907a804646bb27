# SPDX-License-Identifier: Apache-2.0
"""Default chunks and places, by size, links, endpoint and algorithm, where nobody has stated them.

A collective is pipelined twice: its chunks overlap in the phases, and within a phase the steps of
one chunk wait for the links' latency while others use the links. The first wants many chunks; the
second wants bytes under way, as many as a link carries in the time that a step waits.

**Chunks.** `MOST_CHUNKS` at most, and none smaller than `LEAST_BYTES` where it is largest: at the
end of an all-gather, not at its start. An endpoint that works on few chunks at a time
(`EndpointModel.contexts`), or has a fixed time for every message however small, gets none that
starts smaller. Where chunks lie in buffers (`EndpointModel.rooms`) they do not grow with the
collective before there are `ALL_CHUNKS`, and `ROOM_CHUNKS` fit into each.

**Places.** In a step a chunk needs the links for a time t, and waits for l beside. Where the step
needs a unit of the endpoint, which all queues share, for longer than the links, t is that time.
Chunks pass a queue in the order in which they come, so those in flight are about as far as each
other, and 1 + l/t of them keep the links busy in that step; with n places, fewer than that, links
idle for (1 + l/t)/n - 1 of t. Phases that wait apart for the same links share the places that these
need. Queues have the fewest places, from `LEAST_PLACES`, with which links idle for at most `IDLE`
of their busy time: many for small chunks, few for large ones. Chunks that wait outside do not crowd
the first phase, so no more than `SHARE` of all that pass a phase may be in it. All queues have
equally many places: with fewer in some, others would get ahead, and leave links idle later.

Where there is but one phase and links decide, there is nothing to crowd: there are
`ONE_PHASE_PLACES` at least, or `SHARE` of the chunks if these are fewer, so that a collective of
higher priority finds some waiting, and so many that chunks fill the last round. Places are never
more than a queue's part of the contexts and buffers of the endpoint.

All of this depends on one collective alone, so other parts of a job change nothing.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sim.collectives.phases import rings_of
from sim.collectives.program import Phase, Plan, Program, Send
from sim.endpoint.endpoint import EndpointModel, Stage
from sim.network.dimension import DimensionKind
from sim.network.network import Network
from sim.units import FS_PER_S

__all__ = ["PhaseTimes", "RoomUse", "Step", "chunk_bytes", "chunk_size", "places", "times_of"]

MOST_CHUNKS = 4096
"""Chunks of a collective; more take longer to simulate, and change nothing that can be seen."""
LEAST_BYTES = 65536
"""Bytes of a chunk (ACE v1, Table 4)."""
ALL_CHUNKS = 1 << 20
"""Chunks of a job with very many collectives: half of those that the simulator can number."""
ROOM_CHUNKS = 2
"""Chunks that fit into a buffer: one that is at work and one that comes, or goes."""
LEAST_PLACES = 8
"""Places of a queue (ASTRA-sim, normal injection)."""
ONE_PHASE_PLACES = 32
"""Places of a queue of one-phase collectives. Chunks that exchange with changing partners wait for
each other now and then: on 64 nodes of a fat tree 8 places reach 93 % of the bound, 32 reach 99 %.
"""
SHARE = 0.5
"""Share of the chunks that pass a phase which may be in it at a time, so that they come to the next
one while others are still there. Where not even all of them keep the links busy, all may."""
IDLE = 0.005
"""Share of their busy time for which links may idle for want of places."""


# ---- Chunks.


def chunk_size(
    size_bytes: float, calls: int, *, growth: float = 1.0, most: int = MOST_CHUNKS
) -> float:
    """Bytes of a chunk of a collective of *size_bytes*, with at most *most* chunks, in a job of so
    many *calls*; its data grow by the factor *growth* on their way."""
    most = max(1, min(most, ALL_CHUNKS // max(1, calls)))
    return max(1.0, LEAST_BYTES / growth, math.ceil(size_bytes / most))


def chunk_bytes(size_bytes: float, calls: int, plan: Plan, model: EndpointModel) -> float:
    """`chunk_size` for a collective by its plan and endpoint."""
    growth = 1.0
    if model.contexts is None and not _costs_by_message(model):
        phases = [phase for variant in plan.variants for phase in variant.phases]
        growth = max([1.0, *(max(each.data_in, each.data_out) for each in phases)])
    most = ALL_CHUNKS if model.rooms else MOST_CHUNKS
    chosen = chunk_size(size_bytes, calls, growth=growth, most=most)
    for variant in plan.variants:
        for index, phase in enumerate(variant.phases):
            for room, share in zip(model.rooms[index:], (phase.data_in, phase.data_out)):
                chosen = min(chosen, room.size_bytes / ROOM_CHUNKS / share)
    return max(1.0, chosen)


def _costs_by_message(model: EndpointModel) -> bool:
    stages = [each for of in (*model.before.values(), *model.after.values()) for each in of]
    return any(each.unit is not None and each.fixed_s > 0 for each in stages)


# ---- What a phase needs.


class Step(NamedTuple):
    """``times`` steps in which a chunk of b bytes needs ``link_s_per_byte * b`` of the links, waits
    for ``wait_s + wait_s_per_byte * b / messages`` beside, and needs units of the endpoint: name,
    seconds for a message and for a byte, both divided by the number of servers."""

    times: int
    link_s_per_byte: float
    wait_s: float
    wait_s_per_byte: float
    units: tuple[tuple[str, float, float], ...]

    def unit_s(self, size_bytes: float, messages: int) -> float:
        """Seconds in the busiest unit."""
        return max(
            (fixed_s * messages + per_byte * size_bytes for _, fixed_s, per_byte in self.units),
            default=0.0,
        )


class PhaseTimes(NamedTuple):
    """Times of a chunk in a phase. ``messages``: those that a node sends if each send is one;
    ``latency_s``: mean latency of the links on their way."""

    steps: tuple[Step, ...]
    messages: int
    latency_s: float


@dataclass(frozen=True, kw_only=True)
class RoomUse:
    """``chunks`` of ``size_bytes`` that each pass a phase, the ``index``-th of its variant (and the
    ``last`` one, if so), each send in so many ``messages``, through a queue of ``group``; queues of
    a group share places."""

    group: int
    index: int
    last: bool
    phase: Phase
    times: PhaseTimes
    chunks: int
    size_bytes: float
    messages: int


def times_of(
    network: Network, phase: Phase, model: EndpointModel, *, software: bool
) -> PhaseTimes:
    """Times of a phase in a network, or its view. *software*: nodes on the way receive and resend.
    """
    # Nodes of a tree differ, and wait for those below them; the one that sends most is busiest.
    program = max(phase.programs, key=lambda each: _carried(each))
    dimensions = phase.group or (phase.dimension,)
    members = math.prod(network.shape[each] for each in dimensions)
    depth = 1 if phase.role is None else math.ceil(math.log2(max(2, members)))
    # Each ring has a queue; rings share the rate at which a node can send.
    rate = sum(network.injection_bytes_per_s(each) for each in dimensions)
    rate /= rings_of(network, phase.dimension)
    on_links = any(network.ways(each).kind is DimensionKind.RING for each in dimensions)
    steps: Counter[tuple[Any, ...]] = Counter()
    messages, latency_s = 0, 0.0
    for segment in program.segments:
        times = segment.steps if len(segment.sends) == 1 else 1
        for sends in segment.sends:
            ways = [_way(network, send) for send in sends]
            carried = sum(
                send.fraction * (hops if on_links else 1) for send, (hops, _) in zip(sends, ways)
            )
            waits = [
                _wait(send, hops if software else 1, way_s, model)
                for send, (hops, way_s) in zip(sends, ways)
            ]
            wait_s = max([each for each, _ in waits], default=0.0)
            per_byte = max([each for _, each in waits], default=0.0)
            link_s = carried / rate if rate else 0.0
            units = _units(sends, model)
            steps[link_s, wait_s * depth, per_byte * depth, units] += times
            messages += times * len(ways)
            latency_s += times * sum(way_s for _, way_s in ways)
    return PhaseTimes(
        steps=tuple(
            Step(
                times=count,
                link_s_per_byte=link,
                wait_s=wait,
                wait_s_per_byte=per_byte,
                units=units,
            )
            for (link, wait, per_byte, units), count in steps.items()
        ),
        messages=messages,
        latency_s=latency_s / max(1, messages),
    )


def _carried(program: Program) -> float:
    return sum(
        (segment.steps if len(segment.sends) == 1 else 1) * send.fraction
        for segment in program.segments
        for sends in segment.sends
        for send in sends
    )


def _way(network: Network, send: Send) -> tuple[int, float]:
    """Number and latency of the links on the way of the first node that sends; through switches
    that reduce, as far as there is a single way."""
    peer = send.channel.peer
    node = 0 if peer[0] >= 0 else int(np.argmax(peer >= 0))
    links = send.channel.links[:, node]
    links = links[links >= 0]
    hops, latency_s = len(links), float(network.link_latency_fs[links].sum()) / FS_PER_S
    if send.relay is not None and send.relay.sends:
        further, behind_s = _way(network, send.relay.sends[0])
        return hops + further, latency_s + behind_s
    return hops, latency_s


def _stages(send: Send, model: EndpointModel) -> tuple[Stage, ...]:
    return (*model.stages_before(send.source), *model.stages_after(send.receipt))


def _wait(
    send: Send, times: int, latency_s: float, model: EndpointModel
) -> tuple[float, float]:
    """Seconds, fixed and per byte of the chunk, from a message's send to the next send that waits
    for it, beside its time on links."""
    stages = _stages(send, model)
    here_s = model.receive_delay_s + _fixed_s(stages)
    per_byte = send.fraction * sum(stage.s_per_byte for stage in stages)
    return latency_s + times * here_s, times * per_byte


def _fixed_s(stages: Iterable[Stage]) -> float:
    return sum(stage.fixed_s + stage.latency_s for stage in stages)


def _units(sends: Sequence[Send], model: EndpointModel) -> tuple[tuple[str, float, float], ...]:
    """Time of a step's messages in units, as in `Step`: those sent, and as many that come."""
    servers = {each.name: each.servers for each in model.units}
    found: dict[str, tuple[float, float]] = {}
    for send in sends:
        for stage in _stages(send, model):
            if stage.unit is not None:
                fixed_s, per_byte = found.get(stage.unit, (0.0, 0.0))
                alike = servers.get(stage.unit, 1)
                fixed_s += stage.fixed_s / alike
                per_byte += send.fraction * stage.s_per_byte / alike
                found[stage.unit] = fixed_s, per_byte
    return tuple((name, *each) for name, each in found.items())


# ---- Places.


def places(uses: Sequence[RoomUse], model: EndpointModel) -> int:
    """Places of each queue, for a collective with these *uses* of phases."""
    # Loading chunks and storing them are phases, too.
    one_phase = not (model.load or model.store or any(each.index for each in uses))
    chunks = max(_chunks_at(uses).values(), default=1)
    least = LEAST_PLACES
    if one_phase and _links_decide(uses, model):
        least = max(least, min(ONE_PHASE_PLACES, int(SHARE * chunks)))
    chosen = _fewest(uses, model, least, share=1.0 if one_phase else SHARE)
    if one_phase:
        # Chunks begin and end together, by rounds: the last one is to be a full one.
        chosen = max(chosen, math.ceil(chunks / max(1, chunks // chosen)))
    return max(LEAST_PLACES, min(chosen, _most(uses, model)))


def _chunks_at(uses: Sequence[RoomUse]) -> Counter[tuple[int, int]]:
    """Chunks by group of queues and phase."""
    found: Counter[tuple[int, int]] = Counter()
    for each in uses:
        found[each.group, each.index] += each.chunks
    return found


def _ring(use: RoomUse) -> tuple[int, int]:
    """The ring whose links a phase uses; phases of a ring may have queues of their own."""
    return use.phase.dimension, use.phase.ring


def _links_decide(uses: Sequence[RoomUse], model: EndpointModel) -> bool:
    """True if no unit of the endpoint has more to do than the busiest links."""
    links: dict[int, float] = {}
    units: dict[str, float] = {}
    for use in uses:
        size_bytes = use.size_bytes
        for step in use.times.steps:
            often = use.chunks * step.times
            link_s = step.link_s_per_byte * size_bytes
            links[use.group] = links.get(use.group, 0.0) + often * link_s
            for name, fixed_s, per_byte in step.units:
                needed_s = often * (fixed_s * use.messages + per_byte * size_bytes)
                units[name] = units.get(name, 0.0) + needed_s
        for stage in (*model.load, *model.store) if use.index == 0 else ():
            if stage.unit is not None:
                needed_s = use.chunks * (stage.fixed_s + stage.s_per_byte * size_bytes)
                units[stage.unit] = units.get(stage.unit, 0.0) + needed_s
    return max(units.values(), default=0.0) <= max(links.values(), default=0.0)


def _fewest(
    uses: Sequence[RoomUse], model: EndpointModel, least: int, *, share: float
) -> int:
    """Fewest places, from *least* on, with which links and units idle for at most `IDLE`."""
    needs = []
    at = _chunks_at(uses)
    queues = len({each.group for each in uses})
    beside = Counter(ring for ring, _ in {(_ring(each), each.group) for each in uses})
    for use in uses:
        steps = sum(each.times for each in use.times.steps)
        load_s = _fixed_s(model.load) / max(1, steps) if use.index == 0 else 0.0
        for step in use.times.steps:
            # Queues share the units.
            unit_s = queues * step.unit_s(use.size_bytes, use.messages)
            busy_s = max(step.link_s_per_byte * use.size_bytes, unit_s)
            if busy_s > 0:
                wait_s = step.wait_s + step.wait_s_per_byte * use.size_bytes / use.messages
                need = (1 + (wait_s + load_s) / busy_s) / beside[_ring(use)]
                chunks = at[use.group, use.index]
                need = chunks if need >= chunks else min(need, share * chunks)
                needs.append((use.chunks * step.times * busy_s, need))
    allowed_s = IDLE * sum(used_s for used_s, _ in needs)
    low, high = least, max([least, *(math.ceil(need) for _, need in needs)])
    while low < high:
        middle = (low + high) // 2
        idle_s = sum(used_s * max(0.0, need / middle - 1) for used_s, need in needs)
        low, high = (low, middle) if idle_s <= allowed_s else (middle + 1, high)
    return low


def _most(uses: Sequence[RoomUse], model: EndpointModel) -> int:
    """Places of a queue in the contexts and buffers that it shares with others."""
    most = math.inf
    for use in uses if model.contexts is not None or model.rooms else ():
        queues = len({each.group for each in uses if each.index == use.index})
        if model.contexts is not None:
            most = min(most, model.contexts[min(use.index, len(model.contexts) - 1)] / queues)
        shares = (use.phase.data_in, use.phase.data_out)
        for room, share in zip(model.rooms[use.index :], shares):
            most = min(most, room.size_bytes / (share * use.size_bytes) / queues)
    return int(min(most, 1 << 30))

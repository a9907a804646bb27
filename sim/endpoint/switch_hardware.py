# SPDX-License-Identifier: Apache-2.0
"""The event endpoint of switches that reduce, from the configuration of the hardware."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

from hw.switch.packet import REOPENING_CYCLES, STOPPED_CYCLES
from sim.endpoint.endpoint import Stage, Tables
from sim.endpoint.in_switch import FirstTurn, InSwitchEndpoint, SwitchTimes
from sim.endpoint.latencies import EventLatencies
from sim.endpoint.memory_times import MemoryTimes
from sim.endpoint.switch_system import SwitchSystem
from sim.network.dimension import Dimension, DimensionKind

__all__ = [
    "behind_others", "longest_wait_cycles", "oldest_first", "switch_dimension", "switch_endpoint",
]


def switch_endpoint(
    system: SwitchSystem,
    *,
    memory: MemoryTimes,
    dimensions: Sequence[Dimension] = (),
    latencies: EventLatencies | None = None,
) -> InSwitchEndpoint:
    """The event endpoint of an endpoint at switches, from its configuration: packets, waves, and
    memory latency; with push, also the time that first turns of homes lose in *dimensions*, which
    are those of the description."""
    dma, held = system.dma, system.held
    payload = dma.payload_bytes
    known = EventLatencies.stored() if latencies is None else latencies
    return InSwitchEndpoint(
        mode=system.mode,
        switch=system.switch.sizes,
        wave_bytes=float(held.wave * payload * dma.links),
        waves=held.window // held.wave,
        message_bytes=float(payload),
        memory_latency_s=memory.read_cycles / system.clock_hz,
        reduce_at="home",
        times=replace(
            _times(system, memory, dimensions, known),
            first_turns=_first_turns(system, dimensions),
        ),
    )


def _writes(
    system: SwitchSystem, memory: MemoryTimes, result_cycles: float
) -> tuple[tuple[Stage, ...], Callable[[float], float]]:
    """Stage in which results wait for outstanding bursts to memory, none where there are enough;
    and seconds that the last results of a vector of so many bytes take longer, as they come in
    groups of as many. A result comes every *result_cycles* at best."""
    dma, clock = system.dma, system.clock_hz
    beats = min(dma.max_burst, dma.payload_flits)
    group = dma.outstanding_bursts / math.ceil(dma.payload_flits / beats)
    turn = memory.write_cycles + beats
    if turn <= result_cycles * group:
        return (), lambda size_bytes: 0.0

    def later_s(size_bytes: float) -> float:
        groups = size_bytes / dma.links / dma.payload_bytes / group
        whole = max(1, math.ceil(groups - 1e-9))
        last = (groups - whole + 1) * group * dma.payload_flits if whole > 1 else 0.0
        return (turn * (whole - max(1.0, groups)) + last) / clock

    stage = Stage(
        unit="writes", s_per_byte=turn / group / dma.payload_bytes / clock, ahead_s=turn / clock
    )
    return (stage,), later_s


def _reads(
    system: SwitchSystem, memory: MemoryTimes, known: EventLatencies
) -> tuple[int, int]:
    """Operands that a link's endpoint reads at a time, and the cycles that one takes: the tighter
    limit of places for operands and of outstanding bursts in memory."""
    dma, read = system.dma, memory.read_cycles
    places = system.held.reads, read + known.switch_operand
    beats = min(dma.max_burst, dma.payload_flits)
    per_operand = math.ceil(dma.payload_flits / beats)
    turns = math.ceil(per_operand / dma.outstanding_bursts)
    bursts = max(1, dma.outstanding_bursts // per_operand), turns * read + dma.payload_flits
    return min(places, bursts, key=lambda each: each[0] / each[1])


def _credit_cycles(
    system: SwitchSystem, dimensions: Sequence[Dimension], known: EventLatencies
) -> float:
    """Cycles for which a credit is away on the longest link."""
    way = max((each.latency_s for each in dimensions), default=0.0) * system.clock_hz
    return 2 * way + known.switch_credit + 2 * system.switch.packet_flits


def longest_wait_cycles(
    system: SwitchSystem, memory: MemoryTimes, dimensions: Sequence[Dimension]
) -> int:
    """Cycles, about, for which the entry of a load waits for the first answer where links are full
    of loads: an endpoint first answers all those that it has places for, and those that the units
    of other members hold for it, at the pace of its memory and of its credits."""
    known = EventLatencies.stored()
    reads, read_cycles = _reads(system, memory, known)
    credit = _credit_cycles(system, dimensions, known)
    pace = max(system.packet_cycles, read_cycles / reads, credit / system.held.credits_up)
    others = math.prod(each.size for each in dimensions) - 1
    before = system.held.credits_down + reads + others * system.switch.queue_packets
    far = sum(each.farthest_s for each in dimensions if each.has_switches) * system.clock_hz
    return math.ceil(2 * far + known.switch_answer + memory.read_cycles + before * pace)


def _times(
    system: SwitchSystem,
    memory: MemoryTimes,
    dimensions: Sequence[Dimension],
    known: EventLatencies,
) -> SwitchTimes:
    clock, held, flits = system.clock_hz, system.held, system.switch.packet_flits
    reads, read_cycles = _reads(system, memory, known)
    answer = known.switch_answer + memory.read_cycles
    pauses = {
        "begin": 0,
        "load": known.switch_load,
        "load on": known.switch_load_on,
        "answer": answer,
        "own": answer,
        "sum": known.switch_sum,
        "result": known.switch_result,
        "own result": known.switch_own_result,
    }
    credit = _credit_cycles(system, dimensions, known)
    slowest = max(system.packet_cycles, read_cycles / reads, credit / held.credits_up)
    writes, later_s = _writes(system, memory, slowest)
    begins = known.switch_start + known.switch_sum
    if system.mode == "pull":
        begins = known.switch_barrier - known.switch_load
    return SwitchTimes(
        tables=Tables(
            entries=held.entries,
            packet_bytes=float(system.dma.payload_bytes),
            ask_share=1 / system.packet_cycles,
            credits_up=held.credits_up,
            credits_down=held.credits_down,
            credit_s=(known.switch_credit + 2 * flits) / clock,
            pass_s=known.switch_pass / clock,
            stopped_s=STOPPED_CYCLES / clock,
            reopening_s=REOPENING_CYCLES / clock,
            reads=reads,
            read_s=read_cycles / clock,
            contract=system.mode == "push",
            detour_s=(known.switch_detour + 2 * flits) / clock,
            timeout_s=system.timeout_cycles / clock,
        ),
        pauses_s={step: cycles / clock for step, cycles in pauses.items()},
        packet_s=flits / clock,
        start_s=(begins + known.switch_end + memory.write_cycles) / clock,
        writes=writes,
        later_s=later_s,
    )


def _first_turns(
    system: SwitchSystem, dimensions: Sequence[Dimension]
) -> dict[int, FirstTurn]:
    """Time that first turns lose with push, by dimension, of those with more than two leaves.

    Endpoints that begin together push to the same leaf, step by step. It gets the operands of all
    others one after the other, a group of packets from each. The leaf's own endpoints have nothing
    to send to it, so they are a step ahead from then on, and find links free: in step *k* there are
    ``leaves - 1 - k`` groups to wait for. The loss is the time beyond that of the steady state.

    Where links grant the oldest operand first, leaves pass the first link one after the other and
    do not meet again: nothing is lost.
    """
    made = {}
    for index, dim in enumerate(dimensions):
        leaves = _leaves(dim)
        if system.mode == "pull" or leaves < 3 or system.switch.age_bits:
            continue
        later = (leaves - 1) / leaves / behind_others(leaves)
        steps = accumulate(leaves - 1 - step - later for step in range(leaves))
        group_s = dim.group * system.packet_cycles / system.clock_hz
        made[index] = FirstTurn(
            step_bytes=float(system.dma.payload_bytes * system.dma.links * _regions(dim)),
            lost_s=tuple(group_s * max(0.0, groups) for groups in steps),
        )
    return made


def switch_dimension(system: SwitchSystem, dim: Dimension, *, memory: MemoryTimes) -> Dimension:
    """A dimension as events see it: switch latencies count from a packet's last flit, and links
    have the share of their rate that payload gets.

    Headers reduce it, and with push limits that events have no resources for: no more operands can
    be sent than the busiest home port takes, and between leaves they wait behind others
    (`behind_others`, `oldest_first`), with results, one for the operands of a leaf, beside them.
    Credits and reads are resources of events, and the answers of a pull pass one another.
    """
    made = replace(dim, efficiency=system.payload_share)
    if dim.has_switches:
        made = replace(made, router_latency_s=system.switch_s(dim.router_latency_s))
    if system.mode == "pull":
        return made
    if not dim.has_switches:
        return made
    share = _home_share(system, dim)
    made = replace(made, efficiency=system.payload_share * share)
    if dim.kind is DimensionKind.FAT_TREE:
        beside = 1 + 1 / dim.group
        slower = min(1.0, _between_leaves(system, dim) * beside / share)
        trunk = dim.trunk_payload_bytes_per_s / dim.efficiency * slower
        made = replace(made, trunk_bandwidth_bytes_per_s=trunk)
    return made


def behind_others(leaves: int) -> float:
    """The share of a link from a spine to a leaf that pushes can use, with *leaves* leaves.

    A spine keeps the order of the operands of each leaf, and those of a block follow each other: an
    input waits for one link until all of them have gone, and blocks what is behind them even where
    links are free. Inputs that want the same link take turns, packet by packet. That is a closed
    network of queues, *leaves* inputs at *leaves* links, in which all arrangements are equally
    likely: of the ``leaves - 2`` others that may be at a link, an input finds each there once in
    ``leaves - 1`` times, and its packets take as much longer. Source: Baskett, Chandy, Muntz and
    Palacios, "Open, Closed, and Mixed Networks of Queues with Different Classes of Customers",
    1975. Two leaves have a link each, many use half of theirs.
    """
    return (leaves - 1) / (2 * leaves - 3) if leaves > 2 else 1.0


def oldest_first(leaves: int, group: int) -> float:
    """The same share where links grant the oldest operand of all inputs first, with *group*
    endpoints at a leaf.

    The operands of a leaf for a block then follow each other, and leaves come to a link one after
    the other. In the time of a block a link carries those of one leaf, and a result; the block that
    a leaf pushes to itself takes it as long as each of the others.
    """
    return (leaves - 1) / leaves * group / (group + 1) if leaves > 2 else 1.0


def _between_leaves(system: SwitchSystem, dim: Dimension) -> float:
    """The share of links from spines to leaves that operands of pushes can use."""
    leaves = _leaves(dim)
    if system.switch.age_bits:
        return oldest_first(leaves, dim.group)
    return behind_others(leaves)


def _home_share(system: SwitchSystem, dim: Dimension) -> float:
    """Share of an endpoint link's rate that home ports take: less than all if homes do not fill the
    rows of switches evenly. A port takes a packet at a time, one from every member for each row."""
    leaves, regions = _leaves(dim), _regions(dim)
    homes = leaves * (dim.size // leaves // regions)
    rows = system.switch.homes
    return min(1.0, regions * rows / (dim.size * math.ceil(rows / homes)))


def _leaves(dim: Dimension) -> int:
    return dim.size // dim.group if dim.kind is DimensionKind.FAT_TREE else 1


def _regions(dim: Dimension) -> int:
    """Regions: as many as there are links of the members' rate between a leaf and the spines."""
    if _leaves(dim) == 1:
        return 1
    links = dim.trunk_payload_bytes_per_s / dim.payload_bytes_per_s
    return min(dim.group, max(1, round(links)))

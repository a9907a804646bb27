"""Event endpoints of the engines that exist as hardware, from the hardware's own configuration.

One function per engine, so that a preset means the same in an event simulation, in a cycle model
and in RTL.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from hw.ace.config import AceConfig
from hw.link.packet import FLIT_BYTES
from hw.smartnic.config import HEADER_BYTES, SmartNicConfig
from sim.endpoint.endpoint import Tables
from sim.endpoint.in_switch import READ, FirstTurn, InSwitchEndpoint, SwitchTimes
from sim.endpoint.kinds import AceEndpoint, Bus, Npu
from sim.endpoint.smartnic import SmartNicEndpoint
from sim.endpoint.switch_system import SwitchSystem
from sim.network.dimension import Dimension, DimensionKind
from sim.units import seconds_to_cycles

__all__ = [
    "MemoryTimes",
    "ace_endpoint",
    "ace_wire_share",
    "behind_others",
    "nic_endpoint",
    "nic_frame_beats",
    "nic_wire_share",
    "oldest_first",
    "switch_dimension",
    "switch_endpoint",
]


READY_CYCLES = 20
"""Of an ACE, from the admission of a chunk to READY on the link, and from there to a send."""
HOST_CYCLES = {"ace": 100, "smartnic": 20, "in_switch": 30}
"""Register writes before a collective and the interrupt after it, beside the engine's own work."""
CREDIT_CYCLES = 18
"""From a packet's arrival in ACE's receive buffer to its credit on the link."""
CREDIT_FLIGHT_CYCLES = 13
"""Of a switch: from the grant of a packet's first flit to the return of its credit, beside the
flits of the packet itself, twice, and both ways on the link."""
OPERAND_CYCLES = 13
"""From the request of an operand to its place being free again, beside the latency of memory, at
an endpoint of a switch."""
PULL_CYCLES = {"load": 5, "load on": 8, "answer": 28, "own": 28, "sum": 12, "result": 14,
               "own result": 4}
"""Of pull, by the cycle model, from a packet's arrival to the first flit of what follows: a load is
sent and finds its entry; it goes on and finds the next; a member answers it, beside the latency of
its memory; its own operand comes to the home store, likewise; a sum leaves the table; the result
leaves the home store; the result is there where it was made."""
DETOUR_CYCLES = 47
"""Of a partial, from its table to a home endpoint and back as a result, beside links and flits."""
BARRIER_CYCLES = 96
"""Once in a pull: of the block that all push before, beside links and the flits of all operands,
and from the last result to its completion."""
NIC_HOP_CYCLES = 21
"""From a frame's last beat in to its first beat out, beside the adder, by the cycle model."""
NIC_CODEC_CYCLES = 10
"""Decoder and encoder of a block, on the same way."""


@dataclass(frozen=True, kw_only=True)
class MemoryTimes:
    """Latency of the memory behind an engine, in cycles of the engine.

    The defaults are those of the engines' rings: memory on the same package as ACE, host memory
    behind a bus for the NIC.
    """

    read_cycles: int = 50
    write_cycles: int = 4

    @classmethod
    def of(
        cls,
        read_s: float | None,
        write_s: float | None,
        *,
        clock_hz: float,
        default: "MemoryTimes",
    ) -> "MemoryTimes":
        """From latencies in seconds; None for the default."""
        return cls(
            read_cycles=(
                default.read_cycles if read_s is None else seconds_to_cycles(read_s, clock_hz)
            ),
            write_cycles=(
                default.write_cycles if write_s is None else seconds_to_cycles(write_s, clock_hz)
            ),
        )


def ace_endpoint(
    config: AceConfig, *, npu: Npu, memory: MemoryTimes, base: AceEndpoint
) -> AceEndpoint:
    """*base* with everything that the engine's configuration fixes.

    The memory ports set the bandwidth of the DMA, between which and the SRAM there is no other bus;
    a packet is the unit that is passed on, and the latencies of memory come on top of those of the
    engine's blocks.
    """
    bus = config.memory_ports * config.bus_bytes * npu.clock_hz
    return replace(
        base,
        npu=npu,
        memory_bytes_per_s=bus,
        bus=Bus(bytes_per_s=math.inf),
        sram_bytes=config.sram_bytes,
        sram_accesses=config.banks * (2 if config.bank_ports == "1r1w" else 1),
        bus_bytes=config.bus_bytes,
        fsms=config.fsms,
        contexts=config.contexts,
        alus=config.alus,
        lanes=config.lanes,
        message_bytes=float(config.packet_bytes),
        read_latency_s=memory.read_cycles / npu.clock_hz,
        store_cycles=base.store_cycles + memory.write_cycles,
        partition="even",
    )


def ace_after_ready(endpoint: AceEndpoint, dimensions: Sequence[Dimension]) -> AceEndpoint:
    """A chunk begins when its data are read and its next node has told that it is ready for it."""
    ready_s = READY_CYCLES / endpoint.npu.clock_hz + max(dim.hop_s for dim in dimensions)
    return replace(endpoint, read_latency_s=max(endpoint.read_latency_s, ready_s))


def ace_wire_share(config: AceConfig) -> float:
    """Payload over everything on a link: full packets and their headers."""
    return config.packet_bytes / (config.packet_bytes + FLIT_BYTES)


def ace_link_share(config: AceConfig, dim: Dimension, *, clock_hz: float) -> float:
    """Payload over what a link could carry: headers, and waiting for credits.

    A sender has as many packets under way as the receive buffer has places, each for a round trip
    and the cycles in which the receiver handles it.
    """
    packet_s = config.packet_bytes / ace_wire_share(config) / dim.bandwidth_bytes_per_s
    round_trip_s = 2 * dim.hop_s + CREDIT_CYCLES / clock_hz
    under_way = min(1.0, config.rx_packets * packet_s / (round_trip_s + packet_s))
    return ace_wire_share(config) * under_way


def nic_endpoint(
    config: SmartNicConfig,
    *,
    clock_hz: float,
    memory: MemoryTimes,
    compress: bool,
    base: SmartNicEndpoint,
) -> SmartNicEndpoint:
    """*base* with everything that the NIC's configuration fixes."""
    rate = config.engines * config.bus_bytes * clock_hz
    return replace(
        base,
        lanes=config.engines * config.lanes,
        clock_hz=clock_hz,
        host_bytes_per_s=rate,
        codec=config.codec if compress else "none",
        host_latency_s=memory.read_cycles / clock_hz,
        hop_cycles=NIC_HOP_CYCLES + config.alu_stages + (NIC_CODEC_CYCLES if compress else 0),
    )


def nic_frame_beats(config: SmartNicConfig, *, compress: bool) -> float:
    """Beats of the host's data in a full frame."""
    if not compress:
        return config.frame_beats
    assert config.codec_format is not None
    return min(config.block_beats, config.compressed_frame_beats * config.codec_format.ratio)


def nic_wire_share(config: SmartNicConfig, *, compress: bool) -> float:
    """Payload beats over all beats of full frames: a frame begins with its header's beats."""
    payload = config.compressed_frame_beats if compress else config.frame_beats
    return payload / (payload + math.ceil(HEADER_BYTES / config.bus_bytes))


def switch_endpoint(
    system: SwitchSystem, *, memory: MemoryTimes, dimensions: Sequence[Dimension] = ()
) -> InSwitchEndpoint:
    """The event endpoint of an endpoint at switches, by what its configuration fixes: packets,
    waves, and the latency of its memory; with push, what first turns of homes lose in *dimensions*,
    as they are described."""
    dma, held = system.dma, system.held
    payload = dma.payload_bytes
    return InSwitchEndpoint(
        mode=system.mode,
        switch=system.switch.sizes,
        wave_bytes=float(held.wave * payload * dma.links),
        waves=held.window // held.wave,
        message_bytes=float(payload),
        memory_latency_s=memory.read_cycles / system.clock_hz,
        reduce_at="home",
        times=replace(_times(system, memory), first_turns=_first_turns(system, dimensions)),
    )


def _reads(system: SwitchSystem, memory: MemoryTimes) -> tuple[int, int]:
    """Operands that a link's endpoint reads at a time, and the cycles that one takes: what is
    tighter of places for operands and of their bursts under way in memory."""
    dma, read = system.dma, memory.read_cycles
    places = system.held.reads, read + OPERAND_CYCLES
    beats = min(dma.max_burst, dma.payload_flits)
    per_operand = math.ceil(dma.payload_flits / beats)
    turns = math.ceil(per_operand / dma.outstanding_bursts)
    bursts = max(1, dma.outstanding_bursts // per_operand), turns * read + dma.payload_flits
    return min(places, bursts, key=lambda each: each[0] / each[1])


def _times(system: SwitchSystem, memory: MemoryTimes) -> SwitchTimes:
    clock, held, flits = system.clock_hz, system.held, system.switch.packet_flits
    reads, read_cycles = _reads(system, memory)
    pauses = {
        step: cycles + (memory.read_cycles if step in READ else 0)
        for step, cycles in PULL_CYCLES.items()
    }
    return SwitchTimes(
        tables=Tables(
            entries=held.entries,
            packet_bytes=float(system.dma.payload_bytes),
            ask_share=1 / system.packet_cycles,
            credits_up=held.credits_up,
            credits_down=held.credits_down,
            credit_s=(CREDIT_FLIGHT_CYCLES + 2 * flits) / clock,
            reads=reads,
            read_s=read_cycles / clock,
            detour_s=(DETOUR_CYCLES + 2 * flits) / clock,
        ),
        pauses_s={step: cycles / clock for step, cycles in pauses.items()},
        packet_s=flits / clock,
        barrier_s=BARRIER_CYCLES / clock,
    )


def _first_turns(
    system: SwitchSystem, dimensions: Sequence[Dimension]
) -> dict[int, FirstTurn]:
    """By dimension with more than two leaves, of push.

    Endpoints that begin together push to the same leaf, step by step. It gets the operands of all
    others one after the other, a group of packets from each. To the leaf itself nothing has to be
    sent, so its own endpoints are a step ahead from then on, and find links free: in step *k* there
    are ``leaves - 1 - k`` groups to wait for. Lost is what this takes longer than the steady state.

    Where links get the oldest operand first, leaves come from the first link one after the other,
    and meet no more: nothing is lost.
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
    """A dimension as events see it, with its switches' latency behind a packet's last flit and the
    shares of payload of its links.

    Headers, and with push what events have no resources for: waiting for credits, of which a sender
    has one for each place of the next buffer; it is away for a round trip and the packet. Nor can
    more operands be sent than are being read, or than the busiest home port takes. Between leaves
    they wait behind others (`behind_others`, `oldest_first`); results, one for the operands of a
    leaf, go beside them. With pull, credits and reads are resources of events, and answers pass one
    another.
    """
    made = replace(dim, efficiency=system.payload_share)
    if dim.has_switches:
        made = replace(made, router_latency_s=system.switch_s(dim.router_latency_s))
    if system.mode == "pull":
        return made
    clock = system.clock_hz
    way = dim.latency_s * clock
    there = way + system.router_cycles(dim.router_latency_s)
    away = there + way + CREDIT_FLIGHT_CYCLES + 2 * system.switch.packet_flits
    places, read = _reads(system, memory)
    packets = min(system.held.credits_up / away, places / read)
    share = min(1.0, packets * system.packet_cycles)
    if not dim.has_switches:
        return replace(made, efficiency=system.payload_share * share)
    share = min(share, _home_share(system, dim))
    made = replace(made, efficiency=system.payload_share * share)
    if dim.kind is DimensionKind.FAT_TREE:
        beside = 1 + 1 / dim.group
        slower = min(1.0, _between_leaves(system, dim) * beside / share)
        trunk = dim.trunk_payload_bytes_per_s / dim.efficiency * slower
        made = replace(made, trunk_bandwidth_bytes_per_s=trunk)
    return made


def behind_others(leaves: int) -> float:
    """The share of a link from a spine to a leaf, of so many leaves, that pushes can use.

    A spine keeps the order of the operands of each leaf, and those of a block follow each other: an
    input waits for one link until all of them have gone, and keeps what is behind them from links
    that are free. Inputs that want the same link take turns, packet by packet. That is a closed
    network of queues, *leaves* inputs at *leaves* links, in which each arrangement is as likely as
    any other: of the others that may be at a link, ``leaves - 2``, an input finds each there once
    in ``leaves - 1`` times, and its packets take as much longer. Source: Baskett, Chandy, Muntz and
    Palacios, "Open, Closed, and Mixed Networks of Queues with Different Classes of Customers",
    1975. Two leaves have a link each, many use half of theirs.
    """
    return (leaves - 1) / (2 * leaves - 3) if leaves > 2 else 1.0


def oldest_first(leaves: int, group: int) -> float:
    """The same where links get the oldest of several inputs' operands first, and *group* endpoints
    are at a leaf.

    The operands of a leaf for a block follow each other then, and leaves come to a link one after
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
    """Of the rate of an endpoint's link: what home ports take if homes do not fill the rows of
    switches evenly. A port takes a packet at a time, one from every member for each of its rows."""
    leaves, regions = _leaves(dim), _regions(dim)
    homes = leaves * (dim.size // leaves // regions)
    rows = system.switch.homes
    return min(1.0, regions * rows / (dim.size * math.ceil(rows / homes)))


def _leaves(dim: Dimension) -> int:
    return dim.size // dim.group if dim.kind is DimensionKind.FAT_TREE else 1


def _regions(dim: Dimension) -> int:
    """As many as there are links of the members' rate between a leaf and the spines."""
    if _leaves(dim) == 1:
        return 1
    links = dim.trunk_payload_bytes_per_s / dim.payload_bytes_per_s
    return min(dim.group, max(1, round(links)))


def host_s(kind: str, clock_hz: float) -> float:
    """What a host takes for a collective."""
    return HOST_CYCLES[kind] / clock_hz


def engine_defaults(kind: str) -> tuple[str, MemoryTimes, Any]:
    """Default preset, memory and event endpoint of an engine."""
    if kind == "ace":
        return "ring", MemoryTimes(), AceEndpoint()
    if kind == "in_switch":
        return "16-port", MemoryTimes(), InSwitchEndpoint()
    return "100g", MemoryTimes(read_cycles=50, write_cycles=10), SmartNicEndpoint()

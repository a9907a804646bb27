# SPDX-License-Identifier: Apache-2.0
"""The ACE hardware on a one-dimensional ring, as events: limits of its blocks and memory ports.

A chunk is read in bursts through a memory port, with a bounded number of bursts outstanding. Its
data are there with the last beat; then the node before is told (READY), and may send. The FSM makes
the packets of a node's own data one by one; what arrives is added, stored and forwarded on the fly.
The result is written in bursts again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from hw.ace.config import ELEMENT_BYTES, AceConfig
from hw.common.axi import BURST_BEATS, OUTSTANDING_BURSTS, aligned
from hw.link.packet import FLIT_BYTES
from sim.collectives.ace_program import AceProgram
from sim.collectives.partition import Partition
from sim.collectives.program import Plan, Receipt, Source
from sim.endpoint.endpoint import (
    Credits,
    EndpointModel,
    HardwareRing,
    Piece,
    Polls,
    Room,
    Stage,
    Unit,
)
from sim.endpoint.latencies import EventLatencies
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = ["AceRingTimes"]

SAMPLE = 1024
"""Most chunks whose bursts are counted; their mean holds for all."""

PARKING_NODES, PARKING_PACKETS = 4, 4
PARKED = {False: 0.5, True: 1.0}
"""Extra SRAM reads per packet sent on, without and with waiting for credits. In all-reduces of
`PARKING_NODES` or more, with transmit queues of fewer than `PARKING_PACKETS` packets, some packets
are parked: they pass the SRAM once more, and the FSM where links wait for credits. Chosen by the
cycle model with presets ``test`` and ``duo`` and 2 to 8 nodes; it parks a third of them."""

_ALL_GATHER, _REDUCE_SCATTER = CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER


class _Port(NamedTuple):
    """A direction of the memory ports: what the turns of the last bursts add to a call, and the
    stage in which chunks wait for outstanding bursts, if these bound it."""

    late_s: float
    window: tuple[Stage, ...]


@dataclass(frozen=True, kw_only=True)
class AceRingTimes(HardwareRing):
    """Engines of one configuration on a ring, or on several through the same nodes.

    Parameters
    ----------
    config : AceConfig
    nodes : int
    clock_hz : float
    read_cycles, write_cycles : int
        Latencies of the memory.
    hop_s, packet_s : float
        Latency of a link, and a packet's time on it.
    latencies : EventLatencies
    rings : int
        Rings, each run in both directions by FSMs of their own.
    """

    config: AceConfig
    nodes: int
    clock_hz: float
    read_cycles: int
    write_cycles: int
    hop_s: float
    packet_s: float
    latencies: EventLatencies
    memory_pace: float = 1.0
    rings: int = 1

    @property
    def directions(self) -> int:
        """Directions of the ring that the FSMs use."""
        return min(2, self.config.first_fsms)

    def of(self, network: Network, plan: Plan) -> "AceRingTimes | None":
        """The engines of a group, whose plan has one phase and a variant for each ring and
        direction."""
        if not plan.variants or any(len(each.phases) != 1 for each in plan.variants):
            return None
        made = self
        if self.rings > 1:
            group = plan.variants[0].phases[0].group
            nodes = math.prod(network.shape[each] for each in group)
            made = replace(self, nodes=nodes, rings=max(1, len(plan.variants) // 2))
        return made if len(plan.variants) >= min(self.config.first_fsms, 2 * made.rings) else None

    def model(self, kind: CollectiveKind) -> EndpointModel:
        """The stages of a collective."""
        c, known = self.config, self.latencies
        cycle = 1 / self.clock_hz
        beat = cycle / c.bus_bytes  # seconds per byte
        banks = c.slot_banks * (1 if c.bank_ports == "1r1w" else 0.5)
        made_s = known.ace_generate * cycle
        make = Stage(unit="FSMs", fixed_s=made_s, ahead_s=made_s, outbox=True)
        again: tuple[Stage, ...] = ()
        # Blocks of a chunk that a node's SRAM reads, spread over the blocks that arrive.
        both = kind not in (_ALL_GATHER, _REDUCE_SCATTER)
        arrives = (self.nodes - 1) * (2 if both else 1)
        accesses = float(2 * self.nodes if both else self.nodes + 1)
        if both and self.nodes >= PARKING_NODES and c.tx_packets < PARKING_PACKETS:
            waits = self._waits_for_credits
            accesses += PARKED[waits] * (arrives - 1)
            again = (make,) if waits else ()
        sram = beat * accesses / arrives / banks
        passes = (
            Stage(
                unit="SRAM", s_per_byte=sram, ahead_s=sram * c.packet_bytes,
                share=accesses / arrives,
            ),
            Stage(unit=None, s_per_byte=beat, latency_s=self._hop_cycles * cycle),
        )
        own = (make, Stage(unit=None, s_per_byte=beat))
        # With partitions by phase, of the phase that there is.
        slots, results = c.slots_by_partition[0], c.slots_by_partition[-1]
        queues = c.first_fsms
        largest = self._largest(kind)
        return EndpointModel(
            units=(
                Unit(name="SRAM"),
                Unit(name="FSMs", servers=queues, turns=queues),
                Unit(name="dispatcher"),
                *self._copiers,
                *(
                    Unit(name=name, servers=c.memory_ports, turns=queues)
                    for name in ("TX DMA", "reads", "RX DMA", "writes")
                ),
            ),
            before={Source.FRESH: own, Source.REDUCED: again, Source.FORWARD: again},
            after={Receipt.KEEP: passes, Receipt.REDUCE: passes},
            rooms=(
                Room(name="slots", size_bytes=slots * largest[0]),
                Room(name="results", size_bytes=results * largest[1]),
            ),
            contexts=(slots,),
            message_bytes=float(c.packet_bytes),
            grain_bytes=FLIT_BYTES,
            header_bytes=FLIT_BYTES,
            oldest_first=True,
            credits=self.credits,
            start_s=known.ace_start * cycle,
            start_of=partial(self._last_turns_s, kind),
            cut=partial(self._chunks, kind),
            moves=partial(self._moves, kind),
            polls=self.polls,
        )

    @property
    def polls(self) -> Polls:
        """Reads of the register of completions."""
        known, clock_hz = self.latencies, self.clock_hz
        return Polls(
            period_s=known.ace_poll / clock_hz, first_s=known.ace_first_poll / clock_hz,
            seen_s=known.ace_seen / clock_hz,
        )

    @property
    def credits(self) -> Credits:
        known, c = self.latencies, self.config
        handled = known.ace_credit + (known.ace_patience if c.flits > 1 else 0)
        return Credits(places=c.rx_packets, handled_s=handled / self.clock_hz)

    @property
    def _waits_for_credits(self) -> bool:
        """True if the receive buffer has too few places for a full link."""
        credits = self.credits
        away_s = 2 * self.hop_s + self.packet_s + credits.handled_s
        return credits.places * self.packet_s < away_s

    @property
    def _ready_s(self) -> float:
        """Time from the data of a chunk to the first packet of the node before, which READY lets
        go."""
        cycles = self.latencies.ace_ready
        if self.config.flits > 1:
            cycles += self.latencies.ace_ready_patience
        return cycles / self.clock_hz + self.hop_s

    @property
    def _hop_cycles(self) -> float:
        """Cycles from a packet's end to the link again, beside its beats. A packer of wide beats
        waits for flits to fill the last one."""
        known = self.latencies
        return known.ace_hop + (known.ace_patience if self.config.flits > 1 else 0)

    @property
    def program(self) -> AceProgram:
        """Code and cut of the engines."""
        return AceProgram(config=self.config, nodes=self.nodes, queues=self.config.first_fsms)

    def _part(self, kind: CollectiveKind, size_bytes: float) -> Partition:
        whole = size_bytes * (self.nodes if kind is _ALL_GATHER else 1)
        return self.program.cut(max(1, math.ceil(whole / ELEMENT_BYTES)), collective=kind)

    def _largest(self, kind: CollectiveKind) -> tuple[float, float]:
        """Bytes of the largest chunk, and of its result."""
        block = float(ELEMENT_BYTES * (self.program.chunk_elements(kind) // self.nodes))
        whole = block * self.nodes
        return (block if kind is _ALL_GATHER else whole), (
            block if kind is _REDUCE_SCATTER else whole
        )

    def _chunks(self, kind: CollectiveKind, size_bytes: float) -> list[Piece]:
        """Chunks of a call; variants of the plan are rings and directions."""
        part = self._part(kind, size_bytes)
        blocks = 1 if kind is _ALL_GATHER else self.nodes
        return [
            Piece(
                number % self.config.first_fsms % (2 * self.rings),
                float(ELEMENT_BYTES * part.elements_of(number, blocks)),
            )
            for number in range(part.chunks)
        ]

    def _moves(
        self, kind: CollectiveKind, size_bytes: float
    ) -> tuple[tuple[Stage, ...], tuple[Stage, ...]]:
        """Load and store stages of a collective of *size_bytes*."""
        c, known = self.config, self.latencies
        cycle, beat = 1 / self.clock_hz, 1 / self.clock_hz / c.bus_bytes
        read, write = self._ports(kind, size_bytes)
        result = self._result(kind)
        admit_s = known.ace_dispatch * cycle
        load = (
            Stage(unit="dispatcher", fixed_s=admit_s, ahead_s=admit_s),
            Stage(unit="TX DMA", s_per_byte=beat / self.memory_pace),
            *read.window,
            Stage(unit=None, latency_s=self.read_cycles * cycle + self._ready_s),
        )
        store = (
            *self._copies(kind, size_bytes),
            Stage(unit="RX DMA", s_per_byte=result * beat / self.memory_pace, share=result),
            *write.window,
            Stage(unit=None, latency_s=(self.write_cycles + known.ace_store) * cycle),
        )
        return load, store

    @property
    def _copiers(self) -> tuple[Unit, ...]:
        return (Unit(name="copy unit"),) if self.config.phased else ()

    def _copies(self, kind: CollectiveKind, size_bytes: float) -> tuple[Stage, ...]:
        """The copy unit, which moves what no packet brings to the next partition, and the phases
        that do nothing else; their FSM makes a command for each packet. Other phases copy while
        their packets are on the way."""
        c, cycle = self.config, 1 / self.clock_hz
        if not c.phased:
            return ()
        program = self.program.partitioned(kind, fsm=0, rank=0)
        held, result = program.held[0].blocks, program.held[-1]
        share = program.copied / held
        early = program.copied - program.idle_phases * result.blocks
        block = self._part(kind, size_bytes).block
        run = result.run * block
        packets = -(-run // c.packet_elements)
        beats = run / c.lanes / packets
        commands = packets * len(result.firsts)
        known = self.latencies
        late = known.ace_copy + max(0.0, known.ace_generate - beats) * (commands - 1)
        return (
            Stage(
                unit="copy unit", s_per_byte=share * cycle / c.bus_bytes, share=share,
                ahead_s=early * block / c.lanes * cycle,
                latency_s=program.idle_phases * late * cycle,
            ),
        )

    def _ports(self, kind: CollectiveKind, size_bytes: float) -> "tuple[_Port, _Port]":
        """Ports to read and to write."""
        part = self._part(kind, size_bytes)
        everything, own = np.arange(self.nodes), np.zeros(1, np.int64)
        return (
            self._port(
                part, own if kind is _ALL_GATHER else everything, self.read_cycles, "reads"
            ),
            self._port(
                part, own if kind is _REDUCE_SCATTER else everything, self.write_cycles, "writes",
                self._result(kind), aligned(ELEMENT_BYTES * part.elements) // self.config.bus_bytes,
            ),
        )

    def _result(self, kind: CollectiveKind) -> float:
        """Bytes of a chunk's result over those of the chunk."""
        if kind is _ALL_GATHER:
            return float(self.nodes)
        return 1 / self.nodes if kind is _REDUCE_SCATTER else 1.0

    def _last_turns_s(self, kind: CollectiveKind, size_bytes: float) -> float:
        """Time that a call takes longer because its last bursts fill no turn of a port."""
        return sum(each.late_s for each in self._ports(kind, size_bytes))

    def _port(
        self, part: Partition, ranks: np.ndarray, latency: int, unit: str, result: float = 1.0,
        base: int = 0,
    ) -> "_Port":
        """A port; it has a stage in which chunks wait where outstanding bursts bound it. *base*:
        beat in memory at which the vector begins, as in a run of a single call."""
        c = self.config
        full, last = (
            self._bursts(part, ranks, numbers, base)
            for numbers in (range(min(part.chunks - 1, SAMPLE)), [part.chunks - 1])
        )
        full_beats, full_bursts = full if part.chunks > 1 else last
        _, last_bursts = last
        if not full_beats:
            return _Port(0.0, ())
        mean = full_beats / full_bursts
        turn = latency + mean + self.latencies.ace_burst
        if OUTSTANDING_BURSTS * mean >= turn:
            return _Port(0.0, ())
        # Bursts by beats of a chunk, padding included: a line through the full and the last chunk.
        full_size, last_size = (self._padded(part, ranks, n) for n in (0, part.chunks - 1))
        slope = full_bursts / full_size
        if last_size < full_size:
            slope = min(slope, max(0.0, (full_bursts - last_bursts) / (full_size - last_size)))
        turns = self._most_bursts(part, ranks, base) / OUTSTANDING_BURSTS
        late = math.ceil(turns - 1e-9) - max(1.0, turns)
        cycle = 1 / self.clock_hz
        burst_s = turn * cycle / OUTSTANDING_BURSTS
        ahead = turn + max(0.0, full_beats - OUTSTANDING_BURSTS * mean)
        window = Stage(
            unit=unit,
            s_per_byte=slope * burst_s * result / c.bus_bytes,
            fixed_s=(full_bursts - slope * full_size) * burst_s,
            ahead_s=ahead * cycle,
            share=result,
        )
        return _Port(round(turn * late) * cycle, (window,))

    def _most_bursts(self, part: Partition, ranks: np.ndarray, base: int) -> float:
        """Bursts of the port with most of them; the first chunks stand for all of many."""
        numbers = np.arange(min(part.chunks, SAMPLE))
        _, bursts = self._moved_by(part, ranks, numbers, base)
        ports = numbers % self.program.queues % self.config.memory_ports
        most = float(np.bincount(ports, bursts).max())
        return most * part.chunks / len(numbers)

    def _padded(self, part: Partition, ranks: np.ndarray, number: int) -> float:
        """Beats of a chunk in the blocks of *ranks* alone, with what lies behind the vector."""
        return part.elements_of(number, len(ranks)) / self.config.lanes

    def _bursts(
        self, part: Partition, ranks: np.ndarray, numbers: Sequence[int], base: int
    ) -> tuple[float, float]:
        """Mean beats and mean bursts of the chunks *numbers*, in the blocks of *ranks* alone."""
        if not numbers:
            return 0.0, 0.0
        beats, bursts = self._moved_by(part, ranks, np.asarray(numbers), base)
        return float(beats.mean()), float(bursts.mean())

    def _moved_by(
        self, part: Partition, ranks: np.ndarray, number: np.ndarray, base: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Beats and bursts of each of the chunks *number*, in the blocks of *ranks* alone."""
        lanes = self.config.lanes
        if part.contiguous:
            block, first = np.full(number.shape, part.stride), number[None, :] * part.stride
        else:
            block = np.minimum(part.block, part.stride - number * part.block)
            first = ranks[:, None] * part.stride + number * part.block
        beats = np.clip(part.elements - first, 0, block)
        beats, first = -(-beats // lanes), base + first // lanes
        ends = (first + beats - 1) // BURST_BEATS + 1
        bursts = np.where(beats > 0, ends - first // BURST_BEATS, 0)
        return beats.sum(axis=0), bursts.sum(axis=0)

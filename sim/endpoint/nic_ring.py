# SPDX-License-Identifier: Apache-2.0
"""The smart NIC's hardware as events: engines, each with a ring, that forward frames in blocks.

A chunk is a frame from every rank. The frames of a block run together, in either half of an
all-reduce; those of the next block follow when all of them are through. Operands are read ahead,
and results written behind, as far as outstanding bursts and the input and output FIFOs allow.
"""

import math
from dataclasses import dataclass
from functools import partial

from hw.common.axi import BOUNDARY_BYTES
from hw.smartnic.config import ELEMENT_BYTES, HEADER_BYTES, SmartNicConfig
from hw.smartnic.transmit import SHORTEST_FRAME_BYTES
from sim.collectives.partition import NicPartition
from sim.collectives.program import Receipt, Source
from sim.endpoint.endpoint import EndpointModel, HardwareRing, Piece, Stage, Unit
from sim.endpoint.latencies import EventLatencies
from sim.workload.graph import CollectiveKind

__all__ = ["NicRingTimes", "nic_frame_beats", "nic_link_share", "nic_wire_share"]


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


def nic_link_share(config: SmartNicConfig, *, compress: bool) -> float:
    """Payload over everything that a transmitter sends, including the frames that return credits.

    A credit frame goes when `credit_beats` of either flow have been taken, and reports both flows,
    which take turns by frames.
    """
    payload = config.compressed_frame_beats if compress else config.frame_beats
    credit = 1 + max(0, math.ceil((SHORTEST_FRAME_BYTES - config.bus_bytes) / config.bus_bytes))
    taken = max(1.0, 2 * config.credit_beats - payload / 2)
    frame = payload + math.ceil(HEADER_BYTES / config.bus_bytes)
    return payload / (frame + credit * payload / taken)


@dataclass(frozen=True, kw_only=True)
class _Port:
    """A direction of an engine's port to host memory, in cycles.

    ``window`` beats may be outstanding, and as many move in every ``turn``. ``buffer`` beats fit
    between memory and datapath.
    """

    window: int
    turn: int
    buffer: int

    @property
    def per_beat(self) -> float:
        return self.turn / self.window

    @property
    def slack(self) -> float:
        """Cycles for which the port works on while the datapath waits: to fill the buffer, and to
        make up for those that a window takes beyond one per beat."""
        return self.turn - self.window + self.buffer * self.per_beat


@dataclass(frozen=True, kw_only=True)
class NicRingTimes(HardwareRing):
    """NICs of one configuration on a ring.

    Parameters
    ----------
    config : SmartNicConfig
    nodes : int
    clock_hz : float
    compress : bool
    read_cycles, write_cycles : int
        Latencies of host memory.
    hop_s, frame_s : float
        Latency from port to port, and a full frame's time on a link.
    latencies : EventLatencies
    """

    config: SmartNicConfig
    nodes: int
    clock_hz: float
    compress: bool
    read_cycles: int
    write_cycles: int
    hop_s: float
    frame_s: float
    latencies: EventLatencies

    def model(self, kind: CollectiveKind) -> EndpointModel:
        """The stages of an all-reduce.

        Raises
        ------
        ValueError
            For another collective.
        """
        if kind is not CollectiveKind.ALL_REDUCE:
            raise ValueError(f"the smart NIC does all_reduce only, not {kind.value}")
        c, known = self.config, self.latencies
        cycle = 1 / self.clock_hz
        beat = cycle / c.bus_bytes  # seconds per byte
        read_port = self._port(self.read_cycles, c.input_beats)
        write_port = self._port(self.write_cycles, c.output_beats)
        read = Stage(
            unit="host read", s_per_byte=beat * read_port.per_beat, ahead_s=read_port.slack * cycle
        )

        def add(cycles: float) -> Stage:
            return Stage(unit="adders", s_per_byte=beat, latency_s=cycles * cycle)

        def passes(cycles: float) -> Stage:
            return Stage(unit=None, s_per_byte=beat, latency_s=cycles * cycle)

        # The own block goes first, as its results come; those of others follow it one by one. So
        # each of them also bears a part of its time, from the begin of the own block on. All blocks
        # are written.
        frame = nic_frame_beats(c, compress=self.compress)
        written = self.nodes / max(1, self.nodes - 1)
        gathers = Stage(
            unit="gathering",
            s_per_byte=beat * write_port.per_beat * written,
            share=written,
            ahead_s=(2 * frame + known.nic_result + write_port.slack) * cycle
            + self.frame_s + self.hop_s,
        )

        way = self._adders
        begins = known.nic_host + way + self.read_cycles + self.write_cycles
        names = ("host read", "adders", "gathering")
        fmt = c.codec_format if self.compress else None
        return EndpointModel(
            units=tuple(Unit(name=name, per_ring=True) for name in names),
            before={
                Source.FRESH: (read, add(0)),
                Source.SUM: (passes(known.nic_result),),
            },
            after={
                Receipt.REDUCE: (read, add(known.nic_sum + way)),
                Receipt.KEEP: (gathers, passes(known.nic_gather)),
            },
            start_s=begins * cycle,
            start_of=partial(self._first_reads_s, read_port),
            wire_factor=1.0 if fmt is None else 1 / fmt.ratio,
            cut=self._frames,
            cut_through=True,
        )

    @property
    def _adders(self) -> int:
        """Cycles of adders and codec."""
        return self.config.alu_stages + (self.latencies.nic_codec if self.compress else 0)

    def _port(self, latency: int, buffer: int) -> _Port:
        c = self.config
        burst = min(c.max_burst, BOUNDARY_BYTES // c.bus_bytes)
        window = c.outstanding_bursts * burst
        turn = latency + burst + self.latencies.nic_burst
        return _Port(window=window, turn=max(window, turn), buffer=buffer)

    def _part(self, size_bytes: float) -> NicPartition:
        elements = max(1, math.ceil(size_bytes / ELEMENT_BYTES))
        return NicPartition(elements=elements, nodes=self.nodes, config=self.config)

    def _frames(self, size_bytes: float) -> list[Piece]:
        """Frames of all ranks, block after block; variants of the plan are engines."""
        c, part = self.config, self._part(size_bytes)
        frame = nic_frame_beats(c, compress=self.compress)
        made = []
        for number in range(part.rounds + (part.rest_beats > 0)):
            beats = float(c.block_beats if number < part.rounds else part.rest_beats)
            while beats > 0:
                now = min(beats, frame)
                made.append(Piece(number % c.engines, now * self.nodes * c.bus_bytes))
                beats -= now
        return made

    def _first_reads_s(self, port: _Port, size_bytes: float) -> float:
        """Seconds that the first operands of a call are late, compared with later ones, which are
        read ahead: the buffer is empty, and the first beat behind a window comes a latency later,
        whatever has been added meanwhile."""
        c, part = self.config, self._part(size_bytes)
        block = c.block_beats if part.rounds else part.rest_beats
        blocks = -(-(part.rounds + (part.rest_beats > 0)) // c.engines)
        burst = port.window / c.outstanding_bursts
        bursts = block / burst if block % burst == 0 else block / burst + 1 - 1 / burst
        window = c.outstanding_bursts * block / bursts
        beats = min(part.share_beats, blocks * block) * self.nodes
        if beats <= window:
            return 0.0
        gap = self.read_cycles + burst + self.latencies.nic_burst - window
        hop = self.hop_s * self.clock_hz + self.latencies.nic_sum + self._adders + 2 * min(
            block, nic_frame_beats(c, compress=self.compress)
        )
        waited = window // block * max(0.0, hop - block)
        empty = min(c.input_beats, beats - window) * (port.per_beat - 1)
        return max(0.0, gap - waited, empty) / self.clock_hz

# SPDX-License-Identifier: Apache-2.0
"""Stores results in memory, and finds what does not belong."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.axi_write import AXI4Writer
from hw.common.count import stepped, stepped_to
from hw.common.engine import ELEMENT_BYTES
from hw.common.fifo import StreamFIFO
from hw.common.params import require_int
from hw.common.select import marked
from hw.common.skid import SkidBuffer
from hw.link.packet import FLIT_BITS
from hw.switch.packet import FLIT, HEADER, Format
from hw.switch.recode import ExpandPackets
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.fixed_point import FixedToFloat
from hw.switch_dma.interfaces import MemberSignature, WaitedSignature, WindowSignature
from hw.switch_dma.layouts import (
    Part,
    contract_flits,
    halved,
    in_part,
    job_layout,
    number_of,
    outcome_layout,
)
from hw.switch_dma.packet_merge import PacketMerge

__all__ = ["SOURCES", "Results"]

SOURCES = 2
"""Where results come from: the link, and the home store here."""

_WRITES = 64

_COMPARED = 16
"""Bits that are compared in one cycle; the next one looks at the answers."""


class Results(wiring.Component):
    """Takes RESULT packets, from the link and from the home store, packet by packet in turn.

    What is known of a result's block is looked up 2 cycles after it came, and used a cycle later.
    A result that is waited for is stored at its place, but for what lies beyond the end of the
    vector; that of the contract is compared with the contract; all else is dropped. A packet takes
    as many cycles as it has flits, if memory keeps up. With ``config.fixed_point`` integers become
    FP32 on their way to memory, 4 cycles later. With ``config.parts`` results that the job leaves
    to others are not stored. What comes in another format than the job's is not waited for; with
    ``config.bfp`` data is expanded here, with ``config.half`` elements of 16 bits are stored as
    they are.

    Parameters
    ----------
    config : SwitchDmaConfig
    link : int
        Number of this link.

    Members
    -------
    begun : ``In(stream.Signature(job_layout(config), always_ready=True))``
        High for one cycle when a job begins.
    member : ``In(MemberSignature())``, window : ``In(WindowSignature())``
        Of the region whose all-reduce runs; results of others are dropped.
    i : ``In(stream.Signature(FLIT)).array(SOURCES)``
        RESULT packets from the link and from the home store.
    waited : ``Out(WaitedSignature(config))``
        The block that a result is of.
    tail_begun : ``In(1)``
        The block that was begun last is the last of the job's vector.
    flush : ``In(1)``
        Drop everything, whatever memory does; writes that were begun get zeros for what is missing.
        Hold until `holds` is low, and begin no job while `writing`.
    bus : ``Out(AXIWriteSignature)``
        Memory.
    holds : ``Out(1)``
        A packet is under way.
    writing : ``Out(1)``
        A packet or a write is.
    outcome : ``Out(outcome_layout())``
        Of the job so far; complete when no block is under way and nothing is written.
    agreed : ``Out(1)``
        The job's contract came back, and all endpoints have the same: all have begun it.
    disagreed : ``Out(1)``
        High for one cycle: the contract is not what all endpoints have.
    stored : ``Out(1)``
        High for one cycle per result.
    stale, unknown : ``Out(1)``
        High for one cycle per packet dropped: of another epoch, not waited for.
    written, error : ``Out(1)``
        High for one cycle per beat written, and per write that memory refused.
    """

    begun: stream.Interface
    member: Any
    window: Any
    i: Any
    waited: Any
    tail_begun: Signal
    flush: Signal
    bus: Any
    holds: Signal
    writing: Signal
    outcome: Any
    agreed: Signal
    disagreed: Signal
    stored: Signal
    stale: Signal
    unknown: Signal
    written: Signal
    error: Signal

    def __init__(self, config: SwitchDmaConfig, *, link: int) -> None:
        c = self._config = config
        self._link = require_int("Results link", link, minimum=0, maximum=c.links - 1)
        names = ("disagreed", "stored", "stale", "unknown", "written", "error")
        super().__init__(
            {
                "begun": In(stream.Signature(job_layout(c), always_ready=True)),
                "member": In(MemberSignature()),
                "window": In(WindowSignature()),
                "i": In(stream.Signature(FLIT)).array(SOURCES),
                "waited": Out(WaitedSignature(c)),
                "tail_begun": In(1),
                "flush": In(1),
                "bus": Out(c.memory_bus.write),
                "holds": Out(1),
                "writing": Out(1),
                "outcome": Out(outcome_layout()),
                "agreed": Out(1),
                **dict.fromkeys(names, Out(1)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        self._job: Any = Signal(job_layout(c))
        with m.If(self.begun.valid):
            m.d.sync += [
                self._job.eq(self.begun.payload),
                self.outcome.as_value().eq(0),
            ]
        place = Signal(range(c.payload_flits))
        source, block, under_way = self._look_up(m, *self._merge(m), place)
        flit = source.p
        header: Any = Signal(HEADER)
        within = Signal()
        writes, compares, tail = Signal(), Signal(), Signal()
        needed = Signal()  # memory gets the next flit of data
        head, moves = source.valid & flit.first, source.valid & source.ready
        begins = head & source.ready
        takes = block.current & ~self.flush
        wanted = takes & block.known & block.whole
        if c.lengths:
            wanted = wanted & (
                header.format
                == Mux(block.first, Format.WORDS.value, Value.cast(self._job.format))
            )
        kept = ~block.first
        if c.parts:
            in_vector = ((block.position - 1)[:32] * c.links + self._link)[:32]
            kept = kept & ((self._job.part != Part.STORE) | in_part(self._job, in_vector))
        writes_to = self._write(m, block.position, tail)
        body = source.valid & ~flit.first & ~self.flush
        m.d.comb += [
            Value.cast(header).eq(flit.data),
            self.waited.over.eq(number_of(c, header.address)),
            self.waited.done.eq(begins & wanted),
            self.stored.eq(self.waited.done & kept),
            self.stale.eq(begins & block.ours & ~takes),
            self.unknown.eq(begins & ~(block.ours & ~takes) & ~wanted),
            source.ready.eq(
                Mux(flit.first, writes_to.room, ~needed | writes_to.beats.ready)
            ),
        ]
        with m.If(moves):
            m.d.sync += [
                within.eq(~flit.last),
                # A vector's last block has data for memory, too.
                needed.eq(
                    Mux(flit.first, wanted & kept,
                        writes & (~tail | (place < self._job.tail_beats)))
                ),
            ]
        self._complete(m, writes_to, flit, body & needed, within & needed, place)
        with m.If(begins):
            m.d.sync += [
                writes.eq(wanted & kept),
                compares.eq(wanted & block.first),
                tail.eq(block.tail),
            ]
            with m.If(wanted & header.poison):
                m.d.sync += self.outcome.read.eq(1)
        with m.If(self.flush):
            m.d.sync += [writes.eq(0), compares.eq(0), needed.eq(0)]
        compared = body & source.ready & compares
        differs = Signal()
        with m.If(begins):
            m.d.sync += differs.eq(0)
        with m.Elif(self.disagreed):
            m.d.sync += differs.eq(1)
        with m.If(self.begun.valid):
            m.d.sync += self.agreed.eq(0)
        with m.Elif(compared & flit.last):
            m.d.sync += self.agreed.eq(~differs & ~self.disagreed)
        m.d.comb += [
            self.disagreed.eq(compared & ~block.agrees.all()),
            self.holds.eq(under_way),
            self.writing.eq(within | writes_to.busy | under_way),
        ]
        return m

    def _complete(
        self, m: Module, writes_to: "_Writes", flit: Any, comes: Value, waits: Value, place: Signal
    ) -> None:
        """Give the writes their data: flits that *come*, and zeros from *place* on for the rest of
        a packet that was cut off by `flush`."""
        c = self._config
        fills = Signal()
        spot = Signal.like(place)
        full = Value.cast(c.payload_flits - 1)
        if c.half:
            full = Mux(halved(self._job), c.payload_flits // 2 - 1, full)
        with m.If(self.flush & waits):
            m.d.sync += [fills.eq(1), spot.eq(place)]
        with m.Elif(fills & writes_to.beats.ready):
            m.d.sync += spot.eq(spot + 1)
            with m.If(spot == Mux(writes_to.tail, self._job.tail_beats, full)):
                m.d.sync += fills.eq(0)
        m.d.comb += [
            writes_to.beats.valid.eq(comes | fills),
            writes_to.beats.payload.eq(Mux(fills, 0, flit.data)),
        ]

    def _merge(self, m: Module) -> tuple[Any, Value]:
        """Merge the packets of both sources, behind a register; also returns whether any are there,
        or are being expanded."""
        m.submodules.merge = merge = PacketMerge(SOURCES)
        # Whether memory takes a flit ends here.
        m.submodules.held = held = SkidBuffer(FLIT)
        for each, way in zip(self.i, merge.i):
            connect(m, flipped(each), way)
        m.d.comb += merge.may.eq(~0)
        connect(m, merge.o, held.i)
        if not self._config.bfp:
            return held.o, held.o.valid
        m.submodules.expand = expand = ExpandPackets(
            payload_flits=self._config.payload_flits, half=False, bfp=True
        )
        connect(m, held.o, expand.i)
        return expand.o, held.o.valid | ~expand.empty

    def _look_up(
        self, m: Module, flits: Any, under_way: Value, place: Signal
    ) -> tuple[Any, Any, Value]:
        """Hold flits once more, headers with what is known of their block when they come here, data
        with its *place* and what of it is as in the contract. Returns them, that, and whether any
        are *under_way* or here.

        What is known holds while a header waits: nothing else is done with its block, and a change
        of epoch is a flush.
        """
        c = self._config
        about = dict.fromkeys(("ours", "current", "known", "whole", "first", "tail"), 1)
        words = FLIT_BITS // _COMPARED
        block: Any = Signal(data.StructLayout({**about, "position": 32, "agrees": words}))
        held: Any = stream.Signature(FLIT).create(path=("judged",))
        header: Any = Signal(HEADER)
        node, waited = self.member.node, self.waited
        m.d.comb += [
            Value.cast(header).eq(flits.p.data),
            waited.number.eq(number_of(c, header.address)),
            flits.ready.eq(~held.valid | held.ready),
        ]
        # Results of other regions are not waited for, whatever epoch they are of.
        ours: Any = header.region == node.region if c.regions > 1 else C(1, 1)
        spot = Signal.like(place)
        with m.If(flits.valid & flits.ready):
            m.d.sync += spot.eq(Mux(flits.p.first, 0, spot + 1))
        contract = contract_flits(self._job, node.members, self.window)
        agreed = Signal(FLIT_BITS)
        m.d.comb += agreed.eq(marked(Cat(spot == 0, spot == 1), contract))
        with m.If(flits.ready):
            m.d.sync += [
                place.eq(spot),
                block.agrees.eq(Cat(
                    flits.p.data.word_select(k, _COMPARED) == agreed.word_select(k, _COMPARED)
                    for k in range(words)
                )),
                held.valid.eq(flits.valid), held.payload.eq(flits.payload),
                block.ours.eq(ours), block.current.eq(header.epoch == self.member.epoch),
                block.whole.eq(header.count == node.members),
                block.tail.eq(waited.newest & self.tail_begun),
                *(block[name].eq(getattr(waited, name))
                  for name in ("known", "position", "first")),
            ]
        return held, block, under_way | held.valid

    def _write(self, m: Module, position: Value, tail: Signal) -> "_Writes":
        """Write to memory: addresses, data and answers. Results that are stored have a *position*
        in their all-reduce; the last one was the *tail* of the vector, or not."""
        c = self._config
        job = self._job
        beats_width = len(Signal(range(c.payload_flits + 1)))
        m.submodules.writer = writer = AXI4Writer(**c.memory_master, beats_width=beats_width)
        connect(m, writer.bus, flipped(self.bus))
        command = data.StructLayout({"block": 32, "tail": 1})
        m.submodules.commands = commands = StreamFIFO(command, 4, memory=False)
        m.submodules.beats = beats = StreamFIFO(FLIT_BITS, 2 * c.payload_flits)
        ends = _Writes(beats.i)
        if c.fixed_point:
            m.submodules.converter = converter = FixedToFloat(c.lanes)
            connect(m, beats.o, converter.i)
            connect(m, converter.o, writer.data)
            m.d.comb += [converter.fixed.eq(job.fixed), converter.unit.eq(job.unit)]
        else:
            connect(m, beats.o, writer.data)

        # ---- Which block of the vector this is.
        looked, which = Signal(), Signal(32)
        m.d.sync += [looked.eq(self.stored), which.eq((position - 1)[:32] * c.links + self._link)]
        m.d.comb += [
            ends.tail.eq(tail),
            commands.i.valid.eq(looked),
            commands.i.p.block.eq(which),
            commands.i.p.tail.eq(tail),
        ]
        # ---- Its address, and how much of it lies in memory.
        block = commands.o.p
        lane_bytes = (1 << ELEMENT_BYTES) - 1
        strobe: Value = Cat(
            Mux(job.tail_lanes >= lane if lane else 1, lane_bytes, 0)[:ELEMENT_BYTES]
            for lane in range(c.lanes)
        )
        block_bytes, beats_of = Value.cast(c.payload_bytes), Value.cast(c.payload_flits)
        if c.half:
            half = halved(job)
            block_bytes = Mux(half, c.payload_bytes // 2, c.payload_bytes)
            beats_of = Mux(half, c.payload_flits // 2, c.payload_flits)
            halves = Cat((job.tail_lanes >= lane).replicate(2) for lane in range(2 * c.lanes))
            strobe = Mux(half, halves, strobe)
        under_way = Signal(range(_WRITES + 1))
        m.d.comb += [
            writer.cmd.valid.eq(commands.o.valid),
            writer.cmd.p.address.eq(job.destination + block.block * block_bytes),
            writer.cmd.p.beats.eq(Mux(block.tail, job.tail_beats + 1, beats_of)),
            writer.cmd.p.last_strobe.eq(Mux(block.tail, strobe, (1 << c.bus_bytes) - 1)),
            commands.o.ready.eq(writer.cmd.ready),
            writer.done.ready.eq(1),
            self.error.eq(writer.done.valid & writer.done.p.error),
        ]
        busy = Signal()
        moves = {"up": self.stored, "down": writer.done.valid}
        m.d.sync += [
            under_way.eq(stepped(under_way, **moves)),
            busy.eq(~stepped_to(under_way, 0, **moves)),
            # As it was: what was stored since then left room, too. What is dropped needs none.
            ends.room.eq(((commands.level < 2) & (under_way != _WRITES)) | self.flush),
        ]
        with m.If(self.error):
            m.d.sync += self.outcome.write.eq(1)
        m.d.comb += [
            ends.busy.eq(busy),
            self.written.eq(writer.data.valid & writer.data.ready),
        ]
        return ends


class _Writes:
    """Signals between the packets and the writes."""

    def __init__(self, beats: stream.Interface) -> None:
        self.beats = beats  # flits for memory
        self.tail = Signal(name="tail")  # the packet is the vector's last block
        self.room = Signal(name="write_room")  # for another packet
        self.busy = Signal(name="write_busy")

# SPDX-License-Identifier: Apache-2.0
"""TX DMA (memory to SRAM) and RX DMA (SRAM to memory)."""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import (
    load_job_layout,
    loaded_layout,
    places,
    segment_walk_layout,
    store_job_layout,
    stored_layout,
)
from hw.ace.request_buffer import RequestBuffer
from hw.ace.sram import READ_LATENCY, SRAMReadSignature, SRAMWriteSignature
from hw.common.arbiter import StreamArbiter
from hw.common.axi import BurstMaster
from hw.common.axi_read import AXI4Reader
from hw.common.axi_write import AXI4Writer
from hw.common.count import stepped, stepped_to
from hw.common.fifo import StreamFIFO, room_for

__all__ = ["STORE_BEATS", "BlockWalker", "MemoryPort", "RxDMA", "TxDMA"]

STORE_BEATS = READ_LATENCY + 6
"""Beats that an RX DMA has asked for and memory has not taken: as many as keep it going, and one
for a row that SRAM does not grant at once."""

_REPORTS = 4
"""Reports of a TX DMA that wait for those of others."""


def _segment_layout(c: AceConfig) -> data.StructLayout:
    """A run of consecutive beats in memory and SRAM, if it is not ``empty``; the last segment of a
    job says so."""
    return data.StructLayout(
        {
            "address": c.address_bits,
            "row": range(c.sram_beats),
            "beats": range(c.slot_beats + 1),
            "empty": 1,
            "single": 1,  # one beat, or none
            "kept": c.lanes,  # elements of the last beat, a bit each
            "final": 1,
            **places(c, "fsm", "slot", "command"),
            "poisoned": 1,
        }
    )


class BlockWalker(wiring.Component):
    """Cuts the job of a chunk into one segment per block, one per cycle. Empty blocks give segments
    of no beats. The first one is offered a cycle after the job, and no job is taken before the last
    one has gone.

    Members
    -------
    i : ``In(stream.Signature(load_job_layout(config)))``
        Jobs.
    o : ``Out(stream)``
        Segments.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, config: AceConfig) -> None:
        self._config = config
        super().__init__(
            {
                "i": In(stream.Signature(load_job_layout(config))),
                "o": Out(stream.Signature(_segment_layout(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        job = Signal(load_job_layout(c))
        walk = job.walk
        active = Signal()
        # Of the block that is offered from the next cycle on: its number, and all that follows from
        # it, which is then in registers.
        coming = Signal(segment_walk_layout(c))
        number = Signal(range(c.max_nodes + 1))
        m.d.comb += [
            coming.eq(Mux(active, walk, self.i.p.walk)),
            number.eq(Mux(active, walk.first + 1, self.i.p.walk.first)),
        ]
        # Blocks before the tail block are whole, those behind it empty. All three cases are made
        # ready while numbers are compared.
        lane_bits = c.lanes.bit_length() - 1
        beats = Signal.like(self.o.p.beats)
        kept = Signal.like(self.o.p.kept)
        empty, single, final = (Signal(name=name) for name in ("empty", "single", "final"))
        whole, tail = number < coming.tail_block, number == coming.tail_block
        elements = coming.tail_elements
        part = elements[:lane_bits]
        with m.If(~active | self.o.ready):
            m.d.sync += [
                empty.eq(~(whole & (coming.beats != 0) | tail & (elements != 0))),
                single.eq(~(whole & (coming.beats > 1) | tail & (elements > c.lanes))),
                beats.eq(Mux(whole, coming.beats, 0)),
                kept.eq(Mux(tail & (part != 0), (1 << part) - 1, -1)),
                final.eq(number == coming.last),
            ]
            with m.If(tail):
                m.d.sync += beats.eq((elements + (c.lanes - 1)) >> lane_bits)
        m.d.comb += [
            self.o.valid.eq(active),
            self.o.p.address.eq(walk.address),
            self.o.p.row.eq(walk.row),
            self.o.p.beats.eq(beats),
            self.o.p.empty.eq(empty),
            self.o.p.single.eq(single),
            self.o.p.kept.eq(kept),
            self.o.p.final.eq(final),
            self.o.p.fsm.eq(job.fsm),
            self.o.p.slot.eq(job.slot),
            self.o.p.command.eq(job.command),
            self.o.p.poisoned.eq(job.poisoned),
            self.i.ready.eq(~active),
        ]
        with m.If(~active):
            m.d.sync += [job.eq(self.i.p), active.eq(self.i.valid)]
        with m.Elif(self.o.ready):
            m.d.sync += [
                active.eq(~final),
                walk.first.eq(walk.first + 1),
                walk.address.eq(walk.address + walk.stride),
                walk.row.eq(walk.row + walk.beats),
            ]
        return m


class _BlockDMA(wiring.Component):
    """A direction of DMA: jobs, each walked block by block, and a master of the memory.

    Members
    -------
    job : ``In(stream)``
        A chunk to move.
    bus : ``Out(bus)``
        Half of a memory port, for this direction.
    idle : ``Out(1)``
        No job, transfer or report is in flight.
    """

    job: stream.Interface
    idle: Signal

    def __init__(self, config: AceConfig, *, bus: Any, **members: Any) -> None:
        self._config = config
        job = In(stream.Signature(load_job_layout(config)))
        super().__init__({"job": job, **members, "bus": Out(bus), "idle": Out(1)})

    def _walk(self, m: Module, **master: type[BurstMaster]) -> tuple[BlockWalker, Any]:
        """The blocks of jobs, and the master of the given name and kind, on `bus`."""
        c = self._config
        m.submodules.walker = walker = BlockWalker(c)
        ((name, kind),) = master.items()
        m.submodules[name] = memory = kind(**c.memory_master)
        wiring.connect(m, wiring.flipped(self.job), walker.i)
        wiring.connect(m, memory.bus, wiring.flipped(self.bus))
        m.d.comb += [
            memory.cmd.p.address.eq(walker.o.p.address),
            memory.cmd.p.beats.eq(walker.o.p.beats),
        ]
        return walker, memory


class TxDMA(_BlockDMA):
    """Loads chunks from memory into their slots, block by block, one beat per cycle.

    Elements beyond the end of a block are written as zero. A chunk with a beat that memory answered
    with an error is loaded all the same and reported with ``error``.

    Timing: a beat asks for its place in SRAM in the cycle after memory's is at hand (see
    `AXI4Reader`); the report is offered 2 cycles after the last one was granted. Stalls: memory,
    SRAM bank, ``loaded``.

    Members
    -------
    job : ``In(stream)``
        A chunk to load.
    loaded : ``Out(stream)``
        Reports of chunks that are loaded.
    write : ``Out(SRAMWriteSignature)``
        Writes to the source slots.
    bus : ``Out(AXIReadSignature)``
        Memory.
    idle : ``Out(1)``
        No job, transfer or report is in flight.
    """

    loaded: stream.Interface

    def __init__(self, config: AceConfig) -> None:
        c = config
        super().__init__(
            c,
            bus=c.memory_bus.read,
            loaded=Out(stream.Signature(loaded_layout(c))),
            write=Out(SRAMWriteSignature(**c.sram_port)),
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        walker, reader = self._walk(m, reader=AXI4Reader)
        m.submodules.segments = segments = StreamFIFO(_segment_layout(c), 16)
        m.submodules.reports = reports = StreamFIFO(loaded_layout(c), _REPORTS)
        m.submodules.writes = writes = RequestBuffer(
            c, {"beat": 8 * c.bus_bytes, "closes": 1, "report": loaded_layout(c)}
        )
        writes.join(m, self.write)
        wiring.connect(m, reports.o, wiring.flipped(self.loaded))

        nonempty = ~walker.o.p.empty
        both = Signal()
        m.d.comb += [
            both.eq(segments.i.ready & (~nonempty | reader.cmd.ready)),
            walker.o.ready.eq(both),
            segments.i.valid.eq(walker.o.valid & both),
            segments.i.p.eq(walker.o.p),
            reader.cmd.valid.eq(walker.o.valid & nonempty & segments.i.ready),
        ]

        segment = segments.o.p
        beat = Signal(range(c.slot_beats + 1))
        within = Signal()  # beat is not 0, and its row:
        next_row = Signal(range(c.sram_beats))
        last = Signal()
        ending = Signal()  # the same, behind the first beat
        push = Signal()
        moved = Signal()
        error = Signal()
        close = Signal()
        kept = Signal(c.lanes)
        # There is a place for a report, and for the two before that may be on their way.
        may_report = room_for(m, reports, 3, name="may_report")
        report = writes.i.p.report
        # Beats go on without waiting for grants; a job that ends without one waits in their place.
        m.d.comb += [
            last.eq(Mux(within, ending, segment.single)),
            kept.eq(Mux(last, segment.kept, -1)),
            writes.i.valid.eq(
                segments.o.valid
                & Mux(
                    segment.empty,
                    segment.final & may_report,
                    reader.data.valid & (~last | ~segment.final | may_report),
                )
            ),
            writes.i.p.access.eq(~segment.empty),
            writes.i.p.row.eq(Mux(within, next_row, segment.row)),
            writes.i.p.beat.eq(
                Cat(Mux(kept[n], reader.data.p.data.word_select(n, 32), 0) for n in range(c.lanes))
            ),
            writes.i.p.closes.eq(last & segment.final),
            report.fsm.eq(segment.fsm),
            report.slot.eq(segment.slot),
            report.command.eq(segment.command),
            report.error.eq(error | (moved & reader.data.p.error)),
            push.eq(writes.i.valid & writes.i.ready),
            moved.eq(push & ~segment.empty),
            reader.data.ready.eq(moved),
            close.eq(
                Mux(segment.empty, segments.o.valid & (~segment.final | push), moved & last)
            ),
            segments.o.ready.eq(close),
            self.write.data.eq(writes.taken.p.beat),
            reports.i.valid.eq(writes.taken.valid & writes.taken.p.closes),
            reports.i.p.eq(writes.taken.p.report),
            self.idle.eq(
                walker.i.ready & (segments.level == 0) & writes.empty & ~writes.taken.valid
                & (reports.level == 0)
            ),
        ]
        with m.If(moved):
            m.d.sync += [
                beat.eq(Mux(last, 0, beat + 1)), ending.eq(beat + 2 == segment.beats),
                within.eq(~last), next_row.eq(writes.i.p.row + 1),
            ]
        with m.If(close & segment.final):
            m.d.sync += error.eq(0)
        with m.Elif(moved):
            m.d.sync += error.eq(error | reader.data.p.error)
        return m


class RxDMA(_BlockDMA):
    """Stores result slots to memory, block by block, one beat per cycle.

    ``stored`` follows when memory has acknowledged the whole chunk. Nothing is written beyond the
    end of a block.

    Timing: a row is asked for 2 cycles after its segment is there; a beat is with the `AXI4Writer`
    ``READ_LATENCY + 1`` cycles after its read is granted.
    Stalls: memory, SRAM bank, ``stored``.

    Members
    -------
    job : ``In(stream)``
        A chunk to store.
    stored : ``Out(stream)``
        Reports of chunks that are stored.
    read : ``Out(SRAMReadSignature)``
        Reads of the result slots.
    bus : ``Out(AXIWriteSignature)``
        Memory.
    idle : ``Out(1)``
        No job, transfer or report is in flight.
    """

    stored: stream.Interface

    def __init__(self, config: AceConfig) -> None:
        c = config
        super().__init__(
            c,
            bus=c.memory_bus.write,
            stored=Out(stream.Signature(stored_layout(c))),
            read=Out(SRAMReadSignature(**c.sram_port)),
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        walker, writer = self._walk(m, writer=AXI4Writer)
        m.submodules.segments = segments = StreamFIFO(_segment_layout(c), 4)
        m.submodules.open = unacknowledged = StreamFIFO(_segment_layout(c), 16)

        nonempty = ~walker.o.p.empty
        room = Signal()
        m.d.comb += [
            room.eq(segments.i.ready & unacknowledged.i.ready),
            walker.o.ready.eq(room & (~nonempty | writer.cmd.ready)),
            writer.cmd.valid.eq(walker.o.valid & nonempty & room),
            writer.cmd.p.last_strobe.eq(Cat(each.replicate(4) for each in walker.o.p.kept)),
            segments.i.valid.eq(walker.o.valid & walker.o.ready & nonempty),
            segments.i.p.eq(walker.o.p),
            unacknowledged.i.valid.eq(walker.o.valid & walker.o.ready),
            unacknowledged.i.p.eq(walker.o.p),
        ]

        # Rows are asked for only as far as there is room for what they return, and their queue has
        # as many places, so that it never stalls.
        m.submodules.beats = beats = StreamFIFO(8 * c.bus_bytes, STORE_BEATS)
        m.submodules.wanted = wanted = StreamFIFO(range(c.sram_beats), STORE_BEATS, kept=True)
        m.submodules.asks = asks = RequestBuffer(c)
        asks.join(m, self.read)
        promised = Signal(range(STORE_BEATS + 1))
        more = Signal(init=1)  # there is room for another one
        beat = Signal(range(c.slot_beats + 1))
        within = Signal()  # beat is not 0, and its row:
        next_row = Signal(range(c.sram_beats))
        segment = segments.o.p
        moves = Signal()
        last = Signal()
        ending = Signal()  # the same, behind the first beat
        m.d.comb += [
            last.eq(Mux(within, ending, segment.single)),
            moves.eq(segments.o.valid & more),
            wanted.i.valid.eq(moves),
            wanted.i.payload.eq(Mux(within, next_row, segment.row)),
            segments.o.ready.eq(moves & last),
            asks.i.valid.eq(wanted.o.valid),
            asks.i.p.access.eq(1),
            asks.i.p.row.eq(wanted.o.payload),
            wanted.o.ready.eq(asks.i.ready),
        ]
        with m.If(moves):
            m.d.sync += [
                beat.eq(Mux(last, 0, beat + 1)), ending.eq(beat + 2 == segment.beats),
                within.eq(~last), next_row.eq(wanted.i.payload + 1),
            ]
        arrives = [Signal(name=f"arrives_{n}") for n in range(1, READ_LATENCY + 1)]
        m.d.comb += arrives[0].eq(asks.taken.valid)
        m.d.sync += [after.eq(before) for before, after in pairwise(arrives)]
        wiring.connect(m, beats.o, writer.data)
        m.d.comb += [beats.i.valid.eq(arrives[-1]), beats.i.payload.eq(self.read.data)]
        counted = {"up": moves, "down": beats.o.valid & beats.o.ready}
        m.d.sync += [
            promised.eq(stepped(promised, **counted)),
            more.eq(~stepped_to(promised, STORE_BEATS, **counted)),
        ]

        # Acknowledgements come in the order of the segments.
        oldest = unacknowledged.o.p
        error = Signal()
        acknowledged = Signal()
        close = Signal()
        m.d.comb += [
            acknowledged.eq(unacknowledged.o.valid & (oldest.empty | writer.done.valid)),
            close.eq(acknowledged & (~oldest.final | self.stored.ready)),
            unacknowledged.o.ready.eq(close),
            writer.done.ready.eq(close & ~oldest.empty),
            self.stored.valid.eq(acknowledged & oldest.final),
            self.stored.p.fsm.eq(oldest.fsm),
            self.stored.p.slot.eq(oldest.slot),
            self.stored.p.command.eq(oldest.command),
            self.stored.p.poisoned.eq(oldest.poisoned),
            self.stored.p.error.eq(error | (~oldest.empty & writer.done.p.error)),
            self.idle.eq(walker.i.ready & (unacknowledged.level == 0)),
        ]
        with m.If(close & oldest.final):
            m.d.sync += error.eq(0)
        with m.Elif(close & ~oldest.empty):
            m.d.sync += error.eq(error | writer.done.p.error)
        return m


class MemoryPort(wiring.Component):
    """An AXI4 master: TX DMA and RX DMA, with jobs that wait for them.

    Their data sheets say how long they take and when they stall. Two loads wait in a queue; stores
    of several FSMs go in turn.

    Parameters
    ----------
    config : AceConfig
    stores : int
        Sources of stores.

    Members
    -------
    load : ``In(stream.Signature(load_job_layout(config)))``
        Chunks to load.
    job : ``In(stream.Signature(store_job_layout(config))).array(stores)``
        Chunks to store.
    loaded, stored : ``Out(stream)``
        Reports of both DMAs.
    write, read : ``Out(SRAMWriteSignature)``, ``Out(SRAMReadSignature)``
        The SRAM.
    bus : ``Out(AXI4Signature)``
        Memory.
    idle : ``Out(1)``
        Neither DMA has anything to do.
    """

    load: stream.Interface
    job: Any
    loaded: stream.Interface
    stored: stream.Interface
    idle: Signal

    def __init__(self, config: AceConfig, *, stores: int) -> None:
        c = self._config = config
        self._stores = stores
        super().__init__(
            {
                "load": In(stream.Signature(load_job_layout(c))),
                "job": In(stream.Signature(store_job_layout(c))).array(stores),
                "loaded": Out(stream.Signature(loaded_layout(c))),
                "stored": Out(stream.Signature(stored_layout(c))),
                "write": Out(SRAMWriteSignature(**c.sram_port)),
                "read": Out(SRAMReadSignature(**c.sram_port)),
                "bus": Out(c.memory_bus),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        m.submodules.load_jobs = loads = StreamFIFO(load_job_layout(c), 2)
        m.submodules.store_arbiter = stores = StreamArbiter(store_job_layout(c), self._stores)
        m.submodules.tx_dma = loader = TxDMA(c)
        m.submodules.rx_dma = storer = RxDMA(c)
        for source, sink in (
            (wiring.flipped(self.load), loads.i),
            (loads.o, loader.job),
            (stores.o, storer.job),
            *((wiring.flipped(job), sink) for job, sink in zip(self.job, stores.i, strict=True)),
            (loader.loaded, wiring.flipped(self.loaded)),
            (storer.stored, wiring.flipped(self.stored)),
            (loader.write, wiring.flipped(self.write)),
            (storer.read, wiring.flipped(self.read)),
            (loader.bus, wiring.flipped(self.bus.read)),
            (storer.bus, wiring.flipped(self.bus.write)),
        ):
            wiring.connect(m, source, sink)
        m.d.comb += self.idle.eq(loader.idle & storer.idle)
        return m

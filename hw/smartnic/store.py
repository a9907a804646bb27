# SPDX-License-Identifier: Apache-2.0
"""Writes results to host memory, block by block, and says when an all-reduce is complete."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.axi_write import AXI4Writer
from hw.common.fifo import StreamFIFO
from hw.smartnic.config import ELEMENT_BYTES, SmartNicConfig
from hw.smartnic.layouts import outcome_layout
from hw.smartnic.sides import HostSide

__all__ = ["Store"]

BLOCKS_OPEN = 32


class Store(HostSide):
    """A stream of beats to host memory; what pads the vector is left out.

    Every item takes ``item.beats`` beats from `i`. Those that lie in memory are written, each once;
    bytes beyond the end of the vector stay as they are. Throughput is 1 beat per cycle, also from
    one block to the next.

    Parameters
    ----------
    config : SmartNicConfig

    Members
    -------
    item : ``In(stream.Signature(item_layout(config)))``
        Blocks to write.
    i : ``In(stream.Signature(8 * bus_bytes))``
        Their beats.
    verdict : ``In(stream.Signature(1, always_ready=True))``
        Of every block that has beats in memory, in order: whether it is bad.
    done : ``Out(stream.Signature(outcome_layout()))``
        An item with ``end`` has come, the memory has acknowledged all writes before it, and the
        verdicts on what was written are there.
    bus : ``Out(AXIWriteSignature)``
        Host memory.
    flush : ``In(1)``
        Forget everything. Hold until `busy` is low: writes under way are completed, with zeros
        where data is missing.
    busy : ``Out(1)``
        A write is under way.
    written : ``Out(1)``
        High for one cycle per beat handed to the bus.
    """

    i: stream.Interface
    verdict: stream.Interface
    done: stream.Interface
    written: Signal

    def __init__(self, config: SmartNicConfig) -> None:
        super().__init__(
            config,
            bus=config.memory_bus.write,
            i=In(stream.Signature(8 * config.bus_bytes)),
            verdict=In(stream.Signature(1, always_ready=True)),
            done=Out(stream.Signature(outcome_layout())),
            written=Out(1),
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        clear = ResetInserter(self.flush)
        mark = data.StructLayout({"written": 1, "end": 1})
        m.submodules.writer = writer = AXI4Writer(**c.memory_master)
        connect(m, writer.bus, flipped(self.bus))
        blocks = StreamFIFO(self._block_layout(), 4, memory=False, kept=("beats", "valid"))
        m.submodules.blocks = clear(blocks)
        marks = StreamFIFO(mark, BLOCKS_OPEN, memory=False)
        m.submodules.marks = clear(marks)
        # There are not more blocks than marks.
        verdicts = StreamFIFO(1, BLOCKS_OPEN, memory=False)
        m.submodules.verdicts = clear(verdicts)
        beats = StreamFIFO(8 * c.bus_bytes, c.output_beats, kept=True)
        m.submodules.beats = clear(beats)
        connect(m, flipped(self.i), beats.i)

        # ---- Addresses: an item goes to bus, data path and list of marks at once.
        item = self.item.p
        absent = ~item.some
        empty = item.end
        lane_bytes = (1 << ELEMENT_BYTES) - 1
        strobe = Cat(
            Mux(~item.tail | (item.tail_lanes >= lane if lane else 1), lane_bytes, 0)[
                :ELEMENT_BYTES
            ]
            for lane in range(c.lanes)
        )
        to_bus = writer.cmd.ready | absent
        to_blocks = blocks.i.ready | empty
        go = self.item.valid & ~self.flush
        m.d.comb += [
            writer.cmd.p.address.eq(item.address),
            writer.cmd.p.beats.eq(item.valid),
            writer.cmd.p.last_strobe.eq(strobe),
            writer.cmd.valid.eq(go & ~absent & to_blocks & marks.i.ready),
            blocks.i.valid.eq(go & ~empty & to_bus & marks.i.ready),
            marks.i.p.written.eq(~absent),
            marks.i.p.end.eq(item.end),
            marks.i.valid.eq(go & to_bus & to_blocks),
            self.item.ready.eq(to_bus & to_blocks & marks.i.ready & ~self.flush),
        ]
        # Counted a cycle later: whether a command is taken is known late.
        under_way = Signal(range(2 * BLOCKS_OPEN))
        begun, ended = Signal(), Signal()
        m.d.sync += [
            begun.eq(writer.cmd.valid & writer.cmd.ready),
            ended.eq(writer.done.valid & writer.done.ready),
            under_way.eq(under_way + begun - ended),
        ]
        m.d.comb += self.busy.eq(begun | (under_way != 0))

        # ---- Beats.
        self._enter(m, blocks.i.p)
        moved = Signal()
        _, present, final = self._walk(m, blocks.o.p, moved)
        there = blocks.o.valid & beats.o.valid
        m.d.comb += [
            moved.eq(there & (~present | writer.data.ready)),
            writer.data.payload.eq(Mux(self.flush, 0, beats.o.payload)),
            writer.data.valid.eq((there & present) | self.flush),
            beats.o.ready.eq(moved),
            blocks.o.ready.eq(moved & final),
            self.written.eq(writer.data.valid & writer.data.ready),
        ]

        # ---- Completion.
        failed: Any = Signal(outcome_layout())
        written = marks.o.p.written
        settled = marks.o.valid & (~written | (writer.done.valid & verdicts.o.valid))
        mark_taken = marks.o.valid & marks.o.ready
        m.d.comb += [
            verdicts.i.payload.eq(self.verdict.payload),
            verdicts.i.valid.eq(self.verdict.valid),
            verdicts.o.ready.eq(mark_taken & written),
            self.done.valid.eq(settled & marks.o.p.end & ~self.flush),
            self.done.p.write.eq(failed.write | (written & writer.done.p.error)),
            self.done.p.read.eq(failed.read | (written & verdicts.o.payload)),
            marks.o.ready.eq(settled & (~marks.o.p.end | self.done.ready)),
            writer.done.ready.eq((mark_taken & written) | self.flush),
        ]
        with m.If(mark_taken):
            m.d.sync += failed.eq(Mux(marks.o.p.end, 0, self.done.payload.as_value()))
        with m.If(self.flush):
            m.d.sync += failed.eq(0)
        return m

# SPDX-License-Identifier: Apache-2.0
"""Reads the local vector from host memory, block by block."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Out, connect, flipped

from hw.common.axi_read import AXI4Reader
from hw.common.fifo import StreamFIFO
from hw.smartnic.config import ELEMENT_BYTES, SmartNicConfig
from hw.smartnic.layouts import fetched_layout, local_layout
from hw.smartnic.sides import HostSide

__all__ = ["BLOCKS_AHEAD", "Fetch"]

BLOCKS_AHEAD = 16
"""Blocks whose address may have been sent before their first beat is used."""


class Fetch(HostSide):
    """Host memory to a stream of beats, padded with zeros.

    Every item gives ``item.beats`` beats: those that lie in memory, then zeros; elements beyond the
    end of the vector are zero as well. Each beat of the vector is read once. Blocks are fetched
    ahead as far as the input FIFO and `BLOCKS_AHEAD` allow. Throughput is 1 beat per cycle, also
    from one block to the next.

    Parameters
    ----------
    config : SmartNicConfig

    Members
    -------
    item : ``In(stream.Signature(item_layout(config)))``
        Blocks to read.
    o : ``Out(stream.Signature({data, bad}))``
        Their beats; ``bad``: the memory answered this one with an error.
    bus : ``Out(AXIReadSignature)``
        Host memory.
    flush : ``In(1)``
        Forget everything. Hold until `busy` is low: reads under way are completed and thrown away.
    busy : ``Out(1)``
        A read is under way.
    error : ``Out(1)``
        High for one cycle per beat that the memory answered with an error.
    read : ``Out(1)``
        High for one cycle per beat read.
    """

    o: stream.Interface
    error: Signal
    read: Signal

    def __init__(self, config: SmartNicConfig) -> None:
        super().__init__(
            config,
            bus=config.memory_bus.read,
            o=Out(stream.Signature(local_layout(config))),
            error=Out(1),
            read=Out(1),
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        shape = self._block_layout(tail=1, tail_lanes=range(c.lanes))
        m.submodules.reader = reader = AXI4Reader(**c.memory_master)
        connect(m, reader.bus, flipped(self.bus))
        blocks = StreamFIFO(shape, BLOCKS_AHEAD, memory=False)
        m.submodules.blocks = ResetInserter(self.flush)(blocks)
        beats = StreamFIFO(fetched_layout(c), c.input_beats, kept=True)
        m.submodules.beats = ResetInserter(self.flush)(beats)

        # ---- Addresses.
        item = self.item.p
        absent = ~item.some
        m.d.comb += [
            reader.cmd.p.address.eq(item.address),
            reader.cmd.p.beats.eq(item.valid),
            reader.cmd.valid.eq(self.item.valid & ~absent & blocks.i.ready & ~self.flush),
            blocks.i.p.tail.eq(item.tail),
            blocks.i.p.tail_lanes.eq(item.tail_lanes),
            blocks.i.valid.eq(self.item.valid & (absent | reader.cmd.ready) & ~self.flush),
            self.item.ready.eq(blocks.i.ready & (absent | reader.cmd.ready) & ~self.flush),
        ]
        under_way = Signal(range(BLOCKS_AHEAD + 8))
        begun = reader.cmd.valid & reader.cmd.ready
        ended = reader.data.valid & reader.data.ready & reader.data.p.last
        m.d.sync += under_way.eq(under_way + begun - ended)
        m.d.comb += self.busy.eq(under_way != 0)

        # ---- Beats.
        self._enter(m, blocks.i.p)
        moved = Signal()
        passed, present, final = self._walk(m, blocks.o.p, moved)
        short = blocks.o.p.tail & (passed + 1 == blocks.o.p.valid)
        m.d.comb += [
            moved.eq(beats.i.valid & beats.i.ready),
            beats.i.p.data.eq(reader.data.p.data),
            beats.i.p.lanes.eq(
                Cat(
                    present & (~short | _has(lane, blocks.o.p.tail_lanes))
                    for lane in range(c.lanes)
                )
            ),
            beats.i.p.bad.eq(present & reader.data.p.error),
            beats.i.valid.eq(blocks.o.valid & (~present | reader.data.valid)),
            reader.data.ready.eq((blocks.o.valid & present & beats.i.ready) | self.flush),
            blocks.o.ready.eq(moved & final),
            self.read.eq(reader.data.valid & reader.data.ready),
            self.error.eq(self.read & reader.data.p.error),
        ]
        # Which elements count is known late, and asks for each bit of a beat: not before the FIFO.
        m.d.comb += [
            self.o.p.data.eq(
                Cat(
                    Mux(beats.o.p.lanes[lane], word, 0)
                    for lane, word in enumerate(_words(beats.o.p.data))
                )
            ),
            self.o.p.bad.eq(beats.o.p.bad),
            self.o.valid.eq(beats.o.valid),
            beats.o.ready.eq(self.o.ready),
        ]
        return m


def _words(beat: Signal) -> list[Any]:
    width = 8 * ELEMENT_BYTES
    return [beat.word_select(lane, width) for lane in range(len(beat) // width)]


def _has(lane: int, last: Any) -> Any:
    """True unless *lane* is beyond the *last* one; lane 0 never is."""
    return last >= lane if lane else 1

# SPDX-License-Identifier: Apache-2.0
"""Adds what comes from the ring to what lies in host memory."""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.fifo import StreamFIFO
from hw.fp.alu import ReduceALU
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import item_layout, local_layout, send_layout, wire_layout
from hw.smartnic.wire_codec import BLOCKS_INSIDE, WireDecoder, WireEncoder, sum_layout

__all__ = ["ReducePath"]


class ReducePath(wiring.Component):
    """The reducing half of the ring, at one beat per cycle.

    The first block of a round is the local one, sent as it is. Every later block is the sum of what
    was received and the local block of the same number; the last one is complete and leaves at
    `result`, the others at `sent`. Operands pass a register before the adders: a sum is at the
    encoder ``alu_stages + 2`` cycles after them.

    Parameters
    ----------
    config : SmartNicConfig

    Members
    -------
    item : ``In(stream.Signature(item_layout(config)))``
        Blocks in the order of the reduction.
    local : ``In(stream.Signature(local_layout(config)))``
        The local blocks of these items. A block that leaves is ``bad`` if a beat of it was, here or
        where it came from.
    received : ``In(stream.Signature(wire_layout(config)))``
        Blocks from the previous node.
    sent : ``Out(stream.Signature(send_layout(config)))``
        Blocks for the next node.
    result : ``Out(stream.Signature(wire_layout(config)))``
        Complete blocks.
    host_wait, ring_wait : ``Out(1)``
        The adders wait for `local`, or only for `received`.
    """

    item: stream.Interface
    local: stream.Interface
    received: stream.Interface
    sent: stream.Interface
    result: stream.Interface
    host_wait: Signal
    ring_wait: Signal

    def __init__(self, config: SmartNicConfig) -> None:
        self._config = config
        wire = wire_layout(config)
        super().__init__(
            {
                "item": In(stream.Signature(item_layout(config))),
                "local": In(stream.Signature(local_layout(config))),
                "received": In(stream.Signature(wire)),
                "sent": Out(stream.Signature(send_layout(config))),
                "result": Out(stream.Signature(wire)),
                "host_wait": Out(1),
                "ring_wait": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        m.submodules.alu = alu = ReduceALU(c.lanes, stages=c.alu_stages, keeps=True)
        # Its front is in registers: the encoder compares exponents in its first cycle.
        m.submodules.sums = sums = StreamFIFO(sum_layout(c), c.alu_stages + 4, memory=False)
        m.submodules.decoder = decoder = WireDecoder(c)
        m.submodules.encoder = encoder = WireEncoder(c)
        # Of the blocks in the decoder: whether they were bad when they came.
        m.submodules.verdicts = verdicts = StreamFIFO(1, BLOCKS_INSIDE, memory=False)
        m.submodules.work = work = StreamFIFO(item_layout(c), 4, memory=False)
        connect(m, flipped(self.received), decoder.i)
        connect(m, sums.o, encoder.i)
        connect(m, encoder.partial, flipped(self.sent))
        connect(m, encoder.complete, flipped(self.result))

        # ---- The decoder is told of blocks early, so that it is never empty between two of them.
        ready = work.i.ready & (self.item.p.first | decoder.shape.ready)
        m.d.comb += [
            self.item.ready.eq(ready),
            work.i.payload.eq(self.item.payload),
            work.i.valid.eq(self.item.valid & (self.item.p.first | decoder.shape.ready)),
            decoder.shape.p.beats.eq(self.item.p.beats),
            decoder.shape.p.compress.eq(self.item.p.compress),
            decoder.shape.valid.eq(self.item.valid & ~self.item.p.first & work.i.ready),
        ]

        # ---- Operands. The ALU never stalls: a beat enters when its sum is sure of a place.
        item = work.o.p
        places = Signal(range(sums.depth + 1), init=sums.depth)
        has_place = Signal(init=1)
        passed = Signal(range(c.block_beats))
        final = passed + 1 == item.beats
        issue = Signal()
        spoilt = Signal()  # an earlier beat of the block was bad
        bad = Signal()
        given_back = sums.o.valid & sums.o.ready
        came = self.received.valid & self.received.ready & self.received.p.last
        m.d.comb += [
            verdicts.i.payload.eq(self.received.p.bad),
            verdicts.i.valid.eq(came),
            verdicts.o.ready.eq(issue & final & ~item.first),
            bad.eq(spoilt | self.local.p.bad | (~item.first & final & verdicts.o.payload)),
            issue.eq(
                work.o.valid & self.local.valid & (item.first | decoder.o.valid) & has_place
            ),
            self.local.ready.eq(issue),
            decoder.o.ready.eq(work.o.valid & self.local.valid & ~item.first & has_place),
            work.o.ready.eq(issue & final),
            self.host_wait.eq(work.o.valid & ~self.local.valid),
            self.ring_wait.eq(work.o.valid & self.local.valid & ~item.first & ~decoder.o.valid),
        ]
        m.d.sync += [
            has_place.eq(places != issue),
            alu.i_valid.eq(issue),
            # Nothing is added to a local block that is the first one.
            alu.op.eq(item.op),
            alu.keep.eq(item.first),
            alu.a.eq(decoder.o.payload),
            alu.b.eq(self.local.p.data),
        ]
        with m.If(issue != given_back):
            m.d.sync += places.eq(Mux(issue, places - 1, places + 1))
        with m.If(given_back):
            m.d.sync += has_place.eq(1)
        with m.If(issue):
            m.d.sync += [
                passed.eq(Mux(final, 0, passed + 1)),
                spoilt.eq(bad & ~final),
            ]

        # ---- Sums.
        mark = data.StructLayout({"last": 1, "bad": 1, "compress": 1, "complete": 1, "start": 1})
        marks: list[Any] = [Signal(mark, name=f"mark_{n}") for n in range(c.alu_stages + 2)]
        m.d.comb += [
            marks[0].last.eq(final),
            marks[0].bad.eq(bad),
            marks[0].compress.eq(item.compress),
            marks[0].complete.eq(item.last),
            marks[0].start.eq(item.start),
        ]
        for before, after in pairwise(marks):
            m.d.sync += after.eq(before)
        m.d.comb += [
            sums.i.valid.eq(alu.o_valid),
            sums.i.p.data.eq(alu.o),
            *(sums.i.p[name].eq(marks[-1][name]) for name, _ in mark),
        ]
        return m

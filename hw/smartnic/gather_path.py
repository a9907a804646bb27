# SPDX-License-Identifier: Apache-2.0
"""Hands complete blocks on round the ring and to host memory."""

from typing import Any

from amaranth.hdl import Module, Mux
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.fifo import StreamFIFO
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import item_layout, send_layout, wire_layout
from hw.smartnic.wire_codec import WireDecoder

__all__ = ["GatherPath"]


class GatherPath(wiring.Component):
    """The gathering half of the ring, at one beat per cycle.

    The first block of a round is the one completed here, the others are received. All are kept; all
    but the last go on to the next node, compressed or not, as they are, so every node ends with
    the same bits.

    Parameters
    ----------
    config : SmartNicConfig

    Members
    -------
    item : ``In(stream.Signature(item_layout(config)))``
        Blocks in the order of the gathering.
    result, received : ``In(stream.Signature(wire_layout(config)))``
        Blocks that were completed here; blocks from the previous node.
    sent : ``Out(stream.Signature(send_layout(config)))``
        Its ``ready`` must not depend on its ``valid``.
    kept : ``Out(stream.Signature(8 * bus_bytes))``
        What was compressed is so no more.
    verdict : ``Out(stream.Signature(1, always_ready=True))``
        A cycle after the last beat of every block that has beats in memory: whether it is bad.
    """

    item: stream.Interface
    result: stream.Interface
    received: stream.Interface
    sent: stream.Interface
    kept: stream.Interface
    verdict: stream.Interface

    def __init__(self, config: SmartNicConfig) -> None:
        self._config = config
        wire = wire_layout(config)
        super().__init__(
            {
                "item": In(stream.Signature(item_layout(config))),
                "result": In(stream.Signature(wire)),
                "received": In(stream.Signature(wire)),
                "sent": Out(stream.Signature(send_layout(config))),
                "kept": Out(stream.Signature(8 * config.bus_bytes)),
                "verdict": Out(stream.Signature(1, always_ready=True)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        m.submodules.decoder = decoder = WireDecoder(c)
        route = data.StructLayout({"first": 1, "last": 1, "compress": 1, "stored": 1})
        m.submodules.work = work = StreamFIFO(route, 4, memory=False)
        connect(m, decoder.o, flipped(self.kept))

        # ---- The decoder is told of blocks early, so that it is never empty between two of them.
        m.d.comb += [
            self.item.ready.eq(work.i.ready & decoder.shape.ready),
            work.i.p.first.eq(self.item.p.first),
            work.i.p.last.eq(self.item.p.last),
            work.i.p.compress.eq(self.item.p.compress),
            work.i.p.stored.eq(self.item.p.some),
            work.i.valid.eq(self.item.valid & decoder.shape.ready),
            decoder.shape.p.beats.eq(self.item.p.beats),
            decoder.shape.p.compress.eq(self.item.p.compress),
            decoder.shape.valid.eq(self.item.valid & work.i.ready),
        ]

        # ---- Every beat goes both ways at once, or waits.
        own = work.o.p.first
        forward = ~work.o.p.last
        own_there = work.o.valid & own & self.result.valid
        other_there = work.o.valid & ~own & self.received.valid
        valid = own_there | other_there
        beat = decoder.i.payload
        sendable = self.sent.ready | ~forward
        moved = valid & decoder.i.ready & sendable
        m.d.comb += [
            beat.eq(Mux(own, self.result.payload.as_value(), self.received.payload.as_value())),
            self.sent.p.data.eq(beat.data),
            self.sent.p.last.eq(beat.last),
            self.sent.p.bad.eq(beat.bad),
            self.sent.p.compress.eq(work.o.p.compress),
            self.sent.valid.eq(valid & forward & decoder.i.ready),
            decoder.i.valid.eq(valid & sendable),
            self.result.ready.eq(own_there & decoder.i.ready & sendable),
            self.received.ready.eq(other_there & decoder.i.ready & sendable),
            work.o.ready.eq(moved & decoder.i.p.last),
        ]
        # The store looks at it once the memory has answered: it may come a cycle late.
        m.d.sync += [
            self.verdict.payload.eq(beat.bad),
            self.verdict.valid.eq(moved & beat.last & work.o.p.stored),
        ]
        return m

# SPDX-License-Identifier: Apache-2.0
"""Results for the other members, and for this endpoint."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.switch.packet import FLIT

__all__ = ["ResultFork"]


class ResultFork(wiring.Component):
    """Copies every flit to both outputs, to each when it can take it; latency is 0 cycles.

    `stored` begins a packet when `sent` has begun it, which then has room for all of it. Otherwise
    results could wait for the transmitter and take none from the link meanwhile; if all endpoints
    did so, no credit would come back to any transmitter.

    Members
    -------
    i : ``In(stream.Signature(FLIT))``
        Packets.
    stays : ``In(1)``
        The packet that `i` shows goes to `stored` alone; the same for all its flits.
    sent, stored : ``Out(stream.Signature(FLIT))``
        Those for the others, and for this endpoint.
    """

    i: stream.Interface
    stays: Signal
    sent: stream.Interface
    stored: stream.Interface

    def __init__(self) -> None:
        flits = stream.Signature(FLIT)
        super().__init__(
            {"i": In(flits), "stays": In(1), "sent": Out(flits), "stored": Out(flits)}
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        source: Any = self.i
        sinks = (self.sent, self.stored)
        has = [Signal(name=f"has_{name}") for name in ("sent", "stored")]
        done = [has[0] | self.stays, has[1]]
        may = [~done[0], ~done[1] & (done[0] | ~source.p.first)]
        for sink, taken, free in zip(sinks, has, may):
            m.d.comb += [sink.payload.eq(source.payload), sink.valid.eq(source.valid & free)]
            with m.If(source.valid & source.ready):
                m.d.sync += taken.eq(0)
            with m.Elif(sink.valid & sink.ready):
                m.d.sync += taken.eq(1)
        m.d.comb += source.ready.eq(
            Cat(each | (free & sink.ready) for sink, each, free in zip(sinks, done, may)).all()
        )
        return m

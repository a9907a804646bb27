"""Hands complete blocks on round the ring and to host memory."""

from typing import Any

from amaranth.hdl import Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import item_layout, wire_layout

__all__ = ["GatherPath"]


class GatherPath(wiring.Component):
    """The gathering half of the ring, at one beat per cycle.

    The first block of a round is the one completed here, the others are received. All go to `kept`;
    all but the last go on to the next node as they are, so every node ends with the same bits.
    Nothing is stored: outputs depend on inputs in the same cycle.

    Parameters
    ----------
    config : SmartNicConfig

    Members
    -------
    item : ``In(stream.Signature(item_layout(config)))``
        Blocks in the order of the gathering.
    result, received : ``In(stream.Signature(wire_layout(config)))``
    sent, kept : ``Out(stream.Signature(wire_layout(config)))``
        Their ``ready`` must not depend on their ``valid``.
    """

    item: stream.Interface
    result: stream.Interface
    received: stream.Interface
    sent: stream.Interface
    kept: stream.Interface

    def __init__(self, config: SmartNicConfig) -> None:
        wire = wire_layout(config)
        super().__init__(
            {
                "item": In(stream.Signature(item_layout(config))),
                "result": In(stream.Signature(wire)),
                "received": In(stream.Signature(wire)),
                "sent": Out(stream.Signature(wire)),
                "kept": Out(stream.Signature(wire)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        own = self.item.p.first
        forward = ~self.item.p.last
        valid = self.item.valid & Mux(own, self.result.valid, self.received.valid)
        beat = Mux(own, self.result.payload.as_value(), self.received.payload.as_value())
        sendable = self.sent.ready | ~forward
        moved = valid & self.kept.ready & sendable
        m.d.comb += [
            self.sent.payload.eq(beat),
            self.kept.payload.eq(beat),
            self.sent.valid.eq(valid & forward & self.kept.ready),
            self.kept.valid.eq(valid & sendable),
            self.result.ready.eq(moved & own),
            self.received.ready.eq(moved & ~own),
            self.item.ready.eq(moved & self.kept.p.last),
        ]
        return m

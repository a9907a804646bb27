"""Adds what comes from the ring to what lies in host memory."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.fifo import StreamFIFO
from hw.fp.alu import ReduceALU
from hw.fp.ops import ReduceOp
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import item_layout, wire_layout

__all__ = ["ReducePath"]


class ReducePath(wiring.Component):
    """The reducing half of the ring, at one beat per cycle.

    The first block of a round is the local one, sent as it is. Every later block is the sum of what
    was received and the local block of the same number; the last one is complete and leaves at
    `result`, the others at `sent`.

    Parameters
    ----------
    config : SmartNicConfig

    Members
    -------
    item : ``In(stream.Signature(item_layout(config)))``
        Blocks in the order of the reduction.
    local : ``In(stream.Signature(8 * bus_bytes))``
        The local blocks of these items.
    received : ``In(stream.Signature(wire_layout(config)))``
    sent, result : ``Out(stream.Signature(wire_layout(config)))``
    """

    item: stream.Interface
    local: stream.Interface
    received: stream.Interface
    sent: stream.Interface
    result: stream.Interface

    def __init__(self, config: SmartNicConfig) -> None:
        self._config = config
        wire = wire_layout(config)
        super().__init__(
            {
                "item": In(stream.Signature(item_layout(config))),
                "local": In(stream.Signature(8 * config.bus_bytes)),
                "received": In(stream.Signature(wire)),
                "sent": Out(stream.Signature(wire)),
                "result": Out(stream.Signature(wire)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        m.submodules.alu = alu = ReduceALU(c.lanes, stages=c.alu_stages)
        outcome = data.StructLayout({"data": 8 * c.bus_bytes, "last": 1, "complete": 1})
        m.submodules.sums = sums = StreamFIFO(outcome, c.alu_stages + 3, memory=False)

        # ---- Operands. The ALU never stalls: a beat enters when its sum is sure of a place.
        item = self.item.p
        places = Signal(range(sums.depth + 1), init=sums.depth)
        passed = Signal(range(c.block_beats))
        final = passed + 1 == item.beats
        issue = Signal()
        m.d.comb += [
            issue.eq(
                self.item.valid
                & self.local.valid
                & (item.first | self.received.valid)
                & (places != 0)
            ),
            self.local.ready.eq(issue),
            self.received.ready.eq(issue & ~item.first),
            self.item.ready.eq(issue & final),
            alu.i_valid.eq(issue),
            # Adding the integer zero passes the local block through, bit for bit.
            alu.op.eq(Mux(item.first, ReduceOp.SUM_I32, item.op)),
            alu.a.eq(self.local.payload),
            alu.b.eq(Mux(item.first, 0, self.received.p.data)),
        ]
        m.d.sync += places.eq(places - issue + (sums.o.valid & sums.o.ready))
        with m.If(issue):
            m.d.sync += passed.eq(Mux(final, 0, passed + 1))

        # ---- Sums.
        mark = data.StructLayout({"last": 1, "complete": 1})
        marks = [Signal(mark, name=f"mark_{stage}") for stage in range(c.alu_stages + 1)]
        m.d.comb += [marks[0].last.eq(final), marks[0].complete.eq(item.last)]
        for before, after in zip(marks, marks[1:]):
            m.d.sync += after.eq(before)
        m.d.comb += [
            sums.i.valid.eq(alu.o_valid),
            sums.i.p.data.eq(alu.o),
            sums.i.p.last.eq(marks[-1].last),
            sums.i.p.complete.eq(marks[-1].complete),
        ]
        for port, chosen in (self.sent, ~sums.o.p.complete), (self.result, sums.o.p.complete):
            m.d.comb += [
                port.valid.eq(sums.o.valid & chosen),
                port.p.data.eq(sums.o.p.data),
                port.p.last.eq(sums.o.p.last),
            ]
        m.d.comb += sums.o.ready.eq(Mux(sums.o.p.complete, self.result.ready, self.sent.ready))
        return m

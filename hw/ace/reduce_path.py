# SPDX-License-Identifier: Apache-2.0
"""From an issued beat of a packet to its outcome: through the ALU or around it."""

from itertools import pairwise

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.alu_pool import ALUOperandSignature
from hw.ace.config import AceConfig
from hw.ace.sram import READ_LATENCY
from hw.common.count import stepped, stepped_to
from hw.common.fifo import StreamFIFO
from hw.fp.ops import ReduceOp

__all__ = ["ReducePath", "issue_layout", "result_layout", "results_depth"]

_OPERAND = READ_LATENCY - 1  # cycles from issue to the operand


def issue_layout() -> data.StructLayout:
    """A beat whose payload and operand are being read: whether and how it is reduced, and what is
    known with its result."""
    return data.StructLayout({"reduce": 1, "operator": ReduceOp, "stores": 1, "last": 1})


def result_layout(c: AceConfig) -> data.StructLayout:
    """The outcome of a beat; whether it is stored, and the ``last`` one of its packet."""
    return data.StructLayout({"beat": 8 * c.bus_bytes, "stores": 1, "last": 1})


def results_depth(c: AceConfig) -> int:
    """Beats that have been taken to be issued and whose outcomes have not left: as many as keep
    them going, and six that wait for SRAM."""
    return READ_LATENCY + c.alu_latency + 9


class ReducePath(wiring.Component):
    """Data path of a receive unit: payload and operand meet, are reduced, and the outcome waits.

    A beat that is not reduced takes as long as one that is, so order is kept.

    Timing: a result is offered ``READ_LATENCY + alu_latency`` cycles after its beat was issued; one
    beat per cycle. Nothing stalls once issued: ``room`` counts the places for results.

    Members
    -------
    room : ``Out(1)``
        There is a place for the result of another beat.
    promise : ``In(1)``
        It is taken by one that will be issued; only with ``room``.
    issue : ``In(stream.Signature(issue_layout(), always_ready=True))``
        A beat whose payload and operand are being read.
    payload : ``In(8 * bus_bytes)``
        Of the packet, with issue.
    operand : ``In(8 * bus_bytes)``
        From SRAM, ``READ_LATENCY - 1`` cycles after issue.
    alu : ``Out(ALUOperandSignature(lanes))``
        The ALU, for beats that are reduced.
    result : ``Out(stream.Signature(result_layout(config)))``
        Outcomes of the beats, in order.
    """

    room: Signal
    promise: Signal
    issue: stream.Interface
    payload: Signal
    operand: Signal
    result: stream.Interface

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        width = 8 * c.bus_bytes
        super().__init__(
            {
                "room": Out(1),
                "promise": In(1),
                "issue": In(stream.Signature(issue_layout(), always_ready=True)),
                "payload": In(width),
                "operand": In(width),
                "alu": Out(ALUOperandSignature(lanes=c.lanes)),
                "result": Out(stream.Signature(result_layout(c))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        width = 8 * self._config.bus_bytes
        latency = _OPERAND + self._config.alu_latency
        depth = results_depth(self._config)
        m.submodules.results = results = StreamFIFO(
            result_layout(self._config), depth, kept=("beat",)
        )
        wiring.connect(m, results.o, wiring.flipped(self.result))
        stage = data.StructLayout({"valid": 1, "reduce": 1, "stores": 1, "last": 1})
        issued = [Signal(stage, name=f"issued_{n}") for n in range(latency + 1)]
        m.d.comb += [
            issued[0].valid.eq(self.issue.valid),
            issued[0].reduce.eq(self.issue.p.reduce),
            issued[0].stores.eq(self.issue.p.stores),
            issued[0].last.eq(self.issue.p.last),
        ]
        m.d.sync += [after.eq(before) for before, after in pairwise(issued)]
        # Who takes outcomes is known late: a place is free a cycle after its outcome has left.
        promised = Signal(range(depth + 1))
        left = Signal()
        room = Signal(init=1)
        m.d.comb += self.room.eq(room)
        moves = {"up": self.promise, "down": left}
        m.d.sync += [
            left.eq(self.result.valid & self.result.ready),
            promised.eq(stepped(promised, **moves)),
            room.eq(~stepped_to(promised, depth, **moves)),
        ]
        operators = [Signal(ReduceOp, name=f"operator_{n}") for n in range(_OPERAND + 1)]
        m.d.comb += operators[0].eq(self.issue.p.operator)
        m.d.sync += [after.eq(before) for before, after in pairwise(operators)]

        before = issued[_OPERAND - 1]
        reduces = Signal()
        m.d.sync += reduces.eq(before.valid & before.reduce)
        aligned = self.payload  # when the operand is there
        for n, beat in enumerate(issued[:_OPERAND], 1):
            after = Signal(width, name=f"payload_{n}")
            with m.If(beat.valid):
                m.d.sync += after.eq(aligned)
            aligned = after
        m.d.comb += [
            self.alu.valid.eq(reduces),
            self.alu.op.eq(operators[_OPERAND]),
            self.alu.a.eq(aligned),
            self.alu.b.eq(self.operand),
        ]
        around = [aligned]
        for n, beat in enumerate(issued[_OPERAND:latency]):
            around.append(Signal(width, name=f"around_{n + 1}"))
            with m.If(beat.valid & ~beat.reduce):
                m.d.sync += around[-1].eq(around[-2])
        m.d.comb += [
            results.i.valid.eq(issued[latency].valid),
            results.i.p.beat.eq(Mux(issued[latency].reduce, self.alu.result, around[-1])),
            results.i.p.stores.eq(issued[latency].stores),
            results.i.p.last.eq(issued[latency].last),
        ]
        return m

# SPDX-License-Identifier: Apache-2.0
"""Reduction lane and array of lanes."""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.once import once
from hw.common.params import require_int, require_type
from hw.fp import steps
from hw.fp.adder import MAX_STAGES, registered, sum_pipeline
from hw.fp.formats import BINARY32
from hw.fp.minmax import takes_first
from hw.fp.ops import ReduceOp

__all__ = ["ReduceALU", "ReduceLane"]

MAX_LANES = 4096


def _keep(keeps: bool) -> dict[str, In]:
    """The member of a lane, or of many, that has an operand come out as it is."""
    return {"keep": In(1)} if keeps else {}


class ReduceLane(wiring.Component):
    """One lane: sum, minimum or maximum of two binary32 numbers, or sum of two integers.

    Latency is *stages* cycles for every operation; throughput is one result per cycle; it never
    stalls and has no reset.

    The operations share what they can. The adder finds the larger magnitude anyway, which is most
    of a comparison; and a word to which nothing is added passes through its later steps unchanged,
    so that results of the other operations need no registers of their own.

    Parameters
    ----------
    stages : int
        Pipeline registers between operands and result, 0 to 8.
    keeps : bool
        The result may be one operand as it is.

    Members
    -------
    op : ``In(ReduceOp)``
        What to do with the operands of this cycle.
    keep : ``In(1)``, only with *keeps*
        The result is `b`, whatever `op` says.
    a, b : ``In(32)``
        Operands.
    o : ``Out(32)``
        Result, *stages* cycles later.
    """

    op: Signal
    keep: Signal
    a: Signal
    b: Signal
    o: Signal

    def __init__(self, *, stages: int = 3, keeps: bool = False) -> None:
        self.latency = require_int("ReduceLane stages", stages, minimum=0, maximum=MAX_STAGES)
        self._keeps = require_type("ReduceLane keeps", keeps, bool)
        super().__init__(
            {"op": In(ReduceOp), **_keep(keeps), "a": In(32), "b": In(32), "o": Out(32)}
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        compared = steps.compare(m, BINARY32, self.a, self.b)
        by = registered(m, "compare", compared, stages=self.latency)
        asked = registered(m, "compare", self.op, stages=self.latency, name="op")
        reduces: Value = Const(1)
        if self._keeps:
            reduces = ~registered(m, "compare", self.keep, stages=self.latency, name="keep")
        takes_b = Signal()
        word, total_i32 = Signal(32), Signal(32)
        adds = reduces & (asked == ReduceOp.SUM_F32)
        integers = reduces & (asked == ReduceOp.SUM_I32)
        first = takes_first(by.a[-1], by.b[-1], by.a_smaller, asked == ReduceOp.MAX_F32)
        # One multiplexer for all operations; a sum has the larger operand in that place.
        m.d.comb += [
            takes_b.eq(Mux(adds, by.a_smaller, ~(reduces & first))),
            total_i32.eq(by.a + by.b),
            word.eq(Mux(integers, total_i32, Mux(takes_b, by.b, by.a))),
        ]
        # A word that nothing is added to needs no exponent to be normal: it comes out as it is.
        normal = ~adds | Mux(by.a_smaller, by.b_normal, by.a_normal)
        chosen = steps.arrange(m, BINARY32, by, word=word, normal=normal, adds=adds)
        with m.If(~adds):
            nan = by.nan & reduces & ~integers
            m.d.comb += [chosen.special.eq(nan), chosen.nan.eq(nan)]
        total, _flags = sum_pipeline(m, BINARY32, chosen, self.latency)
        m.d.comb += self.o.eq(total)
        return m


class ReduceALU(wiring.Component):
    """Array of reduction lanes that work in step.

    Latency is *stages* cycles for every operation; throughput is one beat per cycle; it never
    stalls: `o_valid` is `i_valid` of *stages* cycles ago. Operation and operands may change every
    cycle. With one stage or more all outputs are registers.

    Parameters
    ----------
    lanes : int
        Number of 32-bit words in a beat, at least 1.
    stages : int
        Pipeline registers between operands and results, 0 to 8.
    keeps : bool
        Results may be one operand as it is.

    Members
    -------
    i_valid : ``In(1)``
        There are operands in this cycle.
    op : ``In(ReduceOp)``
        What to do with them.
    keep : ``In(1)``, only with *keeps*
        The results are `b`, whatever `op` says.
    a, b : ``In(32 * lanes)``
        Operands; lane *k* takes bits ``32 * k`` to ``32 * k + 31``.
    o_valid : ``Out(1)``
        There are results in this cycle.
    o : ``Out(32 * lanes)``
        Results, lane by lane.

    Raises
    ------
    TypeError, ValueError
        *lanes* is not an integer from 1 to 4096, or *stages* is not an integer from 0 to 8.
    """

    i_valid: Signal
    op: Signal
    keep: Signal
    a: Signal
    b: Signal
    o_valid: Signal
    o: Signal

    def __init__(self, lanes: int, *, stages: int = 3, keeps: bool = False) -> None:
        self.lanes = require_int("ReduceALU lanes", lanes, maximum=MAX_LANES)
        self.latency = require_int("ReduceALU stages", stages, minimum=0, maximum=MAX_STAGES)
        self._keeps = require_type("ReduceALU keeps", keeps, bool)
        beat = 32 * lanes
        super().__init__(
            {
                "i_valid": In(1),
                "op": In(ReduceOp),
                **_keep(keeps),
                "a": In(beat),
                "b": In(beat),
                "o_valid": Out(1),
                "o": Out(beat),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for index in range(self.lanes):
            lane = ReduceLane(stages=self.latency, keeps=self._keeps)
            kind = "_that_keeps" if self._keeps else ""
            name = f"reduce_lane_of_{self.latency}_stages{kind}"
            m.submodules[f"lane_{index}"] = once(platform, lane, name)
            m.d.comb += [
                lane.op.eq(self.op),
                lane.a.eq(self.a.word_select(index, 32)),
                lane.b.eq(self.b.word_select(index, 32)),
                self.o.word_select(index, 32).eq(lane.o),
            ]
            if self._keeps:
                m.d.comb += lane.keep.eq(self.keep)
        valid = self.i_valid
        for stage in range(self.latency):
            held = Signal(name=f"valid_{stage + 1}")
            m.d.sync += held.eq(valid)
            valid = held
        m.d.comb += self.o_valid.eq(valid)
        return m

# SPDX-License-Identifier: Apache-2.0
"""Packets of several streams, which take turns."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.arbiter import RoundRobinArbiter
from hw.common.params import require_int
from hw.common.select import marked
from hw.switch.packet import FLIT

__all__ = ["PacketMerge"]


class PacketMerge(wiring.Component):
    """Merges the packets of *n* streams, whose turn is known in the cycle before.

    The stream whose turn it is keeps it while no other one waits. One that waits has it from the
    end of a packet on, or, if there is none, a cycle after it came: packets follow each other
    without a gap, but a stream may begin a cycle late. While it waits others begin *n* packets at
    most, and so they do if it may begin only whenever they do, as streams that share room may.
    Nothing is held: a flit passes in the cycle in which it is shown.

    Parameters
    ----------
    n : int
        Number of streams, at least 1.

    Members
    -------
    i : ``In(stream.Signature(FLIT)).array(n)``
        Packets to merge.
    may : ``In(n)``
        Which of them may begin one; not to fall while `o` stalls.
    o : ``Out(stream.Signature(FLIT))``
        All their packets.
    owner : ``Out(n)``
        Whose turn it is, one-hot.
    within : ``Out(1)``
        A packet was begun and has not ended.
    """

    i: Any
    may: Signal
    o: stream.Interface
    owner: Signal
    within: Signal

    def __init__(self, n: int) -> None:
        self._n = require_int("PacketMerge n", n)
        flits = stream.Signature(FLIT)
        super().__init__(
            {
                "i": In(flits).array(n), "may": In(n), "o": Out(flits),
                "owner": Out(n), "within": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.turns = turns = RoundRobinArbiter(self._n)
        owner, within, o = Signal(self._n, init=1), self.within, self.o
        valid = Cat(each.valid for each in self.i)
        passes = owner & (self.may | within.replicate(self._n))
        ends = Mux(o.valid, o.ready & o.p.last, ~within)
        # Those that might have begun when another one did: the turn is theirs at its end, even if
        # it has taken the room that was there for all.
        passed_over = Signal(self._n)
        with m.If(o.valid & o.ready & ~within):
            m.d.sync += passed_over.eq(valid & self.may & ~owner)
        m.d.comb += [
            self.owner.eq(owner),
            o.valid.eq((valid & passes).any()),
            Value.cast(o.payload).eq(marked(owner, [Value.cast(each.payload) for each in self.i])),
            turns.requests.eq(valid & (self.may | Mux(o.valid, passed_over, 0)) & ~owner),
            turns.advance.eq(ends),
            *(each.ready.eq(passes[k] & o.ready) for k, each in enumerate(self.i)),
        ]
        with m.If(o.valid & o.ready):
            m.d.sync += within.eq(~o.p.last)
        with m.If(ends & turns.requests.any()):
            m.d.sync += owner.eq(turns.grant)
        return m

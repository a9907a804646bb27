# SPDX-License-Identifier: Apache-2.0
"""Packets of several streams, which take turns."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

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
        owner, within, o = Signal(self._n, init=1), self.within, self.o
        valid = Cat(each.valid for each in self.i)
        passes = owner & (self.may | within.replicate(self._n))
        # Those that might have begun when another one did: the turn is theirs at its end, even if
        # it has taken the room that was there for all.
        passed_over = Signal(self._n)
        with m.If(o.valid & o.ready & ~within):
            m.d.sync += passed_over.eq(valid & self.may & ~owner)
        # Whether a flit moves comes last, and only chooses.
        grant, others = Signal(self._n), ~owner
        idle, moving = (
            self._next(valid, may & others, owner) for may in (self.may, self.may | passed_over)
        )
        m.d.comb += [
            grant.eq(Mux(o.valid, moving, idle)),
            self.owner.eq(owner),
            o.valid.eq((valid & passes).any()),
            Value.cast(o.payload).eq(marked(owner, [Value.cast(each.payload) for each in self.i])),
            *(each.ready.eq(passes[k] & o.ready) for k, each in enumerate(self.i)),
        ]
        with m.If(o.valid & o.ready):
            m.d.sync += within.eq(~o.p.last)
        waits = valid & others
        any_idle, any_moving = (waits & self.may).any(), (waits & (self.may | passed_over)).any()
        with m.If(Mux(o.valid, o.ready & o.p.last & any_moving, ~within & any_idle)):
            m.d.sync += owner.eq(grant)
        return m

    def _next(self, valid: Value, may: Value, owner: Signal) -> Value:
        """The first of those that are *valid* and *may* in the order after the *owner*, one-hot.
        Only what is valid comes late."""
        n = self._n
        # Those that go before each one.
        before = [
            Cat(
                Cat(owner[j] for j in range(n) if (i - j - 1) % n < (k - j - 1) % n).any()
                for i in range(n)
            )
            for k in range(n)
        ]
        return Cat(
            valid[k] & may[k] & ~(valid & (may & before[k])).any() for k in range(n)
        )

# SPDX-License-Identifier: Apache-2.0
"""Packets of several streams, which take turns."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int
from hw.common.select import marked
from hw.switch.packet import FLIT
from hw.switch.packet_turns import packet_turns

__all__ = ["PacketMerge"]


class PacketMerge(wiring.Component):
    """Merges the packets of *n* streams, which take `packet_turns`.

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
        o = self.o
        turns = packet_turns(
            m, Cat(each.valid for each in self.i), self.may, ready=o.ready, last=o.p.last,
            shown=o.valid, within=self.within,
        )
        m.d.comb += [
            self.owner.eq(turns.owner),
            Value.cast(o.payload).eq(
                marked(turns.owner, [Value.cast(each.payload) for each in self.i])
            ),
            *(each.ready.eq(turns.passes[k] & o.ready) for k, each in enumerate(self.i)),
        ]
        return m

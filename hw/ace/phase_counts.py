# SPDX-License-Identifier: Apache-2.0
"""Counts of a context: packets of its phase that have yet to arrive and to leave."""

from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.isa import PHASE_FIELDS
from hw.ace.layouts import packet_count

__all__ = ["PhaseCounts", "product_bits"]


def product_bits(c: AceConfig) -> int:
    """Bits of what the multiplier of a `ContextTable` makes: blocks or runs by beats or packets."""
    run = Shape.cast(PHASE_FIELDS["run"][0]).width
    return run + max(c.slot_beats, c.block_packets).bit_length()


class PhaseCounts(wiring.Component):
    """Counts packets of one context, by parity of their phase, and knows how long its runs are.

    Packets that come before their phase has begun count, too: what is due is added when it begins.

    Timing: a count is there in the cycle after its strobe, and ``settled`` with it; where a phase
    begins of which packets came ahead, a cycle later. Nothing stalls.

    Members
    -------
    product : ``In(product_bits(config))``, due : ``In(packet_count(config))``
        What the multiplier has made; packets that are to arrive in the first phase.
    admitted : ``In(1)``
        The first phase begins, in which *product* packets leave.
    entry : ``In(1)``
        *product* is the beats of a run of the first phase, and of one ahead.
    opening : ``In(4)``
        *product* is for a later phase: beats of a run, packets that arrive, that leave, beats of a
        run ahead.
    odd : ``In(1)``
        The phase has an odd number.
    received, sent, parity : ``In(1)``
        A packet of a phase of this parity has arrived, or left.
    receives, sends : ``Out(packet_count(config))``, settled : ``Out(1)``
        Packets of the phase that have yet to arrive, and to leave; both are none.
    span : ``Out(range(slot_beats + 1)).array(2)``, packets : ``Out(...).array(2)``
        By parity, beats and packets of a run.
    """

    product: Signal
    due: Signal
    admitted: Signal
    entry: Signal
    opening: Signal
    odd: Signal
    received: Signal
    sent: Signal
    parity: Signal
    receives: Signal
    sends: Signal
    settled: Signal
    span: Any
    packets: Any

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        strobes = ("admitted", "entry", "odd", "received", "sent", "parity")
        super().__init__(
            {
                "product": In(product_bits(c)),
                "due": In(packet_count(c)),
                "opening": In(4),
                **dict.fromkeys(strobes, In(1)),
                "receives": Out(packet_count(c)),
                "sends": Out(packet_count(c)),
                "settled": Out(1),
                "span": Out(range(c.slot_beats + 1)).array(2),
                "packets": Out(range(c.block_packets + 1)).array(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        packet_bits = (c.packet_beats - 1).bit_length()
        counts = []  # by parity: to arrive, to leave
        for parity, (span, packets) in enumerate(zip(self.span, self.packets)):
            its = self.odd == parity
            counts.append(
                [
                    self._count(m, f"{name}_{parity}", its & turn, happens, parity, due)
                    for name, turn, happens, due in (
                        ("receives", self.opening[1], self.received, self.due),
                        ("sends", self.opening[2], self.sent, self.product),
                    )
                ]
            )
            m.d.comb += packets.eq((span + (c.packet_beats - 1)) >> packet_bits)
            with m.If(self.entry | (self.opening[0] & its) | (self.opening[3] & ~its)):
                m.d.sync += span.eq(self.product)
        receives, sends = zip(*counts[::-1])
        m.d.comb += [
            self.receives.eq(Mux(self.odd, *(left for left, _ in receives))),
            self.sends.eq(Mux(self.odd, *(left for left, _ in sends))),
            self.settled.eq(Mux(self.odd, *(a & b for (_, a), (_, b) in zip(receives, sends)))),
        ]
        return m

    def _count(self, m, name, begins, happens, parity, due):
        """Packets that are left of those that are *due* from an admission on, and of the product
        that is added when a phase *begins*; whether there are none."""
        left = Signal(packet_count(self._config), name=f"{name}_left")
        none = Signal(name=f"{name}_none", init=1)
        event = Signal(name=f"{name}_event")
        product = Value.cast(self.product)[: len(left)]
        m.d.comb += event.eq(happens & (self.parity == parity))
        m.d.sync += [
            left.eq(left + Mux(begins, product, 0) - event),
            # Where packets came ahead, it is right a cycle later.
            none.eq(Mux(begins, product == event, left == event)),
        ]
        with m.If(self.admitted):
            first = 0 if parity else due
            m.d.sync += [left.eq(first), none.eq(first == 0)]
        return left, none

# SPDX-License-Identifier: Apache-2.0
"""Epochs of the regions: what is older than the latest is forgotten before others hear of it."""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.arbiter import RoundRobinArbiter
from hw.common.select import marked
from hw.switch.config import SwitchConfig
from hw.switch.packet import EPOCH_BITS

__all__ = ["EpochTracker", "question_layout"]


def question_layout(c: SwitchConfig) -> data.StructLayout:
    """A notice that is to be passed on. ``fresh``: its sender is at this very port, and has just
    joined."""
    return data.StructLayout({"row": range(c.regions), "epoch": EPOCH_BITS, "fresh": 1})


class EpochTracker(wiring.Component):
    """Knows the epoch of each region, and by which links it has been told.

    Each endpoint says by a notice on every link that it has come to an epoch, once nothing older is
    left in it. The first notice of an epoch that a switch sees begins a *purge* of its region: all
    that the switch holds of it is discarded, wherever it is, and nothing of it is taken. The notice
    goes on when nothing is left. So what a link carries behind a notice is never older than it, and
    packets are taken from a link when its notice of the present epoch has come: no number in a
    packet has to tell epochs apart.

    Epochs are compared as numbers of 32 bits. Earlier notices go on, too: they are no news to
    anybody. An endpoint that has just joined, and so may remember nothing, hears nobody until its
    switch has answered. Its notice goes no further; the answer is the epoch that it is to begin:
    that of its region, or the next one if it was a member of this one itself.

    A notice is judged 3 cycles after its turn has come, one in 3 cycles, ports in turn: its epoch
    is compared in the cycle before.

    Parameters
    ----------
    config : SwitchConfig

    Members
    -------
    asks : ``In(ports)``, question : ``In(question_layout(config)).array(ports)``
        The notices of each port; held until they are judged.
    passed, postponed, answered : ``Out(ports)``
        High for one cycle when one is judged: it goes on; it has to ask again, after others; it is
        answered, with `answer`.
    answer : ``Out(32)``
        The epoch that the asker is to begin; valid with ``answered``.
    purge : ``In(regions)``
        Discard what is held of these regions, and take nothing until there are notices.
    holds : ``In(regions)``
        Regions of which something is held.
    held : ``Out(regions)``
        The same a cycle later, and for a short time after.
    purging : ``Out(regions)``
        Discard what is held, take nothing.
    current : ``Out(ports).array(regions)``
        Links from which packets are taken; all of them after reset.
    idle : ``Out(1)``
        No notice is being judged, and nothing is purged.
    """

    asks: Signal
    question: Any
    passed: Signal
    postponed: Signal
    answered: Signal
    answer: Signal
    purge: Signal
    holds: Signal
    held: Signal
    purging: Signal
    current: Any
    idle: Signal

    def __init__(self, config: SwitchConfig) -> None:
        c = self._config = config
        super().__init__(
            {
                "asks": In(c.ports),
                "question": In(question_layout(c)).array(c.ports),
                "passed": Out(c.ports),
                "postponed": Out(c.ports),
                "answered": Out(c.ports),
                "answer": Out(EPOCH_BITS),
                "purge": In(c.regions),
                "holds": In(c.regions),
                "held": Out(c.regions),
                "purging": Out(c.regions),
                "current": Out(c.ports).array(c.regions),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        m.submodules.turns = turns = RoundRobinArbiter(c.ports)
        question: Any = Signal(question_layout(c))
        asking = Signal(c.ports)
        comparing, judging = Signal(), Signal()
        m.d.comb += [
            turns.requests.eq(Mux(comparing | judging, 0, self.asks)),
            turns.advance.eq(turns.requests.any()),
        ]
        m.d.sync += [comparing.eq(turns.requests.any()), judging.eq(comparing)]
        with m.If(~comparing & ~judging):  # whether any asks or not
            asked = marked(turns.grant, [Value.cast(each) for each in self.question])
            m.d.sync += [asking.eq(turns.grant), question.eq(asked)]
        epochs = [Signal(EPOCH_BITS, name=f"epoch_{k}") for k in range(c.regions)]
        told = [Signal(c.ports, name=f"told_{k}") for k in range(c.regions)]
        taken = [
            Signal(c.ports, name=f"taken_{k}", init=(1 << c.ports) - 1) for k in range(c.regions)
        ]
        present = Signal(EPOCH_BITS)
        known = Signal()  # told by this link already
        later, same, waits = Signal(), Signal(), Signal()
        latest = Signal.like(present)
        joins = question.fresh
        m.d.comb += [
            present.eq(Array(epochs)[question.row]),
            known.eq((Array(told)[question.row] & asking).any()),
            waits.eq(~joins & (self.purging.bit_select(question.row, 1) | later)),
            self.answer.eq(Mux(question.epoch > latest, question.epoch, latest)),
        ]
        m.d.sync += [
            later.eq(question.epoch > present),
            same.eq(question.epoch == present),
            latest.eq(present + known),
        ]
        m.d.comb += [
            self.postponed.eq(Mux(judging & waits, asking, 0)),
            self.answered.eq(Mux(judging & joins, asking, 0)),
            self.passed.eq(Mux(judging & ~waits & ~joins, asking, 0)),
        ]
        adopts = Signal(c.regions)
        row: Value = Mux(judging & ~joins, 1 << question.row, 0)
        m.d.comb += adopts.eq(Mux(later & ~self.purging.bit_select(question.row, 1), row, 0))
        for k in range(c.regions):
            with m.If(adopts[k]):
                # It asks again when nothing is left. That it has told counts from now on: who is
                # reset, or joins anew, while it waits is no member of this epoch any more.
                m.d.sync += [epochs[k].eq(question.epoch), told[k].eq(asking), taken[k].eq(0)]
            with m.Elif(row[k] & same):
                m.d.sync += told[k].eq(told[k] | asking)
                with m.If(~waits):
                    m.d.sync += taken[k].eq(taken[k] | asking)
            with m.If(self.purge[k]):
                m.d.sync += taken[k].eq(0)
            self._purge(m, k, adopts[k] | self.purge[k])
            m.d.comb += self.current[k].eq(Mux(self.purging[k], 0, taken[k]))
        m.d.comb += self.idle.eq(
            ~comparing & ~judging & ~self.asks.any() & ~self.purging.any()
        )
        return m

    def _purge(self, m: Module, row: int, begins: Value) -> None:
        """Purge until nothing is held. What leaves one part reaches the next within a packet's
        time, and neither shows it in between."""
        stretch = self._config.packet_flits + 8
        since = Signal(range(stretch + 1), name=f"since_{row}")
        holds = Signal(name=f"holds_{row}")
        m.d.sync += holds.eq(self.holds[row])
        with m.If(begins | holds):
            m.d.sync += since.eq(stretch)
        with m.Elif(since != 0):
            m.d.sync += since.eq(since - 1)
        m.d.comb += self.held[row].eq(holds | (since != 0))
        with m.If(begins):
            m.d.sync += self.purging[row].eq(1)
        with m.Elif(~self.held[row]):
            m.d.sync += self.purging[row].eq(0)

# SPDX-License-Identifier: Apache-2.0
"""Aborting together: how all NICs of a ring come to the same epoch."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import EPOCH_BITS, AbortCause, Heard

__all__ = ["RETRY_CYCLES", "AbortControl", "PortSync", "call_layout"]

RETRY_CYCLES = 1 << 13
"""Cycles after which a neighbour that has not answered is told again."""

NEXT, PREVIOUS = 0, 1  # sides


def call_layout() -> data.StructLayout:
    """A port's request to the NIC: abort (``valid``) and go on in ``epoch``."""
    return data.StructLayout(
        {"valid": 1, "epoch": EPOCH_BITS, "cause": AbortCause, "rank": 8}
    )


class PortSync(wiring.Component):
    """Tracks the epochs of a network port's neighbours.

    All NICs must abort whenever one does, also if several do so at once or again before all have
    heard, if a frame that tells of it is lost, and if one was reset by itself. Epochs are ordered.
    A NIC that moves to a later epoch tells both neighbours and waits to hear of that epoch from
    both; one that hears of a later epoch moves there. A frame of an earlier epoch

    - from a neighbour that is waited for was sent before it heard: it is told once more;
    - from another says that the neighbour was reset, and what it and its neighbours are working on
      will never be complete: the NIC aborts.

    It also aborts when a neighbour that it does not wait for has just come to its own epoch (that
    neighbour was reset, and its first epochs are those of others), and when it gets data or
    credits of a later epoch, for it has missed what came before.

    Members
    -------
    heard : ``In(Heard)``
        Frames of neighbours, of any epoch.
    epoch : ``In(32)``
        Present epoch, while flushing the one after it.
    rank : ``In(8)``
        This node's.
    flush : ``In(1)``
        The NIC is on its way to `epoch`: nobody is told, and only a later epoch makes a call.
    tell : ``In(1)``
        A new epoch has begun.
    call : ``Out(call_layout())``
        An abort that a neighbour's epoch makes necessary.
    due : ``Out(2)``
        High for one cycle: tell the next node, the previous one.
    waiting : ``Out(2)``
        Which of them has not been heard of in this epoch.
    """

    heard: Any
    epoch: Signal
    rank: Signal
    flush: Signal
    tell: Signal
    call: Any
    due: Signal
    waiting: Signal

    def __init__(self) -> None:
        super().__init__(
            {
                "heard": In(Heard),
                "epoch": In(EPOCH_BITS),
                "rank": In(8),
                "flush": In(1),
                "tell": In(1),
                "call": Out(call_layout()),
                "due": Out(2),
                "waiting": Out(2),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        heard = self.heard
        side = Mux(heard.back, 1 << NEXT, 1 << PREVIOUS)
        later = heard.valid & (heard.epoch > self.epoch)
        same = heard.valid & (heard.epoch == self.epoch)
        earlier = heard.valid & (heard.epoch < self.epoch)
        awaited = (self.waiting & side).any()
        # While flushing, what is lost is lost for all; afterwards both neighbours are told anyway.
        missed = later & ~heard.abort
        reset = (earlier | (same & heard.abort & heard.fresh)) & ~awaited
        follow = later & heard.abort
        m.d.comb += [
            self.call.valid.eq(follow | ((missed | reset) & ~self.flush)),
            self.call.epoch.eq(
                Mux(follow, heard.epoch, Mux(later, heard.epoch + 1, self.epoch + 1))
            ),
            self.call.cause.eq(Mux(follow, heard.cause, AbortCause.RESET)),
            self.call.rank.eq(Mux(follow, heard.rank, self.rank)),
        ]
        ticks = Signal(range(RETRY_CYCLES))
        again = self.waiting.any() & (ticks == RETRY_CYCLES - 1)
        answer = (same & heard.abort & heard.wanted) | (earlier & awaited)
        with m.If(self.flush):
            m.d.comb += self.due.eq(0)
            m.d.sync += self.waiting.eq(0b11)
        with m.Else():
            m.d.comb += self.due.eq(
                Mux(answer, side, 0)
                | Mux(again, self.waiting, 0)
                | Mux(self.tell, 0b11, 0)
            )
            with m.If(same):
                m.d.sync += self.waiting.eq(self.waiting & ~side)
        with m.If(self.waiting.any() & ~self.flush):
            m.d.sync += ticks.eq(ticks + 1)
        with m.Else():
            m.d.sync += ticks.eq(0)
        return m


class AbortControl(wiring.Component):
    """Gives up all that is queued, once for every epoch.

    An abort empties all queues, waits until the engines have nothing under way, and begins another
    epoch. Its causes are the host, what the NIC finds, and what its ports ask for (`PortSync`).

    Parameters
    ----------
    config : SmartNicConfig

    Members
    -------
    rank : ``In(8)``
        This node's.
    give_up, gap, overflow, disagreed, stalled : ``In(1)``
        Causes of an abort.
    call : ``In(call_layout()).array(engines)``
        Aborts that the ports ask for, begun a cycle later.
    busy : ``In(1)``
        An engine has something under way.
    epoch : ``Out(32)``
        Present epoch, while flushing the one after it.
    flush : ``Out(1)``
        Forget everything: high from an abort until `busy` is low.
    tell : ``Out(1)``
        High in the first cycle of an epoch.
    aborted : ``Out(1)``
        High for one cycle per abort, the first of `flush`.
    cause : ``Out(AbortCause)``, origin : ``Out(8)``
        Of the last abort, and the rank at which it began.
    """

    rank: Signal
    give_up: Signal
    gap: Signal
    overflow: Signal
    disagreed: Signal
    stalled: Signal
    call: Any
    busy: Signal
    epoch: Signal
    flush: Signal
    tell: Signal
    aborted: Signal
    cause: Any
    origin: Signal

    def __init__(self, config: SmartNicConfig) -> None:
        self._engines = config.engines
        causes = ("give_up", "gap", "overflow", "disagreed", "stalled")
        super().__init__(
            {
                "rank": In(8),
                **dict.fromkeys(causes, In(1)),
                "call": In(call_layout()).array(config.engines),
                "busy": In(1),
                "epoch": Out(EPOCH_BITS),
                "flush": Out(1),
                "tell": Out(1),
                "aborted": Out(1),
                "cause": Out(AbortCause),
                "origin": Out(8),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        called: Any = Signal(call_layout())
        # Of several ports that ask in one cycle the latest epoch counts.
        for number, port in enumerate(self.call):
            call: Any = Signal(call_layout(), name=f"call_{number}")
            m.d.sync += call.eq(port)
            latest: Any = Signal.like(called)
            later = call.valid & (~called.valid | (call.epoch > called.epoch))
            m.d.comb += latest.eq(Mux(later, call.as_value(), called.as_value()))
            called = latest
        own = [
            (self.give_up, AbortCause.SOFTWARE),
            (self.disagreed, AbortCause.DISAGREEMENT),
            (self.gap, AbortCause.GAP),
            (self.overflow, AbortCause.OVERFLOW),
            (self.stalled, AbortCause.WATCHDOG),
        ]
        begins = Signal()
        m.d.sync += [self.tell.eq(0), self.aborted.eq(begins)]
        with m.If(~self.flush):
            with m.If(Cat(event for event, _ in own).any()):
                m.d.comb += begins.eq(1)
                m.d.sync += [self.epoch.eq(self.epoch + 1), self.origin.eq(self.rank)]
            for event, cause in reversed(own):
                with m.If(event):
                    m.d.sync += self.cause.eq(cause)
        # What was started in the last cycle before the flush shows as busy in its first one.
        with m.Elif(~self.busy):
            m.d.sync += [self.flush.eq(0), self.tell.eq(1)]
        # A later epoch than one's own: it is the one that all will come to. Meanwhile this NIC may
        # have come to it, or to a later one.
        with m.If(called.valid & (called.epoch > self.epoch)):
            m.d.comb += begins.eq(~self.flush)
            m.d.sync += [
                self.epoch.eq(called.epoch),
                self.cause.eq(called.cause),
                self.origin.eq(called.rank),
            ]
        with m.If(begins):
            m.d.sync += self.flush.eq(1)
        return m

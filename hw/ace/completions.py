# SPDX-License-Identifier: Apache-2.0
"""Completion records: one for each command that is over, in a queue that software reads."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.registers import CAUSES, CommandError
from hw.common.records import RecordQueue
from hw.common.select import lowest

__all__ = ["CompletionQueue", "cause_layout", "ended_layout", "record_layout", "ticket_range"]


def ticket_range(c: AceConfig) -> range:
    """Numbers of outstanding commands; as many may wait as run."""
    return range(2 * c.commands)


def cause_layout() -> data.StructLayout:
    """Why the result of a collective is not valid, a bit for each reason; none if it is."""
    return data.StructLayout(dict.fromkeys(CAUSES, 1))


def ended_layout(c: AceConfig) -> data.StructLayout:
    """A command is over; ``error`` if it was refused."""
    return data.StructLayout(
        {"ticket": ticket_range(c), "causes": cause_layout(), "error": CommandError}
    )


def record_layout(c: AceConfig) -> data.StructLayout:
    """Layout of a completion record."""
    return data.StructLayout(
        {"collective": c.format.collective, "causes": cause_layout(), "error": CommandError}
    )


class CompletionQueue(wiring.Component):
    """Keeps the names of outstanding commands, and queues a record for each that is over.

    The queue, a `hw.common.records.RecordQueue`, has room for all commands that can be outstanding.

    Timing: a record is written, and ``written`` is high, 2 cycles after its command ended; those
    that end together are written in turn, one per cycle.

    Members
    -------
    take : ``In(1)``, collective : ``In(config.format.collective)``
        A command is accepted; not while ``full`` is high.
    ticket : ``Out(ticket_range(config))``, full : ``Out(1)``
        Its number; there is none.
    ended : ``In(stream.Signature(ended_layout(config), always_ready=True))``
        A command is over.
    give_up : ``In(1)``, because : ``In(cause_layout())``
        All outstanding commands are over.
    written : ``Out(stream.Signature(record_layout(config), always_ready=True))``
        A record is written.
    oldest : ``Out(record_layout(config))``, valid : ``Out(1)``, overrun : ``Out(1)``
        The record to be read; there is one; some before it were lost.
    pop : ``In(1)``
        It has been read.
    outstanding : ``Out(range(2 * commands + 1))``
        Commands whose record is not written yet.
    """

    take: Signal
    collective: Signal
    ticket: Signal
    full: Signal
    ended: stream.Interface
    give_up: Signal
    written: stream.Interface
    valid: Signal
    overrun: Signal
    pop: Signal
    outstanding: Signal

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        always = {"always_ready": True}
        super().__init__(
            {
                "take": In(1),
                "collective": In(c.format.collective),
                "ticket": Out(ticket_range(c)),
                "full": Out(1),
                "ended": In(stream.Signature(ended_layout(c), **always)),
                "give_up": In(1),
                "because": In(cause_layout()),
                "written": Out(stream.Signature(record_layout(c), **always)),
                "oldest": Out(record_layout(c)),
                "valid": Out(1),
                "overrun": Out(1),
                "pop": In(1),
                "outstanding": Out(range(2 * c.commands + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        tickets = ticket_range(c)
        m.submodules.records = records = RecordQueue(record_layout(c), len(tickets))
        busy = Signal(len(tickets))
        over = Signal(len(tickets))
        kept = [Signal(record_layout(c), name=f"record_{n}") for n in tickets]
        writes = Signal(len(tickets))  # the one that is written now, the lowest first
        m.d.comb += [
            self.full.eq(busy.all()),
            self.outstanding.eq(sum(busy[n] for n in tickets)),
        ]
        m.d.sync += writes.eq(lowest(over & ~writes))
        for n in reversed(tickets):
            with m.If(~busy[n]):
                m.d.comb += self.ticket.eq(n)
        for n in tickets:
            record = kept[n]
            with m.If(writes[n]):
                m.d.comb += [self.written.p.eq(record), self.written.valid.eq(1)]
                m.d.sync += [busy[n].eq(0), over[n].eq(0)]
            with m.If(self.take & (self.ticket == n)):
                m.d.sync += [busy[n].eq(1), record.eq(0), record.collective.eq(self.collective)]
            with m.If(self.give_up & busy[n] & ~over[n]):
                m.d.sync += [over[n].eq(1), record.causes.eq(self.because)]
            # What was over before it could be given up.
            with m.If(self.ended.valid & (self.ended.p.ticket == n)):
                m.d.sync += [
                    over[n].eq(1),
                    record.causes.eq(self.ended.p.causes),
                    record.error.eq(self.ended.p.error),
                ]
        m.d.comb += [
            records.i.valid.eq(self.written.valid),
            records.i.p.eq(self.written.p),
            records.pop.eq(self.pop),
            self.valid.eq(records.valid),
            self.oldest.eq(records.oldest),
            self.overrun.eq(records.overrun),
        ]
        return m

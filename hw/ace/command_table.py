# SPDX-License-Identifier: Apache-2.0
"""Collectives that are running, and when each is complete."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.completions import ended_layout, ticket_range
from hw.ace.config import AceConfig
from hw.ace.layouts import loaded_layout, stored_layout
from hw.common.count import stepped, stepped_to
from hw.common.select import lowest

__all__ = ["CommandTable"]


class CommandTable(wiring.Component):
    """Counts the chunks of each running collective that are not in memory yet.

    A collective is complete when all its chunks have been admitted and stored. Timing:
    ``completed`` follows the report of the last chunk by a cycle; collectives that end together
    complete in turn, the lowest entry first. Nothing stalls; ``start`` needs a free entry.

    Members
    -------
    full : ``Out(1)``, free : ``Out(range(commands))``
        All entries run; one that does not.
    entry : ``In(range(commands))``
        What the following four are about.
    start : ``In(1)``, ticket : ``In(ticket_range(config))``
        The entry runs this command.
    admitted : ``In(1)``
        One of its chunks has been admitted.
    last : ``In(1)``
        With ``admitted``: no more will be.
    loaded : ``In(stream.Signature(loaded_layout(config), always_ready=True))``
        A chunk has been read from memory.
    stored : ``In(stream.Signature(stored_layout(config), always_ready=True))``
        A chunk is in memory.
    completed : ``Out(stream.Signature(ended_layout(config), always_ready=True))``
        A collective is complete, with what was wrong with its chunks.
    """

    full: Signal
    free: Signal
    entry: Signal
    start: Signal
    ticket: Signal
    admitted: Signal
    last: Signal
    loaded: stream.Interface
    stored: stream.Interface
    completed: stream.Interface

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        entry = range(max(2, c.commands))
        super().__init__(
            {
                "full": Out(1),
                "free": Out(entry),
                "entry": In(entry),
                "start": In(1),
                "ticket": In(ticket_range(c)),
                "admitted": In(1),
                "last": In(1),
                "loaded": In(stream.Signature(loaded_layout(c), always_ready=True)),
                "stored": In(stream.Signature(stored_layout(c), always_ready=True)),
                "completed": Out(stream.Signature(ended_layout(c), always_ready=True)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        commands = self._config.commands
        running = Signal(commands)
        finished = Signal(commands)
        finished_first = lowest(finished)
        m.d.comb += self.full.eq(running.all())
        m.d.comb += self.completed.valid.eq(finished.any())
        for n in reversed(range(commands)):
            with m.If(~running[n]):
                m.d.comb += self.free.eq(n)
        for n in range(commands):
            admitting = Signal(name=f"admitting_{n}")
            chunks_left = Signal(self._config.format.chunk + 1, name=f"chunks_left_{n}")
            ticket = Signal.like(self.ticket, name=f"ticket_{n}")
            memory = Signal(name=f"memory_{n}")
            poisoned = Signal(name=f"poisoned_{n}")
            mine = self.entry == n
            up = self.admitted & mine
            down = self.stored.valid & (self.stored.p.command == n)
            none = Signal(name=f"none_left_{n}")
            m.d.comb += finished[n].eq(running[n] & ~admitting & none)
            failed = [report.valid & (report.p.command == n) & report.p.error
                      for report in (self.loaded, self.stored)]
            m.d.sync += [
                chunks_left.eq(stepped(chunks_left, up=up, down=down)),
                none.eq(stepped_to(chunks_left, 0, up=up, down=down)),
                memory.eq(memory | failed[0] | failed[1]),
                poisoned.eq(poisoned | (down & self.stored.p.poisoned)),
            ]
            with m.If(finished_first[n]):
                m.d.comb += [
                    self.completed.p.ticket.eq(ticket),
                    self.completed.p.causes.memory.eq(memory),
                    self.completed.p.causes.poisoned.eq(poisoned),
                ]
                m.d.sync += running[n].eq(0)
            with m.If(self.start & mine):
                m.d.sync += [
                    running[n].eq(1),
                    admitting.eq(1),
                    ticket.eq(self.ticket),
                    chunks_left.eq(0),
                    none.eq(1),
                    memory.eq(0),
                    poisoned.eq(0),
                ]
            with m.If(up & self.last):
                m.d.sync += admitting.eq(0)
        return m

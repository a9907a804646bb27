"""Collectives that are running, and when each is complete."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import stored_layout

__all__ = ["CommandTable"]


class CommandTable(wiring.Component):
    """Counts the chunks of each running collective that are not in memory yet.

    A collective is complete when all its chunks have been admitted and stored. Timing:
    ``completed`` follows the report of the last chunk by 2 cycles; collectives that end together
    complete in turn, the lowest entry first. Nothing stalls; ``start`` needs a free entry.

    Members
    -------
    full : ``Out(1)``, free : ``Out(range(commands))``
        All entries run; one that does not.
    entry : ``In(range(commands))``
        What the following four are about.
    start : ``In(1)``, collective : ``In(config.format.collective)``
        The entry runs this collective.
    admitted : ``In(1)``
        One of its chunks has been admitted.
    last : ``In(1)``
        With ``admitted``: no more will be.
    stored : ``In(stream.Signature(stored_layout(config), always_ready=True))``
        A chunk is in memory.
    completed : ``Out(1)``, completed_collective : ``Out(config.format.collective)``
        Pulse, and which.
    running : ``Out(range(commands + 1))``
        Entries that run.
    """

    full: Signal
    free: Signal
    entry: Signal
    start: Signal
    collective: Signal
    admitted: Signal
    last: Signal
    stored: stream.Interface
    completed: Signal
    completed_collective: Signal
    running: Signal

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        entry = range(max(2, c.commands))
        super().__init__(
            {
                "full": Out(1),
                "free": Out(entry),
                "entry": In(entry),
                "start": In(1),
                "collective": In(c.format.collective),
                "admitted": In(1),
                "last": In(1),
                "stored": In(stream.Signature(stored_layout(c), always_ready=True)),
                "completed": Out(1),
                "completed_collective": Out(c.format.collective),
                "running": Out(range(c.commands + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        commands = self._config.commands
        running = Signal(commands)
        finished = Signal(commands)
        finished_first = finished & -finished
        m.d.comb += [
            self.full.eq(running.all()),
            self.running.eq(sum(Cat(running[n]) for n in range(commands))),
        ]
        m.d.sync += self.completed.eq(finished.any())
        for n in reversed(range(commands)):
            with m.If(~running[n]):
                m.d.comb += self.free.eq(n)
        for n in range(commands):
            admitting = Signal(name=f"admitting_{n}")
            chunks_left = Signal(self._config.format.chunk + 1, name=f"chunks_left_{n}")
            collective = Signal.like(self.collective, name=f"collective_{n}")
            mine = self.entry == n
            up = self.admitted & mine
            down = self.stored.valid & (self.stored.p.command == n)
            m.d.comb += finished[n].eq(running[n] & ~admitting & (chunks_left == 0))
            m.d.sync += chunks_left.eq(chunks_left + up - down)
            with m.If(finished_first[n]):
                m.d.sync += [running[n].eq(0), self.completed_collective.eq(collective)]
            with m.If(self.start & mine):
                m.d.sync += [
                    running[n].eq(1),
                    admitting.eq(1),
                    collective.eq(self.collective),
                    chunks_left.eq(0),
                ]
            with m.If(up & self.last):
                m.d.sync += admitting.eq(0)
        return m

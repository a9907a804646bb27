# SPDX-License-Identifier: Apache-2.0
"""Send commands of all FSMs to the ports: the oldest chunk first."""

from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import AGE_BITS, send_command_layout
from hw.common.select import select

__all__ = ["CommandArbiter", "PortCommands"]


class _Candidate(NamedTuple):
    """The command that goes first, of some FSMs."""

    fsms: str  # their numbers
    asks: Value  # there is one
    ready: Value  # there is a READY, which goes first
    command: Any


class PortCommands(wiring.Component):
    """Gives one port the commands of all FSMs, see `CommandArbiter`.

    Members
    -------
    i : ``In(stream.Signature(send_command_layout(config), always_ready=True)).array(fsms)``
        Commands for this port, which come while there is room.
    room : ``Out(fsms)``
        There is room for a command of this FSM. A register.
    o : ``Out(stream.Signature(send_command_layout(config)))``
        A register.
    """

    i: Any
    room: Any
    o: Any

    def __init__(self, config: AceConfig) -> None:
        self._fsms = config.fsms
        self._command = command = send_command_layout(config)
        all_free = (1 << config.fsms) - 1
        room = Out(config.fsms, init=all_free)  # type: ignore[call-arg]  # missing in the stubs
        super().__init__(
            {
                "i": In(stream.Signature(command, always_ready=True)).array(config.fsms),
                "room": room,
                "o": Out(stream.Signature(command)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # `room` is a register, as it decides what an FSM does next.
        takes = Signal(self._fsms)
        candidates = []
        for f, each in enumerate(self.i):
            with m.If(takes[f]):
                m.d.sync += self.room[f].eq(1)
            with m.If(each.valid):
                m.d.sync += self.room[f].eq(0)
            # What is there while there is room is kept, a command or not: no enable of many bits
            # comes late.
            waiting = Signal.like(each.p, name=f"waiting_{f}")
            with m.If(self.room[f]):
                m.d.sync += waiting.eq(each.p)
            command = Signal.like(each.p, name=f"command_{f}")
            m.d.comb += [command.eq(waiting), command.fsm.eq(f)]
            asks = ~self.room[f]
            candidates.append(_Candidate(str(f), asks, asks & waiting.ready, command))
        while len(candidates) > 1:
            candidates = [
                self._first(m, candidates[k : k + 4]) for k in range(0, len(candidates), 4)
            ]
        first = candidates[0]
        # Not in the cycle in which a command is taken, which depends on SRAM and is known late.
        with m.If(~self.o.valid):
            m.d.sync += [self.o.valid.eq(first.asks), self.o.p.eq(first.command)]
            with m.If(first.asks):
                m.d.comb += takes.eq(1 << first.command.fsm)
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        return m

    def _first(self, m: Module, some: list[_Candidate]) -> _Candidate:
        """The one of *some*, four at most, that goes first: of each half one does, and so does one
        of these. All are compared at once, as no comparison is to wait for another."""
        if len(some) == 1:
            return some[0]
        middle = (len(some) + 1) // 2
        low, high = some[:middle], some[middle:]
        later_low, first_low = self._first_of_half(m, low)
        later_high, first_high = self._first_of_half(m, high)
        fsms = "".join(each.fsms for each in some)
        second = Signal(name=f"second_{fsms}")
        command = Signal(self._command, name=f"command_{fsms}")
        beats = [select(later_low, [self._goes_first(b, a) for a in low]) for b in high]
        m.d.comb += [
            second.eq(select(later_high, beats)),
            Value.cast(command).eq(Mux(second, first_high, first_low)),
        ]
        asks = reduce(or_, (each.asks for each in some))
        ready = reduce(or_, (each.ready for each in some))
        return _Candidate(fsms, asks, ready, command)

    def _first_of_half(self, m: Module, half: list[_Candidate]) -> tuple[Value, Value]:
        """Compare two, or take one: whether the later one goes first; the command that does."""
        fsms = "".join(each.fsms for each in half)
        later = Signal(name=f"later_{fsms}")
        if len(half) > 1:
            m.d.comb += later.eq(self._goes_first(half[1], half[0]))
        first = Signal(len(Value.cast(half[0].command)), name=f"first_{fsms}")
        m.d.comb += first.eq(select(later, [Value.cast(each.command) for each in half]))
        return later, first

    @staticmethod
    def _goes_first(b: _Candidate, a: _Candidate) -> Value:
        """High if *b* goes before *a*, whose FSMs have lower numbers; anything if none asks. All
        but ages is known early."""
        older = (b.command.age - a.command.age)[:AGE_BITS][-1]
        of_chunks = a.asks & b.asks & ~a.ready & ~b.ready
        return ~a.asks | (b.ready & ~a.ready) | (of_chunks & older)


class CommandArbiter(wiring.Component):
    """Gives each port the send commands that name it, one per cycle.

    For each FSM and port there is room for one command, so an FSM whose command waits for a port
    can serve the others. READY packets go first, then the packets of the chunk that was admitted
    first, which is the same one on all nodes. So chunks end one after the other, and fill the links
    of different phases. Of READY packets the FSM with the lower number goes first.

    Latency is 2 cycles. A port takes a command every other cycle at most; a command stalls while
    another one is taken, or while the port stalls.

    Ages wrap around, and are compared in pairs modulo their width. Should chunks be so far apart
    that this is no order, one of them goes first: no port waits while a command is there.

    Members
    -------
    i : ``In(send_command_layout(config)).array(fsms)``
        Commands; ``fsm`` is filled in here.
    to : ``In(ports).array(fsms)``
        The port with room that each is for, a bit; none while there is no command.
    room : ``Out(ports).array(fsms)``
        Ports that have room for a command of this FSM.
    o : ``Out(stream.Signature(send_command_layout(config))).array(ports)``
        Those of each port. A register.
    """

    i: Any
    to: Any
    room: Any
    o: Any

    def __init__(self, config: AceConfig) -> None:
        self._config = config
        command = send_command_layout(config)
        super().__init__(
            {
                "i": In(command).array(config.fsms),
                "to": In(config.targets).array(config.fsms),
                "room": Out(config.targets).array(config.fsms),
                "o": Out(stream.Signature(command)).array(config.targets),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for p, port in enumerate(self.o):
            m.submodules[f"port_{p}"] = of_port = PortCommands(self._config)
            for f, (each, its) in enumerate(zip(self.i, of_port.i, strict=True)):
                m.d.comb += [
                    its.p.eq(each),
                    its.valid.eq(self.to[f][p]),
                    self.room[f][p].eq(of_port.room[f]),
                ]
            wiring.connect(m, of_port.o, wiring.flipped(port))
        return m

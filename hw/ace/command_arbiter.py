# SPDX-License-Identifier: Apache-2.0
"""Send commands of all FSMs to the ports: the oldest chunk first."""

from typing import Any, NamedTuple

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import send_command_layout
from hw.common.select import select

__all__ = ["CommandArbiter", "PortCommands"]


class _Candidate(NamedTuple):
    """The command that goes first, of some FSMs: whether there is one, and what decides."""

    fsms: str  # their numbers
    asks: Value
    ready: Value
    age: Value
    fsm: Value


class PortCommands(wiring.Component):
    """Gives one port the commands of all FSMs, see `CommandArbiter`.

    Members
    -------
    number : ``In(range(targets))``
        Of the port.
    i : ``In(stream.Signature(send_command_layout(config), always_ready=True)).array(fsms)``
        Commands; those for this port come while there is room.
    room : ``Out(fsms)``
        There is room for a command of this FSM. A register.
    o : ``Out(stream.Signature(send_command_layout(config)))``
        A register.
    """

    number: Any
    i: Any
    room: Any
    o: Any

    def __init__(self, config: AceConfig) -> None:
        self._fsms = config.fsms
        command = send_command_layout(config)
        all_free = (1 << config.fsms) - 1
        room = Out(config.fsms, init=all_free)  # type: ignore[call-arg]  # missing in the stubs
        super().__init__(
            {
                "number": In(range(max(2, config.targets))),
                "i": In(stream.Signature(command, always_ready=True)).array(config.fsms),
                "room": room,
                "o": Out(stream.Signature(command)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # `room` is a register, as it decides what an FSM does next.
        asks = Signal(self._fsms)
        takes = Signal(self._fsms)
        waiting = [Signal.like(each.p, name=f"waiting_{f}") for f, each in enumerate(self.i)]
        for f, each in enumerate(self.i):
            with m.If(takes[f]):
                m.d.sync += self.room[f].eq(1)
            with m.If(each.valid & (each.p.port == self.number)):
                m.d.sync += self.room[f].eq(0)
            # What is there while there is room is kept, a command or not: no enable of many bits
            # comes late.
            with m.If(self.room[f]):
                m.d.sync += waiting[f].eq(each.p)
        first = Signal(range(max(2, self._fsms)))
        m.d.comb += asks.eq(~self.room)
        m.d.comb += first.eq(self._first(m, asks, waiting))
        # Not in the cycle in which a command is taken, which depends on SRAM and is known late.
        with m.If(~self.o.valid):
            m.d.sync += [
                self.o.valid.eq(asks.any()),
                Value.cast(self.o.p).eq(select(first, [Value.cast(each) for each in waiting])),
                self.o.p.fsm.eq(first),
            ]
            with m.If(asks.any()):
                m.d.comb += takes.bit_select(first, 1).eq(1)
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        return m

    def _first(self, m: Module, asks: Value, waiting: list[Any]) -> Value:
        """The FSM whose command of those *waiting* goes first, if any *asks*. Pairs are compared,
        then pairs of pairs."""
        level = [
            _Candidate(str(f), asks[f], each.ready, each.age, Const(f, range(self._fsms)))
            for f, each in enumerate(waiting)
        ]
        while len(level) > 1:
            pairs = list(zip(level[::2], level[1::2], strict=False))
            rest = level[2 * len(pairs) :]
            level = []
            for a, b in pairs:
                older = (b.age - a.age)[: len(a.age)][-1]
                second = Signal(name=f"second_{a.fsms}_{b.fsms}")
                m.d.comb += second.eq(
                    b.asks & (~a.asks | Mux(a.ready | b.ready, b.ready & ~a.ready, older))
                )
                level.append(
                    _Candidate(
                        f"{a.fsms}{b.fsms}", a.asks | b.asks,
                        *(Mux(second, y, x) for x, y in zip(a[2:], b[2:], strict=True)),
                    )
                )
            level += rest
        return level[0].fsm


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
    i : ``In(stream.Signature(send_command_layout(config), always_ready=True)).array(fsms)``
        Commands for ports that have room; ``fsm`` is filled in here.
    room : ``Out(ports).array(fsms)``
        Ports that have room for a command of this FSM.
    o : ``Out(stream.Signature(send_command_layout(config))).array(ports)``
        Those of each port. A register.
    """

    i: Any
    room: Any
    o: Any

    def __init__(self, config: AceConfig) -> None:
        self._config = config
        command = send_command_layout(config)
        super().__init__(
            {
                "i": In(stream.Signature(command, always_ready=True)).array(config.fsms),
                "room": Out(config.targets).array(config.fsms),
                "o": Out(stream.Signature(command)).array(config.targets),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for p, port in enumerate(self.o):
            m.submodules[f"port_{p}"] = of_port = PortCommands(self._config)
            m.d.comb += of_port.number.eq(p)
            for f, (each, its) in enumerate(zip(self.i, of_port.i, strict=True)):
                m.d.comb += [
                    its.p.eq(each.p),
                    its.valid.eq(each.valid),
                    self.room[f][p].eq(of_port.room[f]),
                ]
            wiring.connect(m, of_port.o, wiring.flipped(port))
        return m

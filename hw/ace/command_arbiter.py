"""Send commands of all FSMs to the ports: the oldest chunk first."""

from typing import Any, NamedTuple

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import send_command_layout
from hw.common.select import select

__all__ = ["CommandArbiter"]


class _Candidate(NamedTuple):
    """The command that goes first, of some FSMs: whether there is one, and what decides."""

    fsms: str  # their numbers
    asks: Value
    ready: Value
    age: Value
    fsm: Value


class CommandArbiter(wiring.Component):
    """Gives each port the send commands that name it, one per cycle.

    For each FSM and port there is room for one command, so an FSM whose command waits for a port
    can serve the others. READY packets go first, then the packets of the chunk that was admitted
    first, which is the same one on all nodes. So chunks end one after the other, and fill the links
    of different phases. Of READY packets the FSM with the lower number goes first.

    Latency is 2 cycles. A command stalls while another one is taken, or while the port stalls.

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
                "room": Out(config.ports).array(config.fsms),
                "o": Out(stream.Signature(command)).array(config.ports),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for p, port in enumerate(self.o):
            asks = Signal(self._config.fsms, name=f"asks_{p}")
            takes = Signal(self._config.fsms, name=f"takes_{p}")
            waiting = [
                Signal.like(each.p, name=f"waiting_{f}_{p}") for f, each in enumerate(self.i)
            ]
            for f, each in enumerate(self.i):
                m.d.comb += self.room[f][p].eq(~asks[f])
                with m.If(takes[f]):
                    m.d.sync += asks[f].eq(0)
                with m.If(each.valid & (each.p.port == p)):
                    m.d.sync += [waiting[f].eq(each.p), asks[f].eq(1)]
            first = Signal(range(max(2, self._config.fsms)), name=f"first_{p}")
            m.d.comb += first.eq(self._first(m, p, asks, waiting))
            with m.If(~port.valid | port.ready):
                m.d.sync += port.valid.eq(asks.any())
                with m.If(asks.any()):
                    m.d.comb += takes.bit_select(first, 1).eq(1)
                    m.d.sync += [
                        Value.cast(port.p).eq(
                            select(first, [Value.cast(each) for each in waiting])
                        ),
                        port.p.fsm.eq(first),
                    ]
        return m

    def _first(self, m: Module, p: int, asks: Value, waiting: list[Any]) -> Value:
        """The FSM whose command of those *waiting* for a port goes first, if any *asks*. Pairs are
        compared, then pairs of pairs."""
        level = [
            _Candidate(
                str(f), asks[f], each.ready, each.age, Const(f, range(self._config.fsms))
            )
            for f, each in enumerate(waiting)
        ]
        while len(level) > 1:
            pairs = list(zip(level[::2], level[1::2], strict=False))
            rest = level[2 * len(pairs) :]
            level = []
            for a, b in pairs:
                older = (b.age - a.age)[: len(a.age)][-1]
                second = Signal(name=f"second_{p}_{a.fsms}_{b.fsms}")
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

"""Send commands of all FSMs to the ports: the oldest chunk first."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import send_command_layout

__all__ = ["CommandArbiter"]


class CommandArbiter(wiring.Component):
    """Gives each port the send commands that name it, one per cycle.

    READY packets go first, then the packets of the chunk that was admitted first, which is the same
    one on all nodes. So chunks end one after the other, and fill the links of different phases. Of
    READY packets the FSM with the lower number goes first.

    Latency is 1 cycle. A command stalls while another one is taken, or while the port stalls.

    Ages wrap around, and are compared modulo their width. Should chunks be so far apart that this
    is no order, the FSM with the lowest number goes first: no port waits while a command is there.

    Members
    -------
    i : ``In(stream.Signature(send_command_layout(config))).array(fsms)``
        Commands; ``fsm`` is filled in here.
    o : ``Out(stream.Signature(send_command_layout(config))).array(ports)``
        Those of each port. A register.
    """

    i: Any
    o: Any

    def __init__(self, config: AceConfig) -> None:
        self._config = config
        command = send_command_layout(config)
        super().__init__(
            {
                "i": In(stream.Signature(command)).array(config.fsms),
                "o": Out(stream.Signature(command)).array(config.ports),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fsms = range(self._config.fsms)
        # Of each pair of FSMs, whether the first one goes first; the same for all ports.
        first = {}
        for f in fsms:
            for g in fsms[f + 1 :]:
                mine, other = self.i[f].p, self.i[g].p
                first[f, g] = Signal(name=f"first_{f}_{g}")
                younger = (mine.age - other.age)[: len(mine.age)][-1]
                older = (mine.age == other.age) | younger
                m.d.comb += first[f, g].eq(
                    Mux(mine.ready | other.ready, mine.ready, older)
                )
        for p, port in enumerate(self.o):
            asks, oldest, chosen = (
                Signal(len(fsms), name=f"{name}_{p}") for name in ("asks", "oldest", "chosen")
            )
            free = Signal(name=f"free_{p}")
            m.d.comb += [
                asks.eq(Cat(each.valid & (each.p.port == p) for each in self.i)),
                oldest.eq(
                    Cat(
                        asks[f] & ~Cat(
                            asks[g] & (first[g, f] if g < f else ~first[f, g])
                            for g in fsms if g != f
                        ).any()
                        for f in fsms
                    )
                ),
                chosen.eq(Mux(oldest.any(), oldest, asks & -asks)),
                free.eq(~port.valid | port.ready),
            ]
            with m.If(free):
                m.d.sync += port.valid.eq(asks.any())
                commands = (Value.cast(each.payload) for each in self.i)
                with m.If(asks.any()):
                    m.d.sync += Value.cast(port.payload).eq(
                        reduce(or_, (Mux(chosen[f], each, 0) for f, each in enumerate(commands)))
                    )
                    m.d.sync += port.p.fsm.eq(
                        reduce(or_, (Mux(chosen[f], f, 0) for f in fsms))
                    )
            for f, each in enumerate(self.i):
                with m.If(each.p.port == p):
                    m.d.comb += each.ready.eq(free & chosen[f])
        return m

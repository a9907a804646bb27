# SPDX-License-Identifier: Apache-2.0
"""The READY that an FSM sends next."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.common.arbiter import behind, in_turn
from hw.common.select import lowest, marked_apart

__all__ = ["ReadyTurns"]


class ReadyTurns(wiring.Component):
    """Chooses the READY that an FSM sends next: of all contexts in turn, the one for the lowest
    port with room.

    Latency is 0 cycles. Context and port are bits, not numbers, and this is a block of its own,
    mapped for nothing else: they decide in the same cycle which port gets a command.

    Members
    -------
    wanted : ``In(ports).array(contexts)``
        Ports on which each context has still to say READY.
    room : ``In(ports)``
        Ports that have room.
    context, port : ``Out(contexts)``, ``Out(ports)``
        One bit each, of the one that is next; none if there is none.
    left : ``Out(ports).array(contexts)``
        What each context wants when its READY, if it is the next one, has been sent.
    take : ``In(1)``
        It is sent, so the turn goes on.
    """

    wanted: Any
    room: Signal
    context: Signal
    port: Signal
    left: Any
    take: Signal

    def __init__(self, config: AceConfig) -> None:
        super().__init__(
            {
                "wanted": In(config.ports).array(config.contexts),
                "room": In(config.ports),
                "context": Out(config.contexts),
                "port": Out(config.ports),
                "left": Out(config.ports).array(config.contexts),
                "take": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        able = [wanted & self.room for wanted in self.wanted]
        requests = Signal(len(able))
        preferred = Signal(len(able))
        m.d.comb += [
            requests.eq(Cat(ports.any() for ports in able)),
            self.context.eq(in_turn(requests, preferred)),
            self.port.eq(marked_apart(m, "port_of", self.context, map(lowest, able))),
            *(
                left.eq(wanted & ~lowest(ports))
                for left, wanted, ports in zip(self.left, self.wanted, able)
            ),
        ]
        with m.If(self.take):
            m.d.sync += preferred.eq(behind(requests, preferred))
        return m

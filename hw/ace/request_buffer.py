# SPDX-License-Identifier: Apache-2.0
"""Registers in front of a port of the SRAM."""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.sram import bank_bits

__all__ = ["RequestBuffer", "request_layout"]


def request_layout(c: AceConfig, **fields: Any) -> data.StructLayout:
    """A request to SRAM for a row, with what belongs to it; without ``access`` it only keeps its
    place among the others."""
    return data.StructLayout({"access": 1, "row": range(c.sram_beats), **fields})


class RequestBuffer(wiring.Component):
    """Two requests to SRAM that wait for a grant, in order.

    SRAM decides late in the cycle, among requesters from afar, on what registers here ask for; only
    bits depend on it, and what was granted is told a cycle later.

    Latency is 1 cycle from a request to ``wants`` and, with a grant at once, 1 more to ``taken``;
    throughput is 1 request per cycle. ``i`` stalls once two requests are held.

    Parameters
    ----------
    config : AceConfig
    fields : Mapping of str to shape-like
        Of a request, besides ``access`` and ``row``.

    Members
    -------
    i : ``In(stream.Signature(request_layout(config, **fields)))``
        Requests.
    go : ``In(1)``
        The one in front may ask, or go on if it needs no access.
    wants : ``Out(banks)``
        One-hot: the bank that the one in front asks for; 0 if none does.
    grant : ``In(1)``
        It is granted.
    front : ``Out(request_layout(...))``
        The one in front; undefined while none is held.
    taken : ``Out(stream.Signature(request_layout(...), always_ready=True))``
        One that was granted in the cycle before, or went on.
    waits : ``Out(1)``
        One that needs access is held.
    empty : ``Out(1)``
        None is held.
    """

    i: stream.Interface
    go: Signal
    wants: Signal
    grant: Signal
    front: Any
    taken: stream.Interface
    waits: Signal
    empty: Signal

    def __init__(self, config: AceConfig, fields: Mapping[str, Any] | None = None) -> None:
        self._config = config
        self._layout = request_layout(config, **(fields or {}))
        super().__init__(
            {
                "i": In(stream.Signature(self._layout)),
                "go": In(1, init=1),  # type: ignore[call-arg]  # missing in the stubs
                "wants": Out(config.banks),
                "grant": In(1),
                "front": Out(self._layout),
                "taken": Out(stream.Signature(self._layout, always_ready=True)),
                "waits": Out(1),
                "empty": Out(1),
            }
        )

    def join(self, m: Module, port: Any) -> None:
        """Connect to a reader's or writer's *port* of the SRAM, but for data."""
        m.d.comb += [
            port.wants.eq(self.wants),
            port.row.eq(self.taken.p.row),
            self.grant.eq(port.grant),
        ]

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        slots = [Signal(self._layout, name=f"slot_{n}", reset_less=True) for n in range(2)]
        banks = [Signal(c.banks, name=f"banks_{n}", reset_less=True) for n in range(2)]
        held = Signal(2)
        some = Signal()
        free = Signal(init=1)
        head = Signal()  # which is in front
        tail = Signal()  # which is filled next
        push = Signal()
        pop = Signal()
        offered = self.i.p
        bank = bank_bits(offered.row, banks=c.banks, interleave=c.group_banks)
        for n, slot in enumerate(slots):
            # Whatever is offered is kept, needed or not: no enable of many bits comes late.
            with m.If(~held[n]):
                m.d.sync += [
                    slot.eq(offered),
                    banks[n].eq(
                        Cat(offered.access & (bank == each) for each in range(c.banks))
                    ),
                ]
        front: Any = Mux(head, slots[1].as_value(), slots[0].as_value())
        m.d.comb += [
            push.eq(self.i.valid & free),
            self.i.ready.eq(free),
            self.front.as_value().eq(front),
            self.wants.eq(Mux(some & self.go, Mux(head, *reversed(banks)), 0)),
            pop.eq(some & self.go & (~self.front.access | self.grant)),
            self.empty.eq(~some),
        ]
        m.d.sync += [
            head.eq(head ^ pop),
            tail.eq(tail ^ push),
            some.eq(push | ~free | (some & ~pop)),
            free.eq(~Mux(free, some & push & ~pop, ~pop)),
            Cat(held).eq(
                Cat(
                    (push & (tail == n)) | (held[n] & ~(pop & (head == n))) for n in range(2)
                )
            ),
            self.taken.valid.eq(pop),
            # A register, as it decides early in the cycle whether others ask.
            self.waits.eq(
                (push & offered.access)
                | Cat(
                    held[n] & slot.access & ~(pop & (head == n)) for n, slot in enumerate(slots)
                ).any()
            ),
        ]
        before = Signal()
        m.d.sync += before.eq(head)
        m.d.comb += self.taken.p.as_value().eq(
            Mux(before, slots[1].as_value(), slots[0].as_value())
        )
        return m

# SPDX-License-Identifier: Apache-2.0
"""Columns of the crossbar: the flits of the sender whose packet an output takes."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int
from hw.common.select import index_of, select, select_in_parts
from hw.link.packet import FLIT_BITS
from hw.switch.layouts import LINK_FLIT
from hw.switch.output_port import to_wire
from hw.switch.packet import HEADER

__all__ = ["PortColumns"]

_SELECTED_BITS = 4
_SELECTED = 1 << _SELECTED_BITS
"""Senders among which one is selected before a register: a LUT of six inputs takes four, so these
are five LUTs a bit. The registers of two such groups are joined behind them, in another."""


class PortColumns(wiring.Component):
    """The columns of a port: flits cross to its link, and to its reduction unit.

    What links bring crosses to both by one column, of which the link and the unit are each an
    `OutputPort` that takes a packet when the other does not. What has inputs of its own, with
    speed-up 2, crosses to the link by a second one. Latency is two cycles from a flit to ``tx``,
    one to `data`.

    Parameters
    ----------
    ports : int
        Inputs of the first column, for either.
    others : int
        Inputs of the second column, for the link alone; 0 without it.

    Members
    -------
    link_grant : ``In(ports + others)``, unit_grant : ``In(ports)``
        Whose packet is taken.
    second : ``In(1)``
        The flit that comes for the link, if one does, comes by the second column.
    flits : ``In(FLIT_BITS).array(ports + others)``
        What the inputs send.
    valid, first : ``In(1)``
        A flit leaves the columns for the link, a header.
    recounts : ``In(1)``, header : ``In(HEADER)``
        Said to the neighbour while no flit leaves, see `Recount`.
    tx : ``Out(stream.Signature(LINK_FLIT, always_ready=True))``
        Flits to the link.
    data : ``Out(FLIT_BITS)``
        Of the unit's flit.
    """

    link_grant: Signal
    unit_grant: Signal
    second: Signal
    flits: Any
    valid: Signal
    first: Signal
    recounts: Signal
    header: Any
    tx: stream.Interface
    data: Signal

    def __init__(self, *, ports: int, others: int) -> None:
        self._ports = require_int("PortColumns ports", ports)
        self._others = require_int("PortColumns others", others, minimum=0)
        super().__init__(
            {
                "link_grant": In(ports + others),
                "unit_grant": In(ports),
                "second": In(1),
                "flits": In(FLIT_BITS).array(ports + others),
                **dict.fromkeys(("valid", "first", "recounts"), In(1)),
                "header": In(HEADER),
                "tx": Out(stream.Signature(LINK_FLIT, always_ready=True)),
                "data": Out(FLIT_BITS),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        n = self._ports
        flits = [self.flits[k] for k in range(n + self._others)]
        both = self._column(m, "both", self.link_grant[:n] | self.unit_grant, flits[:n])
        bits = both
        if self._others:
            own = self._column(m, "own", self.link_grant[n:], flits[n:])
            came = Signal()  # by the second column
            m.d.sync += came.eq(self.second)
            bits = Mux(came, own, both)
        m.d.comb += self.data.eq(both)
        to_wire(m, bits, valid=self.valid, first=self.first, recounts=self.recounts,
                header=self.header, tx=self.tx)
        return m

    @staticmethod
    def _column(m: Module, name: str, granted: Value, flits: Sequence[Value]) -> Value:
        """A cycle later, what the sender sends whose packet was *granted*, a bit for each; whatever
        it sends when no flit comes."""
        # From whom: a number, since that selects with fewer LUTs than a bit for each.
        giver = Signal(range(max(2, len(flits))), name=f"{name}_giver")
        giver_now = Signal.like(giver, name=f"{name}_giver_now")
        given = Signal.like(granted, name=f"{name}_given")
        m.d.sync += [given.eq(granted), giver_now.eq(giver)]
        with m.If(given.any()):
            m.d.sync += giver.eq(index_of(given))
        parts = []
        for first in range(0, len(flits), _SELECTED):
            heard = Signal(FLIT_BITS, name=f"{name}_heard_{first}", reset_less=True)
            m.d.sync += heard.eq(
                select_in_parts(
                    m, f"{name}_{first}", giver_now[:_SELECTED_BITS],
                    flits[first : first + _SELECTED],
                )
            )
            parts.append(heard)
        if len(parts) == 1:
            return parts[0]
        part = Signal(range(len(parts)), name=f"{name}_part")
        m.d.sync += part.eq(giver_now[_SELECTED_BITS:])
        return select(part, parts)

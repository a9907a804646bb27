# SPDX-License-Identifier: Apache-2.0
"""Switches and endpoints in RTL among their cycle models: packets and credits.

Models know which operands are in a packet, but not their words. These follow from the operands and
the order in which switches and endpoints have added them, which RTL shows at its trace ports and
models note, in one log for both (`sim.rtl.switch.sums`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.switch.packet import Kind, encode
from sim.cycles.switch.hosts import Assembly, SwitchHosts
from sim.cycles.switch.model import SwitchModel
from sim.cycles.switch.notes import CREDIT, MERGE, PACKET
from sim.cycles.switch.words import (
    LOAD,
    PARTIAL,
    PUSH,
    RESPONSE,
    RESULT,
    SUBTOTAL,
    count_of,
    header,
    home_of,
    kind_of,
    number_of,
)
from sim.fields import FieldError
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.rtl.exchange import ExchangePort, MixedExchange, PayloadError, Vectors
from sim.rtl.switch.fabric import SwitchFabric
from sim.rtl.switch.orders import Added, Part, note_home, note_table
from sim.rtl.switch.sums import REGION, Sums, planes_of
from sim.rtl.switch.wire import Crossing, Packet, PacketEnd, crossings

__all__ = ["SwitchExchange"]

# The model does everything a cycle later than RTL, so paths from it to the wire are a cycle shorter
# than those in hardware, and paths from the wire to it a cycle longer.
_LATE = 1
_HEADER = 5 - _LATE  # from the grant of a packet to its header on the wire
_CREDIT = 3 - _LATE  # from the cycle in which a packet has left a buffer to the credit on the wire
_USED = 2 + _LATE  # from the arrival of a credit to the cycle in which it can be used
_BITS = 64  # in a word
_WORD = (1 << _BITS) - 1


class _Contents:
    """Contents of packets between RTL and models.

    Parameters
    ----------
    config : Assembly
    sums : Sums
    first : int
        Number of the first switch among the parts.
    """

    def __init__(self, config: Assembly, sums: Sums, first: int) -> None:
        self._sums, self._first = sums, first
        self._dma, self._members = config.system.dma, len(config.fabric.places)
        self._everyone = (1 << self._members) - 1
        # By plane, block and operands, the source that headers name for an incomplete sum.
        self._sources: dict[tuple[int, int, int], int] = {}
        # By link and block, number of the table's operands that have passed.
        self._gone: dict[tuple[Crossing, int], int] = {}

    def address(self, number: int) -> int:
        """Address of a block in the region."""
        return self._sums.address(number)

    def source(self, plane: int, number: int, operands: int) -> int:
        """Source that headers name for a sum of *operands*, a set."""
        if operands & operands - 1 == 0:
            return operands.bit_length() - 1
        return self._sources[plane, number, operands]

    def merged(self, plane: int, number: int, before: int, added: int) -> Part:
        """Add an operand, or a sum of several, to a sum; return it as a log has it."""
        source = self.source(plane, number, added)
        first = self.source(plane, number, before) if before else source
        self._sources[plane, number, before | added] = first
        return source, added.bit_count()

    def incoming(self, crossing: Crossing, plane: int, packet: Packet) -> tuple[int, int]:
        """The model's header for a packet from RTL, and the set of operands in it.

        Raises
        ------
        PayloadError
            If its data are not their sum.
        """
        fields = packet.header
        kind = fields["kind"]
        number = fields["address"] // self._dma.payload_flits
        count, home = fields["count"], fields["destination"]
        found, words = 0, None
        if kind == LOAD:
            home = fields["source"]
        elif kind == PUSH:
            found = 1 << fields["source"]
            words = self._sums.operands(plane, number)[2][fields["source"]]
        elif kind == RESULT:
            found, words = self._everyone, self._sums.whole(plane, number)
        elif kind in (PARTIAL, SUBTOTAL):
            at = self._gone.get((crossing, number), 0)
            self._gone[crossing, number] = at + count
            endpoints = self._sums.order(plane, number)[at : at + count]
            found = sum(1 << each for each in endpoints)
            words = self._sums.partial(plane, number, endpoints)
            self._sources[plane, number, found] = fields["source"]
        else:
            part = fields["source"], count
            words, endpoints = self._sums.answer(
                plane, number, home, part, self._beyond(crossing.peer)
            )
            found = sum(1 << each for each in endpoints)
            self._sources[plane, number, found] = fields["source"]
        if words is not None and words.tobytes() != packet.payload:
            raise PayloadError(
                f"{self._name(crossing.part)} sent a packet of block {number} of link {plane} "
                f"({Kind(kind).name.lower()}, {count} operands) whose data are not the sum of its "
                "operands"
            )
        return header(kind, REGION, home, count, number), found

    def outgoing(
        self, crossing: Crossing, plane: int, word: int, operands: int
    ) -> tuple[int, bytes]:
        """The header flit and the data for a packet from a model."""
        kind, number, home = kind_of(word), number_of(word), home_of(word)
        op = self._sums.operands(plane, number)[0]
        words, source = None, home
        if kind == PUSH:
            source = self.source(plane, number, operands)
            words = self._sums.operands(plane, number)[2][source]
        elif kind == RESULT:
            words = self._sums.whole(plane, number)
        elif kind in (PARTIAL, SUBTOTAL):
            chosen = [each for each in range(self._members) if operands >> each & 1]
            words = self._sums.partial(plane, number, chosen)
        elif kind == RESPONSE:
            source = self.source(plane, number, operands)
            part = source, operands.bit_count()
            words, _ = self._sums.answer(plane, number, home, part, self._beyond(crossing.part))
        flit = encode({
            "kind": kind, "op": op.value, "region": REGION, "address": self._sums.address(number),
            "source": source, "destination": 0 if kind == LOAD else home, "count": count_of(word),
        })
        return flit, b"" if words is None else words.tobytes()

    def _beyond(self, part: int) -> int | None:
        """The switch that gets a packet, None if an endpoint does."""
        return part - self._first if part >= self._first else None

    def _name(self, part: int) -> str:
        return f"endpoint {part}" if part < self._first else f"switch {part - self._first}"


class _SwitchPort(ExchangePort):
    """A port of a switch or endpoint; the other end is that of a model.

    Parameters
    ----------
    crossing : Crossing
    plane : int
    ours, theirs : int
        Numbers of the outputs of this port and of the other end, as the model has them.
    contents : _Contents
    model : SwitchModel
    latency : int
        Latency of the link, in cycles.
    """

    def __init__(
        self, crossing: Crossing, plane: int, *, ours: int, theirs: int, contents: _Contents,
        model: SwitchModel, latency: int,
    ) -> None:
        super().__init__(crossing.node, crossing.port, away=latency, back=latency)
        self._crossing, self._plane = crossing, plane
        self.ours, self.theirs = ours, theirs
        self._contents, self._model, self._latency = contents, model, latency
        self._end = PacketEnd(model.dma.payload_flits)

    def outward(self, tokens: NDArray[np.void]) -> int:
        packets, credits = self._end.read(tokens)
        notes, compared = [], 0
        for packet in packets:
            word, operands = self._contents.incoming(self._crossing, self._plane, packet)
            compared += operands != 0
            sent = packet.cycle - self._latency - _HEADER
            notes.append((PACKET, self.ours, sent, word, *words_of(operands)))
        for cycle, traffic in credits:
            notes.append((CREDIT, self.theirs, cycle + _USED, traffic, 0, 0))
        self._model.put_notes(notes)
        return compared

    def packet(self, cycle: int, word: int, operands: int) -> None:
        """Send a packet of the model with a set of operands."""
        flit, payload = self._contents.outgoing(self._crossing, self._plane, word, operands)
        self._end.send(cycle + _HEADER + self._latency, flit, payload)

    def credit(self, cycle: int, traffic: int) -> None:
        """Send a credit, since a buffer of the model has room."""
        self._end.credit(cycle + _CREDIT + self._latency, traffic)

    def inward(self, before: int) -> NDArray[np.void]:
        # Another credit of a later cycle may still come.
        return self._end.tokens(before + self._latency, credits_before=before + _CREDIT + 1)


class SwitchExchange(MixedExchange):
    """Switches and their endpoints of which some are RTL. Every packet of these that goes to a
    model is compared; models send the sums of operands in the order in which they were added."""

    driver = SwitchFabric
    model_kind = SwitchHosts
    cluster: SwitchFabric
    model: SwitchHosts

    def ports(
        self, config: Any, ring: Surroundings, commands: Sequence[Command], inputs: Vectors
    ) -> list[ExchangePort]:
        fabric, model = config.fabric, self.model.model
        sums = Sums(config, commands, inputs, self.cluster.log)
        most = 1 << config.system.dma.number_bits
        if sums.most_blocks > most:
            raise FieldError(
                "commands",
                f"must have at most {most} blocks on a link among RTL and models, which "
                f"addresses count, not {sums.most_blocks}"
            )
        self._contents = _Contents(config, sums, ring.nodes)
        self._plane_of = planes_of(fabric.places, fabric.cables)
        self._crossed: list[tuple[int, ...]] = []

        def output(part: int, port: int) -> int:
            if part < ring.nodes:
                return model.output_of_lane(part, port)
            return model.output_of_switch(part - ring.nodes, port)

        ports = [
            _SwitchPort(
                each,
                self._plane_of[max(each.part, each.peer) - ring.nodes],
                ours=output(each.part, each.port),
                theirs=output(each.peer, each.peer_port),
                contents=self._contents,
                model=model,
                latency=ring.latency_cycles,
            )
            for each in crossings(fabric, list(self.nodes))
        ]
        self._takers = {each.theirs: each for each in ports}
        self._senders = {each.ours: each for each in ports}
        return [*ports]

    def _trade(self, begin: int, end: int) -> None:
        self._note()
        super()._trade(begin, end)

    def _note(self) -> None:
        """Log the additions of either side in this window; sums may have crossed in packets."""
        self.cluster.note_orders()
        model, log = self.model.model, self.cluster.log
        units, ports, links = len(model.state.unit), model.switch.ports, model.dma.links
        for row in model.take_notes().tolist():
            what, where, _, word, low, high, low_before, high_before = row
            if what != MERGE:
                self._crossed.append(row)
                continue
            number, switch = number_of(word), where // ports
            plane = self._plane_of[switch] if where < units else (where - units) % links
            source, count = self._contents.merged(
                plane, number, set_of(low_before, high_before), set_of(low, high)
            )
            added = Added(
                pull=kind_of(word) == RESPONSE, region=REGION,
                address=self._contents.address(number), destination=home_of(word), tag=0,
                source=source, count=count,
            )
            if where < units:
                note_table(log, switch, plane, added)
            else:
                note_home(log, (where - units) // links, plane, REGION, added)

    def sort(self) -> None:
        for what, where, cycle, word, low, high, _, _ in self._crossed:
            if what == PACKET:
                self._takers[where].packet(cycle, word, set_of(low, high))
            else:
                self._senders[where].credit(cycle, word)
        self._crossed = []


def set_of(low: int, high: int) -> int:
    """A set of operands of two words that may be signed."""
    return (high & _WORD) << _BITS | low & _WORD


def words_of(operands: int) -> tuple[int, int]:
    """The reverse of `set_of`."""
    low, high = operands & _WORD, operands >> _BITS
    return low - (low >> _BITS - 1 << _BITS), high - (high >> _BITS - 1 << _BITS)

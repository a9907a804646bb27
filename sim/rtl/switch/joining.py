# SPDX-License-Identifier: Apache-2.0
"""Announces the modelled members of a region to the RTL endpoints that join it.

An endpoint sends nothing before it has heard from all others, on each of its links. Models send no
notices, so theirs, and those of RTL members that models would pass on, are sent here, on the links
between the two: each says at once that its member is there, and has heard from all. An endpoint
hears nobody before its switch has answered, so these notices wait for the first ones of members in
RTL. Nor do models recount credits, as an endpoint requests when it joins; this is done here, too.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.switch.packet import CLASSES, AbortCause, Kind, encode, notice_fields
from hw.switch.recount import GUARD_CYCLES
from sim.cycles.switch.hosts import Assembly
from sim.hosts.surroundings import Surroundings
from sim.rtl.harness.system import System
from sim.rtl.switch.sums import REGION
from sim.rtl.switch.wire import Crossing, PacketEnd, crossings

__all__ = ["join"]

_HOPS, _HOP_CYCLES = 4, 64  # without tokens for so long, and for a recount of credits, no more will
# come
_AHEAD = 32  # cycles by which an answer is ahead of the credits that count


class _Door(PacketEnd):
    """A link on which notices come and go.

    Parameters
    ----------
    crossing : Crossing
    coming : sequence of int
        Members whose notices this link carries to RTL.
    listening : collection of int
        Members in RTL whose first notices come on this link.
    payload_flits : int
    credits : int
        Credits of each class that RTL at the other end of the link has.
    """

    def __init__(
        self, crossing: Crossing, coming: Sequence[int], listening: Collection[int],
        payload_flits: int, credits: int,
    ) -> None:
        super().__init__(payload_flits)
        self.crossing = crossing
        self._coming, self._listening = list(coming), set(listening)
        self._whole = credits
        self._owed = False  # a credit for the last notice
        self._sent = self._last = 0  # cycles of the last flit and the last credit

    @property
    def done(self) -> bool:
        return not (self._coming or self._owed)

    def trade(self, tokens: NDArray[np.void], arrives: int) -> bool:
        """Take arrived tokens; the next notice is to arrive in a cycle. True if any have come."""
        packets, credits = self.read(tokens)
        for packet in packets:
            kind = packet.header["kind"]
            source = packet.header["source"]
            if kind == Kind.SYNC.value and packet.header["count"] & 1:  # it has joined
                self._tell(arrives, source, settled=0)
            elif kind == Kind.SYNC.value:
                self._listening.discard(source)
            if kind & 3 < CLASSES:
                self._last = max(arrives, self._last + 1)
                self.credit(self._last, kind & 3)
            elif kind == Kind.COUNT.value:
                self._say(arrives, {"kind": Kind.COUNTED, "tag": packet.header["tag"]})
                self._last = max(self._sent + _AHEAD, self._last)
                for _ in range(self._whole):
                    self._last += 1
                    for number in range(CLASSES):
                        self.credit(self._last, number)
        if credits:
            self._owed = False
        if self._coming and not self._listening and not self._owed:
            self._tell(arrives, self._coming.pop(), settled=1)
            self._owed = True
        return len(tokens) > 0

    def _tell(self, arrives: int, source: int, *, settled: int) -> None:
        told = {"epoch": 0, "cause": AbortCause.NONE, "origin": 0, "fresh": 0, "settled": settled}
        self._say(arrives, {
            "kind": Kind.SYNC, "region": REGION, "source": source, **notice_fields(told),
        })

    def _say(self, arrives: int, fields: Mapping[str, Any]) -> None:
        """Queue a header that arrives then, or as soon as those before it have."""
        self._sent = max(arrives, self._sent + 1)
        self.send(self._sent, encode(fields), b"")


def join(
    system: System, parts: Sequence[int], config: Assembly, settings: Surroundings, *, limit: int
) -> None:
    """Run until all members of *parts* know all others, and nothing is in flight.

    Raises
    ------
    RuntimeError
        If that takes more than *limit* cycles.
    """
    doors = list(_doors(config, parts))
    latency, begin = settings.latency_cycles, system.cycle
    moved_at = begin
    quiet = _HOPS * (latency + _HOP_CYCLES) + GUARD_CYCLES
    while (now := system.cycle) - moved_at < quiet:
        if now - begin > limit:
            raise RuntimeError(f"members have not heard from all others after {limit} cycles")
        end = now + system.window_cycles
        system.advance(end)
        for door in doors:
            node, port = door.crossing.node, door.crossing.port
            tokens = system.arrivals(node, port, now + latency, end + latency)
            if door.trade(tokens, end + latency) or not door.done:
                moved_at = end
            tokens = door.tokens(end + 2 * latency, credits_before=end + 2 * latency)
            if len(tokens):
                system.deliver(node, port, tokens)


def _doors(config: Assembly, parts: Sequence[int]) -> Iterator[_Door]:
    fabric, members = config.fabric, len(config.fabric.places)
    reached, dma = fabric.reached(), config.system.dma
    built = {part for part in parts if part < members}
    for each in crossings(fabric, parts):
        if each.part < members:
            coming: Sequence[int] = [rank for rank in range(members) if rank != each.part]
            credits = dma.credits
        else:
            coming = reached(REGION, (each.part - members, each.port))
            credits = config.system.switch.credits
        listening = {each.part} if each.part < members else built - set(coming)
        yield _Door(each, coming, listening, dma.payload_flits, credits)

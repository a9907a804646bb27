"""Endpoints in RTL join a region of which other members are models: these say that they are there.

An endpoint sends nothing before it has heard from all others. Models have nothing to say, so their
notices, and those of RTL members that models would pass on, are sent where they come from.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hw.link.packet import FLIT_BYTES
from hw.switch.packet import Kind, encode
from sim.cycles.ring import RingSettings
from sim.cycles.switch.hosts import Assembly
from sim.rtl.switch_sums import REGION, planes_of
from sim.rtl.switch_wire import Crossing, PacketEnd, crossings
from sim.rtl.system import System

__all__ = ["join"]

_PLANE = 0  # in which notices go
_HOPS, _HOP_CYCLES = 4, 64  # when nothing has come for so long, nothing will


class _Door(PacketEnd):
    """A link by which notices come and go.

    Parameters
    ----------
    crossing : Crossing
    coming : sequence of int
        Members that are heard by this link.
    payload_flits : int
    """

    def __init__(self, crossing: Crossing, coming: Sequence[int], payload_flits: int) -> None:
        super().__init__(payload_flits)
        self.crossing = crossing
        self._coming = list(coming)
        self._empty = bytes(payload_flits * FLIT_BYTES)
        self._owed = False  # a credit for the last notice
        self._last = 0

    @property
    def done(self) -> bool:
        return not (self._coming or self._owed)

    def trade(self, tokens: NDArray[np.void], arrives: int) -> bool:
        """Take what has come; the next notice arrives in a cycle. Whether anything has come."""
        packets, credits = self.read(tokens)
        for packet in packets:
            self._last = max(arrives, self._last + 1)
            self.credit(self._last, packet.header["kind"] & 3)
        if credits:
            self._owed = False
        if self._coming and not self._owed:
            source = self._coming.pop()
            header = encode({
                "kind": Kind.RESULT, "region": REGION, "source": source, "destination": source,
                "poison": 1,
            })
            self.send(arrives, header, self._empty)
            self._owed = True
        return len(tokens) > 0


def join(
    system: System, parts: Sequence[int], config: Assembly, settings: RingSettings, *, limit: int
) -> None:
    """Run until all members of *parts* know all others, and nothing is under way.

    Raises
    ------
    RuntimeError
        If that takes more than *limit* cycles.
    """
    doors = list(_doors(config, parts))
    latency, begin = settings.latency_cycles, system.cycle
    moved_at = begin
    while (now := system.cycle) - moved_at < _HOPS * (latency + _HOP_CYCLES):
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
    reached, plane_of = fabric.reached(), planes_of(fabric.places, fabric.cables)
    for each in crossings(fabric, parts):
        if plane_of[max(each.part, each.peer) - members] != _PLANE:
            continue
        if each.part < members:
            coming: Sequence[int] = [rank for rank in range(members) if rank != each.part]
        else:
            coming = reached(REGION, (each.part - members, each.port))
        yield _Door(each, coming, config.system.dma.payload_flits)

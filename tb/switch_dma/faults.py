"""Faults on a link without retry: packets are damaged, lost, or added."""

import random
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Self, TypeAlias

from hw.link.packet import FLIT_BITS
from hw.switch.packet import CLASSES, Kind, decode, encode
from sim.rtl.switch.orders import Spot
from tb.switch_dma.system import DmaSystem, Wire

__all__ = ["Doubled", "Tap", "bad_packets"]

_HEAD = 1 << FLIT_BITS
_QUIET_CYCLES = 40
_Beat: TypeAlias = tuple[int | None, int]  # a flit, and credits

Bad: TypeAlias = tuple[list[int], int | None]
"""Flits of a packet to drop, and its class or None."""


class _Half:
    """One direction of a link, as the system sees it."""

    def __init__(self, wire: Wire, change: Callable[[int | None, int], _Beat]) -> None:
        self.wire, self.change = wire, change

    def put(self, flit: int | None, credits: int) -> None:
        self.wire.put(*self.change(flit, credits))

    def take(self) -> _Beat:
        return self.wire.take()


class Doubled(NamedTuple):
    """A fault: this flit of the next packet with data, counted from its header, is sent twice."""

    flit: int


class Tap:
    """Injects faults into one direction of a link of a `DmaSystem`.

    An added packet uses a credit of the sender: a returning credit is withheld from it or, when
    nothing moves and the sender has all credits, the one that returns for the added packet, before
    which nothing else is sent. So there is room for all packets at the other end.

    Parameters
    ----------
    payload_flits : int
    flits, credits : (dict, key)
        Places in the system of the wires of this direction and of the other one.
    """

    def __init__(
        self, payload_flits: int, flits: tuple[dict[Spot, Wire], Spot],
        credits: tuple[dict[Spot, Wire], Spot],
    ) -> None:
        self._payload_flits = payload_flits
        for (wires, end), change in ((flits, self._flit), (credits, self._credit)):
            wires[end] = _Half(wires[end], change)
        self.added: list[Bad] = []  # that wait for their turn
        # Faults of the next packets: None to lose it, `Doubled`, or bits to invert in the header.
        self.hits: deque[int | Doubled | None] = deque()
        self.met = 0  # faults so far
        self._queue: deque[int | None] = deque()  # None: wait for a credit
        self._left, self._loses, self._quiet = 0, False, 0
        self._doubles: int | None = None  # number of flits left after the one to send twice
        self._out = [0] * CLASSES  # credits that the sender lacks
        self._stolen = [0] * CLASSES
        self._swallow = [0] * CLASSES

    @classmethod
    def to_node(cls, system: DmaSystem, end: Spot) -> Self:
        """Tap the direction from the switch at *end* to its endpoint."""
        return cls(system.dma.payload_flits, (system.to_node, end), (system.to_switch, end))

    @classmethod
    def to_switch(cls, system: DmaSystem, end: Spot) -> Self:
        """Tap the direction to the switch at *end*, from an endpoint or another switch."""
        other = system.peer.get(end)
        back = (system.to_node, end) if other is None else (system.to_switch, other)
        return cls(system.dma.payload_flits, (system.to_switch, end), back)

    def _flit(self, flit: int | None, credits: int) -> _Beat:
        if flit is not None:
            self._quiet = 0
            self._take(flit)
        else:
            self._quiet += 1
        if self._left == 0:
            self._add()
        if self._queue and self._queue[0] is None and not any(self._swallow):
            self._queue.popleft()
        if not self._queue or self._queue[0] is None:
            return None, credits
        return self._queue.popleft(), credits

    def _take(self, flit: int) -> None:
        if flit & _HEAD:
            self._add()  # before this one
            header = decode(flit & _HEAD - 1)
            assert header is not None, "a sound packet has a sound header"
            if header["kind"] & 3 < CLASSES:
                self._out[header["kind"] & 3] += 1
            self._left = 1 + self._payload_flits * (header["kind"] >> 2 & 1)
            self._loses, self._doubles = False, None
            if self.hits and not (isinstance(self.hits[0], Doubled) and self._left == 1):
                hit = self.hits.popleft()
                self.met += 1
                self._loses = hit is None
                if isinstance(hit, Doubled):
                    self._doubles = self._left - 1 - hit.flit
                else:
                    flit ^= hit or 0
        self._left -= 1
        if not self._loses:
            self._queue.extend([flit] * (2 if self._left == self._doubles else 1))

    def _add(self) -> None:
        for packet in list(self.added):
            flits, traffic = packet
            waits: list[int | None] = []
            if traffic is not None and self._stolen[traffic]:
                self._stolen[traffic] -= 1
            elif traffic is not None:
                if self._quiet < _QUIET_CYCLES or any(self._out) or self._queue:
                    continue
                self._swallow[traffic] += 1
                waits = [None]
            self.added.remove(packet)
            self._queue.extend([*flits, *waits])
            self.met += 1

    def _credit(self, flit: int | None, credits: int) -> _Beat:
        for k in range(CLASSES):
            if not credits >> k & 1:
                continue
            waiting = sum(traffic == k for _, traffic in self.added)
            if self._swallow[k]:
                self._swallow[k] -= 1
            elif waiting > self._stolen[k]:
                self._stolen[k] += 1
            else:
                self._out[k] -= 1
                continue
            credits &= ~(1 << k)
        return flit, credits


def bad_packets(
    system: DmaSystem, region: int, epoch: int, endpoint: int, rng: random.Random, *, to_node: bool
) -> dict[str, Bad]:
    """Packets that the switch, or *endpoint*, has to drop: name -> flits and class.

    The class is None if the packet has none, since its header is damaged. *epoch* is that of the
    region's members.
    """
    dma, members = system.dma, system.groups[region]
    size, slots = dma.payload_flits, dma.slots
    others = [k for k in members if k != endpoint]
    far = rng.randrange(4 * slots, (1 << dma.number_bits) - 4 * slots)

    def address(number: int, epoch: int = epoch) -> int:
        return ((epoch & 7) << dma.number_bits | number) * size

    def packet(
        kind: Kind | int, *, flits: int | None = None, bits: int = 0, **fields: int
    ) -> list[int]:
        header = encode({
            "kind": kind.value if isinstance(kind, Kind) else kind, "region": region,
            "address": address(far), "source": rng.choice(others) if to_node else endpoint,
            "destination": endpoint if to_node else rng.choice(others), "count": 1,
            "epoch": epoch & 7, **fields,
        })
        data = size if flits is None else flits
        return [header ^ bits | _HEAD, *(rng.getrandbits(FLIT_BITS) for _ in range(data))]

    partial, for_one, not_built, partials = Kind.PARTIAL, Kind.PARTIAL, Kind.SUBTOTAL.value, 1
    if dma.multicast_partials:
        partial, for_one, not_built, partials = Kind.SUBTOTAL, Kind.RESPONSE, Kind.PARTIAL.value, 2
    old = {"epoch": epoch - 1 & 7, "address": address(far, epoch - 1)}
    everyone = {"count": len(members)}
    strange = rng.choice((0, 1, 2, not_built))
    unknown = rng.choice([r for r in range(64) if r not in system.groups])
    found: dict[str, Bad] = {
        "unknown region": (packet(Kind.RESULT, region=unknown, **everyone), 2),
        "not aligned": (packet(Kind.RESULT, address=address(far) + 1, **everyone), 2),
        "damaged header": (packet(Kind.RESULT, bits=1 << rng.randrange(FLIT_BITS)), None),
        "unknown kind": (packet(strange), strange & 3),
        "unknown kind for the link": (packet(rng.choice((7, 15))), None),
        "unknown format": (packet(Kind.RESULT, format=rng.randrange(1, 4)), 2),
        "cut short": (packet(Kind.RESULT, flits=rng.randrange(size), **old, **everyone)
                      + packet(Kind.INVALID, flits=0, bits=1), 2),
        "too long": (packet(Kind.RESULT, flits=size + rng.randint(1, 3), **old, **everyone), 2),
        "load with data": (packet(Kind.LOAD, count=len(members) - 1, **old), 0),
    }
    if to_node:
        found |= {
            "push to an endpoint": (packet(Kind.PUSH), 0),
            "result of another epoch": (packet(Kind.RESULT, **old, **everyone), 2),
            "result that nobody waits for": (packet(Kind.RESULT, **everyone), 2),
            "partial that nobody waits for": (packet(partial), partials),
            "answer that nobody asked for": (packet(Kind.RESPONSE), 1),
            "partial of another epoch": (packet(partial, **old), partials),
            "partial of another endpoint": (packet(for_one, destination=others[0]), 1),
            "partial of no operands": (packet(partial, count=0), partials),
            "partial of too many": (packet(partial, count=len(members) + 1), partials),
            "load beyond the vector": (packet(Kind.LOAD, flits=0, count=len(members) - 1), 0),
        }
    else:
        found |= {
            "no route": (packet(for_one, destination=255), 1),
            "load of too many": (packet(Kind.LOAD, flits=0, count=len(members) + 1), 0),
            "operand of too many": (packet(Kind.PUSH, count=len(members) + 1), 0),
            "operand of another epoch": (packet(Kind.PUSH, **old), 0),
        }
        for other in set(system.groups) - {region}:
            found["of a region of others"] = packet(Kind.RESULT, region=other), 2
    return found

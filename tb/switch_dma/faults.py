# SPDX-License-Identifier: Apache-2.0
"""Packets that a switch, or an endpoint, has to drop."""

import random
from typing import TypeAlias

from hw.link.packet import FLIT_BITS
from hw.switch.packet import Kind, encode
from sim.rtl.switch.stepped import SteppedFabric

__all__ = ["bad_packets"]

_HEAD = 1 << FLIT_BITS

Bad: TypeAlias = tuple[list[int], int | None]
"""Flits of a packet to drop, and its class or None."""


def bad_packets(
    system: SteppedFabric, region: int, epoch: int, endpoint: int, rng: random.Random, *,
    to_node: bool,
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

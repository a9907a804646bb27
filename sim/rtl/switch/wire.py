# SPDX-License-Identifier: Apache-2.0
"""Links between RTL and models of switches and endpoints, and the packets on them."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hw.link.packet import FLIT_BYTES
from hw.switch.packet import CLASSES, decode
from sim.cycles.switch.fabric import Fabric
from sim.rtl.exchange import beat_tokens
from sim.rtl.harness.specs import LinkDirection, LinkSpec, loopback_plugs

__all__ = ["Crossing", "Packet", "PacketEnd", "crossings", "fabric_links"]

_DATA = 4  # bit of a kind that is set in packets with data


def fabric_links(
    fabric: Fabric, first: int, wire: LinkDirection, *, plugged: int = 0
) -> list[LinkSpec]:
    """All links; switches are numbered from *first* on. Those of *plugged* ports of each switch
    that lead nowhere have a loopback plug: retry on a link without an answer is never idle."""
    ends = [((rank, k), (first + s, p)) for rank, spots in enumerate(fabric.places)
            for k, (s, p) in enumerate(spots)]
    ends += [((first + s, p), (first + t, q)) for (s, p), (t, q) in fabric.cables]
    links = [
        LinkSpec(node_a=a, port_a=p, node_b=b, port_b=q, forward=wire)
        for (a, p), (b, q) in ends
    ]
    return links + loopback_plugs(links, range(first, first + fabric.switches), plugged)


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """A link with one end in RTL: *port* of *part*, which is *node* of the system; the other is
    *peer_port* of *peer*."""

    node: int
    part: int
    port: int
    peer: int
    peer_port: int


def crossings(fabric: Fabric, parts: Sequence[int]) -> Iterator[Crossing]:
    """Links between *parts*, which are RTL, and the others; parts are endpoints, and switches,
    which are numbered after them."""
    for link in fabric_links(fabric, len(fabric.places), LinkDirection()):
        ends = (link.node_a, link.port_a), (link.node_b, link.port_b)
        for (part, port), (peer, peer_port) in (ends, ends[::-1]):
            if part in parts and peer not in parts:
                yield Crossing(
                    node=parts.index(part), part=part, port=port, peer=peer, peer_port=peer_port
                )


@dataclass(frozen=True, kw_only=True)
class Packet:
    """A received packet; *cycle* is that in which its header arrived at the link's other end."""

    cycle: int
    header: dict[str, int]
    payload: bytes


class PacketEnd:
    """The outer end of an external link.

    Parameters
    ----------
    payload_flits : int
        Flits of data in packets that have any.
    """

    def __init__(self, payload_flits: int) -> None:
        self._flits = payload_flits
        self._begun: tuple[int, dict[str, int]] | None = None
        self._payload = b""
        self._beats: deque[tuple[int, bytes, int]] = deque()
        self._credits: dict[int, int] = {}

    def read(self, tokens: NDArray[np.void]) -> tuple[list[Packet], list[tuple[int, int]]]:
        """Packets whose last flit has arrived, and credits: cycle of arrival and class."""
        packets, credits = [], []
        for token in tokens:
            cycle, given = int(token["cycle"]), int(token["credit"])
            credits += [(cycle, k) for k in range(CLASSES) if given >> k & 1]
            if not token["keep"]:
                continue
            flit = token["data"][:FLIT_BYTES].tobytes()
            if token["user"]:
                header = decode(int.from_bytes(flit, "little"))
                assert header is not None, "a header with a wrong checksum"
                self._begun, self._payload = (cycle, header), b""
            else:
                self._payload += flit
            assert self._begun is not None
            came, header = self._begun
            flits = self._flits if header["kind"] & _DATA else 0
            if len(self._payload) == flits * FLIT_BYTES:
                packets.append(Packet(cycle=came, header=header, payload=self._payload))
        return packets, credits

    def send(self, cycle: int, header: int, payload: bytes) -> None:
        """Queue a packet whose header arrives in *cycle*."""
        flits = header.to_bytes(FLIT_BYTES, "little") + payload
        for at in range(0, len(flits), FLIT_BYTES):
            self._beats.append((cycle, flits[at : at + FLIT_BYTES], int(at == 0)))
            cycle += 1

    def credit(self, cycle: int, traffic: int) -> None:
        """Queue a credit of a class that arrives in *cycle*."""
        self._credits[cycle] = self._credits.get(cycle, 0) | 1 << traffic

    def tokens(self, before: int, *, credits_before: int) -> NDArray[np.void]:
        """Take the beats that arrive before a cycle, and credits also before *credits_before*."""
        rows = []
        while self._beats and self._beats[0][0] < before:
            cycle, data, start = self._beats.popleft()
            rows.append((cycle, 1, start, 0, data))
        for cycle in sorted(each for each in self._credits if each < min(before, credits_before)):
            rows.append((cycle, 0, 0, self._credits.pop(cycle), b""))
        return beat_tokens(rows)

# SPDX-License-Identifier: Apache-2.0
"""Parts of a co-simulation: nodes, their memories, and the links between them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from gen.waves import TracedSignal
from hw.common.axi import MEMORY_ALIGNMENT
from hw.link.retry_beats import frame_beats
from hw.link.retry_frame import RetryConfig
from sim.fields import FieldError
from sim.hosts.surroundings import Surroundings, check_wire
from sim.hosts.wiring import Wire, network_links
from sim.network.network import Network

__all__ = [
    "CompiledEngine",
    "ExternalLink",
    "Fault",
    "HeaderFault",
    "LinkDirection",
    "LinkSpec",
    "MemorySpec",
    "NodeSpec",
    "PacketFault",
    "PayloadFault",
    "StutterFault",
    "longest_packet",
    "loopback_plugs",
    "split_links",
    "topology_links",
    "wired_links",
]


class CompiledEngine(Protocol):
    """A compiled model: anything with the path of a shared object."""

    @property
    def path(self) -> Path: ...


MOST_LATENCY_CYCLES = 1 << 20
"""Largest latency of a link: a wire has room for all beats that may be in flight."""


def _check_probability(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise FieldError(name, f"must be at least 0 and below 1, not {value!r}")


def _check_at_least(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if value < least:
        raise FieldError(name, f"must be at least {least}, not {value!r}")


@dataclass(frozen=True, kw_only=True)
class MemorySpec:
    """One node's memory, shared by all of its engine's memory ports.

    ``bytes_per_cycle`` bounds reads plus writes of all ports together; None means that only the
    ports' widths bound them. ``beats_per_cycle`` is the pace of every port, of reads and of writes
    each. ``stall_probability`` holds back each of the five channels of each
    port, independently in each cycle. Accesses outside the memory are answered with DECERR.
    """

    size_bytes: int
    base_address: int = 0
    read_latency_cycles: int = 20
    write_latency_cycles: int = 4
    bytes_per_cycle: float | None = None
    beats_per_cycle: float = 1.0
    outstanding_bursts: int = 16
    stall_probability: float = 0.0

    def __post_init__(self) -> None:
        _check_at_least("size_bytes", self.size_bytes, 1)
        _check_at_least("base_address", self.base_address, 0)
        _check_at_least("read_latency_cycles", self.read_latency_cycles, 1)
        _check_at_least("write_latency_cycles", self.write_latency_cycles, 1)
        _check_at_least("outstanding_bursts", self.outstanding_bursts, 1)
        _check_probability("stall_probability", self.stall_probability)
        if self.bytes_per_cycle is not None and not self.bytes_per_cycle > 0:
            raise FieldError(
                "bytes_per_cycle", f"must be above 0 or None, not {self.bytes_per_cycle!r}"
            )
        for name in ("size_bytes", "base_address"):
            if getattr(self, name) % MEMORY_ALIGNMENT:
                # Then every beat of every bus width lies wholly inside or wholly outside.
                raise FieldError(
                    name, f"must be a multiple of {MEMORY_ALIGNMENT}, the widest bus in bytes, "
                    f"not {getattr(self, name)!r}"
                )


@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """One node: a compiled engine (or the path of one), its memory, and constant inputs.

    ``host_stall_probability`` holds back the host's acceptance of register responses. Changes of
    the ``watched`` ports are noted beside those of signals for which the engine was compiled.
    ``number`` is that of the node in random draws; None: its place. ``name``: used in errors.
    ``stands_for``: nodes that it is, of which none can be reset alone.
    """

    engine: CompiledEngine | Path | str
    memory: MemorySpec = field(default_factory=lambda: MemorySpec(size_bytes=65536))
    inputs: Mapping[str, int] = field(default_factory=dict)
    host_stall_probability: float = 0.0
    watched: Sequence[TracedSignal] = ()
    number: int | None = None
    name: str = ""
    stands_for: int = 1

    def __post_init__(self) -> None:
        _check_at_least("stands_for", self.stands_for, 1)
        _check_probability("host_stall_probability", self.host_stall_probability)

    @property
    def engine_path(self) -> Path:
        engine = self.engine if isinstance(self.engine, str | Path) else self.engine.path
        return Path(engine).resolve()


@dataclass(frozen=True, kw_only=True)
class LinkDirection:
    """One direction of a link.

    A beat accepted from the sender in cycle t reaches the receiver in cycle
    t + ``latency_cycles``; so does a credit. ``stall_probability`` withholds tready at random,
    ``beats_per_cycle`` (at most 1) at a regular pace. Credits are never withheld.

    A packet is lost, or else arrives twice, or else is damaged with these probabilities: one to
    three of its bits are inverted, in the header half of the time, otherwise in one of the
    ``packet_flits`` - 1 flits behind it, if the packet has that one. All are drawn from the seed of
    the system, the port and the number of the packet.
    """

    latency_cycles: int = 1
    stall_probability: float = 0.0
    beats_per_cycle: float = 1.0
    loss_probability: float = 0.0
    repetition_probability: float = 0.0
    damage_probability: float = 0.0
    packet_flits: int = 1

    def __post_init__(self) -> None:
        _check_at_least("latency_cycles", self.latency_cycles, 1)
        if self.latency_cycles > MOST_LATENCY_CYCLES:
            raise FieldError(
                "latency_cycles",
                f"must be at most {MOST_LATENCY_CYCLES}, not {self.latency_cycles}"
            )
        _check_probability("stall_probability", self.stall_probability)
        if not 0 < self.beats_per_cycle <= 1:
            raise FieldError(
                "beats_per_cycle", f"must be above 0 and at most 1, not {self.beats_per_cycle!r}"
            )
        check_wire(
            loss_probability=self.loss_probability,
            repetition_probability=self.repetition_probability,
            damage_probability=self.damage_probability,
        )
        _check_at_least("packet_flits", self.packet_flits, 1)

    @classmethod
    def of_ring(cls, ring: Surroundings, *, packet_flits: int = 1) -> "LinkDirection":
        """Every direction of a ring's links, whose packets have up to *packet_flits* flits."""
        return cls(
            latency_cycles=ring.latency_cycles,
            stall_probability=ring.link_stalls,
            beats_per_cycle=ring.beats_per_cycle,
            loss_probability=ring.link_loss,
            repetition_probability=ring.link_repetition,
            damage_probability=ring.link_damage,
            packet_flits=packet_flits,
        )


@dataclass(frozen=True, kw_only=True)
class LinkSpec:
    """A full-duplex link from ``port_a`` of ``node_a`` to ``port_b`` of ``node_b``.

    ``backward`` (from b to a) is like ``forward`` unless given. Both ends may be the same port,
    which then hears itself (a loopback plug).
    """

    node_a: int
    port_a: int
    node_b: int
    port_b: int
    forward: LinkDirection = LinkDirection()
    backward: LinkDirection | None = None

    def directions(self) -> tuple[LinkDirection, LinkDirection]:
        return self.forward, self.forward if self.backward is None else self.backward


@dataclass(frozen=True, kw_only=True)
class ExternalLink:
    """A link whose other end is not in the system: see ``System.arrivals`` and ``System.deliver``.

    ``outward`` is the direction from the node, ``inward`` (like it unless given) that to the node;
    only the latency of ``inward`` is used.
    """

    node: int
    port: int
    outward: LinkDirection = LinkDirection()
    inward: LinkDirection | None = None

    def directions(self) -> tuple[LinkDirection, LinkDirection]:
        return self.outward, self.outward if self.inward is None else self.inward


@dataclass(frozen=True, kw_only=True)
class _FaultOfPort:
    """A fault of the ``packet``-th packet (from 0) that a port sends."""

    node: int
    port: int
    packet: int

    def __post_init__(self) -> None:
        _check_at_least("packet", self.packet, 0)


@dataclass(frozen=True, kw_only=True)
class HeaderFault(_FaultOfPort):
    """Inverts ``bits`` (0 to 127) of the ``packet``-th header (from 0) that a port sends."""

    bits: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for bit in self.bits:
            if not 0 <= bit < 128:
                raise FieldError("bits", f"must be in 0 to 127, not {bit!r}")


@dataclass(frozen=True, kw_only=True)
class PayloadFault(_FaultOfPort):
    """Inverts ``bits`` of the flits after the ``packet``-th header (from 0), 128 to a flit; those
    that the packet does not have are left out."""

    bits: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for bit in self.bits:
            _check_at_least("bits", bit, 0)


@dataclass(frozen=True, kw_only=True)
class PacketFault(_FaultOfPort):
    """Loses the ``packet``-th packet (from 0) that a port sends, or with ``repeat`` sends it twice.

    ``packets``: length of the run of packets that begins with that one; repeated ones come again
    together, before the next packet that is sent.
    """

    repeat: bool = False
    packets: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_at_least("packets", self.packets, 1)


@dataclass(frozen=True, kw_only=True)
class StutterFault(_FaultOfPort):
    """Sends a flit twice, on a link of switches: number ``flit``, counted from the header, of the
    first packet that has it, from the ``packet``-th (from 0) on."""

    flit: int


Fault: TypeAlias = HeaderFault | PayloadFault | PacketFault | StutterFault


def longest_packet(flits: int, retry: RetryConfig | None, *, beat_flits: int) -> int:
    """Flits on a wire for a packet of *flits*; with *retry* packets are frames of beats."""
    return flits if retry is None else beat_flits * frame_beats(beat_flits)


def loopback_plugs(links: Sequence[LinkSpec], nodes: Iterable[int], ports: int) -> list[LinkSpec]:
    """A plug for each of the *ports* of *nodes* that none of *links* leads to, on good wires."""
    used = {end for each in links
            for end in ((each.node_a, each.port_a), (each.node_b, each.port_b))}
    good = LinkDirection(latency_cycles=links[0].forward.latency_cycles)
    return [
        LinkSpec(node_a=node, port_a=port, node_b=node, port_b=port, forward=good)
        for node in nodes for port in range(ports) if (node, port) not in used
    ]


def split_links(
    links: Sequence[LinkSpec], nodes: Sequence[int]
) -> tuple[list[LinkSpec], list[ExternalLink]]:
    """Links among *nodes*, renumbered by their place in it, and those that lead out of them."""
    place = {node: number for number, node in enumerate(nodes)}
    inside: list[LinkSpec] = []
    outside: list[ExternalLink] = []
    for link in links:
        forward, backward = link.directions()
        a, b = place.get(link.node_a), place.get(link.node_b)
        if a is not None and b is not None:
            inside.append(replace(link, node_a=a, node_b=b))
        elif a is not None:
            outside.append(ExternalLink(node=a, port=link.port_a, outward=forward, inward=backward))
        elif b is not None:
            outside.append(ExternalLink(node=b, port=link.port_b, outward=backward, inward=forward))
    return inside, outside


def topology_links(
    network: Network, *, clock_hz: float, bus_bytes: int, **wire: Any
) -> list[LinkSpec]:
    """The links of a network, see :func:`~sim.hosts.wiring.network_links`.

    ``wire``: further fields of `LinkDirection` (stalls, faults).

    Raises
    ------
    ValueError
        A link is faster than the bus.
    """
    return _specs(network_links(network, clock_hz=clock_hz, bus_bytes=bus_bytes), wire)


def wired_links(settings: Surroundings, *, packet_flits: int = 1) -> list[LinkSpec]:
    """The links of *settings*, whose packets have up to *packet_flits* flits."""
    of = LinkDirection.of_ring(settings, packet_flits=packet_flits)
    own = {"latency_cycles", "beats_per_cycle"}
    wire = {each.name: getattr(of, each.name) for each in fields(of) if each.name not in own}
    return _specs(settings.wired().links, wire)


def _specs(links: Iterable[tuple[Wire, Wire]], wire: Mapping[str, Any]) -> list[LinkSpec]:
    def direction(of: Wire) -> LinkDirection:
        return LinkDirection(
            latency_cycles=of.latency_cycles, beats_per_cycle=of.beats_per_cycle, **wire
        )

    return [
        LinkSpec(
            node_a=there.rank, port_a=there.port, node_b=there.peer, port_b=there.peer_port,
            forward=direction(there), backward=direction(back),
        )
        for there, back in links
    ]

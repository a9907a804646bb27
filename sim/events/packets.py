# SPDX-License-Identifier: Apache-2.0
"""Packet granularity: its parameters, and the lanes and ports of the routes of a job."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

import numpy as np
from numpy.typing import NDArray

from sim.events.kernel import packets as kernel
from sim.fields import FieldError
from sim.network.dimension import DimensionKind
from sim.network.network import Network
from sim.units import seconds_to_fs

__all__ = ["PacketOptions", "dated_dimensions", "packet_state"]

Indices = NDArray[np.int64]
MOST_MESSAGES = 1 << 22
MOST_SEGMENTS = 1 << 24
MOST_PLACES = 1 << 30


@dataclass(frozen=True, kw_only=True)
class PacketOptions:
    """Packets, flits and buffers (ASTRA-SIM Table III, numbers 19 to 24 and 28; defaults of IV).

    Latency, router latency and bandwidth are those of the dimensions.

    Parameters
    ----------
    packet_bytes : int or sequence of int
        Payload of a packet, for all dimensions or for each. On a route through several dimensions
        the smallest of them holds.
    flit_bytes : int
        A packet is a whole number of flits.
    vcs_per_vnet : int
        Virtual channels at the far end of every link. On rings that are crossed in more than one
        hop half of them are for packets that have passed the dateline, so two at least.
    buffers_per_vc : int
        Flits for which a virtual channel has room: as many packets as fit in whole may be in it or
        on their way to it; one that is longer has it to itself, and sends as flits find room.
    link_width_bits : int, sequence of int, or None
        Phit: what a link moves in a cycle. A flit takes a whole number of phits. None: no rounding.
    """

    packet_bytes: int | Sequence[int] = 256
    flit_bytes: int = 128
    vcs_per_vnet: int = 50
    buffers_per_vc: int = 5000
    link_width_bits: int | Sequence[int] | None = None

    def __post_init__(self) -> None:
        _check("packet_bytes", self.packet_bytes)
        for name in ("flit_bytes", "vcs_per_vnet", "buffers_per_vc"):
            _check(name, [getattr(self, name)])
        if self.link_width_bits is not None:
            _check("link_width_bits", self.link_width_bits)

    def per_dimension(self, name: str, dimensions: int) -> list[int]:
        """``packet_bytes`` or ``link_width_bits`` of every dimension."""
        given: int | Sequence[int] = getattr(self, name)
        values = [given] * dimensions if isinstance(given, int) else list(given)
        if len(values) != dimensions:
            raise FieldError(
                name, f"must be one value or one for each of {dimensions} dimensions, "
                f"not {len(values)}"
            )
        return values


def _check(name: str, given: int | Sequence[int]) -> None:
    for value in given if isinstance(given, Sequence) else [given]:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be an integer, not {value!r}")
        if not 1 <= value < 1 << 31:
            raise FieldError(name, f"must be at least 1 and below 2**31, not {value!r}")


def _along(network: Network, links: Indices) -> tuple[Indices, Indices]:
    """Dimension of links (-1 where there is none), and the step of a coordinate along links of
    rings of three members or more, which may have a dateline; 0 elsewhere."""
    real = links >= 0
    source, target = network.link_source[links], network.link_target[links]
    dimension = np.where(real, network.link_dimension[links], -1)
    step = np.zeros_like(links)
    for index, dim in enumerate(network.dimensions):
        if dim.kind is DimensionKind.RING and dim.size > 2:
            moved = network.grid.coordinate(target, index)
            moved -= network.grid.coordinate(source, index)
            step = np.where(dimension == index, moved, step)
    return dimension, step


def dated_dimensions(network: Network, routes: Sequence[Indices]) -> set[int]:
    """Ring dimensions in which some route has several hops: they need a dateline."""
    found: set[int] = set()
    for links in routes:
        dimension, step = _along(network, links)
        again = (dimension[1:] == dimension[:-1]) & (step[1:] != 0)
        found |= set(np.unique(dimension[1:][again]).tolist())
    return found


def _classes(network: Network, links: Indices, dated: set[int]) -> Indices:
    """For every hop 1 if the packet has passed the dateline of the ring (from the last member to
    the first or back), else 0. Rings without a dateline have one class."""
    dimension, step = _along(network, links)
    size = np.array([d.size for d in network.dimensions])[dimension]
    crossed = np.abs(step) == size - 1
    for hop in range(1, len(links)):
        crossed[hop] |= crossed[hop - 1] & (dimension[hop] == dimension[hop - 1])
    classes: Indices = (crossed & np.isin(dimension, sorted(dated))).astype(np.int64)
    return classes


def packet_state(
    network: Network,
    options: PacketOptions,
    routes: Sequence[Indices],
    route_of_entry: Sequence[int],
    link_class: Indices | None,
) -> kernel.PacketState:
    """The arrays of the packet network.

    Parameters
    ----------
    routes
        Links of every channel, (hops, nodes), as :class:`~sim.network.network.Channel` has them.
    route_of_entry
        The route that each entry of the programs uses.
    link_class
        Class of each link (``Network.link_classes``), where one node stands for all.

    Raises
    ------
    ValueError
        If there are too few virtual channels for a dateline.
    """
    dated = dated_dimensions(network, routes)
    if dated and options.vcs_per_vnet < 2:
        raise FieldError(
            "vcs_per_vnet",
            f"must be at least 2, not {options.vcs_per_vnet}: packets cross the ring "
            f"of dimension {min(dated)} in several hops, and without a second virtual channel "
            "beyond its dateline they can block each other for ever"
        )
    first = np.arange(len(network.link_source))
    if link_class is not None:
        _, first = np.unique(link_class, return_index=True)
    lanes = np.zeros(2 * len(first), kernel.LANE)
    lanes["first"] = -1
    vcs, halved = options.vcs_per_vnet, np.isin(network.link_dimension[first], sorted(dated))
    places = _places(network, options)[network.link_dimension[first]]
    lanes["free"][::2] = np.minimum(np.where(halved, vcs - vcs // 2, vcs) * places, MOST_PLACES)
    lanes["free"][1::2] = np.minimum(np.where(halved, vcs // 2, vcs) * places, MOST_PLACES)
    lanes["places"] = lanes["free"]

    lane_rows = [
        np.where(links >= 0, 2 * links + _classes(network, links, dated), -1) for links in routes
    ]
    if any(each.graph is not None for each in network.dimensions):
        _refuse_circles(lane_rows)
    lane_of, port_of, ports = _ports(lane_rows, 2 * len(network.link_source), link_class)
    sizes = np.array(options.per_dimension("packet_bytes", len(network.dimensions)))
    per_route = [
        int(sizes[network.link_dimension[links[links >= 0]]].min(initial=(1 << 31) - 1))
        for links in routes
    ]
    number = np.zeros(8, np.int64)
    number[kernel.NODES] = network.nodes if link_class is None else 1
    number[kernel.FLIT] = options.flit_bytes
    number[kernel.BUFFERS] = options.buffers_per_vc
    number[kernel.MESSAGE_FREE] = number[kernel.SEGMENT_FREE] = -1
    # A packet that holds a place is at one vertex, or at two if it is on its way.
    in_flight = 2 * int(lanes["free"].sum(dtype=np.int64)) + 2
    return kernel.PacketState(
        packet_numbers=number,
        packet_messages=np.empty(MOST_MESSAGES, kernel.MESSAGE),
        packet_segments=np.empty(min(in_flight, MOST_SEGMENTS), kernel.SEGMENT),
        ports=ports,
        lanes=lanes,
        wires=_wires(network, options, first),
        lane_of=lane_of,
        port_of=port_of,
        packet_bytes=np.array([per_route[r] for r in route_of_entry] or [1], np.int64),
    )


def _places(network: Network, options: PacketOptions) -> Indices:
    """Whole packets of each dimension that fit into a virtual channel; 1 for longer ones."""
    sizes = options.per_dimension("packet_bytes", len(network.dimensions))
    flits = [max(1, ceil(size / options.flit_bytes)) for size in sizes]
    return np.array([max(1, options.buffers_per_vc // each) for each in flits], np.int64)


def _wires(network: Network, options: PacketOptions, first: Indices) -> NDArray[np.void]:
    wires = np.zeros(max(1, len(first)), kernel.WIRE)
    wires["wake"] = wires["first"] = wires["starves"] = -1
    if not len(first):
        return wires
    flit = np.full(len(network.dimensions), float(options.flit_bytes))
    if options.link_width_bits is not None:
        widths = options.per_dimension("link_width_bits", len(network.dimensions))
        flit = np.array([ceil(options.flit_bytes * 8 / w) * w / 8 for w in widths])
    dimension = network.link_dimension[first]
    flit_fs = np.rint(flit[dimension] * network.link_fs_per_byte[first]).astype(np.int64)
    wires["flit_fs"] = np.maximum(1, flit_fs)
    wires["latency_fs"] = network.link_latency_fs[first]
    # Credits do not pass through the router.
    wire_fs = np.array([seconds_to_fs(d.latency_s) for d in network.dimensions], np.int64)
    wires["credit_fs"] = wire_fs[dimension]
    if (graph := network.dimensions[0].graph) is not None and len(network.dimensions) == 1:
        own = graph.wires(network.dimensions[0].latency_s)
        wires["credit_fs"] = [seconds_to_fs(each) for each in own.tolist()]
    return wires


def _refuse_circles(lane_rows: Sequence[Indices]) -> None:
    """Refuse routes whose packets could wait for each other's places in a circle: links of a graph
    have no dateline."""
    pairs = [
        np.stack([before[after >= 0], after[after >= 0]], axis=1)
        for rows in lane_rows
        for before, after in pairwise(rows)
    ]
    left = np.unique(np.concatenate([np.zeros((0, 2), np.int64), *pairs]), axis=0)
    while len(left):
        kept = left[np.isin(left[:, 0], left[:, 1])]  # what nothing waits for is in no circle
        if len(kept) == len(left):
            raise FieldError(
                "granularity", "must be 'message' here: on these links packets that hold a place "
                "could wait for each other in a circle"
            )
        left = kept


def _ports(
    lane_rows: Sequence[Indices], lanes: int, link_class: Indices | None
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.void]]:
    """Lane and port of every hop of every route, and the ports.

    A port is a pair of lanes (of which the first is -1 where packets enter). In a folded system it
    is an orbit of such pairs: a hop of a channel is the same for all nodes, so two of them are in
    the same orbit if they have a pair in common, and the least pair stands for it.
    """
    pairs, rows_of = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for rows in lane_rows:
        before = np.vstack([np.full((1, rows.shape[1]), -1), rows[:-1]])[: len(rows)]
        pair = np.where(rows >= 0, (before + 1) * lanes + rows, -1)
        if link_class is not None:
            pair = pair.min(axis=1, keepdims=True)
            rows = 2 * link_class[rows[:, :1] >> 1] + (rows[:, :1] & 1)
        pairs.append(pair.ravel())
        rows_of.append(rows.ravel())
    lane_of = np.concatenate(rows_of)
    known, place, port_of = np.unique(np.concatenate(pairs), return_index=True, return_inverse=True)
    ports = np.zeros(max(1, len(known)), kernel.PORT)
    ports["first"] = ports["last"] = ports["next"] = -1
    if not len(known):
        return np.full(1, -1, np.int32), np.zeros(1, np.int32), ports
    ports["lane"] = lane_of[place]
    ports["injects"] = known < lanes
    return lane_of.astype(np.int32), port_of.astype(np.int32), ports

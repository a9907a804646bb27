# SPDX-License-Identifier: Apache-2.0
"""The certificate that all nodes of a system behave alike, so that one can stand for all.

Let g move every node one place further in one dimension. If for every g the channels are moved
onto themselves (the peer of the moved node is the moved peer, over the moved links), all links of a
class are alike, every node runs the same program and starts in the same state, and no tie is ever
broken by a node's number, then a run is the image of itself under every g, and so under all their
compositions, which take any node to any other. What is checked here are the channels; that each
link of a route occurs once per hop makes the order of requests at a link a function of the keys
alone (:mod:`sim.events.kernel.queue`).
"""

from collections.abc import Iterable

import numpy as np

from sim.network.dimension import DimensionKind
from sim.network.network import Channel, Network

__all__ = ["why_not_symmetric"]


def why_not_symmetric(network: Network, channels: Iterable[tuple[str, Channel]]) -> str | None:
    """None if the network and the channels are symmetric under translations, else the reason."""
    if network.faults:
        return "links differ (faults)"
    if any(d.graph is not None for d in network.dimensions):
        return _why_not_moved(network, channels)
    if network.mapped:
        if network.shape != network.whole_shape:
            return "groups cover parts of a dimension"
        return "the logical topology is not the physical one"
    if any(d.kind is DimensionKind.FAT_TREE and d.size > 1 for d in network.dimensions):
        return "a fat tree is not symmetric under translations"
    if any(d.single_link for d in network.dimensions):
        return "the single link of a ring of two has two different ends"
    owner, kind = network.link_classes()
    nodes = np.arange(network.nodes)
    sizes = network.physical_shape
    moves = [network.grid.moved(nodes, d, 1) for d, size in enumerate(sizes) if size > 1]
    for name, channel in channels:
        if not np.array_equal(np.sort(channel.peer), nodes):
            return f"{name} does not reach every node once"
        for hop in channel.links:
            if (hop < 0).any():
                return f"{name} has routes of different lengths"
            ordered = np.sort(hop)  # np.unique loads masked arrays, which takes longer than a run
            if np.any(ordered[1:] == ordered[:-1]):
                return f"{name} uses a link twice at one hop"
            if (kind[hop] != kind[hop[0]]).any():
                return f"{name} uses different links at different nodes"
        for move in moves:
            if (channel.peer[move] != move[channel.peer]).any():
                return f"{name} is not the same pattern seen from every node"
            for hop in channel.links:
                if (owner[hop[move]] != move[owner[hop]]).any():
                    return f"{name} takes different ways at different nodes"
    return None


def _why_not_moved(network: Network, channels: Iterable[tuple[str, Channel]]) -> str | None:
    """The same for the links of a graph, moved along the dimensions that collectives see: a link is
    moved to the one at the same hop of the moved node's route, which must be one link whatever the
    channel, and alike."""
    if network.shape != network.whole_shape:
        return "groups cover parts of a dimension"
    moves = []
    for dimension, size in enumerate(network.shape):
        coordinates = list(network.coordinates)
        coordinates[dimension] = (coordinates[dimension] + 1) % size
        if size > 1:
            moves.append(network.members(coordinates))
    hops = []
    for name, channel in channels:
        if not np.array_equal(np.sort(channel.peer), np.arange(network.nodes)):
            return f"{name} does not reach every node once"
        if any((channel.peer[move] != move[channel.peer]).any() for move in moves):
            return f"{name} is not the same pattern seen from every node"
        for hop in channel.links:
            ordered = np.sort(hop)
            if ordered[0] < 0:
                return f"{name} has routes of different lengths"
            if np.any(ordered[1:] == ordered[:-1]):
                return f"{name} uses a link twice at one hop"
            hops.append(hop)
    if not hops:
        return None
    used = np.stack(hops)
    for move in moves:
        moved = used[:, move]
        for of in (network.link_fs_per_byte, network.link_latency_fs):
            if (of[used] != of[moved]).any():
                return "links differ"
        for here, there in ((used, moved), (moved, used)):
            image = np.full(len(network.link_source), -1)
            image[here] = there
            if (image[here] != there).any():
                return "links are shared by other routes at different nodes"
    return None

# SPDX-License-Identifier: Apache-2.0
"""Software routing: routes cut where they pass through a node, which receives and sends again."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sim.network.network import Channel, Network

__all__ = ["chains_of"]

Indices = NDArray[np.int64]


def chains_of(network: Network, channel: Channel) -> list[list[Channel]]:
    """The channel as chains of channels that lead from node to node; together they carry every
    message of *channel* once.

    The n-th channel of a chain starts where the one before it ends. In a chain all messages take
    the same number of legs and no two are at one node after the same number of them, so a node
    knows by the channel which message it has received.
    """
    legs = _legs(network, channel.links)
    count = legs.max(axis=0, initial=-1) + 1
    active = (channel.peer >= 0) & (count > 0)
    if not (count[active] > 1).any():
        return [[channel]]
    chains = []
    nothing_to_pass = (channel.peer >= 0) & (count == 0)
    if nothing_to_pass.any():
        chains.append([_part(channel, nothing_to_pass)])
    for length in np.unique(count[active]):
        left = active & (count == length)
        while left.any():
            chosen = left.copy()
            for leg in range(1, length):
                # Of messages that meet at a node the first one stays in this chain.
                sources = np.flatnonzero(chosen)
                starts = network.link_source[_first_link(channel.links, legs, leg)[sources]]
                _, firsts = np.unique(starts, return_index=True)
                chosen[:] = False
                chosen[sources[firsts]] = True
            chains.append(_chain(network, channel.links, legs, chosen, int(length)))
            left &= ~chosen
    return chains


def _legs(network: Network, links: Indices) -> Indices:
    """For every hop the number of its leg, -1 where there is none."""
    real = links >= 0
    at_node = real & (network.link_target[links] < network.nodes)
    before = np.zeros_like(links)
    before[1:] = np.cumsum(at_node, axis=0)[:-1]
    return np.where(real, before, -1)


def _first_link(links: Indices, legs: Indices, leg: int) -> Indices:
    """The first link of a leg, for every source."""
    hop = (legs == leg).argmax(axis=0)
    first: Indices = links[hop, np.arange(links.shape[1])]
    return first


def _part(channel: Channel, chosen: NDArray[np.bool_]) -> Channel:
    return Channel(
        peer=np.where(chosen, channel.peer, -1), links=np.where(chosen, channel.links, -1)
    )


def _chain(
    network: Network, links: Indices, legs: Indices, chosen: NDArray[np.bool_], length: int
) -> list[Channel]:
    sources: Sequence[int] = np.flatnonzero(chosen).tolist()
    chain = []
    for leg in range(length):
        hops = int((legs[:, chosen] == leg).sum(axis=0).max())
        part = np.full((hops, links.shape[1]), -1)
        peer = np.full(links.shape[1], -1)
        for source in sources:
            own = links[legs[:, source] == leg, source]
            start = network.link_source[own[0]]
            part[: len(own), start] = own
            peer[start] = network.link_target[own[-1]]
        chain.append(Channel(peer=peer, links=part))
    return chain

# SPDX-License-Identifier: Apache-2.0
"""The bound of a collective call on a network as it is: mapped, and with its faults."""

from math import prod

import numpy as np
from numpy.typing import NDArray

from gen.arguments import typed
from sim.endpoint.rates import EndpointRates
from sim.fields import check_type
from sim.limits.bounds import (
    Bound,
    Term,
    bound_of,
    crossings,
    endpoint_terms,
    lower_bound,
)
from sim.network.dimension import DimensionKind
from sim.network.network import Network
from sim.units import FS_PER_S
from sim.workload.graph import CollectiveCall, CollectiveKind

__all__ = ["call_bound"]


@typed("network", "call")
def call_bound(
    network: Network,
    call: CollectiveCall,
    *,
    endpoint: EndpointRates | None = None,
    network_reduces: bool = False,
) -> Bound:
    """The lower bound of a call, run by all of its groups at once.

    Two terms join those of :func:`~sim.limits.bounds.lower_bound` where links are slow or down, or
    those of a graph: the least that the node with the slowest links must send, and must receive. On
    a network whose logical shape is not the physical one, a group of a partial collective may lie
    anywhere, and only the bounds that hold for any placement remain: injection and the endpoint's.
    """
    check_type("network", network, "a Network", isinstance(network, Network))
    check_type("call", call, "a CollectiveCall", isinstance(call, CollectiveCall))
    network, inside = network.view(call.dimensions)
    involved = [
        index
        for index, size in enumerate(network.shape)
        if size > 1 and (inside is None or index in inside)
    ]
    whole = prod(network.shape[index] for index in involved) == network.nodes
    if network.mapped and not whole:
        return _anywhere(network, call, involved, endpoint, network_reduces)
    dimensions = list(network.dimensions)
    if not network.mapped:
        dimensions = [network.dimensions[index] for index in involved] or dimensions[:1]
        if not involved:
            return bound_of(call.kind, call.size_bytes, 1, [])
    if not network.faults and all(each.graph is None for each in dimensions):
        return lower_bound(
            call.kind,
            call.size_bytes,
            dimensions,
            endpoint=endpoint,
            network_reduces=network_reduces,
        )
    rates = _rates(network)
    indices = range(len(network.dimensions)) if network.mapped else involved
    bound = lower_bound(
        call.kind,
        call.size_bytes,
        dimensions,
        endpoint=endpoint,
        network_reduces=network_reduces,
        shares=[_shares(network, rates, index, network_reduces) for index in indices]
        if network.faults else None,
    )
    if not bound.terms:
        return bound
    slowest = _slowest_node(network, call, rates, list(indices), bound.nodes)
    return bound_of(call.kind, call.size_bytes, bound.nodes, [*bound.terms, *slowest])


def _anywhere(
    network: Network,
    call: CollectiveCall,
    involved: list[int],
    endpoint: EndpointRates | None,
    network_reduces: bool,
) -> Bound:
    members = prod(network.shape[index] for index in involved)
    if members == 1 or not call.size_bytes:
        return bound_of(call.kind, call.size_bytes, members, [])
    rates = _rates(network)
    out = rates[network.link_source < network.nodes].sum()
    back = rates[network.link_target < network.nodes].sum()
    values = crossings(call.kind, members, members, network_reduces, even=False)
    seconds = values / members * call.size_bytes * network.nodes / max(out, back)
    terms = endpoint_terms(
        call.kind, call.size_bytes, members, endpoint or EndpointRates(), network_reduces
    )
    terms.append(Term(resource="injection", seconds=float(seconds)))
    return bound_of(call.kind, call.size_bytes, members, terms)


def _rates(network: Network) -> NDArray[np.float64]:
    """Payload bytes per second of every link, 0 for one that is down."""
    return np.where(network.wiring.down, 0.0, FS_PER_S / network.link_fs_per_byte)


def _shares(
    network: Network, rates: NDArray[np.float64], index: int, replicated: bool
) -> tuple[float, float]:
    """Bandwidth left of a dimension's member links and trunks.

    Every value that crosses leaves through a link and enters through one, so the worse direction
    counts; where switches replicate, what is sent and what is received differ, and the better one
    is safe.
    """
    worse = max if replicated else min
    dimension = network.dimensions[index]
    ours = network.link_dimension == index
    out = ours & (network.link_source < network.nodes)
    back = ours & (network.link_target < network.nodes)
    nominal = dimension.injection_bytes_per_s * network.nodes
    if nominal == 0:
        return 1.0, 1.0
    members = worse(rates[out].sum(), rates[back].sum()) / nominal
    trunks = rates[ours & ~out & ~back]
    if dimension.kind is not DimensionKind.FAT_TREE or not len(trunks):
        return float(members), 1.0
    up, down = trunks[::2], trunks[1::2]  # links come in pairs: from a leaf, to a leaf
    left = worse(up.sum(), down.sum()) / (len(up) * dimension.trunk_payload_bytes_per_s)
    return float(members), float(left)


def _slowest_node(
    network: Network,
    call: CollectiveCall,
    rates: NDArray[np.float64],
    indices: list[int],
    nodes: int,
) -> list[Term]:
    others = (nodes - 1) / nodes
    sends, receives = {
        # The node that first holds a sum has to receive once and send once, any other the reverse.
        CollectiveKind.ALL_REDUCE: (1.0, 1.0),
        CollectiveKind.REDUCE_SCATTER: (others, 1 / nodes),
        CollectiveKind.ALL_GATHER: (1.0, nodes - 1.0),
        CollectiveKind.ALL_TO_ALL: (others, others),
        CollectiveKind.BROADCAST: (0.0, 0.0),  # which node is the root is not known
    }[call.kind]
    used = np.isin(network.link_dimension, indices)
    terms = []
    for name, end, amount in (
        ("links out of the slowest node", network.link_source, sends),
        ("links into the slowest node", network.link_target, receives),
    ):
        at_node = used & (end < network.nodes)
        capacity = np.bincount(end[at_node], rates[at_node], minlength=network.nodes).min()
        if amount:
            seconds = amount * call.size_bytes / capacity if capacity else float("inf")
            terms.append(Term(resource=name, seconds=float(seconds)))
    return terms

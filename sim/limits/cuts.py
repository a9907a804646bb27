# SPDX-License-Identifier: Apache-2.0
"""Cuts of a network along a dimension, and the bandwidth across each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from sim.network.dimension import Dimension, DimensionKind
from sim.network.graph import Graph

__all__ = ["Cut", "cuts_of", "mean_distance", "unions"]


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Nodes told apart by one or more coordinates only, and the links between such groups.

    Parameters
    ----------
    name : str
    groups : int
        Number of groups of nodes that are left.
    rate : float
        Payload bytes per second over all links between groups in their direction out of groups,
        divided by the number of nodes of the network.
    distance : float
        Links of the cut on the shortest way to a destination, averaged over all nodes as
        destinations; 0 for a union of cuts, which needs none.
    even : bool
        All groups have equal shares of the links.
    """

    name: str
    groups: int
    rate: float
    distance: float = 0.0
    even: bool = True


def cuts_of(
    index: int, dimension: Dimension, *, shares: tuple[float, float] = (1.0, 1.0)
) -> list[Cut]:
    """The cuts of one dimension: all members apart, the leaves of a fat tree apart, and groups of
    a graph that few links join.

    ``shares`` are the parts of the bandwidth that faults have left: of the members' links, and of
    the trunks.
    """
    if dimension.size == 1:
        return []
    apart = Cut(
        name=f"links of dimension {index}",
        groups=dimension.size,
        rate=dimension.injection_bytes_per_s * shares[0],
        distance=mean_distance(dimension),
        even=dimension.graph is None or dimension.graph.is_even,
    )
    if dimension.graph is not None:
        return [apart, *_graph_cuts(index, dimension, dimension.graph)]
    if dimension.kind is not DimensionKind.FAT_TREE or dimension.group == dimension.size:
        return [apart]
    leaves = dimension.size // dimension.group
    trunk = dimension.trunk_payload_bytes_per_s
    between = Cut(
        name=f"trunks of dimension {index}",
        groups=leaves,
        rate=trunk * dimension.lanes / dimension.group * shares[1],
        distance=(leaves - 1) / leaves,
    )
    return [apart, between]


def _graph_cuts(index: int, dimension: Dimension, graph: Graph) -> list[Cut]:
    """Groups of a graph that few links join, without regard to faults. A link leaves a group if it
    leads to a vertex of another one, or to a switch of none."""
    joints = graph.joints
    rates = graph.rates(dimension.bandwidth_bytes_per_s) * dimension.efficiency
    found = []
    for name, group in graph.groups(dimension.bandwidth_bytes_per_s).items():
        owners, sizes = np.unique(group[: graph.members], return_counts=True)
        if not 1 < len(owners) < graph.members:
            continue
        source, target = group[joints.source], group[joints.target]
        own = np.isin(source, owners) & (source != target)
        near = float((sizes / graph.members) @ (sizes / graph.members))
        found.append(Cut(
            name=f"{name} of dimension {index}",
            groups=len(owners),
            rate=float(rates[own].sum()) / graph.members,
            distance=1 - near,
            even=False,
        ))
    return found


def unions(cuts: Sequence[Sequence[Cut]]) -> Iterator[Cut]:
    """All combinations of at most one cut of each dimension; the first is the finest."""
    for chosen in product(*[[*levels, None] for levels in cuts]):
        parts = [cut for cut in chosen if cut is not None]
        if not parts:
            continue
        groups, rate = 1, 0.0
        for cut in parts:
            groups *= cut.groups
            rate += cut.rate
        name = " + ".join(cut.name for cut in parts)
        yield Cut(name=name, groups=groups, rate=rate, even=all(cut.even for cut in parts))


def mean_distance(dimension: Dimension) -> float:
    """Fewest hops along a dimension to a destination, averaged over all of its nodes.

    The node itself counts, at distance 0, as it does in the size of an all-to-all. The way
    through switches is one hop.
    """
    size = dimension.size
    if dimension.graph is not None:
        return dimension.graph.paths.mean_hops
    if dimension.kind is not DimensionKind.RING:
        return (size - 1) / size
    if dimension.directions == 1 and not dimension.single_link:
        return (size - 1) / 2
    return (size * size // 4) / size

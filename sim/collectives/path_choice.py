# SPDX-License-Identifier: Apache-2.0
"""Paths of the FSMs of an engine through a torus, by the style of its collectives."""

from collections.abc import Sequence

import numpy as np

from sim.collectives.phase_order import BY_DIMENSION
from sim.collectives.plan import colour_loads, orders_of
from sim.collectives.torus_paths import TorusPath
from sim.fields import FieldError, check_integer, check_type
from sim.network.dimension import DimensionKind
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = ["check_lanes", "torus_paths"]


def torus_paths(
    network: Network, *, style: str, fsms: int, bidirectional: bool = True
) -> tuple[TorusPath, ...]:
    """Paths that *fsms* FSMs take in turn.

    Each order of the dimensions is taken in both directions and on every lane; orders with larger
    shares of the data are taken more often. Where a dimension has fewer lanes than another one,
    several paths that differ there in the lane share its own.

    Raises
    ------
    ValueError
        For dimensions that are no rings of links both ways, lanes of which the most are no multiple
        of those of every dimension, or too few FSMs.
    """
    if style not in BY_DIMENSION:
        raise FieldError("style", f"must be one of {', '.join(BY_DIMENSION)}, not {style!r}")
    check_integer("fsms", fsms, 1)
    check_type("bidirectional", bidirectional, "True or False", isinstance(bidirectional, bool))
    active = [n for n, dim in enumerate(network.dimensions) if dim.size > 1]
    if not active:
        raise FieldError("network", f"must have two nodes or more, not {network.nodes}")
    for n in active:
        dim = network.dimensions[n]
        if dim.kind is not DimensionKind.RING or not dim.bidirectional:
            raise FieldError("style", f"needs rings of links both ways, dimension {n} is none")
    lanes = check_lanes([network.dimensions[n].lanes for n in active])
    turns = lanes * (1 + bidirectional)
    if fsms < turns:
        raise FieldError(
            "fsms", f"must be at least {turns}, one for each direction and lane of style {style}, "
            f"not {fsms!r}"
        )
    choices = [orders_of(network, active, CollectiveKind.ALL_REDUCE, style)]
    if len(choices[0]) > 1:
        # Each dimension first once: where links are alike, no share is rounded.
        cyclic = [(*active[n:], *active[:n]) for n in range(len(active))]
        choices.insert(0, [(order, 1 / len(cyclic)) for order in cyclic])
    _, chosen = min(
        (_rounded(network, orders, most=fsms // turns) for orders in choices),
        key=lambda found: round(found[0], 9),
    )
    return tuple(
        TorusPath(order=order, way=way, ports=_ports(network, lane))
        for lane in range(lanes)
        for way in ((1, -1) if bidirectional else (1,))
        for order in chosen
    )


def check_lanes(lanes: Sequence[int]) -> int:
    """The most of the *lanes* of all dimensions."""
    most = max(lanes)
    if any(most % each for each in lanes):
        raise FieldError(
            "style", "needs lanes of which the most are a multiple of those of every dimension, "
            f"not {', '.join(map(str, sorted(set(lanes))))}"
        )
    return most


def _rounded(
    network: Network, orders: Sequence[tuple[tuple[int, ...], float]], *, most: int
) -> tuple[float, list[tuple[int, ...]]]:
    """Orders in turn, at most *most* of them: as many times each as loads the busiest dimension
    least, and as few as do. Returned with that load, over the least that shares could have."""
    shares = np.array([share for _, share in orders])
    loads = np.array([colour_loads(network, order) for order, _ in orders])
    least = float(loads[0].sum()) / loads.shape[1]
    best: tuple[float, list[tuple[int, ...]]] = (np.inf, [])
    for count in range(1, most + 1):
        times = np.floor(shares * count + 1e-9).astype(int)
        for _ in range(count - int(times.sum())):
            times[int(np.argmax(shares * count - times))] += 1
        worst = float((times / count @ loads).max()) / least
        if worst < best[0] * (1 - 1e-9):
            # The orders alternate, so that neighbouring chunks take different ones.
            turns = np.repeat(np.arange(len(shares)), times)
            place = np.concatenate([np.arange(n) / n for n in times if n])
            best = worst, [orders[n][0] for n in turns[np.argsort(place, kind="stable")]]
    return best


def _ports(network: Network, lane: int) -> tuple[tuple[int, int], ...]:
    """By dimension, the ports + and - of a lane; the single link of two nodes is both."""
    found, first = [], 0
    for dim in network.dimensions:
        own = lane % dim.lanes
        if dim.size == 1:
            found.append((0, 0))
        elif dim.single_link:
            found.append((first + own, first + own))
        else:
            found.append((first + 2 * own, first + 2 * own + 1))
        first += dim.links_per_node
    return tuple(found)

# SPDX-License-Identifier: Apache-2.0
"""Rings through all members of a group of several dimensions, on links of all of them.

A torus has as many cycles through all its nodes as dimensions that together use every link once
(:func:`sim.network.embedding.hamiltonian_cycles`). Each is a ring for the algorithm of rings, in
both directions, whose members are numbered as those of the group.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from sim.collectives.algorithm import Algorithm, At, Group, Linked, Round
from sim.collectives.ring import RING
from sim.fields import FieldError
from sim.network.dimension import DimensionKind
from sim.network.embedding import hamiltonian_cycles
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = ["hamiltonian_rings_of"]


def hamiltonian_rings_of(
    network: Network, dimensions: Sequence[int]
) -> list[tuple[int, Algorithm]]:
    """The lane and the algorithm of each cycle over *dimensions*, which share no link.

    Raises
    ------
    ValueError
        For dimensions that are no rings of 3 nodes or more, or parts of one, or whose lanes differ.
    """
    physical = [network.physical(each) for each in dimensions]
    rings = [each for each in physical if each is not None and each.kind is DimensionKind.RING
             and each.bidirectional and each.size > 2]
    if not all(network.is_physical(each) for each in dimensions):
        raise FieldError(
            "style", "must not be 'hamiltonian', whose rings lie in whole dimensions, where "
            "collectives see others: by a logical shape, a placement or groups of their own"
        )
    if len(rings) < len(physical):
        raise FieldError(
            "style", "must not be 'hamiltonian', which is for dimensions with rings of 3 nodes or "
            f"more and links both ways, on {network.describe()}"
        )
    lanes = {each.lanes for each in rings}
    if len(lanes) > 1:
        raise FieldError(
            "style", "must not be 'hamiltonian' where lanes differ from dimension to dimension"
        )
    made = _algorithms(tuple(network.shape[each] for each in dimensions))
    return [(lane, each) for lane in range(lanes.pop()) for each in made]


@lru_cache(maxsize=8)
def _algorithms(shape: tuple[int, ...]) -> list[Algorithm]:
    return [_along(np.array(cycle), shape) for cycle in hamiltonian_cycles(shape)]


def _along(cycle: NDArray[np.int64], shape: tuple[int, ...]) -> Algorithm:
    """The ring whose places have the members *cycle*."""
    place = np.argsort(cycle)
    peers = {way: _peer(cycle, place, way, shape) for way in (1, -1)}

    def rounds(base: Callable[[Group], Sequence[Round]], group: Group) -> tuple[Round, ...]:
        made = base(Group(shape=(group.size,), way=group.way))
        return tuple(
            replace(each, to=peers[group.way], send=partial(_sent, each, cycle, place))
            for each in made
        )

    return Algorithm(
        name="hamiltonian",
        collectives={
            kind: partial(rounds, RING.collectives[kind])
            for kind in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER)
        },
    )


def _sent(base: Round, cycle: NDArray[np.int64], place: NDArray[np.int64], at: At) -> object:
    blocks = base.send(at._replace(rank=place[at.rank], peer=place[at.peer]))
    return cycle[blocks]


def _peer(
    cycle: NDArray[np.int64], place: NDArray[np.int64], way: int, shape: tuple[int, ...]
) -> Linked:
    """The next member of a cycle, or the one before, and the link to it."""
    members = cycle[(place + way) % len(cycle)]
    steps = []
    for here, there in enumerate(members):
        a, b = (np.unravel_index(each, shape, order="F") for each in (here, there))
        (axis,) = (n for n in range(len(shape)) if a[n] != b[n])
        ahead = (a[axis] + 1) % shape[axis] == b[axis]
        steps.append((axis, 1 if ahead else -1))
    return Linked(way=way, members=tuple(members.tolist()), steps=tuple(steps))

# SPDX-License-Identifier: Apache-2.0
"""Recursive halving, then doubling: partners at half the distance, then at twice the distance."""

import numpy as np

from sim.collectives.algorithm import Algorithm, At, Exchange, Group, Round
from sim.workload.graph import CollectiveKind

__all__ = ["HALVING_DOUBLING"]


def _masks(group: Group) -> list[int]:
    """Distances of the partners, the nearest first."""
    size = group.size
    if size & (size - 1):
        raise ValueError(f"halving-doubling needs a power of two, not a group of {size} nodes")
    return [1 << bit for bit in range(size.bit_length() - 1)]


def _reduce_scatter(group: Group) -> list[Round]:
    """In each round, the blocks of all members on the partner's side."""

    def halve(mask: int) -> Round:
        def send(at: At) -> np.ndarray:
            return at.peer & -mask | np.arange(mask)

        return Round(to=Exchange(mask), send=send, reduce=True)

    return [halve(mask) for mask in reversed(_masks(group))]


def _all_gather(group: Group) -> list[Round]:
    """In each round, all blocks that a member has by then."""

    def double(mask: int) -> Round:
        def send(at: At) -> np.ndarray:
            return at.rank & -mask | np.arange(mask)

        return Round(to=Exchange(mask), send=send)

    return [double(mask) for mask in _masks(group)]


HALVING_DOUBLING = Algorithm(
    name="halving_doubling",
    collectives={
        CollectiveKind.REDUCE_SCATTER: _reduce_scatter,
        CollectiveKind.ALL_GATHER: _all_gather,
    },
)

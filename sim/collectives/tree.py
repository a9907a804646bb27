# SPDX-License-Identifier: Apache-2.0
"""Binary trees: up with reduction, then down; or only down (broadcast).

Odd numbers of groups take the mirror image, in which leaves of the other tree are inner nodes: two
trees with half of the data each keep all links busy (double binary tree).
"""

import numpy as np

from sim.collectives.algorithm import Algorithm, Group, Listed, Round
from sim.workload.graph import CollectiveKind

__all__ = ["TREE", "binary_trees"]

Tree = tuple[list[int], list[int], list[int]]
"""For each member: parent, left and right child; -1 for none."""


def _all_reduce(group: Group) -> tuple[Round, ...]:
    parent, left, right = binary_trees(group.size)[group.number % 2]
    whole = np.arange(group.size)
    up = Round(
        to=Listed(tuple(parent)), send=lambda at: whole, reduce=True, on_arrival=True, cascade=True
    )
    return up, _down(left, right)


def _broadcast(group: Group) -> tuple[Round, ...]:
    """From member 0, in the order of a heap."""
    size = group.size
    left, right = ([2 * n + s if 2 * n + s < size else -1 for n in range(size)] for s in (1, 2))
    return (_down(left, right),)


def _down(left: list[int], right: list[int]) -> Round:
    whole = np.arange(len(left))
    children = Listed(tuple(left)), Listed(tuple(right))
    return Round(to=children, send=lambda at: whole, cascade=True)


def _in_order(size: int) -> Tree:
    """The tree whose members, read from left to right, are 0 .. size-1.

    If their number is even the last one stands alone above the others, of which those with children
    have two: then leaves are even numbers, and those of the mirror image odd ones.
    """
    parent, children = [-1] * size, ([-1] * size, [-1] * size)
    paired = size % 2 == 0
    todo = [(0, size - 1, size - 1, 0)] if paired else [(0, size, -1, 0)]
    while todo:
        low, high, above, side = todo.pop()
        if low < high:
            middle = (low + high) // 2
            if paired and low + 1 < high and (middle - low) % 2 == 0:
                middle -= 1
            parent[middle] = above
            if above >= 0:
                children[side][above] = middle
            todo += [(low, middle, middle, 0), (middle + 1, high, middle, 1)]
    return parent, *children


def binary_trees(size: int) -> tuple[Tree, Tree]:
    """The two trees of a double binary tree: parents, left and right children of all members."""
    parent, left, right = tree = _in_order(size)
    return tree, (_mirrored(parent), _mirrored(left), _mirrored(right))


def _mirrored(of: list[int]) -> list[int]:
    return [-1 if member < 0 else len(of) - 1 - member for member in reversed(of)]


TREE = Algorithm(
    name="tree",
    collectives={
        CollectiveKind.ALL_REDUCE: _all_reduce,
        CollectiveKind.BROADCAST: _broadcast,
    },
)

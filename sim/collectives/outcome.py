# SPDX-License-Identifier: Apache-2.0
"""Outcome of an algorithm, message by message; of one that a user has written, also whether it is
right: every member ends with what it should have."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sim.collectives.algorithm import (
    Algorithm,
    Group,
    block_count,
    held_at_start,
    messages,
    places_among_equals,
)
from sim.collectives.own import AlgorithmError, is_own, place_of
from sim.workload.graph import CollectiveKind

__all__ = ["carry_out", "check_outcome"]

MOST_MEMBERS = 64
"""Larger groups are checked as smaller ones of as many dimensions."""


def carry_out(
    algorithm: Algorithm,
    kind: CollectiveKind,
    values: NDArray,
    *,
    group: Group | None = None,
    add: Callable[[NDArray, NDArray], NDArray] = np.add,
) -> NDArray:
    """Carry out an algorithm message by message, and return the data that every member ends with.

    Parameters
    ----------
    algorithm, kind
    values : array, members x blocks x ...
        Initial data of each member; blocks as in :mod:`sim.collectives.algorithm`. Those that a
        member does not have are ignored.
    group : Group or None
        None for all members in one dimension.
    add
        Adds a received partial sum and the member's own data.

    Returns
    -------
    array
        Like *values*. After a reduce-scatter, only block b of member b is complete.

    Raises
    ------
    ValueError
        If a member sends a block that it does not have.
    """
    size = len(values)
    group = group or Group(shape=(size,))
    held, values = held_at_start(kind, size), values.copy()
    for now in messages(algorithm.rounds(kind, group), group):
        lacking = ~held[now.source, now.block]
        if lacking.any():
            rank, block = now.source[lacking][0], now.block[lacking][0]
            raise ValueError(f"{algorithm.name}: member {rank} does not have block {block} to send")
        sent = values[now.source, now.block]
        # Blocks that meet are added one after the other, in the order of their sources.
        turns = places_among_equals(now.target * held.shape[1] + now.block)
        for turn in range(int(turns.max(initial=-1)) + 1):
            these = turns == turn
            place = now.target[these], now.block[these]
            values[place] = add(sent[these], values[place]) if now.reduce else sent[these]
        held[now.target, now.block] = True
    return values


@lru_cache(maxsize=256)
def check_outcome(algorithm: Algorithm, kind: CollectiveKind, group: Group) -> None:
    """Carry out an own algorithm on random numbers, and compare; built-in ones are right.

    A group of more than `MOST_MEMBERS` stands aside if the algorithm does not do a smaller one.

    Raises
    ------
    AlgorithmError
        It fails, a member sends what it does not have, or ends with something else.
    """
    functions = [each for each in algorithm.functions(kind) if is_own(each)]
    if not functions:
        return
    shape = group.shape
    while np.prod(shape) > MOST_MEMBERS:
        shape = tuple(size if size < max(shape) else size // 2 for size in shape)
    small = Group(shape=shape, way=group.way, number=group.number)
    size = small.size
    try:
        algorithm.rounds(kind, small)
        wrong = _wrong(algorithm, kind, small)
    except AlgorithmError:
        if small.shape != group.shape:
            return
        raise
    if wrong:
        what = f"algorithm {algorithm.name}, {kind.value} in a group of {size}"
        raise AlgorithmError(f"{place_of(functions[0])}: {what}: {wrong}")


def _wrong(algorithm: Algorithm, kind: CollectiveKind, group: Group) -> str:
    """Description of the first error; empty if there is none."""
    size = group.size
    shape = size, block_count(kind, size)
    # Sums of 64 bits that wrap: equal only if every number is in them once.
    values = np.random.default_rng(0).integers(0, 1 << 64, shape, np.uint64)
    try:
        made = carry_out(algorithm, kind, values, group=group)
    except AlgorithmError:
        raise
    except ValueError as error:
        return str(error).removeprefix(f"{algorithm.name}: ")
    expected = np.broadcast_to(values.sum(axis=0), shape)
    kept = np.ones(shape, bool)
    own = np.arange(size)
    match kind:
        case CollectiveKind.REDUCE_SCATTER:
            kept = np.eye(size, dtype=bool)
        case CollectiveKind.ALL_GATHER:
            expected = np.broadcast_to(values[own, own], shape)
        case CollectiveKind.BROADCAST:
            expected = np.broadcast_to(values[0], shape)
        case CollectiveKind.ALL_TO_ALL:
            blocks = np.arange(shape[1])
            expected = np.broadcast_to(values[blocks // size, blocks], shape)
            kept = blocks % size == own[:, None]
    differs = (made != expected) & kept
    if not differs.any():
        return ""
    member, block = np.argwhere(differs)[0]
    adds = kind in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_REDUCE)
    what = "the sum of block" if adds else "block"
    return f"member {member} must end with {what} {block}, and ends with something else"

"""Golden results of ring collectives: numpy, in the order of additions that the ring defines."""

from collections.abc import Sequence
from functools import reduce as fold

import numpy as np

from hw.fp.model import reduce
from hw.fp.ops import ReduceOp
from sim.collectives.partition import Partition
from sim.collectives.ring import ring_order

__all__ = ["direction_of", "ring_all_reduce", "ring_partials"]


def direction_of(chunk: int, *, queues: int, bidirectional: bool) -> int:
    """Direction in which a chunk travels: FSMs with odd numbers run the ring backwards."""
    return -1 if bidirectional and chunk % queues % 2 else 1


def ring_all_reduce(
    arrays: Sequence[np.ndarray],
    partition: Partition,
    *,
    op: ReduceOp = ReduceOp.SUM_F32,
    bidirectional: bool = True,
) -> np.ndarray:
    """What every rank holds after an all-reduce, bit for bit.

    Parameters
    ----------
    arrays : sequence of 1-D arrays of float32, int32 or uint32
        One vector per rank, all of the same length.
    partition : Partition
        How the vectors are cut; with ``queues`` it decides which way each chunk travels, and so the
        order of additions.
    op : ReduceOp
    bidirectional : bool
        Whether FSMs with odd numbers run the ring backwards.
    """
    result = np.empty_like(arrays[0])
    for chunk, block, elements in partition.blocks():
        direction = direction_of(chunk, queues=partition.queues, bidirectional=bidirectional)
        ranks = ring_order(block, nodes=len(arrays), direction=direction)
        result[elements] = fold(
            lambda a, b: reduce(op, a, b), [arrays[rank][elements] for rank in ranks]
        )
    return result


def ring_partials(
    arrays: np.ndarray,
    partition: Partition,
    *,
    rank: int,
    op: ReduceOp = ReduceOp.SUM_F32,
    bidirectional: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What passes a rank of an all-reduce or reduce-scatter, bit for bit.

    Parameters
    ----------
    arrays : array, ranks x elements
    partition, op, bidirectional
        As for `ring_all_reduce`.
    rank : int

    Returns
    -------
    arriving, leaving, whole : arrays of *elements*
        Partial results as they come to this rank (zero where it is the first) and as they go on
        from it, and the final ones.
    """
    nodes, elements = arrays.shape
    place = np.arange(elements)
    owner = place // partition.stride
    chunk = place % partition.stride // partition.block
    backwards = bidirectional & (chunk % partition.queues % 2 == 1)
    direction = np.where(backwards, -1, 1)
    turn = (rank - owner) * direction % nodes
    turn[turn == 0] = nodes
    arriving, leaving = np.zeros_like(arrays[0]), np.zeros_like(arrays[0])
    total = np.zeros_like(arrays[0])
    for hop in range(1, nodes + 1):
        own = arrays[(owner + direction * hop) % nodes, place]
        total = own if hop == 1 else reduce(op, total, own)
        arriving = np.where(hop == turn - 1, total, arriving)
        leaving = np.where(hop == turn, total, leaving)
    return arriving, leaving, total

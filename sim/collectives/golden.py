"""Golden results of ring collectives: numpy, in the order of additions that the ring defines."""

from collections.abc import Sequence
from functools import reduce as fold

import numpy as np

from hw.fp.model import reduce
from hw.fp.ops import ReduceOp
from sim.collectives.partition import Partition
from sim.collectives.ring import ring_order

__all__ = ["direction_of", "ring_all_reduce"]


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

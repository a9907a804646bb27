# SPDX-License-Identifier: Apache-2.0
"""Golden results of collectives: numpy, in the order of additions that an algorithm defines.

A ring adds the contributions to a block one after the other: the ranks in the order in which the
block passes them. Where an algorithm lets several partial sums meet at one member, they are added
to its own data in the order of their senders.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from functools import reduce as fold

import numpy as np
from numpy.typing import NDArray

from hw.fp.model import reduce
from hw.fp.ops import ReduceOp
from hw.smartnic.config import SmartNicConfig
from sim.collectives.algorithm import (
    Algorithm,
    Group,
    messages,
)
from sim.collectives.partition import NicPartition, Partition
from sim.collectives.ring import NIC_RING, RING
from sim.collectives.torus_paths import TorusPaths
from sim.fields import FieldError
from sim.workload.graph import CollectiveKind

__all__ = [
    "addition_order",
    "direction_of",
    "nic_all_reduce",
    "nic_ring_sums",
    "ring_all_reduce",
    "ring_order",
    "ring_partials",
    "rotated_all_reduce",
    "torus_all_reduce",
    "torus_partial",
    "translated",
    "translated_all_reduce",
]


def addition_order(
    algorithm: Algorithm, kind: CollectiveKind, group: Group
) -> NDArray[np.int64]:
    """For each block, the ranks in the order in which their contributions are added up.

    Returns
    -------
    array, blocks x members

    Raises
    ------
    ValueError
        If the sum of a block is not made along a chain of all members.
    """
    size = group.size
    operands = np.ones((size, size), np.int64)
    turn = operands.copy()
    for now in messages(algorithm.rounds(kind, group), group):
        arriving, place = operands[now.source, now.block], (now.target, now.block)
        if now.reduce:
            arriving = arriving + operands[place]
            turn[place] = arriving
        operands[place] = arriving
    if (np.sort(turn, axis=0) != np.arange(1, size + 1)[:, None]).any():
        raise ValueError(f"algorithm {algorithm.name} does not add up blocks along a chain")
    return np.argsort(turn, axis=0).T


def ring_order(block: int, *, nodes: int, direction: int) -> list[int]:
    """Ranks in the order in which a ring adds their contributions to *block*."""
    kind = CollectiveKind.ALL_REDUCE
    order: list[int] = _order(RING, kind, nodes, direction)[block].tolist()
    return order


@lru_cache(maxsize=16)
def _order(
    algorithm: Algorithm, kind: CollectiveKind, nodes: int, way: int
) -> NDArray[np.int64]:
    return addition_order(algorithm, kind, Group(shape=(nodes,), way=way))


def direction_of(chunk: int, *, queues: int, bidirectional: bool, rings: int = 1) -> int:
    """Direction in which a chunk travels: every second round of FSMs runs its ring backwards."""
    return -1 if bidirectional and chunk % queues // rings % 2 else 1


def ring_all_reduce(
    arrays: Sequence[np.ndarray],
    partition: Partition,
    *,
    op: ReduceOp = ReduceOp.SUM_F32,
    bidirectional: bool = True,
    rings: Sequence[Sequence[int]] = (),
    by: tuple[Algorithm, CollectiveKind] = (RING, CollectiveKind.ALL_REDUCE),
) -> np.ndarray:
    """The vector that every rank holds after an all-reduce, bit for bit.

    Parameters
    ----------
    arrays : sequence of 1-D arrays of float32, int32 or uint32
        One vector per rank, all of the same length.
    partition : Partition
        The cut of the vectors; with ``queues`` it decides which way each chunk travels, and so the
        order of additions.
    op : ReduceOp
    bidirectional : bool
        Every second round of FSMs runs its ring backwards.
    rings : sequence of sequences of int
        Ranks in the order of each ring; none: one ring, in the order of the ranks. FSM ``f`` runs
        ring ``f % len(rings)``.
    by : Algorithm and CollectiveKind
        What decides the order of additions round a ring.
    """
    result = np.empty_like(arrays[0])
    way, orders = _ways(partition, len(result), bidirectional, rings, by)
    for track in np.unique(way):
        for owner, ranks in enumerate(orders(track)):
            shard = partition.shard(owner)
            total = fold(partial(reduce, op), (arrays[rank][shard] for rank in ranks))
            np.copyto(result[shard], total, where=way[shard] == track)
    return result


def rotated_all_reduce(
    vector: np.ndarray, partition: Partition, *, op: ReduceOp, bidirectional: bool
) -> np.ndarray:
    """The vector that every rank of a ring holds after an all-reduce of *vector* at rank 0 and, at
    rank *r*, of *vector* with its shards moved on by *r* in a circle; bit for bit.

    Every shard has the same sum then, made in the same order, so one is made here.

    Parameters
    ----------
    vector : 1-D array of float32, int32 or uint32
    partition : Partition
        Of equal shards.
    op, bidirectional
        As for `ring_all_reduce`.
    """
    shards = vector.reshape(partition.nodes, partition.stride)
    *_, whole = ring_partials(
        shards[-np.arange(partition.nodes)], replace(partition, elements=partition.stride),
        rank=0, op=op, bidirectional=bidirectional,
    )
    return np.tile(whole, partition.nodes)


def torus_all_reduce(
    arrays: Sequence[np.ndarray],
    partition: Partition,
    torus: TorusPaths,
    *,
    op: ReduceOp = ReduceOp.SUM_F32,
) -> np.ndarray:
    """The vector that every rank holds after an all-reduce on a torus, bit for bit.

    Dimension by dimension, each ring of nodes adds up a block as `ring_all_reduce` does; what it
    holds then is one operand of the next dimension.

    Parameters
    ----------
    arrays, partition, op
        As for `ring_all_reduce`.
    torus : TorusPaths
    """
    result = np.empty_like(arrays[0])
    element = np.arange(len(result))
    number = partition.chunk_of(element) % partition.queues % len(torus.paths)
    block = partition.block_of(element)
    for path in np.unique(number).tolist():
        table = torus.parts(path) if partition.contiguous else torus.places
        parts, which = np.unique(table, axis=0, return_inverse=True)
        mine = np.flatnonzero(number == path)
        kind = which.reshape(-1)[block[mine]]
        order = np.argsort(kind, kind="stable")
        ends = np.searchsorted(kind[order], np.arange(len(parts) + 1))
        for part, first, last in zip(parts.tolist(), ends, ends[1:]):
            here = mine[order[first:last]]
            result[here] = torus_partial(
                np.stack([array[here] for array in arrays]), torus, path=path, owner=part,
                operands=torus.nodes, rank=0, op=op,
            )
    return result


def translated_all_reduce(
    vector: np.ndarray, partition: Partition, torus: TorusPaths, *, op: ReduceOp
) -> np.ndarray:
    """The same as `rotated_all_reduce` on a torus: every rank has `translated` of *vector*.

    All parts of a phase have the same sum then, made in the same order, so one is made.
    """
    result = np.empty_like(vector)
    for path, _, place in _moved(partition, torus):
        way, part = torus.paths[path].way, vector[place]
        steps = torus.steps(CollectiveKind.ALL_REDUCE, path)
        if not partition.contiguous:
            for dimension in torus.paths[path].order:
                part = _first_part(part, torus, dimension, way, op, axis=dimension)
            steps = []
        alike = False  # at all ranks
        for dimension, kind in steps:
            if kind is not CollectiveKind.ALL_GATHER and alike:
                part = fold(partial(reduce, op), [part] * torus.shape[dimension])
            elif kind is not CollectiveKind.ALL_GATHER:
                part = _first_part(part, torus, dimension, way, op, axis=0)[0]
                alike = kind is CollectiveKind.ALL_REDUCE
        result[place] = np.broadcast_to(part, place.shape)
    return result


def _first_part(
    parts: NDArray, torus: TorusPaths, dimension: int, way: int, op: ReduceOp, *, axis: int
) -> NDArray:
    """Sum of the first of the *parts* along an axis, which each rank of a ring has moved on by its
    coordinate."""
    size, here = torus.shape[dimension], int(torus.places[0, dimension])
    ring = ring_order(0, nodes=size, direction=way) if size > 1 else [0]
    return fold(
        partial(reduce, op), (parts.take([(here - rank) % size], axis=axis) for rank in ring)
    )


def translated(
    vector: np.ndarray, partition: Partition, torus: TorusPaths
) -> list[np.ndarray]:
    """Vectors of all ranks, of which rank 0 has *vector* and each other one its image, moved on by
    its coordinates: shards, or the parts of contiguous chunks up to the first dimension that is
    all-reduced. Behind that, all ranks have the same, and parts of the next dimensions must be
    whole ones of that dimension (`sim.collectives.fold`)."""
    made = [np.empty_like(vector) for _ in range(torus.nodes)]
    ahead = (torus.places - torus.places[0]) % torus.shape
    for _, dimensions, place in _moved(partition, torus):
        for image, coordinates in zip(made, ahead.tolist()):
            image[place] = np.roll(
                vector[place], [coordinates[n] for n in dimensions], axis=range(len(dimensions))
            )
    return made


def _moved(
    partition: Partition, torus: TorusPaths
) -> Iterator[tuple[int, list[int], NDArray[np.int64]]]:
    """For each path, the dimensions by whose coordinates parts of the vector are moved on from
    rank to rank, and the elements of each part, an axis for each of the dimensions and a last one.
    """
    element = np.arange(partition.rounded)
    number = np.arange(partition.chunks) % partition.queues % len(torus.paths)
    for path in np.unique(number).tolist():
        chunks = np.flatnonzero(number == path)
        if partition.contiguous:
            steps = torus.steps(CollectiveKind.ALL_REDUCE, path)
            scatters = [n for n, kind in steps if kind is CollectiveKind.REDUCE_SCATTER]
            whole = [n for n, kind in steps if kind is CollectiveKind.ALL_REDUCE]
            dimensions = [*scatters, *whole[:1]]
            sizes = [torus.shape[n] for n in dimensions]
            place = element.reshape(partition.chunks, *sizes, -1)[chunks]
            yield path, dimensions, np.moveaxis(place, 0, -2).reshape(*sizes, -1)
            continue
        dims = len(torus.shape)
        inside = np.isin(partition.chunk_of(element[: partition.stride]), chunks)
        shards = element.reshape(partition.nodes, -1)[torus.ranks][:, inside]
        # Node numbers have the first dimension varying fastest.
        place = shards.reshape(*reversed(torus.shape), -1)
        yield path, list(range(dims)), place.transpose(*reversed(range(dims)), dims)


def torus_partial(
    values: NDArray,
    torus: TorusPaths,
    *,
    path: int,
    owner: Sequence[int],
    operands: int,
    rank: int,
    chain: bool = False,
    op: ReduceOp = ReduceOp.SUM_F32,
) -> NDArray:
    """Partial sum of a block, made of *operands* operands, as it comes to a rank or stays there.

    Parameters
    ----------
    values : array, ranks x elements
        The block's elements at each rank.
    torus : TorusPaths
    path : int
        Path of the block's chunk.
    owner : sequence of int
        By dimension, the node of the ring whose part the block is.
    rank : int
        The one that the packet comes to.
    operands : int
        Contributions in it.
    chain : bool
        The rank is to add its own: the last of them are the previous places' of a ring.
    op : ReduceOp
    """
    dims = len(torus.shape)
    # Node numbers have the first dimension varying fastest.
    part = values[torus.ranks].reshape(*reversed(torus.shape), -1)
    part = part.transpose(*reversed(range(dims)), dims)
    added, done = list[tuple[int, int]](), 1  # dimensions, and the nodes that have added there
    for dimension in torus.paths[path].order:
        taken = min(torus.shape[dimension], operands // done)
        whole = taken == torus.shape[dimension]
        if whole or chain:
            added.append((dimension, taken))
        if not whole:
            break
        done *= taken
    at = torus.places[rank]
    summed = {dimension for dimension, _ in added}
    for dimension in set(range(dims)) - summed:
        part = part.take([at[dimension]], axis=dimension)
    for dimension, taken in added:
        ring = ring_order(
            int(owner[dimension]), nodes=torus.shape[dimension],
            direction=torus.paths[path].way,
        )
        lines = (part.take([place], axis=dimension) for place in ring[:taken])
        part = fold(partial(reduce, op), lines)
    return part.reshape(-1)


def ring_partials(
    arrays: np.ndarray,
    partition: Partition,
    *,
    rank: int,
    op: ReduceOp = ReduceOp.SUM_F32,
    bidirectional: bool = True,
    rings: Sequence[Sequence[int]] = (),
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Partial results that pass a rank in an all-reduce or reduce-scatter, bit for bit.

    Parameters
    ----------
    arrays : array, ranks x elements
    partition, op, bidirectional, rings
        As for `ring_all_reduce`.
    rank : int

    Returns
    -------
    arriving, leaving, whole : arrays of *elements*
        Partial results as they come to this rank (zero where it is the first) and as they go on
        from it, and the final ones.
    """
    nodes, elements = arrays.shape
    owner = np.arange(elements) // partition.stride
    way, orders = _ways(partition, elements, bidirectional, rings)
    order = np.empty((nodes, elements), np.int64)
    for track in np.unique(way):
        order[:, way == track] = orders(track)[owner[way == track]].T
    before = arriving = leaving = np.zeros_like(arrays[0])
    for ranks, total in zip(order, _partials(arrays, order, op)):
        arriving = np.where(ranks == rank, before, arriving)
        leaving = np.where(ranks == rank, total, leaving)
        before = total
    return arriving, leaving, before


def _ways(
    partition: Partition,
    elements: int,
    bidirectional: bool,
    rings: Sequence[Sequence[int]],
    by: tuple[Algorithm, CollectiveKind] = (RING, CollectiveKind.ALL_REDUCE),
) -> tuple[NDArray[np.int64], Callable[[int], NDArray[np.int64]]]:
    """Track of each element, two tracks to a ring; and the order of additions on a track, blocks
    x ranks."""
    chunk = partition.chunk_of(np.arange(elements))
    queue, several = chunk % partition.queues, len(rings) or 1
    back = bidirectional & (queue // several % 2 == 1)

    def orders(track: int) -> NDArray[np.int64]:
        places = _order(*by, partition.nodes, -1 if track % 2 else 1)
        if not rings:
            return places
        ring = np.asarray(rings[track // 2])
        found = np.empty_like(places)
        found[ring] = ring[places]
        return found

    return queue % several * 2 + back, orders


def _partials(
    table: NDArray,
    order: NDArray[np.int64],
    op: ReduceOp,
    sent: Callable[[NDArray], NDArray] = lambda total: total,
) -> Iterator[NDArray]:
    """Sums in the order of the ranks, all elements at once; a rank passes on *sent* of its sum."""
    place = np.arange(table.shape[1])
    total = table[order[0], place]
    yield total
    for ranks in order[1:]:
        total = reduce(op, sent(total), table[ranks, place])
        yield total


def nic_all_reduce(
    arrays: Sequence[NDArray[np.float32]] | Sequence[NDArray[np.int32]],
    config: SmartNicConfig,
    *,
    op: ReduceOp = ReduceOp.SUM_F32,
    compress: bool = False,
) -> NDArray:
    """The vector that every rank holds after an all-reduce of smart NICs, bit for bit.

    Block *b* of a round starts at rank *b* and goes up the ring: every rank adds its own. With
    *compress*, what a rank sends is rounded to the format of the NIC's codec, the complete block
    included.

    Parameters
    ----------
    arrays : sequence of 1-D arrays of float32 or int32
        One vector per rank, all of the same length.
    config : SmartNicConfig
    op : ReduceOp
    compress : bool

    Raises
    ------
    ValueError
        *compress*, and the NIC has no codec; fewer than 2 or more than 256 arrays, or not all of
        them vectors of one length above 0.
    """
    _, whole = nic_ring_sums(arrays, config, rank=0, op=op, compress=compress)
    fmt = config.codec_format if compress else None
    return (whole if fmt is None else fmt.quantize(whole))[: len(arrays[0])]


def nic_ring_sums(
    arrays: Sequence[NDArray],
    config: SmartNicConfig,
    *,
    rank: int,
    op: ReduceOp = ReduceOp.SUM_F32,
    compress: bool = False,
) -> tuple[NDArray, NDArray]:
    """Sums that enter the encoders in an all-reduce of smart NICs, before rounding.

    Parameters are those of `nic_all_reduce`.

    Returns
    -------
    leaving, whole : arrays of ``NicPartition.padded`` elements
        The sums that *rank* makes, of its own block and of those that come to it; and the complete
        ones.
    """
    nodes = len(arrays)
    if not 2 <= nodes <= 256:
        raise FieldError("arrays", f"must be from 2 to 256 vectors, not {nodes}")
    shapes = {np.shape(array) for array in arrays}
    if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
        raise FieldError("arrays", f"must be vectors of one length, not of shapes {sorted(shapes)}")
    fmt = config.codec_format if compress else None
    if compress and fmt is None:
        raise FieldError("compress", "must be False for a NIC whose codec is 'none'")

    def sent(total: NDArray) -> NDArray:
        # Blocks start at whole blocks of the format, so the vector can be rounded as a whole.
        return total if fmt is None else fmt.quantize(total)

    cut = NicPartition(elements=len(arrays[0]), nodes=nodes, config=config)
    table = np.zeros((nodes, cut.padded), arrays[0].dtype)
    table[:, : cut.elements] = arrays
    order = _order(NIC_RING, CollectiveKind.ALL_REDUCE, nodes, 1)[cut.blocks()].T
    leaving = np.zeros_like(table[0])
    for ranks, total in zip(order, _partials(table, order, op, sent)):
        leaving = np.where(ranks == rank, total, leaving)
    return leaving, total

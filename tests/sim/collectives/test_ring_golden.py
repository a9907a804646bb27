# SPDX-License-Identifier: Apache-2.0
"""The golden result against loops that know nothing of partitions of arrays."""

import numpy as np
import pytest

from hw.fp.ops import ReduceOp
from hw.smartnic.config import preset as nic_preset
from sim.collectives.golden import (
    direction_of,
    nic_all_reduce,
    nic_ring_sums,
    ring_all_reduce,
    ring_order,
    ring_partials,
)
from sim.collectives.partition import NicPartition, Partition

PLAIN = {
    ReduceOp.SUM_F32: lambda a, b: np.float32(a + b),
    ReduceOp.MIN_F32: min,
    ReduceOp.MAX_F32: max,
    ReduceOp.SUM_I32: lambda a, b: np.uint32((int(a) + int(b)) % 2**32),
}


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("op", list(ReduceOp))
@pytest.mark.parametrize(
    "nodes, elements, queues", [(2, 1, 1), (3, 50, 2), (5, 333, 4), (8, 70, 3)]
)
def test_golden_is_what_a_loop_over_single_elements_gives(
    nodes, elements, queues, op, bidirectional
):
    plan = Partition.plan(
        elements, nodes, queues=queues, lanes=4, packet_elements=8, slot_elements=128
    )
    rng = np.random.default_rng(elements)
    if op is ReduceOp.SUM_I32:
        arrays = [rng.integers(0, 2**32, elements, np.uint32) for _ in range(nodes)]
    else:
        arrays = [rng.standard_normal(elements).astype(np.float32) for _ in range(nodes)]

    expected = []
    for element in range(elements):
        owner, within = divmod(element, plan.stride)
        backwards = bidirectional and within // plan.block % queues % 2 == 1
        rank = owner
        value = None
        for _ in range(nodes):
            rank = (rank - 1) % nodes if backwards else (rank + 1) % nodes
            mine = arrays[rank][element]
            value = mine if value is None else PLAIN[op](value, mine)
        assert rank == owner
        expected.append(value)

    golden = ring_all_reduce(arrays, plan, op=op, bidirectional=bidirectional)
    assert golden.tobytes() == np.array(expected, golden.dtype).tobytes()


def test_odd_queues_run_backwards_where_both_directions_are_used():
    directions = [direction_of(n, queues=4, bidirectional=True) for n in range(8)]
    assert directions == [1, -1, 1, -1] * 2
    assert [direction_of(n, queues=3, bidirectional=True) for n in range(6)] == [1, -1, 1] * 2
    assert {direction_of(n, queues=4, bidirectional=False) for n in range(8)} == {1}


def test_inputs_are_left_alone():
    arrays = [np.arange(10, dtype=np.float32) for _ in range(3)]
    plan = Partition.plan(10, 3, queues=1, lanes=4, packet_elements=16, slot_elements=512)
    ring_all_reduce(arrays, plan)
    assert all(np.array_equal(array, np.arange(10)) for array in arrays)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_partial_results_grow_by_one_contribution_per_rank(bidirectional):
    nodes, elements = 5, 203
    partition = Partition(elements=elements, nodes=nodes, stride=44, block=16, queues=2)
    arrays = np.random.default_rng(3).standard_normal((nodes, elements)).astype(np.float32)
    whole = ring_all_reduce(list(arrays), partition, bidirectional=bidirectional)
    for rank in range(nodes):
        arriving, leaving, total = ring_partials(
            arrays, partition, rank=rank, bidirectional=bidirectional
        )
        assert total.tobytes() == whole.tobytes()
        for chunk, block, place in partition.blocks():
            direction = direction_of(chunk, queues=2, bidirectional=bidirectional)
            order = ring_order(block, nodes=nodes, direction=direction)
            turn = order.index(rank)
            sums = np.zeros_like(arrays[0][place])
            for number, other in enumerate(order[: turn + 1]):
                if number == turn:
                    assert arriving[place].tobytes() == sums.tobytes()
                sums = arrays[other][place] if number == 0 else sums + arrays[other][place]
            assert leaving[place].tobytes() == sums.tobytes()


@pytest.mark.parametrize("compress", [False, True])
def test_the_rank_before_a_blocks_first_one_makes_the_whole_sum_of_the_nic(compress):
    config, nodes, elements = nic_preset("test"), 4, 333
    arrays = np.random.default_rng(2).standard_normal((nodes, elements)).astype(np.float32)
    blocks = NicPartition(elements=elements, nodes=nodes, config=config).blocks()
    padded = np.zeros((nodes, len(blocks)), np.float32)
    padded[:, :elements] = arrays
    for rank in range(nodes):
        leaving, whole = nic_ring_sums(arrays, config, rank=rank, compress=compress)
        first, last = blocks == rank, blocks == (rank + 1) % nodes
        assert (leaving[first] == padded[rank, first]).all()
        assert leaving[last].tobytes() == whole[last].tobytes()
    result = nic_all_reduce(arrays, config, compress=compress)
    expected = config.codec_format.quantize(whole) if compress else whole
    assert result.tobytes() == expected[:elements].tobytes()

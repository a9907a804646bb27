# SPDX-License-Identifier: Apache-2.0
"""Blocks tile the vector; every node gets the same cut."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.collectives.partition import Partition

GEOMETRY = {"queues": 2, "lanes": 4, "packet_elements": 16, "slot_elements": 512}


@st.composite
def partitions(draw):
    nodes = draw(st.integers(2, 16))
    lanes = draw(st.sampled_from([4, 8, 16, 32]))
    packet = lanes * draw(st.sampled_from([1, 2, 4, 8]))
    slot = packet * draw(st.integers(nodes, 80))
    block = draw(st.none() | st.integers(1, slot // nodes // lanes).map(lambda n: n * lanes))
    elements = draw(st.integers(1, 20) | st.integers(1, 5000))
    queues = draw(st.integers(1, 16))
    plan = Partition.plan(
        elements, nodes, queues=queues, lanes=lanes, packet_elements=packet, slot_elements=slot,
        block=block,
    )
    return plan, lanes, slot, block


@given(partitions())
@settings(max_examples=300, derandomize=True)
def test_blocks_hold_every_element_exactly_once(drawn):
    plan, *_ = drawn
    seen = [0] * plan.elements
    for _, _, part in plan.blocks():
        for element in range(part.start, part.stop):
            seen[element] += 1
    assert set(seen) == {1}


@given(partitions())
@settings(max_examples=200, derandomize=True)
def test_every_chunk_has_one_block_of_each_rank_inside_its_shard(drawn):
    plan, *_ = drawn
    blocks = list(plan.blocks())
    pairs = [(chunk, rank) for chunk, rank, _ in blocks]
    assert pairs == [(n, r) for n in range(plan.chunks) for r in range(plan.nodes)]
    for _, rank, part in blocks:
        shard = plan.shard(rank)
        assert part.stop - part.start <= plan.block
        assert part.start == part.stop or shard.start <= part.start < part.stop <= shard.stop


@given(partitions())
@settings(max_examples=200, derandomize=True)
def test_shards_follow_each_other_and_are_what_an_engine_takes(drawn):
    plan, lanes, slot, block = drawn
    shards = [plan.shard(rank) for rank in range(plan.nodes)]
    assert shards[0].start == 0
    assert shards[-1].stop == plan.elements
    assert all(a.stop == b.start for a, b in itertools.pairwise(shards))
    assert all(shard.stop - shard.start <= plan.stride for shard in shards)
    assert plan.stride % lanes == plan.block % lanes == 0
    assert plan.stride * plan.nodes >= plan.elements
    assert plan.block * plan.nodes <= slot
    assert block in (None, plan.block)
    assert (plan.chunks - 1) * plan.block < plan.stride <= plan.chunks * plan.block


def test_all_queues_get_work_if_there_is_enough():
    plan = Partition.plan(1000, 4, **(GEOMETRY | {"queues": 8}))
    assert plan.chunks >= 8


@pytest.mark.parametrize(
    "elements, nodes, changes, message",
    [
        (10, 1, {}, "nodes must be at least 2, not 1"),
        (10, 0, {}, "nodes must be at least 2, not 0"),
        (0, 2, {}, "elements must be at least 1, not 0"),
        (-5, 2, {}, "elements must be at least 1, not -5"),
        (10, 129, {}, r"nodes must be at most 128 \(beats of a slot\), not 129"),
        (10, 2, {"block": 0}, "block must be a multiple of 4 from 4 to 256, not 0"),
        (10, 2, {"block": 6}, "block must be a multiple of 4 from 4 to 256, not 6"),
        (10, 2, {"block": 260}, "block must be a multiple of 4 from 4 to 256, not 260"),
        (10, 2, {"block": -4}, "block must be a multiple of 4 from 4 to 256, not -4"),
    ],
)
def test_bad_cut_is_named_with_what_is_allowed(elements, nodes, changes, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Partition.plan(elements, nodes, **GEOMETRY, **changes)

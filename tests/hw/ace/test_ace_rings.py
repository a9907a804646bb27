# SPDX-License-Identifier: Apache-2.0
"""Rings of engines give, bit for bit, what numpy gives in the order that the ring defines."""

import random
from dataclasses import replace

import numpy as np
import pytest

from hw.ace.config import preset
from hw.fp.model import reduce
from hw.fp.ops import ReduceOp
from sim.collectives.fsm_program import PROGRAM_ENTRY
from sim.hosts.command import Command
from sim.rtl import driver
from sim.rtl.harness.specs import NodeSpec
from sim.workload.graph import CollectiveKind

LENGTHS = [1, 2, 3, 4, 5, 7, 16, 17, 31, 64, 97, 127, 251, 509, 1021, 2039, 4093]
MIXED = [random.Random(seed) for seed in range(20)]


def same_bits(a, b):
    np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


@pytest.mark.parametrize("nodes", range(2, 9))
def test_all_reduce_of_any_length_is_exact(ring, vectors, nodes):
    cluster = ring(nodes, latency_cycles=3, link_stalls=0.1, memory_stalls=0.1, seed=nodes)
    for elements in LENGTHS[nodes % 2 :: 2]:
        arrays = vectors(nodes, elements, seed=elements)
        for got in cluster.all_reduce(arrays, start_skew_cycles=100):
            same_bits(got, cluster.golden(arrays))


@pytest.mark.parametrize("op", list(ReduceOp))
@pytest.mark.parametrize("nodes", [2, 5])
def test_every_operation_is_exact_on_nan_infinity_and_signed_zero(ring, vectors, op, nodes):
    cluster = ring(nodes, link_stalls=0.2, seed=3)
    arrays = vectors(nodes, 601, op=op, odd=True)
    for got in cluster.all_reduce(arrays, op=op):
        same_bits(got, cluster.golden(arrays, op=op))
    shards = cluster.reduce_scatter(arrays, op=op)
    for rank, got in enumerate(shards):
        same_bits(got, cluster.golden(arrays, op=op)[cluster.program.shard(601, rank)])


@pytest.mark.parametrize("nodes", [2, 3, 8])
@pytest.mark.parametrize("elements", [1, 13, 257, 1500])
def test_reduce_scatter_and_all_gather_make_an_all_reduce(ring, vectors, nodes, elements):
    cluster = ring(nodes, latency_cycles=5, memory_stalls=0.2, seed=elements)
    arrays = vectors(nodes, elements)
    shards = cluster.reduce_scatter(arrays, start_skew_cycles=50)
    plan = cluster.program.cut(elements, collective=CollectiveKind.REDUCE_SCATTER)
    golden = cluster.golden(arrays)
    for rank, shard in enumerate(shards):
        same_bits(shard, golden[plan.shard(rank)])
    for got in cluster.all_gather(shards, elements, start_skew_cycles=50):
        same_bits(got, golden)


@pytest.mark.parametrize("rng", MIXED, ids=range(len(MIXED)))
def test_random_rings_are_exact_through_several_collectives(ring, vectors, rng, monkeypatch):
    nodes = rng.randint(2, 8)
    latencies = iter(rng.choices([1, 10, 60, 300], k=nodes))

    def node_spec(*, memory, **options):
        """A memory of its own latency for every node."""
        return NodeSpec(memory=replace(memory, read_latency_cycles=next(latencies)), **options)

    monkeypatch.setattr(driver, "NodeSpec", node_spec)
    cluster = ring(
        nodes, latency_cycles=rng.choice([1, 2, 9, 70, 500]), seed=rng.randrange(1000),
        link_stalls=rng.choice([0, 0.3, 0.7]), memory_stalls=rng.choice([0, 0.3, 0.7]),
    )
    for _ in range(3):
        elements = rng.randint(1, 1200)
        op = rng.choice(list(ReduceOp))
        largest = cluster.config.slot_elements // nodes // 4
        block = rng.choice([None, 4 * rng.randint(1, largest)])
        arrays = vectors(nodes, elements, op=op, odd=True, seed=elements)
        for got in cluster.all_reduce(arrays, op=op, block=block, start_skew_cycles=400):
            same_bits(got, cluster.golden(arrays, op=op, block=block))


@pytest.mark.parametrize("seed", range(8))
def test_commands_queued_at_once_complete_in_any_company(ring, vectors, seed):
    """As many as an engine promises to take, of all kinds, at different times on each node."""
    rng = random.Random(seed)
    nodes = rng.randint(2, 6)
    cluster = ring(nodes, latency_cycles=4, link_stalls=0.2, seed=seed)
    expected = []
    at = 0
    commands = cluster.config.commands
    for name in range(commands):
        elements = rng.choice([1, 30, rng.randint(2, 400)])
        collective = rng.choice(list(PROGRAM_ENTRY))
        block = rng.choice([None, 4, 16])
        plan = cluster.program.cut(elements, block=block, collective=CollectiveKind.ALL_REDUCE)
        arrays = vectors(nodes, elements, seed=name)
        golden = cluster.golden(arrays, block=block)
        source, destination = at, at + -(-4 * elements // 128) * 128
        at = destination + -(-4 * elements // 128) * 128
        for rank, node in enumerate(cluster.system.nodes):
            shard = plan.shard(rank)
            data, result = {
                CollectiveKind.ALL_REDUCE: (arrays[rank], golden),
                CollectiveKind.REDUCE_SCATTER: (arrays[rank], golden[shard]),
                CollectiveKind.ALL_GATHER: (golden[shard], golden),
            }[collective]
            node.memory[source : source + data.nbytes] = data.view(np.uint8)
            expected.append((node, destination, result))
            node.delay(rng.choice([0, 20, 500]))
            command = Command(
                collective=collective, elements=elements, block=block, source=source,
                destination=destination,
            )
            cluster.start(node, command)
        cluster.next_collective()
    cluster.system.run(max_cycles=200_000)

    for node, destination, result in expected:
        same_bits(node.memory[destination : destination + result.nbytes].view(np.float32), result)
        assert cluster.read(node, "completed")["count"] == commands


def test_names_of_collectives_may_come_round_again(ring, vectors):
    cluster = ring(2, read_latency_cycles=5)
    arrays = vectors(2, 9)
    for name in range(260):
        cluster.next_collective()
        if name % 50 < 4:
            same_bits(cluster.all_reduce(arrays)[1], cluster.golden(arrays))


@pytest.mark.parametrize("nodes", [2, 6])
def test_result_is_the_plain_sum_where_sums_are_exact(ring, nodes):
    """An oracle without partition or order."""
    cluster = ring(nodes, latency_cycles=2)
    rng = np.random.default_rng(nodes)
    arrays = [rng.integers(-1000, 1000, 700).astype(np.float32) for _ in range(nodes)]
    for got in cluster.all_reduce(arrays):
        same_bits(got, np.sum(arrays, axis=0, dtype=np.float32))


def test_order_of_additions_matters_and_is_the_golden_one(ring):
    """Otherwise bit-exactness would prove nothing about order."""
    cluster = ring(4)
    arrays = [np.full(64, value, np.float32) for value in (1e8, 1.0, -1e8, 3.0)]
    golden = cluster.golden(arrays)
    same_bits(cluster.all_reduce(arrays)[2], golden)
    in_rank_order = reduce(
        ReduceOp.SUM_F32,
        reduce(ReduceOp.SUM_F32, reduce(ReduceOp.SUM_F32, arrays[0], arrays[1]), arrays[2]),
        arrays[3],
    )
    assert not np.array_equal(golden, in_rank_order)


# Built apart from the test preset: the least that an engine can have.
TINY = replace(
    preset("test"), contexts=1, rx_packets=2, tx_packets=2, packet_bytes=32, sram_bytes=8 << 10,
    alu_stages=1, commands=1, bank_ports="1rw",
)


def test_smallest_buffers_and_one_context_still_complete(ring, vectors):
    for nodes in (2, 3, 7):
        cluster = ring(nodes, config=TINY, latency_cycles=6, link_stalls=0.3, memory_stalls=0.3)
        arrays = vectors(nodes, 301, odd=True)
        for _ in range(2):
            for got in cluster.all_reduce(arrays, start_skew_cycles=900, max_cycles=300_000):
                same_bits(got, cluster.golden(arrays))


@pytest.mark.full
def test_both_directions_of_the_duo_are_exact(ring, vectors):
    for nodes in (2, 3, 4, 8):
        cluster = ring(nodes, config="duo", latency_cycles=11, link_stalls=0.2, memory_stalls=0.2)
        for elements in (1, 33, 997, 5000):
            arrays = vectors(nodes, elements, odd=True, seed=elements)
            for got in cluster.all_reduce(arrays, start_skew_cycles=200):
                same_bits(got, cluster.golden(arrays))

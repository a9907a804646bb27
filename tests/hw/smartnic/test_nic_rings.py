# SPDX-License-Identifier: Apache-2.0
"""Rings of compiled NICs against the golden model, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest

from hw.fp.ops import ReduceOp
from hw.smartnic.config import preset
from sim.collectives.golden import nic_all_reduce
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.rtl.driver import Request, reduction
from sim.rtl.smartnic.ring import NicRing
from sim.workload.graph import CollectiveKind

TEST = preset("test")
# Two engines share the rounds, frames without addresses, blocks of two scales per rank at least.
PAIR = replace(TEST, engines=2, ethernet=False, codec="mxint8", compressed_frame_beats=1)


def vectors(rng, nodes, elements, op=ReduceOp.SUM_F32):
    if op is ReduceOp.SUM_I32:
        return [rng.integers(-(2**31), 2**31, elements, dtype=np.int32) for _ in range(nodes)]
    scale = 2.0 ** rng.integers(-8, 8, elements)
    return [(rng.standard_normal(elements) * scale).astype(np.float32) for _ in range(nodes)]


def assert_golden(config, reductions, results):
    for each, outputs in zip(reductions, results, strict=True):
        op = each.op or ReduceOp.SUM_F32
        golden = nic_all_reduce(each.inputs, config, op=op, compress=each.compress)
        for rank, output in enumerate(outputs):
            wrong = np.flatnonzero(output.view(np.uint32) != golden.view(np.uint32))
            assert not len(wrong), f"rank {rank}: {len(wrong)} differ, first element {wrong[0]}"


@pytest.mark.parametrize("config", [TEST, PAIR], ids=["test", "pair"])
@pytest.mark.parametrize("nodes", [2, 3, 7, 16])
def test_every_rank_ends_with_the_golden_bits(config, nodes):
    rng = np.random.default_rng(nodes)
    for elements in (1, 8, 33, int(rng.integers(100, 1200)), int(rng.integers(1200, 6000))):
        for stalls in (0.0, 0.3):
            settings = Surroundings(
                nodes=nodes,
                latency_cycles=int(rng.integers(1, 40)),
                link_stalls=stalls,
                memory_stalls=stalls,
                host_stalls=stalls,
                seed=elements,
            )
            ring = NicRing(config, settings)
            reductions = [
                Request(inputs=vectors(rng, nodes, elements), compress=compress)
                for compress in (False, True)
            ]

            results = ring.run(*reductions, max_cycles=500_000)

            assert_golden(config, reductions, results)


@pytest.mark.parametrize("op", list(ReduceOp))
def test_every_operation_is_reduced(op):
    ring = NicRing(TEST, Surroundings(nodes=4, latency_cycles=9))
    reductions = [Request(inputs=vectors(np.random.default_rng(3), 4, 500, op), op=op)]

    assert_golden(TEST, reductions, ring.run(*reductions, max_cycles=100_000))


def test_result_may_replace_the_local_vector():
    rng = np.random.default_rng(5)
    settings = Surroundings(nodes=3, latency_cycles=30, memory_stalls=0.3, link_stalls=0.3)
    ring = NicRing(TEST, settings)
    reductions = [
        Request(inputs=vectors(rng, 3, 2000), compress=compress, in_place=True)
        for compress in (True, False)
    ]

    assert_golden(TEST, reductions, ring.run(*reductions, max_cycles=200_000))


def test_queued_all_reduces_of_all_kinds_keep_their_order_on_nodes_that_start_apart():
    rng = np.random.default_rng(6)
    ring = NicRing(TEST, Surroundings(nodes=5, latency_cycles=12, link_stalls=0.2))
    reductions = [
        Request(inputs=vectors(rng, 5, 900)),
        Request(inputs=vectors(rng, 5, 40), compress=True),
        Request(inputs=vectors(rng, 5, 7, ReduceOp.SUM_I32), op=ReduceOp.SUM_I32),
        Request(inputs=vectors(rng, 5, 1700), compress=True),
    ]

    results = ring.run(*reductions, max_cycles=200_000, start_skew_cycles=2000)

    assert_golden(TEST, reductions, results)


def test_each_beat_crosses_the_host_port_once_each_way_and_the_network_only_as_often_as_needed():
    nodes, elements = 6, 4000
    ring = NicRing(TEST, Surroundings(nodes=nodes))
    beats = elements // TEST.lanes

    ring.all_reduce(vectors(np.random.default_rng(7), nodes, elements))

    share = -(-beats // (nodes * TEST.granule)) * TEST.granule
    for rank, node in enumerate(ring.system.nodes):
        memory = ring.system.memory_activity(rank, 0)
        assert memory.read_bytes == memory.written_bytes == 4 * elements
        frames = ring.read(node, "frames_sent", 0)["count"]
        assert ring.system.link_activity(rank, 0).beats - frames == 2 * (nodes - 1) * share


@pytest.mark.full
def test_a_ring_of_256_nodes_is_within_reach_of_all_fields():
    config = replace(TEST, codec="none")
    ring = NicRing(config, Surroundings(nodes=256, latency_cycles=1, memory_bytes=1 << 13))
    reductions = [Request(inputs=vectors(np.random.default_rng(8), 256, 700))]

    assert_golden(config, reductions, ring.run(*reductions, max_cycles=100_000))


@pytest.mark.parametrize(
    "request_, message",
    [
        ({"compress": True, "op": ReduceOp.SUM_I32}, "op must be sum_f32 or min_f32 or max_f32 "),
        ({"collective": CollectiveKind.REDUCE_SCATTER}, "collective must be all_reduce for NICs"),
        ({"block": 8}, "block must be None for NICs, not 8"),
    ],
)
def test_what_a_nic_does_not_have_is_refused(request_, message):
    ring = NicRing(TEST, Surroundings(nodes=2))
    with pytest.raises(ValueError, match=f"^{message}"):
        ring.run(Request(inputs=[np.ones(4, np.float32)] * 2, **request_))


def test_compression_needs_a_codec_and_floats():
    for config, dtype in (replace(TEST, codec="none"), np.float32), (TEST, np.int32):
        command = Command(elements=4, compress=True, op=reduction(None, np.dtype(dtype)))
        with pytest.raises(ValueError, match=r"^compress must be False for codec"):
            NicRing.check_command(config, Surroundings(nodes=2), command)


def test_a_ring_of_too_many_nodes_is_refused():
    with pytest.raises(ValueError, match=r"^nodes must be from 2 to 256, not 257$"):
        NicRing(TEST, Surroundings(nodes=257))


def test_more_all_reduces_than_can_be_queued_are_refused():
    ring = NicRing(TEST, Surroundings(nodes=2))
    request = Request(inputs=[np.ones(4, np.float32)] * 2)
    for count in (0, TEST.descriptors + 1):
        with pytest.raises(ValueError, match=f"^requests must be from 1 to .*, not {count}$"):
            ring.run(*[request] * count)

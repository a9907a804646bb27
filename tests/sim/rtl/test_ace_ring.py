# SPDX-License-Identifier: Apache-2.0
"""Mistakes in driving a ring are named, and the ring works on."""

from dataclasses import replace

import numpy as np
import pytest

from hw.ace.config import preset
from hw.fp.ops import ReduceOp
from sim.hosts.surroundings import Surroundings
from sim.hosts.wiring import EngineWiring
from sim.network.network import Network
from sim.rtl.ace.ring import AceRing
from sim.rtl.driver import Request
from sim.rtl.errors import CommandRefusedError, MemoryAccessError, PacketDroppedError
from sim.rtl.harness.specs import HeaderFault
from sim.rtl.harness.system import CycleLimitError
from sim.workload.graph import CollectiveKind


@pytest.fixture(scope="module")
def ring():
    return AceRing("test", Surroundings(nodes=3, memory_bytes=8192))


def _vectors(elements, *, nodes=3, dtype=np.float32):
    return [np.arange(elements).astype(dtype) + rank for rank in range(nodes)]


def _works(ring):
    arrays = _vectors(100)
    golden = ring.golden(arrays)
    return all(got.tobytes() == golden.tobytes() for got in ring.all_reduce(arrays))


@pytest.mark.parametrize(
    "config, settings, message",
    [
        ("test", {"nodes": 1}, "nodes must be an integer at least 2, not 1"),
        ("test", {"nodes": 9}, "nodes must be from 2 to 8 for this engine, not 9"),
        ("test", {"nodes": 2, "fsms": 2}, "fsms must be from 1 to 1 for this engine, not 2"),
        ("test", {"nodes": 2, "fsms": 0}, "fsms must be an integer at least 1, not 0"),
        (
            "no",
            {"nodes": 2},
            "preset must be one of 'test', 'duo', 'ring', 'wide', 'isca21', 'torus', not 'no'",
        ),
    ],
)
def test_bad_ring_is_named_with_what_is_allowed(config, settings, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        AceRing(config, Surroundings(**settings))


@pytest.mark.parametrize(
    "arrays, options, message",
    [
        (_vectors(0), {}, "elements must be an integer from 1 to 4294967295, not 0"),
        ([], {}, r"inputs must be one array per rank \(3\), not 0"),
        (_vectors(10, nodes=2), {}, r"inputs must be one array per rank \(3\), not 2"),
        ([*_vectors(10, nodes=2), np.zeros(9, np.float32)], {},
         r"inputs\[2\] must be 10 elements of float32 in one dimension, not \(9,\) of float32"),
        (_vectors(10, dtype=np.float64), {},
         "vectors must hold float32 or int32 or uint32, not float64"),
        ([[1.5] * 10] * 3, {}, "vectors must hold .*, not float64"),
        ([np.zeros(10, ">f4")] * 3, {}, "vectors must hold .*, not >f4"),
        ([*_vectors(10, nodes=2), np.zeros(10, np.int32)], {},
         r"inputs\[2\] must be 10 elements of float32 in one dimension, not \(10,\) of int32"),
        (_vectors(10), {"op": "sum_i32"},
         "op must be sum_f32 or min_f32 or max_f32 for float32 vectors, not 'sum_i32'"),
        (_vectors(10, dtype=np.int32), {"op": ReduceOp.SUM_F32},
         "op must be sum_i32 for int32 vectors, not <ReduceOp.SUM_F32: 0>"),
        (_vectors(10), {"op": "average"}, "op must be .* for float32 vectors, not 'average'"),
        (_vectors(10), {"compress": True}, "compress must be False for ACE, which has no codec"),
        ([np.zeros((2, 5), np.float32)] * 2 + [np.zeros((5, 2), np.float32)], {},
         r"inputs\[0\] must be 2 elements of float32"),
        (_vectors(1025), {}, "memory_bytes must be at least .* for 1025 elements, not 8192"),
        (_vectors(10), {"block": 6}, "block must be a multiple of 4 from 4 to 168, not 6"),
    ],
)
def test_bad_vectors_are_named_and_the_ring_works_on(ring, arrays, options, message):
    with pytest.raises(ValueError, match=message):
        ring.all_reduce(arrays, **options)
    assert _works(ring)


def test_the_sum_is_that_of_the_vectors_type(ring):
    integers = [np.array([1 << 30, 3, -5, rank], np.int32) for rank in range(3)]
    for dtype in (np.int32, np.uint32):
        arrays = [array.astype(dtype) for array in integers]
        for got in ring.all_reduce(arrays):
            np.testing.assert_array_equal(got, np.sum(arrays, axis=0, dtype=dtype))
        assert ring.golden(arrays).tobytes() == np.sum(arrays, axis=0, dtype=dtype).tobytes()
    assert ring.all_gather([np.arange(4, dtype=np.int32)] * 2 + [np.zeros(0, np.int32)], 8)[
        0
    ].tolist() == [*range(4), *range(4)]


@pytest.mark.parametrize("op", ["max_f32", ReduceOp.MAX_F32])
def test_an_operation_may_be_given_by_name(ring, op):
    assert ring.all_reduce(_vectors(5), op=op)[0].tolist() == [2, 3, 4, 5, 6]
    assert ring.reduce_scatter(_vectors(5), op=op)[1].tolist() == [6]


def test_the_result_may_replace_the_local_vector(ring):
    arrays = _vectors(1900)
    results = ring.all_reduce(arrays, in_place=True)
    assert all(got.tobytes() == ring.golden(arrays).tobytes() for got in results)
    with pytest.raises(ValueError, match="in_place must be False for all but all-reduces"):
        ring.run(Request(inputs=arrays, collective=CollectiveKind.REDUCE_SCATTER, in_place=True))


def test_several_collectives_are_queued_one_behind_the_other(ring):
    requests = [
        Request(inputs=_vectors(300)),
        Request(inputs=_vectors(200, dtype=np.int32)),
        Request(inputs=_vectors(200), collective=CollectiveKind.REDUCE_SCATTER),
    ]
    sums, integers, shards = ring.run(*requests, start_skew_cycles=300)
    assert all(got.tobytes() == ring.golden(_vectors(300)).tobytes() for got in sums)
    assert all(got.tolist() == [3 * n + 3 for n in range(200)] for got in integers)
    assert np.concatenate(shards).tolist() == [3 * n + 3 for n in range(200)]
    assert _works(ring)


def test_too_many_collectives_at_once_are_refused(ring):
    most = ring.outstanding(ring.config)
    with pytest.raises(ValueError, match=f"requests must be from 1 to {most} collectives, not "):
        ring.run(*[Request(inputs=_vectors(4))] * (most + 1))


def test_a_lost_packet_among_several_collectives_is_reported_and_recovered_from():
    fault = HeaderFault(node=1, port=0, packet=3, bits=(5,))
    ring = AceRing("test", Surroundings(nodes=3, memory_bytes=8192), faults=[fault])
    with pytest.raises(PacketDroppedError, match="node 2 dropped a packet"):
        ring.run(*[Request(inputs=_vectors(300))] * 2)
    assert _works(ring)


def test_a_ring_that_is_not_done_in_time_says_where_it_stands(ring):
    with pytest.raises(CycleLimitError, match=r"not finished after 300 .*; engines by rank: 0 bus"):
        ring.all_reduce(_vectors(900), max_cycles=300)
    ring.system.give_up_waits()
    ring.system.run()
    ring.recover()
    assert _works(ring)


def test_wrong_shard_is_named_and_the_ring_works_on(ring):
    shards = [np.zeros(4, np.float32)] * 3
    with pytest.raises(ValueError, match=r"inputs\[2\] must be 2 elements of float32"):
        ring.all_gather(shards, 10)
    assert _works(ring)


def test_largest_vector_that_fits_memory_works(ring):
    arrays = _vectors(1024)
    assert ring.all_reduce(arrays)[0].tobytes() == ring.golden(arrays).tobytes()


def test_refused_command_is_an_error_that_tells_node_and_reason(ring):
    for node in ring.system.nodes:
        ring.write(node, "memory_end_low", 255)
    with pytest.raises(
        CommandRefusedError, match="node 0 refused the command: the payload must lie within memory"
    ):
        ring.all_reduce(_vectors(100))
    for node in ring.system.nodes:
        ring.write(node, "memory_end_low", 8191)
    assert _works(ring)


def test_memory_that_ends_early_is_an_error_and_the_ring_works_on():
    ring = AceRing("test", Surroundings(nodes=3, memory_bytes=8192))
    for node in ring.system.nodes:
        ring.write(node, "memory_end_low", (1 << 20) - 1)
    ring.settings = Surroundings(nodes=3, memory_bytes=1 << 20)  # what software believes
    with pytest.raises(MemoryAccessError, match="memory of node 0 answered with an error"):
        ring.all_reduce(_vectors(2040))
    ring.settings = Surroundings(nodes=3, memory_bytes=8192)
    assert _works(ring)


def test_ports_of_an_embedding_are_checked():
    network = Network.torus((3, 3), bandwidth_bytes_per_s=16e9)
    wiring = EngineWiring.hamiltonian(network, clock_hz=1e9, bus_bytes=16)
    with pytest.raises(ValueError, match="ports must be at least 4 for these links, not 2"):
        AceRing(replace(preset("test"), max_nodes=16), Surroundings(nodes=9, wiring=wiring))
    with pytest.raises(ValueError, match="wiring must have rings of 8 ranks, not 9"):
        Surroundings(nodes=8, wiring=wiring)

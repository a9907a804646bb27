"""Mistakes in driving a ring are named, and the ring works on."""

import numpy as np
import pytest

from hw.ace.config import preset
from sim.rtl.ace_ring import (
    CommandRefusedError,
    MemoryAccessError,
    RingCluster,
    RingSettings,
)
from sim.rtl.specs import LinkSpec


@pytest.fixture(scope="module")
def ring():
    return RingCluster("test", RingSettings(nodes=3, memory_bytes=8192))


def _vectors(elements, *, nodes=3, dtype=np.float32):
    return [np.arange(elements).astype(dtype) + rank for rank in range(nodes)]


def _works(ring):
    arrays = _vectors(100)
    golden = ring.golden(arrays)
    return all(got.tobytes() == golden.tobytes() for got in ring.all_reduce(arrays))


@pytest.mark.parametrize(
    "config, settings, message",
    [
        ("test", {"nodes": 1}, "nodes must be from 2 to 8 for this engine, not 1"),
        ("test", {"nodes": 0}, "nodes must be from 2 to 8 for this engine, not 0"),
        ("test", {"nodes": 9}, "nodes must be from 2 to 8 for this engine, not 9"),
        ("test", {"nodes": 2, "queues": 2}, "queues must be from 1 to 1 for this engine, not 2"),
        ("test", {"nodes": 2, "queues": 0}, "queues must be from 1 to 1 for this engine, not 0"),
        ("test", {"nodes": 2, "memory_bytes": 1000},
         "memory_bytes must be a multiple of 128, not 1000"),
        ("no", {"nodes": 2}, "preset must be one of test, duo, ring, wide, isca21, not 'no'"),
        ("test", {"nodes": 2, "latency_cycles": 0}, "latency_cycles must be at least 1, not 0"),
        ("test", {"nodes": 2, "link_stalls": 1.0},
         "stall_probability must be at least 0 and below 1, not 1.0"),
    ],
)
def test_bad_ring_is_named_with_what_is_allowed(config, settings, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        RingCluster(config, RingSettings(**settings))


@pytest.mark.parametrize(
    "arrays, options, message",
    [
        (_vectors(0), {}, "elements must be at least 1, not 0"),
        ([], {}, r"inputs must be one array per rank \(3\), not 0"),
        (_vectors(10, nodes=2), {}, r"inputs must be one array per rank \(3\), not 2"),
        ([*_vectors(10, nodes=2), np.zeros(9, np.float32)], {},
         r"inputs\[2\] must be 10 elements of 4 bytes in one dimension, not \(9,\) of float32"),
        (_vectors(10, dtype=np.float64), {}, r"inputs\[0\] must be 10 elements of 4 bytes"),
        ([np.zeros((2, 5), np.float32)] * 3, {}, r"inputs\[0\] must be 2 elements of 4 bytes"),
        (_vectors(1025), {}, "memory_bytes must be at least .* for 1025 elements, not 8192"),
        (_vectors(10), {"block": 6}, "block must be a multiple of 4 from 4 to 168, not 6"),
    ],
)
def test_bad_vectors_are_named_and_the_ring_works_on(ring, arrays, options, message):
    with pytest.raises(ValueError, match=message):
        ring.all_reduce(arrays, **options)
    assert _works(ring)


def test_wrong_shard_is_named_and_the_ring_works_on(ring):
    shards = [np.zeros(4, np.float32)] * 3
    with pytest.raises(ValueError, match=r"inputs\[2\] must be 2 elements of 4 bytes"):
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
    ring = RingCluster("test", RingSettings(nodes=3, memory_bytes=8192))
    for node in ring.system.nodes:
        ring.write(node, "memory_end_low", (1 << 20) - 1)
    ring.settings = RingSettings(nodes=3, memory_bytes=1 << 20)  # what software believes
    with pytest.raises(MemoryAccessError, match="memory of node 0 answered with an error"):
        ring.all_reduce(_vectors(2040))
    ring.settings = RingSettings(nodes=3, memory_bytes=8192)
    assert _works(ring)


def test_ports_of_an_embedding_are_checked():
    links = [LinkSpec(node_a=0, port_a=5, node_b=1, port_b=1)]
    with pytest.raises(ValueError, match="port must be below node 0's 2 link ports, not 5"):
        RingCluster(preset("test"), RingSettings(nodes=2), links=links)

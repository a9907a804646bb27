"""Rings of ACE engines over wires that lose, repeat and damage frames: bit-exact all the same."""

import numpy as np
import pytest

from hw.ace.config import preset
from hw.link.retry_frame import RetryConfig
from sim.cycles.ring import RingSettings
from sim.rtl.ace_ring import AceRing
from sim.rtl.errors import GivenUpError, PacketDroppedError
from tb.link.lossy import bad_wires

RETRY = RetryConfig(slots=16, timeout_cycles=180, tries=30)


def vectors(nodes, elements):
    return [np.random.default_rng(rank).standard_normal(elements).astype(np.float32)
            for rank in range(nodes)]


def struck(ring):
    return sum(ring.system.struck(rank, port) for rank in ring.ranks for port in (0, 1))


@pytest.mark.parametrize("nodes, latency, probability, stalls", [
    (2, 1, 0.0, 0.0), (4, 5, 0.01, 0.0), (4, 40, 0.1, 0.0), (3, 9, 0.05, 0.2),
])
def test_all_reduces_are_exact(nodes, latency, probability, stalls):
    settings = RingSettings(nodes=nodes, latency_cycles=latency, memory_bytes=1 << 17,
                            link_stalls=stalls, memory_stalls=stalls, seed=nodes,
                            retry=RETRY, **bad_wires(probability))
    ring = AceRing(preset("test"), settings)

    for elements in (3000, 17):
        inputs = vectors(nodes, elements)
        for result in ring.all_reduce(inputs):
            assert result.tobytes() == ring.golden(inputs).tobytes()

    assert struck(ring) > 5 * nodes or not probability
    # What was lost was repeated: the engines have not seen any of it.
    for node in ring.system.nodes:
        for name in ("damaged", "repeated"):
            assert [ring.read(node, name, port)["count"] for port in (0, 1)] == [0, 0]


def test_the_same_faults_without_retry_are_reported():
    settings = RingSettings(nodes=4, latency_cycles=5, memory_bytes=1 << 17, seed=1,
                            **bad_wires(0.01))
    ring = AceRing(preset("test"), settings)

    with pytest.raises((PacketDroppedError, GivenUpError)):
        ring.all_reduce(vectors(4, 3000))


def test_a_node_that_is_reset_alone_joins_again():
    settings = RingSettings(nodes=4, latency_cycles=5, memory_bytes=1 << 17, seed=1,
                            retry=RETRY, **bad_wires(0.02))
    ring = AceRing(preset("test"), settings)
    inputs = vectors(4, 1000)
    assert ring.all_reduce(inputs)[0].tobytes() == ring.golden(inputs).tobytes()

    node = ring.system.nodes[2]
    node.reset_engine()
    ring.perform(node, ring.set_up(2))
    ring.system.run(drain=False)
    ring.recover()

    assert all(each.tobytes() == ring.golden(inputs).tobytes()
               for each in ring.all_reduce(inputs))

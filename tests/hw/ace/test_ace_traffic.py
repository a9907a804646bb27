# SPDX-License-Identifier: Apache-2.0
"""What crosses the links is what the algorithm asks for, and nothing depends on how it is run."""

import numpy as np
import pytest

from sim.workload.graph import CollectiveKind

LATENCY = 7
STALLS = {"latency_cycles": LATENCY, "link_stalls": 0.25, "memory_stalls": 0.25, "seed": 11}


def _observe(ring, vectors, **options):
    """Cycles and bits of two collectives with a pause in between."""
    cluster = ring(3, options={"record_beats": True, **options}, **STALLS)
    seen = []
    for elements in (700, 90):
        outputs = cluster.all_reduce(vectors(3, elements), start_skew_cycles=300)
        run = cluster.last_run
        seen += [run.first_cycle, run.end_cycle, run.last_host_cycle]
        seen += [output.tobytes() for output in outputs]
        for node in cluster.system.nodes:
            node.delay(500)
        cluster.system.run()
    for rank, node in enumerate(cluster.system.nodes):
        seen.append(node.memory.tobytes())
        for port in (0, 1):
            activity = cluster.system.link_activity(rank, port)
            seen += [activity.beat_cycles.tolist(), activity.stalled_cycles]
        for register in ("bank_conflicts", "alu_conflicts"):
            seen.append(cluster.read(node, register))
        for register in ("parked", "starved", "sent", "received", "unexpected"):
            seen += [cluster.read(node, register, port) for port in (0, 1)]
    return seen


@pytest.fixture(scope="module")
def reference():
    return {}


@pytest.mark.parametrize("skip_idle", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("window_cycles", [1, 2, 3, 5, LATENCY])
def test_windows_threads_and_skipping_change_nothing(
    ring, vectors, reference, window_cycles, threads, skip_idle
):
    if not reference:
        reference["seen"] = _observe(ring, vectors)
    seen = _observe(
        ring, vectors, window_cycles=window_cycles, threads=threads, skip_idle=skip_idle
    )
    assert seen == reference["seen"]


def test_equal_seeds_give_equal_runs_and_others_do_not(ring, vectors):
    def run(seed):
        cluster = ring(3, **(STALLS | {"seed": seed}))
        outputs = cluster.all_reduce(vectors(3, 500), start_skew_cycles=100)
        return cluster.last_run.end_cycle, [output.tobytes() for output in outputs]

    assert run(1) == run(1)
    assert run(1)[0] != run(2)[0]
    assert run(1)[1] == run(2)[1]


@pytest.mark.parametrize("nodes", [2, 3, 5, 8])
@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter", "all_gather"])
def test_links_carry_exactly_the_blocks_of_the_algorithm(ring, vectors, collective, nodes):
    elements = 777
    cluster = ring(nodes, **STALLS)
    plan = cluster.program.cut(elements, block=12, collective=CollectiveKind(collective))
    arrays = vectors(nodes, elements)
    if collective == "all_gather":
        shards = [arrays[0][plan.shard(rank)] for rank in range(nodes)]
        cluster.all_gather(shards, elements, block=12)
        times = nodes - 1
    else:
        getattr(cluster, collective)(arrays, block=12, start_skew_cycles=200)
        times = (nodes - 1) * (2 if collective == "all_reduce" else 1)

    # One flit is 4 elements, a packet 16: a block of 12 is one packet, empty or not.
    flits = sum(-(-(part.stop - part.start) // 4) for _, _, part in plan.blocks())
    ahead = [cluster.system.link_activity(rank, 0) for rank in range(nodes)]
    back = [cluster.system.link_activity(rank, 1) for rank in range(nodes)]
    assert sum(a.payload_flits for a in ahead) == times * flits
    assert [a.header_flits for a in ahead] == [times * plan.chunks] * nodes
    assert [(a.header_flits, a.payload_flits) for a in back] == [(plan.chunks, 0)] * nodes

    for rank, node in enumerate(cluster.system.nodes):
        following = cluster.system.nodes[(rank + 1) % nodes]
        beats = cluster.read(node, "sent", 0)["beats"]
        assert beats == ahead[rank].beats == cluster.read(following, "received", 1)["beats"]
        beats = cluster.read(following, "sent", 1)["beats"]
        assert beats == back[(rank + 1) % nodes].beats == cluster.read(node, "received", 0)["beats"]
        for port in (0, 1):
            assert cluster.read(node, "unexpected", port)["count"] == 0
            assert cluster.read(node, "damaged", port)["count"] == 0


@pytest.mark.parametrize("nodes", [2, 4])
def test_memory_is_read_and_written_once(ring, vectors, nodes):
    elements = 1001
    cluster = ring(nodes, **STALLS)
    cluster.all_reduce(vectors(nodes, elements))
    for rank in range(nodes):
        activity = cluster.system.memory_activity(rank, 0)
        assert activity.written_bytes == 4 * elements
        assert activity.read_bytes == 4 * -(-elements // 4) * 4  # whole beats
        assert activity.decode_errors == 0


def test_nothing_outside_source_and_destination_is_written(ring, vectors):
    cluster = ring(3, memory_stalls=0.3)
    elements = 333
    for node in cluster.system.nodes:
        node.memory[:] = 0xA5
    outputs = cluster.all_reduce(vectors(3, elements), start_skew_cycles=99)
    at = -(-4 * elements // 128) * 128
    for node, output in zip(cluster.system.nodes, outputs, strict=True):
        after = node.memory.copy()
        assert after[at : at + 4 * elements].tobytes() == output.tobytes()
        after[: 4 * elements] = after[at : at + 4 * elements] = 0xA5
        assert np.all(after == 0xA5)


def test_packets_are_parked_where_links_stall_and_none_are_lost(ring, vectors):
    cluster = ring(4, link_stalls=0.7, latency_cycles=20, seed=2)
    arrays = vectors(4, 1500)
    for got in cluster.all_reduce(arrays, start_skew_cycles=2000):
        assert got.tobytes() == cluster.golden(arrays).tobytes()
    parked = [cluster.read(node, "parked", 1)["count"] for node in cluster.system.nodes]
    assert sum(parked) > 50


def test_links_are_busy_all_the_time_between_start_and_end(ring, vectors):
    """One FSM of the smallest engine: most cycles of a link carry a beat."""
    cluster = ring(4, latency_cycles=2, read_latency_cycles=20, options={"record_beats": True})
    cluster.all_reduce(vectors(4, 6000))
    for rank in range(4):
        assert cluster.system.link_activity(rank, 0).steady_state().beat_share > 0.6


def test_engines_are_at_rest_after_a_collective(ring, vectors):
    cluster = ring(2)
    cluster.all_reduce(vectors(2, 50))
    for node in cluster.system.nodes:
        assert node.output("idle") == 1
        assert node.output("irq") == 0
        status = cluster.read(node, "status")
        assert {name for name, value in status.items() if value} == {"idle"}
        assert cluster.read(node, "completed") == {"count": 1, "collective": 0}

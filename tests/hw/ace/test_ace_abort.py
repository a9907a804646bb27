# SPDX-License-Identifier: Apache-2.0
"""After a lost packet, or whenever software wants, abort makes the ring usable again."""

import random

import numpy as np
import pytest

from hw.fp.ops import ReduceOp
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.ring import AceRing
from sim.rtl.errors import PacketDroppedError
from sim.rtl.harness.specs import HeaderFault
from sim.rtl.harness.system import CycleLimitError
from sim.workload.graph import CollectiveKind
from tests.hw.ace.exits import assert_exact, recover, start


@pytest.mark.parametrize(
    "port, packet, bits",
    [
        (0, 0, (0,)),  # mode
        (0, 3, (1, 2)),  # kind
        (0, 17, (100,)),
        (0, 40, (127,)),  # checksum
        (0, 5, tuple(range(68, 76))),
        (0, 71, (70, 75, 127)),  # length, as if the packet were shorter
        (1, 0, (50,)),  # READY
        (1, 2, (3, 60)),
    ],
)
@pytest.mark.parametrize("node", [0, 2])
def test_damaged_header_is_dropped_counted_and_recovered_from(
    ring, vectors, node, port, packet, bits
):
    fault = HeaderFault(node=node, port=port, packet=packet, bits=bits)
    cluster = ring(3, latency_cycles=3, link_stalls=0.1, options={"faults": [fault]})
    arrays = vectors(3, 1500)
    start(cluster, arrays)
    for each in cluster.system.nodes:
        each.delay(8000)
    cluster.system.run(drain=False)

    victim = cluster.system.nodes[(node + 1) % 3 if port == 0 else (node - 1) % 3]
    for each in cluster.system.nodes:
        damaged = [cluster.read(each, "damaged", n)["count"] for n in (0, 1)]
        assert damaged == ([1 - (port == 0), int(port == 0)] if each is victim else [0, 0])
        assert cluster.read(each, "interrupt")["dropped"] == (each is victim)
        assert cluster.read(each, "interrupt")["failed"] == 1
        assert cluster.read(each, "status")["halted"] == 1
        (record,) = cluster.records(each)
        assert record.causes == {"lost"}
    assert all(each.output("irq") for each in cluster.system.nodes)
    assert not any(cluster.read(each, "status")["outstanding"] for each in cluster.system.nodes)

    recover(cluster)
    assert_exact(cluster, vectors(3, 333, seed=1))
    assert_exact(cluster, arrays)
    assert [cluster.read(victim, "damaged", n)["count"] for n in (0, 1)] == [
        1 - (port == 0), int(port == 0)
    ]


@pytest.mark.parametrize("seed", range(30))
def test_ring_is_usable_after_aborts_at_any_time(ring, vectors, seed):
    rng = random.Random(seed)
    nodes = rng.randint(2, 6)
    cluster = ring(
        nodes, latency_cycles=rng.choice([1, 5, 40]), seed=seed, memory_stalls=rng.choice([0, 0.5]),
        link_stalls=rng.choice([0, 0.3]), read_latency_cycles=rng.choice([5, 100]),
    )
    arrays = vectors(nodes, 900, seed=seed)
    for _ in range(3):
        for _ in range(rng.randint(1, 3)):
            start(cluster, arrays, after=lambda rank: rng.choice([0, rng.randrange(300)]))
        longest = rng.choice([60, 400, 2500])
        recover(cluster, after=lambda rank, longest=longest: rng.randrange(longest))
        assert_exact(cluster, vectors(nodes, rng.randint(1, 700), seed=seed + 1))
    assert_exact(cluster, arrays)


def test_abort_of_an_idle_ring_changes_nothing(ring, vectors):
    cluster = ring(2)
    for _ in range(3):
        recover(cluster)
        assert_exact(cluster, vectors(2, 100))
    assert cluster.read(cluster.system.nodes[0], "completed")["count"] == 3


@pytest.mark.parametrize("seed", range(12))
def test_one_engine_forgets_everything(engine, jobs, converse, seed):
    """Aborted amid READYs, parked packets and memory bursts; then a clean exchange."""
    rng = random.Random(seed)
    rank, nodes = rng.randrange(4), 4
    rig = engine(rank=rank, nodes=nodes, seed=seed, stalls=rng.choice([0, 0.4]))
    kinds = [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, 800, 16)]

    class AbortedError(Exception):
        pass

    at = rig.cycle + rng.randrange(40, 500)

    def abort():
        if rig.cycle >= at:
            raise AbortedError

    with pytest.raises(AbortedError):
        ready = rng.choice(["early", "late"])
        converse(rig, rank, nodes, jobs(rig, nodes, kinds), ready=ready, each_cycle=abort)
    rig.write("control", abort=1)
    rig.until_idle()
    for port in (0, 1):
        rig.take(port)
    status = rig.read("status")
    assert {name for name, value in status.items() if value} == {"idle"}

    completed = rig.read("completed")["count"]
    planned = jobs(rig, nodes, kinds * 2)
    for job in planned:
        job.name += 50
    converse(rig, rank, nodes, planned, ready="early", before_start=100)
    assert rig.read("completed")["count"] == completed + 2


@pytest.mark.parametrize("seed", range(8))
def test_an_engine_whose_memory_owes_an_answer_is_not_idle(engine, jobs, converse, seed):
    """Nothing else is left of what was aborted, so nothing else keeps it busy."""
    rng = random.Random(seed)
    rig = engine(rank=1, nodes=3, seed=seed, stalls=0)
    kinds = [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, 800, 16)]

    class AbortedError(Exception):
        pass

    at = rig.cycle + rng.randrange(40, 400)

    def abort():
        rig.silent = rig.cycle >= at
        if rig.silent and rig.owes:
            raise AbortedError

    with pytest.raises(AbortedError):
        converse(rig, 1, 3, jobs(rig, 3, kinds), ready="early", each_cycle=abort)
    rig.write("control", abort=1)
    for _ in range(500):
        assert rig.owes and not rig.engine.get("idle")
        rig.step()
    rig.silent = False
    rig.until_idle()


@pytest.mark.parametrize("seed", range(6))
def test_engine_that_was_reset_alone_joins_again(engine, jobs, converse, seed):
    """It has lost packets that it was to free and credits that it had; its neighbours abort."""
    rng = random.Random(seed)
    rig = engine(rank=1, nodes=3, seed=seed, stalls=rng.choice([0, 0.4]))
    kinds = [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, 800, 16)]

    class ResetError(Exception):
        pass

    at = rig.cycle + rng.randrange(60, 400)

    def reset():
        if rig.cycle >= at:
            raise ResetError

    with pytest.raises(ResetError):
        converse(rig, 1, 3, jobs(rig, 3, kinds), ready="early", each_cycle=reset)
    rig.reset()
    rig.set_up(rank=1, nodes=3)
    rig.write("control", abort=1, epoch=6)
    rig.restart_links(6)
    rig.until_idle()
    for port in (0, 1):
        rig.take(port)

    converse(rig, 1, 3, jobs(rig, 3, kinds * 2), ready="early")
    assert all(link.credits == rig.config.rx_packets for link in rig.links)
    assert rig.read("status")["epoch"] == 6


def test_the_driver_recovers_from_a_damaged_header():
    fault = HeaderFault(node=1, port=0, packet=3, bits=(5,))
    ring = AceRing("test", Surroundings(nodes=3), faults=[fault])
    rng = np.random.default_rng(3)
    vectors = [rng.standard_normal(300).astype(np.float32) for _ in range(3)]

    with pytest.raises(PacketDroppedError, match="node 2 dropped a packet"):
        ring.all_reduce(vectors)

    for result in ring.all_reduce(vectors):
        np.testing.assert_array_equal(result.view(np.uint32), ring.golden(vectors).view(np.uint32))


def test_a_recovery_without_an_end_is_given_up(monkeypatch):
    """An engine without the abort of its neighbours keeps them from coming to rest."""
    monkeypatch.setattr("sim.rtl.driver._REST_CYCLES", 20_000)
    vectors = [np.ones(300, np.float32)] * 3
    command = Command(elements=300, destination=1 << 15)
    ring = AceRing("test", Surroundings(nodes=3))
    for rank, node in enumerate(ring.system.nodes):
        if rank != 2:
            node.memory[: vectors[rank].nbytes] = vectors[rank].view("uint8")
            ring.start(node, command)
    write = ring.write

    def deaf(node, register, *args, **fields):
        if node is not ring.system.nodes[0] or register != "control":
            write(node, register, *args, **fields)

    monkeypatch.setattr(ring, "write", deaf)
    with pytest.raises(CycleLimitError, match="not finished after 20000 cycles"):
        ring.recover()

    monkeypatch.undo()
    ring.recover()
    for result in ring.all_reduce(vectors):
        np.testing.assert_array_equal(result, np.full(300, 3, np.float32))

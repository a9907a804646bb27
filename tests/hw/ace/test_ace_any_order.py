# SPDX-License-Identifier: Apache-2.0
"""One engine does the same whatever the order in which its neighbours' packets come."""

import random

import pytest

from hw.fp.ops import ReduceOp
from sim.collectives.fsm_program import PROGRAM_ENTRY
from sim.workload.graph import CollectiveKind


def _kinds(rng, nodes):
    """Up to three collectives of different lengths, blocks and operations."""
    kinds = []
    for _ in range(rng.randint(1, 3)):
        elements = rng.choice([1, 5, rng.randint(1, 60), rng.randint(60, 900)])
        block = rng.choice([None, None, 4, 12, 16, 32])
        collective = rng.choice([*PROGRAM_ENTRY, CollectiveKind.ALL_REDUCE])
        kinds.append((collective, rng.choice(list(ReduceOp)), elements, block))
    return kinds


@pytest.mark.parametrize("seed", range(24))
def test_any_order_gives_the_expected_packets_and_memory(engine, jobs, converse, seed):
    rng = random.Random(seed)
    nodes = rng.randint(2, 8)
    rank = rng.randrange(nodes)
    rig = engine(rank=rank, nodes=nodes, seed=seed, stalls=rng.choice([0, 0.2, 0.5]))
    converse(
        rig, rank, nodes, jobs(rig, nodes, _kinds(rng, nodes)),
        ready=rng.choice(["early", "late", "random"]), before_start=rng.choice([0, 100]),
    )

    assert rig.read("unexpected", 0) == rig.read("unexpected", 1) == {"count": 0}
    assert rig.read("interrupt")["dropped"] == 0
    assert all(link.credits == rig.config.rx_packets for link in rig.links)


def _spoil(packet, what, rng):
    """A packet like *packet* that no context expects."""
    length = len(packet["payload"])
    wrong = {
        "context": lambda: rng.choice([n for n in range(16) if n != packet["context"]]),
        "collective": lambda: 200,
        "chunk": lambda: packet["chunk"] + rng.choice([256, 1 << 15]),
        "step": lambda: rng.choice([0, 1, 40, 255]),
        "offset": lambda: rng.choice([33, 1023]),
        "payload": lambda: bytes(rng.choice([n for n in range(65) if n != length])),
        "op": lambda: (packet["op"] + rng.randint(1, 15)) % 16,
        "contributions": lambda: (packet["contributions"] + rng.choice([1, 256])) % 1024,
        "fsm": lambda: rng.randint(1, 15),
    }
    return packet | {what: wrong[what]()}


SPOILABLE = (
    "context", "collective", "chunk", "step", "offset", "payload", "op", "contributions", "fsm"
)


@pytest.mark.parametrize("what", SPOILABLE)
def test_unexpected_packets_are_dropped_counted_and_disturb_nothing(engine, jobs, converse, what):
    rng = random.Random(what)
    nodes = 4
    rank = rng.randrange(nodes)
    rig = engine(rank=rank, nodes=nodes, seed=len(what), stalls=rng.choice([0, 0.2]))
    sent = []

    send = rig.send

    def spoiled_first(port, **packet):
        """Before and after each packet of a chunk, sometimes one that nobody waits for."""
        spoil = "payload" in packet and rng.random() < 0.5
        before = spoil and rng.random() < 0.5
        if spoil and before:
            send(port, **_spoil(packet, what, rng))
        send(port, **packet)
        if spoil and not before:
            send(port, **_spoil(packet, what, rng))
        sent.extend([what] * spoil)

    rig.send = spoiled_first
    kinds = [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, 700, 32)] * 2
    converse(rig, rank, nodes, jobs(rig, nodes, kinds), ready="random")

    assert len(sent) > 10
    assert rig.read("unexpected", 0) == {"count": 0}
    assert rig.read("unexpected", 1) == {"count": len(sent)}
    assert rig.read("damaged", 1) == {"count": 0}
    assert rig.read("interrupt")["dropped"] == 1
    assert rig.engine.get("irq") == 1
    assert all(link.credits == rig.config.rx_packets for link in rig.links)


def test_packets_that_come_again_after_their_collective_are_dropped(engine, jobs, converse):
    rig = engine(rank=1, nodes=3, seed=4)
    send, sent = rig.send, []

    def recorded(port, **packet):
        send(port, **packet)
        sent.extend([(port, packet)] * ("payload" in packet))

    rig.send = recorded
    kinds = [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, 300, 16)]
    converse(rig, 1, 3, jobs(rig, 3, kinds))
    before = rig.memory.copy()
    for port, packet in sent:
        send(port, **packet)
    rig.until_idle()

    assert rig.read("unexpected", 1) == {"count": len(sent)}
    assert (rig.memory == before).all()
    assert not any(rig.take(port) for port in (0, 1))
    following = jobs(rig, 3, kinds)
    following[0].name += 1
    converse(rig, 1, 3, following)

# SPDX-License-Identifier: Apache-2.0
"""Every command ends in a record that says what became of it, on every node."""

import numpy as np
import pytest

from hw.ace.registers import CommandError
from hw.fp.ops import ReduceOp
from hw.link.packet import PacketKind
from sim.hosts.command import Command
from sim.rtl.errors import DisagreementError, MemoryAccessError, PacketDroppedError, PoisonedError
from sim.rtl.harness.specs import PacketFault
from sim.workload.graph import CollectiveKind

NODES = 3
KINDS = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER)
ELEMENTS = 900
RESULT = 1 << 15


def _start(cluster, command, arrays=()):
    for node, array in zip(cluster.system.nodes, arrays, strict=False):
        cluster.store(node, command, array)
    for node in cluster.system.nodes:
        cluster.start(node, command)
    cluster.next_collective()


def _finish(cluster):
    """Every node has a record of all that was started."""
    for node in cluster.system.nodes:
        cluster.wait(node, 2)
    cluster.system.run(max_cycles=60_000)
    return [cluster.records(node) for node in cluster.system.nodes]


def _causes(records):
    return [set(record.causes) for (record,) in records]


def _inputs(cluster, vectors, kind):
    arrays = vectors(NODES, ELEMENTS)
    if kind is CollectiveKind.ALL_GATHER:
        cut = cluster.program.cut(ELEMENTS, collective=CollectiveKind.ALL_REDUCE)
        return [arrays[0][cut.shard(rank)] for rank in range(NODES)]
    return arrays


def _assert_usable(cluster, vectors):
    arrays = vectors(NODES, 333, seed=5)
    for node in cluster.system.nodes:
        cluster.write(node, "interrupt", 0x7F)
    golden = cluster.golden(arrays)
    for got in cluster.all_reduce(arrays, max_cycles=100_000):
        assert got.tobytes() == golden.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_one_bad_beat_that_is_read_is_told_on_every_rank(ring, vectors, kind, place):
    cluster = ring(NODES, memory_stalls=0.2, seed=3)
    inputs = _inputs(cluster, vectors, kind)
    command = Command(collective=kind, elements=ELEMENTS, destination=RESULT)
    beats = -(-inputs[1].nbytes // 16)
    at = {"first": 0, "middle": beats // 2, "last": beats - 1}[place]
    cluster.system.nodes[1].fail_memory(16 * at, 16, writes=False)
    _start(cluster, command, inputs)

    causes = _causes(_finish(cluster))

    assert "memory" in causes[1]
    assert causes[0] == causes[2] == {"poisoned"}
    for rank, node in enumerate(cluster.system.nodes):
        raised = cluster.read(node, "interrupt")
        assert (raised["failed"], raised["memory"]) == (1, rank == 1)
    cluster.system.nodes[1].heal_memory()
    _assert_usable(cluster, vectors)


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_one_bad_beat_that_is_written_is_told_by_its_own_rank_alone(ring, vectors, place):
    cluster = ring(NODES, memory_stalls=0.2, seed=4)
    arrays = vectors(NODES, ELEMENTS)
    command = Command(elements=ELEMENTS, destination=RESULT)
    beats = 4 * ELEMENTS // 16
    at = {"first": 0, "middle": beats // 2, "last": beats - 1}[place]
    cluster.system.nodes[2].fail_memory(RESULT + 16 * at, 16, reads=False)
    _start(cluster, command, arrays)

    assert _causes(_finish(cluster)) == [set(), set(), {"memory"}]
    golden = cluster.golden(arrays).view(np.uint32)
    for rank, node in enumerate(cluster.system.nodes):
        right = cluster.result(node, command, rank) == golden
        assert right.all() if rank != 2 else (~right).sum() <= 4
    cluster.system.nodes[2].heal_memory()
    _assert_usable(cluster, vectors)


def test_of_two_collectives_in_flight_the_one_that_failed_is_told(ring, vectors):
    cluster = ring(NODES)
    arrays = vectors(NODES, ELEMENTS)
    commands = [
        Command(elements=ELEMENTS, source=0x1000 * n, destination=RESULT + 0x1000 * n)
        for n in (0, 1)
    ]
    cluster.system.nodes[0].fail_memory(0x1000 + 160, 16)  # of the second one
    for command in commands:
        _start(cluster, command, arrays)

    records = _finish(cluster)

    for rank, taken in enumerate(records):
        good, bad = sorted(taken, key=lambda record: record.collective)
        assert good.causes == frozenset()
        assert ("memory" if rank == 0 else "poisoned") in bad.causes
    golden = cluster.golden(arrays).view(np.uint32)
    for rank, node in enumerate(cluster.system.nodes):
        assert (cluster.result(node, commands[0], rank) == golden).all()


def test_the_driver_names_the_memory_at_fault(ring, vectors):
    cluster = ring(NODES)
    cluster.system.nodes[2].fail_memory(64, 16)
    with pytest.raises(MemoryAccessError, match="memory of node 2") as caught:
        cluster.all_reduce(vectors(NODES, 100))
    assert not isinstance(caught.value, PoisonedError)
    cluster.system.nodes[2].heal_memory()
    _assert_usable(cluster, vectors)


@pytest.mark.parametrize(
    "changes",
    [
        {"op": ReduceOp.MAX_F32},
        {"elements": ELEMENTS - 4},
        {"block": 16},
        {"collective": CollectiveKind.REDUCE_SCATTER},
    ],
)
@pytest.mark.parametrize("other", range(NODES))
def test_nodes_that_disagree_are_all_told(ring, vectors, changes, other):
    cluster = ring(NODES, latency_cycles=7, seed=other)
    usual = {"elements": ELEMENTS, "destination": RESULT, "block": 32}
    for rank, node in enumerate(cluster.system.nodes):
        node.delay(1 + 300 * (rank == other))
        cluster.start(node, Command(**(usual | (changes if rank == other else {}))))
    cluster.next_collective()

    records = _finish(cluster)

    for node, taken in zip(cluster.system.nodes, records, strict=True):
        status = cluster.read(node, "status")
        assert status["halted"] and status["disagreement"]
        # A command that came after the others had given up is refused.
        assert {frozenset(record.causes) for record in taken} <= {frozenset({"disagreement"})}
        assert taken or cluster.read(node, "refusal")["error"] == CommandError.HALTED.value
    cluster.recover()
    _assert_usable(cluster, vectors)


def test_the_driver_says_that_nodes_disagree(ring, vectors):
    cluster = ring(NODES)
    start = cluster.start

    def different(node, command, **options):
        if node is cluster.system.nodes[1]:
            command = Command(**(vars(command) | {"op": ReduceOp.MIN_F32}))
        return start(node, command, **options)

    cluster.start = different
    with pytest.raises(DisagreementError, match="told to do something else"):
        cluster.all_reduce(vectors(NODES, 200))
    cluster.start = start
    _assert_usable(cluster, vectors)


@pytest.mark.parametrize("packet", [0, 5, 40])
@pytest.mark.parametrize("port", [0, 1])
def test_lost_packet_is_told_on_every_rank(ring, vectors, port, packet):
    fault = PacketFault(node=1, port=port, packet=packet if port == 0 else 1)
    cluster = ring(NODES, options={"faults": [fault]})
    with pytest.raises(PacketDroppedError):
        cluster.all_reduce(vectors(NODES, ELEMENTS), block=16, max_cycles=100_000)
    _assert_usable(cluster, vectors)


@pytest.mark.parametrize("packet", [0, 5, 40])
@pytest.mark.parametrize("port", [0, 1])
def test_packet_that_comes_twice_is_counted_and_does_no_harm(ring, vectors, port, packet):
    packet = packet if port == 0 else packet // 4
    fault = PacketFault(node=1, port=port, packet=packet, repeat=True)
    cluster = ring(NODES, link_stalls=0.3, options={"faults": [fault]})
    command = Command(elements=ELEMENTS, destination=RESULT, block=16)
    arrays = vectors(NODES, ELEMENTS)
    _start(cluster, command, arrays)

    assert _causes(_finish(cluster)) == [set()] * NODES
    golden = cluster.golden(arrays, block=16).view(np.uint32)
    hit = cluster.system.nodes[2 if port == 0 else 0]
    for rank, node in enumerate(cluster.system.nodes):
        assert (cluster.result(node, command, rank) == golden).all()
        repeated = [cluster.read(node, "repeated", n)["count"] for n in (0, 1)]
        assert sum(repeated) == (node is hit)
        assert not any(cluster.read(node, "unexpected", n)["count"] for n in (0, 1))
        assert cluster.read(node, "interrupt")["dropped"] == (node is hit)


def test_poison_of_one_packet_goes_on_with_all_that_was_parked(engine, jobs, converse):
    """The next rank is ready only when everything has come, so nothing is forwarded at once."""
    rig = engine(rank=1, nodes=3, stalls=0.1)
    send, spoilt = rig.send, []

    def spoil(port, payload=b"", **fields):
        if payload and not spoilt:
            spoilt.append(fields["chunk"])
            fields["poison"] = 1
        send(port, payload, **fields)

    rig.send = spoil
    planned = jobs(rig, 3, [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, 300, 16)])
    converse(rig, 1, 3, planned, ready="late")

    sent = [
        (fields["chunk"], fields["poison"])
        for fields, _ in rig.links[0].raw
        if fields["kind"] == PacketKind.DATA.value
    ]
    chunks = {chunk for chunk, _ in sent}
    assert len(chunks) > 3
    assert set(sent) == {(chunk, int(chunk == spoilt[0])) for chunk in chunks}
    record = rig.read("completion")
    assert {name for name, value in record.items() if value and name != "collective"} == {
        "valid", "poisoned",
    }


def test_result_is_in_memory_when_its_record_is_written(engine, jobs, converse):
    """Not just when the engine is idle."""
    rig = engine(rank=1, nodes=3, stalls=0.4)
    planned = jobs(rig, 3, [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, 300, 16)])
    seen = []

    def snapshot():
        if rig.engine.get("irq") and not seen:
            seen.append(rig.memory.copy())

    neighbours = converse(rig, 1, 3, planned, each_cycle=snapshot)
    rig.until(lambda: snapshot() or bool(seen), limit=3000)
    assert rig.read("completion")["valid"] == 1
    at = planned[0].destination
    for _, expected in neighbours.results():
        held = seen[0][at : at + 4 * len(expected)].view(np.uint32)
        np.testing.assert_array_equal(held, expected)


def test_records_nobody_takes_are_lost_oldest_first_and_that_is_told(engine, jobs, converse):
    rig = engine(rank=1, nodes=3, stalls=0)
    room = 2 * rig.config.commands
    planned = jobs(rig, 3, [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, 20, None)] * room)
    converse(rig, 1, 3, planned)
    assert rig.read("completion")["overrun"] == 0
    again = jobs(rig, 3, [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, 20, None)] * 2)
    for job in again:
        job.name += 100
    converse(rig, 1, 3, again)

    taken = []
    while (record := rig.read("completion"))["valid"]:
        taken.append((record["collective"], record["overrun"]))
        rig.write("completion_taken", 1)
    assert len(taken) == room
    assert [overrun for _, overrun in taken] == [1] + [0] * (room - 1)
    assert {name for name, _ in taken} == {job.name for job in planned[2:] + again}


def test_abort_writes_a_record_for_every_outstanding_command(engine):
    rig = engine(rank=1, nodes=3, stalls=0)
    for name in range(5):
        _give(rig, name)
    rig.settle(100)
    rig.write("control", abort=1, epoch=3)
    rig.until_idle()

    assert rig.read("status")["epoch"] == 3
    names = set()
    while (record := rig.read("completion"))["valid"]:
        assert record == dict.fromkeys(record, 0) | {
            "valid": 1, "aborted": 1, "collective": record["collective"]
        }
        names.add(record["collective"])
        rig.write("completion_taken", 1)
    assert names == set(range(5))


def _give(rig, name, **changes):
    words = {"source_low": 0, "destination_low": 4096, "elements": 100, "stride": 36, "block": 16}
    for register, word in words.items():
        rig.write(register, word)
    rig.write("command", collective=name, load_all=1, store_all=1, **changes)


def test_command_between_abort_and_idle_is_refused(engine, jobs, converse):
    rig = engine(rank=1, nodes=3, stalls=0)
    _give(rig, 1)
    rig.settle(300)
    for link in rig.links:
        link.deaf = True  # the peers do not answer, so the engine stays busy
    rig.write("control", abort=1, epoch=1)
    rig.settle(50)
    rig.write("command", collective=2, load_all=1, store_all=1)
    assert rig.read("refusal") == {"error": CommandError.ABORTING.value, "collective": 2,
                                   "count": 1}
    assert rig.read("status")["aborting"] == 1

    for link in rig.links:
        link.deaf = False
    rig.write("control", abort=1)
    rig.until_idle()
    assert rig.read("status")["aborting"] == 0
    for port in (0, 1):
        rig.take(port)
    kinds = [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, 100, 16)]
    rig.write("completion_taken", 1)
    converse(rig, 1, 3, jobs(rig, 3, kinds))


def test_an_ack_of_another_epoch_ends_no_abort(engine):
    """That of the abort before, which a peer sends late."""
    rig = engine(rank=1, nodes=3, stalls=0)
    for link in rig.links:
        link.deaf = True
    rig.write("control", abort=1, epoch=5)
    rig.settle(50)
    for epoch, idle in ((4, 0), (5, 1)):
        for link in rig.links:
            answer = {"offload": 1, "kind": PacketKind.ACK.value, "epoch": epoch}
            link.answers.append(rig.config.format.encode(answer))
        rig.settle(50)
        assert rig.read("status")["idle"] == idle


def test_packet_of_another_epoch_is_dropped(engine, jobs, converse):
    rig = engine(rank=1, nodes=3, stalls=0)
    rig.write("control", abort=1, epoch=5)
    rig.until_idle()
    rig.send(0, kind=PacketKind.READY.value, collective=7, epoch=4)
    rig.send(1, bytes(16), kind=PacketKind.DATA.value, collective=7, epoch=4)
    rig.until_idle()
    assert [rig.read("unexpected", port)["count"] for port in (0, 1)] == [1, 1]


def test_settings_are_those_at_the_command(engine, jobs, converse):
    """A command that waits for others keeps what it was written with."""
    rig = engine(rank=1, nodes=3, stalls=0)
    count = rig.config.commands + 2
    planned = jobs(rig, 3, [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, 60, None)] * count)
    start = rig.start

    def start_and_disturb(*arguments, name, **options):
        start(*arguments, name=name, **options)
        if name == planned[-1].name:
            rig.write("nodes", 1)
            rig.write("memory_end_low", 15)
            rig.write("fsms", 0)

    rig.start = start_and_disturb
    converse(rig, 1, 3, planned)
    assert rig.read("refusal")["count"] == 0


def test_watchdog_tells_that_nothing_happens(engine):
    rig = engine(rank=1, nodes=3, stalls=0)
    rig.settle(300)
    assert rig.read("interrupt")["stalled"] == 0
    rig.write("watchdog", 500)
    rig.settle(700)
    assert rig.read("status")["stalled"] == 0  # nothing is outstanding
    _give(rig, 1)
    rig.settle(400)
    assert rig.read("interrupt")["stalled"] == 0
    rig.settle(400)
    assert rig.read("interrupt")["stalled"] == 1
    assert rig.read("status")["stalled"] == 1
    rig.write("control", abort=1)
    rig.until_idle()
    assert rig.read("status")["stalled"] == 0


def test_program_words_can_be_read_back_and_none_goes_astray(engine):
    rig = engine(rank=1, nodes=3, stalls=0)
    config = rig.config

    def point(address, fsm=0):
        place = rig.registers.registers["program_address"].pack(word=address, fsm=fsm)
        rig.write("program_address", place)

    def word(address, fsm=0):
        point(address, fsm)
        rig.settle(5)
        low, high = (rig.read(f"program_word_{half}")["value"] for half in ("low", "high"))
        return high << 32 | low

    table = [word(n) for n in range(16)]
    assert all(table[:3]) and not any(table[3:])
    for address, fsm in ((config.program_words, 0), (0, config.fsms), (8191, 15)):
        point(address, fsm)
        rig.write("program_low", 0xDEAD)
        assert rig.write("program_high", 0xBEEF) == 2  # SLVERR
        assert word(address, fsm) == 0
    assert [word(n) for n in range(16)] == table
    assert rig.read("interrupt")["fault"] == 1
    point(40)
    rig.write("program_low", 0x12345678)
    assert rig.write("program_high", 0x9ABCDEF0) == 0
    rig.settle(5)
    assert word(40) == 0x9ABCDEF012345678

# SPDX-License-Identifier: Apache-2.0
"""Commands that are not valid are refused as a whole, and the engine works on."""

import random
from dataclasses import replace

import numpy as np
import pytest

from hw.ace.registers import CommandError
from hw.fp.ops import ReduceOp
from hw.link.packet import PacketKind
from sim.workload.graph import CollectiveKind
from tests.hw.ace.rig import MEMORY_BYTES

NODES, RANK = 3, 1
GOOD = [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, 100, 16)]
END = MEMORY_BYTES - 4 * 100  # 100 elements from here on fit, but END is not aligned upwards

# Registers to be changed in an otherwise valid command of 100 elements, stride 36, block 16.
REFUSED = {
    "no_nodes": (CommandError.NODES, {"nodes": {"count": 0}}),
    "one_node": (CommandError.NODES, {"nodes": {"count": 1}}),
    "too_many_nodes": (CommandError.NODES, {"nodes": {"count": 9}}),
    "rank_is_nodes": (CommandError.NODES, {"node": {"rank": 3}}),
    "rank_far_out": (CommandError.NODES, {"node": {"rank": 4095}}),
    "no_elements": (CommandError.EMPTY, {"elements": 0}),
    "no_stride": (CommandError.STRIDE, {"stride": 0}),
    "stride_of_part_of_a_beat": (CommandError.STRIDE, {"stride": 38}),
    "stride_too_short": (CommandError.STRIDE, {"stride": 32}),
    "elements_beyond_all_shards": (CommandError.STRIDE, {"elements": 0xFFFF_FFFF}),
    "no_block": (CommandError.BLOCK, {"block": 0}),
    "block_of_part_of_a_beat": (CommandError.BLOCK, {"block": 18}),
    "block_larger_than_a_slot": (CommandError.BLOCK, {"block": 516}),
    "blocks_larger_than_a_slot": (CommandError.BLOCK, {"block": 172}),
    "block_so_large_that_products_wrap": (CommandError.BLOCK, {"block": 1 << 31}),
    "too_many_chunks": (CommandError.BLOCK, {"stride": 16 << 16}),
    "contiguous_shards": (CommandError.BLOCK, {"contiguous": 1, "stride": 48, "store_all": 0}),
    "contiguous_loads_of_shards": (
        CommandError.BLOCK, {"contiguous": 1, "stride": 48, "load_all": 0}),
    "too_many_contiguous_chunks": (
        CommandError.BLOCK, {"contiguous": 1, "stride": 48, "elements": 48 << 16}),
    "contiguous_chunk_of_other_size": (CommandError.STRIDE, {"contiguous": 1, "stride": 52}),
    "contiguous_beyond_memory": (
        CommandError.ADDRESS, {"contiguous": 1, "stride": 48, "elements": 90_000}),
    "source_not_aligned": (CommandError.ALIGNMENT, {"source_low": 4}),
    "destination_not_aligned": (CommandError.ALIGNMENT, {"destination_low": 8}),
    "source_beyond_memory": (CommandError.ADDRESS, {"source_low": END // 16 * 16 + 16}),
    "destination_beyond_memory": (CommandError.ADDRESS, {"destination_low": END // 16 * 16 + 16}),
    "source_at_the_last_address": (CommandError.ADDRESS, {"source_low": 0xFFFF_FFF0}),
    "source_beyond_the_address_bus": (CommandError.ADDRESS, {"source_high": 1}),
    "destination_beyond_the_address_bus": (CommandError.ADDRESS, {"destination_high": 1 << 31}),
    "elements_beyond_memory": (CommandError.ADDRESS, {"elements": 90_000, "stride": 30_000}),
    "memory_too_small": (CommandError.ADDRESS, {"memory_end_low": 399}),
    "no_fsms": (CommandError.FSMS, {"fsms": 0}),
    "more_fsms_than_there_are": (CommandError.FSMS, {"fsms": 2}),
    "fsms_that_wrap": (CommandError.FSMS, {"fsms": 31}),
    "no_program": (CommandError.PROGRAM, {"program": 5}),
    # The first of several faults is the one that is named.
    "no_elements_and_no_fsms": (CommandError.EMPTY, {"elements": 0, "fsms": 0}),
    "block_and_source_and_program": (
        CommandError.BLOCK, {"block": 0, "source_low": 4, "program": 5}),
}


def _pack(rig, register, value):
    return rig.registers.registers[register].pack(**value) if isinstance(value, dict) else value


def _set(rig, register):
    """Fields of a register that are not 0."""
    return {name: value for name, value in rig.read(register).items() if value}


def _raised(rig):
    """Interrupts that are pending."""
    return set(_set(rig, "interrupt"))


def _start(rig, changes, *, name=99, elements=100, stride=36, block=16):
    """A valid command but for *changes*."""
    command = {"program": 0, "op": 0, "load_all": 1, "store_all": 1, "contiguous": 0}
    command |= {field: changes[field] for field in command.keys() & changes.keys()}
    words = {"source_low": 0, "source_high": 0, "destination_low": 4096, "destination_high": 0,
             "elements": elements, "stride": stride, "block": block}
    for register, value in (words | changes).items():
        if register not in command:
            rig.write(register, _pack(rig, register, value))
    rig.write("command", collective=name, **command)


@pytest.mark.parametrize("case", REFUSED)
def test_refused_command_moves_nothing_and_the_engine_works_on(engine, jobs, converse, case):
    error, changes = REFUSED[case]
    rig = engine(rank=RANK, nodes=NODES, seed=1)
    rig.memory[:] = before = np.arange(MEMORY_BYTES).astype(np.uint8)
    _start(rig, changes)
    rig.until(lambda: rig.engine.get("irq"), limit=500, why="refusal")
    rig.until_idle()

    assert rig.read("refusal") == {"error": error.value, "collective": 99, "count": 1}
    assert _raised(rig) == {"refused"}
    assert _set(rig, "status") == {"idle": 1}
    assert rig.read("completed")["count"] == 0
    assert np.array_equal(rig.memory, before)
    assert not any(rig.take(port) for port in (0, 1))

    rig.write("interrupt", refused=1)
    rig.set_up(rank=RANK, nodes=NODES)
    assert rig.engine.get("irq") == 0
    converse(rig, RANK, NODES, jobs(rig, NODES, GOOD))
    assert rig.read("refusal")["count"] == 1
    assert rig.read("completed") == {"count": 1, "collective": 7}


def test_every_reason_of_the_checker_is_tried():
    tried = {error for error, _ in REFUSED.values()}
    at_the_door = {CommandError.FULL, CommandError.ABORTING, CommandError.HALTED}
    assert tried == set(CommandError) - {CommandError.NONE} - at_the_door


@pytest.mark.parametrize("place", ["source_low", "destination_low"])
def test_payload_may_end_with_memory(engine, place):
    rig = engine(rank=RANK, nodes=NODES)
    _start(rig, {place: MEMORY_BYTES - 400 // 16 * 16})
    rig.settle(100)

    assert rig.read("refusal")["count"] == 0
    assert rig.read("status")["outstanding"] == 1


def test_own_shard_alone_must_lie_in_memory_where_only_it_is_moved(engine):
    rig = engine(rank=2, nodes=NODES)  # its shard is 28 of the 100 elements
    for at, refusals in ((MEMORY_BYTES - 112, 0), (MEMORY_BYTES - 96, 1)):
        for register, word in {"source_low": at, "destination_low": 0, "elements": 100,
                               "stride": 36, "block": 16}.items():
            rig.write(register, word)
        rig.write("command", collective=1, program=2, store_all=1)
        rig.settle(100)
        assert rig.read("refusal")["count"] == refusals


def test_command_that_finds_no_room_is_refused_and_the_others_complete(engine, jobs, converse):
    rig = engine(rank=RANK, nodes=NODES, stalls=0)
    accepted = 2 * rig.config.commands  # running and queued; no neighbour answers yet
    kinds = [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, 60, None)] * accepted
    planned = jobs(rig, NODES, kinds)
    start = rig.start

    def start_three_more_after_the_last(*arguments, name, **options):
        start(*arguments, name=name, **options)
        if name != planned[-1].name:
            return
        for surplus in (100, 101, 102):
            rig.settle(20)
            start(*arguments, name=surplus, **options)
        refusal = rig.read("refusal")
        assert refusal == {"error": CommandError.FULL.value, "collective": 102, "count": 3}
        assert rig.read("status")["outstanding"] == accepted

    rig.start = start_three_more_after_the_last
    converse(rig, RANK, NODES, planned)
    assert rig.read("completed")["count"] == accepted
    assert _set(rig, "status") == {"idle": 1}


@pytest.mark.parametrize("register", ["nodes", "fsms", "memory_end_low", "elements", "block"])
def test_registers_written_while_a_collective_runs_do_not_touch_it(
    engine, jobs, converse, register
):
    rig = engine(rank=RANK, nodes=NODES, stalls=0)
    planned = jobs(rig, NODES, [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, 900, 16)])
    start = rig.start

    def start_and_disturb(*arguments, **options):
        start(*arguments, **options)
        rig.settle(5)
        rig.write(register, 8 if register == "nodes" else 0)

    rig.start = start_and_disturb
    converse(rig, RANK, NODES, planned)
    assert rig.read("refusal")["count"] == 0


@pytest.mark.parametrize("place", ["source", "destination"])
def test_memory_that_answers_with_an_error_is_reported_and_the_engine_works_on(
    engine, jobs, converse, place
):
    rig = engine(rank=RANK, nodes=NODES, memory_bytes=2 * MEMORY_BYTES)
    planned = jobs(rig, NODES, GOOD)
    outside = replace(planned[0], **{place: MEMORY_BYTES - 160, "name": 3})
    outside.arrays[RANK][40:] = 0  # which is what memory gives beyond its end
    converse(rig, RANK, NODES, [outside])
    assert _raised(rig) == {"done", "memory", "failed"}
    assert rig.engine.get("irq") == 1

    rig.write("interrupt", done=1, memory=1, failed=1)
    assert rig.engine.get("irq") == 0
    converse(rig, RANK, NODES, planned)
    assert rig.read("interrupt")["memory"] == 0


@pytest.mark.parametrize(
    "fields", [{"fsm": 1, "context": 0}, {"fsm": 0, "context": 4}, {"fsm": 15, "context": 15}]
)
def test_ready_for_what_does_not_exist_is_dropped_and_counted(engine, jobs, converse, fields):
    rig = engine(rank=RANK, nodes=NODES)
    for _ in range(20):
        rig.send(0, kind=PacketKind.READY.value, collective=7, chunk=0, **fields)
    rig.until_idle()

    assert rig.read("unexpected", 0) == {"count": 20}
    assert rig.read("interrupt")["dropped"] == 1
    converse(rig, RANK, NODES, jobs(rig, NODES, GOOD), ready="early")


def test_faulty_register_access_raises_its_interrupt(engine):
    rig = engine(rank=RANK, nodes=NODES)
    assert rig.write("status", 1) != 0
    assert rig.read("interrupt")["fault"] == 1
    assert rig.engine.get("irq") == 1


def test_packets_are_dropped_before_any_set_up(engine, jobs, converse):
    rng = random.Random(5)
    rig = engine(rank=RANK, nodes=NODES)
    for _ in range(50):
        rig.send(
            rng.randrange(2), bytes(rng.randrange(65)), kind=PacketKind.DATA.value,
            op=rng.randrange(16), collective=rng.randrange(256), chunk=rng.randrange(1 << 16),
            fsm=rng.randrange(16), context=rng.randrange(16), step=rng.randrange(256),
            offset=rng.randrange(1024), contributions=rng.randrange(1024),
        )
    rig.until_idle()

    assert sum(rig.read("unexpected", port)["count"] for port in (0, 1)) == 50
    converse(rig, RANK, NODES, jobs(rig, NODES, GOOD))

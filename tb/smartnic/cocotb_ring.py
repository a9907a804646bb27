# SPDX-License-Identifier: Apache-2.0
"""All-reduces of emitted NICs over a switch, with random pauses on every bus and every port."""

from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge

from hw.fp.ops import ReduceOp
from hw.smartnic.config import SmartNicConfig, preset
from hw.smartnic.layouts import AbortCause
from hw.smartnic.registers import CommandError
from sim.rtl.smartnic.writes import ethernet_address
from tb.runner import parameters
from tb.smartnic.host import MEMORY_BYTES, NicRing
from tb.smartnic.switch import ETHERTYPE, Frame


async def ready(dut: Any, **options: Any) -> NicRing:
    values = parameters()
    return await NicRing.ready(dut, preset(values["preset"]), nodes=values["nodes"], **options)


@cocotb.test(timeout_time=40, timeout_unit="us")
@cocotb.parametrize(
    (
        ("elements", "compress", "op"),
        [
            (1, False, ReduceOp.SUM_F32),  # one element: most blocks are padding
            (1, True, ReduceOp.SUM_F32),
            (77, False, ReduceOp.MIN_F32),
            (250, True, ReduceOp.MAX_F32),
            (640, False, ReduceOp.SUM_I32),  # several full rounds and a short one
            (701, True, ReduceOp.SUM_F32),
            (701, False, ReduceOp.SUM_F32),
        ],
    )
)
async def all_reduce_gives_the_golden_bits(
    dut: Any, elements: int, compress: bool, op: ReduceOp
) -> None:
    ring = await ready(dut)
    job = ring.job(elements, compress=compress, op=op)

    await ring.run_and_check(job)


@cocotb.test(timeout_time=30, timeout_unit="us")
async def all_reduce_without_any_pause_gives_the_golden_bits(dut: Any) -> None:
    ring = await ready(dut, chance=0.0)
    job = ring.job(530, compress=True)

    await ring.run_and_check(job)


@cocotb.test(timeout_time=60, timeout_unit="us")
async def queued_all_reduces_of_all_kinds_wait_for_nodes_that_start_late(dut: Any) -> None:
    ring = await ready(dut)
    jobs = [
        ring.job(50),
        ring.job(130, compress=True),
        ring.job(9, op=ReduceOp.SUM_I32),
        ring.job(300, compress=True),
    ]

    await ring.run_and_check(*jobs, delays=(1500, 700, 0))

    for host in ring.nodes:
        assert await host.read("status") == {"idle": 1, "outstanding": 0, "epoch": 0}
        assert (await host.read("completed"))["tag"] == jobs[-1].name


@cocotb.test(timeout_time=30, timeout_unit="us")
async def host_memory_is_read_once_and_written_once(dut: Any) -> None:
    ring = await ready(dut)
    lanes = ring.config.lanes

    await ring.run(ring.job(20 * lanes + 3), ring.job(64 * lanes, compress=True))

    for host in ring.nodes:
        assert await host.count("beats_read") == 21 + 64
        assert await host.count("beats_written") == 21 + 64


@cocotb.test(timeout_time=30, timeout_unit="us")
async def frames_are_ethernet_frames_with_packed_blocks(dut: Any) -> None:
    ring = await ready(dut)
    job = ring.job(3 * 32, compress=True)  # a block of two codec blocks for each rank

    await ring.run(job)

    first: dict[tuple[int, str], Frame] = {}
    for rank, frame in ring.switch.seen:
        nodes = len(ring.nodes)
        onward = frame.kind not in ("credit", "recall")
        to = ethernet_address((rank + (1 if onward else -1)) % nodes).to_bytes(6, "little")
        assert frame.destination == to
        assert frame.source == ethernet_address(rank).to_bytes(6, "little")
        assert frame.ethertype == ETHERTYPE
        assert frame.payload_bytes == len(frame.payload)
        assert len(frame.octets) >= 64, "shorter than Ethernet's least"
        first.setdefault((rank, frame.kind), frame)
    for rank, values in enumerate(job.inputs):
        fmt = ring.config.codec_format
        assert fmt is not None, "the preset has a codec"
        packed = fmt.pack(fmt.encode(values[32 * rank : 32 * (rank + 1)]))
        frame = first[rank, "reduce"]
        assert frame.payload[: len(packed)] == packed
        assert not any(frame.payload[len(packed) :])
        assert frame.block_end and frame.sequence == 0


@cocotb.test(timeout_time=30, timeout_unit="us")
async def interrupt_stays_until_it_is_acknowledged_or_masked(dut: Any) -> None:
    ring = await ready(dut)
    others = {"refused", "dropped", "aborted", "memory", "invalid", "stalled", "fault"}

    await ring.interrupts_until_acknowledged_or_masked(ring.job(20), others)


def refusals(
    config: SmartNicConfig
) -> list[tuple[CommandError, dict[str, int], dict[str, int]]]:
    """Error, registers of the node and of the command that provoke it on rank 1 of 3."""
    beat = config.bus_bytes
    return [
        (CommandError.NODES, {"rank": 0, "nodes": 0}, {}),
        (CommandError.NODES, {"rank": 0, "nodes": 1}, {}),
        (CommandError.NODES, {"rank": 0, "nodes": 257}, {}),
        (CommandError.RANK, {"rank": 3, "nodes": 3}, {}),
        (CommandError.RANK, {"rank": 300, "nodes": 256}, {}),
        (CommandError.EMPTY, {}, {"elements": 0}),
        (CommandError.ALIGNMENT, {}, {"source_low": beat // 2}),
        (CommandError.ALIGNMENT, {}, {"destination_low": 4}),
        (CommandError.ADDRESS, {}, {"source_low": MEMORY_BYTES}),
        (CommandError.ADDRESS, {}, {"source_low": MEMORY_BYTES - beat, "elements": beat // 4 + 1}),
        (CommandError.ADDRESS, {}, {"destination_low": 1 << 31}),
        # Its last byte is past 2**33, its first words are not.
        (CommandError.ADDRESS, {}, {"elements": 2**31 + 1}),
        (CommandError.ADDRESS, {}, {"source_high": 1}),
    ]


@cocotb.test(timeout_time=90, timeout_unit="us")
async def bad_command_is_refused_and_the_next_all_reduce_works(dut: Any) -> None:
    ring = await ready(dut, chance=0.1)
    host = ring.nodes[1]

    for count, (error, node, changes) in enumerate(refusals(ring.config), start=1):
        bad = ring.job(5)
        if node:
            await host.write("node", **node)
        await ring.start(host, bad, **changes)
        assert await host.interrupted() == {"refused"}, (node, changes)
        refusal = {"error": error.value, "tag": bad.name, "count": count}
        assert await host.read("refusal") == refusal, (node, changes)
        await host.write("node", rank=1, nodes=len(ring.nodes))
    integers = ring.job(5, op=ReduceOp.SUM_I32, compress=True)
    await ring.start(host, integers)
    assert await host.interrupted() == {"refused"}
    assert (await host.read("refusal"))["error"] == CommandError.COMPRESSION.value

    await ring.run_and_check(ring.job(60))


@cocotb.test(timeout_time=60, timeout_unit="us")
async def commands_beyond_the_queue_are_refused_and_the_others_complete(dut: Any) -> None:
    ring = await ready(dut, chance=0.1)

    await ring.refuses_beyond(ring.config.descriptors, {"error": CommandError.FULL.value}, "tag")


def strangers(good: Frame) -> list[tuple[str, Frame, bool]]:
    """Counter, frame for node 1, whether the MAC calls it damaged."""
    longer = good.payload_bytes + 32
    return [
        ("dropped_foreign", good.changed(12, 0x08, 0x00), False),  # IPv4
        ("dropped_foreign", Frame(b"\xff" * 6 + bytes(range(6)) + b"\x08\x06" + bytes(46)), False),
        ("dropped_foreign", good.changed(0, 0x02, 0xF0, 0x1D, 0, 0, 0), False),  # for node 0
        ("dropped_foreign", good.changed(6, 0x02, 0xF0, 0x1D, 9, 9, 9), False),  # from a stranger
        ("dropped_foreign", good.changed(14, 0x11), False),  # another version
        ("dropped_foreign", good.changed(14, 0x72), False),  # no kind that there is
        ("dropped_length", good.changed(16, longer & 0xFF, longer >> 8), False),
        ("dropped_length", Frame(good.octets[:-32]), False),
        ("dropped_length", Frame(good.octets[:-5]), False),
        ("dropped_length", Frame(good.octets + bytes(32)), False),
        ("dropped_length", Frame(good.octets + bytes(1500)), False),
        ("dropped_length", good, True),
        ("dropped_repeated", good.changed(18, 0xFF, 0xFF), False),
    ]


@cocotb.test(timeout_time=120, timeout_unit="us")
async def frames_that_do_not_belong_are_dropped_whole_and_disturb_nothing(dut: Any) -> None:
    ring = await ready(dut, chance=0.1)
    await ring.run(ring.job(96))
    good = next(frame for rank, frame in ring.switch.seen if rank == 0 and frame.kind == "reduce")
    host = ring.nodes[1]
    counted: dict[str, int] = {}

    for counter, frame, damaged in strangers(good):
        job = ring.job(120)
        await ring.start_all(job)
        before = (await ring.nodes[0].read("completed"))["count"]
        ring.switch.inject(1, frame, damaged=damaged)
        counted[counter] = counted.get(counter, 0) + 1
        allowed = frozenset({"dropped"})
        done = (await ring.nodes[0].read("completed"))["count"]
        total = before + 1 if done == before else done
        for each in ring.nodes:
            await each.completed(total, allowed=allowed if each is host else frozenset())
        while (await host.count(counter)) != counted[counter]:
            await RisingEdge(dut.clk)
        ring.expect(job)
        ring.check()
    await ring.settled()
    for counter, count in counted.items():
        assert await host.count(counter) == count
    assert await host.count("dropped_gap") == 0
    assert (await host.read("status"))["epoch"] == 0


@cocotb.test(timeout_time=60, timeout_unit="us")
@cocotb.parametrize(
    (("damage",), [("lose",), ("cut",), ("ethertype",), ("sequence",)]),
    (("compress",), [(False,), (True,)]),
)
async def missing_frame_aborts_on_all_nodes_and_the_next_all_reduce_works(
    dut: Any, damage: str, compress: bool
) -> None:
    ring = await ready(dut, chance=0.1)
    lost = ring.job(400, compress=compress)
    hit: list[Frame] = []

    def spoil(rank: int, frame: Frame) -> list[Frame]:
        if hit or rank != 0 or frame.kind != "reduce" or frame.sequence != 2:
            return [frame]
        hit.append(frame)
        changed = {
            "lose": [],
            "cut": [Frame(frame.octets[:-32])],
            "ethertype": [frame.changed(12, 0x86, 0xDD)],
            "sequence": [frame.changed(18, 0x04)],
        }
        return changed[damage]

    ring.switch.on_frame = spoil
    await ring.start_all(lost)
    for host in ring.nodes:
        while "aborted" not in await host.interrupted():
            pass
    await ring.settled(2000)
    for host in ring.nodes:
        await host.acknowledge()
        assert await host.read("status") == {"idle": 1, "outstanding": 0, "epoch": 1}
    cause = {"cut": "dropped_length", "ethertype": "dropped_foreign"}.get(damage)
    if cause is not None:
        # The abort of the node before may have cut off a frame as well.
        most = 2 if damage == "cut" else 1
        assert 1 <= await ring.nodes[1].count(cause) <= most
    assert await ring.nodes[1].count("dropped_gap") >= 1
    ring.overlook(lost)

    await ring.run_and_check(ring.job(400, compress=not compress), ring.job(31))


@cocotb.test(timeout_time=60, timeout_unit="us")
async def frame_of_another_epoch_aborts_on_all_nodes_and_the_next_all_reduce_works(
    dut: Any
) -> None:
    ring = await ready(dut, chance=0.1)
    await ring.run(ring.job(96))
    good = next(frame for rank, frame in ring.switch.seen if rank == 0 and frame.kind == "reduce")
    # A later one, in which something was missed; then an earlier one: the neighbour was reset.
    for epoch, result in ((7, 8), (2, 9)):
        lost = ring.job(400)
        await ring.start_all(lost)
        ring.switch.inject(1, good.changed(20, epoch))
        for host in ring.nodes:
            while "aborted" not in await host.interrupted():
                pass
        await ring.settled(2000)
        for host in ring.nodes:
            await host.acknowledge()
            assert await host.read("abort") == {"cause": AbortCause.RESET.value, "rank": 1}
            assert await host.read("status") == {"idle": 1, "outstanding": 0, "epoch": result}
        assert await ring.nodes[1].count("dropped_stale") >= 1
        ring.overlook(lost)

        await ring.run_and_check(ring.job(50))


@cocotb.test(timeout_time=60, timeout_unit="us")
async def software_gives_up_on_all_nodes_wherever_they_are(dut: Any) -> None:
    ring = await ready(dut)
    for cycles in (150, 400, 900):
        jobs = [ring.job(200, compress=True), ring.job(200)]
        await ring.start_all(*jobs)
        await ClockCycles(dut.clk, cycles)
        await ring.nodes[2].write("control", abort=1)
        await ClockCycles(dut.clk, 600)
        await ring.settled(2000)
        for host in ring.nodes:
            await host.acknowledge()
            assert (await host.read("status"))["outstanding"] == 0
        for job in jobs:
            ring.overlook(job)
        before = [(await host.read("completed"))["count"] for host in ring.nodes]
        job = ring.job(77)
        await ring.start_all(job)
        for host, count in zip(ring.nodes, before):
            await host.completed(count + 1, allowed=frozenset({"dropped"}))
        ring.expect(job)
        ring.check()
    epochs = {(await host.read("status"))["epoch"] for host in ring.nodes}
    assert epochs == {3}


@cocotb.test(timeout_time=40, timeout_unit="us")
async def memory_error_is_signalled_on_every_node_and_the_next_all_reduce_works(dut: Any) -> None:
    ring = await ready(dut, chance=0.1)
    bad = ring.job(30)
    node, *others = ring.nodes
    await node.write("memory_end_low", 2 * MEMORY_BYTES - 1)  # there is less than that
    await ring.start(node, bad, source_low=MEMORY_BYTES)
    await ring.start_all(bad, nodes=others)
    for each in ring.nodes:
        causes = set()
        while "done" not in causes:
            causes |= await each.interrupted()
        assert causes == {"done", "invalid"} | ({"memory"} if each is node else set())
        assert await each.read("completed") == {"count": 1, "error": 1, "tag": bad.name}
        refused = {"read": 1, "write": 0, "tag": bad.name, "count": 1}
        assert await each.read("invalid") == refused
    ring.overlook(bad)

    await ring.run_and_check(ring.job(44))

    for each in ring.nodes:
        assert (await each.read("completed"))["error"] == 0


@cocotb.test(timeout_time=40, timeout_unit="us")
async def infinities_and_nans_travel_as_the_golden_model_says(dut: Any) -> None:
    ring = await ready(dut, chance=0.1)
    job = ring.job(96, compress=True)
    specials = np.array([np.inf, -np.inf, np.nan, 3.4e38, 1e-45, -0.0], np.float32)
    for host, values in zip(ring.nodes, job.inputs):
        values[: len(specials)] = np.roll(specials, host.rank)
        ring.put(host, job.command.source, values)

    await ring.start_all(job)
    for host in ring.nodes:
        await host.completed(1)

    ring.expect(job)
    ring.check()

# SPDX-License-Identifier: Apache-2.0
"""Collectives on a ring of emitted engines, with random stalls on every bus and every link."""

from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiResp

from hw.ace.config import AceConfig, preset
from hw.ace.registers import CommandError
from hw.fp.ops import ReduceOp
from sim.workload.graph import CollectiveKind
from tb.ace.host import MEMORY_BYTES, AceRing
from tb.runner import parameters


async def ready(dut: Any, **options: Any) -> AceRing:
    values = parameters()
    return await AceRing.ready(dut, preset(values["preset"]), nodes=values["nodes"], **options)


@cocotb.test(timeout_time=10, timeout_unit="us")
@cocotb.parametrize(
    (
        ("collective", "elements", "block", "op"),
        [
            # One element: two ranks own nothing. Odd lengths: short beats, packets and shards.
            (CollectiveKind.ALL_REDUCE, 1, None, ReduceOp.SUM_F32),
            (CollectiveKind.ALL_REDUCE, 77, None, ReduceOp.MIN_F32),
            # More chunks than contexts, and the last one is short.
            (CollectiveKind.ALL_REDUCE, 290, 16, ReduceOp.SUM_F32),
            # Blocks of several packets, two chunks.
            (CollectiveKind.ALL_REDUCE, 499, None, ReduceOp.SUM_I32),
            (CollectiveKind.REDUCE_SCATTER, 1, None, ReduceOp.MAX_F32),
            (CollectiveKind.REDUCE_SCATTER, 293, 20, ReduceOp.SUM_F32),
            (CollectiveKind.ALL_GATHER, 1, None, ReduceOp.SUM_F32),
            (CollectiveKind.ALL_GATHER, 295, 20, ReduceOp.SUM_F32),
        ],
    )
)
async def collective_gives_the_golden_bits(
    dut: Any, collective: CollectiveKind, elements: int, block: int | None, op: ReduceOp
) -> None:
    ring = await ready(dut)
    job = ring.job(elements, collective=collective, block=block, op=op)

    await ring.run_and_check(job)


@cocotb.test(timeout_time=10, timeout_unit="us")
async def collective_without_any_stall_gives_the_golden_bits(dut: Any) -> None:
    ring = await ready(dut, chance=0.0)
    job = ring.job(410)

    await ring.run_and_check(job)


@cocotb.test(timeout_time=20, timeout_unit="us")
async def queued_collectives_wait_for_nodes_that_start_late(dut: Any) -> None:
    ring = await ready(dut)
    jobs = [
        ring.job(50),
        ring.job(130, collective=CollectiveKind.REDUCE_SCATTER, block=16),
        ring.job(90, collective=CollectiveKind.ALL_GATHER),
        ring.job(7, op=ReduceOp.SUM_I32),
    ]

    await ring.run_and_check(*jobs, delays=(1500, 700, 0))

    for node in ring.nodes:
        status = await node.read("status")
        assert {name for name, value in status.items() if value} == {"idle"}


@cocotb.test(timeout_time=10, timeout_unit="us")
async def interrupt_stays_until_it_is_acknowledged_or_masked(dut: Any) -> None:
    ring = await ready(dut)
    job = ring.job(20)
    others = {"refused", "dropped", "memory", "fault"}

    await ring.interrupts_until_acknowledged_or_masked(job, others)

    assert await ring.nodes[0].read("completed") == {"count": 1, "collective": job.name}


def refusals(config: AceConfig) -> list[tuple[CommandError, dict[str, int]]]:
    """Errors, and the register words that provoke each on rank 1 of a good command."""
    beat = config.bus_bytes
    lanes = config.lanes
    return [
        (CommandError.EMPTY, {"elements": 0}),
        (CommandError.NODES, {"nodes": 1}),
        (CommandError.NODES, {"node": 3}),  # of three
        (CommandError.NODES, {"nodes": config.max_nodes + 1}),
        (CommandError.STRIDE, {"stride": 0}),
        (CommandError.STRIDE, {"stride": lanes + 1}),
        (CommandError.STRIDE, {"elements": 10 * lanes, "stride": 3 * lanes}),
        (CommandError.BLOCK, {"block": 0}),
        (CommandError.BLOCK, {"block": lanes - 1}),
        (CommandError.BLOCK, {"block": config.slot_elements // 3 // lanes * lanes + lanes}),
        (CommandError.ALIGNMENT, {"source_low": beat // 2}),
        (CommandError.ALIGNMENT, {"destination_low": 4}),
        (CommandError.ADDRESS, {"source_low": MEMORY_BYTES}),
        (CommandError.ADDRESS, {"source_low": MEMORY_BYTES - beat}),  # the payload ends outside
        (CommandError.ADDRESS, {"destination_low": 1 << 31}),
        (CommandError.FSMS, {"fsms": 0}),
        (CommandError.FSMS, {"fsms": config.fsms + 1}),
    ]


@cocotb.test(timeout_time=40, timeout_unit="us")
async def bad_command_is_refused_and_the_next_all_reduce_works(dut: Any) -> None:
    ring = await ready(dut, chance=0.1)
    node = ring.nodes[1]

    for count, (error, changes) in enumerate(refusals(ring.config), start=1):
        bad = ring.job(5)
        settings = {name: changes[name] for name in ("node", "nodes", "fsms") if name in changes}
        await node.perform(list(settings.items()))
        await ring.start(node, bad, **{k: v for k, v in changes.items() if k not in settings})
        assert await node.interrupted() == {"refused"}, changes
        refusal = {"error": error.value, "collective": bad.name, "count": count}
        assert await node.read("refusal") == refusal, changes
        await node.perform([w for w in ring.set_up(1) if w[0] in settings])
        await ring.run(ring.job(5))

    await ring.settled()
    ring.check()


@cocotb.test(timeout_time=15, timeout_unit="us")
async def commands_beyond_the_queue_are_refused_and_the_others_complete(dut: Any) -> None:
    ring = await ready(dut, chance=0.1)
    limit = 2 * ring.config.commands  # as many running as waiting

    await ring.refuses_beyond(limit, {"error": CommandError.FULL.value}, "collective")


@cocotb.test(timeout_time=10, timeout_unit="us")
async def bad_register_access_is_answered_and_the_next_all_reduce_works(dut: Any) -> None:
    ring = await ready(dut)
    node = ring.nodes[2]
    before = await node.read("node")

    for offset, word, answer in (
        (0xFF0, 0xFFFF_FFFF, AxiResp.DECERR),  # nothing there
        (0xFF0, None, AxiResp.DECERR),
        (node.offset("identity"), 0, AxiResp.SLVERR),  # read only
        (node.offset("command"), None, AxiResp.SLVERR),  # write only
    ):
        assert (await node.access(offset, word))[0] == answer
        assert await node.interrupted() == {"fault"}

    assert await node.read("node") == before
    await ring.run_and_check(ring.job(33))


@cocotb.test(timeout_time=15, timeout_unit="us")
@cocotb.parametrize(
    (
        ("forwards", "bits"),  # with the data, or against it, where READY travels
        [
            (True, (7,)),  # one field
            (True, (60, 62, 65, 67)),  # several fields
            (False, (7,)),
            (False, (127,)),  # the checksum
        ],
    )
)
async def damaged_header_is_counted_and_the_ring_stays_usable(
    dut: Any, forwards: bool, bits: tuple[int, ...]
) -> None:
    ring = await ready(dut)
    lost = ring.job(40)
    # Node 1 is hit: on its way from node 0, or from node 2.
    hit, port, line = (ring.nodes[1], 1, 0) if forwards else (ring.nodes[1], 0, 5)
    dut.flips.value = sum(1 << bit for bit in bits)
    dut.damage.value = 1 << line
    await RisingEdge(dut.clk)
    dut.damage.value = 0
    await RisingEdge(dut.clk)
    assert dut.damaging.value.to_unsigned() == 1 << line

    await ring.start_all(lost)
    assert "dropped" in await hit.interrupted()

    assert dut.damaging.value.to_unsigned() == 0
    assert [(await hit.read("damaged", n))["count"] for n in (0, 1)] == [port == 0, port == 1]
    # It gives up and tells the others, which do so too.
    for node in ring.nodes:
        while not (await node.read("status"))["halted"]:
            pass
        await node.acknowledge()
        record = await node.read("completion")
        assert (record["valid"], record["lost"], record["collective"]) == (1, 1, lost.name)
        await node.write("completion_taken", taken=1)
        assert (await node.read("status"))["outstanding"] == 0

    for node in ring.nodes:
        await node.write("control", abort=1, epoch=1)
    await ring.settled()
    for node in ring.nodes:
        await node.acknowledge()
    await ring.run(ring.job(60), ring.job(11, op=ReduceOp.MAX_F32))
    await ring.run_and_check(ring.job(290, block=16))
    for node in ring.nodes:
        assert [(await node.read("damaged", n))["count"] for n in (0, 1)] == [
            node is hit and port == n for n in (0, 1)
        ]


@cocotb.test(timeout_time=15, timeout_unit="us")
async def packets_for_a_line_that_stands_still_are_parked_and_sent_later(dut: Any) -> None:
    ring = await ready(dut, chance=0.1)
    job = ring.job(450)
    ring.blocked = 1 << 2  # from node 1 to node 2

    finish = cocotb.start_soon(ring.run(job))
    await ClockCycles(dut.clk, 2000)
    assert not finish.done()
    ring.blocked = 0
    await finish

    assert (await ring.nodes[1].read("parked", 1))["count"] > 0
    await ring.settled()
    ring.check()


@cocotb.test(timeout_time=15, timeout_unit="us")
async def memory_error_is_signalled_and_the_next_all_reduce_works(dut: Any) -> None:
    ring = await ready(dut, chance=0.1)

    await ring.signals_memory_errors(ring.job(30))


@cocotb.test(timeout_time=15, timeout_unit="us")
async def reset_forgets_what_was_under_way(dut: Any) -> None:
    ring = await ready(dut, chance=0.1)
    interrupted = ring.job(30)
    node, *others = ring.nodes
    await ring.start_all(interrupted, nodes=others)
    # Long enough for the others to tell node 0 that they are ready, and to send to each other.
    await ClockCycles(dut.clk, 500)
    await ring.reset()
    assert (await node.read("completed"))["count"] == 0

    ring.names = interrupted.name  # the same name again must not meet anything old
    await ring.run(ring.job(30), delays=(0, 600, 600))

    for each in ring.nodes:
        assert [(await each.read("unexpected", n))["count"] for n in (0, 1)] == [0, 0]
    await ring.settled()
    ring.check()

# SPDX-License-Identifier: Apache-2.0
"""A FIFO under random gaps and stalls, in the simulator."""

import random
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

from tb.common.streams import StreamSink, StreamSource, number, pauses, reset
from tb.runner import parameters

BEATS = 300


async def start(dut: Any) -> None:
    dut.i_valid.value = 0
    dut.o_ready.value = 0
    Clock(dut.clk, 2, unit="ns").start()
    await reset(dut)


@cocotb.test(timeout_time=20, timeout_unit="us")
@cocotb.parametrize(gaps=[0.0, 0.5], stalls=[0.0, 0.5])
async def every_beat_arrives_in_order(dut: Any, gaps: float, stalls: float) -> None:
    rng = random.Random(cocotb.RANDOM_SEED)
    beats = [rng.randrange(1 << parameters()["width"]) for _ in range(BEATS)]
    await start(dut)
    source = StreamSource(dut, "i", pauses(gaps, rng))
    sink = StreamSink(dut, "o", pauses(stalls, rng))

    sending = cocotb.start_soon(source.send(beats))
    got = await sink.take(BEATS)
    await sending

    assert got == beats
    await sink.expect_nothing()


@cocotb.test(timeout_time=20, timeout_unit="us")
async def a_full_fifo_stalls_and_holds_its_depth(dut: Any) -> None:
    depth = parameters()["depth"]
    await start(dut)
    source = StreamSource(dut, "i", pauses(0.0, random.Random(0)))
    sending = cocotb.start_soon(source.send(range(depth + 1)))

    for _ in range(depth + 5):
        await RisingEdge(dut.clk)
    await ReadOnly()

    assert number(dut.level.value) == depth
    assert not dut.i_ready.value
    await RisingEdge(dut.clk)
    got = await StreamSink(dut, "o", pauses(0.0, random.Random(0))).take(depth + 1)
    await sending
    assert got == list(range(depth + 1))

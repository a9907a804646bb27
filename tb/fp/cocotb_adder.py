"""The stream adder under random gaps and stalls, in the simulator."""

import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from hw.fp import model
from tb.common.streams import StreamSink, StreamSource, pauses, reset
from tb.runner import parameters

PAIRS = 400
EDGES = [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x33800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001]
FLAGS_AT = 32


def operands(rng: random.Random) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of which half are close in magnitude and a quarter hold an edge value."""
    a, b = [], []
    for _ in range(PAIRS):
        x, y = rng.getrandbits(32), rng.getrandbits(32)
        kind = rng.randrange(4)
        if kind < 2:
            y = (x + rng.randrange(-(25 << 23), 25 << 23)) & 0x7FFFFFFF | y & 0x80000000
        elif kind == 2:
            y = rng.choice(EDGES) | y & 0x80000000
        a.append(x)
        b.append(y)
    return np.array(a, dtype=np.uint32), np.array(b, dtype=np.uint32)


async def start(dut):
    dut.i_valid.value = 0
    dut.o_ready.value = 0
    Clock(dut.clk, 2, unit="ns").start()
    await reset(dut)


@cocotb.test(timeout_time=20, timeout_unit="us")
@cocotb.parametrize(gaps=[0.0, 0.5], stalls=[0.0, 0.5])
async def every_sum_arrives_in_order_with_its_flags(dut, gaps, stalls):
    rng = random.Random(cocotb.RANDOM_SEED)
    a, b = operands(rng)
    await start(dut)
    source = StreamSource(dut, "i", pauses(gaps, rng))
    sink = StreamSink(dut, "o", pauses(stalls, rng))

    sending = cocotb.start_soon(
        source.send(int(x) | int(y) << 32 for x, y in zip(a, b, strict=True))
    )
    got = await sink.take(PAIRS)
    await sending

    sums, flags = model.reduce("SUM_F32", a, b), model.add_flags(a, b)
    expected = [int(s) | int(f) << FLAGS_AT for s, f in zip(sums, flags, strict=True)]
    assert got == expected
    await sink.expect_nothing()


@cocotb.test(timeout_time=20, timeout_unit="us")
async def a_sum_comes_after_the_stated_latency_and_one_follows_per_cycle(dut):
    await start(dut)
    dut.o_ready.value = 1
    dut.i_valid.value = 1
    dut.i_payload.value = 0x3F800000 | 0x40000000 << 32
    offered = []

    for _ in range(parameters()["stages"] + 8):
        await RisingEdge(dut.clk)
        offered.append(int(dut.o_valid.value))

    # The first edge above is the one that accepts the first pair.
    stages = parameters()["stages"]
    assert offered == [0] * stages + [1] * 8

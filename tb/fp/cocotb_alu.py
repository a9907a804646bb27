# SPDX-License-Identifier: Apache-2.0
"""The lane array under random operations and gaps, in the simulator."""

import random
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from hw.fp import model
from hw.fp.ops import ReduceOp
from tb.common.streams import pauses, reset
from tb.runner import parameters

BEATS = 400
EDGES = [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x33800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001]


def words(rng: random.Random, lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """A beat of each operand: half of the pairs are close in magnitude, a quarter at an edge."""
    a, b = [], []
    for _ in range(lanes):
        x, y = rng.getrandbits(32), rng.getrandbits(32)
        kind = rng.randrange(4)
        if kind < 2:
            y = (x + rng.randrange(-(25 << 23), 25 << 23)) & 0x7FFFFFFF | y & 0x80000000
        elif kind == 2:
            y = rng.choice(EDGES) | y & 0x80000000
        a.append(x)
        b.append(y)
    return np.array(a, dtype=np.uint32), np.array(b, dtype=np.uint32)


def beat(lanes: np.ndarray) -> int:
    return int.from_bytes(lanes.astype("<u4").tobytes(), "little")


async def start(dut: Any) -> None:
    dut.i_valid.value = 0
    Clock(dut.clk, 2, unit="ns").start()
    await reset(dut)


@cocotb.test(timeout_time=20, timeout_unit="us")
@cocotb.parametrize(gaps=[0.0, 0.5])
async def every_result_comes_after_the_stated_latency(dut: Any, gaps: float) -> None:
    rng = random.Random(cocotb.RANDOM_SEED)
    lanes, stages = parameters()["lanes"], parameters()["stages"]
    await start(dut)
    idle = pauses(gaps, rng)
    expected: list[int | None] = []  # result of each cycle, None without operands

    for cycle in range(BEATS + stages):
        if cycle < BEATS and not next(idle):
            op = rng.choice(list(ReduceOp))
            a, b = words(rng, lanes)
            expected.append(beat(model.reduce(op, a, b)))
            dut.op.value, dut.a.value, dut.b.value = op.value, beat(a), beat(b)
        else:
            expected.append(None)
        dut.i_valid.value = expected[-1] is not None
        await RisingEdge(dut.clk)
        # This edge takes the operands; what is seen is from before it.
        if cycle >= stages:
            result = expected[cycle - stages]
            assert int(dut.o_valid.value) == (result is not None), cycle
            if result is not None:
                assert dut.o.value.to_unsigned() == result, cycle

# amaranth: UnusedElaboratable=no
"""The stream adder in Amaranth's own simulator: order, stalls, latency, parameters."""

import random
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator

from hw.fp import model
from hw.fp.adder import FPAdder
from hw.fp.formats import FloatFormat
from hw.fp.stream_adder import StreamAdder

PAIRS = 60


@pytest.mark.parametrize("stages", range(7))
@pytest.mark.parametrize("stalls", [0.0, 0.5])
def test_sums_are_neither_lost_nor_repeated_nor_reordered(stages: int, stalls: float) -> None:
    rng = random.Random(stages)
    a, b = np.random.default_rng(stages).integers(0, 1 << 32, (2, PAIRS), dtype=np.uint32)
    dut = StreamAdder(stages=stages)
    got = []

    async def bench(ctx: Any) -> None:
        sent, held = 0, None
        for _ in range(6 * PAIRS):
            offer = sent < PAIRS and (ctx.get(dut.i.valid) or rng.random() >= stalls)
            ctx.set(dut.i.valid, offer)
            if offer:
                ctx.set(dut.i.payload, {"a": int(a[sent]), "b": int(b[sent])})
            ctx.set(dut.o.ready, rng.random() >= stalls)
            result = (ctx.get(dut.o.p.sum), ctx.get(dut.o.p.flags).as_bits())
            if held is not None:
                assert ctx.get(dut.o.valid) and result == held
            held = result if ctx.get(dut.o.valid) and not ctx.get(dut.o.ready) else None
            if ctx.get(dut.o.valid) and ctx.get(dut.o.ready):
                got.append(result)
            taken = offer and ctx.get(dut.i.ready)
            await ctx.tick()
            if taken:
                sent += 1
                ctx.set(dut.i.valid, 0)

    top = Module()
    top.domains.sync = ClockDomain()  # a combinational adder has no clock of its own
    top.submodules.dut = dut
    simulator = Simulator(top)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()

    sums, flags = model.reduce("SUM_F32", a, b), model.add_flags(a, b)
    assert got == list(zip(sums.tolist(), flags.tolist(), strict=True))


@pytest.mark.parametrize(
    ("parameters", "error", "text"),
    [
        ({"stages": -1}, ValueError, "Number of pipeline stages must be between 0 and 6, not -1"),
        ({"stages": True}, TypeError, "Number of pipeline stages must be an integer, not True"),
        ({"fmt": 32}, TypeError, "Number format must be a FloatFormat, not 32"),
    ],
)
def test_bad_parameters_of_adders_are_named(parameters: Any, error: Any, text: str) -> None:
    for adder in FPAdder, StreamAdder:
        with pytest.raises(error, match=text):
            adder(**parameters)


@pytest.mark.parametrize(
    ("exponent", "fraction", "error", "text"),
    [
        (2, 5, ValueError, "Width of the exponent must be at least 3, not 2"),
        (5, 1, ValueError, "Width of the fraction must be at least 2, not 1"),
        (3, 8, ValueError, "Width of the fraction must be at most 4 for an exponent of 3 bits"),
        (5.0, 10, TypeError, "Width of the exponent must be an integer, not 5.0"),
    ],
)
def test_impossible_formats_are_named(exponent: Any, fraction: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        FloatFormat(exponent=exponent, fraction=fraction)

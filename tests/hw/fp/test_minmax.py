# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Minimum and maximum against the golden model and SoftFloat's comparison."""

from typing import Any

import numpy as np
import pytest
import softfloatpy
from amaranth.sim import Simulator

from hw.fp import model
from hw.fp.minmax import FPMinMax

MAGNITUDES = [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FFFFFFF]
EDGES = [sign | magnitude for sign in (0, 1 << 31) for magnitude in MAGNITUDES]
CANONICAL_NAN = 0x7FC00000


def operands() -> list[tuple[int, int]]:
    rng = np.random.default_rng(5)
    pairs = [(a, b) for a in EDGES for b in EDGES]
    pairs += [(int(a), int(b)) for a, b in rng.integers(0, 1 << 32, (300, 2))]
    return pairs + [(a, a ^ 1 << 31) for a, _ in pairs[-50:]]


def hardware(maximum: bool) -> list[tuple[int, int]]:
    """Result and flags for every pair of operands."""
    dut = FPMinMax()
    results = []

    async def bench(ctx: Any) -> None:
        ctx.set(dut.maximum, maximum)
        for a, b in operands():
            ctx.set(dut.a, a)
            ctx.set(dut.b, b)
            await ctx.delay(1e-9)
            results.append((ctx.get(dut.o), ctx.get(dut.flags).as_bits()))

    simulator = Simulator(dut)
    simulator.add_testbench(bench)
    simulator.run()
    return results


@pytest.mark.parametrize(("maximum", "name"), [(False, "MIN_F32"), (True, "MAX_F32")])
def test_results_equal_the_golden_model(maximum: bool, name: str) -> None:
    a, b = np.array(operands(), dtype=np.uint32).T

    results = [word for word, _ in hardware(maximum)]

    assert len(results) == len(a) > 600
    assert results == model.reduce(name, a, b).tolist()


@pytest.mark.parametrize("maximum", [False, True])
def test_results_are_ordered_as_softfloat_compares(maximum: bool) -> None:
    compared = 0
    for (a, b), (word, flags) in zip(operands(), hardware(maximum), strict=True):
        x, y = (softfloatpy.Float32.from_bytes(v.to_bytes(4, "big")) for v in (a, b))
        signalling = x.is_signaling_nan() or y.is_signaling_nan()
        assert flags == signalling << 4
        if x.is_nan() or y.is_nan():
            assert word == CANONICAL_NAN
            continue
        compared += 1
        assert word in (a, b)
        other = b if word == a else a
        r, o = (softfloatpy.Float32.from_bytes(v.to_bytes(4, "big")) for v in (word, other))
        assert (r >= o) if maximum else (r <= o)
    assert compared > 400


@pytest.mark.parametrize(("name", "zero"), [("MIN_F32", 1 << 31), ("MAX_F32", 0)])
def test_minus_zero_is_less_than_plus_zero_in_the_golden_model(name: str, zero: int) -> None:
    zeros = np.array([0, 1 << 31], dtype=np.uint32)

    assert model.reduce(name, zeros, zeros[::-1]).tolist() == [zero, zero]


def test_golden_model_keeps_the_type_of_its_operands_and_names_what_it_refuses() -> None:
    ones = np.ones(3, dtype=np.float32)

    assert model.reduce("SUM_F32", ones, ones).dtype == np.float32
    with pytest.raises(ValueError, match="not 'PRODUCT'"):
        model.reduce("PRODUCT", ones, ones)
    with pytest.raises(TypeError, match="a must hold float32, int32 or uint32, not float64"):
        model.reduce("SUM_F32", ones.astype(np.float64), ones)

# SPDX-License-Identifier: Apache-2.0
"""Operands and results for the bench of designs that never stall: adder and lanes."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foldwire.catalog import Design
from foldwire.handoff.part import Handoff, HandoffBench
from hw.fp import model
from hw.fp.adder import FPAdder
from hw.fp.alu import ReduceALU
from hw.fp.formats import BINARY32, FloatFormat
from hw.fp.ops import ReduceOp

__all__ = ["HANDOFF", "adder_data", "lanes_data"]

_ROWS = 500
_SEED = 1


def _edges(fmt: FloatFormat) -> list[int]:
    """Both zeros, infinities and largest numbers, the ends of subnormals, a NaN of each kind."""
    one = 1 << fmt.fraction
    edges = (0, 1, one - 1, one, fmt.infinity - 1, fmt.infinity, fmt.infinity | 1,
             fmt.canonical_nan)
    return [edge | sign << fmt.width - 1 for edge in edges for sign in (0, 1)]


def _pairs(fmt: FloatFormat, count: int, rng: random.Random) -> tuple[list[int], list[int]]:
    """Operands: half of them close in magnitude, where sums cancel and round, some at an edge."""
    pairs = []
    for _ in range(count):
        a, b = rng.getrandbits(fmt.width), rng.getrandbits(fmt.width)
        kind = rng.randrange(8)
        if kind < 4:
            near = a + rng.randint(-3 << fmt.fraction, 3 << fmt.fraction)
            b = near % (1 << fmt.width - 1) | b >> fmt.width - 1 << fmt.width - 1
        elif kind == 4:
            a, b = rng.choice(_edges(fmt)), rng.choice([b, *_edges(fmt)])
        pairs.append((a, b))
    return [a for a, _ in pairs], [b for _, b in pairs]


def _sums(fmt: FloatFormat, a: list[int], b: list[int]) -> tuple[list[int], list[int]]:
    """Sums and flags."""
    x: NDArray[Any]
    y: NDArray[Any]
    if fmt == BINARY32:
        x, y = (np.array(each, np.uint32).view(np.float32) for each in (a, b))
        total = model.reduce("SUM_F32", x, y)
        return total.view(np.uint32).tolist(), model.add_flags(x, y).tolist()
    x, y = (np.array(each, np.uint16).view(np.float16) for each in (a, b))
    with np.errstate(all="ignore"):
        half = x + y
        exact = x.astype(np.float64) + y.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    overflow = finite & np.isinf(half)
    inexact = finite & (half.astype(np.float64) != exact)
    quiet = 1 << fmt.fraction - 1
    signals = [
        any(word % (1 << fmt.width - 1) > fmt.infinity and not word & quiet for word in pair)
        for pair in zip(a, b, strict=True)
    ]
    invalid = np.array(signals) | np.isnan(half) & ~np.isnan(x) & ~np.isnan(y)
    bits = np.where(np.isnan(half), fmt.canonical_nan, half.view(np.uint16))
    return bits.tolist(), (inexact | overflow << 2 | invalid << 4).tolist()


def adder_data(adder: FPAdder) -> dict[str, Any]:
    """Data for `bench/cocotb_vectors.py`, for an adder."""
    a, b = _pairs(adder.fmt, _ROWS, random.Random(_SEED))
    edges = _edges(adder.fmt)
    a += [edge for edge in edges for _ in edges]
    b += edges * len(edges)
    sums, flags = _sums(adder.fmt, a, b)
    return {
        "latency": adder.latency,
        "inputs": ["a", "b"],
        "rows": list(zip(a, b, strict=True)),
        "outputs": ["sum", "flags"],
        "expected": list(zip(sums, flags, strict=True)),
    }


def lanes_data(alu: ReduceALU) -> dict[str, Any]:
    """The same for an array of lanes; about one in four cycles has no operands."""
    rng = random.Random(_SEED)
    rows, expected = [], []
    for _ in range(_ROWS):
        valid, op = int(rng.random() < 0.75), rng.choice(list(ReduceOp))
        a, b = (np.array(each, np.uint32) for each in _pairs(BINARY32, alu.lanes, rng))
        rows.append((valid, op.value, _beat(a), _beat(b)))
        expected.append((valid, _beat(model.reduce(op, a, b)) if valid else None))
    return {
        "latency": alu.latency,
        "inputs": ["i_valid", "op", "a", "b"],
        "rows": rows,
        "outputs": ["o_valid", "o"],
        "expected": expected,
    }


def _beat(lanes: NDArray[Any]) -> int:
    return int.from_bytes(lanes.view(np.uint32).astype("<u4").tobytes(), "little")


def _bench(design: Design, manifest: Mapping[str, Any]) -> HandoffBench:
    component = design.component
    if isinstance(component, FPAdder):
        return HandoffBench(module="cocotb_vectors", data=adder_data(component))
    assert isinstance(component, ReduceALU)
    return HandoffBench(module="cocotb_vectors", data=lanes_data(component))


HANDOFF = Handoff(bench=_bench)

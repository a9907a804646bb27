# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The lane array against the golden model, and its timing claims."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator

from gen.compile import compile_model
from hw.fp import model
from hw.fp.adder import MAX_STAGES
from hw.fp.alu import ReduceALU
from hw.fp.ops import ReduceOp

CACHE = Path(__file__).parents[3] / "build" / "cache"
EDGES = np.array(
    [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000],
    dtype=np.uint32,
)
EDGES = np.concatenate([EDGES, EDGES | np.uint32(1 << 31)])


def pack(words: Any) -> int:
    return int.from_bytes(np.asarray(words, dtype="<u4").tobytes(), "little")


def unpack(beat: int, lanes: int) -> np.ndarray:
    return np.frombuffer(beat.to_bytes(4 * lanes, "little"), dtype="<u4")


def run(lanes: int, stages: int, beats: list[tuple[bool, ReduceOp, Any, Any]]) -> list[Any]:
    """Drive one beat per cycle; return (cycle, results) of every beat that comes out."""
    dut = ReduceALU(lanes, stages=stages)
    seen = []

    async def bench(ctx: Any) -> None:
        for cycle in range(len(beats) + stages):
            valid, op, a, b = beats[cycle] if cycle < len(beats) else (False, ReduceOp(0), 0, 0)
            ctx.set(dut.i_valid, valid)
            ctx.set(dut.op, op)
            ctx.set(dut.a, pack(a))
            ctx.set(dut.b, pack(b))
            if ctx.get(dut.o_valid):
                seen.append((cycle, unpack(ctx.get(dut.o), lanes)))
            await ctx.tick()

    top = Module()
    top.domains.sync = ClockDomain()  # a combinational array has no clock of its own
    top.submodules.dut = dut
    simulator = Simulator(top)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    return seen


@pytest.mark.parametrize("stages", range(MAX_STAGES + 1))
def test_every_operation_has_the_stated_latency_under_any_pattern_of_valid(stages: int) -> None:
    lanes = 2
    rng = np.random.default_rng(stages)
    pairs = rng.integers(0, 1 << 32, (60, 2, lanes), dtype=np.uint32)
    pairs[::3] = EDGES[rng.integers(0, len(EDGES), pairs[::3].shape)]
    beats = [(bool(rng.integers(4)), ReduceOp(int(rng.integers(4))), a, b) for a, b in pairs]
    expected = [
        (cycle + stages, model.reduce(op, a, b))
        for cycle, (valid, op, a, b) in enumerate(beats)
        if valid
    ]

    seen = run(lanes, stages, beats)

    assert ReduceALU(lanes, stages=stages).latency == stages
    assert len(seen) == len(expected) > 0
    for (seen_cycle, results), (cycle, words) in zip(seen, expected, strict=True):
        assert seen_cycle == cycle
        assert results.tolist() == words.tolist()


@pytest.mark.parametrize("op", list(ReduceOp))
def test_every_operation_is_right_on_all_pairs_of_special_values(op: ReduceOp) -> None:
    a, b = (grid.reshape(-1, 6) for grid in np.meshgrid(EDGES, EDGES))

    seen = run(6, 1, [(True, op, *beat) for beat in zip(a, b, strict=True)])

    results = np.array([words for _, words in seen])
    assert results.tolist() == model.reduce(op, a, b).tolist()


def wide(beats: np.ndarray) -> np.ndarray:
    """Beats of two lanes as the 64-bit words of a compiled model."""
    return np.ascontiguousarray(beats, dtype="<u4").view("<u8").ravel()


def test_operations_may_change_every_cycle_and_stay_right_for_many_operands() -> None:
    lanes, stages, beats = 2, 3, 20_000
    rng = np.random.default_rng(6)
    ops = rng.integers(0, 4, beats)
    a, b = rng.integers(0, 1 << 32, (2, beats, lanes), dtype=np.uint32)
    # Half of the operands are close in magnitude, so that sums cancel.
    b[::2] = (a[::2] ^ (b[::2] & np.uint32(0x80FFFFFF))).astype(np.uint32)
    compiled = compile_model(ReduceALU(lanes, stages=stages), name="reduce_alu", cache_dir=CACHE)

    with compiled.instance() as instance:
        instance.set("i_valid", 1)
        out = instance.run({"a": wide(a), "b": wide(b), "op": ops}, ["o", "o_valid"])

    results = out["o"][stages - 1 :].astype("<u8").view("<u4").reshape(-1, lanes)
    assert out["o_valid"].tolist() == [0] * (stages - 1) + [1] * (beats - stages + 1)
    for op in ReduceOp:
        chosen = np.flatnonzero(ops[: len(results)] == op.value)
        assert len(chosen) > beats // 8
        assert (results[chosen] == model.reduce(op, a[chosen], b[chosen])).all(), op


@pytest.mark.parametrize("stages", [3, MAX_STAGES])
def test_an_operand_comes_out_as_it_is_whatever_the_operation_says(stages: int) -> None:
    lanes, beats = 2, 4000
    rng = np.random.default_rng(7)
    ops, keep = rng.integers(0, 4, beats), rng.integers(0, 2, beats)
    a, b = rng.integers(0, 1 << 32, (2, beats, lanes), dtype=np.uint32)
    for words in (a, b):
        words[::3] = EDGES[rng.integers(0, len(EDGES), words[::3].shape)]
    compiled = compile_model(
        ReduceALU(lanes, stages=stages, keeps=True), name="keeping_alu", cache_dir=CACHE
    )

    with compiled.instance() as instance:
        instance.set("i_valid", 1)
        out = instance.run({"a": wide(a), "b": wide(b), "op": ops, "keep": keep}, ["o"])

    results = out["o"][stages - 1 :].astype("<u8").view("<u4").reshape(-1, lanes)
    keep, ops = (each[: len(results)] for each in (keep, ops))
    assert (results[keep == 1] == b[: len(results)][keep == 1]).all()
    for op in ReduceOp:
        chosen = np.flatnonzero((ops == op.value) & (keep == 0))
        assert (results[chosen] == model.reduce(op, a[chosen], b[chosen])).all(), op


def test_lanes_do_not_influence_each_other() -> None:
    a = np.arange(16, dtype=np.float32).view(np.uint32)

    ((_, results),) = run(16, 1, [(True, ReduceOp.SUM_F32, a, a[::-1])])

    assert (results.view(np.float32) == 15).all()

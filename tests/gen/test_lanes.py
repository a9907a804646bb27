# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Models of several lanes do in each lane what a model of one instance does."""

from unittest import mock

import numpy as np
import pytest

from bench.random_netlists import (
    CELLS,
    random_cells,
    random_choices,
    random_inputs,
    random_memories,
    random_registers,
    random_tree,
)
from gen.compile import compile_model, compile_rtlil
from gen.compiler import vector_flags
from hw.common.fifo import StreamFIFO
from hw.fp.adder import FPAdder

ROWS = 300


@pytest.fixture(autouse=True)
def quickly_compiled(monkeypatch):
    monkeypatch.setenv("FOLDWIRE_CXXFLAGS", "-O0")


def differing(one, several):
    """Outputs that differ in some lane, each lane with random inputs of its own."""
    names = [port.name for port in one.ports if not port.is_input]
    inputs = [random_inputs(one.ports, ROWS, seed) for seed in range(several.lanes)]
    with several.instance() as instance:
        seen = instance.run_lanes(inputs, names)
    found = set()
    for lane, given in enumerate(inputs):
        with one.instance() as instance:
            expected = instance.run(given, names)
        found |= {name for name in names if not np.array_equal(seen[lane][name], expected[name])}
    return sorted(found)


@pytest.mark.parametrize(
    "design, lanes",
    [
        (random_cells(2, cells=len(CELLS) * 3 // 2), 4),
        (random_memories(2, memories=2), 8),
        (random_tree(2, cells=15), 2),
        (random_choices(2), 4),
        (random_registers(2), 4),
    ],
    ids=["cells", "memories", "tree", "choices", "registers"],
)
def test_random_designs_do_the_same_in_every_lane(design, lanes, cache, monkeypatch):
    """With modules and branches of every size."""
    monkeypatch.setattr("gen.native.branches._WORTH", 1)
    with mock.patch("gen.native.generate.LARGE_CELLS", 10):
        one, several = (
            compile_rtlil(*design, name="random", cache_dir=cache, generator="native", lanes=count)
            for count in (1, lanes)
        )
    assert (one.lanes, several.lanes) == (1, lanes)
    assert differing(one, several) == []


@pytest.mark.parametrize(
    "make", [lambda: FPAdder(stages=3), lambda: StreamFIFO(64, 16), lambda: StreamFIFO(40, 64)],
    ids=["adder", "fifo", "fifo of block memory"],
)
def test_blocks_do_the_same_in_every_lane(make, cache):
    one, several = (compile_model(make(), cache_dir=cache, lanes=lanes) for lanes in (1, 4))
    assert differing(one, several) == []


@pytest.mark.skipif(not vector_flags(), reason="the processor has no vectors that are known")
@pytest.mark.parametrize("flags", ["-mno-avx512f", "-mno-avx"])
def test_lanes_do_the_same_without_vectors(flags, cache, monkeypatch):
    monkeypatch.setenv("FOLDWIRE_CXXFLAGS", f"-O0 {flags}")
    one, several = (compile_model(FPAdder(), cache_dir=cache, lanes=lanes) for lanes in (1, 8))
    assert differing(one, several) == []


def test_a_lane_has_its_own_initial_state_and_inputs(mixed, cache):
    model = compile_model(mixed, name="mixed", cache_dir=cache, lanes=2)
    steps = [{"step": np.full(5, step)} for step in (1, 3)]
    with model.instance() as instance:
        first, second = instance.run_lanes(steps, ["follows_input"])
    assert len(set(first["follows_input"])) == len(set(second["follows_input"])) == 5
    assert not np.array_equal(first["follows_input"], second["follows_input"])


def test_lanes_that_there_are_not_are_refused(mixed, cache):
    for lanes in (0, 3, 16):
        with pytest.raises(ValueError, match=rf"^lanes must be 1, 2, 4, 8, not {lanes!r}$"):
            compile_model(mixed, cache_dir=cache, lanes=lanes)
    for lanes in (True, "4"):
        with pytest.raises(TypeError, match=rf"^lanes must be an integer, not {lanes!r}$"):
            compile_model(mixed, cache_dir=cache, lanes=lanes)
    with pytest.raises(ValueError, match=r"^models of several lanes are native, not cxxrtl$"):
        compile_model(mixed, cache_dir=cache, lanes=2, generator="cxxrtl")
    with compile_model(mixed, cache_dir=cache, lanes=2).instance() as instance:
        with pytest.raises(ValueError, match=r"^inputs must name the same ports for 2 lanes$"):
            instance.run({"step": [1]}, [])

# SPDX-License-Identifier: Apache-2.0
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from gen.benches import SIMULATOR
from tb import runner
from tb.runner import CosimError, Results, simulate

pytestmark = pytest.mark.cosim

MODULE = "tb.selftest.cocotb_counter"
Run: TypeAlias = Callable[..., Results]

COUNTER = """
module counter(input clk, input rst, output reg [7:0] count);
  always @(posedge clk) count <= rst ? 8'd0 : count + 8'd1;
endmodule
"""


# Runs with an unknown bit where Icarus has four states, at 0 or 1 by seed where Verilator has two.
UNSET = COUNTER.replace("rst ? 8'd0 : count", "count")


@pytest.fixture
def run(simulator: str) -> Run:
    def run(test: str, verilog: str = COUNTER, cycles: int = 7, seed: int = 1) -> Results:
        return simulate(
            verilog, MODULE, top="counter", seed=seed, parameters={"cycles": cycles}, tests=[test],
            simulator=simulator,
        )

    return run


def test_passing_test_is_named(run: Run, simulator: str) -> None:
    results = run("counts_every_cycle")
    assert results.ran == {"counts_every_cycle"}
    assert results.simulator == simulator


def test_failing_test_is_reported_with_its_log(run: Run) -> None:
    with pytest.raises(CosimError, match="claims_a_wrong_count"):
        run("claims_a_wrong_count")


def test_hanging_test_ends_at_its_timeout(run: Run) -> None:
    with pytest.raises(CosimError, match="SimTimeoutError"):
        run("waits_for_ever")


def test_no_matching_test_is_a_failure(run: Run) -> None:
    with pytest.raises(CosimError, match="no cocotb test ran"):
        run("no_such_test")


def test_verilog_that_does_not_build_is_reported(run: Run, simulator: str) -> None:
    broken = COUNTER.replace("endmodule", "")
    with pytest.raises(CosimError, match=f"counter does not build under {simulator.title()}"):
        run("counts_every_cycle", verilog=broken)


def test_parameters_reach_the_simulator(run: Run) -> None:
    assert run("counts_every_cycle", cycles=11).ran


def test_what_is_never_set_is_found(run: Run) -> None:
    """A register without an initial value or a reset is not taken for zero."""
    with pytest.raises(CosimError, match="counts_every_cycle"):
        run("counts_every_cycle", verilog=UNSET)


def test_registers_start_at_random_by_seed(verilator: str) -> None:
    def first(seed: int) -> str:
        results = simulate(UNSET, MODULE, top="counter", seed=seed, tests=["says_how_it_starts"],
                           simulator=verilator)
        found = re.search(r"starts at (\d+)", results.log.read_text())
        assert found is not None, "it does not say how it starts"
        return found[1]

    starts = [first(seed) for seed in (1, 2, 3, 1)]
    assert starts[0] == starts[3] and len(set(starts)) > 1


def test_a_design_is_built_once(verilator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(COUNTER, MODULE, top="counter", seed=1, tests=["counts_every_cycle"],
             parameters={"cycles": 5}, simulator=verilator)

    def build_bench(*arguments: Any, **options: Any) -> None:
        raise AssertionError("built again")

    monkeypatch.setattr(runner, "build_bench", build_bench)
    simulate(COUNTER, MODULE, top="counter", seed=2, tests=["counts_every_cycle"],
             parameters={"cycles": 6}, simulator=verilator)


def test_the_simulator_is_asked_for_by_argument_or_environment(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SIMULATOR, "questa")
    for asked in (None, "questa"):
        with pytest.raises(CosimError, match="one of verilator, icarus, not 'questa'"):
            simulate(COUNTER, MODULE, top="counter", seed=1, simulator=asked)

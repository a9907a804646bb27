import re

import pytest

from tb.runner import CosimError, simulate

pytestmark = pytest.mark.cosim

MODULE = "tb.selftest.cocotb_counter"
COUNTER = """
module counter(input clk, input rst, output reg [7:0] count);
  always @(posedge clk) count <= rst ? 8'd0 : count + 8'd1;
endmodule
"""


def run(test, verilog=COUNTER, cycles=7):
    return simulate(
        verilog, MODULE, top="counter", seed=1, parameters={"cycles": cycles}, test=test
    )


def test_passing_test_is_named():
    assert run("counts_every_cycle").ran == {"counts_every_cycle"}


def test_failing_test_is_reported_with_its_log():
    with pytest.raises(CosimError, match="claims_a_wrong_count"):
        run("claims_a_wrong_count")


def test_hanging_test_ends_at_its_timeout():
    with pytest.raises(CosimError, match="SimTimeoutError"):
        run("waits_for_ever")


def test_no_matching_test_is_a_failure():
    with pytest.raises(CosimError, match="no cocotb test ran"):
        run("no_such_test")


def test_verilog_that_does_not_build_is_reported():
    broken = COUNTER.replace("endmodule", "")
    with pytest.raises(CosimError, match=re.escape("counter does not build under Icarus")):
        run("counts_every_cycle", verilog=broken)


def test_parameters_reach_the_simulator():
    assert run("counts_every_cycle", cycles=11).ran

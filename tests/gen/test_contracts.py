# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Contracts of streams at ports: assertions hear of what breaks them, and of nothing else."""

import importlib.util
import json
import subprocess

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bench.verilog import slang
from foldwire.catalog import build
from foldwire.cli import main
from gen.contracts import contracts
from gen.verilator import find_verilator, has_verilator
from gen.verilog import emit, emit_files

MAIN = """
#include "Vtop.h"
int main() {
  VerilatedContext context;
  Vtop top(&context);
  top.RESET = ACTIVE;
  for (int cycle = 0; cycle < 40 && !context.gotFinish(); cycle++) {
    if (cycle == 3) top.RESET = !ACTIVE;
    top.o_ready = cycle % 3 == 2;
    top.i_valid = GIVEN;
    top.i_payload = WHAT;
    top.clk = 0; top.eval(); context.timeInc(1);
    top.clk = 1; top.eval(); context.timeInc(1);
  }
}
"""


class Stage(wiring.Component):
    """Offers a count; with a mistake it takes the offer back, or changes it."""

    i: In(stream.Signature(4))
    o: Out(stream.Signature(4))

    def __init__(self, mistake=""):
        self._mistake = mistake
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        count = Signal(4)
        m.d.sync += count.eq(count + 1)
        m.d.comb += self.i.ready.eq(count[:3] == 7)
        if self._mistake == "valid":
            m.d.comb += [self.o.valid.eq(count[1]), self.o.payload.eq(3)]
        elif self._mistake == "payload":
            m.d.comb += [self.o.valid.eq(1), self.o.payload.eq(count)]
        else:
            m.d.comb += self.o.valid.eq(1)
            with m.If(self.o.ready):
                m.d.sync += self.o.payload.eq(self.o.payload + 1)
        return m


def run(folder, component, given, what, reset):
    """Run 40 cycles with assertions; return what the program says."""
    (path, _) = emit_files(component, folder, name="stage", reset=reset)
    text = contracts(emit(component, name="stage", reset=reset).manifest)
    (folder / "stage_contracts.sv").write_text(text)
    port = "rst" if reset == "high" else "rst_n"
    program = MAIN.replace("GIVEN", given).replace("WHAT", what).replace("RESET", port).replace(
        "ACTIVE", "1" if reset == "high" else "0")
    (folder / "main.cpp").write_text(program)
    made = find_verilator().build(
        [folder / "main.cpp", path, folder / "stage_contracts.sv"], top="stage",
        folder=folder / "work", arguments=["--assert", "-Wno-fatal"], flags="-O0",
    )
    done = subprocess.run([made], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.skipif(not has_verilator(), reason="needs Verilator")
@pytest.mark.parametrize("mistake, given, what, reset, wrong", [
    ("", "1", "5", "high", ""), ("", "1", "5", "low", ""),
    ("valid", "0", "5", "high", "o_holds"), ("payload", "0", "5", "low", "o_holds"),
    ("", "cycle % 2", "5", "high", "i_holds"), ("", "1", "cycle / 9", "high", "i_holds"),
])
def test_assertions_hear_of_an_offer_that_is_taken_back_or_changed(
    mistake, given, what, reset, wrong, tmp_path
):
    said = run(tmp_path, Stage(mistake), given, what, reset)
    assert (f"contracts.{wrong}" in said) if wrong else said == "", said
    assert ("Assertion failed" in said) == bool(wrong)


def test_every_channel_with_a_ready_has_a_contract():
    made = build("ace", "test", {})
    text = contracts(emit(made.component, name=made.top).manifest)
    for channel in ("csr_aw", "csr_b", "mem_0_r", "mem_0_w", "link_0_tx_t", "link_1_rx_t"):
        assert f"  {channel}_holds: " in text, channel
    assert text.count(" property (") == 14
    assert "assert property" in text and "`FOLDWIRE_INPUTS property" in text
    assert "bind ace_test ace_test_contracts contracts (.*);" in text


def test_a_design_without_streams_or_state_has_no_contract():
    made = build("adder", "binary32-comb", {})
    assert contracts(emit(made.component, name=made.top).manifest) == ""


@pytest.mark.skipif(importlib.util.find_spec("pyslang") is None, reason="needs pyslang")
def test_slang_says_nothing_of_contracts(tmp_path):
    text = emit(Stage(), name="stage")
    path = tmp_path / "both.sv"
    path.write_text(text.text + contracts(text.manifest))
    assert slang(path) == ""


def test_contracts_are_handed_over_and_checked_by_the_bench(tmp_path):
    assert main(["gen", "ace", "--preset", "test", "-o", str(tmp_path)]) == 0
    assert (tmp_path / "ace_test_contracts.sv").is_file()
    bench = json.loads((tmp_path / "bench/ace_test.json").read_text())
    assert bench["sources"][-1] == "ace_test_contracts.sv"
    assert "contracts" not in (tmp_path / "ace_test.f").read_text()  # no part of a synthesis

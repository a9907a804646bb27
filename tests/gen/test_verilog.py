# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Emitted Verilog: the same design, always the same text, nothing for a linter to find."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from amaranth.back import verilog as amaranth_verilog
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from gen.compile import compile_model
from gen.rtlil import component_ports
from gen.verilator import find_verilator, has_verilator
from gen.verilog import WAIVERS, emit, emit_files
from gen.yosys import YosysError, run_yosys
from hw.fp.adder import FPAdder

ROOT = Path(__file__).parents[2]


class Sorter(wiring.Component):
    """Two equal comparators, a state machine, and a register that is written field by field."""

    i: In(16)
    o: Out(16)
    o__flags: Out(4)

    def elaborate(self, platform):
        m = Module()
        state = Signal(2, init=2)
        pair = Signal(16)
        for index in range(2):
            m.submodules[f"comparator_{index}"] = comparator = Comparator()
            held = Signal(8, name="held")
            m.d.sync += held.eq(self.i.word_select(index, 8))
            m.d.comb += [comparator.a.eq(held), comparator.b.eq(pair[4:12])]
            m.d.comb += self.o__flags[index].eq(comparator.less)
        m.d.comb += self.o__flags[3].eq(1)
        with m.Switch(state):
            with m.Case(0, 2):
                m.d.sync += [pair[:8].eq(self.i[8:]), state.eq(state + self.i[0])]
            with m.Case(1):
                m.d.sync += [pair[8:].eq(self.i[:8]), state.eq(3)]
            with m.Default():
                m.d.sync += state.eq(0)
        m.d.comb += self.o.eq(Cat(pair[3:], state))
        return m


class Comparator(wiring.Component):
    a: In(8)
    b: In(8)
    less: Out(1)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.a[7] != self.b[7]):
            m.d.comb += self.less.eq(self.a[7])
        with m.Else():
            m.d.comb += self.less.eq(self.a < self.b)
        return m


def plain(component, **options):
    """The component in the style that Yosys writes."""
    return emit(component, style="plain", **options)


def reference(component, name):
    """What amaranth.back.verilog writes, with its ports named like ours."""
    text = amaranth_verilog.convert(component, name=name, emit_src=False)
    return re.sub(r"\bo__flags\b", "o_flags", text)


def prove_equal(folder, ours, theirs, top):
    """SAT: no input sequence of any length tells the two apart (induction over equal registers)."""
    (folder / "ours.v").write_text(ours)
    (folder / "theirs.v").write_text(theirs)
    steps = []
    for side in ("ours", "theirs"):
        steps += [f"read_verilog -sv {side}.v", f"hierarchy -top {top}", "proc", "flatten",
                  "memory", "opt_clean", f"rename {top} {side}", "design -stash " + side]
    proof = "sat -verify -prove trigger 0 -tempinduct -maxsteps 12 -set-init-undef -set-def-inputs"
    steps += ["design -copy-from ours -as ours ours", "design -copy-from theirs -as theirs theirs",
              "miter -equiv -flatten -make_outputs ours theirs miter", "hierarchy -top miter",
              "opt -full", "clean", f"{proof} miter"]
    run_yosys(steps, cwd=folder, timeout=120)


def test_small_designs_are_proved_equal_to_what_amaranth_writes(tmp_path):
    prove_equal(tmp_path, plain(Sorter(), name="top").text, reference(Sorter(), "top"), "top")


def test_a_combinational_adder_is_proved_equal_to_what_amaranth_writes(tmp_path):
    ours = plain(Comparator(), name="top").text
    prove_equal(tmp_path, ours, reference(Comparator(), "top"), "top")


@pytest.mark.parametrize(
    ("old", "new"),
    [(r"a < b", "a <= b"), (r"2'h3;", "2'h1;"), (r"4'h8|1'h1", "1'h0")],
    ids=["comparison", "next state", "constant output"],
)
def test_the_proof_finds_a_planted_difference(tmp_path, old, new):
    ours = plain(Sorter(), name="top").text
    planted, count = re.subn(old, new, ours, count=1)
    assert count == 1
    with pytest.raises(YosysError, match=r"(?i)proof did fail|model found|reached maximum"):
        prove_equal(tmp_path, planted, reference(Sorter(), "top"), "top")


INVERTED = """
module top(input clk, input rst, input [15:0] i, output [15:0] o, output [3:0] o_flags);
  core core(.clk(clk), .rst_n(~rst), .i(i), .o(o), .o_flags(o_flags));
endmodule
"""


@pytest.mark.parametrize("style", ["plain", "sv"])
def test_a_low_reset_is_proved_to_be_the_inverse_of_the_high_one(style, tmp_path):
    made = emit(Sorter(), name="core", style=style, reset="low")

    prove_equal(tmp_path, made.text + INVERTED, reference(Sorter(), "top"), "top")

    assert made.manifest["reset"] == {"port": "rst_n", "active": "low"}
    head = re.search(r"^module core\b.*?;", made.text, re.MULTILINE | re.DOTALL)[0]
    assert re.findall(r"\brst\w*", head) == ["rst_n"]


def test_a_reset_that_is_neither_high_nor_low_is_refused():
    with pytest.raises(ValueError, match=r"^reset must be one of high, low, not 'async'$"):
        emit(Sorter(), name="top", reset="async")


def test_icarus_runs_the_emitted_file_like_the_compiled_model(mixed, tmp_path, cache):
    if shutil.which("iverilog") is None:
        pytest.skip("needs iverilog")
    rng = np.random.default_rng(5)
    rows = 300
    inputs = {"step": rng.integers(0, 256, rows), "data": rng.integers(0, 1 << 40, rows)}
    inputs["data"][0] |= 1  # a memory's read register is unknown before its first read
    names = ["follows_input", "follows_state", "kept", "block_read", "table_read", "bank_read"]
    seen = compile_model(mixed, name="mixed", cache_dir=cache).instance().run(inputs, names)
    stimulus = "".join(
        f"    step = {step}; data = 40'd{data}; #1 clk = 1; #1 "
        f'$display("{" ".join(["%h"] * len(names))}", {", ".join(names)}); clk = 0;\n'
        for step, data in zip(*inputs.values(), strict=True)
    )
    outputs = "".join(
        f"  wire [{port['width'] - 1}:0] {port['name']};\n"
        for port in plain(type(mixed)(), name="mixed").manifest["ports"]
        if not port["is_input"]
    )
    (tmp_path / "mixed.v").write_text(plain(type(mixed)(), name="mixed").text)
    connections = ", ".join(f".{name}({name})" for name in names)
    (tmp_path / "bench.v").write_text(
        "`timescale 1ns / 1ps\nmodule bench;\n  reg clk, rst;\n  reg [7:0] step;\n"
        f"  reg [39:0] data;\n{outputs}  mixed dut(.clk(clk), .rst(rst), .step(step), "
        f".data(data), .wide(100'd0), {connections});\n"
        f"  initial begin\n    rst = 0; clk = 0;\n{stimulus}  end\nendmodule\n"
    )
    subprocess.run(
        ["iverilog", "-g2005", "-o", "x", "bench.v", "mixed.v"], cwd=tmp_path, check=True
    )
    lines = subprocess.run(
        ["vvp", "-n", "x"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    for row, line in enumerate(lines[:rows]):
        expected = [int.from_bytes(np.atleast_1d(seen[n][row]).tobytes(), "little") for n in names]
        assert [int(word, 16) for word in line.split()] == expected, row


def test_the_text_is_the_same_whatever_the_hash_seed():
    code = (
        "import sys; sys.path.insert(0, 'tests/gen')\n"
        "from gen.verilog import emit\nfrom hw.fp.adder import FPAdder\n"
        "from test_verilog import Sorter\n"
        "print(emit(FPAdder(stages=2), name='adder', header={'stages': 2}, style='plain').text)\n"
        "print(emit(Sorter(), name='sorter', style='plain').text)\n"
    )
    texts = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        ).stdout
        for seed in ("1", "4242")
    ]
    assert texts[0] == texts[1] and "module sorter" in texts[0]


def test_the_text_holds_no_paths_and_no_dates(mixed):
    text = plain(mixed, name="mixed", header={"depth": 16}).text
    assert "//   depth = 16" in text
    assert not re.search(r"/(home|root|tmp|usr|work)\b|20\d\d-\d\d|/python", text)


def test_equal_modules_are_written_once():
    emitted = plain(Sorter(), name="top")
    assert emitted.manifest["instances"] == {"top": 1, "top_comparator": 2}
    assert emitted.text.count("\nmodule ") == emitted.modules == 2


def test_the_manifest_lists_ports_parameters_macros_and_tools(mixed, tmp_path):
    options = {"header": {"depth": 16}, "style": "plain"}
    verilog, manifest = emit_files(mixed, tmp_path, name="mixed", **options)
    facts = json.loads(manifest.read_text())
    assert facts["ports"][0] == {"name": "step", "width": 8, "is_input": True}
    assert facts["parameters"] == {"depth": 16}
    assert facts["sram_macros"] == ["sram_1r1w_20x72"]
    assert set(facts["tools"]) == {"foldwire", "amaranth", "yosys"}
    assert "module sram_1r1w_20x72" in verilog.read_text()


def test_top_ports_have_single_underscores():
    assert re.search(r"output \[3:0\] o_flags;", plain(Sorter(), name="top").text)


class Half(wiring.Signature):
    transparent = True


class Halves(wiring.Component):
    """Interfaces whose names are left out of the names of ports, alone and in an array."""

    def __init__(self):
        halves = {"left": Out(Half({"a": Out(4)})), "right": In(Half({"b": In(3)}))}
        whole = wiring.Signature(halves)
        super().__init__({"bus": Out(whole).array(2), "csr": In(whole)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.bus[1].left.a.eq(self.csr.left.a), self.bus[0].left.a.eq(3)]
        m.d.comb += [bus.right.b.eq(5) for bus in self.bus]
        return m


def test_a_transparent_interface_has_no_part_in_the_names_of_ports():
    ports = {port.name: (port.width, port.is_input) for port in component_ports(Halves())}

    assert ports == {
        "bus_0_a": (4, False), "bus_0_b": (3, False), "bus_1_a": (4, False), "bus_1_b": (3, False),
        "csr_a": (4, True), "csr_b": (3, True),
    }
    text = plain(Halves(), name="top").text
    assert re.search(r"input \[3:0\] csr_a;", text) and re.search(r"output \[3:0\] bus_1_a;", text)


def test_a_member_that_is_a_constant_is_no_port():
    class Always(wiring.Component):
        i: In(stream.Signature(4, always_ready=True))
        o: Out(4)

        def elaborate(self, platform):
            m = Module()
            m.d.comb += self.o.eq(self.i.payload)
            return m

    assert [port.name for port in component_ports(Always())] == ["i_payload", "i_valid", "o"]
    assert "i_ready" not in plain(Always(), name="top").text


def test_equal_names_in_two_transparent_interfaces_are_refused():
    class Same(wiring.Component):
        left: Out(Half({"a": Out(1)}))
        right: Out(Half({"a": Out(1)}))

    message = "^Same: ports 'left.a' and 'right.a' would both be emitted as 'a'$"
    with pytest.raises(ValueError, match=message):
        component_ports(Same())


class Clash(wiring.Component):
    a_b: In(1)
    a__b: In(1)


@pytest.mark.parametrize("name", ["2top", "top level", ""])
def test_a_name_that_is_no_identifier_is_refused(name):
    with pytest.raises(ValueError, match="identifier"):
        plain(Sorter(), name=name)


@pytest.mark.parametrize("stages", [0, 3])
def test_verilator_finds_nothing_to_say(stages, tmp_path, mixed):
    if not has_verilator():
        pytest.skip("needs Verilator")
    designs = {"adder": FPAdder(stages=stages), "sorter": Sorter(), "mixed": mixed}
    for name, component in designs.items():
        (path, _) = emit_files(component, tmp_path, name=name, style="plain")
        assert not find_verilator().lint([WAIVERS, path], top=name)


def test_every_waiver_has_a_reason():
    lines = WAIVERS.read_text().splitlines()
    waived = [n for n, line in enumerate(lines) if line.startswith("lint_off")]
    assert 0 < len(waived) <= 7
    assert all(lines[n - 1].startswith("//") for n in waived)


@pytest.mark.parametrize("style", ["sv", "plain"])
@pytest.mark.parametrize("name", ["module", "final", "logic"])
def test_a_name_that_the_language_reserves_is_refused(name, style):
    with pytest.raises(ValueError, match=f"^name must be no reserved word .*, not '{name}'$"):
        emit(FPAdder(stages=1), name=name, style=style)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"style": ["sv"]}, "style must be one of sv, plain, not ['sv']"),
     ({"reset": 5}, "reset must be one of high, low, not 5"),
     ({"reset": []}, "reset must be one of high, low, not []"),
     ({"header": 5}, "header must map names of parameters to values, not 5"),
     ({"command": 5}, "command must be a text, not 5")],
)
def test_options_that_are_none_are_refused(options, message):
    with pytest.raises((TypeError, ValueError)) as caught:
        emit(FPAdder(stages=1), name="adder", **options)
    assert str(caught.value) == message


def test_what_a_caller_says_stays_within_the_comment():
    text = emit(
        FPAdder(stages=1), name="adder", header={"note": "a\nmodule b"}, command="c\r\nmodule d"
    ).text
    head = text.partition("typedef")[0]
    assert "note = a module b" in head and "Made by: c module d" in head
    assert not re.search(r"^module [bd]", text, re.MULTILINE)


@pytest.mark.parametrize("style", ["sv", "plain"])
def test_the_manifest_of_a_design_without_registers_has_no_clock(style):
    manifest = emit(FPAdder(stages=0), name="adder", style=style).manifest
    assert (manifest["clock"], manifest["reset"]) == (None, None)
    manifest = emit(FPAdder(stages=1), name="adder", style=style).manifest
    assert manifest["clock"] == "clk"


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"file: cannot be written: it is no folder$"):
        emit_files(FPAdder(stages=1), tmp_path / "file", name="adder")

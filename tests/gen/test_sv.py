# amaranth: UnusedElaboratable=no
"""Readable SystemVerilog: proved equal to Amaranth's own netlist, and fit to be read."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth.hdl import ClockDomain, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bench.parts import LIBRARY, MULTIPLIERS, PARTS, WHOLE, component_classes
from bench.text_mutants import draw
from bench.verilog import identifiers, measure
from gen.sv.design import DesignError
from gen.sv.names import escaped, identifier
from gen.sv.proof import Side, prove, reference, written
from gen.verilator import find_verilator, has_verilator
from gen.verilog import WAIVERS_SV, emit, emit_files
from gen.yosys import YosysError
from tests.gen.random_design import RandomDesign

ROOT = Path(__file__).parents[2]
QUICK = [
    *LIBRARY, "AXI4Reader", "BankedSRAM", "Count", "FPMinMax", "Planner", "RegisterFile",
    "SendUnit",
]


def proved(make, timeout=300, narrow=False):
    gate, text = written(make)
    return prove(reference(make), gate, text, timeout=timeout, narrow=narrow)


@pytest.mark.parametrize("name", QUICK)
def test_a_component_is_proved_equal_to_amaranths_netlist(name):
    proof = proved(PARTS[name])
    assert proof.proved, proof.why


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in PARTS if name not in QUICK])
def test_every_component_is_proved_equal_to_amaranths_netlist(name):
    proof = proved(PARTS[name], timeout=900, narrow=name in MULTIPLIERS)
    assert proof.proved, proof.why


def test_no_component_class_is_left_out():
    made = {type(make()) for make in (*PARTS.values(), *WHOLE.values())}
    assert [kind.__name__ for kind in component_classes() if kind not in made] == []


@pytest.mark.parametrize("name", ["SkidBuffer", "StreamFIFO, block memory", "SendUnit"])
def test_every_register_is_matched(name):
    _, text = written(PARTS[name])
    assert len(text.registers) == text.state > 0


@pytest.mark.parametrize("seed", range(6))
def test_a_random_design_is_proved_equal(seed):
    proof = proved(lambda: RandomDesign(seed))
    assert proof.proved, proof.why


@pytest.mark.full
@pytest.mark.parametrize("seed", range(6, 60))
def test_many_random_designs_are_proved_equal(seed):
    proof = proved(lambda: RandomDesign(seed))
    assert proof.proved, proof.why


@pytest.mark.parametrize("name", ["StreamFIFO", "StreamArbiter"])
def test_planted_mutants_of_the_text_are_found(name):
    gold = reference(PARTS[name])
    gate, text = written(PARTS[name])
    found = 0
    for mutant in draw(gate.text, 5, seed=7):
        try:
            found += not prove(gold, Side(mutant.text, True, gate.boxes), text).proved
        except YosysError:
            continue  # no valid text
    assert found >= 3  # the others are proved to be equal


def test_a_wrong_initial_value_is_found():
    gate, text = written(PARTS["SkidBuffer"])
    planted = gate.text.replace("spare_valid = 1'b0", "spare_valid = 1'b1")
    assert planted != gate.text
    proof = prove(reference(PARTS["SkidBuffer"]), Side(planted, True), text)
    assert not proof.proved and "starts as 0 and as 1" in proof.why


def test_a_register_that_the_text_lacks_is_found():
    gate, text = written(PARTS["SkidBuffer"])
    planted = re.sub(r"\bspare\b", "other", gate.text)
    proof = prove(reference(PARTS["SkidBuffer"]), Side(planted, True), text)
    assert not proof.proved and "not found" in proof.why


@pytest.mark.parametrize(
    ("word", "name"),
    [("final", "final_"), ("a__b", "a_b"), ("2nd", "n_2nd"), ("context", "context_"),
     ("class", "class_"), ("delete", "delete_"), ("_x_", "x"), ("", "n"), ("Wire", "Wire_")],
)
def test_no_name_is_a_word_that_a_tool_reserves(word, name):
    assert identifier(word) == name


def test_a_port_of_the_top_keeps_its_name_even_if_it_is_reserved():
    assert escaped("final") == "\\final " and escaped("last") == "last"


class Twice(wiring.Component):
    """Adds twice.

    Members
    -------
    a : ``In(4)``
        What is added.
    total : ``Out(8)``
        The sum so far.
    """

    a: In(4)
    total: Out(8)

    def elaborate(self, platform):
        m = Module()
        # Twice, since half of it is lost on the way.
        m.d.sync += self.total.eq(self.total + self.a * 2)
        return m


def test_the_text_says_what_the_source_says():
    text = emit(Twice(), name="twice", header={"depth": 16}, style="sv", command="make it").text
    assert text.startswith("// twice: generated; change the generator, not this file.\n")
    for line in (
        "// Made by: make it", "//   depth = 16", "// Adds twice.", "    // a: What is added.",
        "    input  logic [3:0] a,", "    output logic [7:0] total = 8'd0",
        "    // Twice, since half of it is lost on the way.", "  always_ff @(posedge clk) begin",
    ):
        assert line in text.splitlines(), line
    assert not re.search(r"/(home|root|tmp|usr|work)\b|20\d\d-\d\d|/python|@NAME@", text)
    assert max(map(len, text.splitlines())) <= 100


def test_what_a_reader_minds_is_counted():
    known = identifiers()
    text = emit(PARTS["SendUnit"](), name="send", style="sv").text
    good = measure(text, known)
    assert (good.unnamed, good.headerless, good.numbers, good.modules) == (0, 0, 0, 2)
    assert good.longest_line <= 100 and good.always_blocks <= 6 and good.nets > 40
    planted = text.replace(" step,", " _073_,").replace("// Carries out", "").replace(
        "\nmodule send (", "\n\nmodule send (")
    bad = measure(planted, known)
    assert bad.unnamed == 1 and bad.headerless == 1
    plain = measure(emit(PARTS["Control"](), name="control").text, known)
    assert plain.unnamed > 100 and plain.headerless and plain.numbers


def test_ports_of_both_styles_are_the_same(tmp_path):
    for style, ending in (("plain", ".v"), ("sv", ".sv")):
        (path, _) = emit_files(Twice(), tmp_path, name="twice", style=style)
        assert path.name == f"twice{ending}"
    one, other = (emit(Twice(), name="twice", style=style).manifest for style in ("plain", "sv"))
    assert one["ports"] == other["ports"]
    with pytest.raises(ValueError, match=r"^style must be one of plain, sv, not 'vhdl'$"):
        emit(Twice(), name="twice", style="vhdl")


def test_the_text_is_the_same_whatever_the_hash_seed():
    code = (
        "from bench.parts import PARTS\nfrom gen.verilog import emit\n"
        "for name in ('SendUnit', 'StreamArbiter'):\n"
        "    print(emit(PARTS[name](), name='part', style='sv').text)\n"
    )
    texts = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        ).stdout
        for seed in ("1", "4242")
    ]
    assert texts[0] == texts[1] and "module part" in texts[0]


class TwoClocks(wiring.Component):
    a: In(1)
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.domains.other = ClockDomain()
        m.d.sync += self.o.eq(self.a)
        m.d.other += Signal(name="second").eq(self.a)
        return m


class Latch(wiring.Component):
    a: In(1)
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        kept = Signal()
        m.d.comb += [kept.eq(kept ^ self.a), self.o.eq(kept)]
        return m


@pytest.mark.parametrize(
    ("component", "message"),
    [(TwoClocks(), r"^top: clock domain '\w+' is a second one in this module$"),
     (Latch(), r"^top: combinational loop through kept$")],
)
def test_what_the_text_could_not_say_is_refused_in_one_line(component, message):
    with pytest.raises(DesignError, match=message):
        emit(component, name="top", style="sv")


@pytest.mark.parametrize("name", ["SendUnit", "AXI4Writer", "BlockEncoder", "RegisterFile"])
def test_verilator_finds_nothing_to_say(name, tmp_path):
    if not has_verilator():
        pytest.skip("needs Verilator")
    (path, _) = emit_files(PARTS[name](), tmp_path, name="part", style="sv")
    assert not find_verilator().lint([WAIVERS_SV, path], top="part")

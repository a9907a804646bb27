# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Readable SystemVerilog: proved equal to Amaranth's own netlist, and fit to be read."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth.hdl import ClockDomain, Instance, IOPort, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bench._recordings import OF_PRESETS
from bench.parts import LIBRARY, PARTS, WHOLE, component_classes
from bench.text_mutants import draw
from bench.verilog import identifiers, measure
from gen.checks import DesignError
from gen.compile import compile_model
from gen.sv.names import escaped, identifier
from gen.sv.proof import Checked, check, design
from gen.synth import synthesize
from gen.verilator import find_verilator, has_verilator
from gen.verilog import WAIVERS_SV, emit, emit_files
from gen.yosys import YosysError
from tests.gen.random_design import RandomDesign

ROOT = Path(__file__).parents[2]
QUICK = [
    *(name for name in LIBRARY if "," not in name),
    "AXI4Reader", "BankedSRAM", "BankedSRAM, groups", "Count", "FPMinMax", "Planner", "SendUnit",
]


def proved(make, timeout=300) -> Checked:
    return check(design(make), timeout=timeout)


@pytest.mark.parametrize("name", QUICK)
def test_a_component_is_proved_equal_to_amaranths_netlist(name):
    proof = proved(PARTS[name])
    assert proof.proved, proof.why


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in (*PARTS, *WHOLE) if name not in QUICK])
def test_every_component_is_proved_equal_to_amaranths_netlist(name):
    proof = proved({**PARTS, **WHOLE}[name], timeout=900)
    assert proof.proved, proof.why


def test_no_component_class_is_left_out():
    made = {type(make()) for make in (*PARTS.values(), *WHOLE.values())}
    bases = {base for kind in made for base in kind.__mro__}
    assert [kind.__name__ for kind in component_classes() if kind not in bases] == []


@pytest.mark.parametrize("name", ["SkidBuffer", "StreamFIFO, block memory", "SendUnit"])
def test_every_register_is_matched(name):
    made = design(PARTS[name])
    assert check(made, readers=["yosys"]).state == sum(part.state for part in made.record.all()) > 0


@pytest.mark.full
@pytest.mark.parametrize("seed", range(60))
def test_many_random_designs_are_proved_equal(seed):
    proof = proved(lambda: RandomDesign(seed))
    assert proof.proved, proof.why


@pytest.mark.parametrize("name", ["StreamFIFO", "StreamArbiter"])
def test_planted_mutants_of_the_text_are_found(name):
    made = design(PARTS[name])
    found = 0
    for mutant in draw(made.text, 5, seed=7):
        try:
            found += bool(check(made, mutant.text, readers=["yosys"]).wrong)
        except YosysError:
            continue  # no valid text
    assert found >= 3  # the others are proved to be equal


INNER = data.StructLayout({"a": 3, "b": 5, "c": 8})
MIDDLE = data.StructLayout({"one": 1, "inner": INNER})


class Inner(wiring.Component):
    """Bits of several fields of a structure inside of a structure."""

    i: In(data.StructLayout({"low": 4, "middle": MIDDLE, "high": 2}))
    index: In(2)
    o: Out(4)
    chosen: Out(4)

    def elaborate(self, platform):
        m = Module()
        held = Signal(self.i.shape())
        inner = held.middle.inner.as_value()
        m.d.sync += [held.eq(self.i), inner[2:6].eq(self.i.middle.inner.as_value()[1:5])]
        m.d.comb += [self.o.eq(inner[1:5]), self.chosen.eq(inner.word_select(self.index, 4))]
        return m


def test_bits_of_a_structure_inside_of_another_one_are_the_right_ones():
    proof = proved(Inner)
    assert proof.proved, proof.why


MESSAGE = data.StructLayout({"to": 4, "word": 5})


class Sender(wiring.Component):
    """A message in a register."""

    i: In(MESSAGE)
    o: Out(MESSAGE)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.o.eq(self.i)
        return m


class Sink(wiring.Component):
    """The words that are for it."""

    valid: In(3)
    words: In(5).array(3)
    o: Out(5)

    def elaborate(self, platform):
        m = Module()
        for n, word in enumerate(self.words):
            with m.If(self.valid[n]):
                m.d.sync += self.o.eq(word)
        return m


class Routed(wiring.Component):
    """Messages to four sinks, with a bit for each."""

    i: In(MESSAGE).array(3)
    o: Out(5).array(4)

    def elaborate(self, platform):
        m = Module()
        senders, sinks = [Sender() for _ in range(3)], [Sink() for _ in range(4)]
        for n, sender in enumerate(senders):
            m.submodules[f"sender_{n}"] = sender
            m.d.comb += sender.i.eq(self.i[n])
        for f, sink in enumerate(sinks):
            m.submodules[f"sink_{f}"] = sink
            m.d.comb += self.o[f].eq(sink.o)
            for n, sender in enumerate(senders):
                m.d.comb += [
                    sink.valid[n].eq(sender.o.to[f]), sink.words[n].eq(sender.o.word),
                ]
        return m


def test_bits_of_a_field_that_move_with_a_loop_are_the_right_ones():
    proof = proved(Routed)
    assert proof.proved, proof.why


def test_a_wrong_initial_value_is_found():
    made = design(PARTS["SkidBuffer"])
    planted = made.text.replace("spare_free = 1'b1", "spare_free = 1'b0")
    assert planted != made.text
    wrong = check(made, planted).wrong
    assert len(wrong) == 2 and all("starts as 1 and as 0" in each for each in wrong)


def test_a_register_that_the_text_lacks_is_found():
    made = design(PARTS["SkidBuffer"])
    wrong = check(made, re.sub(r"\bspare\b", "other", made.text)).wrong
    assert len(wrong) == 2 and all("not found: spare" in each for each in wrong)


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
    text = emit(Twice(), name="twice", header={"depth": 16}, command="make it").text
    assert text.startswith(
        "// twice: generated; change the generator, not this file.\n"
        "// SPDX-License-Identifier: Apache-2.0\n"
    )
    for line in (
        "// Made by: make it", "//   depth = 16", "// Adds twice.", "    // a: What is added.",
        "    input  wire logic [3:0] a,", "    output logic [7:0]      total",
        "    // Twice, since half of it is lost on the way.", "  always @(posedge clk) begin",
    ):
        assert line in text.splitlines(), line
    assert not re.search(r"/(home|root|tmp|usr|work)\b|20\d\d-\d\d|/python|@NAME@", text)
    assert max(map(len, text.splitlines())) <= 100


def test_what_a_reader_minds_is_counted():
    known = identifiers()
    text = emit(PARTS["SendUnit"](), name="send").text
    good = measure(text, known)
    modules = re.findall(r"^module (\w+)", text, re.MULTILINE)
    assert (good.unnamed, good.headerless, good.numbers, good.modules) == (0, 0, 0, len(modules))
    assert "send" in modules and len(modules) >= 2
    assert good.longest_line <= 100 and good.always_blocks <= 6 and good.nets > 40
    planted = text.replace(" step,", " _073_,").replace("// Carries out", "").replace(
        "\nmodule send (", "\n\nmodule send (")
    bad = measure(planted, known)
    assert bad.unnamed == 1 and bad.headerless == 1
    plain = measure(emit(PARTS["Control"](), name="control", style="plain").text, known)
    assert plain.unnamed > 100 and plain.headerless and plain.numbers


def test_ports_of_both_styles_are_the_same(tmp_path):
    for style, ending in (("plain", ".v"), ("sv", ".sv")):
        (path, _) = emit_files(Twice(), tmp_path / style, name="twice", style=style)
        assert path.name == f"twice{ending}"
    one, other = (emit(Twice(), name="twice", style=style).manifest for style in ("plain", "sv"))
    assert one["ports"] == other["ports"]
    with pytest.raises(ValueError, match=r"^style must be one of sv, plain, not 'vhdl'$"):
        emit(Twice(), name="twice", style="vhdl")


def test_the_text_is_the_same_whatever_the_hash_seed():
    code = (
        "from bench.parts import PARTS\nfrom gen.verilog import emit\n"
        "for name in ('SendUnit', 'StreamArbiter'):\n"
        "    print(emit(PARTS[name](), name='part').text)\n"
    )
    texts = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        ).stdout
        for seed in ("1", "4242")
    ]
    assert texts[0] == texts[1] and "module part" in texts[0]


class Part(wiring.Component):
    """A part with a mistake, made by a function."""

    a: In(1)
    o: Out(1)

    def __init__(self, mistake):
        self._mistake = mistake
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        self._mistake(m, self)
        return m


class Whole(wiring.Component):
    """A part with a mistake inside of something that has none."""

    a: In(1)
    o: Out(1)

    def __init__(self, mistake):
        self._mistake = mistake
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.part = part = Part(self._mistake)
        m.d.comb += [part.a.eq(self.a), self.o.eq(part.o)]
        return m


def two_clocks(m, part):
    m.domains.other = ClockDomain(local=True)
    m.d.sync += part.o.eq(part.a)
    m.d.other += Signal(name="second").eq(part.a)


def falling_edge(m, part):
    m.domains.slow = ClockDomain(clk_edge="neg", local=True)
    m.d.slow += part.o.eq(part.a)


def latch(m, part):
    kept = Signal()
    m.d.comb += part.o.eq(kept)
    with m.If(part.a):
        m.d.comb += kept.eq(~kept)


def undriven(m, part):
    m.d.comb += Signal(name="other").eq(part.a)


def inout(m, part):
    m.submodules.pad = Instance("PAD", io_wire=IOPort(1, name="wire"), o_value=part.o)


def two_drivers(m, part):
    m.d.comb += part.o.eq(part.a)
    m.submodules.inner = inner = Module()
    inner.d.comb += part.o.eq(0)


def driven_by_clock_too(m, part):
    shared = Signal(name="shared")
    m.d.comb += [shared.eq(part.a), part.o.eq(shared)]
    m.submodules.inner = inner = Module()
    inner.d.sync += shared.eq(0)


def loop_of_two(m, part):
    one, other = Signal(name="one"), Signal(name="other")
    m.d.comb += [one.eq(other | part.a), other.eq(one), part.o.eq(other)]


def unknown_clock(m, part):
    m.d.fast += part.o.eq(part.a)


MISTAKES = [
    (two_clocks, r"\.part: clock domain 'other' has a clock of its own; a design has one, .*"),
    (unknown_clock, r"\.part: clock domain 'fast' has a clock of its own; a design has one, .*"),
    (falling_edge, r"\.part: clock domain 'slow' has a falling edge or asynchronous reset"),
    (latch, r"\.part: combinational loop through kept"),
    (loop_of_two, r"\.part: combinational loop through (one, other|other, one)"),
    (undriven, r"\.part: output 'o' of Part is driven by nothing"),
    (inout, r"\.part\.pad: port 'wire' is an inout, which is not supported"),
    (two_drivers, r"\.part\.inner: signal 'o' is driven here and in \w+\.part"),
    (driven_by_clock_too, r"\.part: signal 'shared' has several drivers"),
]
MADE = {
    "sv": ("top", lambda component: emit(component, name="top")),
    "plain": ("top", lambda component: emit(component, name="top", style="plain")),
    "model": ("Whole", lambda component: compile_model(component, name="top")),
    "cells": ("top", lambda component: synthesize(component, name="top", target="generic")),
}


@pytest.mark.parametrize(
    ("mistake", "message", "what"),
    [
        pytest.param(mistake, message, what, id=f"{mistake.__name__}-{what}")
        for mistake, message in MISTAKES
        for what in MADE
        if (what, mistake) != ("model", undriven)  # whose output keeps its initial value
    ],
)
def test_what_no_design_may_have_is_refused_in_one_line_with_its_path(mistake, message, what):
    top, make = MADE[what]
    with pytest.raises(DesignError, match=f"^{top}{message}$"):
        make(Whole(mistake))


class Twins(wiring.Component):
    """Two ports that are one signal."""

    a: In(1)
    b: In(1)
    o: Out(1)

    def __init__(self):
        super().__init__()
        self.b = self.a

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.a ^ self.b)
        return m


@pytest.mark.parametrize("what", ["sv", "plain"])
def test_a_signal_that_is_two_ports_is_refused(what):
    with pytest.raises(DesignError, match=r"^top: signal 'a' has several drivers$"):
        MADE[what][1](Twins())


@pytest.mark.parametrize("name", ["SendUnit", "AXI4Writer", "BlockEncoder", "RegisterFile"])
def test_verilator_finds_nothing_to_say(name, tmp_path):
    if not has_verilator():
        pytest.skip("needs Verilator")
    (path, _) = emit_files(PARTS[name](), tmp_path, name="part")
    assert not find_verilator().lint([WAIVERS_SV, path], top="part")


class Given(wiring.Component):
    """Says what it is given, plus what it is given only now and then."""

    always: In(4)
    seldom: In(data.StructLayout({"low": 2, "high": 2}), init={"high": 1})
    o: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.always + self.seldom.as_value())
        return m


class Unconnected(wiring.Component):
    """Connects one input of two."""

    i: In(4)
    o: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.submodules.given = given = Given()
        m.d.comb += [given.always.eq(self.i), self.o.eq(given.o)]
        return m


def test_an_input_that_nothing_drives_is_a_constant_where_it_is_connected(tmp_path):
    proof = proved(Unconnected)
    assert proof.proved, proof.why

    (path, _) = emit_files(Unconnected(), tmp_path, name="part")
    assert ".seldom(4'd4)" in path.read_text() and "given_seldom" not in path.read_text()
    if has_verilator():
        assert not find_verilator().lint([WAIVERS_SV, path], top="part")


@pytest.mark.parametrize("name", [
    pytest.param("ace/test", marks=pytest.mark.full), "smartnic/test", "adder/binary32-comb",
])
def test_every_engine_that_is_replayed_can_be_written(name):
    assert "\nmodule ace (" in emit(OF_PRESETS[name].component(), name="ace").text

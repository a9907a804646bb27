# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Texts are proved as they are emitted; errors in parameters, loops and instances are found."""

import itertools
from dataclasses import replace
from functools import cache

import pytest
from amaranth.hdl import Array, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from bench.text_mutants import STRUCTURES, draw_in_structures
from gen.sv import loops as sv_loops
from gen.sv.netlists import NetlistSlice
from gen.sv.proof import READERS, check, design, loops, questions, read
from gen.sv.question import Question, prove
from gen.sv.tree import Form
from gen.yosys import YosysError
from hw.common.fifo import StreamFIFO

LINKS = 6


class Lane(wiring.Component):
    """Counts what is for it."""

    who: In(3)
    valid: In(1)
    mine: In(3)
    count: Out(4)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.valid & (self.who == self.mine)):
            m.d.sync += self.count.eq(self.count + 1)
        return m


class Links(wiring.Component):
    """Six links, each with a lane and a queue, and what is for each of them."""

    who: In(3)
    valid: In(1)
    i: In(stream.Signature(5)).array(LINKS)
    o: Out(stream.Signature(5)).array(LINKS)
    to: Out(1).array(LINKS)
    count: Out(4).array(LINKS)
    other: In(stream.Signature(7))
    behind: Out(stream.Signature(7))

    def elaborate(self, platform):
        m = Module()
        for n in range(LINKS):
            m.submodules[f"lane_{n}"] = lane = Lane()
            m.submodules[f"queue_{n}"] = queue = StreamFIFO(5, 3)
            wiring.connect(m, wiring.flipped(self.i[n]), queue.i)
            wiring.connect(m, queue.o, wiring.flipped(self.o[n]))
            m.d.comb += [
                lane.who.eq(self.who), lane.valid.eq(self.valid), lane.mine.eq(n),
                self.to[n].eq(self.valid & (self.who == n + 1)),
                self.count[n].eq(lane.count),
            ]
        m.submodules.queue = queue = StreamFIFO(7, 5)
        wiring.connect(m, wiring.flipped(self.other), queue.i)
        wiring.connect(m, queue.o, wiring.flipped(self.behind))
        return m


@pytest.fixture(scope="module")
def links():
    return design(Links)


decide = cache(prove)


def wrong(made, text=None):
    """What each of the readers finds."""
    return [
        check(made, text, readers=[reader], decide=decide, first=True).wrong for reader in READERS
    ]


def test_a_design_is_proved_as_it_is_emitted(links):
    for words in ("for (genvar i = 0; i < 6; i++)", "#(.WIDTH(5), .DEPTH(3))", "lane ("):
        assert words in links.text
    checked = check(links, decide=decide)
    assert checked.proved, checked.why
    # The netlist tells each of six lanes its number; of seven queues six are equal.
    assert (checked.parts, checked.questions) == (14, 9)
    assert checked.state == sum(part.state for part in links.record.all())


def test_a_generator_that_counts_loops_of_six_wrongly_is_found(monkeypatch, links):
    right = sv_loops._as_loop

    def planted(first, steps, size):
        made = right(first, steps, size)
        grows = [
            size == LINKS and each.form is Form.LITERAL and bool(each.terms)
            for each in made.numbers
        ]
        return replace(made, numbers=tuple(
            replace(each, value=each.value + more)
            for each, more in zip(made.numbers, grows, strict=True)
        ))

    monkeypatch.setattr(sv_loops, "_as_loop", planted)
    made = design(Links)

    assert made.text != links.text and made.netlist == links.netlist
    assert all(wrong(made))


@pytest.mark.parametrize("kind", STRUCTURES)
def test_an_error_in_what_makes_many_lines_of_one_is_found(kind, links):
    found = 0
    for mutant in itertools.islice(draw_in_structures(links.text, 3)[kind], 12):
        try:
            both = wrong(links, mutant.text)
        except YosysError:
            continue
        assert bool(both[0]) == bool(both[1]), f"{mutant.before} -> {mutant.after}"
        found += bool(both[0])
        if found == 2:
            return
    pytest.fail(f"found {found} errors of the kind {kind}")


def test_instances_that_have_changed_places_are_found(links):
    one, *others = links.record.children
    twin = next(other for other in others if other.path[1].startswith(one.path[1][:-1]))
    names = {one.name: twin.name, twin.name: one.name}
    children = tuple(
        replace(each, name=names.get(each.name, each.name)) for each in links.record.children
    )
    changed = replace(links, record=replace(links.record, children=children))
    assert all(wrong(changed))


@pytest.mark.parametrize("what", ["left out", "twice", "another"])
def test_a_record_that_is_not_one_of_the_netlist_is_found(what, links):
    lanes = [each for each in links.record.children if "mine" in each.ports]
    first, second, *others = lanes
    rest = [*others, *(each for each in links.record.children if each not in lanes)]
    children = {
        "left out": (second, *rest),
        "twice": (first, replace(second, path=first.path), *rest),
        "another": (replace(first, outside={**first.outside, "mine": second.outside["mine"]}),
                    second, *rest),
    }[what]
    modules = read(links.text, links.top, "yosys")
    record = replace(links.record, children=children)
    assert questions(links.modules, modules, links.top, record).wrong or not check(
        replace(links, record=record), readers=["yosys"], decide=decide).proved


class Wire(wiring.Component):
    """Nothing but a wire."""

    i: In(1)
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.i)
        return m


class Held(wiring.Component):
    """A wire that is given a constant, one that is given what comes, and one without a reader."""

    i: In(1)
    o: Out(2)

    def elaborate(self, platform):
        m = Module()
        m.submodules.zero = zero = Wire()
        m.submodules.given = given = Wire()
        m.submodules.lonely = lonely = Wire()
        m.d.comb += [zero.i.eq(0), given.i.eq(self.i), lonely.i.eq(self.i)]
        m.d.comb += self.o.eq(zero.o + given.o)
        return m


def test_constants_and_wires_that_the_netlist_sees_through_are_proved():
    checked = check(design(Held))
    assert checked.proved and checked.parts == 4, checked.why


class Reserved(wiring.Component):
    """Its ports are words of the language."""

    begin: In(4)
    local: In(1)
    final: Out(4)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.local):
            m.d.sync += self.final.eq(self.begin)
        return m


def test_ports_whose_names_are_words_of_the_language_are_proved():
    made = design(Reserved)
    assert "\\begin " in made.text
    checked = check(made)
    assert checked.proved and checked.state == 1, checked.why
    assert not check(design(Reserved), made.text.replace("<= \\begin", "<= ~\\begin")).proved


def test_a_loop_of_which_every_module_is_right_is_found():
    made = design(Held)
    planted = made.text.replace(".i(1'b0), .o(zero_o)", ".i(zero_o), .o(zero_o)")
    assert planted != made.text
    assert loops(made.text, made.top) == [] and loops(planted, made.top)
    assert all(wrong(made, planted))


class Table(wiring.Component):
    """A memory with reads of both kinds, one of which sees what is written, and two writes."""

    def __init__(self, transparent=True):
        super().__init__({
            "at": In(2).array(3), "data": In(8).array(2), "en": In(2), "all": In(1),
            "read": Out(8).array(2), "chosen": Out(4),
        })
        self._transparent = transparent

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = Memory(shape=8, depth=4, init=[1, 2, 3])
        writes = [rows.write_port(granularity=4), rows.write_port()]
        seen = writes[:1] if self._transparent else []
        reads = [rows.read_port(transparent_for=seen), rows.read_port(domain="comb")]
        for n in range(2):
            m.d.comb += [
                writes[n].addr.eq(self.at[n]), writes[n].data.eq(self.data[n]),
                reads[n].addr.eq(self.at[2 - n]), self.read[n].eq(reads[n].data),
            ]
        m.d.comb += [writes[0].en.eq(self.en), writes[1].en.eq(self.all & ~self.en.any()),
                     reads[0].en.eq(~self.all)]
        held = [Signal(4, name=f"held_{n}") for n in range(4)]
        m.d.sync += Array(held)[self.at[0]].eq(self.data[0])
        m.d.comb += self.chosen.eq(Array(held)[self.at[1]])
        return m


@pytest.mark.parametrize("transparent", [True, False])
def test_memories_are_proved(transparent):
    made = design(lambda: Table(transparent))
    checked = check(made)
    assert checked.proved, checked.why


@pytest.mark.parametrize(
    ("old", "new"),
    [("8'(k + 1)", "8'(k + 2)"), ("rows[3] = 8'd0", "rows[3] = 8'd4"),
     ("<= rows[at_2]", "<= rows[at_1]"), (" & (at_0 == at_2)", ""),
     ("= rows[at_1]", "= rows[at_0]"), ("<= data_0[7:4]", "<= data_0[3:0]"),
     ("if (all & ~(|en))", "if (all)")],
)
def test_a_wrong_memory_is_found(old, new):
    made = design(Table)
    assert old in made.text
    assert all(wrong(made, made.text.replace(old, new, 1)))


def test_wires_that_differ_in_the_mark_of_their_name_only_are_two():
    inverse = """  cell $not $1
    parameter \\A_SIGNED 0
    parameter \\A_WIDTH 1
    parameter \\Y_WIDTH 1
    connect \\A {}
    connect \\Y {}
  end
"""
    gold = "module \\gold\n  wire input 1 \\a\n  wire \\x\n  wire $x\n  connect $x \\a\n"
    gate = "module \\gate\n  wire input 1 \\i\n  wire output 2 \\p\n  wire output 3 \\q\n"
    gold += inverse.format("\\a", "\\x") + "end\n"
    gate += "  connect \\q \\i\n" + inverse.format("\\i", "\\p") + "end\n"
    inputs = (("\\i", ((NetlistSlice("\\a", 0, 1),),)),)

    def proved(*ports):
        same = tuple(
            ((NetlistSlice(wire, 0, 1),), port, 0)
            for wire, port in zip(("\\x", "$x"), ports, strict=True)
        )
        return prove(Question(gold, gate, inputs, same, (), ())).proved

    assert proved("\\p", "\\q") and not proved("\\q", "\\p")

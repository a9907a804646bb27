# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Levels of logic of designs whose longest paths are known."""

import pytest
from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from gen.mapping.levels import levels, levels_of
from gen.mapping.netlist import netlist_of
from hw.common.sram import SRAMBank


class Gate(wiring.Component):
    """One LUT, which no other is merged with, since hierarchy is kept."""

    a: In(1)
    b: In(1)
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.a ^ self.b)
        return m


class Chains(wiring.Component):
    """Chains of gates, each of a length, between registers."""

    a: In(1)
    b: In(1)
    o: Out(8)

    def __init__(self, **lengths):
        self.lengths = lengths
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        for bit, (name, length) in enumerate(self.lengths.items()):
            first, last = Signal(name=f"{name}_first"), Signal(name=f"{name}_last")
            m.d.sync += first.eq(self.a)
            at = first
            for number in range(length):
                m.submodules[f"{name}_gate_{number}"] = gate = Gate()
                m.d.comb += [gate.a.eq(at), gate.b.eq(self.b)]
                at = gate.o
            m.d.sync += last.eq(at)
            m.d.comb += self.o[bit].eq(last)
        return m


class Nested(wiring.Component):
    """Chains one level of hierarchy below, beside SRAM and LUT-RAM."""

    a: In(1)
    b: In(1)
    o: Out(8)
    read: Out(4)
    kept: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = Chains(short=2, long=7)
        m.submodules.bank = bank = SRAMBank(depth=64, width=8)
        m.submodules.rows = rows = Memory(shape=4, depth=16, init=[])
        write, read = rows.write_port(), rows.read_port(domain="comb")
        held = Signal(4)
        m.d.comb += [
            inner.a.eq(self.a), inner.b.eq(self.b), self.o.eq(inner.o),
            bank.r_en.eq(inner.o[1]), bank.w_en.eq(1), bank.w_data.eq(self.a),
            self.kept.eq(bank.r_data),
            write.en.eq(self.b), write.data.eq(held), write.addr.eq(held), read.addr.eq(held),
        ]
        m.d.sync += [held.eq(held + self.a), self.read.eq(read.data)]
        return m


class Adder(wiring.Component):
    a: In(16)
    b: In(16)
    sum: Out(16)

    def elaborate(self, platform):
        m = Module()
        a, b = Signal(16), Signal(16)
        m.d.sync += [a.eq(self.a), b.eq(self.b), self.sum.eq(a + b)]
        return m


@pytest.mark.parametrize("length", [0, 1, 6])
def test_a_chain_of_gates_has_a_level_for_each(length):
    found = levels_of(netlist_of(Chains(only=length), name="chains"))
    path = found.worst[0]
    assert path.levels == length
    assert path.end == ("only_last" if length else path.end)
    assert path.start in ("only_first", "input b", "input a", "input rst")


def test_a_planted_longer_path_is_found_and_named():
    found = levels_of(netlist_of(Chains(short=3, planted=9, middle=5), name="chains"))
    assert (found.worst[0].levels, found.worst[0].end) == (9, "planted_last")
    assert [path.levels for path in found.worst[:3]] == [9, 5, 3]
    assert found.above == {6.0: pytest.approx(1 / found.ends), 10.0: 0.0}


def test_paths_go_through_the_hierarchy_and_names_say_where():
    found = levels_of(netlist_of(Nested(), name="nested"))
    assert found.worst[0].levels == 7
    assert found.worst[0].end == "inner.long_last"
    assert (found.worst[0].block, found.worst[0].instance) == ("nested_inner", "inner")
    assert found.by_part["inner"].levels == 7
    assert any(path.end.startswith("bank.") for path in found.worst)


class Unnamed(wiring.Component):
    """Registers whose names Amaranth does not find, in two instances of one module."""

    i: In(4)
    o: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = Gathers(self.i, self.o)
        return m


class Gathers(Elaboratable):
    def __init__(self, i, o):
        self.i, self.o = i, o

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=4, depth=4, init=[])
        write, read = memory.write_port(), memory.read_port(domain="comb")
        kept = {"early": Signal(4), "late": Signal(4)}
        fields = [Signal(data.StructLayout({"low": 2, "high": 2})) for _ in range(2)]
        m.d.sync += [
            kept["early"].eq(self.i), kept["late"].eq(kept["early"] * 3 + 1),
            fields[0].high.eq(kept["late"].xor()), fields[1].low.eq(fields[0].high + 1),
            self.o.eq(fields[1].low),
        ]
        m.d.comb += [write.en.eq(kept["late"][0]), write.addr.eq(0), write.data.eq(self.i)]
        m.d.sync += self.o[3].eq(read.data[0])
        return m


def test_registers_have_the_names_of_the_source_where_amaranth_finds_none():
    netlist = netlist_of(Unnamed(), name="unnamed")
    assert "_signal" in netlist.text and "_signature" in netlist.text
    (longest, *_) = levels_of(netlist, worst=1).worst
    assert longest.start.startswith("inner.kept_early[") and longest.instance == "inner"
    assert longest.end.startswith("inner.kept_late[")
    told = set(netlist.names.values())
    assert {"kept_early", "kept_late", "fields", "write_data"} <= told
    made_up = next(name for name, word in netlist.names.items() if word == "fields")
    assert netlist.in_source(f"{made_up}_low[1] (enable)") == "inner.fields_low[1] (enable)"
    assert netlist.in_source("inner._other") == "inner._other"
    assert netlist.in_source("o[3]") == "o[3]"


class Read(wiring.Component):
    """A word of SRAM, and the parity of some of its bits."""

    a: In(8)
    word: Out(8)
    odd: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = SRAMBank(depth=1024, width=8)
        m.d.comb += [bank.r_en.eq(1), bank.r_addr.eq(self.a), bank.w_addr.eq(self.a)]
        m.d.sync += [self.word.eq(bank.r_data), self.odd.eq(bank.r_data.xor())]
        return m


def test_what_a_block_ram_answers_is_late():
    found = levels_of(netlist_of(Read(), name="read"))
    ends = {path.end: path for path in found.worst}
    assert ends["word[0]"].levels == 4 and ends["odd"].levels == 5
    assert ends["odd"].start == "bank.r_data"


def test_a_carry_chain_is_a_level_and_a_tenth_for_each_step():
    found = levels_of(netlist_of(Adder(), name="adder"))
    assert 1 + 6 / 10 <= found.worst[0].levels <= 1 + 8 / 10


def test_tables_show_the_design_and_its_blocks():
    whole, blocks = levels(netlist_of(Nested(), name="nested"))
    assert whole["levels"][0] == 7 and whole["end"][0] == "inner.long_last"
    assert "Seven are about 80 MHz" in whole.note
    assert blocks["block"][0] == "nested_inner"


def test_levels_of_other_targets_are_refused():
    with pytest.raises(ValueError, match="known of target ecp5 only, not of 'xcup'"):
        levels(netlist_of(Adder(), name="adder"), target="xcup")

# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Synthesis tables count what is there, block by block."""

import re
from dataclasses import replace

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from foldwire.catalog import build
from gen.cache import set_announcer
from gen.mapping import blocks
from gen.mapping.netlist import kept_netlist, netlist_of
from gen.mapping.whole import map_whole
from gen.synth import LIBERTY_OSU018, TARGETS, largest_blocks, synthesize
from gen.yosys import run_yosys
from hw.common.sram import SRAMBank
from sim.engines import registry


class Stage(wiring.Component):
    a: In(8)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.o.eq(self.a ^ (self.a << 1))
        return m


class Chain(wiring.Component):
    a: In(8)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = block = Module()
        block.submodules.rows = bank = SRAMBank(depth=64, width=8)
        m.d.comb += [bank.r_en.eq(1), bank.r_addr.eq(self.a), bank.w_en.eq(1), bank.w_data.eq(7)]
        previous = bank.r_data
        for index in range(3):
            m.submodules[f"stage_{index}"] = stage = Stage()
            register = Signal(8, name="register")
            m.d.sync += register.eq(previous)
            m.d.comb += stage.a.eq(register)
            previous = stage.o
        m.d.comb += self.o.eq(previous)
        return m


@pytest.fixture(scope="module")
def generic():
    return synthesize(Chain(), name="chain", target="generic")


def test_registers_of_every_instance_are_in_the_total(generic):
    assert generic.value("chain_stage", "instances") == 3
    assert generic.value("chain_stage", "ff") == 8
    assert generic.value("chain", "ff") == 3 * 8 + 3 * 8


def test_gates_of_a_block_are_counted_once_per_instance(generic):
    # One XOR per bit but the lowest; cmos2 has NAND, NOR and NOT only.
    stage = generic.value("chain_stage", "gates")
    assert 7 <= stage <= 7 * 5
    assert generic.value("chain", "gates") == 3 * stage


def test_sram_stays_a_macro_with_a_size(generic):
    assert generic.value("chain", "sram_macros") == 1
    assert generic.value("chain", "sram_bits") == 64 * 8
    assert generic.value("chain_stage", "sram_macros") == 0


def test_note_says_what_made_the_figures_and_what_they_are_not(generic):
    assert generic.note.startswith("Yosys 0.")
    assert "abc -g cmos2" in generic.note and "not an area" in generic.note


def test_largest_blocks_stand_below_the_whole_design(generic):
    few = largest_blocks(generic, 1)

    assert generic["block"] == ["chain", "chain_bank", "chain_stage"]
    assert few["block"] == ["chain", "chain_stage"]
    assert few.note.startswith("The 1 largest of 2 blocks. Yosys")
    assert largest_blocks(generic, 9) == generic


@pytest.mark.parametrize("target", ["xcup", "ecp5", "alm"])
def test_fpga_targets_count_their_cells(target):
    report = synthesize(Chain(), name="chain", target=target)
    assert report.value("chain", "ff") == 48
    lut = {"xcup": "lut", "ecp5": "lut4", "alm": "alut"}[target]
    assert report.value("chain", lut) == 3 * report.value("chain_stage", lut) > 0


@pytest.mark.skipif(not LIBERTY_OSU018.exists(), reason="needs qflow-tech-osu018")
def test_gate_equivalents_come_from_cell_areas():
    report = synthesize(Chain(), name="chain", target="osu018")
    assert report.value("chain", "ff") == 48
    # A flip-flop of this library is 4 NAND2 (96 um2); XORs come on top.
    assert 48 * 4 / 1000 <= report.value("chain", "kge") <= 0.4


def test_an_unknown_target_names_the_known_ones():
    with pytest.raises(ValueError, match=r"one of xcup, xc7, .*, osu018, not 'cmos'"):
        synthesize(Chain(), name="chain", target="cmos")


@pytest.mark.parametrize("target", ["xcup", "ecp5", "generic"])
def test_blocks_mapped_alone_have_the_cells_of_the_whole_in_one_run(target):
    netlist = netlist_of(Chain(), name="chain")
    flow = TARGETS[target]
    whole = map_whole(
        ("design.il", netlist.text), netlist.macros, flow, name="chain",
        instances=netlist.instances, flat=False,
    )

    assert blocks.map_blocks(netlist.blocks, flow) == whole


class Counted:
    """Yosys that notes which module it maps, and is interrupted at one of them."""

    def __init__(self, stop=None):
        self.mapped, self.stop = [], stop

    def __call__(self, steps, *, cwd, timeout=None):
        self.mapped.append(len((cwd / "block.il").read_text()))
        if len(self.mapped) == self.stop:
            raise KeyboardInterrupt
        return run_yosys(steps, cwd=cwd, timeout=timeout)


def test_an_interrupted_synthesis_loses_no_finished_block(tmp_path, monkeypatch):
    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path))
    first, second = Counted(stop=3), Counted()
    monkeypatch.setattr(blocks, "run_yosys", first)
    with pytest.raises(KeyboardInterrupt):
        synthesize(Chain(), name="chain")
    monkeypatch.setattr(blocks, "run_yosys", second)
    synthesize(Chain(), name="chain")

    assert second.mapped == first.mapped[2:]


class Longer(Chain):
    """A change in the top module alone."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        more = Signal(8, name="more")
        m.d.sync += more.eq(more + self.a)
        return m


def test_a_change_maps_the_changed_block_only_whatever_the_design_is_called(tmp_path, monkeypatch):
    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path))
    synthesize(Chain(), name="chain")
    again = Counted()
    monkeypatch.setattr(blocks, "run_yosys", again)
    synthesize(Chain(), name="other")
    assert again.mapped == []
    synthesize(Longer(), name="longer")
    assert len(again.mapped) == 1


def test_blocks_are_told_as_they_finish(tmp_path, monkeypatch):
    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path))
    told = []
    before = set_announcer(told.append)
    try:
        synthesize(Chain(), name="chain")
    finally:
        set_announcer(before)
    assert told[0] == "mapping 3 blocks to cells, once (seconds to minutes) ..."
    assert [each.partition(",")[0] for each in told[1:]] == [
        "1 of 3 blocks: chain_bank", "2 of 3 blocks: chain_stage", "3 of 3 blocks: chain",
    ]


CELLS = """library (few) {
  cell (INV) { area : 1; pin (A) { direction : input; } pin (Y) { function : "!A"; } }
}
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "needs the Debian package qflow-tech-osu018"),
        (CELLS, "the Liberty file few.lib lacks a flip-flop; take a complete library"),
        ("library (none) {}", "lacks a flip-flop, an inverter, areas of cells;"),
    ],
)
def test_a_liberty_file_that_is_missing_or_not_complete_is_refused(
    text, message, tmp_path, monkeypatch
):
    liberty = tmp_path / "few.lib"
    if text:
        liberty.write_text(text)
    monkeypatch.setitem(TARGETS, "osu018", replace(TARGETS["osu018"], liberty=liberty))
    with pytest.raises(ValueError, match=message):
        synthesize(Chain(), name="chain", target="osu018")


@pytest.mark.parametrize(
    "name", [name for record in registry.records() for name in record.blueprints]
)
def test_memories_read_with_a_clock_say_that_no_old_word_is_used(name):
    """The mapping for ECP5 is told so of all of them."""
    built = build(name, "test", {})
    text = kept_netlist(
        built.component, name=built.top, configuration=built.configuration
    ).text
    for module in text.split("\nmodule ")[1:]:
        marked = set(re.findall(r"attribute \\no_rw_check .*\n +memory .* (\\\S+)\n", module))
        reads = re.findall(r"cell \$memrd_v2 .*\n((?: +parameter .*\n)+)", module)
        clocked = {
            re.search(r'\\MEMID "\\(\S+)"', read).group(1)
            for read in reads if "\\CLK_ENABLE 1" in read
        }
        assert clocked <= marked

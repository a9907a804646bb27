# SPDX-License-Identifier: Apache-2.0
"""Figures of the README and of tables in docs are those of docs/results and of the examples."""

import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bench import _wire_formats, stored
from bench.sources import digest
from experiments.report import __main__ as report
from experiments.report import price
from experiments.report.__main__ import main
from experiments.report.blocks import BLOCKS, CLAIMS, NUMBERS, filled, pages
from experiments.report.overview import DARK, DARK_PICTURE, PICTURE, recoloured
from experiments.report.parts import DESIGNS, PARTS, provenance
from foldwire.catalog import Design
from gen.table import Column, Table
from hw.switch.formats import LANES

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_blocks_of_the_documents_are_those_of_the_results():
    names = []
    for page in pages(ROOT):
        text = page.read_text(encoding="utf-8")
        assert filled(text, ROOT) == text, f"`make report` fills {page.name}"
        names += re.findall(r"<!-- report:([\w-]+) -->", text)
    assert sorted(names) == sorted(BLOCKS)
    assert ROOT / "docs" / "reference" / "switch.md" in pages(ROOT)


def test_the_index_of_results_has_the_stored_lines():
    folder = ROOT / "docs" / "results"

    found = (folder / "README.md").read_text(encoding="utf-8")

    assert found == report.index(folder), "run python -m experiments.report --fill"


def test_tables_of_formats_say_what_has_not_been_measured(tmp_path):
    results = tmp_path / "docs" / "results"
    results.mkdir(parents=True)

    missing = BLOCKS["switch_units"](tmp_path)
    assert missing == "Not measured yet: `python -m experiments.report switch-units`.\n"
    assert "| FP16 | 8 | - |" in BLOCKS["switch_times"](tmp_path)
    line = "RESULT switch_modes fp16_time_pct_4=100.2 fp16_time_pct_8=55.5 verdict=ok\n"
    (results / "bench.txt").write_text(line)
    half = BLOCKS["switch_times"](tmp_path)
    assert "| FP16 | 8 | 55.5" in half and "| BFP | 16 | - |" in half
    assert half.endswith(" not in the stored line; `python -m bench switch_modes --store`.\n")
    (results / "bench.txt").write_text(line.replace(" v", " bfp_time_pct_4=1 bfp_time_pct_16=2 v"))
    assert "A dash" not in BLOCKS["switch_times"](tmp_path)

    (results / "switch-units.csv").write_text("formats,lanes,lut,ff\nhalf,8,10055,5150\n")
    assert "| half | 8 | 10 055 | 5 150 |" in BLOCKS["switch_units"](tmp_path)


def test_pages_are_filled_without_measuring(tmp_path, monkeypatch):
    page = tmp_path / "docs" / "a.md"
    page.parent.mkdir()
    (tmp_path / "README.md").write_text("")
    page.write_text("<!-- report:switch_times -->\nold\n<!-- /report -->\n")
    monkeypatch.setattr(report, "ROOT", tmp_path)
    main(["--fill"])

    assert "old" not in page.read_text() and "| BFP | 16 | - |" in page.read_text()
    assert not list(tmp_path.rglob("*.csv"))


def test_rates_are_a_row_per_format_with_what_the_bench_found(monkeypatch):
    def periods(members, seed):
        return {(f, n): f.value + n / 100 for f in _wire_formats.FORMATS for n in LANES}

    monkeypatch.setattr(_wire_formats, "periods", periods)
    table = PARTS["switch-rates"].make(ROOT)["switch-rates"]

    assert table["format"] == ["WORDS", "FP16", "BFP"] and table["link"] == [9, 5, 4]
    assert table["lanes_8"] == [0.08, 1.08, 3.08]


def of_training(printed):
    ms = {kind: float(time) for kind, time in re.findall(r"^(\w+) +([\d.]+) ms$", printed, re.M)}
    found = (100 * ms["ideal"] / ms[kind] for kind in ("ace", "baseline_comm_opt",
                                                       "baseline_comp_opt"))
    return [f"{each:.0f} %" for each in found]


def of_ring(printed):
    assert "results equal numpy's in ring order, bit for bit: yes" in printed
    worst = re.search(r"utilisation_worst=([\d.]+)", printed)[1]
    return [f"{100 * float(worst):.1f} %"]


def of_agreement(printed):
    of = dict(re.findall(r"(\w+)=([\d.]+)", printed.splitlines()[-1]))
    return [f"{float(of['worst_pct']):.2f} %", f"{int(of['cases']) - int(of['excused'])} run"]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("python examples/train_system.py", of_training),
        ("python -m bench ring", of_ring),
        ("python -m bench sim_agreement", of_agreement),
    ],
)
def test_numbers_of_the_first_screen_are_those_that_their_commands_print(command, told):
    assert list(NUMBERS).count(command) == 1 and len(NUMBERS) == 3
    (row,) = re.findall(rf"^\| (\*\*.*) \| `{re.escape(command)}` \|$", README, re.M)
    done = subprocess.run(
        [sys.executable, *command.split()[1:]], cwd=ROOT, capture_output=True, text=True,
        check=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )

    assert re.findall(r"[\d.]+ (?:%|run)", row) == told(done.stdout)


def test_first_screen_has_picture_commands_numbers_peers_and_limits_in_this_order():
    marks = ("<picture>", "\nmake  ", "\nmake test", "<!-- report:numbers -->",
             "## Beside four peers", "## What it cannot do", "## For whom")
    places = [README.find(mark) for mark in marks]

    assert -1 not in places and places == sorted(places)
    assert README[: places[2]].count("\n") < 25


def test_picture_of_the_first_screen_is_small_and_shows_the_numbers_of_the_example():
    light, dark = ((ROOT / "docs" / "results" / name).read_text(encoding="utf-8")
                   for name in (PICTURE, DARK_PICTURE))

    assert f'srcset="docs/results/{DARK_PICTURE}"' in README
    assert f'src="docs/results/{PICTURE}"' in README
    assert len(light) < 150_000 and recoloured(light, DARK) == dark
    assert not set(re.findall(r"#[0-9a-f]{6}", light)) & set(DARK.values())
    for ms in re.findall(r"[\d.]+ ms", (ROOT / "examples" / "train_system.out").read_text()):
        assert f">{ms}<" in light, "run python -m experiments.report overview"


def test_figure_that_is_typed_is_noticed():
    block = next(line for line in README.splitlines() if line.startswith("| `test` |"))
    typed = README.replace(block, re.sub(r"\d", "7", block))

    assert typed != README and filled(typed, ROOT) == README


def test_unknown_block_is_refused():
    with pytest.raises(ValueError, match="unknown block report:clams; there are: quick_start"):
        filled("<!-- report:clams -->\n<!-- /report -->", ROOT)


def test_every_page_says_where_its_figures_come_from():
    # `proofs` is that of a bench, without figures of time; `price` consists of other pages.
    others = {"README", "proofs", price.PAGE}
    pages = [path for path in (ROOT / "docs" / "results").glob("*.md") if path.stem not in others]
    assert {"rtl", "examples"} <= {path.stem for path in pages}
    for name, page in ((path.stem, path.read_text(encoding="utf-8")) for path in pages):
        foot = page[page.index("`make report` writes this page.") :]
        for word in ("Command: `", "Configuration: ", "Tools: ", "Sources: "):
            assert word in foot
        assert not re.search(r"20[2-9]\d-\d\d-\d\d", page), f"{name}: a date"


def test_a_claim_of_a_line_without_a_figure_has_a_dash_and_the_verdict_as_it_is(tmp_path):
    path = tmp_path / "docs" / "results" / "bench.txt"
    stored.store(["RESULT link_retry lost_pct_1e4=0.44 verdict=noisy"], path)
    claim = filled("<!-- report:claims -->\n<!-- /report -->", tmp_path).splitlines()[3]
    assert claim.startswith("| links with retry lose 0.4 % with one packet of 10 000 lost or")
    assert ", - % with one of 100 |" in claim and claim.endswith("| noisy |")


def test_a_number_that_was_not_stored_is_a_dash(tmp_path):
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "train_system.out").write_text(
        "ideal 1.0 ms\nace 2.0 ms\nbaseline_comm_opt 4.0 ms\nbaseline_comp_opt 5.0 ms\n"
    )
    table = BLOCKS["numbers"](tmp_path)

    assert "**50 %** of the speed" in table and "25 % and 20 % where" in table
    assert "**-** of the cycles" in table and "**- %** at most between - run times" in table


def test_claims_name_benches_that_exist():
    assert set(CLAIMS) <= {path.stem for path in (ROOT / "bench").glob("*.py")}


def test_stored_lines_replace_those_of_the_same_bench(tmp_path):
    path = tmp_path / "results" / "bench.txt"
    stored.store(["RESULT b x=1 verdict=ok", "RESULT a y=2.5 verdict=short"], path)
    stored.store(["RESULT b x=3 verdict=ok"], path)

    assert stored.read(path) == {
        "a": {"y": "2.5", "verdict": "short"},
        "b": {"x": "3", "verdict": "ok"},
    }
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert re.fullmatch(r"RESULT a y=2.5 verdict=short  # sources [0-9a-f]{12}", first)


def test_hash_of_sources_follows_names_and_contents(tmp_path):
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "a.py").write_text("x = 1\n")
    first = digest(tmp_path, ["sim"])

    (tmp_path / "sim" / "notes.md").write_text("no source")
    assert digest(tmp_path, ["sim"]) == first
    (tmp_path / "sim" / "a.py").rename(tmp_path / "sim" / "b.py")
    assert digest(tmp_path, ["sim"]) != first


def test_provenance_has_tools_and_sources():
    text = "\n".join(provenance(PARTS["rtl"], ROOT, lambda tool: "1.2"))

    assert "amaranth 1.2, pyosys 1.2" in text
    assert f"hw, gen ({digest(ROOT, ['hw', 'gen'])})" in text


def test_unknown_part_is_one_line(capsys):
    with pytest.raises(SystemExit):
        main(["rlt"])
    said = capsys.readouterr().err
    assert "unknown part 'rlt'; there are: rtl, cells, levels, clock, tables, " in said


def test_cells_of_every_preset_are_measured():
    presets = {design: set(presets) for design, (_, presets, _) in DESIGNS.items()}
    mapped = {design: set() for design in presets}
    for design, preset in price.PRESETS:
        mapped.get(design, set()).add(preset)

    assert mapped == presets


class Wire(wiring.Component):
    """The smallest design; its width tells one from the other."""

    def __init__(self, width):
        super().__init__({"given": In(width), "taken": Out(width)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.taken.eq(self.given)
        return m


def test_cells_that_were_mapped_before_an_interruption_are_not_mapped_again(tmp_path, monkeypatch):
    mapped = []

    def yosys(steps, *, cwd, timeout=None):
        width = next(w for w in (cwd / "block.il").read_text().split() if w.isdecimal())
        top = {str(len(each)): each for each in ("ace_test", "switch_8_port")}[width]
        mapped.append(top)
        if mapped == ["ace_test", "switch_8_port"]:
            raise KeyboardInterrupt
        told = {"modules": {"\\block": {"num_cells_by_type": {"LUT4": len(mapped)}}}}
        (cwd / "stat.json").write_text(json.dumps(told))

    def built(design, preset, changes):
        top = f"{design}_{preset}".replace("-", "_")
        return Design(top=top, component=Wire(len(top)), parameters={}, handoff="", registers=None)

    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path))
    monkeypatch.setattr("gen.mapping.blocks.run_yosys", yosys)
    monkeypatch.setattr("experiments.report.price.build", built)
    two = (("ace", "test"), ("switch", "8-port"))
    monkeypatch.setattr("experiments.report.price.PRESETS", two)
    with pytest.raises(KeyboardInterrupt):
        PARTS["cells"].make(ROOT)
    cells = PARTS["cells"].make(ROOT)["cells"]

    assert mapped == ["ace_test", "switch_8_port", "switch_8_port"]
    assert [row[:3] for row in cells.rows] == [("ace", "test", 1), ("switch", "8-port", 3)]


@pytest.mark.parametrize("stopped", [KeyboardInterrupt, OSError])
def test_a_part_that_was_finished_is_written_whatever_becomes_of_the_others(
    stopped, tmp_path, monkeypatch
):
    page = tmp_path / "docs" / "results" / "quick.md"

    def slow(root):
        until = time.monotonic() + 10
        while not page.exists() and time.monotonic() < until:
            time.sleep(0.01)
        raise stopped("slow")

    def quick(root):
        return {"quick": Table("Quick", [Column("x")], [(1,)])}

    parts = {"slow": slow, "quick": quick, "late": quick}
    monkeypatch.setattr(
        report, "PARTS", {name: replace(PARTS["rtl"], make=make) for name, make in parts.items()}
    )
    monkeypatch.setattr(report, "ROOT", tmp_path)
    monkeypatch.setattr(report, "ProcessPoolExecutor", lambda n, mp_context: ThreadPoolExecutor(n))
    with pytest.raises(stopped):
        main([])

    assert page.exists() and page.with_suffix(".csv").read_text() == "x\n1\n"
    assert page.with_stem("late").exists() or stopped is KeyboardInterrupt
    assert not page.with_stem("slow").exists()


def test_claims_of_at_least_are_rounded_down(tmp_path):
    results = tmp_path / "docs" / "results"
    results.mkdir(parents=True)
    line = "RESULT sim_speed min_ratio=11.7541 verdict=ok\n"
    (results / "bench.txt").write_text(line, encoding="utf-8")

    assert "at least 11 times" in BLOCKS["claims"](tmp_path)


def test_the_page_of_costs_has_all_that_was_measured_and_names_the_rest(tmp_path):
    cells = Table("Cells of whole designs", [Column("design"), Column("lut", "LUT")], [("ace", 12)])
    front = Table("Front", [Column("time_s", "time", "µs", 1)], [(2.5e-6,)], note="By a model.")
    price.keep(tmp_path, "cells", {"cells": cells})
    price.keep(tmp_path, "explored", {"explored": front})
    (tmp_path / price.FIGURE).write_text("<?xml?><svg id='a'></svg>", encoding="utf-8")
    price.write_page(tmp_path, tmp_path / "built")

    text = (tmp_path / "price.md").read_text(encoding="utf-8")
    page = (tmp_path / "built" / "price.html").read_text(encoding="utf-8")
    assert "| ace | 12 |" in text and "| 2.5 |" in text and "By a model." in text
    assert "time (µs)" in text and "([page](cells.md))" in text and f"({price.FIGURE})" in text
    assert text.count("Not measured yet: python -m experiments.report") == len(price.SECTIONS) - 2
    assert "<svg" in page and "Cells of whole designs" in page and "Not measured yet" in page
    assert set(price.SECTIONS) < set(PARTS)


def test_the_page_of_costs_is_that_of_the_tables(tmp_path):
    folder = ROOT / "docs" / "results"
    for path in [*folder.glob("*.json"), *folder.glob(price.FIGURE)]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    price.write_page(tmp_path, tmp_path)

    written = (tmp_path / "price.md").read_text(encoding="utf-8")
    assert written == (folder / "price.md").read_text(encoding="utf-8"), "--fill writes it anew"


@pytest.mark.parametrize("text", ["{", "[1]", '[["cells", {}]]', "null"])
def test_tables_that_are_none_are_named(text, tmp_path):
    (tmp_path / "cells.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"cells\.json: "):
        price.write_page(tmp_path, tmp_path)

# SPDX-License-Identifier: Apache-2.0
"""The parts of the README and of pages of ``docs`` that hold figures, made from ``docs/results``.

Each stands between ``<!-- report:NAME -->`` and ``<!-- /report -->``; no figure there is typed.
Missing measurements are dashes, or a line that says so.
"""

import csv
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bench import stored
from experiments.figure import GROUNDINGS
from experiments.report.parts import DESIGNS, SWITCH_RATES, SWITCH_UNITS
from experiments.targets import EFFECT_SHARE
from foldwire.machines import machines_table
from gen.table import Cell, Column, Table

__all__ = ["BLOCKS", "filled", "pages"]

_BLOCK = re.compile(r"(<!-- report:([\w-]+) -->\n)(.*?)(<!-- /report -->)", re.DOTALL)

# Bench -> the claim that it shows; {KEY} is a number of its stored result line.
CLAIMS = {
    "ring": "RTL results equal numpy's bit for bit; links carry a beat in {utilisation_worst:.1%} "
    "of cycles",
    "cosim": "the cycle model agrees with the RTL within {median_error_pct:.2g} % in the median, "
    "within {worst_error_pct:.2g} % at worst, also in training with one RTL node among models",
    "levels": "{exact:.0f} of {with_rtl:.0f} descriptions are exact at every level; cycle models "
    "within {cycles_worst_pct:.2g} % of RTL at worst; of {descriptions:.0f} drawn ones, events "
    "within {events_median_pct:.2g} % of cycle models in the median; at worst "
    "{events_worst_pct:.2g} % above 16 KiB, {pull_worst_pct:.2g} % of pulls, "
    "{small_worst_pct:.2g} % below",
    "rtl_random": "{runs:.0f} random runs of RTL with stalls, aborts, memory errors, lost and "
    "damaged packets: {exact:.0f} exact, {reported:.0f} reported on every rank, "
    "{violations:.0f} neither",
    "epochs": "of {runs:.0f} random runs of RTL with 1 to {most_aborts:.0f} aborts between "
    "operands left in tables and new ones none has a wrong sum ({exact:.0f} exact, {reported:.0f} "
    "reported); {states:.0f} states of the model are explored",
    "healing": "of {runs:.0f} random faults of switches, links and endpoints {wrong:.0f} end "
    "wrong and {stuck:.0f} stuck; without a dead member the others finish within "
    "{cycles_without:.0f} cycles, other regions keep {isolated_pct:.0f} % of their rate",
    "mutants": "of {mutants:.0f} bugs planted in the RTL by syntax and {semantic_mutants:.0f} by "
    "meaning the tests find {killed:.0f} and {semantic_killed:.0f}; {equivalent:.0f} and "
    "{semantic_equivalent:.0f} are none ({argued:.0f} and {semantic_argued:.0f} of them argued, "
    "the others proved), {survivors:.0f} and {semantic_survivors:.0f} survive",
    "equivalence": "{checked_presets:.0f} of {presets:.0f} presets and {proved:.0f} of "
    "{components:.0f} components: the SystemVerilog is proved equal to Amaranth's own RTLIL, as "
    "two readers take it; of {planted:.0f} errors in parameters, loops and instances of presets "
    "{refuted:.0f} are refuted, the others are proved to be none",
    "verilog": "the SystemVerilog of {presets:.0f} presets: {wrong_names:.0f} signals have another "
    "name than in the source, {numbered_pct:.1f} % of names have a number; the switch with 16 "
    "ports takes {lines_16_port:.0f} lines, its endpoint with 6 links {lines_6_link:.0f}, no "
    "module more than {largest_module:.0f}",
    "random_systems": "{systems:.0f} random systems: {violations:.0f} below their bound, not "
    "deterministic, unequal when folded, or slower with more bandwidth",
    "sim_agreement": "of {cases:.0f} printed results of ASTRA-sim 1.0 and 2.x all but "
    "{excused:.0f} (reason printed) agree: run times within {worst_pct:.2g} %, exposed "
    "communication of {exposed:.0f} within {worst_exposed_pct:.2g} %",
    "sim_speed": "at least {min_ratio:.0f} times as fast as ASTRA-sim where that takes 7 s or more",
    "sim_limits": "{min_pct:.0f} to {max_pct:.0f} % of the closed-form bound on every topology",
    "topologies": "{equal:.0f} topologies listed link by link take the time that they take by "
    "name; dragonfly, rails and an oversubscribed tree run",
    "defaults": "chunks and places that nobody states take at most {worst_ratio:.2f} times as long "
    "as the best stated ones in {cases:.0f} cases; {ring64_pct:.1f} % of the bound on a ring of "
    "64, {torus512_pct:.1f} % on a torus of 8x8x8; whatever stays below 90 % says why",
    "sim_scale": "cost per message within a factor of {flatness:.2f} from 8 to 4096 NPUs, "
    "{filling_ratio:.2f} while pipelines fill; 100 000 NPUs folded in {folded_100k_s:.2f} s",
    "rtl_speed": "compiled RTL {ratio_vs_verilator:.1f} times as fast as Verilator on one thread "
    "where links are busy in {links_pct:.0f} % of the cycles, {ratio_busy:.1f} times where it is "
    "{links_busy_pct:.0f} %, {ratio_saturated:.1f} times at {links_saturated_pct:.0f} %; "
    "{ratio_vs_icarus:.0f} times as fast as Icarus",
    "torus_rate": "ACE in RTL on tori, bits exact: {hamiltonian_pct:.0f} % of the bound on 4x4 "
    "(Hamiltonian cycles), {phases_pct:.0f} % on 4x4x4 over links of 90 cycles (phases), "
    "{long_links_pct:.0f} % of 500; links are busy in {middle_pct:.1f} % of the middle at least",
    "codegen": "compiled RTL equals CXXRTL in {designs:.0f} designs on random and recorded inputs",
    "folded": "one ACE for a ring or torus equals all of them in {cases:.0f} cases but "
    "{differing:.0f}; 4 096 engines in RTL all-reduce 4 MiB in {cpu_s_16:.0f} CPU seconds, 97 336 "
    "a beat for every node in {cpu_s_46:.0f}",
    "torus_64": "64 engines in RTL on a torus, 4 B to 4 MiB a node, all styles: {correct:.0f} of "
    "{runs:.0f} runs equal numpy's bits at every node; a run takes at most {worst_cpu_s:.0f} CPU "
    "seconds, {worst_256k_cpu_s:.0f} with 256 KiB, all together {cpu_minutes:.0f} minutes",
    "published": "the published ACE injects {published_gbs:.0f} GB/s on its torus, "
    "{published_bound_pct:.1f} % of what its SRAM allows; the one that fills the links "
    "{improved_gbs:.0f}, {improved_pct:.0f} % of theirs",
    "clock": "ECP5-85K after place and route, `test`: ACE {ace_mhz:.0f} MHz, smart NIC "
    "{nic_mhz:.0f}, endpoint of the switch {dma_mhz:.0f}, switch {switch_mhz:.0f}",
    "estimate": "cells of {drawn:.0f} drawn configurations, estimated from their parameters in "
    "{seconds:.2g} s: LUT within {lut_worst_pct:.0f} % of Yosys, flip-flops {ff_worst_pct:.0f}, "
    "gates {gates_worst_pct:.0f}",
    "handoff": "the hand-off folder of {presets:.0f} presets is read by {tools:.0f} tools with "
    "{failures:.0f} failures; {patterns:.0f} marks of a generator in their SystemVerilog",
    "emit": "the published size is emitted in {seconds:.0f} s, no module twice",
    "switch_line_rate": "the switch takes a flit in {switch_utilisation:.0%} of cycles at every "
    "port while all of them push",
    "switch_matrix": "in-switch reduction: {correct:.0f} of {cells:.0f} systems of RTL exact, with "
    "{evictions:.0f} evictions; the cycle model within {worst_error_pct:.2g} % at worst",
    "dgx2": "a DGX-2 whose switches reduce: {push_large_gbs:.0f} GB/s, where the best ring reaches "
    "{ring_large_gbs:.0f}",
    "link_retry": "links with retry lose {lost_pct_1e4:.1f} % with one packet of 10 000 lost or "
    "damaged, {lost_pct_1e2:.1f} % with one of 100",
    "nic_line_rate": "the smart NIC runs at {pct_plain:.1f} % of its limiting interface, and at "
    "{pct_bfp:.1f} % with compression",
    "nic_matrix": "smart NIC: RTL equals the golden model in {correct:.0f} of {cells:.0f} cells of "
    "sizes, ranks and formats",
    "bfp": "block floating point: {ratio_bfp16:.2f} : 1 on the wire, {snr_db_bfp16:.0f} dB",
    "rows": "{caught:.0f} of {rows:.0f} values within the tolerance of a published one leave it if "
    "the experiment is wrong (half of a gain, half or twice a number, an order mixed up); "
    "{no_effect:.0f} tolerances admit no effect",
    "machines": "collectives of {machines:.0f} machines by name reach {large_worst_pct:.0f} % of "
    "their links' bound or more from 1 GB on; fits to {tables:.0f} public tables have at most "
    "{fit_ratio:.2f} times the squared errors of the best of 20 outside starts, and "
    "{line_ratio:.2f} times those of a straight line",
    "nic_accuracy": "training with compressed gradients loses at most {drop_bfp16:.2f} points in "
    "BFP16",
}

# Command -> the number of the first screen that it prints, and its meaning.
NUMBERS = {
    "python examples/train_system.py": (
        "**{ace:.0%}** of the speed of an ideal endpoint, with ACE: ResNet-50 on 64 NPUs; "
        "{comm_opt:.0%} and {comp_opt:.0%} where six or two cores of each NPU do its work"
    ),
    "python -m bench ring": (
        "**{utilisation_worst:.1%}** of the cycles, at least, carry a beat on every link of four "
        "ACEs in RTL between the first and the last tenth of its bytes; results equal numpy's bit "
        "for bit"
    ),
    "python -m bench sim_agreement": (
        "**{worst_pct:.2f} %** at most between {compared:.0f} run times that ASTRA-sim prints and "
        "those of the event simulation with its simplifications"
    ),
}
COSTS = {
    "cells": (Column("lut", "LUT"), Column("ff", "FF"), Column("dsp", "DSP")),
    "levels": (Column("levels", digits=1),),
    "clocks": (Column("clock_hz", "clock", "MHz", 0),),
}
"""Table of the results -> columns of it in the documents."""
NOTES = {
    "cells": "Cells: Yosys, UltraScale+, not placed ([more](docs/results/cells.md)).",
    "levels": "Levels of logic: ECP5 ([more](docs/results/price.md)).",
    "clocks": "Clock: ECP5-85K, after place and route, median of 3 seeds; a dash: too large, or "
    "not measured.",
}
ENGINES = tuple(design for design in DESIGNS if design != "ace")
"""Designs in one table; presets of ACE have one of their own."""
VERIFIED = {
    "test": "green: all tests, cocotb ring, any order of packets, damaged packets",
    "duo": "green: both directions, cocotb ring",
    "ring": "green: bit-exact 1 MiB all-reduce",
    "wide": "green: every output equals Icarus' in every cycle of an all-reduce",
    "isca21": "green: eight of them, bit for bit, `bench isca21`; published: partitions by phase",
    "torus": "green: the same; fills the links of the published torus, `bench published`",
}


def pages(root: Path) -> list[Path]:
    """The README and those of ``docs`` that have blocks."""
    docs = sorted((root / "docs").rglob("*.md"))
    return [root / "README.md", *(p for p in docs if _BLOCK.search(p.read_text("utf-8")))]


def filled(text: str, root: Path) -> str:
    """*text* with all blocks made anew.

    Raises
    ------
    ValueError
        A block has a name that is not in `BLOCKS`.
    """

    def block(match: re.Match[str]) -> str:
        if match[2] not in BLOCKS:
            known = ", ".join(BLOCKS)
            raise ValueError(f"unknown block report:{match[2]}; there are: {known}")
        return f"{match[1]}{BLOCKS[match[2]](root)}{match[4]}"

    return _BLOCK.sub(block, text)


def _printed(example: str) -> Callable[[Path], str]:
    def block(root: Path) -> str:
        text = (root / "examples" / f"{example}.out").read_text(encoding="utf-8")
        return f"```text\n{text}```\n"

    return block


def _rows(root: Path, name: str) -> list[dict[str, str]]:
    """The rows of a table of docs/results; none if it has not been measured."""
    path = root / "docs" / "results" / f"{name}.csv"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return list(csv.DictReader(lines))


def _claims(root: Path) -> str:
    """Table of the claims of benches, with the figures and verdicts of their stored lines."""
    results = stored.read(root / "docs" / "results" / "bench.txt")
    table = Table("", [Column("claim"), Column("command"), Column("verdict")])
    for name, claim in CLAIMS.items():
        if name in results:
            numbers = _Numbers((key, _number(value, key)) for key, value in results[name].items())
            command = f"`python -m bench {name}`"
            table.add(claim.format_map(numbers), command, results[name]["verdict"])
    return table.to_markdown()


def _numbers(root: Path) -> str:
    """The three numbers, of the stored lines of benches and of what the example prints."""
    results = stored.read(root / "docs" / "results" / "bench.txt")
    lines = results.get("ring", {}) | results.get("sim_agreement", {})
    numbers = _Numbers((key, _number(value, key)) for key, value in lines.items())
    if {"cases", "excused"} <= lines.keys():
        numbers["compared"] = int(lines["cases"]) - int(lines["excused"])
    printed = (root / "examples" / "train_system.out").read_text(encoding="utf-8")
    ms = {kind: float(time) for kind, time, _ in map(str.split, printed.splitlines())}
    for kind in ("ace", "baseline_comm_opt", "baseline_comp_opt"):
        numbers[kind.removeprefix("baseline_")] = ms["ideal"] / ms[kind]
    table = Table("", [Column("number"), Column("printed by")])
    for command, what in NUMBERS.items():
        shown = re.sub(r"(?<=\d)%", " %", what.format_map(numbers))
        table.add(shown, f"`{command}`")
    return table.to_markdown()


class _Dash:
    """A figure that the stored line does not have."""

    def __format__(self, form: str) -> str:
        return "-"


class _Numbers(dict[str, object]):
    """Figures of a stored line by key; a dash for those not measured."""

    def __missing__(self, key: str) -> _Dash:
        return _Dash()


class _AtLeast(float):
    """A number that is printed with so many digits as ``.1f`` asks for, rounded down."""

    def __format__(self, form: str) -> str:
        scale = 10 ** int(form.strip(".f"))
        return format(math.floor(self * scale) / scale, form)


def _number(text: str, key: str = "") -> float | str:
    try:
        return _AtLeast(text) if key.startswith(("min_", "ratio_")) else float(text)
    except ValueError:
        return text


class _Costs:
    """Costs of presets, as far as they have been measured."""

    def __init__(self, root: Path) -> None:
        measured = {name: rows for name in COSTS if (rows := _rows(root, name))}
        self.columns = [column for name in measured for column in COSTS[name]]
        self.note = " ".join(NOTES[name] for name in measured)
        self._known: dict[tuple[str, str], dict[str, str]] = {}
        for row in (row for rows in measured.values() for row in rows):
            self._known.setdefault((row["design"], row["preset"]), {}).update(row)

    def of(self, design: str, preset: str) -> list[Cell]:
        """Costs in the order of the columns; None where one is not known."""
        row = self._known.get((design, preset), {})
        texts = (row.get(column.name, "") for column in self.columns)
        return [
            None if not text else float(text) if "." in text else int(text) for text in texts
        ]


def _presets(root: Path) -> str:
    """The presets of ACE: what they are, what they cost, how far they are verified."""
    costs = _Costs(root)
    table = Table(
        "",
        [
            Column("preset"), Column("ports x bus"), Column("FSMs x contexts"), Column("SRAM"),
            Column("lines", "lines of Verilog"), *costs.columns, Column("verification"),
        ],
        note=costs.note,
    )
    for row in _rows(root, "rtl-ace"):
        banks, kib = int(row["banks"]), int(row["sram_bytes"]) >> 10
        sram = f"{kib >> 10} MiB" if kib >= 1024 else f"{kib} KiB"
        table.add(
            f"`{row['preset']}`",
            f"{row['ports']} x {row['bus_bytes']} B",
            f"{row['fsms']} x {row['contexts']}",
            f"{sram}, {banks} bank{'s' if banks > 1 else ''}",
            int(row["lines"]),
            *costs.of("ace", row["preset"]),
            VERIFIED.get(row["preset"], ""),
        )
    return table.to_markdown()


def _engines(root: Path) -> str:
    """The presets of the other engines."""
    costs = _Costs(root)
    table = Table(
        "",
        [
            Column("engine"), Column("preset"), Column("parameters"),
            Column("lines", "lines of Verilog"), *costs.columns,
        ],
        note=costs.note,
    )
    for design in ENGINES:
        for row in _rows(root, f"rtl-{design}"):
            shown = [key for key in row if key not in ("preset", "lines", "modules")]
            table.add(
                design,
                f"`{row['preset']}`",
                ", ".join(f"{key} {row[key]}" for key in shown),
                int(row["lines"]),
                *costs.of(design, row["preset"]),
            )
    return table.to_markdown()


def _papers(root: Path) -> str:
    table = Table(
        "",
        [
            Column("paper"), Column("values compared"), Column("within tolerance"),
            Column("by effect"),
            *(Column(f"on_{ground}", f"rest on what is {ground}") for ground in GROUNDINGS),
            Column("fitted", "fitted to, not compared"),
        ],
        note=f"By effect: speed-ups within {100 * EFFECT_SHARE:g} % of the published gain beyond "
        "1, of all that were compared. A value rests on the least firm of its assumptions: stated "
        "in the paper, data that its authors released, chosen by us, or fitted to a published "
        "result.",
    )
    for row in _rows(root, "papers"):
        page = f"docs/results/paper-{row['paper']}.md"
        table.add(
            f"[{row['paper']}]({page})", int(row["compared"]), int(row["within"]),
            f"{row['effects_within']} of {row['effects']}",
            *(int(row[f"on_{ground}"]) for ground in GROUNDINGS), int(row["fitted"]),
        )
    return table.to_markdown()


def _measured(name: str, columns: Sequence[Column]) -> Callable[[Path], str]:
    """A table of docs/results as it is there."""

    def block(root: Path) -> str:
        rows = _rows(root, name)
        if not rows:
            return f"Not measured yet: `python -m experiments.report {name}`.\n"
        table = Table("", columns)
        for row in rows:
            found = (row[column.name] for column in columns)
            table.add(*(int(value) if value.isdigit() else _number(value) for value in found))
        return table.to_markdown()

    return block


TIMES = {"FP16": (4, 8), "BFP": (4, 16)}
"""Formats, and the lanes with which all-reduces are timed."""


def _switch_times(root: Path) -> str:
    """Times of all-reduces in short formats, of the stored line of `bench switch_modes`."""
    line = stored.read(root / "docs" / "results" / "bench.txt").get("switch_modes", {})
    table = Table("", [Column("format"), Column("lanes"), Column("time", "time", "% of words")])
    for format, widths in TIMES.items():
        for lanes in widths:
            time = line.get(f"{format.lower()}_time_pct_{lanes}")
            table.add(format, lanes, None if time is None else round(float(time), 1))
    if any(row[2] is None for row in table.rows):
        missing = "A dash: not in the stored line; `python -m bench switch_modes --store`."
        table = replace(table, note=missing)
    return table.to_markdown()


BLOCKS: dict[str, Callable[[Path], str]] = {
    "quick_start": _printed("quick_start"),
    "train_system": _printed("train_system"),
    "numbers": _numbers,
    "claims": _claims,
    "presets": _presets,
    "engines": _engines,
    "papers": _papers,
    "machines": lambda root: replace(machines_table(), note="").to_markdown(),
    "switch_rates": _measured("switch-rates", SWITCH_RATES),
    "switch_units": _measured("switch-units", SWITCH_UNITS),
    "switch_times": _switch_times,
}

# SPDX-License-Identifier: Apache-2.0
"""Clock of the engines on an ECP5-85K after place and route, and levels of logic of their blocks.

Median of three seeds, each kept by the content of the netlist: what was interrupted goes on where
it was. A block's levels are those of the longest path to one of its registers, through all of the
design; `levels_ratio` is the worst of all blocks, however short their paths are, `longest_ratio`
that of the longest paths of the two presets.
"""

import argparse
import re
from collections.abc import Mapping, Sequence

from bench.result import result
from foldwire.catalog import build
from foldwire.console import print_table, step
from foldwire.emission import netlist_of
from gen.cache import announce
from gen.extras import MissingExtraError
from gen.mapping.clock import SEEDS, PlacementError, clock_of
from gen.mapping.levels import Levels, levels_of
from gen.table import Column, Table
from sim.engines import registry

__all__ = ["BARS_MHZ", "Configured", "configuration", "main", "placed"]

Configured = tuple[str, str, Mapping[str, str]]
"""A design, its preset, and changes of that as text."""

BAR_MHZ = {"switch": 80.0}
BARS_MHZ = {
    name: BAR_MHZ.get(name, 100.0) for record in registry.records() for name in record.blueprints
}
KEYS = {name: f"{re.sub('^(smart|switch-)', '', name)}_mhz" for name in BARS_MHZ}
RATIO_BAR = 1.33
PRESET, PUBLISHED = "test", "isca21"
WORST = 10


def main(argv: Sequence[str]) -> int:
    """Place and route, compare levels, print the tables and the result line."""
    parser = argparse.ArgumentParser(prog="python -m bench clock", description=__doc__)
    parser.add_argument(
        "--designs", nargs="*", choices=list(BARS_MHZ), default=list(BARS_MHZ),
        help="which to place and route (default: all)",
    )
    parser.add_argument(
        "--seeds", type=int, default=len(SEEDS), choices=range(1, len(SEEDS) + 1),
        help="of place and route; fewer than the default are no median of three and count as short",
    )
    parser.add_argument("--no-levels", action="store_true", help="leave out the levels of blocks")
    options = parser.parse_args(argv)
    small: list[Configured] = [(name, PRESET, {}) for name in options.designs]
    table = placed(small, SEEDS[: options.seeds])
    print_table(table)
    clocks = {str(row[0]): float(row[2]) / 1e6 for row in table.rows}  # type: ignore[arg-type]
    ratio, longest = (None, None) if options.no_levels else _level_ratios()
    good = options.seeds == len(SEEDS) and ratio is not None and ratio <= RATIO_BAR
    good = good and all(clocks.get(name, 0.0) >= bar for name, bar in BARS_MHZ.items())
    values = {key: _or_missing(clocks.get(name)) for name, key in KEYS.items()}
    result(
        "clock", verdict="ok" if good else "short", **values,
        levels_ratio="none" if ratio is None else round(ratio, 3),
        longest_ratio="none" if longest is None else round(longest, 3),
    )
    return 0


def _or_missing(value: float | None) -> object:
    return "none" if value is None else round(value, 1)


def configuration(preset: str, changes: Mapping[str, str]) -> str:
    """Name of a preset with *changes*, in the columns of tables."""
    return ", ".join([preset, *(f"{key} {value}" for key, value in changes.items())])


def placed(designs: Sequence[Configured], seeds: Sequence[int] = SEEDS) -> Table:
    """Clock of each design, preset and changes that can be placed; what was placed is kept."""
    table = Table(
        "Clock after place and route",
        [
            Column("design"), Column("preset"), Column("clock_hz", "median clock", "MHz", 1),
            Column("least_hz", "least", "MHz", 1), Column("cells"), Column("start"), Column("end"),
        ],
        note="ECP5-85K, speed grade 6, out of context, flattened. Critical paths of the run with "
        f"the median clock of {len(seeds)} seeds.",
    )
    for name, preset, changes in designs:
        which = configuration(preset, changes)
        with step(f"placing and routing {name} {which}"):
            try:
                runs = clock_of(netlist_of(build(name, preset, changes)), seeds=seeds)
            except (MissingExtraError, PlacementError) as error:
                announce(f"{name} {which}: {error}")
                continue
        middle = runs[(len(runs) - 1) // 2]  # slowest first
        table.add(
            name, which, middle.mhz * 1e6, runs[0].mhz * 1e6, middle.cells, middle.start,
            middle.end,
        )
    return table


def _level_ratios() -> tuple[float, float]:
    """Levels of the published size over those of the small preset: of the block where that is
    worst, and of the longest paths."""
    with step("levels of logic"):
        small, large = (
            levels_of(netlist_of(build("ace", each, {}))) for each in (PRESET, PUBLISHED)
        )
    rows = sorted(_ratios(small, large), key=lambda row: -row[3])
    columns = [
        Column("part"), Column("small", f"levels, {PRESET}", digits=1),
        Column("large", f"levels, {PUBLISHED}", digits=1), Column("ratio"), Column("end"),
    ]
    print_table(Table("Levels of the same parts", columns, list(rows[:WORST])))
    print_table(Table(
        f"Longest paths of ace {PUBLISHED}",
        [Column("levels", digits=1), Column("start"), Column("end")],
        [(path.levels, path.start, path.end) for path in large.worst],
    ))
    return rows[0][3], large.worst[0].levels / small.worst[0].levels


def _ratios(small: Levels, large: Levels) -> list[tuple[str, float, float, float, str]]:
    return [
        (part, path.levels, large.by_part[part].levels,
         large.by_part[part].levels / max(path.levels, 1.0), large.by_part[part].end)
        for part, path in small.by_part.items() if part in large.by_part
    ]

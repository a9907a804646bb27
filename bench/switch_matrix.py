# SPDX-License-Identifier: Apache-2.0
"""All-reduces by push and pull through RTL endpoints and switches, over tables, members, stalls.

All are run on the cycle model, too: with the same commands in the same cycles, and the same stalls.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from bench.options import bench_parser
from bench.result import result
from hw.fp.ops import ReduceOp
from hw.switch.config import SwitchConfig
from hw.switch_dma.config import SwitchDmaConfig
from sim.rtl.switch.stepped import SteppedFabric
from tb.switch_dma.fabric import AllReduce, flat, join, two_levels
from tb.switch_dma.twin import Race

ENTRIES = (1, 2, 4, 8, 32)
LEAF = 3
LONG_BYTES = 64 << 10
SHORT_BYTES = 6 << 10
TIMEOUT_CYCLES = 120
LONG_TIMEOUT_CYCLES = 20_000
CELLS, TWO_LEVEL_CELLS, LONG_CELLS, EACH = 40, 10, 12, 5
MEDIAN_PCT, WORST_PCT = 1, 5

SWITCH = SwitchConfig(
    ports=8, buffer_packets=4, credits=4, queue_packets=2, regions=1, homes=8, endpoints=8,
    timeout_bits=16, trace=True,
)
DMA = SwitchDmaConfig(
    buffer_packets=4, credits=4, waves=8, wave_blocks=4, endpoints=8, address_bits=32, trace=True,
)


A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One all-reduce: its system, its data, and the load on the tables."""

    members: int
    entries: int
    crowded: bool  # more blocks in flight than entries, and endpoints that start apart
    stalls: bool  # memories that stall, long links
    levels: int
    links: int
    op: ReduceOp
    size_bytes: int
    mode: str = "push"  # or pull; whole: pull in which own operands travel, too
    multicast: bool = False  # partials go to all members, not to the home endpoint


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of a cell."""

    cycles: int
    correct: bool
    evictions: int
    timeouts: int
    bypasses: int  # loads that passed a table without an entry


@dataclass(frozen=True, kw_only=True)
class Compared(Outcome):
    """Outcome of a cell, compared with the cycle model."""

    error_pct: float  # error of the cycle model's cycles
    alike: bool  # the cycle model has the same events
    partials: int
    stalls: int  # loads that waited for an entry at their first switch


def main(argv: Sequence[str]) -> int:
    """Run all cells; every result is compared with a replay of the logged order, and numpy."""
    parser = bench_parser("switch_matrix", __doc__, seed="data and stalls", only="cells")
    options = parser.parse_args(argv)

    print(
        "every operand once, int32 as numpy, FP32 bit for bit a replay of the order that tables,\n"
        "home endpoints and requesters logged, the same at all endpoints; whole: pull for which\n"
        "own operands travel, too; beside cells whose partials are multicast, all members' orders\n"
        "of adding them are the same, and replayed\n"
        "mode  members entries levels links op       bytes stalls crowded  cycles error% evicted "
        "expired partials stalled bypassed correct "
        "multicast"
    )
    cells = list(_cells())[: options.only]
    outcomes = run_all(cells, lambda number, cell: _run(cell, options.seed + number), _row)
    return _report(cells, outcomes)


def run_all(cells: Sequence[A], run: Callable[[int, A], B], row: Callable[[A, B], str]) -> list[B]:
    """Run all cells, print a row as soon as each is done, and return the outcomes."""
    outcomes = []
    for number, cell in enumerate(cells):
        outcomes.append(run(number, cell))
        print(row(cell, outcomes[-1]), flush=True)
    return outcomes


def _row(cell: Cell, outcome: Compared) -> str:
    return (
        f"{cell.mode:5} {cell.members:7} {cell.entries:7} {cell.levels:6} {cell.links:5} "
        f"{cell.op.name:8} {cell.size_bytes:5} {word(cell.stalls):6} "
        f"{word(cell.crowded):7} {outcome.cycles:7} {outcome.error_pct:6.2f} "
        f"{outcome.evictions:7} {outcome.timeouts:7} {outcome.partials:8} "
        f"{outcome.stalls:7} {outcome.bypasses:8} {word(outcome.correct):7} "
        f"{word(cell.multicast):9}"
    )


def _report(cells: list[Cell], outcomes: list[Compared]) -> int:
    enough = {
        "cells": (len(cells), CELLS),
        "on two levels": (sum(each.levels == 2 for each in cells), TWO_LEVEL_CELLS),
        "of 64 KiB": (sum(each.size_bytes >= LONG_BYTES for each in cells), LONG_CELLS),
        "with stalls": (sum(each.stalls for each in cells), -(-len(cells) // 3)),
        "with evictions": (sum(each.evictions > 0 for each in outcomes), EACH),
        "without": (sum(each.evictions == 0 for each in outcomes), EACH),
        "with time-outs": (sum(each.timeouts > 0 for each in outcomes), EACH),
        "with loads that waited": (sum(each.stalls > 0 for each in outcomes), EACH),
        "with multicast partials": (
            sum(c.multicast and o.partials > 0 for c, o in zip(cells, outcomes)), EACH
        ),
        "with bypasses": (sum(each.bypasses > 0 for each in outcomes), EACH),
    }
    for name, (count, wanted) in enough.items():
        print(f"{name:22} {count:4}, wanted {wanted}")
    errors = [each.error_pct for each in outcomes]
    median, worst = float(np.median(errors)), max(errors)
    alike = sum(each.alike for each in outcomes)
    print(
        f"cycle model: median error {median:.3g} %, wanted {MEDIAN_PCT}; worst {worst:.3g} %, "
        f"wanted {WORST_PCT}; in {alike} of {len(errors)} cells all events are as many"
    )
    correct = sum(each.correct for each in outcomes)
    met = correct == len(cells) and all(count >= wanted for count, wanted in enough.values())
    met = met and median <= MEDIAN_PCT and worst <= WORST_PCT
    result(
        "switch_matrix",
        cells=len(cells),
        correct=correct,
        median_error_pct=median,
        worst_error_pct=worst,
        compared=len(errors),
        evictions=sum(each.evictions for each in outcomes),
        timeouts=sum(each.timeouts for each in outcomes),
        stalls=sum(each.stalls for each in outcomes),
        bypasses=sum(each.bypasses for each in outcomes),
        verdict="ok" if met else "short",
    )
    return 0


def _cells() -> Iterator[Cell]:
    """One level over members and tables, then two levels, then several links; then pull."""
    number = 0
    for entries in ENTRIES:
        for members in (2, 3, 5, 8):
            for crowded in (True, False):
                long = members in (3, 8) and entries in (2, 8, 32) and number % 4 < 3
                yield _cell(number, members, entries, crowded, long=long)
                number += 1
    for entries in ENTRIES:
        for members in (7, 8):
            crowded = members == 8 or entries == 1
            yield _cell(number, members, entries, crowded, levels=2, long=entries == 4)
            number += 1
    for members in (4, 6):
        yield _cell(number, members, 2, True, links=2)
        number += 1
    for entries in ENTRIES:
        for members, levels in ((2, 1), (3, 1), (8, 1), (7, 2), (8, 2)):
            long = entries in (2, 32) and members == 8
            cell = _cell(number, members, entries, members != 3, levels=levels, long=long)
            yield replace(cell, mode="whole" if number % 5 == 0 else "pull")
            number += 1
    yield replace(_cell(number, 4, 2, True, links=2), mode="pull")
    for entries in (1, 2, 8):
        for members, levels in ((3, 1), (8, 1), (8, 2)):
            number += 1
            long = entries == 1 and levels == 2
            cell = _cell(number, members, entries, True, levels=levels, long=long)
            yield replace(cell, multicast=True, mode="pull" if members == 3 else "push")


def _cell(
    number: int, members: int, entries: int, crowded: bool, *, levels: int = 1, links: int = 1,
    long: bool = False,
) -> Cell:
    op = (ReduceOp.SUM_F32, ReduceOp.SUM_I32, ReduceOp.SUM_F32, ReduceOp.MAX_F32)[number // 2 % 4]
    return Cell(
        members=members, entries=entries, crowded=crowded, stalls=number % 3 == 0, levels=levels,
        links=links, op=op, size_bytes=LONG_BYTES if long else SHORT_BYTES + 4 * number,
    )


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A cell's system, whose endpoints have joined, and the parameters of the run."""

    system: SteppedFabric
    given: list[int]  # cycles from now to each endpoint's command
    waves: dict[str, int]  # as `Race` takes them, if not the reset values
    until: dict[str, int]  # as `Course` takes it


def prepare(
    cell: Cell, seed: int, dma: SwitchDmaConfig = DMA, switch: SwitchConfig = SWITCH
) -> Prepared:
    """Build a cell's system: endpoints of configuration *dma* except for its links, and switches of
    configuration *switch* except for its tables."""
    rng = np.random.default_rng(seed)
    make = two_levels if cell.levels == 2 else flat
    options: dict[str, Any] = {"leaf": LEAF} if cell.levels == 2 else {}
    system = make(
        replace(switch, entries=cell.entries, multicast_partials=cell.multicast),
        replace(dma, links=cell.links, multicast_partials=cell.multicast), cell.members,
        timeout=TIMEOUT_CYCLES if cell.crowded else LONG_TIMEOUT_CYCLES,
        latency=int(rng.integers(4, 30)) if cell.stalls else 4,
        stalls=0.4 if cell.stalls else 0.0, seed=seed, memory_bytes=1 << 18,
        mode=cell.mode, **options,
    )
    join(system)
    waves: dict[str, int] = {}
    if not cell.crowded:  # no more blocks in flight than a table has entries
        size_log2 = min(2, cell.entries.bit_length() - 1)
        waves = {"wave_log2": size_log2, "waves": min(8, cell.entries >> size_log2)}
        for node in system.nodes:
            node.write("waves", size_log2=size_log2, outstanding=waves["waves"])
        system.settle(quiet=10)
    apart = rng.integers(150, size=cell.members) if cell.crowded else np.zeros(cell.members, int)
    given = (np.cumsum(apart) - apart[0]).tolist()
    until = {"deadline": 1_000_000, "quiet": 2 * TIMEOUT_CYCLES + 150}
    return Prepared(system=system, given=given, waves=waves, until=until)


def _run(cell: Cell, seed: int) -> Compared:
    made = prepare(cell, seed)
    system = made.system
    job = AllReduce(system, cell.op, cell.size_bytes // 4, seed=seed)
    race = Race(system, job, made.given, **made.until, **made.waves)
    try:
        job.check()
        correct = all(each["done"] and not each["dropped"] for each in system.ask("interrupt"))
    except AssertionError as error:
        print(f"  {error}")
        correct = False
    counted = race.counted
    return Compared(
        cycles=int(race.rtl.max()),
        error_pct=race.error_pct,
        alike=race.counts == counted,
        correct=correct,
        evictions=counted["evicted"],
        timeouts=counted["expired"],
        partials=counted["partials"],
        stalls=counted["stalled"],
        bypasses=counted["bypassed"],
    )


def word(truth: bool) -> str:
    return "yes" if truth else "no"

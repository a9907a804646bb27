# SPDX-License-Identifier: Apache-2.0
"""Modes beyond the plain all-reduce through RTL endpoints and switches, and what they cost."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from bench._wire_formats import SHORT, area, periods, times
from bench.options import bench_parser
from bench.result import result
from bench.switch_matrix import DMA, LONG_BYTES, SWITCH, Cell, Outcome, prepare, run_all, word
from gen.synth import synthesize
from hw.fp.ops import ReduceOp
from hw.switch.packet import Format
from hw.switch_dma.config import preset
from hw.switch_dma.dma import SwitchDma
from hw.switch_dma.fixed_point import FixedToFloat, FloatToFixed
from hw.switch_dma.layouts import Part
from tb.switch_dma.fabric import AllReduce, Restriction, shares
from tb.switch_dma.fixed_point import largest_exponent, to_fixed, to_float, total, unit_of
from tb.switch_dma.orders import FLITS, LANES, Adds, Orders, converted
from tb.switch_dma.twin import Course

KINDS = ("deterministic", "reduce-scatter", "all-gather", "broadcast", "FP16", "BF16", "block FP")
"""Kinds of cells that there must be, each with evictions in at least one cell."""
CELLS, RTL_ORDERS, ORDERS = 24, 100_000, 1_000_000
SIZE_BYTES = 2 << 10
BATCH = 2500
ORDER_MEMBERS, ORDER_ENTRIES = (4, 8), (1, 2, 4, 8, 32)
SEEDS = 2
TIMED_MEMBERS = 4
FIXED = replace(DMA, fixed_point=True)
FORMATS = {"FP16": Format.FP16, "BF16": Format.BF16, "block FP": Format.BFP}


def main(argv: Sequence[str]) -> int:
    """Run all cells, beside golden models in Python; count orders; measure area and bandwidth."""
    parser = bench_parser("switch_modes", __doc__, seed="data and stalls", only="cells")
    options = parser.parse_args(argv)

    print(
        "deterministic: FP32 as integers of a window that hosts give; the golden result is the\n"
        f"sum of integers in Python, the bits are those of {SEEDS} seeds of stalls and starts;\n"
        "reduce-scatter: FP32, as a replay of the order that was logged; FP16, BF16, block FP:\n"
        "the same, rounded once; the others: as numpy\n"
        "kind           mode  members entries levels links bytes crowded  cycles evicted expired "
        "bypassed correct"
    )
    cells = list(_cells())[: options.only]
    outcomes = run_all(
        cells, lambda number, each: _run(*each, options.seed + 100 * number), _row
    )
    every = _all_kinds(list(zip((kind for kind, _ in cells), outcomes)))
    orders, equal = _orders(options.seed)
    within = _error(options.seed)
    larger, bandwidth = _area(), _bandwidth(options.seed)
    relative = _formats(options.seed)
    correct = sum(each.correct for each in outcomes)
    met = correct == len(cells) >= CELLS and every and equal == orders >= ORDERS and within
    result(
        "switch_modes",
        cells=len(cells),
        correct=correct,
        deterministic_area_pct=larger,
        deterministic_bandwidth_pct=bandwidth,
        orders=orders,
        orders_equal=equal,
        **relative,
        verdict="ok" if met else "short",
    )
    return 0


def _all_kinds(found: Sequence[tuple[str, Outcome]]) -> bool:
    """True if there are cells with evictions of all kinds; the counts of each are printed."""
    whole = True
    print("\nkind           cells correct with evictions")
    for kind in dict.fromkeys([*KINDS, *(kind for kind, _ in found)]):
        those = [outcome for other, outcome in found if other == kind]
        evicting = sum(each.evictions > 0 for each in those)
        whole &= evicting > 0
        said = "" if evicting else ": none, which is short" if those else ": missing"
        print(f"{kind:14} {len(those):5} {sum(each.correct for each in those):7} "
              f"{evicting:14}{said}")
    return whole


def _row(each: tuple[str, Cell], outcome: Outcome) -> str:
    kind, cell = each
    return (
        f"{kind:14} {cell.mode:5} {cell.members:7} {cell.entries:7} {cell.levels:6} "
        f"{cell.links:5} {cell.size_bytes:5} {word(cell.crowded):7} {outcome.cycles:7} "
        f"{outcome.evictions:7} {outcome.timeouts:7} {outcome.bypasses:8} "
        f"{word(outcome.correct):7}"
    )


def _run(kind: str, cell: Cell, seed: int) -> Outcome:
    if kind in FORMATS:
        return _short(kind, cell, seed)
    run = _deterministic if kind == "deterministic" else _in_part
    return run(kind, cell, seed)


def _cells() -> Iterator[tuple[str, Cell]]:
    """Yield kinds with their cells; tables of all sizes for each kind."""
    modes = itertools.cycle(("push", "pull", "push", "whole", "push", "pull"))
    for number, (entries, members) in enumerate(itertools.product((1, 2, 8, 32), (3, 5, 8))):
        yield "deterministic", _cell(number, members, entries, next(modes))
    for number, entries in enumerate((1, 4)):
        for mode in ("push", "pull"):
            yield "deterministic", replace(_cell(number, 8, entries, mode), levels=2)
    yield "deterministic", replace(_cell(0, 4, 2, "push"), links=2)
    for kind in ("reduce-scatter", "all-gather", "broadcast"):
        op = ReduceOp.SUM_F32 if kind == "reduce-scatter" else ReduceOp.SUM_I32
        for number, (entries, members) in enumerate(((1, 4), (2, 8), (8, 3), (1, 8))):
            mode, levels = ("push", "pull")[number % 2], 1 + (members == 8)
            yield kind, replace(_cell(number, members, entries, mode), levels=levels, op=op)
    for kind in FORMATS:
        for number, (entries, members) in enumerate(((1, 8), (2, 5), (8, 4), (4, 3))):
            mode, levels = ("push", "pull", "push", "whole")[number], 1 + (members == 8)
            yield kind, replace(_cell(number, members, entries, mode), levels=levels)


def _cell(number: int, members: int, entries: int, mode: str) -> Cell:
    return Cell(
        members=members, entries=entries, crowded=number % 3 < 2, stalls=number % 2 == 0, levels=1,
        links=1, op=ReduceOp.SUM_F32, size_bytes=SIZE_BYTES + 4 * number, mode=mode,
    )


def _deterministic(kind: str, cell: Cell, seed: int) -> Outcome:
    """Reduce the same data under several seeds of stalls and starts; all bits must agree."""
    found, courses, correct = set(), [], True
    for other in range(SEEDS):
        made = prepare(replace(cell, stalls=cell.stalls or other > 0), seed + other, FIXED)
        job = AllReduce(made.system, cell.op, cell.size_bytes // 4, seed=seed, fixed=True)
        course = Course(made.system, job, made.given, **made.until)
        courses.append(course)
        correct &= _right(job)
        found |= {words.tobytes() for words in job.results()}
    return _outcome(courses, correct and len(found) == 1)


def _short(kind: str, cell: Cell, seed: int) -> Outcome:
    """Run a cell whose operands and results travel in a short format."""
    made = prepare(cell, seed, replace(DMA, **SHORT), replace(SWITCH, **SHORT))
    job = AllReduce(
        made.system, cell.op, cell.size_bytes // 4, seed=seed, format=FORMATS[kind]
    )
    course = Course(made.system, job, made.given, **made.until)
    return _outcome([course], _right(job))


def _in_part(kind: str, cell: Cell, seed: int) -> Outcome:
    """Run a cell in which each member sends, or stores, only a part."""
    made = prepare(cell, seed, replace(DMA, parts=True))
    elements = cell.size_bytes // 4
    parts = shares(made.system, elements)
    if kind == "broadcast":
        parts = [(0, elements if k == seed % cell.members else 0) for k in range(cell.members)]
    job = AllReduce(
        made.system, cell.op, elements, seed=seed,
        only=Restriction(Part.STORE if kind == "reduce-scatter" else Part.SEND, parts),
    )
    course = Course(made.system, job, made.given, **made.until)
    return _outcome([course], _right(job))


def _outcome(courses: list[Course], correct: bool) -> Outcome:
    return Outcome(
        cycles=int(courses[0].rtl.max()),
        correct=correct,
        evictions=sum(each.counted["evicted"] for each in courses),
        timeouts=sum(each.counted["expired"] for each in courses),
        bypasses=sum(each.counted["bypassed"] for each in courses),
    )


def _right(job: AllReduce) -> bool:
    """True if the results are golden and every endpoint reports success."""
    try:
        job.check()
    except AssertionError as error:
        print(f"  {error}")
        return False
    answers = job.system.ask("interrupt")
    return all(each["done"] and not each["dropped"] and not each["invalid"] for each in answers)


def _drawn(rng: np.random.Generator, members: int) -> NDArray[np.float32]:
    """Operands of a block, of very different magnitudes."""
    shape = (members, FLITS * LANES)
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 7, shape)).astype(np.float32)


def _orders(seed: int) -> tuple[int, int]:
    """Number of orders of arrival run, on RTL and on the model, and of those with equal bits."""
    rng = np.random.default_rng(seed)
    ran = same = evicted = expired = 0
    bits: set[bytes] = set()
    for members, entries in itertools.cycle(itertools.product(ORDER_MEMBERS, ORDER_ENTRIES)):
        if ran >= RTL_ORDERS:
            break
        operands = _drawn(rng, members)
        unit = unit_of(largest_exponent(operands), members)
        given = converted(FloatToFixed, operands, unit=unit, members=members).view(np.int32)
        timeout = int(rng.choice([0, 30, 60]))
        with Adds.model(Orders(entries=entries, members=members)).instance() as instance:
            out = Adds.run(instance, given, BATCH, rng=rng, timeout=timeout)
        words = converted(FixedToFloat, out["sums"], unit=unit, members=members)
        golden = total(operands, unit).view(np.uint32)
        ran, same = ran + BATCH, same + int((words == golden).all(axis=1).sum())
        evicted, expired = evicted + out["evicted"], expired + out["expired"]
    print(
        f"orders on RTL (converters, table, home store; {ORDER_MEMBERS} members, tables of "
        f"{ORDER_ENTRIES}): {ran}, the same bits in {same}; {evicted} evictions, "
        f"{expired} time-outs"
    )
    modelled = alike = 0
    while ran + modelled < ORDERS:
        members = int(rng.integers(2, 17))
        operands = _drawn(rng, members)
        unit = unit_of(largest_exponent(operands), members)
        integers = to_fixed(operands, unit, members)[0].astype(np.int32)
        sums, plain = _in_orders(rng, operands, integers)
        alike += int((to_float(sums, unit) == total(operands, unit)).all(axis=1).sum())
        modelled += len(sums)
        bits = bits or {each.tobytes() for each in plain}
    print(
        f"orders on the model (2 to 16 members, partials of any size): {modelled}, the same bits "
        f"in {alike};\nwithout the mode, FP32 has {len(bits)} results for {BATCH} orders of the "
        "first operands"
    )
    return ran + modelled, same + alike


def _in_orders(
    rng: np.random.Generator, operands: NDArray[np.float32], integers: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Sums of integers, and of FP32, for many orders; partials are summed, then added up."""
    members = len(operands)
    places = rng.permuted(np.tile(np.arange(members), (BATCH, 1)), axis=1)
    cuts = rng.random((BATCH, members)) < rng.random((BATCH, 1))  # a partial leaves before
    shape = (BATCH, operands.shape[1])
    sums, plain = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    partial, piece = np.zeros_like(sums), np.zeros_like(plain)
    for k in range(members):
        cut = cuts[:, k, None]
        sums, plain = np.where(cut, sums + partial, sums), np.where(cut, plain + piece, plain)
        partial = np.where(cut, 0, partial) + integers[places[:, k]]
        piece = np.where(cut, np.float32(0), piece) + operands[places[:, k]]
    return sums + partial, plain + piece


def _rounded(exact: Fraction) -> np.float32:
    """Round *exact* to the nearest FP32 number, ties to even."""
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf)]
    return min((near, *around),
               key=lambda each: (abs(Fraction(float(each)) - exact), each.view(np.uint32) & 1))


def _error(seed: int) -> bool:
    """True if errors against the exact sum, and against its rounding, are within their bounds."""
    rng = np.random.default_rng(seed)
    worst = {"exact sum": Fraction(0), "correctly rounded one": Fraction(0)}
    wrong = count = 0
    for members in (2, 3, 4, 8, 16, 128, 256):
        same, apart = rng.standard_normal((2, members, 200))
        apart *= 10.0 ** rng.integers(-6, 7, apart.shape)
        for operands in (same.astype(np.float32), apart.astype(np.float32)):
            unit = unit_of(largest_exponent(operands), members)
            lost = members * Fraction(2) ** (unit - 149) / 2
            for column, found in enumerate(total(operands, unit)):
                exact = sum((Fraction(float(each)) for each in operands[:, column]), Fraction(0))
                right = _rounded(exact)
                rounded = Fraction(float(right))
                last = Fraction(float(max(np.spacing(np.abs([found, right])))))
                for name, value, bound in (("exact sum", exact, lost + last / 2),
                                           ("correctly rounded one", rounded, lost + last)):
                    error = abs(Fraction(float(found)) - value) / bound
                    worst[name] = max(worst[name], error)
                wrong += found != right
                count += 1
    print(
        "error, in parts of its bound (p/2 units of the window, and half a last place or one): "
        + ", ".join(f"from the {name} {float(most):.2f}" for name, most in worst.items())
        + f" at most; {wrong} of {count} sums are not the correctly rounded ones"
    )
    return max(worst.values()) <= 1


def _area() -> float:
    """LUTs that the converters add to an endpoint, in percent."""
    cells: dict[bool, dict[str, int]] = {}
    for fixed in (False, True):
        config = replace(preset("1-link"), fixed_point=fixed)
        table = synthesize(SwitchDma(config), name="switch_dma", target="xcup")
        cells[fixed] = {name: int(str(table[name][0])) for name in ("lut", "ff")}
    lut, ff = (100 * (cells[True][k] / cells[False][k] - 1) for k in ("lut", "ff"))
    print(f"area of an endpoint of one link (xcup): LUT + {lut:.1f} %, FF + {ff:.1f} %")
    return float(lut)


def _bandwidth(seed: int) -> float:
    """Bandwidth lost by the mode, in percent, the worse of push and pull."""
    lost = []
    for mode in ("push", "pull"):
        cell = replace(_cell(2, 8, 32, mode), stalls=False, crowded=False, size_bytes=LONG_BYTES)
        cycles = {}
        for fixed in (False, True):
            made = prepare(cell, seed, FIXED if fixed else DMA)
            job = AllReduce(made.system, cell.op, cell.size_bytes // 4, seed=seed, fixed=fixed)
            cycles[fixed] = int(Course(made.system, job, made.given, **made.until).rtl.max())
        lost.append(100 * (1 - cycles[False] / cycles[True]))
        print(
            f"{mode} of {cell.size_bytes} bytes, 8 members: {cycles[False]} cycles, "
            f"deterministic {cycles[True]}"
        )
    return max(lost)


def _formats(seed: int) -> dict[str, float]:
    """Measure cost and savings of wire formats; times of all-reduces in percent of words."""
    area()
    periods(TIMED_MEMBERS, seed)
    cell = _cell(2, TIMED_MEMBERS, 32, "push")
    found = times(replace(cell, stalls=False, crowded=False, size_bytes=LONG_BYTES), seed)
    return {
        f"{format.name.lower()}_time_pct_{lanes}": 100 * found[format, lanes]
        for format, lanes in ((Format.FP16, 4), (Format.FP16, 8), (Format.BFP, 4), (Format.BFP, 16))
    }

# SPDX-License-Identifier: Apache-2.0
"""ASTRA-SIM, Figs. 9 to 12: one collective on different topologies."""

from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

from experiments.figure import (
    Assumption,
    Bars,
    Context,
    Curves,
    Figure,
    Lost,
    Row,
    Series,
    stacks,
    statement,
)
from experiments.systems import (
    CYCLE_S,
    DISPATCHER,
    Rates,
    astra_packages,
    astra_symmetric,
    astra_torus,
    measure,
    name_of,
)
from experiments.targets import Exactly, WithinFactor
from sim.collectives.plan import AlgorithmChoice
from sim.endpoint.kinds import IdealEndpoint
from sim.events.record import RunRecord
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = [
    "DISPATCHED",
    "ENDPOINT",
    "ENHANCED",
    "SYSTEM",
    "breakdown",
    "fig9",
    "fig10",
    "fig11",
    "fig12",
]

ENDPOINT = IdealEndpoint(delay_s=10 * CYCLE_S, message_bytes=None)
BASELINE = AlgorithmChoice(style="baseline", all_to_all="ring")
ENHANCED = AlgorithmChoice(style="enhanced", all_to_all="ring")
DIRECT = AlgorithmChoice(style="baseline", reductions=("direct",), all_to_all="direct")
MB = 1 << 20
SIZES = tuple(1 << n for n in range(16, 27))
PLOTTED = tuple(1 << n for n in range(16, 27, 2))
DIVISIBLE = 96 << 20
"""Chunks, by the number of rings, and their messages are whole: nothing is rounded up."""
COLUMN = "size (MB)"
Shape: TypeAlias = tuple[int, int, int]


SYSTEM = (
    Assumption(
        "links, packets, latencies and rings of Table IV, endpoint delay of 10 cycles, software "
        "routing",
        "stated",
    ),
    Assumption("one message per step and peer", "stated", "Table II: the algorithm's unit"),
)
DISPATCHED = (
    Assumption("16 chunks are issued while fewer than 8 are in their first phase", "stated", "V-F"),
    Assumption("8 chunks at a time in a queue", "data", "the first release of the simulator"),
    Assumption(
        "chunks of 64 KB",
        "chosen",
        "parameter 16, chunks per collective, has no value; 64 KB are those of the ACE papers, "
        "which use this simulator",
    ),
)
CONSTANT_LINKS = Assumption(
    "6 bidirectional rings per package whatever the number of dimensions: 6 in one, 3 in each of "
    "two, 2 in each of three",
    "stated",
    "section V: dimensions are added without increasing the number of links",
)
AXES = Assumption("64 KB to 64 MB in steps of 2x", "chosen", "the axes are lost")


@cache
def _symmetric(shape: Shape) -> Network:
    return astra_symmetric(shape)


def _measure(network: Network, size: int, style: AlgorithmChoice, **options: Any) -> Rates:
    return measure(network, ENDPOINT, size, style=style, scheduler=DISPATCHER, **options)


@cache
def _baseline(shape: Shape, size: int) -> Rates:
    return _measure(_symmetric(shape), size, BASELINE)


def fig9(context: Context) -> Figure:
    """Eight packages: seven switches against a ring with four links per neighbour."""
    ring, switch = astra_packages("ring", 8, 4), astra_packages("switch", 8, 7)

    def seconds(kind: CollectiveKind, size: int) -> tuple[float, float]:
        on_ring = _measure(ring, size, BASELINE, kind=kind)
        return on_ring.seconds, _measure(switch, size, DIRECT, kind=kind).seconds

    reduce = {size: seconds(CollectiveKind.ALL_REDUCE, size) for size in SIZES}
    to_all = {size: seconds(CollectiveKind.ALL_TO_ALL, size) for size in SIZES}
    first = next((s for s, (r, w) in reduce.items() if r < w), None)
    gaps = [r / w for r, w in to_all.values()]
    rows = [
        statement(
            "all-to-all: switch better at every size",
            below=[(w, r) for r, w in to_all.values()],
            check="6.3",
        ),
        statement(
            "all-to-all: gap shrinks with size (64 KB against 64 MB)",
            below=[(gaps[-1], gaps[0])],
            why=f"Torus over switch: {gaps[0]:.2f} at 64 KB, {gaps[-1]:.2f} at 64 MB.",
        ),
        statement(
            "all-reduce: torus better for large sizes",
            below=[reduce[SIZES[-1]]],
            check="6.3",
            why=f"From {first / MB:g} MB on; at 64 MB switch over torus is "
            f"{reduce[SIZES[-1]][1] / reduce[SIZES[-1]][0]:.3f} (8 links against 7: 1.143)."
            if first
            else "",
        ),
    ]
    series = {}
    for name, values in (("all-reduce", reduce), ("all-to-all", to_all)):
        for column, topology in enumerate(("torus", "switch")):
            series[f"{name}, {topology}"] = [(s / MB, s / values[s][column] / 1e9) for s in PLOTTED]
    return Figure(
        title="Fig. 9: 1x8 switch against 1x8x1 torus (simulated)",
        rows=rows,
        curves=[_over_size("Fig. 9", "size over time (GB/s)", series)],
        lost=[Lost(what="Fig. 9, values and axes", reason="plotted values are lost")],
        assumptions=(*SYSTEM, *DISPATCHED, AXES),
    )


def _over_size(figure: str, y: str, series: Mapping[str, Series]) -> Curves:
    return Curves(title=f"ASTRA-SIM {figure}", x=COLUMN, y=y, series=series, log_x=True)


def fig10(context: Context) -> Figure:
    """64 packages, all links alike, an all-reduce in every dimension."""
    one, two, three = (1, 64, 1), (1, 8, 8), (4, 4, 4)
    mixed = (2, 8, 4)
    shapes = (one, two, mixed, three)
    volumes = {one: 126 / 64, two: 28 / 8, three: 36 / 8}
    rows = [
        Row(
            setting=f"{name_of(shape)}: bytes sent per byte, counted",
            ours=round(_baseline(shape, DIVISIBLE).sent_bytes / DIVISIBLE, 6),
            target=Exactly(round(volume, 6)),
            identity=True,
            check="H1",
        )
        for shape, volume in volumes.items()
    ]

    crossing = _crossing(three, two)
    rows += [
        _always("1x8x8 faster than 1x64x1", two, one),
        _always("1x8x8 faster than 2x8x4", two, mixed),
        _always("4x4x4 faster than 2x8x4", three, mixed),
        Row(
            setting="4x4x4 faster than 1x8x8 up to",
            ours=crossing / MB,
            unit="MB",
            target=WithinFactor(4, 2),
            check="Q15",
            why="Chunks, and how many of them are under way, decide where latency ends to matter; "
            "this figure's are lost, and ours are those of all figures.",
        ),
    ]
    series = {
        name_of(shape): [(s / MB, _baseline(shape, s).seconds * 1e6 / (s / MB)) for s in PLOTTED]
        for shape in shapes
    }
    return Figure(
        title="Fig. 10: 64 packages, baseline algorithm (simulated)",
        rows=rows,
        curves=[_over_size("Fig. 10", "time per MB (us)", series)],
        lost=[Lost(what="Fig. 10, values", reason="plotted values are lost")],
        assumptions=(*SYSTEM, CONSTANT_LINKS, *DISPATCHED, AXES),
    )


def _always(setting: str, a: Shape, b: Shape) -> Row:
    pairs = {s: (_baseline(a, s).seconds, _baseline(b, s).seconds) for s in SIZES}
    faster = [s for s, (ours, theirs) in pairs.items() if ours < theirs]
    why = ""
    if len(faster) < len(SIZES):
        held = ", ".join(f"{s / MB:g}" for s in faster) or "none"
        largest = [_baseline(shape, SIZES[-1]) for shape in (a, b)]
        sent = [each.sent_bytes / SIZES[-1] for each in largest]
        why = (
            f"Holds at these sizes only (MB): {held}. Links in all being alike, size decides for "
            f"large collectives, and {name_of(a)} sends {sent[0]:.2f} bytes per byte, "
            f"{name_of(b)} {sent[1]:.2f}."
        )
    return statement(f"{setting}, every size", below=list(pairs.values()), why=why)


def _crossing(small: Shape, large: Shape) -> float:
    """The size up to which *small* is faster, to 5 %; 0 or infinity where there is none."""

    def faster(size: float) -> bool:
        times = [_baseline(shape, int(size)).seconds for shape in (small, large)]
        return times[0] < times[1]

    if not faster(SIZES[0]):
        return 0.0
    slower = [size for size in SIZES if not faster(size)]
    if not slower:
        return float("inf")
    below, above = slower[0] / 2, float(slower[0])
    while above / below > 1.05:
        middle = (below * above) ** 0.5
        below, above = (middle, above) if faster(middle) else (below, middle)
    return below


def fig11(context: Context) -> Figure:
    """4x4x4: symmetric, local links 8 times as fast, and the enhanced algorithm."""
    shape = (4, 4, 4)
    runs: dict[str, Callable[[int], Rates]] = {
        "symmetric": lambda s: _baseline(shape, s),
        "asymmetric": lambda s: _measure(astra_torus(shape), s, BASELINE),
        "enhanced": lambda s: _measure(astra_torus(shape), s, ENHANCED),
    }
    times = {name: {s: made(s).seconds for s in SIZES} for name, made in runs.items()}
    between = {}
    for name in ("asymmetric", "enhanced"):
        record = runs[name](64 * MB).record
        between[name] = sum(
            float(record.link_bytes[i]) for i, link in enumerate(record.links) if link.dimension > 0
        )
    names = list(runs)
    rows = [
        statement(
            f"{quick} faster than {slow}, every size",
            below=[(times[quick][s], times[slow][s]) for s in SIZES],
            why=_failing(times[slow], times[quick]),
        )
        for slow, quick in pairwise(names)
    ]
    rows.append(
        Row(
            setting="bytes between packages, baseline over enhanced, counted",
            ours=round(between["asymmetric"] / between["enhanced"], 6),
            target=Exactly(4),
            identity=True,
            check="H2",
        )
    )
    return Figure(
        title="Fig. 11: 4x4x4, steps of improvement (simulated)",
        rows=rows,
        curves=[
            _over_size(
                "Fig. 11: 4x4x4",
                "time per MB (us)",
                {n: [(s / MB, times[n][s] * 1e6 / (s / MB)) for s in PLOTTED] for n in names},
            )
        ],
        lost=[Lost(what="Fig. 11, values", reason="plotted values are lost")],
        assumptions=(*SYSTEM, CONSTANT_LINKS, *DISPATCHED, AXES),
    )


def _failing(slow: dict[int, float], quick: dict[int, float]) -> str:
    bad = [f"{s / MB:g}" for s in SIZES if quick[s] >= slow[s]]
    return f"Not so at (MB): {', '.join(bad)}." if bad else ""


def fig12(context: Context) -> Figure:
    """8 to 64 modules, two to a package, enhanced algorithm; where chunks wait."""
    shapes = [(2, 2, 2), (2, 4, 2), (2, 4, 4), (2, 4, 8)]
    size = 4 * MB
    runs = {shape: _measure(astra_torus(shape), size, ENHANCED) for shape in shapes}
    seconds = {shape: run.seconds for shape, run in runs.items()}
    growth = [seconds[b] / seconds[a] for a, b in pairwise(shapes)]
    record = runs[2, 4, 4].record
    waits = {
        name: float(record.phases.queue_delay_fs[0, number])
        for number, name in enumerate(record.phases.names[0])
        if number > 0
    }
    longest, vertical = max(waits, key=lambda name: waits[name]), list(waits)[1]
    rows = [
        statement(
            "2x4x4 to 2x4x8 is a larger step than 2x4x2 to 2x4x4",
            below=[(growth[1], growth[2])],
            why="Times grow by "
            + ", ".join(f"{g:.2f} to {name_of(shape)}" for g, shape in zip(growth, shapes[1:]))
            + ". Pipelined phases are bound by the slowest dimension, 2 (k-1)/k of half of the "
            "data: vertical of 2, 4 and 8 give 1.00, 1.50 and 1.75, horizontal of 4 gives 1.50.",
        ),
        statement(
            "2x4x4: chunks wait longest before P2, the vertical phase",
            below=[(wait, waits[vertical]) for name, wait in waits.items() if name != vertical],
            why=f"Longest before {longest}: "
            f"{100 * waits[longest] / sum(waits.values()):.0f} % of all waiting after the ready "
            "queue.",
        ),
    ]
    return Figure(
        title="Fig. 12: scaling of a 4 MB all-reduce (simulated)",
        rows=rows,
        curves=[
            stacks(
                "ASTRA-SIM Fig. 12a: 4 MB all-reduce",
                "time (us)",
                {name_of(shape): {"time": t * 1e6} for shape, t in seconds.items()},
                x="shape",
            ),
            breakdown(
                "ASTRA-SIM Fig. 12b: 4 MB all-reduce, mean of chunks (queues) and messages "
                "(network)",
                {name_of(shape): run.record for shape, run in runs.items()},
            ),
        ],
        lost=[Lost(what="Fig. 12, bars", reason="plotted values are lost")],
        assumptions=(
            *SYSTEM,
            *DISPATCHED,
            Assumption("an all-reduce of 4 MB", "chosen", "the size is lost"),
        ),
    )


def breakdown(title: str, records: Mapping[str, RunRecord]) -> Bars:
    """Waiting of a chunk in the queue of each phase, and time of a message in the network.

    P0 is the ready queue.
    """
    bars: dict[str, dict[str, float]] = {}
    for name, record in records.items():
        phases = record.phases
        chunks = float(phases.chunks.sum()) * record.task_end_fs.shape[0]
        bars[name] = parts = {
            f"queue P{n}": float(phases.queue_delay_fs[:, n].sum()) / chunks / 1e9
            for n in range(phases.queue_delay_fs.shape[1])
        }
        for n in range(1, phases.messages.shape[1]):
            messages = float(phases.messages[:, n].sum())
            spent = float(phases.network_delay_fs[:, n].sum())
            parts[f"network P{n}"] = spent / messages / 1e9 if messages else 0.0
    return stacks(title, "mean delay (us)", bars)

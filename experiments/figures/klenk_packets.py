"""Klenk et al., Figs. 9 and 10: sizes of tables and latency of packets, cycle by cycle.

What events do not have: packets that wait for one another in buffers, and tables that run over. The
system is that of ``python -m bench switch_tables``, which prints more of it.
"""

from functools import cache

from bench.switch_background import LOADS
from bench.switch_tables import (
    BUFFERS,
    DROP_PCT,
    ENTRIES,
    SIZE_BYTES,
    TABLES,
    WAVES,
    Outcome,
    knee_bytes,
    run,
)
from experiments.figure import Assumption, Context, Curves, Figure, Row
from experiments.targets import Between, WithinFactor
from gen.table import Column, Table
from sim.cycles.switch.background import Background
from sim.units import GB

__all__ = ["fig9", "fig10_packets"]

KNEES = {"push": 270, "pull": 1400}
"""Bytes of a port's table."""
SEED = 1
MODEL = (
    Assumption("links of 25 GB/s each way, six a GPU; 16 GPUs, 12 switches", "stated"),
    Assumption("packets of 144 B with 128 B of payload, acknowledgements of 16 B", "stated"),
    Assumption(
        "two switches and three links delay a packet by 300 ns; memories answer after 180 to 359 "
        "cycles, by GPU",
        "stated",
    ),
    Assumption("switches and DMA engines are ours, with eight regions", "chosen"),
    Assumption("8 MB", "stated", "Fig. 10, text"),
)
BUFFERED = Assumption(
    f"buffers of links hold {BUFFERS[-1]} packets of each class, so that they never hold an "
    "injection back",
    "chosen",
    "published switches queue at their outputs; how much they hold is not stated",
)


@cache
def _outcome(mode: str, waves: int | None, load: float = 0.0) -> Outcome:
    """With the published best table and the largest buffers."""
    return run(
        mode, SIZE_BYTES, entries=TABLES[mode], seed=SEED, waves=waves, buffers=BUFFERS[-1],
        background=Background(load=load, seed=SEED) if load else None,
    )


@cache
def _best(mode: str) -> int:
    """The number of waves with the highest bandwidth."""
    return max(WAVES, key=lambda waves: _outcome(mode, waves).gbs)


def fig9(context: Context) -> Figure:
    """The smallest table without waves that is as good as one of 32 entries, but for 5 %."""
    rates: dict[str, dict[int, float]] = {mode: {} for mode in KNEES}
    for number, entries in enumerate(ENTRIES):
        for mode, found in rates.items():
            found[entries] = run(mode, SIZE_BYTES, entries=entries, seed=SEED).gbs
        context.progress((number + 1) / len(ENTRIES))
    rows = [
        Row(
            setting=f"{mode}: table that is enough, a port", ours=knee_bytes(rates[mode]), unit="B",
            target=WithinFactor(published, 1.5), origin="note", check="Q10",
        )
        for mode, published in KNEES.items()
    ]
    series = {
        mode: [(entries * 128, rate) for entries, rate in found.items()]
        for mode, found in rates.items()
    }
    return Figure(
        title="Fig. 9: sizes of tables without waves (cycle model)",
        rows=rows,
        curves=[
            Curves(
                title="Klenk Fig. 9: 8 MB without waves", x="table of a port (B)",
                y="all-reduce bandwidth (GB/s)", log_x=True, series=series,
            )
        ],
        assumptions=(
            *MODEL,
            Assumption("enough is 95 % of the bandwidth with 32 entries", "chosen"),
        ),
    )


def fig10_packets(context: Context) -> Figure:
    """How much sooner packets come with waves: those of an all-reduce, and others beside it."""
    rows = []
    loads = [load for load in LOADS if load]
    table = Table(
        "Ordinary packets beside an all-reduce of 8 MB (cycle model)",
        [
            Column("mode"), Column("load_percent", "load of links", "%", 0), Column("waves"),
            Column("rate_bytes_per_s", "all-reduce", "GB/s", 2),
            Column("travel_cycles", "latency", "cycles", 0),
            Column("held_cycles", "of it in buffers", "cycles", 0),
            Column("queued_cycles", "before it", "cycles", 0),
        ],
    )
    series: dict[str, list[tuple[float, float]]] = {}
    for number, mode in enumerate(TABLES):
        best = _best(mode)
        travel = _outcome(mode, best).travel / _outcome(mode, None).travel
        rows.append(
            Row(
                setting=f"{mode}: mean latency of packets, less with {best} waves",
                ours=100 * (1 - travel), unit="%", target=Between(90, DROP_PCT, 100),
                origin="note", check="Q11",
            )
        )
        for load in loads:
            for name, waves in (("no waves", None), (f"{best} waves", best)):
                found = _outcome(mode, waves, load)
                of = found.ordinary
                assert of is not None
                table.add(
                    mode, 100 * load, str(waves or "none"), found.gbs * GB, of.travel, of.held,
                    of.queued,
                )
                series.setdefault(f"{mode}, {name}", []).append((100 * load, of.travel))
            context.progress((number + (loads.index(load) + 1) / len(loads)) / len(TABLES))
        with_, without = (
            _outcome(mode, waves, loads[-1]).ordinary for waves in (best, None)
        )
        assert with_ is not None and without is not None
        rows.append(
            Row(
                setting=f"{mode}: the same of ordinary packets beside it, {100 * loads[-1]:.0f} % "
                "of links' time",
                ours=100 * (1 - with_.travel / without.travel), unit="%",
            )
        )
    return Figure(
        title="Fig. 10, text: latency of packets with waves (cycle model)",
        rows=rows,
        tables=[table],
        curves=[
            Curves(
                title="Ordinary packets beside an all-reduce of 8 MB", x="load of links (%)",
                y="mean latency (cycles)", series=series,
            )
        ],
        assumptions=(
            *MODEL,
            BUFFERED,
            Assumption("waves of 6 KB, as many as give the highest bandwidth", "chosen"),
            Assumption(
                "ordinary packets are for any other GPU, at random times; they travel in the class "
                "of partials and answers", "chosen",
            ),
        ),
        note="Latency is from a packet's first flit on a link to its goal; what is published is "
        "that of an all-reduce's own packets.",
    )

# SPDX-License-Identifier: Apache-2.0
"""ACE at ISCA 2021, Figs. 9 and 10: the size of the engine, how busy it is, and use over time."""

from collections.abc import Iterator
from statistics import mean

from experiments.figure import Assumption, Bars, Context, Curves, Figure, Lost, statement
from experiments.figures.isca21_analysis import CONFIGURATIONS, SIZES_ASSUMED, SYSTEM
from experiments.figures.isca21_training import (
    DLRM,
    KINDS,
    SHAPES,
    TRAINING,
    WORKLOADS,
    run,
    trained,
)
from experiments.systems import ISCA21_CYCLE_S, ISCA21_DISPATCHER, RELEASED, isca21_torus, measure
from gen.table import Column, Table
from sim.endpoint.ace import AceEndpoint
from sim.endpoint.kinds import endpoint
from sim.results.network import utilisation
from sim.units import GB

__all__ = ["fig9a", "fig9b", "fig10"]

MB = 1 << 20
SRAM = (1, 2, 4, 8)
FSMS = (4, 8, 16, 32)
CHOSEN = (4, 16)
KNEE = 0.05
WINDOW_S = 1000 * ISCA21_CYCLE_S


def _speeds(sram: int, fsms: int) -> Iterator[float]:
    """Yield the speed of one 16 MB all-reduce and of ResNet-50 and DLRM, on every torus."""
    engine = AceEndpoint(sram_bytes=sram * MB, fsms=fsms)
    for shape in SHAPES.values():
        network = isca21_torus(shape)
        yield 1 / measure(network, engine, 16 * MB, scheduler=ISCA21_DISPATCHER).seconds
        for name in (RELEASED, DLRM):
            yield 1e15 / trained(name, network, engine).run_fs


def fig9a(context: Context) -> Figure:
    """Speed over SRAM size and number of FSMs, normalised to 4 MB and 16 FSMs."""
    reference = list(_speeds(*CHOSEN))
    score = {}
    for done, (sram, fsms) in enumerate((s, f) for s in SRAM for f in FSMS):
        alone: list[float] = []
        training: list[float] = []
        for number, (ours, base) in enumerate(zip(_speeds(sram, fsms), reference)):
            (alone if number % 3 == 0 else training).append(ours / base)
        score[sram, fsms] = mean(training), mean(alone)
        context.progress((done + 1) / len(SRAM) / len(FSMS))
    table = Table(
        "speed relative to 4 MB and 16 FSMs: training, and one 16 MB all-reduce",
        (Column("sram_bytes", "SRAM", "MiB", 0), *(Column(f"fsms_{f}", f"{f} FSMs") for f in FSMS)),
    )
    for sram in SRAM:
        table.add(sram << 20, *("{:.3f} / {:.3f}".format(*score[sram, f]) for f in FSMS))
    rows = [
        statement(
            f"training: {setting} less than 5 %, and less than the step before",
            below=[
                (score[more][0] - 1, KNEE),
                (score[more][0] / score[CHOSEN][0], score[CHOSEN][0] / score[less][0]),
            ],
            check="Q5",
            why=f"{twice}: {100 * (score[more][0] - 1):+.1f} %, one all-reduce alone "
            f"{100 * (score[more][1] - 1):+.1f} %; {half}: {100 * (score[less][0] - 1):+.1f} % and "
            f"{100 * (score[less][1] - 1):+.1f} %.",
        )
        for setting, more, twice, less, half in (
            ("8 MB instead of 4 gains", (8, 16), "8 MB", (2, 16), "2 MB"),
            ("32 FSMs instead of 16 gain", (4, 32), "32 FSMs", (4, 8), "8 FSMs"),
        )
    ]
    return Figure(
        title="Fig. 9a: SRAM size and number of FSMs (simulated)",
        rows=rows,
        tables=[table],
        curves=[
            Curves(
                title=f"ISCA'21 Fig. 9a: {what}, mean of 16 to 128 NPUs",
                x="FSMs",
                y="speed relative to 4 MB, 16 FSMs",
                series={f"{s} MB": [(f, score[s, f][which]) for f in FSMS] for s in SRAM},
                log_x=True,
            )
            for which, what in enumerate(("training", "one 16 MB all-reduce"))
        ],
        lost=[Lost(what="Fig. 9a, values of the sweep", reason="plotted values are lost")],
        assumptions=(
            *SYSTEM,
            *TRAINING,
            SIZES_ASSUMED,
            Assumption("no gain is less than 5 %", "chosen", "the text says diminishing returns"),
        ),
    )


def fig9b(context: Context) -> Figure:
    """Share of forward and backward passes in which the engine has a collective to work on."""
    table = Table(
        "share of compute time with a collective under way, ACE, 128 NPUs (%)",
        (Column("workload"), Column("forward", digits=1), Column("backward", digits=1)),
    )
    seen = {workload: run(workload, 128, "ACE") for workload in WORKLOADS}
    shares = {
        workload: {"forward": 100 * each.active_forward, "backward": 100 * each.active_backward}
        for workload, each in seen.items()
    }
    for workload, of in shares.items():
        table.add(workload, of["forward"], of["backward"])
    bars = Bars(
        title="ISCA'21 Fig. 9b: engine with a collective under way, 128 NPUs",
        x="",
        y="share of compute time (%)",
        groups={
            workload: {part: {"with a collective": share} for part, share in of.items()}
            for workload, of in shares.items()
        },
    )
    rows = [
        statement(
            f"{workload}: forward pass, below 1 %",
            below=[(seen[workload].active_forward, 0.01)],
            why=f"{100 * seen[workload].active_forward:.2f} % of the forward compute time: layers "
            "whose own collectives are done go forward while those of later layers run.",
        )
        for workload in (RELEASED, "GNMT")
    ]
    rows += [
        statement("DLRM: forward pass, some", below=[(0, seen[DLRM].active_forward)]),
        statement(
            "backward passes: more than forward, below 100 %",
            below=[
                pair
                for each in seen.values()
                for pair in (
                    (each.active_forward, each.active_backward), (each.active_backward, 1)
                )
            ],
        ),
    ]
    return Figure(
        title="Fig. 9b: utilisation of the engine (simulated)",
        rows=rows,
        tables=[table],
        curves=[bars],
        lost=[Lost(what="Fig. 9b, values", reason="known from memory only, with low confidence")],
        assumptions=(*SYSTEM, CONFIGURATIONS, *TRAINING, SIZES_ASSUMED),
    )


def fig10(context: Context) -> Figure:
    """Use of compute units and links over time, two iterations on the largest torus."""
    nodes = 128
    network = isca21_torus(SHAPES[nodes])
    curves, ends, busy = [], {}, {}
    for name in ("CommOpt", "CompOpt", "ACE"):
        end = run(DLRM, nodes, name).total_ms * 1e-3
        buckets = int(end / WINDOW_S) + 2
        done = trained(
            DLRM, network, endpoint(KINDS[name]), bucket_s=WINDOW_S, buckets=buckets
        )
        series = utilisation(done.record, done.job)
        middle = 1e6 * (series.edges_s[1:] + series.edges_s[:-1]) / 2
        curves.append(
            Curves(
                title=f"ISCA'21 Fig. 10: {name}, DLRM on 4x8x4",
                x="time (us)",
                y="utilisation (%)",
                series={
                    "compute": list(zip(middle.tolist(), (100 * series.compute).tolist())),
                    "links": list(zip(middle.tolist(), (100 * series.network).tolist())),
                },
            )
        )
        ends[name] = end * 1e3
        busy[name] = run(DLRM, nodes, name).network_bytes_per_s / GB
    rows = [
        statement(
            "ACE keeps links busier while communicating than CompOpt",
            below=[(busy["CompOpt"], busy["ACE"])],
            why=", ".join(f"{name} {value:.0f} GB/s" for name, value in busy.items()) + ".",
        ),
        statement(
            "ACE ends before both",
            below=[(ends["ACE"], ends[name]) for name in ("CommOpt", "CompOpt")],
            why=", ".join(f"{name} {value:.2f} ms" for name, value in ends.items()) + ".",
        ),
    ]
    return Figure(
        title="Fig. 10: utilisation over time (simulated)",
        rows=rows,
        curves=curves,
        lost=[Lost(what="Fig. 10, curves", reason="plotted values are lost")],
        assumptions=(*SYSTEM, CONFIGURATIONS, *TRAINING, SIZES_ASSUMED),
    )

"""ACE at ISCA 2021, Figs. 11 and 12 and the abstract: training on 16 to 128 NPUs."""

from functools import cache
from statistics import mean

from experiments.figure import Context, Curves, Figure, Lost, Row
from experiments.systems import (
    ISCA21_CYCLE_S,
    isca21_torus,
    measure,
    name_of,
    train,
    train_text,
)
from experiments.targets import Between, Holds, Near
from experiments.training import Outcome, outcome
from sim.endpoint.kinds import endpoint
from sim.results.table import Column, Table
from sim.workload.astra_text import shipped
from sim.workload.generate import dlrm, gnmt, resnet50
from sim.workload.model import ModelTable

__all__ = ["KINDS", "SHAPES", "WORKLOADS", "fig11", "fig12", "run", "tables"]

SHAPES = {16: (4, 2, 2), 32: (4, 4, 2), 64: (4, 4, 4), 128: (4, 8, 4)}
KINDS = {
    "NoOverlap": "baseline_no_overlap",
    "CommOpt": "baseline_comm_opt",
    "CompOpt": "baseline_comp_opt",
    "ACE": "ace",
    "Ideal": "ideal",
}
BASELINES = ("NoOverlap", "CommOpt", "CompOpt")
TEXT = "ResNet-50 (released file)"
WORKLOADS = ("ResNet-50", "GNMT", "DLRM", TEXT)
SPEED_UP = {
    "ResNet-50": Between(1.41, 1.2, 1.6),
    "GNMT": Between(1.12, 1.05, 1.25),
    "DLRM": Between(1.13, 1.05, 1.25),
    TEXT: Between(1.41, 1.2, 1.6),
}


@cache
def tables() -> dict[str, ModelTable]:
    """FP16; batches of ISCA'21. The DLRM is that of the authors' later workloads, batch 512.

    The papers time matrix products alone, so a convolution hides its normalisation here.
    """
    return {
        "ResNet-50": resnet50.generate(batch=32, fused=True),
        "GNMT": gnmt.generate(batch=128),
        "DLRM": dlrm.generate(**dlrm.PRESETS["libra"]),
    }


@cache
def run(workload: str, nodes: int, kind: str, side: bool = False) -> Outcome:
    """Two iterations. The released file has 4-byte gradients, of which half are sent (FP16)."""
    network, end = isca21_torus(SHAPES[nodes]), endpoint(KINDS[kind])
    if workload != TEXT:
        return outcome(train(tables()[workload], network, end, side=side))
    done = train_text(shipped("resnet50"), network, end, cycle_s=ISCA21_CYCLE_S, comm_scale=0.5)
    return outcome(done)


def fig11(context: Context) -> Figure:
    """Compute and exposed communication, and the speed-up over the best baseline."""
    table = Table(
        "two iterations: compute + exposed communication (ms)",
        (Column("workload"), Column("NPUs"), *(Column(kind) for kind in KINDS)),
    )
    speed: dict[str, list[float]] = {}
    bars: dict[str, list[tuple[str, float]]] = {kind: [] for kind in KINDS}
    cells = {}
    for position, workload in enumerate(WORKLOADS):
        for nodes in SHAPES:
            cell = cells[workload, nodes] = {kind: run(workload, nodes, kind) for kind in KINDS}
            table.add(
                workload,
                nodes,
                *(f"{c.compute_ms:.3f} + {c.exposed_ms:.3f}" for c in cell.values()),
            )
            best = min(cell[kind].total_ms for kind in BASELINES)
            speed.setdefault(workload, []).append(best / cell["ACE"].total_ms)
            for kind, each in cell.items():
                if workload == TEXT:
                    bars[kind].append((f"{nodes}", each.exposed_ms))
        context.progress((position + 1) / len(WORKLOADS))
    rows = [
        Row(
            setting=f"{workload}: ACE over best baseline, mean of 16 to 128 NPUs",
            ours=mean(speed[workload]),
            target=SPEED_UP[workload],
            check="Q4",
            why=_why(workload, cells),
        )
        for workload in WORKLOADS
    ]
    rows += _orderings(cells)
    gains = [
        cell["ACE"].network_bytes_per_s
        / max(cell[kind].network_bytes_per_s for kind in ("CommOpt", "CompOpt"))
        for cell in cells.values()
    ]
    mixed = [
        cell["ACE"].network_bytes_per_s
        / mean(cell[kind].network_bytes_per_s for kind in ("CommOpt", "CompOpt"))
        for cell in cells.values()
    ]
    rows += [
        Row(
            setting="network bandwidth while communicating: ACE over the mean of both baselines",
            ours=mean(mixed),
            target=Near(1.44, relative=0.2),
            why=f"Largest cell {max(mixed):.2f} (published 2.67 or 2.52, by version). Over the "
            f"better of both baselines the mean is {mean(gains):.2f}.",
        )
    ]
    return Figure(
        title="Figs. 11a and 11b: training (simulated)",
        rows=rows,
        tables=[table],
        curves=[
            Curves(
                title=f"ISCA'21 Fig. 11a, {TEXT}",
                x="NPUs",
                y="exposed communication (ms)",
                series=bars,
            )
        ],
        lost=[
            Lost(what="Fig. 11a, bars per size", reason="plotted values are lost"),
            Lost(what="Fig. 11b, speed-ups per size", reason="means and maxima alone are known"),
            Lost(what="section VI-B, fraction of Ideal", reason="values are lost"),
            Lost(what="section VI-B, iteration and epoch time", reason="values are lost"),
        ],
    )


def _why(workload: str, cells: dict[tuple[str, int], dict[str, Outcome]]) -> str:
    at_64 = cells[workload, 64]
    best = min(BASELINES, key=lambda kind: at_64[kind].total_ms)
    most = at_64[best].total_ms / at_64["Ideal"].total_ms
    serial = at_64["NoOverlap"].exposed_ms / at_64["Ideal"].compute_ms
    return (
        f"On 64 NPUs the best baseline is {best}, Ideal is {most:.3f} times as fast as it, and all "
        f"communication in a row takes {100 * serial:.0f} % of the compute time; no endpoint can "
        f"gain more than this Ideal."
    )


def _orderings(cells: dict[tuple[str, int], dict[str, Outcome]]) -> list[Row]:
    def holds(setting: str, test: object, of: str = "") -> Row:
        failing = [
            f"{workload} on {nodes}" for (workload, nodes), cell in cells.items() if not test(cell)
        ]
        why = f"Not so in {len(failing)} of {len(cells)} cells: {', '.join(failing)}. {of}"
        return Row(
            setting=setting,
            ours=not failing,
            target=Holds(),
            check="6.3",
            why=why if failing else "",
        )

    def best(cell: dict[str, Outcome]) -> float:
        return min(cell[kind].total_ms for kind in BASELINES)

    def gain(workload: str, nodes: int) -> float:
        cell = cells[workload, nodes]
        return best(cell) / cell["ACE"].total_ms

    grows = [w for w in WORKLOADS if gain(w, 128) < gain(w, 16)]
    return [
        holds(
            "ACE below the best baseline in every cell",
            lambda cell: cell["ACE"].total_ms < best(cell),
            "ACE's compute time is that of an NPU without 128 GB/s of memory bandwidth, that of "
            "NoOverlap is not.",
        ),
        holds("Ideal at most ACE", lambda cell: cell["Ideal"].total_ms <= cell["ACE"].total_ms),
        holds(
            "CompOpt computes less than CommOpt",
            lambda cell: cell["CompOpt"].compute_ms < cell["CommOpt"].compute_ms,
        ),
        holds(
            "CompOpt exposes more than CommOpt",
            lambda cell: cell["CompOpt"].exposed_ms > cell["CommOpt"].exposed_ms,
        ),
        Row(
            setting="ACE's gain grows with the number of NPUs (128 against 16)",
            ours=not grows,
            target=Holds(),
            check="6.3",
            why="".join(
                f"{w}: "
                + ", ".join(f"{gain(w, nodes):.3f} on {nodes}" for nodes in (16, 64, 128))
                + ". "
                for w in grows
            )
            + _deep_dimension(),
        ),
    ]


def _deep_dimension() -> str:
    """What the engine reaches on the largest torus, and with links of 200 cycles."""
    shares = []
    for cycles in (500, 200):
        network = isca21_torus(SHAPES[128], inter_cycles=cycles)
        engine, ideal = (measure(network, endpoint(KINDS[k]), 64 << 20) for k in ("ACE", "Ideal"))
        shares.append(100 * ideal.seconds / engine.seconds)
    return (
        f"One 64 MB all-reduce on 4x8x4: ACE reaches {shares[0]:.0f} % of Ideal with links of 500 "
        f"cycles and {shares[1]:.0f} % with 200; its FSMs, shared evenly by the phases, hold too "
        "few chunks for a ring of 8 with long links."
    )


def fig12(context: Context) -> Figure:
    """DLRM with lookup and update off the critical path; the side thread has 1 core and 80 GB/s."""
    nodes = 128
    gain = {
        kind: run("DLRM", nodes, kind).total_ms / run("DLRM", nodes, kind, True).total_ms
        for kind in ("CompOpt", "ACE")
    }
    rows = [
        Row(setting=f"{kind}: default over optimised loop, {name_of(SHAPES[nodes])}", ours=value)
        for kind, value in gain.items()
    ]
    rows.append(
        Row(
            setting="the optimised loop helps ACE more than CompOpt",
            ours=gain["ACE"] > gain["CompOpt"],
            target=Holds(),
            check="6.3",
        )
    )
    return Figure(
        title="Fig. 12: DLRM's optimised loop (simulated)",
        rows=rows,
        lost=[
            Lost(
                what="Fig. 12, speed-ups (1.05x and 1.2x)",
                reason="known from memory only, too uncertain to be compared with",
            )
        ],
    )

"""The smart NIC's systems: what the paper states, what is assumed, what is fitted to 6 nodes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from gen.table import Column, Table
from hw.bfp.format import preset
from sim.analytic.smartnic import Mlp, SmartNicModel, TrainingTime, Worker, nic_training
from sim.analytic.smartnic_baseline import BaselineSystem

__all__ = [
    "BATCHES",
    "LANES",
    "PUBLISHED_FIT",
    "RATIO",
    "Fit",
    "Systems",
    "fit",
    "inputs_table",
    "solve_monotone",
    "systems",
]

BATCHES = 448, 1792
LANES = 8
RATIO = preset("bfp16").ratio
UPDATE_BYTES_PER_S = 6 * 2933e6 * 8
"""Assumed: the memory of a Xeon 8280, six channels of DDR4-2933."""
STEP_S = 3 * 17.8e-6
"""Assumed: a large MPI message over kernel TCP asks, is answered, and travels; a public ping-pong
measurement with 10-Gbit cards has 17.8 us for each way."""
LINE_RATE_HZ = 40e9 / 32 / LANES
"""The clock below which the adders cannot follow 40 Gbit/s without compression."""

PUBLISHED_FIT = {
    "exposed, NIC": 0.37,
    "total, NIC": 0.18,
    "exposed, NIC with BFP": 0.95,
    "total, NIC with BFP": 0.40,
}
"""Fig. 4a, 6 nodes, batch 448: what the NIC saves. Nothing else is fitted to."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The three parameters that the paper leaves open and that cannot be looked up."""

    flops_per_s: float
    core_bytes_per_s: float
    clock_hz: float
    passes: str


@dataclass(frozen=True, kw_only=True)
class Systems:
    """One iteration on the baseline, overlapped and not, and with the NIC."""

    nodes: int
    batch: int
    fit: Fit
    scheme: str = "ring"
    step_s: float = STEP_S

    @property
    def mlp(self) -> Mlp:
        return Mlp(batch=self.batch)

    @property
    def worker(self) -> Worker:
        return Worker(flops_per_s=self.fit.flops_per_s, update_bytes_per_s=UPDATE_BYTES_PER_S)

    @property
    def mpi(self) -> BaselineSystem:
        return BaselineSystem(
            nodes=self.nodes,
            core_bytes_per_s=self.fit.core_bytes_per_s,
            step_s=self.step_s,
            scheme=self.scheme,
        )

    @property
    def baseline(self) -> TrainingTime:
        return self.mpi.overlapped(self.mlp, self.worker)

    @property
    def naive(self) -> TrainingTime:
        return self.mpi.naive(self.mlp, self.worker)

    def nic_model(self, *, bfp: bool, passes: str | None = None) -> SmartNicModel:
        return SmartNicModel(
            nodes=self.nodes,
            ratio=RATIO if bfp else 1.0,
            additions_per_s=LANES * self.fit.clock_hz,
            passes=passes or self.fit.passes,
        )

    def nic(self, *, bfp: bool) -> TrainingTime:
        return nic_training(self.mlp, self.worker, self.nic_model(bfp=bfp))

    def speedup(self, *, bfp: bool) -> float:
        """Of the NIC over the overlapped baseline."""
        return self.baseline.total_s / self.nic(bfp=bfp).total_s

    def savings(self) -> dict[str, float]:
        """What the NIC saves of the baseline's times, by the names of `PUBLISHED_FIT`."""
        base, found = self.baseline, {}
        for name, bfp in (("NIC", False), ("NIC with BFP", True)):
            nic = self.nic(bfp=bfp)
            found[f"exposed, {name}"] = 1 - nic.exposed_s / base.exposed_s
            found[f"total, {name}"] = 1 - nic.total_s / base.total_s
        return found


@cache
def fit(passes: str = "both", step_s: float = STEP_S) -> Fit:
    """Least squares of the four savings of Fig. 4a at 6 nodes and batch 448.

    *passes* is the reading of the adders' time, see `SmartNicModel`.
    """
    from scipy.optimize import least_squares

    def made(values: list[float]) -> Fit:
        flops, core, clock = values
        return Fit(
            flops_per_s=flops * 1e12, core_bytes_per_s=core * 1e9, clock_hz=clock * 1e8,
            passes=passes,
        )

    def distance(values: list[float]) -> list[float]:
        found = Systems(nodes=6, batch=448, fit=made(values), step_s=step_s).savings()
        return [found[name] - wanted for name, wanted in PUBLISHED_FIT.items()]

    solution = least_squares(distance, [2.5, 2.0, 2.0], bounds=([0.5, 0.3, 0.5], [6, 6, 6]))
    return made([float(value) for value in solution.x])


def systems(nodes: int, batch: int, **changes: object) -> Systems:
    """The systems with the fitted parameters."""
    return Systems(nodes=nodes, batch=batch, fit=fit(), **changes)  # type: ignore[arg-type]


def inputs_table() -> Table:
    """Everything that goes into the model, and where it comes from."""
    found = fit()
    table = Table(
        "inputs of the model",
        (Column("parameter"), Column("value"), Column("unit"), Column("origin")),
        note="Fitted to four values of Fig. 4a, 6 nodes, batch 448: "
        + ", ".join(f"{name} -{100 * value:.0f} %" for name, value in PUBLISHED_FIT.items())
        + ". Everything at 32 nodes or batch 1792 is a prediction.",
    )
    nic = SmartNicModel(nodes=6)
    table.add("MLP", "20 x 2048 x 2048", "", "paper")
    table.add("cores, of them for communication", "28, 2", "", "paper")
    table.add("Ethernet of the baseline, of the NIC", "100, 40", "Gbit/s", "paper")
    table.add("PCIe Gen3 x8", f"{nic.host_bytes_per_s * 8e-9:.3f}", "Gbit/s", "paper, 128b/130b")
    table.add("adders of the NIC", str(LANES), "", "paper")
    table.add("compression ratio", f"{RATIO:.3f}", "", "format of the paper")
    table.add("worker", f"{found.flops_per_s / 1e12:.3f}", "TFLOP/s", "fitted")
    table.add("one core's MPI", f"{found.core_bytes_per_s / 1e9:.3f}", "GB/s", "fitted")
    table.add("clock of the NIC", f"{found.clock_hz / 1e6:.3f}", "MHz", "fitted")
    table.add(
        "memory of the update",
        f"{UPDATE_BYTES_PER_S / 1e9:.3f}",
        "GB/s",
        "data sheet of the processor",
    )
    table.add("latency of an MPI message", f"{STEP_S * 1e6:.3f}", "µs", "assumed: 3 x 17.8 µs")
    table.add("MPI all-reduce", "ring", "", "assumed: 'default = ring'")
    for passes, what in (("sums", "N - 1"), ("reduction", "N"), ("both", "2 (N - 1)")):
        clock = fit(passes).clock_hz
        table.add(
            f"clock if {what} chunks pass through the adders",
            f"{clock / 1e6:.3f}",
            "MHz",
            "fitted; " + ("chosen" if passes == found.passes else "below")
            + f": 40 Gbit/s need {LINE_RATE_HZ / 1e6:.2f} MHz",
        )
    return table


def solve_monotone(function: Callable[[float], float], low: float, high: float) -> float | None:
    """Where a growing function crosses zero, None if it does not between *low* and *high*."""
    from scipy.optimize import brentq

    if function(low) > 0 or function(high) < 0:
        return None
    return float(brentq(function, low, high))

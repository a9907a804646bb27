# SPDX-License-Identifier: Apache-2.0
"""The smart NIC's systems: stated parameters, assumed ones, and those fitted to 6 nodes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from experiments.figure import Assumption
from gen.table import Column, Table
from hw.bfp.format import preset
from sim.analytic.smartnic import Mlp, SmartNicModel, TrainingTime, Worker, nic_training
from sim.analytic.smartnic_baseline import BaselineSystem, mpi_cost

__all__ = [
    "ASSUMPTIONS",
    "BATCHES",
    "LANES",
    "LATENCY_FIT",
    "NAIVE_FIT",
    "PUBLISHED_FIT",
    "RATIO",
    "Fit",
    "Systems",
    "fit",
    "implied_step_s",
    "inputs_table",
    "latency_s",
    "naive_bytes_per_s",
    "solve_monotone",
    "systems",
]

BATCHES = 448, 1792
LANES = 8
RATIO = preset("bfp16").ratio
UPDATE_BYTES_PER_S = 6 * 2933e6 * 8
"""Assumed: the memory of a Xeon 8280, six channels of DDR4-2933."""
LINE_RATE_HZ = 40e9 / 32 / LANES
"""Clock below which the adders cannot keep up with 40 Gbit/s without compression."""

PUBLISHED_FIT = {
    "exposed, NIC": 0.37,
    "total, NIC": 0.18,
    "exposed, NIC with BFP": 0.95,
    "total, NIC with BFP": 0.40,
}
"""Fig. 4a, 6 nodes, batch 448: savings of the NIC, to which three parameters are fitted."""
LATENCY_FIT = 1.8
"""Fig. 4b, 32 nodes, batch 448, without BFP. The latency of an MPI message is fitted to it."""
NAIVE_FIT = 0.51
"""Fig. 2a: exposed share of the naive baseline. The rate of the sending core is fitted to it."""

_FIG_4A = "Fig. 4a, 6 nodes, batch 448"
ASSUMPTIONS = (
    Assumption("MLP of 20 layers of 2048 x 2048, 2 of 28 cores communicate", "stated"),
    Assumption("Ethernet of 100 (NIC: 40) Gbit/s, PCIe Gen3 x8, 8 adders, BFP16", "stated"),
    Assumption("updates run at the memory bandwidth of the processor's data sheet", "chosen"),
    Assumption("MPI all-reduces are rings", "chosen", "the text: 'default = ring'"),
    Assumption("rates of the worker, of a core's MPI and of the NIC's adders", "fitted", _FIG_4A),
    Assumption(
        "latency of an MPI message", "fitted", "Fig. 4b, 32 nodes, batch 448, without BFP: 1.8x"
    ),
    Assumption(
        "rate of the one core that sends in the naive baseline", "fitted", "Fig. 2a: 51 % exposed"
    ),
)


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
    step_s: float
    scheme: str = "ring"
    naive_bytes_per_s: float | None = None

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
            naive_bytes_per_s=self.naive_bytes_per_s,
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
        """Speed-up of the NIC over the overlapped baseline."""
        return self.baseline.total_s / self.nic(bfp=bfp).total_s

    def savings(self) -> dict[str, float]:
        """Shares of the baseline's times that the NIC saves, by the names of `PUBLISHED_FIT`."""
        base, found = self.baseline, {}
        for name, bfp in (("NIC", False), ("NIC with BFP", True)):
            nic = self.nic(bfp=bfp)
            found[f"exposed, {name}"] = 1 - nic.exposed_s / base.exposed_s
            found[f"total, {name}"] = 1 - nic.total_s / base.total_s
        return found


@cache
def fit(passes: str = "both", step_s: float | None = None) -> Fit:
    """Least squares of the four savings of Fig. 4a at 6 nodes and batch 448.

    *passes* is the reading of the adders' time, see `SmartNicModel`; *step_s* the latency of an MPI
    message, `latency_s` if None.
    """
    from scipy.optimize import least_squares

    step_s = latency_s() if step_s is None else step_s

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


def implied_step_s(nodes: int, batch: int, speedup: float, *, bfp: bool) -> float | None:
    """Message latency with which the model has that speed-up, all else refitted; or None."""

    def beyond(step_s: float) -> float:
        system = Systems(nodes=nodes, batch=batch, fit=fit(step_s=step_s), step_s=step_s)
        return system.speedup(bfp=bfp) - speedup

    return solve_monotone(beyond, 0.0, 6e-4)


@cache
def latency_s() -> float:
    """The latency of an MPI message, fitted to `LATENCY_FIT`."""
    found = implied_step_s(32, 448, LATENCY_FIT, bfp=False)
    assert found is not None
    return found


@cache
def naive_bytes_per_s() -> float:
    """Send rate of the one core of the naive baseline, fitted to `NAIVE_FIT`.

    That core computes like all others, so figures of dedicated cores do not apply.
    """
    system = Systems(nodes=6, batch=1792, fit=fit(), step_s=latency_s())
    alone = system.naive.total_s - system.naive.exposed_s
    all_reduce_s = NAIVE_FIT / (1 - NAIVE_FIT) * alone / system.mlp.layers
    cost = mpi_cost(system.scheme, system.nodes)
    wire_s = all_reduce_s - cost.steps * system.step_s
    return cost.volume * system.mlp.gradient_bytes / wire_s


def systems(nodes: int, batch: int, *, scheme: str = "ring") -> Systems:
    """The systems with the fitted parameters."""
    return Systems(
        nodes=nodes,
        batch=batch,
        fit=fit(),
        step_s=latency_s(),
        scheme=scheme,
        naive_bytes_per_s=naive_bytes_per_s(),
    )


def inputs_table() -> Table:
    """Table of all inputs of the model and their sources."""
    found = fit()
    table = Table(
        "inputs of the model",
        (Column("parameter"), Column("value"), Column("unit"), Column("grounding"), Column("from")),
        note="Everything at batch 1792 but the naive share, and the NIC with BFP at 32 nodes, is a "
        "prediction.",
    )
    savings = ", ".join(f"{name} -{100 * value:.0f} %" for name, value in PUBLISHED_FIT.items())
    nic = SmartNicModel(nodes=6)
    table.add("MLP", "20 x 2048 x 2048", "", "stated", "")
    table.add("cores, of them for communication", "28, 2", "", "stated", "")
    table.add("Ethernet of the baseline, of the NIC", "100, 40", "Gbit/s", "stated", "")
    table.add(
        "PCIe Gen3 x8", f"{nic.host_bytes_per_s * 8e-9:.3f}", "Gbit/s", "stated", "128b/130b"
    )
    table.add("adders of the NIC", str(LANES), "", "stated", "")
    table.add("compression ratio", f"{RATIO:.3f}", "", "stated", "its format")
    table.add("memory of the update", f"{UPDATE_BYTES_PER_S / 1e9:.3f}", "GB/s", "chosen",
              "data sheet of the processor")
    table.add("MPI all-reduce", "ring", "", "chosen", "'default = ring'")
    for name, value, unit in (
        ("worker", found.flops_per_s / 1e12, "TFLOP/s"),
        ("one core's MPI", found.core_bytes_per_s / 1e9, "GB/s"),
        ("clock of the NIC", found.clock_hz / 1e6, "MHz"),
    ):
        table.add(name, f"{value:.3f}", unit, "fitted", f"{_FIG_4A}: {savings}")
    table.add("latency of an MPI message", f"{latency_s() * 1e6:.3f}", "µs", "fitted",
              f"Fig. 4b, 32 nodes, batch 448: {LATENCY_FIT}x")
    table.add("the naive baseline's one core", f"{naive_bytes_per_s() / 1e9:.3f}", "GB/s", "fitted",
              f"Fig. 2a: {100 * NAIVE_FIT:.0f} % exposed")
    for passes, what in (("sums", "N - 1"), ("reduction", "N"), ("both", "2 (N - 1)")):
        clock = fit(passes).clock_hz
        table.add(
            f"clock if {what} chunks pass through the adders",
            f"{clock / 1e6:.3f}",
            "MHz",
            "fitted",
            ("chosen" if passes == found.passes else "below")
            + f": 40 Gbit/s need {LINE_RATE_HZ / 1e6:.2f} MHz",
        )
    return table


def solve_monotone(function: Callable[[float], float], low: float, high: float) -> float | None:
    """Zero of an increasing function; None if there is none between *low* and *high*."""
    from scipy.optimize import brentq

    if function(low) > 0 or function(high) < 0:
        return None
    return float(brentq(function, low, high))

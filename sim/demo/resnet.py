# SPDX-License-Identifier: Apache-2.0
"""ResNet-50's gradients, layer by layer, through all-reduces that are simulated cycle by cycle.

Layers of equal size take the same cycles, so each size is simulated once, the shortest first. How
long a simulation takes depends on the machine: when the sizes that are left would exceed the time
allowed, they are cut to a common length that fits. What was cut is part of the result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gen.table import Column, Table
from sim.fields import FieldError
from sim.workload.astra_text import Workload
from sim.workload.graph import CollectiveKind

__all__ = [
    "GradientSize",
    "LayerResult",
    "Measurement",
    "gradient_sizes",
    "longest_that_fits",
    "measure_layers",
    "results_table",
]

CUT_BYTES = 4096  # cuts are whole multiples of this
LONGEST_LAYER_S = 60.0


@dataclass(frozen=True, kw_only=True)
class GradientSize:
    """All layers whose gradients have `size_bytes`."""

    size_bytes: int
    layers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One simulated all-reduce.

    Parameters
    ----------
    cycles
        Clock cycles from the command to the last completion.
    link_share
        Mean share of the capacity of the links in use, headers included, over those cycles.
    exact
        All results equalled numpy's in the same order, bit for bit.
    wall_s
        Seconds that the simulation took.
    """

    cycles: int
    link_share: float
    exact: bool
    wall_s: float


@dataclass(frozen=True, kw_only=True)
class LayerResult:
    """A size, the length that was simulated in its place, and the result."""

    size: GradientSize
    simulated_bytes: int
    measurement: Measurement

    @property
    def is_cut(self) -> bool:
        return self.simulated_bytes < self.size.size_bytes

    @property
    def full_wall_s(self) -> float:
        """Seconds at full length: measured, or in proportion to the cut."""
        return self.measurement.wall_s * self.size.size_bytes / self.simulated_bytes

    @property
    def bytes_per_cycle(self) -> float:
        """Gradient bytes of one node reduced per clock cycle."""
        return self.simulated_bytes / self.measurement.cycles


def gradient_sizes(workload: Workload) -> list[GradientSize]:
    """The distinct sizes of the weight gradients that are all-reduced, smallest first."""
    layers: dict[int, list[str]] = {}
    for layer in workload.layers:
        if layer.weight_gradient.collective is CollectiveKind.ALL_REDUCE:
            layers.setdefault(layer.weight_gradient.size_bytes, []).append(layer.name)
    return [
        GradientSize(size_bytes=size, layers=tuple(names)) for size, names in sorted(layers.items())
    ]


def longest_that_fits(sizes: Sequence[int], *, seconds_per_byte: float, budget_s: float) -> int:
    """The cut length with which one simulation of each distinct length stays within *budget_s*.

    Sizes up to the cut run whole; all longer ones share a single simulation of the cut. No
    simulation may take longer than a minute.
    """
    whole: list[int] = []
    for size in sorted(sizes):
        seconds = size * seconds_per_byte
        if seconds > LONGEST_LAYER_S or sum(whole) * seconds_per_byte + seconds > budget_s:
            break
        whole.append(size)
    else:
        return max(whole)
    left_s = min(budget_s - sum(whole) * seconds_per_byte, LONGEST_LAYER_S)
    cut = int(left_s / seconds_per_byte) // CUT_BYTES * CUT_BYTES
    # The largest whole size is simulated anyway: a shorter cut would tell less and cost more.
    return max([CUT_BYTES, cut, *whole])


def measure_layers(
    sizes: Sequence[GradientSize],
    simulate: Callable[[int], Measurement],
    *,
    budget_s: float,
    progress: Callable[[float], None] = lambda share: None,
) -> list[LayerResult]:
    """Simulate every size, or a cut of it, within about *budget_s* seconds.

    `simulate` is called with a number of bytes; `progress` with the share that is done. Results
    come smallest size first.
    """
    if not sizes:
        raise FieldError("sizes", "must hold at least one size")
    ordered = sorted(sizes, key=lambda size: size.size_bytes)
    lengths = [size.size_bytes for size in ordered]
    done: dict[int, Measurement] = {}
    results = []
    cut: int | None = None
    left_s = budget_s
    for index, size in enumerate(ordered):
        if done and cut is None:
            # Plan anew from the longest run so far: short runs overstate the time per byte.
            longest = max(done)
            fits = longest_that_fits(
                lengths[index:],
                seconds_per_byte=done[longest].wall_s / longest,
                budget_s=left_s,
            )
            if fits < size.size_bytes:
                cut = max(fits, longest)
        length = size.size_bytes if cut is None else min(size.size_bytes, cut)
        if length not in done:
            done[length] = simulate(length)
            left_s -= done[length].wall_s
        results.append(LayerResult(size=size, simulated_bytes=length, measurement=done[length]))
        progress(sum(lengths[: index + 1]) / sum(lengths))
    return results


def results_table(results: Sequence[LayerResult], *, clock_hz: float) -> Table:
    """One row per size; times of the hardware at *clock_hz*."""
    cut = [result for result in results if result.is_cut]
    note = "Layers of one size are simulated once. "
    if cut:
        full_s = sum(result.full_wall_s * len(result.size.layers) for result in results)
        note += (
            f"{len(cut)} of {len(results)} sizes are cut to stay within the time of the demo; "
            "their cycles are those of the cut. "
            f"All {sum(len(r.size.layers) for r in results)} layers at full size, one by one, "
            f"would take about {full_s:.0f} s of simulation."
        )
    else:
        note += "Every size is simulated in full."
    table = Table(
        "ResNet-50 gradients",
        [
            Column("first_layer"),
            Column("layers", "layers alike"),
            Column("size_bytes", "full size", "B"),
            Column("simulated_bytes", "simulated", "B"),
            Column("cycles"),
            Column("time_s", "hardware time", "µs", 1),
            Column("reduced_bytes_per_cycle", "reduced", "B/cycle", 1),
            Column("link_percent", "link use", "%", 1),
            Column("exact"),
            Column("wall_s", "simulated in", "s", 2),
            Column("full_wall_s", "full size in", "s", 2),
        ],
        note=note,
    )
    for result in results:
        names = result.size.layers
        table.add(
            names[0],
            len(names),
            result.size.size_bytes,
            result.simulated_bytes,
            result.measurement.cycles,
            result.measurement.cycles / clock_hz,
            result.bytes_per_cycle,
            100 * result.measurement.link_share,
            result.measurement.exact,
            result.measurement.wall_s,
            result.full_wall_s,
        )
    return table

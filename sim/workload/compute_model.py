# SPDX-License-Identifier: Apache-2.0
"""Compute models: from work to seconds.

:class:`Roofline` fits any accelerator of which the peak rates are known. :class:`SystolicArray`
knows how products fill and drain an array (SCALE-Sim, Samajdar et al., ISPASS 2020, section III).
"""

from dataclasses import dataclass
from typing import Protocol

from sim.fields import FieldError
from sim.workload.resources import ComputeResources
from sim.workload.work import Gemm, Work

__all__ = ["DATAFLOWS", "ComputeModel", "Roofline", "SystolicArray"]

DATAFLOWS = ("os", "ws", "is")


class ComputeModel(Protocol):
    """Anything that computes the time that work takes."""

    def time_s(self, work: Work) -> float: ...


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """Work takes as long as its operations or its memory traffic, whichever is longer.

    Parameters
    ----------
    resources
        Resources that the computation may use.
    efficiency
        Share of the peak rate that operations reach, above 0 to 1.
    """

    resources: ComputeResources
    efficiency: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.efficiency <= 1:
            raise FieldError(
                "efficiency", f"must be above 0 and at most 1, not {self.efficiency!r}"
            )

    def time_s(self, work: Work) -> float:
        return max(
            work.flops / (self.resources.flops_per_s * self.efficiency),
            work.memory_bytes / self.resources.memory_bytes_per_s,
        )


@dataclass(frozen=True, kw_only=True)
class SystolicArray:
    """An array of multiply-add cells that products are folded onto.

    A fold maps r rows and c columns for T cycles and takes 2 r + c + T - 2 of them: operands reach
    the far corner r + c - 2 cycles after the first, results leave through r rows. Dataflows map
    Y = X W with m x k by k x n as follows; the operand that stays in the cells names them.

    | dataflow | rows | columns | T |
    |---|---|---|---|
    | "os" output stationary | m | n | k |
    | "ws" weight stationary | k | n | m |
    | "is" input stationary | k | m | n |

    Folds at the edge use the rows and columns that are left, so a product smaller than the array
    takes what the formula gives for an array of its own size. Operations outside products are not
    counted. Work that moves more memory than its cycles allow takes as long as the memory.

    Parameters
    ----------
    rows, columns, dataflow, clock_hz
    resources
        None leaves memory and array unlimited. Otherwise the array works during `share` of the
        time, and memory traffic takes its time at `memory_bytes_per_s`.
    """

    rows: int = 256
    columns: int = 256
    dataflow: str = "ws"
    clock_hz: float = 700e6
    resources: ComputeResources | None = None

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            if getattr(self, name) < 1:
                raise FieldError(name, f"must be at least 1, not {getattr(self, name)!r}")
        if self.dataflow not in DATAFLOWS:
            raise FieldError(
                "dataflow", f"must be one of {', '.join(DATAFLOWS)}, not {self.dataflow!r}"
            )
        if not self.clock_hz > 0:
            raise FieldError("clock_hz", f"must be positive, not {self.clock_hz!r}")

    @property
    def peak_flops_per_s(self) -> float:
        return 2 * self.rows * self.columns * self.clock_hz

    def cycles(self, gemm: Gemm) -> int:
        """Clock cycles of all of *gemm*."""
        mapped_rows, mapped_columns, streamed = {
            "os": (gemm.m, gemm.n, gemm.k),
            "ws": (gemm.k, gemm.n, gemm.m),
            "is": (gemm.k, gemm.m, gemm.n),
        }[self.dataflow]
        row_folds = -(-mapped_rows // self.rows)
        column_folds = -(-mapped_columns // self.columns)
        # The sum of 2 r + c + T - 2 over all folds: every row is mapped once per column fold.
        return gemm.count * (
            2 * mapped_rows * column_folds
            + mapped_columns * row_folds
            + row_folds * column_folds * (streamed - 2)
        )

    def utilisation(self, gemm: Gemm) -> float:
        """Multiply-adds per cell and cycle."""
        return gemm.macs / (self.cycles(gemm) * self.rows * self.columns)

    def time_s(self, work: Work) -> float:
        busy_s = sum(self.cycles(gemm) for gemm in work.gemms) / self.clock_hz
        if self.resources is None:
            return busy_s
        return max(
            busy_s / self.resources.share, work.memory_bytes / self.resources.memory_bytes_per_s
        )

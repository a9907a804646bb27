# SPDX-License-Identifier: Apache-2.0
"""Resources of an accelerator, and the part of them that is left for training.

Communication that runs on the accelerator takes compute units and memory bandwidth away; an offload
engine takes memory bandwidth only (ISCA 2021, Table VI).
"""

from dataclasses import dataclass

from sim.fields import FieldError

__all__ = ["Accelerator", "ComputeResources"]


@dataclass(frozen=True, kw_only=True)
class ComputeResources:
    """Resources that a computation may use.

    Parameters
    ----------
    flops_per_s
        Peak rate of the compute units that are left, a multiply-add counting twice.
    memory_bytes_per_s
        Memory bandwidth that is left, reads and writes together.
    share
        Share of the compute units, 0 exclusive to 1. `flops_per_s` includes it already; models that
        know their own peak rate, such as a systolic array, use the share.
    """

    flops_per_s: float
    memory_bytes_per_s: float
    share: float = 1.0

    def __post_init__(self) -> None:
        for name in ("flops_per_s", "memory_bytes_per_s"):
            if not getattr(self, name) > 0:
                raise FieldError(name, f"must be positive, not {getattr(self, name)!r}")
        if not 0 < self.share <= 1:
            raise FieldError("share", f"must be above 0 and at most 1, not {self.share!r}")


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """The compute side of an NPU, before anything is taken away.

    The defaults are those of the GPU-like NPU of ISCA 2021, Table V.
    """

    units: int = 80
    flops_per_s: float = 120e12
    memory_bytes_per_s: float = 900e9

    def __post_init__(self) -> None:
        if self.units < 1:
            raise FieldError("units", f"must be at least 1, not {self.units!r}")
        for name in ("flops_per_s", "memory_bytes_per_s"):
            if not getattr(self, name) > 0:
                raise FieldError(name, f"must be positive, not {getattr(self, name)!r}")

    def left(
        self, *, units_taken: float = 0, memory_taken_bytes_per_s: float = 0.0
    ) -> ComputeResources:
        """Resources left for training while something else takes units and memory bandwidth."""
        if not 0 <= units_taken < self.units:
            raise FieldError(
                "units_taken", f"must be 0 or more and below the {self.units} units, "
                f"not {units_taken!r}"
            )
        if not 0 <= memory_taken_bytes_per_s < self.memory_bytes_per_s:
            raise FieldError(
                "memory_taken_bytes_per_s", f"must be 0 or more and below "
                f"{self.memory_bytes_per_s:g}, not {memory_taken_bytes_per_s!r}"
            )
        return self.part(
            units=self.units - units_taken,
            memory_bytes_per_s=self.memory_bytes_per_s - memory_taken_bytes_per_s,
        )

    def part(self, *, units: float, memory_bytes_per_s: float) -> ComputeResources:
        """*units* of the compute units with *memory_bytes_per_s*, for a side task."""
        if not 0 < units <= self.units:
            raise FieldError("units", f"must be above 0 and at most {self.units}, not {units!r}")
        if not 0 < memory_bytes_per_s <= self.memory_bytes_per_s:
            raise FieldError(
                "memory_bytes_per_s", f"must be above 0 and at most {self.memory_bytes_per_s:g}, "
                f"not {memory_bytes_per_s!r}"
            )
        share = units / self.units
        return ComputeResources(
            flops_per_s=share * self.flops_per_s,
            memory_bytes_per_s=memory_bytes_per_s,
            share=share,
        )

# SPDX-License-Identifier: Apache-2.0
"""Contents of a computation: matrix products, other operations and memory traffic."""

from dataclasses import dataclass
from math import prod

from sim.fields import FieldError

__all__ = ["Convolution", "Gemm", "Work"]


@dataclass(frozen=True, kw_only=True)
class Gemm:
    """`count` products of an m x k by a k x n matrix, one after the other."""

    m: int
    n: int
    k: int
    count: int = 1

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "count"):
            if getattr(self, name) < 1:
                raise FieldError(name, f"must be at least 1, not {getattr(self, name)!r}")

    @property
    def macs(self) -> int:
        """Multiply-adds."""
        return self.m * self.n * self.k * self.count

    def elements(self) -> int:
        """Elements read and written when every operand crosses the memory bus once a product."""
        return self.count * (self.m * self.k + self.k * self.n + self.m * self.n)

    def input_gradient(self) -> "Gemm":
        """dX = dY W^T, where this product is Y = X W."""
        return Gemm(m=self.m, n=self.k, k=self.n, count=self.count)

    def weight_gradient(self) -> "Gemm":
        """dW = X^T dY, where this product is Y = X W."""
        return Gemm(m=self.k, n=self.n, k=self.m, count=self.count)


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """A 2-D convolution of square stride; heights and widths in pixels.

    Parameters
    ----------
    height, width, channels
        Size of the input.
    filter_height, filter_width, filters
    stride, padding
    batch
        Images.
    """

    height: int
    width: int
    channels: int
    filter_height: int
    filter_width: int
    filters: int
    stride: int = 1
    padding: int = 0
    batch: int = 1

    def __post_init__(self) -> None:
        for name in ("height", "width", "channels", "filters", "stride", "batch"):
            if getattr(self, name) < 1:
                raise FieldError(name, f"must be at least 1, not {getattr(self, name)!r}")
        if self.padding < 0:
            raise FieldError("padding", f"must be at least 0, not {self.padding!r}")
        for name, size in (("filter_height", self.height), ("filter_width", self.width)):
            if not 1 <= getattr(self, name) <= size + 2 * self.padding:
                raise FieldError(
                    name, f"must be 1 .. {size + 2 * self.padding} (input and padding), "
                    f"not {getattr(self, name)!r}"
                )

    @property
    def output(self) -> tuple[int, int]:
        """Height and width of the output."""
        return (
            (self.height + 2 * self.padding - self.filter_height) // self.stride + 1,
            (self.width + 2 * self.padding - self.filter_width) // self.stride + 1,
        )

    @property
    def weights(self) -> int:
        return self.filter_height * self.filter_width * self.channels * self.filters

    @property
    def input_elements(self) -> int:
        return self.batch * self.height * self.width * self.channels

    @property
    def output_elements(self) -> int:
        return self.batch * prod(self.output) * self.filters

    def gemm(self) -> Gemm:
        """The product of the unfolded input with the filters."""
        return Gemm(
            m=self.batch * prod(self.output),
            n=self.filters,
            k=self.filter_height * self.filter_width * self.channels,
        )


@dataclass(frozen=True, kw_only=True)
class Work:
    """Work of one pass through one layer.

    `other_flops` are operations outside the products. `memory_bytes` is all traffic to and from
    memory, whatever causes it.
    """

    gemms: tuple[Gemm, ...] = ()
    other_flops: int = 0
    memory_bytes: int = 0

    @property
    def macs(self) -> int:
        return sum(gemm.macs for gemm in self.gemms)

    @property
    def flops(self) -> int:
        """Operations; a multiply-add counts twice."""
        return 2 * self.macs + self.other_flops

    def __add__(self, other: "Work") -> "Work":
        return Work(
            gemms=self.gemms + other.gemms,
            other_flops=self.other_flops + other.other_flops,
            memory_bytes=self.memory_bytes + other.memory_bytes,
        )

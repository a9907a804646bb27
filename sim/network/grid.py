# SPDX-License-Identifier: Apache-2.0
"""Numbers of the points of a grid; dimension 0 varies fastest."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Grid", "Indices"]

Indices = NDArray[np.int64]


class Grid:
    """Points numbered by their coordinates in dimensions of ``sizes``, which wrap around."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.points = math.prod(self.sizes)
        self.strides = tuple(math.prod(self.sizes[:d]) for d in range(len(self.sizes)))

    def coordinate(self, points: Indices | int, dimension: int) -> Indices:
        return np.asarray(points) // self.strides[dimension] % self.sizes[dimension]

    def coordinates(self, points: Indices) -> list[Indices]:
        """Coordinates of points in every dimension."""
        return [self.coordinate(points, d) for d in range(len(self.sizes))]

    def at(self, coordinates: Sequence[Indices]) -> Indices:
        """Points at coordinates."""
        point = np.zeros_like(coordinates[0])
        for stride, coordinate in zip(self.strides, coordinates, strict=True):
            point = point + stride * coordinate
        return point

    def moved(self, points: Indices, dimension: int, step: Indices | int) -> Indices:
        """The points ``step`` places further along a dimension."""
        here = self.coordinate(points, dimension)
        there = (here + step) % self.sizes[dimension]
        return points + (there - here) * self.strides[dimension]

    def group(self, dimension: int) -> Indices:
        """A number for each point, equal for those that differ only in a dimension."""
        points = np.arange(self.points)
        stride = self.strides[dimension]
        return points // (stride * self.sizes[dimension]) * stride + points % stride

# SPDX-License-Identifier: Apache-2.0
"""Marked functions to compile, and a module of constants that they use by its name."""

from typing import Any, NamedTuple

import numpy as np

from sim.native.mark import compiled, inlined

RECORD = np.dtype([("weight", np.int64), ("share", np.float64)])
FACTOR = 3


class Table(NamedTuple):
    records: Any
    grid: Any


class Totals(NamedTuple):
    sums: Any


@inlined
def weighted(table, row):
    return FACTOR * table.records[row].weight


@compiled
def row_sum(table, row):
    total = 0
    for column in range(table.grid.shape[1]):
        total += table.grid[row, column]
    return total


@compiled
def add_up(table, totals, first, end):
    """Sum over rows of grid and weights; kept in *totals* if there are any."""
    result = 0
    for row in range(first, end):
        value = weighted(table, row) + row_sum(table, row)
        if totals is not None:
            totals.sums[row] = value
        result += value
    return result


@compiled
def allocates(table, totals, size):
    sums = np.zeros(size, np.int64)
    for row in range(1, size):
        sums[row] = sums[row - 1] + table.grid[row, 0]
    return sums[size - 1]


@compiled
def raises(table, totals, size):
    if size < 0:
        raise ValueError("size")
    return size

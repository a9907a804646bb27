# SPDX-License-Identifier: Apache-2.0
"""Operands go in, one row per cycle; results are compared with a reference, bit for bit.

Rows and expected results are in the file that `BENCH` names; the reference is no part of the
design.
"""

from typing import Any

import cocotb
from cocotb.triggers import Timer
from models import ABOUT, number

__all__ = ["every_row_gives_what_the_reference_gives"]


@cocotb.test()
async def every_row_gives_what_the_reference_gives(dut: Any) -> None:
    """The clock is made here: a design without registers has none."""
    rows, expected, latency = ABOUT["rows"], ABOUT["expected"], ABOUT["latency"]
    reset = ABOUT["reset"]
    if reset:
        getattr(dut, reset["port"]).value = int(reset["active"] == "high")

    async def edge() -> None:
        await Timer(1, "ns")
        if ABOUT["clock"]:
            dut.clk.value = 1
            await Timer(1, "ns")
            dut.clk.value = 0

    if ABOUT["clock"]:
        dut.clk.value = 0
    drive(dut, rows[0])
    for _ in range(latency + 1):
        await edge()
    if reset:
        getattr(dut, reset["port"]).value = int(reset["active"] == "low")
    for cycle in range(len(rows) + latency):
        if cycle < len(rows):
            drive(dut, rows[cycle])
        # A result is there after its last edge, or, without any, in the cycle of its operands.
        await edge()
        done = cycle if latency == 0 else cycle + 1 - latency
        if 0 <= done < len(rows):
            compare(dut, done, expected[done])


def drive(dut: Any, row: list[int]) -> None:
    """Put a row of values on the inputs."""
    for name, value in zip(ABOUT["inputs"], row, strict=True):
        getattr(dut, name).value = value


def compare(dut: Any, row: int, expected: list[int | None]) -> None:
    """Compare all outputs for which there is an expected value."""
    for name, value in zip(ABOUT["outputs"], expected, strict=True):
        if value is not None:
            found = number(getattr(dut, name))
            assert found == value, f"row {row}: {name} is {found:#x}, not {value:#x}"

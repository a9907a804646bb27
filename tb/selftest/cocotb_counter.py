# SPDX-License-Identifier: Apache-2.0
"""Tests of a counter, two of which must fail."""

from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

from tb.common.streams import number
from tb.runner import parameters


async def counted(dut: Any, cycles: int) -> int:
    dut.rst.value = 1
    Clock(dut.clk, 2, unit="ns").start()
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    dut.rst.value = 0
    for _ in range(cycles + 1):
        await RisingEdge(dut.clk)
    return number(dut.count.value)


@cocotb.test(timeout_time=1, timeout_unit="us")
async def counts_every_cycle(dut: Any) -> None:
    cycles = parameters()["cycles"]
    assert await counted(dut, cycles) == cycles


@cocotb.test(timeout_time=1, timeout_unit="us")
async def claims_a_wrong_count(dut: Any) -> None:
    assert await counted(dut, 5) == 6


@cocotb.test(timeout_time=20, timeout_unit="ns")
async def waits_for_ever(dut: Any) -> None:
    while True:
        await RisingEdge(dut.clk)


@cocotb.test(timeout_time=1, timeout_unit="us")
async def says_how_it_starts(dut: Any) -> None:
    await ReadOnly()
    dut._log.info("starts at %d", dut.count.value.to_unsigned())

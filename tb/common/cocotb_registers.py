# SPDX-License-Identifier: Apache-2.0
"""An AXI4-Lite register file against an independent master, in the simulator.

Addresses come from the register map that the design was made from, never from here.
"""

import random
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from tb.common.streams import pause_channels, reset
from tb.runner import parameters


def offset(name: str, index: int = 0) -> int:
    entry = next(entry for entry in parameters()["registers"] if entry["name"] == name)
    first: int = entry["offset"]
    return first + 4 * index


async def start(dut: Any, chance: float) -> tuple[AxiLiteMaster, random.Random]:
    rng = random.Random(cocotb.RANDOM_SEED)
    dut.status_value.value = 0
    dut.events_set.value = 0
    Clock(dut.clk, 2, unit="ns").start()
    master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "bus"), dut.clk, dut.rst)
    pause_channels(master, chance, rng)
    await reset(dut)
    return master, rng


@cocotb.test(timeout_time=100, timeout_unit="us")
@cocotb.parametrize(chance=[0.0, 0.5])
async def bytes_written_are_read_back(dut: Any, chance: float) -> None:
    master, rng = await start(dut, chance)
    model = bytearray(16)
    base = offset("scratch")

    for _ in range(60):
        first = rng.randrange(16)
        text = rng.randbytes(rng.randrange(1, 17 - first))
        answer = await master.write(base + first, text)
        assert answer.resp == AxiResp.OKAY
        model[first : first + len(text)] = text
        assert (await master.read(base, 16)).data == bytes(model)

    assert dut.scratch_2_value.value.to_unsigned() == int.from_bytes(model[8:12], "little")
    assert dut.faults.value.to_unsigned() == 0


@cocotb.test(timeout_time=100, timeout_unit="us")
async def status_is_read_and_events_are_cleared(dut: Any) -> None:
    master, _ = await start(dut, 0.3)
    dut.status_value.value = 0x5A
    dut.events_set.value = 0b101
    await RisingEdge(dut.clk)
    dut.events_set.value = 0

    assert await master.read_dword(offset("status")) == 0x5A
    assert await master.read_dword(offset("events")) == 0b101
    await master.write_dword(offset("events"), 0b001)
    assert await master.read_dword(offset("events")) == 0b100


@cocotb.test(timeout_time=100, timeout_unit="us")
async def bad_accesses_are_refused_and_counted(dut: Any) -> None:
    master, _ = await start(dut, 0.3)

    assert (await master.write(parameters()["size"], b"abcd")).resp == AxiResp.DECERR
    assert (await master.read(parameters()["size"], 4)).resp == AxiResp.DECERR
    assert (await master.write(offset("status"), b"abcd")).resp == AxiResp.SLVERR
    assert (await master.read(offset("status"), 4)).resp == AxiResp.OKAY

    for _ in range(3):
        await RisingEdge(dut.clk)
    assert dut.faults.value.to_unsigned() == 3

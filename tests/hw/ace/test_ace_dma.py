# SPDX-License-Identifier: Apache-2.0
"""The DMAs of ACE by themselves: what they move, and what they leave alone."""

import random
from dataclasses import dataclass

import pytest

from hw.ace.config import preset
from hw.ace.dma import RxDMA, TxDMA
from hw.ace.layouts import load_job_layout, loaded_layout
from hw.common.testing import check_stream, random_stalls, simulate, sink, source
from tests.hw.ace.sram_port import reads, writes
from tests.hw.axi_memory import AXIMemory

CONFIG = preset("test")
LANES, BEAT = CONFIG.lanes, CONFIG.bus_bytes
SIZE = 1 << 14
PACES = [(0.0, 0.0, 0.0), (0.3, 0.5, 0.3), (0.0, 0.0, 0.95), (0.5, 0.0, 0.0)]
"""Stalls of memory, of SRAM, and of who takes the reports."""


@dataclass(frozen=True)
class Block:
    """Elements at an address of memory and a row of SRAM."""

    address: int
    row: int
    elements: int


def drawn(count, seed):
    """Jobs of blocks of all lengths, empty ones among them, each where no other one is, and their
    blocks."""
    rng = random.Random(seed)
    jobs, blocks, address, row = [], [], 0, 0
    for slot in range(count):
        beats, first = rng.randint(1, 3), rng.randint(0, 2)
        last = first + rng.randint(0, 2)
        tail = rng.choice([first, last, last + 1])
        part = rng.choice([0, 1, rng.randint(0, beats * LANES)])
        stride = (beats + rng.randint(0, 1)) * BEAT
        walk = {
            "address": address, "stride": stride, "first": first, "last": last, "row": row,
            "beats": beats, "tail_block": tail, "tail_elements": part,
        }
        jobs.append({"walk": walk, "slot": slot % CONFIG.slots, "command": slot % CONFIG.commands})
        for n in range(last - first + 1):
            whole = beats * LANES if first + n < tail else part if first + n == tail else 0
            blocks.append(Block(address + n * stride, row + n * beats, whole))
        address, row = address + (last - first + 1) * stride, row + (last - first + 1) * beats
    assert address <= SIZE and row <= CONFIG.sram_beats
    return jobs, blocks


def reports(jobs):
    told = loaded_layout(CONFIG)
    return [told.const({name: job[name] for name in ("slot", "command")}) for job in jobs]


def as_jobs(jobs):
    shape = load_job_layout(CONFIG)
    return [shape.const(job) for job in jobs]


@pytest.mark.parametrize("memory_stall, sram_stall, report_stall", PACES)
@pytest.mark.parametrize("seed", range(3))
def test_chunks_are_loaded_with_zeros_behind_their_blocks(
    seed, memory_stall, sram_stall, report_stall
):
    jobs, blocks = drawn(24, seed)
    dut = TxDMA(CONFIG)
    memory = AXIMemory(dut.bus, size=SIZE, latency=5, stall=memory_stall, seed=seed)
    memory.data[:] = random.Random(seed).randbytes(SIZE)
    expected = {}
    for block in blocks:
        held = memory.data[block.address : block.address + 4 * block.elements]
        held = bytes(held).ljust(-(-len(held) // BEAT) * BEAT, b"\0")
        for n in range(0, len(held), BEAT):
            expected[block.row + n // BEAT] = int.from_bytes(held[n : n + BEAT], "little")
    rows, rng = [], random.Random(seed)

    simulate(
        dut,
        source(dut.job, as_jobs(jobs), random_stalls(seed + 1, 0.2)),
        sink(dut.loaded, reports(jobs), random_stalls(seed, report_stall)),
        checks=[
            memory.serve, check_stream(dut.loaded),
            writes(dut.write, lambda *each: rows.append(each), lambda: rng.random() >= sram_stall),
        ],
    )
    assert len(rows) == len(expected) and dict(rows) == expected


@pytest.mark.parametrize("memory_stall, sram_stall, report_stall", PACES)
@pytest.mark.parametrize("seed", range(3))
def test_results_are_stored_and_nothing_is_written_behind_them(
    seed, memory_stall, sram_stall, report_stall
):
    jobs, blocks = drawn(24, seed)
    dut = RxDMA(CONFIG)
    memory = AXIMemory(dut.bus, size=SIZE, latency=5, stall=memory_stall, seed=seed)
    memory.data[:] = random.Random(seed).randbytes(SIZE)
    words = [random.Random(seed + row).randbytes(BEAT) for row in range(CONFIG.sram_beats)]
    expected = bytearray(memory.data)
    for block in blocks:
        size = 4 * block.elements
        held = b"".join(words[block.row : block.row + -(-size // BEAT)])
        expected[block.address : block.address + size] = held[:size]
    rng = random.Random(seed)

    simulate(
        dut,
        source(dut.job, as_jobs(jobs), random_stalls(seed + 1, 0.2)),
        sink(dut.stored, reports(jobs), random_stalls(seed, report_stall)),
        checks=[
            memory.serve, check_stream(dut.stored),
            reads(
                dut.read, lambda row: int.from_bytes(words[row], "little"),
                lambda: rng.random() >= sram_stall,
            ),
        ],
    )
    assert memory.data == expected

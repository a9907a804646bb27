# SPDX-License-Identifier: Apache-2.0
"""AXI4 reader and writer against an independent memory model, in the simulator."""

import random
from collections.abc import Sequence
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotbext.axi import AddressSpace, AxiBus, AxiRam, AxiSlave, MemoryRegion

from tb.common.streams import StreamSink, StreamSource, pause_channels, pauses, reset
from tb.runner import parameters

SIZE = 1 << 16


def start_clock(dut: Any) -> None:
    dut.source_valid.value = 0
    dut.target_valid.value = 0
    dut.done_ready.value = 0
    Clock(dut.clk, 2, unit="ns").start()


def source_word(address: int, beats: int) -> int:
    return address | beats << 32


def target_word(address: int, beats: int, strobe: int) -> int:
    return address | beats << 32 | strobe << 48


async def copy(
    dut: Any, runs: Sequence[tuple[int, int, int, int]], chance: float, rng: random.Random
) -> list[int]:
    """Copy *runs* of (from, to, beats, bytes of the last beat); return the error flags."""
    lanes = parameters()["lanes"]
    source = StreamSource(dut, "source", pauses(chance, rng))
    target = StreamSource(dut, "target", pauses(chance, rng))
    sink = StreamSink(dut, "done", pauses(chance, rng))
    reads = cocotb.start_soon(source.send(source_word(a, n) for a, _, n, _ in runs))
    writes = cocotb.start_soon(
        target.send(target_word(b, n, (1 << kept) - 1) for _, b, n, kept in runs)
    )
    assert all(1 <= kept <= lanes for *_, kept in runs)
    errors = await sink.take(len(runs))
    await reads
    await writes
    await sink.expect_nothing()
    return errors


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(chance=[0.0, 0.4])
async def copies_arrive_whole_and_nothing_else_changes(dut: Any, chance: float) -> None:
    lanes = parameters()["lanes"]
    rng = random.Random(cocotb.RANDOM_SEED)
    start_clock(dut)
    ram = AxiRam(AxiBus.from_prefix(dut, "mem"), dut.clk, dut.rst, size=SIZE)
    pause_channels(ram, chance, rng)
    await reset(dut)
    before = rng.randbytes(SIZE)
    ram.write(0, before)
    # Sources lie in the lower half, targets apart from each other in the upper one.
    expected = bytearray(before)
    runs = [(4096 - lanes, SIZE // 2 + 4096 - 2 * lanes, 5, 1)]
    free = SIZE // 2 + 4096 + 3 * lanes
    for _ in range(24):
        beats = rng.choice([1, 2, 3, rng.randrange(4, 60)])
        origin = rng.randrange((SIZE // 2 - beats * lanes) // lanes) * lanes
        goal = free + rng.randrange(4) * lanes
        free = goal + beats * lanes
        runs.append((origin, goal, beats, rng.randrange(1, lanes + 1)))
    assert free <= SIZE
    for origin, goal, beats, kept in runs:
        size = (beats - 1) * lanes + kept
        expected[goal : goal + size] = before[origin : origin + size]

    errors = await copy(dut, runs, chance / 2, rng)

    assert errors == [0] * len(runs)
    assert ram.read(0, SIZE) == bytes(expected)


@cocotb.test(timeout_time=200, timeout_unit="us")
async def refused_writes_are_reported_and_the_next_copy_works(dut: Any) -> None:
    lanes = parameters()["lanes"]
    rng = random.Random(cocotb.RANDOM_SEED)
    start_clock(dut)
    space = AddressSpace(1 << 32)
    memory = MemoryRegion(SIZE)
    space.register_region(memory, 0)
    slave = AxiSlave(AxiBus.from_prefix(dut, "mem"), dut.clk, dut.rst, target=space)
    pause_channels(slave, 0.2, rng)
    await reset(dut)
    before = rng.randbytes(SIZE)
    await memory.write(0, before)
    runs = [
        (0, SIZE, 40, lanes),  # nothing is mapped at the target
        (0, SIZE // 2, 20, lanes),
        (SIZE, SIZE // 2 + 32 * lanes, 1, lanes),  # nothing is mapped at the source
        (64 * lanes, SIZE // 2 + 64 * lanes, 7, lanes),
    ]

    errors = await copy(dut, runs, 0.2, rng)

    assert errors == [1, 0, 0, 0]
    after = await memory.read(0, SIZE)
    for origin, goal, beats, _ in runs[1::2]:
        size = beats * lanes
        assert after[goal : goal + size] == before[origin : origin + size]

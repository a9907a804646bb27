# SPDX-License-Identifier: Apache-2.0
"""Two engines joined by their links reduce vectors; the bench checks the results.

It is the host of both: it writes registers over AXI4-Lite, serves memory over AXI4, and stalls
every channel and every link at random. The writes for the engines are in the file that `BENCH`
names.
"""

import operator
import random
import struct
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from models import (
    ABOUT,
    OKAY,
    PATIENCE,
    PAUSE,
    Memory,
    Registers,
    check_after_reset,
    number,
    perform,
    release_reset,
)

__all__ = ["registers_show_their_values_after_reset", "vectors_are_reduced"]


async def stall_links(dut: Any, rng: random.Random) -> None:
    """Let each link take a beat in most cycles only."""
    while True:
        dut.go.value = sum((rng.random() >= PAUSE) << n for n in range(ABOUT["lines"]))
        await RisingEdge(dut.clk)


async def ready(dut: Any) -> tuple[list[Registers], list[bytearray]]:
    """Both engines out of reset, with everything around them; their registers and memories."""
    rng = random.Random(cocotb.RANDOM_SEED)
    nodes = [Registers(dut, f"n{node}_csr_", rng) for node in range(2)]
    images = [bytearray(rng.randbytes(ABOUT["memory_bytes"])) for _ in nodes]
    dut.go.value = 0
    for node, image in enumerate(images):
        for port in ABOUT["memory_ports"]:
            memory = Memory(dut, f"n{node}_{port}_", image, random.Random(rng.random()))
            cocotb.start_soon(memory.serve_reads())
            cocotb.start_soon(memory.serve_writes())
    cocotb.start_soon(stall_links(dut, rng))
    Clock(dut.clk, 2, unit="ns").start()
    await release_reset(dut)
    return nodes, images


def reduced(op: str, left: bytes, right: bytes) -> bytes:
    """The result of *op* on two vectors, word by word."""
    kind = "i" if op == "SUM_I32" else "f"
    words = len(left) // 4
    pairs = zip(struct.unpack(f"<{words}{kind}", left), struct.unpack(f"<{words}{kind}", right))
    if op == "SUM_I32":
        return b"".join(((a + b) & 0xFFFFFFFF).to_bytes(4, "little") for a, b in pairs)
    # The sum of two binary32 in binary64, rounded once more, is the sum rounded once.
    combine: Any = {"SUM_F32": operator.add, "MIN_F32": min, "MAX_F32": max}[op]
    return struct.pack(f"<{words}f", *(combine(a, b) for a, b in pairs))


def vector(op: str, elements: int, rng: random.Random) -> bytes:
    """Random values of the type that *op* takes."""
    if op == "SUM_I32":
        return rng.randbytes(4 * elements)
    return struct.pack(f"<{elements}f", *(rng.gauss(0, 10 ** rng.randint(-3, 3))
                                          for _ in range(elements)))


async def completed(node: Registers, count: int) -> None:
    """Wait until *count* commands are over."""
    about = ABOUT["completed"]
    for _ in range(PATIENCE // 10):
        if await node.read(about["offset"]) & about["mask"] == count:
            return
    raise AssertionError(f"{count} commands do not complete")


@cocotb.test()
async def registers_show_their_values_after_reset(dut: Any) -> None:
    """Every register that can be read, and an address at which there is none."""
    nodes, _ = await ready(dut)
    await check_after_reset(nodes[0])


@cocotb.test()
async def vectors_are_reduced(dut: Any) -> None:
    """All-reduces of several operations, one after the other."""
    nodes, images = await ready(dut)
    rng = random.Random(cocotb.RANDOM_SEED + 1)
    for node, writes in zip(nodes, ABOUT["set_up"], strict=True):
        await perform(node, writes)
    for count, job in enumerate(ABOUT["jobs"], 1):
        size = 4 * job["elements"]
        inputs = [vector(job["op"], job["elements"], rng) for _ in nodes]
        for image, content in zip(images, inputs, strict=True):
            image[job["source"] : job["source"] + size] = content
        expected = [bytes(image) for image in images]
        result = reduced(job["op"], *inputs)
        place = job["destination"]
        expected = [each[:place] + result + each[place + size :] for each in expected]
        for node in nodes:
            await perform(node, job["writes"])
        for node in nodes:
            await completed(node, count)
        await ClockCycles(dut.clk, 20)
        for rank, (image, want) in enumerate(zip(images, expected, strict=True)):
            words = range(0, len(image), 4)
            wrong = [at for at in words if image[at : at + 4] != want[at : at + 4]]
            assert not wrong, (
                f"{job['op']}: {len(wrong)} words of rank {rank} are wrong, first {wrong[0]:#x}"
            )
        for node in nodes:
            pending = await node.read(ABOUT["interrupt"]["offset"])
            assert pending == ABOUT["interrupt"]["done"], f"interrupts {pending:#x}"
            assert await node.write(ABOUT["interrupt"]["offset"], pending) == OKAY
    for rank, node in enumerate(nodes):
        assert number(getattr(dut, f"n{rank}_irq")) == 0
        assert await node.read(ABOUT["refusal"]) == 0

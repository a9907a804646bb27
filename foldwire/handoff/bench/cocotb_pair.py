"""Two engines joined by their links reduce vectors; the bench knows what must come out.

It is the host of both: it writes registers over AXI4-Lite, serves memory over AXI4, and holds back
every channel and every link at random. What the engines are to be told stands in `bench.json`.
"""

import json
import operator
import random
import struct
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge

__all__ = ["registers_show_their_values_after_reset", "vectors_are_reduced"]

ABOUT: dict[str, Any] = json.loads(Path(__file__).with_name("bench.json").read_text("utf-8"))
OKAY, DECERR = 0, 3
PAUSE = 0.3
"""Probability that a channel or link stands still in a cycle."""
PATIENCE = 40_000
"""Cycles after which what has not happened never will."""


def number(signal: Any) -> int:
    """Value of a port as a number."""
    value = signal.value
    return int(value) if len(signal) == 1 else value.to_unsigned()


class Bus:
    """Ports of the design whose names begin with a prefix."""

    def __init__(self, dut: Any, prefix: str) -> None:
        self._dut, self._prefix = dut, prefix

    def get(self, name: str) -> int:
        """Value of a port."""
        return number(getattr(self._dut, self._prefix + name))

    def set(self, **values: int) -> None:
        """Drive ports."""
        for name, value in values.items():
            getattr(self._dut, self._prefix + name).value = value


class Registers:
    """AXI4-Lite master."""

    def __init__(self, dut: Any, node: int, rng: random.Random) -> None:
        self._clk, self._bus, self._rng = dut.clk, Bus(dut, f"n{node}_csr_"), rng
        self._bus.set(
            awvalid=0, awaddr=0, awprot=0, wvalid=0, wdata=0, wstrb=15, bready=0,
            arvalid=0, araddr=0, arprot=0, rready=0,
        )

    async def _wait(self) -> None:
        while self._rng.random() < PAUSE:
            await RisingEdge(self._clk)

    async def _until(self, name: str) -> None:
        for _ in range(PATIENCE):
            await RisingEdge(self._clk)
            if self._bus.get(name):
                return
        raise AssertionError(f"csr_{name} stays low")

    async def _offer(self, channel: str, **payload: int) -> None:
        await self._wait()
        self._bus.set(**payload, **{f"{channel}valid": 1})
        await self._until(f"{channel}ready")
        self._bus.set(**{f"{channel}valid": 0})

    async def _answer(self, channel: str) -> int:
        await self._wait()
        self._bus.set(**{f"{channel}ready": 1})
        await self._until(f"{channel}valid")
        self._bus.set(**{f"{channel}ready": 0})
        return self._bus.get(f"{channel}resp")

    async def write(self, offset: int, word: int) -> int:
        """Write a register; the response."""
        await self._offer("aw", awaddr=offset)
        await self._offer("w", wdata=word)
        return await self._answer("b")

    async def read(self, offset: int) -> int:
        """What a register holds."""
        await self._offer("ar", araddr=offset)
        assert await self._answer("r") == OKAY, f"reading {offset:#x} is refused"
        return self._bus.get("rdata")


class Memory:
    """AXI4 slave of one port; answers in order."""

    def __init__(self, dut: Any, port: str, image: bytearray, rng: random.Random) -> None:
        self._clk, self._bus, self._image, self._rng = dut.clk, Bus(dut, f"{port}_"), image, rng
        self._bytes = ABOUT["bus_bytes"]
        self._bus.set(
            awready=0, wready=0, bvalid=0, bresp=0, bid=0,
            arready=0, rvalid=0, rdata=0, rresp=0, rlast=0, rid=0,
        )

    def _go(self) -> int:
        return int(self._rng.random() >= PAUSE)

    def _burst(self, channel: str) -> list[int]:
        get = self._bus.get
        address, beats = get(f"{channel}addr"), get(f"{channel}len") + 1
        assert 1 << get(f"{channel}size") == self._bytes and get(f"{channel}burst") == 1
        last = address + beats * self._bytes - 1
        assert address // 4096 == last // 4096, f"a burst from {address:#x} crosses 4 KiB"
        assert last < len(self._image), f"{address:#x} lies beyond memory"
        for name, value in ABOUT["attributes"].items():
            assert get(channel + name) == value, f"{channel}{name} is not {value}"
        return [address + index * self._bytes for index in range(beats)]

    async def serve_reads(self) -> None:
        """Answer reads for ever."""
        bus = self._bus
        queue: list[tuple[int, int]] = []
        valid = ready = 0
        while True:
            await RisingEdge(self._clk)
            if ready and bus.get("arvalid"):
                burst = self._burst("ar")
                queue += [(address, int(address == burst[-1])) for address in burst]
            if valid and bus.get("rready"):
                queue.pop(0)
                valid = 0
            ready = self._go()
            bus.set(arready=ready)
            if not valid and queue and self._go():
                address, last = queue[0]
                row = self._image[address : address + self._bytes]
                bus.set(rdata=int.from_bytes(row, "little"), rlast=last)
                valid = 1
            bus.set(rvalid=valid)

    async def serve_writes(self) -> None:
        """Answer writes for ever."""
        bus = self._bus
        bursts: list[list[int]] = []
        beats: list[tuple[int, int, int]] = []
        answers = address_ready = data_ready = valid = 0
        while True:
            await RisingEdge(self._clk)
            if address_ready and bus.get("awvalid"):
                bursts.append(self._burst("aw"))
            if data_ready and bus.get("wvalid"):
                beats.append((bus.get("wdata"), bus.get("wstrb"), bus.get("wlast")))
            if valid and bus.get("bready"):
                answers, valid = answers - 1, 0
            while bursts and beats:
                word, strobe, last = beats.pop(0)
                address = bursts[0].pop(0)
                assert last == (not bursts[0]), f"wlast is wrong at {address:#x}"
                for lane, byte in enumerate(word.to_bytes(self._bytes, "little")):
                    if strobe >> lane & 1:
                        self._image[address + lane] = byte
                if last:
                    bursts.pop(0)
                    answers += 1
            address_ready, data_ready = self._go(), self._go()
            valid = valid or int(answers > 0 and self._go())
            bus.set(awready=address_ready, wready=data_ready, bvalid=valid)


async def stall_links(dut: Any, rng: random.Random) -> None:
    """Let each link take a beat in most cycles only."""
    while True:
        dut.go.value = sum((rng.random() >= PAUSE) << n for n in range(ABOUT["lines"]))
        await RisingEdge(dut.clk)


async def ready(dut: Any) -> tuple[list[Registers], list[bytearray]]:
    """Both engines out of reset, with everything around them; their registers and memories."""
    rng = random.Random(cocotb.RANDOM_SEED)
    nodes = [Registers(dut, node, rng) for node in range(2)]
    images = [bytearray(rng.randbytes(ABOUT["memory_bytes"])) for _ in nodes]
    dut.go.value = 0
    dut.rst.value = 1
    for node, image in enumerate(images):
        for port in ABOUT["memory_ports"]:
            memory = Memory(dut, f"n{node}_{port}", image, random.Random(rng.random()))
            cocotb.start_soon(memory.serve_reads())
            cocotb.start_soon(memory.serve_writes())
    cocotb.start_soon(stall_links(dut, rng))
    Clock(dut.clk, 2, unit="ns").start()
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 4)
    return nodes, images


def reduced(op: str, left: bytes, right: bytes) -> bytes:
    """What *op* makes of two vectors, word by word."""
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


async def perform(node: Registers, writes: list[list[int]]) -> None:
    """Register writes, each of which must be accepted."""
    for offset, word in writes:
        assert await node.write(offset, word) == OKAY, f"writing {offset:#x} is refused"


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
    for offset, value in ABOUT["after_reset"]:
        found = await nodes[0].read(offset)
        assert found == value, f"register {offset:#x} is {found:#x} after reset, not {value:#x}"
    assert await nodes[0].write(ABOUT["no_register"], 1) == DECERR


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

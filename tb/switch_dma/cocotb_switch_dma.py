# SPDX-License-Identifier: Apache-2.0
"""All-reduces of an emitted endpoint: memory and host by cocotbext-axi, switch and peers here."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Self

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge
from cocotbext.axi import (
    AddressSpace,
    AxiBus,
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiSlave,
    MemoryRegion,
)

from hw.fp.ops import ReduceOp
from hw.switch.packet import CLASSES, AbortCause, Kind, notice_fields
from hw.switch_dma.config import SwitchDmaConfig, preset
from hw.switch_dma.registers import INTERRUPTS, register_map
from sim.rtl.switch.orders import dtype_of, fold
from tb.common.streams import number, pause_channels, reset
from tb.runner import parameters
from tb.switch.endpoint import Header, LinkEnd, Words, words_of

MEMBERS = 3
OWN = 1
MEMORY_BYTES = 1 << 16
SOURCE, DESTINATION = 0x1000, 0x8000
_NO_NOTICE = {"epoch": 0, "cause": AbortCause.NONE, "origin": 0, "fresh": 0, "settled": 0}


class Network(LinkEnd):
    """A switch and the other members of region 0, as far as the endpoint sees them.

    For each address it draws the outcome of its table: the complete sum comes as a RESULT, or its
    parts as PARTIALs, from which the endpoint, as home, has to make the RESULT.

    For pull, the others load the blocks that they are requesters of once the contract is complete,
    in any order that the waves permit, and answer the endpoint's loads by one or more RESPONSEs.
    """

    def __init__(
        self, dut: Any, config: SwitchDmaConfig, rng: random.Random, *, gaps: float, stalls: float
    ) -> None:
        super().__init__(config, rng, gaps=gaps)
        self.dma = config
        self.dut, self.stalls = dut, stalls
        self.held = [0] * CLASSES
        self.epoch = 0
        self.base = 0  # number of the contract of the present all-reduce
        self.op = ReduceOp.SUM_F32
        self.operands: dict[int, list[Words]] = {}  # of the other members, by block
        self.own_operands: list[Words] = []
        # Function that alters the contract.
        self.alter: Callable[[Words], Words] | None = None
        self.sums: dict[int, Words] = {}  # address -> sum that the endpoint must send
        self.notices: list[dict[str, Any]] = []
        self.greeted = False  # the others have answered the first notice of the endpoint
        self.results = 0
        self.pull = False
        self.finished: set[int] = set()  # numbers of blocks whose results were sent
        self.loads: list[int] = []  # numbers of blocks that the others are still to load
        # address -> requester and tag of a load that is not answered
        self.unanswered: dict[int, tuple[int, int]] = {}
        self.loaded = 0
        self.own = False  # the endpoint's own operands travel, too

    @property
    def others(self) -> list[int]:
        return [k for k in range(MEMBERS) if k != OWN]

    # ---- Packets.

    def queue(self, kind: Kind, words: Words | tuple[()], **fields: Any) -> None:
        super().queue(kind, words, **{"epoch": self.epoch & 7, **fields})

    def tell(self, epoch: int, *, cause: AbortCause = AbortCause.NONE) -> None:
        """Send notices of all other members, which have heard from all others."""
        self.epoch = epoch
        self.loads.clear()
        for source in self.others:
            told = {"epoch": epoch, "cause": cause, "origin": source, "fresh": 0, "settled": 1}
            self.queue(Kind.SYNC, (), source=source, **notice_fields(told))

    def heard(self, header: Header) -> None:
        """Check a notice of the endpoint, and answer it."""
        told = {name: header[name] for name in notice_fields(_NO_NOTICE)}
        epoch = header["address"] | (header["tag"] & 15) << 28
        fresh, settled = header["count"] & 1, header["count"] >> 1
        same: dict[str, Any] = {
            "epoch": epoch, "cause": AbortCause(header["tag"] >> 4),
            "origin": header["destination"], "fresh": fresh, "settled": settled,
        }
        assert notice_fields(same) == told and not header["poison"]
        self.notices.append(same)
        if fresh:  # the switch answers in its name
            answer = {"epoch": epoch, "cause": AbortCause.RESET, "origin": OWN, "fresh": 0,
                      "settled": 0}
            self.queue(Kind.SYNC, (), source=OWN, **notice_fields(answer))
        elif not self.greeted:
            self.greeted = True
            self.tell(epoch)

    def occupied(self) -> list[int]:
        return self.held

    def take(self, header: Header, flits: list[int]) -> None:
        kind = Kind(header["kind"])
        assert header["region"] == 0 and header["source"] == OWN
        if kind is Kind.SYNC:
            self.heard(header)
            return
        if header["epoch"] != self.epoch & 7:
            return
        if kind is Kind.LOAD:
            self.respond(header)
            return
        words = words_of(flits, dtype_of(ReduceOp(header["op"]))).copy()
        if kind is Kind.RESPONSE:
            self.complete(header, words)
            return
        if kind is Kind.RESULT:
            wanted = self.sums.pop(header["address"])
            assert header["count"] == MEMBERS and words.tobytes() == wanted.tobytes()
            self.results += 1
            self.finish(self.number_of(header))
            return
        assert kind is Kind.PUSH and header["count"] == 1
        assert not self.pull or self.number_of(header) == self.base, "an operand was pushed"
        self.reduce(header, words)

    def number_of(self, header: Header) -> int:
        number = header["address"] // self.dma.payload_flits
        return number & (1 << self.dma.number_bits) - 1

    # ---- Pull.

    def respond(self, header: Header) -> None:
        """Answer a load of the endpoint."""
        number = self.number_of(header)
        assert self.pull and self.base in self.finished, "a load before all have begun"
        assert number % MEMBERS == OWN, "it is not the endpoint's turn"
        assert header["count"] == (MEMBERS if self.own else MEMBERS - 1)
        others = list(self.operands[number - self.base - 1])
        op = ReduceOp(header["op"])
        self.sums[header["address"]] = self.folded(op, [*others, self.operand(number)])
        parts = [others[:1], others[1:]] if self.rng.random() < 0.5 else [others]
        fields = {name: header[name] for name in ("op", "region", "address", "tag")}
        if self.own:
            self.unanswered[header["address"]] = OWN, header["tag"]
            self.queue(Kind.LOAD, (), source=OWN, count=MEMBERS, **fields)
        for part in parts:
            self.queue(Kind.RESPONSE, self.folded(op, part), count=len(part), destination=OWN,
                       source=0, **fields)

    def load(self) -> None:
        """Perhaps send a load of another member, for a block within its waves."""
        waves = self.dma.waves
        size = self.dma.wave_blocks
        first = self.base
        while first in self.finished:
            first += 1
        near = [n for n in self.loads if n // size < first // size + waves]
        if near and self.rng.random() < 0.2:
            number = self.rng.choice(near)
            self.loads.remove(number)
            tag = self.rng.randrange(256)
            address = ((self.epoch & 7) << self.dma.number_bits | number)
            address *= self.config.payload_flits
            self.unanswered[address] = number % MEMBERS, tag
            self.queue(Kind.LOAD, (), op=self.op.value, region=0, address=address, tag=tag,
                       source=number % MEMBERS, count=MEMBERS - self.rng.randrange(2))

    def complete(self, header: Header, words: Words) -> None:
        """Take an answer of the endpoint: its requester has all operands and sends the result."""
        requester, tag = self.unanswered.pop(header["address"])
        assert header["destination"] == requester and header["tag"] == tag
        assert header["count"] == 1 and header["poison"] == 0
        number = self.number_of(header)
        assert words.tobytes() == self.operand(number).tobytes()
        fields = {name: header[name] for name in ("op", "region", "address")}
        if requester == OWN:
            self.queue(Kind.RESPONSE, words, count=1, destination=OWN, source=OWN, tag=tag,
                       **fields)
            return
        self.loaded += 1
        operands = [words, *self.operands[number - self.base - 1]]
        self.queue(Kind.RESULT, self.folded(ReduceOp(header["op"]), operands), count=MEMBERS,
                   source=requester, **fields)
        self.finish(number)

    def operand(self, number: int) -> Words:
        """The endpoint's own operand."""
        return self.own_operands[number - self.base - 1]

    def finish(self, number: int) -> None:
        """Note that the result of a block was sent; after the contract's, others begin to load."""
        self.finished.add(number)
        if self.pull and number == self.base:
            last = self.base + len(self.operands)
            self.loads = [n for n in range(self.base + 1, last + 1) if n % MEMBERS != OWN]

    def reduce(self, header: Header, own: Words) -> None:
        """Reduce an operand with those of the others as tables do: to a RESULT or two PARTIALs."""
        op = ReduceOp(header["op"])
        block = self.number_of(header) - self.base
        if block == 0:
            operands = [own, own.copy(), own.copy()]
            if self.alter is not None:
                operands[2] = self.alter(own)
        else:
            operands = [own, *self.operands[block - 1]]
        self.rng.shuffle(operands)
        fields = {"op": op.value, "region": 0, "address": header["address"]}
        cut = self.rng.randrange(MEMBERS)
        if cut == 0:
            self.queue(Kind.RESULT, self.folded(op, operands), count=MEMBERS, source=0, **fields)
            self.finish(self.number_of(header))
            return
        parts = [self.folded(op, each) for each in (operands[:cut], operands[cut:])]
        for part, count in zip(parts, (cut, MEMBERS - cut)):
            self.queue(Kind.PARTIAL, part, count=count, destination=OWN, source=OWN, **fields)
        self.sums[header["address"]] = self.folded(op, parts)

    @staticmethod
    def folded(op: ReduceOp, operands: Sequence[Words]) -> Words:
        total = operands[0]
        for each in operands[1:]:
            total = fold(op, total, each)
        return total

    # ---- The link, sampled between two edges.

    def step(self) -> None:
        port = {name: getattr(self.dut, f"link_0_{name}")
                for name in ("rx_valid", "rx_payload", "rx_credit", "tx_valid", "tx_payload",
                             "tx_credit")}
        if number(port["tx_valid"].value):
            self.receive(number(port["tx_payload"].value))
        self.paid(number(port["rx_credit"].value))
        freed = 0
        for k in range(CLASSES) if not self.mutes() else ():
            if self.due[k]:
                self.due[k] -= 1
                freed |= 1 << k
            elif self.held[k] and self.rng.random() >= self.stalls:
                self.held[k] -= 1
                freed |= 1 << k
        port["tx_credit"].value = freed
        self.load()
        flit = self.send()
        port["rx_valid"].value = flit is not None
        port["rx_payload"].value = 0 if flit is None else flit

    def arrived(self, header: Header, flits: list[int]) -> None:
        k = header["kind"] & 3
        self.held[k] += 1
        assert self.held[k] <= self.config.credits, "sent without a credit"
        self.take(header, flits)


class Bench:
    """The endpoint with its network, memory and host."""

    def __init__(self, dut: Any, *, gaps: float, stalls: float) -> None:
        self.dut = dut
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.config = preset(parameters()["preset"])
        self.map = register_map(self.config)
        self.network = Network(dut, self.config, self.rng, gaps=gaps, stalls=stalls)
        self.memory = MemoryRegion(MEMORY_BYTES)
        self.bus = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "csr"), dut.clk, dut.rst)
        self.blocks = 0  # of the present all-reduce

    @classmethod
    async def ready(
        cls, dut: Any, *, gaps: float = 0.3, stalls: float = 0.6, pauses: float = 0.3
    ) -> Self:
        for name in ("rx_valid", "rx_payload", "tx_credit"):
            getattr(dut, f"link_0_{name}").value = 0
        Clock(dut.clk, 2, unit="ns").start()
        bench = cls(dut, gaps=gaps, stalls=stalls)
        space = AddressSpace(1 << bench.config.address_bits)
        space.register_region(bench.memory, 0)
        slave = AxiSlave(AxiBus.from_prefix(dut, "mem_0"), dut.clk, dut.rst, target=space)
        for bus in (bench.bus, slave):
            pause_channels(bus, pauses, bench.rng)
        await reset(dut)
        cocotb.start_soon(bench.links())
        await bench.write("node", endpoint=OWN, members=MEMBERS)
        await bench.write("interrupt_enable", **dict.fromkeys(INTERRUPTS, 1))
        await bench.write("control", join=1)
        while not (await bench.read("status"))["ready"]:
            pass
        while not bench.network.notices[-1]["settled"]:
            await ClockCycles(dut.clk, 10)
        told = [(each["fresh"], each["settled"]) for each in bench.network.notices]
        assert told == [(1, 0), (0, 0), (0, 1)]
        return bench

    async def links(self) -> None:
        while True:
            await FallingEdge(self.dut.clk)
            self.network.step()

    async def write(self, name: str, **fields: Any) -> None:
        word = self.map.registers[name].pack(**fields)
        answer = await self.bus.write(self.map.offset(name), word.to_bytes(4, "little"))
        assert answer.resp == AxiResp.OKAY

    async def read(self, name: str, index: int | None = None) -> dict[str, int]:
        word = await self.bus.read_dword(self.map.offset(name, index))
        return self.map.registers[name].unpack(word)

    async def interrupted(self) -> set[str]:
        """Wait for the interrupt, acknowledge it and return its causes."""
        while not number(self.dut.irq.value):
            await FallingEdge(self.dut.clk)
        await ClockCycles(self.dut.clk, 20)
        causes = {name for name, bit in (await self.read("interrupt")).items() if bit}
        await self.write("interrupt", **dict.fromkeys(causes, 1))
        return causes

    async def start(
        self, op: ReduceOp, elements: int, *, tag: int = 0, pull: bool = False
    ) -> Words:
        """Put operands into memory and give the command; return the expected result, which is
        exact in any order."""
        rng = np.random.default_rng(self.rng.randrange(1 << 32))
        size = self.config.block_elements
        blocks = -(-elements // size)
        data: Words = rng.integers(-1000, 1000, (MEMBERS, blocks * size)).astype(dtype_of(op))
        data[:, elements:] = 0
        self.memory.mem[SOURCE : SOURCE + 4 * elements] = data[0][:elements].tobytes()
        self.memory.mem[DESTINATION : DESTINATION + 4 * blocks * size + 64] = (
            b"\xa5" * (4 * blocks * size + 64)
        )
        parts = [[each[k * size : (k + 1) * size] for each in data] for k in range(blocks)]
        network = self.network
        network.pull, network.op = pull, op
        network.operands = {k: each[1:] for k, each in enumerate(parts)}
        network.own_operands = [each[0] for each in parts]
        await self.write("source_low", value=SOURCE)
        await self.write("destination_low", value=DESTINATION)
        await self.write("elements", value=elements)
        await self.write("command", tag=tag, op=op, pull=int(pull))
        self.blocks = blocks
        return Network.folded(op, list(data[:, :elements]))

    def check(self, wanted: Words) -> None:
        end = DESTINATION + 4 * len(wanted)
        assert bytes(self.memory.mem[DESTINATION:end]) == wanted.tobytes()
        assert bytes(self.memory.mem[end : end + 64]) == b"\xa5" * 64
        assert not self.network.sums and not self.network.unanswered and not self.network.loads
        self.network.base += 1 + self.blocks

    async def all_reduce(
        self, op: ReduceOp, elements: int, *, tag: int = 0, pull: bool = False
    ) -> None:
        wanted = await self.start(op, elements, tag=tag, pull=pull)
        assert await self.interrupted() == {"done"}
        self.check(wanted)

    async def all_reduce_despite_drops(self, op: ReduceOp, elements: int) -> None:
        """Run an all-reduce during which packets are dropped."""
        wanted = await self.start(op, elements)
        causes = await self.interrupted()
        while "done" not in causes:
            assert causes == {"dropped"}
            causes = await self.interrupted()
        self.check(wanted)

    async def after_abort(self, epoch: int, *, told: bool = False, pull: bool = False) -> None:
        """Bring all to the later epoch; the next all-reduce must work."""
        network = self.network
        network.alter, network.base = None, 0
        for each in (network.sums, network.finished, network.loads, network.unanswered):
            each.clear()
        if not told:
            network.tell(epoch)
        while not (await self.read("status"))["ready"]:
            pass
        assert (await self.read("epoch"))["value"] == epoch
        while network.notices[-1] != {**network.notices[-1], "epoch": epoch, "settled": 1}:
            await ClockCycles(self.dut.clk, 10)
        await ClockCycles(self.dut.clk, 200)
        await self.write("interrupt", **dict.fromkeys(INTERRUPTS, 1))
        await self.all_reduce(ReduceOp.SUM_F32, 150, pull=pull)


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(
    (("gaps", "stalls", "pauses"), [(0.0, 0.0, 0.0), (0.4, 0.8, 0.4)]),
    ("mode", ["push", "pull", "whole"]),
)
async def all_reduces_of_all_kinds(
    dut: Any, gaps: float, stalls: float, pauses: float, mode: str
) -> None:
    bench = await Bench.ready(dut, gaps=gaps, stalls=stalls, pauses=pauses)
    bench.network.own = mode == "whole"
    await bench.write("pull", own=int(mode == "whole"))
    for number_, op in enumerate(ReduceOp):
        await bench.all_reduce(op, 32 * 9 + 5 * number_, tag=number_, pull=mode != "push")
    assert bench.network.results > 0
    assert (bench.network.loaded > 0) == (mode != "push")
    assert (await bench.read("completed")) == {"count": 4, "error": 0, "tag": 3}
    await ClockCycles(dut.clk, 60)
    assert number(dut.idle.value) == 1 and (await bench.read("status"))["idle"] == 1
    assert bench.network.credits == [bench.config.buffer_packets] * CLASSES


@cocotb.test(timeout_time=200, timeout_unit="us")
async def bad_packets_are_dropped_and_the_others_pass(dut: Any) -> None:
    bench = await Bench.ready(dut)
    network = bench.network
    zeros = np.zeros(bench.config.block_elements, np.int32)
    sound = {"op": 3, "count": MEMBERS, "source": 0}
    far = 8 << 10
    network.queue(Kind.RESULT, zeros, **sound, address=far)  # unknown
    network.queue(Kind.RESULT, zeros, **sound, address=far, region=5)
    network.queue(Kind.RESULT, zeros, **{**sound, "epoch": 3}, address=far)
    network.queue(Kind.PARTIAL, zeros, **{**sound, "count": 1}, destination=0, address=far)
    network.queue(Kind.PARTIAL, zeros, **{**sound, "count": 9}, destination=OWN, address=far)
    network.queue(Kind.PARTIAL, zeros, **{**sound, "count": 1}, destination=OWN, address=far)
    network.queue(Kind.RESPONSE, zeros, **{**sound, "count": 1}, destination=OWN, address=0)
    network.queue(Kind.RESULT, zeros, **sound, address=far)
    network.queues[2][-1] = network.queues[2][-1][:-2]  # truncated by the next one
    network.queue(Kind.RESULT, zeros, **sound, address=far)  # unknown
    network.queue(Kind.LOAD, (), **sound, address=far)  # unknown: nobody pulls
    network.queue(Kind.LOAD, (), **{**sound, "epoch": 3}, address=far)
    network.queue(Kind.LOAD, (), **sound, address=far, region=5)
    await bench.all_reduce_despite_drops(ReduceOp.SUM_I32, 300)
    names = {"unknown": 5, "region": 2, "stale": 2, "misled": 1, "excess": 1, "truncated": 1,
             "damaged": 0, "overflow": 0}
    for name, count in names.items():
        assert (await bench.read(f"dropped_{name}", 0))["count"] == count, name
    network.queue(Kind.RESULT, zeros, **sound)
    network.queues[2][-1][0] ^= 1 << 50
    await ClockCycles(dut.clk, 100)
    assert (await bench.read("dropped_damaged", 0))["count"] == 1
    for _ in range(2 * bench.config.buffer_packets):  # a wrong kind here, but the credit comes back
        network.queue(Kind.PUSH, zeros, **sound)
    await ClockCycles(dut.clk, 1000)
    assert not any(network.queues)
    damaged = (await bench.read("dropped_damaged", 0))["count"]
    assert damaged == 1 + 2 * bench.config.buffer_packets


@cocotb.test(timeout_time=200, timeout_unit="us")
async def another_contract_aborts(dut: Any) -> None:
    bench = await Bench.ready(dut)

    def longer(words: Words) -> Words:
        other = words.copy().view(np.uint32)
        other[0] += 1
        other[1] += 1
        return other.view(np.float32)

    bench.network.alter = longer
    await bench.start(ReduceOp.SUM_F32, 100)
    assert "aborted" in await bench.interrupted()
    assert (await bench.read("abort"))["cause"] == AbortCause.DISAGREEMENT.value
    await bench.after_abort(1)


@cocotb.test(timeout_time=200, timeout_unit="us")
async def a_partial_without_a_place_aborts(dut: Any) -> None:
    bench = await Bench.ready(dut)
    zeros = np.zeros(bench.config.block_elements, np.int32)
    for number_ in (3, 3 + bench.config.slots):
        bench.network.queue(Kind.PARTIAL, zeros, op=3, count=1, source=0, destination=OWN,
                            address=number_ * bench.config.payload_flits)
    assert await bench.interrupted() == {"aborted"}
    assert await bench.read("abort") == {"cause": AbortCause.OVERFLOW.value, "endpoint": OWN}
    await bench.after_abort(1)


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(pull=[False, True])
async def a_later_epoch_is_followed(dut: Any, pull: bool) -> None:
    bench = await Bench.ready(dut)
    await bench.start(ReduceOp.SUM_F32, 2000, pull=pull)
    await ClockCycles(dut.clk, 300)
    bench.network.tell(7, cause=AbortCause.WATCHDOG)
    assert "aborted" in await bench.interrupted()
    assert await bench.read("abort") == {"cause": AbortCause.WATCHDOG.value, "endpoint": 0}
    await bench.after_abort(7, told=True, pull=pull)


@cocotb.test(timeout_time=200, timeout_unit="us")
async def memory_errors_are_told(dut: Any) -> None:
    bench = await Bench.ready(dut)
    await bench.write("memory_end_low", value=MEMORY_BYTES + (1 << 14))
    await bench.write("elements", value=64)
    await bench.start(ReduceOp.SUM_I32, 64)
    assert await bench.interrupted() == {"done"}
    bench.network.base += 3
    await bench.write("destination_low", value=MEMORY_BYTES)  # there is no memory
    await bench.write("command", tag=9, op=ReduceOp.SUM_I32)
    causes = set()
    while "done" not in causes:
        causes |= await bench.interrupted()
    assert causes == {"done", "memory", "invalid"}
    assert await bench.read("invalid") == {"read": 0, "write": 1, "tag": 9, "count": 1}

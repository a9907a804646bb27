# SPDX-License-Identifier: Apache-2.0
"""Push and pull through an emitted switch, with pauses on links and credits that come late."""

import random
from collections import deque
from typing import Any, Self, TypeAlias

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from hw.fp.ops import ReduceOp
from hw.switch.config import preset
from hw.switch.packet import CLASSES, Kind, encode
from hw.switch.registers import register_map
from sim.rtl.switch.orders import dtype_of
from tb.common.streams import number, pause_channels, reset
from tb.runner import parameters
from tb.switch.endpoint import START, Endpoint, Words, payload

LATENCY_CYCLES = 3
QUIET_CYCLES = 300

Operands: TypeAlias = dict[int, tuple[ReduceOp, Words]]
"""Operation and operands, one row per endpoint, by address."""


class Bench:
    """A switch with an endpoint at every port, all of them members of region 0."""

    def __init__(self, dut: Any, *, gaps: float, stalls: float) -> None:
        self.dut = dut
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.config = preset(parameters()["preset"])
        self.map = register_map(self.config)
        self.ends = [
            Endpoint(k, self.config, expected={0: self.config.ports}, rng=self.rng, gaps=gaps,
                     stalls=stalls)
            for k in range(self.config.ports)
        ]
        self.arriving: list[deque[int | None]] = [
            deque([None] * LATENCY_CYCLES) for _ in self.ends
        ]
        self.given_back = [deque([0] * LATENCY_CYCLES) for _ in self.ends]
        self.moved = 0
        self.cycle = 0
        self.bus = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "csr"), dut.clk, dut.rst)

    @classmethod
    async def ready(cls, dut: Any, *, gaps: float = 0.3, stalls: float = 0.6) -> Self:
        for k in range(preset(parameters()["preset"]).ports):
            for name in ("rx_valid", "rx_payload", "tx_credit"):
                getattr(dut, f"link_{k}_{name}").value = 0
        Clock(dut.clk, 2, unit="ns").start()
        bench = cls(dut, gaps=gaps, stalls=stalls)
        pause_channels(bench.bus, 0.3, bench.rng)
        await reset(dut)
        ports = bench.config.ports
        await bench.write("region", 0, valid=1, expected=ports)
        await bench.write("targets", 0, ports=(1 << ports) - 1)
        for row in range(bench.config.homes):
            await bench.write("home", row, endpoint=row % ports)
        for k in range(ports):
            await bench.write("route", k, valid=1, local=1, port=k)
            await bench.write("behind", k, members=1)
        await bench.write("timeout", cycles=100)
        await bench.write("interrupt_enable", dropped=1)
        return bench

    async def write(self, name: str, index: int | None = None, **fields: int) -> None:
        word = self.map.registers[name].pack(**fields)
        answer = await self.bus.write(self.map.offset(name, index), word.to_bytes(4, "little"))
        assert answer.resp == AxiResp.OKAY

    async def read(self, name: str, index: int | None = None) -> dict[str, int]:
        word = await self.bus.read_dword(self.map.offset(name, index))
        return self.map.registers[name].unpack(word)

    async def run(self) -> None:
        """Run until nothing has moved for some time; outputs are sampled between two edges."""
        last = self.cycle
        while self.cycle - last < QUIET_CYCLES:
            await FallingEdge(self.dut.clk)
            before = self.moved
            for k, end in enumerate(self.ends):
                self.step(k, end)
            self.cycle += 1
            if self.moved != before:
                last = self.cycle

    async def finish(self, operands: Operands) -> None:
        """Run, and check that exactly the right results are left."""
        await self.run()
        self.check(operands)
        assert number(self.dut.idle.value) == 1
        assert number(self.dut.irq.value) == 0

    def step(self, k: int, end: Endpoint) -> None:
        def port(name: str) -> Any:
            return getattr(self.dut, f"link_{k}_{name}")

        shown = number(port("tx_payload").value) if number(port("tx_valid").value) else None
        self.arriving[k].append(shown)
        self.given_back[k].append(number(port("rx_credit").value))
        flit = end.send()
        port("rx_valid").value = flit is not None
        port("rx_payload").value = 0 if flit is None else flit
        port("tx_credit").value = end.freed()
        flit_in = self.arriving[k].popleft()
        if flit_in is not None:
            end.receive(flit_in)
        end.paid(self.given_back[k].popleft())
        self.moved += (flit is not None) + (shown is not None)

    def draw(self, blocks: int) -> Operands:
        """Operands of every endpoint for each block, by address."""
        rng = np.random.default_rng(cocotb.RANDOM_SEED)
        words = self.config.payload_bytes // 4
        operands: Operands = {}
        for block in range(blocks):
            op = (ReduceOp.SUM_I32, ReduceOp.MAX_F32, ReduceOp.SUM_F32)[block % 3]
            # Integers small enough for exact sums in binary32, in any order.
            data: Words = rng.integers(-1000, 1000, (len(self.ends), words)).astype(dtype_of(op))
            operands[block * self.config.payload_flits] = op, data
        return operands

    def push_all(self, blocks: int) -> Operands:
        """Every endpoint pushes an operand for each block, in an order of its own."""
        rng = np.random.default_rng(cocotb.RANDOM_SEED)
        operands = self.draw(blocks)
        for k, end in enumerate(self.ends):
            for block in rng.permutation(blocks):
                address = int(block) * self.config.payload_flits
                op, data = operands[address]
                end.push(op, 0, address, data[k])
        return operands

    def pull_all(self, blocks: int) -> Operands:
        """Every endpoint has an operand of each block in its memory, and loads its share."""
        operands = self.draw(blocks)
        for block, (address, (op, data)) in enumerate(operands.items()):
            for k, end in enumerate(self.ends):
                end.memory[0, address] = data[k]
            requester = self.ends[block % len(self.ends)]
            requester.load(op, 0, address, own=block % 3 != 0, tag=block)
        return operands

    def check(self, operands: Operands) -> None:
        for end in self.ends:
            assert set(end.results) == {(0, address) for address in operands}
            for address, (op, data) in operands.items():
                total = data.max(axis=0) if op is ReduceOp.MAX_F32 else data.sum(axis=0)
                assert np.array_equal(end.results[0, address][0], total), (end.number, address)
            assert end.credits == [self.config.buffer_packets] * CLASSES


@cocotb.test(timeout_time=60, timeout_unit="us")
@cocotb.parametrize((("gaps", "stalls"), [(0.0, 0.0), (0.4, 0.8)]))
async def every_member_gets_every_sum(dut: Any, gaps: float, stalls: float) -> None:
    bench = await Bench.ready(dut, gaps=gaps, stalls=stalls)
    operands = bench.push_all(15)
    await bench.finish(operands)
    assert (await bench.read("evicted"))["count"] > 0
    assert (await bench.read("status"))["idle"] == 1


@cocotb.test(timeout_time=60, timeout_unit="us")
@cocotb.parametrize((("gaps", "stalls"), [(0.0, 0.0), (0.4, 0.8)]))
async def every_member_gets_every_sum_that_is_pulled(dut: Any, gaps: float, stalls: float) -> None:
    bench = await Bench.ready(dut, gaps=gaps, stalls=stalls)
    await bench.write("timeout", cycles=0)
    operands = bench.pull_all(24)
    await bench.finish(operands)
    assert (await bench.read("stalled"))["count"] > 0
    assert (await bench.read("completed"))["count"] == 24


@cocotb.test(timeout_time=60, timeout_unit="us")
async def bad_packets_are_dropped_and_the_others_pass(dut: Any) -> None:
    bench = await Bench.ready(dut)
    operands = bench.push_all(9)
    zeros = payload(np.zeros(bench.config.payload_bytes // 4, np.int32))
    sound = {"kind": Kind.PUSH, "op": 3, "count": 1}
    for k, fields in enumerate(({"region": 1}, {"address": 4}, {"count": 9})):
        header = encode({**sound, "address": 1 << 20, **fields})
        bench.ends[k].queues[0].insert(2, [header | START, *zeros])
    # A load in the name of another endpoint, and one of an impossible number of operands.
    for fields in ({"source": 3, "count": 3}, {"source": 1, "count": 2}):
        header = encode({"kind": Kind.LOAD, "op": 3, **fields})
        bench.ends[1].queues[0].insert(4, [header | START])

    await bench.run()

    bench.check(operands)
    for name in ("region", "alignment", "excess", "route", "count"):
        assert (await bench.read(f"dropped_{name}"))["count"] == 1
    assert number(dut.irq.value) == 1
    await bench.write("interrupt", dropped=1)
    assert number(dut.irq.value) == 0

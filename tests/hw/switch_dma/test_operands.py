# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Operands on their way from memory to packets: limits that are out of range, and an early end."""

import random
from dataclasses import replace

import pytest
from amaranth.utils import exact_log2

from hw.common.testing import simulate
from hw.fp.ops import ReduceOp
from hw.switch.config import preset as switch_preset
from hw.switch.packet import HEADER
from hw.switch_dma.config import preset
from hw.switch_dma.operands import Operands
from tb.switch_dma.fabric import AllReduce, flat, join
from tests.hw.axi_memory import AXIMemory

SWITCH = replace(switch_preset("test"), trace=True)
DMA = replace(preset("test"), trace=True)
QUIET = 700


@pytest.fixture(params=["push", "pull"])
def mode(request):
    """How operands are reduced."""
    return request.param


def _cycles(mode, size_log2, outstanding):
    """Run an all-reduce with waves of that size, and so many of them; returns its cycles."""
    system = flat(SWITCH, DMA, 2, mode=mode)
    for node in system.nodes:
        node.write("waves", size_log2=size_log2, outstanding=outstanding)
    join(system)
    job = AllReduce(system, ReduceOp.SUM_I32, 640)
    begin = system.cycle
    job.start()
    system.run(lambda: all(node.output("irq") for node in system.nodes))
    took = system.cycle - begin
    system.settle(quiet=QUIET)
    job.check()
    return took


def test_limits_out_of_range_are_the_nearest_there_are(mode):
    least = _cycles(mode, 0, 1)
    assert _cycles(mode, 0, 0) == least
    most = _cycles(mode, exact_log2(DMA.wave_blocks), DMA.waves)
    assert _cycles(mode, 15, 63) == most < least


def test_a_refused_read_of_what_was_given_up_spoils_nothing_else(mode):
    """Given up in the middle of the packet whose first beat was refused."""
    system = join(flat(SWITCH, DMA, 2, mode=mode), watchdog=20_000)
    reads = system.nodes[0]
    reads.node.pace_memory(200, ["r"])
    job = AllReduce(system, ReduceOp.SUM_I32, 500)
    reads.refuse(reads=range(job.source, job.source + 16))
    job.start()
    beats = 0
    while not beats:
        beats = system.ask("beats_read", 0, nodes=[reads])[0]["count"]
    assert beats < DMA.payload_flits
    reads.write("control", abort=1)
    system.settle(quiet=QUIET)

    assert all(each["aborted"] and not each["invalid"] for each in system.ask("interrupt"))
    reads.node.pace_memory()
    reads.node.heal_memory()
    for node in system.nodes:
        node.write("interrupt", aborted=1, memory=1)
    job = AllReduce(system, ReduceOp.SUM_F32, 300, seed=8)
    job.start()
    system.settle(quiet=QUIET)
    job.check(epoch=system.ask("epoch")[0]["value"])
    assert all(each["done"] and not each["invalid"] for each in system.ask("interrupt"))


CONFIG = preset("test")
FIRST_EPOCH, MEMBERS, BLOCKS = 2, 3, 5


class Flushed:
    """Operands that are pushed, flushed in cycle *at*, and pushed again in the epoch after it."""

    def __init__(self, at, hold):
        self.dut = Operands(CONFIG, link=0)
        self.memory = AXIMemory(self.dut.bus, size=1 << 13, latency=3, stall=0.2, seed=1)
        self.at, self.hold = at, hold
        self.packets = []  # epoch, cycle of the header, flits
        self.flushed = range(0)  # the cycles

    async def run(self, ctx):
        dut, rng = self.dut, random.Random(1)
        ctx.set(dut.member.node, {"endpoint": 1, "members": MEMBERS, "region": 2})
        ctx.set(dut.member.epoch, FIRST_EPOCH)
        ctx.set(dut.begin.ready, 1)
        job = {"final": BLOCKS - 1, "tail_beats": CONFIG.payload_flits - 1, "tail_lanes": 3,
               "op": ReduceOp.SUM_I32}
        ctx.set(dut.job.payload, job)
        cycle, jobs, quiet = 0, 0, 0
        while quiet < 60:
            # The second job waits at the door while the first one is given up.
            ctx.set(dut.job.valid, jobs == 0 or (jobs == 1 and cycle >= self.at))
            begins, ends = cycle == self.at, self.flushed and not ctx.get(dut.busy)
            if begins:
                ctx.set(dut.flush, 1)
                ctx.set(dut.member.epoch, FIRST_EPOCH + 1)
                self.flushed = range(cycle, cycle + 1)
            elif ctx.get(dut.flush):
                self.flushed = range(self.at, cycle + 1)
                ctx.set(dut.flush, not (ends and cycle >= self.at + self.hold))
            ctx.set(dut.o.ready, rng.random() < 0.7)
            _, _, taken, moved, flit = await ctx.tick().sample(
                dut.job.valid & dut.job.ready, dut.o.valid & dut.o.ready, dut.o.payload
            )
            jobs += taken
            if moved and flit.first:
                self.packets.append([HEADER.from_bits(flit.data).epoch, cycle, 0])
            if moved:
                self.packets[-1][2] += 1
                assert flit.last == (self.packets[-1][2] == 1 + CONFIG.payload_flits)
            quiet = 0 if moved or cycle <= self.at else quiet + 1
            cycle += 1
        assert jobs == 2 and not ctx.get(dut.busy)


def _flushed(at, hold):
    rig = Flushed(at, hold)
    simulate(rig.dut, rig.run, checks=[rig.memory.serve])
    return rig


@pytest.fixture(scope="module")
def headers():
    """Cycles in which headers leave unless there is a flush."""
    late = 400
    return [cycle for _, cycle, _ in _flushed(late, 2).packets if cycle < late]


@pytest.mark.parametrize("hold", [2, 8])
@pytest.mark.parametrize("packet, cycles", [
    *((packet, cycles) for packet in range(BLOCKS + 1) for cycles in (-1, 0)),
    *((1, cycles) for cycles in range(1, 25, 3)), (BLOCKS, CONFIG.payload_flits),
])
def test_a_flush_in_any_cycle_leaves_whole_packets_of_one_epoch_each(
    headers, packet, cycles, hold
):
    """What leaves until it is heard, a cycle later, is of the epoch before."""
    at = headers[packet] + cycles
    rig = _flushed(at, hold)

    assert (cycles == 0) == any(cycle == at for _, cycle, _ in rig.packets)
    assert all(flits == 1 + CONFIG.payload_flits for _, _, flits in rig.packets)
    for epoch, cycle, _ in rig.packets:
        assert epoch == FIRST_EPOCH + (cycle > at)
        assert cycle not in rig.flushed[1:]
    assert sum(epoch > FIRST_EPOCH for epoch, _, _ in rig.packets) == BLOCKS + 1

# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""An engine that has been given a command is busy until the command is complete."""

from dataclasses import replace

from hw.ace.config import preset
from hw.ace.data_path import DataPath
from hw.ace.port import Port
from hw.common.testing import simulate
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.ring import AceRing


def test_a_command_that_is_being_checked_keeps_the_engine_busy():
    cluster = AceRing("test", Surroundings(nodes=8, memory_bytes=1 << 16))
    statuses = []
    for node in cluster.system.nodes:
        cluster.start(node, Command(elements=8 * 64, destination=1 << 15))
        # The shards of eight ranks are looked at one by one, which takes longer than these reads.
        reads = [node.read(cluster.registers.offset("status")) for _ in range(4)]
        statuses.append(reads)
    cluster.system.run()
    layout = cluster.registers.registers["status"]
    for reads in statuses:
        for ticket in reads:
            status = layout.unpack(ticket.value)
            assert {name: value for name, value in status.items() if value} == {"outstanding": 1}


def test_a_port_is_busy_until_the_event_of_its_last_packet_is_taken():
    dut = Port(preset("test"))

    async def bench(ctx):
        ctx.set(dut.link.tx.tready, 1)
        ctx.set(dut.read.grant, 1)
        ctx.set(dut.command.p.length, 8)
        ctx.set(dut.command.valid, 1)
        while not ctx.get(dut.command.ready):
            await ctx.tick()
        await ctx.tick()
        ctx.set(dut.command.valid, 0)
        for _ in range(100):
            ctx.set(dut.link.tx.credit, ctx.get(dut.link.tx.tvalid & dut.link.tx.tuser))
            await ctx.tick()
            assert not ctx.get(dut.idle)
        assert ctx.get(dut.sent.valid)
        ctx.set(dut.sent.ready, 1)
        await ctx.tick().repeat(3)
        assert ctx.get(dut.idle), "all else has been idle"

    simulate(dut, bench)


def test_a_copy_keeps_the_data_path_busy_and_is_a_move():
    dut = DataPath(replace(preset("test"), partitions="phase", phases=1))

    async def bench(ctx):
        ctx.set(dut.command[-1].p, {"length": 8, "place": 8})
        ctx.set(dut.command[-1].valid, 1)
        await ctx.tick().until(dut.command[-1].ready)
        ctx.set(dut.command[-1].valid, 0)
        for _ in range(20):
            assert not ctx.get(dut.idle)
            assert ctx.get(dut.moves) == ctx.get(dut.sent[-1].valid)
            await ctx.tick()
        assert ctx.get(dut.moves)
        ctx.set(dut.sent[-1].ready, 1)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.idle) and not ctx.get(dut.moves)

    simulate(dut, bench)

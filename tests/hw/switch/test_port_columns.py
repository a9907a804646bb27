# SPDX-License-Identifier: Apache-2.0
"""Columns of the crossbar: each flit goes to the output that took its packet, and no other."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.select import index_of, select
from hw.common.testing import simulate
from hw.link.packet import FLIT_BITS
from hw.switch.packet import HEADER, decode
from hw.switch.port_columns import PortColumns

CYCLES = 400
LINK, UNIT = range(2)
BODY = (1 << FLIT_BITS) - 1 & ~(((1 << HEADER["checksum"].width) - 1) << HEADER["checksum"].offset)


class Schedule:
    """Packets of a port at random: by cycle who is granted, and whose flit comes to whom.

    A grant is for a flit three cycles later. The column that both outputs share has one packet at a
    time, and so has the link.
    """

    def __init__(self, ports, others, seed):
        rng = random.Random(seed)
        self.grants, self.comes = {}, {}  # (cycle, output) -> sender, (sender, first flit)
        free = {"column": 0, LINK: 0, UNIT: 0}
        for cycle in range(CYCLES):
            for output in rng.sample([LINK, UNIT], 2):
                sender = rng.randrange(ports + others if output == LINK else ports)
                uses = [output, *(["column"] if sender < ports else [])]
                if rng.random() < 0.3 or max(free[each] for each in uses) > cycle:
                    continue
                flits = rng.choice([1, 1, 2, 5])
                self.grants[cycle, output] = sender
                for k in range(flits):
                    self.comes[cycle + 3 + k, output] = sender, k == 0
                free.update(dict.fromkeys(uses, cycle + flits))


def run(ports, others, seed):
    """Drive columns by a schedule; compare every cycle of both outputs."""
    plan, rng = Schedule(ports, others, seed), random.Random(seed)
    dut = PortColumns(ports=ports, others=others)
    sent = {}  # (cycle, sender) -> flit

    async def bench(ctx):
        said = {}  # cycle -> header of a recount
        for cycle in range(CYCLES + 8):
            for sender in range(ports + others):
                sent[cycle, sender] = rng.getrandbits(FLIT_BITS)
                ctx.set(dut.flits[sender], sent[cycle, sender])
            link, unit = (plan.grants.get((cycle, output)) for output in (LINK, UNIT))
            ctx.set(dut.link_grant, 0 if link is None else 1 << link)
            ctx.set(dut.unit_grant, 0 if unit is None else 1 << unit)
            source = plan.comes.get((cycle, LINK))
            ctx.set(dut.second, source is not None and source[0] >= ports)
            before, unit = (plan.comes.get((cycle - 1, output)) for output in (LINK, UNIT))
            ctx.set(dut.valid, before is not None)
            ctx.set(dut.first, before is not None and before[1])
            # Nothing comes yet: a recount waits until its output is empty, and holds it.
            recounts = before is None and source is None and rng.random() < 0.3
            ctx.set(dut.recounts, recounts)
            header = rng.getrandbits(FLIT_BITS)
            ctx.set(dut.header.as_value(), header)
            if recounts:
                said[cycle] = header
            if unit is not None:
                assert ctx.get(dut.data) == sent[cycle - 1, unit[0]]
            # At the link a cycle later, headers of recounts another one.
            source = plan.comes.get((cycle - 2, LINK))
            assert ctx.get(dut.tx.valid) == (source is not None or cycle - 2 in said)
            if ctx.get(dut.tx.valid):
                first, flit = True, said.get(cycle - 2)
                if source is not None:
                    first, flit = source[1], sent[cycle - 2, source[0]]
                assert ctx.get(dut.tx.p.start) == first
                got = ctx.get(dut.tx.p.data)
                if first:
                    assert decode(got) is not None  # its checksum is right
                    assert got & BODY == flit & BODY
                else:
                    assert got == flit
            await ctx.tick()

    simulate(dut, bench)


@pytest.mark.parametrize("ports, others", [(2, 0), (3, 3), (18, 18)])
@pytest.mark.parametrize("seed", range(2))
def test_flits_go_where_their_packet_was_taken(ports, others, seed):
    run(ports, others, seed)


class Selected(wiring.Component):
    """One of *n* values by a bit for each."""

    def __init__(self, n):
        super().__init__({"which": In(n), "values": In(4).array(n), "o": Out(4), "index": Out(8)})

    def elaborate(self, platform):
        m = Module()
        index = index_of(self.which)
        m.d.sync += [self.index.eq(index), self.o.eq(select(index, list(self.values)))]
        return m


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 11])
def test_each_value_is_selected_by_its_number(n):
    dut = Selected(n)

    async def bench(ctx):
        for k in range(n):
            ctx.set(dut.values[k], k ^ 5)
        for k in range(n):
            ctx.set(dut.which, 1 << k)
            await ctx.tick()
            assert (ctx.get(dut.index), ctx.get(dut.o)) == (k, k ^ 5)
        ctx.set(dut.which, 0)
        await ctx.tick()
        assert ctx.get(dut.index) == 0

    simulate(dut, bench)

# SPDX-License-Identifier: Apache-2.0
"""Loads beside a model: whose turn it is, and what is answered, and when."""

import random

import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from hw.fp.ops import ReduceOp
from hw.switch.packet import HEADER, Kind, encode
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.loads import Loads
from hw.switch_dma.waves import WaveControl

OWN, EPOCH, LINK = 5, 3, 1
OP = ReduceOp.SUM_I32
CONFIG = SwitchDmaConfig(links=2, waves=4, wave_blocks=2, endpoints=8, address_bits=32)
BITS = CONFIG.number_bits


class Pair(Elaboratable):
    """Loads with the wave control that they ask."""

    def __init__(self):
        self.loads, self.waves = Loads(CONFIG, link=LINK), WaveControl(CONFIG)

    def elaborate(self, platform):
        m = Module()
        m.submodules.loads, m.submodules.waves = loads, waves = self.loads, self.waves
        connect(m, loads.answer, waves.answer)
        m.d.comb += [
            loads.next.number.eq(waves.begin.number),
            loads.next.begins.eq(waves.begin.take),
            loads.next.first.eq(waves.begin.first),
            waves.clear.eq(loads.flush),
        ]
        return m


class Rig:
    """Begins and ends blocks, brings loads, and collects what comes out."""

    def __init__(self, seed, *, members=3, rank=1, whole=0, pull=1):
        self.rng = random.Random(seed)
        self.members, self.rank, self.whole, self.pull = members, rank, whole, pull
        self.number = 0  # of the next block
        self.under_way = set()
        self.answered = set()
        self.job = (0, 0)  # number of its contract, blocks on this link
        self.arriving = []
        self.sent, self.own, self.answers = [], [], []
        self.dropped = {"stale": 0, "unknown": 0}
        self.cycles = 0

    def load(self, number, **fields):
        """A LOAD for a block, as another endpoint sends it."""
        address = (EPOCH << BITS | number % (1 << BITS)) * CONFIG.payload_flits
        return encode({"kind": Kind.LOAD, "op": OP.value, "region": 1, "address": address,
                       "tag": number * 7 % 256, "source": number % 5, "epoch": EPOCH,
                       "count": self.members - (number % 3 > 0), **fields})

    async def start(self, ctx, loads):
        ctx.set(loads.member.node, {"endpoint": OWN, "members": self.members, "region": 1})
        ctx.set(loads.rank, self.rank)
        ctx.set(loads.whole, self.whole)
        ctx.set(loads.member.epoch, EPOCH)

    async def begin(self, ctx, pair, blocks):
        """A job with *blocks* blocks on this link."""
        size = CONFIG.links * blocks + (LINK if self.rng.random() < 0.5 else LINK - 1)
        size = max(size, LINK)
        own = len(range(LINK, size, CONFIG.links))
        self.final = size - 1
        ctx.set(pair.loads.begun.p, {"final": self.final, "op": OP, "pull": self.pull})
        ctx.set(pair.loads.begun.valid, 1)
        ctx.set(pair.waves.begin.first, 1)
        ctx.set(pair.loads.next.block, LINK)
        await ctx.tick()
        ctx.set(pair.loads.begun.valid, 0)
        self.job = (self.number, own)

    async def cycle(self, ctx, pair, *, take=False, done=None, ready=0.7):
        """One cycle; a block is begun if it may be."""
        loads, waves = pair.loads, pair.waves
        self.cycles += 1
        assert self.cycles < 5000, "no end"
        contract, blocks = self.job
        more = self.number < contract + 1 + blocks
        ctx.set(waves.begin.take, 0)
        takes = take and more and ctx.get(waves.begin.ready)
        ctx.set(waves.begin.take, int(takes))
        if done is not None:
            for number in (waves.waited.number, waves.waited.over):
                ctx.set(number, done % (1 << BITS))
            assert ctx.get(waves.waited.known)
        ctx.set(waves.waited.done, int(done is not None))
        ctx.set(loads.i.valid, int(bool(self.arriving)))
        if self.arriving:
            ctx.set(loads.i.p, {"data": self.arriving[0], "first": 1, "last": 1})
        ctx.set(loads.o.ready, int(self.rng.random() < ready))
        ctx.set(loads.ask.ready, int(self.rng.random() < ready))
        if ctx.get(loads.o.valid) and ctx.get(loads.o.ready):
            self.sent.append(HEADER.from_bits(ctx.get(loads.o.p.data)))
        if ctx.get(loads.ask.valid) and ctx.get(loads.ask.ready):
            asked = ctx.get(loads.ask.p)
            number, block = asked.number, asked.block
            assert asked.tail == (block == self.final)
            if asked.own:
                self.own.append((number, block))
            else:
                self.answers.append((number, block, asked.requester, asked.tag))
        for name in self.dropped:
            self.dropped[name] += ctx.get(getattr(loads, name))
        taken = self.arriving and ctx.get(loads.i.ready)
        await ctx.tick()
        if taken:
            self.arriving.pop(0)
        ctx.set(waves.waited.done, 0)
        ctx.set(waves.begin.take, 0)
        if done is not None:
            self.under_way.discard(done)
        if takes:
            self.under_way.add(self.number)
            self.number += 1
            ctx.set(waves.begin.first, 0)
            ctx.set(loads.next.tail, self.place(self.number - 1) == self.final)
            ctx.set(loads.next.block, self.place(self.number))

    def place(self, number):
        """Of a block of the job in the vector."""
        return LINK + CONFIG.links * (number - self.job[0] - 1)


def simulate(bench):
    pair = Pair()
    simulator = Simulator(pair)
    simulator.add_clock(1e-9)

    async def run(ctx):
        ctx.set(pair.waves.window.size_log2, 1)
        ctx.set(pair.waves.window.outstanding, CONFIG.waves)
        await bench(ctx, pair)

    simulator.add_testbench(run)
    simulator.run()


@pytest.mark.parametrize("seed, members, rank, whole", [(1, 3, 1, 0), (2, 2, 0, 1), (3, 5, 4, 0)])
def test_every_block_of_its_turn_is_loaded_and_every_load_answered_once(seed, members, rank, whole):
    rig = Rig(seed, members=members, rank=rank, whole=whole)
    rng = rig.rng

    async def bench(ctx, pair):
        await rig.start(ctx, pair.loads)
        mine, wanted, bad = [], [], {"stale": 0, "unknown": 0}
        for _ in range(6):
            await rig.begin(ctx, pair, rng.randrange(1, 40))
            contract, blocks = rig.job
            numbers = list(range(contract + 1, contract + 1 + blocks))
            mine += [(n, rig.place(n)) for n in numbers if n % members == rank]
            others = [n for n in numbers if n % members != rank]
            loads = [(n, rig.load(n)) for n in others]
            wanted += [(n, rig.place(n), n % 5, n * 7 % 256) for n in others]
            first = True
            while rig.number < contract + 1 + blocks or rig.under_way or loads or rig.arriving:
                take = rng.random() < (0.2 if first else 0.6)
                answered = {each[0] for each in rig.answers} | {contract}
                answered |= {n for n, _ in mine if n < rig.number}
                # Loads come in any order within what others may have under way: the waves from
                # the first block on that is not answered here.
                if loads and not rig.arriving and not first:
                    oldest = min(n for n in numbers if n not in answered) >> 1
                    near = [each for each in loads if each[0] >> 1 < oldest + CONFIG.waves]
                    if near and rng.random() < 0.5:
                        each = rng.choice(near)
                        loads.remove(each)
                        rig.arriving.append(each[1])
                        if rng.random() < 0.8:
                            kind, header = wrong(rig, each[0])
                            # One that comes again is wrong behind the other, the rest anywhere.
                            behind = header == each[1] or rng.random() < 0.5
                            rig.arriving.insert(int(behind), header)
                            bad[kind] += 1
                # A block ends when its load was answered, or is this endpoint's own.
                ends = [n for n in rig.under_way if n in answered]
                done = rng.choice(ends) if ends and rng.random() < 0.3 else None
                await rig.cycle(ctx, pair, take=take, done=done)
                first = (first and contract in rig.under_way) or rig.number == contract
            while ctx.get(pair.loads.walking) or not ctx.get(pair.loads.empty):
                await rig.cycle(ctx, pair)
        for _ in range(20):
            await rig.cycle(ctx, pair)
        assert sorted(rig.answers) == sorted(wanted)
        assert rig.own == ([] if whole else mine)
        assert rig.dropped == bad
        numbers = [n for n, _ in mine]
        assert [each.address for each in rig.sent] == [
            (EPOCH << BITS | n) * CONFIG.payload_flits for n in numbers
        ]
        for each in rig.sent:
            assert (each.kind, each.source, each.region, each.op) == (Kind.LOAD, OWN, 1, OP.value)
            assert each.count == members - (not whole) and each.epoch == EPOCH

    simulate(bench)


def wrong(rig, number):
    """A load that must be dropped, and for which reason."""
    contract, blocks = rig.job
    other = number * 7 % 256 ^ 1
    return rig.rng.choice([
        ("stale", rig.load(number, epoch=EPOCH - 1)),
        ("unknown", rig.load(number)),  # again
        ("unknown", rig.load(number, op=0, tag=other)),
        ("unknown", rig.load(number, count=rig.members + 1, tag=other)),
        ("unknown", rig.load(number, count=rig.members - 2, tag=other)),
        ("unknown", rig.load(contract)),
        ("unknown", rig.load(contract + 1 + blocks)),  # beyond the vector
        ("unknown", rig.load(contract - 1)),
        ("unknown", rig.load(number + 100 * CONFIG.slots)),
    ])


def test_a_load_waits_for_its_block_and_those_behind_it_too():
    rig = Rig(1)

    async def bench(ctx, pair):
        await rig.start(ctx, pair.loads)
        await rig.begin(ctx, pair, 8)
        await rig.cycle(ctx, pair, take=True)
        rig.arriving = [rig.load(3), rig.load(2)]
        for _ in range(2):
            for _ in range(15):
                await rig.cycle(ctx, pair)
            assert not rig.answers
            await rig.cycle(ctx, pair, take=True)
        for _ in range(15):
            await rig.cycle(ctx, pair)
        assert not rig.answers and rig.number == 3
        await rig.cycle(ctx, pair, take=True)
        for _ in range(15):
            await rig.cycle(ctx, pair)
        assert [each[:2] for each in rig.answers] == [(3, rig.place(3)), (2, rig.place(2))]

    simulate(bench)


def test_nothing_is_loaded_or_answered_for_push():
    rig = Rig(1, pull=0)

    async def bench(ctx, pair):
        await rig.start(ctx, pair.loads)
        await rig.begin(ctx, pair, 6)
        for _ in range(7):
            await rig.cycle(ctx, pair, take=True)
        rig.arriving = [rig.load(2)]
        for _ in range(20):
            await rig.cycle(ctx, pair)
        assert not rig.sent and not rig.own and not rig.answers
        assert rig.dropped == {"stale": 0, "unknown": 1}

    simulate(bench)


def test_a_flush_forgets_turns_and_loads():
    rig = Rig(1)

    async def bench(ctx, pair):
        await rig.start(ctx, pair.loads)
        await rig.begin(ctx, pair, 8)
        rig.arriving = [rig.load(7)]
        for _ in range(6):
            await rig.cycle(ctx, pair, take=True)
        ctx.set(pair.loads.flush, 1)
        await ctx.tick()
        ctx.set(pair.loads.flush, 0)
        assert ctx.get(pair.loads.empty) and not ctx.get(pair.loads.walking)
        rig.number, rig.under_way, rig.sent, rig.own = 0, set(), [], []
        rig.answers.clear()
        await rig.begin(ctx, pair, 4)
        for _ in range(30):
            await rig.cycle(ctx, pair, take=True)
        places = [(n, rig.place(n)) for n in (1, 4)]
        assert rig.own == places[: len(rig.own)] and len(rig.sent) == len(rig.own)
        assert rig.own and not rig.answers

    simulate(bench)

# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""What a buffer at an input of the crossbar sends, in which order, and what it discards."""

import random
from dataclasses import dataclass, field

import pytest
from amaranth.sim import Simulator

from hw.switch.send_buffer import SendBuffer

FREE_FROM = 40


def order(most_passed):
    """Outputs of the packets in the order in which they leave: one for output 0, which is free from
    a cycle on, then others for output 1, as there is room for them."""
    buffer = SendBuffer(channels=1, outputs=2, packets=3, flits=2, passing=(0,),
                        most_passed=most_passed)
    left = []

    async def bench(ctx):
        store, first = buffer.store, True
        for cycle in range(3 * FREE_FROM):
            for name in ("valid", "first", "commit"):
                ctx.set(getattr(store, name), ctx.get(store.room[0]))
            ctx.set(store.targets, 1 if first else 2)
            first = first and not ctx.get(store.valid)
            ctx.set(buffer.available[0], 3 if cycle >= FREE_FROM else 2)
            ctx.set(buffer.grant, ctx.get(buffer.request))
            if ctx.get(buffer.grant):
                left.append((cycle, ctx.get(buffer.grant).bit_length() - 1))
            await ctx.tick()

    simulator = Simulator(buffer)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return left


@pytest.mark.parametrize("most_passed", [1, 4])
def test_the_oldest_packet_is_passed_only_so_often(most_passed):
    left = order(most_passed)
    outputs = [output for _, output in left]

    assert outputs[: most_passed + 1] == [1] * most_passed + [0]
    assert left[most_passed][0] == FREE_FROM + 1  # nobody goes until then
    assert outputs.count(1) > most_passed + 10


def test_it_is_passed_without_limit_for_outputs_that_have_stopped():
    buffer = SendBuffer(channels=1, outputs=3, packets=4, flits=2, passing=(0,), most_passed=2)
    left = []

    async def bench(ctx):
        store, number = buffer.store, 0
        for cycle in range(80):
            for name in ("valid", "first", "commit"):
                ctx.set(getattr(store, name), ctx.get(store.room[0]))
            ctx.set(store.targets, 0b101 if number == 0 else 0b010)
            number += ctx.get(store.valid)
            ctx.set(buffer.stopped[0], 0b001 if cycle < 40 else 0)
            ctx.set(buffer.available[0], 0b111 if cycle >= 50 else 0b110)
            ctx.set(buffer.grant, ctx.get(buffer.request))
            left.append(ctx.get(buffer.grant))
            await ctx.tick()

    simulator = Simulator(buffer)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()

    assert left[:41].count(0b010) > 10
    assert not any(left[41:51])  # it is late, and its output may take it soon
    assert left[51] == 0b001
    assert left[52:].count(0b010) > 4


CHANNELS, OUTPUTS, PACKETS, FLITS, ROWS = 2, 3, 3, 3, 2
PASSING = 1


@dataclass(eq=False)
class Packet:
    number: int
    channel: int
    targets: set
    row: int
    lasting: bool
    alone: bool
    rest: set = field(default_factory=set)
    killed: bool = False  # while it was here: it may have been discarded since

    def __post_init__(self):
        self.rest = set(self.targets)


class Scoreboard:
    """Drives a buffer at random and judges everything it sends. `kill` and `closed` come and go,
    or, with *level*, stay until nothing is held that they are for. With *unicast* every packet is
    for one output."""

    def __init__(self, seed, *, unicast=False):
        self.rng = random.Random(seed)
        self.unicast = unicast
        self.buffer = SendBuffer(
            channels=CHANNELS, outputs=OUTPUTS, packets=PACKETS, flits=FLITS, passing=(PASSING,),
            most_passed=2, rows=ROWS, kills=True, unicast=unicast,
        )
        self.held = [[] for _ in range(CHANNELS)]  # in order; discarded ones perhaps among them
        self.freed, self.discarded = [0] * CHANNELS, 0
        self.stored = []
        self.writing, self.flit = None, 0
        self.reads = None  # packet and flit that come next
        self.grants = []  # (channel, outputs, rows that were killed when it was chosen)
        self.kill = 0

    def write(self, ctx, begin):
        """A flit of a packet, if *begin* perhaps of a new one."""
        rng, store = self.rng, self.buffer.store
        ctx.set(store.valid, 0)
        ctx.set(store.commit, 0)
        if self.writing is None and begin:
            channel = rng.randrange(CHANNELS)
            ctx.set(store.channel, channel)
            if not ctx.get(store.room[channel]):
                return
            targets = {k for k in range(OUTPUTS) if rng.random() < 0.5} or {rng.randrange(OUTPUTS)}
            if self.unicast:
                targets = {rng.randrange(OUTPUTS)}
            self.writing = Packet(len(self.stored), channel, targets, rng.randrange(ROWS),
                                  rng.random() < 0.2, rng.random() < 0.3)
            self.flit = 0
        if self.writing is None or (self.flit and rng.random() < 0.2):
            return
        each = self.writing
        last = each.alone or self.flit == FLITS - 1
        ctx.set(store.valid, 1)
        ctx.set(store.first, self.flit == 0)
        ctx.set(store.commit, last)
        ctx.set(store.channel, each.channel)
        ctx.set(store.data, each.number << 8 | self.flit)
        numbers = [k if self.unicast else 1 << k for k in each.targets]
        ctx.set(store.targets, sum(numbers) if last else 0)
        ctx.set(store.row, each.row if last else rng.randrange(ROWS))
        ctx.set(store.lasting, each.lasting if last else 1)
        self.flit += 1
        if last:
            self.stored.append(each)
            self.held[each.channel].append(each)
            self.writing = None

    def _mark(self, kill, closed):
        for line in self.held:
            for each in line:
                if kill >> each.row & 1 and not each.lasting:
                    each.killed = True
                if each.rest & closed:
                    each.killed = True

    def judge(self, ctx, kill):
        """What is sent in this cycle, and asked for."""
        b = self.buffer
        asked = ctx.get(b.request)
        grant = {k for k in range(OUTPUTS) if asked >> k & 1 and self.rng.random() < 0.6}
        ctx.set(b.grant, sum(1 << k for k in grant))
        self.grants.append((ctx.get(b.channel), grant, self.kill))
        self.kill = kill
        if ctx.get(b.valid):
            data = ctx.get(b.flit.data)
            packet, flit = self.stored[data >> 8], data & 0xFF
            if ctx.get(b.flit.first):
                assert self.reads is None, "a packet has not ended"
                self._take(packet, next(g for g in reversed(self.grants[:-3]) if g[1]))
                self.reads = [packet, 0]
            assert self.reads == [packet, flit]
            last = packet.alone or flit == FLITS - 1
            assert ctx.get(b.flit.last) == last
            self.reads = None if last else [packet, flit + 1]
        for k in range(CHANNELS):
            self.freed[k] += ctx.get(b.freed) >> k & 1
        self.discarded += ctx.get(b.discarded)

    def _take(self, packet, grant):
        channel, outputs, kill = grant
        line = self.held[channel]
        assert packet in line, "sent once more, or by another channel"
        assert not (kill >> packet.row & 1 and not packet.lasting), "asked for though killed"
        assert outputs <= packet.rest, "an output gets a packet twice, or that of another"
        for older in line[: line.index(packet)]:
            overtaken = older.rest & outputs if channel == PASSING else older.rest
            assert older.killed or not overtaken, "out of order"
        packet.rest -= outputs
        if not packet.rest:
            line.remove(packet)

    def run(self, cycles, *, level=False):
        """Random traffic for *cycles*, then until nothing is left."""
        b, rng = self.buffer, self.rng
        kills = closes = rng.choice([0.02, 0.1])

        async def bench(ctx):
            kill, closed, quiet = 0, set(), 0
            for cycle in range(cycles + 400):
                ends = cycle >= cycles
                if ends:
                    kill, closed = 0, set()
                elif level:
                    held = ctx.get(b.holds)
                    kill = kill & held or (rng.random() < kills) << rng.randrange(ROWS) & held
                else:
                    kill = (rng.random() < kills) << rng.randrange(ROWS) | kill * rng.randrange(2)
                    closed = closed if rng.random() < 0.9 else set()
                    closed |= {rng.randrange(OUTPUTS)} if rng.random() < closes else set()
                ctx.set(b.kill, kill)
                ctx.set(b.closed, sum(1 << k for k in closed))
                rate = 1.0 if ends else 0.6
                for each in b.available:
                    free = {k for k in range(OUTPUTS) if rng.random() < rate} - closed
                    ctx.set(each, sum(1 << k for k in free))
                for line in self.held:  # what was committed before
                    for each in line:
                        if each.rest and not each.killed and not each.lasting:
                            assert ctx.get(b.holds) >> each.row & 1
                # A packet that is committed now is not asked about before two cycles have passed.
                self._mark(kill, closed)
                self.write(ctx, not ends)
                self.judge(ctx, kill)
                quiet = quiet + 1 if ends and not ctx.get(b.request) else 0
                await ctx.tick()
            assert quiet > 20
            assert ctx.get(b.empty) and not ctx.get(b.holds)

        simulator = Simulator(b)
        simulator.add_clock(1e-6)
        simulator.add_testbench(bench)
        simulator.run()
        for k in range(CHANNELS):
            assert self.freed[k] == sum(each.channel == k for each in self.stored)
        left = [each for line in self.held for each in line]
        assert all(each.killed for each in left), "lost"
        assert self.discarded == len(left)


@pytest.mark.parametrize("unicast", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_packets_are_discarded_once_and_others_neither_lost_nor_doubled(seed, unicast):
    board = Scoreboard(seed, unicast=unicast)
    board.run(600)

    assert len(board.stored) > 60
    assert 0 < board.discarded < len(board.stored) - 50


@pytest.mark.parametrize("unicast", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_a_row_is_discarded_whole_while_others_go_on(seed, unicast):
    board = Scoreboard(seed, unicast=unicast)
    board.run(600, level=True)

    assert 0 < board.discarded < len(board.stored) - 50


@pytest.mark.parametrize("outputs", [1, 2])
def test_what_is_killed_leaves_though_no_output_takes_anything(outputs):
    """Three packets of row 0 and one that lasts, among them one that is partly sent."""
    buffer = SendBuffer(channels=1, outputs=2, packets=4, flits=2, rows=2, kills=True)
    freed = []

    async def bench(ctx):
        store = buffer.store
        for number in range(4):
            for name in ("valid", "first", "commit"):
                ctx.set(getattr(store, name), 1)
            ctx.set(store.targets, 0b11)
            ctx.set(store.lasting, number == 2)
            ctx.set(buffer.available[0], 0b10 * (outputs == 2))
            ctx.set(buffer.grant, ctx.get(buffer.request))
            await ctx.tick()
        ctx.set(store.valid, 0)
        ctx.set(buffer.grant, 0)
        await ctx.tick().repeat(6)
        assert ctx.get(buffer.holds) == 1
        ctx.set(buffer.kill, 1)
        for _ in range(8):
            freed.append(ctx.get(buffer.freed))
            await ctx.tick()
        assert ctx.get(buffer.holds) == 0
        assert not ctx.get(buffer.empty)
        ctx.set(buffer.closed, 0b11)
        await ctx.tick().repeat(3)
        assert ctx.get(buffer.empty)

    simulator = Simulator(buffer)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()

    assert freed == [0, 0, 1, 1, 1, 0, 0, 0]

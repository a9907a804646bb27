# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The arbiter of send commands against a register for each port and chunks that never wrap."""

import random
from dataclasses import replace
from functools import reduce
from itertools import permutations
from typing import NamedTuple

import pytest
from amaranth.hdl import Value

from hw.ace.command_arbiter import CommandArbiter
from hw.ace.config import preset
from hw.ace.layouts import AGE_BITS, send_command_layout
from hw.common.testing import check_stream, simulate
from tests.families import quick

AGES = 1 << AGE_BITS
SIZES = [(2, 1), (2, 3), (3, 4), (2, 9)]


class Command(NamedTuple):
    """One that waits; the number of its chunk does not wrap, that of a READY says nothing."""

    port: int
    ready: bool
    chunk: int
    bits: int


def arbiter_of(ports, fsms):
    """The arbiter, and the layout of its commands."""
    config = replace(preset("test"), ports=ports, fsms=fsms, sram_bytes=64 << 10)
    return CommandArbiter(config), send_command_layout(config)


def command_of(layout, rng, *, port, chunk, ready=False):
    """A command with anything in its other fields."""
    bits = rng.getrandbits(layout.size)
    age = rng.randrange(AGES) if ready else chunk % AGES
    bits = changed(layout, bits, age=age, ready=ready)
    return Command(port, ready, chunk, bits)


def changed(layout, bits, **fields):
    """The bits of a command with these fields, the others as they are."""
    for name, value in fields.items():
        field = layout[name]
        mask = (1 << field.width) - 1
        bits = bits & ~(mask << field.offset) | value << field.offset
    return bits


class Model:
    """A register for each port, and one in front of it for each FSM. *first* chooses an FSM of
    those whose commands wait for a port."""

    def __init__(self, dut, layout, first):
        self.dut = dut
        self.layout = layout
        self.first = first
        self.held = [None] * len(dut.o)
        self.waiting = [[None] * len(dut.o) for _ in dut.i]
        self.passed = 0

    def has_room(self, fsm, port):
        return self.waiting[fsm][port] is None

    async def cycle(self, ctx, offers, ready):
        """Offer a command of each FSM (or None) for a port with room; check room and outputs."""
        dut = self.dut
        for command, to, each in zip(dut.i, dut.to, offers, strict=True):
            ctx.set(to, 0 if each is None else 1 << each.port)
            if each is not None:
                ctx.set(Value.cast(command), each.bits)
        for port, each in zip(dut.o, ready, strict=True):
            ctx.set(port.ready, each)
        for f, waiting in enumerate(self.waiting):
            room = sum(1 << p for p, each in enumerate(waiting) if each is None)
            assert ctx.get(dut.room[f]) == room, f"FSM {f}"
        for p, port in enumerate(dut.o):
            assert ctx.get(port.valid) == (self.held[p] is not None), f"port {p}"
            if self.held[p] is not None:
                assert ctx.get(Value.cast(port.payload)) == self.held[p], f"port {p}"
            if self.held[p] is not None:
                if ready[p]:
                    self.held[p] = None
            else:
                asks = {f: each[p] for f, each in enumerate(self.waiting) if each[p]}
                if asks:
                    f = self.first(asks)
                    self.held[p] = changed(self.layout, asks[f].bits, fsm=f)
                    self.waiting[f][p] = None
                    self.passed += 1
        for f, each in enumerate(offers):
            if each is not None:
                self.waiting[f][each.port] = each
        await ctx.tick()


def oldest(asks):
    """READYs by the number of the FSM, then the oldest chunk."""
    readies = [f for f in asks if asks[f].ready]
    return min(readies) if readies else min(asks, key=lambda f: (asks[f].chunk, f))


@pytest.mark.parametrize("stalls", quick(2, [0, 0.3, 0.8]))
@pytest.mark.parametrize("gaps", [0, 0.5])
@pytest.mark.parametrize("ports, fsms", SIZES)
def test_ready_goes_first_then_the_oldest_chunk(ports, fsms, gaps, stalls):
    """Chunks advance by several turns of their numbers; those that wait are near each other."""
    dut, layout = arbiter_of(ports, fsms)
    model = Model(dut, layout, oldest)
    rng = random.Random(f"{ports} {fsms} {gaps} {stalls}")

    async def bench(ctx):
        newest = AGES
        for _ in range(800):
            # What waits and what comes is less than half of the ages apart.
            if all(
                not each or each.ready or each.chunk > newest - 500
                for waiting in model.waiting for each in waiting
            ):
                newest += rng.randrange(12)
            offers = [None] * fsms
            for f in range(fsms):
                port = rng.randrange(ports)
                if model.has_room(f, port) and rng.random() >= gaps:
                    offers[f] = command_of(
                        layout, rng, port=port, ready=rng.random() < 0.2,
                        chunk=newest - rng.randrange(400),
                    )
            await model.cycle(ctx, offers, [rng.random() >= stalls for _ in range(ports)])
        assert newest > 3 * AGES and model.passed > 100

    checks = [check_stream(port, f"port {p}") for p, port in enumerate(dut.o)]
    simulate(dut, bench, checks=checks)


@pytest.mark.parametrize("offset", [0, 300, 1000])
@pytest.mark.parametrize("ages", [*permutations([0, 400, 800])])
def test_ages_that_are_no_order_do_not_hang(ages, offset):
    """Each of the three is older than another one: the older one of the first two FSMs is compared
    with the third."""
    dut, layout = arbiter_of(2, 3)
    ages = [(age + offset) % AGES for age in ages]

    def older(f, g):
        return f if (ages[g] - ages[f]) % AGES < AGES // 2 else g

    model = Model(dut, layout, lambda asks: reduce(older, sorted(asks)))

    async def bench(ctx):
        rng = random.Random(offset)
        offers = [command_of(layout, rng, port=1, chunk=age) for age in ages]
        await model.cycle(ctx, offers, [1, 1])
        for _ in range(6):
            await model.cycle(ctx, [None] * 3, [1, 1])
        assert model.passed == 3

    simulate(dut, bench)


def test_a_port_that_takes_nothing_leaves_room_at_the_others():
    """A command at rest in front of each FSM's stalled port, and one more in its register."""
    dut, layout = arbiter_of(3, 4)
    model = Model(dut, layout, oldest)
    rng = random.Random(3)

    async def bench(ctx):
        for chunk in range(40):
            port = rng.randrange(3)
            offers = [
                command_of(layout, rng, port=port, chunk=chunk) if model.has_room(f, port) else None
                for f in range(4)
            ]
            await model.cycle(ctx, offers, [1, 0, 1])
        for _ in range(4 * 2):
            await model.cycle(ctx, [None] * 4, [1, 0, 1])
        assert all(each[1] for each in model.waiting) and model.held[1]
        assert all(ctx.get(room) & 0b101 for room in dut.room)
        assert model.passed > 40

    simulate(dut, bench)

# amaranth: UnusedElaboratable=no
"""The arbiter of send commands against a register for each port and chunks that never wrap."""

import random
from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

import pytest
from amaranth.hdl import Value

from hw.ace.command_arbiter import CommandArbiter
from hw.ace.config import preset
from hw.ace.layouts import AGE_BITS, send_command_layout
from hw.common.testing import check_stream, simulate

AGES = 1 << AGE_BITS
SIZES = [(2, 1), (2, 3), (3, 4)]


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
    bits = changed(layout, bits, port=port, age=age, ready=ready)
    return Command(port, ready, chunk, bits)


def changed(layout, bits, **fields):
    """The bits of a command with these fields, the others as they are."""
    for name, value in fields.items():
        field = layout[name]
        mask = (1 << field.width) - 1
        bits = bits & ~(mask << field.offset) | value << field.offset
    return bits


class Model:
    """A register for each port, and for each FSM the command that waits. *first* chooses an FSM of
    those whose commands wait for a port."""

    def __init__(self, dut, layout, first):
        self.dut = dut
        self.layout = layout
        self.first = first
        self.held = [None] * len(dut.o)
        self.waiting = [None] * len(dut.i)
        self.passed = 0

    async def cycle(self, ctx, ready):
        """What waits is offered; the outputs are those of the model, and so are commands taken."""
        dut = self.dut
        for port, each in zip(dut.i, self.waiting, strict=True):
            ctx.set(port.valid, each is not None)
            if each is not None:
                ctx.set(Value.cast(port.payload), each.bits)
        for port, each in zip(dut.o, ready, strict=True):
            ctx.set(port.ready, each)
        held, waiting = list(self.held), list(self.waiting)
        for p, port in enumerate(dut.o):
            assert ctx.get(port.valid) == (held[p] is not None), f"port {p}"
            if held[p] is not None:
                assert ctx.get(Value.cast(port.payload)) == held[p], f"port {p}"
            if held[p] is None or ready[p]:
                asks = {f: each for f, each in enumerate(waiting) if each and each.port == p}
                self.held[p] = None
                if asks:
                    f = self.first(asks)
                    self.held[p] = changed(self.layout, waiting[f].bits, fsm=f)
                    self.waiting[f] = None
                    self.passed += 1
        for f, port in enumerate(dut.i):
            if waiting[f] is not None:
                assert ctx.get(port.ready) == (self.waiting[f] is None), f"FSM {f}"
        await ctx.tick()


def oldest(asks):
    """READYs by the number of the FSM, then the oldest chunk."""
    readies = [f for f in asks if asks[f].ready]
    return min(readies) if readies else min(asks, key=lambda f: (asks[f].chunk, f))


@pytest.mark.parametrize("stalls", [0, 0.3, 0.8])
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
            if all(not each or each.ready or each.chunk > newest - 500 for each in model.waiting):
                newest += rng.randrange(12)
            for f in range(fsms):
                if model.waiting[f] is None and rng.random() >= gaps:
                    model.waiting[f] = command_of(
                        layout, rng, port=rng.randrange(ports), ready=rng.random() < 0.2,
                        chunk=newest - rng.randrange(400),
                    )
            await model.cycle(ctx, [rng.random() >= stalls for _ in range(ports)])
        assert newest > 3 * AGES and model.passed > 100

    checks = [check_stream(port, f"port {p}") for p, port in enumerate(dut.o)]
    simulate(dut, bench, checks=checks)


@pytest.mark.parametrize("offset", [0, 300, 1000])
@pytest.mark.parametrize("ages", [*permutations([0, 400, 800])])
def test_ages_that_are_no_order_do_not_hang(ages, offset):
    """Each of the three is older than another one: the FSM with the lowest number goes first, and
    of the two that are left the older one."""
    dut, layout = arbiter_of(2, 3)
    ages = [(age + offset) % AGES for age in ages]
    turns = iter([0, 1, 2] if (ages[2] - ages[1]) % AGES < AGES // 2 else [0, 2, 1])
    model = Model(dut, layout, lambda asks: next(turns))

    async def bench(ctx):
        rng = random.Random(offset)
        model.waiting = [command_of(layout, rng, port=1, chunk=age) for age in ages]
        for _ in range(4):
            await model.cycle(ctx, [1, 1])
        assert model.passed == 3

    simulate(dut, bench)

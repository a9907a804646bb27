# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The banked SRAM and the registers in front of its ports: rows in a list, banks that
arithmetic names, turns in a circle."""

import random
from dataclasses import replace

import pytest

from hw.ace.config import preset
from hw.ace.request_buffer import RequestBuffer
from hw.ace.sram import READ_LATENCY, BankedSRAM
from hw.common.testing import simulate

DEPTH, BANKS, READERS, WRITERS = 32, 8, 3, 2


def bank_of(row, *, depth, banks, interleave):
    """Bank of a row, and the row in it: groups in the order of rows, their banks in turns."""
    group, within = divmod(row, depth * interleave // banks)
    return group * interleave + within % interleave, within // interleave


def bench_of(dut, shared, interleave, *, cycles, density, seed):
    """Ports that ask for rows at random until they are granted, and all that must come of it."""
    rng, other = random.Random(seed), random.Random(seed)
    ports = [*dut.read, *dut.write]
    kinds = [range(len(ports))] if shared else [range(READERS), range(READERS, len(ports))]

    async def run(ctx):
        rows = [0] * DEPTH
        writing = {}  # granted in the cycle before, where there is a port for that
        asks = [None] * len(ports)  # row and data
        granted = {}  # in the cycle before
        turns = {(bank, k): [*kind] for bank in range(BANKS) for k, kind in enumerate(kinds)}
        due = [[] for _ in range(READERS)]  # cycle, data
        waited = 0
        for cycle in range(cycles):
            near = rng.randrange(DEPTH)  # rows meet
            for n, port in enumerate(ports):
                if asks[n] is None and rng.random() < density:
                    row = rng.choice([rng.randrange(DEPTH), near, (near + 4) % DEPTH])
                    asks[n] = row, rng.randrange(1 << 16)
                ctx.set(port.wants, 0 if asks[n] is None else 1 << bank_of(
                    asks[n][0], depth=DEPTH, banks=BANKS, interleave=interleave
                )[0])
                row, word = granted.get(n, (other.randrange(DEPTH), other.randrange(1 << 16)))
                ctx.set(port.row, row)
                if n >= READERS:
                    ctx.set(port.data, word)
            expected = set()
            for (bank, _), order in turns.items():
                asking = [
                    n for n in order if asks[n] is not None and bank == bank_of(
                        asks[n][0], depth=DEPTH, banks=BANKS, interleave=interleave
                    )[0]
                ]
                if asking:
                    expected.add(asking[0])
                    waited += len(asking) - 1
                    at = order.index(asking[0]) + 1
                    order[:] = order[at:] + order[:at]
            assert {n for n, port in enumerate(ports) if ctx.get(port.grant)} == expected
            for n in sorted(expected):
                row, word = asks[n]
                if n < READERS:
                    # Undefined while it is written.
                    due[n].append((cycle + READ_LATENCY, None if row in writing else rows[row]))
            for row, word in writing.items():
                rows[row] = word
            writing = {asks[n][0]: asks[n][1] for n in expected if n >= READERS}
            if shared:
                for row, word in writing.items():
                    rows[row] = word
                writing = {}
            granted = {n: asks[n] for n in expected}
            for n in expected:
                asks[n] = None
            await ctx.tick()
            for n in range(READERS):
                if due[n] and due[n][0][0] == cycle + 1:
                    assert due[n].pop(0)[1] in (None, ctx.get(dut.read[n].data))
        assert waited > cycles * density / 2
        assert len({*rows}) > DEPTH // 2

    return run


@pytest.mark.parametrize("density", [0.4, 1.0])
@pytest.mark.parametrize("bank_ports", ["1r1w", "1rw"])
@pytest.mark.parametrize("interleave", [1, 2, 4, 8, None])
def test_grants_and_data_are_those_of_the_model(interleave, bank_ports, density):
    dut = BankedSRAM(
        depth=DEPTH, width=16, banks=BANKS, interleave=interleave, bank_ports=bank_ports,
        readers=READERS, writers=WRITERS,
    )
    shared = bank_ports == "1rw"
    simulate(
        dut,
        bench_of(dut, shared, interleave or BANKS, cycles=400, density=density, seed=density),
    )


@pytest.mark.parametrize("banks, interleave", [(1, 1), (2, 1), (8, 1), (8, 2), (8, 4), (8, 8)])
def test_each_row_has_a_place_of_its_own(banks, interleave):
    """The bank of each row is that of arithmetic, and none hides another."""
    depth = 32
    dut = BankedSRAM(
        depth=depth, width=8, banks=banks, interleave=interleave, bank_ports="1r1w", readers=1,
        writers=1,
    )
    place = {"depth": depth, "banks": banks, "interleave": interleave}
    places = [bank_of(row, **place) for row in range(depth)]
    assert {*places} == {(b, at) for b in range(banks) for at in range(depth // banks)}

    async def bench(ctx):
        (writer,), (reader,) = dut.write, dut.read
        for port in (writer, reader):
            for row in range(depth):
                ctx.set(port.wants, 1 << places[row][0])
                assert ctx.get(port.grant)
                await ctx.tick()
                ctx.set(port.wants, 0)
                ctx.set(port.row, row)
                if port is writer:
                    ctx.set(port.data, row ^ 0xA5)
                await ctx.tick().repeat(READ_LATENCY - 1)
                if port is reader:
                    assert ctx.get(port.data) == row ^ 0xA5

    simulate(dut, bench)


CONFIG = replace(preset("wide"), interleave=2)
FIELDS = {"number": 16}


@pytest.mark.parametrize("seed", range(6))
def test_requests_ask_in_order_for_the_bank_of_their_row(seed):
    """Two wait at most; what was granted is told a cycle later, with the row."""
    rng = random.Random(seed)
    dut = RequestBuffer(CONFIG, FIELDS)
    offered, refused, held_up = (rng.choice([0, 0.3, 0.7]) for _ in range(3))
    left = [
        {"access": rng.random() < 0.7, "row": rng.randrange(CONFIG.sram_beats), "number": number}
        for number in range(300)
    ]
    held, taken = [], None  # two at most; the one that went in the cycle before

    async def bench(ctx):
        nonlocal taken
        for _ in range(3000):
            ctx.set(dut.i.valid, bool(left) and rng.random() >= offered)
            if left:
                ctx.set(dut.i.p, left[0])
            go = rng.random() >= held_up
            ctx.set(dut.go, go)
            grant = rng.random() >= refused
            ctx.set(dut.grant, grant)
            front = held[0] if held else None
            bank, _ = bank_of(
                front["row"] if front else 0, depth=CONFIG.sram_beats, banks=CONFIG.banks,
                interleave=CONFIG.group_banks,
            )
            assert ctx.get(dut.wants) == (front["access"] << bank if front and go else 0)
            assert ctx.get(dut.i.ready) == (len(held) < 2)
            assert ctx.get(dut.empty) == (not held)
            assert ctx.get(dut.waits) == any(each["access"] for each in held)
            assert ctx.get(dut.taken.valid) == (taken is not None)
            for each, seen in ((front, dut.front), (taken, dut.taken.p)):
                if each:
                    assert {name: ctx.get(seen[name]) for name in each} == each
            accepted = ctx.get(dut.i.valid) and ctx.get(dut.i.ready)
            taken = held.pop(0) if front and go and (grant or not front["access"]) else None
            if accepted:
                held.append(left.pop(0))
            await ctx.tick()

    simulate(dut, bench)
    assert not left and not held


def test_requests_take_a_cycle_each():
    dut = RequestBuffer(CONFIG, FIELDS)

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.i.p.access, 1)
        ctx.set(dut.grant, 1)
        for cycle in range(40):
            assert ctx.get(dut.i.ready)
            assert (ctx.get(dut.wants) != 0) == (cycle >= 1)
            assert ctx.get(dut.taken.valid) == (cycle >= 2)
            await ctx.tick()

    simulate(dut, bench)

# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The banked SRAM against rows in a list, banks that arithmetic names, and turns in a circle."""

import random

import pytest

from hw.ace.sram import READ_LATENCY, BankedSRAM
from hw.common.testing import simulate

DEPTH, BANKS, READERS, WRITERS = 32, 8, 3, 2


def bank_of(row, *, depth, banks, interleave):
    """Bank of a row, and the row in it: groups in the order of rows, their banks in turns."""
    group, within = divmod(row, depth * interleave // banks)
    return group * interleave + within % interleave, within // interleave


def bench_of(dut, shared, interleave, *, cycles, density, seed):
    """Ports that ask for rows at random until they are granted, and all that must come of it."""
    rng = random.Random(seed)
    ports = [*dut.read, *dut.write]
    kinds = [range(len(ports))] if shared else [range(READERS), range(READERS, len(ports))]

    async def run(ctx):
        rows = [0] * DEPTH
        writing = {}  # granted in the cycle before, where there is a port for that
        asks = [None] * len(ports)  # row and data
        turns = {(bank, k): [*kind] for bank in range(BANKS) for k, kind in enumerate(kinds)}
        due = [[] for _ in range(READERS)]  # cycle, data
        waited = 0
        for cycle in range(cycles):
            near = rng.randrange(DEPTH)  # rows meet
            for n, port in enumerate(ports):
                if asks[n] is None and rng.random() < density:
                    row = rng.choice([rng.randrange(DEPTH), near, (near + 4) % DEPTH])
                    asks[n] = row, rng.randrange(1 << 16)
                ctx.set(port.enable, asks[n] is not None)
                if asks[n] is not None:
                    ctx.set(port.row, asks[n][0])
                    if n >= READERS:
                        ctx.set(port.data, asks[n][1])
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
    """Rows of one bank are never granted together, those of two always; none hides another."""
    depth = 32
    dut = BankedSRAM(
        depth=depth, width=8, banks=banks, interleave=interleave, bank_ports="1r1w", readers=2,
        writers=1,
    )
    place = {"depth": depth, "banks": banks, "interleave": interleave}
    places = [bank_of(row, **place) for row in range(depth)]
    assert {*places} == {(b, at) for b in range(banks) for at in range(depth // banks)}

    async def bench(ctx):
        writer, (first, second) = dut.write[0], dut.read
        ctx.set(writer.enable, 1)
        for row in range(depth):
            ctx.set(writer.row, row)
            ctx.set(writer.data, row ^ 0xA5)
            assert ctx.get(writer.grant)
            await ctx.tick()
        ctx.set(writer.enable, 0)
        for port in dut.read:
            ctx.set(port.enable, 1)
        for row in range(depth):
            for other in range(depth):
                ctx.set(first.row, row)
                ctx.set(second.row, other)
                both = ctx.get(first.grant) & ctx.get(second.grant)
                assert both == (places[row][0] != places[other][0])
                await ctx.tick()
        ctx.set(second.enable, 0)
        for row in range(depth):
            ctx.set(first.row, row)
            await ctx.tick().repeat(READ_LATENCY)
            assert ctx.get(first.data) == row ^ 0xA5

    simulate(dut, bench)

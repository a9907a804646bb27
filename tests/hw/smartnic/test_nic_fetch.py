# SPDX-License-Identifier: Apache-2.0
"""Blocks of a vector, read ahead: each beat as it lies in memory, its error with it alone; zeros
where the vector has no more elements."""

import random

import pytest

from hw.common.testing import random_stalls, simulate, source
from hw.smartnic.config import ELEMENT_BYTES, preset
from hw.smartnic.fetch import Fetch
from tests.hw.axi_memory import AXIMemory

CONFIG = preset("test")
PAGE = 4096
BEAT, MOST = CONFIG.bus_bytes, CONFIG.block_beats
PATTERNS = pytest.mark.parametrize("seed, stall", [(1, 0.0), (2, 0.4), (3, 0.7)])


def fetched(items, *, seed, stall, contents=b"", bad_pages=()):
    """Data and ``bad`` of each beat of *items*."""
    dut = Fetch(CONFIG)
    memory = AXIMemory(dut.bus, size=5 * PAGE, latency=3, stall=stall, seed=seed,
                       bad_pages=bad_pages)
    memory.data[: len(contents)] = contents
    stalls, got = random_stalls(seed + 1, stall), []

    async def take(ctx):
        while len(got) < sum(item["beats"] for item in items):
            ctx.set(dut.o.ready, not next(stalls))
            _, _, taken, data, bad = await ctx.tick().sample(
                dut.o.valid & dut.o.ready, dut.o.p.data, dut.o.p.bad
            )
            if taken:
                got.append((data.to_bytes(BEAT, "little"), bool(bad)))

    simulate(dut, source(dut.item, items, random_stalls(seed, stall)), take, checks=[memory.serve])
    return got


@PATTERNS
def test_only_beats_that_memory_answered_with_an_error_are_bad(seed, stall):
    rng = random.Random(seed)
    bad_pages = {1, 3}
    items, expected = [], []
    for _ in range(24):
        page = rng.randrange(5)
        there = rng.randint(0, MOST)
        address = page * PAGE + BEAT * rng.randrange(PAGE // BEAT - MOST)
        items.append({"address": address, "beats": MOST, "valid": there, "some": there > 0})
        expected += [k < there and page in bad_pages for k in range(MOST)]
    got = fetched(items, seed=seed, stall=stall, bad_pages=bad_pages)
    assert [bad for _, bad in got] == expected


@PATTERNS
def test_elements_beyond_the_vector_are_zeros(seed, stall):
    rng = random.Random(seed)
    contents = rng.randbytes(5 * PAGE)
    items, expected = [], b""
    for _ in range(40):
        beats = rng.randint(1, MOST)
        there, tail, lanes = rng.randint(0, beats), rng.getrandbits(1), rng.randint(1, CONFIG.lanes)
        address = BEAT * rng.randrange(5 * PAGE // BEAT - MOST)
        tail &= there > 0
        items.append({
            "address": address, "beats": beats, "valid": there,
            "some": there > 0, "tail": tail, "tail_lanes": lanes - 1,
        })
        size = there * BEAT - (BEAT - ELEMENT_BYTES * lanes if tail else 0)
        expected += contents[address : address + size].ljust(beats * BEAT, b"\0")
    got = fetched(items, seed=seed, stall=stall, contents=contents)
    assert b"".join(data for data, _ in got) == expected

# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""AXI4Reader and AXI4Writer move every byte, keep the bus rules, and keep the bus busy."""

import random

import pytest

from hw.common.axi_read import AXI4Reader
from hw.common.axi_write import AXI4Writer
from hw.common.testing import check_stream, random_stalls, simulate, sink, source
from tests.hw.axi_memory import AXIMemory

SIZE = 3 * 4096
PACES = [(0.0, 1), (0.4, 7)]


def commands(count, lanes, seed, longest=40):
    """Random commands, one of them across a 4 KiB boundary and one of a single beat."""
    rng = random.Random(seed)
    made = [(4096 - 3 * lanes, 9), (lanes, 1)]
    while len(made) < count:
        beats = rng.randrange(1, longest)
        made.append((rng.randrange(0, SIZE // lanes - beats) * lanes, beats))
    return made


def filled(bus, **options):
    memory = AXIMemory(bus, size=SIZE, **options)
    memory.data[:] = random.Random(5).randbytes(SIZE)
    return memory


def word(memory, address, lanes):
    return int.from_bytes(memory.data[address : address + lanes], "little")


def reader_beats(dut, memory, runs, lanes):
    shape = dut.data.payload.shape()
    return [
        shape.const(
            {
                "data": word(memory, address + k * lanes, lanes),
                "last": k == beats - 1,
                "error": 0,
            }
        )
        for address, beats in runs
        for k in range(beats)
    ]


@pytest.mark.parametrize("stall, latency", PACES)
@pytest.mark.parametrize(
    "data_width, max_burst, outstanding", [(32, 16, 8), (64, 4, 1), (512, 256, 3), (64, 1, 2)]
)
def test_reader_delivers_every_command_in_order(data_width, max_burst, outstanding, stall, latency):
    lanes = data_width // 8
    dut = AXI4Reader(
        addr_width=32, data_width=data_width, max_burst=max_burst, outstanding=outstanding
    )
    memory = filled(dut.bus, latency=latency, stall=stall, seed=1)
    runs = commands(12, lanes, seed=data_width)

    simulate(
        dut,
        source(dut.cmd, [{"address": a, "beats": n} for a, n in runs], random_stalls(2, stall / 2)),
        sink(dut.data, reader_beats(dut, memory, runs, lanes), random_stalls(3, stall)),
        checks=[memory.serve, check_stream(dut.data)],
    )

    assert max(beats for _, _, beats in memory.bursts) <= max_burst
    assert 1 <= memory.most_reads <= outstanding


@pytest.mark.parametrize("data_first", [False, True])
@pytest.mark.parametrize("stall, latency", PACES)
@pytest.mark.parametrize(
    "data_width, max_burst, outstanding", [(32, 16, 8), (64, 4, 1), (512, 256, 3), (64, 1, 2)]
)
def test_writer_writes_exactly_the_enabled_bytes(
    data_width, max_burst, outstanding, stall, latency, data_first
):
    lanes = data_width // 8
    dut = AXI4Writer(
        addr_width=32, data_width=data_width, max_burst=max_burst, outstanding=outstanding
    )
    memory = filled(dut.bus, latency=latency, stall=stall, seed=1, data_before_address=data_first)
    expected = bytearray(memory.data)
    rng = random.Random(data_width)
    sent, words = [], []
    for address, beats in commands(12, lanes, seed=data_width):
        strobe = (1 << rng.randrange(1, lanes + 1)) - 1
        sent.append({"address": address, "beats": beats, "last_strobe": strobe})
        for k in range(beats):
            words.append(rng.randrange(1 << data_width))
            kept = strobe.bit_count() if k == beats - 1 else lanes
            start = address + k * lanes
            expected[start : start + kept] = words[-1].to_bytes(lanes, "little")[:kept]
    done = dut.done.payload.shape().const({"error": 0})

    simulate(
        dut,
        source(dut.cmd, sent, random_stalls(2, stall / 2)),
        source(dut.data, words, random_stalls(4, stall)),
        sink(dut.done, [done] * len(sent), random_stalls(3, stall)),
        checks=[memory.serve, check_stream(dut.done)],
    )

    assert memory.data == expected
    assert max(beats for _, _, beats in memory.bursts) <= max_burst
    assert 1 <= memory.most_writes <= outstanding


def busy_share(memory):
    """Data beats per cycle between the first and the last data beat."""
    cycles = memory.data_beats[-1] - memory.data_beats[0] + 1
    return len(memory.data_beats) / cycles


@pytest.mark.parametrize("beats", [2, 4, 5, 16, 33])
def test_reader_sustains_one_beat_per_cycle_across_commands(beats):
    dut = AXI4Reader(addr_width=32, data_width=64, outstanding=8)
    memory = filled(dut.bus, latency=4)
    runs = [(k * beats * 8, beats) for k in range(20)]

    simulate(
        dut,
        source(dut.cmd, [{"address": a, "beats": n} for a, n in runs], random_stalls(1, 0)),
        sink(dut.data, reader_beats(dut, memory, runs, 8), random_stalls(1, 0)),
        checks=[memory.serve],
    )

    assert busy_share(memory) == 1.0


@pytest.mark.parametrize("beats", [2, 4, 5, 16, 33])
def test_writer_sustains_one_beat_per_cycle_across_commands(beats):
    dut = AXI4Writer(addr_width=32, data_width=64, outstanding=8)
    memory = filled(dut.bus, latency=4)
    sent = [{"address": k * beats * 8, "beats": beats, "last_strobe": 255} for k in range(20)]
    done = dut.done.payload.shape().const({"error": 0})

    simulate(
        dut,
        source(dut.cmd, sent, random_stalls(1, 0)),
        source(dut.data, range(20 * beats), random_stalls(1, 0)),
        sink(dut.done, [done] * 20, random_stalls(1, 0)),
        checks=[memory.serve],
    )

    assert busy_share(memory) == 1.0


def test_outstanding_reads_cover_a_long_latency():
    dut = AXI4Reader(addr_width=32, data_width=64, max_burst=16, outstanding=8)
    memory = filled(dut.bus, latency=100)
    runs = [(0, 512)]

    simulate(
        dut,
        source(dut.cmd, [{"address": 0, "beats": 512}], random_stalls(1, 0)),
        sink(dut.data, reader_beats(dut, memory, runs, 8), random_stalls(1, 0)),
        checks=[memory.serve],
    )

    assert memory.most_reads == 8
    assert busy_share(memory) == 1.0


def test_read_errors_mark_their_beats_and_the_next_command_is_clean():
    dut = AXI4Reader(addr_width=32, data_width=64, max_burst=4)
    memory = filled(dut.bus, bad_pages=[1])
    runs = [(4096 - 16, 4), (SIZE, 1), (8, 2)]
    shape = dut.data.payload.shape()
    clean = reader_beats(dut, memory, [(4096 - 16, 2), (8, 2)], 8)
    expected = [
        shape.const({"data": clean[0].data, "last": 0, "error": 0}),
        shape.const({"data": clean[1].data, "last": 0, "error": 0}),
        shape.const({"data": 0, "last": 0, "error": 1}),
        shape.const({"data": 0, "last": 1, "error": 1}),
        shape.const({"data": 0, "last": 1, "error": 1}),
        *clean[2:],
    ]

    simulate(
        dut,
        source(dut.cmd, [{"address": a, "beats": n} for a, n in runs], random_stalls(1, 0.2)),
        sink(dut.data, expected, random_stalls(2, 0.2)),
        checks=[memory.serve],
    )


def test_write_errors_mark_their_command_and_the_next_one_is_clean():
    dut = AXI4Writer(addr_width=32, data_width=64, max_burst=4)
    memory = filled(dut.bus, bad_pages=[1])
    runs = [(4096 - 16, 4), (8, 2), (SIZE, 1), (8192 - 8, 9), (8192, 8)]
    shape = dut.done.payload.shape()
    expected = [shape.const({"error": error}) for error in (1, 0, 1, 1, 0)]

    simulate(
        dut,
        source(
            dut.cmd,
            [{"address": a, "beats": n, "last_strobe": 255} for a, n in runs],
            random_stalls(1, 0.2),
        ),
        source(dut.data, range(24), random_stalls(3, 0.2)),
        sink(dut.done, expected, random_stalls(2, 0.2)),
        checks=[memory.serve],
    )


def test_errors_of_all_bursts_under_way_do_not_hang_a_long_transfer():
    """A thousand beats, all refused while eight bursts are under way, then a good transfer."""
    reader = AXI4Reader(addr_width=32, data_width=64, max_burst=4)
    refusing = filled(reader.bus, latency=40, stall=0.1, seed=2)
    shape = reader.data.payload.shape()
    refused = [shape.const({"data": 0, "last": k == 999, "error": 1}) for k in range(1000)]

    simulate(
        reader,
        source(
            reader.cmd,
            [{"address": SIZE, "beats": 1000}, {"address": 16, "beats": 3}],
            random_stalls(1, 0),
        ),
        sink(
            reader.data,
            refused + reader_beats(reader, refusing, [(16, 3)], 8),
            random_stalls(2, 0.1),
        ),
        checks=[refusing.serve],
    )

    assert refusing.most_reads == 8

    writer = AXI4Writer(addr_width=32, data_width=64, max_burst=4)
    refusing = filled(writer.bus, latency=40, stall=0.1, seed=2)
    shape = writer.done.payload.shape()

    simulate(
        writer,
        source(
            writer.cmd,
            [
                {"address": SIZE, "beats": 1000, "last_strobe": 255},
                {"address": 16, "beats": 3, "last_strobe": 255},
            ],
            random_stalls(1, 0),
        ),
        source(writer.data, range(1003), random_stalls(2, 0.1)),
        sink(writer.done, [shape.const({"error": e}) for e in (1, 0)], random_stalls(3, 0.1)),
        checks=[refusing.serve],
    )

    assert refusing.most_writes == 8
    assert [word(refusing, 16 + 8 * k, 8) for k in range(3)] == [1000, 1001, 1002]


@pytest.mark.parametrize("engine", [AXI4Reader, AXI4Writer])
def test_a_command_of_no_beats_has_no_effect(engine):
    dut = engine(addr_width=32, data_width=64)
    memory = filled(dut.bus)

    async def bench(ctx):
        ctx.set(dut.cmd.valid, 1)
        await ctx.tick().repeat(10)
        assert ctx.get(dut.cmd.ready)

    simulate(dut, bench, checks=[memory.serve])

    assert memory.bursts == []


@pytest.mark.parametrize("engine", [AXI4Reader, AXI4Writer])
@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"data_width": 24}, r"^AXI4 data_width must be a power of two from 8 to 1024, not 24$"),
        ({"max_burst": 512}, r"^AXI4 max_burst must be a power of two from 1 to 256, not 512$"),
        ({"outstanding": 0}, r"^AXI4 outstanding must be an integer at least 1, not 0$"),
        ({"beats_width": 40}, r"^AXI4 beats_width must be an integer from 1 to 32, not 40$"),
        ({"addr_width": 8}, r"^AXI4 addr_width must be an integer from 13 to 64, not 8$"),
    ],
)
def test_bad_parameters_are_refused_by_name(engine, parameters, message):
    with pytest.raises(ValueError, match=message):
        engine(**{"addr_width": 32, "data_width": 64, **parameters})

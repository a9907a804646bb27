# amaranth: UnusedElaboratable=no
"""WidthAdapter keeps every unit of every packet, without bubbles."""

import random

import pytest

from hw.common.testing import check_stream, random_stalls, simulate, sink, source
from hw.common.width import WidthAdapter, beat_layout

PACES = [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.4, 0.4)]


def random_packets(seed, count=25, longest=20):
    """Packets as lists of kept units."""
    rng = random.Random(seed)
    return [[rng.randrange(256) for _ in range(rng.randrange(1, longest))] for _ in range(count)]


def packed(packets, units):
    """Beats of *units* bytes, every one full but the last of a packet."""
    layout = beat_layout(8 * units)
    beats = []
    for packet in packets:
        for start in range(0, len(packet), units):
            piece = packet[start : start + units]
            beats.append(
                layout.const(
                    {
                        "data": int.from_bytes(bytes(piece), "little"),
                        "keep": (1 << len(piece)) - 1,
                        "last": start + units >= len(packet),
                    }
                )
            )
    return beats


def unpacked(beats, units):
    """Packets as lists of kept units."""
    packets, packet = [], []
    for beat in beats:
        packet += [beat.data >> 8 * k & 0xFF for k in range(units) if beat.keep >> k & 1]
        if beat.last:
            packets.append(packet)
            packet = []
    assert not packet
    return packets


def convert(dut, beats, count_packets, gaps, stalls):
    """Beats that come out, up to the last beat of packet *count_packets*."""
    got = []
    pauses = random_stalls(3, stalls)

    async def take(ctx):
        while sum(beat.last for beat in got) < count_packets:
            ctx.set(dut.o.ready, not next(pauses))
            _, _, taken, beat = await ctx.tick().sample(dut.o.valid & dut.o.ready, dut.o.payload)
            if taken:
                got.append(beat)

    simulate(
        dut,
        source(dut.i, beats, random_stalls(2, gaps)),
        take,
        checks=[check_stream(dut.o)],
    )
    return got


@pytest.mark.parametrize("gaps, stalls", PACES)
@pytest.mark.parametrize("i_units, o_units", [(1, 4), (4, 1), (2, 6), (6, 2), (4, 4), (2, 4)])
def test_dense_packets_stay_dense(i_units, o_units, gaps, stalls):
    dut = WidthAdapter(i_width=8 * i_units, o_width=8 * o_units)
    packets = random_packets(i_units)

    got = convert(dut, packed(packets, i_units), len(packets), gaps, stalls)

    kept = [(beat.keep, beat.last) for beat in got]
    assert kept == [(beat.keep, beat.last) for beat in packed(packets, o_units)]
    assert unpacked(got, o_units) == packets


@pytest.mark.parametrize("i_units, o_units", [(1, 4), (4, 1), (6, 2)])
def test_units_survive_any_pattern_of_keep(i_units, o_units):
    dut = WidthAdapter(i_width=8 * i_units, o_width=8 * o_units)
    rng = random.Random(11)
    layout = beat_layout(8 * i_units)
    beats = [
        layout.const(
            {
                "data": rng.randrange(1 << 8 * i_units),
                "keep": rng.randrange(1 << i_units),
                "last": k == 199 or rng.random() < 0.2,
            }
        )
        for k in range(200)
    ]
    packets = unpacked(beats, i_units)

    got = convert(dut, beats, len(packets), 0.3, 0.3)

    assert unpacked(got, o_units) == packets


@pytest.mark.parametrize("i_units, o_units", [(1, 4), (4, 1)])
def test_narrow_side_moves_a_beat_every_cycle(i_units, o_units):
    dut = WidthAdapter(i_width=8 * i_units, o_width=8 * o_units)
    beats = packed([list(range(16))] * 6, i_units)
    narrow = dut.i if i_units < o_units else dut.o
    busy = []

    async def watch(ctx):
        async for _, _, moves in ctx.tick().sample(narrow.valid & narrow.ready):
            busy.append(moves)

    simulate(
        dut,
        source(dut.i, beats, random_stalls(0, 0)),
        sink(dut.o, packed([list(range(16))] * 6, o_units), random_stalls(0, 0)),
        checks=[watch],
    )

    first = busy.index(1)
    assert busy[first : first + 96] == [1] * 96
    assert sum(busy) == 96


def test_units_may_be_wider_than_a_byte():
    layout = beat_layout(512, 128)
    dut = WidthAdapter(i_width=512, o_width=128, unit=128)
    flits = [11, 22, 33]
    beat = layout.const(
        {"data": sum(f << 128 * k for k, f in enumerate(flits)), "keep": 7, "last": 1}
    )
    narrow = beat_layout(128, 128)
    expected = [narrow.const({"data": f, "keep": 1, "last": f == 33}) for f in flits]

    simulate(
        dut,
        source(dut.i, [beat], random_stalls(0, 0)),
        sink(dut.o, expected, random_stalls(0, 0)),
    )


@pytest.mark.parametrize(
    "widths, message",
    [
        (
            {"i_width": 24, "o_width": 16},
            r"^WidthAdapter i_width and o_width must be one a multiple",
        ),
        (
            {"i_width": 12, "o_width": 24},
            r"^WidthAdapter i_width must be a multiple of the unit of 8",
        ),
        (
            {"i_width": 8, "o_width": 0},
            r"^WidthAdapter o_width must be an integer at least 1, not 0$",
        ),
        (
            {"i_width": 8, "o_width": 8, "unit": 0},
            r"^WidthAdapter unit must be an integer at least",
        ),
    ],
)
def test_widths_that_do_not_fit_are_refused(widths, message):
    with pytest.raises(ValueError, match=message):
        WidthAdapter(**widths)

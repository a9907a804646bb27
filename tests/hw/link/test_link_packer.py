# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The packer alone: flits leave in order, densely, and not later than promised."""

import random

import pytest

from hw.common.testing import check_stream, random_stalls, simulate, source
from hw.link.packer import LinkPacker
from tests.hw.link.wire import WIDTHS, format_of, from_beat, make_packet


def packet_beats(packet, width):
    """A packet as beats for the packer's input, as its layout wants them."""
    (header, _), *payload = packet.flits()
    chunks = [payload[at : at + width] for at in range(0, len(payload), width)] or [[]]
    for n, chunk in enumerate(chunks):
        yield {
            "first": int(n == 0),
            "full": int(len(chunk) == width),
            "header": header,
            "count": len(chunk),
            "data": [bits for bits, _ in chunk] + [0] * (width - len(chunk)),
        }


def watch(port, taken, stalls):
    """Process that takes link beats as *stalls* allows and notes (cycle, beat)."""

    async def run(ctx):
        cycle = 0
        while True:
            ctx.set(port.ready, not next(stalls))
            _, _, moves, beat = await ctx.tick().sample(
                port.valid & port.ready, port.payload.as_value()
            )
            if moves:
                taken.append((cycle, beat))
            cycle += 1

    return run


def idle(cycles):
    async def run(ctx):
        await ctx.tick().repeat(cycles)

    return run


def drive(packer, width, packets, *, give=0.0, take=0.0, cycles=None):
    """Run *packets* through; returns (cycle, flits) of each link beat."""
    beats = [beat for packet in packets for beat in packet_beats(packet, width)]
    taken = []
    simulate(
        packer,
        source(packer.i, beats, random_stalls(1, give)),
        idle(cycles or int(40 + 3 * len(beats) / (1 - give) / (1 - take))),
        checks=[watch(packer.o, taken, random_stalls(2, take)), check_stream(packer.o)],
    )
    return [(cycle, from_beat(beat, width)) for cycle, beat in taken]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("give, take", [(0.0, 0.0), (0.5, 0.0), (0.0, 0.6), (0.3, 0.3)])
def test_every_flit_leaves_once_in_order(width, give, take):
    rng = random.Random(width)
    packets = [make_packet(format_of(width), rng) for _ in range(40)]

    beats = drive(LinkPacker(width), width, packets, give=give, take=take)

    left = [flit for _, flits in beats for flit in flits]
    assert left == [flit for packet in packets for flit in packet.flits()]


@pytest.mark.parametrize("width", WIDTHS)
def test_full_packets_fill_every_beat_of_every_cycle(width):
    rng = random.Random(1)
    size = format_of(width).payload_bytes
    packets = [make_packet(format_of(width), rng, size) for _ in range(16)]

    beats = drive(LinkPacker(width), width, packets)

    total = 16 * (size // 16 + 1)
    assert len(beats) == -(-total // width)
    full = [cycle for cycle, flits in beats if len(flits) == width]
    assert full == list(range(full[0], full[0] + total // width))


@pytest.mark.parametrize("flush_after", [1, 3, 8])
def test_incomplete_beat_leaves_after_the_promised_idle_cycles(flush_after):
    packet = make_packet(format_of(4), random.Random(1), 0)

    beats = drive(LinkPacker(4, flush_after=flush_after), 4, [packet])

    # Taken in cycle 0, idle from cycle 1 on, into the output register one cycle later.
    assert [(cycle, len(flits)) for cycle, flits in beats] == [(flush_after + 2, 1)]


def test_beat_that_gets_full_leaves_in_the_next_cycle():
    packet = make_packet(format_of(4), random.Random(1), 48)

    assert [cycle for cycle, _ in drive(LinkPacker(4), 4, [packet])] == [1]


def test_patience_starts_anew_with_every_offer():
    rng = random.Random(1)
    packets = [make_packet(format_of(8), rng, 0) for _ in range(5)]
    packer = LinkPacker(8, flush_after=4)
    beats = [beat for packet in packets for beat in packet_beats(packet, 8)]
    taken = []
    pattern = iter([False, *[True, True, True, False] * 4])
    simulate(
        packer,
        source(packer.i, beats, pattern),
        idle(60),
        checks=[watch(packer.o, taken, random_stalls(1, 0.0))],
    )

    assert [len(from_beat(beat, 8)) for _, beat in taken] == [5]


def test_packer_is_empty_only_when_nothing_is_held():
    packer = LinkPacker(2, flush_after=5)
    packet = make_packet(format_of(2), random.Random(1), 32)
    (beat,) = packet_beats(packet, 2)

    async def run(ctx):
        assert ctx.get(packer.empty)
        ctx.set(packer.i.payload, beat)
        ctx.set(packer.i.valid, 1)
        await ctx.tick()
        ctx.set(packer.i.valid, 0)
        assert not ctx.get(packer.empty)
        ctx.set(packer.o.ready, 1)
        await ctx.tick()
        assert not ctx.get(packer.o.valid) and not ctx.get(packer.empty)
        await ctx.tick().until(packer.o.valid)
        await ctx.tick()
        assert ctx.get(packer.empty)

    simulate(packer, run)

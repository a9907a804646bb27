# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""What arrives damaged is dropped whole and counted; what follows is intact; credits come home."""

import random

import pytest

from tests.hw.link.wire import RX_PACKETS, WIDTHS, Rig, format_of, get_field, make_packet


def receive(width, pieces, *, paced=False, **options):
    """Run the flits of *pieces*, each a list of flits, through a receive buffer."""
    raw = [flit for piece in pieces for flit in piece]
    rig = Rig(width, raw=raw, paced=paced, **options)
    received = rig.run()
    assert rig.get("r_idle")
    return rig, received


def assert_all_credits_home(rig, charged):
    assert rig.returned == charged
    assert rig.credits == RX_PACKETS


class Maker:
    def __init__(self, width, seed):
        self.format = format_of(width)
        self.rng = random.Random(seed)

    def packet(self, length=None):
        return make_packet(self.format, self.rng, length)

    def flits(self, packet, *, flip=()):
        (header, start), *payload = packet.flits()
        for bit in flip:
            header ^= 1 << bit
        return [(header, start), *payload]


@pytest.mark.parametrize("width", WIDTHS)
def test_each_flipped_header_bit_drops_that_packet_alone(width):
    make = Maker(width, 1)
    pieces, good = [], []
    for bit in range(128):
        pieces.append(make.flits(make.packet(), flip=[bit]))
        good.append(make.packet())
        pieces.append(good[-1].flits())

    rig, received = receive(width, pieces, latency=3, chance={"wire": 0.1})

    assert received == good
    assert rig.dropped == 128
    assert_all_credits_home(rig, 256)


@pytest.mark.parametrize("width", WIDTHS)
def test_damaged_packets_in_a_row_do_not_slow_the_wire(width):
    make = Maker(width, 2)
    size = make.format.payload_bytes
    pieces = [make.flits(make.packet(size), flip=[99]) for _ in range(60)]
    last = make.packet()

    rig, received = receive(width, [*pieces, last.flits()], paced=True)

    assert received == [last]
    assert rig.dropped == 60
    # Credits are back so fast that the wire never waited for one.
    beats = [n for n, count in enumerate(rig.activity) if count]
    assert beats[-1] - beats[0] + 1 == len(beats)


@pytest.mark.parametrize("width", WIDTHS)
def test_packet_cut_short_anywhere_is_dropped_when_the_next_header_comes(width):
    make = Maker(width, 3)
    size = make.format.payload_bytes
    pieces, good = [], []
    for lost in range(1, size // 16 + 1):
        pieces.append(make.flits(make.packet(size))[:-lost])
        good.append(make.packet())
        pieces.append(good[-1].flits())

    rig, received = receive(width, pieces, chance={"wire": 0.2})

    assert received == good
    assert rig.dropped == size // 16
    assert_all_credits_home(rig, 2 * rig.dropped)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("run", [1, 2, 7, 40])
def test_flits_without_header_are_one_drop_and_no_credit(width, run):
    make = Maker(width, 4)
    before, after = make.packet(), make.packet()
    stray = [(make.rng.getrandbits(128) & ~1, 0) for _ in range(run)]

    rig, received = receive(width, [before.flits(), stray, after.flits()])

    assert received == [before, after]
    assert rig.dropped == 1
    assert_all_credits_home(rig, 2)


@pytest.mark.parametrize("width", WIDTHS)
def test_header_that_lost_its_mark_is_dropped_and_its_credit_returned(width):
    make = Maker(width, 5)
    before, after = make.packet(), make.packet()
    (header, _), *payload = make.packet(48).flits()

    pieces = [before.flits(), [(header, 0), *payload], after.flits()]

    rig, received = receive(width, pieces, lost_marks=1)

    assert received == [before, after]
    assert rig.dropped == 1
    assert_all_credits_home(rig, 3)


@pytest.mark.parametrize("width", WIDTHS)
def test_false_mark_in_a_payload_costs_that_packet_only(width):
    make = Maker(width, 6)
    size = make.format.payload_bytes
    pieces, good = [], []
    for place in range(1, size // 16 + 1):
        flits = make.flits(make.packet(size))
        flits[place] = (flits[place][0] & ~1, 1)
        pieces.append(flits)
        good.append(make.packet())
        pieces.append(good[-1].flits())

    rig, received = receive(width, pieces)

    assert received == good
    assert rig.dropped == 2 * (size // 16)  # the cut packet, and what claims to be a header


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "name, values",
    [
        ("offload", [0]),
        ("kind", [0, 6, 7]),
        ("length", [-1, 4095]),
    ],
)
def test_header_with_an_impossible_field_is_dropped(width, name, values):
    make = Maker(width, 7)
    pieces, good = [], []
    for value in values:
        packet = make.packet(32)
        place = make.format.layout[name]
        mask = ((1 << place.width) - 1) << place.offset
        value = make.format.payload_bytes + 1 if value == -1 else value
        bad = type(packet)(packet.header & ~mask | value << place.offset, packet.payload)
        pieces.append(bad.flits())
        good.append(make.packet())
        pieces.append(good[-1].flits())

    rig, received = receive(width, pieces)

    assert received == good
    assert rig.dropped == len(values)
    assert_all_credits_home(rig, 2 * len(values))


def test_ready_packet_with_a_payload_is_dropped():
    make = Maker(4, 8)
    packet, after = make.packet(64), make.packet()
    place = make.format.layout["kind"]
    ready = type(packet)(packet.header ^ 3 << place.offset, packet.payload)
    assert get_field(make.format, ready.header, "kind") == 2

    rig, received = receive(4, [ready.flits(), after.flits()])

    assert received == [after]
    assert rig.dropped == 1


@pytest.mark.parametrize("width", WIDTHS)
def test_random_damage_never_stops_the_link_nor_reaches_the_consumer(width):
    make = Maker(width, 9)
    pieces, good, dropped = [], [], 0
    for _ in range(150):
        packet = make.packet()
        flits = make.flits(packet)
        kind = make.rng.randrange(4)
        if kind == 0 and len(flits) > 1:
            flits = flits[: make.rng.randrange(1, len(flits))]
            dropped += 1
        elif kind == 1:
            flits = make.flits(packet, flip=make.rng.sample(range(1, 127), 3))
            dropped += 1
        else:
            good.append(packet)
        pieces.append(flits)
    good.append(make.packet())
    pieces.append(good[-1].flits())
    chance = {"wire": 0.2, "header": 0.5, "read": 0.5}

    rig, received = receive(width, pieces, latency=4, chance=chance)

    assert received == good
    assert rig.dropped == dropped
    assert_all_credits_home(rig, 151)

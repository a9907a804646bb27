# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""A transmit port, a wire with latency and a receive buffer: whole packets, once, in order."""

import random

import pytest

from tests.hw.link.wire import RX_PACKETS, WIDTHS, Rig, beats_of, format_of, make_packet

PAUSES = [
    {},
    {"write": 0.4, "wire": 0.3, "header": 0.3, "read": 0.3},
    {"wire": 0.7},
    {"write": 0.9},
    {"header": 0.9, "read": 0.8},
]


def packets_of(width, count, seed, lengths=None):
    rng = random.Random(seed)
    return [make_packet(format_of(width), rng, length) for length in lengths or [None] * count]


def assert_home(rig):
    assert rig.credits == RX_PACKETS
    assert rig.get("s_idle") and rig.get("r_idle")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("chance", PAUSES, ids=["flow", "mixed", "wire", "writer", "consumer"])
def test_packets_arrive_once_in_order_and_whole(width, chance):
    packets = packets_of(width, 150, seed=width)
    rig = Rig(width, seed=1, latency=5, chance=chance, to_send=(packets, ()))

    assert rig.run() == packets
    assert rig.dropped == 0
    assert_home(rig)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_payload_length_arrives(width):
    packets = packets_of(width, 0, seed=5, lengths=range(format_of(width).payload_bytes + 1))
    rig = Rig(width, seed=2, latency=2, chance={"wire": 0.1}, to_send=(packets, ()))

    assert rig.run() == packets


@pytest.mark.parametrize("width", [1, 4])
def test_two_queues_share_the_wire_each_in_order(width):
    ours, theirs = packets_of(width, 80, seed=7), packets_of(width, 80, seed=8)
    chance = {"write": 0.3, "wire": 0.2}
    rig = Rig(width, seed=3, latency=3, chance=chance, to_send=(ours, theirs))

    received = rig.run()

    assert [packet for packet in received if packet in ours] == ours
    assert [packet for packet in received if packet in theirs] == theirs
    assert len(received) == 160
    assert_home(rig)


def test_forwarded_packets_go_first():
    first, second = packets_of(4, 0, 1, [256] * 6), packets_of(4, 0, 2, [256] * 6)
    rig = Rig(4, latency=1, to_send=(first, second))

    received = rig.run()

    # The other queue moves up only while the preferred one is being refilled or is empty.
    assert received[:2] == first[:2]
    assert received[-3:] == second[-3:]


@pytest.mark.parametrize("width", WIDTHS)
def test_wire_has_no_gap_while_packets_are_queued(width):
    size = format_of(width).payload_bytes
    full = packets_of(width, 0, 1, [size] * 40), packets_of(width, 0, 2, [size] * 40)
    rig = Rig(width, latency=20, to_send=full)

    rig.run()

    flits = 80 * (beats_of(width) * width + 1)
    beats = [n for n, count in enumerate(rig.activity) if count]
    assert sum(rig.activity) == flits
    assert len(beats) == -(-flits // width)
    # All but the flush of the last flits is gapless.
    steady = beats[: flits // width]
    assert steady[-1] - steady[0] + 1 == len(steady)


def test_published_packet_takes_four_and_a_quarter_beats():
    packets = packets_of(4, 0, 1, [256] * 64)
    rig = Rig(4, latency=20, to_send=(packets[:32], packets[32:]))

    rig.run()

    beats = [n for n, count in enumerate(rig.activity) if count]
    assert len(beats) == 64 * 17 // 4 == beats[-1] - beats[0] + 1


def test_packet_is_on_the_wire_two_cycles_after_its_header():
    packets = packets_of(1, 0, 3, [48])
    rig = Rig(1, latency=1, to_send=(packets, ()))
    rig.run()

    # Three beats are written in cycles 0 to 2, the header with the last one.
    assert [n for n, count in enumerate(rig.activity) if count] == [4, 5, 6, 7]


def test_starved_port_says_so_and_sends_nothing_beyond_its_credits():
    packets = packets_of(2, 40, seed=4)
    rig = Rig(2, latency=1, chance={"header": 1.0}, to_send=(packets, ()))
    for _ in range(600):
        rig.cycle()

    assert rig.credits == 0
    assert rig.get("s_starved") and not rig.get("s_idle") and not rig.get("r_idle")
    rig.chance = {}
    assert rig.run() == packets
    assert not rig.get("s_starved")
    assert_home(rig)


def test_a_port_that_has_nothing_to_send_is_not_starved_though_all_credits_are_out():
    packets = packets_of(2, RX_PACKETS, seed=4)
    rig = Rig(2, latency=1, chance={"header": 1.0}, to_send=(packets, ()))
    for _ in range(600):
        rig.cycle()

    assert rig.credits == 0 and not rig.get("s_starved")
    rig.chance = {}
    assert rig.run() == packets
    assert_home(rig)


class Bursts(Rig):
    """The wire is held for a while, then flows for a while."""

    def pauses(self, place):
        if place != "wire":
            return super().pauses(place)
        held, flowing = self.chance["wire"]
        return self.now % (held + flowing) < held


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("held, flowing", [(20, 60), (9, 9), (16, 200), (3, 1)])
def test_short_packets_do_not_overrun_the_receiver(width, held, flowing):
    size = format_of(width).payload_bytes
    short = packets_of(width, 0, 1, ([0] * 24 + [size] * 12 + [1] * 24) * 3)
    large = packets_of(width, 0, 2, [size] * 40 + [16 * width + 1] * 40)
    chance = {"wire": (held, flowing)}
    rig = Bursts(width, latency=4, chance=chance, to_send=(short, large))

    received = rig.run()  # the rig asserts rx.ready for each beat

    assert len(received) == len(short) + len(large)
    assert_home(rig)


@pytest.mark.parametrize("width", WIDTHS)
def test_sender_without_manners_is_stalled_and_overwrites_nothing(width):
    packets = packets_of(width, 60, seed=6)
    raw = [flit for packet in packets for flit in packet.flits()]
    rig = Rig(width, raw=raw, trust=False, paced=False, chance={"header": 0.8, "read": 0.8})

    assert rig.run() == packets
    assert rig.dropped == 0
    assert rig.get("r_idle")


@pytest.mark.parametrize("width", WIDTHS)
def test_header_is_offered_three_cycles_after_the_last_beat(width):
    packet = packets_of(width, 0, 1, [16])[0]
    rig = Rig(width, raw=list(packet.flits()), latency=2)
    while not rig.get("r_header_valid"):
        rig.cycle()

    arrival = max(n for n, count in enumerate(rig.activity) if count) + 2
    assert rig.now - arrival == 3


def test_credit_too_many_is_ignored():
    packets = packets_of(2, 40, seed=4)
    rig = Rig(2, latency=1, chance={"header": 1.0}, to_send=(packets, ()))
    rig.model.set(rig.port("s_credit"), 1)
    rig.model.cycle(10)
    for _ in range(600):
        rig.cycle()  # the rig asserts that no packet is sent without credit

    assert rig.credits == 0
    rig.chance = {}
    assert rig.run() == packets
    assert_home(rig)

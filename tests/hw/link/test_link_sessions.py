# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Sessions of links with retry: copies that come late, cables that are cut, ends that are reset."""

import random

import pytest

from tb.link.lossy import Faults
from tb.link.retry import KINDS, Link, PacketEnd, numbered_packet, retry_config
from tests.families import full
from tests.hw.link.retry_model import ModelEnd

FLITS, CREDITS = 4, 3
LATENCY = 5
KEEPALIVE = 300
END = {"rtl": (PacketEnd, PacketEnd), "model": (PacketEnd, ModelEnd)}


def make(rng, *, kinds=END["rtl"], faults=None, **options):
    config = retry_config(LATENCY, **{"slots": 8, "tries": 4, "keepalive_cycles": KEEPALIVE,
                                      **options})
    ends = [kind(payload_flits=FLITS, credits=CREDITS, config=config, rng=rng) for kind in kinds]
    return ends, Link(ends, latency=LATENCY, faults=faults, seed=rng.random())


def fill(ends, rng, *, count, begin=0):
    """Packets for both ends to send; those that each is to get."""
    sent = [[numbered_packet(begin + k, flits=FLITS, kind=rng.choice(KINDS), rng=rng)
             for k in range(count)] for _ in ends]
    for end, each in zip(ends, sent):
        end.queue.extend(list(flits) for flits in each)
    return sent[::-1]


def exact(ends, expected):
    for end, wanted in zip(ends, expected):
        if isinstance(end, ModelEnd):
            wanted = [((flits[0] & (1 << 128) - 1) >> 1 & (1 << 79) - 1, flits[1:])
                      for flits in wanted]
        assert end.packets == wanted
        assert end.credits == [CREDITS] * 3, "a credit was lost"
        end.packets.clear()


@pytest.mark.parametrize("kinds", END)
@pytest.mark.parametrize(
    "seed", [0, 1, *full(range(2, 20))]
)
@pytest.mark.parametrize("longest, probability", [(400, 0.0), (5000, 0.02)])
def test_late_copies_change_nothing(longest, probability, seed, kinds):
    """Copies of every third frame: those of the link itself come as late as can be."""
    rng = random.Random(seed)
    faults = [Faults.all(probability) for _ in range(2)]
    for each in faults:
        each.late, each.control_delay = 0.3, (20, longest)
    ends, link = make(rng, kinds=END[kinds], faults=faults, tries=30)
    for turn in range(3):
        expected = fill(ends, rng, count=150, begin=1000 * turn)
        link.settle()
        exact(ends, expected)
        for _ in range(longest // 2):  # copies come to an idle link, too
            link.step()
    link.settle()

    assert all(each.copies > 50 for each in faults)
    assert [getattr(end, "restarts", 0) for end in ends] == [0, 0]
    assert not any(end.failed for end in ends) and all(end.up for end in ends)


@pytest.mark.parametrize("kinds", END)
@pytest.mark.parametrize("ways", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize(
    "seed", [0, *full(range(1, 12))]
)
def test_a_cable_is_cut_and_mended(seed, ways, kinds):
    """At random moments, for random times: nothing is lost, nobody is reset."""
    rng = random.Random(seed)
    ends, link = make(rng, kinds=END[kinds])
    link.run(lambda: all(end.up for end in ends))
    fallen = 0
    for turn in range(6):
        expected = fill(ends, rng, count=40, begin=1000 * turn)
        for _ in range(rng.randrange(200)):
            link.step()
        for way in ways:
            link.wires[way].cut = True
        for _ in range(rng.choice((5, 50, 300, 1500)) if turn < 5 else 2500):
            link.step()
        fallen += all(end.failed for end in ends)
        assert not any(end.failed and end.up for end in ends)
        for way in ways:
            link.wires[way].cut = False
        link.settle()
        exact(ends, expected)
        assert all(end.up and not end.failed for end in ends)

    assert fallen > 0
    assert [getattr(end, "restarts", 0) for end in ends] == [0, 0]


@pytest.mark.parametrize("way", [(0,), (1,), (0, 1)])
def test_both_ends_of_an_idle_link_notice_that_it_is_cut(way):
    rng = random.Random(1)
    ends, link = make(rng)
    link.settle()
    timeout = retry_config(LATENCY).timeout_cycles
    for each in way:
        link.wires[each].cut = True
    begin = link.cycle

    link.run(lambda: all(end.failed for end in ends))

    assert not any(end.up for end in ends)
    assert link.cycle - begin < 2 * (KEEPALIVE + 6 * timeout)
    for each in way:
        link.wires[each].cut = False
    begin = link.cycle
    link.run(lambda: all(end.up for end in ends))
    assert link.cycle - begin < 4 * timeout
    expected = fill(ends, rng, count=20)
    link.settle()
    exact(ends, expected)


def test_a_link_that_is_idle_but_whole_is_asked_now_and_then_and_does_not_fail():
    rng = random.Random(1)
    ends, link = make(rng)
    link.settle()
    before = list(link.busy)
    for _ in range(20 * KEEPALIVE):
        link.step()
        assert all(end.up and not end.failed for end in ends)
    sent = [now - then for now, then in zip(link.busy, before)]
    assert all(18 <= count <= 42 for count in sent), sent


def test_a_survivor_is_told_that_its_peer_was_reset():
    rng = random.Random(3)
    ends, link = make(rng)
    for turn in range(5):
        expected = fill(ends, rng, count=20, begin=100 * turn)
        link.settle()
        exact(ends, expected)
        assert ends[1].restarts == turn and ends[0].restarts == 0
        ends[0].restart()
        link.run(lambda: not ends[1].up)
        link.run(lambda: all(end.up for end in ends))
    assert not any(end.failed for end in ends)


def test_a_peer_that_is_reset_for_long_has_failed_meanwhile():
    rng = random.Random(3)
    ends, link = make(rng)
    link.settle()
    for wire in link.wires:
        wire.cut = True
    link.run(lambda: ends[1].failed)
    ends[0].restart()
    assert ends[1].restarts == 0
    for wire in link.wires:
        wire.cut = False
    link.run(lambda: ends[1].restarts == 1 and all(end.up for end in ends))
    assert not any(end.failed for end in ends)
    expected = fill(ends, rng, count=20)
    link.settle()
    exact(ends, expected)

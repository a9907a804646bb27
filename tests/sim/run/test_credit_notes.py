# SPDX-License-Identifier: Apache-2.0
"""Descriptions whose credits do not cover the round trip of their links say so."""

import re

import pytest

from sim.run import run


def described(level, **switch):
    return {
        "topology": {"kind": "switch", "shape": [4], "latency_s": 150e-9,
                     "bandwidth_bytes_per_s": 25e9},
        "endpoint": {"kind": "in_switch", **({} if level == "events" else {"level": level})},
        "switch": {"preset": "16-port", "mode": "pull",
                   **({} if level == "events" else {"level": level}), **switch},
        "workload": {"collective": "all_reduce", "size_bytes": 4096},
        "run": {"passes": 1},
    }


def notes_of(level, **switch):
    return [note for note in run(described(level, **switch)).record.notes if "credits" in note]


@pytest.mark.parametrize(
    "level", ["events", "cycles", pytest.param("rtl", marks=pytest.mark.full)]
)
def test_what_does_not_cover_a_round_trip_is_named_with_what_would(level):
    (note,) = notes_of(level)

    found = re.fullmatch(
        r"links wait for credits: switch\.credits = 8 and switch\.buffer_packets = 8 do not cover "
        r"a round trip of (\d+) cycles, (\d+) would", note
    )
    cycles, wanted = map(int, found.groups())
    assert 2 * 234 < cycles < 2 * 234 + 60 and wanted == -(-cycles // 9)
    assert not notes_of(level, credits=wanted, buffer_packets=wanted)
    (note,) = notes_of(level, credits=wanted - 1, buffer_packets=wanted)
    assert f"switch.credits = {wanted - 1} does not" in note


def test_what_packets_wait_before_a_switch_counts_once():
    far = described("events", buffer_packets=30, credits=8)
    far["topology"] |= {"latency_s": 6.4e-9, "router_latency_s": 150e-9}
    assert [n for n in run(far).record.notes if "credits" in n] == []
    far["switch"]["buffer_packets"] = 28
    (note,) = [n for n in run(far).record.notes if "credits" in n]
    assert re.search(r"switch\.buffer_packets = 28 does not .*, (29|30) would$", note)


def test_what_no_buffer_covers_says_so():
    far = described("events")
    far["topology"]["latency_s"] = 1e-6
    (note,) = [note for note in run(far).record.notes if "credits" in note]
    assert "more than the 64 there can be" in note


def test_credits_that_cover_a_link_fill_it():
    """And fewer do not: the figure is of the hardware, not of the note."""
    (note,) = notes_of("cycles")
    wanted = int(re.search(r"(\d+) would", note)[1])

    def time_s(credits):
        wide = described("cycles", credits=credits, buffer_packets=credits)
        wide["switch"]["mode"] = "push"
        wide["endpoint"] |= {"read_ahead": 64}
        wide["workload"]["size_bytes"] = 1 << 17
        return run(wide).time_s

    full, short, more = time_s(wanted), time_s(wanted // 2), time_s(min(64, wanted + 12))
    assert short > 1.3 * full and full < 1.05 * more

# SPDX-License-Identifier: Apache-2.0
"""Events of a preset against the cycle model of its engine, at ordinary parameters."""

from copy import deepcopy
from dataclasses import replace

import pytest

from bench._levels_drawn import GROUPS, Draw, compare, draw, judge
from sim.endpoint.latencies import EventLatencies
from sim.run import run

ACE_HZ, NIC_HZ, SWITCH_HZ = 1.245e9, 200e6, 25e9 / 16
ACE_BUS, NIC_BUS = {"test": 16, "duo": 16, "ring": 64}, {"test": 32, "40g": 32, "100g": 64}
NIC_BUS |= {"400g": 256}


def ace(preset, nodes, size, *, link=20, read=50, write=4, pace=1.0, **engine):
    return {
        "topology": {
            "kind": "ring", "shape": [nodes], "latency_s": link / ACE_HZ,
            "bandwidth_bytes_per_s": pace * ACE_BUS[preset] * ACE_HZ,
        },
        "endpoint": {"kind": "ace", "preset": preset, **engine},
        "memory": {"read_latency_s": read / ACE_HZ, "write_latency_s": write / ACE_HZ},
        "workload": {"collective": "all_reduce", "size_bytes": size},
        "run": {"passes": 1},
    }


def nic(preset, nodes, size, *, link=20, read=50, write=10, **engine):
    return {
        "topology": {
            "kind": "switch", "shape": [nodes], "latency_s": link / 2 / NIC_HZ,
            "bandwidth_bytes_per_s": NIC_BUS[preset] * NIC_HZ,
        },
        "endpoint": {"kind": "smartnic", "preset": preset, **engine},
        "memory": {"read_latency_s": read / NIC_HZ, "write_latency_s": write / NIC_HZ},
        "workload": {"collective": "all_reduce", "size_bytes": size},
        "run": {"passes": 1},
    }


def switch(mode, nodes, size, *, link=20, read=50, write=10, endpoint=None, **config):
    return {
        "topology": {
            "kind": "switch", "shape": [nodes], "latency_s": link / SWITCH_HZ,
            "bandwidth_bytes_per_s": 16 * SWITCH_HZ,
        },
        "endpoint": {"kind": "in_switch", **(endpoint or {})},
        "switch": {"preset": "16-port", "mode": mode, "clock_hz": SWITCH_HZ, **config},
        "memory": {"read_latency_s": read / SWITCH_HZ, "write_latency_s": write / SWITCH_HZ},
        "workload": {"collective": "all_reduce", "size_bytes": size},
        "run": {"passes": 1},
    }


def times(description):
    made = deepcopy(description)
    found = []
    for level in ("events", "cycles"):
        made["endpoint"]["level"] = level
        found.append(run(made, source="test").time_s)
    return found


def error(description):
    """Of events, in percent; positive where they are too slow."""
    events, cycles = times(description)
    return 100 * (events / cycles - 1)


KIB = 1024
LARGE = {
    "slow memory": ace("test", 3, 60_000, read=400),
    "slow memory, two directions": ace("duo", 5, 200_000, read=400, write=400),
    "ring preset": ace("ring", 8, 512 * KIB),
    "a link of 0.3": ace("ring", 5, 200_000, pace=0.3),
    "odd ring, few credits": ace("ring", 5, 200_000, link=300, rx_packets=32),
    "parked": ace("test", 4, 64 * KIB),
    "codec": nic("test", 2, 256 * KIB, compress=True),
    "0.5 us": nic("100g", 4, 256 * KIB, link=100),
    "40g": nic("40g", 5, 300_000),
    "400g": nic("400g", 2, 512 * KIB),
    "one block for four engines": nic("400g", 15, 253_448, compress=True),
    "slow host": nic("100g", 5, 200_000, read=900, write=700),
    "push, few credits": switch("push", 6, 64 * KIB, link=60, buffer_packets=3, credits=3),
    "push, few places": switch("push", 7, 64 * KIB, read=300, endpoint={"read_ahead": 4}),
    "push, stopped links": switch("push", 4, 64 * KIB, link=250, buffer_packets=4, credits=4),
}


@pytest.mark.parametrize("name", LARGE)
def test_rings_and_pushes_are_within_ten_percent(name):
    assert abs(error(LARGE[name])) <= 10


@pytest.mark.parametrize(
    "description",
    [
        switch("pull", 8, 64 * KIB),
        switch("pull", 6, 64 * KIB, link=200, endpoint={"waves": 2}),
        switch("pull", 3, 64 * KIB, read=80, endpoint={"read_ahead": 1}),
        switch("pull", 11, 64 * KIB, entries=16, buffer_packets=60, credits=60,
               endpoint={"read_ahead": 4, "waves": 8}),
    ],
)
def test_pulls_are_within_fifteen_percent(description):
    assert abs(error(description)) <= 15


@pytest.mark.parametrize(
    "description",
    [
        ace("test", 4, 4), ace("test", 4, 64), ace("ring", 8, 64), ace("test", 3, 64, write=500),
        nic("test", 2, 4), nic("100g", 8, 4, compress=True), nic("test", 8, KIB, read=500),
        switch("push", 2, 128), switch("push", 16, 128, write=800), switch("pull", 16, KIB),
    ],
)
def test_small_ones_are_within_twenty_percent(description):
    assert abs(error(description)) <= 20


@pytest.mark.parametrize("credits, more_is_slower", [(8, True), (64, False)])
def test_more_entries_change_a_pull_as_they_do_at_cycles(credits, more_is_slower):
    """With few credits loads stand before one another, the more of them are under way."""

    def with_entries(entries):
        return times(
            switch("pull", 15, 64 * KIB, link=592 if more_is_slower else 200, entries=entries,
                   buffer_packets=credits, credits=credits)
        )

    (few_events, few_cycles), (many_events, many_cycles) = with_entries(1), with_entries(16)
    assert (many_cycles > few_cycles) == more_is_slower
    assert (many_events > few_events) == more_is_slower


def test_every_latency_is_measured():
    stored = vars(EventLatencies.stored())
    assert all(isinstance(value, int) and value >= 0 for value in stored.values())


@pytest.mark.parametrize(
    "latency, description, most",
    [
        ("ace_hop", ace("test", 4, 64), 20),
        ("nic_sum", nic("test", 8, 4), 20),
        ("switch_start", switch("push", 2, 128), 20),
    ],
)
def test_a_wrong_latency_is_seen(monkeypatch, latency, description, most):
    stored = EventLatencies.stored()
    wrong = replace(stored, **{latency: 3 * getattr(stored, latency)})
    assert abs(error(description)) <= most
    monkeypatch.setattr(EventLatencies, "stored", classmethod(lambda cls: wrong))
    assert abs(error(description)) > most


def test_a_draw_depends_on_seed_and_number_alone():
    assert draw(1, 6) == draw(1, 6) != draw(2, 6)
    assert {draw(1, number).group for number in range(8)} == set(GROUPS)
    halves = [each.even for each in (draw(1, 0), draw(1, 1))]
    assert halves == [True, False]


def test_errors_of_draws_are_judged_by_size_and_engine(tmp_path):
    def drawn(group, size):
        return Draw(number=0, group=group, size_bytes=size, text="", description={})

    said = judge(
        [(drawn("ace", 1 << 20), -4.0), (drawn("pull", 1 << 20), 7.0), (drawn("push", 64), -9.0)]
    )
    assert (said.median, said.worst, said.pull_worst, said.small_worst) == (7, 4, 7, 9)
    (again,) = compare([draw(1, 88)], processes=1, folder=tmp_path)
    assert again[0].number == 88 and abs(again[1]) <= 20
    assert list(tmp_path.iterdir())

# SPDX-License-Identifier: Apache-2.0
"""A drawn part of ``python -m bench random_systems``, and that it finds what it looks for."""

import math
from dataclasses import replace

import pytest

from bench import random_systems
from bench._groups import group_violations, with_groups
from bench.random_systems import MOST_BYTES, draw, violations
from sim.endpoint import kinds
from sim.endpoint.kinds import KINDS, IdealEndpoint
from sim.network.network import Network
from sim.run import run

SMALL = 1 << 21


@pytest.mark.parametrize("number", range(20))
def test_drawn_system_does_nothing_that_it_must_not(number: int) -> None:
    assert violations(draw(7, number, most_bytes=SMALL)) == []


@pytest.mark.parametrize("number", [14, 38, 284])
def test_what_comes_earlier_holds_nothing_up_on_links(number: int) -> None:
    """Last phases of chunks went before those of others that had more to go: an ideal endpoint and
    links with less latency made these systems slower."""
    assert violations(draw(1, number)) == []


@pytest.mark.parametrize(
    ("seed", "number", "most_bytes"), [(4, 306, 1 << 23), (8, 156, MOST_BYTES)]
)
def test_chunks_that_begin_in_reverse_make_no_ideal_endpoint_slower(
    seed: int, number: int, most_bytes: int
) -> None:
    """Broadcasts that took the ideal endpoint up to a fifth longer than ACE."""
    assert violations(draw(seed, number, most_bytes=most_bytes)) == []


@pytest.mark.parametrize("number", range(2, 82, 4))
def test_collectives_of_all_do_not_notice_groups(number: int) -> None:
    assert with_groups(number)
    assert list(group_violations(draw(3, number), 3, number)) == []


def test_groups_that_split_the_network_for_all_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: every collective of the job in the shape of the groups."""
    monkeypatch.setattr(Network, "view", lambda network, dimensions: (network, dimensions))
    found = [list(group_violations(draw(3, number), 3, number)) for number in range(2, 42, 4)]

    assert sum(any("of all NPUs" in what for what in each) for each in found) >= 3


def test_draw_covers_what_it_should() -> None:
    drawn = [draw(1, number) for number in range(300)]
    nodes = [run_nodes(each) for each in drawn]

    assert {each["endpoint"]["kind"] for each in drawn} == set(KINDS)
    assert len({each["workload"].get("collective") for each in drawn}) == 6
    assert sum("network" in each for each in drawn) >= 60
    assert sum("generator" in each["workload"] for each in drawn) >= 60
    assert min(nodes) == 2 and max(nodes) <= 512
    assert drawn[17] == draw(1, 17) != draw(2, 17)


def run_nodes(system: random_systems.Description) -> int:
    product = 1
    for size in system["topology"]["shape"]:
        product *= size
    return product


GATHERED = {
    "topology": {"kind": "switch", "shape": [8], "latency_s": 400e-9},
    "endpoint": {"kind": "baseline_comm_opt"},
    "workload": {"collective": "all_gather", "size_bytes": 1 << 16},
    "scheduler": {"chunk_bytes": 65536, "concurrency": 8},
    "run": {"passes": 1, "check": True},
}


def test_slow_ideal_endpoint_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert violations(GATHERED) == []
    slow = IdealEndpoint(delay_s=1e-6)
    monkeypatch.setitem(kinds.SOFTWARE, "ideal", slow)

    assert [check for check, _ in violations(GATHERED)] == ["ideal"]


def test_ideal_endpoint_is_compared_at_the_messages_of_the_other() -> None:
    """Whole steps would be stored at the switch."""
    whole = {**GATHERED, "endpoint": {"kind": "ideal", "message_bytes": None}}
    changed = random_systems._ideal(run(GATHERED))["endpoint"]

    assert changed["message_bytes"] == 8192
    assert run(whole).time_s > 1.1 * run(GATHERED).time_s


def test_no_endpoint_cuts_messages_finer_than_the_ideal_one() -> None:
    """But the one that changes the algorithm, by which it is compared with its own."""
    sizes = {
        name: getattr(each, "message_bytes", math.inf)
        for name, each in KINDS.items()
        if name != "in_switch"
    }

    assert sizes["ideal"] == min(sizes.values())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("baseline")])
def test_no_endpoint_handles_small_messages_faster_than_the_ideal_one(kind: str) -> None:
    """72 steps of a few bytes: rates alone took no time for them."""
    system = {
        "topology": {"kind": "ring", "shape": [37], "latency_s": 50e-9},
        "endpoint": {"kind": kind},
        "workload": {"collective": "all_reduce", "size_bytes": 37 * 64},
        "run": {"passes": 1},
    }

    assert violations(system) == []


def test_switches_reduce_only_where_there_are_some() -> None:
    drawn = [draw(seed, number) for seed in (1, 2) for number in range(300)]
    reducing = [each for each in drawn if each["endpoint"]["kind"] == "in_switch"]

    assert reducing
    assert not any("network" in each for each in reducing)
    switches = {"switch", "hierarchical_all_to_all", "dgx2", "fat_tree"}
    assert {each["topology"]["kind"] for each in reducing} == switches


def test_run_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    system = draw(7, 2, most_bytes=SMALL)
    made = []

    def unsteady(description: random_systems.Description):  # type: ignore[no-untyped-def]
        done = run(description)
        made.append(done)
        shifted = done.record.task_end_fs + len(made)
        return done.with_parts(record=replace(done.record, task_end_fs=shifted))

    monkeypatch.setattr(random_systems, "run", unsteady)

    assert "repeat" in [check for check, _ in violations(system)]

"""A drawn part of ``python -m bench random_systems``, and that it finds what it looks for."""

from dataclasses import replace

import pytest

from bench import random_systems
from bench.random_systems import draw, violations
from sim.endpoint.kinds import KINDS, IdealEndpoint
from sim.run import run

SMALL = 1 << 21


@pytest.mark.parametrize("number", range(20))
def test_drawn_system_does_nothing_that_it_must_not(number: int) -> None:
    assert violations(draw(7, number, most_bytes=SMALL)) == []


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


def test_slow_ideal_endpoint_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was once: whole chunks stored at every switch."""
    system = {
        "topology": {"kind": "switch", "shape": [8], "latency_s": 400e-9},
        "endpoint": {"kind": "baseline_comm_opt"},
        "workload": {"collective": "all_gather", "size_bytes": 1 << 16},
        "run": {"passes": 1, "check": True},
    }
    assert violations(system) == []
    monkeypatch.setitem(KINDS, "ideal", IdealEndpoint(message_bytes=None))  # type: ignore[arg-type]

    assert [check for check, _ in violations(system)] == ["ideal"]


def test_run_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    system = draw(7, 2, most_bytes=SMALL)
    made = []

    def unsteady(description: random_systems.Description):  # type: ignore[no-untyped-def]
        done = run(description)
        made.append(done)
        shifted = done.record.task_end_fs + len(made)
        return replace(done, record=replace(done.record, task_end_fs=shifted))

    monkeypatch.setattr(random_systems, "run", unsteady)

    assert "repeat" in [check for check, _ in violations(system)]

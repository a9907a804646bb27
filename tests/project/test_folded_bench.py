# SPDX-License-Identifier: Apache-2.0
"""The bench of folded rings sees what is unlike, and what is not refused."""

import pytest

from bench import folded
from sim.fields import FoldError
from sim.hosts.wiring import EngineWiring
from sim.workload.graph import CollectiveKind
from tests.families import quick


def case(level, **changes):
    given = {"preset": "test", "shape": (4,), "latency_cycles": 16, "size_bytes": 1 << 11,
             "kind": CollectiveKind.ALL_REDUCE}
    return folded._Case(level=level, **{**given, **changes})


@pytest.mark.parametrize("level", quick(1, ["cycles", "rtl"]))
def test_a_wire_that_is_a_cycle_longer_shows(level, monkeypatch):
    assert folded._compare((case(level), 1))["differs"] == []
    ring = EngineWiring.ring.__func__

    def longer(cls, ranks, *, latency_cycles, **more):
        return ring(cls, ranks, latency_cycles=latency_cycles + (ranks == 1), **more)

    monkeypatch.setattr(EngineWiring, "ring", classmethod(longer))
    found = folded._compare((case(level), 1))["differs"]
    assert {"host", "last_cycle 0"} <= {*found} and "beats 0" not in found


@pytest.mark.parametrize("level", [pytest.param("rtl", marks=pytest.mark.full), "cycles"])
def test_ranks_with_another_phase_at_the_banks_show(level, monkeypatch):
    """Without the rule of banks: a ring whose ranks are not alike."""
    monkeypatch.setattr("sim.cycles.ace.model.check_alike", lambda *args, **options: None)
    drawn = case(level, preset="duo", shape=(6,), latency_cycles=33, size_bytes=12_000)
    assert drawn.elements == 3024
    monkeypatch.setattr(folded._Case, "elements", property(lambda self: 3000))
    assert "bank_conflicts" in folded._compare((drawn, 1))["differs"]


def test_what_is_not_refused_or_in_two_lines_does_not_count(capsys):
    def refuse(text):
        def call():
            raise FoldError("links", text)
        return call

    assert folded._refused("one", refuse("must be alike"))
    assert not folded._refused("two", refuse("must be\nalike"))
    assert not folded._refused("three", lambda: None)
    assert "NOT REFUSED" in capsys.readouterr().out


def test_every_breaker_is_refused():
    breakers = folded._breakers()
    assert len(breakers) == 24
    assert all(folded._refused(name, call) for name, call in breakers.items())

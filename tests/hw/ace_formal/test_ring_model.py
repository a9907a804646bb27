"""Every run of the ring protocol between ACE engines, explored completely, and what happens without
its rules."""

import pytest

from sim.workload.graph import CollectiveKind
from tests.hw.ace_formal.explorer import explore
from tests.hw.ace_formal.ring_model import RingModel

# With the number of states, so that a change of the model that loses runs is noticed.
QUICK = [
    (RingModel(), 455),
    (RingModel(contexts=2), 34730),
    (RingModel(contexts=2, rx_packets=2), 38842),
    (RingModel(chunks=3, contexts=2), 231072),
    (RingModel(fsms=2), 33959),
    (RingModel(fsms=2, rx_packets=2, tx_packets=2), 40921),
    (RingModel(fsms=2, chunks=3), 79082),
    (RingModel(nodes=3), 18880),
    (RingModel(nodes=3, collective=CollectiveKind.ALL_GATHER), 6668),
    (RingModel(nodes=3, collective=CollectiveKind.REDUCE_SCATTER), 6668),
]
FULL = [
    (RingModel(nodes=4, chunks=1), 676676),
    (RingModel(nodes=4), 1399943),
    (RingModel(nodes=3, contexts=2, collective=CollectiveKind.REDUCE_SCATTER), 4759257),
]

# Leaving out a rule, on the smallest system on which it shows.
NEEDED = [
    (RingModel(fsms=2), "packet waits for output", "deadlock"),
    (RingModel(), "send without READY", "does not expect it"),
    (RingModel(), "admission in any order", "deadlock"),
    (RingModel(contexts=2), "generator waits for grant", "deadlock"),
    (RingModel(), "early READY forgotten", "deadlock"),
    (RingModel(), "READY before load", "does not expect it"),
    (RingModel(contexts=2), "no credits", "overflows"),
]


def describe(value):
    """Short name of a model for the test report; nothing for a count."""
    if isinstance(value, RingModel):
        m = value
        return (
            f"{m.collective.name.lower()}-{m.nodes}-nodes-{m.chunks}-chunks-{m.contexts}-contexts-"
            f"{m.fsms}-fsms-rx-{m.rx_packets}-tx-{m.tx_packets}"
        )
    return str(value)


def check(model, states):
    found = model.explore()
    assert found.fault is None, found.report()
    assert found.states == states


@pytest.mark.parametrize("model, states", QUICK, ids=describe)
def test_every_run_completes_every_chunk(model, states):
    check(model, states)


@pytest.mark.full
@pytest.mark.parametrize("model, states", FULL, ids=describe)
def test_every_run_of_larger_rings_completes_every_chunk(model, states):
    check(model, states)


@pytest.mark.parametrize("model, rule, fault", NEEDED, ids=describe)
def test_without_the_rule_the_protocol_breaks(model, rule, fault):
    assert model.explore().fault is None

    found = model.without(rule).explore()

    assert fault in (found.fault or "nothing"), found.report()
    assert found.trace
    print(found.report())  # shown by `pytest -s`


def test_explorer_finds_a_cycle():
    found = explore(0, lambda n: [("on", n + 1 if n < 3 else 1)], lambda n: False)

    assert found.fault == "livelock: a run need not end"


def test_explorer_finds_a_dead_end():
    found = explore(0, lambda n: [("on", n + 1)] if n < 3 else [], lambda n: n == 4)

    assert (found.fault, found.trace, found.states) == ("deadlock", ["on"] * 3, 4)

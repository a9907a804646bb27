# SPDX-License-Identifier: Apache-2.0
"""Every run of the protocol between ACE engines on rings, one or several after another, explored
completely, and what happens without its rules."""

import re
from dataclasses import replace

import pytest

from sim.collectives.phase_order import BY_DIMENSION
from sim.workload.graph import CollectiveKind
from tests.hw.ace_formal.explorations import complete, needed
from tests.hw.ace_formal.explorer import explore, wander
from tests.hw.ace_formal.ring_model import RingModel

GATHER, SCATTER = CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER
HALVES = RingModel(style="halves")
"""Reduce-scatter and all-gather as two phases, through one port."""

SQUARE = RingModel(shape=(2, 2), style="halves", chunks=1, at_once=True)
"""A torus, with two phases of a reduce-scatter or an all-gather, and four of an all-reduce."""

TORUS = replace(SQUARE, style="baseline")
"""All-reduces in both dimensions, one after the other."""

QUICK = [
    (RingModel(), 535),
    (RingModel(contexts=2), 46112),
    (RingModel(contexts=2, rx_packets=2), 51278),
    (RingModel(contexts=2, at_once=True), 14886),
    (RingModel(fsms=2), 50099),
    (RingModel(shape=(3,)), 28563),
    (RingModel(shape=(3,), collective=GATHER), 8349),
    (RingModel(shape=(3,), collective=SCATTER), 8349),
    (HALVES, 579),
    (replace(HALVES, contexts=2), 58358),
    (replace(HALVES, fsms=2), 60313),
    (replace(HALVES, shape=(3,)), 15797),
    (replace(SQUARE, collective=SCATTER), 75745),
    (TORUS, 50087),
]
FULL = [
    (RingModel(fsms=2, rx_packets=2, tx_packets=2), 61567),
    (replace(HALVES, contexts=2, rx_packets=2, tx_packets=2), 70854),
    (RingModel(fsms=2, chunks=3), 112764),
    (RingModel(chunks=3, contexts=2, at_once=True), 91433),
    (replace(SQUARE, collective=GATHER), 900793),
    (SQUARE, 538173),
    (replace(SQUARE, style="enhanced"), 1903973),
    (replace(HALVES, chunks=3, contexts=2), 375243),
    (RingModel(shape=(4,), chunks=1), 1308430),
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
    (HALVES, "READY of all phases at once", "early READY .* overwrites"),
    (HALVES, "READYs are not counted", "counts a packet .* in another phase"),
    (replace(HALVES, contexts=2), "generator waits for phase", "deadlock"),
    (HALVES, "phase waits for no packet", "replaces block .* which has not left"),
    (HALVES, "phase forgets sends", "counts a packet .* in another phase"),
    (HALVES, "slot free before store", "loads .* over a result that is not stored"),
    (HALVES, "sent before it is read", "reads .* from a slot that was given back"),
]


@pytest.mark.parametrize("model, states", QUICK, ids=str)
def test_every_run_completes_every_chunk(model, states):
    complete(model, states)


@pytest.mark.full
@pytest.mark.parametrize("model, states", FULL, ids=str)
def test_every_run_of_larger_systems_completes_every_chunk(model, states):
    complete(model, states)


@pytest.mark.parametrize("style", BY_DIMENSION)
@pytest.mark.parametrize("shape, runs", [((2, 2), 20), ((3, 2), 8), ((2, 2, 2), 2)], ids=str)
def test_random_runs_on_tori_complete_every_chunk(shape, runs, style):
    found = RingModel(shape=shape, style=style, chunks=3, contexts=2, fsms=2).wander(runs)
    assert found.fault is None, found.report()
    assert found.states > 200 * runs


@pytest.mark.parametrize("model, rule, fault", NEEDED, ids=str)
def test_without_the_rule_the_protocol_breaks(model, rule, fault):
    needed(model, rule, fault)


@pytest.mark.parametrize("model, rule, fault", [
    (replace(SQUARE, collective=GATHER), "one count for all phases", "packet .* in another phase"),
    (replace(SQUARE, collective=SCATTER), "operands may come ahead", "wrong ranks"),
    (replace(SQUARE, style="enhanced"), "operands may come ahead", "wrong ranks"),
], ids=str)
def test_packets_may_come_a_phase_ahead_if_they_gather_and_are_counted_for_theirs(
    model, rule, fault
):
    assert model.wander(50).fault is None

    found = model.without(rule).wander(200)

    assert re.search(fault, found.fault or "nothing"), found.report()


def test_a_phase_that_waits_for_no_send_loses_data_where_an_all_reduce_follows_another():
    rule = "phase waits for no send"
    found = TORUS.without(rule).explore()
    assert re.search("replaces block .* which has not left", found.fault or ""), found.report()
    print(found.report())
    # Where every phase scatters or gathers, what the next one replaces has left long ago, and the
    # counts alone need it.
    assert HALVES.without(rule).explore().fault is None
    assert replace(HALVES, shape=(3,), chunks=1).without(rule).explore().fault is None


def test_steps_done_at_once_hide_no_fault():
    for model, rule, _ in NEEDED:
        if rule in ("READY before load", "slot free before store"):
            continue  # these are what loads and stores commute by
        assert replace(model, at_once=True).without(rule).explore().fault is not None, rule


def test_explorer_finds_a_cycle():
    found = explore(0, lambda n: [("on", n + 1 if n < 3 else 1)], lambda n: False)

    assert found.fault == "livelock: a run need not end"


def test_explorer_finds_a_dead_end():
    found = explore(0, lambda n: [("on", n + 1)] if n < 3 else [], lambda n: n == 4)

    assert (found.fault, found.trace, found.states) == ("deadlock", ["on"] * 3, 4)


def test_random_runs_find_a_dead_end():
    found = wander(0, lambda n: [("on", n + 1)] if n < 3 else [], lambda n: n == 4, runs=2)

    assert (found.fault, found.trace) == ("deadlock", ["on"] * 3)
    assert wander(0, lambda n: [("on", 1)] if n < 1 else [], lambda n: n == 1, runs=2).fault is None

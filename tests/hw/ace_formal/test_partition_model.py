# SPDX-License-Identifier: Apache-2.0
"""Every run of engines with partitions by phase, explored completely, and what happens without
their rules."""

from dataclasses import replace

import pytest

from sim.workload.graph import CollectiveKind
from tests.hw.ace_formal.explorations import complete, needed
from tests.hw.ace_formal.partition_model import PartitionModel

GATHER, SCATTER = CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER
HALVES = PartitionModel(style="halves", at_once=True)
"""Reduce-scatter and all-gather on a ring, a phase each."""
DEEP = replace(HALVES, contexts=2, slots=(2, 2, 1))
"""Two chunks may be in each phase, but there is one slot for results."""

QUICK = [
    (PartitionModel(phases=1, slots=(1, 1)), 535),
    (replace(HALVES, at_once=False), 2076),
    (replace(HALVES, chunks=3), 1894),
    (replace(HALVES, contexts=2, slots=(2, 1, 1)), 1231),
    (DEEP, 136761),
    (replace(HALVES, shape=(3,)), 148525),
    (replace(HALVES, style="", shape=(3,), collective=GATHER), 211657),
    (replace(HALVES, style="", shape=(3,), collective=SCATTER), 8657),
    (replace(HALVES, shape=(2, 2), style="baseline", chunks=1), 103552),
]
FULL = [
    (replace(DEEP, slots=(2, 2, 2)), 285912),
    (replace(DEEP, chunks=3), 749831),
    (replace(HALVES, fsms=2), 223574),
    (replace(HALVES, shape=(2, 2), style="enhanced", phases=3, slots=(1, 1, 1, 1), chunks=1),
     329439),
]
NEEDED = [
    (DEEP, "chunks move on in any order", "deadlock"),
    pytest.param(
        DEEP, "slots are not kept", "moves chunk . to a slot that is in use", marks=pytest.mark.full
    ),
    pytest.param(
        DEEP, "copies are not counted", "copies from a slot that was given back|deadlock",
        marks=pytest.mark.full,
    ),
    (HALVES, "send without READY", "does not expect it"),
    (HALVES, "early READY forgotten", "deadlock"),
]


@pytest.mark.parametrize("model, states", QUICK, ids=str)
def test_every_run_completes_every_chunk(model, states):
    complete(model, states)


@pytest.mark.full
@pytest.mark.parametrize("model, states", FULL, ids=str)
def test_every_run_of_larger_systems_completes_every_chunk(model, states):
    complete(model, states)


@pytest.mark.parametrize("model, rule, fault", NEEDED)
def test_without_the_rule_the_protocol_breaks(model, rule, fault):
    needed(model, rule, fault)


@pytest.mark.parametrize("style, phases", [("enhanced", 3), ("halves", 4), ("baseline", 3)])
@pytest.mark.parametrize("shape, runs", [((2, 2), 12), ((3, 2), 5)], ids=str)
def test_random_runs_on_tori_complete_every_chunk(shape, runs, style, phases):
    model = PartitionModel(
        shape=shape, style=style, phases=phases, chunks=4, contexts=2, fsms=2,
        slots=(2, *([1, 2] * phases)[:phases]),
    )
    found = model.wander(runs)
    assert found.fault is None, found.report()
    assert found.states > 200 * runs

# SPDX-License-Identifier: Apache-2.0
"""Every run of the abort protocol on small rings, and what happens without its rules."""

from itertools import product

import pytest

from tests.hw.smartnic.abort_model import AbortModel

# With the number of states, so that a change of the model that loses runs is noticed.
QUICK = [
    (AbortModel(aborts=1, losses=1), 3011),
    (AbortModel(resets=1), 856),
    (AbortModel(epochs=(1, 1), resets=1), 2494),
    (AbortModel(epochs=(0, 0, 0), resets=1), 16858),
    (AbortModel(epochs=(0, 0, 0), aborts=1), 25099),
    (AbortModel(epochs=(0, 1, 2), clean=2), 30609),
]
FULL = [
    AbortModel(aborts=2),
    AbortModel(aborts=2, losses=1),
    AbortModel(epochs=(2, 2), aborts=1, resets=1),
]
# Leaving out a rule, on the smallest system on which it shows.
NEEDED = [
    (AbortModel(aborts=1), "one way", "given up"),
    (AbortModel(aborts=1), "hasty", "given up"),
    (AbortModel(aborts=1, losses=1), "once", "deadlock"),
    (AbortModel(epochs=(0, 3), clean=2), "blind", "deadlock"),
    (AbortModel(epochs=(3, 3), resets=1), "mute", "livelock"),
    (AbortModel(epochs=(1, 1), resets=1), "stale", "deadlock"),
    (AbortModel(epochs=(0, 4), clean=2), "serial", "livelock"),
]


def describe(value):
    """Short name of a model for the test report; nothing for a count."""
    if isinstance(value, AbortModel):
        m = value
        epochs = "-".join(map(str, m.epochs))
        return f"epochs-{epochs}-aborts-{m.aborts}-resets-{m.resets}-losses-{m.losses}"
    return str(value)


@pytest.mark.parametrize("model, states", QUICK, ids=describe)
def test_all_nodes_give_up_together_and_the_next_collective_is_complete(model, states):
    found = model.explore()
    assert found.fault is None, found.report()
    assert found.states == states


@pytest.mark.full
@pytest.mark.parametrize("model", FULL, ids=describe)
def test_all_nodes_of_larger_rings_give_up_together(model):
    found = model.explore()
    assert found.fault is None, found.report()


def test_from_any_epochs_one_collective_is_given_up_and_the_next_is_complete():
    for epochs in product(range(4), repeat=2):
        found = AbortModel(epochs=epochs, clean=2).explore()
        assert found.fault is None, (epochs, found.report())


@pytest.mark.full
def test_from_any_epochs_of_three_nodes_the_second_collective_is_complete():
    for epochs in product(range(3), repeat=3):
        found = AbortModel(epochs=epochs, clean=2).explore()
        assert found.fault is None, (epochs, found.report())


@pytest.mark.parametrize("model, rule, fault", NEEDED, ids=describe)
def test_without_the_rule_a_run_goes_wrong(model, rule, fault):
    assert model.explore().fault is None

    found = model.without(rule).explore()

    assert fault in (found.fault or "nothing"), found.report()


def test_protocol_that_only_passes_epochs_on_gives_up_collectives_without_a_fault():
    # The news of an abort is still on its way when all are idle.
    old = AbortModel(aborts=2).without("deaf", "mute", "blind", "hasty", "one way", "stale")

    assert "given up" in old.explore().fault

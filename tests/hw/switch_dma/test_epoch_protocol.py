# SPDX-License-Identifier: Apache-2.0
"""Every run of the epochs of a region on small systems, and what happens without their rules."""

import pytest

from tests.hw.switch_dma.epoch_model import EpochModel

# With the number of states, so that a change of the model that loses runs is noticed.
QUICK = [
    (EpochModel(resets=1), 4465),
    (EpochModel(start=1, aborts=2), 5122),
    (EpochModel(start=1, aborts=1, resets=1), 17598),
]
FULL = [
    EpochModel(start=1, aborts=4),
    EpochModel(resets=1, aborts=1),
    EpochModel(resets=3),
    EpochModel(start=1, resets=3),
    EpochModel(start=1, resets=2, aborts=1),
    EpochModel(places=(0, 1), resets=2),
    EpochModel(places=(0, 0, 0), start=1, resets=1),
]
SMALL = EpochModel(start=1, aborts=2, bits=1)
# Leaving out a rule, on the smallest system on which it shows.
NEEDED = [
    (SMALL, ("no tracker", "one phase", "never closed"), "different epochs meet"),
    (SMALL, ("no purge",), "different epochs meet"),
    (SMALL, ("stays current",), "different epochs meet"),
    (SMALL, ("tables alone",), "epoch"),
    (SMALL, ("buffers alone",), "epoch"),
    (SMALL, ("hasty",), "of another epoch"),
    (SMALL, ("one phase",), "deadlock"),
    (EpochModel(planes=2), ("settled by one",), "deadlock"),
]


@pytest.mark.parametrize("model, states", QUICK)
def test_all_come_to_one_epoch_and_nothing_of_another_meets_it(model, states):
    found = model.explore()
    assert found.fault is None, found.report()
    assert found.states == states


@pytest.mark.full
@pytest.mark.parametrize("model", FULL)
def test_nothing_of_another_epoch_meets_it_with_more_faults(model):
    found = model.explore()
    assert found.fault is None, found.report()


@pytest.mark.parametrize("model, rules, fault", NEEDED)
def test_without_the_rule_a_run_goes_wrong(model, rules, fault):
    found = model.without(*rules).explore()

    assert fault in (found.fault or "nothing"), found.report()


@pytest.mark.full
def test_an_endpoint_that_hears_before_it_is_answered_meets_what_it_sent_before_its_reset():
    found = EpochModel(resets=2).without("unasked").explore()

    assert "one member meet" in (found.fault or "nothing"), found.report()

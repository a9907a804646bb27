# SPDX-License-Identifier: Apache-2.0
"""Checks of models that are explored completely."""

import re

from tests.hw.ace_formal.ring_model import RingModel

__all__ = ["complete", "needed"]


def complete(model: RingModel, states: int) -> None:
    """Every run completes every chunk; there are so many *states*, so that a change of the model
    that loses runs is noticed."""
    found = model.explore()
    assert found.fault is None, found.report()
    assert found.states == states
    print(f"{model}: {found.states} states, {found.steps} steps")


def needed(model: RingModel, rule: str, fault: str) -> None:
    """All is well with a *rule*, and *fault* is what happens without it."""
    assert model.explore().fault is None

    found = model.without(rule).explore()

    assert re.search(fault, found.fault or "nothing"), found.report()
    assert found.trace
    print(found.report())  # shown by `pytest -s`

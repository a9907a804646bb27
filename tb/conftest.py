# SPDX-License-Identifier: Apache-2.0
"""The simulators that a bench runs under."""

import os

import pytest

from gen.benches import SIMULATOR, SIMULATORS, BenchError, choose_simulator


@pytest.fixture(params=SIMULATORS)
def simulator(request: pytest.FixtureRequest) -> str:
    """Each simulator that is there: Verilator starts registers at random, Icarus unknown.

    ``$FOLDWIRE_SIMULATOR`` asks for one of them. That there is none is an error.
    """
    asked = os.environ.get(SIMULATOR)
    choose_simulator(asked)
    if asked and asked != request.param:
        pytest.skip(f"{SIMULATOR} is {asked}")
    return _needed(request.param)


@pytest.fixture
def verilator() -> str:
    """Verilator, for what the other simulator does not do."""
    return _needed("verilator")


def _needed(simulator: str) -> str:
    try:
        return choose_simulator(simulator)
    except BenchError as missing:
        tool = {"icarus": "iverilog", "verilator": "Verilator"}[simulator]
        pytest.skip(f"needs {tool}: {str(missing).splitlines()[0]}")

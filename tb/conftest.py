"""The simulators that a bench runs under."""

import os

import pytest

from gen.benches import SIMULATORS, BenchError, choose_simulator
from tb.runner import SIMULATOR


@pytest.fixture(params=SIMULATORS)
def simulator(request):
    """Each simulator that is there: Verilator starts registers at random, Icarus unknown.

    ``$FOLDWIRE_SIMULATOR`` asks for one of them. That there is none is an error.
    """
    asked = os.environ.get(SIMULATOR)
    choose_simulator(asked)
    if asked and asked != request.param:
        pytest.skip(f"{SIMULATOR} is {asked}")
    try:
        return choose_simulator(request.param)
    except BenchError as missing:
        pytest.skip(str(missing).splitlines()[0])

# SPDX-License-Identifier: Apache-2.0
"""A ring of small engines, and commands for it."""

from collections.abc import Callable
from functools import partial

import pytest

from hw.ace.config import AceConfig, preset
from hw.common.axi import aligned
from sim.hosts.command import Command
from sim.runs.scripts import EngineRun, run_engines
from sim.workload.graph import CollectiveKind


@pytest.fixture(scope="session")
def duo() -> AceConfig:
    """Two FSMs, one for each direction of the ring."""
    return preset("duo")


@pytest.fixture(scope="session")
def command() -> Callable[..., Command]:
    """A command with its data at *source* and behind it."""

    def make(collective: CollectiveKind, elements: int, source: int = 0) -> Command:
        return Command(
            collective=collective, elements=elements, source=source,
            destination=source + aligned(4 * elements),
        )

    return make


@pytest.fixture(scope="session")
def run(duo: AceConfig) -> Callable[..., EngineRun]:
    """Runs scripts on a ring of these engines."""
    return partial(run_engines, "ace", duo)

"""A ring of small engines, with commands and scripts for it."""

from collections.abc import Callable
from typing import Any

import pytest

from hw.ace.config import AceConfig, preset
from sim.collectives.partition import Partition
from sim.collectives.ring import Collective
from sim.cycles.ace.model import Command, Surroundings


@pytest.fixture(scope="session")
def duo() -> AceConfig:
    """Two FSMs, one for each direction of the ring."""
    return preset("duo")


@pytest.fixture
def command(duo: AceConfig) -> Callable[..., Command]:
    """A command for a ring of these engines, its data at *source* and behind it."""

    def make(
        around: Surroundings, collective: Collective, elements: int, source: int = 0, **plan: Any
    ) -> Command:
        partition = Partition.plan(
            elements, around.nodes, queues=around.queues or duo.fsms, lanes=duo.lanes,
            packet_elements=duo.packet_elements, slot_elements=duo.slot_elements, **plan,
        )
        size = -(-4 * elements // 128) * 128
        return Command(
            collective=collective, partition=partition, source=source, destination=source + size
        )

    return make

# SPDX-License-Identifier: Apache-2.0
"""SRAM and queues of the smart NIC, counted from its parameters."""

from collections.abc import Iterator

from hw.common.fifo import QueueSize
from hw.common.sram import BankShape
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import fetched_layout, wire_layout

__all__ = ["banks", "queues"]


def banks(c: SmartNicConfig) -> Iterator[tuple[int, BankShape]]:
    """Numbers of equal banks, with such a bank each: none but those of queues."""
    yield from ()


def queues(c: SmartNicConfig) -> dict[str, tuple[int, QueueSize]]:
    """Queues that may be large: numbers of equal ones, and their size."""
    beat = 8 * c.bus_bytes
    return {
        "receive": (2 * c.engines, QueueSize(wire_layout(c), c.receive_beats, memory=True)),
        "frames": (2 * c.engines, QueueSize(beat, 2 * c.frame_beats)),
        "blocks": (c.engines, QueueSize(wire_layout(c), c.block_beats)),
        "fetched": (c.engines, QueueSize(fetched_layout(c), c.input_beats)),
        "results": (c.engines, QueueSize(beat, c.output_beats)),
    }

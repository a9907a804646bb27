# SPDX-License-Identifier: Apache-2.0
"""SRAM of the smart NIC, counted from its parameters."""

from collections.abc import Iterator

from hw.common.fifo import StreamFIFO
from hw.common.sram import SRAMBank
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import fetched_layout, wire_layout

__all__ = ["memories"]


def memories(c: SmartNicConfig) -> Iterator[tuple[int, SRAMBank]]:
    """Numbers of equal banks, with such a bank each."""
    beat = 8 * c.bus_bytes
    for count, queue in (
        (2, StreamFIFO(wire_layout(c), c.receive_beats, memory=True)),
        (2, StreamFIFO(beat, 2 * c.frame_beats)),
        (1, StreamFIFO(wire_layout(c), c.block_beats)),
        (1, StreamFIFO(fetched_layout(c), c.input_beats)),
        (1, StreamFIFO(beat, c.output_beats)),
    ):
        if queue.bank is not None:
            yield count * c.engines, queue.bank

# SPDX-License-Identifier: Apache-2.0
"""SRAM of a switch, counted from its parameters."""

from collections.abc import Iterator

from hw.common.fifo import StreamFIFO
from hw.common.sram import SRAMBank
from hw.link.packet import FLIT_BITS
from hw.switch.config import SwitchConfig
from hw.switch.formats import FLIT_LANES
from hw.switch.packet import CLASSES, FLIT, beats_of

__all__ = ["memories"]


def memories(c: SwitchConfig) -> Iterator[tuple[int, SRAMBank]]:
    """Numbers of equal banks, with such a bank each."""
    beats = c.payload_flits * FLIT_LANES // c.lanes
    for packets in ((CLASSES - 1) * c.buffer_packets, c.buffer_packets, CLASSES * c.queue_packets):
        yield c.ports, SRAMBank(depth=packets * c.packet_flits, width=FLIT_BITS)
    yield c.ports, SRAMBank(depth=c.entries * beats, width=32 * c.lanes)
    for count, queue in (
        (c.ports, StreamFIFO(FLIT, c.queue_packets * c.packet_flits)),
        (2 * c.ports, StreamFIFO(beats_of(c.lanes), c.queue_packets * (beats + 1))),
    ):
        if queue.bank is not None:
            yield count, queue.bank

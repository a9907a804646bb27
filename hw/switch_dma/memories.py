# SPDX-License-Identifier: Apache-2.0
"""SRAM of the endpoint of switches, counted from its parameters."""

from collections.abc import Iterator

from hw.common.fifo import StreamFIFO
from hw.common.sram import SRAMBank
from hw.link.packet import FLIT_BITS
from hw.switch.packet import CLASSES
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.layouts import heard_layout
from hw.switch_dma.transmit import SEND_PACKETS

__all__ = ["memories"]


def memories(c: SwitchDmaConfig) -> Iterator[tuple[int, SRAMBank]]:
    """Numbers of equal banks, with such a bank each."""
    for packets in (CLASSES * c.buffer_packets, CLASSES * SEND_PACKETS):
        yield c.links, SRAMBank(depth=packets * c.packet_flits, width=FLIT_BITS)
    yield c.links, SRAMBank(depth=c.regions * c.sums * c.payload_flits, width=FLIT_BITS)
    notices = StreamFIFO(heard_layout(c), c.buffer_packets)
    if notices.bank is not None:
        yield c.links, notices.bank

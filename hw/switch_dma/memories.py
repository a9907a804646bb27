# SPDX-License-Identifier: Apache-2.0
"""SRAM and queues of the endpoint of switches, counted from its parameters."""

from collections.abc import Iterator

from hw.common.fifo import QueueSize
from hw.common.sram import BankShape
from hw.link.packet import FLIT_BITS
from hw.switch.packet import CLASSES
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.layouts import heard_layout
from hw.switch_dma.transmit import SEND_PACKETS

__all__ = ["banks", "queues"]


def banks(c: SwitchDmaConfig) -> Iterator[tuple[int, BankShape]]:
    """Numbers of equal banks, with such a bank each; those of queues are not among them."""
    for packets in (CLASSES * c.buffer_packets, CLASSES * SEND_PACKETS):
        yield c.links, BankShape(depth=packets * c.packet_flits, width=FLIT_BITS)
    yield c.links, BankShape(depth=c.regions * c.sums * c.payload_flits, width=FLIT_BITS)


def queues(c: SwitchDmaConfig) -> dict[str, tuple[int, QueueSize]]:
    """Queues that may be large: numbers of equal ones, and their size."""
    return {"notices": (c.links, QueueSize(heard_layout(c), c.buffer_packets))}

# SPDX-License-Identifier: Apache-2.0
"""SRAM and queues of a switch, counted from its parameters."""

from collections.abc import Iterator

from hw.common.fifo import QueueSize
from hw.common.sram import BankShape
from hw.link.packet import FLIT_BITS
from hw.switch.config import SwitchConfig
from hw.switch.formats import FLIT_LANES
from hw.switch.packet import CLASSES, FLIT, beats_of

__all__ = ["banks", "queues"]


def banks(c: SwitchConfig) -> Iterator[tuple[int, BankShape]]:
    """Numbers of equal banks, with such a bank each; those of queues are not among them."""
    for packets in ((CLASSES - 1) * c.buffer_packets, c.buffer_packets, CLASSES * c.queue_packets):
        yield c.ports, BankShape(depth=packets * c.packet_flits, width=FLIT_BITS)
    yield c.ports, BankShape(depth=c.entries * _beats(c), width=32 * c.lanes)


def queues(c: SwitchConfig) -> dict[str, tuple[int, QueueSize]]:
    """Queues that may be large: numbers of equal ones, and their size."""
    packets, beats = c.queue_packets, _beats(c) + 1
    return {
        "flits": (c.ports, QueueSize(FLIT, packets * c.packet_flits)),
        "beats": (2 * c.ports, QueueSize(beats_of(c.lanes), packets * beats)),
    }


def _beats(c: SwitchConfig) -> int:
    """Beats of a packet at a reduction unit."""
    return c.payload_flits * FLIT_LANES // c.lanes

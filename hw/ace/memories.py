# SPDX-License-Identifier: Apache-2.0
"""SRAM and queues of the ACE engine, counted from its parameters."""

from collections.abc import Iterator

from hw.ace.config import AceConfig
from hw.ace.isa import INSTRUCTION_BITS
from hw.ace.send_generator import parking_beats
from hw.common.fifo import QueueSize
from hw.common.sram import BankShape
from hw.link.transmit import queued_header_layout

__all__ = ["banks", "queues"]


def banks(c: AceConfig) -> Iterator[tuple[int, BankShape]]:
    """Numbers of equal banks, with such a bank each; those of queues are not among them."""
    beat = 8 * c.bus_bytes
    yield c.banks, BankShape(depth=c.sram_beats // c.banks, width=beat, ports=c.bank_ports)
    yield c.ports, BankShape(depth=c.rx_beats, width=beat)
    yield c.fsms, BankShape(depth=c.program_words, width=INSTRUCTION_BITS)


def queues(c: AceConfig) -> dict[str, tuple[int, QueueSize]]:
    """Queues that may be large: numbers of equal ones, and their size."""
    return {
        "arrivals": (c.ports, QueueSize(c.format.layout, c.rx_packets)),
        "headers": (2 * c.ports, QueueSize(queued_header_layout(c.format), c.tx_packets)),
        "payloads": (2 * c.ports, QueueSize(8 * c.bus_bytes, c.tx_packets * c.packet_beats)),
        "parking": (c.fsms, QueueSize(*parking_beats(c))),
    }

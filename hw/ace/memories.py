# SPDX-License-Identifier: Apache-2.0
"""SRAM of the ACE engine, counted from its parameters."""

from collections.abc import Iterator

from hw.ace.config import AceConfig
from hw.ace.isa import INSTRUCTION_BITS
from hw.ace.send_generator import parking_queue
from hw.common.fifo import StreamFIFO
from hw.common.sram import SRAMBank
from hw.link.transmit import queued_header_layout

__all__ = ["memories"]


def memories(c: AceConfig) -> Iterator[tuple[int, SRAMBank]]:
    """Numbers of equal banks, with such a bank each."""
    beat = 8 * c.bus_bytes
    packet_beats = c.packet_beats
    yield c.banks, SRAMBank(depth=c.sram_beats // c.banks, width=beat, ports=c.bank_ports)
    yield c.ports, SRAMBank(depth=c.rx_packets * packet_beats, width=beat)
    yield c.fsms, SRAMBank(depth=c.program_words, width=INSTRUCTION_BITS)
    for count, queue in (
        (c.ports, StreamFIFO(c.format.layout, c.rx_packets)),
        (2 * c.ports, StreamFIFO(queued_header_layout(c.format), c.tx_packets)),
        (2 * c.ports, StreamFIFO(beat, c.tx_packets * packet_beats)),
        (c.fsms, parking_queue(c)),
    ):
        if queue.bank is not None:
            yield count, queue.bank

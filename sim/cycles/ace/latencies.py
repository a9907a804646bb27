# SPDX-License-Identifier: Apache-2.0
"""Latencies of the blocks of the engine, as measured on its RTL by ``sim.rtl.ace.measure``."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from sim.stored import StoredTable

if TYPE_CHECKING:
    from hw.ace.config import AceConfig

__all__ = ["Latencies"]


@dataclass(frozen=True, kw_only=True)
class Latencies(StoredTable):
    """Cycles that paths through a block take beyond those in the structure of the model.

    Parameters
    ----------
    register_write, register_read : int
        From the start of a host's register access to the start of the next one.
    sample : int
        A completion that many cycles before the end of a register read is seen by it.
    command : int
        From the end of the host's write to the dispatcher taking the command.
    check : int
        From there to looking for a context for the first chunk, with all shards in one.
    chunk : int
        From finding a context to admission.
    report : int
        From the last beat in SRAM to its chunk being known as loaded.
    parse : int
        From the last flit of a packet on the wire to its header at the receive unit.
    event : int
        From the last beat of a packet to its event at the FSM.
    credit : int
        From a credit on the wire to its use.
    interrupt : int
        From the completion of a collective to the interrupt.
    """

    register_write: int
    register_read: int
    sample: int
    command: int
    check: int
    chunk: int
    report: int
    parse: int
    event: int
    credit: int
    interrupt: int

    def of(self, config: "AceConfig") -> dict[str, int]:
        """All latencies of an engine of this configuration by name."""
        from hw.ace.lookup import LOOKUP_LATENCY
        from hw.common.fifo import BLOCK_MEMORY_DEPTH

        table = asdict(self) | {"lookup": LOOKUP_LATENCY}
        # The header FIFO of a large receive buffer lies in block memory.
        table["parse"] += config.rx_packets >= BLOCK_MEMORY_DEPTH
        return table

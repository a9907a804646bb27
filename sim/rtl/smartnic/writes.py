# SPDX-License-Identifier: Apache-2.0
"""Register writes that make a smart NIC a rank of a ring, and that start its all-reduces.

The driver of the compiled model, or a test bench with a register bus, performs them in order.
"""

from collections.abc import Iterator

from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.registers import INTERRUPTS
from sim.rtl.writes import Write, halves

__all__ = ["ethernet_address", "set_up_writes", "start_writes"]


def ethernet_address(rank: int) -> int:
    """Locally administered address of a rank's first port, first byte least significant."""
    return int.from_bytes(bytes([0x02, 0xF0, 0x1D, rank >> 8, rank & 0xFF, 0]), "little")


def set_up_writes(
    registers: RegisterMap,
    config: SmartNicConfig,
    *,
    rank: int,
    nodes: int,
    memory_bytes: int,
    watchdog_cycles: int = 0,
) -> Iterator[Write]:
    """Place in the ring, neighbours' addresses, memory and interrupts of one node.

    After *watchdog_cycles* without progress, unless 0, it gives up.
    """
    yield "node", registers.registers["node"].pack(rank=rank, nodes=nodes)
    if config.ethernet:
        for name, step in ("own", 0), ("next", 1), ("previous", -1):
            yield from halves(f"{name}_address", ethernet_address((rank + step) % nodes))
    yield from halves("memory_end", memory_bytes - 1)
    if watchdog_cycles:
        word = registers.registers["watchdog"].pack(cycles=watchdog_cycles, abort=1)
        yield "watchdog", word
    enabled = dict.fromkeys(INTERRUPTS, 1)
    yield "interrupt_enable", registers.registers["interrupt_enable"].pack(**enabled)


def start_writes(
    registers: RegisterMap,
    *,
    elements: int,
    tag: int,
    source: int,
    destination: int,
    op: ReduceOp = ReduceOp.SUM_F32,
    compress: bool = False,
) -> Iterator[Write]:
    """Parameters and command of one all-reduce. *tag* names it."""
    yield from halves("source", source)
    yield from halves("destination", destination)
    yield "elements", elements
    command = registers.registers["command"]
    yield "command", command.pack(tag=tag % 256, op=op, compress=int(compress))

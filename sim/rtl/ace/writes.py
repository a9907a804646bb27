# SPDX-License-Identifier: Apache-2.0
"""Register writes that configure an engine as a rank of a ring and start its collectives.

The driver of the compiled model and the test benches perform them in order.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from hw.ace.agreement import digest
from hw.ace.registers import INTERRUPTS
from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from sim.collectives.ace_program import PROGRAM_ENTRY, AceProgram
from sim.rtl.writes import Write, halves
from sim.workload.graph import CollectiveKind

__all__ = ["ready_fields", "set_up_writes", "start_writes"]

_WORD = 0xFFFF_FFFF


def set_up_writes(
    registers: RegisterMap,
    program: AceProgram,
    *,
    rank: int,
    memory_bytes: int,
    watchdog_cycles: int = 0,
) -> Iterator[Write]:
    """Place in the ring, memory, interrupts and programs of one node.

    Parameters
    ----------
    registers : RegisterMap
        Registers of the engine.
    program : AceProgram
        Program of the ring.
    rank : int
        Place of this node.
    memory_bytes : int
        Memory of the node.
    watchdog_cycles : int
        Cycles without progress after which the engine reports it; 0: never.

    Raises
    ------
    ValueError
        If not even the program of an all-reduce fits, see `AceProgram.loaded`.
    """
    end = memory_bytes - 1
    yield "node", rank
    yield "nodes", program.nodes
    yield "fsms", program.queues
    yield "links", sum(1 << port for port in program.used_ports(rank))
    yield from halves("memory_end", end)
    if watchdog_cycles:
        yield "watchdog", watchdog_cycles
    enabled = dict.fromkeys(INTERRUPTS, 1)
    yield "interrupt_enable", registers.registers["interrupt_enable"].pack(**enabled)
    for fsm in program.fsms:
        for address, word in program.words(fsm, rank=rank).items():
            place = registers.registers["program_address"].pack(word=address, fsm=fsm)
            yield "program_address", place
            yield from halves("program", word)


def start_writes(
    registers: RegisterMap,
    collective: CollectiveKind,
    settings: Mapping[str, int],
    *,
    name: int,
    source: int,
    destination: int,
    op: ReduceOp = ReduceOp.SUM_F32,
) -> Iterator[Write]:
    """Parameters and command of one collective. *name* is new for each, the same on all nodes;
    *settings* are those of `AceProgram.settings` for it."""
    yield from halves("source", source)
    yield from halves("destination", destination)
    for register in "elements", "stride", "block":
        yield register, settings[register]
    command: dict[str, Any] = {
        "collective": name % 256,
        "program": PROGRAM_ENTRY[collective],
        "op": op,
        "contiguous": settings["contiguous"],
        **_moves(collective),
    }
    yield "command", registers.registers["command"].pack(**command)


def _moves(collective: CollectiveKind) -> dict[str, int]:
    """Loads and stores of a collective, as fields of a command."""
    return {
        "load_all": int(collective is not CollectiveKind.ALL_GATHER),
        "store_all": int(collective is not CollectiveKind.REDUCE_SCATTER),
    }


def ready_fields(
    program: AceProgram,
    collective: CollectiveKind,
    settings: Mapping[str, int],
    *,
    op: ReduceOp,
) -> dict[str, int]:
    """Header fields of a READY packet that describe the command of its sender."""
    number = digest(
        **settings, nodes=program.nodes, fsms=program.queues, **_moves(collective)
    )
    bits = program.config.format.step
    return {"op": op.value, "step": number & (1 << bits) - 1, "offset": number >> bits}

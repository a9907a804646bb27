"""Register writes that configure an engine as a rank of a ring and start its collectives.

The driver of the compiled model and the test benches perform them in order.
"""

from collections.abc import Iterator
from typing import Any

from hw.ace.agreement import digest
from hw.ace.config import AceConfig
from hw.ace.registers import INTERRUPTS
from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from sim.collectives.fsm_program import PROGRAM_ENTRY, program_words
from sim.collectives.golden import direction_of
from sim.collectives.partition import Partition
from sim.workload.graph import CollectiveKind

__all__ = ["Write", "halves", "ready_fields", "set_up_writes", "start_writes"]

Write = tuple[str, int]
"""Name of a register, and the word to write."""

_WORD = 0xFFFF_FFFF


def set_up_writes(
    registers: RegisterMap,
    config: AceConfig,
    *,
    rank: int,
    nodes: int,
    queues: int,
    memory_bytes: int,
    bidirectional: bool = True,
    ports: tuple[int, int] = (0, 1),
    watchdog_cycles: int = 0,
) -> Iterator[Write]:
    """Place in the ring, memory, interrupts and programs of one node.

    Parameters
    ----------
    registers, config
        Those of the engine.
    rank, nodes : int
        Place of this node and size of the ring.
    queues : int
        FSMs in use.
    memory_bytes : int
        Memory of the node.
    bidirectional : bool
        FSMs with odd numbers run the ring backwards.
    ports : (next, previous)
        Links to the next and the previous rank.
    watchdog_cycles : int
        Cycles without progress after which the engine reports it; 0: never.

    Raises
    ------
    ValueError
        If the programs do not fit the program store, or have more steps than a packet can name.
    """
    end = memory_bytes - 1
    yield "node", registers.registers["node"].pack(rank=rank, nodes=nodes)
    yield "fsms", queues
    yield "links", sum(1 << port for port in ports)
    yield from halves("memory_end", end)
    if watchdog_cycles:
        yield "watchdog", watchdog_cycles
    enabled = dict.fromkeys(INTERRUPTS, 1)
    yield "interrupt_enable", registers.registers["interrupt_enable"].pack(**enabled)
    for fsm in range(queues):
        direction = direction_of(fsm, queues=queues, bidirectional=bidirectional)
        words = program_words(config, rank=rank, nodes=nodes, direction=direction, ports=ports)
        for address, word in words.items():
            place = registers.registers["program_address"].pack(word=address, fsm=fsm)
            yield "program_address", place
            yield from halves("program", word)


def start_writes(
    registers: RegisterMap,
    collective: CollectiveKind,
    partition: Partition,
    *,
    name: int,
    source: int,
    destination: int,
    op: ReduceOp = ReduceOp.SUM_F32,
) -> Iterator[Write]:
    """Parameters and command of one collective. *name* is new for each, the same on all nodes."""
    yield from halves("source", source)
    yield from halves("destination", destination)
    yield "elements", partition.elements
    yield "stride", partition.stride
    yield "block", partition.block
    command: dict[str, Any] = {
        "collective": name % 256,
        "program": PROGRAM_ENTRY[collective],
        "op": op,
        **_moves(collective),
    }
    yield "command", registers.registers["command"].pack(**command)


def _moves(collective: CollectiveKind) -> dict[str, int]:
    """Loads and stores of a collective, as fields of a command."""
    return {
        "load_all": int(collective is not CollectiveKind.ALL_GATHER),
        "store_all": int(collective is not CollectiveKind.REDUCE_SCATTER),
        "load_to_result": int(collective is CollectiveKind.ALL_GATHER),
    }


def ready_fields(
    config: AceConfig,
    collective: CollectiveKind,
    partition: Partition,
    *,
    nodes: int,
    queues: int,
    op: ReduceOp,
) -> dict[str, int]:
    """Header fields of a READY packet that describe the command of its sender."""
    number = digest(
        elements=partition.elements,
        stride=partition.stride,
        block=partition.block,
        nodes=nodes,
        fsms=queues,
        **_moves(collective),
    )
    bits = config.format.step
    return {"op": op.value, "step": number & (1 << bits) - 1, "offset": number >> bits}


def halves(register: str, value: int) -> Iterator[Write]:
    """The writes of a register of two words."""
    yield f"{register}_low", value & _WORD
    yield f"{register}_high", value >> 32

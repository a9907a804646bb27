"""Register writes that make an engine a rank of a ring, and that start its collectives.

Whoever has a register bus performs them in order: the driver of the compiled model, a test bench.
"""

from collections.abc import Iterator
from typing import Any

from hw.ace.config import AceConfig
from hw.ace.registers import INTERRUPTS
from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from sim.collectives.golden import direction_of
from sim.collectives.partition import Partition
from sim.collectives.ring import Collective, ring_program

__all__ = ["Write", "program_words", "set_up_writes", "start_writes"]

Write = tuple[str, int]
"""Name of a register, and the word to write."""

_TABLE_WORDS = 16
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
) -> Iterator[Write]:
    """Place in the ring, memory, interrupts and programs of one node.

    Parameters
    ----------
    registers, config
        Of the engine.
    rank, nodes : int
        Place of this node and size of the ring.
    queues : int
        FSMs in use.
    memory_bytes : int
        Memory of the node.
    bidirectional : bool
        Whether FSMs with odd numbers run the ring backwards.
    ports : (next, previous)
        Links to the next and the previous rank.

    Raises
    ------
    ValueError
        If the programs do not fit the program store, or have more steps than a packet can name.
    """
    end = memory_bytes - 1
    yield "node", registers.registers["node"].pack(rank=rank, nodes=nodes)
    yield "fsms", queues
    yield from _halves("memory_end", end)
    enabled = dict.fromkeys(INTERRUPTS, 1)
    yield "interrupt_enable", registers.registers["interrupt_enable"].pack(**enabled)
    for fsm in range(queues):
        direction = direction_of(fsm, queues=queues, bidirectional=bidirectional)
        words = program_words(config, rank=rank, nodes=nodes, direction=direction, ports=ports)
        for address, word in words.items():
            place = registers.registers["program_address"].pack(word=address, fsm=fsm)
            yield "program_address", place
            yield from _halves("program", word)


def program_words(
    config: AceConfig, *, rank: int, nodes: int, direction: int, ports: tuple[int, int]
) -> dict[int, int]:
    """Program store of one FSM, address to word: all collectives of one direction of the ring."""
    ahead, behind = ports
    to_port, from_port = (ahead, behind) if direction == 1 else (behind, ahead)
    words: dict[int, int] = {}
    entry = _TABLE_WORDS
    for collective in Collective:
        program = ring_program(
            collective,
            rank=rank,
            nodes=nodes,
            direction=direction,
            to_port=to_port,
            from_port=from_port,
        )
        steps = 1 << config.format.step
        if len(program.instructions) > steps:
            raise ValueError(
                f"nodes must be at most {steps // 2}, for {steps} steps that a packet can name, "
                f"not {nodes!r}"
            )
        words[collective.value] = program.table_entry(entry)
        for offset, instruction in enumerate(program.instructions):
            words[entry + offset] = instruction.encode()
        entry += len(program.instructions)
    if entry > config.program_words:
        raise ValueError(
            f"nodes must be few enough for {config.program_words} program words, not {nodes!r}, "
            f"which need {entry}"
        )
    return words


def start_writes(
    registers: RegisterMap,
    collective: Collective,
    partition: Partition,
    *,
    name: int,
    source: int,
    destination: int,
    op: ReduceOp = ReduceOp.SUM_F32,
) -> Iterator[Write]:
    """Parameters and command of one collective. *name* is new for each, the same on all nodes."""
    yield from _halves("source", source)
    yield from _halves("destination", destination)
    yield "elements", partition.elements
    yield "stride", partition.stride
    yield "block", partition.block
    command: dict[str, Any] = {
        "collective": name % 256,
        "program": collective.value,
        "op": op,
        "load_all": int(collective is not Collective.ALL_GATHER),
        "store_all": int(collective is not Collective.REDUCE_SCATTER),
        "load_to_result": int(collective is Collective.ALL_GATHER),
    }
    yield "command", registers.registers["command"].pack(**command)


def _halves(register: str, value: int) -> Iterator[Write]:
    yield f"{register}_low", value & _WORD
    yield f"{register}_high", value >> 32

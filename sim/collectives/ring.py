"""Ring collectives as programs for the FSMs.

Along a ring, every rank sends to its successor. Reduce-scatter takes ``N - 1`` steps: block ``b``
sets out from the successor of rank ``b``, is added to at every rank on its way, and ends at rank
``b``. All-gather takes it round once more, in ``N - 1`` steps. All-reduce is both, without a pause
in between (ACE, section 4.2, figure 7). A ring can be run through in both directions at once; the
second direction is the same program with predecessor and successor exchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from hw.ace.isa import Opcode, instruction_layout, program_entry_layout

__all__ = ["Collective", "Instruction", "Program", "ring_order", "ring_program"]


class Collective(Enum):
    """What a group of nodes can do with its vectors. The value is the entry in the program
    table."""

    ALL_REDUCE = 0
    REDUCE_SCATTER = 1
    ALL_GATHER = 2


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction; see ``hw.ace.isa`` for what the opcodes do."""

    op: Opcode
    block: int = 0
    port: int = 0
    peer_step: int = 0
    contributions: int = 0
    from_result: bool = False

    def encode(self) -> int:
        """The instruction as a 64-bit word."""
        fields: Mapping[str, object] = {
            "op": self.op.value,
            "from_result": int(self.from_result),
            "block": self.block,
            "port": self.port,
            "peer_step": self.peer_step,
            "contributions": self.contributions,
        }
        return _pack(instruction_layout, fields)


@dataclass(frozen=True, kw_only=True)
class Program:
    """Instructions for one FSM, and what its table entry must say.

    ``ready_ports`` are the links whose peers send to this program.
    """

    instructions: tuple[Instruction, ...]
    ready_ports: frozenset[int]

    @property
    def receives(self) -> int:
        """Blocks that arrive."""
        return sum(bool(i.op.value & 0b1000) for i in self.instructions)

    @property
    def sends(self) -> int:
        """Blocks that are sent, at first or onwards."""
        return sum(bool(i.op.value & 0b0100) for i in self.instructions)

    def table_entry(self, entry: int) -> int:
        """Word of the program table for a program whose first instruction is at word *entry*."""
        return _pack(
            program_entry_layout,
            {
                "entry": entry,
                "length": len(self.instructions),
                "receives": self.receives,
                "sends": self.sends,
                "ready_ports": sum(1 << port for port in self.ready_ports),
            },
        )


def _pack(layout: object, fields: Mapping[str, object]) -> int:
    word = 0
    for name, value in fields.items():
        field = layout[name]  # type: ignore[index]
        if not 0 <= int(value) < 1 << field.width:  # type: ignore[call-overload]
            raise ValueError(f"{name} must fit {field.width} bits, not {value!r}")
        word |= int(value) << field.offset  # type: ignore[call-overload]
    return word


def ring_program(
    collective: Collective, *, rank: int, nodes: int, direction: int, to_port: int, from_port: int
) -> Program:
    """Program of one rank for one direction of a ring.

    Parameters
    ----------
    collective : Collective
    rank, nodes : int
        Place of this node and size of the ring, at least 2.
    direction : int
        +1 if data travels to higher ranks, -1 if to lower ones.
    to_port, from_port : int
        Links to the next and from the previous node in this direction.
    """
    if nodes < 2:
        raise ValueError(f"nodes must be at least 2, not {nodes!r}")
    if not 0 <= rank < nodes:
        raise ValueError(f"rank must be from 0 to {nodes - 1}, not {rank!r}")
    if direction not in (1, -1):
        raise ValueError(f"direction must be 1 or -1, not {direction!r}")

    def block(distance: int) -> int:
        """The block that belongs to the rank *distance* hops upstream."""
        return (rank - direction * distance) % nodes

    reduces = collective is not Collective.ALL_GATHER
    gathers = collective is not Collective.REDUCE_SCATTER
    first_receive = 2  # behind SEND and END
    gather_step = first_receive + (nodes - 1 if reduces else 0)
    whole = nodes if reduces else 1  # contributions in a block that is only passed round

    program = [
        Instruction(
            op=Opcode.SEND,
            block=block(1) if reduces else block(0),
            port=to_port,
            peer_step=first_receive,
            contributions=1,
            from_result=not reduces,
        ),
        Instruction(op=Opcode.END),
    ]
    if reduces:
        for step in range(nodes - 2):
            program.append(
                Instruction(
                    op=Opcode.RECV_REDUCE_SEND,
                    block=block(2 + step),
                    port=to_port,
                    peer_step=first_receive + step + 1,
                    contributions=step + 2,
                )
            )
        program.append(
            Instruction(
                op=Opcode.RECV_REDUCE_COPY_SEND if gathers else Opcode.RECV_REDUCE_COPY,
                block=rank,
                port=to_port,
                peer_step=gather_step,
                contributions=nodes,
            )
        )
    if gathers:
        for step in range(nodes - 1):
            last = step == nodes - 2
            program.append(
                Instruction(
                    op=Opcode.RECV if last else Opcode.RECV_COPY_SEND,
                    block=block(1 + step),
                    port=to_port,
                    peer_step=0 if last else gather_step + step + 1,
                    contributions=whole,
                )
            )
    return Program(instructions=tuple(program), ready_ports=frozenset({from_port}))


def ring_order(block: int, *, nodes: int, direction: int) -> list[int]:
    """Ranks in the order in which a ring adds their contributions to *block*."""
    return [(block + direction * hop) % nodes for hop in range(1, nodes + 1)]

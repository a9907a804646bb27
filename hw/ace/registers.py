"""Control and status registers of the engine."""

from amaranth.lib import enum

from hw.ace.config import AceConfig
from hw.common.engine_registers import (
    identity_register,
    memory_end_registers,
    outcome_registers,
    wide_registers,
)
from hw.common.register_map import Field, Register, RegisterMap
from hw.fp.ops import ReduceOp

__all__ = ["ENGINE_ID", "INTERRUPTS", "CommandError", "register_map"]

ENGINE_ID = 0xACE1

INTERRUPTS = {
    "done": "A collective has completed.",
    "refused": "A command was refused; see `refusal`.",
    "dropped": "A packet was dropped: damaged, or not expected by any context.",
    "memory": "Memory answered with an error; the data of a collective is not valid.",
    "fault": "A register access was answered with an error.",
}


class CommandError(enum.Enum, shape=4):
    """Why a command was refused."""

    NONE = 0
    NODES = 1  # fewer than two nodes, more than the engine supports, or rank >= nodes
    EMPTY = 2  # no elements
    STRIDE = 3  # stride is zero, not whole beats, or nodes * stride < elements
    BLOCK = (
        4  # block is zero, not whole beats, needs too many chunks, or nodes * block exceeds a slot
    )
    ALIGNMENT = 5  # an address is not a multiple of the bus width
    ADDRESS = 6  # the payload does not lie within memory
    FSMS = 7  # no FSM in use, or more than there are
    FULL = 8  # too many commands outstanding


def register_map(c: AceConfig) -> RegisterMap:
    """Registers of an engine of configuration *c*."""
    outcomes = outcome_registers(
        of="the engine",
        tag="collective",
        status=[Field("outstanding", 6, "Commands accepted and not completed.")],
        completed=[Field("count", 24, "Collectives completed.")],
        errors=CommandError,
        interrupts=INTERRUPTS,
    )
    registers = [*_setup(c), *_commands(), *outcomes, *_counters(c)]
    return RegisterMap("the ACE engine", registers)


def _setup(c: AceConfig) -> list[Register]:
    """What the engine is, its place in the group, and its programs."""
    return [
        identity_register(ENGINE_ID),
        Register(
            "shape",
            "ro",
            [
                Field("ports", 4, "Links."),
                Field("fsms", 5, "FSMs."),
                Field("contexts", 5, "Contexts of an FSM."),
                Field("memory_ports", 5, "AXI4 masters."),
                Field("bus_bytes", 8, "Bus width in bytes."),
            ],
            "Configuration of the engine.",
        ),
        Register(
            "slot_elements",
            "ro",
            [Field("value", 32)],
            "Elements that a slot holds: the largest chunk.",
        ),
        Register(
            "node",
            "rw",
            [Field("rank", 12, "This node's rank."), Field("nodes", 12, "Nodes of the group.")],
            "Place in the group of nodes.",
        ),
        Register(
            "fsms",
            "rw",
            [Field("count", 5, "FSMs in use: chunk n goes to FSM n modulo this.", init=c.fsms)],
            "Must be the same on all nodes.",
        ),
        *memory_end_registers(c.address_bits),
        Register(
            "program_address",
            "rw",
            [
                Field("word", 12, "Word of the program store."),
                Field("fsm", 4, "FSM."),
            ],
            "Where the next instruction goes.",
        ),
        Register("program_low", "rw", [Field("value", 32)], "Low half of an instruction."),
        Register(
            "program_high",
            "wo",
            [Field("value", 32)],
            "High half; writing it writes the instruction.",
        ),
    ]


def _commands() -> list[Register]:
    """A collective, and what starts or aborts one."""
    return [
        *wide_registers("source", "Address of the payload."),
        *wide_registers("destination", "Address of the result."),
        Register("elements", "rw", [Field("value", 32)], "Elements of the whole vector."),
        Register(
            "stride",
            "rw",
            [Field("value", 32)],
            "Elements from one shard to the next: whole beats, at least elements / nodes.",
        ),
        Register(
            "block",
            "rw",
            [Field("value", 32)],
            "Elements of a block (whole beats); a chunk is one block per node.",
        ),
        Register(
            "command",
            "wo",
            [
                Field(
                    "collective",
                    8,
                    "Name of the collective, the same on all nodes, new for each.",
                ),
                Field("program", 4, "Entry of the program table."),
                Field("op", ReduceOp, "Reduction."),
                Field("load_all", 1, "Load the whole vector rather than this rank's shard."),
                Field("store_all", 1, "Store the whole vector rather than this rank's shard."),
                Field("load_to_result", 1, "Load into the result slot (all-gather)."),
            ],
            "Starts a collective with the parameters above, in the same order on all nodes.",
        ),
        Register(
            "control",
            "wo",
            [Field("abort", 1, "Forget all commands, chunks and peers that are ready.")],
            "A collective that lost a packet cannot complete. To go on: abort on all nodes, "
            "wait until all are idle, abort once more on all (for what was on its way), and "
            "when all have, start anew.",
        ),
    ]


def _counters(c: AceConfig) -> list[Register]:
    """Of each port, then of the whole engine."""
    return [
        Register(
            "damaged",
            "ro",
            [Field("count", 32)],
            "Damaged packets dropped by each port.",
            count=c.ports,
        ),
        Register(
            "unexpected",
            "ro",
            [Field("count", 32)],
            "Packets that no context expected, dropped by each port.",
            count=c.ports,
        ),
        Register(
            "parked",
            "ro",
            [Field("count", 32)],
            "Packets of each port that could not be forwarded at once.",
            count=c.ports,
        ),
        Register(
            "starved",
            "ro",
            [Field("cycles", 32)],
            "Cycles in which a link had packets to send and no credit.",
            count=c.ports,
        ),
        Register("sent", "ro", [Field("beats", 32)], "Beats sent on each link.", count=c.ports),
        Register(
            "received",
            "ro",
            [Field("beats", 32)],
            "Beats received from each link.",
            count=c.ports,
        ),
        Register(
            "bank_conflicts",
            "ro",
            [Field("cycles", 32)],
            "Cycles in which a request to the SRAM was not granted, all requesters together.",
        ),
        Register(
            "alu_conflicts",
            "ro",
            [Field("cycles", 32)],
            "Cycles in which a packet waited for an ALU, all ports together.",
        ),
    ]

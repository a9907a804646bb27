"""Control and status registers of the engine."""

from amaranth.lib import enum

from hw.ace.config import AceConfig
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
    QUEUES = 7  # no FSM in use, or more than there are
    FULL = 8  # too many commands outstanding


def register_map(c: AceConfig) -> RegisterMap:
    """Registers of an engine of configuration *c*."""
    last_byte = (1 << c.address_bits) - 1
    return RegisterMap(
        "the ACE engine",
        [
            Register(
                "identity",
                "ro",
                [Field("engine", 16, "0xACE1"), Field("version", 16, "Of this register map.")],
                "What this is.",
            ),
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
                "queues",
                "rw",
                [Field("count", 5, "FSMs in use: chunk n goes to FSM n modulo this.", init=c.fsms)],
                "Must be the same on all nodes.",
            ),
            Register(
                "memory_end_low",
                "rw",
                [Field("value", 32, init=last_byte & 0xFFFF_FFFF)],
                "Last byte of memory.",
            ),
            Register(
                "memory_end_high",
                "rw",
                [Field("value", 32, init=last_byte >> 32)],
            ),
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
            Register("source_low", "rw", [Field("value", 32)], "Address of the payload."),
            Register("source_high", "rw", [Field("value", 32)]),
            Register("destination_low", "rw", [Field("value", 32)], "Address of the result."),
            Register("destination_high", "rw", [Field("value", 32)]),
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
            Register(
                "status",
                "ro",
                [
                    Field("idle", 1, "Nothing is queued, running or in flight."),
                    Field("outstanding", 6, "Commands accepted and not completed."),
                ],
                "State of the engine.",
            ),
            Register(
                "completed",
                "ro",
                [
                    Field("count", 24, "Collectives completed."),
                    Field("collective", 8, "The last of them."),
                ],
                "Progress.",
            ),
            Register(
                "refusal",
                "ro",
                [
                    Field("error", CommandError, "Why the last refused command was refused."),
                    Field("collective", 8, "Which one it was."),
                    Field("count", 16, "Commands refused."),
                ],
                "Refused commands.",
            ),
            Register(
                "interrupt",
                "w1c",
                [Field(name, 1, doc) for name, doc in INTERRUPTS.items()],
                "Pending interrupts.",
            ),
            Register(
                "interrupt_enable",
                "rw",
                [Field(name, 1, doc) for name, doc in INTERRUPTS.items()],
                "Those that raise `irq`.",
            ),
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
        ],
    )

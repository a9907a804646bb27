# SPDX-License-Identifier: Apache-2.0
"""Control and status registers of the engine."""

from amaranth.lib import enum
from amaranth.utils import bits_for

from hw.ace.config import RANK_BITS, AceConfig
from hw.common.engine_registers import (
    counter_registers,
    identity_register,
    memory_end_registers,
    number_register,
    outcome_registers,
    shape_register,
    wide_registers,
)
from hw.common.records import record_registers
from hw.common.register_map import Field, Register, RegisterMap
from hw.fp.ops import ReduceOp
from hw.link.retry_registers import LINK_INTERRUPT, port_registers, status_fields

__all__ = ["CAUSES", "ENGINE_ID", "INSPECTED", "INTERRUPTS", "CommandError", "register_map"]

ENGINE_ID = 0xACE1

SHAPE = {
    "ports": (4, "Links."),
    "fsms": (5, "FSMs."),
    "contexts": (5, "Contexts of an FSM."),
    "memory_ports": (5, "AXI4 masters."),
    "bus_bytes": (8, "Bus width in bytes."),
    "phases": (5, "Phases that have FSMs and a partition of their own; 0: a chunk keeps its slot."),
}

INTERRUPTS = {
    "done": "A collective has completed.",
    "refused": "A command was refused; see `refusal`.",
    "dropped": "A packet was dropped: damaged, or not expected by any context.",
    "memory": "Memory answered with an error; the data of a collective is not valid.",
    "fault": "A register access was answered with an error.",
    "failed": "A collective is over and its result is not valid; see `completion`.",
    "stalled": "Nothing has happened for `watchdog` cycles although a command is outstanding.",
}

CAUSES = {
    "memory": "Memory of this node answered a read or a write with an error.",
    "poisoned": "A peer could not read what it sent.",
    "aborted": "The command was outstanding when software aborted.",
    "disagreement": "Nodes were given different operations, lengths, blocks or numbers of nodes.",
    "lost": "A packet was lost or damaged on a link.",
}
"""Why the result of a collective is not valid."""

_OF_PORTS = {
    "damaged": ("count", "Damaged packets dropped by each port."),
    "unexpected": ("count", "Packets that no context expected, dropped by each port."),
    "repeated": ("count", "Packets that came again, dropped by each port."),
    "missing": (
        "count",
        "Packets that did not come to each port, damaged ones included, where later ones show it.",
    ),
    "parked": ("count", "Packets of each port that could not be forwarded at once."),
    "starved": ("cycles", "Cycles in which a link had packets to send and no credit."),
    "sent": ("beats", "Beats sent on each link."),
    "received": ("beats", "Beats received from each link."),
}
_CONFLICTS = {
    "bank_conflicts": (
        "cycles",
        "Cycles in which a request to the SRAM was not granted, all requesters together.",
    ),
    "alu_conflicts": (
        "cycles",
        "Cycles in which a packet waited for an ALU, all ports together.",
    ),
}


INSPECTED = {
    "inspected": {
        "used": (1, "It has a chunk, from its admission to the end of its store."),
        "loaded": (1, "The load of the chunk is over."),
        "live": (1, "Packets may come and go: it is loaded and its program has been looked up."),
        "storing": (1, "Its program is over; the result goes to memory."),
        "instructions": (1, "Its program has not come to END."),
        "held_ports": (8, "Links that have yet to take a packet of it, or its READY."),
        "ready_ports": (8, "Links whose peers it has still to tell READY."),
    },
    "inspected_step": {
        "step": (12, "Instruction that it is at, counted from the first one of its program."),
        "entry": (13, "Word of the program store that holds the first one."),
    },
    "inspected_arriving": {"arriving": (32, "Packets of its phase that have yet to arrive.")},
    "inspected_leaving": {"leaving": (32, "Packets of its phase that have yet to leave.")},
}
"""Registers that show a context, by name: fields, with widths and meanings."""


class CommandError(enum.Enum, shape=4):
    """Why a command was refused."""

    NONE = 0
    NODES = 1  # fewer than two nodes, more than the engine supports, or rank >= nodes
    EMPTY = 2  # no elements
    STRIDE = 3  # stride is zero, not whole beats, or nodes * stride < elements; where chunks are
    # contiguous, not nodes * block
    BLOCK = 4  # block is zero, not whole beats, needs too many chunks or packets, or nodes * block
    # exceeds a slot; or contiguous chunks of a shard
    ALIGNMENT = 5  # an address is not a multiple of the bus width
    ADDRESS = 6  # the payload does not lie within memory
    FSMS = 7  # no FSM in use, or more than there are
    FULL = 8  # too many commands outstanding
    ABORTING = 9  # the engine is not idle yet after an abort
    PROGRAM = 10  # an FSM in use has no program of this number
    HALTED = 11  # collectives were given up since the last abort


def register_map(c: AceConfig, *, retry: bool = False) -> RegisterMap:
    """Registers of an engine of configuration *c*; with *retry* those of its links, too."""
    outcomes = outcome_registers(
        of="the engine",
        tag="collective",
        status=[
            Field("outstanding", 6, "Commands accepted whose record is not written yet."),
            Field("aborting", 1, "Commands are refused until the engine is idle."),
            Field("stalled", 1, "Nothing has happened for `watchdog` cycles."),
            Field("halted", 1, "All collectives were given up, here and on all other nodes."),
            Field("disagreement", 1, "Since nodes were given different commands."),
            Field("lost", 1, "Since a packet was lost or damaged."),
            Field("epoch", 3, "As of the last abort."),
        ],
        completed=[Field("count", 24, "Collectives completed.")],
        errors=CommandError,
        interrupts={**INTERRUPTS, **(LINK_INTERRUPT if retry else {})},
    )
    registers = [
        *_setup(c), *_commands(), *outcomes, *_records(), *_counters(c), *_inspection()
    ]
    if retry:
        status = Register("link_status", "ro", status_fields(), "Of each link.", count=c.ports)
        registers += [status, *port_registers(c.ports)]
    return RegisterMap("the ACE engine", registers)


def _setup(c: AceConfig) -> list[Register]:
    """Registers for the engine's identity and shape, its place in the group, its programs."""
    return [
        identity_register(ENGINE_ID),
        shape_register("the engine", SHAPE, c.describe()),
        number_register(
            "slot_elements",
            "Elements of the largest slot; those of the partitions are smaller, and the programs "
            "say how large a block may be."
            if c.phased else "Elements that a slot holds: the largest chunk.",
            "ro",
            init=c.slot_elements,
        ),
        Register(
            "node",
            "rw",
            [Field("rank", RANK_BITS, "This node's rank.")],
            "Place in the group of nodes. Packets leave with the rank that is here then as their "
            "source.",
        ),
        Register(
            "nodes",
            "rw",
            [Field("count", RANK_BITS, "Nodes of the group.")],
            "Must be the same on all nodes.",
        ),
        Register(
            "fsms",
            "rw",
            [
                Field(
                    "count", 5, "FSMs in use: chunk n goes to FSM n modulo this.",
                    init=c.first_fsms,
                )
            ],
            "Must be the same on all nodes."
            + (" Those of the first phase; of the others all are in use." if c.phased else ""),
        ),
        Register(
            "links",
            "rw",
            [Field("used", c.ports, "A bit for each link.", init=(1 << c.ports) - 1)],
            "Links that lead to another engine.",
        ),
        *memory_end_registers(c.address_bits),
        Register(
            "program_address",
            "rw",
            [
                Field("word", 13, "Word of the program store."),
                Field("fsm", 4, "FSM."),
            ],
            "Where the next instruction goes; the word that is there can then be read.",
            strobed=True,
        ),
        number_register("program_low", "Low half of an instruction."),
        Register(
            "program_high",
            "wo",
            [Field("value", 32)],
            "High half; writing it writes the instruction. A write beyond the program store or to "
            "an FSM that does not exist is answered with SLVERR. A word of the program table holds "
            "a program if its length is not 0 and the program lies within the store.",
            guarded=True,
        ),
        number_register(
            "program_word_low",
            "Low half of the word at `program_address`, as it was when that or the word was "
            "written; 0 if there is none. Up to date once no collective is running.",
            "ro",
        ),
        number_register("program_word_high", "Its high half.", "ro"),
    ]


def _commands() -> list[Register]:
    """Registers that describe a collective, and those that start or abort one."""
    return [
        *wide_registers("source", "Address of the payload."),
        *wide_registers("destination", "Address of the result."),
        number_register("elements", "Elements of the whole vector."),
        number_register(
            "stride",
            "Elements from one shard to the next: whole beats, at least elements / nodes. Where "
            "chunks are contiguous, elements of a chunk: nodes * block.",
        ),
        number_register(
            "block", "Elements of a block (whole beats); a chunk is one block per node."
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
                Field(
                    "contiguous",
                    1,
                    "A chunk is a piece of the vector, cut into blocks, rather than a piece of "
                    "every shard; of whole vectors alone.",
                ),
            ],
            "Starts a collective with the parameters and settings above as they are now, in the "
            "same order on all nodes.",
        ),
        Register(
            "watchdog",
            "rw",
            [Field("cycles", 32)],
            "Raise `stalled` when a command is outstanding and no packet has been received or sent "
            "and no chunk loaded or stored for so many cycles; 0: never.",
            strobed=True,
        ),
        Register(
            "control",
            "wo",
            [
                Field("abort", 1, "Forget all commands, chunks and peers that are ready."),
                Field("epoch", 3, "Name of the time from this abort to the next."),
            ],
            "To go on after collectives were given up, or to give them up: abort on all nodes with "
            "the same new epoch, wait until all are idle, and start anew. Links are brought into "
            "step, so a node that was reset alone joins again.",
        ),
    ]


def _records() -> list[Register]:
    """Completion records of the commands."""
    return record_registers(
        causes=CAUSES, errors=CommandError, tag="collective",
        no_record="Commands that are refused with FULL, ABORTING or HALTED have no record.",
    )


def _counters(c: AceConfig) -> list[Register]:
    """Performance counters of each port, then of the whole engine."""
    return [
        *counter_registers(
            _OF_PORTS, count=c.ports, bits={"unexpected": 2, "missing": c.format.sequence}
        ),
        *counter_registers(
            _CONFLICTS,
            bits={"bank_conflicts": bits_for(c.sram_requesters),
                  "alu_conflicts": bits_for(c.ports)},
        ),
    ]


def _inspection() -> list[Register]:
    """Registers that show a context, for software that finds the engine stalled."""
    chunk = [Field("chunk", 16, "Of the collective."), Field("collective", 8, "Its name.")]
    ports = [Field(f"port_{p}", 2, f"Those of the peer on link {p}.") for p in range(8)]
    return [
        Register(
            "inspect",
            "rw",
            [Field("fsm", 4, "FSM."), Field("context", 4, "Context of it.")],
            "A write takes a picture of a context, which the registers below then show, all of one "
            "cycle; 0 of one that does not exist. Nothing else is changed by it.",
            strobed=True,
        ),
        Register("inspected_chunk", "ro", chunk, "The chunk; valid if `used`."),
        *(
            Register(
                name, "ro", [Field(field, bits, doc) for field, (bits, doc) in fields.items()],
                "Valid if `live`." if name != "inspected" else "State of the context.",
            )
            for name, fields in INSPECTED.items()
        ),
        Register(
            "inspected_readies", "ro", ports,
            "READY packets that have come for the chunk, 3 at most; valid if `used`.",
        ),
    ]

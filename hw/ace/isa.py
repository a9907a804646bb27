# SPDX-License-Identifier: Apache-2.0
"""Instruction set of the programmable FSMs.

A program is a list of instructions, each of which moves a *run* of consecutive blocks of a chunk.
In a phase all runs have the same number of blocks.

Instructions that start by themselves come first and are executed in order up to ``END``: ``SEND``
sends a run, ``PHASE`` waits until every run of the phase so far has arrived and left, and opens the
next one: it says how long its runs are, how many arrive and leave in it, and which peers are told
(READY) that they may send theirs. The first phase is described by the entry of the program table.
READY may be for the next phase as well (``ahead``), whose packets then come before it is opened:
instructions carry the parity of their phase (``odd``), so each packet is counted for the right one.
The other instructions are *receive* instructions: they have no order. A packet names the receive
instruction that it is for (its ``step`` field), and that instruction is executed for this packet
whenever it arrives. The names are those that collective libraries use for these primitives; what a
receive instruction does is the sum of its parts:

============================ ======= ====== ====== =====================
opcode                        reduce  store  send   used by
============================ ======= ====== ====== =====================
RECV                                  x             last all-gather step
RECV_SEND                                    x      relay
RECV_COPY_SEND                        x      x      all-gather
RECV_REDUCE_COPY              x       x             last reduce-scatter step
RECV_REDUCE_SEND              x              x      reduce-scatter
RECV_REDUCE_COPY_SEND         x       x      x      all-reduce, middle step
============================ ======= ====== ====== =====================

*Reduce* adds the packet to the node's own data of these blocks; *store* writes the outcome in its
place; *send* passes it on to ``port``, as step ``peer_step`` of the receiver. When a send cannot be
done at once the outcome is stored, whatever the opcode says, and sent later.

All of it happens in one slot, in place: data that are replaced have left, since the packet that
replaces them exists only because they have (docs/reference/ace-programs.md).

An engine with partitions by phase (`AceConfig.partitions`) has programs of one phase each. They
read what the phase begins with from its own slot, and store what it ends with in one of the next
partition; a packet that is sent later without being stored waits in the place of its block in the
own slot. ``COPY`` is for results that no packet brings: it goes with the SENDs and counts as one.
"""

from amaranth.lib import data, enum

from hw.ace.config import RANK_BITS

__all__ = [
    "ENTRY_WORDS",
    "INSTRUCTION_BITS",
    "INSTRUCTION_FIELDS",
    "MOST_FIRST_RUN",
    "MOST_RUNS",
    "PHASE_FIELDS",
    "PLACEMENT_FIELDS",
    "PROGRAM_ENTRY_FIELDS",
    "TABLE_WORDS",
    "Opcode",
    "instruction_layout",
    "opcode_layout",
    "phase_layout",
    "placement_layout",
    "program_entry_layout",
]

INSTRUCTION_BITS = 64

ENTRY_WORDS = 4
"""Programs start at multiples of so many words."""

TABLE_WORDS = 16
"""Programs of a store: its first words are their entries. With partitions by phase as many words
follow, which say where results go."""

MOST_RUNS = 2047
"""Runs of a phase that are received or sent: a packet can name 2048 steps."""


MOST_FIRST_RUN = 4095
"""Blocks of a run in the first phase: what an entry of the table has bits for."""


class Opcode(enum.Enum, shape=4):
    """Operation of an instruction. Bit 0 reduces, bit 1 stores, bit 2 sends, bit 3 waits for a
    packet; bit 0 alone is ``PHASE``."""

    END = 0b0000
    PHASE = 0b0001
    SEND = 0b0100
    COPY = 0b0110
    RECV = 0b1010
    RECV_SEND = 0b1100
    RECV_COPY_SEND = 0b1110
    RECV_REDUCE_COPY = 0b1011
    RECV_REDUCE_SEND = 0b1101
    RECV_REDUCE_COPY_SEND = 0b1111


# The parts of an opcode as bit fields, for the hardware.
opcode_layout = data.StructLayout({"reduce": 1, "store": 1, "send": 1, "receive": 1})

INSTRUCTION_FIELDS = {
    "op": (opcode_layout, "What it does: an `Opcode`."),
    "block": (RANK_BITS, "First block of the run."),
    "port": (4, "Link to send on."),
    "peer_step": (12, "Receive instruction at the peer."),
    "contributions": (10, "Operands in the data that this instruction sends or stores."),
    "arriving": (10, "Operands in a packet that it receives."),
    "readies": (2, "READY packets of the peer that it needs to send, beyond the first."),
    "odd": (1, "It belongs to a phase of odd number; the first one is number 0."),
    "reserved": (4, "0."),
}
"""Fields of an instruction from bit 0 upwards: shape and meaning. Operands are counted modulo
1024."""

PHASE_FIELDS = {
    "op": (opcode_layout, "`Opcode.PHASE`."),
    "receives": (12, "Runs that arrive in the next phase."),
    "sends": (12, "Runs that are sent in it, forwarded ones included."),
    "ready_ports": (8, "Links whose peers may send from now on."),
    "run": (RANK_BITS, "Blocks of each of its runs."),
    "ahead": (11, "Runs of this phase in one of the next, if READY is for that one, too; else 0."),
}
"""Fields of the instruction ``PHASE``."""

PROGRAM_ENTRY_FIELDS = {
    "entry": (11, "Index of the first instruction, in `ENTRY_WORDS` words."),
    "last": (11, "Last step of the program; 0: there is none."),
    "receives": (11, "Runs that arrive in the first phase."),
    "sends": (11, "Runs that are sent in it, forwarded ones included."),
    "ready_ports": (8, "Links whose peers may send from the beginning."),
    "run": (MOST_FIRST_RUN.bit_length(), "Blocks of each of its runs."),
}
"""Fields of the first words of a program store, its table: start of a program, and its first
phase."""

_BLOCK_BITS = 30

PLACEMENT_FIELDS = {
    "first": (RANK_BITS, "First block of the chunk that is in the slot of the next partition."),
    "beats": (
        _BLOCK_BITS, "Most beats of a block, with which all parts of a chunk fit their slots.",
    ),
    "reserved": (INSTRUCTION_BITS - RANK_BITS - _BLOCK_BITS, "0."),
}
"""Fields of the words behind the table, with partitions by phase."""

instruction_layout = data.StructLayout({n: shape for n, (shape, _) in INSTRUCTION_FIELDS.items()})
phase_layout = data.StructLayout({name: shape for name, (shape, _) in PHASE_FIELDS.items()})
program_entry_layout = data.StructLayout(
    {name: shape for name, (shape, _) in PROGRAM_ENTRY_FIELDS.items()}
)
placement_layout = data.StructLayout({name: shape for name, (shape, _) in PLACEMENT_FIELDS.items()})
assert (
    instruction_layout.size == phase_layout.size == program_entry_layout.size == INSTRUCTION_BITS
)

"""Instruction set of the programmable FSMs.

A program is a list of instructions. Those that start by themselves (``SEND``) come first and are
executed in order up to ``END``. The others are *receive* instructions: they have no order. A packet
names the receive instruction that it is for (its ``step`` field), and that instruction is executed
for this packet whenever it arrives. The names are those that collective libraries use for these
primitives; what a receive instruction does is the sum of its parts:

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

*Reduce* adds the packet to the node's own data in the source slot; *store* writes to the result
slot; *send* passes the outcome on to ``port``, as step ``peer_step`` of the receiver. When a send
cannot be done at once the outcome is stored (where the opcode does not say, in the source slot, in
place of the data that it replaces) and sent later.
"""

from amaranth.lib import data, enum

__all__ = [
    "INSTRUCTION_BITS",
    "INSTRUCTION_FIELDS",
    "PROGRAM_ENTRY_FIELDS",
    "Opcode",
    "instruction_layout",
    "opcode_layout",
    "program_entry_layout",
]

INSTRUCTION_BITS = 64


class Opcode(enum.Enum, shape=4):
    """Operation of an instruction. Bit 0 reduces, bit 1 stores, bit 2 sends, bit 3 waits for a
    packet."""

    END = 0b0000
    SEND = 0b0100
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
    "from_result": (1, "SEND reads the result slot instead of the source slot."),
    "block": (12, "Block of the chunk."),
    "port": (4, "Link to send on."),
    "peer_step": (12, "Receive instruction at the peer."),
    "contributions": (12, "Operands in the data that this instruction sends or stores."),
    "reserved": (19, "0."),
}
"""Fields of an instruction from bit 0 upwards: shape and meaning."""

PROGRAM_ENTRY_FIELDS = {
    "entry": (13, "Index of the first instruction."),
    "length": (12, "Instructions; 0: there is no such program."),
    "receives": (12, "Blocks that arrive."),
    "sends": (12, "Blocks that are sent, forwarded ones included."),
    "ready_ports": (8, "Links whose peers send to this program."),
    "reserved": (7, "0."),
}
"""Fields of the first words of a program store, its table: start and block counts of a program."""

instruction_layout = data.StructLayout({n: shape for n, (shape, _) in INSTRUCTION_FIELDS.items()})
program_entry_layout = data.StructLayout(
    {name: shape for name, (shape, _) in PROGRAM_ENTRY_FIELDS.items()}
)
assert instruction_layout.size == program_entry_layout.size == INSTRUCTION_BITS

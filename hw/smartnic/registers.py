# SPDX-License-Identifier: Apache-2.0
"""Control and status registers of the NIC."""

from amaranth.lib import enum

from hw.common.all_reduce import (
    abort_register,
    all_reduce_interrupts,
    all_reduce_registers,
    command_register,
    control_register,
    vector_registers,
    watchdog_register,
)
from hw.common.engine_registers import (
    identity_register,
    shape_register,
    wide_registers,
)
from hw.common.register_map import Field, Register, RegisterMap
from hw.fp.ops import ReduceOp
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import AbortCause

__all__ = ["COUNTERS", "INTERRUPTS", "NIC_ID", "CommandError", "register_map"]

NIC_ID = 0x541C

SHAPE = {
    "bus_bytes": (8, "Bus width in bytes."),
    "engines": (4, "Datapaths, each with a host and a network port."),
    "ethernet": (1, "Frames carry Ethernet addresses."),
    "codec": (1, "Compression is possible."),
    "block_beats": (13, "Largest block, in beats."),
}

INTERRUPTS = all_reduce_interrupts(
    dropped="A frame", everywhere="all nodes", elsewhere="another rank"
)

COUNTERS = {
    "busy": "Cycles with an all-reduce outstanding.",
    "frames_sent": "Data frames sent.",
    "beats_sent": "Beats on the network, headers and credit frames included.",
    "frames_received": "Data frames accepted.",
    "beats_read": "Beats read from host memory.",
    "beats_written": "Beats written to host memory.",
    "starved": "Cycles in which frames waited for room at the next node.",
    "host_wait": "Cycles in which the adders waited for host memory.",
    "ring_wait": "Cycles in which the adders waited for the ring.",
    "dropped_foreign": "Frames dropped: EtherType, version, kind or addresses are not ours.",
    "dropped_length": "Frames dropped: wrong length, or damaged.",
    "dropped_stale": "Frames dropped: sent before or during an abort.",
    "dropped_repeated": "Frames dropped: sequence number of an earlier frame.",
    "dropped_gap": "Frames dropped: an earlier frame is missing.",
    "dropped_overflow": "Frames dropped: the receive buffer was full.",
}


class CommandError(enum.Enum, shape=4):
    """Why a command was refused."""

    NONE = 0
    NODES = 1  # fewer than two nodes, or more than 256
    RANK = 2  # rank is not below nodes
    EMPTY = 3  # no elements
    ALIGNMENT = 4  # an address is not a multiple of the bus width
    ADDRESS = 5  # the vector or the result does not lie within memory
    COMPRESSION = 6  # this NIC has no codec, or it does not go with the operation
    FULL = 7  # too many all-reduces outstanding
    ABORTING = 8  # given during an abort, or before its interrupt was cleared


def register_map(c: SmartNicConfig) -> RegisterMap:
    """Registers of a NIC of configuration *c*."""
    addresses = [
        register
        for name, port in {
            "own": "this port",
            "next": "the next rank's port",
            "previous": "the previous rank's port",
        }.items()
        for register in wide_registers(
            f"{name}_address",
            f"Ethernet address of {port}; its first byte is the least significant.",
            bits=48,
        )
    ]
    shape = {**c.describe(), "codec": c.codec_format is not None}
    return RegisterMap(
        "the smart NIC",
        [
            identity_register(NIC_ID),
            shape_register("the NIC", SHAPE, shape),
            Register(
                "node",
                "rw",
                [
                    Field("rank", 9, "Place of this node in the ring."),
                    Field("nodes", 9, "Nodes of the ring, 2 to 256."),
                ],
                "Read when a command is given.",
            ),
            *(addresses if c.ethernet else []),
            *vector_registers(c.address_bits),
            command_register(
                "ranks",
                Field("op", ReduceOp, "Reduction."),
                Field("compress", 1, "Compress what travels."),
            ),
            control_register("all other nodes", once=" and `status` is idle on all nodes"),
            watchdog_register(
                31,
                doc=" After half the cycles the counts of freed beats are sent again, in case a "
                "credit frame was lost.",
            ),
            abort_register(AbortCause, Field("rank", 8, "Rank at which this began.")),
            *all_reduce_registers(
                of="the NIC",
                elsewhere="another rank",
                status=[Field("epoch", 24, "Aborts so far.")],
                errors=CommandError,
                interrupts=INTERRUPTS,
                counters=COUNTERS,
                count=c.engines,
            ),
        ],
    )

"""Control and status registers of the NIC."""

from amaranth.lib import enum

from hw.common.engine_registers import (
    all_reduce_registers,
    counter_registers,
    identity_register,
    invalid_register,
    vector_registers,
    wide_registers,
)
from hw.common.register_map import Field, Register, RegisterMap
from hw.fp.ops import ReduceOp
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import AbortCause

__all__ = ["COUNTERS", "INTERRUPTS", "NIC_ID", "CommandError", "register_map"]

NIC_ID = 0x541C

INTERRUPTS = {
    "done": "An all-reduce has completed.",
    "refused": "A command was refused; see `refusal`.",
    "dropped": "A frame was dropped; the counters say why.",
    "aborted": "All all-reduces were given up, here and on all nodes; `abort` says why.",
    "memory": "Memory here answered with an error.",
    "invalid": "The result of an all-reduce is not valid: memory refused an access, here or at "
    "another rank; see `invalid`.",
    "stalled": "Nothing has moved for as long as `watchdog` says.",
    "fault": "A register access was answered with an error.",
}

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


def _trouble_registers() -> list[Register]:
    """What watches over all-reduces, and what became of those that did not go well."""
    return [
        Register(
            "watchdog",
            "rw",
            [
                Field("cycles", 31, "Without progress until `stalled`; 0 for never."),
                Field("abort", 1, "And then abort."),
            ],
            "Watches over outstanding all-reduces. After half the cycles the counts of freed "
            "beats are sent again, in case a credit frame was lost.",
        ),
        Register(
            "abort",
            "ro",
            [
                Field("cause", AbortCause, "Why all all-reduces were given up last."),
                Field("rank", 8, "Rank at which this began."),
            ],
            "The last abort.",
        ),
        invalid_register("another rank"),
    ]


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
    return RegisterMap(
        "the smart NIC",
        [
            identity_register(NIC_ID),
            Register(
                "shape",
                "ro",
                [
                    Field("bus_bytes", 8, "Bus width in bytes.", init=c.bus_bytes),
                    Field(
                        "engines",
                        4,
                        "Datapaths, each with a host and a network port.",
                        init=c.engines,
                    ),
                    Field(
                        "ethernet", 1, "Frames carry Ethernet addresses.", init=int(c.ethernet)
                    ),
                    Field(
                        "codec",
                        1,
                        "Compression is possible.",
                        init=int(c.codec_format is not None),
                    ),
                    Field("block_beats", 13, "Largest block, in beats.", init=c.block_beats),
                ],
                "Configuration of the NIC.",
            ),
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
            Register(
                "command",
                "wo",
                [
                    Field("tag", 8, "Any name; comes back in `completed` and `refusal`."),
                    Field("op", ReduceOp, "Reduction."),
                    Field("compress", 1, "Compress what travels."),
                ],
                "Queues an all-reduce with the parameters above. All ranks queue the same ones in "
                "the same order, tags included, or all abort.",
            ),
            Register(
                "control",
                "wo",
                [Field("abort", 1, "Give up all all-reduces, here and on all other nodes.")],
                "After an abort, once its interrupt is cleared and `status` is idle on all nodes, "
                "commands may be given again. The results of what was given up are undefined.",
            ),
            *_trouble_registers(),
            *all_reduce_registers(
                of="the NIC",
                status=[
                    Field("epoch", 24, "Aborts so far."),
                ],
                errors=CommandError,
                interrupts=INTERRUPTS,
            ),
            *counter_registers(
                {name: ("count", doc) for name, doc in COUNTERS.items()}, count=c.engines
            ),
        ],
    )

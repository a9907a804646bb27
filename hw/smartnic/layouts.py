"""What passes between the parts of the NIC, and the frame on the network."""

from amaranth.lib import data, enum

from hw.fp.ops import ReduceOp
from hw.smartnic.config import HEADER_BYTES, MAX_NODES, SmartNicConfig

__all__ = [
    "COUNT_BITS",
    "ETHERTYPE",
    "SEQUENCE_BITS",
    "VERSION",
    "FrameKind",
    "HeaderLayout",
    "item_layout",
    "job_layout",
    "net_layout",
    "send_layout",
    "wire_layout",
]

ETHERTYPE = 0x88B5
"""IEEE 802 local experimental EtherType 1."""
VERSION = 1
SEQUENCE_BITS = 16
COUNT_BITS = 16
"""Bits of the running counts of freed beats that credit frames carry."""


class FrameKind(enum.Enum, shape=4):
    """What a frame carries. The values of data frames are those of their flow plus 1."""

    REDUCE = 1
    GATHER = 2
    CREDIT = 3
    ABORT = 4


class HeaderLayout(data.Struct):
    """The first 32 bytes of a frame; bit 0 is bit 0 of the first byte on the wire.

    Addresses and EtherType in the byte order of Ethernet (their first byte is the least significant
    here), all other fields little-endian.
    """

    destination: 48
    source: 48
    ethertype: 16
    version: 4
    kind: FrameKind
    block_end: 1  # the frame ends a block
    _flags: 7
    payload_bytes: 16  # after the header, padding of short frames included
    sequence: SEQUENCE_BITS  # of the data frames of this flow
    epoch: 8
    job: 8  # low bits of the number of the all-reduce
    freed_reduce: COUNT_BITS
    freed_gather: COUNT_BITS
    _reserved: 48


assert HeaderLayout.as_shape().size == 8 * HEADER_BYTES


def wire_layout(c: SmartNicConfig) -> data.StructLayout:
    """Payload as it travels, compressed or not; ``last`` ends a block."""
    return data.StructLayout({"data": 8 * c.bus_bytes, "last": 1})


def send_layout(c: SmartNicConfig) -> data.StructLayout:
    """The same on its way to a frame; ``compress`` is the same for all of a block."""
    return data.StructLayout({"data": 8 * c.bus_bytes, "last": 1, "compress": 1})


def net_layout(c: SmartNicConfig) -> data.StructLayout:
    """A beat of the AXI4-Stream: ``keep`` per byte, ``last`` ends a frame, ``error`` is TUSER."""
    return data.StructLayout({"data": 8 * c.bus_bytes, "keep": c.bus_bytes, "last": 1, "error": 1})


def job_layout(c: SmartNicConfig) -> data.StructLayout:
    """An accepted all-reduce, the same for all engines.

    The vector has ``beats`` beats, the last of them ``tail_lanes`` + 1 elements. It is cut into
    ``rounds`` rounds of one block of ``block_beats`` beats per rank and, unless ``rest`` is zero,
    one round with blocks of ``rest`` beats.
    """
    return data.StructLayout(
        {
            "source": c.address_bits,
            "destination": c.address_bits,
            "beats": 32,
            "tail_lanes": range(c.lanes),
            "rounds": 32,
            "rest": range(c.block_beats),
            "rank": range(MAX_NODES),
            "last_rank": range(MAX_NODES),  # number of nodes - 1
            "op": ReduceOp,
            "compress": 1,
        }
    )


def item_layout(c: SmartNicConfig) -> data.StructLayout:
    """One block for one flow: ``beats`` beats, of which the first ``valid`` lie in memory.

    ``tail`` says that the last of these is the last beat of the vector, with ``tail_lanes`` + 1
    elements. ``first`` and ``last`` mark the ends of a round. An item of no beats carries only
    ``end``, the end of the all-reduce for this engine.
    """
    return data.StructLayout(
        {
            "address": c.address_bits,
            "beats": range(c.block_beats + 1),
            "valid": range(c.block_beats + 1),
            "tail": 1,
            "tail_lanes": range(c.lanes),
            "first": 1,
            "last": 1,
            "end": 1,
            "op": ReduceOp,
            "compress": 1,
        }
    )

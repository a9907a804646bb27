# SPDX-License-Identifier: Apache-2.0
"""Messages between the parts of the NIC, and the frame on the network."""

from amaranth.lib import data, enum

from hw.fp.ops import ReduceOp
from hw.smartnic.config import HEADER_BYTES, MAX_NODES, SmartNicConfig

__all__ = [
    "COUNT_BITS",
    "EPOCH_BITS",
    "ETHERTYPE",
    "SEQUENCE_BITS",
    "VERSION",
    "AbortCause",
    "Contract",
    "FrameKind",
    "HeaderLayout",
    "Heard",
    "fetched_layout",
    "item_layout",
    "job_layout",
    "local_layout",
    "net_layout",
    "outcome_layout",
    "send_layout",
    "wire_layout",
]

ETHERTYPE = 0x88B5
"""IEEE 802 local experimental EtherType 1."""
VERSION = 2
SEQUENCE_BITS = 16
EPOCH_BITS = 32
"""Epochs are compared as plain numbers, so that of any two one is the later."""
COUNT_BITS = 16
"""Bits of the running counts of freed beats that credit frames carry."""


class FrameKind(enum.Enum, shape=4):
    """Kind of a frame. Data frames have the number of their flow plus 1."""

    REDUCE = 1
    GATHER = 2
    CREDIT = 3
    ABORT = 4  # to the next node
    RECALL = 5  # the same to the previous node


class AbortCause(enum.Enum, shape=4):
    """Why all all-reduces were given up."""

    NONE = 0
    SOFTWARE = 1  # the host said so
    GAP = 2  # a frame is missing
    OVERFLOW = 3  # a frame had no room: its sender does not obey the credits
    DISAGREEMENT = 4  # the previous rank was given another all-reduce, or is another rank
    WATCHDOG = 5  # no progress for as long as `watchdog` says
    RESET = 6  # a neighbour is at an earlier epoch: it was reset by itself


class Contract(data.Struct):
    """Parameters of an all-reduce that all ranks must agree on; `rank` is the sender's."""

    elements: 32
    tag: 8
    coding: 8  # of what travels, `SmartNicConfig.wire_format`
    last_rank: 8  # number of nodes - 1
    rank: 8
    op: ReduceOp


class Heard(data.Struct):
    """A sound frame of a neighbour, whatever its epoch."""

    valid: 1
    back: 1  # from the next node, not from the previous one
    abort: 1  # it tells of an abort
    wanted: 1  # and wants to hear of it in return
    fresh: 1  # and has just come to its epoch
    epoch: EPOCH_BITS
    cause: AbortCause
    rank: 8  # where the abort began


class HeaderLayout(data.Struct):
    """The first 32 bytes of a frame; bit 0 is bit 0 of the first byte on the wire.

    Addresses and EtherType in the byte order of Ethernet (their first byte is the least significant
    here), all other fields little-endian. Fields that a frame has no use for are zero.
    """

    destination: 48
    source: 48
    ethertype: 16
    version: 4
    kind: FrameKind
    block_end: 1  # the frame ends a block
    start: 1  # it is the first one of an all-reduce, and `detail` to `rank` are its contract; of an
    # abort: the sender has just come to the epoch
    poison: 1  # the block that it ends depends on a read that a memory refused
    wanted: 1  # of an abort: the sender waits to hear of the same epoch
    op: 4
    payload_bytes: 16  # after the header, padding of short frames included
    sequence: SEQUENCE_BITS  # of the data frames of this flow
    epoch: EPOCH_BITS
    detail: 32  # elements; freed beats (reducing flow, gathering flow); cause of an abort
    tag: 8
    coding: 8
    last_rank: 8
    rank: 8  # of the sender; of an abort: where it began


assert HeaderLayout.as_shape().size == 8 * HEADER_BYTES


def local_layout(c: SmartNicConfig) -> data.StructLayout:
    """A beat of the local vector; ``bad`` if the memory answered it with an error."""
    return data.StructLayout({"data": 8 * c.bus_bytes, "bad": 1})


def fetched_layout(c: SmartNicConfig) -> data.StructLayout:
    """A beat of it as the memory gave it, with the elements that are of the vector."""
    return data.StructLayout({"data": 8 * c.bus_bytes, "bad": 1, "lanes": c.lanes})


def wire_layout(c: SmartNicConfig) -> data.StructLayout:
    """Payload as it travels, compressed or not; ``last`` ends a block.

    ``bad``, with ``last``: the block depends on a read that a memory refused.
    """
    return data.StructLayout({"data": 8 * c.bus_bytes, "last": 1, "bad": 1})


def send_layout(c: SmartNicConfig) -> data.StructLayout:
    """The same on its way to a frame; ``compress`` and ``start`` are the same for all of a block.

    ``start``: it is the first block of an all-reduce.
    """
    return data.StructLayout(
        {"data": 8 * c.bus_bytes, "last": 1, "bad": 1, "compress": 1, "start": 1}
    )


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


def outcome_layout() -> data.StructLayout:
    """Why the result of an all-reduce is not valid, if it is not.

    ``read``: a memory refused a read on which it depends, here or at another rank; ``write``:
    memory here refused a write of it.
    """
    return data.StructLayout({"read": 1, "write": 1})


def item_layout(c: SmartNicConfig) -> data.StructLayout:
    """One block for one flow: ``beats`` beats, of which the first ``valid`` lie in memory.
    ``some`` says that there are any, without a comparison.

    ``tail`` says that the last of these is the last beat of the vector, with ``tail_lanes`` + 1
    elements. ``first`` and ``last`` mark the ends of a round, ``start`` the first block of the
    all-reduce. An item of no beats carries only ``end``, the end of the all-reduce for this engine.
    """
    return data.StructLayout(
        {
            "address": c.address_bits,
            "beats": range(c.block_beats + 1),
            "valid": range(c.block_beats + 1),
            "some": 1,
            "tail": 1,
            "tail_lanes": range(c.lanes),
            "first": 1,
            "last": 1,
            "start": 1,
            "end": 1,
            "op": ReduceOp,
            "compress": 1,
        }
    )

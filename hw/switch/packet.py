"""The packet of the in-switch reduction: one memory operation on 128 bytes.

A packet is a header flit and, if it carries data, payload flits; a *flit* is 16 bytes. With the
default of 8 payload flits a packet is 144 bytes long, as published for NVSwitch (papers: 16-byte
header, 128 bytes of data). The kind says how long a packet is and which class it travels in.
"""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Value
from amaranth.lib import data, enum

from hw.link.packet import FLIT_BITS, decode_header, encode_header

__all__ = [
    "CLASSES",
    "FLIT",
    "HEADER",
    "Kind",
    "Traffic",
    "decode",
    "encode",
    "header_of",
    "traffic_of",
]


class Traffic(enum.Enum, shape=2):
    """Classes of traffic, each with buffers and credits of its own on every link.

    A packet may wait for packets of its own class and of later ones, never for earlier ones.
    """

    REQUEST = 0
    PARTIAL = 1
    RESULT = 2


CLASSES = len(Traffic)
"""Number of classes."""


class Kind(enum.Enum, shape=4):
    """What a packet is; the low two bits are its class."""

    INVALID = 0b0000
    PUSH = 0b0100  # an operand: reduce it with those of the other members (data)
    PARTIAL = 0b0101  # a sum that is not complete, for the home endpoint (data)
    RESULT = 0b0110  # a complete sum, for all members (data)


HEADER = data.StructLayout(
    {
        "offload": 1,  # always 1: for the switch's reduction
        "kind": Kind,
        "op": 4,  # ReduceOp, zero-extended
        "region": 8,  # multicast region
        "address": 40,  # byte in the region, a multiple of the payload
        "tag": 12,  # of the sender, not looked at
        "source": 10,  # endpoint that sent it; of what a switch sends, the home endpoint
        "destination": 10,  # home endpoint, from the switch on that found it
        "count": 10,  # operands in the payload
        "epoch": 3,  # operands of different epochs are not reduced with each other
        "poison": 1,  # an operand could not be read: the payload is not valid
        "sequence": 8,  # reserved for retries on a link, 0
        "acknowledge": 8,  # reserved likewise
        "reserved": 1,
        "checksum": 8,  # as in ACE's packets
    }
)
"""The header flit."""

assert HEADER.size == FLIT_BITS

FLIT = data.StructLayout({"data": FLIT_BITS, "first": 1, "last": 1})
"""A flit inside the switch: ``first`` is a header, ``last`` ends the packet."""


def encode(fields: Mapping[str, Any]) -> int:
    """The header flit with *fields* as an integer, checksum included; missing fields are zero."""
    return encode_header(HEADER, {"offload": 1, **fields})


def decode(flit: int) -> dict[str, int] | None:
    """Fields of a header flit, or None if its checksum is wrong."""
    return decode_header(HEADER, flit)


def header_of(flit: Any) -> Any:
    """The data of a flit as a header."""
    return data.View(HEADER, Value.cast(flit.data))


def traffic_of(kind: Any) -> Value:
    """Class of a kind, in hardware."""
    return Value.cast(kind)[:2]


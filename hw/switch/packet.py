# SPDX-License-Identifier: Apache-2.0
"""The packet of the in-switch reduction: one memory operation on the data of one packet.

A packet is a header flit and, if it carries data, payload flits; a *flit* is 16 bytes. With the
default of 8 payload flits a packet is 144 bytes long, as published for NVSwitch (Klenk et al.,
ISCA 2020: 16-byte header, 128 bytes of data). The kind says whether a packet has data and which
class it travels in.

Push: endpoints send a PUSH each; the sum comes back as a RESULT, or as PARTIALs to the home
endpoint, which adds them and sends the RESULT; or, if so built, as SUBTOTALs to all members, each
of which adds them for itself. Pull: an endpoint, the requester, sends a LOAD;
every other member answers with a RESPONSE, switches add these on the way; the requester adds its
own operand and sends the RESULT, a multicast store.
"""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, Value
from amaranth.lib import data, enum

from hw.link.packet import FLIT_BITS, decode_header, encode_header
from hw.switch.sizes import SwitchSizes

__all__ = [
    "CLASSES",
    "EPOCH_BITS",
    "FLIT",
    "HEADER",
    "LINK_CLASS",
    "MOST_PASSED",
    "MOST_YOUNGER",
    "NOTICE",
    "PASSING",
    "REOPENING_CYCLES",
    "STOPPED_CYCLES",
    "AbortCause",
    "Format",
    "Kind",
    "Traffic",
    "beats_of",
    "decode",
    "encode",
    "has_data",
    "header_of",
    "kinds_of",
    "notice_fields",
    "notice_of",
    "notice_said",
    "traffic_of",
]


class Traffic(enum.Enum, shape=2):
    """Classes of traffic, each with buffers and credits of its own on every link.

    A packet may wait for packets of its own class and of later ones, never for earlier ones.
    """

    REQUEST = 0  # PUSH, LOAD
    PARTIAL = 1  # PARTIAL, RESPONSE
    RESULT = 2  # RESULT, SUBTOTAL, SYNC


CLASSES = len(Traffic)
"""Number of classes."""

LINK_CLASS = CLASSES
"""The two low bits of kinds that are for the neighbour at the link alone."""

PASSING = frozenset({Traffic.PARTIAL, Traffic.RESULT})
"""Classes of which packets pass those for other outputs: answers to different requesters would
wait for one another, and results for those to a link that takes none. Operands keep their order, so
that they come to all tables in one order; otherwise small tables hold operands that do not meet."""

MOST_PASSED = 15
"""Times in a row that the oldest packet of these classes may be passed, unless its outputs have
stopped. A packet for an output that is free in other cycles than its input would else be passed for
as long as others come."""

STOPPED_CYCLES = 256
"""Cycles without a credit of a class after which an output has stopped."""

REOPENING_CYCLES = 32
"""Cycles, more than a packet takes, in which a stopped output sends nothing once a credit comes."""

MOST_YOUNGER = 31
"""Times in a row that the operand whose turn it is at a link may be passed by older ones. Ages of
different all-reduces say nothing about each other, and one of them would else never end."""


class Kind(enum.Enum, shape=4):
    """Kind of a packet; the low two bits are its class, the third says that it has data.

    Packets of the fourth class are for the neighbour at the link alone: they need no credit and are
    never stored.
    """

    INVALID = 0b0000
    PUSH = 0b0100  # an operand: reduce it with those of the other members
    PARTIAL = 0b0101  # a sum that is not complete, for the home endpoint
    RESULT = 0b0110  # a multicast store: a complete sum, for all members but the sender
    SUBTOTAL = 0b1110  # a sum that is not complete, for all members
    LOAD = 0b1000  # a load with reduction: every other member is to answer (header alone)
    RESPONSE = 0b1101  # operands of a load, summed, for its requester
    SYNC = 0b1010  # a notice, for all members but the sender: see `NOTICE` (header alone)
    COUNT = 0b0011  # for the neighbour at the link: count my credits anew (header alone)
    COUNTED = 0b1011  # its answer: those that come from now on count (header alone)


class Format(enum.Enum, shape=2):
    """Encoding of a packet's data; a switch or an endpoint may be built with `WORDS` alone.

    Operands and results have the format of their all-reduce, partial sums always `WORDS`.
    """

    WORDS = 0  # 32 bits an element
    FP16 = 1  # binary16
    BF16 = 2  # bfloat16
    BFP = 3  # block floating point


class AbortCause(enum.Enum, shape=4):
    """Why an epoch ended, and with it all all-reduces of its region."""

    NONE = 0
    SOFTWARE = 1  # the host said so
    DISAGREEMENT = 2  # the endpoints were not given the same all-reduce
    OVERFLOW = 3  # a partial has no place: its sender has more under way than fits here
    WATCHDOG = 4  # no progress for as long as `watchdog` says
    RESET = 5  # an endpoint joined anew


HEADER = data.StructLayout(
    {
        "offload": 1,  # always 1: for the switch's reduction
        "kind": Kind,
        "op": 2,  # ReduceOp
        "format": 2,  # Format
        "region": 6,  # multicast region
        "address": 28,  # of the first flit of data, from the start of the region, in flits
        "tag": 8,  # of a load, chosen by its requester; else of the sender, not looked at
        "source": 8,  # endpoint that sent it; of a PARTIAL or RESULT of a switch the home
        # endpoint, of a RESPONSE of a switch the sender of the first operand in it
        "destination": 8,  # home endpoint, from the switch on that found it; requester
        "count": 9,  # operands in the data; that a LOAD asks for
        "epoch": 3,  # operands of different epochs are not reduced with each other
        "poison": 1,  # an operand could not be read: the data is not valid
        "sequence": 8,  # reserved for retries on a link, 0
        "acknowledge": 8,  # reserved likewise
        "crc": 24,  # reserved likewise: with the checksum, 32 bits over header and data
        "checksum": 8,  # as in ACE's packets
    }
)
"""The header flit."""

assert HEADER.size == FLIT_BITS == 8 * SwitchSizes().header_bytes

EPOCH_BITS = 32
"""Epochs are compared as plain numbers, so that of any two one is the later; headers of other
packets carry the low bits."""

NOTICE = data.StructLayout(
    {
        "epoch": EPOCH_BITS,
        "cause": AbortCause,
        "origin": HEADER["source"].width,  # endpoint that began the epoch
        "fresh": 1,  # the sender has just joined, and remembers nothing
        "settled": 1,  # the sender has heard all members in this epoch, by all links
    }
)
"""What a SYNC says: its sender has come to ``epoch``."""

_TOLD = ("address", "tag", "destination", "count")
"""Fields of a header that hold a notice, from its lowest bit on; the rest of them is 0."""

assert sum(HEADER[name].width for name in _TOLD) >= NOTICE.size


def notice_of(header: Any) -> Any:
    """The notice of a SYNC, in hardware."""
    bits = Cat(Value.cast(header[name]) for name in _TOLD)
    return data.View(NOTICE, bits[: NOTICE.size])


def notice_said(header: Mapping[str, int]) -> Any:
    """The notice of a decoded SYNC."""
    bits = first = 0
    for name in _TOLD:
        bits |= header[name] << first
        first += HEADER[name].width
    return NOTICE.from_bits(bits & (1 << NOTICE.size) - 1)


def notice_fields(notice: Any) -> dict[str, Any]:
    """Fields of the header of a SYNC that says *notice*: values of hardware, or integers if it is
    a mapping of integers."""
    hardware = not isinstance(notice, Mapping)
    bits = Value.cast(notice) if hardware else NOTICE.const(notice).as_bits()
    fields: dict[str, Any] = {}
    first = 0
    for name in _TOLD:
        width = HEADER[name].width
        fields[name] = bits[first : first + width] if hardware else bits >> first & (1 << width) - 1
        first += width
    epoch = NOTICE["epoch"].offset
    low = HEADER["epoch"].width
    fields["epoch"] = bits[epoch : epoch + low] if hardware else bits >> epoch & (1 << low) - 1
    return fields


def beats_of(lanes: int) -> data.StructLayout:
    """A beat of a packet of words inside a switch: a header, or *lanes* words. ``first`` is a
    header, in the lowest bits; ``last`` ends the packet."""
    return data.StructLayout({"data": 32 * lanes, "first": 1, "last": 1})


FLIT = beats_of(FLIT_BITS // 32)
"""A flit inside the switch."""


def encode(fields: Mapping[str, Any]) -> int:
    """The header flit with *fields* as an integer, checksum included; missing fields are zero."""
    return encode_header(HEADER, {"offload": 1, **fields})


def kinds_of(multicast_partials: bool) -> tuple[Kind, ...]:
    """Kinds that travel; of the two for sums that are not complete, the one that is built."""
    left_out = Kind.PARTIAL if multicast_partials else Kind.SUBTOTAL
    return tuple(
        kind for kind in Kind
        if kind not in (Kind.INVALID, left_out) and kind.value & 0b11 != LINK_CLASS
    )


def decode(flit: int) -> dict[str, int] | None:
    """Fields of a header flit, or None if its checksum is wrong."""
    return decode_header(HEADER, flit)


def header_of(flit: Any) -> Any:
    """The data of a flit, or of a beat of words, as a header."""
    return data.View(HEADER, Value.cast(flit.data)[:FLIT_BITS])


def traffic_of(kind: Any) -> Value:
    """Class of a kind, in hardware."""
    return Value.cast(kind)[:2]


def has_data(kind: Any) -> Value:
    """The bit of a kind that says that flits of data follow the header, in hardware."""
    return Value.cast(kind)[2]

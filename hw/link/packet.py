# SPDX-License-Identifier: Apache-2.0
"""The packet header of ACE, and how packets lie on a link.

A packet is one header flit and up to ``payload_bytes / 16`` payload flits; a *flit* is 16 bytes, so
a 256-byte packet costs 272 bytes of link time (94.1 % payload, the link efficiency of the ACE
papers). Flits of successive packets are packed without gaps into *beats* of one or more flits.
Beside the data a beat carries, per flit, a *keep* bit (the flit exists) and a *start* bit (the flit
is a header): they are TKEEP and TUSER of an AXI4-Stream, and let a receiver find the next packet
after a damaged one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from amaranth.hdl import Cat, Value
from amaranth.lib import data, enum
from amaranth.lib.crc import Algorithm, Parameters

from hw.common.params import FieldError, require_choice, require_int

__all__ = [
    "FLIT_BITS",
    "FLIT_BYTES",
    "PacketFormat",
    "PacketKind",
    "checksum_change",
    "checksum_of",
    "decode_header",
    "encode_header",
    "link_beat_layout",
    "link_flits",
]

FLIT_BYTES = 16
FLIT_BITS = 8 * FLIT_BYTES

_CHECKSUM_BITS = 8
_BODY_BITS = FLIT_BITS - _CHECKSUM_BITS
# CRC-8 with the polynomial of ATM header error control. Bits are fed in the order in which they
# lie in the flit and the checksum ends it, so a burst on the wire is a burst to the code: up to 8
# bits are always detected. So are all odd numbers of errors and all pairs but that of the first and
# the last bit; the first one is `offload`, which is checked by itself. The all-ones start value
# makes an all-zero flit an invalid header.
_CHECKSUM = Algorithm(
    crc_width=_CHECKSUM_BITS,
    polynomial=0x07,
    initial_crc=0xFF,
    reflect_input=True,
    reflect_output=True,
    xor_output=0,
)
_NOT_GIVEN = ("reserved", "checksum")
_WIDTHS = (
    "collective", "chunk", "phase", "fsm", "context", "epoch", "sequence", "step", "offset", "node",
)


class PacketKind(enum.Enum, shape=3):
    """Kind of a packet: what its receiver is to do."""

    INVALID = 0
    DATA = 1  # payload for one step of a collective program
    READY = 2  # the sender of this packet has a context and SRAM slots for a chunk (no payload)
    # Control packets: no payload, no credit, no sequence number.
    HALT = 3  # the sender has given up all collectives; ``op`` says why
    SYNC = 4  # all packets before this one are to be forgotten, all credits to be given back
    ACK = 5  # that is done


@dataclass(frozen=True, kw_only=True)
class PacketFormat:
    """Field widths of the packet header, in bits, and the largest payload of a packet.

    Parameters
    ----------
    payload_bytes : int
        Largest payload of a packet, a multiple of 16 up to 4080.
    collective, chunk, phase, fsm, context, epoch, sequence, step, offset, node : int
        Widths of the fields of the same names. ``fsm`` names the FSM that owns the context and
        ``context`` the context at the receiver; ``epoch`` counts aborts and ``sequence`` the
        packets of the link; ``offset`` counts packets from the start of the block; ``node`` is used
        for source, destination and contribution count (modulo 2 ** node).

    Raises
    ------
    TypeError
        If a parameter is not an integer.
    ValueError
        If a width is not positive, the fields do not fit one 16-byte flit, or the payload is not
        whole flits.
    """

    payload_bytes: int = 256
    collective: int = 8
    chunk: int = 16
    phase: int = 4
    fsm: int = 4
    context: int = 4
    epoch: int = 3
    sequence: int = 8
    step: int = 11
    offset: int = 10
    node: int = 10

    def __post_init__(self) -> None:
        payload = require_int("payload_bytes", self.payload_bytes, minimum=FLIT_BYTES, maximum=4080)
        if payload % FLIT_BYTES:
            what = f"must be a multiple of {FLIT_BYTES}, not {payload!r}"
            raise FieldError("payload_bytes", what)
        for name in _WIDTHS:
            require_int(name, getattr(self, name))
        used = data.StructLayout(self._fields()).size
        if used > _BODY_BITS:
            raise ValueError(
                f"header fields must fit {_BODY_BITS} bits beside the checksum, not {used} bits; "
                "make a field narrower"
            )

    def _fields(self) -> dict[str, Any]:
        return {
            "offload": 1,  # mode: 1 = for the engine, 0 = ordinary traffic
            "kind": PacketKind,
            "op": 4,  # ReduceOp, zero-extended
            "collective": self.collective,
            "chunk": self.chunk,
            "phase": self.phase,
            "fsm": self.fsm,
            "context": self.context,
            "epoch": self.epoch,
            "poison": 1,  # the payload is not valid: what it was made from could not be read
            "sequence": self.sequence,
            "digest": 1,  # a checksum of the payload follows it; not yet: always 0
            "step": self.step,
            "offset": self.offset,
            "length": 12,  # payload bytes
            "source": self.node,
            "destination": self.node,
            "contributions": self.node,  # operands in the payload so far, modulo 2 ** node
        }

    @property
    def payload_flits(self) -> int:
        """Most payload flits of a packet."""
        return self.payload_bytes // FLIT_BYTES

    @property
    def layout(self) -> data.StructLayout:
        """Header flit: the named fields, reserved zero bits, checksum in the last byte."""
        fields = self._fields()
        reserved = _BODY_BITS - data.StructLayout(fields).size
        return data.StructLayout({**fields, "reserved": reserved, "checksum": _CHECKSUM_BITS})

    def encode(self, fields: Mapping[str, int]) -> int:
        """The header flit of *fields* as an integer, checksum included; missing fields are zero."""
        return encode_header(self.layout, fields)

    def decode(self, flit: int) -> dict[str, int] | None:
        """Fields of a header flit, or None if its checksum is wrong."""
        return decode_header(self.layout, flit)


def encode_header(layout: data.StructLayout, fields: Mapping[str, int]) -> int:
    """A header flit as an integer, with the checksum that ends it; missing fields are zero.

    *layout* ends with ``reserved``, which stays zero, and ``checksum``.
    """
    known = [name for name, _ in layout if name not in _NOT_GIVEN]
    unknown = sorted(set(fields) - set(known))
    if unknown:
        raise ValueError(f"unknown header fields {unknown}; known are {known}")
    flit = 0
    for name, value in fields.items():
        field = layout[name]
        number = require_int(
            f"header field {name}",
            value.value if isinstance(value, enum.Enum) else value,
            minimum=0,
            maximum=(1 << field.width) - 1,
        )
        flit |= number << field.offset
    return flit | _crc().compute([flit]) << _BODY_BITS


def decode_header(layout: data.StructLayout, flit: int) -> dict[str, int] | None:
    """Fields of a header flit of *layout*, or None if its checksum is wrong."""
    if flit >> _BODY_BITS != _crc().compute([flit & ((1 << _BODY_BITS) - 1)]):
        return None
    return {
        name: (flit >> field.offset) & ((1 << field.width) - 1)
        for name, field in layout
        if name not in _NOT_GIVEN
    }


@cache
def _crc() -> Parameters:
    return _CHECKSUM(data_width=_BODY_BITS)


@cache
def _checksum_masks() -> tuple[int, list[int]]:
    """Checksum of zero, and per checksum bit the header bits that flip it (a CRC is affine)."""
    zero = _crc().compute([0])
    effects = [_crc().compute([1 << bit]) ^ zero for bit in range(_BODY_BITS)]
    masks = [
        sum(1 << bit for bit, effect in enumerate(effects) if effect >> out & 1)
        for out in range(_CHECKSUM_BITS)
    ]
    return zero, masks


def checksum_of(flit: Value) -> Value:
    """Combinational checksum of a header flit (its own checksum field is not looked at)."""
    zero, masks = _checksum_masks()
    body = Value.cast(flit)[:_BODY_BITS]
    return Cat((body & mask).xor() ^ (zero >> bit & 1) for bit, mask in enumerate(masks))


def checksum_change(flit: Value) -> Value:
    """By which the checksum of a header changes where it has the bits of *flit*, and zeros were."""
    _, masks = _checksum_masks()
    body = Value.cast(flit)[:_BODY_BITS]
    return Cat((body & mask).xor() for mask in masks)


def link_flits(bus_bytes: int) -> int:
    """Flits per beat of a bus of *bus_bytes* bytes: 1, 2, 4 or 8."""
    return require_choice("bus_bytes", bus_bytes, [n * FLIT_BYTES for n in (1, 2, 4, 8)]) // (
        FLIT_BYTES
    )


def link_beat_layout(flits: int, *, flit_bits: int = FLIT_BITS) -> data.StructLayout:
    """One beat of *flits* flits: the data, which flits exist (a prefix), which are headers."""
    require_choice("flits per beat", flits, (1, 2, 4, 8))
    return data.StructLayout(
        {"data": data.ArrayLayout(flit_bits, flits), "keep": flits, "start": flits}
    )

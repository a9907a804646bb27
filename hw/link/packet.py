"""The one packet header of all engines, and how packets lie on a link.

A packet is one header flit and up to ``payload_bytes / 16`` payload flits; a *flit* is 16 bytes, so a
256-byte packet costs 272 bytes of link time (94.1 % payload, the link efficiency of the ACE papers).
Flits of successive packets are packed without gaps into *beats* of one or more flits. Beside the data a
beat carries, per flit, a *keep* bit (the flit exists) and a *start* bit (the flit is a header): they are
TKEEP and TUSER of an AXI4-Stream, and let a receiver find the next packet after a damaged one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from amaranth.hdl import Cat, Value
from amaranth.lib import data, enum
from amaranth.lib.crc import Algorithm

__all__ = ["FLIT_BITS", "FLIT_BYTES", "PacketFormat", "PacketKind", "checksum_of", "link_beat_layout"]

FLIT_BYTES = 16
FLIT_BITS = 8 * FLIT_BYTES

_CHECKSUM_BITS = 8
# CRC-8 with the polynomial of ATM header error control: any burst of up to 8 bits is detected. The all-ones start
# value makes an all-zero flit an invalid header.
_CHECKSUM = Algorithm(
    crc_width=_CHECKSUM_BITS,
    polynomial=0x07,
    initial_crc=0xFF,
    reflect_input=False,
    reflect_output=False,
    xor_output=0,
)


class PacketKind(enum.Enum, shape=3):
    """What a packet asks its receiver to do."""

    INVALID = 0
    DATA = 1  # payload for one step of a collective program
    READY = 2  # the sender of this packet has a context and SRAM slots for a chunk (no payload)


@dataclass(frozen=True, kw_only=True)
class PacketFormat:
    """Field widths of the packet header, in bits, and the largest payload of a packet.

    Parameters
    ----------
    payload_bytes : int
        Largest payload of a packet, a multiple of 16 up to 4080.
    collective, chunk, phase, queue, slot, step, offset, node : int
        Widths of the fields of the same names. ``queue`` names the FSM that owns the context and ``slot``
        the context at the receiver; ``offset`` counts packets from the start of the block; ``node`` is
        used for source, destination and contribution count.

    Raises
    ------
    ValueError
        If a width is not positive or the fields do not fit one 16-byte flit.
    """

    payload_bytes: int = 256
    collective: int = 8
    chunk: int = 16
    phase: int = 4
    queue: int = 4
    slot: int = 4
    step: int = 8
    offset: int = 12
    node: int = 12

    def __post_init__(self) -> None:
        if self.payload_bytes % FLIT_BYTES or not 0 < self.payload_bytes <= 4080:
            raise ValueError(
                f"payload_bytes must be a multiple of {FLIT_BYTES} from {FLIT_BYTES} to 4080, "
                f"not {self.payload_bytes!r}"
            )
        for name in ("collective", "chunk", "phase", "queue", "slot", "step", "offset", "node"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1 bit wide, not {getattr(self, name)!r}")
        used = self._used_bits()
        if used > FLIT_BITS - _CHECKSUM_BITS:
            raise ValueError(
                f"header fields must fit {FLIT_BITS - _CHECKSUM_BITS} bits beside the checksum, "
                f"not {used} bits; make a field narrower"
            )

    def _used_bits(self) -> int:
        return sum(data.StructLayout(self._fields()).__getitem__(name).width for name in self._fields())

    def _fields(self) -> dict[str, object]:
        return {
            "offload": 1,  # mode: 1 = for the engine, 0 = ordinary traffic
            "kind": PacketKind,
            "op": 4,  # ReduceOp, zero-extended
            "collective": self.collective,
            "chunk": self.chunk,
            "phase": self.phase,
            "queue": self.queue,
            "slot": self.slot,
            "step": self.step,
            "offset": self.offset,
            "length": 12,  # payload bytes
            "source": self.node,
            "destination": self.node,
            "contributions": self.node,  # operands summed into the payload so far
        }

    @property
    def payload_flits(self) -> int:
        """Most payload flits of a packet."""
        return self.payload_bytes // FLIT_BYTES

    @property
    def layout(self) -> data.StructLayout:
        """Header flit: the named fields, reserved zero bits, checksum in the last byte."""
        fields = self._fields()
        reserved = FLIT_BITS - _CHECKSUM_BITS - self._used_bits()
        return data.StructLayout({**fields, "reserved": reserved, "checksum": _CHECKSUM_BITS})

    def encode(self, fields: Mapping[str, int]) -> int:
        """The header flit of *fields* as an integer, checksum included. Missing fields are zero."""
        layout = self.layout
        unknown = set(fields) - set(self._fields())
        if unknown:
            raise ValueError(f"unknown header fields {sorted(unknown)}; known are {list(self._fields())}")
        flit = 0
        for name, value in fields.items():
            field = layout[name]
            if not 0 <= int(value) < 1 << field.width:
                raise ValueError(f"header field {name} must fit {field.width} bits, not {value!r}")
            flit |= int(value) << field.offset
        return flit | _crc().compute([flit]) << layout["checksum"].offset

    def decode(self, flit: int) -> dict[str, int] | None:
        """Fields of a header flit, or None if its checksum is wrong."""
        layout = self.layout
        body = flit & ((1 << FLIT_BITS - _CHECKSUM_BITS) - 1)
        if flit >> layout["checksum"].offset != _crc().compute([body]):
            return None
        return {
            name: (flit >> layout[name].offset) & ((1 << layout[name].width) - 1) for name in self._fields()
        }


@cache
def _crc():  # type: ignore[no-untyped-def]
    return _CHECKSUM(data_width=FLIT_BITS - _CHECKSUM_BITS)


@cache
def _checksum_masks() -> tuple[int, list[int]]:
    """Checksum of zero, and for each checksum bit the header bits that flip it (a CRC is affine)."""
    width = FLIT_BITS - _CHECKSUM_BITS
    zero = _crc().compute([0])
    effects = [_crc().compute([1 << bit]) ^ zero for bit in range(width)]
    masks = [
        sum(1 << bit for bit, effect in enumerate(effects) if effect >> out & 1)
        for out in range(_CHECKSUM_BITS)
    ]
    return zero, masks


def checksum_of(flit: Value) -> Value:
    """Combinational checksum of a header flit (its own checksum field is not looked at)."""
    zero, masks = _checksum_masks()
    body = Value.cast(flit)[: FLIT_BITS - _CHECKSUM_BITS]
    return Cat((body & mask).xor() ^ (zero >> bit & 1) for bit, mask in enumerate(masks))


def link_beat_layout(flits: int) -> data.StructLayout:
    """One beat of *flits* flits: the data, which flits exist (a prefix), which of them are headers."""
    if flits not in (1, 2, 4, 8):
        raise ValueError(f"flits per beat must be 1, 2, 4 or 8, not {flits!r}")
    return data.StructLayout({"data": data.ArrayLayout(FLIT_BITS, flits), "keep": flits, "start": flits})

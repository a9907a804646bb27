# SPDX-License-Identifier: Apache-2.0
"""The wire format of protocol buffers: as much of it as execution traces need.

Decoding works on one block of bytes with positions in it, so an error can say where. Whatever the
bytes, every call ends after at most as many steps as there are bytes.
"""

import struct
from collections.abc import Iterator
from typing import TypeAlias

from sim.fields import FieldError

__all__ = [
    "FIXED32",
    "FIXED64",
    "LENGTH",
    "VARINT",
    "Field",
    "WireError",
    "encode_bytes",
    "encode_varint",
    "fields",
    "float32",
    "float64",
    "packed_varints",
    "read_varint",
    "signed",
    "tag",
    "zigzag",
]

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
LONGEST_VARINT = 10

Field: TypeAlias = tuple[int, int, int, int]
"""Number, wire type, and value and 0, or for LENGTH first position and end."""


class WireError(ValueError):
    """Bytes that are no message; `position` says where."""

    def __init__(self, position: int, what: str) -> None:
        super().__init__(position, what)  # as given: it is pickled on its way between processes
        self.position = position
        self._what = what

    def __str__(self) -> str:
        return self._what


def read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """The number at *position*, of at most 64 bits, and its end."""
    value = shift = 0
    start = position
    while position < end:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
        if position - start == LONGEST_VARINT:
            raise WireError(start, "a number is longer than 10 bytes")
    raise WireError(start, "a number is cut off")


def fields(data: bytes, position: int, end: int) -> Iterator[Field]:
    """The fields of the message in ``data[position:end]``."""
    while position < end:
        start = position
        key, position = read_varint(data, position, end)
        number, wire = key >> 3, key & 7
        if not 1 <= number < 1 << 29:
            raise WireError(start, f"field number must be 1 .. {(1 << 29) - 1}, not {number}")
        if wire == VARINT:
            value, position = read_varint(data, position, end)
            yield number, wire, value, 0
        elif wire == LENGTH:
            length, position = read_varint(data, position, end)
            if length > end - position:
                raise WireError(
                    start, f"field {number} has {length} bytes, but only {end - position} follow"
                )
            yield number, wire, position, position + length
            position += length
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
            if size > end - position:
                raise WireError(start, f"field {number} is cut off")
            yield number, wire, int.from_bytes(data[position : position + size], "little"), 0
            position += size
        else:
            raise WireError(start, f"field {number} has wire type {wire}, which is not in use")


def packed_varints(data: bytes, position: int, end: int) -> Iterator[int]:
    """The numbers packed into ``data[position:end]``."""
    while position < end:
        value, position = read_varint(data, position, end)
        yield value


def signed(value: int) -> int:
    """A 64-bit number in two's complement."""
    return value - (1 << 64) if value >> 63 else value


def zigzag(value: int) -> int:
    """The number that a sint field stands for."""
    return (value >> 1) ^ -(value & 1)


def encode_varint(value: int) -> bytes:
    """*value*, -2**63 .. 2**64 - 1, encoded as in a field."""
    if not -(1 << 63) <= value < 1 << 64:
        raise FieldError("value", f"must be -2**63 .. 2**64 - 1, not {value!r}")
    value &= 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def tag(number: int, wire: int) -> bytes:
    return encode_varint(number << 3 | wire)


def encode_bytes(number: int, value: bytes) -> bytes:
    """A field that holds *value* with its length."""
    return tag(number, LENGTH) + encode_varint(len(value)) + value


def float32(value: int) -> float:
    """The number whose binary32 pattern *value* is."""
    return float(struct.unpack("<f", value.to_bytes(4, "little"))[0])


def float64(value: int) -> float:
    """The number whose binary64 pattern *value* is."""
    return float(struct.unpack("<d", value.to_bytes(8, "little"))[0])

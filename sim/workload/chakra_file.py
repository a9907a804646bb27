# SPDX-License-Identifier: Apache-2.0
"""Files of Chakra execution traces: messages of protocol buffers, each after its length.

First comes ``GlobalMetadata``, then one ``Node`` per operation. Files packed with gzip are read as
well.
"""

import gzip
import io
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sim.opened import opening
from sim.workload.chakra import Attribute, ChakraError, NodeType, Trace, TraceNode
from sim.workload.wire import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    WireError,
    encode_bytes,
    encode_varint,
    fields,
    float32,
    float64,
    packed_varints,
    read_varint,
    signed,
    tag,
    zigzag,
)

__all__ = ["decode", "encode", "read_trace", "write_trace"]

LARGEST_FILE = 1 << 30
LARGEST_MESSAGE = 64 << 20
NODE_TYPES = {int(kind): kind for kind in NodeType}


def read_trace(path: str | Path, *, limit_bytes: int = LARGEST_FILE) -> Trace:
    """The trace in the file *path*, of at most *limit_bytes*, unpacked.

    Raises
    ------
    ChakraError
        With file and byte, if the file is no trace, is cut off or too large.
    """
    path = opening(path)
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            stream: io.BufferedIOBase = gzip.GzipFile(fileobj=file) if packed else file
            data = stream.read(limit_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ChakraError(f"{path}: cannot be read: {error}") from error
    if len(data) > limit_bytes:
        raise ChakraError(f"{path}: is larger than the {limit_bytes} bytes allowed")
    return decode(data, source=str(path))


def write_trace(path: str | Path, trace: Trace) -> None:
    """Write *trace* to the file *path*, not packed."""
    Path(path).write_bytes(encode(trace))


def decode(data: bytes, *, source: str) -> Trace:
    """The trace in *data*; *source* names it in errors."""
    try:
        messages = _messages(data)
        first = next(messages, None)
        if first is None:
            raise ChakraError(f"{source}: holds no trace; it is empty")
        version = _version(data, *first)
        nodes = tuple(_node(data, *message) for message in messages)
    except WireError as error:
        raise ChakraError(f"{source}: byte {error.position}: {error}") from error
    return Trace(nodes=nodes, version=version, source=source)


def encode(trace: Trace) -> bytes:
    """*trace* as the bytes of a file."""
    messages = [encode_bytes(1, trace.version.encode())]
    messages += [_encoded_node(node) for node in trace.nodes]
    return b"".join(encode_varint(len(message)) + message for message in messages)


def _messages(data: bytes) -> Iterator[tuple[int, int]]:
    position = 0
    while position < len(data):
        start = position
        length, position = read_varint(data, position, len(data))
        if length > LARGEST_MESSAGE:
            raise WireError(
                start, f"a message of {length} bytes is longer than the {LARGEST_MESSAGE} allowed"
            )
        if length > len(data) - position:
            raise WireError(
                start, f"a message of {length} bytes, but only {len(data) - position} follow"
            )
        yield position, position + length
        position += length


def _version(data: bytes, position: int, end: int) -> str:
    version = ""
    for number, wire, first, last in fields(data, position, end):
        if number == 1:
            version = _text(data, position, wire, first, last)
    return version


def _text(data: bytes, position: int, wire: int, first: int, last: int) -> str:
    if wire != LENGTH:
        raise WireError(position, "a text has the wire type of a number")
    try:
        return data[first:last].decode()
    except UnicodeDecodeError as error:
        raise WireError(first, "a text is not UTF-8") from error


def _number(position: int, number: int, wire: int, value: int) -> int:
    if wire != VARINT:
        raise WireError(position, f"field {number} of a node must be a number")
    return value


def _node(data: bytes, position: int, end: int) -> TraceNode:
    node_id = kind = duration = 0
    name = ""
    deps: dict[int, list[int]] = {4: [], 5: []}
    attributes: dict[str, Attribute] = {}
    for number, wire, first, last in fields(data, position, end):
        if number == 1:
            node_id = _number(position, number, wire, first)
        elif number == 2:
            name = _text(data, position, wire, first, last)
        elif number == 3:
            kind = _number(position, number, wire, first)
        elif number in deps:
            if wire == LENGTH:
                deps[number] += packed_varints(data, first, last)
            else:
                deps[number].append(_number(position, number, wire, first))
        elif number == 7:
            duration = _number(position, number, wire, first)
        elif number == 10:
            if wire != LENGTH:
                raise WireError(position, "an attribute must be a message")
            key, value = _attribute(data, first, last)
            if value is not None:
                attributes[key] = value
    if kind not in NODE_TYPES:
        raise WireError(position, f"node {node_id} has type {kind}; allowed are 0 .. 10")
    return TraceNode(
        id=node_id,
        name=name,
        type=NODE_TYPES[kind],
        data_deps=tuple(deps[5]),
        ctrl_deps=tuple(deps[4]),
        duration_us=duration,
        attributes=attributes,
    )


def _plain(value: int) -> int:
    return value


def _boolean(value: int) -> bool:
    return value != 0


def _signed_fixed(bits: int, value: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


# Number of the field in AttributeProto: wire type and meaning of one value. The list of the same
# type has the next number.
SCALARS: dict[int, tuple[int, Callable[[int], Any]]] = {
    3: (FIXED64, float64),
    5: (FIXED32, float32),
    7: (VARINT, signed),
    9: (VARINT, signed),
    11: (VARINT, _plain),
    13: (VARINT, _plain),
    15: (VARINT, zigzag),
    17: (VARINT, zigzag),
    19: (FIXED32, _plain),
    21: (FIXED64, _plain),
    23: (FIXED32, partial(_signed_fixed, 32)),
    25: (FIXED64, partial(_signed_fixed, 64)),
    27: (VARINT, _boolean),
}
STRING, BYTES = 29, 31


def _attribute(data: bytes, position: int, end: int) -> tuple[str, Attribute | None]:
    name = ""
    value: Attribute | None = None
    for number, wire, first, last in fields(data, position, end):
        if number == 1:
            name = _text(data, position, wire, first, last)
        elif number in SCALARS:
            expected, meaning = SCALARS[number]
            if wire != expected:
                raise WireError(position, f"attribute {name!r} has the wire type of another type")
            value = meaning(first)
        elif number == STRING:
            value = _text(data, position, wire, first, last)
        elif number == BYTES and wire == LENGTH:
            value = data[first:last]
        elif number - 1 in SCALARS and wire == LENGTH:
            value = _list(data, first, last, *SCALARS[number - 1])
        # The rest are the comment and lists of texts, which nothing here uses.
    return name, value


def _list(
    data: bytes, position: int, end: int, expected: int, meaning: Callable[[int], Any]
) -> list[Any]:
    values: list[int] = []
    for number, wire, first, last in fields(data, position, end):
        if number != 1:
            continue
        if wire == expected:
            values.append(first)
        elif wire == LENGTH and expected == VARINT:
            values += packed_varints(data, first, last)
        elif wire == LENGTH:
            size = 8 if expected == FIXED64 else 4
            if (last - first) % size:
                raise WireError(first, "a list of numbers is cut off")
            values += [
                int.from_bytes(data[start : start + size], "little")
                for start in range(first, last, size)
            ]
        else:
            raise WireError(first, "a list has the wire type of another type")
    return [meaning(value) for value in values]


def _encoded_node(node: TraceNode) -> bytes:
    parts = [
        tag(1, VARINT) + encode_varint(node.id),
        encode_bytes(2, node.name.encode()),
        tag(3, VARINT) + encode_varint(node.type),
    ]
    for number, deps in ((4, node.ctrl_deps), (5, node.data_deps)):
        if deps:
            parts.append(encode_bytes(number, b"".join(map(encode_varint, deps))))
    parts.append(tag(7, VARINT) + encode_varint(node.duration_us))
    for name, value in node.attributes.items():
        parts.append(encode_bytes(10, encode_bytes(1, name.encode()) + _encoded_value(value)))
    return b"".join(parts)


def _encoded_value(value: Attribute) -> bytes:
    # bool before int: True is an int to Python.
    if isinstance(value, bool):
        return tag(27, VARINT) + encode_varint(value)
    if isinstance(value, int):
        return tag(9 if value < 1 << 63 else 13, VARINT) + encode_varint(value)
    if isinstance(value, float):
        return tag(3, FIXED64) + _packed_float(value)
    if isinstance(value, str):
        return encode_bytes(29, value.encode())
    if isinstance(value, bytes):
        return encode_bytes(31, value)
    return _encoded_list(value)


def _encoded_list(values: Sequence[bool] | Sequence[int] | Sequence[float]) -> bytes:
    if all(isinstance(value, bool) for value in values):
        number, packed = 28, b"".join(encode_varint(bool(value)) for value in values)
    elif all(isinstance(value, int) for value in values):
        number, packed = 10, b"".join(encode_varint(int(value)) for value in values)
    else:
        number, packed = 4, b"".join(_packed_float(value) for value in values)
    return encode_bytes(number, encode_bytes(1, packed))


def _packed_float(value: float) -> bytes:
    return struct.pack("<d", value)

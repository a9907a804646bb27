# SPDX-License-Identifier: Apache-2.0
"""Formats in which data travels, and how long that makes packets."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from amaranth.hdl import Mux, Value

from hw.bfp.format import preset
from hw.fp.ops import ReduceOp
from hw.link.packet import FLIT_BITS
from hw.switch.packet import Format, has_data

__all__ = [
    "BLOCK", "FLIT_LANES", "HALVES", "LANES", "data_flits", "known", "length_code", "length_shape",
    "rest_of",
]

BLOCK = preset("bfp16")
"""Block floating point on the wire: that of the smart NIC."""

HALVES = (Format.FP16, Format.BF16)

FLIT_LANES = FLIT_BITS // 32
"""Words in a flit."""

LANES = (FLIT_LANES, 2 * FLIT_LANES, 4 * FLIT_LANES)
"""How many words a reduction unit may add in a cycle: those of a flit of words, those that a flit
of 16-bit numbers has, and twice as many."""


def data_flits(format: Format, payload_flits: int) -> int:
    """Flits of the data of a packet of which the elements, as words, are *payload_flits*."""
    if format in HALVES:
        return payload_flits // 2
    if format is Format.BFP:
        blocks = payload_flits * FLIT_LANES // BLOCK.elements
        return -(-blocks * BLOCK.block_bits // FLIT_BITS)
    return payload_flits


# Of a packet a buffer and an output know the *code* of its length: 0 for the longest, 1 for a
# header alone, then the places of `short`, lengths of packets with less data.


def length_shape(short: Sequence[int]) -> range:
    """Codes of lengths."""
    return range(2 + len(short))


def rest_of(code: Value, flits: int, short: Sequence[int] = ()) -> Value:
    """Flits behind the header of a packet; the longest has *flits* in all."""
    # A single bit compared with 1 is mapped to more LUTs.
    rest: Value = Mux(code == 1 if short else code, 0, flits - 1)
    for place, length in enumerate(short):
        rest = Mux(code == 2 + place, length - 1, rest)
    return rest


def length_code(header: Any, lengths: Mapping[Format, int]) -> Value:
    """The code of the length of a packet; *lengths*: those of formats."""
    short = list(dict.fromkeys(lengths.values()))
    code: Value = ~has_data(header.kind)
    for format, length in lengths.items():
        fits = has_data(header.kind) & (header.format == format.value)
        code = Mux(fits, 2 + short.index(length), code)
    return code


def known(header: Any, formats: Iterable[Format]) -> Value:
    """High if a header has the format `WORDS`, or one of *formats* and an operation that it has."""
    good: Value = header.format == Format.WORDS.value
    for format in formats:
        good = good | ((header.format == format.value) & (header.op != ReduceOp.SUM_I32.value))
    return good

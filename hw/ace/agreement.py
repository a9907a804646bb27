# SPDX-License-Identifier: Apache-2.0
"""Digest of what all nodes must agree on; READY packets carry it."""

from functools import cache

from amaranth.hdl import Cat, Value
from amaranth.lib.crc import Parameters, catalog

from hw.ace.config import RANK_BITS
from hw.common.params import FieldError

__all__ = ["AGREED", "DIGEST_BITS", "digest", "digest_of"]

AGREED = {
    "elements": 32,
    "stride": 32,
    "block": 32,
    "nodes": RANK_BITS,
    "fsms": 5,
    "load_all": 1,
    "store_all": 1,
    "contiguous": 1,
}
"""Fields of a command and their widths, lowest bits first; the operation travels by itself."""

DIGEST_BITS = 21
"""Bits of the digest: the fields ``step`` and ``offset`` of a READY packet together."""

_BITS = sum(AGREED.values())


@cache
def _crc() -> Parameters:
    # Finds every difference that lies within 21 bits, so in any one of the fields up to nodes.
    return catalog.CRC21_CAN_FD(data_width=_BITS)


@cache
def _masks() -> tuple[int, list[int]]:
    """Digest of zero, and per digest bit the bits of the fields that flip it."""
    zero = _crc().compute([0])
    effects = [_crc().compute([1 << bit]) ^ zero for bit in range(_BITS)]
    return zero, [
        sum(1 << bit for bit, effect in enumerate(effects) if effect >> out & 1)
        for out in range(DIGEST_BITS)
    ]


def digest(**fields: int) -> int:
    """The digest of a command; *fields* are those of `AGREED`."""
    if set(fields) != set(AGREED):
        raise FieldError("fields", f"must be {', '.join(AGREED)}, not {', '.join(fields)}")
    word = lsb = 0
    for name, width in AGREED.items():
        word |= (int(fields[name]) & (1 << width) - 1) << lsb
        lsb += width
    return _crc().compute([word])


def digest_of(**fields: Value) -> Value:
    """Combinational digest of the signals *fields*."""
    zero, masks = _masks()
    word = Cat(Value.cast(fields[name])[:width] for name, width in AGREED.items())
    return Cat((word & mask).xor() ^ (zero >> bit & 1) for bit, mask in enumerate(masks))

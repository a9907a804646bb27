# SPDX-License-Identifier: Apache-2.0
"""Golden model of the formats on the switch's links: packing FP32 data, and the values that the
packed data stand for."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.link.packet import FLIT_BYTES
from hw.switch.formats import BLOCK
from hw.switch.packet import Format

__all__ = ["packed", "rounded", "unpacked"]

_NANS = {Format.FP16: 0x7E00, Format.BF16: 0x7FC0}
_NAN = np.uint32(0x7FC0_0000)


def packed(format: Format, values: Any) -> bytes:
    """The data of a packet with FP32 *values*, as bytes."""
    values = np.asarray(values, np.float32)
    if format is Format.BFP:
        data = BLOCK.pack(BLOCK.encode(values))
        return bytes(data) + bytes(-len(data) % FLIT_BYTES)
    if format is Format.WORDS:
        return bytes(values.tobytes())
    if format is Format.FP16:
        with np.errstate(over="ignore", invalid="ignore"):
            halves = values.astype(np.float16).view(np.uint16)
    else:
        # The upper half of a word, rounded to the nearest by the lower half; ties go to even ones.
        words = values.view(np.uint32).astype(np.uint64)
        halves = (words + 0x7FFF + (words >> np.uint64(16) & np.uint64(1)) >> np.uint64(16)).astype(
            np.uint16
        )
    return np.where(np.isnan(values), _NANS[format], halves).astype(np.uint16).tobytes()


def unpacked(format: Format, data: bytes) -> NDArray[np.float32]:
    """FP32 values of the data of a packet."""
    if format is Format.WORDS:
        return np.frombuffer(data, np.float32)
    if format is Format.BFP:
        blocks = 8 * len(data) // BLOCK.block_bits
        return np.ravel(BLOCK.decode(BLOCK.unpack(data, blocks)))
    halves = np.frombuffer(data, np.uint16)
    if format is Format.BF16:
        words = (halves.astype(np.uint32) << 16).view(np.float32)
    else:
        with np.errstate(invalid="ignore"):
            words = halves.view(np.float16).astype(np.float32)
    return np.where(np.isnan(words), _NAN.view(np.float32), words)


def rounded(format: Format, values: Any) -> NDArray[np.float32]:
    """*values* as they arrive: rounded once, to the format and in its blocks."""
    return unpacked(format, packed(format, values))[: len(values)]

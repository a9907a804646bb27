"""Golden model of the formats on the wire: what data becomes there, and what it stands for."""

import ml_dtypes
import numpy as np

from hw.switch.formats import BLOCK
from hw.switch.packet import Format

__all__ = ["DTYPES", "packed", "rounded", "unpacked"]

DTYPES = {Format.FP16: np.dtype(np.float16), Format.BF16: np.dtype(ml_dtypes.bfloat16)}
_NANS = {Format.FP16: 0x7E00, Format.BF16: 0x7FC0}
_NAN = np.uint32(0x7FC0_0000)


def packed(format, values):
    """The data of a packet with FP32 *values*, as bytes."""
    values = np.asarray(values, np.float32)
    if format is Format.BFP:
        data = BLOCK.pack(BLOCK.encode(values))
        return bytes(data) + bytes(-len(data) % 16)
    if format is Format.WORDS:
        return values.tobytes()
    with np.errstate(over="ignore", invalid="ignore"):
        halves = values.astype(DTYPES[format]).view(np.uint16)
    return np.where(np.isnan(values), _NANS[format], halves).astype(np.uint16).tobytes()


def unpacked(format, data):
    """FP32 of the data of a packet."""
    if format is Format.WORDS:
        return np.frombuffer(data, np.float32)
    if format is Format.BFP:
        blocks = 8 * len(data) // BLOCK.block_bits
        return np.ravel(BLOCK.decode(BLOCK.unpack(data, blocks)))
    with np.errstate(invalid="ignore"):
        words = np.frombuffer(data, DTYPES[format]).astype(np.float32)
    return np.where(np.isnan(words), _NAN.view(np.float32), words)


def rounded(format, values):
    """*values* as they arrive: rounded once, to the format and in its blocks."""
    return unpacked(format, packed(format, values))[: len(values)]

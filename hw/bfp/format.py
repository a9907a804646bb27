# SPDX-License-Identifier: Apache-2.0
"""Block floating-point formats: elements that share one exponent."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.bfp import model
from hw.bfp.parameters import BlockParameters
from hw.common.params import preset_of

__all__ = ["PRESETS", "BlockFormat", "preset"]


@dataclass(frozen=True, kw_only=True)
class BlockFormat(BlockParameters):
    """A block of *elements* numbers with one shared exponent, and how binary32 is rounded to it.

    With exponent code ``c`` and an element of magnitude ``m`` (an integer of `magnitude_bits`
    bits), the number is ``m * 2**(c - bias - magnitude_bits + 1)``: the highest bit of a magnitude
    weighs ``2**(c - bias)``. There is no hidden bit and code 0 is no exception to the rule. The
    highest code marks blocks that hold an infinity or a NaN. A block is *normalised* if its largest
    magnitude has its highest bit, or its code is 0: the encoder makes no other.

    ==================== =========================================================================
    input                what the encoder makes of it
    ==================== =========================================================================
    finite numbers       code of the largest element; every element rounded once, to that code
    zeros only           code 0, magnitudes 0
    below the range      code 0: magnitudes lose their highest bits one by one, then become 0
    above the range      highest finite code; magnitudes that do not fit become the largest
    infinity or NaN      highest code. ``magnitude``: an infinity stays one, every other element
    anywhere             becomes a NaN. ``complement``: all elements 0, which stands for NaN
    ==================== =========================================================================

    A negative element that rounds to zero is -0 with ``magnitude`` signs, and 0 with
    ``complement``, which has no -0.

    For every block *b* that the encoder makes, ``encode(decode(b))`` is *b*, whatever the rounding.

    Parameters
    ----------
    elements : int
        Elements per block, a power of two up to 64.
    exponent_bits : int
        Width of the shared exponent code, 2 to 8. Its bias is ``2**(exponent_bits - 1) - 1``.
    mantissa_bits : int
        Width of an element with its sign, 2 to 24.
    rounding : str
        ``"nearest_even"``; ``"truncate"`` (towards zero); or ``"stochastic"`` (up with a
        probability equal to the part that is cut off, in steps of 2**-12, from the generator in
        `hw.bfp.dither`).
    sign : str
        ``"magnitude"`` (sign and magnitude) or ``"complement"`` (two's complement, as OCP MX has).
    carry : str
        What happens where rounding takes the largest element past the largest magnitude:
        ``"renormalize"`` takes the next higher code for the whole block and rounds all elements
        to that instead; ``"saturate"`` keeps the code and takes the largest magnitude, as OCP MX
        asks for.

    Raises
    ------
    TypeError, ValueError
        A parameter is of the wrong type or not allowed; the message says what is.
    """

    def encode(self, values: Any, *, seed: int = 0) -> model.Blocks:
        """Blocks of an array of float32, float16 or bfloat16; see `hw.bfp.model.encode`."""
        return model.encode(self, values, seed=seed)

    def decode(self, blocks: model.Blocks) -> NDArray[np.float32]:
        """Elements of *blocks*, one row per block; see `hw.bfp.model.decode`."""
        return model.decode(self, blocks)

    def quantize(self, values: Any, *, seed: int = 0) -> NDArray[Any]:
        """Encode *values* and decode them again; shape and type are kept."""
        return model.quantize(self, values, seed=seed)

    def pack(self, blocks: model.Blocks) -> bytes:
        """The bytes that cross the wire; see `hw.bfp.model.pack`."""
        return model.pack(self, blocks)

    def unpack(self, packed: bytes, blocks: int) -> model.Blocks:
        """The first *blocks* blocks of bytes from the wire; see `hw.bfp.model.unpack`."""
        return model.unpack(self, packed, blocks)


PRESETS: dict[str, BlockFormat] = {
    # The smart NIC paper's format: 16 elements of sign and 7 bits, 136 bits, 3.76 : 1.
    "bfp16": BlockFormat(),
    # Shorter and longer elements under the same exponent: 1 sign + 3, + 5, + 15 bits.
    "bfp12": BlockFormat(mantissa_bits=4),
    "bfp14": BlockFormat(mantissa_bits=6),
    "bfp24": BlockFormat(mantissa_bits=16),
    # Other block sizes.
    "bfp16x8": BlockFormat(elements=8),
    "bfp16x32": BlockFormat(elements=32),
    # A short exponent, for data that has the range of binary16.
    "bfp13": BlockFormat(exponent_bits=5),
    # Other roundings.
    "bfp16_truncate": BlockFormat(rounding="truncate"),
    "bfp16_stochastic": BlockFormat(rounding="stochastic"),
    # OCP Microscaling v1.0: E8M0 scale and 32 elements of two's complement with 6 fraction bits.
    "mxint8": BlockFormat(elements=32, sign="complement", carry="saturate"),
}
"""Formats by name."""

preset = preset_of(PRESETS)

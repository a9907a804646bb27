"""Block floating-point formats: elements that share one exponent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hw.common.params import require_choice, require_int

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hw.bfp.codec import Compressor, Decompressor
    from hw.bfp.decoder import BlockDecoder
    from hw.bfp.encoder import BlockEncoder
    from hw.bfp.model import Blocks

__all__ = ["PRESETS", "BlockFormat", "check_block_format", "preset"]

ROUNDINGS = ("nearest_even", "truncate", "stochastic")
SIGNS = ("magnitude", "complement")
CARRIES = ("renormalize", "saturate")
MAX_ELEMENTS = 64
SOURCE_BIAS = 127  # of binary32, in which elements arrive and leave


@dataclass(frozen=True, kw_only=True)
class BlockFormat:
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

    elements: int = 16
    exponent_bits: int = 8
    mantissa_bits: int = 8
    rounding: str = "nearest_even"
    sign: str = "magnitude"
    carry: str = "renormalize"

    def __post_init__(self) -> None:
        require_int("BlockFormat elements", self.elements, maximum=MAX_ELEMENTS, power_of_two=True)
        require_int("BlockFormat exponent_bits", self.exponent_bits, minimum=2, maximum=8)
        require_int("BlockFormat mantissa_bits", self.mantissa_bits, minimum=2, maximum=24)
        require_choice("BlockFormat rounding", self.rounding, ROUNDINGS)
        require_choice("BlockFormat sign", self.sign, SIGNS)
        require_choice("BlockFormat carry", self.carry, CARRIES)

    @property
    def magnitude_bits(self) -> int:
        """Bits of an element without its sign."""
        return self.mantissa_bits - 1

    @property
    def largest_magnitude(self) -> int:
        """Largest magnitude that the encoder makes; two's complement has one more, negative."""
        return (1 << self.magnitude_bits) - 1

    @property
    def bias(self) -> int:
        """Exponent code of a block whose highest magnitude bit weighs 1."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def offset(self) -> int:
        """What the exponent field of binary32 exceeds the code by, 0 for 8 bits."""
        return SOURCE_BIAS - self.bias

    @property
    def special_code(self) -> int:
        """Exponent code of blocks that hold an infinity or a NaN: all ones."""
        return (1 << self.exponent_bits) - 1

    @property
    def block_bits(self) -> int:
        """Bits of a packed block."""
        return self.exponent_bits + self.elements * self.mantissa_bits

    @property
    def ratio(self) -> float:
        """Bits of binary32 over bits of this format, headers and padding not counted."""
        return 32 * self.elements / self.block_bits

    def blocks(self, elements: int) -> int:
        """Blocks that hold so many elements; the last one may be padded."""
        return -(-elements // self.elements)

    # The golden model.

    def encode(self, values: Any, *, seed: int = 0) -> Blocks:
        """Blocks of an array of float32, float16 or bfloat16; see `hw.bfp.model.encode`."""
        from hw.bfp import model

        return model.encode(self, values, seed=seed)

    def decode(self, blocks: Blocks) -> NDArray[np.float32]:
        """Elements of *blocks*, one row per block; see `hw.bfp.model.decode`."""
        from hw.bfp import model

        return model.decode(self, blocks)

    def quantize(self, values: Any, *, seed: int = 0) -> NDArray[Any]:
        """What is left of *values* after encoding and decoding, in their shape and type."""
        from hw.bfp import model

        return model.quantize(self, values, seed=seed)

    def pack(self, blocks: Blocks) -> bytes:
        """The bytes that cross the wire; see `hw.bfp.model.pack`."""
        from hw.bfp import model

        return model.pack(self, blocks)

    def unpack(self, packed: bytes, blocks: int) -> Blocks:
        """The first *blocks* blocks of bytes from the wire; see `hw.bfp.model.unpack`."""
        from hw.bfp import model

        return model.unpack(self, packed, blocks)

    # The hardware.

    def encoder(self, *, lanes: int, stages: int = 4) -> BlockEncoder:
        """Component from binary32 to blocks; see `hw.bfp.encoder.BlockEncoder`."""
        from hw.bfp.encoder import BlockEncoder

        return BlockEncoder(self, lanes=lanes, stages=stages)

    def decoder(self, *, lanes: int, stages: int = 2) -> BlockDecoder:
        """Component from blocks to binary32; see `hw.bfp.decoder.BlockDecoder`."""
        from hw.bfp.decoder import BlockDecoder

        return BlockDecoder(self, lanes=lanes, stages=stages)

    def compressor(self, *, lanes: int, bus_bits: int) -> Compressor:
        """Encoder and packer: binary32 to a dense bus; see `hw.bfp.codec.Compressor`."""
        from hw.bfp.codec import Compressor

        return Compressor(self, lanes=lanes, bus_bits=bus_bits)

    def decompressor(self, *, lanes: int, bus_bits: int) -> Decompressor:
        """Unpacker and decoder: a dense bus to binary32; see `hw.bfp.codec.Decompressor`."""
        from hw.bfp.codec import Decompressor

        return Decompressor(self, lanes=lanes, bus_bits=bus_bits)


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


def preset(name: str) -> BlockFormat:
    """The format called *name*, or a ``ValueError`` that lists the names."""
    return PRESETS[require_choice("BFP preset", name, PRESETS)]


def check_block_format(fmt: Any) -> BlockFormat:
    """Return *fmt* if it is a `BlockFormat`, or raise."""
    if not isinstance(fmt, BlockFormat):
        raise TypeError(f"Block format must be a BlockFormat, not {fmt!r}")
    return fmt

# SPDX-License-Identifier: Apache-2.0
"""Parameters of a block floating-point format."""

from dataclasses import dataclass

from hw.common.params import require_choice, require_int

__all__ = ["BlockParameters"]

ROUNDINGS = ("nearest_even", "truncate", "stochastic")
SIGNS = ("magnitude", "complement")
CARRIES = ("renormalize", "saturate")
MAX_ELEMENTS = 64
SOURCE_BIAS = 127  # of binary32, in which elements arrive and leave


@dataclass(frozen=True, kw_only=True)
class BlockParameters:
    """Parameters of a `hw.bfp.format.BlockFormat`, which explains them, and what they imply."""

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
        """Exponent field of binary32 minus exponent code; 0 for codes of 8 bits."""
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

# SPDX-License-Identifier: Apache-2.0
"""Configuration of the smart NIC, and the named configurations."""

import re
import zlib
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial

from hw.bfp.format import PRESETS as BFP_PRESETS
from hw.bfp.format import BlockFormat
from hw.common.all_reduce import AllReduceConfig
from hw.common.engine import ELEMENT_BYTES
from hw.common.params import (
    preset_of,
    require,
    require_choice,
    require_field,
    require_type,
)
from hw.fp.adder import MAX_STAGES

__all__ = ["ELEMENT_BYTES", "HEADER_BYTES", "PRESETS", "SmartNicConfig", "preset"]

HEADER_BYTES = 32
MAX_NODES = 256
_CODEC = re.compile(r"(\d+)e(\d+)m(\d+)")


@dataclass(frozen=True, kw_only=True)
class SmartNicConfig(AllReduceConfig):
    """Everything that is fixed when a NIC is built.

    The datapath follows the FPGA all-reduce core with block floating point: 8 adder lanes on a
    256-bit bus for 40 Gbit/s, 16 on a 512-bit bus for 100 Gbit/s, four such engines for 400 Gbit/s.

    Parameters
    ----------
    bus_bytes : int
        Width of the host and of the network bus of an engine: 32, 64 or 128. There is an adder lane
        for every 4 bytes.
    engines : int
        Datapaths side by side, each with a host port and a network port of its own: 1 to 8. They
        take the rounds of a vector in turn.
    alu_stages : int
        Pipeline stages of an adder lane, 1 to 8.
    block_beats : int
        Largest block that travels round the ring as a whole, in bus beats: a power of two. One
        block per rank makes a round; full rate asks that a block lasts longer than a hop.
    frame_beats : int
        Largest payload of a frame, in bus beats: a power of two up to `block_beats`, with at most
        8192 bytes.
    compressed_frame_beats : int
        The same for compressed blocks: a power of two up to `frame_beats`. Beats of these come more
        slowly, by the ratio of compression, and a frame waits for its last one.
    receive_beats : int
        Payload beats that the receive buffer of each of the two flows holds. At least one block,
        one frame and one credit interval, or the ring could stand still; full rate asks for the
        data of one round trip on top of a block.
    credit_beats : int
        Beats that are taken from a receive buffer before the sender is told: at most
        ``receive_beats - block_beats - frame_beats``.
    input_beats, output_beats : int
        Host data that is fetched ahead, and results that wait for the host bus, in bus beats.
    max_burst : int
        Most beats of an AXI4 burst, a power of two up to 256.
    outstanding_bursts : int
        AXI4 bursts under way per engine and direction.
    address_bits : int
        Width of a host address, 24 to 64.
    descriptors : int
        All-reduces that may be queued or running at a time: 2 to 64.
    ethernet : bool
        Whether addresses and EtherType are filled in and checked. Without, the frame is the same
        and these fields are zero.
    codec : str
        Block floating-point format of compressed all-reduces: a preset of `hw.bfp.format`, or
        ``"16e8m8"`` for blocks of 16 elements with 8 bits of exponent and 8 bits per element, sign
        included; or ``"none"`` for a NIC without one.

    Raises
    ------
    ValueError, TypeError
        Naming the parameter, its value and what is allowed.
    """

    bus_bytes: int = 64
    engines: int = 1
    alu_stages: int = 3
    block_beats: int = 512
    frame_beats: int = 64
    compressed_frame_beats: int = 16
    receive_beats: int = 1024
    credit_beats: int = 128
    input_beats: int = 256
    output_beats: int = 64
    ethernet: bool = True
    codec: str = "bfp16"

    def __post_init__(self) -> None:
        require_choice("bus_bytes", self.bus_bytes, (32, 64, 128))
        number = partial(require_field, self)
        number("engines", 1, 8)
        number("alu_stages", 1, MAX_STAGES)
        number("frame_beats", 2, 8192 // self.bus_bytes, power_of_two=True)
        number("compressed_frame_beats", 1, self.frame_beats, power_of_two=True)
        number("block_beats", self.frame_beats, 4096, power_of_two=True)
        number("credit_beats", 1, 4096)
        number("receive_beats", self.block_beats + self.frame_beats + self.credit_beats, 1 << 14)
        number("input_beats", 4, 1 << 14)
        number("output_beats", 4, 1 << 14)
        super().__post_init__()
        require_type("ethernet", self.ethernet, bool)
        fmt = self.codec_format
        if fmt is None:
            return
        require(
            fmt.rounding != "stochastic",
            "codec",
            "a format that rounds to nearest or truncates",
            self.codec,
        )
        require(
            self.granule <= self.block_beats,
            "block_beats",
            f"at least {self.granule} to hold a block of {self.codec!r}",
            self.block_beats,
        )

    @property
    def granule(self) -> int:
        """Beats that blocks are a multiple of, so that no compression block spans two of them."""
        fmt = self.codec_format
        return 1 if fmt is None else max(1, fmt.elements // self.lanes)

    @cached_property
    def codec_format(self) -> BlockFormat | None:
        """The format that `codec` names; None for no codec."""
        if self.codec == "none":
            return None
        if match := _CODEC.fullmatch(require_type("codec", self.codec, str)):
            elements, exponent, mantissa = map(int, match.groups())
            return BlockFormat(elements=elements, exponent_bits=exponent, mantissa_bits=mantissa)
        return BFP_PRESETS[require_choice("codec", self.codec, ["none", *BFP_PRESETS])]

    def wire_format(self, *, compress: bool) -> int:
        """8 bits that differ, but for chance, if two NICs do not send the same for one vector.

        A digest of the parameters that a ring's NICs must share, and of the codec if it is used.
        """
        shared = f"{self.bus_bytes} {self.engines} {self.block_beats} {self.granule}"
        codec = repr(self.codec_format) if compress else ""
        return zlib.crc32(f"{shared} {codec}".encode()) & 0xFF

    def describe(self) -> dict[str, int | str]:
        """Parameters by name, for report headers."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


# Small in every respect, so that blocks, frames, credits and queues run over all the time.
_TEST = SmartNicConfig(
    bus_bytes=32,
    alu_stages=8,
    block_beats=8,
    frame_beats=4,
    compressed_frame_beats=2,
    receive_beats=24,
    credit_beats=4,
    input_beats=8,
    output_beats=4,
    max_burst=4,
    outstanding_bursts=4,
    address_bits=32,
    descriptors=4,
)
_40G = SmartNicConfig(bus_bytes=32)
_100G = SmartNicConfig(bus_bytes=64)

PRESETS: dict[str, SmartNicConfig] = {
    "test": _TEST,
    # 8 lanes on 256 bit: 40 Gbit/s from 156.25 MHz on.
    "40g": _40G,
    # 16 lanes on 512 bit: 100 Gbit/s from 195.3 MHz on.
    "100g": _100G,
    # Four engines of 512 bit: 400 Gbit/s.
    "400g": replace(_100G, engines=4),
}

preset = preset_of(PRESETS)

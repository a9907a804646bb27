# SPDX-License-Identifier: Apache-2.0
"""Configuration of the switch's endpoint, and the named configurations."""

from dataclasses import dataclass, fields
from functools import partial

from amaranth.utils import exact_log2

from hw.common.all_reduce import AllReduceConfig
from hw.common.engine import ELEMENT_BYTES
from hw.common.params import preset_of, require_choice, require_field, require_type
from hw.link.packet import FLIT_BYTES
from hw.switch.config import PlaneConfig
from hw.switch.packet import HEADER

__all__ = ["PRESETS", "SwitchDmaConfig", "preset"]


@dataclass(frozen=True, kw_only=True)
class SwitchDmaConfig(PlaneConfig, AllReduceConfig):
    """Everything that is fixed when an endpoint is built.

    Parameters
    ----------
    links : int
        Links, 1 to 6, each to a network of switches of its own (a *plane*) and with a memory port
        of its own. Block *b* of a vector travels by link ``b % links``.
    bus_bytes : int
        Width of a memory port: 16, a flit.
    payload_flits : int
        Flits of data in a packet, a power of two from 2 to 16, as the switches have it.
    alu_stages : int
        Pipeline stages of the adders of partials, 0 to 8, fewer than `payload_flits`.
    buffer_packets : int
        Packets of each class that a link's receive buffer holds, 1 to 64: the ``credits`` of the
        switches.
    credits : int
        The same of the switch at the other end: its ``buffer_packets``.
    waves : int
        Wave counters of a link, a power of two from 1 to 32.
    wave_blocks : int
        Blocks in the largest wave, a power of two from 1 to 256; together at most 1024 blocks, and
        at least 2. So many sums of the home endpoint have room.
    read_ahead : int
        Operands of a link that are being read, 1 to 64.
    endpoints : int
        Endpoints of the network, 2 to 256.
    max_burst : int
        Most beats of an AXI4 burst, a power of two up to 256.
    outstanding_bursts : int
        AXI4 bursts under way per link and direction, 1 to 256.
    address_bits : int
        Width of a memory address, 24 to 64.
    descriptors : int
        All-reduces that may be queued or running at a time, 2 to 64.
    regions : int
        Multicast regions of which the endpoint may be a member at a time, 1 to 8.
    fixed_point : bool
        Whether FP32 may be summed as integers of a unit given with the command, so that the result
        does not depend on the order of arrival.
    parts : bool
        Whether a command may send or store a part of the vector alone: all-gather, broadcast,
        reduce-scatter.
    half, bfp : bool
        Whether a command may have operands and results travel as binary16 or bfloat16, which they
        then are in memory, too; as block floating point.
    multicast_partials : bool
        Whether tables send sums that are not complete to all members, as the switches have it: each
        endpoint adds for itself, and has room for twice as many sums.
    retry : bool
        Whether the links have retry; set by `hw.switch_dma.retry.RetrySwitchDmaConfig`.
    trace : bool
        Whether the endpoint has ports that show the order in which partials are added.

    Raises
    ------
    ValueError, TypeError
        Naming the parameter, its value and what is allowed.
    """

    links: int = 1
    bus_bytes: int = FLIT_BYTES
    waves: int = 16
    wave_blocks: int = 16
    read_ahead: int = 16
    descriptors: int = 8
    regions: int = 1
    fixed_point: bool = False
    parts: bool = False

    def __post_init__(self) -> None:
        number = partial(require_field, self)
        number("links", 1, 6)
        require_choice("bus_bytes", self.bus_bytes, (FLIT_BYTES,))
        number("waves", 1, 32, power_of_two=True)
        number("wave_blocks", 2 if self.waves == 1 else 1, 256, power_of_two=True)
        number("wave_blocks", 1, max(1, 1024 // self.waves), power_of_two=True)
        number("read_ahead", 1, 64)
        number("regions", 1, 8)
        for name in ("fixed_point", "parts"):
            require_type(name, getattr(self, name), bool)
        PlaneConfig.__post_init__(self)
        AllReduceConfig.__post_init__(self)

    @property
    def block_elements(self) -> int:
        """Elements in a packet."""
        return self.payload_bytes // ELEMENT_BYTES

    @property
    def slots(self) -> int:
        """Blocks that a link may have under way, of each region."""
        return self.waves * self.wave_blocks

    @property
    def sums(self) -> int:
        """Sums that the home store of a link holds, of each region.

        Those of blocks that are under way; with ``multicast_partials`` also those of the `slots`
        blocks after them: a block that is not complete here may be done at other members.
        """
        return self.slots * (1 + self.multicast_partials)

    @property
    def number_bits(self) -> int:
        """Bits of a block's number: what an address in a region has beside epoch and offset."""
        return HEADER["address"].width - HEADER["epoch"].width - exact_log2(self.payload_flits)

    def describe(self) -> dict[str, int]:
        """Parameters by name, for report headers."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


PRESETS: dict[str, SwitchDmaConfig] = {
    # Small in every respect, so that waves, buffers and queues run over all the time.
    "test": SwitchDmaConfig(
        buffer_packets=2, credits=2, waves=4, wave_blocks=2, read_ahead=2, endpoints=8,
        max_burst=4, outstanding_bursts=4, address_bits=32, descriptors=4, alu_stages=6,
    ),
    "1-link": SwitchDmaConfig(),
    # The six planes of the published system.
    "6-link": SwitchDmaConfig(links=6),
}

preset = preset_of(PRESETS)

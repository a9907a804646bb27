# SPDX-License-Identifier: Apache-2.0
"""Configuration of the switch, and the named configurations."""

from dataclasses import dataclass, fields
from functools import cached_property, partial

from amaranth.lib import data

from hw.common.engine import ELEMENT_BYTES
from hw.common.params import FieldError, preset_of, require_choice, require_field, require_type
from hw.fp.adder import MAX_STAGES
from hw.link.packet import FLIT_BYTES
from hw.switch.formats import BLOCK, FLIT_LANES, HALVES, LANES, data_flits
from hw.switch.packet import HEADER, Format
from hw.switch.sizes import SwitchSizes

__all__ = ["MOST_CREDITS", "PRESETS", "PlaneConfig", "SwitchConfig", "preset"]

MOST_CREDITS = 64
"""Most packets of a class that a buffer may hold."""


@dataclass(frozen=True, kw_only=True)
class PlaneConfig:
    """Parameters that a switch and an endpoint at one of its links have in common.

    Parameters
    ----------
    payload_flits : int
        Flits of data in a packet, a power of two from 2 to 16; 8 is the published packet.
    alu_stages : int
        Pipeline stages of the adders, 0 to 8, fewer than `payload_flits`.
    buffer_packets : int
        Packets of each class that the buffer of a link's input holds, 1 to 64.
    credits : int
        The same for the buffers at the other ends of the links.
    endpoints : int
        Endpoints of the network, 2 to 256.
    half : bool
        Whether operands and results may travel as binary16 or bfloat16: half as much data.
    bfp : bool
        Whether they may travel as block floating point, `hw.switch.formats.BLOCK`.
    multicast_partials : bool
        Whether sums that leave a table incomplete go to all members of the region, each of which
        adds them for itself; else to the home endpoint, which sends the result.
    retry : bool
        Whether the links have retry, of which there are registers then; set by those who build an
        engine with it.
    trace : bool
        Whether there are ports that show the order in which values are added.
    """

    payload_flits: int = SwitchSizes().payload_bytes // FLIT_BYTES
    alu_stages: int = 3
    buffer_packets: int = 8
    credits: int = 8
    endpoints: int = 16
    half: bool = False
    bfp: bool = False
    multicast_partials: bool = False
    retry: bool = False
    trace: bool = False

    def __post_init__(self) -> None:
        number = partial(require_field, self)
        number("alu_stages", 0, MAX_STAGES)
        number("payload_flits", max(2, self.alu_stages + 1), 16, power_of_two=True)
        number("buffer_packets", 1, MOST_CREDITS)
        number("credits", 1, MOST_CREDITS)
        number("endpoints", 2, 256)
        for name in ("half", "bfp", "multicast_partials", "retry", "trace"):
            require_type(name, getattr(self, name), bool)
        if self.bfp:
            number("payload_flits", BLOCK.elements * ELEMENT_BYTES // FLIT_BYTES, 16)

    @property
    def packet_flits(self) -> int:
        """Flits of a packet."""
        return self.payload_flits + 1

    @cached_property
    def lengths(self) -> dict[Format, int]:
        """Formats of data but words, and how many flits packets in them have."""
        formats = (*(HALVES if self.half else ()), *([Format.BFP] if self.bfp else ()))
        return {each: 1 + data_flits(each, self.payload_flits) for each in formats}

    @cached_property
    def short(self) -> tuple[int, ...]:
        """These lengths, each once."""
        return tuple(dict.fromkeys(self.lengths.values()))

    @cached_property
    def sizes(self) -> SwitchSizes:
        """Sizes of a packet in bytes."""
        return SwitchSizes(
            payload_bytes=FLIT_BYTES * self.payload_flits, header_bytes=HEADER.size // 8
        )

    @property
    def payload_bytes(self) -> int:
        """Bytes of data in a packet."""
        return self.sizes.payload_bytes


@dataclass(frozen=True, kw_only=True)
class SwitchConfig(PlaneConfig):
    """Everything that is fixed when a switch is built.

    Parameters
    ----------
    ports : int
        Links, 4 to 18, each with a reduction unit.
    entries : int
        Size of the reduction table of a port, 1 to 32.
    payload_flits : int
        Flits of data in a packet, a power of two from 2 to 16; 8 is the published packet.
    alu_stages : int
        Pipeline stages of the adders, 0 to 8, fewer than `payload_flits`.
    buffer_packets : int
        Packets of each class that the buffer of a link's input holds, 1 to 64: the credits that its
        sender has. Full rate asks for those of a round trip.
    credits : int
        The same for the buffers at the other ends of the links.
    speedup : int
        1 or 2: flits per cycle that a port gives to the crossbar and takes from it. With 1, a link
        and its reduction unit share an input and an output.
    queue_packets : int
        Packets that wait before and behind a reduction unit, of either kind, 1 to 16.
    regions : int
        Multicast regions, 1 to 16.
    homes : int
        Rows per region from which the home endpoint of an address is taken, a power of two from 1
        to 32.
    endpoints : int
        Endpoints of the network, 2 to 256.
    age_bits : int
        Bits of the numbers by which links get the oldest of several inputs' operands first, 2 to
        16; endpoints must not be half of what they count apart, in blocks of a region. 0: inputs
        take turns.
    timeout_bits : int
        Width of the period after which unused entries are sent on, 1 to 32.
    half, bfp : bool
        Whether operands and results may travel as binary16 or bfloat16; as block floating point.
    multicast_partials : bool
        Whether sums that leave a table incomplete go to all members; else to the home endpoint.
    retry : bool
        Whether the links have retry; set by `hw.switch.retry.RetrySwitchConfig`.
    lanes : int
        Elements that a reduction unit adds in a cycle: 4, those of a flit of words; with `half` or
        `bfp` also 8, and, with 8 flits of data or more, 16.
    trace : bool
        Whether the switch has ports that show the order in which operands are reduced.

    Raises
    ------
    ValueError, TypeError
        Naming the parameter, its value and what is allowed.
    """

    ports: int = 8
    entries: int = 4
    speedup: int = 2
    queue_packets: int = 3
    regions: int = 4
    homes: int = 16
    timeout_bits: int = 16
    lanes: int = FLIT_LANES
    age_bits: int = 0

    def __post_init__(self) -> None:
        number = partial(require_field, self)
        number("ports", 4, 18)
        number("entries", 1, 32)
        super().__post_init__()
        number("speedup", 1, 2)
        number("queue_packets", 1, 16)
        number("regions", 1, 16)
        number("homes", 1, 32, power_of_two=True)
        number("timeout_bits", 1, 32)
        widest = min(LANES[-1], self.payload_flits * FLIT_LANES // 2)
        require_choice("lanes", self.lanes, [each for each in LANES if each <= widest])
        if not self.lengths and self.lanes != FLIT_LANES:
            what = f"must be {FLIT_LANES} without a format of half or bfp, not {self.lanes}"
            raise FieldError("lanes", f"{what}: words come {FLIT_LANES} in a cycle")
        if self.multicast_partials and self.lanes != FLIT_LANES:
            what = f"must be {FLIT_LANES} with multicast_partials, not {self.lanes}"
            raise FieldError("lanes", f"{what}: both have not been run together")
        number("age_bits", 2 if self.age_bits else 0, 16)

    @cached_property
    def region_layout(self) -> data.StructLayout:
        """A port's view of a region; ``behind``: members that its link leads to."""
        count = HEADER["count"].width
        return data.StructLayout(
            {"valid": 1, "expected": count, "targets": self.ports, "behind": count}
        )

    @cached_property
    def route_layout(self) -> data.StructLayout:
        """The way to an endpoint; ``local``: it is at this switch, which reduces for it."""
        return data.StructLayout({"valid": 1, "local": 1, "port": range(self.ports)})

    def describe(self) -> dict[str, int]:
        """Parameters by name, for report headers."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


PRESETS: dict[str, SwitchConfig] = {
    # Small in every respect, so that tables, buffers and queues run over all the time.
    "test": SwitchConfig(
        ports=4, entries=2, buffer_packets=2, credits=2, queue_packets=1, regions=2, homes=4,
        endpoints=8, timeout_bits=10, alu_stages=6,
    ),
    "8-port": SwitchConfig(),
    "16-port": SwitchConfig(ports=16),
}

preset = preset_of(PRESETS)

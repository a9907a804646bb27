# SPDX-License-Identifier: Apache-2.0
"""Packets of the in-switch reduction as lists of flits, and settings of the bench's links."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from foldwire.catalog import Design
from foldwire.handoff.frames import SWITCH_FIELDS, header_table
from hw.link.packet import FLIT_BITS
from hw.switch.config import SwitchConfig
from hw.switch.packet import CLASSES, HEADER, Kind, encode
from hw.switch_dma.config import SwitchDmaConfig

__all__ = ["link_about", "packet", "packet_section"]

_START = 1 << FLIT_BITS


def packet(header: Mapping[str, Any], values: NDArray[Any]) -> list[int]:
    """The flits of a packet on a link; the first has a mark above its bits."""
    raw = values.tobytes()
    flits = [int.from_bytes(raw[at : at + 16], "little") for at in range(0, len(raw), 16)]
    return [encode(header) | _START, *flits]


def link_about(config: SwitchConfig | SwitchDmaConfig) -> dict[str, int]:
    """Settings for `Link` of `bench/models.py`: sizes, and credits of either side per class."""
    return {
        "classes": CLASSES,
        "class_lsb": HEADER["kind"].offset,
        "packet_flits": config.packet_flits,
        "buffer_packets": config.buffer_packets,
        "credits": config.credits,
        "count": Kind.COUNT.value,
    }


def packet_section(design: Design) -> str:
    """The header of packets, for the manual."""
    text = (
        "A packet is a header flit and flits of data, 16 bytes each, a flit a cycle while `valid` "
        "is high; the highest bit of `payload` marks a header. `credit` has a bit for each class "
        "of packets: high for a cycle for each packet of it that the receiver has freed."
    )
    return header_table("Packets", text, HEADER, SWITCH_FIELDS)

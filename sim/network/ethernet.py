# SPDX-License-Identifier: Apache-2.0
"""Ethernet frames: the share of a line's rate that is left for data.

Sizes of the frame are those of IEEE 802.3, of headers those of RoCE v2, as the InfiniBand Trade
Association describes it: remote DMA in UDP over IPv4.
"""

from hw.switch.sizes import SwitchSizes

__all__ = [
    "CHECK_BYTES", "LEAST_FRAME_BYTES", "PREAMBLE_AND_GAP_BYTES", "ROCE_HEADERS", "frame_share",
    "line_bytes", "roce_sizes",
]

PREAMBLE_AND_GAP_BYTES = 8 + 12
"""Bytes of line time around a frame."""

CHECK_BYTES = 4
"""The frame check sequence."""

LEAST_FRAME_BYTES = 64
"""Shortest frame, from the addresses to the check sequence; shorter ones are padded."""

ROCE_HEADERS = {
    "addresses and EtherType": 14,
    "IPv4": 20,
    "UDP": 8,
    "base transport": 12,
    "remote address, key, length": 16,
    "invariant CRC": 4,
}
"""Bytes of the headers of a remote write, and of its CRC."""


def line_bytes(payload_bytes: int, header_bytes: int) -> int:
    """Bytes of line time that a frame takes."""
    whole = payload_bytes + header_bytes + CHECK_BYTES
    return PREAMBLE_AND_GAP_BYTES + max(LEAST_FRAME_BYTES, whole)


def frame_share(payload_bytes: int, header_bytes: int) -> float:
    """Share of the line rate that is left to the payload of frames."""
    return payload_bytes / line_bytes(payload_bytes, header_bytes)


def roce_sizes(payload_bytes: int) -> SwitchSizes:
    """The packets of switches that reduce, on Ethernet: an operand or a result is a remote write.

    A request or an acknowledgement is as long as the headers of a write, which are no shorter than
    the least frame.
    """
    header = line_bytes(0, sum(ROCE_HEADERS.values()))
    return SwitchSizes(payload_bytes=payload_bytes, header_bytes=header)

# SPDX-License-Identifier: Apache-2.0
"""What frames of Ethernet leave to data."""

import pytest

from sim.network.ethernet import LEAST_FRAME_BYTES, frame_share, line_bytes, roce_sizes


def test_frames_leave_their_share_to_the_payload():
    # Headers of 32 B; preamble, check sequence and gap are 24.
    assert frame_share(2048, 32) == pytest.approx(2048 / 2104)


@pytest.mark.parametrize("payload, header, line", [
    (0, 0, 84), (46, 14, 84), (47, 14, 85), (1500, 14, 1538), (9000, 14, 9038),
])
def test_a_frame_takes_what_the_standard_says_and_short_ones_are_padded(payload, header, line):
    assert line_bytes(payload, header) == line


@pytest.mark.parametrize("payload", [1024, 4096])
def test_packets_of_switches_on_ethernet_are_remote_writes(payload):
    sizes = roce_sizes(payload)

    # 14 + 20 + 8 + 12 + 16 + 4 B of headers, 24 B of the frame.
    assert sizes.header_bytes == 98 and sizes.header_bytes - 20 >= LEAST_FRAME_BYTES
    assert sizes.payload_bytes + sizes.header_bytes == line_bytes(payload, 74)
    assert sizes.payload_share == payload / (payload + 2 * 98)

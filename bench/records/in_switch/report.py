# SPDX-License-Identifier: Apache-2.0
"""Presets of switches that reduce and their endpoints in reports."""

from gen.table import Column

__all__ = ["DESIGNS"]

DESIGNS = {
    "switch": (
        "Switch",
        (
            Column("ports"), Column("entries", "entries per port"),
            Column("payload_bytes", "payload", "B"), Column("buffer_packets", "packets per buffer"),
        ),
    ),
    "switch-dma": (
        "Endpoint of switches",
        (
            Column("links"), Column("payload_bytes", "payload", "B"), Column("waves"),
            Column("wave_blocks", "packets per wave"),
        ),
    ),
}

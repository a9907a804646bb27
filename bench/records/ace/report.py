# SPDX-License-Identifier: Apache-2.0
"""Presets of ACE in reports."""

from gen.table import Column

__all__ = ["DESIGNS"]

DESIGNS = {
    "ace": (
        "ACE",
        (
            Column("ports"), Column("bus_bytes", "bus", "B"), Column("fsms", "FSMs"),
            Column("contexts"), Column("alus", "ALUs"), Column("sram_bytes", "SRAM", "B"),
            Column("banks"),
        ),
    ),
}

# SPDX-License-Identifier: Apache-2.0
"""Presets of the smart NIC in reports."""

from gen.table import Column

__all__ = ["DESIGNS"]

DESIGNS = {
    "smartnic": (
        "Smart NIC",
        (Column("bus_bytes", "bus", "B"), Column("engines"), Column("lanes"), Column("codec")),
    ),
}

"""Presets of switches that reduce and their endpoints in reports."""

from gen.table import Column
from hw.switch.config import PRESETS as SWITCH
from hw.switch_dma.config import PRESETS as SWITCH_DMA

__all__ = ["DESIGNS", "SYNTHESIZED"]

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
SYNTHESIZED = (
    *(("switch", name) for name in SWITCH), *(("switch-dma", name) for name in SWITCH_DMA),
)

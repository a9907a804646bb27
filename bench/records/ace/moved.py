# SPDX-License-Identifier: Apache-2.0
"""Bytes that units of the event ACE move, and can move."""

from collections.abc import Mapping

from bench._moved import Moved
from sim.endpoint.ace import AceEndpoint

__all__ = ["ENDPOINT", "capacities", "moves"]

ENDPOINT = AceEndpoint


def moves(moved: Moved) -> Mapping[str, float]:
    """Bytes by unit that follow from those that a node sends and gets."""
    return {"ALUs": moved.added}


def capacities(endpoint: AceEndpoint) -> Mapping[str, float]:
    """Bytes/s that each unit can move, by name."""
    clock = endpoint.npu.clock_hz
    return {
        "SRAM": endpoint.sram_accesses * endpoint.bus_bytes * clock,
        "ALUs": endpoint.alus * 4 * endpoint.lanes * clock,
        "TX DMA": endpoint.memory_bytes_per_s,
        "RX DMA": endpoint.memory_bytes_per_s,
        "bus to engine": endpoint.bus.bytes_per_s,
        "bus from engine": endpoint.bus.bytes_per_s,
    }

# SPDX-License-Identifier: Apache-2.0
"""Bytes that units of the event NIC move, and can move."""

from collections.abc import Mapping

from bench._moved import Moved
from sim.collectives.program import Source
from sim.endpoint.smartnic import SmartNicEndpoint

__all__ = ["ENDPOINT", "capacities", "moves"]

ENDPOINT = SmartNicEndpoint


def moves(moved: Moved) -> Mapping[str, float]:
    """Bytes by unit that follow from those that a node sends and gets."""
    return {"adders": moved.added + moved.sent[Source.FRESH]}  # own data pass them, too


def capacities(endpoint: SmartNicEndpoint) -> Mapping[str, float]:
    """Bytes/s that each unit can move, by name."""
    host = endpoint.host_bytes_per_s
    adders = 4 * endpoint.lanes * endpoint.clock_hz
    return {"host read": host, "host write": host, "host bus": host, "adders": adders}

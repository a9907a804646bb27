# SPDX-License-Identifier: Apache-2.0
"""Endpoints of events, as benches draw them: where they can stand, and their collectives."""

from typing import Any

from bench.records.registered import modules
from sim.engines.engine import engine_of

__all__ = ["in_network", "limits"]


def in_network(kind: str) -> bool:
    """True if switches reduce for these endpoints."""
    engine = engine_of(kind)
    return engine is not None and engine.network_reduces


def limits(kind: str) -> Any | None:
    """The collectives and the algorithm, where the engine has these alone; None for others."""
    engine = engine_of(kind)
    return None if engine is None else modules("systems").get(engine.name)

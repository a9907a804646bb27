# SPDX-License-Identifier: Apache-2.0
"""Parts of runs that all levels share."""

import math

from sim.describe.build import DescribedSystem
from sim.describe.sections import Description
from sim.engines.engine import engine_named
from sim.limits.network import call_bound

__all__ = ["WINDOWS", "notes_of_engine", "shortest_s"]

WINDOWS = 200
"""Intervals of the series over time that the shortest possible run would have."""


def notes_of_engine(description: Description) -> list[str]:
    """Notes on the engine of a description, at any level."""
    section = description.engine
    return [] if section is None else engine_named(section.kind).notes(description, section)


def shortest_s(system: DescribedSystem) -> float:
    """Time of an NPU's computations, or bounds of its collectives in sequence, the longest of all.
    """
    shortest = 1e-9  # a run of nothing still has one window
    bounds: dict[object, float] = {}
    for graph in system.job.graphs:
        computing = communicating = 0.0
        for task in graph.tasks:
            if task.call is None:
                computing += task.duration_s
                continue
            key = (task.call.kind, task.call.size_bytes, task.call.dimensions)
            if key not in bounds:
                reduces = getattr(system.endpoint, "in_switch", None) is not None
                bound = call_bound(system.network, task.call, network_reduces=reduces)
                bounds[key] = bound.seconds
            communicating += bounds[key]
        shortest = max(shortest, computing, communicating)
    if not math.isfinite(shortest):
        links = "links that failed cut NPUs off from others that they need"
        raise ValueError(f"scenario.link: {links}")
    return shortest

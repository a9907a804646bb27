# SPDX-License-Identifier: Apache-2.0
"""Measures the latencies of event endpoints on the cycle models of their engines.

``python -m sim.cycles.measure`` writes them to the data file of `sim.endpoint.latencies`. Each
engine's record names the measurements of its own.

Most are found in a run so small that nothing waits for anything else, from the cycle of each packet
on each link: the time that events count between two of them (links, beats, memories) is taken off.
The others come from rates through a bound of few packets or bursts: from the extra time that more
data take.
"""

from dataclasses import replace
from typing import Any

from sim.endpoint.latencies import EventLatencies
from sim.engines.registry import records
from sim.hosts.script import POLL_CYCLES, Issue, Reached
from sim.hosts.surroundings import Surroundings

__all__ = ["LINK", "POLL", "READ", "SCRIPT", "WRITE", "measure", "measured_ring"]

READ, WRITE, LINK = 50, 10, 20
"""Cycles of memories and links."""
POLL = (POLL_CYCLES + 2) // 2
"""Mean cycles from a completion until a host sees it."""
SCRIPT = (Issue(command=0), Reached(count=1))


def measured_ring(**changes: Any) -> Surroundings:
    """The ring in which latencies are measured, with *changes*."""
    ring = Surroundings(
        nodes=3, latency_cycles=LINK, read_latency_cycles=READ, write_latency_cycles=WRITE,
        memory_bytes=1 << 22, fsms=None,
    )
    return replace(ring, **changes)


def measure() -> EventLatencies:
    """Measure all latencies."""
    found: dict[str, int] = {}
    for record in records():
        for each in record.measures.values():
            found |= each()
    return EventLatencies(**found)


if __name__ == "__main__":
    measured = measure()
    measured.store()
    print(measured)

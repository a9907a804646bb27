# SPDX-License-Identifier: Apache-2.0
"""Chunks begin in the order in which they are admitted."""

import numpy as np

from sim.events.kernel.constants import PHASE_SPAN
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.network.network import Network
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind


def test_chunks_that_a_node_only_passes_are_admitted_in_their_order() -> None:
    """Most nodes have no part in the first phase of a broadcast, so that all chunks reach the
    second one at once. The last ones took the places there; the root sent the first one first."""
    builder = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.BROADCAST, size_bytes=1 << 18)
    builder.add("broadcast", TaskKind.COLLECTIVE, call=call)
    record = simulate(
        Network.torus((2, 4), bandwidth_bytes_per_s=25e9, latency_s=1e-6),
        Job(name="one", graphs=(builder.graph(),)),
        scheduler=Scheduler(splits=16, concurrency=4),
        spans=10_000,
    )
    phases = record.spans[(record.spans["kind"] == PHASE_SPAN) & (record.spans["phase"] == 2)]
    assert set(phases["row"].tolist()) == set(range(8))
    for node in range(8):
        own = np.sort(phases[phases["row"] == node], order="chunk")
        assert (np.diff(own["start_fs"]) >= 0).all()

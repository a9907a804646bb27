# SPDX-License-Identifier: Apache-2.0
"""The event queue: what happens at all nodes at once stays together."""

from typing import Any

import numpy as np
import pytest

from sim.events.kernel.queue import (
    BUCKET_TOP,
    CACHE_BITS,
    EVENT_TOP,
    line_of,
    pop_bucket,
    push,
    queue_arrays,
)
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.network.network import Network
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

CHUNK_AT, MESSAGE_AT, ENTRY_AT = 42, 28, 11


@pytest.mark.parametrize("field", [CHUNK_AT, MESSAGE_AT, ENTRY_AT])
def test_keys_of_one_time_have_lines_of_their_own(field: int) -> None:
    count = 1 << (CACHE_BITS - 4)
    lines = {int(line_of(500_823_213, number << field)) for number in range(count)}
    assert min(lines) >= 0 and max(lines) < 1 << CACHE_BITS
    assert len(lines) > 0.8 * count


def test_buckets_of_one_line_fill_in_turns() -> None:
    time, count = 803_213, 100
    first = line_of(time, 0)
    other = next(key for key in range(1, 1 << 20) if line_of(time, key) == first)
    made = [
        array.view(np.recarray) if array.dtype.names else array for array in queue_arrays(256, 256)
    ]
    events, buckets, heap, _, registers = made
    for node in range(count):
        for key in (other, 0):
            push(*made, time, key, node)
    assert registers[BUCKET_TOP] == 2
    for key in (0, other):
        bucket = pop_bucket(buckets, heap, registers)
        assert (buckets[bucket].time, buckets[bucket].key) == (time, key)
        nodes, event = [], buckets[bucket].head
        while event >= 0:
            nodes.append(int(events[event].node))
            event = events[event].next
        assert nodes == list(range(count))


def test_a_symmetric_system_needs_a_bucket_for_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks admitted together on every node are entered in turns: 0, 1, ..., 7, 0, 1, ..."""
    seen: list[Any] = []
    from sim.events import simulate as module

    real = module.why_stuck
    monkeypatch.setattr(module, "why_stuck", lambda job, it: (seen.append(it), real(job, it))[1])
    builder, chunks = GraphBuilder(), 8
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=1 << 20)
    builder.add("all-reduce", TaskKind.COLLECTIVE, call=call)
    simulate(
        Network.torus((4, 4, 4), bandwidth_bytes_per_s=50e9, latency_s=500e-9),
        Job(name="one", graphs=(builder.graph(),)),
        scheduler=Scheduler(splits=chunks, concurrency=chunks),
        fold="off",
    )
    state = seen[0].state
    assert state.registers[EVENT_TOP] >= 64 * chunks
    assert state.registers[BUCKET_TOP] < state.registers[EVENT_TOP] / 16
    assert np.all(state.task_end > 0)

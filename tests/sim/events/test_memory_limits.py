# SPDX-License-Identifier: Apache-2.0
"""What does not fit into memory is refused in words that name the keys that help."""

import pytest

from sim import memory
from sim.collectives.plan import AlgorithmChoice
from sim.events import state
from sim.events.kernel import tables
from sim.events.scheduler import Scheduler
from sim.events.simulate import SimulationError, simulate
from sim.network import network as networks
from sim.network.network import Network
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

SPARE = 1 << 20  # events that the kernel keeps back


def all_to_all(size: int) -> Job:
    graph = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.ALL_TO_ALL, size_bytes=size)
    graph.add("all", TaskKind.COLLECTIVE, call=call)
    return Job(name="all", graphs=(graph.graph(),))


def run(**options: object) -> float:
    network = Network.torus((4, 4), bandwidth_bytes_per_s=25e9, latency_s=1e-7)
    values: dict[str, object] = {"algorithms": AlgorithmChoice(all_to_all_span="all")}
    return simulate(network, all_to_all(1 << 20), fold="off", **{**values, **options}).end_fs  # type: ignore[arg-type]


def test_room_for_events_follows_the_machine() -> None:
    small, large = state.event_room(1 << 30, False), state.event_room(64 << 30, False)
    lines = state.event_room(64 << 30, True)

    assert state.LEAST_EVENTS <= small < lines < large <= state.MOST_EVENTS
    assert large * state.EVENT_BYTES <= 32 << 30
    assert lines * (state.EVENT_BYTES + tables.WAITER.itemsize) <= 32 << 30
    assert state.event_room(0, True) == state.LEAST_EVENTS
    assert memory.available_bytes() > 0


def test_too_many_messages_name_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    free = run()
    monkeypatch.setattr(state, "event_room", lambda spare, waits: 4 * (SPARE + 100))

    with pytest.raises(SimulationError, match=r"messages in flight, .*\(endpoint\.message_bytes\)"):
        run()
    assert run(scheduler=Scheduler(concurrency=1)) > 0 < free


def test_too_many_chunks_name_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "available_bytes", lambda: 1 << 16)

    with pytest.raises(SimulationError, match=r"chunks in flight, .*\(scheduler\.chunk_bytes\)"):
        run(scheduler=Scheduler(splits=512))
    assert run(scheduler=Scheduler(splits=16)) > 0


def test_too_many_hops_name_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "LEAST_HOPS", 64)
    monkeypatch.setattr(networks, "available_bytes", lambda: 64 * 2 * networks.HOP_BYTES)

    with pytest.raises(ValueError, match=r"more than the 64 hops .*\(algorithm\.all_to_all_span\)"):
        run()

# SPDX-License-Identifier: Apache-2.0
"""How far a run is, as its watcher sees it."""

import time
from threading import Event
from typing import Any

import pytest

from sim.events import progress, simulate
from sim.events.progress import reported, share_done
from sim.events.scheduler import Scheduler
from sim.network.network import Network
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

NETWORK = Network.torus((2, 3), bandwidth_bytes_per_s=50e9, latency_s=500e-9)


def watched_run(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    """What the kernel has worked on."""
    seen: list[Any] = []
    real = simulate.why_stuck
    monkeypatch.setattr(simulate, "why_stuck", lambda job, it: (seen.append(it), real(job, it))[1])
    builder = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=1 << 20)
    builder.add("all-reduce", TaskKind.COLLECTIVE, call=call)
    job = Job(name="one", graphs=(builder.graph(),))
    simulate.simulate(NETWORK, job, scheduler=Scheduler(splits=4), **options)
    return seen[0]


@pytest.mark.parametrize("fold", ["on", "off"])
def test_share_is_that_of_messages_sent(fold: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = watched_run(monkeypatch, fold=fold)
    share = share_done(NETWORK, lowered)
    assert share() == 1.0

    lowered.state.messages[:] //= 2
    assert share() == pytest.approx(0.5, abs=0.01)
    lowered.state.messages[:] = 0
    assert share() == 0.0


def test_run_is_watched_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.001)
    lowered = watched_run(monkeypatch, report=lambda share: None)
    told, heard = list[float](), Event()
    with reported(NETWORK, lowered, lambda share: (told.append(share), heard.set())[0]):
        assert heard.wait(20)
    count = len(told)
    time.sleep(0.01)
    assert set(told) == {1.0} and len(told) == count

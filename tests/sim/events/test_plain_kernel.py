"""The event kernel as plain Python, for a debugger: the same events at the same times."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sim.collectives.plan import AlgorithmChoice
from sim.events import packets, simulate
from sim.events.kernel import packets as packet_tables
from sim.events.kernel import queue, tables
from sim.events.scheduler import Scheduler
from sim.native.binding import bind
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind


def plain(function: Callable[..., int], *states: Any, doing: str) -> Callable[[], int]:
    """In place of :func:`sim.native.binding.bind`: fields of records are attributes of rows."""
    made = [
        state and type(state)(*(a.view(np.recarray) if a.dtype.names else a for a in state))
        for state in states
    ]

    def call() -> int:
        with np.errstate(over="ignore"):  # hashes wrap
            return int(function(*made))

    return call


TWO_WAYS = [Dimension.ring(3, 10e9, 100e-9), Dimension.ring(4, 25e9, 200e-9)]


@pytest.mark.parametrize("granularity", ["message", "packet"])
@pytest.mark.parametrize(
    ("endpoint", "places"), [("ideal", 1), ("ideal", 4), ("baseline_comm_opt", 1), ("ace", 1)]
)
@pytest.mark.parametrize("kind", [CollectiveKind.ALL_TO_ALL, CollectiveKind.ALL_REDUCE])
def test_plain_kernel_does_the_same(
    kind: CollectiveKind,
    endpoint: str,
    places: int,
    granularity: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All-to-alls over several hops, in two dimensions; with more chunks than places, and with
    places for all, so that messages pass others on links."""
    graph = GraphBuilder()
    call = CollectiveCall(kind=kind, size_bytes=6000)
    graph.add("collective", TaskKind.COLLECTIVE, call=call)
    runs = []
    for way in (bind, plain):
        monkeypatch.setattr(simulate, "bind", way)
        runs.append(
            simulate.simulate(
                Network(TWO_WAYS),
                Job(name="one", graphs=(graph.graph(),)),
                endpoint=endpoint,
                algorithms=AlgorithmChoice(all_to_all_span="all"),
                scheduler=Scheduler(splits=4, concurrency=places),
                granularity=granularity,
                fold="off",
                check=True,
            )
        )
    compiled, interpreted = runs

    assert compiled.end_fs == interpreted.end_fs > 0
    assert compiled.events == interpreted.events
    assert (compiled.task_end_fs == interpreted.task_end_fs).all()
    assert (compiled.link_busy_fs == interpreted.link_busy_fs).all()


def test_no_field_has_the_name_of_what_numpy_gives_every_record() -> None:
    """As an attribute ``size`` of a record is 1, whatever the field of that name holds."""
    given = {name for name in dir(np.record) if not name.startswith("_")}
    dtypes = [
        each
        for module in (tables, queue, packet_tables, packets)
        for each in vars(module).values()
        if isinstance(each, np.dtype) and each.names
    ]

    assert len(dtypes) > 15
    assert given.isdisjoint(name for each in dtypes for name in each.names or ())

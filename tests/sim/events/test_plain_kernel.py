# SPDX-License-Identifier: Apache-2.0
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
from sim.native.mark import is_indexed_from_begin
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind


class FromBegin:
    """Arrays that refuse what compiled code of a marked state takes for an address before them."""

    def __getitem__(self, index: Any) -> Any:
        _is_from_begin(index)
        return super().__getitem__(index)  # type: ignore[misc]

    def __setitem__(self, index: Any, value: Any) -> None:
        _is_from_begin(index)
        super().__setitem__(index, value)  # type: ignore[misc]


def _is_from_begin(index: Any) -> None:
    for each in index if isinstance(index, tuple) else (index,):
        assert not isinstance(each, int | np.integer) or each >= 0, f"index {each}"


class Values(FromBegin, np.ndarray[Any, Any]):
    """Of numbers."""


class Records(FromBegin, np.recarray[Any, Any]):
    """Of records."""


def plain(function: Callable[..., int], *states: Any, doing: str) -> Callable[[], int]:
    """In place of :func:`sim.native.binding.bind`: fields of records are attributes of rows."""
    assert any(map(is_indexed_from_begin, states))
    made = []
    for state in states:
        marked = is_indexed_from_begin(state)
        records, values = (Records, Values) if marked else (np.recarray, np.ndarray)
        made.append(state and type(state)(
            *(a.view(records if a.dtype.names else values) for a in state)
        ))

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


def test_a_negative_index_into_a_marked_state_is_seen() -> None:
    state = np.zeros(3, np.int64).view(Values)

    with pytest.raises(AssertionError, match="index -1"):
        state[-1]
    with pytest.raises(AssertionError, match="index -2"):
        state[np.int64(-2)] = 1

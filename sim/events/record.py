# SPDX-License-Identifier: Apache-2.0
"""The raw record of a run at any level, from which every table, figure and trace is made.

Times are integers in femtoseconds since the start of the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gen.brief import Brief
from sim.endpoint.rates import EndpointRates
from sim.fields import check_type
from sim.network.link import Link

__all__ = ["Admission", "CallPhases", "Recorded", "RunRecord", "record_in"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Admission(Brief):
    """Bounds on the chunks of a node that are in flight.

    ``places``: of each scheduling queue; ``contexts``: of the phases of each index; ``rooms``: name
    and bytes of each buffer, and ``held_bytes``: (calls, rooms), the mean that a chunk of a call
    takes there. Queues without a bound are not among the places. ``ready``: True if the dispatcher
    holds chunks back.
    """

    places: tuple[int, ...]
    contexts: tuple[int, ...]
    rooms: tuple[tuple[str, float], ...]
    held_bytes: NDArray[np.float64]
    ready: bool


@dataclass(frozen=True, kw_only=True, repr=False)
class CallPhases(Brief):
    """Times and numbers of the chunks and messages of each collective call, phase by phase.

    ======================  ==========================================================
    array                   shape and meaning
    ======================  ==========================================================
    chunks                  (calls,): chunks of each call
    names                   per call, the names of its phases, e.g. "reduce-scatter dim 0"
    queue_delay_fs          (calls, phases): waiting of all chunks on all rows before the phase
    time_fs                 (calls, phases): from entering to leaving the phase, summed likewise
    network_delay_fs        (calls, phases): from a message's request of a link to its arrival
    latency_fs              (calls, phases): the part of it that is latency of links
    bus_delay_fs            (calls, phases): of messages in endpoint buses, memory and units
    messages                (calls, phases): messages sent
    ======================  ==========================================================
    """

    chunks: NDArray[np.int64]
    names: list[list[str]]
    queue_delay_fs: NDArray[np.int64]
    time_fs: NDArray[np.int64]
    network_delay_fs: NDArray[np.int64]
    latency_fs: NDArray[np.int64]
    bus_delay_fs: NDArray[np.int64]
    messages: NDArray[np.int64]

    def of(self, calls: Sequence[int]) -> "CallPhases":
        """The same for the calls of these numbers alone."""
        rows = np.asarray(calls, dtype=np.int64)
        arrays = {
            each.name: getattr(self, each.name)[rows]
            for each in fields(self) if each.name != "names"
        }
        return CallPhases(names=[self.names[number] for number in calls], **arrays)


@dataclass(frozen=True, kw_only=True, repr=False)
class RunRecord(Brief):
    """A run, at whatever level.

    Where ``folded``, one node stands for all ``nodes`` and the arrays over nodes have one row,
    those over links only the links of that node. Fields that a level cannot know are None or empty:
    ``events``, ``call_phases`` and ``admission`` are known to event simulations only.

    ======================  ==========================================================
    array                   shape and meaning
    ======================  ==========================================================
    task_ready_fs           (rows, tasks): when everything it waits for had ended; -1 = never
    task_start_fs           (rows, tasks): computation began / collective was issued
    task_end_fs             (rows, tasks)
    graph_of                (rows,): which graph of the job a row runs
    calls                   list of (graph, task) of each collective call, by its number
    links                   of Link; link_bytes, link_busy_fs by the same index, and
                            link_starved_fs (free, but without credits for what waits) of packets
    unit_names              names of endpoint resources, e.g. "memory read"; unit_servers alike of
                            each, whose time unit_busy_fs (units, rows) adds up; unit_bytes
                            (units, rows)
    engine_busy_fs          (rows,): time with at least one chunk assigned
    bucket_fs               width of the buckets of the series below; 0 = not recorded
    link_series_fs          (dimensions, buckets): busy time of all links of a dimension
    unit_series_fs          (units, buckets): time of work of a unit in all rows; None: not recorded
    spans                   structured array of the trace: kind, row, lane, start_fs, end_fs,
                            call, chunk, phase; empty unless recorded
    admission               bounds on the chunks in flight
    receive_fs              delay at a node after every message, beside its stages
    spans_left_out          intervals for which the trace had no room
    network_reduces         True: switches reduce and multicast, which lower bounds must know
    wire_factor             size of data on the links over that in memory; link_bytes includes it
    shared_links            False: every message found its links free, so bounds do not hold
    counts                  events of reduction tables by name; empty where there are none
    switch_names            of switches that have names, those of a graph; else empty
    endpoint_rates          best rates of the endpoints, for the lower bounds; or None
    estimate                of engines: an event simulation of the same description, or None
    ======================  ==========================================================
    """

    nodes: int
    folded: bool
    end_fs: int
    wall_s: float
    task_ready_fs: NDArray[np.int64]
    task_start_fs: NDArray[np.int64]
    task_end_fs: NDArray[np.int64]
    graph_of: NDArray[np.int32]
    calls: list[tuple[int, int]]
    links: Sequence[Link]
    link_bytes: NDArray[np.int64]
    link_busy_fs: NDArray[np.int64]
    unit_names: list[str]
    unit_busy_fs: NDArray[np.int64]
    unit_bytes: NDArray[np.int64]
    engine_busy_fs: NDArray[np.int64]
    bucket_fs: int
    link_series_fs: NDArray[np.int64]
    spans: NDArray[np.void]
    events: int | None = None
    link_starved_fs: NDArray[np.int64] | None = None
    call_phases: CallPhases | None = None
    admission: Admission | None = None
    receive_fs: int = 0
    wire_factor: float = 1.0
    network_reduces: bool = False
    endpoint_rates: EndpointRates | None = None
    shared_links: bool = True
    unit_servers: tuple[int, ...] = ()
    unit_series_fs: NDArray[np.int64] | None = None
    spans_left_out: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    estimate: "RunRecord | None" = None
    switch_names: tuple[str, ...] = ()

    @property
    def phases(self) -> CallPhases:
        """``call_phases`` of an event simulation.

        Raises
        ------
        ValueError
            For a run of cycle models or RTL, which do not record them.
        """
        if self.call_phases is None:
            raise ValueError("chunks and messages of phases are known at level 'events' only")
        return self.call_phases


class Recorded(Protocol):
    """Anything that has a record, as a `sim.runs.result.Run` does."""

    @property
    def record(self) -> RunRecord: ...


def record_in(run: RunRecord | Recorded) -> RunRecord:
    """The record of a run, of which *run* may be the result or the record itself."""
    if isinstance(run, RunRecord):
        return run
    check_type("record", run, "a Run or a RunRecord", hasattr(type(run), "record"))
    return run.record

# SPDX-License-Identifier: Apache-2.0
"""A trace for Perfetto or chrome://tracing: one process per NPU, one lane per unit and link.

The format is the JSON of Chrome's trace viewer: metadata events (``M``) that name processes and
lanes, complete events (``X``) with start and duration in µs, and counters (``C``). Lanes of an NPU:
its compute units (with what they wait for in the gaps), the links that leave it, its collectives,
and the chunks in each queue; links and chunks where the run recorded them. What
overlaps within a lane is spread over as many lanes as it takes, because events of one lane must
nest.
"""

import gzip
import heapq
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gen.closing import Closing
from sim.events.record import RunRecord
from sim.results.network import Series, vertex_name
from sim.workload.graph import Job, Task, TaskGraph, TaskKind

__all__ = ["LINK_SPAN", "MOST_NPUS", "PHASE_SPAN", "SYSTEM", "TraceWriter", "spread", "write_trace"]

LINK_SPAN, PHASE_SPAN = 0, 1
"""Kinds of spans: a transfer on link ``lane``, a phase of a chunk in queue ``lane``."""

MOST_NPUS = 64
FS_PER_NS = 10**6
SYSTEM = 1_000_000_000
"""Number of the process of counters; NPUs and switches have their own numbers."""
COMPUTE_LANE = 1
FIRST_LINK_LANE = 10
# Far apart, so that no number of links or of overlapping collectives reaches the next ones.
FIRST_COLLECTIVE_LANE = 100_000
FIRST_QUEUE_LANE = 1_000_000
QUEUE_LANES = 10_000

Spans: TypeAlias = NDArray[Any]


class TraceWriter(Closing):
    """Writes events as they come; memory does not grow with their number.

    ``.gz`` at the end of the path compresses; both viewers open that too.
    """

    def __init__(self, path: Path, **about: object) -> None:
        self._file: IO[str] = (
            gzip.open(path, "wt", encoding="utf-8")
            if path.suffix == ".gz"
            else path.open("w", encoding="utf-8")
        )
        self._file.write('{"displayTimeUnit":"ns","otherData":')
        self._file.write(json.dumps(about, ensure_ascii=False) + ',"traceEvents":[')
        self._separator = "\n"

    def close(self) -> None:
        """Finish the file."""
        self._file.write("\n]}\n")
        self._file.close()

    def _write(self, event: dict[str, object]) -> None:
        self._file.write(self._separator + json.dumps(event, ensure_ascii=False))
        self._separator = ",\n"

    def process(self, pid: int, name: str) -> None:
        for what, value in (("process_name", {"name": name}), ("process_sort_index", pid)):
            args = value if isinstance(value, dict) else {"sort_index": value}
            self._write({"ph": "M", "pid": pid, "tid": 0, "name": what, "args": args})

    def lane(self, pid: int, tid: int, name: str) -> None:
        for what, args in (
            ("thread_name", {"name": name}),
            ("thread_sort_index", {"sort_index": tid}),
        ):
            self._write({"ph": "M", "pid": pid, "tid": tid, "name": what, "args": args})

    def complete(
        self, pid: int, tid: int, name: str, kind: str, start_fs: int, end_fs: int, **args: object
    ) -> None:
        """An event from start to end. Whole nanoseconds, so that neighbours stay neighbours."""
        start, end = start_fs // FS_PER_NS, end_fs // FS_PER_NS
        self._write(
            {
                "ph": "X",
                "pid": pid,
                "tid": tid,
                "name": name,
                "cat": kind,
                "ts": start / 1000,
                "dur": (end - start) / 1000,
                "args": args,
            }
        )

    def counter(self, pid: int, name: str, time_us: float, value: float) -> None:
        self._write(
            {
                "ph": "C",
                "pid": pid,
                "tid": 0,
                "name": name,
                "ts": round(time_us, 3),
                "args": {"%": round(100 * value, 2)},
            }
        )


def write_trace(
    path: Path,
    record: RunRecord,
    job: Job,
    *,
    series: Series | None = None,
    most_npus: int = MOST_NPUS,
) -> int:
    """Write the trace of a run; return the number of NPUs in it.

    A run of more than `most_npus` shows the first ones: viewers load whole traces into memory.
    The trace says so in the name of its first process, and that transfers and phases of chunks are
    cut where the run had no room for all.
    """
    rows = len(record.graph_of)
    shown = min(rows, most_npus)
    stands = f" (stands for all {record.nodes})" if record.folded else ""
    left_out = f", first {shown} of {rows} NPUs" if shown < rows else ""
    folded = f", folded: 1 of {record.nodes} NPUs" if record.folded else ""
    about: dict[str, object] = {
        "job": job.name, "NPUs": record.nodes, "folded": record.folded, "shown": shown,
    }
    cut = ""
    if record.spans_left_out:
        total = len(record.spans) + record.spans_left_out
        cut = f", cut: first {len(record.spans)} of {total} transfers and phases of chunks"
        about["left_out"] = record.spans_left_out
    with TraceWriter(path, **about) as trace:
        trace.process(SYSTEM, f"system: {job.name}{folded}{left_out}{cut}")
        if series is not None:
            _counters(trace, series)
        for row in range(shown):
            trace.process(row, vertex_name(row, record.nodes) + stands)
            graph = job.graphs[record.graph_of[row]]
            _computations(trace, row, record, graph)
            _collectives(trace, row, record, graph)
        if len(record.spans):
            _chunks(trace, record, job, shown)
            _links(trace, record, job, shown)
    return shown


def _counters(trace: TraceWriter, series: Series) -> None:
    named = [("compute units busy", series.compute)]
    if len(series.network):
        named.append(("links busy", series.network))
        for number, shares in enumerate(series.dimensions):
            named.append((f"links of dimension {number} busy", shares))
    for name, shares in named:
        for time_us, share in zip(1e6 * series.edges_s[:-1], shares):
            trace.counter(SYSTEM, name, float(time_us), float(share))
        trace.counter(SYSTEM, name, 1e6 * float(series.edges_s[-1]), 0.0)


def _computations(trace: TraceWriter, row: int, record: RunRecord, graph: TaskGraph) -> None:
    pid = row
    trace.lane(pid, COMPUTE_LANE, "compute")
    starts, ends = record.task_start_fs[row], record.task_end_fs[row]
    computing = [
        number
        for number, task in enumerate(graph.tasks)
        if task.kind is TaskKind.COMPUTE and starts[number] >= 0
    ]
    now = 0
    for number in sorted(computing, key=lambda each: (starts[each], each)):
        task = graph.tasks[number]
        start, end = int(starts[number]), int(ends[number])
        if start > now and task.after:
            cause = graph.tasks[max(task.after, key=lambda each: int(ends[each]))]
            trace.complete(pid, COMPUTE_LANE, f"wait for {cause.name}", "wait", now, start)
        about = _about(task, graph)
        trace.complete(pid, COMPUTE_LANE, task.name, "compute", start, end, **about)
        now = max(now, end)
    last = max(range(len(graph.tasks)), key=lambda each: (ends[each], each), default=-1)
    if last >= 0 and ends[last] > now:
        name = f"wait for {graph.tasks[last].name}"
        trace.complete(pid, COMPUTE_LANE, name, "wait", now, int(ends[last]))


def _collectives(trace: TraceWriter, row: int, record: RunRecord, graph: TaskGraph) -> None:
    pid = row
    starts, ends = record.task_start_fs[row], record.task_end_fs[row]
    others = [
        number
        for number, task in enumerate(graph.tasks)
        if task.kind is not TaskKind.COMPUTE and starts[number] >= 0
    ]
    others.sort(key=lambda each: (starts[each], each))
    spreading = spread(zip(starts[others].tolist(), ends[others].tolist()))
    named: set[int] = set()
    for number, part in zip(others, spreading):
        task = graph.tasks[number]
        tid = FIRST_COLLECTIVE_LANE + part
        if part not in named:
            named.add(part)
            trace.lane(pid, tid, "communication" + (f" {part + 1}" if part else ""))
        about = _about(task, graph)
        if task.call is not None:
            about |= {"collective": task.call.kind.value, "bytes": task.call.size_bytes}
        kind = task.kind.name.lower()
        start, end = int(starts[number]), int(ends[number])
        trace.complete(pid, tid, task.name, kind, start, end, **about)


def _chunks(trace: TraceWriter, record: RunRecord, job: Job, shown: int) -> None:
    """Phases of chunks, in lanes of the queues that they pass."""
    chosen = record.spans[(record.spans["kind"] == PHASE_SPAN) & (record.spans["row"] < shown)]
    chosen = np.sort(chosen, order=["row", "lane", "start_fs", "chunk"])
    for spans in _runs(chosen, "row", "lane"):
        pid, queue = int(spans["row"][0]), int(spans["lane"][0])
        spreading = spread(zip(spans["start_fs"].tolist(), spans["end_fs"].tolist()))
        named: set[int] = set()
        for span, part in zip(spans, spreading):
            tid = FIRST_QUEUE_LANE + QUEUE_LANES * queue + part
            if part not in named:
                named.add(part)
                trace.lane(pid, tid, f"queue {queue}" + (f", {part + 1}" if part else ""))
            call, phase = int(span["call"]), int(span["phase"])
            name = f"{_call_name(record, job, call)} chunk {int(span['chunk'])}"
            what = record.phases.names[call][phase]
            start, end = int(span["start_fs"]), int(span["end_fs"])
            trace.complete(pid, tid, name, "chunk", start, end, phase=f"P{phase} {what}")


def _links(trace: TraceWriter, record: RunRecord, job: Job, shown: int) -> None:
    """Transfers, in one lane per link, in the process of the link's source."""
    chosen = record.spans[record.spans["kind"] == LINK_SPAN]
    chosen = np.sort(chosen, order=["lane", "start_fs"])
    lanes: dict[int, int] = {}
    for spans in _runs(chosen, "lane"):
        number = int(spans["lane"][0])
        link = record.links[number]
        if shown <= link.source < record.nodes:
            continue
        pid = link.source
        if link.source >= record.nodes and link.source not in lanes:
            trace.process(pid, vertex_name(link.source, record.nodes, record.switch_names))
        tid = FIRST_LINK_LANE + lanes.get(pid, 0)
        lanes[pid] = lanes.get(pid, 0) + 1
        target = vertex_name(link.target, record.nodes, record.switch_names)
        trace.lane(pid, tid, f"link → {target}, dimension {link.dimension}, lane {link.lane}")
        for span in spans:
            call, phase = int(span["call"]), int(span["phase"])
            name = f"{_call_name(record, job, call)} chunk {int(span['chunk'])}"
            start, end = int(span["start_fs"]), int(span["end_fs"])
            trace.complete(pid, tid, name, "link", start, end, phase=f"P{phase}")


def _call_name(record: RunRecord, job: Job, call: int) -> str:
    graph, task = record.calls[call]
    return job.graphs[graph].tasks[task].name


def _about(task: Task, graph: TaskGraph) -> dict[str, object]:
    layer = graph.layers[task.layer] if 0 <= task.layer < len(graph.layers) else None
    about: dict[str, object] = {"phase": task.phase.value, "iteration": task.iteration}
    return about if layer is None else {"layer": layer, **about}


def _runs(spans: Spans, *keys: str) -> Iterator[Spans]:
    """Slices of sorted spans within which all `keys` are the same."""
    if not len(spans):
        return
    changes = np.zeros(len(spans) - 1, dtype=bool)
    for key in keys:
        changes |= spans[key][1:] != spans[key][:-1]
    yield from np.split(spans, np.flatnonzero(changes) + 1)


def spread(intervals: Iterable[tuple[int, int]]) -> list[int]:
    """The lowest lane that is free for each interval; they come in order of their starts."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    used = 0
    lanes = []
    for start, end in intervals:
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, used = used, used + 1
        lanes.append(lane)
        heapq.heappush(busy, (end, lane))
    return lanes

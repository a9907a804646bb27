# SPDX-License-Identifier: Apache-2.0
"""The timeline of one NPU: iterations, layers, tasks, and chunks and links where they are recorded.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from sim.events.record import RunRecord
from sim.results.breakdown import layer_of
from sim.results.network import vertex_name
from sim.results.trace import LINK_SPAN, PHASE_SPAN, spread
from sim.workload.graph import Job, TaskGraph, TaskKind

__all__ = ["timeline_data"]

MOST_BARS, MOST_LANES, MOST_OF_QUEUE = 1500, 6, 2
"""Bars of a lane, and lanes for what overlaps: the longest bars are drawn, in the first lanes."""
SCATTER = 2654435761
"""Multiples of it, cut to 32 bits, put numbers in an order that spreads the first of them."""
NPU = 0

Bar = tuple[int, int, str, str]
"""Start and end in fs, text, and a class of its colour."""


def timeline_data(record: RunRecord, job: Job) -> tuple[dict[str, Any], str]:
    """Data of the chart ``timeline`` of the first NPU, and a caption that says what is left out."""
    graph = job.graphs[record.graph_of[NPU]]
    lanes, left_out = [], 0
    for name, bars in _lanes(record, job, graph):
        found = list(bars)
        longest = _longest(found)
        left_out += len(found) - len(longest)
        if longest:
            lanes.append({"name": name, "bars": [
                [start / 1e9, (end - start) / 1e9, text, colour]
                for start, end, text, colour in sorted(longest)
            ]})
    caption = f"{vertex_name(NPU, record.nodes)}"
    stands = record.folded and record.nodes > 1
    caption += f", which stands for all {record.nodes}." if stands else "."
    if left_out:
        caption += f" The longest bars of each lane are drawn; {left_out} shorter ones are not."
    if record.spans_left_out:
        total = len(record.spans) + record.spans_left_out
        kept = f"the first {len(record.spans)} of {total} chunks and transfers"
        caption += f" The run recorded {kept}."
    elif not len(record.spans) and record.call_phases is not None:
        caption += " Chunks and links are drawn for a run with --trace."
    return {"end": record.end_fs / 1e9, "lanes": lanes}, caption


def _longest(bars: Sequence[Bar]) -> list[Bar]:
    """The longest bars; of those that are as long as one another some from all of the time."""
    def place(number: int) -> tuple[int, int]:
        start, end, *_ = bars[number]
        return start - end, number * SCATTER % (1 << 32)

    return [bars[number] for number in sorted(range(len(bars)), key=place)[:MOST_BARS]]


def _lanes(record: RunRecord, job: Job, graph: TaskGraph) -> Iterable[tuple[str, Iterable[Bar]]]:
    tasks = _tasks(record, graph)
    yield "iteration", _merged(tasks, lambda number: f"iteration {graph.tasks[number].iteration}")
    computing = [each for each in tasks if graph.tasks[each[2]].kind is TaskKind.COMPUTE]
    if graph.layers and computing:
        yield "layer", _merged(
            computing,
            lambda number: (
                f"{layer_of(graph.layers, graph.tasks[number])}, {graph.tasks[number].phase.value}"
            ),
        )
    yield "compute", _bars(computing, graph, "compute")
    others = [each for each in tasks if graph.tasks[each[2]].kind is not TaskKind.COMPUTE]
    yield from _overlapping("communication", _bars(others, graph, "communication"))
    if len(record.spans):
        yield from _spans(record, job)


def _tasks(record: RunRecord, graph: TaskGraph) -> list[tuple[int, int, int]]:
    """Start, end and number of the tasks that ran, in this order."""
    starts, ends = record.task_start_fs[NPU].tolist(), record.task_end_fs[NPU].tolist()
    ran = [number for number in range(len(graph.tasks)) if starts[number] >= 0]
    return sorted((starts[number], ends[number], number) for number in ran)


def _merged(tasks: Sequence[tuple[int, int, int]], name: Any) -> Iterable[Bar]:
    """One bar for neighbours of the same name; the colours of bars alternate."""
    groups = groupby(tasks, key=lambda each: name(each[2]))
    for count, (text, run) in enumerate(groups):
        of = list(run)
        colour = ("even", "odd")[count % 2]
        yield of[0][0], max(end for _, end, _ in of), text, colour


def _bars(tasks: Sequence[tuple[int, int, int]], graph: TaskGraph, colour: str) -> list[Bar]:
    return [(start, end, graph.tasks[number].name, colour) for start, end, number in tasks]


def _overlapping(
    name: str, bars: Sequence[Bar], most: int = MOST_LANES
) -> Iterable[tuple[str, list[Bar]]]:
    """Lanes for bars that overlap; those that find no lane are in the last one."""
    lanes: dict[int, list[Bar]] = {}
    for bar, lane in zip(bars, spread((start, end) for start, end, *_ in bars)):
        lanes.setdefault(min(lane, most - 1), []).append(bar)
    for lane, of in sorted(lanes.items()):
        yield name + (f", {lane + 1}" if lane else ""), of


def _spans(record: RunRecord, job: Job) -> Iterable[tuple[str, Iterable[Bar]]]:
    """Phases of chunks by queue, and transfers by link, of this NPU."""
    spans = record.spans
    mine = spans[(spans["kind"] == PHASE_SPAN) & (spans["row"] == NPU)]
    for queue in sorted({*mine["lane"].tolist()}):
        bars = _of_chunks(record, job, mine[mine["lane"] == queue], "chunk")
        yield from _overlapping(f"queue {queue}", bars, MOST_OF_QUEUE)
    sent = spans[spans["kind"] == LINK_SPAN]
    for number, link in enumerate(record.links):
        if link.source == NPU:
            target = vertex_name(link.target, record.nodes)
            name = f"link → {target}" + (f", lane {link.lane}" if link.lane else "")
            yield name, _of_chunks(record, job, sent[sent["lane"] == number], "link")


def _of_chunks(record: RunRecord, job: Job, spans: Any, colour: str) -> list[Bar]:
    found = []
    for span in spans:
        graph, task = record.calls[int(span["call"])]
        name = job.graphs[graph].tasks[task].name
        text = f"{name} chunk {int(span['chunk'])}, phase {int(span['phase'])}"
        found.append((int(span["start_fs"]), int(span["end_fs"]), text, colour))
    return sorted(found)

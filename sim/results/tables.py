# SPDX-License-Identifier: Apache-2.0
"""Tables of a run. Where not said otherwise, times are means over all NPUs."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

import numpy as np

from gen.table import Cell, Column, Table
from sim.results.bounded import bounded
from sim.results.breakdown import Breakdown, TaskTimes, layer_of
from sim.results.metrics import METRICS, metrics, percent
from sim.units import FS_PER_S, number_of
from sim.workload.graph import TrainingPhase

__all__ = [
    "collectives_table",
    "iterations_table",
    "layers_table",
    "phases_table",
    "summary_table",
]

SUMMARY = (
    "time_s", "compute_s", "exposed_s", "delay_s", "idle_s", "exposed_percent", "endpoint_percent",
    "events", "evicted", "expired", "partials", "stalled", "bypassed", "ordinary",
    "ordinary_travel",
)
Key = TypeVar("Key", bound=Hashable)

DIVISION_NOTE = (
    "Exposed communication: the compute units wait for it. Overlapped: communication was in "
    "progress while they computed. Communication: from issue to end, summed over collectives, "
    "sends and receives, whether or not they run at the same time."
)
DELAY_NOTE = (
    "Queue delays are per chunk and phase of its collective, network and bus delays per message."
)


def summary_table(run: Breakdown) -> Table:
    """One row: the run, how long it took and where the time went."""
    record = run.record
    folded = " (folded)" if record.folded else ""
    found = metrics(run)
    names = [name for name in SUMMARY if name in found]
    limits = bounded(run)
    limited = [limits.name or None, found["limited_percent"]]
    return Table(
        f"{run.job.name} on {number_of(record.nodes, 'NPU')}{folded}",
        [
            *(METRICS[name] for name in names), Column("limited_by", "limited by"),
            METRICS["limited_percent"],
        ],
        [[*(found[name] for name in names), *limited]],
        note="; ".join(note for note in (run.job.note, *record.notes) if note),
    )


def iterations_table(run: Breakdown) -> Table:
    """One row per training iteration. Waits belong to the iteration of the task waited for."""
    table = Table("Iterations", [Column("iteration"), *_division_columns()], note=DIVISION_NOTE)
    for number, tasks in _grouped(run.tasks, lambda each: each.task.iteration):
        table.add(number, *_division(tasks))
    return table


def phases_table(run: Breakdown) -> Table:
    """One row per training phase: where compute units and endpoint are used.

    The endpoint counts as used while a collective, send or receive is in progress: all of the
    exposed time, and the overlapped part of the computing time.
    """
    table = Table(
        "Training phases",
        [Column("phase"), *_division_columns(), METRICS["endpoint_percent"]],
        note=DIVISION_NOTE,
    )
    for phase, tasks in _grouped(run.tasks, lambda each: each.task.phase):
        table.add(phase.value, *_division(tasks), _endpoint_use(tasks))
    return table


def layers_table(run: Breakdown) -> Table:
    """One row per layer and training phase, in the order in which they first occur."""
    known = run.record.call_phases is not None
    table = Table(
        "Layers",
        [
            Column("layer"),
            Column("phase"),
            *_division_columns(),
            METRICS["endpoint_percent"],
            Column("collectives"),
            Column("size_bytes", "size", "B"),
            *(_delay_columns(run) if known else []),
        ],
        note=f"{DIVISION_NOTE} {DELAY_NOTE}" if known else DIVISION_NOTE,
    )

    def key(each: TaskTimes) -> tuple[str, TrainingPhase]:
        return each.layer, each.task.phase

    for (layer, phase), tasks in _grouped(run.tasks, key):
        calls = run.calls_of.get((layer, phase), [])
        sizes = [each.task.call.size_bytes for each in tasks if each.task.call is not None]
        table.add(
            layer,
            phase.value,
            *_division(tasks),
            _endpoint_use(tasks),
            len(sizes),
            sum(sizes),
            *(_delays(run, calls) if known else []),
        )
    return table


def _delay_columns(run: Breakdown) -> list[Column]:
    phases = run.record.phases.queue_delay_fs.shape[1]
    return [
        *(Column(f"queue_delay_p{n}_s", f"queue delay P{n}", "µs", 3) for n in range(phases)),
        Column("network_delay_s", "network delay", "µs", 3),
        Column("bus_delay_s", "bus delay", "µs", 3),
        Column("messages"),
    ]


def collectives_table(run: Breakdown) -> Table:
    """One row per collective call, and where they are known per phase of its algorithm."""
    record = run.record
    known = record.call_phases is not None
    issued = "Issued by the first NPU, ended on the last."
    table = Table(
        "Collectives",
        [
            Column("call"),
            Column("task"),
            Column("layer"),
            Column("kind"),
            Column("size_bytes", "size", "B"),
            Column("issued_s", "issued", "µs", 3),
            Column("ended_s", "ended", "µs", 3),
            *(_phase_columns() if known else []),
        ],
        note=f"{DELAY_NOTE} {issued}" if known else issued,
    )
    for number, (graph, index) in enumerate(record.calls):
        task = run.job.graphs[graph].tasks[index]
        rows = record.graph_of == graph
        starts, ends = record.task_start_fs[rows, index], record.task_end_fs[rows, index]
        if task.call is None or not rows.any():
            continue
        for cells in _phase_cells(run, number) if known else [[]]:
            table.add(
                number,
                task.name,
                layer_of(run.job.graphs[graph].layers, task),
                task.call.kind.value,
                task.call.size_bytes,
                int(starts.min()) / FS_PER_S,
                int(ends.max()) / FS_PER_S,
                *cells,
            )
    return table


def _phase_columns() -> list[Column]:
    return [
        Column("chunks"),
        Column("algorithm_phase"),
        Column("queue_delay_s", "queue delay", "µs", 3),
        Column("phase_s", "time in phase", "µs", 3),
        Column("network_delay_s", "network delay", "µs", 3),
        Column("bus_delay_s", "bus delay", "µs", 3),
        Column("messages"),
    ]


def _phase_cells(run: Breakdown, call: int) -> Iterable[list[Cell]]:
    """Chunks, delays and messages of a call, phase by phase."""
    of = run.record.phases
    chunks = int(of.chunks[call])
    parts = max(1, chunks) * int(run.rows_of_call[call])
    for phase, name in enumerate(of.names[call]):
        messages = int(of.messages[call, phase])
        yield [
            chunks,
            f"P{phase} {name}",
            int(of.queue_delay_fs[call, phase]) / parts / FS_PER_S,
            int(of.time_fs[call, phase]) / parts / FS_PER_S,
            _mean(of.network_delay_fs[call, phase], messages),
            _mean(of.bus_delay_fs[call, phase], messages),
            messages,
        ]


def _grouped(
    tasks: Iterable[TaskTimes], key: Callable[[TaskTimes], Key]
) -> Iterable[tuple[Key, list[TaskTimes]]]:
    groups: dict[Key, list[TaskTimes]] = {}
    for each in tasks:
        groups.setdefault(key(each), []).append(each)
    return groups.items()


def _division_columns() -> list[Column]:
    return [
        METRICS["compute_s"],
        Column("overlapped_s", "overlapped", "µs", 3),
        Column("communication_s", "communication", "µs", 3),
        METRICS["exposed_s"],
        METRICS["delay_s"],
    ]


def _division(tasks: list[TaskTimes]) -> list[Cell]:
    return [
        sum(values) / FS_PER_S
        for values in (
            [each.compute_fs for each in tasks],
            [each.overlapped_fs for each in tasks],
            [each.communication_fs for each in tasks],
            [each.exposed_fs for each in tasks],
            [each.delay_fs for each in tasks],
        )
    ]


def _endpoint_use(tasks: list[TaskTimes]) -> float | None:
    used = sum(each.overlapped_fs + each.exposed_fs for each in tasks)
    return percent(used, sum(each.compute_fs + each.exposed_fs for each in tasks))


def _delays(run: Breakdown, calls: list[int]) -> list[Cell]:
    """Queue delay of each phase, network delay, bus delay, messages; for all calls together."""
    of = run.record.phases
    width = of.queue_delay_fs.shape[1]
    if not calls:
        return [*[None] * (width + 2), 0]
    chosen = np.array(calls)
    parts = np.maximum(of.chunks[chosen], 1) * run.rows_of_call[chosen]
    cells: list[Cell] = []
    for phase in range(width):
        having = np.array([phase < len(of.names[call]) for call in calls])
        delay = int(of.queue_delay_fs[chosen[having], phase].sum())
        cells.append(_mean(delay, int(parts[having].sum())))
    messages = int(of.messages[chosen].sum())
    cells.append(_mean(int(of.network_delay_fs[chosen].sum()), messages))
    cells.append(_mean(int(of.bus_delay_fs[chosen].sum()), messages))
    return [*cells, messages]


def _mean(total_fs: int, count: int) -> float | None:
    return int(total_fs) / count / FS_PER_S if count else None


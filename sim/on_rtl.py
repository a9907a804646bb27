"""A described training system with every endpoint as compiled RTL, as a record like any other."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hw.ace.config import AceConfig, preset
from sim.describe.build import System, build
from sim.describe.reader import ConfigError, TomlReader, load_toml, read_text
from sim.describe.sections import Description
from sim.describe.system import describe
from sim.described import RecordedRun
from sim.endpoint.kinds import AceEndpoint
from sim.events.record import RunRecord
from sim.network.dimension import DimensionKind
from sim.units import cycles_to_fs
from sim.workload.graph import Job

if TYPE_CHECKING:
    from sim.rtl.job import JobPlan

__all__ = ["LARGEST_RING", "run_on_rtl"]

PRESET = "ring"
LARGEST_RING = 8
PACE_TOLERANCE = 0.01


def run_on_rtl(path: Path, *, threads: int = 1) -> RecordedRun:
    """Run the training system described in *path* on compiled engines.

    The engines are those of the preset ``ring``, at the clock of the endpoint's NPU. Every NPU gets
    real data; what comes out is compared with numpy, bit for bit.

    Raises
    ------
    ConfigError
        The system is not one that the RTL can run: a ring of up to 8 NPUs with links of one bus
        beat per cycle, without faults, and collectives over all NPUs.
    RuntimeError
        A result differs from numpy's.
    """
    # Loads the compiler's output, and the hardware description language if there is none.
    from sim.cycles.ace.model import Surroundings
    from sim.rtl.job import plan_job
    from sim.rtl.run import draw_inputs, run_rtl

    text = read_text(path)
    reader = TomlReader(str(path), text)
    document = load_toml(text, source=str(path))
    table = document.setdefault("endpoint", {})
    if isinstance(table, dict):
        table["kind"] = "ace"
    description = describe(document, reader=reader, folder=path.parent)
    system = build(description)
    config = preset(PRESET)
    clock_hz = _clock_hz(system)
    around = Surroundings(
        nodes=system.network.nodes, latency_cycles=_latency(description, config, clock_hz)
    )
    try:
        plan = plan_job(system.job, config, around, clock_hz=clock_hz)
    except ValueError as error:
        raise reader.error("workload", "", f"does not run on RTL: {error}") from error
    inputs = draw_inputs(plan.commands, around.nodes, seed=1)
    outcome = run_rtl(config, around, plan.commands, plan.steps, inputs, threads=threads)
    if outcome.wrong:
        raise RuntimeError(
            f"{outcome.wrong} of {outcome.checked} results differ from numpy's: the RTL or its "
            "program is wrong"
        )
    job, plan = _as_run(system.job, plan)
    times = [
        plan.times(npu, outcome.steps[npu], begin=outcome.begin) for npu in range(around.nodes)
    ]
    record = _record(
        job,
        np.stack([each.start for each in times]),
        np.stack([each.end for each in times]),
        np.array(plan.graph_of, np.int32),
        clock_hz=clock_hz,
        wall_s=outcome.wall_s,
        note=f"every endpoint is RTL (preset {PRESET}); {outcome.checked} results equal numpy's",
    )
    return RecordedRun(record=record, job=job, network=system.network)


def _clock_hz(system: System) -> float:
    endpoint = system.endpoint
    assert isinstance(endpoint, AceEndpoint)
    return endpoint.npu.clock_hz


def _latency(description: Description, config: AceConfig, clock_hz: float) -> int:
    """Cycles of latency of the links, once the network is one that the RTL can have."""
    reader = description.reader

    def wrong(section: str, what: str) -> ConfigError:
        return reader.error(section, "", f"on RTL, {what}")

    if len(description.dimensions) != 1:
        raise wrong("topology", f"must have one dimension, not {len(description.dimensions)}")
    (ring,) = description.dimensions
    if DimensionKind(ring.kind) is not DimensionKind.RING or ring.lanes != 1:
        raise wrong("topology", "must be one ring")
    if not (ring.bidirectional and 2 <= ring.size <= LARGEST_RING):
        raise wrong("topology", f"must be a ring of 2 to {LARGEST_RING} with links both ways")
    if description.scenario.link or description.scenario.node:
        raise wrong("scenario", "must be empty")
    pace = config.bus_bytes * clock_hz
    if abs(ring.bandwidth_bytes_per_s / pace - 1) > PACE_TOLERANCE:
        raise wrong(
            "topology",
            f"bandwidth_bytes_per_s must be {pace:.4g}, {config.bus_bytes} B per cycle of "
            f"{clock_hz:.4g} Hz, not {ring.bandwidth_bytes_per_s:.4g}",
        )
    return max(1, round((ring.latency_s + ring.router_latency_s) * clock_hz))


def _as_run(job: Job, plan: "JobPlan") -> tuple[Job, "JobPlan"]:
    """The job with all that its hosts wait for, and the plan with updates in their collectives.

    A host is one thread, see :mod:`sim.rtl.job`: a task waits for its own causes, and for the
    collectives of the last time before it at which the host waited for all. A host's work
    between that and the next task is the update, which a record counts to the collective.
    """
    graphs, all_spans = [], []
    for graph, script, planned in zip(job.graphs, plan.scripts, plan.spans):
        starts = {first for first, _ in planned}
        spans = []
        for task, (first, last) in zip(graph.tasks, planned):
            follows = 0 <= last < len(script) - 1 and last + 1 not in starts
            spans.append((first, last + (task.call is not None and follows)))
        tasks = []
        for number, task in enumerate(graph.tasks):
            before = {
                other: spans[other][1]
                for other in range(number)
                if graph.tasks[other].call is not None and 0 <= spans[other][1] < spans[number][0]
            }
            latest = max(before.values(), default=-1)
            fenced = {other for other, step in before.items() if step == latest}
            after = tuple(sorted({*task.after, *fenced}))
            updated = task.call is None or spans[number] != planned[number]
            tasks.append(replace(task, after=after, duration_s=updated * task.duration_s))
        graphs.append(replace(graph, tasks=tuple(tasks)))
        all_spans.append(tuple(spans))
    made = replace(job, graphs=tuple(graphs), graph_of=plan.graph_of)
    return made, replace(plan, spans=tuple(all_spans))


def _busy(calls: list[tuple[int, int]], graph: int, start_fs: Any, end_fs: Any) -> int:
    """Time in which an NPU has at least one collective in progress."""
    busy = reached = 0
    chosen = [task for number, task in calls if number == graph and start_fs[task] >= 0]
    for task in sorted(chosen, key=lambda each: int(start_fs[each])):
        busy += max(0, int(end_fs[task]) - max(reached, int(start_fs[task])))
        reached = max(reached, int(end_fs[task]))
    return busy


def _record(
    job: Job,
    start: Any,
    end: Any,
    graph_of: Any,
    *,
    clock_hz: float,
    wall_s: float,
    note: str,
) -> RunRecord:
    """What is known of a run from outside the engines: tasks, and when collectives were on."""
    start_fs, end_fs = (
        np.where(cycles < 0, -1, cycles_to_fs(cycles, clock_hz))
        for cycles in (start, end)
    )
    ready_fs = np.zeros_like(start_fs)
    calls = []
    for graph, tasks in enumerate(each.tasks for each in job.graphs):
        rows = np.flatnonzero(graph_of == graph)
        for number, task in enumerate(tasks):
            if task.after:
                ready_fs[rows, number] = end_fs[np.ix_(rows, np.array(task.after))].max(axis=1)
            if task.call is not None:
                calls.append((graph, number))
    # A collective starts with its command, which comes after what it waits for.
    ready_fs = np.minimum(ready_fs, np.maximum(start_fs, 0))
    none = np.zeros((len(calls), 1), np.int64)
    npus = len(graph_of)
    return RunRecord(
        nodes=npus,
        folded=False,
        end_fs=int(end_fs.max(initial=0)),
        events=0,
        wall_s=wall_s,
        task_ready_fs=ready_fs,
        task_start_fs=start_fs,
        task_end_fs=end_fs,
        graph_of=graph_of,
        calls=calls,
        chunks=np.ones(len(calls), np.int64),
        phase_names=[["whole collective"]] * len(calls),
        queue_delay_fs=none,
        phase_time_fs=none,
        network_delay_fs=none,
        bus_delay_fs=none,
        messages=none,
        links=[],
        link_bytes=np.zeros(0, np.int64),
        link_busy_fs=np.zeros(0, np.int64),
        unit_names=[],
        unit_busy_fs=np.zeros((0, npus), np.int64),
        unit_bytes=np.zeros((0, npus), np.int64),
        engine_busy_fs=np.array([_busy(calls, *row) for row in zip(graph_of, start_fs, end_fs)]),
        bucket_fs=0,
        link_series_fs=np.zeros((0, 0), np.int64),
        spans=np.zeros(0, np.dtype([("kind", np.int8)])),
        notes=[note],
    )

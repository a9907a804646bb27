# SPDX-License-Identifier: Apache-2.0
"""Event simulations of descriptions."""

from collections.abc import Callable
from dataclasses import replace

from sim.describe.build import DescribedSystem
from sim.describe.sections import Description
from sim.endpoint.endpoint import plan_of
from sim.endpoint.kinds import Npu
from sim.engines.engine import engine_named
from sim.events.simulate import simulate
from sim.results.limits import held_note
from sim.runs.common import WINDOWS, notes_of_engine, shortest_s
from sim.runs.result import DataCheck, Run, RunParts
from sim.workload.graph import Job, TaskKind
from sim.workload.host import slowed, waits_are_alike

__all__ = ["run_events"]

ELEMENT_BYTES = 4
MOST_ELEMENTS = 1 << 22
"""Elements of all nodes together in the data of an event simulation; longer vectors are cut."""
MOST_WINDOWS = 200_000
"""Room for runs that take a thousand times as long as expected; eight bytes per dimension."""


def run_events(
    description: Description, system: DescribedSystem, report: Callable[[float], None] | None
) -> Run:
    """Run *description* at level ``events``."""
    section = description.engine
    if section is not None:
        known = engine_named(section.kind)
        if host_s := known.host_s(section, len(description.dimensions)):
            system = replace(system, job=_with_host(system.job, host_s))
        known.check_events(description, section, system.network)
    options = dict(system.options)
    if description.run.bucket_s is None:
        options |= {"bucket_s": shortest_s(system) / WINDOWS, "buckets": MOST_WINDOWS}
    record = simulate(
        system.network,
        system.job,
        endpoint=system.endpoint,
        scheduler=system.scheduler,
        algorithms=system.algorithms,
        share_applied=True,
        report=report,
        **options,
    )
    record.notes.extend(held_note(record, system.job, system.network))
    record.notes.extend(notes_of_engine(description))
    if description.engine is not None:
        estimate = f"preset {description.engine.preset} as events: an estimate"
        record.notes.append(f"{estimate}; {_at_cycles(description, system)}")
    record.notes.extend(_of_computations(description, system))
    data = _carry_out(description, system) if description.run.data else None
    return Run(RunParts(
        description=description, system=system, record=record, job=system.job,
        network=system.network, data=data,
    ))


def _at_cycles(description: Description, system: DescribedSystem) -> str:
    """Note on level ``cycles`` for the same description: that it counts, or why it does not."""
    from sim.engines.run import engine_group

    try:
        cycles = replace(description, level="cycles")
        ring = engine_group(cycles, system)
        waits = engine_named(ring.engine.kind).computes and description.host.wait != "all"
        if not waits or waits_are_alike(
            slowed(system.job, system.options["stragglers"], system.network.nodes)
        ):
            return 'endpoint.level = "cycles" counts the cycles'
        return 'endpoint.level = "cycles", with host.wait = "all", counts the cycles'
    except ValueError as error:
        return f"there is no count of the cycles: {error}"


def _of_computations(description: Description, system: DescribedSystem) -> list[str]:
    """A note on the part of the NPU that the endpoint leaves to computations, and its origin."""
    taken = system.endpoint.share()
    npu = getattr(description.endpoint, "npu", Npu())
    computes = any(
        task.kind is TaskKind.COMPUTE for graph in system.job.graphs for task in graph.tasks
    )
    memory = taken.memory_bytes_per_s
    if not computes or (taken.compute >= 1 and memory >= npu.memory_bytes_per_s):
        return []
    engine = description.engine
    by = f"the parameters of endpoint kind {description.kind}, without a preset"
    if engine is not None:
        by = f"preset {engine.preset}, whose memory ports take all that they can"
    units = f"{100 * taken.compute:.3g} % of the compute units"
    rest = f"{memory / 1e9:.4g} of {npu.memory_bytes_per_s / 1e9:.4g} GB/s of memory"
    return [f"training has {units} and {rest}, by {by}; modelled computations differ with it"]


def _with_host(job: Job, host_s: float) -> Job:
    """Collectives with the time that the host of an engine takes before and after each."""
    graphs = [
        replace(
            graph,
            tasks=tuple(
                task if task.call is None else replace(task, duration_s=task.duration_s + host_s)
                for task in graph.tasks
            ),
        )
        for graph in job.graphs
    ]
    return replace(job, graphs=tuple(graphs))


def _carry_out(description: Description, system: DescribedSystem) -> DataCheck:
    """Execute the plan of every different collective on real vectors and compare with numpy.

    Raises
    ------
    ConfigError
        A job without collectives has no data.
    """
    from sim.collectives.execute import what_is_wrong

    calls = {
        (task.call.kind, task.call.size_bytes, task.call.dimensions)
        for graph in system.job.graphs
        for task in graph.tasks
        if task.call is not None and task.call.size_bytes
    }
    if not calls:
        raise description.reader.error("run", "data", "must be false for a job without collectives")
    wrong, nodes = 0, system.network.nodes
    for kind, size_bytes, dimensions in sorted(calls, key=str):
        view, inside = system.network.view(dimensions)
        plan = plan_of(system.endpoint, view, kind, system.algorithms[kind], inside)
        found = what_is_wrong(
            view,
            plan,
            kind,
            elements=max(1, min(size_bytes // ELEMENT_BYTES, MOST_ELEMENTS // nodes)),
            dimensions=inside,
            seed=description.run.seed,
        )
        wrong += found is not None
    return DataCheck(results=len(calls), wrong=wrong)

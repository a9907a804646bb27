"""Run a described training system, and record what figures and traces need."""

from dataclasses import dataclass, replace
from pathlib import Path

from sim.describe.build import System, build
from sim.describe.reader import ConfigError, TomlReader, load_toml, read_text
from sim.describe.system import describe, is_training_system
from sim.events.record import RunRecord
from sim.limits.network import call_bound
from sim.network.network import Network
from sim.workload.graph import Job

__all__ = ["RecordedRun", "is_described", "run_recorded"]

WINDOWS = 200
MOST_WINDOWS = 200_000
"""Room for runs that take a thousand times as long as expected; eight bytes per dimension."""


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """A run and the network on which it ran."""

    record: RunRecord
    job: Job
    network: Network


def is_described(path: Path) -> bool:
    """Whether the file *path* describes a training system, not a collective on RTL."""
    document = load_toml(read_text(path), source=str(path))
    if not document:
        raise ConfigError(
            f"{path}: describes nothing; a training system has [workload] or [astra], a collective "
            "on RTL has [collective]"
        )
    return is_training_system(document)


def run_recorded(
    path: Path, *, endpoint: str | None = None, trace: bool | None = None
) -> RecordedRun:
    """Run the training system described in *path*.

    Utilisation over time is recorded also where the description does not say in which windows:
    then their width follows from how long the run takes at least.

    Parameters
    ----------
    endpoint
        Kind to use in place of the one in the file; None for that one.
    trace
        Whether to record chunks and transfers for the trace; None for what the file says.

    Raises
    ------
    ConfigError
        Naming file, line if known, key, value and what is allowed.
    SimulationError
        If the system cannot finish.
    """
    from sim.events.simulate import simulate

    text = read_text(path)
    document = load_toml(text, source=str(path))
    if endpoint is not None:
        table = document.setdefault("endpoint", {})
        if isinstance(table, dict):
            table["kind"] = endpoint
    description = describe(document, reader=TomlReader(str(path), text), folder=path.parent)
    if trace is not None:
        description = replace(description, run=replace(description.run, trace=trace))
    system = build(description)
    options = dict(system.options)
    if description.run.bucket_s is None:
        options |= {"bucket_s": _shortest_s(system) / WINDOWS, "buckets": MOST_WINDOWS}
    try:
        record = simulate(
            system.network,
            system.job,
            endpoint=system.endpoint,
            scheduler=system.scheduler,
            algorithms=system.algorithms,
            **options,
        )
    except ConfigError:
        raise
    except ValueError as error:
        # Parts that are right by themselves and do not fit together.
        raise ConfigError(f"{path}: {error}") from error
    return RecordedRun(record=record, job=system.job, network=system.network)


def _shortest_s(system: System) -> float:
    """The computations of an NPU, or the bounds of its collectives one after the other."""
    shortest = 1e-9  # a run of nothing still has one window
    bounds: dict[object, float] = {}
    for graph in system.job.graphs:
        computing = communicating = 0.0
        for task in graph.tasks:
            if task.call is None:
                computing += task.duration_s
                continue
            key = (task.call.kind, task.call.size_bytes, task.call.dimensions)
            if key not in bounds:
                bounds[key] = call_bound(system.network, task.call).seconds
            communicating += bounds[key]
        shortest = max(shortest, computing, communicating)
    return shortest

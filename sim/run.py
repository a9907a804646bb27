"""One run of one description, at whatever level: events, cycle models, RTL, or mixed.

``run`` returns the same type at every level; sweeps, comparisons, traces and figures work on it
and do not know the level.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gen.arguments import typed
from gen.extras import has_extra
from sim.describe.build import DescribedSystem, build
from sim.describe.changes import apply
from sim.describe.endpoints import with_endpoint
from sim.describe.reader import ConfigError, TomlReader, load_toml, read_text
from sim.describe.sections import Description
from sim.describe.system import describe
from sim.endpoint.kinds import Npu
from sim.engines.engine import engine_named
from sim.events.record import RunRecord
from sim.fields import check_type
from sim.limits.network import call_bound
from sim.network.network import Network
from sim.units import FS_PER_S
from sim.workload.graph import Job, TaskKind
from sim.workload.host import slowed, wait_for_all, waits_are_alike

if TYPE_CHECKING:
    from gen.table import Table
    from sim.results.breakdown import Breakdown
    from sim.results.links import LinkSeries
    from sim.results.network import Series
    from sim.results.store import SavedRun
    from sim.rtl.run import EngineRun
    from sim.rtl.signals import SignalTrace

__all__ = ["DataCheck", "Run", "run"]

ELEMENT_BYTES = 4
MOST_ELEMENTS = 1 << 22
"""Elements of all nodes together in the data of an event simulation; longer vectors are cut."""
WINDOWS = 200
MOST_WINDOWS = 200_000
"""Room for runs that take a thousand times as long as expected; eight bytes per dimension."""


@dataclass(frozen=True, kw_only=True)
class DataCheck:
    """Results that were compared with numpy's, bit for bit, and those that differed."""

    results: int
    wrong: int

    @property
    def exact(self) -> bool:
        return self.results > 0 and self.wrong == 0


@dataclass(frozen=True, kw_only=True)
class Run:
    """Result of a run.

    Parameters
    ----------
    record : RunRecord
        Everything that was measured, raw.
    job : Job
        The job that ran, with all waits of the hosts.
    data : DataCheck or None
        None where no data took part: cycle models, and events unless ``[run] data`` asks for it.
    engines : EngineRun or None
        Cycles of every engine, at levels ``cycles`` and ``rtl``.
    signals : mapping of int to SignalTrace
        By node, what ``[run] trace_signals`` asks for; saved as ``signals.vcd``.
    algorithm : str
        The one taken where the description leaves the choice (``algorithm = "auto"``).

    Tables are attributes by the names of their files: ``summary``, ``iterations``, ``phases``,
    ``layers``, ``collectives``, ``dimensions``, ``endpoints``, ``limits``, ``links``.
    """

    description: Description
    system: DescribedSystem
    record: RunRecord
    job: Job
    data: DataCheck | None = None
    engines: "EngineRun | None" = None
    signals: "Mapping[int, SignalTrace]" = field(default_factory=dict)
    algorithm: str = ""

    @property
    def network(self) -> Network:
        return self.system.network

    @property
    def level(self) -> str:
        """``events``, ``cycles`` or ``rtl``; ``mixed`` where nodes differ."""
        d = self.description
        alone = not d.levels and not d.switch_on and d.switch_level in (None, d.level)
        return d.level if alone else "mixed"

    @property
    def time_s(self) -> float:
        """From the first register write of a host (or the first issue) to the last completion."""
        return self.record.end_fs / FS_PER_S

    @cached_property
    def breakdown(self) -> "Breakdown":
        """Time that every task took, and the causes of its waits."""
        from sim.results.breakdown import break_down

        return break_down(self.record, self.job)

    @cached_property
    def utilisation(self) -> "Series":
        """Utilisation of compute units and links over time."""
        from sim.results.network import utilisation

        return utilisation(self.record, self.job)

    @cached_property
    def tables(self) -> "Mapping[str, Table]":
        """All tables by name; a column that the level cannot know is absent."""
        from sim.results.limits import limits_table
        from sim.results.network import links_table
        from sim.results.store import tables

        made = tables(self.breakdown)
        made["limits"] = limits_table(self.record, self.job, self.network)
        made["links"] = links_table(self.record)
        return made

    def __getattr__(self, name: str) -> "Table":
        if not name.startswith("_") and name in (tables := self.tables):
            return tables[name]
        raise AttributeError(f"a run has no {name!r}")

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Plain numbers, the same on every machine: those of `sim.results.metrics` that the level
        knows, and the number of results that were compared with numpy's."""
        from sim.results.metrics import metrics

        return metrics(self.breakdown) | self._compared

    @property
    def _compared(self) -> dict[str, float]:
        if self.data is None:
            return {}
        return {"results": float(self.data.results), "wrong": float(self.data.wrong)}

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Origin of the results: level, engine and its configuration, seed, description's hash."""
        d = self.description
        made: dict[str, Any] = {"level": self.level, "endpoint": d.kind, "seed": d.run.seed}
        if d.engine is not None:
            made |= {
                "preset": d.engine.preset,
                "clock_hz": d.engine.clock_hz,
                "config": d.engine.config.describe(),
            }
        if d.levels:
            made["levels"] = {str(node): level for node, level in sorted(d.levels.items())}
        if d.switch_on or d.switch_level not in (None, d.level):
            made["switch_level"] = d.switch_level or d.level
            made["switch_levels"] = {
                str(number): each.level for each in d.switch_on for number in sorted(each.switches)
            }
        if self.algorithm:
            made["algorithm"] = self.algorithm
        made["description"] = d.digest
        return made

    @typed("folder")
    def save(
        self, folder: Path | str, *, name: str | None = None, figures: bool = True
    ) -> "SavedRun":
        """Write tables, figures and trace into *folder*; see :func:`sim.results.store.save_run`."""
        from sim.results.store import save_run

        saved = save_run(
            self.record,
            self.job,
            folder,
            name=name,
            figures=figures,
            network=self.network,
            data=self._compared,
            provenance=self.provenance,
        )
        if figures and self.engines is not None and has_extra("figures"):
            from sim.results.figures import utilisation_figure

            links, interval = self.link_series
            of = "of the ring" if self._link_name is None else "to the switches"
            title = f"{saved.name}: links {of}"
            path = Path(folder) / "links.svg"
            utilisation_figure(path, links, interval_cycles=interval, title=title)
        if self.signals:
            from sim.rtl.signals import write_signals

            assert self.description.engine is not None
            clock_hz = self.description.engine.clock_hz
            write_signals(Path(folder) / "signals.vcd", self.signals, clock_hz=clock_hz)
        return saved

    @property
    def link_series(self) -> "tuple[list[LinkSeries], int]":
        """Load of each link of a ring of engines over time (or of each link from an endpoint to a
        switch), and the cycles of an interval."""
        from sim.results.links import ring_series

        engine, done = self.description.engine, self.engines
        if engine is None or done is None:
            raise ValueError("links over time, one by one, are known at levels cycles and rtl only")
        flits = engine.config.bus_bytes // 16
        end = done.begin + done.cycles
        return ring_series(
            done.links, nodes=self.record.nodes, begin=done.begin, end=end, flits=flits,
            name=self._link_name,
        )

    @property
    def _link_name(self) -> Callable[[int, int], str] | None:
        """Names of the links of a rank in figures; None for rings."""
        section = self.description.engine
        return None if section is None else engine_named(section.kind).link_name(section)


@typed("description", "endpoint", "trace")
def run(
    description: Mapping[str, Any] | str | Path | Description,
    *,
    endpoint: str | None = None,
    trace: bool | None = None,
    source: str | None = None,
    changes: Mapping[str, Any] | None = None,
    report: Callable[[float], None] | None = None,
) -> Run:
    """Run the system of *description*: a file, or the contents of such a file as a dictionary.

    Parameters
    ----------
    endpoint
        Kind, or ``kind:level``, in place of the one in the description.
    trace
        Record chunks and transfers for the trace (events); None: as described.
    changes
        Dotted key -> value, in place of the description's: ``{"run.passes": 1}``.
    source
        Name of a dictionary in errors; files that it names are relative to the folder of that path.
    report
        Called now and then, from another thread, with the share of the work that is done (events).

    Raises
    ------
    ConfigError
        Naming file, line if known, key, value and what is allowed.
    SimulationError
        If the system cannot finish: its nodes wait for each other.
    """
    check_type(
        "description",
        description,
        "the path of a file, or a mapping",
        isinstance(description, Mapping | str | Path | Description),
    )
    check_type("endpoint", endpoint, "KIND or KIND:LEVEL", isinstance(endpoint, str | None))
    check_type("trace", trace, "True, False or None", isinstance(trace, bool | None))
    if not isinstance(description, Description):
        description = _read(description, endpoint, source, changes or {})
    elif endpoint is not None or changes:
        name = "changes" if changes else "endpoint"
        raise ValueError(f"{name} must be None for a description that has been read")
    if description.alternatives:
        return _fastest(description, trace, report)
    if trace is not None and description.level == "events":
        description = replace(description, run=replace(description.run, trace=trace))
    system = build(description)
    if description.host.wait == "all":
        system = replace(system, job=wait_for_all(system.job))
    try:
        if description.level == "events":
            done = _run_events(description, system, report)
        else:
            done = _run_engines(description, system)
        if description.left_out:
            keys = ", ".join(description.left_out)
            done.record.notes.append(f"left out, without meaning for {description.kind}: {keys}")
        return done
    except ConfigError:
        raise
    except (ValueError, ArithmeticError) as error:
        # Parts that are valid by themselves but do not fit together.
        raise ConfigError(f"{description.reader.source}: {error}") from error


def _fastest(
    description: Description, trace: bool | None, report: Callable[[float], None] | None
) -> Run:
    """The run of the alternative that takes the shortest time."""
    runs: dict[str, Run] = {}
    for name, each in description.alternatives.items():
        before = len(runs) / len(description.alternatives)

        def part(share: float, before: float = before) -> None:
            assert report is not None
            report(before + share / len(description.alternatives))

        runs[name] = run(each, trace=trace, report=part if report else None)
    taken = min(runs, key=lambda name: runs[name].time_s)
    times = ", ".join(f"{name} {1e6 * each.time_s:.4g} us" for name, each in runs.items())
    found = runs[taken]
    found.record.notes.append(f"algorithm auto: {taken}, the fastest of {times}")
    described = replace(found.description, digest=description.digest)
    return replace(found, description=described, algorithm=taken)


def _read(
    given: Mapping[str, Any] | str | Path,
    endpoint: str | None,
    source: str | None,
    changes: Mapping[str, Any],
) -> Description:
    if isinstance(given, Mapping):
        reader = TomlReader(source or "system")
        document = copy.deepcopy(dict(given)) if changes else dict(given)
        folder = Path(source).parent if source else Path()
    else:
        text = read_text(given)
        document = load_toml(text, source=str(given))
        reader, folder = TomlReader(str(given), text), Path(given).parent
    left_out: tuple[str, ...] = ()
    if endpoint is not None:
        document, left_out = with_endpoint(document, endpoint)
    apply(document, changes, reader)
    return replace(describe(document, reader=reader, folder=folder), left_out=left_out)


# ---- Events.


def _run_events(
    description: Description, system: DescribedSystem, report: Callable[[float], None] | None
) -> Run:
    # Compiling takes a while the first time, loading compiled code a tenth of a second.
    from sim.events.simulate import simulate
    from sim.results.limits import held_note

    section = description.engine
    if section is not None:
        known = engine_named(section.kind)
        if host_s := known.host_s(section.clock_hz, len(description.dimensions)):
            system = replace(system, job=_with_host(system.job, host_s))
        known.check_events(description, section, system.network)
    options = dict(system.options)
    if description.run.bucket_s is None:
        options |= {"bucket_s": _shortest_s(system) / WINDOWS, "buckets": MOST_WINDOWS}
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
    record.notes.extend(_notes_of_engine(description))
    if description.engine is not None:
        estimate = f"preset {description.engine.preset} as events: an estimate"
        record.notes.append(f"{estimate}; {_at_cycles(description, system)}")
    record.notes.extend(_of_computations(description, system))
    data = _carry_out(description, system) if description.run.data else None
    return Run(description=description, system=system, record=record, job=system.job, data=data)


def _at_cycles(description: Description, system: DescribedSystem) -> str:
    """Note on level ``cycles`` for the same description: that it counts, or why it does not."""
    from sim.engines.run import engine_ring

    try:
        cycles = replace(description, level="cycles")
        ring = engine_ring(cycles, system)
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
    from sim.collectives.plan import plan_collective

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
        plan = plan_collective(
            view, kind, system.algorithms[kind], inside,
            in_switch=getattr(system.endpoint, "in_switch", None),
        )
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


def _shortest_s(system: DescribedSystem) -> float:
    """Time of an NPU's computations, or bounds of its collectives in sequence, the longest of all.
    """
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
                reduces = getattr(system.endpoint, "in_switch", None) is not None
                bound = call_bound(system.network, task.call, network_reduces=reduces)
                bounds[key] = bound.seconds
            communicating += bounds[key]
        shortest = max(shortest, computing, communicating)
    if not math.isfinite(shortest):
        links = "links that failed cut NPUs off from others that they need"
        raise ValueError(f"scenario.link: {links}")
    return shortest


# ---- Cycle models and RTL.


def _run_engines(description: Description, system: DescribedSystem) -> Run:
    # Loads the hardware description language if an engine has to be compiled.
    from hw.fp.ops import ReduceOp
    from sim.engines.run import engine_ring
    from sim.rtl.job import Wait, plan_job
    from sim.rtl.record import record_of
    from sim.rtl.run import draw_inputs, run_engines

    ring = engine_ring(description, system)
    engine, settings = ring.engine, ring.settings
    job = slowed(system.job, system.options["stragglers"], settings.nodes)
    wait: Wait = "all" if description.host.wait == "all" else "each"
    if wait == "each" and waits_are_alike(job):
        wait = "all"
    try:
        plan = plan_job(
            _by_rank(job, ring.nodes),
            engine.kind,
            ring.config,
            settings,
            clock_hz=engine.clock_hz,
            wait=wait,
            op=ReduceOp[description.workload.op.upper()],
            compress=engine.compress,
        )
    except ValueError as error:
        for section, key in (("host", "wait"), ("workload", "op")):
            if str(error).startswith(f"{key} "):
                what = str(error).removeprefix(f"{key} ")
                raise description.reader.error(section, key, what) from error
        what = f"does not run at level {description.level!r}: {error}"
        raise description.reader.error("workload", "", what) from error
    options: dict[str, Any] = {"bucket_cycles": _bucket_cycles(description, system)}
    if "rtl" in ring.levels:
        options |= {"threads": description.run.threads, **ring.options}
        options["trace_signals"] = description.run.trace_signals
    done = _traced(
        description,
        lambda: run_engines(
            engine.kind,
            ring.config,
            settings,
            plan.commands,
            plan.steps,
            draw_inputs(plan.commands, settings.nodes, seed=description.run.seed),
            levels=cast(Any, ring.levels),
            **options,
        ),
    )
    record, job = record_of(
        job,
        plan,
        done,
        system.network,
        clock_hz=engine.clock_hz,
        bus_bytes=engine.config.bus_bytes,
        nodes=ring.nodes,
        crossed=ring.crossed,
        network_reduces=engine_named(engine.kind).network_reduces,
        wire_factor=getattr(engine.config, "wire_factor", 1.0),
    )
    data = DataCheck(results=done.checked, wrong=done.wrong) if done.checked else None
    record.notes.extend(_notes_of_engine(description))
    record.notes.append(_note(description, ring.levels, data) + _of_links(done.counts))
    signals = {ring.nodes[rank]: each for rank, each in done.signals.items()}
    for node, each in signals.items():
        if not each.complete:
            record.notes.append(f"signals of node {node}: there was no room for later changes")
    return Run(
        description=description, system=system, record=record, job=job, data=data, engines=done,
        signals=signals,
    )


def _traced(description: Description, work: "Callable[[], EngineRun]") -> "EngineRun":
    """Result of *work*; an unknown signal is reported as an error of the description."""
    try:
        return work()
    except ValueError as error:
        if not str(error).startswith("trace: "):
            raise
        what = str(error).removeprefix("trace: ")
        raise description.reader.error("run", "trace_signals", what) from error


def _by_rank(job: Job, nodes: Sequence[int]) -> Job:
    """The job with ranks for nodes."""
    if job.graph_of is None:
        return job
    return replace(job, graph_of=tuple(job.graph_of[node] for node in nodes))


def _bucket_cycles(description: Description, system: DescribedSystem) -> int:
    assert description.engine is not None
    clock_hz = description.engine.clock_hz
    stated = description.run.bucket_s
    width_s = _shortest_s(system) / WINDOWS if stated is None else stated
    return max(16, math.ceil(width_s * clock_hz))


def _notes_of_engine(description: Description) -> list[str]:
    section = description.engine
    return [] if section is None else engine_named(section.kind).notes(description, section)


def _of_links(counts: Mapping[str, int]) -> str:
    """Text on resent frames and faults of wires, if links have retry."""
    if "frames_resent" not in counts:
        return ""
    from sim.rtl.system import WIRE_FAULTS

    faults = ", ".join(f"{counts[f'wires_{what}']} {what}" for what in WIRE_FAULTS)
    return (
        f"; of the packets on wires {faults}, {counts['frames_resent']} frames were sent again"
    )


def _note(description: Description, levels: Sequence[str], data: DataCheck | None) -> str:
    """Note on the engines that ran; *levels* are those of nodes, then of switches that reduce."""
    engine = description.engine
    assert engine is not None
    nodes = math.prod(each.size for each in description.dimensions)

    def shown(of: Sequence[str]) -> str:
        return " and ".join(
            f"{of.count(level)} as {'RTL' if level == 'rtl' else 'cycle models'}"
            for level in dict.fromkeys(of)
        )

    text = f"engines: {engine.kind}, preset {engine.preset}, {shown(levels[:nodes])}"
    if len({*levels}) > 1 and len(levels) > nodes:
        text += f"; of switches {shown(levels[nodes:])}"
    if data_format := engine_named(engine.kind).format_note(engine):
        text += f"; {data_format}"
    if data is None:
        return text
    verdict = "all equal numpy's" if data.exact else f"{data.wrong} differ from numpy's"
    return f"{text}; of {data.results} results {verdict}"

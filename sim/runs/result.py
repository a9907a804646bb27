# SPDX-License-Identifier: Apache-2.0
"""The result of a run: one type at every level, for runs that have just ended and for saved ones.
"""

import html
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from gen.arguments import typed
from gen.brief import Brief
from gen.extras import has_extra
from gen.table import Column, NamedTables, Table
from sim.events.record import RunRecord
from sim.network.network import Network
from sim.units import FS_PER_S, number_of
from sim.workload.graph import Job

if TYPE_CHECKING:
    from sim.describe.build import DescribedSystem
    from sim.describe.sections import Description
    from sim.results.breakdown import Breakdown
    from sim.results.links import LinkSeries
    from sim.results.network import Series
    from sim.results.store import SavedRun
    from sim.rtl.harness.signals import SignalTrace
    from sim.runs.scripts import EngineRun

__all__ = ["DataCheck", "Run", "RunParts", "returning_a_run"]

P = ParamSpec("P")
T = TypeVar("T")
IN_MEMORY = (
    "breakdown", "description", "engines", "job", "link_series", "network", "record", "save",
    "signals", "system", "utilisation", "with_parts",
)
"""Attributes that a run which was read from a folder does not have."""


@dataclass(frozen=True, kw_only=True)
class DataCheck:
    """Results that were compared with numpy's, bit for bit, and those that differed."""

    results: int
    wrong: int

    @property
    def exact(self) -> bool:
        return self.results > 0 and self.wrong == 0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunParts(Brief):
    """All parts of a run that has just ended.

    Parameters
    ----------
    record : RunRecord
        Everything that was measured, raw.
    job : Job
        The job that ran, with all waits of the hosts.
    description, system : Description, DescribedSystem or None
        None where network and job were given in Python.
    data : DataCheck or None
        None where no data took part: cycle models, and events unless ``[run] data`` asks for it.
    engines : EngineRun or None
        Cycles of every engine, at levels ``cycles`` and ``rtl``.
    signals : mapping of int to SignalTrace
        By node, what ``[run] trace_signals`` asks for; saved as ``signals.vcd``.
    algorithm : str
        The one taken where the description leaves the choice (``algorithm = "auto"``).
    """

    record: RunRecord
    job: Job
    network: Network
    description: "Description | None" = None
    system: "DescribedSystem | None" = None
    data: DataCheck | None = None
    engines: "EngineRun | None" = None
    signals: "Mapping[int, SignalTrace]" = field(default_factory=dict)
    algorithm: str = ""

    @property
    def name(self) -> str:
        origin = None if self.description is None else self.description.origin
        return Path(origin.source).stem if origin and origin.source else self.job.name

    @property
    def level(self) -> str:
        d = self.description
        if d is None:
            return "events"
        alone = not d.levels and not d.switch_on and d.switch_level in (None, d.level)
        return d.level if alone else "mixed"

    def provenance(self) -> dict[str, Any]:
        """Origin of the results: level, engine and its configuration, seed, description's hash."""
        d = self.description
        if d is None:
            return {"level": self.level}
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

    def further(self) -> dict[str, float]:
        """Metrics that the record alone does not tell."""
        from sim.results.limits import bandwidths

        found = bandwidths(self.record, self.job, self.network)
        if self.data is not None:
            found |= {"results": float(self.data.results), "wrong": float(self.data.wrong)}
        return found


class Run:
    """Result of a run, by `fw.run`, `fw.simulate` or `fw.load_run`.

    All have metrics, and tables as attributes by the names of their files: ``summary``,
    ``iterations``, ``phases``, ``layers``, ``collectives``, ``dimensions``, ``endpoints``,
    ``bounded``, ``limits``, ``links``. What only a run in memory has (``record``, ``job``,
    ``network``, ...) is an AttributeError of one that was read from a folder, which says so;
    ``description`` and ``system`` are those of `fw.run`. Runs that were read are equal if all their
    results are.
    """

    def __init__(self, of: "RunParts | SavedRun") -> None:
        self._of = of

    def with_parts(self, **parts: Any) -> "Run":
        """The run in memory with other parts of `RunParts`."""
        return Run(replace(self._in_memory("with_parts"), **parts))

    def _in_memory(self, what: str) -> RunParts:
        if isinstance(self._of, RunParts):
            return self._of
        again = f"run {self._of.folder / 'system.toml'} again"
        raise AttributeError(f"a run that was read from a folder has no {what!r}: {again}")

    def _described(self, what: str) -> Any:
        found = getattr(self._in_memory(what), what)
        if found is None:
            raise AttributeError(f"a run of fw.simulate has no {what!r}, but network and job")
        return found

    @property
    def name(self) -> str:
        """That of the description's file, of the job, or of a saved run."""
        return self._of.name

    @property
    def job_name(self) -> str:
        return self._of.job.name if isinstance(self._of, RunParts) else self._of.job

    @property
    def record(self) -> RunRecord:
        """Everything that was measured, raw."""
        return self._in_memory("record").record

    @property
    def job(self) -> Job:
        """The job that ran, with all waits of the hosts."""
        return self._in_memory("job").job

    @property
    def network(self) -> Network:
        return self._in_memory("network").network

    @property
    def description(self) -> "Description":
        made: Description = self._described("description")
        return made

    @property
    def system(self) -> "DescribedSystem":
        made: DescribedSystem = self._described("system")
        return made

    @property
    def engines(self) -> "EngineRun | None":
        """Cycles of every engine, at levels ``cycles`` and ``rtl``."""
        return self._in_memory("engines").engines

    @property
    def signals(self) -> "Mapping[int, SignalTrace]":
        """By node, what ``[run] trace_signals`` asks for; saved as ``signals.vcd``."""
        return self._in_memory("signals").signals

    @property
    def data(self) -> DataCheck | None:
        """Results compared with numpy's; None where no data took part."""
        if isinstance(self._of, RunParts):
            return self._of.data
        found = self.metrics.get("results")
        wrong = int(self.metrics.get("wrong", 0))
        return None if found is None else DataCheck(results=int(found), wrong=wrong)

    @property
    def algorithm(self) -> str:
        """The one taken where the description leaves the choice (``algorithm = "auto"``)."""
        return str(self.provenance.get("algorithm", ""))

    @property
    def level(self) -> str:
        """``events``, ``cycles`` or ``rtl``; ``mixed`` where nodes differ."""
        return str(self.provenance.get("level", "events"))

    @property
    def nodes(self) -> int:
        return int(self.metrics["nodes"])

    @property
    def folded(self) -> bool:
        """True if one node stands for all."""
        return bool(self.metrics["folded"])

    @property
    def events(self) -> int | None:
        """Number of the events of a simulation at level ``events``."""
        found = self.metrics.get("events")
        return None if found is None else int(found)

    @property
    def time_s(self) -> float:
        """From the first register write of a host (or the first issue) to the last completion."""
        return self.end_fs / FS_PER_S

    @property
    def end_fs(self) -> int:
        """The same in femtoseconds."""
        if isinstance(self._of, RunParts):
            return self._of.record.end_fs
        return round(self._of.metrics["time_s"] * FS_PER_S)

    @property
    def notes(self) -> list[str]:
        """Remarks on the run: chosen settings, causes, the engines that ran."""
        return self.summary.note.split("; ") if self.summary.note else []

    @cached_property
    def breakdown(self) -> "Breakdown":
        """Time that every task took, and the causes of its waits."""
        from sim.results.breakdown import break_down

        of = self._in_memory("breakdown")
        return break_down(of.record, of.job)

    @cached_property
    def utilisation(self) -> "Series":
        """Utilisation of compute units and links over time."""
        from sim.results.network import utilisation

        of = self._in_memory("utilisation")
        return utilisation(of.record, of.job)

    @cached_property
    def tables(self) -> NamedTables:
        """All tables by name; a column that the level cannot know is absent."""
        of = self._of
        if not isinstance(of, RunParts):
            return NamedTables({**of.tables, **({"links": of.links()} if of.headers else {})})
        from sim.results.limits import limits_table
        from sim.results.network import links_table
        from sim.results.store import tables

        made = tables(self.breakdown)
        made["limits"] = limits_table(of.record, of.job, of.network)
        made["links"] = links_table(of.record)
        return made

    @property
    def summary(self) -> "Table":
        """Run time, compute, exposed communication, delay, idle time."""
        return self.tables["summary"]

    @property
    def iterations(self) -> "Table":
        """The same by training iteration."""
        return self.tables["iterations"]

    @property
    def phases(self) -> "Table":
        """The same by training phase."""
        return self.tables["phases"]

    @property
    def layers(self) -> "Table":
        """The same by layer and phase."""
        return self.tables["layers"]

    @property
    def collectives(self) -> "Table":
        """Queue, network and bus delay per call and phase of its algorithm."""
        return self.tables["collectives"]

    @property
    def dimensions(self) -> "Table":
        """Bytes, rate and utilisation of the links of each dimension."""
        return self.tables["dimensions"]

    @property
    def endpoints(self) -> "Table":
        """Utilisation of memory, buses and units of the endpoints."""
        return self.tables["endpoints"]

    @property
    def bounded(self) -> "Table":
        """Part of the run time that twice of each unit would save, the largest first."""
        return self.tables["bounded"]

    @property
    def limited_by(self) -> str:
        """The first of these units: what bounds the run; empty if nothing does."""
        if not isinstance(self._of, RunParts):
            return self._of.limited_by
        from sim.results.bounded import bounded

        return bounded(self.breakdown).name

    @property
    def limits(self) -> "Table":
        """Lower bound of each collective, its cause, and the share reached."""
        return self.tables["limits"]

    @property
    def links(self) -> "Table":
        """Bytes, rate and utilisation of each link."""
        return self._of.links() if not isinstance(self._of, RunParts) else self.tables["links"]

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Plain numbers, the same on every machine: those of `sim.results.metrics` that the level
        and the job know, and the number of results that were compared with numpy's."""
        if not isinstance(self._of, RunParts):
            return self._of.metrics
        from sim.results.metrics import metrics

        return metrics(self.breakdown) | self._of.further()

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Origin of the results: level, engine and its configuration, seed, description's hash."""
        return self._of.provenance() if isinstance(self._of, RunParts) else self._of.provenance

    @property
    def origin(self) -> dict[str, Any]:
        """Description, changes, command, versions and files of a run that was saved or read."""
        return {} if isinstance(self._of, RunParts) else self._of.origin

    @typed("folder")
    def save(
        self, folder: Path | str, *, name: str | None = None, figures: bool = True,
        command: str = "",
    ) -> "Run":
        """Write tables, figures and trace into *folder*; see :func:`sim.results.store.save_run`.

        *command*: the one that made the run, kept with it. Returns what `fw.load_run` does.
        """
        from sim.results.store import save_run

        of = self._in_memory("save")
        saved = save_run(
            of.record,
            of.job,
            folder,
            name=name,
            figures=figures,
            network=of.network,
            data=of.further(),
            provenance=self.provenance,
            origin=None if of.description is None else of.description.origin,
            command=command,
        )
        if figures and self.engines is not None and has_extra("figures"):
            from sim.results.figures import utilisation_figure

            links, interval = self.link_series
            which = "of the ring" if self._link_name is None else "to the switches"
            title = f"{saved.name}: links {which}"
            path = Path(folder) / "links.svg"
            utilisation_figure(path, links, interval_cycles=interval, title=title)
        if self.signals:
            from sim.rtl.harness.signals import write_signals

            assert self.description.engine is not None
            clock_hz = self.description.engine.clock_hz
            write_signals(Path(folder) / "signals.vcd", self.signals, clock_hz=clock_hz)
        return Run(saved)

    @property
    def link_series(self) -> "tuple[list[LinkSeries], int]":
        """Load of each link of a ring of engines over time (or of each link from an endpoint to a
        switch), and the cycles of an interval."""
        from sim.results.links import ring_series

        of = self._in_memory("link_series")
        engine, done = None if of.description is None else of.description.engine, of.engines
        if engine is None or done is None:
            raise AttributeError(
                "links over time, one by one, are known at levels cycles and rtl only"
            )
        flits = engine.config.bus_bytes // 16
        end = done.begin + done.cycles
        return ring_series(
            done.links, nodes=self.record.nodes, begin=done.begin, end=end, flits=flits,
            name=self._link_name,
        )

    @property
    def _link_name(self) -> Callable[[int, int], str] | None:
        """Names of the links of a rank in figures; None for rings."""
        from sim.engines.engine import engine_named

        section = self.description.engine
        return None if section is None else engine_named(section.kind).link_name(section)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self._of == other._of

    def __dir__(self) -> list[str]:
        read = not isinstance(self._of, RunParts)
        return sorted({*super().__dir__()} - {*(IN_MEMORY if read else ())})

    def _line(self) -> str:
        """The run in one line."""
        time = Column.fitting("time_s", [self.time_s])
        words = [
            f"{self.name}: {self.job_name} on {number_of(self.nodes, 'NPU')}, level {self.level}",
            f"{time.text(self.time_s)} {time.unit}",
        ]
        if self.limited_by:
            words.append(f"limited by {self.limited_by}")
        if self.data is not None:
            count, wrong = self.data.results, self.data.wrong
            words.append(
                f"{wrong} of {count} results differ from numpy's" if wrong
                else f"{count} results equal numpy's"
            )
        return ", ".join(words)

    def __repr__(self) -> str:
        return f"<Run {self._line()}>"

    def __str__(self) -> str:
        from gen.screen import sheet_text

        sheet = replace(self.summary.sheet(), title="", listed=True)
        return f"{self._line()}\n{sheet_text(sheet)}"

    def _repr_html_(self) -> str:
        """HTML that a notebook shows."""
        sheet = self.summary.sheet()
        both = Table("", [Column("metric"), Column("value")])
        for heading, text in zip(sheet.headings, sheet.rows[0], strict=True):
            both.add(heading, text)
        note = f"<p>{html.escape(sheet.note)}</p>" if sheet.note else ""
        names = ", ".join(f"<code>{html.escape(name)}</code>" for name in self.tables)
        return f"<p><b>{html.escape(self._line())}</b></p>\n{both.to_html()}{note}<p>{names}</p>"


def returning_a_run(
    work: Callable[P, T], made: Callable[[T, Mapping[str, Any]], Run]
) -> Callable[P, Run]:
    """*work* with its parameters and documentation, but a `Run` that *made* makes of its result and
    its arguments."""
    signature = inspect.signature(work)

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> Run:
        return made(work(*args, **kwargs), signature.bind(*args, **kwargs).arguments)

    run.__signature__ = (  # type: ignore[attr-defined]
        signature.replace(return_annotation=Run)
    )
    return run

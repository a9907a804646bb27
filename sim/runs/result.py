"""The result of a run, the same type at every level."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gen.arguments import typed
from gen.extras import has_extra
from sim.describe.build import DescribedSystem
from sim.describe.sections import Description
from sim.engines.engine import engine_named
from sim.events.record import RunRecord
from sim.network.network import Network
from sim.units import FS_PER_S
from sim.workload.graph import Job

if TYPE_CHECKING:
    from gen.table import Table
    from sim.results.breakdown import Breakdown
    from sim.results.links import LinkSeries
    from sim.results.network import Series
    from sim.results.store import SavedRun
    from sim.rtl.harness.signals import SignalTrace
    from sim.runs.scripts import EngineRun

__all__ = ["DataCheck", "Run"]


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
    ``layers``, ``collectives``, ``dimensions``, ``endpoints``, ``bounded``, ``limits``, ``links``.
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
        from sim.results.bounded import bounded

        return bounded(self.breakdown).name

    @property
    def limits(self) -> "Table":
        """Lower bound of each collective, its cause, and the share reached."""
        return self.tables["limits"]

    @property
    def links(self) -> "Table":
        """Bytes, rate and utilisation of each link."""
        return self.tables["links"]

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Plain numbers, the same on every machine: those of `sim.results.metrics` that the level
        and the job know, and the number of results that were compared with numpy's."""
        from sim.results.metrics import metrics

        return metrics(self.breakdown) | self._further

    @property
    def _further(self) -> dict[str, float]:
        """Metrics that the record alone does not tell."""
        from sim.results.limits import bandwidths

        return bandwidths(self.record, self.job, self.network) | self._compared

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
        self, folder: Path | str, *, name: str | None = None, figures: bool = True,
        command: str = "",
    ) -> "SavedRun":
        """Write tables, figures and trace into *folder*; see :func:`sim.results.store.save_run`.

        *command*: the one that made the run, kept with it.
        """
        from sim.results.store import save_run

        saved = save_run(
            self.record,
            self.job,
            folder,
            name=name,
            figures=figures,
            network=self.network,
            data=self._further,
            provenance=self.provenance,
            origin=self.description.origin,
            command=command,
        )
        if figures and self.engines is not None and has_extra("figures"):
            from sim.results.figures import utilisation_figure

            links, interval = self.link_series
            of = "of the ring" if self._link_name is None else "to the switches"
            title = f"{saved.name}: links {of}"
            path = Path(folder) / "links.svg"
            utilisation_figure(path, links, interval_cycles=interval, title=title)
        if self.signals:
            from sim.rtl.harness.signals import write_signals

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

# SPDX-License-Identifier: Apache-2.0
"""A finished run as a folder of files, and that folder read back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gen.arguments import typed
from gen.extras import has_extra
from gen.folder import replace_text, writing
from gen.table import NamedTables, Table
from sim.events.record import Recorded, RunRecord, record_in
from sim.fields import check_type
from sim.network.network import Network
from sim.results.bounded import bounded_table
from sim.results.breakdown import NO_LAYER, Breakdown, break_down
from sim.results.limits import limits_table
from sim.results.metrics import metrics
from sim.results.network import (
    Series,
    dimensions_table,
    endpoints_table,
    links_table,
    series_table,
    utilisation,
)
from sim.results.origin import Origin, plain
from sim.results.repeat import FORMAT, write_origin
from sim.results.tables import (
    collectives_table,
    iterations_table,
    layers_table,
    phases_table,
    summary_table,
)
from sim.results.trace import write_trace
from sim.results.view.run import write_run_page
from sim.units import number_of
from sim.workload.graph import Job

__all__ = ["SUMMARY", "SavedRun", "load_run", "save_run", "tables"]

SUMMARY = "run.json"
UNITS_FS = {"s": 1e15, "ms": 1e12, "µs": 1e9}
"""Units of time in figures, in femtoseconds; the largest that a run has one of."""
READ = (2, FORMAT)
"""Formats that are read; before 3, a run knew nothing of its description but a hash."""


@dataclass(frozen=True, kw_only=True)
class SavedRun:
    """Results of a run that a folder holds: ``tables`` are all but the one of single links.

    ``metrics`` are the plain numbers of `sim.results.metrics`, those that the run knows.
    ``provenance`` says what ran, at which level; ``origin`` has description, changes, command,
    versions and files, and is empty for a run that was saved before format 3, or without them.
    ``headers``: tables without rows, which have files of their own in ``folder``.
    """

    name: str
    job: str
    metrics: dict[str, float]
    tables: NamedTables
    provenance: dict[str, Any] = field(default_factory=dict)
    origin: dict[str, Any] = field(default_factory=dict)
    folder: Path = field(default_factory=Path, compare=False)
    headers: NamedTables = field(default_factory=NamedTables, compare=False)

    def links(self) -> Table:
        """The table of single links, whose rows are in a file of their own.

        Raises
        ------
        ValueError
            There is no such file, or it is another one.
        """
        path = self.folder / "links.csv"
        if "links" not in self.headers:
            older = "was saved by an older version, without the titles of its columns"
            raise ValueError(f"{path}: {older}; read it as CSV")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ValueError(f"{path}: cannot be read: {reason}") from error
        return Table.from_csv(text, self.headers["links"], source=str(path))

    @property
    def limited_by(self) -> str:
        """The unit of which twice as much would shorten the run most; empty where not known."""
        rows = self.tables["summary"].records() if "summary" in self.tables else []
        return str(rows[0].get("limited_by") or "") if rows else ""


def tables(run: Breakdown) -> NamedTables:
    """All tables whose size does not grow with the number of NPUs, by the names of their files."""
    return NamedTables(
        summary=summary_table(run),
        iterations=iterations_table(run),
        phases=phases_table(run),
        layers=layers_table(run),
        collectives=collectives_table(run),
        dimensions=dimensions_table(run.record),
        endpoints=endpoints_table(run.record),
        bounded=bounded_table(run),
    )


@typed("record", "job", "folder")
def save_run(
    record: RunRecord | Recorded,
    job: Job,
    folder: Path | str,
    *,
    name: str | None = None,
    figures: bool = True,
    trace: bool = True,
    network: Network | None = None,
    data: Mapping[str, float] | None = None,
    provenance: Mapping[str, Any] | None = None,
    origin: Origin | None = None,
    command: str = "",
) -> SavedRun:
    """Write all results of a run into *folder*.

    ``run.json`` (read by :func:`load_run`), ``system.toml``, which runs it again, each table as
    ``.csv`` and ``.parquet``, the figures ``division.svg``, ``utilisation.svg`` and, of a job with
    layers, ``layers.svg``, and ``trace.json`` for Perfetto.
    Parquet needs ``foldwire[tables]``, figures ``foldwire[figures]``: left out without them.

    Parameters
    ----------
    name : str or None
        Name of the run in comparisons; None for the name of the folder.
    network : Network or None
        With it, ``limits`` is among the tables.
    data : mapping or None
        Further metrics: bandwidths, and results that were compared with numpy's.
    provenance : mapping or None
        Level, engine and its configuration, seed; kept with the run.
    origin : Origin or None
        Description of the run, kept with it, and the files that were read for it.
    command : str
        Command that made the run, where one did.

    Raises
    ------
    BoundViolation
        A collective was faster than its network allows.
    ValueError
        *folder* cannot be written.
    """
    check_type("folder", folder, "a path", isinstance(folder, str | Path))
    check_type("command", command, "a text", isinstance(command, str))
    folder = Path(folder)
    run = break_down(record_in(record), job)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SUMMARY).unlink(missing_ok=True)  # until the folder is complete again
        about = {} if origin is None else write_origin(origin, folder, command=command)
        about = {"provenance": plain(provenance or {}), "origin": about}
        return _write(run, folder, name, figures, trace, network, data, about)


def _write(
    run: Breakdown,
    folder: Path,
    name: str | None,
    figures: bool,
    trace: bool,
    network: Network | None,
    data: Mapping[str, float] | None,
    about: dict[str, Any],
) -> SavedRun:
    record, job = run.record, run.job
    series = utilisation(record, job)
    name = folder.resolve().name if name is None else name
    kept = tables(run)
    numbers = metrics(run) | dict(data or {})
    if network is not None:
        kept["limits"] = limits_table(record, job, network)
    links = NamedTables(links=links_table(record))
    for stem, table in {**kept, **links, "utilisation": series_table(series)}.items():
        table.write_beside(folder / stem)
    if figures and has_extra("figures"):
        _draw(run, series, folder, name)
    if trace:
        write_trace(folder / "trace.json", record, job, series=series)
    headers = NamedTables({name: replace(table, rows=[]) for name, table in links.items()})
    page = {"name": name, "metrics": numbers, **about}
    write_run_page(folder, run, {**kept, **links}, series, network, page)
    document = {
        "format": FORMAT,
        "name": name,
        "job": job.name,
        "metrics": numbers,
        **about,
        "tables": {stem: json.loads(table.to_json()) for stem, table in kept.items()},
        "headers": {stem: json.loads(table.to_json()) for stem, table in headers.items()},
    }
    # Last: a folder with this file is complete.
    replace_text(folder / SUMMARY, json.dumps(document, ensure_ascii=False, indent=1))
    return SavedRun(
        name=name, job=job.name, metrics=numbers, tables=kept, folder=folder, headers=headers,
        **about,
    )


def load_run(folder: Path | str) -> SavedRun:
    """Read a run that :func:`save_run` wrote; *folder* may also be its ``run.json``.

    Raises
    ------
    ValueError
        There is no such run, or the file is not one of ours.
    """
    check_type("folder", folder, "a path", isinstance(folder, str | Path))
    folder = Path(folder)
    path = folder if folder.name == SUMMARY else folder / SUMMARY
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ValueError(
            f"{path}: cannot be read: {reason}; a saved run is a folder of `foldwire sim`"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") not in READ:
        known = " or ".join(map(str, READ))
        found = document.get("format") if isinstance(document, dict) else None
        raise ValueError(f"{path}: format: must be {known}, of a saved run, not {found!r}")
    try:
        return SavedRun(
            name=str(document["name"]),
            job=str(document["job"]),
            metrics={key: float(value) for key, value in document["metrics"].items()},
            tables=_tables_in(document, "tables", path),
            folder=path.parent,
            headers=_tables_in(document, "headers", path),
            provenance=dict(document.get("provenance", {})),
            origin=dict(document.get("origin", {})),
        )
    except (KeyError, AttributeError, TypeError) as error:
        lacks = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path}: not a saved run: {lacks}") from error


def _tables_in(document: Mapping[str, Any], name: str, path: Path) -> NamedTables:
    listed = document["tables"] if name == "tables" else document.get(name, {})
    return NamedTables({
        stem: Table.from_json(json.dumps(table), source=f"{path}: {name}.{stem}")
        for stem, table in listed.items()
    })


def _draw(run: Breakdown, series: Series, folder: Path, name: str) -> None:
    # Loading matplotlib takes most of a second.
    from sim.results.training_figures import division_figure, layers_figure, series_figure

    record = run.record
    title = f"{name}: {run.job.name} on {number_of(record.nodes, 'NPU')}"
    unit, unit_fs = next(
        (name, size) for name, size in UNITS_FS.items() if run.run_fs >= size or name == "µs"
    )
    bars = {}
    for iteration in sorted({each.task.iteration for each in run.tasks}):
        tasks = [each for each in run.tasks if each.task.iteration == iteration]
        bars[f"iteration {iteration}"] = (
            sum(each.compute_fs for each in tasks) / unit_fs,
            sum(each.exposed_fs for each in tasks) / unit_fs,
            sum(each.delay_fs for each in tasks) / unit_fs,
        )
    if len(bars) > 1:
        compute, exposed, *rest = run.mean_fs / unit_fs
        bars["all"] = (float(compute), float(exposed), float(sum(rest)))
    division_figure(folder / "division.svg", bars, title=title, unit=unit)
    layers = list(dict.fromkeys(each.layer for each in run.tasks))
    of = {layer: [each for each in run.tasks if each.layer == layer] for layer in layers}
    if layers != [NO_LAYER]:
        layers_figure(
            folder / "layers.svg",
            layers,
            compute=[sum(each.compute_fs for each in of[layer]) / unit_fs for layer in layers],
            exposed=[sum(each.exposed_fs for each in of[layer]) / unit_fs for layer in layers],
            communication=[
                sum(each.communication_fs for each in of[layer]) / unit_fs for layer in layers
            ],
            title=title,
            unit=unit,
        )
    series_figure(
        folder / "utilisation.svg",
        1e15 / unit_fs * series.edges_s,
        compute=None if len(series.network) and not series.compute.any() else series.compute,
        network=series.network,
        dimensions=series.dimensions,
        units=series.units,
        title=title,
        unit=unit,
    )

# SPDX-License-Identifier: Apache-2.0
"""The page of a run, written beside its tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from gen.table import Cell, Column, Table
from sim.network.network import Network
from sim.results.breakdown import Breakdown
from sim.results.intervals import Floats
from sim.results.network import Series
from sim.results.origin import plain
from sim.results.view.network import network_data
from sim.results.view.page import Chart, Section, Tile, View, write_view
from sim.results.view.timeline import timeline_data

__all__ = [
    "PAGE",
    "configuration",
    "layers_chart",
    "summary_tiles",
    "time_text",
    "write_run_page",
]

PAGE = "index.html"
MOST_LAYERS, MOST_POINTS = 60, 300
OCCUPANCY = "Resources, and their use over time"


def write_run_page(
    folder: Path, run: Breakdown, tables: Mapping[str, Table], series: Series,
    network: Network | None, about: Mapping[str, Any],
) -> Path:
    """Write the page of *run* into *folder*.

    *about* is what ``run.json`` holds beside the tables: name, metrics, provenance and origin.
    """
    found: list[Section | None] = [
        _timeline(run),
        None if network is None else _network(run, network, tables),
        _occupancy(tables, series) if run.run_fs else None,
        _layers(tables["layers"]),
        Section(
            title="Tables", tables=[tables[name] for name in tables if name not in _ELSEWHERE]
        ),
        configuration(about),
    ]
    path = folder / PAGE
    record = run.record
    write_view(
        path,
        View(
            title=str(about["name"]),
            lead=f"{run.job.name} on {record.nodes} NPU{'s' if record.nodes != 1 else ''}, level "
            f"{about['provenance'].get('level', 'events')}",
            tiles=summary_tiles(about["metrics"], tables),
            sections=[each for each in found if each is not None],
        ),
    )
    return path


_ELSEWHERE = ("bounded", "endpoints", "dimensions", "links", "utilisation")
"""Tables beside the charts that they belong to, or in none."""


def time_text(seconds: float) -> str:
    """A time with the unit that leaves it from 1 to 1000."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.4g} {unit}"
    return f"{seconds * 1e9:.4g} ns"


def summary_tiles(metrics: Mapping[str, float], tables: Mapping[str, Table]) -> list[Tile]:
    """Time, exposed share, share of the bound, what limits the run, and the check of its data."""
    limited = next(iter(tables["summary"].records()), {}).get("limited_by")
    found = [
        Tile(value=time_text(metrics["time_s"]), label="run time"),
        Tile(value=f"{metrics['exposed_percent']:.3g} %", label="exposed communication"),
    ]
    bounds = tables["limits"].records() if "limits" in tables else []
    if bounds and isinstance(reached := bounds[0]["mean_percent"], float):
        found.append(Tile(value=f"{reached:.3g} %", label=f"of the bound, {bounds[0]['set_by']}"))
    if limited:
        saved = f"twice of it saves {metrics['limited_percent']:.3g} %"
        found.append(Tile(value=str(limited), label=f"limits the run; {saved}"))
    if "wrong" in metrics and metrics.get("results"):
        count, wrong = metrics["results"], metrics["wrong"]
        text = f"of {count:.0f} results differ from numpy's" if wrong else "results equal numpy's"
        found.append(Tile(value=f"{wrong or count:.0f}", label=text))
    return found


def _timeline(run: Breakdown) -> Section | None:
    data, caption = timeline_data(run.record, run.job)
    if not data["lanes"] or not data["end"]:
        return None
    return Section(
        title="Timeline",
        lead="Drag to move, click a bar to zoom to it. With the focus: arrow keys move and choose, "
        "wheel, + and - zoom, Enter zooms to the chosen bar, 0 shows all.",
        charts=[Chart(kind="timeline", label="Timeline of an NPU", data=data, caption=caption)],
    )


def _network(run: Breakdown, network: Network, tables: Mapping[str, Table]) -> Section | None:
    data, caption = network_data(run.record, network)
    if not data:
        return None
    chart = Chart(kind="network", label="Use of every link", data=data, caption=caption)
    beside = [tables[name] for name in ("dimensions", "links") if name in tables]
    return Section(title="Network", charts=[chart], tables=beside)


def _occupancy(tables: Mapping[str, Table], series: Series) -> Section:
    charts = []
    lines = {"compute units": series.compute} if series.compute.any() else {}
    if len(series.network):
        lines |= {f"links of dimension {n}": each for n, each in enumerate(series.dimensions)}
    lines |= series.units
    if lines:
        step = max(1, -(-len(series.compute) // MOST_POINTS))
        starts = (1e6 * series.edges_s[:-1:step]).tolist()
        data = {
            "x": starts, "x_label": "time", "x_unit": "µs", "y_label": "busy", "y_unit": "%",
            "step": True, "end": 1e6 * float(series.edges_s[-1]), "most": 100,
            "lines": [
                {"name": name, **_look(index, name), "y": _means(shares, step)}
                for index, (name, shares) in enumerate(lines.items())
            ],
        }
        charts.append(Chart(kind="lines", label="Use over time", data=data))
    return Section(title=OCCUPANCY, charts=charts, tables=[tables["bounded"], tables["endpoints"]])


def _look(index: int, name: str) -> dict[str, Any]:
    """Colour and dashes of a line: neighbours that hide one another show through."""
    colour = "compute" if name == "compute units" else f"l{(index + 1) % 6 + 1}"
    return {"colour": colour, "dash": index % 4}


def _means(shares: Floats, step: int) -> list[float]:
    """Percent of every *step* windows together."""
    return [round(100 * float(shares[n : n + step].mean()), 2) for n in range(0, len(shares), step)]


def _layers(table: Table) -> Section | None:
    chart = layers_chart(table)
    return None if chart is None else Section(title="Layers", charts=[chart])


def layers_chart(table: Table) -> Chart | None:
    """Compute and exposed communication of each layer; None where there is only one without any."""
    names = {"compute_s": "compute", "exposed_s": "exposed communication"}
    sums: dict[str, dict[str, float]] = {}
    for row in table.records():
        of = sums.setdefault(str(row["layer"]), dict.fromkeys(names, 0.0))
        for name in names:
            value = row[name]
            of[name] += value if isinstance(value, int | float) else 0.0
    if len(sums) < 2:
        return None
    largest = sorted(sums, key=lambda layer: -sum(sums[layer].values()))[:MOST_LAYERS]
    shown = [layer for layer in sums if layer in set(largest)]
    data = {
        "unit": "s",
        "parts": [{"name": name, "colour": key.removesuffix("_s")} for key, name in names.items()],
        "rows": [[layer, *(sums[layer][key] for key in names)] for layer in shown],
    }
    left = f"The {len(shown)} longest of {len(sums)} layers." if len(shown) < len(sums) else ""
    return Chart(kind="bars", label="Time of each layer", data=data, caption=left)


def configuration(about: Mapping[str, Any]) -> Section:
    """Command, changes, versions and description of a run."""
    origin: Mapping[str, Any] = about["origin"]
    rows: list[Sequence[Cell]] = []
    for name in ("command", "source", "endpoint"):
        if origin.get(name):
            rows.append((name, str(origin[name])))
    rows += [(f"change {key}", str(value)) for key, value in origin.get("changes", {}).items()]
    provenance = {key: each for key, each in about["provenance"].items() if key != "config"}
    rows += [(key.replace("_", " "), str(value)) for key, value in plain(provenance).items()]
    rows += [(f"version of {key}", value) for key, value in origin.get("versions", {}).items()]
    table = Table("Origin", [Column("item"), Column("value")], rows)
    text = _text(origin.get("description", {}))
    return Section(title="Configuration", tables=[table] if rows else [], text=text)


def _text(description: Mapping[str, Any]) -> str:
    """A description as TOML, for people: values that TOML cannot say are left out."""
    return tomli_w.dumps(_said(description)).strip() if description else ""


def _said(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _said(each) for key, each in value.items() if each is not None}
    return [_said(each) for each in value if each is not None] if isinstance(value, list) else value

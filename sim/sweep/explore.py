# SPDX-License-Identifier: Apache-2.0
"""Explorations: sweeps whose points have a price, and the ones that nothing beats."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gen.estimate.model import TARGET_OF
from gen.extras import has_extra
from gen.table import Cell, Column, Table
from sim.engines.engine import Blueprint
from sim.fields import FieldError
from sim.opened import opening
from sim.results.view.page import Picture, Section, Tile, View, write_view
from sim.sweep.engine import SweepOutcome
from sim.sweep.points import Metrics
from sim.sweep.spec import SweepSpec
from sim.sweep.training import run_metrics

__all__ = ["COSTS", "RUNNER", "front", "price", "priced_metrics", "write_exploration"]

RUNNER = "sim.sweep.explore:priced_metrics"
COSTS = tuple(TARGET_OF)
"""Cells that a design can be priced in: LUT, flip-flops and block RAMs of UltraScale+, two-input
gates."""


def priced_metrics(config: dict[str, Any], *, source: str) -> Metrics:
    """Metrics of the run of *config*, and the estimated cells of a node's engine.

    Raises
    ------
    ValueError
        If the endpoints are no engine, which has no price.
    """
    return {**run_metrics(config, source=source), **price(config, source=source)}


def price(config: dict[str, Any], *, source: str) -> Metrics:
    """Estimated cells of the engine that *config* describes, the worst error of the estimate, and
    1 as ``beyond`` where a parameter is outside the range that it was fitted to."""
    from gen.estimate.model import FITTED, estimate

    opening(FITTED)  # points are run anew when the models are fitted anew
    design, blueprint, engine = designed(config, source=source)
    if blueprint.space is None:
        raise FieldError("endpoint.kind", f"must have a price, which {design} has not")
    found = estimate(design, engine, blueprint.space)
    return {
        **{kind: found.cells[kind] for kind in COSTS},
        "error_pct": max(found.error_pct.values()),
        "beyond": int(bool(found.outside)),
    }


def designed(config: dict[str, Any], *, source: str) -> tuple[str, Blueprint, Any]:
    """Name and blueprint of a node's engine in *config*, and its configuration."""
    from sim.describe.system import describe
    from sim.engines import registry

    section = describe(config, folder=Path(source).parent).engine
    if section is None:
        raise FieldError(
            "endpoint.preset", "must name an engine, or its level be cycles or rtl: an endpoint of "
            "event parameters alone has no hardware to price"
        )
    for record in registry.records():
        for name, blueprint in record.blueprints.items():
            if type(section.config) is blueprint.config:
                return name, blueprint, section.config
    raise FieldError("endpoint.kind", f"must have a price, which {section.kind} has not")


def front(table: Table, x: str, y: str) -> list[int]:
    """Rows of *table* for which no other is as small in *x* and *y*, and smaller in one: those of a
    Pareto front, from the smallest *x* on. Rows without numbers are left out."""
    points = _points(table, x, y)
    chosen, least = [], float("inf")
    for n in sorted(points, key=lambda n: points[n]):
        if points[n][1] < least:
            chosen.append(n)
            least = points[n][1]
    return chosen


def _points(table: Table, x: str, y: str) -> dict[int, tuple[float, float]]:
    """Numbers of two columns by row, of rows that have both."""
    names = [column.name for column in table.columns]
    found = {}
    for n, row in enumerate(table.rows):
        across, up = row[names.index(x)], row[names.index(y)]
        if isinstance(across, int | float) and isinstance(up, int | float):
            found[n] = float(across), float(up)
    return found


def write_exploration(
    outcome: SweepOutcome, spec: SweepSpec, folder: Path, *, cost: str, time: str,
    synthesised: dict[int, int],
) -> list[Path]:
    """Write all points, those of the front, the figure and the page.

    Parameters
    ----------
    cost, time
        Metrics that are both to be small.
    synthesised
        Cells of kind *cost* by row, where a point was synthesised.
    """
    table = outcome.table
    chosen = front(table, cost, time)
    rows: list[Sequence[Cell]] = [(*table.rows[n], synthesised.get(n)) for n in chosen]
    best = Table(
        "Points that no other beats in both",
        [*table.columns, Column(f"{cost}_synthesised")],
        rows,
        note=f"{cost} estimated from parameters; {time} by the simulator.",
    )
    written = [*table.write_beside(folder / "explore"), *best.write_beside(folder / "front")]
    shown = [*spec.keys, cost, time, f"{cost}_synthesised"]
    figures: Sequence[Picture] = ()
    if has_extra("figures"):
        figure = folder / "explore.svg"
        _draw(figure, table, chosen, cost=cost, time=time, synthesised=synthesised)
        written.append(figure)
        figures = [Picture.read(figure, "Every point; those on the line have no better one.")]
    page = folder / "index.html"
    write_view(
        page,
        View(
            title=f"Exploration of {folder.name}",
            lead=f"{time} against {cost} of a node's engine.",
            tiles=[
                Tile(value=str(len(table.rows)), label="points"),
                Tile(value=str(len(chosen)), label="points that no other beats"),
                Tile(value=str(len(synthesised)), label="of them synthesised"),
                Tile(value=str(outcome.failed), label="points with an error",
                     good=not outcome.failed),
            ],
            sections=[
                Section(
                    title="Cost against time",
                    lead="Cells are estimated from the parameters of the engine; the table says "
                    "which were synthesised.",
                    pictures=figures, tables=[best.select(shown)],
                    files=[each.name for each in written],
                )
            ],
        ),
    )
    return [*written, page]


def _draw(
    path: Path, table: Table, chosen: Sequence[int], *, cost: str, time: str,
    synthesised: dict[int, int],
) -> None:
    from sim.results.training_figures import front_figure

    points = _points(table, cost, time)
    front_figure(
        path, list(points.values()), [points[n] for n in chosen],
        [(float(cells), points[n][1]) for n, cells in synthesised.items()],
        x_label=cost, y_label=time, title=f"{time} against {cost}",
    )

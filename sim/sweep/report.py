"""The files that a sweep writes at its end."""

from pathlib import Path

from gen.extras import has_extra
from gen.table import Table
from sim.sweep.engine import SweepOutcome
from sim.sweep.spec import SweepSpec

__all__ = ["write_outcome"]

MOST_LINES = 14


def write_outcome(outcome: SweepOutcome, spec: SweepSpec, folder: Path) -> list[Path]:
    """Write ``sweep.csv``, ``sweep.parquet`` and, where there is something to draw, ``sweep.svg``;
    the last two where ``foldwire[tables]`` and ``foldwire[figures]`` are installed.

    Raises
    ------
    ValueError
        The plot that the sweep asks for needs a metric that no point has.
    """
    written = outcome.table.write_beside(folder / "sweep")
    figure = folder / "sweep.svg"
    if _draw(outcome.table, spec, figure):
        written.append(figure)
    return written


def _draw(table: Table, spec: SweepSpec, path: Path) -> bool:
    names = [column.name for column in table.columns]
    numeric = [n for i, n in enumerate(names) if table.is_number(i)]
    metrics = [name for name in numeric if name not in spec.keys]
    if spec.plot.y is not None and metrics and spec.plot.y not in metrics:
        raise ValueError(
            f"plot.y: there is no number {spec.plot.y!r}; there are: {', '.join(metrics)}"
        )
    if not metrics or not has_extra("figures"):
        return False
    y = spec.plot.y or metrics[0]
    # By default the first number that takes more than one value, else the first key.
    several = [
        key for key in spec.keys if len({str(row[names.index(key)]) for row in table.rows}) > 1
    ]
    x = spec.plot.x or next((key for key in several if key in numeric), spec.keys[0])
    lines = spec.plot.lines
    if lines is None:
        lines = tuple(key for key in several if key != x)
    at_x, at_y, at_lines = names.index(x), names.index(y), [names.index(key) for key in lines]
    places = list(dict.fromkeys(str(row[at_x]) for row in table.rows))
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for row in table.rows:
        height, place = row[at_y], row[at_x]
        if not isinstance(height, int | float) or place is None:
            continue
        name = ", ".join(f"{key.rpartition('.')[2]} {row[i]}" for key, i in zip(lines, at_lines))
        xs, ys = curves.setdefault(name, ([], []))
        xs.append(float(place) if x in numeric else places.index(str(place)))
        ys.append(float(height))
    shown = dict(list(curves.items())[:MOST_LINES])
    left_out = f", first {len(shown)} of {len(curves)} lines" if len(shown) < len(curves) else ""
    from sim.results.training_figures import lines_figure

    lines_figure(
        path,
        shown,
        x_label=x,
        y_label=y,
        title=f"{y} over {x}{left_out}",
        x_names=None if x in numeric else places,
    )
    return True

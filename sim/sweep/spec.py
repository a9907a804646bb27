# SPDX-License-Identifier: Apache-2.0
"""The parameters that a sweep varies, read from TOML.

::

    base = "system.toml"            # or a table [base] with the description itself

    [grid]                          # every combination
    endpoint.kind = ["ace", "ideal"]
    "dimension.*.latency_s" = { from = 1e-7, to = 1e-6, points = 4 }

    [[zip]]                         # these change together; each [[zip]] is one more axis
    topology.shape = [[4, 4], [8, 8]]
    scheduler.chunk_bytes = [65536, 262144]

    [plot]                          # of the figure; all three optional
    x = "dimension.*.latency_s"
    y = "time_s"
    lines = ["endpoint.kind"]

A dotted key walks through tables; a number in it picks one table of an array (and makes those that
are missing up to it), ``*`` all of them. Its target need not be in the base. A range is
``from``, ``to`` (included if a step lands on it) and one of ``step``, ``factor`` or ``points``
(evenly spaced).
"""

import copy
import itertools
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sim.describe.changes import changed
from sim.describe.reader import ConfigError, TomlReader, load_toml, read_text
from sim.describe.system import SECTIONS as SYSTEM_SECTIONS
from sim.fields import not_one_of

__all__ = [
    "MOST_POINTS",
    "Changes",
    "Plot",
    "SweepSpec",
    "parse",
    "parse_document",
    "read",
]

MOST_POINTS = 1_000_000
RANGE_KEYS = {"from", "to", "step", "factor", "points"}
SECTIONS = ("base", "grid", "zip", "plot")

Config: TypeAlias = dict[str, Any]
Changes: TypeAlias = dict[str, Any]
"""Dotted key -> value."""


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Axes of the figure: a swept key, a metric, swept keys that make lines; None to choose."""

    x: str | None = None
    y: str | None = None
    lines: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class SweepSpec:
    """The base description and what is varied in it.

    Parameters
    ----------
    base : dict
        The description that each point starts from.
    source : str
        The file of the base; paths in it are relative to its folder.
    axes : tuple of tuples of changes
        Each axis is a list of changes of which a point takes one.
    """

    base: Config
    source: str
    axes: tuple[tuple[Changes, ...], ...]
    plot: Plot

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys that change."""
        return tuple(key for axis in self.axes for key in axis[0])

    def __len__(self) -> int:
        return math.prod(len(axis) for axis in self.axes)

    def points(self) -> Iterator[Changes]:
        """The changes of every point; the last axis varies fastest."""
        for chosen in itertools.product(*self.axes):
            yield {key: value for changes in chosen for key, value in changes.items()}

    def config(self, changes: Changes) -> Config:
        """The full description of a point."""
        config = copy.deepcopy(self.base)
        for key, value in changes.items():
            changed(config, key, value)
        return config


def read(path: str | Path, *, metrics: Collection[str] | None = None) -> SweepSpec:
    """Read a sweep and the base that it names.

    *metrics*: names of the numbers that its points may give, so that a plot of another one is
    refused before anything has run.

    Raises
    ------
    ConfigError
        Something in it is wrong; the text names file, line and key.
    """
    return parse(read_text(path), source=str(path), metrics=metrics)


def parse(text: str, *, source: str, metrics: Collection[str] | None = None) -> SweepSpec:
    """Parse *text*; *source* names the file in errors, and is where paths start from."""
    document = load_toml(text, source=source)
    return parse_document(document, reader=TomlReader(source, text), metrics=metrics)


def parse_document(
    document: Mapping[str, Any],
    *,
    reader: TomlReader | None = None,
    metrics: Collection[str] | None = None,
) -> SweepSpec:
    """The sweep of a parsed document (or a dictionary of the same shape)."""
    reader = TomlReader("sweep") if reader is None else reader
    if not document:
        raise reader.error("", "", "describes nothing; a sweep has base, and [grid] or [[zip]]")
    for key in document:
        if key in SYSTEM_SECTIONS:
            what = "belongs to a system, which foldwire sim runs; a sweep has it in [base]"
            raise reader.error(key, "", what)
        if key not in SECTIONS:
            raise reader.unknown(key, "", SECTIONS)
    base, base_source = _base(document, reader)
    axes = [
        tuple({key: value} for value in _values(reader, "grid", key, values))
        for key, values in _keys(reader, "grid", _table(document, "grid", reader))
    ]
    groups = document.get("zip", [])
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        raise reader.error("zip", "", "must be tables, [[zip]]")
    axes += [_zipped(reader, group, index) for index, group in enumerate(groups)]
    keys = [key for axis in axes for key in axis[0]]
    if not keys:
        raise reader.error("grid", "", "a sweep varies at least one key, in [grid] or [[zip]]")
    for key in keys:
        if not all(key.split(".")):
            raise reader.error("grid", "", f"a key must be names between dots, not {key!r}")
        if keys.count(key) > 1:
            raise reader.error("zip", key, "is varied twice")
    plot = _table(document, "plot", reader)
    spec = SweepSpec(
        base=base,
        source=base_source,
        axes=tuple(axes),
        plot=reader.build(Plot, "plot", plot),
    )
    if len(spec) > MOST_POINTS:
        raise reader.error("grid", "", f"makes {len(spec)} points; allowed: up to {MOST_POINTS}")
    for name in [spec.plot.x, *(spec.plot.lines or ())]:
        if name is not None and name not in keys:
            raise reader.error("plot", "", f"{name!r} is not varied; there are: {', '.join(keys)}")
    y = spec.plot.y
    if y is not None and metrics is not None and y not in metrics:
        raise reader.error("plot", "y", not_one_of(y, metrics))
    first = next(spec.points())
    for changes in itertools.chain.from_iterable(axes):
        try:
            spec.config(first | changes)
        except ValueError as error:
            raise reader.error("grid", "", str(error)) from error
    return spec


def _base(document: Mapping[str, Any], reader: TomlReader) -> tuple[Config, str]:
    base = document.get("base")
    if isinstance(base, dict):
        return base, reader.source
    if not isinstance(base, str):
        raise reader.error("", "base", "must name the file of the base, or be a table, [base]")
    path = Path(reader.source).parent / base
    loaded = load_toml(read_text(path), source=str(path))
    if not {"base", "grid", "zip"}.isdisjoint(loaded):
        raise reader.error("", "base", f"must be a system, not a sweep as {base!r} is")
    return loaded, str(path)


def _table(document: Mapping[str, Any], name: str, reader: TomlReader) -> Config:
    table = document.get(name, {})
    if not isinstance(table, dict):
        raise reader.error(name, "", f"must be a table, [{name}], not {table!r}")
    return table


def _keys(
    reader: TomlReader, section: str, table: Mapping[str, Any], above: str = ""
) -> Iterator[tuple[str, Any]]:
    """Dotted keys, written in quotes or not, with the values to vary."""
    for key, values in table.items():
        path = f"{above}{key}"
        if isinstance(values, dict) and not _is_range(values):
            yield from _keys(reader, section, values, f"{path}.")
        else:
            yield path, values


def _is_range(values: Mapping[str, Any]) -> bool:
    """True if a range is meant: a table of keys has lists and tables in it, no numbers."""
    return not RANGE_KEYS.isdisjoint(values) and not any(
        isinstance(value, list | dict) for value in values.values()
    )


def _zipped(reader: TomlReader, group: Mapping[str, Any], index: int) -> tuple[Changes, ...]:
    columns = {
        key: _values(reader, "zip", key, values, index)
        for key, values in _keys(reader, "zip", group)
    }
    lengths = {key: len(values) for key, values in columns.items()}
    if len(set(lengths.values())) != 1:
        found = ", ".join(f"{key} has {length}" for key, length in lengths.items())
        what = f"must have equally many values of each key, but {found or 'there is none'}"
        raise reader.error("zip", "", what, index)
    return tuple(dict(zip(columns, row)) for row in zip(*columns.values()))


def _values(reader: TomlReader, section: str, key: str, values: Any, index: int = -1) -> list[Any]:
    def error(what: str) -> ConfigError:
        return reader.error(section, key, what, index)

    if isinstance(values, list) and values:
        return values
    if not isinstance(values, dict):
        raise error(f"must be a list of values or a range, not {values!r}")
    for name, value in values.items():
        if name not in RANGE_KEYS:
            raise error(f"{name!r} is unknown in a range; allowed: {', '.join(sorted(RANGE_KEYS))}")
        if type(value) not in (int, float) or not math.isfinite(value):
            raise error(f"{name} must be a number, not {value!r}")
    ways = [name for name in ("step", "factor", "points") if name in values]
    if not {"from", "to"} <= set(values) or len(ways) != 1:
        raise error("a range needs from, to and one of step, factor, points")
    start, stop, by = values["from"], values["to"], values[ways[0]]
    if ways == ["points"]:
        if type(by) is not int or not 2 <= by <= MOST_POINTS:
            raise error(f"points must be a whole number from 2 to {MOST_POINTS}, not {by!r}")
        return [start + (stop - start) * i / (by - 1) for i in range(by)]
    if ways == ["step"]:
        if not by or (stop - start) / by < 0:
            raise error(f"step {by!r} does not lead from {start!r} to {stop!r}")
        most = (stop - start) / by
    else:
        if not (start > 0 and stop > 0 and by > 0 and by != 1) or (stop > start) != (by > 1):
            if start != stop or start <= 0:
                raise error(f"factor {by!r} does not lead from {start!r} to {stop!r}")
            return [start]
        most = math.log(stop / start) / math.log(by)
    if most > MOST_POINTS:
        raise error(f"makes {most + 1:.0f} values; allowed: up to {MOST_POINTS}")
    count = math.floor(most + 1e-9) + 1
    if ways == ["step"]:
        return [start + by * i for i in range(count)]
    return [start * by**i for i in range(count)]

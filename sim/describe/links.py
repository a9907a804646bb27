# SPDX-License-Identifier: Apache-2.0
"""Topologies of links, as tables ``[[topology.link]]`` or a CSV file: rows to a graph."""

import csv
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from sim.describe.reader import FilePlace, TomlReader, read_text, unknown_key
from sim.describe.sections import LinkRow, TopologySection
from sim.fields import FieldError, check
from sim.network.graph import Graph, GraphLink

__all__ = ["linked_graph"]

Vertex: TypeAlias = int | str
Ends: TypeAlias = Vertex | tuple[Vertex, ...]
"""A node (a number) or a switch (a name), or several."""

COLUMNS = ("source", "target", "lanes", "bandwidth_bytes_per_s", "latency_s", "both_ways")
TRUTHS = {"true": True, "false": False}


class _Vertices:
    """Numbers of vertices: of nodes their own, of switches in the order in which rows name them."""

    def __init__(self, nodes: int | None) -> None:
        self.most, self.last = nodes, -1
        self.names: dict[str, int] = {}

    def read(self, key: str, given: Vertex) -> Vertex:
        """*given*, noted; nodes are numbered from 0."""
        if isinstance(given, str):
            allowed = "the number of a node, or the name of a switch"
            check(key, given, allowed, bool(given.strip()) and not _is_number(given))
            self.names.setdefault(given, len(self.names))
            return given
        most = self.most
        allowed = "at least 0" if most is None else f"from 0 to {most - 1}, a node of {most}"
        check(key, given, allowed, given >= 0 and (most is None or given < most))
        self.last = max(self.last, given)
        return given

    @property
    def nodes(self) -> int:
        return self.last + 1 if self.most is None else self.most

    def number(self, vertex: Vertex) -> int:
        return self.nodes + self.names[vertex] if isinstance(vertex, str) else vertex


def linked_graph(reader: TomlReader, topology: TopologySection, folder: Path) -> Graph:
    """The graph of a topology of kind ``links``.

    Raises
    ------
    ConfigError
        A row has an error, or there is no way between two nodes.
    """
    vertices = _Vertices(topology.nodes)
    if topology.file is not None:
        place: Any = reader.place("topology", "file")
        rows = _of_file(folder / topology.file, vertices)
    else:
        place = reader.place("topology.link", "", 0)
        rows = _of_tables(reader, topology.link, vertices)
    pairs = list(rows)
    try:
        if not pairs:
            raise ValueError("must have at least one link")
        return Graph(
            members=vertices.nodes,
            switches=len(vertices.names),
            names=tuple(vertices.names),
            links=tuple(
                GraphLink(source=vertices.number(a), target=vertices.number(b), **of)
                for a, b, of in pairs
            ),
        )
    except FieldError as error:
        what = error.what if error.field == "links" else str(error)
        raise place.error(what) from error
    except ValueError as error:
        raise place.error(str(error)) from error


Row: TypeAlias = tuple[Vertex, Vertex, dict[str, Any]]


def _of_tables(
    reader: TomlReader, tables: Sequence[LinkRow], vertices: _Vertices
) -> Iterator[Row]:
    for index, row in enumerate(tables):
        made = partial(_pairs, vertices, row.source, row.target, row.both_ways)
        pairs = reader.construct(made, "topology.link", {}, index, names=["source", "target"])
        for a, b in pairs:
            yield a, b, row.options


def _pairs(
    vertices: _Vertices, source: Ends, target: Ends, both_ways: bool
) -> list[tuple[Vertex, Vertex]]:
    """Each of the sources with each of the targets: none with itself, and no pair twice."""
    sides = [
        [vertices.read(key, each) for each in (ends if isinstance(ends, tuple) else (ends,))]
        for key, ends in (("source", source), ("target", target))
    ]
    made: dict[tuple[Vertex, Vertex], None] = {}
    for a in sides[0]:
        for b in sides[1]:
            if a != b and not (both_ways and (b, a) in made):
                made[a, b] = None
    check("target", target, "another vertex than source", bool(made))
    return list(made)


def _of_file(path: Path, vertices: _Vertices) -> Iterator[Row]:
    """Rows of a CSV file whose first line names the columns; lines that begin with # are left
    out."""
    lines = read_text(path).splitlines()
    kept = [(n, line) for n, line in enumerate(lines, 1) if line.strip() and line[:1] != "#"]
    table = csv.reader(line for _, line in kept)
    header: list[str] = []
    for (number, _), cells in zip(kept, table):
        values = [cell.strip() for cell in cells]
        if not header:
            header = _header(FilePlace(str(path), number, ""), values)
            continue
        if len(values) != len(header):
            place = FilePlace(str(path), number, "")
            raise place.error(f"must have {len(header)} cells, as the header, not {len(values)}")
        yield _row(path, number, dict(zip(header, values)), vertices)


def _header(place: FilePlace, names: list[str]) -> list[str]:
    for name in names:
        if name not in COLUMNS:
            raise place.error(f"{name}: {unknown_key(name, COLUMNS)}")
        if names.count(name) > 1:
            raise place.error(f"{name}: stands twice")
    for name in COLUMNS[:2]:
        if name not in names:
            raise place.error(f"must name the columns source and target, not {', '.join(names)}")
    return names


def _row(path: Path, number: int, cells: dict[str, str], vertices: _Vertices) -> Row:
    read: dict[str, Any] = {}
    try:
        for key, text in cells.items():
            if key in COLUMNS[:2]:
                read[key] = vertices.read(key, int(text) if _is_number(text) else text)
            elif text:
                read[key] = _value(key, text)
        row = LinkRow(**read)
        check("target", row.target, "another vertex than source", row.target != row.source)
    except FieldError as error:
        raise FilePlace(str(path), number, error.field).error(error.what) from error
    return read["source"], read["target"], row.options


def _value(key: str, text: str) -> int | float | bool:
    """The value of an option."""
    if key == "both_ways":
        check(key, text, "true or false", text.lower() in TRUTHS)
        return TRUTHS[text.lower()]
    try:
        return int(text) if key == "lanes" else float(text)
    except ValueError:
        kind = "an integer" if key == "lanes" else "a number"
        raise FieldError(key, f"must be {kind}, not {text!r}") from None


def _is_number(text: str) -> bool:
    return text.strip().removeprefix("-").isdecimal()

# SPDX-License-Identifier: Apache-2.0
"""Tables of the load of links and endpoints, and their utilisation over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gen.brief import Brief
from gen.table import Column, Table
from sim.events.record import RunRecord
from sim.network.link import Link
from sim.results.intervals import Floats
from sim.results.metrics import percent
from sim.units import FS_PER_S
from sim.workload.graph import Job, TaskKind

__all__ = [
    "Series",
    "dimensions_table",
    "endpoints_table",
    "link_name",
    "links_table",
    "middle_shares",
    "series_table",
    "utilisation",
    "vertex_name",
]

WINDOWS = 400
"""Windows of the compute series where the run recorded none."""
MOST_WINDOWS = 1000
"""Finer recordings are merged: a figure cannot show more, and a file of them is long."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Series(Brief):
    """Shares, 0 to 1, per window of ``window_fs``; the last one may be cut short by the end.

    ``end_fs`` is before the end of the run where the run recorded fewer windows than it took.

    ``compute`` is the mean share of NPUs whose compute units work, ``dimensions`` the mean
    share of the links of each dimension that are busy, ``network`` that of all links. The last two
    are empty where the run did not record them. ``units``: the mean share of servers of each part
    of the endpoints that work, where that was recorded.
    """

    window_fs: int
    end_fs: int
    compute: Floats
    network: Floats
    dimensions: tuple[Floats, ...]
    units: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def edges_s(self) -> Floats:
        edges = np.arange(len(self.compute) + 1) * self.window_fs
        return np.minimum(edges, self.end_fs) / FS_PER_S


def utilisation(record: RunRecord, job: Job) -> Series:
    """Utilisation of compute units and links over time."""
    window = record.bucket_fs or max(1, -(-record.end_fs // WINDOWS))
    count = max(1, -(-record.end_fs // window))
    merged = 1
    if record.bucket_fs:
        count = max(1, min(count, record.link_series_fs.shape[1]))
        merged = -(-count // MOST_WINDOWS)
    end = min(record.end_fs, count * window)
    recorded, window, count = count, window * merged, -(-count // merged)
    edges = np.minimum(np.arange(count + 1, dtype=np.int64) * window, end)
    widths = np.maximum(np.diff(edges), 1)
    busy = np.zeros(count)
    for graph in np.unique(record.graph_of):
        rows = record.graph_of == graph
        which = [n for n, t in enumerate(job.graphs[graph].tasks) if t.kind is TaskKind.COMPUTE]
        starts = record.task_start_fs[rows][:, which].ravel()
        ends = record.task_end_fs[rows][:, which].ravel()
        ran = starts >= 0
        busy += np.diff(_before(edges, starts[ran]) - _before(edges, ends[ran]))
    compute = np.minimum(busy / widths / len(record.graph_of), 1.0)
    if not record.bucket_fs:
        return Series(
            window_fs=window,
            end_fs=end,
            compute=compute,
            network=np.zeros(0),
            dimensions=(),
        )
    dims = len(record.link_series_fs)
    counts = np.array([sum(link.dimension == d for link in record.links) for d in range(dims)])
    fine = record.link_series_fs[:, :recorded].astype(np.float64)
    busy_links = np.add.reduceat(fine, np.arange(0, fine.shape[1], merged), axis=1)
    shares = busy_links / widths / np.maximum(counts, 1)[:, None]
    units: dict[str, Floats] = {}
    if record.unit_series_fs is not None:
        fine = record.unit_series_fs[:, :recorded].astype(np.float64)
        worked = np.add.reduceat(fine, np.arange(0, fine.shape[1], merged), axis=1)
        servers = np.array(record.unit_servers) * len(record.graph_of)
        found = worked / widths / servers[:, None]
        units = dict(zip(record.unit_names, np.minimum(found, 1.0), strict=True))
    return Series(
        window_fs=window,
        end_fs=end,
        compute=compute,
        network=busy_links.sum(axis=0) / widths / max(1, counts.sum()),
        dimensions=tuple(shares),
        units=units,
    )


def middle_shares(series: Series) -> dict[str, float]:
    """Links of each dimension, and parts of the endpoints, at work in the middle half of the time;
    0 to 1, empty where that was not recorded."""
    widths = np.diff(series.edges_s)
    middle = slice(len(widths) // 4, max(1, 3 * len(widths) // 4))
    links = {f"links of dimension {n}": each for n, each in enumerate(series.dimensions)}
    if not widths[middle].sum():
        return {}
    return {
        name: float(np.average(shares[middle], weights=widths[middle]))
        for name, shares in {**links, **series.units}.items()
    }


def _before(edges: NDArray[np.int64], moments: NDArray[np.int64]) -> Floats:
    """For each edge, the time that has passed since each moment before it, summed."""
    ordered = np.sort(moments)
    sums = np.concatenate([[0.0], np.cumsum(ordered, dtype=np.float64)])
    below = np.searchsorted(ordered, edges)
    passed: Floats = edges.astype(np.float64) * below - sums[below]
    return passed


def series_table(series: Series) -> Table:
    """One row per window."""
    recorded = bool(len(series.network))
    table = Table(
        "Utilisation over time",
        [
            Column("start_s", "from", "µs", 3),
            Column("compute_percent", "compute units", "%", 2),
            *([Column("link_percent", "all links", "%", 2)] if recorded else []),
            *(
                Column(f"dimension_{d}_percent", f"links of dimension {d}", "%", 2)
                for d in range(len(series.dimensions))
            ),
            *(
                Column(f"{name.lower().replace(' ', '_')}_percent", name, "%", 2)
                for name in series.units
            ),
        ],
    )
    columns = [
        series.compute, *([series.network] if recorded else []), *series.dimensions,
        *series.units.values(),
    ]
    for start, *shares in zip(series.edges_s[:-1], *columns):
        table.add(float(start), *(100 * float(share) for share in shares))
    return table


def vertex_name(vertex: int, nodes: int, names: Sequence[str] = ()) -> str:
    """Vertices of a network are its NPUs, then its switches, which may have *names*."""
    if vertex < nodes:
        return f"NPU {vertex}"
    number = vertex - nodes
    return f"switch {names[number] if number < len(names) else number}"


def link_name(link: Link, nodes: int) -> str:
    return f"{vertex_name(link.source, nodes)} → {vertex_name(link.target, nodes)}"


def links_table(record: RunRecord) -> Table:
    """One row per directed link. A folded run has those of the one node that was simulated."""
    starved = record.link_starved_fs
    table = Table(
        "Links",
        [
            Column("link"),
            Column("from"),
            Column("to"),
            Column("dimension"),
            Column("lane"),
            Column("bandwidth_bytes_per_s", "bandwidth", "GB/s", 1),
            Column("latency_s", "latency", "ns", 1),
            Column("sent_bytes", "sent", "B"),
            Column("sent_bytes_per_s", "rate", "GB/s", 3),
            Column("busy_percent", "busy", "%", 2),
            *([] if starved is None else [Column("credit_wait_percent", "no credits", "%", 2)]),
        ],
        note=_folded_note(record),
    )
    for number, link in enumerate(record.links):
        sent = int(record.link_bytes[number])
        table.add(
            number,
            vertex_name(link.source, record.nodes, record.switch_names),
            vertex_name(link.target, record.nodes, record.switch_names),
            link.dimension,
            link.lane,
            link.bytes_per_s,
            link.latency_fs / FS_PER_S,
            sent,
            _rate(sent, record.end_fs),
            percent(int(record.link_busy_fs[number]), record.end_fs),
            *([] if starved is None else [percent(int(starved[number]), record.end_fs)]),
        )
    return table


def dimensions_table(record: RunRecord) -> Table:
    """One row per dimension of the network: the load of all its links together."""
    table = Table(
        "Dimensions",
        [
            Column("dimension"),
            Column("links"),
            Column("sent_bytes", "sent", "B"),
            Column("per_npu_bytes", "sent per NPU", "B", 0),
            Column("per_npu_bytes_per_s", "rate per NPU", "GB/s", 3),
            Column("busy_percent", "busy", "%", 2),
            Column("busiest_percent", "busiest link", "%", 2),
            Column("least_busy_percent", "least busy link", "%", 2),
        ],
        note=_folded_note(record),
    )
    owner = np.array([link.dimension for link in record.links], dtype=np.int64)
    rows = len(record.graph_of)
    for dimension in np.unique(owner):
        of = owner == dimension
        busy = record.link_busy_fs[of]
        sent = int(record.link_bytes[of].sum())
        table.add(
            int(dimension),
            int(of.sum()),
            sent,
            sent / rows,
            _rate(sent / rows, record.end_fs),
            percent(float(busy.mean()), record.end_fs),
            percent(int(busy.max()), record.end_fs),
            percent(int(busy.min()), record.end_fs),
        )
    return table


def endpoints_table(record: RunRecord) -> Table:
    """One row per resource of the endpoints, memory traffic among them; mean over NPUs."""
    table = Table(
        "Endpoints",
        [
            Column("resource"),
            Column("busy_percent", "busy", "%", 2),
            Column("busiest_percent", "busiest NPU", "%", 2),
            Column("per_npu_bytes", "moved per NPU", "B", 0),
            Column("per_npu_bytes_per_s", "rate per NPU", "GB/s", 3),
        ],
        note="Engine: at least one chunk is assigned to the endpoint. Of units of which there are "
        "several, busy is the mean.",
    )
    busy = record.engine_busy_fs.astype(np.float64)
    table.add(
        "engine",
        percent(busy.mean(), record.end_fs),
        percent(busy.max(), record.end_fs),
        None,
        None,
    )
    for number, name in enumerate(record.unit_names):
        servers = record.unit_servers[number] if record.unit_servers else 1
        busy = record.unit_busy_fs[number].astype(np.float64) / servers
        moved = float(record.unit_bytes[number].astype(np.float64).mean())
        table.add(
            name,
            percent(busy.mean(), record.end_fs),
            percent(busy.max(), record.end_fs),
            moved,
            _rate(moved, record.end_fs),
        )
    return table


def _folded_note(record: RunRecord) -> str:
    return f"One NPU stands for {record.nodes}." if record.folded else ""


def _rate(size_bytes: float, time_fs: int) -> float | None:
    return size_bytes / time_fs * FS_PER_S if time_fs else None


# SPDX-License-Identifier: Apache-2.0
"""Names the unit that bounded a run: the one that, twice as good, would make it shortest.

Twice as good is twice the rate or number of a unit, or half of its latency. For each unit the time
of the run with it is estimated from the record alone, by a model of a pipeline. While collectives
are in progress, for a time of 1,

- each resource *k* works for a part ``b[k]``: the busiest link of each dimension, a server of each
  unit of an endpoint; where part of that is a time for every message, it is the endpoint's;
- a chunk takes a way of length ``c``: latency of links, times of messages at endpoints, its own
  time on links and in units; what it waits for others there does not count;
- the N chunks of a node go their ways W at a time, in N / W turns, and one more fills the pipeline;
  W is N where chunks did not wait to be admitted. Before and after its phases a chunk has its own
  time in the units that load and store it.

The time is the power mean ``(sum(b[k] ** p) + (turns * c) ** p) ** (1 / p)``, with p = 3, in which
doubling a unit halves its parts; more places double W. Dimensions whose links would save as much
are one unit, as most algorithms share their work among them. The run gets no shorter than the work
of any other resource. Of the time that training hides, half is taken to stay hidden. Power and
hidden part are fitted (`python -m bench limits_named`), which also compares with runs of systems of
which each unit was doubled.

Cycle models and RTL count the work of links and of some units, and know nothing of chunks; these
are taken from an event simulation of the same description (``RunRecord.estimate``), if there is
one. Without, the time that no resource explains is called latency.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gen.table import Column, Table
from sim.events.record import RunRecord
from sim.results.breakdown import Breakdown
from sim.results.held import admission_limit, late_share
from sim.units import FS_PER_S

__all__ = ["KINDS", "Bounded", "bounded", "bounded_table"]

POWER = 3.0
FILL = 1.0
HIDDEN = 0.5
WAITED = 0.05
"""Least time that chunks wait to be admitted, over that in phases, to be held by it."""
NEAR = 0.97
"""Links of dimensions whose shares differ by less are one unit."""
LEAST, SHOWN = 1e-4, 5e-4
"""Smaller shares are not named, or not in the table."""

KINDS = (
    "links", "latency", "memory", "SMs", "bus", "SRAM", "FSMs", "ALUs", "endpoint",
    "admission", "compute", "late nodes", "delays",
)
"""Units by name; links have a dimension behind theirs."""
_UNITS: Mapping[str, str] = {
    "memory read": "memory", "memory write": "memory", "TX DMA": "memory", "RX DMA": "memory",
    "host read": "memory", "host write": "memory", "host bus": "memory", "reads": "memory",
    "cores": "SMs", "adders": "ALUs", "dispatcher": "endpoint",
    "SRAM reads": "SRAM", "SRAM writes": "SRAM",
    "bus to fabric": "bus", "bus from fabric": "bus", "bus to engine": "bus",
    "bus from engine": "bus",
}
"""Names of resources in records that are not those of units."""
_AROUND = {
    "TX DMA", "RX DMA", "host read", "host write", "host bus", "bus to engine", "bus from engine",
    "reads",
}
"""Resources that a chunk needs before or after its phases."""
_LIMITS = {"context": "FSMs", "partition": "SRAM", "slots": "SRAM"}
"""Words in the limit of chunks in flight -> the unit that it is of; others are of admission."""

_LINKS = "links of dimension"

Parts = Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """``shares``: unit -> part by which the run would be shorter with twice of it, 0 to 1, the
    largest first. ``limit``: the limit on chunks in flight, in words; empty where none held."""

    shares: Parts
    limit: str = ""

    @property
    def name(self) -> str:
        """The unit; empty for a run that nothing would make shorter."""
        return next((unit for unit, share in self.shares.items() if share >= LEAST), "")

    @property
    def percent(self) -> float:
        """Percent of the run time that twice of it would save."""
        return 100 * self.shares[self.name] if self.name else 0.0

    @property
    def by_kind(self) -> dict[str, float]:
        """Percent by kind of unit; of links that of the dimension that would save most."""
        found: dict[str, float] = {}
        for unit, share in self.shares.items():
            kind = unit.partition(" of ")[0]
            found[kind] = max(found.get(kind, 0.0), 100 * share)
        return found


@dataclass(frozen=True, kw_only=True)
class _Pipeline:
    """Parts of the time of collectives: of each resource, by unit; of the way of a chunk, and of
    its load and store. ``chunks`` of a node, of which ``places`` are under way at a time."""

    resources: list[Parts]
    way: Parts
    around: Parts = field(default_factory=dict)
    chunks: float = 1.0
    places: float = 1.0
    limited_by: str = ""
    limit: str = ""

    @cached_property
    def units(self) -> list[str]:
        named = {unit: 0 for parts in (*self.resources, self.way, self.around) for unit in parts}
        return list({**named, **({self.limited_by: 0} if self.limited_by else {})})

    def time(self, doubled: Collection[str] = ()) -> float:
        """Time with twice of units."""
        places = self.places
        if self.limited_by in doubled:
            places = min(self.chunks, 2 * places)
        turns = self.chunks / self.places
        if places != self.places:
            turns *= (self.chunks / places + FILL) / (turns + FILL)
        way = turns * _halved(self.way, doubled) + _halved(self.around, doubled)
        work = [_halved(parts, doubled) for parts in self.resources]
        return float(sum(each**POWER for each in (*work, way)) ** (1 / POWER))

    def saved(self, *doubled: str) -> float:
        """Part of the time that twice of a unit, or of several, saves."""
        if not (now := self.time()):
            return 0.0
        links = doubled[0].startswith(_LINKS)
        # Several dimensions that are busy all the time share the work of some of the chunks.
        rest = [
            _halved(parts, doubled) for parts in self.resources
            if not (links and next(iter(parts)).startswith(_LINKS))
        ]
        most = max(0.0, 1 - max(rest, default=0.0))
        return max(0.0, min(1 - self.time(doubled) / now, most))

    def all_saved(self) -> dict[str, float]:
        """The same for all units, and for dimensions whose links are alike as one."""
        found = {unit: self.saved(unit) for unit in self.units}
        links = {unit: share for unit, share in found.items() if unit.startswith(_LINKS)}
        most = max(links.values(), default=0.0)
        alike = [unit for unit, share in links.items() if share >= NEAR * most]
        if len(alike) < 2 or most < LEAST:
            return found
        numbers = sorted(int(unit.rpartition(" ")[2]) for unit in alike)
        name = f"links of dimensions {', '.join(map(str, numbers))}"
        rest = {unit: share for unit, share in found.items() if unit not in alike}
        return {**rest, name: self.saved(*alike)}


def _halved(parts: Parts, doubled: Collection[str]) -> float:
    return sum(part / 2 if unit in doubled else part for unit, part in parts.items())


def bounded(run: Breakdown) -> Bounded:
    """The units of a run, with the part of its time that twice of each would save."""
    record = run.record
    if not record.end_fs:
        return Bounded(shares={})
    compute, exposed, delay, _ = (run.mean_fs / record.end_fs).tolist()
    overlapped = sum(each.overlapped_fs for each in run.tasks) / record.end_fs
    shares: dict[str, float] = {}
    busy_fs, limit = _in_progress(record), ""
    if busy_fs:
        pipeline = _pipeline(record, busy_fs)
        limit = pipeline.limit
        hidden = max(0.0, busy_fs / record.end_fs - exposed)
        for unit, share in pipeline.all_saved().items():
            shares[unit] = min(exposed, share * (exposed + HIDDEN * hidden))
    elif exposed:
        shares["latency"] = exposed / 2  # messages to single nodes, of which no more is recorded
    if compute:
        shares["compute"] = (compute - HIDDEN * min(compute, overlapped)) / 2
    if (late := late_share(record, range(len(record.calls)))) > 0:
        shares["late nodes"] = min(exposed, late * exposed)
    if delay:
        shares["delays"] = delay / 2
    ordered = sorted(shares, key=lambda unit: (-shares[unit], unit))
    return Bounded(shares={unit: shares[unit] for unit in ordered}, limit=limit)


def bounded_table(run: Breakdown) -> Table:
    """One row per unit: what twice of it would save, estimated."""
    found = bounded(run)
    table = Table(
        "What bounded the run",
        [Column("unit"), Column("saved_percent", "saved by twice of it", "%", 1)],
        note="Estimated from the run: the part of its time that it would be shorter if a rate or a "
        "number were twice as large, or a latency half as long."
        + (f" Chunks in flight: at most {found.limit}." if found.limit else ""),
    )
    for unit, share in found.shares.items():
        if share >= SHOWN:
            table.add(unit, 100 * share)
    return table


def _links(dimension: int) -> str:
    return f"{_LINKS} {dimension}"


def _in_progress(record: RunRecord) -> float:
    """Time in which at least one collective is in progress."""
    spans = []
    for graph, task in record.calls:
        rows = record.graph_of == graph
        starts, ends = record.task_start_fs[rows, task], record.task_end_fs[rows, task]
        if (begun := starts >= 0).any():
            spans.append((int(starts[begun].min()), int(ends[begun].max())))
    covered = reached = 0
    for start, end in sorted(spans):
        covered += max(0, end - max(reached, start))
        reached = max(reached, end)
    return float(covered)


def _pipeline(record: RunRecord, busy_fs: float) -> _Pipeline:
    """The model of a run; of an engine's, with the chunks of its estimate."""
    resources = _resources(record, busy_fs)
    source = record if record.estimate is None else record.estimate
    in_progress = _in_progress(source)
    if source.call_phases is None or not in_progress or not source.phases.chunks.sum():
        most = max((sum(parts.values()) for parts in resources), default=0.0)
        return _Pipeline(resources=resources, way={"latency": max(0.0, 1 - most)})
    if source is record:
        return _with_chunks(source, in_progress, resources, without=())
    resources += _of_units(source, in_progress, without=record.unit_names)
    # The places of an engine are those of its units.
    return _with_chunks(source, in_progress, resources, without=["admission"])


def _resources(record: RunRecord, busy_fs: float) -> list[Parts]:
    """Parts of time that the busiest link of each dimension, and a server of each unit, works."""
    links: dict[str, float] = {}
    for link, busy in zip(record.links, record.link_busy_fs.tolist()):
        name = _links(link.dimension)
        links[name] = max(links.get(name, 0.0), busy / busy_fs)
    return [*({name: part} for name, part in links.items()), *_of_units(record, busy_fs)]


def _of_units(
    record: RunRecord, busy_fs: float, *, without: Collection[str] = ()
) -> list[Parts]:
    found: list[Parts] = []
    for number, name in enumerate(record.unit_names):
        if name not in without:
            servers = record.unit_servers[number] if record.unit_servers else 1
            busy = float(record.unit_busy_fs[number].max()) / servers / busy_fs
            by_message = _by_message(record, number)
            unit = _UNITS.get(name, name)
            found.append({unit: busy * (1 - by_message), "endpoint": busy * by_message})
    return found


def _by_message(record: RunRecord, number: int) -> float:
    """Part of a unit's work that is a time for every message, whatever its size."""
    rates, name = record.endpoint_rates, record.unit_names[number]
    if rates is None:
        return 0.0
    rate = {
        "memory read": rates.read_bytes_per_s, "memory write": rates.write_bytes_per_s,
    }.get(name, rates.bus_bytes_per_s if name.startswith("bus") else None)
    busy, moved = float(record.unit_busy_fs[number].sum()), float(record.unit_bytes[number].sum())
    if not rate or not moved or not busy:
        return 0.0
    return max(0.0, 1 - moved / rate * FS_PER_S / busy)


def _with_chunks(
    record: RunRecord, busy_fs: float, resources: list[Parts], *, without: Collection[str]
) -> _Pipeline:
    """The model with the ways of chunks, which an event simulation records; units in *without* do
    not bound the chunks in flight."""
    of, rows = record.phases, len(record.graph_of)
    users = np.bincount(record.graph_of, minlength=1 + max(graph for graph, _ in record.calls))
    chunks = float(sum(n * users[graph] for n, (graph, _) in zip(of.chunks, record.calls))) / rows
    every = chunks * rows * busy_fs  # of all nodes and chunks, so that parts are of one
    lived, queued = float(of.time_fs.sum()) / every, float(of.queue_delay_fs.sum()) / every
    latency, network, endpoint, received = (part / every for part in _life(record))
    way: dict[str, float] = defaultdict(float)
    around: dict[str, float] = defaultdict(float)
    own = 0.0
    for number, name in enumerate(record.unit_names):
        part, by_message = float(record.unit_busy_fs[number].sum()) / every, _by_message(
            record, number
        )
        own += part
        place = around if name in _AROUND else way
        place[_UNITS.get(name, name)] += part * (1 - by_message)
        place["endpoint"] += part * by_message
    sent: dict[str, float] = defaultdict(float)
    for link, busy in zip(record.links, record.link_busy_fs.tolist()):
        sent[_links(link.dimension)] += busy / every
    total = sum(sent.values())
    for name, part in sent.items():
        way[name] += min(part, network * part / total if total else 0.0)
    # What is busy makes chunks wait for one another: that is no part of their own way.
    most = max((sum(parts.values()) for parts in resources), default=0.0)
    way["endpoint"] += max(0.0, endpoint - own) * max(0.0, 1 - most) + received
    way["latency"] += latency
    holds = queued > WAITED * lived
    places = min(chunks, max(1e-9, chunks * lived)) if holds else chunks
    limit = admission_limit(record, busy_fs) if holds and record.admission else ""
    unit = next((unit for word, unit in _LIMITS.items() if word in limit), "admission")
    return _Pipeline(
        resources=resources, way=way, around=around, chunks=chunks, places=places,
        limited_by=unit if holds and unit not in without else "", limit=limit,
    )


def _life(record: RunRecord) -> tuple[float, float, float, float]:
    """Time of all chunks in phases, in proportion to that of their messages: latency of links,
    links, units of endpoints, and the delay of every message that has arrived."""
    of = record.phases
    latency, network, endpoint, messages, spent = (
        each.astype(np.float64).sum(axis=0)
        for each in (
            of.latency_fs, of.network_delay_fs, of.bus_delay_fs, of.messages, of.time_fs
        )
    )
    received, network = messages * record.receive_fs, np.maximum(0.0, network - latency)
    whole = np.maximum(1.0, latency + network + endpoint + received)
    parts = [float((spent * part / whole).sum()) for part in (latency, network, endpoint, received)]
    return parts[0], parts[1], parts[2], parts[3]

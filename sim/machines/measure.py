# SPDX-License-Identifier: Apache-2.0
"""Collectives on machines by name, in the columns of nccl-tests."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gen.table import Column, Table
from sim.describe.machines import Machine, machine
from sim.endpoint.calibrated import Calibration
from sim.fields import check
from sim.limits.network import call_bound
from sim.network.network import Network
from sim.results.limits import switch_bound
from sim.run import run
from sim.units import GB
from sim.workload.graph import CollectiveCall, CollectiveKind

__all__ = [
    "COLLECTIVES", "COUNTED_WHOLE", "ELEMENT_BYTES", "Row", "heading", "line_of", "lines_of",
    "measure", "rows_table", "sizes_from",
]

COLLECTIVES = ("all_reduce", "all_gather", "all_to_all")
COUNTED_WHOLE = ("all_reduce", "broadcast")
"""Collectives of which nccl-tests counts the elements of the vector; of others those of a rank."""
ELEMENT_BYTES = 4
MESSAGES = 4096
"""Messages of a step of a large vector; more would cost time and change nothing."""
WAVES = 512
"""Waves into which large vectors are cut, likewise."""
ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Row:
    """A collective of ``size_bytes``, as nccl-tests counts them: of the whole vector.

    ``bound_s``: the start of a call plus the shortest time possible on the links, with reduction in
    switches that have it. Not ``is_timed``: neither a start nor a latency is stated, so the time
    is that of the links alone, and tells only the rate of large vectors.
    """

    size_bytes: int
    algorithm: str
    time_s: float
    bound_s: float
    bus_share: float
    """Bytes per byte of the vector that each rank sends without help from switches."""
    is_timed: bool = True

    @property
    def algbw(self) -> float:
        """Bytes per second."""
        return self.size_bytes / self.time_s

    @property
    def busbw(self) -> float:
        """Bytes per second."""
        return self.algbw * self.bus_share

    @property
    def percent(self) -> float:
        """Percent of the possible speed."""
        return 100 * self.bound_s / self.time_s


def measure(
    name: str,
    collective: str,
    size_bytes: int,
    *,
    algorithm: str = "auto",
    calibration: Calibration | None = None,
    nodes: int | None = None,
) -> Row:
    """Run a collective on all ranks, or on *nodes*; ``auto`` takes the fastest algorithm there is.

    Raises
    ------
    ValueError
        There is no such machine, collective or algorithm, or not so many ranks.
    """
    check("collective", collective, f"one of {', '.join(COLLECTIVES)}", collective in COLLECTIVES)
    here = machine(name, nodes)
    offered = here.algorithms(collective)
    known = ["auto", *offered]
    check("algorithm", algorithm, f"one of {', '.join(known)} on {name}", algorithm in known)
    chosen = list(offered) if algorithm == "auto" else [algorithm]
    rows = [
        _row(name, here, collective, size_bytes, each, offered[each], calibration)
        for each in chosen
    ]
    return min(rows, key=lambda row: row.time_s)


def sizes_from(first: int, last: int, factor: int) -> list[int]:
    """Sizes that grow by a factor from *first* on; *last* is always included.

    Raises
    ------
    ValueError
        The last one is below the first.
    """
    check("last size", last, f"at least the first, {first}", last >= first)
    sizes = [first]
    while sizes[-1] * factor < last:
        sizes.append(sizes[-1] * factor)
    return sizes if last == first else [*sizes, last]


def lines_of(
    name: str, collective: str, rows: Sequence[Row], nodes: int | None = None
) -> list[str]:
    """Rows as nccl-tests prints them, with bound and algorithm appended; no time where none is
    known, see `Row`."""
    here = machine(name, nodes)
    lines = [
        f"# {name}: {collective} on {here.nodes} ranks, simulated",
        f"# {here.source}",
        f"# chosen: {here.chosen}",
    ]
    if not all(row.is_timed for row in rows):
        lines.append(
            "# links alone: no start, step or latency is stated, so there are no times, and rates "
            "are those of the links"
        )
    lines.append(heading("algorithm"))
    return lines + [line_of(row, collective, here.nodes, row.algorithm) for row in rows]


def rows_table(rows: Sequence[Row], last: str, texts: Sequence[str]) -> Table:
    """The same numbers as a table; *texts* are the column *last*."""
    table = Table("Bandwidth", [
        Column("size_bytes", "size", "B"),
        Column("time_s", "time", "µs", 3),
        Column("algbw_bytes_per_s", "algbw", "GB/s", 3),
        Column("busbw_bytes_per_s", "busbw", "GB/s", 3),
        Column("bound_s", "lower bound", "µs", 3),
        Column("bound_percent", "of the bound", "%", 1),
        Column(last),
    ])
    for row, text in zip(rows, texts, strict=True):
        time_s, bound_s = (row.time_s, row.bound_s) if row.is_timed else (None, None)
        table.add(row.size_bytes, time_s, row.algbw, row.busbw, bound_s, row.percent, text)
    return table


def heading(last: str) -> str:
    """The line above rows; *last* is the name of their last column."""
    return (
        f"{'# size (B)':>12}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}"
        f"  {'time (us)':>11}  {'algbw':>6}  {'busbw':>6}  {'bound (us)':>11}  {'%':>6}"
        f"  {last}; bandwidths in GB/s"
    )


def line_of(row: Row, collective: str, ranks: int, last: str) -> str:
    """A row as nccl-tests prints it, with bound, percent of it, and *last* appended."""
    if collective in COUNTED_WHOLE:
        ranks = 1
    adds = collective in ("all_reduce", "reduce_scatter")
    return (
        f"{row.size_bytes:12d}  {row.size_bytes // ELEMENT_BYTES // ranks:12d}  {'float':>8s}"
        f"  {'sum' if adds else 'none':>6s}  {-1:6d}  {_time(row, row.time_s):>11}"
        f"  {row.algbw / GB:6.2f}"
        f"  {row.busbw / GB:6.2f}  {_time(row, row.bound_s):>11}  {row.percent:6.1f}"
        f"  {last}"
    )


def _time(row: Row, seconds: float) -> str:
    """Microseconds with four digits at least, since a fit reads them again; rounded up, so that
    none is below the start that it has."""
    if not row.is_timed:
        return "-"
    value = seconds * 1e6
    digits = 2 if value >= 10 or not value else 3 - math.floor(math.log10(value))
    return f"{math.ceil(value * 10**digits * (1 - ROUNDING)) / 10**digits:.{digits}f}"


def _row(
    name: str,
    here: Machine,
    collective: str,
    size_bytes: int,
    algorithm: str,
    tables: Mapping[str, Mapping[str, Any]],
    calibration: Calibration | None,
) -> Row:
    kind = CollectiveKind(collective)
    # An all-gather starts from a part of what nccl-tests calls its size.
    per_rank = size_bytes // (here.nodes if kind is CollectiveKind.ALL_GATHER else 1)
    description: dict[str, Any] = {
        "topology": {"machine": name, "nodes": here.nodes},
        "workload": {"collective": collective, "size_bytes": max(1, per_rank)},
        "run": {"passes": 1},
        **tables,
    }
    if "endpoint" in tables:
        description["endpoint"] = {**tables["endpoint"], **_waves(here, tables, per_rank)}
    else:
        # Messages of large vectors are larger, so that there are not more of them.
        message = max(4096.0, size_bytes / MESSAGES)
        description["endpoint"] = {"kind": "ideal", "delay_s": 0.0, "message_bytes": message}
    added = Calibration() if calibration is None else calibration
    description["calibration"] = {
        "share": added.share, "start": added.start, "step": added.step,
    }
    done = run(description)
    call = CollectiveCall(kind=kind, size_bytes=max(1, per_rank))
    ranks = here.nodes
    return Row(
        size_bytes=size_bytes,
        algorithm=algorithm,
        time_s=done.time_s,
        bound_s=added.start + _bound_s(here, done.network, call),
        bus_share=(2 if kind is CollectiveKind.ALL_REDUCE else 1) * (ranks - 1) / ranks,
        is_timed=here.latency_is_stated or added.start > 0 or added.step > 0,
    )


def _bound_s(here: Machine, network: Network, call: CollectiveCall) -> float:
    """Bound of the links, with the switches that the machine has, whatever was run."""
    if here.in_switch is None:
        return call_bound(network, call).seconds
    travels = bool(here.in_switch.get("own_travels"))
    return switch_bound(network, call, own_travels=travels).seconds


def _waves(
    here: Machine, tables: Mapping[str, Mapping[str, Any]], per_rank: int
) -> dict[str, float]:
    """Wave and message sizes; large vectors have larger waves, so that there are not more."""
    members = here.nodes if tables["endpoint"]["mode"] == "pull" else 1
    planes = max(each["lanes"] for each in here.dimensions)
    wave = max(8192.0, per_rank / WAVES * planes / members)
    return {"wave_bytes": wave, "message_bytes": max(2048.0, wave * members / planes / 8)}

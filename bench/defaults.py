# SPDX-License-Identifier: Apache-2.0
"""Default chunks and places, against the best of a grid of stated ones.

Collectives on the topologies of ``sim_limits`` and on some more, with the default endpoint. Sizes
are of the whole vector, so an all-gather starts from a part of it. Runs of more than 4 MB that do
not fold have larger messages, also in the grid, so that they have about as many events. Equivalent
settings (as many chunks, and places for all of them) are run once, and none where the default comes
so near the bound that no setting can be 1.05 times as fast: there the bound is taken for the best
(``--all`` runs them all).

Then the endpoints of the papers and the examples, against 64 KiB and 8 places, the old defaults.

Runs are cached until the sources change that they depend on; those of the grid depend on the
simulator without the rule for defaults, which stated settings do not use.
"""

import argparse
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from bench._cases import outcomes
from bench._endpoints import in_network, limits
from bench._kept import Kept
from bench._reference import collective
from bench.options import whole
from bench.result import result
from bench.sim_limits import Case, cases, links
from bench.sources import digest
from foldwire.console import print_table
from gen.table import Column, Table
from sim.collectives.plan import AlgorithmChoice, plan_collective
from sim.endpoint.kinds import KINDS, IdealEndpoint, endpoint
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.limits.network import call_bound
from sim.network.network import Network
from sim.results.held import held
from sim.run import run
from sim.units import FS_PER_S, MIB
from sim.workload.graph import CollectiveCall, CollectiveKind

__all__ = ["main"]

ROOT = Path(__file__).parents[1]
RULE = ROOT / "sim" / "events" / "defaults.py"
DECIDE = ("collectives", "endpoint", "events", "native", "network")
"""Folders that runs of stated settings depend on, without the rule for defaults."""
CHUNKS = (64 << 10, 256 << 10, 1 << 20, 4 << 20)
PLACES = (8, 32, 128)
BEFORE = {"scheduler.chunk_bytes": 65536, "scheduler.concurrency": 8}
COLLECTIVES = (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL)
SIZES = (1, 16, 256, 1024)
LEAST_MESSAGE = 4096
"""Bytes of a message of the endpoint."""
MESSAGES = 1024
"""Messages of a run that does not fold are at least its size divided by this."""
MOST_RATIO, MOST_SLOWER_PCT, NAMED_PCT = 1.05, 2.0, 90.0
RING_PCT, TORUS_PCT = 99.0, 98.0
ENDPOINTS = [kind for kind in sorted(KINDS) if kind != "ideal" and not in_network(kind)]
ENDPOINT_SIZES = (1 << 16, 1 << 20, 16 << 20, 64 << 20)
EVENTS = "events"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A collective of ``size_bytes`` on a topology; ``chunk_bytes`` and ``places`` of 0 mean the
    defaults."""

    topology: str
    kind: str
    size_bytes: int
    message_bytes: int
    chunk_bytes: int = 0
    places: int = 0


@dataclass(frozen=True, kw_only=True)
class Beside:
    """An endpoint's collective, or an example, with an empty endpoint."""

    name: str
    endpoint: str = ""
    kind: str = ""
    size_bytes: int = 0


@cache
def topologies() -> Mapping[str, Network]:
    """Networks by name."""
    gpus, pods = links("switch", 8, 450, 401.6), links("switch", 16, 50, 401.6)
    further = [
        Case("ring 64, 500 cycles", (links("ring", 64, 25, 401.6),)),
        Case("torus 8x8x8, 500 cycles", (links("ring", 8, 25, 401.6),) * 3),
        Case("switch 8, 450 GB/s", (gpus,)),
        Case("switch 8 x switch 16, 450 and 50 GB/s", (gpus, pods)),
    ]
    return {case.name: Network(case.dimensions) for case in [*cases(), *further]}


def main(argv: Sequence[str]) -> int:
    """``--topologies TEXT``, ``--sizes MB ...``, ``--kinds NAME ...``: some of the cases;
    ``--all``: the grid everywhere; ``--beside``: the endpoints and examples alone;
    ``--processes N`` (2); ``--fresh``."""
    parser = argparse.ArgumentParser(prog="python -m bench defaults", description=__doc__)
    parser.add_argument("--topologies", default="", help="whose names have this text in them")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="MB")
    kinds = [each.value for each in COLLECTIVES]
    parser.add_argument("--kinds", nargs="*", default=kinds, choices=kinds)
    parser.add_argument("--all", action="store_true", help="the grid also near the bound")
    parser.add_argument("--beside", action="store_true", help="endpoints and examples alone")
    parser.add_argument("--processes", type=whole(), default=2, help="at a time (default: 2)")
    parser.add_argument("--fresh", action="store_true", help="forget what was run before")
    options = parser.parse_args(list(argv))
    simulator = [
        str(path.relative_to(ROOT))
        for folder in DECIDE
        for path in (ROOT / "sim" / folder).rglob("*.py")
        if path != RULE
    ]
    stated = Kept("defaults_grid", digest(ROOT, simulator), fresh=options.fresh)
    chosen = Kept("defaults", digest(ROOT, ["sim", "examples"]), fresh=options.fresh)
    grid = [] if options.beside else list(_grid(options))
    table, found = _against_grid(grid, stated, chosen, options)
    besides = [*_of_endpoints(), *_of_examples()]
    slower = _against_before(besides, chosen, options.processes)
    if table.rows:
        print_table(table)
    worst = max((each["ratio"] for each in found), default=0.0)
    reached = {name: _least(found, name) for name in ("ring 64", "torus 8x8x8")}
    unexplained = sum(each["percent"] < NAMED_PCT and not each["held"] for each in found)
    met = (
        worst <= MOST_RATIO
        and reached["ring 64"] >= RING_PCT
        and reached["torus 8x8x8"] >= TORUS_PCT
        and not unexplained
        and slower <= MOST_SLOWER_PCT
    )
    result(
        "defaults",
        cases=len(found),
        worst_ratio=worst,
        ring64_pct=reached["ring 64"],
        torus512_pct=reached["torus 8x8x8"],
        unexplained=unexplained,
        beside=len(besides),
        slower_worst_pct=slower,
        verdict="ok" if met else "short",
    )
    return 0


def _grid(options: argparse.Namespace) -> Iterator[Setting]:
    """Yield settings, small sizes first, and at each size the topologies that fold first."""
    named = topologies()
    for size in sorted(options.sizes):
        for name in sorted(named, key=lambda each: (not _folds(named[each]), named[each].nodes)):
            if options.topologies in name:
                message = LEAST_MESSAGE
                if not _folds(named[name]):
                    message = max(message, size * MIB // MESSAGES)
                for kind in options.kinds:
                    yield Setting(
                        topology=name, kind=kind, size_bytes=size * MIB, message_bytes=message
                    )


def _folds(network: Network) -> bool:
    return not any(each.has_switches for each in network.dimensions)


def _least(found: Sequence[Mapping[str, Any]], name: str) -> float:
    """The lowest share of the bound of the all-reduces of 256 MB on topologies of a name."""
    return min(
        (
            each["percent"]
            for each in found
            if each["topology"].startswith(name)
            and (each["kind"], each["size"]) == ("all_reduce", 256 * MIB)
        ),
        default=0.0,
    )


# ---- Against the grid.


def _against_grid(
    asked: Sequence[Setting], stated: Kept, chosen: Kept, options: argparse.Namespace
) -> tuple[Table, list[dict[str, Any]]]:
    defaults = dict(outcomes(chosen, asked, _run, options.processes))
    far = [
        setting for setting in asked
        if options.all or defaults[setting]["percent"] < 100 / MOST_RATIO
    ]
    wanted = {setting: list(_stated(setting)) for setting in far}
    settings = list(dict.fromkeys(each for of in wanted.values() for each in of))
    times = {
        setting: found["seconds_simulated"]
        for setting, found in outcomes(stated, settings, _run, options.processes)
    }
    table = Table(
        "Defaults, and the best of stated settings",
        (
            Column("topology"),
            Column("collective"),
            Column("size_bytes", "size", "MiB", 0),
            Column("chunks"),
            Column("places"),
            Column("time_s", "time", "µs", 1),
            Column("best_s", "best", "µs", 1),
            Column("best_of", "best of"),
            Column("ratio", digits=3),
            Column("reached_percent", "of the bound", "%", 1),
            Column("held_by", "held by"),
        ),
        note="Held by: where less than 90 % of the bound is reached.",
    )
    found = []
    for setting in asked:
        mine = defaults[setting]
        percent, seconds = mine["percent"], mine["seconds_simulated"]
        best_s, best_of = seconds * percent / 100, "the bound"
        if setting in wanted:
            best = min(wanted[setting], key=lambda each: times[each])
            best_s, best_of = times[best], f"{best.chunk_bytes >> 10} KiB, {best.places}"
        ratio = seconds / best_s
        found.append({
            "topology": setting.topology, "kind": setting.kind, "size": setting.size_bytes,
            "ratio": ratio, "percent": percent, "held": mine["held"],
        })
        table.add(
            setting.topology, setting.kind, setting.size_bytes, mine["chunks"],
            mine["places"], seconds, best_s, best_of, ratio, percent,
            mine["held"] if percent < NAMED_PCT else "",
        )
    return table, found


def _stated(setting: Setting) -> Iterator[Setting]:
    """Yield the distinct settings of the grid: those with as many chunks, and places for all of
    them, are the same."""
    network, call = _network_and_call(setting)
    variants = len(plan_collective(network, call.kind, AlgorithmChoice()).variants)
    seen: set[tuple[int, int]] = set()
    for chunk_bytes in CHUNKS:
        chunks = Scheduler(chunk_bytes=chunk_bytes).chunks(call.size_bytes, variants, chunk_bytes)
        for places in PLACES:
            key = chunks, min(places, chunks)
            if key not in seen:
                seen.add(key)
                yield replace(setting, chunk_bytes=chunk_bytes, places=places)


def _network_and_call(setting: Setting) -> tuple[Network, CollectiveCall]:
    network, kind = topologies()[setting.topology], CollectiveKind(setting.kind)
    size_bytes = setting.size_bytes
    if kind is CollectiveKind.ALL_GATHER:
        size_bytes //= network.nodes
    return network, CollectiveCall(kind=kind, size_bytes=size_bytes)


def _run(setting: Setting) -> dict[str, Any]:
    network, call = _network_and_call(setting)
    scheduler = Scheduler()
    if setting.places:
        scheduler = Scheduler(chunk_bytes=setting.chunk_bytes, concurrency=setting.places)
    record = simulate(
        network,
        collective(call.size_bytes, call.kind),
        endpoint=IdealEndpoint(message_bytes=setting.message_bytes),
        scheduler=scheduler,
    )
    seconds = record.end_fs / FS_PER_S
    percent = call_bound(network, call).percent(seconds)
    assert record.admission is not None
    places = sorted({*record.admission.places})
    why = held(record, percent / 100, record.end_fs)
    return {
        "seconds_simulated": seconds,
        "percent": percent,
        "chunks": int(record.phases.chunks[0]),
        "places": "-".join(str(each) for each in dict.fromkeys([places[0], places[-1]])),
        "held": "" if why is None else why.by,
    }


# ---- Against the defaults before.


def _of_endpoints() -> Iterator[Beside]:
    shapes = {
        "ring 8": "all", "ring 64": "all", "torus 4x4x4": "some", "torus 8x8x8": "some",
        "torus 4x4x4, 400/50/50 GB/s": "some", "switch 12": "some", "ring 4 x switch 16": "some",
        "torus 8x8x8, 500 cycles": "some", "ring 64, 500 cycles": "all",
    }
    for size_bytes in ENDPOINT_SIZES:
        for name, which in shapes.items():
            for kind in ENDPOINTS:
                few = limits(kind)
                if few is not None and which != "all":
                    continue
                for what in COLLECTIVES if few is None else few.COLLECTIVES:
                    yield Beside(
                        name=name, endpoint=kind, kind=what.value, size_bytes=size_bytes
                    )


def _of_examples() -> Iterator[Beside]:
    """Examples that events simulate with chunks that are neither stated nor an engine's."""
    for path in sorted((ROOT / "examples").glob("*.toml")):
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        levels = {document.get(name, {}).get("level", EVENTS) for name in ("endpoint", "switch")}
        engine = "preset" in document.get("endpoint", {}) or "switch" in document
        reduces = in_network(document.get("endpoint", {}).get("kind"))
        if levels == {EVENTS} and not engine and not reduces and "astra" not in document:
            yield Beside(name=path.name)


def _against_before(asked: Sequence[Beside], chosen: Kept, processes: int) -> float:
    """The most by which a default is slower, in per cent; prints what is slower."""
    worst = -100.0
    for each, found in outcomes(chosen, asked, _beside, processes):
        slower = 100 * (found["after"] / found["before"] - 1)
        worst = max(worst, slower)
        if slower > MOST_SLOWER_PCT / 2 or not each.endpoint:
            where = f"{each.endpoint} {each.kind} {each.size_bytes >> 10} KiB on {each.name}"
            print(f"{where if each.endpoint else each.name}: {slower:+.2f} %", flush=True)
    return worst


def _beside(what: Beside) -> dict[str, Any]:
    run_one = _example if not what.endpoint else _endpoint
    return {"after": run_one(what, before=False), "before": run_one(what, before=True)}


def _endpoint(what: Beside, *, before: bool) -> float:
    network, kind = topologies()[what.name], CollectiveKind(what.kind)
    size_bytes = what.size_bytes
    if kind is CollectiveKind.ALL_GATHER:
        size_bytes = max(4, size_bytes // network.nodes)
    few = limits(what.endpoint)
    record = simulate(
        network,
        collective(size_bytes, kind),
        endpoint=endpoint(what.endpoint),
        algorithms=None if few is None else few.ALGORITHM,
        scheduler=Scheduler(chunk_bytes=65536, concurrency=8) if before else Scheduler(),
    )
    return record.end_fs / FS_PER_S


def _example(what: Beside, *, before: bool) -> float:
    path = ROOT / "examples" / what.name
    stated = tomllib.loads(path.read_text(encoding="utf-8")).get("scheduler", {})
    changes = dict(BEFORE) if before else {}
    if "splits" in stated or "chunk_bytes" in stated:
        changes.pop("scheduler.chunk_bytes", None)
    if {"concurrency", "injection_policy"} & {*stated}:
        changes.pop("scheduler.concurrency", None)
    return run(path, changes=changes).time_s

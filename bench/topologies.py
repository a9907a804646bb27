# SPDX-License-Identifier: Apache-2.0
"""Topologies written as links against the same ones by name, and the examples that have no name.

Each description runs twice, with nothing changed but how the topology is written: by its kind and
shape, and link by link. Every collective that the algorithms have, a group of a part of the nodes,
a failed link and a training job are among them. The examples are a dragonfly, a cluster with rails
and an oversubscribed tree of two levels; each must end, no faster than its bound.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.result import result
from foldwire.console import print_table, step
from gen.table import Column, Table
from sim.describe.system import describe
from sim.network.network import Network
from sim.run import run

__all__ = ["CASES", "EXAMPLES", "Case", "as_links", "main"]

EXAMPLES = ("dragonfly.toml", "rails.toml", "oversubscribed.toml")
TARGET_PCT = 0.1
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast")
SIZE = 1 << 20

Tables = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A description by name: tables, the shape that collectives see, and what runs."""

    name: str
    tables: Tables
    workloads: tuple[Tables, ...] = tuple(
        {"collective": each, "size_bytes": SIZE} for each in COLLECTIVES
    )
    more: Tables = field(default_factory=dict)


def _fat_tree(size: int, **options: Any) -> Tables:
    links = {"bandwidth_bytes_per_s": 25e9, "latency_s": 3e-7, "efficiency": 0.9}
    return {"dimension": [{"kind": "fat_tree", "size": size, **links, **options}]}


def _some(*kinds: str, **options: Any) -> tuple[Tables, ...]:
    return tuple({"collective": each, "size_bytes": SIZE, **options} for each in kinds)


CASES = (
    Case("ring of 8", {"topology": {"kind": "ring", "shape": [8]}}),
    Case("ring of 6, two lanes", {"topology": {"kind": "ring", "shape": [6]},
                                  "dimension": [{"lanes": 2}]}),
    Case("torus 4x4", {"topology": {"kind": "torus", "shape": [4, 4]}}),
    Case("torus 5x3x2", {"topology": {"kind": "torus", "shape": [5, 3, 2]}}),
    Case("hierarchical torus 2x4x3", {"topology": {"kind": "hierarchical_torus",
                                                   "shape": [2, 4, 3]}}),
    Case("switch of 8", {"topology": {"kind": "switch", "shape": [8],
                                      "router_latency_s": 1e-7}}),
    Case("four switches of 12", {"topology": {"kind": "switch", "shape": [12]},
                                 "dimension": [{"lanes": 4}]}),
    Case("all connected, 7", {"topology": {"kind": "fully_connected", "shape": [7]}}),
    Case("fat tree of 16", _fat_tree(16, group=4, lanes=2, router_latency_s=5e-8)),
    Case("tree of 16, 4 to 1", _fat_tree(16, group=8, trunk_bandwidth_bytes_per_s=50e9)),
    Case("DGX-2", {"topology": {"kind": "dgx2"}}),
    Case("ring of 8, groups of 2 and 4", {"topology": {"kind": "ring", "shape": [8]}},
         ({"generator": "mlp"},)),
    Case("torus 4x4, dimension 1", {"topology": {"kind": "torus", "shape": [4, 4]}},
         _some("all_reduce", "all_to_all", dimensions=[1])),
    Case("switch of 8, packets", {"topology": {"kind": "switch", "shape": [8]}},
         _some("all_reduce", "all_to_all"), {"network": {"granularity": "packet"}}),
    Case("torus 4x4, a slow link", {"topology": {"kind": "torus", "shape": [4, 4]}},
         _some("all_reduce"), {"scenario": {"link": [
             {"source": 0, "target": 1, "bandwidth_factor": 0.5}]}}),
    Case("torus 4x4, training", {"topology": {"kind": "torus", "shape": [4, 4]}},
         ({"shipped": "resnet50"},)),
)


def as_links(tables: Tables) -> Tables:
    """The same description with its topology written as links, from the network that it makes."""
    described = describe({**tables, "workload": {"collective": "all_reduce", "size_bytes": 4}})
    network = Network(described.dimensions)
    dims = network.dimensions
    rows = []
    for number, link in enumerate(network.links()):
        trunk = number - network.wiring.trunk[link.dimension]
        if not dims[link.dimension].spine and trunk >= 0 and trunk % 2:
            continue  # leaves without a spine have a link each; routes take that of the sender
        ends = [
            end if end < network.nodes else f"s{end - network.nodes}"
            for end in (link.source, link.target)
        ]
        dim = dims[link.dimension]
        leaves = link.source >= network.nodes and link.target < network.nodes
        router_s = 0.0 if leaves else dim.router_latency_s
        rows.append({
            "source": ends[0], "target": ends[1], "both_ways": False,
            "bandwidth_bytes_per_s": link.bytes_per_s / dims[0].efficiency,
            "latency_s": dim.latency_s + router_s - (0.0 if leaves else dims[0].router_latency_s),
        })
    topology: Tables = {
        "kind": "links", "link": rows, "efficiency": dims[0].efficiency,
        "router_latency_s": dims[0].router_latency_s, "latency_s": dims[0].latency_s,
    }
    if len(dims) > 1:
        topology["logical_shape"] = list(network.shape)
    rest = {key: each for key, each in tables.items() if key not in ("topology", "dimension")}
    return {**rest, "topology": topology}


@dataclass(frozen=True)
class Both:
    """Times of a workload by name and as links, in seconds."""

    case: str
    workload: str
    named_s: float
    links_s: float

    @property
    def percent(self) -> float:
        return 100 * abs(self.links_s / self.named_s - 1)


def compare(case: Case) -> Iterator[Both]:
    """Run a case both ways."""
    for workload in case.workloads:
        named = {**case.tables, **case.more, "workload": workload}
        times = [run(each).time_s for each in (named, as_links(named))]
        what = workload.get("collective", workload.get("generator", workload.get("shipped")))
        yield Both(case.name, str(what), *times)


def main(argv: Sequence[str]) -> int:
    """``--cases N``: the first N only."""
    parser = argparse.ArgumentParser(prog="python -m bench topologies", description=__doc__)
    parser.add_argument("--cases", type=int, default=len(CASES), help="the first so many")
    options = parser.parse_args(list(argv))
    found: list[Both] = []
    for case in CASES[: options.cases]:
        with step(case.name):
            found += compare(case)
    table = Table("Named topologies and the same as links", [
        Column("topology"), Column("runs"), Column("named_s", "by name", "µs", 3),
        Column("links_s", "as links", "µs", 3), Column("off_percent", "off", "%", 4),
    ])
    for both in found:
        table.add(both.case, both.workload, both.named_s, both.links_s, both.percent)
    print_table(table)
    equal = {case.name for case in CASES[: options.cases]} - {
        both.case for both in found if both.percent > TARGET_PCT
    }
    ran = _examples()
    worst = max(both.percent for both in found)
    met = len(equal) == min(options.cases, len(CASES)) and ran == len(EXAMPLES)
    result(
        "topologies", verdict="ok" if met else "short", equal=len(equal),
        descriptions=min(options.cases, len(CASES)), runs=len(found), worst_pct=worst,
        examples=ran,
    )
    return 0


def _examples() -> int:
    """The number of examples that ran, no faster than their bound."""
    table = Table("Topologies without a name", [
        Column("example"), Column("network"), Column("time_s", "run time", "µs", 3),
        Column("bound_percent", "of the bound", "%", 1), Column("set_by"),
    ])
    for name in EXAMPLES:
        with step(name):
            done = run(Path(__file__).parent.parent / "examples" / name)
        names = [column.name for column in done.limits.columns]
        row = dict(zip(names, done.limits.rows[0]))
        table.add(name, done.network.describe(), done.time_s, row["mean_percent"], row["set_by"])
    print_table(table)
    return len(table.rows)

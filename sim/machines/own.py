# SPDX-License-Identifier: Apache-2.0
"""Collectives on systems that a file describes, over sizes, as nccl-tests counts these."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.describe.changes import apply
from sim.describe.endpoints import with_endpoint
from sim.describe.loaded import load_stated
from sim.describe.reader import ConfigError, FilePlace, TomlReader, load_toml, read_text
from sim.describe.sections import Description
from sim.describe.system import describe
from sim.fields import check, not_one_of
from sim.machines.measure import COUNTED_WHOLE, ELEMENT_BYTES, Row
from sim.run import run
from sim.workload.graph import CollectiveKind

__all__ = ["SizedCollective", "SizedRow", "prepare"]

NODES = "--nodes"
RESULTS = ("algbw_bytes_per_s", "busbw_bytes_per_s")


@dataclass(frozen=True, kw_only=True)
class SizedRow(Row):
    """``set_by``: the resource that sets the bound."""

    set_by: str


@dataclass(frozen=True, kw_only=True)
class SizedCollective:
    """A description, and the collective that is to run on it.

    ``document``: its tables, with all changes but the size; ``source``: its file. ``nodes``: of the
    system; ``ranks``: those of a group of the collective. ``endpoint``: kind and level.
    """

    document: Mapping[str, Any]
    source: str
    collective: str
    nodes: int
    ranks: int
    endpoint: str

    def rounded(self, size: int) -> int:
        """The largest size that is not above *size* and can be cut, at least an element a rank."""
        part = ELEMENT_BYTES * (1 if self.collective in COUNTED_WHOLE else self.ranks)
        return max(1, size // part) * part

    def measure(self, size: int) -> SizedRow:
        """Run it once, of a vector of *size* bytes."""
        gathers = self.collective == CollectiveKind.ALL_GATHER.value
        own = size // (self.ranks if gathers else 1)
        table = {**self.document["workload"], "size_bytes": own}
        done = run({**self.document, "workload": table}, source=self.source)
        (bound_s,), (set_by,) = done.limits["bound_s"], done.limits["set_by"]
        rates = [done.metrics.get(name, 0.0) for name in RESULTS]
        return SizedRow(
            size_bytes=size,
            algorithm=done.algorithm,
            time_s=size / rates[0] if rates[0] else 0.0,
            bound_s=float(bound_s or 0.0),
            bus_share=rates[1] / rates[0] if rates[0] else 0.0,
            set_by=str(set_by),
        )


def prepare(
    path: Path,
    *,
    collective: str | None = None,
    nodes: int | None = None,
    endpoint: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> SizedCollective:
    """Read the description in *path*, to run *collective* on it: by default the one that it states,
    or an all-reduce in place of a job.

    Raises
    ------
    ConfigError
        The description is wrong, or cannot have so many *nodes*.
    """
    text = read_text(path)
    document = load_toml(text, source=str(path))
    reader = TomlReader(str(path), text)
    load_stated(document, reader, path.parent)
    if endpoint is not None:
        document, _ = with_endpoint(document, endpoint)
    apply(document, changes or {}, reader)
    if "astra" in document:
        raise reader.error("astra", "", "names a workload of its own; bandwidth needs tables")
    table = document.get("workload")
    stated = dict(table) if isinstance(table, dict) else {}
    if "collective" not in stated:
        stated = {key: stated[key] for key in ("op",) if key in stated}
    chosen = collective or stated.get("collective", "all_reduce")
    kinds = [kind.value for kind in CollectiveKind]
    if chosen not in kinds:
        raise FilePlace("--collective", None, "").error(not_one_of(chosen, kinds))
    document["workload"] = {**stated, "collective": chosen, "size_bytes": ELEMENT_BYTES}
    document["run"] = {**document.get("run", {}), "passes": 1}
    if nodes is not None:
        _resize(document, describe(document, reader=reader, folder=path.parent), nodes)
    described = describe(document, reader=reader, folder=path.parent)
    shape = _shape(described)
    chosen_dims = described.workload.options.get("dimensions", range(len(shape)))
    ranks = math.prod(shape[each] for each in chosen_dims if each < len(shape))
    if ranks < 2:
        what = "must have at least 2 ranks in a group: one moves nothing"
        raise reader.error("topology", "", what)
    alike = not described.levels and described.switch_level in (None, described.level)
    return SizedCollective(
        document=document, source=str(path), collective=chosen, nodes=math.prod(shape), ranks=ranks,
        endpoint=f"{described.kind}:{described.level if alike else 'mixed'}",
    )


def _shape(described: Description) -> tuple[int, ...]:
    """The dimensions that collectives see."""
    sizes = tuple(each.size for each in described.dimensions)
    if described.topology.one_dimension:
        return (math.prod(sizes),)
    return described.topology.logical_shape or sizes


def _resize(document: dict[str, Any], described: Description, nodes: int) -> None:
    """Give the system so many nodes: of its machine, or by the size of its last dimension."""
    topology = document.setdefault("topology", {})
    check("nodes", nodes, "at least 1", nodes >= 1)
    if described.topology.machine is not None:
        topology["nodes"] = nodes
        return
    place = FilePlace(NODES, None, "")
    if described.topology.kind == "links":
        raise place.error("must be absent for a topology of links, which list the nodes")
    *others, _ = (each.size for each in described.dimensions)
    if nodes % math.prod(others):
        what = f"must be a multiple of {math.prod(others)}, the product of all dimensions but the "
        raise place.error(f"{what}last, not {nodes}")
    last = nodes // math.prod(others)
    if "shape" in topology:
        topology["shape"] = [*others, last]
    elif "dimension" in document:
        document["dimension"][-1] = {**document["dimension"][-1], "size": last}
    else:
        raise ConfigError(f"{NODES}: must be absent here: the topology has one size only")
    topology.pop("nodes", None)

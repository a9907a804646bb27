"""A system and a collective, described in TOML.

This is the description of a collective on RTL endpoints; `sim.describe.system` describes a training
system. The dataclasses here are the reference of the format; a file states only what differs from
their defaults.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from hw.ace.config import AceConfig, preset
from sim.describe.reader import ConfigError, TomlReader, check, load_toml, read_text

__all__ = [
    "COLLECTIVES",
    "OPS",
    "CollectiveConfig",
    "ConfigError",
    "LinkConfig",
    "MemoryConfig",
    "RunConfig",
    "SystemConfig",
    "TopologyConfig",
    "parse",
    "read",
]

TOPOLOGIES = ("ring", "torus")
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather")
OPS = ("sum_f32", "min_f32", "max_f32", "sum_i32")
SMALLEST_RING, LARGEST_RING = 2, 8


@dataclass(frozen=True, kw_only=True)
class TopologyConfig:
    """``kind`` is ring (of ``nodes``) or torus (of ``shape``); a torus carries a ring as well."""

    kind: str = "ring"
    nodes: int | None = None
    shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check("kind", self.kind, f"one of {', '.join(TOPOLOGIES)}", self.kind in TOPOLOGIES)
        if self.kind == "ring":
            check("shape", self.shape, "absent for a ring", self.shape is None)
            size = 4 if self.nodes is None else self.nodes
            allowed = f"from {SMALLEST_RING} to {LARGEST_RING}"
            check("nodes", size, allowed, SMALLEST_RING <= size <= LARGEST_RING)
        else:
            check("nodes", self.nodes, "absent for a torus", self.nodes is None)
            shape = self.dimensions
            allowed = f"sizes of at least 2 with {SMALLEST_RING} to {LARGEST_RING} nodes in all"
            ok = bool(shape) and all(n >= 2 for n in shape) and math.prod(shape) <= LARGEST_RING
            check("shape", list(shape), allowed, ok)

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Sizes of the torus that this is; a ring has one dimension."""
        if self.kind == "ring":
            return (4 if self.nodes is None else self.nodes,)
        return (2, 2) if self.shape is None else self.shape

    @property
    def size(self) -> int:
        """Number of nodes."""
        return math.prod(self.dimensions)


@dataclass(frozen=True, kw_only=True)
class LinkConfig:
    """All links, in both directions."""

    latency_cycles: int = 90
    beats_per_cycle: float = 1.0
    stall_probability: float = 0.0

    def __post_init__(self) -> None:
        check("latency_cycles", self.latency_cycles, "at least 1", self.latency_cycles >= 1)
        pace = self.beats_per_cycle
        check("beats_per_cycle", pace, "above 0 and at most 1", 0 < pace <= 1)
        stall = self.stall_probability
        check("stall_probability", stall, "at least 0 and below 1", 0 <= stall < 1)


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """The memory of each node; only its ports bound its bandwidth."""

    latency_cycles: int = 50
    stall_probability: float = 0.0

    def __post_init__(self) -> None:
        check("latency_cycles", self.latency_cycles, "at least 1", self.latency_cycles >= 1)
        stall = self.stall_probability
        check("stall_probability", stall, "at least 0 and below 1", 0 <= stall < 1)


@dataclass(frozen=True, kw_only=True)
class CollectiveConfig:
    """What every node is asked to do. ``elements`` are 32-bit words per node."""

    kind: str = "all_reduce"
    elements: int = 65536
    op: str = "sum_f32"

    def __post_init__(self) -> None:
        check("kind", self.kind, f"one of {', '.join(COLLECTIVES)}", self.kind in COLLECTIVES)
        check("elements", self.elements, "at least 1", self.elements >= 1)
        check("op", self.op, f"one of {', '.join(OPS)}", self.op in OPS)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """``clock_mhz`` only converts cycles to time and bandwidth."""

    seed: int = 1
    threads: int = 1
    clock_mhz: float = 1245.0

    def __post_init__(self) -> None:
        check("seed", self.seed, "at least 0", self.seed >= 0)
        check("threads", self.threads, "from 1 to 64", 1 <= self.threads <= 64)
        check("clock_mhz", self.clock_mhz, "above 0", self.clock_mhz > 0)


@dataclass(frozen=True, kw_only=True)
class SystemConfig:
    """Everything that ``foldwire sim`` needs. ``engine`` is a preset, or a variation of one."""

    topology: TopologyConfig = field(default_factory=TopologyConfig)
    engine: AceConfig = field(default_factory=lambda: preset("ring"))
    preset: str = "ring"
    link: LinkConfig = field(default_factory=LinkConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    collective: CollectiveConfig = field(default_factory=CollectiveConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        needed = 2 * len(self.topology.dimensions)
        check(
            "engine",
            f"one with ports = {self.engine.ports}",
            f"one with at least {needed} ports for this {self.topology.kind}",
            self.engine.ports >= needed,
        )
        check(
            "engine",
            f"one with max_nodes = {self.engine.max_nodes}",
            f"one with max_nodes of at least {self.topology.size}",
            self.engine.max_nodes >= self.topology.size,
        )


def read(path: str | Path) -> SystemConfig:
    """Read the system described in the file *path*."""
    return parse(read_text(path), source=str(path))


def parse(text: str, *, source: str) -> SystemConfig:
    """Parse *text*; *source* is what error messages call the file."""
    document = load_toml(text, source=source)
    reader = TomlReader(source, text)
    hints = get_type_hints(SystemConfig)
    sections = [name for name in hints if name != "preset"]
    values: dict[str, Any] = {}
    for name, table in document.items():
        if name not in sections:
            raise reader.unknown(name, "", sections)
        if not isinstance(table, dict):
            raise reader.error(name, "", f"must be a table, [{name}], not {table!r}")
        if name != "engine":
            values[name] = reader.build(hints[name], name, table)
    values["preset"], values["engine"] = _engine(reader, document.get("engine", {}))
    return reader.construct(SystemConfig, "", values)


def _engine(reader: TomlReader, table: Mapping[str, Any]) -> tuple[str, AceConfig]:
    """``preset`` names the starting point; every other key is a parameter of the engine."""
    own = dict(table)
    name = reader.convert("engine", "preset", own.pop("preset", "ring"), str)
    base = reader.construct(preset, "engine", {"name": name}, names=["preset"])
    return name, reader.vary(base, "engine", own, beside=["preset"])

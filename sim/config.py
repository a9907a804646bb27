"""A system and a collective, described in TOML.

Every key is checked: an unknown one, a value of the wrong kind or one that is not allowed is an
error that names file, line, key, value and what is allowed. The dataclasses here are the reference
of the format; a file states only what differs from their defaults.
"""

import difflib
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from hw.ace.config import AceConfig, preset

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

T = TypeVar("T")


class ConfigError(ValueError):
    """A description that cannot be used; the text starts with the file and, if known, the line."""


def _check(name: str, value: object, allowed: str, ok: bool) -> None:
    if not ok:
        raise ValueError(f"{name} must be {allowed}, not {value!r}")


@dataclass(frozen=True, kw_only=True)
class TopologyConfig:
    """``kind`` is ring (of ``nodes``) or torus (of ``shape``); a torus carries a ring as well."""

    kind: str = "ring"
    nodes: int | None = None
    shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _check("kind", self.kind, f"one of {', '.join(TOPOLOGIES)}", self.kind in TOPOLOGIES)
        if self.kind == "ring":
            _check("shape", self.shape, "absent for a ring", self.shape is None)
            size = 4 if self.nodes is None else self.nodes
            allowed = f"from {SMALLEST_RING} to {LARGEST_RING}"
            _check("nodes", size, allowed, SMALLEST_RING <= size <= LARGEST_RING)
        else:
            _check("nodes", self.nodes, "absent for a torus", self.nodes is None)
            shape = self.dimensions
            allowed = f"sizes of at least 2 with {SMALLEST_RING} to {LARGEST_RING} nodes in all"
            ok = bool(shape) and all(n >= 2 for n in shape) and math.prod(shape) <= LARGEST_RING
            _check("shape", list(shape), allowed, ok)

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
        _check("latency_cycles", self.latency_cycles, "at least 1", self.latency_cycles >= 1)
        pace = self.beats_per_cycle
        _check("beats_per_cycle", pace, "above 0 and at most 1", 0 < pace <= 1)
        stall = self.stall_probability
        _check("stall_probability", stall, "at least 0 and below 1", 0 <= stall < 1)


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """The memory of each node; only its ports bound its bandwidth."""

    latency_cycles: int = 50
    stall_probability: float = 0.0

    def __post_init__(self) -> None:
        _check("latency_cycles", self.latency_cycles, "at least 1", self.latency_cycles >= 1)
        stall = self.stall_probability
        _check("stall_probability", stall, "at least 0 and below 1", 0 <= stall < 1)


@dataclass(frozen=True, kw_only=True)
class CollectiveConfig:
    """What every node is asked to do. ``elements`` are 32-bit words per node."""

    kind: str = "all_reduce"
    elements: int = 65536
    op: str = "sum_f32"

    def __post_init__(self) -> None:
        _check("kind", self.kind, f"one of {', '.join(COLLECTIVES)}", self.kind in COLLECTIVES)
        _check("elements", self.elements, "at least 1", self.elements >= 1)
        _check("op", self.op, f"one of {', '.join(OPS)}", self.op in OPS)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """``clock_mhz`` only converts cycles to time and bandwidth."""

    seed: int = 1
    threads: int = 1
    clock_mhz: float = 1245.0

    def __post_init__(self) -> None:
        _check("seed", self.seed, "at least 0", self.seed >= 0)
        _check("threads", self.threads, "from 1 to 64", 1 <= self.threads <= 64)
        _check("clock_mhz", self.clock_mhz, "above 0", self.clock_mhz > 0)


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
        _check(
            "engine",
            f"one with ports = {self.engine.ports}",
            f"one with at least {needed} ports for this {self.topology.kind}",
            self.engine.ports >= needed,
        )
        _check(
            "engine",
            f"one with max_nodes = {self.engine.max_nodes}",
            f"one with max_nodes of at least {self.topology.size}",
            self.engine.max_nodes >= self.topology.size,
        )


def read(path: str | Path) -> SystemConfig:
    """Read the system described in the file *path*."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read: {reason}") from error
    return parse(text, source=str(path))


def parse(text: str, *, source: str) -> SystemConfig:
    """Parse *text*; *source* is what error messages call the file."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not valid TOML: {error}") from error
    reader = _Reader(source, text)
    sections: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "topology": lambda table: reader.build(TopologyConfig, "topology", table),
        "engine": reader.engine,
        "link": lambda table: reader.build(LinkConfig, "link", table),
        "memory": lambda table: reader.build(MemoryConfig, "memory", table),
        "collective": lambda table: reader.build(CollectiveConfig, "collective", table),
        "run": lambda table: reader.build(RunConfig, "run", table),
    }
    values: dict[str, Any] = {}
    for name, table in document.items():
        if name not in sections:
            raise reader.unknown(name, "", sections)
        if not isinstance(table, dict):
            raise reader.error(name, "", f"must be a table, [{name}], not {table!r}")
        values[name] = sections[name](table)
    values["preset"], values["engine"] = values.get("engine") or reader.engine({})
    try:
        return SystemConfig(**values)
    except ValueError as error:
        raise reader.error("engine", "", str(error).removeprefix("engine ")) from error


class _Reader:
    """Turns tables into dataclasses, and says where in the file a value stands."""

    def __init__(self, source: str, text: str) -> None:
        self._source = source
        self._lines = text.splitlines()

    def build(self, kind: type[T], section: str, table: Mapping[str, Any]) -> T:
        hints = get_type_hints(kind)
        values = {}
        for key, value in table.items():
            if key not in hints:
                raise self.unknown(key, section, hints)
            values[key] = self.convert(section, key, value, hints[key])
        try:
            return kind(**values)
        except ValueError as error:
            raise self._rejected(section, error) from error

    def engine(self, table: Mapping[str, Any]) -> tuple[str, AceConfig]:
        """``preset`` names the starting point; every other key is a parameter of the engine."""
        hints = get_type_hints(AceConfig)
        allowed = {"preset": str} | {each.name: hints[each.name] for each in fields(AceConfig)}
        values: dict[str, Any] = {}
        for key, value in table.items():
            if key not in allowed:
                raise self.unknown(key, "engine", allowed)
            values[key] = self.convert("engine", key, value, allowed[key])
        name = values.pop("preset", "ring")
        try:
            return name, replace(preset(name), **values)
        except ValueError as error:
            raise self._rejected("engine", error) from error

    def convert(self, section: str, key: str, value: Any, kind: Any) -> Any:
        """*value* if it is of *kind*; whole numbers are accepted where reals are meant."""
        kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
        for each in kinds:
            if get_origin(each) is tuple:
                if isinstance(value, list) and all(type(item) is int for item in value):
                    return tuple(value)
            elif each is float and type(value) in (int, float):
                return float(value)
            elif type(value) is each:
                return value
        words = {int: "an integer", float: "a number", str: "a text"}
        allowed = words.get(kinds[0], "a list of integers")
        raise self.error(section, key, f"must be {allowed}, not {value!r}")

    def unknown(self, key: str, section: str, allowed: Mapping[str, object]) -> ConfigError:
        near = difflib.get_close_matches(key, allowed, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        what = f"unknown key; {hint}allowed: {', '.join(allowed)}"
        return self.error(section, key, what) if section else self.error(key, "", what)

    def error(self, section: str, key: str, what: str) -> ConfigError:
        name = f"{section}.{key}" if key else section
        line = self._line(section, key)
        place = f"{self._source}:{line}" if line else self._source
        return ConfigError(f"{place}: {name}: {what}")

    def _rejected(self, section: str, error: ValueError) -> ConfigError:
        """Checks of dataclasses start with the name of the parameter."""
        key, _, rest = str(error).partition(" ")
        return self.error(section, key, rest)

    def _line(self, section: str, key: str) -> int | None:
        """The line where a key, or else its section, stands; None when the file has neither."""
        current = ""
        found = None
        for number, line in enumerate(self._lines, start=1):
            if header := re.match(r"\s*\[\s*([\w.-]+)\s*\]", line):
                current = header[1]
                if current == section:
                    found = number
            elif key and current == section and re.match(rf"\s*{re.escape(key)}\s*=", line):
                return number
            elif re.match(rf"\s*{re.escape(section)}\s*[.=]", line) and not current:
                found = number
        return found

"""``[endpoint]``: what kind it is, at which level it runs, and the engine behind it.

A preset names a configuration of the hardware. It gives the event endpoint its parameters, too, so
that what is timed by events is what is emitted, priced and run as RTL.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from sim.describe.reader import TomlReader
from sim.describe.sections import LEVELS, EngineSection, MemorySection, OnNodes
from sim.endpoint.endpoint import Endpoint
from sim.endpoint.in_switch import InSwitchEndpoint
from sim.endpoint.kinds import KINDS, AceEndpoint, Npu
from sim.endpoint.smartnic import SmartNicEndpoint
from sim.fields import not_one_of
from sim.network.dimension import Dimension

__all__ = ["ENGINES", "EndpointChoice", "read_endpoint"]

ENGINES = {
    "ace": "ace", "smartnic": "smartnic", "smartnic_bfp": "smartnic", "in_switch": "in_switch",
}
"""Kinds of endpoint that exist as hardware, and their engine."""


@dataclass(frozen=True, kw_only=True)
class EndpointChoice:
    """What ``[endpoint]`` says; the fields are those of `Description`."""

    kind: str
    endpoint: Endpoint
    level: str = "events"
    levels: Mapping[int, str] = field(default_factory=dict)
    engine: EngineSection | None = None


def read_endpoint(
    reader: TomlReader,
    table: Mapping[str, Any],
    memory: MemorySection,
    dimensions: Sequence[Dimension],
    switch: Mapping[str, Any] | None = None,
) -> EndpointChoice:
    """The endpoint of a description with *dimensions*; *switch* is the table of that name.

    ``kind`` names one of `KINDS`; other keys change fields of it, or of the engine's configuration
    where there is a ``preset`` or the level is ``cycles`` or ``rtl``.
    """
    own = dict(table)
    nodes = math.prod(each.size for each in dimensions)
    kind = reader.convert("endpoint", "kind", own.pop("kind", "ideal"), str)
    if kind not in KINDS:
        name, colon, level = kind.partition(":")
        hint = f"; write kind = {name!r} and level = {level!r}" if colon and name in KINDS else ""
        what = not_one_of(kind, KINDS) + hint
        raise reader.error("endpoint", "kind", what)
    switches = dict(switch or {})
    if switch is not None:
        _move(reader, kind, own, switches)
    level = reader.convert("endpoint", "level", own.pop("level", "events"), str)
    if level not in LEVELS:
        what = not_one_of(level, LEVELS)
        raise reader.error("endpoint", "level", what)
    levels = _levels(reader, level, own.pop("on", []), nodes)
    if kind == "in_switch" and (level != "events" or switches or "preset" in own):
        return _at_switches(reader, level, levels, own, switches, memory, dimensions)
    if level == "events" and "preset" not in own:
        if memory.read_latency_s is not None or memory.write_latency_s is not None:
            what = "has no meaning without endpoint.preset, which names the engine before it"
            raise reader.error("memory", "", what)
        beside = ["kind", "level", "preset", "on"]
        if kind == "in_switch" and "times" in own:  # of hardware, whose configuration sets it
            allowed = [each.name for each in fields(InSwitchEndpoint) if each.name != "times"]
            raise reader.unknown("times", "endpoint", [*beside, *allowed])
        endpoint = reader.vary(KINDS[kind], "endpoint", own, beside=beside)
        return EndpointChoice(kind=kind, endpoint=endpoint)
    if kind not in ENGINES:
        key, wrong = ("level", f"'events' for {kind!r}, not {level!r}")
        if level == "events":
            key, wrong = "preset", f"absent for {kind!r}"
        what = f"must be {wrong}; only {', '.join(ENGINES)} exist as hardware"
        raise reader.error("endpoint", key, what)
    engine = _Engine(reader, kind, level, own)
    return EndpointChoice(
        kind=kind,
        endpoint=engine.endpoint(memory),
        level=level,
        levels=levels,
        engine=engine.section,
    )


def _move(
    reader: TomlReader, kind: str, own: dict[str, Any], switches: dict[str, Any]
) -> None:
    """Level and mode of ``[switch]`` are those of its endpoints."""
    if kind != "in_switch":
        what = f"must be absent beside endpoint.kind = {kind!r}; switches reduce for 'in_switch'"
        raise reader.error("switch", "", what)
    for key in ("level", "mode"):
        if key not in switches:
            continue
        value = switches.pop(key)
        if own.setdefault(key, value) != value:
            what = f"must be {value!r} as switch.{key}, or absent, not {own[key]!r}"
            raise reader.error("endpoint", key, what)
        reader.origins["endpoint", -1, key] = reader.place("switch", key)


def _at_switches(
    reader: TomlReader,
    level: str,
    levels: Mapping[int, str],
    own: Mapping[str, Any],
    switches: Mapping[str, Any],
    memory: MemorySection,
    dimensions: Sequence[Dimension],
) -> EndpointChoice:
    """Endpoints and switches that are hardware."""
    from sim.describe.switches import read_switches

    if levels:
        what = f"must be {level!r}, as all endpoints at switches that reduce are at one level"
        raise reader.error("endpoint.on", "level", what, 0)
    endpoint, engine = read_switches(reader, level, own, switches, memory, dimensions)
    return EndpointChoice(kind="in_switch", endpoint=endpoint, level=level, engine=engine)


def _levels(reader: TomlReader, level: str, tables: Any, nodes: int) -> dict[int, str]:
    """Levels of single nodes that differ from *level*."""
    if not isinstance(tables, list) or not all(isinstance(each, Mapping) for each in tables):
        raise reader.error("endpoint", "on", f"must be tables, [[endpoint.on]], not {tables!r}")
    levels: dict[int, str] = {}
    stated: set[int] = set()
    for index, each in enumerate(tables):
        part = reader.build(OnNodes, "endpoint.on", each, index)
        if "events" in (level, part.level) and level != part.level:
            what = (
                f"must be cycles or rtl beside nodes at {level!r}, not {part.level!r}: nodes of "
                "events exchange no packets with engines"
            )
            raise reader.error("endpoint.on", "level", what, index)
        for node in part.nodes:
            if not 0 <= node < nodes or node in stated:
                what = f"must be different nodes from 0 to {nodes - 1}, not {node}"
                raise reader.error("endpoint.on", "nodes", what, index)
            stated.add(node)
            if part.level != level:
                levels[node] = part.level
    return levels


class _Engine:
    """The engine of an endpoint, its configuration read from the table."""

    def __init__(self, reader: TomlReader, kind: str, level: str, table: dict[str, Any]) -> None:
        # Configurations come from the hardware, which is not loaded for anything else.
        from sim.endpoint.hardware import engine_defaults

        self.reader = reader
        name = ENGINES[kind]
        default, self.memory, self.base = engine_defaults(name)
        if name == "ace":
            from hw.ace.config import PRESETS
        else:
            from hw.smartnic.config import PRESETS  # type: ignore[assignment]
        preset = reader.convert("endpoint", "preset", table.pop("preset", default), str)
        if preset not in PRESETS:
            what = not_one_of(preset, PRESETS)
            raise reader.error("endpoint", "preset", what)
        npu = table.pop("npu", {})
        own = {each.name for each in fields(PRESETS[preset])}
        self.extra = {key: table.pop(key) for key in list(table) if key not in own}
        self.npu: Npu = reader.vary(Npu(), "endpoint.npu", npu)
        compress = reader.convert(
            "endpoint", "compress", self.extra.pop("compress", kind == "smartnic_bfp"), bool
        )
        clock = self.npu.clock_hz
        if name == "smartnic":
            clock = reader.convert(
                "endpoint", "clock_hz", self.extra.pop("clock_hz", self.base.clock_hz), float
            )
            if not clock > 0:
                raise reader.error("endpoint", "clock_hz", f"must be above 0, not {clock!r}")
        if level != "events" and self.extra:
            key = min(self.extra)
            known = {each.name for each in fields(self.base)}
            if key in known:
                what = f"has no meaning at level {level!r}: the engine's configuration sets it"
                raise reader.error("endpoint", key, what)
            allowed = ["kind", "level", "preset", "on", *self._own_keys(name), *sorted(own)]
            raise reader.unknown(key, "endpoint", allowed)
        config = reader.vary(PRESETS[preset], "endpoint", table)
        if compress and getattr(config, "codec_format", None) is None:
            what = "must be false for an engine without a block format"
            raise reader.error("endpoint", "compress", what)
        self.section = EngineSection(
            kind=name, preset=preset, config=config, clock_hz=clock, compress=compress
        )

    @staticmethod
    def _own_keys(name: str) -> list[str]:
        return ["npu"] if name == "ace" else ["clock_hz", "compress"]

    def endpoint(self, memory: MemorySection) -> Endpoint:
        """The event endpoint of the engine, with what the table states beside it."""
        from sim.endpoint.hardware import MemoryTimes, ace_endpoint, nic_endpoint

        section = self.section
        times = MemoryTimes.of(
            memory.read_latency_s,
            memory.write_latency_s,
            clock_hz=section.clock_hz,
            default=self.memory,
        )
        made: AceEndpoint | SmartNicEndpoint
        if section.kind == "ace":
            made = ace_endpoint(section.config, npu=self.npu, memory=times, base=self.base)
        else:
            made = nic_endpoint(
                section.config,
                clock_hz=section.clock_hz,
                memory=times,
                compress=section.compress,
                base=self.base,
            )
        beside = ["kind", "level", "preset", "on", *self._own_keys(section.kind)]
        beside += [each.name for each in fields(section.config)]
        return self.reader.vary(made, "endpoint", self.extra, beside=beside)

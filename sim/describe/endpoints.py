# SPDX-License-Identifier: Apache-2.0
"""``[endpoint]``: its kind, the level at which it runs, and the engine behind it.

A preset names a configuration of the hardware. It gives the event endpoint its parameters, too, so
that events time the same hardware that is emitted, priced and run as RTL.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from sim.describe.levels import ANY, MEANINGS, refuse_meaningless
from sim.describe.reader import TomlReader
from sim.describe.sections import LEVELS, EngineSection, MemorySection, OnNodes, OnSwitches
from sim.endpoint.endpoint import Endpoint
from sim.endpoint.kinds import KINDS
from sim.engines import registry
from sim.engines.engine import StatedEngine, engine_of
from sim.fields import not_one_of
from sim.network.dimension import Dimension

__all__ = ["EndpointChoice", "as_events", "read_endpoint", "with_endpoint"]

@dataclass(frozen=True, kw_only=True)
class EndpointChoice:
    """Contents of ``[endpoint]``; the fields are those of `Description`."""

    kind: str
    endpoint: Endpoint
    level: str = "events"
    levels: Mapping[int, str] = field(default_factory=dict)
    switch_level: str | None = None
    switch_on: tuple[OnSwitches, ...] = ()
    engine: EngineSection | None = None

    @property
    def all_levels(self) -> list[str]:
        """Levels of all nodes and switches, beginning with `level`."""
        return _all_levels(self.level, self.levels, self.switch_level, self.switch_on)


def with_endpoint(
    document: Mapping[str, Any], endpoint: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A document with ``KIND`` or ``KIND:LEVEL`` in place of its endpoint, and the keys that are
    left out because they have no meaning for it.

    If the kind changes, only parameters that both kinds have are kept; otherwise all are.
    """
    made = dict(document)
    table = made.get("endpoint", {})
    if not isinstance(table, Mapping):
        return made, ()
    kind, colon, level = endpoint.partition(":")
    changed = {"kind": kind, "level": level} if colon else {"kind": kind}
    switch = made.get("switch")
    if kind == table.get("kind", "ideal") or kind not in KINDS:
        made["endpoint"] = {**table, **changed}
        if colon and isinstance(switch, Mapping) and "level" in switch:
            made["switch"] = {**switch, "level": level}
        return made, ()
    known = {each.name for each in fields(KINDS[kind])} | {"kind"}  # type: ignore[arg-type]
    gone = [f"endpoint.{key}" for key in table if key not in known]
    made["endpoint"] = {key: value for key, value in table.items() if key in known} | changed
    at = level or "events"
    for section in ("memory", "switch"):
        if section in made and (section == "switch" or at == "events"):
            gone.append(section)
            del made[section]
    if at in LEVELS:
        gone += _leave_out(made, at)
    return made, tuple(gone)


def _leave_out(made: dict[str, Any], level: str) -> list[str]:
    """Take out of *made* the keys that have no meaning at *level*; returns them."""
    gone = []
    for section, keys in MEANINGS.items():
        here = made.get(section)
        if not isinstance(here, Mapping):
            continue
        lost = [
            key for key in here
            if (means := keys.get(key) or keys.get(ANY)) is not None
            and getattr(means, level) is None
        ]
        gone += [f"{section}.{key}" for key in lost]
        if lost:
            made[section] = {key: value for key, value in here.items() if key not in lost}
    return gone


def as_events(document: Mapping[str, Any], preset: str) -> dict[str, Any]:
    """The document of a system of engines with the same system as events, of the engine that it
    has; keys without a meaning there are left out, and so are checks of data."""
    made = dict(document)
    for name in ("endpoint", "switch"):
        if isinstance(table := made.get(name), Mapping):
            made[name] = {key: each for key, each in table.items() if key not in ("level", "on")}
    if "preset" not in made["endpoint"] and "preset" not in made.get("switch", {}):
        made["endpoint"]["preset"] = preset
    _leave_out(made, "events")
    ours = ("data", "check", "trace")
    made["run"] = {key: value for key, value in made.get("run", {}).items() if key not in ours}
    return made


def _all_levels(
    level: str, levels: Mapping[int, str], switch_level: str | None, on: Sequence[OnSwitches]
) -> list[str]:
    of_switches = [switch_level, *(each.level for each in on)]
    others = {*levels.values(), *(each for each in of_switches if each)} - {level}
    return [level, *sorted(others)]


def read_endpoint(
    reader: TomlReader,
    table: Mapping[str, Any],
    memory: MemorySection,
    dimensions: Sequence[Dimension],
    switch: Mapping[str, Any] | None = None,
    style: str = "",
) -> EndpointChoice:
    """The endpoint of a description with *dimensions*; *switch* is the table of that name, *style*
    the one of its algorithms, where stated.

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
    of_switches, on = None, switches.pop("on", [])
    if switch is not None:
        of_switches = _of_switches(reader, kind, own, switches)
    level = reader.convert("endpoint", "level", own.pop("level", "events"), str)
    if level not in LEVELS:
        what = not_one_of(level, LEVELS)
        raise reader.error("endpoint", "level", what)
    levels = _levels(reader, level, own.pop("on", []), nodes)
    if of_switches is not None:
        _check_beside(reader, level, of_switches)
    record = engine_of(kind)
    stated = StatedEngine(
        reader=reader, kind=kind, level=level, own=own, switch=switches, memory=memory,
        dimensions=dimensions, style=style,
    )
    if record is not None and record.is_hardware(stated, levels_of_switches=bool(on)):
        switch_on = _switches_on(reader, level, on)
        if record.takes_switch:
            # At which level a key exists is said before what else it needs.
            found = _all_levels(level, levels, of_switches, switch_on)
            refuse_meaningless(reader, {"switch": switches}, found)
        endpoint, section = record.read(stated)
        return EndpointChoice(
            kind=kind, endpoint=endpoint, level=level, levels=levels, switch_level=of_switches,
            switch_on=switch_on, engine=section,
        )
    if level != "events" or "preset" in own:
        key, wrong = ("level", f"'events' for {kind!r}, not {level!r}")
        if level == "events":
            key, wrong = "preset", f"absent for {kind!r}"
        hardware = [name for each in registry.records() for name in each.events]
        what = f"must be {wrong}; only {', '.join(hardware)} exist as hardware"
        raise reader.error("endpoint", key, what)
    times = memory.read_latency_s, memory.write_latency_s, memory.bandwidth_bytes_per_s
    if any(each is not None for each in times):
        what = "has no meaning without endpoint.preset, which names the engine before it"
        raise reader.error("memory", "", what)
    beside = ["kind", "level", "preset", "on"]
    hidden = "ring" if record is None else record.set_by_hardware
    if hidden in own:
        allowed = [each.name for each in fields(KINDS[kind]) if each.name != hidden]  # type: ignore[arg-type]
        raise reader.unknown(hidden, "endpoint", [*beside, *allowed])
    return EndpointChoice(
        kind=kind, endpoint=reader.vary(KINDS[kind], "endpoint", own, beside=beside)
    )


def _of_switches(
    reader: TomlReader, kind: str, own: dict[str, Any], switches: dict[str, Any]
) -> str | None:
    """The level of ``[switch]``, if it has one. Its mode becomes the endpoints' mode, and its level
    theirs where they state none."""
    record = engine_of(kind)
    if record is None or not record.takes_switch:
        takers = [repr(name) for each in registry.records() if each.takes_switch
                  for name in each.events]
        what = f"must be absent beside endpoint.kind = {kind!r}; switches reduce for "
        what += " and ".join(takers)
        raise reader.error("switch", "", what)
    if "mode" in switches:
        value = switches.pop("mode")
        if own.setdefault("mode", value) != value:
            what = f"must be {value!r} as switch.mode, or absent, not {own['mode']!r}"
            raise reader.error("endpoint", "mode", what)
        reader.origins["endpoint", -1, "mode"] = reader.place("switch", "mode")
    if "level" not in switches:
        return None
    level = reader.convert("switch", "level", switches.pop("level"), str)
    if level not in LEVELS:
        raise reader.error("switch", "level", not_one_of(level, LEVELS))
    own.setdefault("level", level)
    return str(level)


def _check_beside(reader: TomlReader, level: str, of_switches: str) -> None:
    """Refuse switches of events beside engines, and the reverse."""
    if "events" in (level, of_switches) and level != of_switches:
        what = f"must be {level!r} as endpoint.level, or absent, not {of_switches!r}: events "
        raise reader.error("switch", "level", f"{what}exchange no packets with engines")


def _switches_on(reader: TomlReader, level: str, tables: Any) -> tuple[OnSwitches, ...]:
    """The tables ``[[switch.on]]``."""
    if not isinstance(tables, list) or not all(isinstance(each, Mapping) for each in tables):
        raise reader.error("switch", "on", f"must be tables, [[switch.on]], not {tables!r}")
    parts = [
        reader.build(OnSwitches, "switch.on", each, index) for index, each in enumerate(tables)
    ]
    stated: set[int] = set()
    for index, part in enumerate(parts):
        if "events" in (level, part.level):
            what = f"must be cycles or rtl, not {part.level!r}"
            if level == "events":
                what = f"must be absent at endpoint.level = 'events', not {part.level!r}"
            what += ": events exchange no packets with engines"
            raise reader.error("switch.on", "level", what, index)
        for number in part.switches:
            if number < 0 or number in stated:
                what = f"must be different switches, from 0 on, not {number}"
                what += " twice" if number in stated else ""
                raise reader.error("switch.on", "switches", what, index)
            stated.add(number)
    return tuple(parts)


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

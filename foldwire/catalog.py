# SPDX-License-Identifier: Apache-2.0
"""The designs that the command line can emit and synthesize, by name."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from amaranth.lib import wiring

from gen.cache import announce
from gen.table import Column, Table
from hw.common.params import require_choice
from hw.common.register_map import RegisterMap
from hw.fp.adder import FPAdder
from hw.fp.alu import ReduceALU
from hw.fp.formats import BINARY16, BINARY32
from hw.link.retry_beats import BeatRetry
from hw.link.retry_frame import RetryConfig
from hw.switch.retry import PacketRetry
from sim.engines import registry
from sim.engines.engine import Blueprint, engine_of

__all__ = [
    "CATALOG", "SYNTHESIZED", "Design", "Entry", "build", "described", "engine_presets", "listing",
]

Parameters = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Design:
    """A component ready to be emitted as the Verilog module `top`, with all its parameters.

    The `configuration` states the component completely.
    """

    top: str
    component: wiring.Component
    parameters: dict[str, int | str]
    handoff: str
    registers: RegisterMap | None = None
    configuration: object = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A kind of design: its named configurations, each a full set of parameters."""

    summary: str
    presets: Mapping[str, Parameters]
    make: Callable[[Parameters], tuple[wiring.Component, RegisterMap | None]]
    handoff: str


def _adder(parameters: Parameters) -> tuple[wiring.Component, RegisterMap | None]:
    formats = {each.width: each for each in (BINARY16, BINARY32)}
    fmt = formats[require_choice("width", parameters["width"], formats)]
    return FPAdder(fmt=fmt, stages=parameters["stages"]), None


def _alu(parameters: Parameters) -> tuple[wiring.Component, RegisterMap | None]:
    return ReduceALU(parameters["lanes"], stages=parameters["stages"]), None


def _parameters(config: Any) -> Parameters:
    return {each.name: getattr(config, each.name) for each in fields(config)}


def _entry(of: Blueprint) -> Entry:
    def make(parameters: Parameters) -> tuple[wiring.Component, RegisterMap | None]:
        config = of.config(**parameters)
        return of.component(config), of.registers(config)

    presets = {name: _parameters(config) for name, config in of.presets.items()}
    return Entry(summary=of.summary, presets=presets, make=make, handoff=of.handoff)


_BLOCKS = {
    "adder": Entry(
        summary="IEEE 754 adder",
        presets={
            "binary32": {"width": 32, "stages": 3},
            "binary32-comb": {"width": 32, "stages": 0},
            "binary16": {"width": 16, "stages": 3},
        },
        make=_adder,
        handoff="foldwire.handoff.vectors",
    ),
    "alu": Entry(
        summary="lanes that add, compare and sum integers",
        presets={
            "16-lanes": {"lanes": 16, "stages": 3},
            "4-lanes": {"lanes": 4, "stages": 3},
        },
        make=_alu,
        handoff="foldwire.handoff.vectors",
    ),
}
"""Blocks that are useful alone."""


class _Catalog(Mapping[str, Entry]):
    """Blocks and the designs of all engines, those registered later too, in order of names."""

    def _all(self) -> dict[str, Entry]:
        made = dict(_BLOCKS)
        for record in registry.records():
            made |= {name: _entry(each) for name, each in record.blueprints.items()}
        return dict(sorted(made.items()))

    def __getitem__(self, name: str) -> Entry:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


CATALOG: Mapping[str, Entry] = _Catalog()


def _retry(parameters: Parameters) -> tuple[wiring.Component, RegisterMap | None]:
    frames = require_choice("frames", parameters["frames"], ["beats", "packets"])
    config = RetryConfig(**{each.name: parameters[each.name] for each in fields(RetryConfig)})
    if frames == "beats":
        return BeatRetry(parameters["flits"], config), None
    flits, credits = parameters["flits"], parameters["credits"]
    return PacketRetry(payload_flits=flits, credits=credits, config=config), None


class _Synthesized(_Catalog):
    """The catalog, and parts of its designs that are worth a table of their own."""

    def _all(self) -> dict[str, Entry]:
        return dict(sorted((super()._all() | _PARTS).items()))


_PARTS = {
    "retry": Entry(
        summary="one end of a link with retry",
        presets={
            "beats": {"frames": "beats", "flits": 4, "credits": 64, **_parameters(RetryConfig())},
            "packets": {
                "frames": "packets", "flits": 8, "credits": 64, **_parameters(RetryConfig()),
            },
        },
        make=_retry,
        handoff="",
    ),
}

SYNTHESIZED: Mapping[str, Entry] = _Synthesized()
"""The designs that can be synthesized: those of the catalog, and parts of them."""


def engine_presets() -> tuple[tuple[str, str], ...]:
    """Designs of all engines, each with each of its presets."""
    return tuple(
        (name, preset)
        for record in registry.records() for name, each in record.blueprints.items()
        for preset in each.presets
    )


def build(
    name: str, preset: str | None, changes: Mapping[str, str],
    *, designs: Mapping[str, Entry] = CATALOG,
) -> Design:
    """The design *name* in configuration *preset* (the first one if None) with *changes*.

    Changes arrive as text; each takes the type of the value that it replaces.
    """
    entry = designs[_known(name, "design", designs)]
    chosen = next(iter(entry.presets)) if preset is None else preset
    parameters = dict(entry.presets[_known(chosen, f"preset of {name}", entry.presets)])
    for key, text in changes.items():
        _known(key, f"parameter of {name}", parameters)
        parameters[key] = _converted(key, text, parameters[key])
    component, registers = entry.make(parameters)
    top = f"{name}_{chosen}".replace("-", "_")
    return Design(
        top=top, component=component, parameters=parameters, registers=registers,
        handoff=entry.handoff, configuration=sorted(parameters.items()),
    )


def described(path: Path, name: str | None = None, *, default: bool = False) -> Design:
    """The engine of a description's endpoint, so that the engine simulated is the one emitted.

    Parameters
    ----------
    name : str or None
        The design that is meant, if the engine has several.
    default : bool
        Take the usual preset of the endpoint's kind where the description names none.

    Raises
    ------
    ConfigError
        The description is wrong, or its endpoint does not exist as hardware.
    """
    from sim.describe.system import read

    description = read(path)
    engine = description.engine
    kind = description.kind if engine is None else engine.kind
    record = engine_of(kind)
    if record is None or (engine is None and not (default and kind in record.events)):
        raise description.reader.error(
            "endpoint", "preset", "must name the engine that is to be emitted or synthesized"
        )
    designs = record.blueprints
    if name is None and len(designs) > 1:
        what = (
            f"must be of one design, not of {kind!r}, which has {len(designs)}: name "
            f"{' or '.join(designs)}, with --preset and --set"
        )
        raise description.reader.error("endpoint", "kind", what)
    chosen = next(iter(designs)) if name is None else name
    if chosen not in designs:
        what = f"must be an engine with a design {chosen!r}, not {kind!r}, whose designs are "
        raise description.reader.error("endpoint", "kind", what + ", ".join(designs))
    entry = CATALOG[chosen]
    if engine is None:
        preset = getattr(record, "preset", next(iter(entry.presets)))
        announce(f"{path.name} names no preset of {kind}: {preset} is taken")
        parameters = stated = entry.presets[preset]
    else:
        config = _part(engine.config, designs[chosen].config)
        parameters, stated = _parameters(config), config.describe()
    component, registers = entry.make(parameters)
    return Design(
        top=f"{chosen}_{path.stem}".replace("-", "_"),
        component=component,
        parameters=dict(stated),
        registers=registers,
        handoff=entry.handoff,
        configuration=sorted(parameters.items()),
    )


def _part(config: Any, kind: type) -> Any:
    """The configuration of a design within that of the engine, which may have several."""
    if isinstance(config, kind):
        return config
    parts = (getattr(config, each.name) for each in fields(config))
    return next(part for part in parts if isinstance(part, kind))


def listing() -> Table:
    """All designs with their presets."""
    table = Table("Designs", [Column("design"), Column("what_it_is"), Column("presets")])
    for name, entry in CATALOG.items():
        table.add(name, entry.summary, ", ".join(entry.presets))
    return table


def _known(name: str, what: str, allowed: Mapping[str, object]) -> str:
    if name in allowed:
        return name
    near = difflib.get_close_matches(name, allowed, n=1, cutoff=0.5)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(f"unknown {what} {name!r}{hint}; there are: {', '.join(allowed)}")


def _converted(key: str, text: str, old: int | str) -> int | str:
    if isinstance(old, str):
        return text
    if isinstance(old, bool):
        words = {"true": True, "1": True, "false": False, "0": False}
        if text.lower() not in words:
            raise ValueError(f"{key} must be true or false, not {text!r}")
        return words[text.lower()]
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"{key} must be an integer, not {text!r}") from None

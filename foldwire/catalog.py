"""The designs that the command line can emit and synthesize, by name."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from amaranth.lib import wiring

from gen.table import Column, Table
from hw.ace.config import PRESETS, AceConfig
from hw.ace.engine import AceEngine
from hw.ace.registers import register_map
from hw.common.params import require_choice
from hw.common.register_map import RegisterMap
from hw.fp.adder import FPAdder
from hw.fp.alu import ReduceALU
from hw.fp.formats import BINARY16, BINARY32
from hw.smartnic.config import PRESETS as NIC_PRESETS
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.nic import SmartNic
from hw.smartnic.registers import register_map as nic_register_map
from hw.switch.config import PRESETS as SWITCH_PRESETS
from hw.switch.config import SwitchConfig
from hw.switch.registers import register_map as switch_register_map
from hw.switch.switch import Switch
from hw.switch_dma.config import PRESETS as DMA_PRESETS
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.dma import SwitchDma
from hw.switch_dma.registers import register_map as dma_register_map

__all__ = ["CATALOG", "Design", "Entry", "build", "described", "listing"]

Parameters = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Design:
    """A component ready to be emitted as the Verilog module `top`, with all its parameters."""

    top: str
    component: wiring.Component
    parameters: dict[str, int | str]
    registers: RegisterMap | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A kind of design: its named configurations, each a full set of parameters."""

    summary: str
    presets: Mapping[str, Parameters]
    make: Callable[[Parameters], tuple[wiring.Component, RegisterMap | None]]


def _ace(parameters: Parameters) -> tuple[wiring.Component, RegisterMap | None]:
    config = AceConfig(**parameters)
    return AceEngine(config), register_map(config)


def _smartnic(parameters: Parameters) -> tuple[wiring.Component, RegisterMap | None]:
    config = SmartNicConfig(**parameters)
    return SmartNic(config), nic_register_map(config)


def _switch(parameters: Parameters) -> tuple[wiring.Component, RegisterMap | None]:
    config = SwitchConfig(**parameters)
    return Switch(config), switch_register_map(config)


def _switch_dma(parameters: Parameters) -> tuple[wiring.Component, RegisterMap | None]:
    config = SwitchDmaConfig(**parameters)
    return SwitchDma(config), dma_register_map(config)


def _adder(parameters: Parameters) -> tuple[wiring.Component, RegisterMap | None]:
    formats = {each.width: each for each in (BINARY16, BINARY32)}
    fmt = formats[require_choice("width", parameters["width"], formats)]
    return FPAdder(fmt=fmt, stages=parameters["stages"]), None


def _alu(parameters: Parameters) -> tuple[wiring.Component, RegisterMap | None]:
    return ReduceALU(parameters["lanes"], stages=parameters["stages"]), None


def _parameters(
    config: AceConfig | SmartNicConfig | SwitchConfig | SwitchDmaConfig
) -> Parameters:
    return {each.name: getattr(config, each.name) for each in fields(config)}


CATALOG: dict[str, Entry] = {
    "ace": Entry(
        summary="accelerator collectives engine",
        presets={name: _parameters(config) for name, config in PRESETS.items()},
        make=_ace,
    ),
    "adder": Entry(
        summary="IEEE 754 adder",
        presets={
            "binary32": {"width": 32, "stages": 3},
            "binary32-comb": {"width": 32, "stages": 0},
            "binary16": {"width": 16, "stages": 3},
        },
        make=_adder,
    ),
    "alu": Entry(
        summary="lanes that add, compare and sum integers",
        presets={
            "16-lanes": {"lanes": 16, "stages": 3},
            "4-lanes": {"lanes": 4, "stages": 3},
        },
        make=_alu,
    ),
    "smartnic": Entry(
        summary="network interface with ring all-reduce and compression",
        presets={name: _parameters(config) for name, config in NIC_PRESETS.items()},
        make=_smartnic,
    ),
    "switch": Entry(
        summary="switch that reduces what endpoints push or pull (in-network compute)",
        presets={name: _parameters(config) for name, config in SWITCH_PRESETS.items()},
        make=_switch,
    ),
    "switch-dma": Entry(
        summary="endpoint of the switch: DMA engine for all-reduces through it",
        presets={name: _parameters(config) for name, config in DMA_PRESETS.items()},
        make=_switch_dma,
    ),
}


def build(name: str, preset: str | None, changes: Mapping[str, str]) -> Design:
    """The design *name* in configuration *preset* (the first one if None) with *changes*.

    Changes arrive as text; each takes the type of the value that it replaces.
    """
    entry = CATALOG[_known(name, "design", CATALOG)]
    chosen = next(iter(entry.presets)) if preset is None else preset
    parameters = dict(entry.presets[_known(chosen, f"preset of {name}", entry.presets)])
    for key, text in changes.items():
        _known(key, f"parameter of {name}", parameters)
        parameters[key] = _converted(key, text, parameters[key])
    component, registers = entry.make(parameters)
    top = f"{name}_{chosen}".replace("-", "_")
    return Design(top=top, component=component, parameters=parameters, registers=registers)


def described(path: Path) -> Design:
    """The engine of a description's endpoint, so that the engine simulated is the one emitted.

    Raises
    ------
    ConfigError
        The description is wrong, or its endpoint does not exist as hardware.
    """
    from sim.describe.system import read

    description = read(path)
    engine = description.engine
    if engine is None:
        raise description.reader.error(
            "endpoint", "preset", "must name the engine that is to be emitted or synthesized"
        )
    if engine.kind not in CATALOG:  # more than one design
        what = (
            "must be of one design, not of 'in_switch', which has two: name switch or switch-dma, "
            "with --preset and --set"
        )
        raise description.reader.error("endpoint", "kind", what)
    component, registers = CATALOG[engine.kind].make(_parameters(engine.config))
    return Design(
        top=f"{engine.kind}_{path.stem}".replace("-", "_"),
        component=component,
        parameters=engine.config.describe(),
        registers=registers,
    )


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

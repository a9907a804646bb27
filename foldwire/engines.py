"""The engines by name: their named configurations, and their components."""

from collections.abc import Mapping
from typing import Any

from amaranth.lib import wiring

from hw.ace.config import PRESETS as ACE_PRESETS
from hw.ace.config import AceConfig
from hw.ace.engine import AceEngine
from hw.smartnic.config import PRESETS as NIC_PRESETS
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.nic import SmartNic

__all__ = ["engine", "preset", "presets"]

_ENGINES: Mapping[str, Mapping[str, AceConfig | SmartNicConfig]] = {
    "ace": ACE_PRESETS,
    "smartnic": NIC_PRESETS,
}


def presets(kind: str) -> list[str]:
    """Names of the configurations of ``ace`` or ``smartnic``."""
    return list(_of(kind))


def preset(kind: str, name: str) -> Any:
    """The configuration *name* of an engine: an AceConfig or a SmartNicConfig.

    Raises
    ------
    ValueError
        There is no such engine or configuration.
    """
    configurations = _of(kind)
    if not isinstance(name, str) or name not in configurations:
        known = ", ".join(configurations)
        raise ValueError(f"name must be one of {known} for {kind}, not {name!r}")
    return configurations[name]


def engine(config: AceConfig | SmartNicConfig) -> wiring.Component:
    """The component of a configuration."""
    if isinstance(config, AceConfig):
        return AceEngine(config)
    if isinstance(config, SmartNicConfig):
        return SmartNic(config)
    raise TypeError(f"config must be an AceConfig or a SmartNicConfig, not {config!r}")


def _of(kind: str) -> Mapping[str, AceConfig | SmartNicConfig]:
    if not isinstance(kind, str) or kind not in _ENGINES:
        raise ValueError(f"kind must be one of {', '.join(_ENGINES)}, not {kind!r}")
    return _ENGINES[kind]

# SPDX-License-Identifier: Apache-2.0
"""The engines by name: their named configurations, and their components."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

from amaranth.lib import wiring

from sim.engines import registry

if TYPE_CHECKING:
    from hw.ace.config import AceConfig
    from hw.smartnic.config import SmartNicConfig
    from hw.switch.config import SwitchConfig
    from hw.switch_dma.config import SwitchDmaConfig
    from sim.endpoint.switch_system import SwitchSystem

__all__ = ["engine", "preset", "presets"]


def presets(kind: str) -> list[str]:
    """Names of the configurations of an engine (``ace``, ``smartnic``, ``in_switch``), or of a
    design of one (``switch``, ``switch-dma``)."""
    return list(_of(kind))


@overload
def preset(kind: Literal["ace"], name: str) -> "AceConfig": ...
@overload
def preset(kind: Literal["smartnic"], name: str) -> "SmartNicConfig": ...
@overload
def preset(kind: Literal["in_switch"], name: str) -> "SwitchSystem": ...
@overload
def preset(kind: Literal["switch"], name: str) -> "SwitchConfig": ...
@overload
def preset(kind: Literal["switch-dma"], name: str) -> "SwitchDmaConfig": ...
@overload
def preset(kind: str, name: str) -> Any: ...
def preset(kind: str, name: str) -> Any:
    """The configuration *name* of an engine or design: an AceConfig, SmartNicConfig, SwitchConfig
    or SwitchDmaConfig.

    That of ``in_switch`` is a :class:`~sim.endpoint.switch_system.SwitchSystem`: its ``switch`` and
    its ``dma`` are the configurations of a switch and of endpoints that fit it, each of which has
    a component.

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


def engine(config: Any) -> wiring.Component:
    """The component of a configuration, as :func:`preset` returns it.

    Raises
    ------
    TypeError
        It is none, or that of a whole system, which has several components.
    """
    known = []
    for record in registry.records():
        for blueprint in record.blueprints.values():
            if type(config) is blueprint.config:
                component: wiring.Component = blueprint.component(config)
                return component
            known.append(blueprint.config.__name__)
    raise TypeError(f"config must be of {', '.join(known)}, not {config!r}")


def _of(kind: str) -> Mapping[str, Any]:
    found = {record.name: record.presets for record in registry.records()}
    for record in registry.records():
        for name, blueprint in record.blueprints.items():
            found.setdefault(name, blueprint.presets)
    if not isinstance(kind, str) or kind not in found:
        raise ValueError(f"kind must be one of {', '.join(found)}, not {kind!r}")
    configurations: Mapping[str, Any] = found[kind]
    return configurations

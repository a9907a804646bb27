# SPDX-License-Identifier: Apache-2.0
"""The engines by name: the one list of them.

A record is a :class:`sim.engines.engine.EngineRecord`. Its module is imported when it is first
asked for, so a simulation without engines loads none of them.
"""

import importlib
from collections.abc import Iterator
from typing import Any

from sim.fields import FieldError

__all__ = ["BLOCKS", "add", "names", "of_kind", "record", "records"]

_MODULES = {name: f"sim.engines.{name}" for name in ("ace", "smartnic", "in_switch")}
"""Each holds its record as ``ENGINE``."""
BLOCKS = ("adder", "alu")
"""Designs that belong to no engine; no engine may have their names."""
_added: dict[str, Any] = {}


def names() -> list[str]:
    """All engines, those of Foldwire first."""
    return [*_MODULES, *_added]


def record(name: str) -> Any:
    """The record of an engine.

    Raises
    ------
    ValueError
        There is no such engine.
    """
    if not isinstance(name, str) or name not in names():
        raise FieldError("engine", f"must be one of {', '.join(names())}, not {name!r}")
    if name in _added:
        return _added[name]
    return importlib.import_module(_MODULES[name]).ENGINE


def records() -> Iterator[Any]:
    """The records of all engines, each loaded when it is reached."""
    return map(record, names())


def of_kind(kind: Any) -> Any | None:
    """The record whose endpoints are of that kind; None for endpoints that are no hardware."""
    if not isinstance(kind, str):
        return None
    return next((each for each in records() if kind in each.events), None)


def add(engine: Any) -> None:
    """Add the record of another engine; see :func:`sim.engines.engine.register_engine`."""
    _added[engine.name] = engine

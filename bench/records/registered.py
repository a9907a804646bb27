# SPDX-License-Identifier: Apache-2.0
"""The parts of engines that benches ask for."""

from importlib import import_module
from pathlib import Path
from typing import Any

from sim.engines import registry

__all__ = ["files", "modules"]


def files(name: str) -> dict[str, Path]:
    """Engine -> file of that name in its folder, in the order of the registry."""
    paths = {engine: Path(__file__).parent / engine / name for engine in registry.names()}
    return {engine: path for engine, path in paths.items() if path.exists()}


def modules(part: str) -> dict[str, Any]:
    """Engine -> module *part* of its folder, in the order of the registry."""
    return {each: import_module(f"{__package__}.{each}.{part}") for each in files(f"{part}.py")}

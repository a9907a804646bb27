# SPDX-License-Identifier: Apache-2.0
"""The order of the rooms: what may import what, over all product code.

A room is a package or a module; it may import rooms that stand before it, and itself. An import
counts wherever it stands: in a function and under ``TYPE_CHECKING`` as well.
"""

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping

__all__ = ["PRODUCT", "ROOMS", "room_of", "upward"]

PRODUCT = ("hw", "gen", "sim", "foldwire", "experiments", "tb", "bench")

# Lowest first. The longest name that fits a module is its room, so `gen` stands for the modules of
# gen that are not named. A module of `sim` or `hw` that fits none is in no room: it counts too.
ROOMS = (
    "hw.common", "hw.fp", "hw.link", "hw.bfp", "hw.ace", "hw.smartnic", "hw.switch",
    "hw.switch_dma",
    "gen.extras", "gen.screen", "gen.arrow",
    "gen.table", "gen.cache", "gen.checks", "gen.closing", "gen.netlist", "gen.waves", "gen.rtlil",
    "gen.tether", "gen.yosys", "gen.merge", "gen.tidy", "gen.cxx", "gen",
    "sim.units", "sim.fields", "sim.opened", "sim.stored", "sim.memory", "sim.native",
    "sim.engines.registry",
    "sim.network", "sim.workload", "sim.collectives", "sim.endpoint", "sim.limits",
    "sim.events.kernel", "sim.events", "sim.hosts", "sim.cycles", "sim.rtl", "sim.results",
    "sim.describe.reader", "sim.describe.sections", "sim.describe.levels",
    "sim.describe.build_loaded", "sim.describe.build_job", "sim.describe.build",
    "sim.engines", "sim.describe",
    "sim.analytic", "sim.learning", "sim.runs", "sim.run", "sim.machines", "sim.sweep", "sim.demo",
    "foldwire", "tb", "bench", "experiments",
    "bench.rows",  # judges what experiments make; they run the cases of other benches
)


def room_of(module: str) -> str | None:
    """The room that *module* (dotted name) is in; None if in none.

    The init files of `hw` and `sim` themselves, which hold a docstring, are in their lowest room.
    """
    if module in ("hw", "sim"):
        return next(room for room in ROOMS if room.startswith(f"{module}."))
    fits = [room for room in ROOMS if f"{module}.".startswith(f"{room}.")]
    return max(fits, key=len, default=None)


def upward(files: Mapping[str, str]) -> list[str]:
    """Imports that go up and modules without a room, one line each.

    Parameters
    ----------
    files:
        Path from the root of the repository, as ``sim/units.py`` -> text.
    """
    modules = {_module(path) for path in files}
    wrong = []
    for path, text in sorted(files.items()):
        room = room_of(_module(path))
        if room is None:
            wrong.append(f"{path}: in no room")
            continue
        for line, target in _imports(ast.parse(text), modules):
            other = room_of(target)
            if other is None:
                wrong.append(f"{path}:{line}: imports {target}, which is in no room")
            elif ROOMS.index(other) > ROOMS.index(room):
                wrong.append(f"{path}:{line}: {room} imports {target}")
    return wrong


def _imports(tree: ast.AST, modules: Collection[str]) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every module of ours that is imported, at any depth."""
    for node in ast.walk(tree):
        names: Iterable[str]
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            # `from sim.rtl import host` imports a module, `from sim.units import GB` does not.
            names = sorted({name if name in modules else node.module for name in inner})
        else:
            continue
        for name in names:
            if name.partition(".")[0] in PRODUCT:
                yield node.lineno, name


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

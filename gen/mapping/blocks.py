# SPDX-License-Identifier: Apache-2.0
"""Blocks mapped one by one, their cells kept by content.

The children of a block are black boxes, so its cells depend on its own text, their ports, the
commands and the version of Yosys, and on nothing else. What another design, or an earlier run that
was interrupted, has mapped is not mapped again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gen.cache import announce, default_cache_dir, intact, kept, store
from gen.mapping.netlist import DesignBlock
from gen.mapping.targets import Target
from gen.yosys import run_yosys, yosys_version

__all__ = ["Mapped", "map_blocks", "mapped_netlist", "total"]

_NAME = "block"
_FORM = 2  # of what is kept


@dataclass(frozen=True)
class Mapped:
    """Cells of a block alone: by type, children by name; area of its own cells.

    ``cpu_s`` are the seconds of CPU that mapping it took, whenever that was.
    """

    cells: dict[str, int]
    area: float
    cpu_s: float = field(default=0.0, compare=False)


def map_blocks(
    blocks: Sequence[DesignBlock], flow: Target, *, timeout: float | None = None
) -> dict[str, Mapped]:
    """Cells of each block by its name, mapped now unless they are kept.

    Each block that is finished is announced and stays, whatever becomes of the others.
    """
    missing: dict[str, DesignBlock] = {}
    for block in blocks:
        if not all(_is_kept(name) for name in _files(block, flow)):
            missing.setdefault(block.digest, block)
    _map_missing(list(missing.values()), flow, timeout)
    return {block.name: _mapped(block, flow) for block in blocks}


def total(name: str, blocks: Mapping[str, Mapped], known: dict[str, Mapped]) -> Mapped:
    """Cells and area of a block with everything below it; *known* are those found before."""
    if name not in known:
        own = blocks[name]
        cells: dict[str, int] = {}
        area = own.area
        for kind, count in own.cells.items():
            if kind in blocks:
                below = total(kind, blocks, known)
                area += below.area * count
                for inner, number in below.cells.items():
                    cells[inner] = cells.get(inner, 0) + count * number
            else:
                cells[kind] = cells.get(kind, 0) + count
        known[name] = Mapped(cells, area)
    return known[name]


def mapped_netlist(block: DesignBlock, flow: Target) -> Any:
    """The mapped block as Yosys' JSON: ``ports``, ``cells``, ``netnames``; children numbered."""
    _, file = _files(block, flow)
    return json.loads(gzip.decompress(_path(file).read_bytes()))


def _files(block: DesignBlock, flow: Target) -> list[str]:
    """Names in the cache: the cells, and the netlist where paths are looked for."""
    made_by = (_FORM, block.digest, flow.commands, yosys_version(), _liberty(flow))
    key = hashlib.sha256(repr(made_by).encode()).hexdigest()[:24]
    return [f"blocks/{key}.json", *([f"blocks/{key}.netlist.gz"] if flow.levels else [])]


def _liberty(flow: Target) -> str:
    return hashlib.sha256(flow.liberty.read_bytes()).hexdigest() if flow.liberty else ""


def _path(name: str) -> Path:
    def make(target: Path) -> None:
        raise FileNotFoundError(f"{name} was removed from the cache meanwhile")

    return kept(name, make, doing="")


def _is_kept(name: str) -> bool:
    return intact(default_cache_dir() / name)


def _mapped(block: DesignBlock, flow: Target) -> Mapped:
    told = json.loads(_path(_files(block, flow)[0]).read_text(encoding="utf-8"))
    names = {f"@{number}": child for number, child in enumerate(block.children)}
    cells = {names.get(kind, kind): count for kind, count in told["cells"].items()}
    return Mapped(cells, told["area"], told["cpu_s"])


def _map_missing(blocks: Sequence[DesignBlock], flow: Target, timeout: float | None) -> None:
    end = None if timeout is None else time.monotonic() + timeout
    if blocks:
        announce(f"mapping {len(blocks)} blocks to cells, once (seconds to minutes) ...")
    for number, block in enumerate(blocks, 1):
        started = time.monotonic()
        _map(block, flow, timeout=None if end is None else max(0.0, end - started))
        took = time.monotonic() - started
        announce(f"{number} of {len(blocks)} blocks: {block.name}, {took:.1f} s")


def _map(block: DesignBlock, flow: Target, *, timeout: float | None) -> None:
    """Map a block in a Yosys of its own: ABC's result depends on names that were read before."""
    steps = [
        "read_rtlil block.il",
        f"hierarchy -check -top {_NAME}",
        *flow.commands,
        f"tee -q -o stat.json {flow.statistics}",
    ]
    if flow.levels:
        steps += [f"select {_NAME}", "write_json -selected netlist.json"]
    cells, *netlist = _files(block, flow)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "block.il").write_text(block.rtlil(_NAME), encoding="utf-8")
        before = _children_s()
        run_yosys(steps, cwd=folder, timeout=timeout)
        cpu_s = _children_s() - before
        told = (folder / "stat.json").read_text(encoding="utf-8")
        entry = json.loads(told[told.index("{") :])["modules"][f"\\{_NAME}"]
        for file in netlist:
            made = json.loads((folder / "netlist.json").read_text(encoding="utf-8"))
            lean = json.dumps(_lean(made["modules"][_NAME]))
            store(file, gzip.compress(lean.encode(), 3))
    store(cells, json.dumps(_counted(entry) | {"cpu_s": cpu_s}).encode())


def _children_s() -> float:
    """Seconds of CPU of the children that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def _numbered(kind: str) -> str:
    """The type of a cell, with children as @0, @1."""
    child = re.fullmatch(rf"{_NAME}_(\d+)", kind)
    return f"@{child[1]}" if child else kind


def _counted(entry: Any) -> dict[str, Any]:
    cells = {
        _numbered(kind.lstrip("\\")): count if isinstance(count, int) else count["count"]
        for kind, count in entry["num_cells_by_type"].items()
    }
    return {"cells": cells, "area": float(entry.get("area", 0.0))}


def _lean(module: Any) -> dict[str, Any]:
    """As much of a module in Yosys' JSON as paths and their names need."""
    return {
        "ports": {
            port: [each["direction"], each["bits"]] for port, each in module["ports"].items()
        },
        "cells": {
            label: [_numbered(cell["type"]), cell["connections"]]
            for label, cell in module["cells"].items()
        },
        "netnames": {
            net: each["bits"] for net, each in module["netnames"].items() if not each["hide_name"]
        },
    }

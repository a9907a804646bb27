# SPDX-License-Identifier: Apache-2.0
"""A design mapped in one run of Yosys: flattened, or as emitted SystemVerilog.

Kept as one piece, by content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from gen.cache import kept
from gen.mapping.blocks import Mapped
from gen.mapping.targets import Target
from gen.yosys import Step, run_yosys, yosys_version

__all__ = ["map_whole"]


def map_whole(
    design: tuple[str, str],
    macros: Mapping[str, str],
    flow: Target,
    *,
    name: str,
    instances: Iterable[str],
    flat: bool,
    timeout: float | None = None,
) -> dict[str, Mapped]:
    """Cells of those modules of *instances* that there are after mapping.

    Parameters
    ----------
    design:
        File name, whose ending says in which language it is, and text.
    macros:
        Verilog of SRAM macros, which are left as they are.
    name:
        The top module.
    flat:
        Flatten first.
    """
    file, text = design
    read = "read_rtlil" if file.endswith(".il") else "read_verilog -sv"
    boxes = "".join(_black_box(body) for _, body in sorted(macros.items()))
    steps: list[Step] = [
        "read_verilog -lib macros.v",
        f"{read} {file}",
        f"hierarchy -check -top {name}",
        *(["proc", "flatten"] if flat else ["setattr -mod -set keep_hierarchy 1"]),
        *flow.commands,
        f"tee -o stat.json {flow.statistics}",
    ]
    told = _statistics({file: text, "macros.v": boxes}, steps, timeout=timeout)
    modules = {
        module.lstrip("\\"): entry
        for module, entry in json.loads(told[told.index("{") :])["modules"].items()
        if module.lstrip("\\") in instances
    }
    return {module: _mapped(entry, modules) for module, entry in modules.items()}


def _mapped(entry: Mapping[str, object], modules: Mapping[str, Mapping[str, object]]) -> Mapped:
    by_type = entry["num_cells_by_type"]
    assert isinstance(by_type, dict)
    cells = {
        kind.lstrip("\\"): int(count if isinstance(count, int) else count["count"])
        for kind, count in by_type.items()
    }
    # Yosys adds the areas of instances.
    below = sum(_area(modules[kind]) * count for kind, count in cells.items() if kind in modules)
    return Mapped(cells, _area(entry) - below)


def _area(entry: Mapping[str, object]) -> float:
    return float(str(entry.get("area", 0.0)))


def _statistics(files: Mapping[str, str], steps: list[Step], *, timeout: float | None) -> str:
    key = hashlib.sha256(repr((sorted(files.items()), steps, yosys_version())).encode())

    def make(target: Path) -> None:
        for file, text in files.items():
            (target.parent / file).write_text(text, encoding="utf-8")
        run_yosys(steps, cwd=target.parent, timeout=timeout)
        (target.parent / "stat.json").replace(target)

    name = f"synth-{key.hexdigest()[:24]}.json"
    made = kept(name, make, doing="mapping to cells (seconds to tens of minutes)")
    return made.read_text(encoding="utf-8")


def _black_box(body: str) -> str:
    """The module header of a macro, without its contents."""
    header, _, _ = body.partition(");")
    return header + ");\nendmodule\n"

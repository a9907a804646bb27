# SPDX-License-Identifier: Apache-2.0
"""Operators and registers of a design before they are mapped, in bits."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from amaranth.lib import wiring

from gen.cache import kept
from gen.merge import merge_modules
from gen.rtlil import MacroPlatform, to_rtlil
from gen.yosys import Step, run_yosys, yosys_version

__all__ = ["structure"]

_STEPS: tuple[Step, ...] = (
    "proc", "opt -nodffe -nosdff", "wreduce", "peepopt", "opt_clean", "alumacc", "opt",
    "memory -nomap", "opt_clean", "tee -o stat.json stat -json -width",
)
"""The part of a synthesis that all targets share, up to where operators become gates."""

_GROUPS = {
    **dict.fromkeys(("dff", "dffe", "sdff", "sdffe"), "register"),
    **dict.fromkeys(("mux", "pmux"), "mux"),
    **dict.fromkeys(("and", "or", "not", "xor", "xnor"), "bitwise"),
    **dict.fromkeys(("logic", "reduce"), "reduce"),
    **dict.fromkeys(("eq", "ne"), "equal"),
    **dict.fromkeys(("alu", "add", "sub", "lt", "le", "gt", "ge"), "arithmetic"),
    **dict.fromkeys(("shl", "shr", "sshl", "sshr", "shift", "shiftx"), "shift"),
    **dict.fromkeys(("macc", "mul"), "multiply"),
}
_CELL = re.compile(r"\$([a-z]+)\w*?(?:_(\d+))?(?:_\d+)*")


def structure(component: wiring.Component, name: str) -> Mapping[str, int]:
    """Bits of *component* by group of operators (``register``, ``mux``, ``arithmetic``, ...), all
    instances counted; kept by content. ``memory`` is what memories hold, ``macro`` SRAM macros.
    """
    platform = MacroPlatform()
    merged = merge_modules(
        to_rtlil(component, name=name, platform=platform, undriven=False), top=name
    )
    macros = "".join(
        f"{body.partition(');')[0]});\nendmodule\n"
        for _, body in sorted(platform.sram_macros.items())
    )
    key = sha256(repr((merged.text, macros, _STEPS, yosys_version())).encode())

    def make(target: Path) -> None:
        (target.parent / "design.il").write_text(merged.text)
        (target.parent / "macros.v").write_text(macros)
        reads = ("read_verilog -lib macros.v", "read_rtlil design.il")
        run_yosys([*reads, f"hierarchy -check -top {name}", *_STEPS], cwd=target.parent)
        told = (target.parent / "stat.json").read_text()
        target.write_text(told[told.index("{") :])

    file = kept(f"structure-{key.hexdigest()[:24]}.json", make, doing=f"operators of {name}")
    modules = json.loads(file.read_text())["modules"]
    memories = _memories(merged.text)
    found: Counter[str] = Counter()
    for module, instances in merged.instances.items():
        found["memory"] += instances * memories.get(module, 0)
        for kind, count in modules[f"\\{module}"]["num_cells_by_type"].items():
            if f"\\{kind}" in modules:  # a part, which is counted by itself
                continue
            group, width = _group(kind)
            number = int(count if isinstance(count, int) else count["count"])
            found[group] += instances * number * width
    return found


def _memories(rtlil: str) -> dict[str, int]:
    """Bits of the memories of each module."""
    found: dict[str, int] = {}
    for part in rtlil.split("\nmodule ")[1:]:
        rows = re.findall(r"^\s*memory width (\d+) size (\d+) ", part, re.MULTILINE)
        found[part.split()[0].lstrip("\\")] = sum(int(width) * int(size) for width, size in rows)
    return found


def _group(kind: str) -> tuple[str, int]:
    """Group of a type of cell as ``stat -width`` writes it, and its width."""
    matched = _CELL.fullmatch(kind)
    if matched is None:
        return "macro", 1  # of SRAM
    return _GROUPS.get(matched[1], "other"), int(matched[2] or 1)

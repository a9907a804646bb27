# SPDX-License-Identifier: Apache-2.0
"""Operators and flip-flops of a design before they are mapped, block by block."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from amaranth.lib import wiring

from gen.cache import kept
from gen.merge import merge_modules
from gen.rtlil import MacroPlatform, to_rtlil
from gen.yosys import Step, run_yosys, yosys_version

__all__ = ["Structure", "structure"]

_OPERATORS: tuple[Step, ...] = (
    "proc", "opt", "fsm", "opt", "wreduce", "peepopt", "opt_clean", "alumacc", "opt",
    "memory -nordff -nomap", "opt_clean", "tee -o operators.json stat -json -width",
)
"""The part of a synthesis that all targets share, up to where operators become gates."""

_LEGAL = (
    "dfflegalize -cell $_DFF_?_ 01 -cell $_DFFE_?P_ 01 -cell $_SDFF_?P?_ 01 -cell $_SDFFE_?P?P_ 01"
    " t:$_DFF* t:$_SDFF*"
)
_FLIP_FLOPS: tuple[Step, ...] = (
    "simplemap t:$dff t:$dffe t:$sdff t:$sdffe", "opt_clean", _LEGAL, "opt_merge", "opt_clean",
    "xilinx_srl -fixed -minlen 3", "opt_clean", "tee -o flip_flops.json stat -json",
)
"""Registers bit by bit, as an FPGA has them: without those that a shift register of a LUT takes."""

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
_FF = re.compile(r"\$_S?DFF\w+")
_NUMBERS = re.compile(r"([_$]\d+)+$")
_CELL = re.compile(r"\$([a-z]+)\w*?(?:_(\d+)(?:_(\d+))?)?(?:_\d+)*")


@dataclass(frozen=True)
class Structure:
    """A design before it is mapped.

    Members
    -------
    blocks:
        Name of each distinct module -> its own bits by group of operators (``mux``,
        ``arithmetic``, ...), ``memory`` what its memories hold, ``ff`` its flip-flops in an FPGA.
    places:
        The same -> place of each of its instances: its path without numbers.
    """

    blocks: Mapping[str, Mapping[str, int]]
    places: Mapping[str, list[str]]

    def at_places(self, counted: Mapping[str, Mapping[str, int]]) -> dict[str, Counter[str]]:
        """Sums by place of what is *counted* for each distinct module."""
        found: dict[str, Counter[str]] = {}
        for module, places in self.places.items():
            for place in places:
                found.setdefault(place, Counter()).update(counted[module])
        return found


def structure(component: wiring.Component, name: str) -> Structure:
    """The structure of *component* as top module *name*, kept by content."""
    platform = MacroPlatform()
    merged = merge_modules(
        to_rtlil(component, name=name, platform=platform, undriven=False), top=name
    )
    macros = "".join(
        f"{body.partition(');')[0]});\nendmodule\n"
        for _, body in sorted(platform.sram_macros.items())
    )
    steps = [
        "read_verilog -lib macros.v", "read_rtlil design.il", f"hierarchy -check -top {name}",
        *_OPERATORS, *_FLIP_FLOPS,
    ]
    key = sha256(repr((merged.text, macros, steps, yosys_version())).encode())

    def make(target: Path) -> None:
        folder = target.parent
        (folder / "design.il").write_text(merged.text)
        (folder / "macros.v").write_text(macros)
        run_yosys(steps, cwd=folder)
        told = (_cells(folder / file) for file in ("operators.json", "flip_flops.json"))
        target.write_text(json.dumps(list(told)))

    file = kept(f"structure-{key.hexdigest()[:24]}.json", make, doing=f"operators of {name}")
    operators, flip_flops = json.loads(file.read_text())
    memories = _memories(merged.text)
    blocks = {}
    for module in merged.instances:
        bits = Counter({"memory": memories.get(module, 0)})
        for kind, count in operators[module].items():
            if kind not in operators:  # else it is a part, which is counted by itself
                group, width = _group(kind)
                bits[group] += count * width
        bits["ff"] = sum(n for kind, n in flip_flops[module].items() if _FF.fullmatch(kind))
        blocks[module] = bits
    places = {module: [_place(path) for path in paths] for module, paths in merged.places.items()}
    return Structure(blocks, places)


def _cells(file: Path) -> dict[str, dict[str, int]]:
    """Cells of each module by type, as ``stat`` has written them."""
    told = file.read_text()
    return {
        module.lstrip("\\"): {
            kind.lstrip("\\"): int(count if isinstance(count, int) else count["count"])
            for kind, count in entry["num_cells_by_type"].items()
        }
        for module, entry in json.loads(told[told.index("{") :])["modules"].items()
    }


def _place(path: str) -> str:
    """The place of an instance: equal parts, which differ by numbers, are at the same one."""
    return ".".join(_NUMBERS.sub("", part) for part in path.split(".")[1:])


def _memories(rtlil: str) -> dict[str, int]:
    """Bits of the memories of each module."""
    found: dict[str, int] = {}
    for part in rtlil.split("\nmodule ")[1:]:
        rows = re.findall(r"^\s*memory width (\d+) size (\d+) ", part, re.MULTILINE)
        found[part.split()[0].lstrip("\\")] = sum(int(width) * int(size) for width, size in rows)
    return found


def _group(kind: str) -> tuple[str, int]:
    """Group of a type of cell as ``stat -width`` writes it, and its width; of a multiplexer with
    one of several selected, for each of them."""
    matched = _CELL.fullmatch(kind)
    if matched is None:
        return "macro", 1  # of SRAM
    width = int(matched[2] or 1)
    if matched[1] == "pmux":
        width *= int(matched[3])
    return _GROUPS.get(matched[1], "other"), width

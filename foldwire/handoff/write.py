# SPDX-License-Identifier: Apache-2.0
"""Write the files that are handed over beside the Verilog of a design."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gen
from foldwire.catalog import Design
from foldwire.handoff.driver import driver_files
from foldwire.handoff.ipxact import ip_xact
from foldwire.handoff.manual import manual
from foldwire.handoff.packages import bender_package, fusesoc_core, is_own_package, sources_of
from foldwire.handoff.part import HandoffBench, handoff_of
from foldwire.handoff.rdl import system_rdl
from foldwire.handoff.words import after_reset
from gen.contracts import contracts
from gen.folder import replace_text, writing
from gen.mapping.clock import reached
from gen.mapping.netlist import known_netlist
from gen.rtlil import CLOCK
from hw.common.params import require

__all__ = [
    "FASTEST_MHZ", "SLOWEST_MHZ", "check_clock", "constraints", "licence_text", "write_handoff",
]

_HERE = Path(__file__).parent
SLOWEST_MHZ, FASTEST_MHZ = 1e-3, 1e5
"""Limits of the clock of constraints: periods are written in nanoseconds with three digits."""
_COPIED = ("benches.py", "cache.py", "compiler.py", "verilator.py")
"""Modules of `gen` that the bench needs; they need nothing but Python's library."""

_LICENCE_FILE = "LICENSES/Apache-2.0.txt"
"""The place that the REUSE specification has for it, which is no other licence's."""

_MAKEFILE = """\
# `make` builds the designs of this folder and runs the bench of each, `make TOP=name` of one.
# SIM=verilator or SIM=icarus chooses the simulator, SEED=2 another course, PYTHON the interpreter.
# Icarus reads Verilog of the plain style only: `foldwire gen ... --style plain`.
PYTHON ?= python3

.PHONY: test clean
test:
\t@$(PYTHON) bench/run.py

clean:
\trm -rf bench/build
"""


def write_handoff(
    design: Design, folder: Path, *, verilog: Sequence[Path], manifest: Mapping[str, Any],
    clock_mhz: float,
) -> list[Path]:
    """Write file list, manifests, constraints, licence and bench; for designs with registers, their
    descriptions, C header and manual too.

    Returns their paths. The bench runs by ``make`` in *folder*, wherever that is copied to, with
    cocotb and a simulator; designs in one folder share its modules. An engine without a second link
    to join has no bench.

    Raises
    ------
    ValueError
        *folder* is a package of Bender that Foldwire has not made.
    """
    top, sources = design.top, _sources(verilog)
    package = folder / "Bender.yml"
    if package.is_file() and not is_own_package(package.read_text(encoding="utf-8")):
        raise ValueError(f"{package}: is there already and not of Foldwire; choose another folder")
    files = {
        f"{top}.f": _file_list(verilog),
        f"{top}.sdc": constraints(manifest, clock_mhz=clock_mhz, reached=_reached(design)),
        f"{top}.xml": ip_xact(design.registers, manifest, sources),
        _LICENCE_FILE: licence_text(),
    }
    if design.registers is not None:
        files |= driver_files(design)
        files[f"{top}-manual.md"] = manual(design)
        files[f"{top}.rdl"] = system_rdl(design.registers, name=top)
    checks = contracts(manifest) if manifest["style"] == "sv" else ""
    if checks:
        files[f"{top}_contracts.sv"] = checks
    others = [name for name in files if name.endswith((".h", ".rdl", ".xml", "_contracts.sv"))]
    summary = f"{top.partition('_')[0]} emitted by Foldwire"
    files[f"{top}.core"] = fusesoc_core(
        top, sources, summary=summary, others=others,
        included=[each.name for each in verilog if each.name not in sources],
    )
    bench = handoff_of(design).bench(design, manifest)
    if bench is not None:
        files |= _bench_files(bench, design, verilog, manifest, contracts=bool(checks))
    written = []
    with writing(folder):
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_text(path, text)
            written.append(path)
        includes = any(folder.glob("*.svh"))
        replace_text(package, bender_package(_designs(folder), includes=includes))
    return [*written, package]


def _reached(design: Design) -> str:
    """The clock that ``foldwire synth --fmax`` has found for the design, if it was run."""
    netlist = known_netlist(
        design.component, name=design.top, configuration=design.configuration
    )
    return reached(netlist) if netlist else ""


def _designs(folder: Path) -> dict[str, list[str]]:
    """Designs of a folder, by their file lists: sources of each."""
    lists = sorted(folder.glob("*.f"))
    return {each.stem: sources_of(each.read_text(encoding="utf-8")) for each in lists}


def licence_text() -> str:
    """The licence of all that is emitted; in the wheel it lies in this package."""
    package = _HERE.parent
    installed = package / "LICENSE"
    found = installed if installed.is_file() else package.parent / "LICENSE"
    return found.read_text(encoding="utf-8")


def _sources(verilog: Sequence[Path]) -> list[str]:
    """Files of *verilog* that are compiled; the rest is included."""
    return [path.name for path in verilog if path.suffix != ".svh"]


def _file_list(verilog: Sequence[Path]) -> str:
    sources = _sources(verilog)
    return "\n".join([*(["+incdir+."] if len(sources) < len(verilog) else []), *sources]) + "\n"


def _bench_files(
    bench: HandoffBench, design: Design, verilog: Sequence[Path], manifest: Mapping[str, Any],
    *, contracts: bool,
) -> dict[str, str]:
    pair = f"bench/{design.top}-pair.v"
    about: dict[str, Any] = {
        "module": bench.module,
        "top": "pair" if bench.extra else design.top,
        "sources": [*_sources(verilog), *([pair] if bench.extra else []),
                    *([f"{design.top}_contracts.sv"] if contracts else [])],
        "clock": manifest["clock"],
        "reset": {"port": "rst", "active": "high"} if bench.extra else manifest["reset"],
    }
    if design.registers is not None:
        about["after_reset"] = after_reset(design.registers)
        about["no_register"] = design.registers.size
    own = {name: _HERE / "bench" / name for name in ("run.py", "models.py", f"{bench.module}.py")}
    package = Path(str(gen.__file__)).parent
    copies = own | {f"gen/{name}": package / name for name in ("__init__.py", *_COPIED)}
    files = {f"bench/{name}": path.read_text(encoding="utf-8") for name, path in copies.items()}
    files["Makefile"] = _MAKEFILE
    files[f"bench/{design.top}.json"] = json.dumps(about | bench.data) + "\n"
    return files | ({pair: bench.extra} if bench.extra else {})


def check_clock(clock_mhz: float) -> None:
    """Refuse a clock that constraints cannot ask for."""
    allowed = f"from {SLOWEST_MHZ:g} to {FASTEST_MHZ:g}"
    require(SLOWEST_MHZ <= clock_mhz <= FASTEST_MHZ, "clock_mhz", allowed, clock_mhz)


def constraints(
    manifest: Mapping[str, Any], *, clock_mhz: float, reached: str = ""
) -> str:
    """Clock and delays of the ports as SDC, which Vivado and Quartus read as well.

    Inputs arrive in the first 30 % of a cycle, outputs leave before the last 30 %; all ports except
    the clock are timed by it. So is the reset: it is synchronous, and a false path would let
    registers leave it in different cycles. `reached`: the clock after place and route, with what
    it was measured on.
    """
    check_clock(clock_mhz)
    period = 1000 / clock_mhz
    registered = manifest["clock"] is not None  # else the clock is virtual: the surroundings'
    clock = manifest["clock"] or CLOCK
    inputs = [port["name"] for port in manifest["ports"] if port["is_input"]]
    outputs = [port["name"] for port in manifest["ports"] if not port["is_input"]]
    widths = {port["name"]: port["width"] for port in manifest["ports"]}
    lines = [
        f"# {manifest['name']} at {clock_mhz:g} MHz: generated. Delays of ports are a budget for",
        "# synthesis on its own; within a larger design the clock alone counts.",
        f"# Reached after place and route: {reached}." if reached
        else "# The clock is what is asked for: no place and route of this design is known here.",
        f"create_clock -name {clock} -period {period:.3f}" + f" [get_ports {clock}]" * registered,
    ]
    if manifest["reset"] is not None:
        inputs.insert(0, manifest["reset"]["port"])
        lines += [
            f"# No false path from {manifest['reset']['port']}: it is synchronous, and registers",
            "# must leave it in one cycle. Where its paths are too long, copy the register before.",
        ]
    for kind, names in (("input", inputs), ("output", outputs)):
        delay = f"set_{kind}_delay -clock {clock} {0.3 * period:.3f}"
        for name in names:
            wide = widths.get(name, 1) > 1
            target = f"{{{name}[*]}}" if wide else name
            lines.append(f"{delay} [get_ports {target}]")
    return "\n".join(lines) + "\n"

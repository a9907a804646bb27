"""The folder that is handed over: what stands beside the Verilog of a design."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gen
from foldwire.catalog import Design
from foldwire.handoff.header import c_header
from foldwire.handoff.manual import manual
from foldwire.handoff.pair import bench_data, joined, pair_verilog
from gen.folder import writing
from hw.ace.engine import AceEngine
from hw.smartnic.nic import SmartNic

__all__ = ["constraints", "write_handoff"]

_HERE = Path(__file__).parent
_COPIED = ("benches.py", "cache.py", "compiler.py", "verilator.py")
"""Modules of `gen` that the bench needs; they need nothing but Python's library."""

_MAKEFILE = """\
# `make` builds two {top} joined by their links and runs the bench on them.
# SIM=verilator or SIM=icarus chooses the simulator, SEED=2 another course, PYTHON the interpreter.
PYTHON ?= python3

.PHONY: test clean
test:
\t@$(PYTHON) bench/run.py

clean:
\trm -rf bench/build
"""


def write_handoff(
    design: Design, folder: Path, *, verilog: Path, manifest: Mapping[str, Any], clock_mhz: float
) -> list[Path]:
    """Write file list, constraints and, for an engine, C header, manual and bench; their paths.

    The bench runs by ``make`` in *folder*, wherever that is copied to, with cocotb and a simulator.
    An engine that has no second link to join has none.
    """
    top = design.top
    files = {
        f"{top}.f": f"{verilog.name}\n",
        f"{top}.sdc": constraints(manifest, clock_mhz=clock_mhz),
    }
    engine = {AceEngine: "ace", SmartNic: "smartnic"}.get(type(design.component))
    if engine and design.registers is not None:
        files[f"{top}.h"] = c_header(design.registers, name=top)
        files[f"{top}-manual.md"] = manual(design, engine)
        if engine != "ace" or int(design.parameters["ports"]) >= 2:
            files |= _bench(design, engine, verilog, manifest)
    written = []
    with writing(folder):
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            written.append(path)
        if "Makefile" in files:
            written += _copies(folder / "bench")
    return written


def _bench(
    design: Design, engine: str, verilog: Path, manifest: Mapping[str, Any]
) -> dict[str, str]:
    sources = [verilog.name, "bench/pair.v"]
    data = bench_data(design, engine, sources)
    return {
        "Makefile": _MAKEFILE.format(top=design.top),
        "bench/pair.v": pair_verilog(manifest, joined(design.parameters, engine)),
        "bench/bench.json": json.dumps(data) + "\n",
    }


def _copies(folder: Path) -> list[Path]:
    (folder / "gen").mkdir(parents=True, exist_ok=True)
    package = Path(str(gen.__file__)).parent
    pairs = [(path, folder / path.name) for path in sorted((_HERE / "bench").glob("*.py"))]
    pairs += [(package / name, folder / "gen" / name) for name in ("__init__.py", *_COPIED)]
    return [Path(shutil.copyfile(source, target)) for source, target in pairs]


def constraints(manifest: Mapping[str, Any], *, clock_mhz: float) -> str:
    """Clock and delays of the ports as SDC, which Vivado and Quartus read as well.

    Inputs arrive in the first, outputs leave before the last 30 % of a cycle; all ports but the
    clock belong to it, the reset too.
    """
    if clock_mhz <= 0:
        raise ValueError(f"clock_mhz must be more than 0, not {clock_mhz!r}")
    period = 1000 / clock_mhz
    clock = manifest["clock"]
    inputs = [port["name"] for port in manifest["ports"] if port["is_input"]]
    outputs = [port["name"] for port in manifest["ports"] if not port["is_input"]]
    widths = {port["name"]: port["width"] for port in manifest["ports"]}
    lines = [
        f"# {manifest['name']} at {clock_mhz:g} MHz: generated. Delays of ports are a budget for",
        "# synthesis on its own; within a larger design the clock alone counts.",
        f"create_clock -name {clock} -period {period:.3f} [get_ports {clock}]",
    ]
    for kind, names in (("input", [manifest["reset"]["port"], *inputs]), ("output", outputs)):
        delay = f"set_{kind}_delay -clock {clock} {0.3 * period:.3f}"
        for name in names:
            wide = widths.get(name, 1) > 1
            target = f"{{{name}[*]}}" if wide else name
            lines.append(f"{delay} [get_ports {target}]")
    return "\n".join(lines) + "\n"

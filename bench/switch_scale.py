# SPDX-License-Identifier: Apache-2.0
"""128 endpoints with six links on a two-level fat tree of 144 switches: every cycle, and as events.

The description is `examples/in_switch_128.toml`; only its size and level change. Between two sizes,
bytes added over time added are the rate of the steady state: if it is one, they agree.

Then one of the planes alone, which all work alike, with more and more leaves of 8 endpoints: the
rate of the steady state at both levels, by bytes added over time added, and the operands' share of
a link (`oldest_first`). And the same rates of this plane with other buffers, tables and waves,
which must agree as well; the last row is of links whose inputs take turns, without a steady state.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.result import result
from foldwire.console import say, step
from sim.endpoint.switch_hardware import oldest_first
from sim.run import Run, run
from sim.units import MIB

__all__ = ["main"]

DESCRIPTION = Path(__file__).parents[1] / "examples/in_switch_128.toml"
SIZES = (1 * MIB, 2 * MIB, 4 * MIB)
EVENTS_BYTES = 16 * MIB
PLANE_SIZES = (MIB // 4, MIB // 2)
GROUP, LEAVES = 8, (2, 3, 4, 5, 6, 8, 16)
ROOMY = {"switch.entries": 32, "switch.homes": 32}
"""No sum gives way, and homes fill their rows as evenly as can be."""
NEIGHBOURS: dict[str, dict[str, object]] = {
    "as described": {},
    "48 packets in buffers": {"switch.buffer_packets": 48, "switch.credits": 48},
    "64 packets in buffers": {"switch.buffer_packets": 64, "switch.credits": 64},
    "4 entries": {"switch.entries": 4},
    "32 entries": {"switch.entries": 32},
    "16 waves": {"endpoint.waves": 16},
    "32 waves of 32 blocks": {"endpoint.wave_blocks": 32},
    "7 bits of age": {"switch.age_bits": 7},
    "inputs take turns": {"switch.age_bits": 0},
}
NEIGHBOUR_SIZES = (125_000, 250_000, 500_000)
TARGET_S, TARGET_PCT = 600.0, 2.0


def main(argv: Sequence[str]) -> int:
    """Print a row per run."""
    parser = argparse.ArgumentParser(prog="python -m bench switch_scale", description=__doc__)
    parser.parse_args(list(argv))
    times, walls = [], []
    say("level       MiB         µs     GB/s   wall s  evicted  timed out")
    for size in SIZES:
        done, wall_s = _run(size, "cycles")
        times.append(done.time_s)
        walls.append(wall_s)
    first, second = (
        (after - before) / (late - early)
        for before, after, early, late in zip(SIZES, SIZES[1:], times, times[1:])
    )
    apart = 100 * abs(second - first) / first
    say(f"bytes added over time added: {first / 1e9:.2f}, {second / 1e9:.2f} GB/s")
    as_events, _ = _run(SIZES[-1], "events")
    _, events_wall_s = _run(EVENTS_BYTES, "events")
    trees = [_tree(leaves) for leaves in LEAVES]
    say("one plane, KB:              125 to 250    to 500    apart %  evicted, timed out")
    neighbours = [_neighbour(title, changes) for title, changes in NEIGHBOURS.items()][:-1]
    met = walls[-1] <= TARGET_S and max(apart, *neighbours) <= TARGET_PCT
    result(
        "switch_scale",
        endpoints=128,
        wall_s=walls[-1],
        apart_pct=apart,
        neighbours_apart_pct=max(neighbours),
        rate_gbs=second / 1e9,
        events_error_pct=100 * abs(as_events.time_s - times[-1]) / times[-1],
        events_wall_s=events_wall_s,
        trees_error_pct=max(map(abs, trees)),
        target_s=TARGET_S,
        target_pct=TARGET_PCT,
        verdict="ok" if met else "short",
    )
    return 0


def _tree(leaves: int) -> float:
    """A row for a tree of so many leaves; events less cycles, in percent of the rate."""
    if leaves == LEAVES[0]:
        say("one plane: leaves     cycles     events GB/s  operands' share of links to leaves")
    nodes = GROUP * leaves
    changes = {"topology.shape": [nodes], "dimension": [{"lanes": 1}], **ROOMY}
    rates = {}
    for level in ("cycles", "events"):
        with step(f"{nodes} endpoints, {level}"):
            short, long = (
                run(DESCRIPTION, endpoint=f"in_switch:{level}",
                    changes={**changes, "workload.size_bytes": size}).time_s
                for size in PLANE_SIZES
            )
        rates[level] = (PLANE_SIZES[1] - PLANE_SIZES[0]) / (long - short) / 1e9
    say(
        f"{leaves:17} {rates['cycles']:10.2f} {rates['events']:10.2f} "
        f"{oldest_first(leaves, GROUP):30.3f}"
    )
    return 100 * (rates["events"] / rates["cycles"] - 1)


def _neighbour(title: str, changes: Mapping[str, object]) -> float:
    """A row for a plane that differs a little; how far its rates are apart, in percent."""
    with step(title):
        done = [
            run(DESCRIPTION, endpoint="in_switch:cycles", changes={
                "topology.shape": [128], "dimension": [{"lanes": 1}], **changes,
                "workload.size_bytes": size,
            })
            for size in NEIGHBOUR_SIZES
        ]
    rates = [
        (after - before) / (late.time_s - early.time_s) / 1e9
        for before, after, early, late in zip(NEIGHBOUR_SIZES, NEIGHBOUR_SIZES[1:], done, done[1:])
    ]
    apart = 100 * (max(rates) / min(rates) - 1)
    gone = sum(each.metrics.get(name, 0) for each in done for name in ("evicted", "expired"))
    say(
        f"{title:26} {rates[0]:12.2f} {rates[1]:9.2f} {apart:10.2f} {gone:19.0f}"
    )
    return apart


def _run(size: int, level: str) -> tuple[Run, float]:
    """A run, and the seconds that it took."""
    began = time.perf_counter()
    with step(f"{size // MIB} MiB, {level}"):
        changes = {"workload.size_bytes": size}
        done = run(DESCRIPTION, endpoint=f"in_switch:{level}", changes=changes)
    wall_s = time.perf_counter() - began
    counted = "".join(
        f"{done.metrics[name]:{width}.0f}" if name in done.metrics else ""
        for name, width in (("evicted", 9), ("expired", 11))
    )
    say(
        f"{level:8} {size // MIB:6} {1e6 * done.time_s:10.2f} {size / done.time_s / 1e9:8.2f} "
        f"{wall_s:8.1f}{counted}"
    )
    return done, wall_s

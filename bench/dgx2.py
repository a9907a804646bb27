# SPDX-License-Identifier: Apache-2.0
"""All-reduce bandwidth over size on a DGX-2, cycle by cycle: push, pull, ring, double binary tree.

16 endpoints with six links, 12 switches in two groups. What pushes and pulls is the cycle model of
our RTL, but over eight regions, where the RTL has one; ring and tree send messages
through the same switches. Software's channels, chunks and protocol are the best of a sweep at
every size up to 4 MiB, which is printed; beyond, those that were best at 4 MiB.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.result import result
from foldwire.console import say, step
from hw.switch.config import SwitchConfig
from hw.switch_dma.config import SwitchDmaConfig
from sim.cycles.switch.fabric import Fabric
from sim.cycles.switch.messages import MessageModel, MessageProgram, ring_messages, tree_messages
from sim.cycles.switch.model import AllReduceJob, SwitchModel, SwitchSettings
from sim.units import MIB

ENDPOINTS, LINKS = 16, 6
CLOCK_HZ = 25e9 / 16
LATENCY_CYCLES = 145  # three links and two switches of 17 cycles: 300 ns
MEMORY_CYCLES = 180  # plus up to as many again, drawn per endpoint
TIMEOUT_CYCLES = 4000
MEMORY_END = 1 << 30

SWITCH = SwitchConfig(
    ports=16, buffer_packets=40, credits=40, regions=8, endpoints=ENDPOINTS,
)
DMA = SwitchDmaConfig(
    links=LINKS, buffer_packets=40, credits=40, waves=32, wave_blocks=8, read_ahead=64,
    outstanding_bursts=64, endpoints=ENDPOINTS,
)
KIB = 1 << 10
SMALL_BYTES, LARGE_BYTES = 64 * KIB, 64 * MIB
SIZES = tuple(1 << k for k in range(12, 27, 2))
PROTOCOLS = {"fence": (True, 1.0), "LL": (False, 0.5), "LL128": (False, 120 / 128)}
CHANNELS, CHUNKS = (1, 2, 4, 8), (4 * KIB, 32 * KIB, 128 * KIB)
SWEPT_BYTES = 4 * MIB  # larger sizes use the best setting of this one
ENTRIES = {"push": 4, "pull": 32}  # per port; the published tables have 2 and 32
PUSH_GBS, PULL_GBS, RING_GBS = (108.0, 120.0), (90.0, 120.0), (57.0, 64.0)
LARGE_SPEEDUP, SMALL_SPEEDUP = (1.7, 2.1), (12.0, 27.0)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Parameters of a software algorithm."""

    protocol: str
    channels: int
    chunk_bytes: int

    def __str__(self) -> str:
        return f"{self.protocol} {self.channels} x {_bytes(self.chunk_bytes)}"


def main(argv: Sequence[str]) -> int:
    """Run all powers of four from 4 KiB to 64 MiB, or ``--sizes``."""
    parser = argparse.ArgumentParser(prog="python -m bench dgx2", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="in bytes")
    parser.add_argument("--seed", type=int, default=1, help="of memories' latencies (default: 1)")
    options = parser.parse_args(list(argv))
    for size in options.sizes:
        if size < 4 or size % 4 or size > MEMORY_END:
            parser.error(f"--sizes must be multiples of 4 up to {MEMORY_END}, not {size}")

    around = surroundings(options.seed, acknowledged=True)
    say(
        f"{ENTRIES['push']} entries a port for push, {ENTRIES['pull']} for pull; links of "
        f"{LATENCY_CYCLES} cycles at {CLOCK_HZ / 1e9:.4g} GHz;\nmemories answer after "
        f"{MEMORY_CYCLES} to {2 * MEMORY_CYCLES - 1} cycles. Beside packets with data links carry "
        "acknowledgements, as published; 'bare': without, as our RTL is. GB/s"
    )
    push: dict[int, float] = {}
    pull: dict[int, float] = {}
    best: dict[str, dict[int, float]] = {"ring": {}, "tree": {}}
    chosen: dict[str, Setting] = {}
    rows = []
    for size in sorted(options.sizes):
        with step(f"{_bytes(size)}: push and pull"):
            push[size], evicted = in_switch("push", size, around)
            pull[size], missing = in_switch("pull", size, around)
            bare, _ = in_switch("push", size, surroundings(options.seed, acknowledged=False))
        for name, make in (("ring", ring_messages), ("tree", tree_messages)):
            parts = ENDPOINTS if make is ring_messages else 1
            sweeps = size <= SWEPT_BYTES or name not in chosen
            settings = _settings(size, parts) if sweeps else [chosen[name]]
            with step(f"{_bytes(size)}: {name}, {len(settings)} settings"):
                swept = {each: _software(size, each, make, around) for each in settings}
            for each, rate in swept.items() if len(swept) > 1 else ():
                say(f"  {_bytes(size):>8} {name} {each!s:22} {rate:8.3f}")
            chosen[name] = max(swept, key=lambda each: swept[each])
            best[name][size] = swept[chosen[name]]
        rows.append(
            f"{_bytes(size):>8} {push[size]:8.2f} {pull[size]:8.2f} {bare:8.2f} "
            f"{best['ring'][size]:8.3f} {best['tree'][size]:8.3f} "
            f"{push[size] / best['ring'][size]:11.2f} "
            f"{push[size] / max(best[name][size] for name in best):13.2f} {evicted:8} "
            f"{missing:8}  {chosen['ring']!s:22} {chosen['tree']!s}"
        )
    say(
        "    size     push     pull     bare     ring     tree push / ring      / better  "
        "partials: push, pull; best ring, tree"
    )
    for row in rows:
        say(row)
    return _report(push, pull, best["ring"])


def _report(push: dict[int, float], pull: dict[int, float], ring: dict[int, float]) -> int:
    large = max(push)
    ratios = {size: push[size] / ring[size] for size in push}
    small = max((ratios[size] for size in ratios if size <= SMALL_BYTES), default=0.0)
    judged = {
        "push": (push[large], PUSH_GBS),
        "pull": (pull[large], PULL_GBS),
        "ring": (ring[large], RING_GBS),
        "large": (ratios[large], LARGE_SPEEDUP),
        "small": (small, SMALL_SPEEDUP),
    }
    for name, (value, (least, most)) in judged.items():
        say(f"{name:6} {value:8.2f}, wanted {least:g} to {most:g}")
    say("and pull not above push")
    met = large >= LARGE_BYTES and all(a <= value <= b for value, (a, b) in judged.values())
    met = met and pull[large] <= push[large]
    result(
        "dgx2",
        push_large_gbs=push[large],
        pull_large_gbs=pull[large],
        ring_large_gbs=ring[large],
        speedup_small=small,
        speedup_large=ratios[large],
        verdict="ok" if met else "short",
    )
    return 0


def surroundings(seed: int, *, acknowledged: bool) -> SwitchSettings:
    extra = np.random.default_rng(seed).integers(MEMORY_CYCLES, size=ENDPOINTS)
    return SwitchSettings(
        latency_cycles=LATENCY_CYCLES, timeout_cycles=TIMEOUT_CYCLES,
        read_latency_cycles=(MEMORY_CYCLES + extra).tolist(), acknowledged=acknowledged,
    )


def rate_gbs(size: int, cycles: int) -> float:
    """GB/s of an all-reduce."""
    return size / cycles * CLOCK_HZ / 1e9


def in_switch(mode: str, size: int, around: SwitchSettings) -> tuple[float, int]:
    """GB/s, and the number of sums that left a table incomplete or found no free entry."""
    job = AllReduceJob(elements=size // 4, destination=MEMORY_END, mode=mode)
    switch = replace(SWITCH, entries=ENTRIES[mode])
    model = SwitchModel(switch, DMA, Fabric.dgx_2(), around, [job])
    model.run()
    counts = model.counts().units
    return (
        rate_gbs(size, int(model.completions().max())),
        counts["evicted"] + counts["expired"] + counts["passed"],
    )


def _settings(size: int, parts: int) -> list[Setting]:
    """Distinct settings at this size, for all protocols; a channel's share of the vector is cut
    into at least *parts* parts."""
    found: dict[tuple[str, int, int], Setting] = {}
    for protocol in PROTOCOLS:
        for channels in CHANNELS:
            for chunk in CHUNKS:
                part = -(-size // channels // parts)
                found.setdefault(
                    (protocol, channels, min(chunk, part)),
                    Setting(protocol=protocol, channels=channels, chunk_bytes=chunk),
                )
    return list(found.values())


def _software(
    size: int, setting: Setting, make: Callable[..., MessageProgram], around: SwitchSettings
) -> float:
    """GB/s of a software algorithm."""
    program = make(
        ENDPOINTS, size, channels=setting.channels, chunk_bytes=setting.chunk_bytes
    )
    fence, share = PROTOCOLS[setting.protocol]
    model = MessageModel(
        SWITCH, DMA, Fabric.dgx_2(), around, program, fence=fence, share=share,
        work_cycles=MEMORY_CYCLES + MEMORY_CYCLES // 2,
    )
    model.run()
    return rate_gbs(size, model.cycles)


def _bytes(size: int) -> str:
    """A size in the largest unit that divides it."""
    for bits, unit in ((20, "MiB"), (10, "KiB")):
        if size % (1 << bits) == 0:
            return f"{size >> bits} {unit}"
    return f"{size} B"

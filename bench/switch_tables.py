# SPDX-License-Identifier: Apache-2.0
"""Table sizes needed without waves, and the gain of waves, on a DGX-2 cycle by cycle.

The system of ``python -m bench dgx2``. Without waves an endpoint has as many blocks in flight as it
can, 1024 per link. The knee is the smallest table that reaches 95 % of the bandwidth of one of 32
entries; beside it are the values of the paper's formulas (Klenk et al., ISCA 2020). Waves are of 8
blocks per link; the number with the highest bandwidth counts, with the published best tables.

Without waves the published DMA engine injects as fast as its link accepts packets, and its switches
queue at their outputs, in buffers of unpublished size. So latencies are measured with buffers of
several sizes, from what our links need for their rate to room for everything that an endpoint may
have in flight on a link: the largest never hold an injection back, and are the ones judged. Waves
and tables are the same with all.

Finally, partials sent to the home endpoint are compared with partials multicast to all members, the
paper's other option: push without waves, through tables that overflow, with the bytes carried by
all links.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench.dgx2 import (
    CLOCK_HZ,
    DMA,
    ENDPOINTS,
    LATENCY_CYCLES,
    LINKS,
    MEMORY_CYCLES,
    MEMORY_END,
    SWITCH,
    rate_gbs,
    surroundings,
)
from bench.result import result
from foldwire.console import say, step
from hw.link.packet import FLIT_BYTES
from hw.switch.packet import Kind
from hw.switch.switch import Switch
from sim.cycles.switch.fabric import Fabric
from sim.cycles.switch.model import AllReduceJob, SwitchModel, Transit
from sim.endpoint.background import Background
from sim.units import MIB

SIZE_BYTES = 8 * MIB
ENTRIES = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32)
WAVES = (1, 2, 4, 8, 16, 32)
WAVE_LOG2 = 3
OVERFLOWING = (1, 2, 3)  # entries of tables that evict partials
BUFFERS = (SWITCH.buffer_packets, 256, 1024)  # packets of each class at a link
SHARE = 0.95
TABLES = {"push": 2, "pull": 32}  # entries; published: 256 B and 4 KB a port
PUBLISHED_WAVES = {"push": 16, "pull": 4}
KNEES = {"push": (180, 405), "pull": (930, 2100)}  # bytes
DROP_PCT = 75

_PORTS = 2 * LINKS * SWITCH.ports  # total over all switches
_LINK_BYTES_PER_S = 16 * CLOCK_HZ


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One all-reduce."""

    gbs: float
    partials: int  # evicted from tables, or passing them without an entry
    stalls: int  # loads that waited for an entry
    transits: Mapping[Kind, Transit]
    link_bytes: int = 0  # on all links, without acknowledgements
    ordinary: Transit | None = None  # packets of the background

    @property
    def travel(self) -> float:
        """Mean cycles of all packets from the first flit on its link to delivery."""
        return self._mean("travel")

    @property
    def held(self) -> float:
        """Mean cycles of these that packets spend in buffers."""
        return self._mean("held")

    @property
    def queued(self) -> float:
        """Mean cycles before that, from a packet complete at the endpoint to its first flit."""
        return self._mean("queued")

    def _mean(self, name: str) -> float:
        packets = sum(each.packets for each in self.transits.values())
        total = sum(each.packets * getattr(each, name) for each in self.transits.values())
        return float(total / packets)


def main(argv: Sequence[str]) -> int:
    """Tables of 1 to 32 entries without waves, then 1 to 32 waves; or those of the options."""
    parser = argparse.ArgumentParser(prog="python -m bench switch_tables", description=__doc__)
    parser.add_argument("--bytes", type=int, default=SIZE_BYTES, help="of the vector")
    parser.add_argument("--entries", type=int, nargs="*", default=list(ENTRIES),
                        help="of tables, 32 among them")
    parser.add_argument("--waves", type=int, nargs="*", default=list(WAVES), help="under way")
    parser.add_argument("--seed", type=int, default=1, help="of memories' latencies (default: 1)")
    options = parser.parse_args(list(argv))
    size, entries, waves = options.bytes, sorted(set(options.entries)), sorted(set(options.waves))
    if size < 4 or size % 4 or size > MEMORY_END:
        parser.error(f"--bytes must be a multiple of 4 up to {MEMORY_END}, not {size}")
    if not entries or entries[0] < 1 or entries[-1] != 32:
        parser.error(f"--entries must be from 1 to 32, with 32, not {entries}")
    if not waves or waves[0] < 1 or waves[-1] > 32:
        parser.error(f"--waves must be from 1 to 32, not {waves}")

    say(f"{size} bytes on {ENDPOINTS} endpoints, otherwise as `python -m bench dgx2`")
    knees = {mode: _knee(mode, size, entries, options.seed) for mode in KNEES}
    drops = {mode: _latency(mode, size, waves, options.seed) for mode in KNEES}
    ratio = _compare(size, options.seed)
    formulas = _formulas()
    for mode, (least, most) in KNEES.items():
        say(
            f"{mode}: knee at {knees[mode]} B a port, wanted {least} to {most}; by the formula "
            f"{formulas[mode]:.0f} B"
        )
    say(f"latency: less by {min(drops.values()):.1f} % with waves, wanted {DROP_PCT} or more; "
        f"the smaller of both modes, buffers of {BUFFERS[-1]} packets")
    met = all(least <= knees[mode] <= most for mode, (least, most) in KNEES.items())
    result(
        "switch_tables",
        pull_knee_bytes=knees["pull"],
        push_knee_bytes=knees["push"],
        latency_drop_pct=min(drops.values()),
        pull_drop_pct=drops["pull"],
        push_drop_pct=drops["push"],
        multicast_bytes_ratio=ratio,
        verdict="ok" if met and min(drops.values()) >= DROP_PCT else "short",
    )
    return 0


def _formulas() -> dict[str, float]:
    """Bytes of a port's table from the formulas of the paper, with this system's latencies."""
    hops = 2
    switch = Switch.latency + SWITCH.packet_flits - 1
    hop_s = ((hops + 1) * LATENCY_CYCLES + hops * switch) / hops / CLOCK_HZ
    memory_s = (1.5 * MEMORY_CYCLES - 0.5) / CLOCK_HZ
    return {
        "pull": _LINK_BYTES_PER_S * (2 * hops * hop_s + memory_s) / (ENDPOINTS - 1),
        "push": LINKS * _LINK_BYTES_PER_S * hops * hop_s / _PORTS,
    }


def run(
    mode: str, size: int, *, entries: int, seed: int, waves: int | None = None,
    buffers: int = SWITCH.buffer_packets, background: Background | None = None,
    multicast: bool = False, age_bits: int = 0,
) -> Outcome:
    """Run an all-reduce with *waves* in flight; None: as many blocks as an endpoint can have.
    *multicast*: partials go to all members. *age_bits*: links take the oldest operand first."""
    around = replace(surroundings(seed, acknowledged=True), buffer_packets=buffers)
    dma = replace(DMA, multicast_partials=multicast)
    if waves is None:
        dma = replace(dma, wave_blocks=1024 // DMA.waves)
    else:
        around = replace(around, wave_log2=WAVE_LOG2, waves=waves)
    job = AllReduceJob(elements=size // 4, destination=MEMORY_END, mode=mode)
    switch = replace(SWITCH, entries=entries, multicast_partials=multicast, age_bits=age_bits)
    model = SwitchModel(switch, dma, Fabric.dgx_2(), around, [job], background=background)
    model.run()
    counts = model.counts().units
    return Outcome(
        gbs=rate_gbs(size, int(model.completions().max())),
        partials=counts["evicted"] + counts["expired"] + counts["passed"],
        stalls=counts["stalled"],
        transits=model.transits(),
        link_bytes=FLIT_BYTES * model.link_flits(),
        ordinary=model.ordinary(),
    )


def _knee(mode: str, size: int, tables: Sequence[int], seed: int) -> int:
    """The knee of *tables* without waves, in bytes; 32 entries must be among them."""
    say(f"{mode} without waves\nentries  bytes    GB/s partials   stalls")
    rates = {}
    for entries in tables:
        with step(f"{mode}, {entries} entries"):
            outcome = run(mode, size, entries=entries, seed=seed)
        rates[entries] = outcome.gbs
        say(
            f"{entries:7} {entries * SWITCH.payload_bytes:6} {outcome.gbs:7.2f} "
            f"{outcome.partials:8} {outcome.stalls:8}"
        )
    return knee_bytes(rates)


def knee_bytes(rates: Mapping[int, float]) -> int:
    """Bytes of the smallest table within 5 % of the rate of the largest; *rates* by entries."""
    enough = SHARE * rates[max(rates)]
    return min(each for each in rates if rates[each] >= enough) * SWITCH.payload_bytes


def _compare(size: int, seed: int) -> float:
    """Compare partials for the home endpoint with multicast ones; return the ratio of link bytes
    of the latter to the former, with the smallest table."""
    say("push without waves; partials for the home endpoint, and multicast: GB/s, partials, MB on "
        "links\nentries     home partials      MB  multicast partials      MB")
    ratios = []
    for entries in OVERFLOWING:
        with step(f"push, {entries} entries, partials multicast"):
            home, shared = (run("push", size, entries=entries, seed=seed, multicast=multicast)
                            for multicast in (False, True))
        both = (f"{each.gbs:8.2f} {each.partials:8} {each.link_bytes / 1e6:7.0f}"
                for each in (home, shared))
        say(f"{entries:7} {'   '.join(both)}")
        ratios.append(shared.link_bytes / home.link_bytes if home.link_bytes else 1.0)
    return ratios[0]


def _latency(mode: str, size: int, numbers: Sequence[int], seed: int) -> float:
    """Percent by which waves shorten the mean latency of packets, with the largest buffers."""
    drops = [_waves(mode, size, numbers, seed, buffers) for buffers in BUFFERS]
    return drops[-1]


def _waves(mode: str, size: int, numbers: Sequence[int], seed: int, buffers: int) -> float:
    """Percent by which the best number of waves shortens the mean latency of packets."""
    entries = TABLES[mode]
    say(
        f"{mode} with {entries} entries, {buffers} packets of a class in a buffer; waves of "
        f"{LINKS * SWITCH.payload_bytes << WAVE_LOG2} B; "
        "cycles of packets, of these in buffers; before an endpoint sends one that is complete\n"
        f"waves    GB/s partials  cycles buffers  before  {'of each kind: cycles, buffers, before'}"
    )
    outcomes: dict[int | None, Outcome] = {}
    for waves in (None, *numbers):
        with step(f"{mode}, waves: {'none' if waves is None else waves}"):
            outcomes[waves] = outcome = run(
                mode, size, entries=entries, seed=seed, waves=waves, buffers=buffers
            )
        kinds = "; ".join(
            f"{kind.name} {each.travel:.0f}, {each.held:.0f}, {each.queued:.0f}"
            for kind, each in outcome.transits.items()
        )
        say(
            f"{'none' if waves is None else waves:>5} {outcome.gbs:7.2f} {outcome.partials:8} "
            f"{outcome.travel:7.0f} {outcome.held:7.0f} {outcome.queued:7.0f}  {kinds}"
        )
    best = max(numbers, key=lambda waves: outcomes[waves].gbs)
    drop = 100 * (1 - outcomes[best].travel / outcomes[None].travel)
    say(f"{mode}: {best} waves are best, published {PUBLISHED_WAVES[mode]}; "
        f"latency less by {drop:.1f} % with buffers of {buffers}")
    return drop

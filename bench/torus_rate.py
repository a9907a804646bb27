# SPDX-License-Identifier: Apache-2.0
"""Share of the bound that ACE in RTL reaches on tori with every link at work; bits exact.

The bound is the time of the bytes that a node must send on its links, headers included, a hop, and
the latencies of memory for one packet. Share: bound over the whole run, from the first register
write to the last completion. Middle: the least share, over all links, of the cycles in the second
and third quarter of the run in which the link carries a beat.

Rings along Hamiltonian cycles run as all engines. Phases by dimension run as one engine that
stands for all, after an unfolded run of the same system with 256 KiB that must give the same cycle.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from bench._tori import PHASES, TorusCase
from bench.options import bench_parser
from bench.result import result
from foldwire.console import print_table
from gen.table import Column, Table
from hw.ace.config import ELEMENT_BYTES, AceConfig
from hw.common.axi import aligned
from sim.hosts.command import Command
from sim.hosts.script import Interrupt, Issue
from sim.runs.scripts import draw_inputs, run_engines

__all__ = ["main"]

ENGINE = AceConfig(
    ports=4, bus_bytes=16, packet_bytes=64, sram_bytes=1 << 20, banks=32, alus=4, fsms=8,
    contexts=7, program_words=512, memory_ports=8, rx_packets=32, tx_packets=16, max_nodes=16,
    address_bits=32,
)
"""Memory moves with 8 ports what 4 links need; a chunk's blocks begin at the same bank."""
LONG_LINKS = replace(
    PHASES, alu_stages=2, bus_bytes=64, packet_bytes=256, sram_bytes=4 << 20, contexts=10,
    rx_packets=256, tx_packets=16, banks=32, interleave=4,
)
"""As many chunks at a time as 4 MB hold, with blocks of two packets: a packet lies in the four
banks of one group, so ranks are alike in every cycle."""
WITNESS_BYTES = 256 << 10
TARGETS = {"hamiltonian": 95.0, "phases": 93.0, "long_links": 85.0}
TARGET_MIDDLE = 99.0


@dataclass(frozen=True, kw_only=True)
class _Case(TorusCase):
    latency_cycles: int = 16
    style: str = "hamiltonian"
    engine: AceConfig = ENGINE
    target: str = ""

    @property
    def config(self) -> AceConfig:
        """The engine with two ports, and the FSMs of both directions, for each dimension."""
        if self.style != "hamiltonian":
            return self.engine
        ways = 2 * len(self.shape)
        return replace(
            self.engine, ports=ways, alus=ways, fsms=2 * ways, max_nodes=max(16, self.nodes),
            sram_bytes=self.engine.sram_bytes if ways == 4 else 512 << 10,
        )

    @property
    def witness(self) -> "_Case":
        """The same as all engines, with less data."""
        return replace(self, size_bytes=WITNESS_BYTES, folded=False, target="")


_on_64 = partial(_Case, shape=(4, 4, 4), style="multi_colour", folded=True)
CASES = (
    _Case(shape=(4, 4), size_bytes=4 << 20, target="hamiltonian"),
    _Case(shape=(4, 4), size_bytes=1 << 20),
    _Case(shape=(3, 5), size_bytes=1 << 20),
    _Case(shape=(4, 4, 4), size_bytes=256 << 10, latency_cycles=90),
    _on_64(size_bytes=4 << 20, latency_cycles=90, engine=PHASES, target="phases"),
    _on_64(size_bytes=1 << 20, latency_cycles=90, engine=PHASES),
    _on_64(size_bytes=16 << 20, latency_cycles=500, engine=LONG_LINKS, target="long_links"),
)


class _Found(NamedTuple):
    """A run of RTL, and the cycles of its model."""

    cycles: int
    modelled: int
    middle: float
    exact: bool
    cpu_s: float


def main(argv: Sequence[str]) -> int:
    """Run an all-reduce for each torus, and its cycle model beside it."""
    parser = bench_parser("torus_rate", __doc__, seed="the data")
    options = parser.parse_args(argv)
    names = (
        "style", "torus", "bytes", "latency", "engines", "bound", "cycles", "model", "share_pct",
        "middle_pct", "exact", "cpu_s",
    )
    table = Table(
        title="All-reduces on tori", columns=[Column(each) for each in names],
    )
    exact, shares, middles, apart = True, dict[str, float](), [], []
    for case in CASES:
        found = _run(case, options.seed)
        if case.folded:
            witness = _run(case.witness, options.seed)
            one = _run(replace(case.witness, folded=True), options.seed)
            exact &= witness.exact and one.exact and one.cycles == witness.cycles
            table.add(*_row(case.witness, witness))
        table.add(*_row(case, found))
        exact &= found.exact
        apart.append(100 * abs(found.modelled / found.cycles - 1))
        if case.target:
            shares[case.target] = 100 * case.bound / found.cycles
            middles.append(found.middle)
    print_table(table)
    met = (
        exact and min(middles) >= TARGET_MIDDLE
        and all(shares[name] >= target for name, target in TARGETS.items())
    )
    result(
        "torus_rate", **{f"{name}_pct": share for name, share in shares.items()},
        middle_pct=min(middles), exact=exact, model_worst_pct=max(apart),
        **{f"target_{name}_pct": target for name, target in TARGETS.items()},
        verdict="ok" if met else "short",
    )
    return 0


def _row(case: _Case, found: _Found) -> tuple[str | float, ...]:
    return (
        case.style, "x".join(map(str, case.shape)), case.size_bytes, case.latency_cycles,
        1 if case.folded else case.nodes, case.bound, found.cycles, found.modelled,
        100 * case.bound / found.cycles, found.middle, "yes" if found.exact else "NO", found.cpu_s,
    )


def _run(case: _Case, seed: int) -> _Found:
    config, around = case.config, case.around
    elements = case.size_bytes // ELEMENT_BYTES
    commands = [Command(elements=elements, destination=aligned(case.size_bytes))]
    run = partial(
        run_engines, "ace", config, around, commands,
        [[Issue(command=0), Interrupt()]] * around.engines,
    )
    began = time.process_time()
    rtl = run(draw_inputs(commands, around.engines, seed=seed), trace=True)
    cpu_s = time.process_time() - began
    model = run(levels="cycles", start_cycle=rtl.begin)
    quarter = rtl.cycles // 4
    middle = 100.0
    for link in rtl.links.values():
        beats = link.beat_cycles - rtl.begin
        inside = ((beats >= quarter) & (beats < 3 * quarter)).sum()
        middle = min(middle, 100 * inside / (2 * quarter))
    return _Found(
        cycles=rtl.cycles, modelled=model.cycles, middle=middle,
        exact=rtl.checked == around.engines and not rtl.wrong, cpu_s=cpu_s,
    )

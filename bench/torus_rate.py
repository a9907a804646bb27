"""Share of the bound that ACE in RTL reaches on tori with every link at work; bits exact.

The bound is the time of the bytes that a node must send on its links, headers included, a hop, and
the latencies of memory for one packet. Share: bound over the whole run, from the first register
write to the last completion. Middle: the least share, over all links, of the cycles in the second
and third quarter of the run in which the link carries a beat.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.options import bench_parser
from bench.result import result
from foldwire.console import print_table
from gen.table import Column, Table
from hw.ace.config import ELEMENT_BYTES, AceConfig
from hw.link.packet import FLIT_BYTES
from sim.cycles.ace.model import EngineModel
from sim.hosts.command import Command
from sim.hosts.script import Interrupt, Issue
from sim.hosts.surroundings import Surroundings
from sim.hosts.wiring import EngineWiring
from sim.network.network import Network
from sim.rtl.ace.ring import AceRing

__all__ = ["main"]

CLOCK_HZ = 1e9
TARGET, TARGET_MIDDLE = 95.0, 99.0
ENGINE = AceConfig(
    ports=4, bus_bytes=16, packet_bytes=64, sram_bytes=2 << 20, banks=32, alus=4, fsms=8,
    contexts=7, program_words=512, memory_ports=8, rx_packets=32, tx_packets=16, max_nodes=16,
    address_bits=32,
)
"""Memory moves with 8 ports what 4 links need; a chunk's blocks begin at the same bank."""


@dataclass(frozen=True, kw_only=True)
class _Case:
    shape: tuple[int, ...]
    size_bytes: int
    latency_cycles: int = 16
    judged: bool = False

    @property
    def config(self) -> AceConfig:
        """The engine with two ports, and the FSMs of both directions, for each dimension."""
        ways, nodes = 2 * len(self.shape), int(np.prod(self.shape))
        return replace(
            ENGINE, ports=ways, alus=ways, fsms=2 * ways, max_nodes=max(16, nodes),
            sram_bytes=ENGINE.sram_bytes if ways == 4 else 1 << 20,
        )


CASES = (
    _Case(shape=(4, 4), size_bytes=4 << 20, judged=True),
    _Case(shape=(4, 4), size_bytes=1 << 20),
    _Case(shape=(3, 5), size_bytes=1 << 20),
    _Case(shape=(4, 4, 4), size_bytes=256 << 10, latency_cycles=90),
)


def main(argv: Sequence[str]) -> int:
    """Run an all-reduce for each torus, and its cycle model beside it."""
    parser = bench_parser("torus_rate", __doc__, seed="the data")
    options = parser.parse_args(argv)
    names = (
        "torus", "bytes", "latency", "bound", "cycles", "model", "share_pct", "middle_pct", "exact",
        "cpu_s",
    )
    table = Table(
        title="Rings along Hamiltonian cycles",
        columns=[Column(each) for each in names],
    )
    worst_exact, shares, middles, apart = True, [], [], []
    for case in CASES:
        row, share, middle, exact, error = _run(case, options.seed)
        table.add(*row)
        worst_exact &= exact
        apart.append(error)
        if case.judged:
            shares.append(share)
            middles.append(middle)
    print_table(table)
    met = worst_exact and min(shares) >= TARGET and min(middles) >= TARGET_MIDDLE
    result(
        "torus_rate", hamiltonian_pct=min(shares), middle_pct=min(middles), exact=worst_exact,
        model_worst_pct=max(apart), target_pct=TARGET, verdict="ok" if met else "short",
    )
    return 0


def _run(case: _Case, seed: int) -> tuple[tuple[str | float, ...], float, float, bool, float]:
    """A row of the table, share and middle in percent, True for equal bits, and the distance of
    the cycle model in percent."""
    config, nodes = case.config, int(np.prod(case.shape))
    network = Network.torus(
        case.shape, bandwidth_bytes_per_s=config.bus_bytes * CLOCK_HZ,
        latency_s=case.latency_cycles / CLOCK_HZ,
    )
    wiring = EngineWiring.hamiltonian(network, clock_hz=CLOCK_HZ, bus_bytes=config.bus_bytes)
    around = Surroundings(nodes=nodes, wiring=wiring, memory_bytes=2 * case.size_bytes)
    elements = case.size_bytes // ELEMENT_BYTES
    vectors = list(
        np.random.default_rng(seed).standard_normal((nodes, elements)).astype(np.float32)
    )
    began = time.process_time()
    ring = AceRing(config, around, lanes=8, record_beats=True)
    begin = ring.system.cycle
    results = ring.all_reduce(vectors)
    cpu_s = time.process_time() - began
    golden = ring.golden(vectors).tobytes()
    exact = all(each.tobytes() == golden for each in results)
    assert ring.last_run is not None
    cycles = ring.last_run.cycles
    model = EngineModel(
        config, around, [Command(elements=elements)], [[Issue(command=0), Interrupt()]] * nodes
    )
    model.run()
    modelled = int(model.completions().max())
    wire = (
        2 * (nodes - 1) / nodes * case.size_bytes / (config.ports * config.bus_bytes)
        * (config.packet_bytes + FLIT_BYTES) / config.packet_bytes
    )
    bound = (
        wire + case.latency_cycles + around.read_latency_cycles + around.write_latency_cycles
    )
    quarter = cycles // 4
    middle = 100.0
    for number in range(nodes):
        for port in range(config.ports):
            beats = ring.system.link_activity(number, port).beat_cycles - begin
            inside = ((beats >= quarter) & (beats < 3 * quarter)).sum()
            middle = min(middle, 100 * inside / (2 * quarter))
    share = 100 * bound / cycles
    row = (
        "x".join(map(str, case.shape)), case.size_bytes, case.latency_cycles, bound, cycles,
        modelled, share, middle, "yes" if exact else "NO", cpu_s,
    )
    return row, share, middle, exact, 100 * abs(modelled / cycles - 1)

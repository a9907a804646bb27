# SPDX-License-Identifier: Apache-2.0
"""One ACE for a ring or torus of them, against all: cycles, beats and counters, RTL and model.

Vectors of unfolded systems are images of that of rank 0, so that results are compared, too. All
ranks of an unfolded system must be alike, and rank 0 like the one engine. Then what makes ranks
differ must be refused in one line, and the largest ring of RTL that programs can name and two large
tori are run and compared with numpy.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np

from bench._cases import outcomes
from bench._kept import Kept
from bench.options import add_campaign, bench_parser
from bench.result import result
from bench.sources import digest
from hw.ace.config import ELEMENT_BYTES, AceConfig, preset
from sim.collectives.ace_program import AceProgram
from sim.collectives.fold import check_alike
from sim.cycles.ace.model import EngineModel, program_of
from sim.engines.engine import EngineRecord
from sim.engines.registry import records
from sim.fields import FieldError, FoldError
from sim.hosts.activity import LinkActivity
from sim.hosts.command import Command
from sim.hosts.script import Interrupt, Issue, Step
from sim.hosts.surroundings import Surroundings
from sim.hosts.wiring import EngineWiring
from sim.network.network import Network
from sim.rtl.ace.ring import AceRing
from sim.rtl.driver import Request
from sim.rtl.harness.specs import HeaderFault
from sim.run import run
from sim.workload.graph import CollectiveKind

__all__ = ["main"]

ROOT = Path(__file__).parents[1]
SHAPES = ((4,), (8,), (12,), (27,), (64,)), ((2, 2), (2, 2, 2), (3, 4), (3, 3, 3), (4, 4, 4))
"""Rings, and tori."""
PRESETS = "test", "duo"
"""Of a ring: one way round, and both. Of a torus: one order of dimensions, and all."""
BY_PHASE = "duo, by phase"
"""With a partition for each phase of the published style."""
BY_PHASE_LATENCIES = (90,)
STYLES = {"test": "baseline", "duo": "multi_colour", BY_PHASE: "enhanced"}
CROSSED = "halves"
"""In place of `baseline` where parts of two dimensions do not lie within one another."""
LATENCIES = 16, 90, 500
SIZES = 1 << 11, 1 << 14, 1 << 16, 1 << 18
KINDS = CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER
RTL_SIZES = {(4,): 4, (8,): 4, (12,): 3, (27,): 2, (64,): 1, (2, 2): 3, (3, 4): 2}
"""Shapes -> so many of the sizes."""
OF_PORTS = (
    "damaged", "unexpected", "repeated", "missing", "parked", "starved", "sent", "received",
)
LARGEST = AceConfig(
    ports=2, alus=2, fsms=2, contexts=4, sram_bytes=2 << 20, rx_packets=64, max_nodes=1024,
    program_words=8192,
)
"""A block is a packet that lies in all banks, and a slot has one of each of the 1024 nodes."""
BEYOND = 4096, 97336
LARGEST_BYTES, LARGEST_LATENCY = 4 << 20, 90
CUBE = AceConfig(
    ports=6, bus_bytes=16, packet_bytes=64, sram_bytes=12 << 20, banks=8, alus=6, fsms=6,
    contexts=2, memory_ports=6, rx_packets=128, tx_packets=16, max_nodes=4096, address_bits=32,
)
"""A slot holds a block of four packets for each node of 16 x 16 x 16."""
LARGE_CUBE = AceConfig(
    ports=6, bus_bytes=16, packet_bytes=256, sram_bytes=10 << 20, banks=1, alus=6, fsms=6,
    contexts=1, memory_ports=6, rx_packets=32, tx_packets=16, max_nodes=46**3, address_bits=32,
)
"""A slot holds a beat for each node of 46 x 46 x 46."""
TARGET_CPU_S = {"1024": 10.0, "16": 10.0, "46": 60.0}


@dataclass(frozen=True, kw_only=True)
class _Case:
    level: str
    preset: str
    shape: tuple[int, ...]
    latency_cycles: int
    size_bytes: int
    kind: CollectiveKind

    @property
    def nodes(self) -> int:
        return int(np.prod(self.shape))

    @property
    def config(self) -> AceConfig:
        dims = len(self.shape)
        name, *by_phase = self.preset.split(", ")
        made = replace(preset(name), max_nodes=64, program_words=1024)
        phases = dims + (dims > 1)
        if by_phase:
            fsms = 2 * phases if dims == 1 else 4 * phases
            made = replace(
                made, partitions="phase", phases=phases, fsms=fsms, memory_ports=2, banks=2,
                sram_bytes=(phases + 1) << 17,
            )
        if dims == 1:
            return made
        if by_phase:
            return replace(made, ports=2 * dims, alus=2 * dims)
        fsms = 12 if dims > 2 and self.preset == "duo" else 2 * dims
        return replace(
            made, ports=2 * dims, alus=2 * dims, fsms=fsms, memory_ports=2, banks=2,
            sram_bytes=128 << 10,
        )

    @property
    def style(self) -> str:
        alike = len(set(self.shape)) == 1 or self.preset != "test"
        return STYLES[self.preset] if alike else CROSSED

    @property
    def around(self) -> Surroundings:
        wiring = None
        if len(self.shape) > 1:
            network = Network.torus(
                self.shape, bandwidth_bytes_per_s=self.config.bus_bytes * 1e9,
                latency_s=self.latency_cycles / 1e9,
            )
            wiring = EngineWiring.by_dimension(
                network, style=self.style, fsms=self.config.first_fsms, clock_hz=1e9,
                bus_bytes=self.config.bus_bytes,
            )
        return Surroundings(
            nodes=self.nodes, latency_cycles=self.latency_cycles, wiring=wiring
        )

    @property
    def elements(self) -> int:
        """The shortest vector of at least that many bytes in which ranks are alike."""
        program, c = program_of(self.config, self.around), self.config
        step = self.nodes * c.lanes * c.banks
        count = -(-self.size_bytes // ELEMENT_BYTES // step)
        while not _alike(program, count * step, self.kind):
            count += 1
        return count * step

    def __str__(self) -> str:
        return (
            f"{self.level:6} {self.preset:13} {'x'.join(map(str, self.shape)):5} nodes, "
            f"{self.latency_cycles:3} cycles, "
            f"{self.elements * ELEMENT_BYTES:6} B, {self.kind.value}"
        )


def main(argv: Sequence[str]) -> int:
    """Run all cases, the refusals and the largest ring."""
    parser = bench_parser("folded", __doc__, seed="the data")
    add_campaign(parser)
    options = parser.parse_args(argv)
    kept = Kept("folded", f"{digest(ROOT)} {options.seed}", fresh=options.fresh)
    differing = cases = rtl = 0
    whole_s = folded_s = 0.0
    for (case, _), found in outcomes(
        kept, [(case, options.seed) for case in _cases()], _compare, options.processes
    ):
        cases, rtl = cases + 1, rtl + (case.level == "rtl")
        differing += bool(found["differs"])
        whole_s, folded_s = whole_s + found["whole_s"], folded_s + found["folded_s"]
        verdict = f"DIFFER in {', '.join(found['differs'])}" if found["differs"] else "equal"
        print(f"{case}: {found['cycles']:7} cycles, {verdict}", flush=True)
    print(f"all engines {whole_s:.0f} CPU seconds, one {folded_s:.0f}\n")
    breakers = _breakers()
    refused = sum(_refused(name, call) for name, call in breakers.items())
    large = {name: _large(*system, options.seed) for name, system in _systems().items()}
    kept.forget()
    exact = all(each for _, each in large.values())
    met = (
        not differing and refused == len(breakers) and exact
        and all(cpu_s <= TARGET_CPU_S[name] for name, (cpu_s, _) in large.items())
    )
    result(
        "folded", cases=cases, rtl_cases=rtl, differing=differing, refused=refused,
        breakers=len(breakers), most_nodes=LARGE_CUBE.max_nodes,
        **{f"cpu_s_{name}": cpu_s for name, (cpu_s, _) in large.items()}, exact=exact,
        **{f"target_cpu_s_{name}": each for name, each in TARGET_CPU_S.items()},
        verdict="ok" if met else "short",
    )
    return 0


# ---- Equal.


def _cases() -> Iterator[_Case]:
    every = product(("cycles", "rtl"), chain(*SHAPES), LATENCIES, PRESETS, KINDS)
    phased = product(
        ("cycles", "rtl"), chain(*SHAPES), BY_PHASE_LATENCIES, (BY_PHASE,), KINDS
    )
    for level, shape, latency, name, kind in chain(every, phased):
        for size in SIZES[: RTL_SIZES.get(shape, 0) if level == "rtl" else None]:
            yield _Case(
                level=level, preset=name, shape=shape, latency_cycles=latency, size_bytes=size,
                kind=kind,
            )


def _alike(program: AceProgram, elements: int, kind: CollectiveKind) -> bool:
    try:
        check_alike(program, elements, block=None, collective=kind)
    except FoldError:
        return False
    return True


def _compare(case_and_seed: tuple[_Case, int]) -> dict[str, Any]:
    """Names of all that differs, cycles of the run, and CPU seconds of both runs."""
    case, seed = case_and_seed
    known = _of_rtl if case.level == "rtl" else _of_model
    runs = []
    for folded in (False, True):
        began = time.process_time()
        seen = known(case, replace(case.around, folded=folded), seed)
        runs.append((seen, time.process_time() - began))
    ((cycles, whole), whole_s), ((_, (one,)), folded_s) = runs
    differs = [
        name for name, value in one.items() if any(each[name] != value for each in whole)
    ]
    return {
        "differs": differs, "cycles": cycles, "whole_s": whole_s, "folded_s": folded_s,
    }


def _of_rtl(
    case: _Case, around: Surroundings, seed: int
) -> tuple[int, list[dict[str, Any]]]:
    """Cycles, and for each engine all that is known of it."""
    elements, gathers = case.elements, case.kind is CollectiveKind.ALL_GATHER
    own = np.random.default_rng(seed).standard_normal(elements).astype(np.float32)
    stride = elements // case.nodes
    ring = AceRing(case.config, around)
    vectors = ring.program.images(own, collective=case.kind)[: around.engines]
    if gathers:
        vectors = [own[:stride]] * around.engines
    request = Request(inputs=vectors, collective=case.kind, elements=elements)
    (results,) = ring.run(request)
    done = ring.last_run
    assert done is not None
    (expected,) = ring.expectations([Command(collective=case.kind, elements=elements)], [vectors])
    seen = []
    for rank, node in enumerate(ring.nodes):
        # Vectors that are moved on have sums that are, and these are the same in all shards.
        found: dict[str, Any] = {
            "begin": done.first_cycle, "end": done.end_cycle, "host": done.last_host_cycle[rank],
            "result": results[rank].tobytes(),
            "numpy": results[rank].tobytes() == expected[rank].tobytes(),
        }
        for port in range(case.config.ports):
            found |= _of_port(port, ring.link_activity(rank, port))
            found |= {f"{name} {port}": ring.read(node, name, port) for name in OF_PORTS}
        for name in ("bank_conflicts", "alu_conflicts"):
            found[name] = ring.read(node, name)
        seen.append(found)
    return done.cycles, seen


def _of_model(
    case: _Case, around: Surroundings, seed: int
) -> tuple[int, list[dict[str, Any]]]:
    """The same of the cycle model, which has no data."""
    command = Command(collective=case.kind, elements=case.elements, destination=1 << 20)
    script: list[Step] = [Issue(command=0), Interrupt()]
    model = EngineModel(case.config, around, [command], [script] * around.engines)
    model.run()
    seen = []
    for rank in range(around.engines):
        found: dict[str, Any] = {
            "end": model.completions()[rank].tolist(), "host": model.steps(rank).tolist(),
        }
        for port in range(case.config.ports):
            found |= _of_port(port, model.link_activity(rank, port))
            found[f"parked {port}"] = int(model.state.port[rank, port]["parked"])
        for name in ("bank_conflicts", "alu_conflicts"):
            found[name] = int(model.state.node[rank][name])
        seen.append(found)
    return int(model.completions().max()), seen


def _of_port(port: int, sent: LinkActivity) -> dict[str, Any]:
    names = "beats", "flits", "header_flits", "stalled_cycles", "first_cycle", "last_cycle"
    return {f"{name} {port}": getattr(sent, name) for name in names}


# ---- Refused.


def _breakers() -> dict[str, Callable[[], object]]:
    """Calls with something that makes ranks differ, by its name."""
    config, folded = preset("duo"), Surroundings(nodes=6, folded=True)
    ring = EngineWiring.ring(6, latency_cycles=1, beats_per_cycle=1.0)
    there, back = (replace(each, latency_cycles=9) for each in ring.links[0])
    torus = Network.torus((3, 3), bandwidth_bytes_per_s=16e9)

    def command(elements: int, block: int | None = None) -> Callable[[], object]:
        return lambda: AceRing.check_command(
            config, folded, Command(elements=elements, block=block)
        )

    def around(**changes: Any) -> Callable[[], object]:
        return lambda: Surroundings(**{"nodes": 6, "folded": True} | changes)

    def driver(**options: Any) -> Callable[[], object]:
        return lambda: AceRing(config, folded, **options)

    def described(**tables: Any) -> Callable[[], object]:
        made: dict[str, Any] = {
            "topology": {"kind": "ring", "shape": [6], "bandwidth_bytes_per_s": 1e9},
            "endpoint": {"kind": "ace", "preset": "duo", "level": "rtl"},
            "workload": {"collective": "all_reduce", "size_bytes": 7680},
            "run": {"fold": "on"},
        }
        return lambda: run({**made, **tables})

    def other(record: EngineRecord) -> Callable[[], object]:
        group = record.group(next(iter(record.presets.values())), 4)
        return lambda: record.kind.rules.check(group, replace(folded, nodes=4))

    def crossed() -> object:
        case = _Case(
            level="rtl", preset="duo", shape=(3, 4), latency_cycles=16, size_bytes=1 << 11,
            kind=KINDS[0],
        )
        wiring = EngineWiring.by_dimension(
            Network.torus(case.shape, bandwidth_bytes_per_s=16e9), style="baseline",
            fsms=case.config.fsms, clock_hz=1e9, bus_bytes=16,
        )
        around = Surroundings(nodes=12, wiring=wiring, folded=True)
        return AceRing.check_command(case.config, around, Command(elements=12288))

    on = [{"nodes": [2], "level": "cycles"}]
    both_ways = {"kind": "torus", "shape": [3, 3], "bandwidth_bytes_per_s": 1e9}
    wide = replace(config, ports=4, alus=4, fsms=4, max_nodes=16, program_words=256)
    keys = {name: getattr(wide, name) for name in ("ports", "alus", "fsms", "max_nodes")}
    return {
        "unequal shards": command(8001),
        "phase of the last block": command(3000),
        "phase of a block": command(3840, block=20),
        "stalls of links": around(link_stalls=0.1),
        "stalls of memory": around(memory_stalls=0.1),
        "stalls of hosts": around(host_stalls=0.1),
        "lost packets": around(link_loss=0.1),
        "repeated packets": around(link_repetition=0.1),
        "damaged packets": around(link_damage=0.1),
        "one slow link": around(wiring=replace(ring, links=((there, back), *ring.links[1:]))),
        "parts that cross": crossed,
        "Hamiltonian cycles": around(
            nodes=9, wiring=EngineWiring.hamiltonian(torus, clock_hz=1e9, bus_bytes=16)
        ),
        "a fault": driver(faults=[HeaderFault(node=0, port=0, packet=0, bits=(1,))]),
        "some ranks": driver(ranks=[0, 1]),
        "skew": lambda: AceRing(config, folded).run(
            Request(inputs=[np.zeros(768, np.float32)]), start_skew_cycles=5
        ),
        "a reset": lambda: AceRing(config, folded).nodes[0].reset_engine(),
        "levels of nodes": described(
            endpoint={"kind": "ace", "preset": "duo", "level": "rtl", "on": on}
        ),
        "a slow node": described(scenario={"node": [{"node": 1, "slowdown": 2.0}]}),
        "a ring through a torus": described(
            topology={**both_ways, "one_dimension": True},
            endpoint={"kind": "ace", "preset": "duo", "level": "rtl", **keys,
                      "program_words": 256},
        ),
        "unequal shards of a description": described(
            workload={"collective": "all_reduce", "size_bytes": 4004}
        ),
        **{f"engine {each.name}": other(each) for each in records() if each.kind.rules != AceRing},
        **{
            f"{nodes} nodes": lambda nodes=nodes: AceRing(  # type: ignore[misc]
                LARGEST, Surroundings(nodes=nodes, folded=True)
            )
            for nodes in BEYOND
        },
    }


def _refused(name: str, call: Callable[[], object]) -> bool:
    """Print the line in which *call* is refused; False if it is not, or not in one line."""
    try:
        call()
    except ValueError as error:
        text = str(error)
        expected = isinstance(error, FieldError) or "run.fold: must be" in text
        print(f"{name:31} {text}")
        return expected and "\n" not in text
    print(f"{name:31} NOT REFUSED")
    return False


# ---- Large.


def _systems() -> dict[str, tuple[AceConfig, Surroundings, int]]:
    """Large systems by name: engine, what is around it, elements."""
    ring = Surroundings(
        nodes=LARGEST.max_nodes, latency_cycles=LARGEST_LATENCY, memory_bytes=2 * LARGEST_BYTES,
        folded=True,
    )
    cube = 46**3 * LARGE_CUBE.lanes * LARGE_CUBE.fsms
    return {
        "1024": (LARGEST, ring, LARGEST_BYTES // ELEMENT_BYTES),
        "16": (CUBE, _cube(CUBE, 16, LARGEST_BYTES), LARGEST_BYTES // ELEMENT_BYTES),
        "46": (LARGE_CUBE, _cube(LARGE_CUBE, 46, cube * ELEMENT_BYTES), cube),
    }


def _cube(config: AceConfig, nodes: int, size_bytes: int) -> Surroundings:
    network = Network.torus(
        (nodes,) * 3, bandwidth_bytes_per_s=config.bus_bytes * 1e9,
        latency_s=LARGEST_LATENCY / 1e9,
    )
    wiring = EngineWiring.by_dimension(
        network, style="multi_colour", fsms=config.fsms, clock_hz=1e9, bus_bytes=config.bus_bytes,
        alike=True,
    )
    return Surroundings(
        nodes=nodes**3, wiring=wiring, memory_bytes=2 * size_bytes, folded=True
    )


def _large(
    config: AceConfig, around: Surroundings, elements: int, seed: int
) -> tuple[float, bool]:
    """CPU seconds of an all-reduce, set-up included but no build, and True for numpy's bits."""
    AceRing.compiled(config)
    vectors = [np.random.default_rng(seed).standard_normal(elements).astype(np.float32)]
    began = time.process_time()
    ring = AceRing(config, around)
    (found,) = ring.all_reduce(vectors)
    cpu_s = time.process_time() - began
    exact = found.tobytes() == ring.golden(vectors).tobytes()
    assert ring.last_run is not None
    print(
        f"\n{around.nodes} nodes, {elements * ELEMENT_BYTES} B a node, {LARGEST_LATENCY} cycles a "
        f"link: {ring.last_run.cycles} cycles, {cpu_s:.1f} CPU seconds, bits "
        f"{'equal' if exact else 'UNLIKE'} numpy's"
    )
    return cpu_s, exact

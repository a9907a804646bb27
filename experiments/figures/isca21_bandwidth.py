# SPDX-License-Identifier: Apache-2.0
"""ACE at ISCA 2021, Figs. 5 and 6: network bandwidth over what communication is given."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from experiments.figure import Assumption, Context, Curves, Figure, Row, Series, derived
from experiments.figures.isca21_analysis import SYSTEM
from experiments.systems import EFFICIENCY, ISCA21_DISPATCHER, Rates, isca21_torus, measure
from experiments.targets import AtLeast, Exactly, Gain, Near
from sim.analytic.traffic import endpoint_ceiling
from sim.endpoint.ace import AceEndpoint
from sim.endpoint.endpoint import Endpoint
from sim.endpoint.kinds import BaselineEndpoint, IdealEndpoint
from sim.network.network import Network
from sim.units import GB

__all__ = ["fig5", "fig6", "traffic_simulated"]

SIZE = 64 << 20
SHAPES = {16: (4, 2, 2), 64: (4, 4, 4)}
MEMORY = (32, 64, 96, 128, 160, 192, 256, 320, 384, 450, 512, 576, 640, 704, 768, 832, 900)
CORES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
SHARE = 0.9
ALL_CORES, ALL_MEMORY = 80, 900 * GB


SWEPT = Assumption("one all-reduce of 64 MB on 4x2x2 and 4x4x4", "chosen", "the axes are lost")


def _measure(network: Network, endpoint: Endpoint) -> Rates:
    return measure(network, endpoint, SIZE, scheduler=ISCA21_DISPATCHER)


@cache
def _rate(nodes: int, kind: str, memory: float, cores: int) -> float:
    """Wire bytes per second that a node sends in one all-reduce."""
    endpoints: dict[str, Endpoint] = {
        "ideal": IdealEndpoint(),
        "baseline": BaselineEndpoint(cores=cores, memory_bytes_per_s=memory),
        "ACE": AceEndpoint(memory_bytes_per_s=memory),
    }
    return _measure(isca21_torus(SHAPES[nodes]), endpoints[kind]).wire_bytes_per_s


def _ideal(nodes: int) -> float:
    return _rate(nodes, "ideal", ALL_MEMORY, ALL_CORES)


def _least(nodes: int, kind: str) -> float:
    """Least memory bandwidth with 90 % of ideal, in GB/s, in steps of 4."""
    wanted = SHARE * _ideal(nodes)
    for memory in range(8, 901, 4):
        if _rate(nodes, kind, memory * GB, ALL_CORES) >= wanted:
            return memory
    return float("inf")


def _busiest(nodes: int) -> str:
    """Sentence on the part of ACE that limits it when memory does not."""
    run = _measure(isca21_torus(SHAPES[nodes]), AceEndpoint(memory_bytes_per_s=ALL_MEMORY))
    servers = {"ALUs": AceEndpoint().alus}
    busy = {u: run.busy_s(u) / servers.get(u, 1) / run.seconds for u in run.record.unit_names}
    unit = max(busy, key=lambda name: busy[name])
    return f"Busiest part of the engine: {unit}, {100 * busy[unit]:.0f} % of the time."


def fig5(context: Context) -> Figure:
    """Over the memory bandwidth given to communication, with as many cores as wanted."""
    series, ideals = {}, [f"ideal, {nodes} NPUs" for nodes in SHAPES]
    for nodes in SHAPES:
        for kind in ("baseline", "ACE"):
            series[f"{kind}, {nodes} NPUs"] = [
                (m, _rate(nodes, kind, m * GB, ALL_CORES) / GB) for m in MEMORY
            ]
        series[f"ideal, {nodes} NPUs"] = [(m, _ideal(nodes) / GB) for m in MEMORY]
    need = {kind: _least(64, kind) for kind in ("baseline", "ACE")}
    host = _measure(
        isca21_torus(SHAPES[64]), BaselineEndpoint(cores=80, memory_bytes_per_s=450 * GB)
    )
    host_reads = host.busy_s("memory read") * 450 * GB / host.sent_bytes
    host_busy = 100 * host.busy_s("memory read") / host.seconds
    ceiling = endpoint_ceiling(SHAPES[64], (400 * GB, 50 * GB, 50 * GB))
    # Memory carries payload, links headers too.
    payload = SHARE * _ideal(64) * EFFICIENCY / GB
    floor = {"baseline": payload * host_reads, "ACE": payload / 2.25}
    rows = [
        Row(
            setting="ideal, 4x4x4, 64 MB: injection of 500 GB/s",
            ours=_ideal(64) / GB,
            unit="GB/s",
            target=Near(300, relative=0.05),
            origin="derived",
            check="Q1",
            why=f"The closed form gives {ceiling.injection_bytes_per_s / GB:.0f}; the rest is the "
            "filling and draining of the pipeline of phases.",
        ),
        _need_row(
            "baseline", need, 450,
            f"Our four phases read {host_reads:.2f} bytes per byte sent: 90 % of ideal, "
            f"{payload:.0f} GB/s of payload, ask for {floor['baseline']:.0f} GB/s at least. With "
            f"450 GB/s the memory is {host_busy:.0f} % busy.",
        ),
        _need_row(
            "ACE", need, 128,
            f"1/2.25 reads per byte of payload sent ask for {floor['ACE']:.0f} GB/s at least.",
        ),
        Row(
            setting="baseline over ACE, 4x4x4",
            ours=need["baseline"] / need["ACE"],
            target=Gain(3.5),
            identity=True,
            origin="abstract",
            check="Q2",
            why=f"Of the two values above. The floors alone give "
            f"{floor['baseline'] / floor['ACE']:.3f}.",
        ),
        Row(
            setting="ACE with all memory bandwidth, share of ideal, 4x2x2",
            ours=100 * _rate(16, "ACE", ALL_MEMORY, ALL_CORES) / _ideal(16),
            unit="%",
            why=_busiest(16),
        ),
        _share_row("ACE", 128),
        _heuristic_row(),
        _share_row(
            "baseline", 450,
            f"A memory that is always busy would feed {450 / host_reads / EFFICIENCY:.0f} GB/s "
            f"on the wire; it is busy {host_busy:.0f} % of the time.",
        ),
    ]
    return Figure(
        title="Fig. 5: network bandwidth over memory bandwidth (simulated)",
        rows=rows,
        curves=[
            _curves("Fig. 5", "memory bandwidth for communication (GB/s)", series, dashed=ideals)
        ],
        assumptions=(*SYSTEM, SWEPT),
    )


def _curves(figure: str, x: str, series: Mapping[str, Series], **fields: Any) -> Curves:
    """Bandwidth over what communication may use."""
    return Curves(
        title=f"ISCA'21 {figure}: 64 MB all-reduce",
        x=x,
        y="network bandwidth per NPU (GB/s)",
        series=series,
        **fields,
    )


def _need_row(kind: str, need: Mapping[str, float], published: float, why: str) -> Row:
    return Row(
        setting=f"{kind}: memory bandwidth for 90 % of ideal, 4x4x4",
        ours=need[kind],
        unit="GB/s",
        target=Near(published, relative=0.15),
        fitted=True,
        origin="remembered",
        check="Q2",
        why=why,
    )


def _share_row(kind: str, memory: float, why: str = "") -> Row:
    return Row(
        setting=f"{kind} with {memory} GB/s, share of ideal, 4x4x4",
        ours=100 * _rate(64, kind, memory * GB, ALL_CORES) / _ideal(64),
        unit="%",
        target=AtLeast(90),
        identity=True,
        origin="remembered",
        why=why,
    )


def _heuristic_row() -> Row:
    """The partitions of the text, from which the other rows depart."""
    found = _measure(isca21_torus(SHAPES[64]), AceEndpoint(partition="heuristic"))
    return Row(
        setting="the same, partitions by bandwidth times chunk size, as the text has them",
        ours=100 * found.wire_bytes_per_s / _ideal(64),
        unit="%",
        why="The vertical phase then has room for few chunks, while links of 500 cycles need many "
        "on the way.",
    )


def fig6(context: Context) -> Figure:
    """Over the cores given to communication, with all of the memory bandwidth."""
    series = {
        f"baseline, {nodes} NPUs": [
            (c, _rate(nodes, "baseline", ALL_MEMORY, c) / GB) for c in CORES
        ]
        for nodes in SHAPES
    }
    least = {
        nodes: next(
            c
            for c in range(1, ALL_CORES)
            if _rate(nodes, "baseline", ALL_MEMORY, c) >= SHARE * _ideal(nodes)
        )
        for nodes in SHAPES
    }
    per_core = 64 * 1.245
    payload = SHARE * _ideal(64) * EFFICIENCY / GB
    rows = [
        Row(
            setting="cores for 90 % of ideal, 4x4x4",
            ours=least[64],
            target=Near(6, absolute=1),
            fitted=True,
            origin="remembered",
            check="Q3",
            why=f"A core reads {per_core:.1f} GB/s; 1.5 reads per byte sent of {payload:.0f} GB/s "
            f"of payload ask for {payload * 1.5 / per_core:.1f} cores.",
        ),
        Row(setting="cores for 90 % of ideal, 4x2x2", ours=least[16]),
    ]
    return Figure(
        title="Fig. 6: network bandwidth over cores (simulated)",
        rows=rows,
        curves=[
            _curves(
                "Fig. 6", "cores for communication", series,
                levels={f"ideal, {n} NPUs": _ideal(n) / GB for n in SHAPES},
            )
        ],
        assumptions=(*SYSTEM, SWEPT),
    )


def traffic_simulated(context: Context) -> Figure:
    """Section VI-A from the counters of the simulator."""
    rate = 100 * GB
    host = BaselineEndpoint(cores=ALL_CORES, memory_bytes_per_s=rate)
    ring = Network.ring(16, 25 * GB)
    one_ring = _measure(ring, host)
    four_phases = _measure(isca21_torus(SHAPES[64]), host)
    reads = [r.busy_s("memory read") * rate / r.sent_bytes for r in (one_ring, four_phases)]
    engine = _measure(isca21_torus(SHAPES[64]), AceEndpoint(memory_bytes_per_s=rate))
    loads = engine.busy_s("TX DMA") * rate
    rows = [
        derived(
            "host, ring of 16: memory reads per byte sent",
            reads[0], Near(1.5, relative=0.02), check="H4",
        ),
        Row(
            setting="host, four phases of 4x4x4: memory reads per byte sent",
            ours=reads[1],
            why="Of a phase's first messages every byte is read once, of a summed one twice, of a "
            "forwarded one once; phases of 4 have more first messages than the ring of 16.",
        ),
        derived(
            "ACE, 4x4x4: bytes sent per byte read",
            round(engine.sent_bytes / loads, 9), Exactly(2.25), check="H3",
        ),
    ]
    return Figure(
        title="Section VI-A: memory traffic (simulated)", rows=rows, assumptions=(*SYSTEM, SWEPT)
    )

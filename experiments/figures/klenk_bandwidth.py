# SPDX-License-Identifier: Apache-2.0
"""Klenk et al., Figs. 7 to 10: all-reduces pushed into switches, pulled through them, on rings."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from experiments.figure import (
    Assumption,
    Context,
    Curves,
    Figure,
    Lost,
    Row,
    Series,
    derived,
    statement,
)
from experiments.targets import Exactly, Gain, Near
from gen.table import Column, Table
from hw.switch.sizes import SwitchSizes
from sim.describe.topologies import NVLINK, named_dimensions
from sim.network.dimension import Dimension
from sim.run import run
from sim.units import GB

__all__ = [
    "CHUNKS", "PROTOCOLS", "SOFTWARE", "SWITCHES", "SYSTEMS", "Protocol", "best_ring", "checks",
    "fig7", "fig10", "reduced_s", "ring_s",
]

SIZES = tuple(1 << n for n in range(10, 27, 2))
LARGE, SMALL_LIMIT = SIZES[-1], 64 << 10
SYSTEMS: dict[int, dict[str, Any]] = {
    16: {"kind": "dgx2"},
    64: {"kind": "fat_tree", "shape": [64]},
    128: {"kind": "fat_tree", "shape": [128]},
}
CHUNKS = tuple(1 << n for n in range(12, 21, 2))
PLACES = 8  # chunks of a ring in flight at a time
TABLE_BYTES, PORTS = 256, 16
WAVES = (1, 2, 4, 8, 16, 32, 64, 128)
MEMORY_S = 240e-9

SWITCHES = (
    Assumption("links of 25 GB/s each way, six a GPU; 150 ns in a switch, none beside", "stated"),
    Assumption("packets of 144 B with 128 B of payload, acknowledgements of 16 B", "stated"),
    Assumption("waves of 8 KB, 16 of a push under way and 4 of a pull", "stated", "Fig. 10"),
    Assumption("240 ns for a read of a GPU's memory", "stated", "from the size of pull tables"),
    Assumption("reduction tables are large enough: nothing is evicted", "chosen"),
)
SOFTWARE = (
    Assumption(
        "a ring's message is data, a fence, a flag: the fence waits for the acknowledgement, the "
        "flag follows, and 240 ns are for memory",
        "chosen",
        "data-fence-flag semantics are stated, their cost is not",
    ),
    Assumption("the best of the ring's chunk sizes at every size", "chosen"),
    Assumption("six rings, one in each plane of switches", "chosen"),
)
AXES = Assumption("1 KB to 64 MB in steps of 4x", "chosen", "the axes are lost")


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Signalling of data between neighbours in a ring: share of payload, and extra latency of a
    step, as hops through a switch (`ways`) plus seconds (`memory_s`)."""

    share: float
    ways: int
    memory_s: float = MEMORY_S


FENCED, BESIDE = "data, fence, flag", "flag beside data"
PROTOCOLS = {
    FENCED: Protocol(share=SwitchSizes().payload_share, ways=2),
    BESIDE: Protocol(share=SwitchSizes().payload_share / 2, ways=0),
}


@cache
def reduced_s(mode: str, size_bytes: int, gpus: int = 16, waves: int | None = None) -> float:
    """Time of an all-reduce by the switches."""
    endpoint: dict[str, Any] = {"kind": "in_switch", "mode": mode}
    if waves is not None:
        endpoint["waves"] = waves
    return _time_s(SYSTEMS[gpus], endpoint, size_bytes)


@cache
def ring_s(size_bytes: int, protocol: str, chunk_bytes: int, gpus: int = 16) -> float:
    """Time of an all-reduce by rings of GPUs, in software."""
    way = PROTOCOLS[protocol]
    hop_s = Dimension(**named_dimensions("dgx2", [16])[0]).hop_s
    chunk = min(chunk_bytes, size_bytes)
    endpoint = {
        "kind": "ideal",
        "delay_s": way.ways * hop_s + way.memory_s,
        "message_bytes": float(max(16, chunk // gpus)),
    }
    scheduler = {"chunk_bytes": chunk, "concurrency": PLACES}
    more = {"algorithm": {"reductions": ["ring"]}, "scheduler": scheduler}
    return _time_s({**SYSTEMS[gpus], "efficiency": way.share}, endpoint, size_bytes, **more)


def best_ring(size_bytes: int, protocol: str = FENCED) -> tuple[float, int]:
    """Time and chunk size of the fastest ring; by default of those with fences, the paper's
    baseline."""
    return min((ring_s(size_bytes, protocol, chunk), chunk) for chunk in CHUNKS)


def _time_s(
    topology: Mapping[str, Any], endpoint: Mapping[str, Any], size_bytes: int, **more: Any
) -> float:
    description = {
        "topology": dict(topology),
        "endpoint": dict(endpoint),
        "workload": {"collective": "all_reduce", "size_bytes": size_bytes},
        "run": {"passes": 1},
        **more,
    }
    return run(description).time_s


def _rate(size_bytes: int, time_s: float) -> float:
    return size_bytes / time_s / GB


def checks(context: Context) -> Figure:
    """H8 and H9: consequences of the sizes of packets and tables."""
    ceiling = NVLINK["bandwidth_bytes_per_s"] * NVLINK["lanes"] * SwitchSizes().payload_share
    leaves, spines = 128 // 8 * 6, 48
    rows = [
        Row(
            setting="payload of 150 GB/s of links",
            ours=ceiling / GB,
            unit="GB/s",
            target=Near(120, relative=0.01),
            identity=True,
            origin="note",
            check="H8",
        ),
        Row(
            setting="tables of 256 B a port, DGX-2",
            ours=12 * PORTS * TABLE_BYTES,
            unit="B",
            target=Exactly(48 << 10),
            identity=True,
            origin="note",
            check="H9",
        ),
        Row(
            setting="tables of 256 B a port, 128 GPUs",
            ours=(leaves + spines) * PORTS * TABLE_BYTES,
            unit="B",
            target=Exactly(589824),
            identity=True,
            origin="note",
            check="H9",
        ),
    ]
    return Figure(title="Checks of packets and tables", rows=rows, assumptions=SWITCHES[:2])


def fig7(context: Context) -> Figure:
    """16 GPUs of a DGX-2: bandwidth over size, and the gain over the best ring."""
    rings = {}
    for number, size in enumerate(SIZES):
        rings[size] = best_ring(size)
        context.progress((number + 1) / len(SIZES))
    times = {mode: {size: reduced_s(mode, size) for size in SIZES} for mode in ("push", "pull")}
    gains = {size: rings[size][0] / times["push"][size] for size in SIZES}
    small = max(gain for size, gain in gains.items() if size <= SMALL_LIMIT)
    beside = max(
        best_ring(size, BESIDE)[0] / times["push"][size] for size in SIZES if size <= SMALL_LIMIT
    )
    rates = {mode: _rate(LARGE, times[mode][LARGE]) for mode in times}
    rows = [
        Row(
            setting="push, 64 MB", ours=rates["push"], unit="GB/s", origin="note",
            target=Near(120, relative=0.1), check="Q8",
        ),
        statement(
            "pull slightly below push (90 to 100 %)",
            at_most=[(0.9 * rates["push"], rates["pull"])],
            below=[(rates["pull"], rates["push"])], origin="note",
        ),
        derived(
            "best ring, 64 MB", _rate(LARGE, rings[LARGE][0]), Near(64, relative=0.1), unit="GB/s"
        ),
        Row(
            setting="push over the best ring, 64 MB", ours=gains[LARGE],
            target=Gain(2.0), origin="abstract", check="Q8",
        ),
        Row(
            setting="push over the best ring, most of sizes up to 64 KB", ours=small,
            target=Gain(18), origin="abstract", check="Q9",
            why="The ring is the paper's, with data, fence and flag; the cost of a fence is not "
            f"stated. Ours waits for two ways through a switch in each of {2 * (16 - 1)} steps.",
        ),
        Row(
            setting="the same, rings whose flag travels beside the data (not the paper's)",
            ours=beside,
            why="As NCCL's LL protocol: stores of 16 B, no fence, half the bandwidth.",
        ),
    ]
    table = Table(
        "All-reduce on a DGX-2, GB/s (simulated)",
        [
            Column("size_bytes", "size", "B"), Column("push_gb_per_s", "push", digits=3),
            Column("pull_gb_per_s", "pull", digits=3),
            Column("ring_gb_per_s", "best ring", digits=3),
            Column("chunk_bytes", "chunk", "B"), Column("gain", "push / ring", "", digits=3),
        ],
    )
    for size in SIZES:
        ring, chunk = rings[size]
        table.add(
            size, _rate(size, times["push"][size]), _rate(size, times["pull"][size]),
            _rate(size, ring), min(chunk, size), gains[size],
        )
    series = {
        **{m: [(s / 2**20, _rate(s, times[m][s])) for s in SIZES] for m in ("push", "pull")},
        "best ring": [(size / 2**20, _rate(size, rings[size][0])) for size in SIZES],
    }
    return Figure(
        title="Fig. 7: all-reduce on 16 GPUs (simulated)",
        rows=rows,
        tables=[table],
        curves=[
            rate_curves(
                "Fig. 7: all-reduce on 16 GPUs", "size (MB)", series,
                levels={"payload of the links": 120},
            )
        ],
        assumptions=(*SWITCHES, *SOFTWARE, AXES),
        lost=[Lost(what="Fig. 7: points of the curves", reason="plotted values are lost")],
    )


def rate_curves(
    title: str, x: str, series: Mapping[str, Series], **fields: Any
) -> Curves:
    """Bandwidth of an all-reduce over a number that grows by factors."""
    return Curves(
        title=f"Klenk {title}",
        x=x,
        y="all-reduce bandwidth (GB/s)",
        series=series,
        log_x=True,
        **fields,
    )


def fig10(context: Context) -> Figure:
    """Bandwidth over the number of waves: the published best numbers against a sweep."""
    size = 8 << 20
    cases = (("push", 16, 16), ("pull", 16, 4), ("push", 64, 64))
    rows, series = [], {}
    for number, (mode, gpus, published) in enumerate(cases):
        times = {waves: reduced_s(mode, size, gpus, waves) for waves in WAVES}
        best = min(times.values())
        rows += [
            statement(
                f"{mode} on {gpus} GPUs: bandwidth peaks with {published} waves",
                below=[(times[published], times[waves]) for waves in WAVES if waves != published],
                origin="note",
                why=_beside_the_peak(times, published),
            ),
            Row(
                setting=f"the same: bandwidth with {published} waves, of the best",
                ours=100 * best / times[published],
                unit="%",
            ),
        ]
        series[f"{mode}, {gpus} GPUs"] = [(waves, _rate(size, times[waves])) for waves in WAVES]
        context.progress((number + 1) / len(cases))
    return Figure(
        title="Fig. 10: outstanding waves (simulated)",
        rows=rows,
        curves=[rate_curves("Fig. 10: 8 MB in waves of 8 KB", "outstanding waves", series)],
        assumptions=SWITCHES,
    )


def _beside_the_peak(times: Mapping[int, float], published: int) -> str:
    """Sentence on the speed of half and of twice the published number of waves."""
    near = [waves for waves in (published // 2, published * 2) if waves in times]
    found = " and ".join(
        f"{100 * times[published] / times[waves]:.1f} % with {waves} waves" for waves in near
    )
    equal = [waves for waves in near if times[waves] == times[published]]
    why = " More than enough cost nothing here; in the paper they congest the network."
    return f"Of its bandwidth: {found}.{why if equal else ''}"

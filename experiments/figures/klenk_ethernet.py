# SPDX-License-Identifier: Apache-2.0
"""Klenk et al., Fig. 11, beside NVLink: the gain of training with reducing Ethernet switches.

The paper's rate is lost, and so are its frames. Ours were chosen here before any comparison: a port
of a usual rate for each GPU, at one switch.
"""

from functools import cache

from experiments.figure import Assumption, Context, Figure, Lost, Row, statement
from experiments.figures.klenk_bandwidth import (
    CHUNKS,
    FENCED,
    PLACES,
    PROTOCOLS,
    SOFTWARE,
)
from experiments.figures.klenk_training import (
    MODEL,
    NVLINK,
    Links,
    gain_bars,
    gains_over_rings,
    most_of_transformer,
)
from experiments.targets import Gain
from sim.network.ethernet import PREAMBLE_AND_GAP_BYTES, ROCE_HEADERS, roce_sizes
from sim.run import run

__all__ = ["ethernet", "fig11_ethernet"]

RATES = (100, 200, 400)
"""Rates of a port in Gbit/s."""
PAYLOAD, SMALL_PAYLOAD = 4096, 1024
"""Payloads of RoCE in bytes: the largest, and the largest in frames of 1500 B."""
LATENCY_S, SWITCH_S = 500e-9, 500e-9
SWEPT_BYTES = 64 << 20


def ethernet(gbit_per_s: float, payload_bytes: int = PAYLOAD) -> Links:
    """16 GPUs with a port each at one switch; rings use the best chunk size for a large vector."""
    changed = (
        ("bandwidth_bytes_per_s", gbit_per_s / 8 * 1e9),
        ("latency_s", LATENCY_S),
        ("router_latency_s", SWITCH_S),
    )
    links = Links(kind="switch", changed=changed, packets=roce_sizes(payload_bytes))
    chunk = min(CHUNKS, key=lambda each: _ring_s(links, each))
    return Links(kind="switch", changed=changed, packets=links.packets, chunk_bytes=chunk)


@cache
def _ring_s(links: Links, chunk_bytes: int) -> float:
    """Time of an all-reduce of a large vector by a ring."""
    way = PROTOCOLS[FENCED]
    description = {
        "topology": {**links.topology, "efficiency": links.packets.payload_share},
        "endpoint": {
            "kind": "ideal",
            "delay_s": way.ways * links.hop_s + way.memory_s,
            "message_bytes": chunk_bytes / 16,
        },
        "workload": {"collective": "all_reduce", "size_bytes": SWEPT_BYTES},
        "algorithm": {"reductions": ["ring"]},
        "scheduler": {"chunk_bytes": chunk_bytes, "concurrency": PLACES},
        "run": {"passes": 1},
    }
    return run(description).time_s


HEADERS = ", ".join(f"{name} {size}" for name, size in ROCE_HEADERS.items())
ASSUMPTIONS = (
    Assumption(
        f"Ethernet of {', '.join(map(str, RATES))} Gbit/s, a port for each GPU at one switch",
        "chosen",
        "the paper's rate is lost",
    ),
    Assumption(
        f"operands and results are remote writes of {PAYLOAD} B in RoCE v2 ({HEADERS} B; frame "
        f"check 4, preamble and gap {PREAMBLE_AND_GAP_BYTES} B); beside each goes a frame of "
        "headers, of rings as of push",
        "chosen",
    ),
    Assumption(
        f"{SWITCH_S * 1e9:.0f} ns in the switch, {LATENCY_S * 1e9:.0f} ns in an adapter and its "
        "cable",
        "chosen",
    ),
)


def fig11_ethernet(context: Context) -> Figure:
    """The same steps as on NVLink, at three rates; and the least payload, at one."""
    nvlink, _ = gains_over_rings(NVLINK, "NVLink", lambda share: None)
    found, tables = {}, []
    for number, rate in enumerate(RATES):
        found[rate], table = gains_over_rings(
            ethernet(rate), f"Ethernet of {rate} Gbit/s", lambda share: None
        )
        tables.append(table)
        context.progress((number + 1) / (len(RATES) + 1))
    small, _ = gains_over_rings(
        ethernet(RATES[0], SMALL_PAYLOAD), "small frames", lambda share: None
    )
    most = {rate: most_of_transformer(gains) for rate, gains in found.items()}
    rows = [
        Row(
            setting="Transformer, most of all rates, ratios and schedules",
            ours=max(most.values()), target=Gain(1.8), identity=True, origin="abstract",
            why=f"A ring sends {2 * 15 / 16:g} times the bytes of a push; the slower the links, "
            "the nearer a step comes to that, and the rates are ours.",
        ),
        *(Row(setting=f"the same on {rate} Gbit/s alone", ours=most[rate]) for rate in RATES),
        Row(
            setting=f"the same on {RATES[0]} Gbit/s, frames of {SMALL_PAYLOAD} B",
            ours=most_of_transformer(small),
        ),
        statement(
            "Transformer gains more than on NVLink, with every rate, ratio and schedule",
            below=[
                (nvlink[key], gains[key])
                for gains in found.values()
                for key in nvlink
                if key[0] == "Transformer"
            ],
            origin="abstract",
        ),
    ]
    return Figure(
        title="Fig. 11: training with switches that reduce, Ethernet (simulated)",
        rows=rows,
        tables=tables,
        curves=[
            gain_bars(
                "the Transformer on Ethernet, push over rings",
                {f"{rate} Gbit/s": ("Transformer", gains) for rate, gains in found.items()},
            )
        ],
        assumptions=(*ASSUMPTIONS, SOFTWARE[0], *MODEL),
        lost=[Lost(what="Fig. 11: the rate of its Ethernet", reason="lost; ours are chosen")],
        note="Rates, frames and latencies are chosen, so the first row says what slow links give, "
        "not that the paper's were these.",
    )

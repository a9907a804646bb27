"""ACE, smart NIC, in-switch push and pull, baselines and ideal on one workload, at equal injection.

Training with data parallelism on 16 NPUs of 150 GB/s each way: switches for what reduces there
and for software, a ring both ways for ACE, a ring one way for the smart NIC. The page
docs/reference/engines.md holds the assumptions. Bytes on links are counted and compared with what
each algorithm must send.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.result import result
from foldwire.console import print_table, step
from gen.table import Column, Table
from sim.run import Run, run
from sim.units import GB

__all__ = ["CASES", "Case", "description", "main", "memory_share", "sent_share"]

RANKS, INJECTION, SHARE = 16, 150 * GB, 0.8
IDEAL_MARGIN, BYTES_MARGIN = 1.01, 1.005
HOP_S = 300e-9
"""Latency from NPU to NPU, through a switch or over a link of a ring."""
NIC: dict[str, Any] = {"lanes": 64, "clock_hz": 600e6, "host_bytes_per_s": INJECTION}
"""A smart NIC wide enough for a link of this rate."""
MEMORY = {"ace": ("TX DMA", "RX DMA"), "smartnic": ("host read", "host write")}
SOFTWARE_MEMORY = ("memory read", "memory write")
IDLE: dict[str, Any] = {"lost_memory_bytes_per_s": 0.0, "memory_latency_s": 0.0}


@dataclass(frozen=True)
class Case:
    """An engine; ``sent``: expected bytes sent by a rank over the bytes of the vector."""

    name: str
    topology: dict[str, Any]
    endpoint: dict[str, Any]
    algorithm: dict[str, Any]
    sent: float


def _switch(planes: int = 6) -> dict[str, Any]:
    rate = INJECTION / planes
    return {"kind": "switch", "size": RANKS, "lanes": planes, "bandwidth_bytes_per_s": rate,
            "latency_s": HOP_S / 2}


def _ring(ways: int) -> dict[str, Any]:
    return {"kind": "ring", "size": RANKS, "bandwidth_bytes_per_s": INJECTION / ways,
            "latency_s": HOP_S, "bidirectional": ways == 2}


RING = {"reductions": ["ring"]}
TWICE = 2 * (RANKS - 1) / RANKS
CASES = (
    Case("ideal", _switch(), {"kind": "in_switch", "mode": "push", **IDLE}, {}, 1.0),
    Case("push", _switch(), {"kind": "in_switch", "mode": "push"}, {}, 1.0),
    Case("pull", _switch(), {"kind": "in_switch", "mode": "pull"}, {}, 1.0),
    Case("ideal, ring", _switch(), {"kind": "ideal"}, RING, TWICE),
    Case("NCCL-like ring", _switch(), {"kind": "baseline_comm_opt"}, RING, TWICE),
    Case("NCCL-like double tree", _switch(planes=1), {"kind": "baseline_comm_opt"},
         {"reductions": ["tree"]}, TWICE),
    Case("BaselineCompOpt", _switch(), {"kind": "baseline_comp_opt"}, RING, TWICE),
    Case("BaselineNoOverlap", _switch(), {"kind": "baseline_no_overlap"}, RING, TWICE),
    Case("ACE", _ring(2), {"kind": "ace"}, RING, TWICE),
    Case("smart NIC", _ring(1), {"kind": "smartnic", **NIC}, {**RING, "rings": 1}, TWICE),
)


def description(case: Case, workload: dict[str, Any]) -> dict[str, Any]:
    """Description of a case; all have the payload share of 144 B packets with acknowledgements."""
    dimension = dict(case.topology)
    if case.endpoint["kind"] != "in_switch":
        dimension["efficiency"] = SHARE
    return {
        "dimension": [dimension],
        "endpoint": case.endpoint,
        "algorithm": case.algorithm,
        "workload": workload,
        "run": {"passes": 1, "check": True},
    }


def sent_share(done: Run) -> float:
    """Bytes that a rank sends, from link counters, over those of an iteration's collectives."""
    links = done.record.links
    out = np.array([link.source < done.record.nodes for link in links])
    return float(done.record.link_bytes[out].sum()) / _ranks(done) / _vector(done)


def _ranks(done: Run) -> int:
    """Number of ranks that the counters cover."""
    return 1 if done.record.folded else done.record.nodes


def _vector(done: Run) -> float:
    """Bytes of the collectives of an iteration."""
    calls = [task.call for graph in done.job.graphs for task in graph.tasks]
    return float(sum(call.size_bytes for call in calls if call is not None))


def memory_share(case: Case, done: Run) -> tuple[float, float]:
    """Bytes that a rank reads from its memory and writes there, over those of the collectives.

    From counters of the endpoint's units; bytes read are bytes written times the ratio of the busy
    times. Push and pull read every operand once and write every result once (tables keep all sums).
    """
    kind = case.endpoint["kind"]
    if kind == "in_switch":
        return 1.0, 1.0
    record = done.record
    read, write = map(record.unit_names.index, MEMORY.get(kind, SOFTWARE_MEMORY))
    written = float(record.unit_bytes[write].sum()) / _ranks(done) / _vector(done)
    busy = record.unit_busy_fs.sum(axis=1)
    return written * float(busy[read] / busy[write]), written


def main(argv: Sequence[str]) -> int:
    """``--workload NAME`` (resnet50) of those that ship."""
    parser = argparse.ArgumentParser(prog="python -m bench engines", description=__doc__)
    parser.add_argument("--workload", default="resnet50", help="a text workload that ships")
    workload = {"shipped": parser.parse_args(list(argv)).workload}
    table = Table(
        f"{workload['shipped']} on {RANKS} NPUs, {INJECTION / GB:g} GB/s of injection",
        (
            Column("engine"),
            Column("iteration_s", "iteration", "ms", 3),
            Column("exposed_s", "exposed", "ms", 3),
            Column("compute_s", "compute", "ms", 3),
            Column("sent", "sent / vector", "", 3),
            Column("must_send", "must send", "", 3),
            Column("read", "read / vector", "", 3),
            Column("written", "written / vector", "", 3),
        ),
        note="Exposed: communication that computation does not hide. Sent: bytes on the links out "
        "of a rank over those of its collectives. Read and written: in its memory; what is ideal "
        "takes none of it.",
    )
    times: dict[str, float] = {}
    violations = 0
    with step("engines on one workload") as progress:
        for number, case in enumerate(CASES):
            done = run(description(case, workload))
            sent = sent_share(done)
            times[case.name] = done.metrics["iteration_s"]
            violations += not case.sent / BYTES_MARGIN <= sent <= case.sent * BYTES_MARGIN
            table.add(
                case.name, times[case.name], done.metrics["exposed_s"],
                done.metrics["compute_s"], sent, case.sent,
                *((None, None) if case.name.startswith("ideal") else memory_share(case, done)),
            )
            progress((number + 1) / len(CASES))
    violations += sum(times["ideal"] > IDEAL_MARGIN * each for each in times.values())
    print_table(table)
    result(
        "engines", verdict="short" if violations else "ok", rows=len(CASES), violations=violations
    )
    return 0

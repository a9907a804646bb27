# SPDX-License-Identifier: Apache-2.0
"""ACE, smart NIC, in-switch push and pull, baselines and ideal on one workload, at equal injection.

Training with data parallelism on 16 NPUs of 150 GB/s each way: switches for what reduces there
and for software, a ring both ways for ACE, a ring one way for the smart NIC. The page
docs/reference/engines.md holds the assumptions. Bytes on links are counted and compared with what
each algorithm must send.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench._compared import INJECTION, RANKS, RING, TWICE, Case, switch
from bench._endpoints import in_network
from bench.records.registered import modules
from bench.result import result
from foldwire.console import print_table, step
from gen.table import Column, Table
from sim.run import Run, run
from sim.units import GB

__all__ = ["CASES", "description", "main", "memory_share", "sent_share"]

SHARE = 0.8
IDEAL_MARGIN, BYTES_MARGIN = 1.01, 1.005
SOFTWARE = [
    Case("ideal, ring", switch(), {"kind": "ideal"}, RING, TWICE),
    Case("NCCL-like ring", switch(), {"kind": "baseline_comm_opt"}, RING, TWICE),
    Case("NCCL-like double tree", switch(planes=1), {"kind": "baseline_comm_opt"},
         {"reductions": ["tree"]}, TWICE),
    Case("BaselineCompOpt", switch(), {"kind": "baseline_comp_opt"}, RING, TWICE),
    Case("BaselineNoOverlap", switch(), {"kind": "baseline_no_overlap"}, RING, TWICE),
]
_ENGINES = [case for each in modules("comparison").values() for case in each.CASES]
CASES: list[Case] = sorted([*SOFTWARE, *_ENGINES], key=lambda case: case.sent)
"""Those that send least come first."""


def description(case: Case, workload: dict[str, Any]) -> dict[str, Any]:
    """Description of a case; all have the payload share of 144 B packets with acknowledgements."""
    dimension = dict(case.topology)
    if not in_network(case.endpoint["kind"]):
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
    if not case.memory:
        return 1.0, 1.0
    record = done.record
    read, write = map(record.unit_names.index, case.memory)
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

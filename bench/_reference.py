# SPDX-License-Identifier: Apache-2.0
"""The systems on which reference simulators were measured, as descriptions that anybody can write.

ASTRA-sim 2.x: rings of 50 GB/s (GB = 2**30 B) and 500 ns, one direction for reduce-scatter and
all-reduce, the other for all-gather; a chunk travels as one message and is stored and forwarded at
every hop; reductions cost three accesses at 1600e9 B/s; 9 ns from arrival to the next send.

ASTRA-sim 1.0: the two links of a dimension carry each message together, so a ring is one ring of
twice the bandwidth; latency 1 ns; one cycle passes at the endpoint.
"""

from collections.abc import Sequence
from typing import Any

from sim.describe.build import build
from sim.describe.system import describe
from sim.events.record import RunRecord
from sim.events.simulate import simulate
from sim.units import GIB
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

__all__ = ["all_reduce", "collective", "record_and_job", "record_of", "release_1", "release_2"]

LINK = 50 * GIB
SYSTEM_1 = {
    "algorithm": "localBWAware",
    "preferred-set-splits": 4,
    "active-chunks-per-dimension": 1,
    "endpoint-delay": 1,
}
SYSTEM_2 = {
    "release": 2,
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
}

Description = dict[str, Any]


def release_2(
    shape: Sequence[int],
    workload: Description,
    *,
    splits: int = 4,
    active: int = 1,
    aware: bool = True,
    kind: str = "ring",
    gather_backwards: bool = True,
) -> Description:
    """ASTRA-sim 2.x with its analytical network, congestion-aware or not."""
    link = {"kind": kind, "bandwidth_bytes_per_s": LINK, "latency_s": 500e-9}
    return {
        "astra": SYSTEM_2
        | {"preferred-dataset-splits": splits, "active-chunks-per-dimension": active},
        "dimension": [{**link, "size": size} for size in shape],
        "algorithm": {"gather_backwards": gather_backwards},
        "network": {"shared_links": aware},
        "workload": workload,
    }


def release_1(
    shape: Sequence[int], workload: Description, *, bundled: bool = True
) -> Description:
    """ASTRA-sim 1.0 with the parameters of its torus sample: links of 32, 16, 16 GB/s."""
    lanes = 2 if bundled else 1
    rates = [lanes * rate * GIB for _, rate in zip(shape, (32, 16, 16))]
    link = {"kind": "ring", "latency_s": 1e-9}
    return {
        "astra": SYSTEM_1 | {"all-to-all-implementation": "_".join(["ring"] * len(shape))},
        "dimension": [
            {**link, "size": size, "bandwidth_bytes_per_s": rate}
            for size, rate in zip(shape, rates)
        ],
        "algorithm": {"rings": 1} if bundled else {},
        "scheduler": {"queues": "dimension"},
        "network": {"packet_routing": "hardware"},
        "workload": workload,
    }


def all_reduce(size_bytes: int) -> Description:
    """A workload of one collective."""
    return {"collective": "all_reduce", "size_bytes": size_bytes}


def record_of(description: Description, *, fold: str = "auto", passes: int = 1) -> RunRecord:
    """Simulate as `sim.run.run` does, without recording the time series that it plots."""
    wanted = description | {"run": {"fold": fold}}
    key = ("astra", "num-passes") if "astra" in wanted else ("run", "passes")
    wanted[key[0]] = wanted.get(key[0], {}) | {key[1]: passes}
    return record_and_job(wanted)[0]


def record_and_job(description: Description) -> tuple[RunRecord, Job]:
    """Simulate as `record_of` does; return the job as well."""
    system = build(describe(description))
    record = simulate(
        system.network,
        system.job,
        endpoint=system.endpoint,
        scheduler=system.scheduler,
        algorithms=system.algorithms,
        **system.options,
    )
    return record, system.job


def collective(size_bytes: int, kind: CollectiveKind = CollectiveKind.ALL_REDUCE) -> Job:
    """A job of one collective."""
    builder = GraphBuilder()
    call = CollectiveCall(kind=kind, size_bytes=size_bytes)
    builder.add(kind.value, TaskKind.COLLECTIVE, call=call)
    return Job(name=kind.value, graphs=(builder.graph(),))

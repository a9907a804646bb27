# SPDX-License-Identifier: Apache-2.0
"""The plain numbers of a run, by name, as sweeps plot and comparisons read them."""

import numpy as np

from gen.table import Column
from sim.results.bounded import KINDS, bounded
from sim.results.breakdown import Breakdown
from sim.units import FS_PER_S

__all__ = ["METRICS", "limit_metric", "metrics", "percent"]


def limit_metric(kind: str) -> str:
    """Name of the metric of what twice of a kind of unit would save."""
    return f"limit_{kind.lower().replace(' ', '_')}_percent"


METRICS = {
    column.name: column
    for column in (
        Column("time_s", "run time", "µs", 3),  # until the last NPU has finished
        Column("iteration_s", "iteration", "µs", 3),  # the same over the training iterations
        Column("compute_s", "compute", "µs", 3),  # mean over NPUs, as are the following
        Column("exposed_s", "exposed communication", "µs", 3),
        Column("delay_s", "delay", "µs", 3),  # waiting for anything else
        Column("idle_s", "idle", "µs", 3),  # finished before others
        Column("exposed_percent", "exposed", "%", 1),  # of the run time
        Column("endpoint_percent", "endpoint in use", "%", 1),  # at least one chunk is assigned
        Column("sent_bytes", "sent per NPU", "B", 0),
        Column("sent_bytes_per_s", "rate per NPU", "GB/s", 3),
        Column("link_percent", "links busy", "%", 1),  # of the most loaded dimension
        # Saved by twice of a unit, estimated: of the one that limits the run, and of each kind.
        Column("limited_percent", "saved by twice of it", "%", 1),
        *(
            Column(limit_metric(kind), f"saved by twice of {kind}", "%", 1) for kind in KINDS
        ),
        # Of runs whose collectives are all alike: those of nccl-tests, of the mean time.
        Column("algbw_bytes_per_s", "algbw", "GB/s", 3),
        Column("busbw_bytes_per_s", "busbw", "GB/s", 3),
        Column("nodes", "NPUs", digits=0),
        Column("folded", digits=0),  # 1 where one NPU was simulated for all
        Column("events", digits=0),
        Column("messages", digits=0),
        # Reduction tables: entries evicted, and timed out; packets of both that home endpoints
        # added; loads that waited for an entry, and that went on without one.
        Column("evicted", "entries evicted", digits=0),
        Column("expired", "entries timed out", digits=0),
        Column("partials", "partials at homes", digits=0),
        Column("stalled", "loads that waited", digits=0),
        Column("bypassed", "loads without entry", digits=0),
        Column("wave_wait", "waits for a wave", digits=0),  # cycles, of all links of endpoints
        # Links with retry: frames sent again, those that came damaged or again; faults of wires.
        Column("frames_resent", "frames sent again", digits=0),
        Column("frames_damaged", "frames that came damaged", digits=0),
        Column("frames_repeated", "frames that came again", digits=0),
        Column("wires_lost", "packets lost on wires", digits=0),
        Column("wires_repeated", "packets repeated on wires", digits=0),
        Column("wires_damaged", "packets damaged on wires", digits=0),
        # Background traffic: mean latencies, from a packet's first flit on a link, and before that.
        Column("ordinary", "ordinary packets", digits=0),
        Column("ordinary_travel", "latency of ordinary packets", "cycles", digits=0),
        Column("ordinary_queued", "before they left", "cycles", digits=0),
        Column("results", "results compared", digits=0),  # with numpy's, bit for bit
        Column("wrong", "results that differ", digits=0),
    )
}


def metrics(run: Breakdown) -> dict[str, float]:
    """Those of `METRICS` that are known of *run*: the same on every machine.

    A run that did not record its links knows nothing of their traffic.
    """
    record = run.record
    compute, exposed, delay, idle = (run.mean_fs / FS_PER_S).tolist()
    time_s = record.end_fs / FS_PER_S
    iterations = len({each.task.iteration for each in run.tasks})
    found = {
        "time_s": time_s,
        "iteration_s": time_s / max(1, iterations),
        "compute_s": compute,
        "exposed_s": exposed,
        "delay_s": delay,
        "idle_s": idle,
        "exposed_percent": percent(exposed, time_s) or 0.0,
        "endpoint_percent": percent(record.engine_busy_fs.mean(), record.end_fs) or 0.0,
    }
    if record.links:
        owner = np.array([link.dimension for link in record.links])
        sent = float(record.link_bytes.sum()) / len(record.graph_of)
        busy = max(float(record.link_busy_fs[owner == each].mean()) for each in np.unique(owner))
        found |= {
            "sent_bytes": sent,
            "sent_bytes_per_s": sent / time_s if time_s else 0.0,
            "link_percent": percent(busy, record.end_fs) or 0.0,
        }
    found |= {name: float(count) for name, count in record.counts.items() if name in METRICS}
    limits = bounded(run)
    found["limited_percent"] = limits.percent
    found |= {limit_metric(kind): share for kind, share in limits.by_kind.items()}
    return found | {
        "nodes": float(record.nodes),
        "folded": float(record.folded),
        **({} if record.events is None else {"events": float(record.events)}),
        **(
            {}
            if record.call_phases is None
            else {"messages": float(record.call_phases.messages.sum())}
        ),
    }


def percent(part: float, whole: float) -> float | None:
    """Percent of *whole*; None if that is 0."""
    return 100 * float(part) / float(whole) if whole else None

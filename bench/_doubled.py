# SPDX-License-Identifier: Apache-2.0
"""Units of a described system, and the changes of its description that double each.

A rate or a number is doubled, a time or the size of a message is halved.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from sim.endpoint.kinds import Npu
from sim.run import Run
from sim.workload.graph import TaskKind

__all__ = ["doublings"]

ENDPOINT: Mapping[str, tuple[str, float]] = {
    "memory_bytes_per_s": ("memory", 2),
    "host_bytes_per_s": ("memory", 2),
    "cores": ("SMs", 2),
    "sram_bytes": ("SRAM", 2),
    "sram_accesses": ("SRAM", 2),
    "banks": ("SRAM", 2),
    "fsms": ("FSMs", 2),
    "alus": ("ALUs", 2),
    "message_bytes": ("messages", 0.5),
    "delay_s": ("endpoint", 0.5),
    "hop_cycles": ("endpoint", 0.5),
    "host_latency_s": ("endpoint", 0.5),
    "memory_latency_s": ("endpoint", 0.5),
    "fetch_cycles": ("endpoint", 0.5),
    "receive_cycles": ("endpoint", 0.5),
    "store_cycles": ("endpoint", 0.5),
}
"""Keys of [endpoint], at any level: the unit that each is of, and the factor that doubles it."""
BUSES: Mapping[str, tuple[str, float]] = {
    "bytes_per_s": ("bus", 2),
    "latency_s": ("endpoint", 0.5),
    "overhead_s": ("endpoint", 0.5),
    "gap_s": ("endpoint", 0.5),
}
MOST = {"cores": 80, "fsms": 16, "alus": 8, "banks": 64}


def doublings(run: Run) -> dict[str, dict[str, Any]]:
    """Unit -> the changes of the description of *run* that double it."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    description = run.description
    for index, each in enumerate(description.dimensions):
        if each.size > 1:
            key = f"dimension.{index}"
            rate = each.bandwidth_bytes_per_s
            found[f"links of dimension {index}"] = {f"{key}.bandwidth_bytes_per_s": 2 * rate}
            found["latency"][f"{key}.latency_s"] = each.latency_s / 2
            if each.router_latency_s:
                found["latency"][f"{key}.router_latency_s"] = each.router_latency_s / 2
    engine = description.engine
    _of_fields(found, description.endpoint if engine is None else engine.config, "endpoint")
    memory = description.memory
    if memory.bandwidth_bytes_per_s is not None:
        found["memory"]["memory.bandwidth_bytes_per_s"] = 2 * memory.bandwidth_bytes_per_s
    for key in ("read_latency_s", "write_latency_s"):
        if value := getattr(memory, key):
            found["memory"][f"memory.{key}"] = value / 2
    bounds = run.record.admission
    if bounds is not None and bounds.places and engine is None:
        waves = hasattr(description.endpoint, "waves")
        key = "endpoint.waves" if waves else "scheduler.concurrency"
        found["admission"] = {key: 2 * max(bounds.places)}
    if any(task.kind is TaskKind.COMPUTE for graph in run.job.graphs for task in graph.tasks):
        key, value = "workload.compute.flops_per_s", 120e12
        if (options := description.workload.options).get("compute"):
            value = options["compute"].get("flops_per_s", value)
        left = description.endpoint.share().memory_bytes_per_s
        npu = getattr(description.endpoint, "npu", Npu()).memory_bytes_per_s
        # Twice what is left of the memory to computations.
        found["compute"] = {key: 2 * value, "endpoint.npu.memory_bytes_per_s": npu + left}
    return {unit: changes for unit, changes in found.items() if changes}


def _of_fields(found: dict[str, dict[str, Any]], owner: Any, path: str) -> None:
    if not hasattr(owner, "alus") and (lanes := getattr(owner, "lanes", 0)):
        found["ALUs"][f"{path}.lanes"] = 2 * lanes
    for each in fields(owner):
        value, key = getattr(owner, each.name), f"{path}.{each.name}"
        if each.name in ("bus", "memory_bus") and is_dataclass(value):
            for name, (unit, factor) in BUSES.items():
                old = getattr(value, name)
                memory = (each.name, name) == ("memory_bus", "bytes_per_s")
                if old and math.isfinite(old) and not memory:
                    found[unit][f"{key}.{name}"] = factor * old
        elif each.name in ENDPOINT and value:
            unit, factor = ENDPOINT[each.name]
            new = factor * value
            if new <= MOST.get(each.name, math.inf):
                found[unit][key] = int(new) if isinstance(value, int) and factor > 1 else new

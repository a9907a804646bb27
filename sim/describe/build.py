# SPDX-License-Identifier: Apache-2.0
"""Builds the simulator's arguments from a description: network, job, endpoint and options."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gen.brief import Brief
from sim.collectives.plan import AlgorithmChoice
from sim.describe.build_job import build_job
from sim.describe.reader import ConfigError
from sim.describe.sections import Description
from sim.endpoint.endpoint import Endpoint
from sim.events.defaults import chunk_size
from sim.events.scheduler import Scheduler
from sim.network.dimension import Dimension
from sim.network.embedding import hamiltonian_cycle
from sim.network.grid import Grid
from sim.network.link import LinkFault
from sim.network.network import Network
from sim.network.shapes import split_into
from sim.network.wiring import links_of, wire
from sim.units import MOST_TIME_S
from sim.workload.graph import CollectiveKind, Job

__all__ = ["DescribedSystem", "build"]


MOST_CHUNKS = (1 << 21) - 1


@dataclass(frozen=True, kw_only=True, repr=False)
class DescribedSystem(Brief):
    """Arguments of :func:`sim.events.simulate.simulate`; ``options`` are its keywords."""

    network: Network
    job: Job
    endpoint: Endpoint
    scheduler: Scheduler
    algorithms: Mapping[CollectiveKind, AlgorithmChoice]
    options: Mapping[str, Any]


def build(description: Description) -> DescribedSystem:
    """The system that *description* describes.

    Raises
    ------
    ConfigError
        If parts do not fit together, with the place of the value that does not.
    """
    reader, topology = description.reader, description.topology
    shape = _sizes(description)
    nodes = math.prod(shape)
    if topology.one_dimension:
        shape = (nodes,)
    elif topology.logical_shape is not None:
        shape = topology.logical_shape
    job = build_job(description, shape)
    _check_size(description, job)
    dimensions = description.dimensions
    logical = shape if job.shape is None else job.shape
    if topology.own_links and not topology.one_dimension and logical != _sizes(description):
        dimensions = _own_dimensions(description, logical)
        shape, named = logical, shape
    else:
        named = shape
    physical = tuple(each.size for each in dimensions)
    network = reader.construct(
        partial(Network, dimensions),
        "topology",
        {
            "logical_shape": None if shape == physical else shape,
            "placement": _placement(description),
            "faults": _faults(description),
        },
    )
    run = description.run
    return DescribedSystem(
        network=network if job.shape is None else network.split(job.shape),
        job=job,
        endpoint=description.endpoint,
        scheduler=description.scheduler,
        algorithms=_algorithms(description, job, named, shape),
        options={
            "granularity": description.network.granularity,
            "packets": description.network.packets,
            "packet_routing": description.network.packet_routing,
            "shared_links": description.network.shared_links,
            "reserve": run.reserve,
            "check": run.check,
            "fold": run.fold,
            "stragglers": _stragglers(description, nodes),
            "bucket_s": run.bucket_s or 0.0,
            "buckets": run.buckets,
            "spans": run.most_spans if run.trace else 0,
        },
    )


def _own_dimensions(description: Description, logical: Sequence[int]) -> tuple[Dimension, ...]:
    """The physical dimensions cut into *logical* ones, each with links of its own."""
    reader, left, made = description.reader, list(logical), list[Dimension]()
    if description.scenario.link:
        what = "must be absent beside topology.own_links: the links are not those of the dimensions"
        raise reader.error("scenario", "link", what)
    for dimension in description.dimensions:
        size = 1
        while left and (size < dimension.size or left[0] == 1):
            part = left.pop(0)
            size *= part
            made.append(reader.construct(partial(replace, dimension), "topology", {"size": part}))
        if size != dimension.size:
            what = f"must be false: {list(logical)} do not split {list(_sizes(description))}"
            raise reader.error("topology", "own_links", what)
    return tuple(made)


def _placement(description: Description) -> Sequence[int] | None:
    """The stated placement; by default an engine's ring through a torus joins neighbours."""
    topology, dimensions = description.topology, description.dimensions
    stated = topology.placement
    if stated is not None or description.engine is None or not topology.one_dimension:
        return stated
    return hamiltonian_cycle(Network(dimensions)) if len(dimensions) > 1 else None


def _check_size(description: Description, job: Job) -> None:
    """Refuse jobs that would need more memory, or longer simulated time, than there is.

    Times are 64-bit femtoseconds, 9223 s in all. The estimate is a run in which nothing overlaps
    and everything that a node sends crosses the longest path on one link.
    """
    reader = description.reader
    tasks = [task for graph in job.graphs for task in graph.tasks]
    sizes = [task.call.size_bytes for task in tasks if task.call is not None]
    chunks = _chunks(description, sizes)
    if chunks > MOST_CHUNKS:
        raise _too_many_chunks(description, sizes, chunks)
    down = [link.bandwidth_factor for link in description.scenario.link if link.bandwidth_factor]
    slowdown = max([each.slowdown for each in description.scenario.node], default=1.0)
    time_s = sum(task.duration_s for task in tasks) * max(1.0, slowdown)
    for dim in description.dimensions:
        rate = dim.payload_bytes_per_s * min(down, default=1.0)
        steps_s = 2 * dim.size * dim.farthest_s
        time_s += 2 * dim.size * sum(sizes) / rate + chunks * steps_s
    if time_s > MOST_TIME_S:
        slowest = min(each.bandwidth_bytes_per_s for each in description.dimensions)
        what = (
            f"must be done within {MOST_TIME_S:g} s of simulated time; with these sizes, "
            f"latencies and bandwidths (from {slowest:g} bytes/s) it may take {time_s:.3g} s"
        )
        raise reader.error("workload", "", what)


def _chunks(
    description: Description, sizes: Sequence[int], scheduler: Scheduler | None = None
) -> int:
    """Chunks of all collectives, before algorithms and buffers change their number."""
    scheduler = description.scheduler if scheduler is None else scheduler
    own = getattr(description.endpoint, "chunk_of", None)
    return sum(
        scheduler.chunks(
            size,
            1,
            chunk_size(size, len(sizes)) if own is None else own(description.dimensions),
        )
        for size in sizes
    )


def _too_many_chunks(
    description: Description, sizes: Sequence[int], chunks: int
) -> ConfigError:
    """Error at the key that sets the chunk size; an engine's chunks are as large as its slots."""
    reader, scheduler = description.reader, description.scheduler
    if description.engine is not None:
        preset = description.engine.preset
        each = "" if scheduler.chunk_bytes is None else f" of {scheduler.chunk_bytes:.0f} B"
        what = (
            f"must be cut into at most {MOST_CHUNKS} chunks, not {chunks}{each}, those of preset "
            f"{preset!r}"
        )
        key = "size_bytes" if description.workload.collective is not None else ""
        return reader.error("workload", key, what)
    what = f"must cut the collectives into at most {MOST_CHUNKS} chunks in all, not {chunks}"
    if scheduler.splits is not None:
        return reader.error("scheduler", "splits", what)
    now = enough = scheduler.chunk_bytes
    if now is None or enough is None:
        own = hasattr(description.endpoint, "chunk_of")
        return reader.error(*(("endpoint", "wave_bytes") if own else ("workload", "")), what)
    while _chunks(description, sizes, replace(scheduler, chunk_bytes=enough)) > MOST_CHUNKS:
        enough *= 2
        if enough > max(sizes):
            return reader.error("scheduler", "chunk_bytes", what)
    hint = f"; from {now:.0f} to {enough:.0f} would do"
    return reader.error("scheduler", "chunk_bytes", what + hint)


def _sizes(description: Description) -> tuple[int, ...]:
    return tuple(each.size for each in description.dimensions)


def _faults(description: Description) -> tuple[LinkFault, ...]:
    """The faults, after a check that each of them names an existing link."""
    faults = description.scenario.link
    if faults:
        wiring = wire(description.dimensions, Grid(_sizes(description)))
        for index, fault in enumerate(faults):
            description.reader.construct(
                partial(links_of, wiring), "scenario.link", {"fault": fault}, index
            )
    return faults


def _stragglers(description: Description, nodes: int) -> dict[int, float]:
    found: dict[int, float] = {}
    for index, each in enumerate(description.scenario.node):
        if not 0 <= each.node < nodes or each.node in found:
            what = f"must be from 0 to {nodes - 1} and stand once, not {each.node}"
            raise description.reader.error("scenario.node", "node", what, index)
        found[each.node] = each.slowdown
    return found


def _algorithms(
    description: Description, job: Job, shape: tuple[int, ...], logical: tuple[int, ...]
) -> Mapping[CollectiveKind, AlgorithmChoice]:
    """The choices of algorithms, checked for the collectives that the job has.

    An algorithm named for a dimension of *shape* applies to all *logical* dimensions, with links of
    their own, into which groups of the job split it.
    """
    kinds = {
        task.call.kind for graph in job.graphs for task in graph.tasks if task.call is not None
    }
    by_kind = description.algorithms
    if len(logical) > len(shape):
        parts = split_into(shape, logical)
        by_kind = {kind: _spread(choice, parts) for kind, choice in by_kind.items()}
    for kind in sorted(kinds, key=lambda each: each.value):
        reductions = by_kind[kind].reductions
        if reductions is not None and len(reductions) != len(logical):
            what = (
                f"must name {len(logical)} algorithms, one per logical dimension, "
                f"not {reductions}"
            )
            common = by_kind[CollectiveKind.BROADCAST].reductions
            key = "reductions" if reductions == common else kind.value
            raise description.reader.error("algorithm", key, what)
    return by_kind


def _spread(choice: AlgorithmChoice, parts: Sequence[tuple[int, ...]]) -> AlgorithmChoice:
    """*choice* with an algorithm for each part of a dimension, where it has one for the whole."""
    spread: dict[str, Any] = {}
    for name in ("reductions", "halves"):
        named = getattr(choice, name)
        if named is not None and len(named) == len(parts):
            spread[name] = tuple(each for each, part in zip(named, parts) for _ in part)
    return replace(choice, **spread)

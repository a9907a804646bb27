# SPDX-License-Identifier: Apache-2.0
"""Jobs with groups: collectives of all NPUs, and of groups that cover parts of a dimension.

A collective that covers whole dimensions runs as if no group split them: to the femtosecond where
the calls do not overlap (to half a percent between the leaves of a tree). Where they overlap and
admission holds no chunks back, both end within the time that they take one after the other.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from sim.collectives.execute import what_is_wrong
from sim.collectives.plan import plan_collective
from sim.describe.build import DescribedSystem, build
from sim.describe.reader import TomlReader
from sim.describe.system import describe
from sim.events.record import RunRecord
from sim.events.simulate import simulate
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

__all__ = ["group_violations", "with_groups"]

SPINES = ("fat_tree", "dgx2")
"""Not symmetric in their nodes: the order of simultaneous events decides which one goes first."""
ALIKE = 0.005
OVERLAP = 1.02
"""Allowed factor: links arbitrate between whole messages, and a greedy order is not optimal."""
BEGIN_S = 1e-6
MOST_NODES = 64
DATA_ELEMENTS = 600


def with_groups(number: int) -> bool:
    """True if the *number*-th system of a seed also runs jobs with groups: every fourth does."""
    return number % 4 == 2


def group_violations(system: Mapping[str, Any], seed: int, number: int) -> Iterator[str]:
    """Yield violations of jobs with groups on a drawn system; none if it cannot have groups."""
    made = build(describe(dict(system), reader=TomlReader("groups")))
    rng = random.Random(f"groups {seed} {number}")
    if made.network.nodes > MOST_NODES or getattr(made.endpoint, "in_switch", None):
        return
    shape, part = _split(rng, made.network.shape)
    if part < 0:
        return
    world, group = _calls(rng, made, shape, part)
    # Without the group nothing is split.
    runs = {
        world: _run(made, _job(made, None, {world: BEGIN_S})),
        group: _run(made, _job(made, shape, {group: BEGIN_S})),
    }
    allowed = ALIKE if system["topology"]["kind"] in SPINES else 0.0
    for first, second in ((world, group), (group, world)):
        later_s = 1.5e-15 * runs[first].end_fs + BEGIN_S
        both = _run(made, _job(made, shape, {first: BEGIN_S, second: later_s}))
        for call in (first, second):
            if call is group and hasattr(made.endpoint, "partition"):
                continue  # its SRAM is partitioned for collectives of all NPUs
            expected, found = _spent_fs(runs[call], 0), _spent_fs(both, (first, second).index(call))
            if abs(found - expected) > allowed * expected:
                what = "all NPUs" if call is world else "groups"
                yield f"{call.kind.value} of {what}: {expected} fs alone, {found} fs beside another"
    yield from _overlap(made, shape, world, group)
    view, inside = made.network.split(shape).view(group.dimensions)
    plan = plan_collective(view, group.kind, made.algorithms[group.kind], inside)
    wrong = what_is_wrong(view, plan, group.kind, elements=DATA_ELEMENTS, dimensions=inside)
    if wrong is not None:
        yield f"data of groups: {wrong}"


def _overlap(
    made: DescribedSystem, shape: tuple[int, ...], world: CollectiveCall, group: CollectiveCall
) -> Iterator[str]:
    free = replace(made, scheduler=replace(made.scheduler, concurrency=None, queues="phase"))
    one = _run(free, _job(made, None, {world: 0.0})).end_fs
    other = _run(free, _job(made, shape, {group: 0.0}))
    both = _run(free, _job(made, shape, {world: 0.0, group: 0.0})).end_fs
    most = OVERLAP * (one + other.end_fs)
    if both > most:
        yield f"{both} fs overlapped, {one} and {other.end_fs} fs alone"


def _split(rng: random.Random, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """*shape* with one dimension cut in two, and the new dimension that is a group (-1: none)."""
    cuts = [(d, k) for d, size in enumerate(shape) for k in range(2, size) if size % k == 0]
    if not cuts:
        return shape, -1
    dimension, size = rng.choice(cuts)
    parts = size, shape[dimension] // size
    return (*shape[:dimension], *parts, *shape[dimension + 1 :]), dimension + rng.randint(0, 1)


def _calls(
    rng: random.Random, made: DescribedSystem, shape: tuple[int, ...], part: int
) -> tuple[CollectiveCall, CollectiveCall]:
    kinds = list(CollectiveKind)
    if any(task.call for task in made.job.graphs[0].tasks):
        # Some endpoints support one kind alone: use the one that was drawn for it.
        drawn = {task.call.kind for task in made.job.graphs[0].tasks if task.call is not None}
        kinds = sorted(drawn, key=lambda each: each.value)
    others = [d for d in range(len(shape)) if d != part and shape[d] > 1 and rng.random() < 0.3]
    dimensions = tuple(sorted([part, *others]))
    if prod(shape[d] for d in dimensions) == prod(shape):
        dimensions = (part,)
    size = prod(shape) * 4 << rng.randint(4, 12)
    return (
        CollectiveCall(kind=rng.choice(kinds), size_bytes=size),
        CollectiveCall(
            kind=rng.choice(kinds), size_bytes=size >> rng.randint(0, 6), dimensions=dimensions
        ),
    )


def _job(
    made: DescribedSystem, shape: tuple[int, ...] | None, calls: Mapping[CollectiveCall, float]
) -> Job:
    """A job of calls that begin at given times, in seconds."""
    builder = GraphBuilder()
    for number, (call, later_s) in enumerate(calls.items()):
        wait = builder.add(f"wait {number}", TaskKind.DELAY, duration_s=later_s)
        builder.add(f"call {number}", TaskKind.COLLECTIVE, [wait], call=call)
    return Job(
        name="groups", graphs=(builder.graph(),), shape=shape, topology_shape=made.network.shape
    )


def _run(made: DescribedSystem, job: Job) -> RunRecord:
    options = {**made.options, "check": True, "stragglers": {}}
    return simulate(
        made.network,
        job,
        endpoint=made.endpoint,
        scheduler=made.scheduler,
        algorithms=made.algorithms,
        share_applied=True,
        **options,
    )


def _spent_fs(record: RunRecord, call: int) -> int:
    task = 2 * call + 1
    return int(record.task_end_fs[:, task].max() - record.task_start_fs[:, task].min())

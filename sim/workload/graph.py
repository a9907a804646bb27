# SPDX-License-Identifier: Apache-2.0
"""Work of an NPU: computations and collectives, and the dependencies between them.

Every source of work, be it a text workload, an execution trace or a generator, becomes a
:class:`Job`. The simulator knows nothing else about workloads.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from numbers import Integral

from gen.arguments import MOST_INTEGER, MOST_NUMBER
from gen.brief import Brief
from sim.fields import (
    FieldError,
    check,
    check_at_least,
    check_fields,
    check_size,
    check_type,
    not_one_of,
)

__all__ = [
    "CollectiveCall",
    "CollectiveKind",
    "GraphBuilder",
    "Job",
    "Task",
    "TaskGraph",
    "TaskKind",
    "TrainingPhase",
]


class CollectiveKind(Enum):
    """Kind of a collective. Sizes as in :class:`CollectiveCall`."""

    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"


class TaskKind(IntEnum):
    """Kind of a task, which occupies the compute units, the network, or nothing."""

    COMPUTE = 0
    COLLECTIVE = 1
    SEND = 2
    RECEIVE = 3
    DELAY = 4


class TrainingPhase(Enum):
    """The part of a training iteration to which a task belongs."""

    FORWARD = "forward"
    INPUT_GRADIENT = "input gradient"
    WEIGHT_GRADIENT = "weight gradient"
    UPDATE = "update"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class CollectiveCall:
    """One collective, the same call on every NPU of its groups.

    Parameters
    ----------
    kind : CollectiveKind or its name
    size_bytes : int
        Vector of one NPU: all-reduce and reduce-scatter reduce that many bytes, all-gather starts
        from that many and ends with as many from every member, all-to-all sends that many in equal
        parts, one to each member of the group (its own part included).
    dimensions : tuple of int or None
        Logical dimensions of the topology over which it runs, None for all. NPUs that differ only
        in these dimensions form a group.
    priority : int
        Higher goes first, whatever the scheduling policy.
    policy : str or None
        ``"lifo"`` or ``"fifo"`` overrides the scheduling policy for this call.
    """

    kind: CollectiveKind
    size_bytes: int
    dimensions: tuple[int, ...] | None = None
    priority: int = 0
    policy: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, CollectiveKind):
            kinds = {kind.value: kind for kind in CollectiveKind}
            if not isinstance(self.kind, str) or self.kind not in kinds:
                raise FieldError("kind", not_one_of(self.kind, kinds))
            object.__setattr__(self, "kind", kinds[self.kind])
        check_at_least(self, 0, "size_bytes")
        check("size_bytes", self.size_bytes, "an integer", isinstance(self.size_bytes, Integral))
        if self.dimensions is not None:
            allowed = "at least one dimension, each once, or None for all"
            listed = isinstance(self.dimensions, list | tuple)
            ok = listed and all(isinstance(each, int) and each >= 0 for each in self.dimensions)
            once = ok and len(set(self.dimensions)) == len(self.dimensions) > 0
            check("dimensions", self.dimensions, allowed, once)
        check("priority", self.priority, "an integer", isinstance(self.priority, int))
        check_size("priority", self.priority)
        if self.policy not in (None, "lifo", "fifo"):
            raise FieldError("policy", f"must be lifo, fifo or None, not {self.policy!r}")


@dataclass(frozen=True, kw_only=True)
class Task:
    """One node of a graph.

    ``duration_s`` is the time on the compute units (COMPUTE), the time that passes without
    occupying anything (DELAY), or the time from the last chunk until dependents may start
    (COLLECTIVE: the local update). ``peer`` and ``tag`` match a SEND of ``size_bytes`` with its
    RECEIVE. A task starts when all tasks in ``after`` have ended; computations that are ready
    together run in the order of their numbers.
    """

    name: str
    kind: TaskKind
    after: tuple[int, ...] = ()
    duration_s: float = 0.0
    call: CollectiveCall | None = None
    peer: int | None = None
    tag: int = 0
    size_bytes: int = 0
    layer: int = -1
    phase: TrainingPhase = TrainingPhase.OTHER
    iteration: int = 0
    memory_bytes: int = 0

    def __post_init__(self) -> None:
        # Jobs have hundreds of thousands of tasks: one quick test passes those plainly valid.
        if not (
            type(self.duration_s) is float
            and 0 <= self.duration_s < MOST_NUMBER
            and type(self.size_bytes) is type(self.memory_bytes) is type(self.tag) is int
            and 0 <= self.size_bytes <= MOST_INTEGER
            and 0 <= self.memory_bytes <= MOST_INTEGER
            and 0 <= self.tag <= MOST_INTEGER
            and type(self.layer) is type(self.iteration) is int
            and -1 <= self.layer <= MOST_INTEGER
            and 0 <= self.iteration <= MOST_INTEGER
            and type(self.name) is str
            and type(self.kind) is TaskKind
            and type(self.phase) is TrainingPhase
            and (self.call is None or type(self.call) is CollectiveCall)
            and (self.peer is None or (type(self.peer) is int and 0 <= self.peer <= MOST_INTEGER))
        ):
            self._check()

    def _check(self) -> None:
        check_fields(self)
        check_at_least(self, 0, "duration_s", "size_bytes", "memory_bytes", "tag", "iteration")
        check_at_least(self, -1, "layer")
        check_at_least(self, 0, "peer", optional=True)


@dataclass(frozen=True, kw_only=True, repr=False)
class TaskGraph(Brief):
    """Tasks in an order in which each comes after all tasks that it waits for."""

    tasks: tuple[Task, ...]
    layers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        listed = isinstance(self.tasks, tuple) and all(type(each) is Task for each in self.tasks)
        check_type("tasks", self.tasks, "a tuple of Tasks", listed)
        for number, task in enumerate(self.tasks):
            for earlier in task.after:
                if not 0 <= earlier < number:
                    raise ValueError(
                        f"task {number} ({task.name!r}) waits for task {earlier}, which is not "
                        "before it"
                    )


@dataclass(frozen=True, kw_only=True, repr=False)
class Job(Brief):
    """The graphs of all NPUs: NPU i runs ``graphs[graph_of[i]]``; a single graph is for all.

    In every graph the n-th collective over the same dimensions is the same collective.

    ``shape`` holds the sizes of the logical dimensions to which the dimensions of the calls refer,
    dimension 0 varying fastest; None means the dimensions of the topology. It differs from the
    topology when a group of NPUs covers part of one dimension: 8 x 8 x 8 with groups of 4 becomes
    4 x 2 x 8 x 8, with ``topology_shape`` 8 x 8 x 8, the dimensions that it was made for; None:
    those of ``shape``.
    """

    name: str
    graphs: tuple[TaskGraph, ...]
    graph_of: tuple[int, ...] | None = None
    shape: tuple[int, ...] | None = None
    note: str = ""
    topology_shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check("graphs", self.graphs, "at least one TaskGraph", len(self.graphs) > 0)
        for name, least, most in (
            ("graph_of", 0, len(self.graphs) - 1),
            ("shape", 1, 1 << 26),
            ("topology_shape", 1, 1 << 26),
        ):
            values = getattr(self, name)
            if values is not None:
                low, high = min(values, default=least - 1), max(values, default=most + 1)
                ok = least <= low and high <= most
                what = f"integers from {least} to {most}, one at least"
                check(name, (low, high) if values else (), what, ok)


class GraphBuilder:
    """Collects tasks; every method returns the number of the new task."""

    def __init__(self, layers: Sequence[str] = ()) -> None:
        self._tasks: list[Task] = []
        ok = isinstance(layers, list | tuple) and all(isinstance(each, str) for each in layers)
        check_type("layers", layers, "a sequence of texts", ok)
        self._layers = tuple(layers)

    def add(
        self, name: str, kind: TaskKind, after: Iterable[int | None] = (), **values: object
    ) -> int:
        """Add a task after those given; None among them is ignored."""
        listed = isinstance(after, Iterable) and not isinstance(after, str | bytes | Mapping)
        waits = [task for task in after if task is not None] if listed else []
        if not listed or not all(isinstance(task, int) for task in waits):
            check_type("after", after, "a sequence of tasks, by their numbers", False)
        for task in waits:
            if not 0 <= task < len(self._tasks):
                allowed = f"of tasks from 0 to {len(self._tasks) - 1}, which are before it"
                raise FieldError("after", f"must be {allowed}, not {task}")
        once = tuple(sorted(set(waits)))
        self._tasks.append(Task(name=name, kind=kind, after=once, **values))  # type: ignore[arg-type]
        return len(self._tasks) - 1

    def graph(self) -> TaskGraph:
        return TaskGraph(tasks=tuple(self._tasks), layers=self._layers)

"""What an NPU does: computations and collectives, and what waits for what.

Every source of work, be it a text workload, an execution trace or a generator, becomes a
:class:`Job`. The simulator knows nothing else about workloads.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum

from sim.fields import FieldError, check, check_at_least, not_one_of

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
    """What a collective does. Sizes as in :class:`CollectiveCall`."""

    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"


class TaskKind(IntEnum):
    """What a task occupies: the compute units, the network, or nothing."""

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
        Of the vector of one NPU: all-reduce and reduce-scatter reduce that many bytes, all-gather
        starts from that many and ends with as many from everyone, all-to-all sends that many in
        equal parts, one to each member of the group (its own part included).
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
            if self.kind not in kinds:
                raise FieldError("kind", not_one_of(self.kind, kinds))
            object.__setattr__(self, "kind", kinds[self.kind])
        check_at_least(self, 0, "size_bytes")
        if self.dimensions is not None:
            allowed = "at least one dimension, each once, or None for all"
            once = len(set(self.dimensions)) == len(self.dimensions) > 0
            check("dimensions", self.dimensions, allowed, once)
        check("priority", self.priority, "an integer", isinstance(self.priority, int))
        if self.policy not in (None, "lifo", "fifo"):
            raise ValueError(f"policy must be lifo, fifo or None, not {self.policy!r}")


@dataclass(frozen=True, kw_only=True)
class Task:
    """One node of a graph.

    ``duration_s`` is the time on the compute units (COMPUTE), the time that passes without
    occupying anything (DELAY), or what follows the last chunk before dependents may start
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


@dataclass(frozen=True, kw_only=True)
class TaskGraph:
    """Tasks in an order in which each comes after all that it waits for."""

    tasks: tuple[Task, ...]
    layers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for number, task in enumerate(self.tasks):
            for earlier in task.after:
                if not 0 <= earlier < number:
                    raise ValueError(
                        f"task {number} ({task.name!r}) waits for task {earlier}, which is not "
                        "before it"
                    )


@dataclass(frozen=True, kw_only=True)
class Job:
    """The graphs of all NPUs: NPU i runs ``graphs[graph_of[i]]``; one graph is for all NPUs.

    In every graph the n-th collective over the same dimensions is the same collective.

    ``shape`` holds the sizes of the logical dimensions to which the dimensions of the calls refer,
    dimension 0 varying fastest; None means the dimensions of the topology. It differs from the
    topology when a group of NPUs covers part of one dimension: 8 x 8 x 8 with groups of 4 becomes
    4 x 2 x 8 x 8.
    """

    name: str
    graphs: tuple[TaskGraph, ...]
    graph_of: tuple[int, ...] | None = None
    shape: tuple[int, ...] | None = None
    note: str = ""


class GraphBuilder:
    """Collects tasks; every method returns the number of the new task."""

    def __init__(self, layers: Sequence[str] = ()) -> None:
        self._tasks: list[Task] = []
        self._layers = tuple(layers)

    def add(
        self, name: str, kind: TaskKind, after: Iterable[int | None] = (), **values: object
    ) -> int:
        """Add a task after those given; None among them is ignored."""
        waits = tuple(sorted({task for task in after if task is not None}))
        self._tasks.append(Task(name=name, kind=kind, after=waits, **values))  # type: ignore[arg-type]
        return len(self._tasks) - 1

    def graph(self) -> TaskGraph:
        return TaskGraph(tasks=tuple(self._tasks), layers=self._layers)

# SPDX-License-Identifier: Apache-2.0
"""Jobs made of Chakra execution traces.

| node | task | attributes used |
|---|---|---|
| COMP | computation; a delay if ``is_cpu_op`` | ``num_ops``, ``tensor_size`` (bytes) |
| MEM_LOAD, MEM_STORE | delay | ``tensor_size`` |
| COMM_COLL | collective | ``comm_type``, ``comm_size``, ``comm_priority``, ``pg_name``, |
| | | ``involved_dim`` |
| COMM_SEND | send | ``comm_size``, ``comm_dst``, ``comm_tag``, ``comm_src`` |
| COMM_RECV | receive | ``comm_size``, ``comm_src``, ``comm_tag``, ``comm_dst`` |
| all others | no time; dependencies pass through | none |

Data and control dependencies count alike. Other attributes have no effect, and a note says so.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

from sim.fields import FieldError
from sim.network.shapes import split_into
from sim.opened import opening
from sim.workload.chakra import ChakraError, CommType, NodeType, Trace, TraceNode, sorted_nodes
from sim.workload.chakra_file import read_trace
from sim.workload.compute_model import ComputeModel
from sim.workload.graph import (
    CollectiveCall,
    CollectiveKind,
    GraphBuilder,
    Job,
    TaskGraph,
    TaskKind,
)
from sim.workload.groups import Groups, common_shape, dimensions_of
from sim.workload.progress import check_progress
from sim.workload.reach import Dimensions, checked_shape, everywhere
from sim.workload.work import Work

__all__ = ["chakra_job", "read_traces"]

KINDS = {
    CommType.ALL_REDUCE: CollectiveKind.ALL_REDUCE,
    CommType.ALL_GATHER: CollectiveKind.ALL_GATHER,
    CommType.BROADCAST: CollectiveKind.BROADCAST,
    CommType.ALL_TO_ALL: CollectiveKind.ALL_TO_ALL,
    CommType.REDUCE_SCATTER: CollectiveKind.REDUCE_SCATTER,
    CommType.REDUCE_SCATTER_BLOCK: CollectiveKind.REDUCE_SCATTER,
}
OWN_NUMBER = {NodeType.COMM_SEND_NODE: "comm_src", NodeType.COMM_RECV_NODE: "comm_dst"}
USED = {
    NodeType.COMP_NODE: {"num_ops", "tensor_size", "is_cpu_op"},
    NodeType.MEM_LOAD_NODE: {"tensor_size"},
    NodeType.MEM_STORE_NODE: {"tensor_size"},
    NodeType.COMM_COLL_NODE: {"comm_type", "comm_size", "comm_priority", "pg_name", "involved_dim"},
    NodeType.COMM_SEND_NODE: {"comm_size", "comm_dst", "comm_tag", "comm_src"},
    NodeType.COMM_RECV_NODE: {"comm_size", "comm_src", "comm_tag", "comm_dst"},
}
"""Attributes that count, by the type of their node."""
ALWAYS_SO = {"is_cpu_op": False}
"""Attributes of nodes that are no computations, with values that carry no information."""
MOST_NAMED = 8
PARTICULAR = {"comm_src", "comm_dst", "pg_name"}
LARGEST_NUMBER = 2**63 - 1


def read_traces(path: str | Path, *, npus: int) -> tuple[Trace, ...]:
    """The traces of *npus* NPUs: one for all from a file, one each from a prefix.

    A prefix ``dir/name`` stands for the files ``dir/name.0.et``, ``dir/name.1.et`` and so on. NPUs
    with identical files share one trace object.
    """
    path = Path(path)
    if path.is_file():
        return (read_trace(path),) * npus
    files = [path.with_name(f"{path.name}.{npu}.et") for npu in range(npus)]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise ChakraError(
            f"{path}: {npus} NPUs need the file itself or {files[0].name} .. {files[-1].name}; "
            f"{missing[0].name} is missing"
        )
    known: dict[bytes, Trace] = {}
    traces = []
    for name in files:
        with opening(name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
        if digest not in known:
            known[digest] = read_trace(name)
        traces.append(known[digest])
    return tuple(traces)


def chakra_job(
    traces: Sequence[Trace],
    *,
    shape: Sequence[int],
    name: str = "trace",
    groups: Groups | None = None,
    compute: ComputeModel | None = None,
    memory_bytes_per_s: float | None = None,
    memory_latency_s: float = 0.0,
) -> Job:
    """The job of one trace per NPU.

    Parameters
    ----------
    shape
        Sizes of the dimensions of the topology, as many NPUs as there are traces.
    groups
        Members of the groups that ``pg_name`` refers to; its values "" and, unless defined, "0"
        mean all NPUs.
    compute
        Times computations that have ``num_ops`` (operations) and ``tensor_size`` (bytes); without
        it, and for others, the duration of the trace counts.
    memory_bytes_per_s, memory_latency_s
        Those of the memory behind MEM nodes without a duration.

    Raises
    ------
    ChakraError
        With trace and node: an attribute is missing or has no meaning, dependencies do not exist
        or form a cycle, NPUs disagree about a collective, a message has no counterpart, or NPUs
        would wait for each other for ever.
    """
    sizes = checked_shape(shape)
    if len(traces) != prod(sizes):
        raise FieldError(
            "traces", f"must be as many as the {prod(sizes)} NPUs of "
            f"{' x '.join(map(str, sizes))}, not {len(traces)}"
        )
    used = _used_groups(traces, groups or {})
    split = common_shape(sizes, used.values())
    maker = _Maker(
        groups={group: dimensions_of(members, split) for group, members in used.items()},
        members={group: frozenset(members) for group, members in used.items()},
        shape=split,
        parts=split_into(sizes, split),
        compute=compute,
        memory_bytes_per_s=memory_bytes_per_s,
        memory_latency_s=memory_latency_s,
    )
    graphs: list[TaskGraph] = []
    graph_of: list[int] = []
    known: dict[int, int] = {}
    for npu, trace in enumerate(traces):
        # NPUs with the same trace share its graph; attributes that depend on the NPU are checked.
        if id(trace) not in known:
            known[id(trace)] = len(graphs)
            graphs.append(maker.graph(trace))
        maker.check(trace, npu)
        graph_of.append(known[id(trace)])
    job = Job(
        name=name,
        graphs=tuple(graphs),
        graph_of=tuple(graph_of) if len(graphs) > 1 else None,
        shape=split,
        note=maker.note(),
        topology_shape=sizes,
    )
    check_progress(job, npus=len(traces))
    return job


def _used_groups(traces: Sequence[Trace], groups: Groups) -> dict[str, tuple[int, ...]]:
    used = {}
    for trace in {id(trace): trace for trace in traces}.values():
        for node in trace.nodes:
            group = node.attributes.get("pg_name", "")
            if node.type is not NodeType.COMM_COLL_NODE or group == "":
                continue
            if not isinstance(group, str) or (group not in groups and group != "0"):
                raise _error(
                    trace,
                    node,
                    f"pg_name must be one of the groups {', '.join(groups) or '(none)'}, "
                    f"not {group!r}",
                )
            if group in groups:
                used[group] = groups[group]
    return used


def _error(trace: Trace, node: TraceNode, what: str) -> ChakraError:
    return ChakraError(f"{trace.source}: node {node.id} ({node.name!r}): {what}")


class _Maker:
    def __init__(
        self,
        *,
        groups: Mapping[str, tuple[int, ...]],
        members: Mapping[str, frozenset[int]],
        shape: tuple[int, ...],
        parts: Sequence[tuple[int, ...]],
        compute: ComputeModel | None,
        memory_bytes_per_s: float | None,
        memory_latency_s: float,
    ) -> None:
        self._groups = groups
        self._members = members
        self._shape = shape
        self._parts = parts
        self._compute = compute
        self._memory_bytes_per_s = memory_bytes_per_s
        self._memory_latency_s = memory_latency_s
        self._passed: Counter[str] = Counter()
        self._without_time = 0
        self._without_effect: Counter[str] = Counter()
        # Nodes that do not suit every NPU, by the id of their trace.
        self._particular: dict[int, list[TraceNode]] = {}

    def note(self) -> str:
        """Note on the nodes of traces that take no time, and on attributes without effect; each
        different trace is counted once."""
        parts = [f"{count} {kind}" for kind, count in sorted(self._passed.items())]
        if self._without_time:
            parts.append(f"{self._without_time} computations without a duration")
        notes = [f"take no time: {', '.join(parts)}"] if parts else []
        if self._without_effect:
            named = self._without_effect.most_common(MOST_NAMED)
            more = len(self._without_effect) - len(named)
            listed = [f"{name} of {count} node{'s' * (count > 1)}" for name, count in named]
            listed += [f"{more} more"] if more else []
            notes.append(f"attributes without effect: {', '.join(listed)}")
        return "; ".join(notes)

    def graph(self, trace: Trace) -> TaskGraph:
        builder = GraphBuilder()
        number: dict[int, int] = {}
        for node in sorted_nodes(trace):
            kind, values = self._task(trace, node)
            self._without_effect.update(
                name
                for name, value in node.attributes.items()
                if name not in USED.get(node.type, ()) and ALWAYS_SO.get(name) is not value
            )
            after = [number[earlier] for earlier in (*node.data_deps, *node.ctrl_deps)]
            number[node.id] = builder.add(node.name, kind, after, **values)
        return builder.graph()

    def check(self, trace: Trace, npu: int) -> None:
        """Refuse a trace whose attributes do not fit the NPU that runs it."""
        if id(trace) not in self._particular:
            self._particular[id(trace)] = [
                node for node in trace.nodes if PARTICULAR.intersection(node.attributes)
            ]
        for node in self._particular[id(trace)]:
            own = OWN_NUMBER.get(node.type)
            if own is not None and node.attributes.get(own, npu) != npu:
                raise _error(trace, node, f"{own} must be NPU {npu}, not {node.attributes[own]!r}")
            if node.type is NodeType.COMM_COLL_NODE:
                group = str(node.attributes.get("pg_name", ""))
                if group in self._members and npu not in self._members[group]:
                    raise _error(trace, node, f"NPU {npu} is not in its group {group!r}")

    def _task(self, trace: Trace, node: TraceNode) -> tuple[TaskKind, dict[str, object]]:
        if node.type is NodeType.COMP_NODE:
            return self._computation(trace, node)
        if node.type in (NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE):
            return self._memory(trace, node)
        if node.type is NodeType.COMM_COLL_NODE:
            return TaskKind.COLLECTIVE, {"call": self._call(trace, node)}
        if node.type in (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE):
            sends = node.type is NodeType.COMM_SEND_NODE
            return TaskKind.SEND if sends else TaskKind.RECEIVE, {
                "peer": self._integer(
                    trace, node, "comm_dst" if sends else "comm_src", prod(self._shape) - 1
                ),
                "tag": self._integer(trace, node, "comm_tag", LARGEST_NUMBER, default=0),
                "size_bytes": self._integer(trace, node, "comm_size", LARGEST_NUMBER),
            }
        self._passed[node.type.name] += 1
        return TaskKind.DELAY, {}

    def _computation(self, trace: Trace, node: TraceNode) -> tuple[TaskKind, dict[str, object]]:
        on_host = node.attributes.get("is_cpu_op", False)
        kind = TaskKind.DELAY if on_host else TaskKind.COMPUTE
        flops = self._integer(trace, node, "num_ops", LARGEST_NUMBER, default=0)
        moved = self._integer(trace, node, "tensor_size", LARGEST_NUMBER, default=0)
        values: dict[str, object] = {"memory_bytes": moved}
        if self._compute is not None and flops and not on_host:
            values["duration_s"] = self._compute.time_s(Work(other_flops=flops, memory_bytes=moved))
        elif node.duration_us:
            values["duration_s"] = node.duration_us * 1e-6
        elif flops:
            raise _error(
                trace, node, "has num_ops but no duration, so it needs a compute model (compute)"
            )
        else:
            self._without_time += 1
        return kind, values

    def _memory(self, trace: Trace, node: TraceNode) -> tuple[TaskKind, dict[str, object]]:
        size = self._integer(trace, node, "tensor_size", LARGEST_NUMBER, default=0)
        duration_s = node.duration_us * 1e-6
        if not node.duration_us:
            if self._memory_bytes_per_s is None:
                raise _error(trace, node, "has no duration, so it needs memory_bytes_per_s")
            duration_s = self._memory_latency_s + size / self._memory_bytes_per_s
        return TaskKind.DELAY, {"duration_s": duration_s, "memory_bytes": size}

    def _call(self, trace: Trace, node: TraceNode) -> CollectiveCall:
        number = self._integer(trace, node, "comm_type", len(CommType) - 1)
        if CommType(number) not in KINDS:
            names = ", ".join(kind.name for kind in KINDS)
            raise _error(
                trace, node, f"comm_type must be one of {names}, not {CommType(number).name}"
            )
        return CollectiveCall(
            kind=KINDS[CommType(number)],
            size_bytes=self._integer(trace, node, "comm_size", LARGEST_NUMBER),
            dimensions=self._dimensions(trace, node),
            priority=self._integer(trace, node, "comm_priority", LARGEST_NUMBER, default=0),
        )

    def _dimensions(self, trace: Trace, node: TraceNode) -> Dimensions:
        group = str(node.attributes.get("pg_name", ""))
        if group in self._groups:
            return everywhere(self._groups[group], self._shape)
        involved = node.attributes.get("involved_dim")
        if involved is None:
            return None
        if not isinstance(involved, list) or len(involved) < len(self._parts):
            raise _error(
                trace,
                node,
                f"involved_dim must hold true or false for each of the {len(self._parts)} "
                f"dimensions, not {involved!r}",
            )
        # Traces are often written for more dimensions than a topology has.
        chosen = [
            dimension
            for takes_part, parts in zip(involved, self._parts, strict=False)
            if takes_part
            for dimension in parts
            if self._shape[dimension] > 1
        ]
        return everywhere(tuple(chosen), self._shape)

    def _integer(
        self, trace: Trace, node: TraceNode, name: str, most: int, default: int | None = None
    ) -> int:
        value = node.attributes.get(name, default)
        if value is None:
            raise _error(trace, node, f"{name} is missing")
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise _error(trace, node, f"{name} must be 0 .. {most}, not {value!r}")
        return value

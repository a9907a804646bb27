# SPDX-License-Identifier: Apache-2.0
"""Training jobs as Chakra traces, one file per NPU, for simulators that read nothing else.

Computations take whole microseconds there, at least one. What follows the last chunk of a
collective (a local update) is left out; it is below a microsecond in the files that are used.
"""

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from sim.workload.chakra import Attribute, CommType, NodeType, Trace, TraceNode
from sim.workload.chakra_file import write_trace
from sim.workload.graph import CollectiveKind, Task, TaskKind
from sim.workload.load import load_workload

__all__ = ["groups_of", "write_traces"]

KINDS = {
    CollectiveKind.ALL_REDUCE: CommType.ALL_REDUCE,
    CollectiveKind.REDUCE_SCATTER: CommType.REDUCE_SCATTER,
    CollectiveKind.ALL_GATHER: CommType.ALL_GATHER,
    CollectiveKind.ALL_TO_ALL: CommType.ALL_TO_ALL,
}
FIRST_REPLICA = 1000
ON_DEVICE: dict[str, Attribute] = {"is_cpu_op": False}


def write_traces(folder: Path, work: Mapping[str, Any], shape: Sequence[int]) -> str:
    """Write the traces of *work* on *shape* into *folder*; their common prefix.

    | key | what it is | further keys |
    |---|---|---|
    | ``collective`` | one, of that kind | ``size_bytes`` |
    | ``text`` | a bundled text workload | ``passes``, ``compute_scale`` and other options of it |
    | ``layers`` | that many equal layers forwards and backwards | those of `_layers` |
    | ``tensor`` | tensor-parallel groups of that many | those of `_split` |
    | ``microbatches`` | a pipeline of as many stages as NPUs | those of `_stage` |
    """
    npus = prod(shape)
    if "microbatches" in work:
        traces = [_stage(npu, npus, **work) for npu in range(npus)]
    elif "tensor" in work:
        traces = [_split(npu, **work) for npu in range(npus)]
    else:
        traces = [_same_for_all(work, shape)] * npus
    for npu, trace in enumerate(traces):
        write_trace(folder / f"work.{npu}.et", trace)
    return "work"


def _same_for_all(work: Mapping[str, Any], shape: Sequence[int]) -> Trace:
    if "collective" in work:
        kind = CollectiveKind(work["collective"])
        return Trace(nodes=(_collective(0, kind, work["size_bytes"], ()),))
    if "layers" in work:
        return _layers(**work)
    options = dict(work)
    job = load_workload(options.pop("text"), shape=shape, **options)
    nodes = [_node(number, task, shape) for number, task in enumerate(job.graphs[0].tasks)]
    return Trace(nodes=tuple(nodes))


def _node(number: int, task: Task, shape: Sequence[int]) -> TraceNode:
    if task.call is not None:
        involved = [task.call.dimensions is None or d in task.call.dimensions
                    for d in range(len(shape))]
        return _collective(
            number, task.call.kind, task.call.size_bytes, task.after, involved_dim=involved
        )
    assert task.kind is TaskKind.COMPUTE
    return _computation(number, max(1, round(task.duration_s * 1e6)), task.after)


def _computation(number: int, us: int, after: Sequence[int], **attributes: int) -> TraceNode:
    return TraceNode(
        id=number, name=f"compute {number}", type=NodeType.COMP_NODE, data_deps=tuple(after),
        duration_us=us, attributes={**ON_DEVICE, **attributes},
    )


def _collective(
    number: int, kind: CollectiveKind, size: int, after: Sequence[int], **attributes: Attribute
) -> TraceNode:
    call: dict[str, Attribute] = {"comm_type": int(KINDS[kind]), "comm_size": size}
    return TraceNode(
        id=number, name=kind.value, type=NodeType.COMM_COLL_NODE, data_deps=tuple(after),
        attributes={**ON_DEVICE, **call, **attributes},
    )


def _layers(
    *,
    layers: int,
    forward: str | None = None,
    backward: str | None = None,
    gradient: str | None = None,
    size_bytes: int,
    us: int = 0,
    num_ops: int = 0,
    tensor_size: int = 0,
) -> Trace:
    """Equal layers, forwards and then backwards with twice the work.

    Each pass of a layer takes *us*, or *num_ops* on *tensor_size* bytes. The collectives *forward*
    (before the layer, fetched while the one before computes) and *backward* (waited for by the
    next layer) are on the way, *gradient* only has to end with the step.
    """
    nodes: list[TraceNode] = []

    def compute(after: Sequence[int], times: int) -> int:
        work = {"num_ops": times * num_ops, "tensor_size": tensor_size} if num_ops else {}
        nodes.append(_computation(len(nodes), times * us, after, **work))
        return len(nodes) - 1

    def call(kind: str | None, after: Sequence[int]) -> list[int]:
        if kind is None:
            return []
        nodes.append(_collective(len(nodes), CollectiveKind(kind), size_bytes, after))
        return [len(nodes) - 1]

    last: list[int] = []
    fetched = call(forward, [])
    for layer in range(layers):
        ahead = call(forward, fetched) if layer < layers - 1 else []
        last, fetched = [compute([*last, *fetched], 1)], ahead
    for _ in range(layers):
        last = [compute(last, 2)]
        call(gradient, last)
        last = [*last, *call(backward, last)]
    return Trace(nodes=tuple(nodes))


def _split(
    npu: int, *, tensor: int, layers: int, activation_bytes: int, gradient_bytes: int, us: int
) -> Trace:
    """Layers split over neighbours, which add up activations after each pass and wait for the sum;
    gradients are added up with those that hold the same part of the model (`groups_of`)."""
    nodes: list[TraceNode] = []
    last: list[int] = []

    def add(group: int, size: int) -> int:
        nodes.append(_collective(
            len(nodes), CollectiveKind.ALL_REDUCE, size, last, pg_name=str(group)
        ))
        return len(nodes) - 1

    for times in (1, 2):
        for _ in range(layers):
            nodes.append(_computation(len(nodes), times * us, last))
            last = [len(nodes) - 1]
            if times == 2:
                add(1 + FIRST_REPLICA + npu % tensor, gradient_bytes)
            last = [add(1 + npu // tensor, activation_bytes)]
    return Trace(nodes=tuple(nodes))


def groups_of(work: Mapping[str, Any], npus: int) -> dict[str, list[int]]:
    """Members of the groups that the traces of *work* name; empty if they name none."""
    if "tensor" not in work:
        return {}
    tensor = work["tensor"]
    blocks = {
        str(1 + first // tensor): list(range(first, first + tensor))
        for first in range(0, npus, tensor)
    }
    replicas = {
        str(1 + FIRST_REPLICA + part): list(range(part, npus, tensor)) for part in range(tensor)
    }
    return blocks | replicas


def _stage(npu: int, npus: int, *, microbatches: int, us: int, size_bytes: int) -> Trace:
    """One NPU of a pipeline: all microbatches forwards, then all backwards with twice the work."""
    nodes: list[TraceNode] = []
    last: list[int] = []
    for direction, times in ((1, 1), (-1, 2)):
        first, final = (0, npus - 1) if direction == 1 else (npus - 1, 0)
        for batch in range(microbatches):
            tag = batch + (0 if direction == 1 else microbatches)
            if npu != first:
                nodes.append(_message(len(nodes), NodeType.COMM_RECV_NODE, npu - direction, npu,
                                      tag, size_bytes, []))
            received = [] if npu == first else [len(nodes) - 1]
            nodes.append(_computation(len(nodes), times * us, [*last, *received]))
            last = [len(nodes) - 1]
            if npu != final:
                nodes.append(_message(len(nodes), NodeType.COMM_SEND_NODE, npu, npu + direction,
                                      tag, size_bytes, last))
    return Trace(nodes=tuple(nodes))


def _message(
    number: int, kind: NodeType, source: int, target: int, tag: int, size: int, after: list[int]
) -> TraceNode:
    return TraceNode(
        id=number, name=f"{source} to {target}", type=kind, data_deps=tuple(after),
        attributes={**ON_DEVICE, "comm_src": source, "comm_dst": target, "comm_tag": tag,
                    "comm_size": size},
    )

# SPDX-License-Identifier: Apache-2.0
"""Chakra execution traces (MLCommons, ``et_def.proto``): the parts that are used.

A node's id, name, type, data and control dependencies, duration and attributes are read;
start times, inputs, outputs and storage details are skipped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import TypeAlias

__all__ = [
    "Attribute",
    "ChakraError",
    "CommType",
    "NodeType",
    "Trace",
    "TraceNode",
    "sorted_nodes",
]

Attribute: TypeAlias = bool | int | float | str | bytes | list[bool] | list[int] | list[float]


class ChakraError(ValueError):
    """A trace that cannot be used; the text starts with the file and, if known, byte or node."""


class NodeType(IntEnum):
    """Types of nodes, as in the schema."""

    INVALID_NODE = 0
    METADATA_NODE = 1
    MEM_LOAD_NODE = 2
    MEM_STORE_NODE = 3
    COMP_NODE = 4
    COMM_SEND_NODE = 5
    COMM_RECV_NODE = 6
    COMM_COLL_NODE = 7
    STORAGE_NODE = 8
    BATCH_NODE = 9
    CHECKPOINT_NODE = 10


class CommType(IntEnum):
    """Kinds of collectives, as in the schema."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


@dataclass(frozen=True, kw_only=True)
class TraceNode:
    """One operation; `duration_us` in whole microseconds, as the schema has it."""

    id: int
    name: str
    type: NodeType
    data_deps: tuple[int, ...] = ()
    ctrl_deps: tuple[int, ...] = ()
    duration_us: int = 0
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The operations of one NPU. `source` names it in errors."""

    nodes: tuple[TraceNode, ...]
    version: str = "0.0.4"
    source: str = "trace"


def sorted_nodes(trace: Trace) -> list[TraceNode]:
    """The nodes, each after those that it depends on, otherwise by their ids.

    Raises
    ------
    ChakraError
        If ids repeat, dependencies do not exist or form a cycle.
    """
    by_id: dict[int, TraceNode] = {}
    for node in trace.nodes:
        if node.id in by_id:
            raise ChakraError(f"{trace.source}: two nodes have the id {node.id}")
        by_id[node.id] = node
    waiting: dict[int, int] = {}
    followers: dict[int, list[int]] = {}
    for node in trace.nodes:
        needed = {*node.data_deps, *node.ctrl_deps}
        for earlier in needed:
            if earlier not in by_id:
                raise ChakraError(
                    f"{trace.source}: node {node.id} ({node.name!r}) depends on node {earlier}, "
                    "which does not exist"
                )
            followers.setdefault(earlier, []).append(node.id)
        waiting[node.id] = len(needed)
    ready = [node for node, count in waiting.items() if count == 0]
    heapify(ready)
    order: list[TraceNode] = []
    while ready:
        done = heappop(ready)
        order.append(by_id[done])
        for follower in followers.get(done, ()):
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heappush(ready, follower)
    if len(order) < len(trace.nodes):
        cycle = _cycle(by_id, {node for node, count in waiting.items() if count > 0})
        text = " -> ".join(str(node) for node in cycle)
        raise ChakraError(f"{trace.source}: dependencies form a cycle: {text}")
    return order


def _cycle(by_id: Mapping[int, TraceNode], stuck: set[int]) -> list[int]:
    # Every stuck node depends on a stuck node, so walking up must come back.
    node = min(stuck)
    seen: dict[int, int] = {}
    path: list[int] = []
    while node not in seen:
        seen[node] = len(path)
        path.append(node)
        deps = (*by_id[node].data_deps, *by_id[node].ctrl_deps)
        node = next(earlier for earlier in deps if earlier in stuck)
    return [*path[seen[node] :], node]

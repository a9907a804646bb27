# SPDX-License-Identifier: Apache-2.0
"""Matching of SEND and RECEIVE tasks."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.network.network import Channel, Network
from sim.workload.graph import Job, Task, TaskKind

__all__ = ["Transfer", "channels_of", "match_transfers"]


class Transfer(NamedTuple):
    """A message between two tasks, given by their numbers in the graphs of their nodes."""

    source: int
    send: int
    goal: int
    receive: int
    size_bytes: int


def match_transfers(job: Job, graph_of: NDArray[np.int32]) -> list[Transfer]:
    """The n-th SEND of a node to another with a tag goes to its n-th RECEIVE with that tag.

    Raises
    ------
    ValueError
        Where one is missing, sizes differ, or there is no such node.
    """
    ends: dict[tuple[int, int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    with_messages = [
        [
            (number, task)
            for number, task in enumerate(graph.tasks)
            if task.kind in (TaskKind.SEND, TaskKind.RECEIVE)
        ]
        for graph in job.graphs
    ]
    for node, graph in enumerate(graph_of.tolist()):
        for number, task in with_messages[graph]:
            peer = task.peer
            if peer is None or not 0 <= peer < len(graph_of):
                raise ValueError(
                    f"task {number} ({task.name!r}) of node {node}: peer must be a node from 0 to "
                    f"{len(graph_of) - 1}, not {peer}"
                )
            if task.kind is TaskKind.SEND:
                ends[node, peer, task.tag][0].append(number)
            else:
                ends[peer, node, task.tag][1].append(number)
    found = []
    for (source, goal, tag), (sends, receives) in sorted(ends.items()):
        of_source = job.graphs[graph_of[source]].tasks
        of_goal = job.graphs[graph_of[goal]].tasks
        if len(sends) != len(receives):
            raise ValueError(_unmatched(source, goal, tag, sends, receives, of_source, of_goal))
        for send, receive in zip(sends, receives):
            size, awaited = of_source[send].size_bytes, of_goal[receive].size_bytes
            if awaited not in (0, size):
                raise ValueError(
                    f"task {receive} ({of_goal[receive].name!r}) of node {goal} waits for "
                    f"{awaited} bytes, but node {source} sends {size} (tag {tag})"
                )
            found.append(
                Transfer(source=source, send=send, goal=goal, receive=receive, size_bytes=size)
            )
    return found


def _unmatched(
    source: int,
    goal: int,
    tag: int,
    sends: list[int],
    receives: list[int],
    of_source: Sequence[Task],
    of_goal: Sequence[Task],
) -> str:
    """The first task without a partner."""
    pairs = f"from node {source} to node {goal} with tag {tag}"
    if len(sends) > len(receives):
        task = of_source[sends[len(receives)]]
        lone, other = f"SEND {task.name!r}", "RECEIVE"
    else:
        task = of_goal[receives[len(sends)]]
        lone, other = f"RECEIVE {task.name!r}", "SEND"
    return f"{lone} has no {other}: {pairs} there are {len(sends)} SEND and {len(receives)} RECEIVE"


def channels_of(network: Network, transfers: Sequence[Transfer]) -> list[tuple[Channel, list[int]]]:
    """Channels in which every node sends to one other at most, and the transfers of each."""
    pairs: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, transfer in enumerate(transfers):
        pairs[transfer.source, transfer.goal].append(number)
    peers: list[NDArray[np.int64]] = []
    members: list[list[int]] = []
    partners: dict[int, int] = defaultdict(int)
    for (source, goal), numbers in pairs.items():
        place = partners[source]
        partners[source] += 1
        if place == len(peers):
            peers.append(np.full(network.nodes, -1))
            members.append([])
        peers[place][source] = goal
        members[place] += numbers
    nodes = np.arange(network.nodes)
    return [
        (Channel(peer=peer, links=network.routes(nodes, np.where(peer < 0, nodes, peer))), numbers)
        for peer, numbers in zip(peers, members)
    ]

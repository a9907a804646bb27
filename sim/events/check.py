# SPDX-License-Identifier: Apache-2.0
"""Conservation: checks after a run that nothing was lost, doubled or left behind."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sim.collectives.program import Phase, Send, relays_of
from sim.events.kernel import constants
from sim.events.lower import Lowered
from sim.events.transfers import channels_of
from sim.network.network import Network

__all__ = ["messages_due", "what_is_wrong"]

Indices = NDArray[np.int64]


def what_is_wrong(network: Network, lowered: Lowered, end_fs: int) -> str | None:
    """Return None if everything balances, else a text that names what does not.

    The kernel itself compares, when a chunk has ended on all nodes, the messages that each node
    got in each phase with those that the programs of the others send. Checked here, after the run:
    every link has carried the bytes of the messages whose routes lead over it, each call has sent
    as many messages in each phase as its programs say, no link was busy for longer than the run,
    and every queue, room, virtual channel and record is free again.
    """
    s = lowered.state
    busiest = int(s.link["busy"].max(initial=0))
    if s.numbers[constants.SHARED_LINKS] and busiest > max(end_fs, int(s.numbers[constants.NOW])):
        return f"a link was busy for {busiest} fs in a run of {end_fs} fs"
    link_bytes, messages = _link_bytes_due(network, lowered), messages_due(network, lowered)
    wrong = np.flatnonzero(link_bytes != s.link["bytes"])
    if len(wrong):
        link = int(wrong[0])
        return f"link {link} carried {s.link['bytes'][link]} bytes, not {link_bytes[link]}"
    sent = s.messages.reshape(-1, lowered.columns)[: len(messages)]
    if not np.array_equal(sent, messages):
        call, column = np.argwhere(sent != messages)[0].tolist()
        return f"{sent[call, column]} messages in phase {column} of call {call}, not " + str(
            messages[call, column]
        )
    left = {
        "chunks in a scheduling queue": s.queue_used.any() or (s.queue_head >= 0).any(),
        "contexts": s.pool_used.any(),
        "collectives in a stream": (s.stream_task >= 0).any(),
        "bytes in a partition": s.partition_used.any(),
        "messages in switches": s.relay_counts.any(),
        "entries of tables": (s.pools["left"] != s.pools["most"]).any(),
        "chunks on a node": s.nodes["chunks"].any(),
        "records of chunks in use": s.numbers[constants.FREE_SLOTS] != len(s.free_slots),
        "computations": (s.nodes["busy"] >= 0).any() or (s.nodes["task_head"] >= 0).any(),
    }
    p = lowered.packets
    if p is not None:
        left["packets"] = (p.ports["first"] >= 0).any() or (p.wires["first"] >= 0).any()
        left["taken virtual channels"] = not np.array_equal(p.lanes["free"], p.lanes["places"])
    for name, is_left in left.items():
        if is_left:
            return f"{name} are left at the end"
    return None


def messages_due(network: Network, lowered: Lowered) -> Indices:
    """Messages that every call (row) sends in every phase (column), from plans and chunks alone."""
    messages = np.zeros((len(lowered.calls), lowered.columns), np.int64)
    for kind, number, row, phase in _phases_of_chunks(lowered):
        record = lowered.state.phases[row]
        often = int(record["messages"]) * number
        for send, chosen, times in _sends(network, phase):
            legs = _legs(network, lowered, send.channel.links[:, chosen])
            messages[kind["call"], record["column"]] += often * times * legs
    return messages // network.nodes if lowered.folded else messages


def _phases_of_chunks(lowered: Lowered) -> Iterator[tuple[np.void, int, int, Phase]]:
    """Every phase of every kind of chunk: the chunk, number of such chunks, row and phase."""
    chunks = lowered.state.chunks[: lowered.chunks.sum()]
    kinds, times = np.unique(chunks[["call", "phase", "phases", "size_bytes"]], return_counts=True)
    for kind, number in zip(kinds, times.tolist()):
        for row in range(kind["phase"], kind["phase"] + kind["phases"]):
            phase = lowered.phases[row]
            assert phase is not None
            yield kind, number, row, phase


def _link_bytes_due(network: Network, lowered: Lowered) -> Indices:
    """Bytes for every link."""
    s = lowered.state
    link_bytes = np.zeros(len(network.link_source), np.int64)
    for kind, number, row, phase in _phases_of_chunks(lowered):
        count = int(s.phases[row]["messages"])
        for send, chosen, often in _sends(network, phase):
            size = float(kind["size_bytes"]) * send.fraction / count
            _carry(link_bytes, send.channel.links[:, chosen], size, often * count * number)
    for channel, numbers in channels_of(network, lowered.transfers):
        for number in numbers:
            transfer = lowered.transfers[number]
            chunk = s.chunks[int(s.numbers[constants.FIRST_TRANSFER]) + number]
            count = int(s.phases[chunk["phase"]]["messages"])
            size = transfer.size_bytes / count
            _carry(link_bytes, channel.links[:, transfer.source], size, count)
    if lowered.folded:
        _, kind_of_link = network.link_classes()
        _, first = np.unique(kind_of_link, return_index=True)
        return link_bytes[first]
    return link_bytes


def _sends(network: Network, phase: Phase) -> Iterator[tuple[Send, Indices, int]]:
    """Every send of a phase, the nodes or switches that make it, and the times that they do."""
    role = np.zeros(network.nodes, np.int64) if phase.role is None else phase.role
    for number, program in enumerate(phase.programs):
        for segment in program.segments:
            for sends in segment.sends:
                for send in sends:
                    chosen = (role == number) & (send.channel.peer[: network.nodes] >= 0)
                    times = segment.steps if len(segment.sends) == 1 else 1
                    yield send, np.flatnonzero(chosen), times
    for relay in relays_of(phase):
        for send in relay.sends:
            yield send, np.flatnonzero((relay.needs > 0) & (send.channel.peer >= 0)), 1


def _carry(link_bytes: Indices, links: Indices, size: float, often: int) -> None:
    """Messages of a size on all links of their routes, rounded up to bytes as the kernel does."""
    np.add.at(link_bytes, links[links >= 0], math.ceil(size - 1e-6) * often)


def _legs(network: Network, lowered: Lowered, links: Indices) -> int:
    """Messages from node to node that it takes to send one along each of the routes."""
    if not lowered.software:
        return len(links.T)
    at_node = (links >= 0) & (network.link_target[links] < network.nodes)
    return int(np.maximum(at_node.sum(axis=0), 1).sum())

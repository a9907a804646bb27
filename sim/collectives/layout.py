# SPDX-License-Identifier: Apache-2.0
"""Where the blocks of each phase of a plan lie in the nodes' vectors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.collectives.phases import group_ranks
from sim.collectives.program import Phase
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = ["Layout"]

Rows = NDArray[np.int64]


class Layout:
    """Numbered pieces of a chunk: between the cuts of all phases; in an all-gather the members'
    vectors, in an all-to-all (origin, destination) in one number.

    ``blocks[phase][node][block]`` are the pieces of a block as the node's group counts them,
    ``final[phase][node]`` those that the node has at the end of the phase.
    """

    def __init__(
        self,
        network: Network,
        phases: Sequence[Phase],
        kind: CollectiveKind,
        dimensions: Sequence[int],
        rank: Rows,
        elements: int,
    ) -> None:
        self.phases = phases
        self.kind = kind
        self.members = int(rank.max()) + 1
        self.rank = rank
        self.elements = elements
        at = [network.coordinates[d] for d in dimensions]
        place = {int(r): n for n, r in reversed(list(enumerate(rank)))}
        # Coordinates of a member of the group in each dimension.
        self._goals = {
            d: np.array([here[place[r]] for r in range(self.members)])
            for d, here in zip(dimensions, at)
        }
        if kind is CollectiveKind.ALL_GATHER:
            held = [np.array([r]) for r in rank]
        elif kind is CollectiveKind.ALL_TO_ALL:
            held = [r * self.members + np.arange(self.members) for r in rank]
        else:
            held = [np.arange(elements)] * network.nodes
        self.ranks = [group_ranks(network, phase.group) for phase in phases]
        rows: list[list[list[Rows]]] = []
        finals = []
        for phase, ranks in zip(phases, self.ranks):
            others = [d for d in range(len(network.shape)) if d not in phase.group]
            group = group_ranks(network, others)
            blocks: list[list[Rows]] = [[]] * network.nodes
            for number in range(int(group.max()) + 1):
                nodes = np.flatnonzero(group == number)
                nodes = nodes[np.argsort(ranks[nodes])]
                made = self._cut(network, phase, nodes, [held[node] for node in nodes])
                for member, node in enumerate(nodes):
                    blocks[node] = made
                    held[node] = _kept(phase.kind, made, member, len(nodes))
            rows.append(blocks)
            finals.append(list(held))
        self._starts = self._pieces_of(rows)
        # The nodes of a group share their blocks: members times members of an all-to-all.
        shared = {id(of): of for blocks in rows for of in blocks}
        numbered = {key: [self._numbers(b) for b in of] for key, of in shared.items()}
        self.blocks = [[numbered[id(of)] for of in blocks] for blocks in rows]
        self.final = [[set(self._numbers(part)) for part in parts] for parts in finals]

    def _cut(
        self, network: Network, phase: Phase, nodes: Rows, held: list[Rows]
    ) -> list[Rows]:
        if phase.kind is CollectiveKind.ALL_GATHER:
            return held
        if phase.kind is not CollectiveKind.ALL_TO_ALL:
            return list(np.array_split(held[0], len(nodes)))
        blocks = []
        sizes = [network.shape[d] for d in phase.group]
        places = np.ravel_multi_index([network.coordinates[d][nodes] for d in phase.group], sizes)
        for origin in held:
            goals = [self._goals[d][origin % self.members] for d in phase.group]
            goal = np.ravel_multi_index(goals, sizes)
            order = np.argsort(goal, kind="stable")
            first = np.searchsorted(goal[order], places, "left")
            end = np.searchsorted(goal[order], places, "right")
            blocks += [origin[order[a:b]] for a, b in zip(first, end)]
        return blocks

    def _pieces_of(self, rows: list[list[list[Rows]]]) -> Rows:
        """First element of each piece of a vector that phases cut, and the end of the last."""
        if self.kind in (CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL):
            return np.zeros(0, np.int64)
        cuts = {0, self.elements}
        done: set[int] = set()
        for blocks in rows:
            for of in blocks:
                if id(of) not in done:
                    done.add(id(of))
                    cuts.update(int(b[0]) for b in of if len(b))
                    cuts.update(int(b[-1]) + 1 for b in of if len(b))
        return np.array(sorted(cuts))

    def _numbers(self, rows: Rows) -> list[int]:
        """Numbers of the pieces that rows of the chunk consist of."""
        if not len(self._starts):
            return [int(row) for row in rows]
        if not len(rows):
            return []
        first, end = np.searchsorted(self._starts, (rows[0], rows[-1] + 1))
        return list(range(first, end))

    def pieces(self, node: int, data: NDArray[Any]) -> dict[int, NDArray[Any]]:
        """Pieces that a node begins with."""
        if self.kind is CollectiveKind.ALL_GATHER:
            return {int(self.rank[node]): data}
        if self.kind is CollectiveKind.ALL_TO_ALL:
            return {int(self.rank[node]) * self.members + n: part for n, part in enumerate(data)}
        return {n: data[self.place(n)] for n in range(len(self._starts) - 1)}

    def place(self, piece: int) -> Any:
        """Index of a piece in the result."""
        if self.kind is CollectiveKind.ALL_TO_ALL:
            return piece // self.members
        if self.kind is CollectiveKind.ALL_GATHER:
            return piece
        return slice(self._starts[piece], self._starts[piece + 1])


def _kept(kind: CollectiveKind, blocks: list[Rows], member: int, members: int) -> Rows:
    """Rows that a member has at the end of a phase."""
    if kind is CollectiveKind.REDUCE_SCATTER:
        return blocks[member]
    if kind is CollectiveKind.ALL_TO_ALL:
        blocks = blocks[member::members]
    return np.sort(np.concatenate(blocks))

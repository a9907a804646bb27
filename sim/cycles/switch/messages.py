# SPDX-License-Identifier: Apache-2.0
"""Software instead of in-switch reduction, in the same network: ring and double binary tree."""

from dataclasses import dataclass, field

import numpy as np

from hw.switch.config import SwitchConfig
from hw.switch_dma.config import SwitchDmaConfig
from sim.collectives.tree import binary_trees
from sim.cycles.switch.fabric import Fabric
from sim.cycles.switch.model import SwitchNetwork, SwitchSettings

__all__ = ["MessageModel", "MessageProgram", "ring_messages", "tree_messages"]


@dataclass(kw_only=True)
class MessageProgram:
    """Messages of an all-reduce: who sends which to whom, and after which others.

    ``sizes`` in bytes; ``after`` are pairs of a message and one that waits for it, which the target
    of the former sends.
    """

    source: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    after: list[tuple[int, int]] = field(default_factory=list)

    def send(self, source: int, target: int, size: int, *after: int) -> int:
        """Another message, behind those of *after*; returns its number."""
        number = len(self.source)
        self.source.append(source)
        self.target.append(target)
        self.sizes.append(size)
        self.after += [(each, number) for each in after]
        return number


def _pieces(size: int, most: int) -> list[int]:
    """A size in equal parts of at most *most* bytes."""
    count = max(1, -(-size // most))
    return [size // count + (k < size % count) for k in range(count)]


def ring_messages(
    endpoints: int, size_bytes: int, *, channels: int, chunk_bytes: int
) -> MessageProgram:
    """Ring all-reduce: each channel has its part of the vector, and goes over it in rounds of
    *endpoints* chunks of at most *chunk_bytes*."""
    p, program = endpoints, MessageProgram()
    for part in _pieces(size_bytes, -(-size_bytes // channels)):
        last: list[int] = []  # by target: the message that ends its round
        for piece in _pieces(part, p * chunk_bytes):
            chunk = -(-piece // p)
            at = [program.send(r, (r + 1) % p, chunk, *last[r : r + 1]) for r in range(p)]
            for _ in range(2 * p - 3):
                at = [program.send(r, (r + 1) % p, chunk, at[r - 1]) for r in range(p)]
            last = [at[r - 1] for r in range(p)]
    return program


def tree_messages(
    endpoints: int, size_bytes: int, *, channels: int, chunk_bytes: int
) -> MessageProgram:
    """Double binary tree: chunks up and down one of two trees by turns. A leaf has at most
    *channels* chunks under way in each tree."""
    program = MessageProgram()
    shapes = []
    for parent, left, right in binary_trees(endpoints):
        children = [[each for each in pair if each >= 0] for pair in zip(left, right)]
        order = [parent.index(-1)]
        for node in order:
            order += children[node]
        shapes.append((parent, children, order))
    came: list[list[list[int]]] = []  # by piece and endpoint: the messages that brought it down
    for number, piece in enumerate(_pieces(size_bytes, chunk_bytes)):
        parent, children, order = shapes[number % 2]
        down: list[list[int]] = [[] for _ in range(endpoints)]
        earlier = number - 2 * channels
        ups: dict[int, int] = {}
        for node in reversed(order[1:]):
            before = [ups[child] for child in children[node]]
            if not before and earlier >= 0:
                before = came[earlier][node]
            ups[node] = program.send(node, parent[node], piece, *before)
        root = order[0]
        for node in order:
            before = down[node] if node != root else [ups[child] for child in children[root]]
            for child in children[node]:
                down[child] = [program.send(node, child, piece, *before)]
        came.append(down)
    return program


class MessageModel(SwitchNetwork):
    """Endpoints whose software sends messages through the switches; cycles only.

    Packets go from endpoint to endpoint in the class of partials. A message's packets are dealt out
    to all links. Switches have no kind for ordinary traffic; packets are those of a partial.

    Parameters
    ----------
    switch, dma, fabric, around
        See `SwitchNetwork`.
    program : Program
    fence : bool
        Data, then a flag that is sent when all data were acknowledged; else data bring their flag.
    share : float
        Part of a packet's data that is the message; the rest are flags.
    work_cycles : int
        Cycles from the arrival of a message to the first packet of one that waits for it.
    """

    def __init__(
        self, switch: SwitchConfig, dma: SwitchDmaConfig, fabric: Fabric, around: SwitchSettings,
        program: MessageProgram, *, fence: bool = True, share: float = 1.0, work_cycles: int = 0,
    ) -> None:
        members = len(fabric.places)
        source, target = np.array(program.source), np.array(program.target)
        comes = np.bincount(target, minlength=members)
        most = int(max(comes.max(), np.bincount(source, minlength=members).max()))
        super().__init__(
            switch, dma, fabric, around, jobs=0, messages=len(source), follow=len(program.after),
            most=most,
        )
        s = self.state
        s.c["messages"], s.c["fence"], s.c["work"] = len(source), fence, work_cycles
        room = share * dma.payload_bytes * dma.links
        s.message["source"], s.message["target"] = source, target
        s.message["packets"] = np.maximum(1, np.ceil(np.array(program.sizes) / room))
        after = np.array(program.after, np.int64).reshape(-1, 2)
        order = np.argsort(after[:, 0], kind="stable")
        s.follow[:] = after[order, 1]
        ends = np.cumsum(np.bincount(after[:, 0], minlength=len(source)))
        s.message["follow_at"], s.message["follow_end"] = np.append(0, ends[:-1]), ends
        s.message["waits"] = np.bincount(after[:, 1], minlength=len(source))
        for number in np.flatnonzero(s.message["waits"] == 0):
            p = s.endpoint[source[number]]
            s.ready[source[number], p["ready"]] = number
            p["ready"] += 1
        s.endpoint["missing"] = comes

    @property
    def done(self) -> bool:
        """True when all messages have arrived."""
        return not self.state.endpoint["missing"].any()

    @property
    def cycles(self) -> int:
        """Cycles until all messages had arrived."""
        return self._now

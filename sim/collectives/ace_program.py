"""A program of ACE as one value: code of every FSM, cut of the vectors, order of the additions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.ace.config import ELEMENT_BYTES, AceConfig
from hw.fp.ops import ReduceOp
from hw.link.packet import FLIT_BYTES
from sim.collectives.fsm_program import (
    PROGRAM_ENTRY,
    FsmProgram,
    program_words,
    ring_program,
)
from sim.collectives.golden import direction_of, ring_all_reduce, ring_partials
from sim.collectives.partition import Partition
from sim.workload.graph import CollectiveKind

__all__ = ["PROGRAM_ENTRY", "AceProgram"]


@dataclass(frozen=True, kw_only=True)
class AceProgram:
    """Code, cut and order of additions of a group of engines, the same value on all of them.

    Drivers, cycle models and golden results take everything from here; how vectors are cut and
    which way data travel is known to this package alone.

    Parameters
    ----------
    config : AceConfig
    nodes : int
        Ranks, at least 2.
    queues : int
        FSMs in use.
    bidirectional : bool
        FSMs with odd numbers run the ring backwards.
    """

    config: AceConfig
    nodes: int
    queues: int
    bidirectional: bool = True

    # ---- Code.

    def direction(self, fsm: int) -> int:
        """1 if the data of an FSM travel to higher ranks, -1 if to lower ones."""
        return direction_of(fsm, queues=self.queues, bidirectional=self.bidirectional)

    def code(
        self, collective: CollectiveKind, *, direction: int, rank: int,
        ports: tuple[int, int] = (0, 1),
    ) -> FsmProgram:
        """Instructions of a rank (modulo the size of the group) for one direction; *ports*: links
        to the next and the previous rank."""
        return _code(collective, direction, rank % self.nodes, self.nodes, ports)

    def words(
        self, fsm: int, *, rank: int, ports: tuple[int, int] = (0, 1)
    ) -> dict[int, int]:
        """Program store of an FSM, address to word.

        Raises
        ------
        ValueError
            If the programs do not fit it, or have more steps than a packet can name.
        """
        return program_words(
            self.config, rank=rank, nodes=self.nodes, direction=self.direction(fsm), ports=ports
        )

    # ---- Cut of a vector.

    def cut(self, elements: int, *, block: int | None = None) -> Partition:
        """Shards and blocks of a vector of *elements*; *block* None: chosen.

        Raises
        ------
        ValueError
            For no elements, or a *block* that does not fit.
        """
        c = self.config
        return Partition.plan(
            elements, self.nodes, queues=self.queues, lanes=c.lanes,
            packet_elements=c.packet_elements, slot_elements=c.slot_elements, block=block,
        )

    def settings(self, elements: int, *, block: int | None = None) -> dict[str, int]:
        """The cut as the registers of a command have it."""
        return self.cut(elements, block=block).settings

    def shard(self, elements: int, rank: int, *, block: int | None = None) -> slice:
        """Elements that a rank owns; may be empty."""
        return self.cut(elements, block=block).shard(rank)

    def most_flits(self, elements: int, *, block: int | None = None) -> int:
        """Upper bound of the flits that a node sends for a command, READY packets included."""
        cut, c = self.cut(elements, block=block), self.config
        packets = -(-cut.block // c.packet_elements)
        payload = cut.stride * ELEMENT_BYTES // FLIT_BYTES
        return 2 * (self.nodes - 1) * (payload + cut.chunks * packets) + 4 * cut.chunks + 64

    def packet(
        self, elements: int, *, block: int | None, chunk: int, owner: int, offset: int
    ) -> slice:
        """Elements of packet *offset* of the block of a chunk that rank *owner* owns."""
        cut, size = self.cut(elements, block=block), self.config.packet_elements
        first = owner * cut.stride + chunk * cut.block
        last = min(first + min(cut.block, cut.stride - chunk * cut.block), elements)
        start = first + offset * size
        return slice(start, max(start, min(last, start + size)))

    # ---- Results.

    def all_reduced(
        self, arrays: Sequence[NDArray[Any]], *, op: ReduceOp, block: int | None = None
    ) -> NDArray[Any]:
        """The vector that every rank holds after an all-reduce, bit for bit."""
        cut = self.cut(len(arrays[0]), block=block)
        return ring_all_reduce(arrays, cut, op=op, bidirectional=self.bidirectional)

    def partials(
        self, arrays: NDArray[Any], *, rank: int, op: ReduceOp, block: int | None = None
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Partial results that arrive at a rank and leave it, and the final ones, bit for bit."""
        cut = self.cut(np.shape(arrays)[1], block=block)
        return ring_partials(arrays, cut, rank=rank, op=op, bidirectional=self.bidirectional)


@lru_cache(maxsize=4096)
def _code(
    collective: CollectiveKind, direction: int, rank: int, nodes: int, ports: tuple[int, int]
) -> FsmProgram:
    to_port, from_port = ports if direction == 1 else ports[::-1]
    return ring_program(
        collective, rank=rank, nodes=nodes, direction=direction, to_port=to_port,
        from_port=from_port,
    )

# SPDX-License-Identifier: Apache-2.0
"""The engines' cut of a vector into blocks. Every node computes the same cut."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hw.smartnic.config import SmartNicConfig
from sim.fields import FieldError

__all__ = ["NicPartition", "Partition"]


@dataclass(frozen=True, kw_only=True)
class Partition:
    """ACE's cut of a vector of ``elements`` for ``nodes`` ranks.

    Rank ``r`` owns shard ``r``: ``stride`` elements from ``r * stride`` on, as far as the vector
    goes. Chunk ``n`` is the ``n``-th piece of ``block`` elements of every shard: a chunk is one
    block per rank. It is handled by FSM ``n % queues``.

    A *contiguous* cut has no shards: chunk ``n`` is the ``n``-th piece of ``stride`` elements of
    the vector, that is of ``nodes`` blocks one behind the other.

    Parameters
    ----------
    elements : int
        Length of the whole vector, at least 1.
    nodes : int
        Ranks, at least 2.
    stride : int
        Elements from one shard to the next, or of a contiguous chunk.
    block : int
        Elements of a block, the last one of a shard may be shorter.
    queues : int
        FSMs that share the chunks.
    contiguous : bool
    """

    elements: int
    nodes: int
    stride: int
    block: int
    queues: int
    contiguous: bool = False

    @classmethod
    def plan(
        cls,
        elements: int,
        nodes: int,
        *,
        queues: int,
        lanes: int,
        packet_elements: int,
        slot_elements: int,
        most: int | None = None,
        block: int | None = None,
        contiguous: bool = False,
    ) -> "Partition":
        """Choose shards of whole beats, and blocks that fit a slot, have at most *most* elements
        and keep all FSMs busy.

        Raises
        ------
        ValueError
            For fewer than 2 nodes, no elements, or a *block* that does not fit.
        """
        if nodes < 2:
            raise FieldError("nodes", f"must be at least 2, not {nodes!r}")
        if elements < 1:
            raise FieldError("elements", f"must be at least 1, not {elements!r}")
        stride = _round_up(-(-elements // nodes), lanes)
        room = slot_elements // nodes
        largest = (room if most is None else min(room, most)) // lanes * lanes
        if largest == 0 and room >= lanes:
            raise FieldError(
                "nodes",
                "must be few enough for runs of blocks whose packets a header can number, each "
                f"block with a beat or more, not {nodes!r}"
            )
        if largest == 0:
            raise FieldError(
                "nodes",
                f"must be at most {slot_elements // lanes} (beats of a slot), not {nodes!r}"
            )
        if block is None:
            whole_packets = max(
                largest // packet_elements * packet_elements, min(largest, packet_elements)
            )
            shared = _round_up(-(-stride // queues), packet_elements)
            block = min(whole_packets, shared)
            if contiguous:
                block = _divisor(stride, min(block, stride), lanes)
        elif not _is_count(block) or block % lanes or block > largest:
            raise FieldError(
                "block", f"must be a multiple of {lanes} from {lanes} to {largest}, not {block!r}"
            )
        if contiguous:
            stride = nodes * block
        return cls(
            elements=elements, nodes=nodes, stride=stride, block=block, queues=queues,
            contiguous=contiguous,
        )

    @property
    def settings(self) -> dict[str, int]:
        """The cut as the registers of a command have it, and its field ``contiguous``."""
        return {
            "elements": self.elements, "stride": self.stride, "block": self.block,
            "contiguous": int(self.contiguous),
        }

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        if self.contiguous:
            return -(-self.elements // self.stride)
        return -(-self.stride // self.block)

    @property
    def rounded(self) -> int:
        """Elements of all chunks, those included that lie behind the vector."""
        return (self.chunks if self.contiguous else self.nodes) * self.stride

    def chunk_of(self, element: NDArray[np.int64]) -> NDArray[np.int64]:
        """Chunk of each element of the vector."""
        if self.contiguous:
            return element // self.stride
        return element % self.stride // self.block

    def block_of(self, element: NDArray[np.int64]) -> NDArray[np.int64]:
        """Block of a chunk that each element of the vector is in."""
        if self.contiguous:
            return element % self.stride // self.block
        return element // self.stride

    def run(self, chunk: int, block: int, blocks: int = 1) -> slice:
        """Elements of so many *blocks* of a chunk, from *block* on; of shards there is one."""
        if self.contiguous:
            return self._clip(chunk * self.stride + block * self.block, blocks * self.block)
        size = min(self.block, self.stride - chunk * self.block)
        return self._clip(block * self.stride + chunk * self.block, size)

    def elements_of(self, chunk: int, blocks: int) -> int:
        """Elements of so many blocks of a chunk, padding included; of a contiguous one, of it all
        without any."""
        if self.contiguous:
            return min(self.stride, self.elements - chunk * self.stride)
        return blocks * min(self.block, self.stride - chunk * self.block)

    def shard(self, rank: int) -> slice:
        """Elements that *rank* owns; may be empty.

        Raises
        ------
        ValueError
            If chunks are contiguous.
        """
        if self.contiguous:
            raise ValueError("no rank owns a shard where chunks are contiguous")
        return self._clip(rank * self.stride, self.stride)

    def blocks(self) -> Iterator[tuple[int, int, slice]]:
        """Every block as (chunk, rank that owns it, elements)."""
        for chunk in range(self.chunks):
            for rank in range(self.nodes):
                yield chunk, rank, self.run(chunk, rank)

    def _clip(self, start: int, size: int) -> slice:
        return slice(min(start, self.elements), min(start + size, self.elements))


@dataclass(frozen=True, kw_only=True)
class NicPartition:
    """The smart NIC's cut of a vector: the arithmetic that its planner does in hardware.

    Parameters
    ----------
    elements : int
        Elements of the vector, at least 1.
    nodes : int
        Ranks, 2 to 256.
    config : SmartNicConfig
    """

    elements: int
    nodes: int
    config: SmartNicConfig

    def __post_init__(self) -> None:
        if self.elements < 1:
            raise FieldError("elements", f"must be at least 1, not {self.elements!r}")
        if not 2 <= self.nodes <= 256:
            raise FieldError("nodes", f"must be from 2 to 256, not {self.nodes!r}")

    @property
    def beats(self) -> int:
        """Beats of the vector, the last perhaps not full."""
        return -(-self.elements // self.config.lanes)

    @property
    def share_beats(self) -> int:
        """Beats of each rank's share, padding included: whole granules."""
        granule = self.config.granule
        return -(-self.beats // (granule * self.nodes)) * granule

    @property
    def rounds(self) -> int:
        """Rounds with full blocks."""
        return self.share_beats // self.config.block_beats

    @property
    def rest_beats(self) -> int:
        """Beats of a block of the round after those, 0 if there is none."""
        return self.share_beats % self.config.block_beats

    @property
    def padded(self) -> int:
        """Elements of all shares, padding included."""
        return self.nodes * self.share_beats * self.config.lanes

    def blocks(self) -> NDArray[np.int64]:
        """Number of the block, that is of the rank that starts it, for each element, padded."""
        beat = np.arange(self.padded) // self.config.lanes
        full = self.config.block_beats
        in_rest = beat - self.rounds * self.nodes * full
        block: NDArray[np.int64] = np.where(
            in_rest < 0, beat // full % self.nodes, in_rest // max(1, self.rest_beats)
        )
        return block


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and int(value) >= 1


def _divisor(whole: int, most: int, unit: int) -> int:
    """The largest size of up to *most*, in whole *unit*s, with which all parts of *whole* are
    equal; *most* if that is no more than half."""
    for part in range(most, most // 2, -unit):
        if whole % part == 0:
            return part
    return most


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple

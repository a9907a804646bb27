"""How a vector is cut into shards, chunks and blocks. Every node computes the same cut."""

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Partition"]


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Cut of a vector of ``elements`` for ``nodes`` ranks.

    Rank ``r`` owns shard ``r``: ``stride`` elements from ``r * stride`` on, as far as the vector
    goes. Chunk ``n`` is the ``n``-th piece of ``block`` elements of every shard: a chunk is one
    block per rank. It is handled by FSM ``n % queues``.

    Parameters
    ----------
    elements : int
        Length of the whole vector, at least 1.
    nodes : int
        Ranks, at least 2.
    stride : int
        Elements from one shard to the next.
    block : int
        Elements of a block, the last one of a shard may be shorter.
    queues : int
        FSMs that share the chunks.
    """

    elements: int
    nodes: int
    stride: int
    block: int
    queues: int

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
        block: int | None = None,
    ) -> "Partition":
        """Choose shards of whole beats, and blocks that fit a slot and keep all FSMs busy.

        Raises
        ------
        ValueError
            For fewer than 2 nodes, no elements, or a *block* that does not fit.
        """
        if nodes < 2:
            raise ValueError(f"nodes must be at least 2, not {nodes!r}")
        if elements < 1:
            raise ValueError(f"elements must be at least 1, not {elements!r}")
        stride = _round_up(-(-elements // nodes), lanes)
        largest = slot_elements // nodes // lanes * lanes
        if largest == 0:
            raise ValueError(
                f"nodes must be at most {slot_elements // lanes} (beats of a slot), not {nodes!r}"
            )
        if block is None:
            whole_packets = max(
                largest // packet_elements * packet_elements, min(largest, packet_elements)
            )
            shared = _round_up(-(-stride // queues), packet_elements)
            block = min(whole_packets, shared)
        elif block < 1 or block % lanes or block > largest:
            raise ValueError(
                f"block must be a multiple of {lanes} from {lanes} to {largest}, not {block!r}"
            )
        return cls(elements=elements, nodes=nodes, stride=stride, block=block, queues=queues)

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.stride // self.block)

    def shard(self, rank: int) -> slice:
        """Elements that *rank* owns; may be empty."""
        return self._clip(rank * self.stride, self.stride)

    def blocks(self) -> Iterator[tuple[int, int, slice]]:
        """Every block as (chunk, rank that owns it, elements)."""
        for chunk in range(self.chunks):
            size = min(self.block, self.stride - chunk * self.block)
            for rank in range(self.nodes):
                yield chunk, rank, self._clip(rank * self.stride + chunk * self.block, size)

    def _clip(self, start: int, size: int) -> slice:
        return slice(min(start, self.elements), min(start + size, self.elements))


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple

"""Golden results of the smart NIC's all-reduce: numpy, in the order of additions of the ring."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hw.fp.model import reduce
from hw.fp.ops import ReduceOp
from hw.smartnic.config import SmartNicConfig

__all__ = ["Plan", "all_reduce"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the NIC cuts a vector: the sums that its planner does in hardware.

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
            raise ValueError(f"elements must be at least 1, not {self.elements!r}")
        if not 2 <= self.nodes <= 256:
            raise ValueError(f"nodes must be from 2 to 256, not {self.nodes!r}")

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

    def blocks(self) -> NDArray[np.int64]:
        """Number of the block, that is of the rank that starts it, for each element."""
        beat = np.arange(self.elements) // self.config.lanes
        full = self.config.block_beats
        in_rest = beat - self.rounds * self.nodes * full
        block: NDArray[np.int64] = np.where(
            in_rest < 0, beat // full % self.nodes, in_rest // max(1, self.rest_beats)
        )
        return block


def all_reduce(
    arrays: Sequence[NDArray[np.float32]] | Sequence[NDArray[np.int32]],
    config: SmartNicConfig,
    *,
    op: ReduceOp = ReduceOp.SUM_F32,
    compress: bool = False,
) -> NDArray:
    """What every rank holds after an all-reduce, bit for bit.

    Block *b* of a round starts at rank *b* and goes up the ring: every rank adds its own. With
    *compress*, what a rank sends is rounded to the format of the NIC's codec, the complete block
    included.

    Parameters
    ----------
    arrays : sequence of 1-D arrays of float32 or int32
        One vector per rank, all of the same length.
    config : SmartNicConfig
    op : ReduceOp
    compress : bool

    Raises
    ------
    ValueError
        *compress*, and the NIC has no codec; fewer than 2 or more than 256 arrays, or not all of
        them vectors of one length above 0.
    """
    nodes = len(arrays)
    if not 2 <= nodes <= 256:
        raise ValueError(f"arrays must be from 2 to 256 vectors, not {nodes}")
    shapes = {np.shape(array) for array in arrays}
    if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
        raise ValueError(f"arrays must be vectors of one length, not of shapes {sorted(shapes)}")
    if compress and config.codec_format is None:
        raise ValueError("compress must be False for a NIC whose codec is 'none'")

    def sent(partial: NDArray) -> NDArray:
        # Blocks start at whole blocks of the format, so the vector can be rounded as a whole.
        fmt = config.codec_format if compress else None
        return partial if fmt is None else fmt.quantize(partial)

    blocks = Plan(elements=len(arrays[0]), nodes=nodes, config=config).blocks()
    table = np.stack(arrays)
    place = np.arange(len(blocks))
    partial = sent(table[blocks, place])
    for hop in range(1, nodes):
        partial = sent(reduce(op, table[(blocks + hop) % nodes, place], partial))
    return partial

"""Golden results of the smart NIC's all-reduce: numpy, in the order of additions of the ring."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.fp.model import reduce
from hw.fp.ops import ReduceOp
from hw.smartnic.config import SmartNicConfig

__all__ = ["Plan", "all_reduce", "ring_sums"]


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
    _, whole = ring_sums(arrays, config, rank=0, op=op, compress=compress)
    fmt = config.codec_format if compress else None
    result = whole if fmt is None else fmt.quantize(whole)
    return result[: len(arrays[0])]


def ring_sums(
    arrays: Sequence[NDArray[Any]],
    config: SmartNicConfig,
    *,
    rank: int,
    op: ReduceOp = ReduceOp.SUM_F32,
    compress: bool = False,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """What enters the encoders in an all-reduce, before it is rounded.

    Parameters are those of `all_reduce`.

    Returns
    -------
    leaving, whole : arrays of ``Plan.padded`` elements
        The sums that *rank* makes, of its own block and of those that come to it; and the complete
        ones.
    """
    nodes = len(arrays)
    if not 2 <= nodes <= 256:
        raise ValueError(f"arrays must be from 2 to 256 vectors, not {nodes}")
    shapes = {np.shape(array) for array in arrays}
    if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
        raise ValueError(f"arrays must be vectors of one length, not of shapes {sorted(shapes)}")
    fmt = config.codec_format if compress else None
    if compress and fmt is None:
        raise ValueError("compress must be False for a NIC whose codec is 'none'")
    plan = Plan(elements=len(arrays[0]), nodes=nodes, config=config)
    blocks = plan.blocks()
    table = np.zeros((nodes, plan.padded), arrays[0].dtype)
    table[:, : plan.elements] = arrays
    place = np.arange(plan.padded)
    turn = (rank - blocks) % nodes
    total = leaving = table[blocks, place]
    for hop in range(1, nodes):
        # Blocks start at whole blocks of the format, so the vector can be rounded as a whole.
        sent = total if fmt is None else fmt.quantize(total)
        total = reduce(op, table[(blocks + hop) % nodes, place], sent)
        leaving = np.where(turn == hop, total, leaving)
    return leaving, total

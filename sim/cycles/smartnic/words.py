# SPDX-License-Identifier: Apache-2.0
"""Contents of the model's queues, packed into integers."""
from sim.native.mark import compiled

__all__ = [
    "COMPLETE", "COMPRESS", "END", "FIRST", "LAST", "beats_of", "item_word", "row_of", "valid_of",
]

# Flags of an item, of a beat of a block and of a sum.
LAST, COMPRESS, COMPLETE, FIRST, END = (1 << n for n in range(5))

_VALID, _BEATS, _ROW = 5, 18, 31
_COUNT = (1 << 13) - 1


@compiled
def item_word(beats, valid, row, flags):
    """A block: its beats, those in memory, the place of the first within a burst, and flags."""
    return row << _ROW | beats << _BEATS | valid << _VALID | flags


@compiled
def beats_of(item):
    """Beats of a block before compression."""
    return item >> _BEATS & _COUNT


@compiled
def valid_of(item):
    """Beats of a block that lie in memory."""
    return item >> _VALID & _COUNT


@compiled
def row_of(item):
    """Place of a block's first beat within a burst."""
    return item >> _ROW


# A beat on the network: flags, then kind and contents of its frame. Counts of freed beats are sent
# as the hardware sends them, modulo 2**16.
HEADER, TAIL, BLOCK_END = 1, 2, 4
REDUCE, GATHER, CREDIT = 1, 2, 3
_KIND, _PAYLOAD, _FREED = 3, 6, (20, 36)
COUNT_MASK = (1 << 16) - 1


@compiled
def frame_word(kind, beats, block_end):
    """A frame: kind, payload beats, whether it ends a block."""
    return kind << _KIND | beats << _PAYLOAD | (BLOCK_END if block_end else 0)


@compiled
def credit_word(beats, reduce, gather):
    """A credit frame with beats freed of both flows."""
    freed = (reduce & COUNT_MASK) << _FREED[0] | (gather & COUNT_MASK) << _FREED[1]
    return frame_word(CREDIT, beats, False) | freed


@compiled
def kind_of(token):
    """REDUCE, GATHER or CREDIT."""
    return token >> _KIND & 7


@compiled
def payload_of(token):
    """Payload beats of the frame."""
    return token >> _PAYLOAD & (1 << 14) - 1


@compiled
def freed_of(token, flow):
    """Beats freed of a flow, modulo 2**16."""
    return token >> _FREED[flow] & COUNT_MASK

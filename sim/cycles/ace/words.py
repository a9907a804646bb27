# SPDX-License-Identifier: Apache-2.0
"""A packet of the cycle model: one integer with the header fields that matter."""


from sim.native.mark import inlined

__all__ = ["block_of", "data_word", "field", "packet_fields", "ready_word"]

# kind 1 | queue 4 | slot 4 | step 11 | offset 12 | flits 8 | chunk 16, collective 7
QUEUE, SLOT, STEP, OFFSET, FLITS, KEY = 1, 5, 9, 20, 32, 40
KEY_BITS = 23
CHUNK_BITS = 16


@inlined
def data_word(queue, slot, step, offset, flits, key):
    """A DATA packet with *flits* flits of payload for a step of a peer's context."""
    return (
        1 | queue << QUEUE | slot << SLOT | step << STEP | offset << OFFSET | flits << FLITS
        | key << KEY
    )


@inlined
def ready_word(queue, slot, key):
    """A READY packet: context *slot* of this node works on the chunk *key*."""
    return queue << QUEUE | slot << SLOT | key << KEY


@inlined
def block_of(s, node, f, code):
    """The first block of an instruction, whose coordinates count from the place of the node in the
    FSM's ring or torus."""
    way = s.way[node, f]
    place, rest, ranked = 0, code.block, 0
    for n in range(s.digits.shape[1]):
        digit = s.digits[code.digits, n]
        if digit.blocks:
            at = rest // digit.blocks + way.place[digit.dimension]
            place += at % digit.nodes * digit.blocks
            rest %= digit.blocks
            ranked = digit.ranked
    return s.order[way.ring, place] if ranked else place


@inlined
def field(word, shift, bits):
    """A field of a packet."""
    return word >> shift & ((1 << bits) - 1)


def packet_fields(word: int) -> dict[str, int]:
    """The fields of a packet by name; ``data`` says whether it is a DATA packet."""
    fields = {
        "data": word & 1,
        "fsm": word >> QUEUE & 15,
        "context": word >> SLOT & 15,
        "chunk": word >> KEY & ((1 << CHUNK_BITS) - 1),
        "number": word >> KEY + CHUNK_BITS,
    }
    if word & 1:
        fields |= {"step": word >> STEP & 0x7FF, "offset": word >> OFFSET & 0xFFF}
    return fields

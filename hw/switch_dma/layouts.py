# SPDX-License-Identifier: Apache-2.0
"""Messages between the parts of the endpoint, and between endpoints."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, C, Cat, Mux, Value
from amaranth.lib import data, enum, wiring
from amaranth.utils import exact_log2

from hw.fp.ops import ReduceOp
from hw.switch.packet import CLASSES, HEADER, NOTICE, Format
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.fixed_point import UNIT_BITS

__all__ = [
    "DROPS",
    "FIXED",
    "FORMAT",
    "NODE",
    "PARTS",
    "Part",
    "address_of",
    "contract_flits",
    "each_region",
    "events_layout",
    "halved",
    "heard_layout",
    "in_part",
    "job_layout",
    "number_of",
    "outcome_layout",
    "per_region",
    "pick",
    "read_layout",
    "row_of",
    "window_layout",
]

_ENDPOINT_BITS = HEADER["source"].width


class Part(enum.Enum, shape=2):
    """Action that an endpoint limits to its own part of the vector."""

    NONE = 0
    SEND = 1  # the others send the rest: all-gather, broadcast
    STORE = 2  # the others store the rest: reduce-scatter


FIXED = {"fixed": 1, "unit": UNIT_BITS}
"""Fields of an all-reduce that sums FP32 as integers, with the option: the operation is then that
of integers, and ``unit`` their unit (`hw.switch_dma.fixed_point`). Else both are 0."""

PARTS = {"part": Part, "begin": 32, "end": 32}
"""Fields of an all-reduce that sends or stores a part, with the option: its blocks, here."""

FORMAT = {"format": Format}
"""Fields of an all-reduce, with the options: the format of its operands and results."""

NODE = data.StructLayout(
    {"endpoint": _ENDPOINT_BITS, "members": HEADER["count"].width, "region": HEADER["region"].width}
)
"""This endpoint: its number, the number of members of its region, and its region."""

def per_region(c: SwitchDmaConfig, member: wiring.Member) -> wiring.Member:
    """*member* for each row of the endpoint's regions; alone if it has one row."""
    return member if c.regions == 1 else member.array(c.regions)


def each_region(c: SwitchDmaConfig, port: Any) -> list[Any]:
    """Ports of a member that is there `per_region`, by row."""
    return [port] if c.regions == 1 else list(port)


def pick(values: Sequence[Any], row: Any) -> Value:
    """Select among values by row."""
    cast = [Value.cast(each) for each in values]
    return cast[0] if len(cast) == 1 else Array(cast)[row]


def row_of(nodes: Sequence[Any], region: Any) -> tuple[Value, Value]:
    """The row of a region's number, and whether there is one: of several the first.

    A row without members has no region; a single row has one from reset on.
    """
    if len(nodes) == 1:
        return C(0, 1), Value.cast(nodes[0].region == region)
    hits = Cat((each.region == region) & (each.members != 0) for each in nodes)
    row: Value = C(0, range(len(nodes)))
    for k in reversed(range(len(nodes))):
        row = Mux(hits[k], k, row)
    return row, hits.any()


def heard_layout(c: SwitchDmaConfig) -> data.StructLayout:
    """A notice that came: from which endpoint, of which region, by which link."""
    return data.StructLayout(
        {
            "notice": NOTICE,
            "source": _ENDPOINT_BITS,
            "region": HEADER["region"].width,
            "link": range(max(2, c.links)),
        }
    )


def job_layout(c: SwitchDmaConfig) -> data.StructLayout:
    """An accepted all-reduce, the same for all links.

    The vector ends with block ``final``, which has ``tail_beats`` + 1 flits in memory, the last of
    these ``tail_lanes`` + 1 elements. Elements of 16 bits are as wide in memory. ``row``: of the
    endpoint's regions, the one that reduces it.
    """
    return data.StructLayout(
        {
            "source": c.address_bits,
            "destination": c.address_bits,
            "elements": 32,
            "final": 32,
            "tail_beats": range(c.payload_flits),
            "tail_lanes": 3 if c.half else 2,
            "op": ReduceOp,
            "tag": 8,
            "pull": 1,
            **({"row": range(c.regions)} if c.regions > 1 else {}),
            **(FIXED if c.fixed_point else {}),
            **(PARTS if c.parts else {}),
            **(FORMAT if c.lengths else {}),
        }
    )


def halved(job: Any) -> Value:
    """High if elements of a job have 16 bits; only with the option ``half``."""
    return (job.format == Format.FP16) | (job.format == Format.BF16)


def in_part(job: Any, block: Any) -> Value:
    """High if a block of the vector belongs to this endpoint's part."""
    return (block >= job.begin) & (block < job.end)


def window_layout() -> data.StructLayout:
    """Limits of the blocks in flight on a link: see `WaveControl`."""
    return data.StructLayout({"size_log2": 4, "outstanding": 6})


def read_layout(c: SwitchDmaConfig) -> data.StructLayout:
    """An operand that a load asks for.

    ``number`` and ``block`` are the number of the block on the link and its place in the vector,
    of which it may be the ``tail``.
    ``own``: it is for the home store here; else a RESPONSE to ``requester`` takes it, with ``tag``.
    """
    return data.StructLayout(
        {
            "number": c.number_bits,
            "block": 32,
            "tail": 1,
            "own": 1,
            "requester": _ENDPOINT_BITS,
            "tag": HEADER["tag"].width,
        }
    )


def outcome_layout() -> data.StructLayout:
    """Why the result of an all-reduce is not valid, if it is not.

    ``read``: a memory refused a read on which it depends, here or at another endpoint; ``write``:
    memory here refused a write of it.
    """
    return data.StructLayout({"read": 1, "write": 1})


DROPS = {
    "damaged": "the header is damaged or of a kind that no endpoint takes, or there is none",
    "truncated": "it ends before its last flit",
    "region": "the region is none of the endpoint's, or the address not a multiple of the data",
    "overflow": "sent without a credit",
    "stale": "of another epoch",
    "unknown": "a result that is not waited for, or came twice; a load that is not to be answered; "
    "an answer that was not asked for; a partial of a block that is done, or far ahead",
    "misled": "a partial or an answer for another endpoint",
    "excess": "a partial or an answer of no operands, or of more than are missing",
}
"""Why packets are dropped, with what each reason says."""


def events_layout(c: SwitchDmaConfig) -> data.StructLayout:
    """Events for the performance counters, a bit for each in this cycle."""
    return data.StructLayout(
        {
            **({"outside": 1} if c.fixed_point else {}),  # a beat with an element that has no place
            "operand": 1,  # pushed
            "load": 1,  # sent
            "answer": 1,  # to a load, sent
            "partial": 1,  # added
            "finished": 1,  # a sum was completed here
            "result": 1,  # stored
            "sent": 1,  # a flit
            "starved": CLASSES,  # a packet waits for a credit
            "wave_wait": 1,  # an operand waits for a wave counter
            "barrier": 1,  # loads wait for the contract to come back
            "read_beat": 1,
            "written_beat": 1,
            "memory_error": 1,
            "dropped": len(DROPS),
        }
    )


def address_of(c: SwitchDmaConfig, epoch: Any, number: Any) -> Value:
    """Address in the region of a block. Sums of different epochs never have the same."""
    offset, bits = exact_log2(c.payload_flits), HEADER["epoch"].width
    return Cat(
        C(0, offset), Value.cast(number)[: c.number_bits], Value.cast(epoch)[:bits]
    )


def number_of(c: SwitchDmaConfig, address: Any) -> Value:
    """The block at an address."""
    offset = exact_log2(c.payload_flits)
    return Value.cast(address)[offset : offset + c.number_bits]


def contract_flits(job: Any, members: Any, window: Any) -> list[Value]:
    """The first two payload flits of an all-reduce's *contract*, what all members must agree on.

    Each of four pieces of up to 23 bits is there as the mantissa of a number from 1 to 2 and as
    that of its negative. The maxima over all members, which is what the network makes of them, are
    what every one of them sent just if all sent the same. The *window* (`window_layout`) is what
    loads that wait rely on; for push it may differ, and is 0 here.
    """
    fixed, unit = (getattr(job, name, C(0, width)) for name, width in FIXED.items())
    part, format = (Value.cast(getattr(job, name, C(0, 2))) for name in ("part", "format"))
    pieces = [
        job.elements[:16],
        job.elements[16:],
        Cat(job.tag, Value.cast(job.op), job.pull, window.size_log2, unit),
        Cat(members, window.outstanding, fixed, part, format),
    ]
    words = []
    for piece in pieces:
        mantissa = Cat(Value.cast(piece), C(0, 23))[:23]
        words += [Cat(mantissa, C(0x7F, 8), sign) for sign in (C(0, 1), C(1, 1))]
    return [Cat(*words[:4]), Cat(*words[4:])]

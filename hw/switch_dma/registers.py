# SPDX-License-Identifier: Apache-2.0
"""Control and status registers of the switch's endpoint."""

from dataclasses import replace

from amaranth.lib import enum
from amaranth.utils import exact_log2

from hw.common.all_reduce import (
    abort_register,
    all_reduce_interrupts,
    all_reduce_registers,
    command_register,
    control_register,
    vector_registers,
    watchdog_register,
)
from hw.common.engine_registers import (
    identity_register,
    number_register,
    shape_register,
)
from hw.common.register_map import Field, Register, RegisterMap
from hw.fp.ops import ReduceOp
from hw.link.retry_registers import LINK_INTERRUPT, port_registers, status_fields
from hw.switch.packet import AbortCause, Format
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.layouts import DROPS, NODE, Part

__all__ = ["COUNTERS", "DMA_ID", "INTERRUPTS", "OUTSIDE", "CommandError", "register_map"]

DMA_ID = 0x5CD7

SHAPE = {
    "links": (3, "Links, each with a memory port."),
    "payload_flits": (5, "Flits of data in a packet."),
    "waves": (6, "Wave counters of a link."),
    "wave_blocks": (9, "Blocks in the largest wave."),
    "buffer_packets": (7, "Credits per class."),
}

INTERRUPTS = all_reduce_interrupts(
    dropped="A packet", everywhere="all members", elsewhere="another endpoint"
)

COUNTERS = {
    "operands": "Operands pushed, the contract of each all-reduce among them.",
    "loads": "Loads sent.",
    "answers": "Operands sent in answer to loads.",
    "partials": "Packets added here: partials, answers, and own operands of what is loaded.",
    "finished": "Sums completed here.",
    "results": "Results stored.",
    "flits_sent": "Flits on the link.",
    "starved": "Cycles in which a packet waited for a credit.",
    "wave_wait": "Cycles in which an operand waited for a wave counter.",
    "barrier": "Cycles in which loads waited until all members had begun.",
    "beats_read": "Beats read from memory.",
    "beats_written": "Beats written to memory.",
    **{f"dropped_{name}": f"Packets dropped: {why}." for name, why in DROPS.items()},
}
"""Registers with a count since reset, for each link."""

OUTSIDE = {
    "outside": "Beats read that had an element which the window of their all-reduce does not "
    "hold: its result is not valid, and `invalid.read` says so at all members."
}
"""A further one, with ``fixed_point``."""


class CommandError(enum.Enum, shape=4):
    """Why a command was refused."""

    NONE = 0
    ABORTING = 1  # given during an abort, or before its interrupt was cleared
    MEMBERS = 2  # fewer than two members, or an endpoint that does not exist
    UNJOINED = 3  # the endpoint has not joined its region
    EMPTY = 4  # no elements
    ALIGNMENT = 5  # an address is not a multiple of 16
    ADDRESS = 6  # the vector or the result does not lie within memory
    FULL = 7  # too many all-reduces outstanding
    WINDOW = 8  # `fixed` for another operation than SUM_F32, or with an exponent of 0 or 255
    PART = 9  # not of whole blocks, or beyond the vector; sent in fixed point
    FORMAT = 10  # there is none such here; for integers, in fixed point, or sent in parts
    REGION = 11  # there is no such row; or one before it has the same multicast region


def _options(c: SwitchDmaConfig) -> tuple[list[Field], list[Register]]:
    """Fields of a command, and registers before it, that configuration *c* has beside the others'.
    """
    fixed = [
        Field("fixed", 1, "Sum FP32 in fixed point: the same result whatever comes first."),
        Field(
            "exponent", 8, "With `fixed`, the same at all members: no operand of any member has "
            "a larger exponent field than this; 1 to 254.",
        ),
    ]
    size = c.block_elements
    parts = [
        number_register(
            "part_begin", f"First element of the own part: a multiple of {size}, or `elements`."
        ),
        number_register(
            "part_end", f"The first one after it: a multiple of {size}, or `elements`. The same as "
            "`part_begin` for none.",
        ),
    ]
    part = Field(
        "part", Part, "Send the own part alone, zeros for the rest, whatever `op` is; or store it "
        "alone. Addresses are those of the whole vector.",
    )
    format = Field(
        "format", Format, "How operands and results travel. FP16 and BF16: the vector and the "
        "result are such numbers, of 2 bytes.",
    )
    which = Field("region", 3, "Row of `node`: which region's all-reduce this is.")
    fields = [
        *(fixed if c.fixed_point else ()),
        *((part,) if c.parts else ()),
        *((format,) if c.lengths else ()),
        *((which,) if c.regions > 1 else ()),
    ]
    return fields, parts if c.parts else []


def register_map(c: SwitchDmaConfig) -> RegisterMap:
    """Registers of an endpoint of configuration *c*."""
    endpoint = NODE["endpoint"].width
    fields, parts = _options(c)
    several = c.regions > 1
    a_bit = ", a bit for each row" if several else ""

    def by_region(register: Register) -> Register:
        """The same for each region that the endpoint may be in, by row."""
        doc = f"{register.doc} Of each region."
        return replace(register, doc=doc, count=c.regions) if several else register

    return RegisterMap(
        "the switch's endpoint",
        [
            identity_register(DMA_ID),
            shape_register("the endpoint", SHAPE, c.describe()),
            by_region(Register(
                "node",
                "rw",
                [
                    Field("endpoint", endpoint, "Number of this endpoint."),
                    Field("members", NODE["members"].width, "Members of the region, 2 at least."),
                    Field("region", NODE["region"].width, "Multicast region."),
                ],
                "A write leaves the region; it is refused while all-reduces of it are outstanding.",
                guarded=True, strobed=True,
            )),
            Register(
                "waves",
                "rw",
                [
                    Field(
                        "size_log2", 4, "Blocks of a wave, as a power of two.",
                        init=exact_log2(c.wave_blocks),
                    ),
                    Field("outstanding", 6, "Waves under way, 1 at least.", init=c.waves),
                ],
                "Limits what a link has under way; refused while all-reduces are outstanding. For "
                "pull, all members have the same.",
                guarded=True,
            ),
            Register(
                "pull",
                "rw",
                [Field("own", 1, "Loads ask for the own operand, too; else it is added here.")],
                "What this endpoint loads; refused while all-reduces are outstanding.",
                guarded=True,
            ),
            Register(
                "link_control",
                "wo",
                [Field("resync", 1, "Have credits counted anew, in both directions.")],
                "Of each link. Always taken.",
                count=c.links,
            ),
            Register(
                "link_status",
                "ro",
                [
                    Field("counting", 1, "Credits are being counted anew."),
                    Field("credits_home", 1, "What is behind the link holds no packet.", init=1),
                    *(status_fields() if c.retry else ()),
                ],
                "Of each link.",
                count=c.links,
            ),
            *vector_registers(c.address_bits),
            *parts,
            command_register(
                "members", Field("op", ReduceOp, "Reduction."),
                Field("pull", 1, "Load the sums; else push the operands."),
                *fields,
            ),
            by_region(control_register(
                "all members", Field("join", 1, "Join the region, once the switches know it.")
            )),
            watchdog_register(24, Field("tries", 4, "So many times more until it is an error.")),
            by_region(
                abort_register(AbortCause, Field("endpoint", endpoint, "Where this began."))
            ),
            by_region(number_register("epoch", "Joins and aborts so far, of all members.", "ro")),
            *all_reduce_registers(
                of="the endpoint",
                elsewhere="another endpoint",
                status=[
                    Field("joined", c.regions, f"The endpoint has joined the region{a_bit}."),
                    Field("ready", c.regions, "So have all others, in this epoch."),
                    *((Field("aborted", c.regions, "It was given up, and `interrupt.aborted` has "
                             "not been cleared since."),) if several else ()),
                ],
                errors=CommandError,
                interrupts={**INTERRUPTS, **(LINK_INTERRUPT if c.retry else {})},
                counters={**COUNTERS, **(OUTSIDE if c.fixed_point else {})},
                count=c.links,
            ),
            *(port_registers(c.links) if c.retry else ()),
        ],
    )

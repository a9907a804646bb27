"""Control and status registers of the switch's endpoint."""

from amaranth.lib import enum
from amaranth.utils import exact_log2

from hw.common.engine_registers import (
    all_reduce_registers,
    counter_registers,
    identity_register,
    invalid_register,
    number_register,
    vector_registers,
)
from hw.common.register_map import Field, Register, RegisterMap
from hw.fp.ops import ReduceOp
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.layouts import DROPS, NODE, AbortCause

__all__ = ["COUNTERS", "DMA_ID", "INTERRUPTS", "CommandError", "register_map"]

DMA_ID = 0x5CD7

INTERRUPTS = {
    "done": "An all-reduce has completed.",
    "refused": "A command was refused; see `refusal`.",
    "dropped": "A packet was dropped; the counters say why.",
    "aborted": "All all-reduces were given up, here and on all members; `abort` says why.",
    "memory": "Memory here answered with an error.",
    "invalid": "The result of an all-reduce is not valid: memory refused an access, here or at "
    "another endpoint; see `invalid`.",
    "stalled": "Nothing has moved for as long as `watchdog` says.",
    "fault": "A register access was answered with an error.",
}

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


def register_map(c: SwitchDmaConfig) -> RegisterMap:
    """Registers of an endpoint of configuration *c*."""
    endpoint = NODE["endpoint"].width
    return RegisterMap(
        "the switch's endpoint",
        [
            identity_register(DMA_ID),
            Register(
                "shape",
                "ro",
                [
                    Field("links", 3, "Links, each with a memory port.", init=c.links),
                    Field("payload_flits", 5, "Flits of data in a packet.", init=c.payload_flits),
                    Field("waves", 6, "Wave counters of a link.", init=c.waves),
                    Field("wave_blocks", 9, "Blocks in the largest wave.", init=c.wave_blocks),
                    Field("buffer_packets", 7, "Credits per class.", init=c.buffer_packets),
                ],
                "Configuration of the endpoint.",
            ),
            Register(
                "node",
                "rw",
                [
                    Field("endpoint", endpoint, "Number of this endpoint."),
                    Field("members", NODE["members"].width, "Members of the region, 2 at least."),
                    Field("region", NODE["region"].width, "Multicast region."),
                ],
                "A write leaves the region; it is refused while all-reduces are outstanding.",
                guarded=True,
            ),
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
            *vector_registers(c.address_bits),
            Register(
                "command",
                "wo",
                [
                    Field("tag", 8, "Any name; comes back in `completed` and `refusal`."),
                    Field("op", ReduceOp, "Reduction."),
                    Field("pull", 1, "Load the sums; else push the operands."),
                ],
                "Queues an all-reduce with the parameters above. All members queue the same ones "
                "in the same order, tags included, or all abort.",
            ),
            Register(
                "control",
                "wo",
                [
                    Field("join", 1, "Join the region, once the switches know it."),
                    Field("abort", 1, "Give up all all-reduces, here and on all members."),
                ],
                "After an abort, once its interrupt is cleared, commands may be given again. The "
                "results of what was given up are undefined.",
            ),
            Register(
                "watchdog",
                "rw",
                [
                    Field("cycles", 24, "Without progress until `stalled`; 0 for never."),
                    Field("tries", 4, "So many times more until it is an error."),
                    Field("abort", 1, "And then abort."),
                ],
                "Watches over outstanding all-reduces.",
            ),
            Register(
                "abort",
                "ro",
                [
                    Field("cause", AbortCause, "Why all all-reduces were given up last."),
                    Field("endpoint", endpoint, "Where this began."),
                ],
                "The last abort.",
            ),
            number_register("epoch", "Joins and aborts so far, of all members.", "ro"),
            invalid_register("another endpoint"),
            *all_reduce_registers(
                of="the endpoint",
                status=[
                    Field("joined", 1, "The endpoint has joined the region."),
                    Field("ready", 1, "So have all others, in this epoch."),
                ],
                errors=CommandError,
                interrupts=INTERRUPTS,
            ),
            *counter_registers(
                {name: ("count", doc) for name, doc in COUNTERS.items()}, count=c.links
            ),
        ],
    )

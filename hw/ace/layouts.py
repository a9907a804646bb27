# SPDX-License-Identifier: Apache-2.0
"""Messages between the parts of the engine. Every width follows from the configuration."""

from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import data

from hw.ace.agreement import DIGEST_BITS
from hw.ace.config import AceConfig
from hw.ace.isa import PHASE_FIELDS, opcode_layout
from hw.fp.ops import ReduceOp

__all__ = [
    "AGE_BITS",
    "admit_layout",
    "context_key_layout",
    "event_layout",
    "load_job_layout",
    "loaded_layout",
    "lookup_layout",
    "packet_count",
    "peer_layout",
    "places",
    "query_layout",
    "ready_layout",
    "report_layout",
    "resolved_layout",
    "segment_walk_layout",
    "send_command_layout",
    "store_job_layout",
    "stored_layout",
]


AGE_BITS = 10
"""Chunks are numbered in the order of their admission, modulo this power of two."""


def places(c: AceConfig, *names: str) -> dict[str, Any]:
    """Fields that name a place in an engine."""
    kinds = {
        "fsm": c.fsms,
        "context": c.contexts,
        "slot": c.contexts,  # that of the context of the same number
        "command": c.commands,
        "port": c.targets,
    }
    return {name: range(max(2, kinds[name])) for name in names}


def context_key_layout(c: AceConfig) -> data.StructLayout:
    """Name of a chunk, the same on every node."""
    return data.StructLayout({"collective": c.format.collective, "chunk": c.format.chunk})


def packet_count(c: AceConfig) -> range:
    """Packets of all blocks that a phase may name."""
    receives, _ = PHASE_FIELDS["receives"]
    return range(c.block_packets << Shape.cast(receives).width)


def segment_walk_layout(c: AceConfig) -> data.StructLayout:
    """Placement of a chunk's blocks in memory and in a slot.

    Block ``b`` starts at ``address + (b - first) * stride`` in memory and at row ``b * beats`` of
    the slot. Blocks before ``tail_block`` are ``beats`` full beats long, ``tail_block`` has
    ``tail_elements`` elements, later ones none.
    """
    return data.StructLayout(
        {
            "address": c.address_bits,
            "stride": c.address_bits,
            "first": range(c.max_nodes),
            "last": range(c.max_nodes),
            "row": range(c.sram_beats),
            "beats": range(c.slot_beats + 1),
            "tail_block": range(c.max_nodes + 1),
            "tail_elements": range(c.slot_elements + 1),
        }
    )


def load_job_layout(c: AceConfig) -> data.StructLayout:
    """One chunk for the TX DMA: memory to SRAM."""
    return data.StructLayout(
        {
            "walk": segment_walk_layout(c),
            **places(c, "fsm", "slot", "command"),
            "poisoned": 1,
        }
    )


def store_job_layout(c: AceConfig) -> data.StructLayout:
    """One chunk for the RX DMA: SRAM to memory; ``poisoned`` if a peer has sent what it could not
    read."""
    return load_job_layout(c)


def loaded_layout(c: AceConfig) -> data.StructLayout:
    """A chunk is in its slot."""
    return data.StructLayout({**places(c, "fsm", "slot", "command"), "error": 1, "poisoned": 1})


def stored_layout(c: AceConfig) -> data.StructLayout:
    """The result in a slot is in memory."""
    return loaded_layout(c)


def admit_layout(c: AceConfig) -> data.StructLayout:
    """A chunk enters an FSM: its context. The first ``elements`` of its blocks, which are ``beats``
    beats each, hold data. ``age``: its number, see `AGE_BITS`. ``row``: that of its first block.
    With partitions by phase, that block need not be there; ``loaded``: what is there is,
    ``poisoned``: but could not all be read; ``results``: row of the slot that results go to."""
    moved = {"loaded": 1, "poisoned": 1, "results": range(c.sram_beats)} if c.phased else {}
    return data.StructLayout(
        {
            **moved,
            **places(c, "context"),
            "key": context_key_layout(c),
            "op": ReduceOp,
            "digest": DIGEST_BITS,
            "age": AGE_BITS,
            "program": range(16),
            "beats": range(c.slot_beats + 1),
            "elements": range(c.slot_elements + 1),
            "row": range(c.sram_beats),
        }
    )


def lookup_layout(c: AceConfig) -> data.StructLayout:
    """A packet asks an FSM, whose bit is set in ``fsm``; none is while nothing is asked."""
    return data.StructLayout({"fsm": c.fsms, **query_layout(c).members})


def query_layout(c: AceConfig) -> data.StructLayout:
    """The question of a packet to an FSM: which context and instruction it is for."""
    return data.StructLayout(
        {
            "context": c.format.context,
            "key": context_key_layout(c),
            "op": 4,
            "step": c.format.step,
            "offset": c.format.offset,
            "length": 12,
            "contributions": c.format.node,
        }
    )


def resolved_layout(c: AceConfig) -> data.StructLayout:
    """The answer to a lookup: what to do with the packet, and where.

    ``valid`` is low if there is no such context, instruction or offset, or if length, operator or
    contribution count differ from what the program expects. ``row`` is the first row of its data,
    of the operand and of the outcome; with partitions by phase ``place`` is that of the outcome.
    ``granted`` tells that the peer on ``port`` is ready, with its context in ``remote_context``;
    ``poisoned`` that what the context sends is not valid. ``odd`` is that of the instruction's
    phase, ``age`` that of the chunk.
    """
    return data.StructLayout(
        {
            "valid": 1,
            "op": opcode_layout,
            "operator": ReduceOp,
            "granted": 1,
            "poisoned": 1,
            "odd": 1,
            "age": AGE_BITS,
            **places(c, "port"),
            "remote_context": c.format.context,
            "peer_step": c.format.step,
            **_data(c),
        }
    )


def _data(c: AceConfig) -> dict[str, Any]:
    """The data of a packet, and where they are."""
    rows = range(c.sram_beats)
    place = {"place": rows} if c.phased else {}
    return {"length": 12, "contributions": c.format.node, "row": rows, **place}


def event_layout(c: AceConfig) -> data.StructLayout:
    """A unit reports to an FSM."""
    return data.StructLayout({**places(c, "fsm"), **report_layout(c).members})


def report_layout(c: AceConfig) -> data.StructLayout:
    """A unit is done with a packet of a context: it received it, sent it, or left it to be sent;
    in a phase of *odd* number or not."""
    return data.StructLayout(
        {
            **places(c, "context"),
            "step": c.format.step,
            "offset": c.format.offset,
            "received": 1,
            "sent": 1,
            "odd": 1,
            "parked": 1,
            "poisoned": 1,
        }
    )


def ready_layout(c: AceConfig) -> data.StructLayout:
    """A READY for an FSM, whose bit is set in ``fsm``; none is while there is none."""
    return data.StructLayout({"fsm": c.fsms, **peer_layout(c).members})


def peer_layout(c: AceConfig) -> data.StructLayout:
    """A peer has admitted a chunk; ``context`` is its context, ``op`` and ``digest`` are what it
    was told to do (see `hw.ace.agreement`). One that is ``stale`` is of another epoch and of no
    use, which is known late."""
    return data.StructLayout(
        {
            "stale": 1,
            "context": c.format.context,
            "key": context_key_layout(c),
            "op": 4,
            "digest": DIGEST_BITS,
        }
    )


def send_command_layout(c: AceConfig) -> data.StructLayout:
    """A packet to be read from SRAM and sent, or a READY (no payload, not counted). With partitions
    by phase, the port behind the last one has it copied to ``place``."""
    return data.StructLayout(
        {
            "ready": 1,
            "poisoned": 1,
            "odd": 1,  # phase of the packet
            "age": AGE_BITS,  # of the chunk; not of a READY
            **places(c, "fsm", "context"),
            "remote_context": c.format.context,
            "key": context_key_layout(c),
            "operator": ReduceOp,
            "step": c.format.step,
            "offset": c.format.offset,
            **_data(c),
        }
    )

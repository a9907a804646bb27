# SPDX-License-Identifier: Apache-2.0
"""The view of a context that software gets: where its chunk is, and what it has left to do."""

from typing import Any

from amaranth.hdl import Cat, Value
from amaranth.lib import data

from hw.ace.config import AceConfig
from hw.ace.isa import ENTRY_WORDS
from hw.ace.layouts import context_key_layout, packet_count
from hw.common.select import select

__all__ = ["inspected_layout", "look_at"]


def inspected_layout(c: AceConfig) -> data.StructLayout:
    """A context as the registers show it, see `hw.ace.registers`."""
    return data.StructLayout(
        {
            "key": context_key_layout(c),
            "used": 1,
            "loaded": 1,
            "live": 1,
            "storing": 1,
            "instructions": 1,
            "held_ports": c.ports,
            "ready_ports": c.ports,
            "step": c.format.step,
            "entry": 13,
            "readies": 2 * c.ports,
            "arriving": packet_count(c),
            "leaving": packet_count(c),
        }
    )


def look_at(
    c: AceConfig, number: Value, *, contexts: Any, generator: Any, grants: Any
) -> dict[str, Value]:
    """The context *number* of an FSM, by the names of `inspected_layout`, from the FSM's
    `ContextTable`, `SendGenerator` and `GrantSignature`: multiplexers, and nothing that any of them
    would see."""
    state = contexts.state
    # A slot for results has no chunk yet.
    used = state.assigned if c.phased else contexts.occupied

    def of(each: Any) -> Value:
        return select(number, [Value.cast(each[n]) for n in range(c.contexts)])

    return {
        "key": of(state.key),
        "used": of(used),
        "loaded": of(contexts.has_data),
        "live": of(state.live),
        "storing": of(used & ~state.assigned),
        "instructions": of(generator.fresh),
        "held_ports": ~generator.room[: c.ports] & Cat(each == number for each in generator.held),
        "ready_ports": of(generator.ready_ports),
        "step": of(generator.steps),
        "entry": of([entry.entry for entry in state.entry]) * ENTRY_WORDS,
        "readies": of([Cat(*each) for each in grants.readies]),
        "arriving": of(contexts.arriving),
        "leaving": of(contexts.leaving),
    }

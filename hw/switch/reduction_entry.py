# SPDX-License-Identifier: Apache-2.0
"""Entries of a reduction table: fields kept of the first packet, and the header made of them."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data

from hw.switch.packet import HEADER, Kind

__all__ = ["entry_layout", "entry_of_load", "entry_of_operand", "header_of_entry"]

_COPIED = ("op", "region", "address", "tag", "destination", "source", "epoch", "poison")


def entry_layout(*, regions: int, formats: bool) -> data.StructLayout:
    """Fields that an entry keeps of its first packet, of one of *regions*; with *formats* also its
    operands' format."""
    names = (*_COPIED, "format") if formats else _COPIED
    return data.StructLayout(
        {
            **{name: HEADER[name].shape for name in names},
            "region": range(max(2, regions)),
            "pull": 1,  # the answer to a load
            "expected": HEADER["count"].shape,  # operands in it, when it is complete
        }
    )


def _copied(layout: data.StructLayout) -> list[str]:
    """Fields that an entry copies from a header."""
    return [name for name, _ in layout if name in dict(HEADER)]


def entry_of_operand(m: Module, layout: data.StructLayout, header: Any) -> Any:
    """The entry that an operand begins, if it is the first."""
    entry: Any = Signal(layout)
    pull = header.kind == Kind.RESPONSE
    m.d.comb += [
        *(entry[name].eq(header[name]) for name in _copied(layout)),
        # Answers become words, whatever they were.
        *([entry.format.eq(Mux(pull, 0, header.format))] if "format" in layout.members else []),
        entry.pull.eq(pull),
        entry.tag.eq(Mux(pull, header.tag, 0)),
    ]
    return entry


def entry_of_load(m: Module, layout: data.StructLayout, load: Any) -> Any:
    """The entry of a load (`LOAD_HEADER`) before its first operand."""
    entry: Any = Signal(layout)
    m.d.comb += [
        *(entry[name].eq(load[name]) for name in _copied(layout)),
        entry.destination.eq(load.source),
        entry.poison.eq(0),
        entry.pull.eq(1),
        entry.expected.eq(load.expected),
    ]
    return entry


def header_of_entry(
    m: Module, layout: data.StructLayout, entry: Value, *, count: Value, kind: Value
) -> Any:
    """The header of a packet that leaves: a pushed sum, of *kind*, or the answer to a load."""
    of: Any = Signal(layout)
    out: Any = Signal(HEADER)
    m.d.comb += [
        of.eq(entry),
        out.offload.eq(1),
        *(out[name].eq(of[name]) for name in _copied(layout)),
        out.kind.eq(Mux(of.pull, Kind.RESPONSE, kind)),
        out.source.eq(Mux(of.pull, of.source, of.destination)),
        out.count.eq(count),
    ]
    if "format" in layout.members:
        with m.If(kind != Kind.RESULT.value):
            m.d.comb += out.format.eq(0)
    return out

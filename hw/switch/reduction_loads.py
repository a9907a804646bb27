# SPDX-License-Identifier: Apache-2.0
"""Loads at a reduction unit: each takes an entry, waits for one, or goes on without."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import stream

from hw.switch.layouts import LOAD_HEADER
from hw.switch.reduction_entry import entry_of_load
from hw.switch.reduction_table import ReductionTable

__all__ = ["LoadStatus", "take_loads"]


@dataclass(frozen=True, kw_only=True)
class LoadStatus:
    """The load that is held, and events of loads.

    Members
    -------
    held:
        There is a load.
    load:
        That load.
    duplicate, bypassed, stalled, purged:
        Events: it had an entry already and is dropped; it goes on without one; it begins to wait;
        it is dropped since its region is purged.
    """

    held: Signal
    load: Any
    duplicate: Signal
    purged: Signal
    bypassed: Signal
    stalled: Value


def take_loads(
    m: Module, i: stream.Interface, o: stream.Interface, table: ReductionTable,
    *, between: Signal, waits: Signal, purged_next: Value, settles: bool,
) -> LoadStatus:
    """A load takes an entry between two packets: the header of the one before has changed the table
    by then.

    Parameters
    ----------
    i, o:
        Loads, and those of them that have an entry or go on without one.
    between:
        No packet at the input of the unit is in progress.
    waits:
        Driven: a load waits for an entry.
    purged_next:
        Regions whose loads are dropped in the next cycle, a bit for each; not those that have been
        settled.
    settles:
        No entry is written in the cycle before one *between* packets, so that loads may be compared
        with them then.
    """
    held, settled, counted = Signal(), Signal(), Signal()
    load: Any = Signal(LOAD_HEADER)
    entry = entry_of_load(m, table.layout, load)
    alike = table.alike(entry)
    if settles:
        following: Any = Signal(LOAD_HEADER)  # the load that is held in the next cycle
        m.d.comb += following.eq(Mux(held, Value.cast(load), Value.cast(i.payload)))
        compared = Signal(len(alike), name="load_is_alike")
        m.d.sync += compared.eq(table.alike(entry_of_load(m, table.layout, following)))
        alike = compared
    free = Signal(len(table.valid))
    again, takes, goes, purged = Signal(), Signal(), Signal(), Signal()
    m.d.comb += [
        free.eq(table.free()),
        i.ready.eq(~held),
        o.valid.eq(settled),
        o.payload.eq(load),
    ]
    # Of the load that is held in the next cycle, with what is purged then.
    doomed = Signal(name="load_is_doomed")
    m.d.sync += doomed.eq(purged_next.bit_select(Mux(held, load.region, i.p.region), 1))
    m.d.comb += purged.eq(held & ~settled & doomed)
    # No entry is given up for it before the next cycle, in which there may be a free one.
    lacks, lacked = Signal(name="load_lacks"), Signal(name="load_lacked")
    m.d.comb += [
        lacks.eq(held & ~settled & ~purged & load.first & ~free.any()),
        waits.eq(lacked & ~free.any()),
    ]
    m.d.sync += lacked.eq(lacks & ~again)
    with m.If(held & ~settled & ~purged):
        with m.If(between):
            m.d.comb += [
                again.eq((table.valid & alike).any()),
                takes.eq(~again & free.any()),
                goes.eq(~again & ~free.any() & ~load.first),
            ]
    with m.If(i.valid & ~held):
        m.d.sync += [held.eq(1), load.eq(i.payload), counted.eq(0)]
    with m.If(again | purged | (settled & o.ready)):
        m.d.sync += [held.eq(0), settled.eq(0)]
    with m.If(takes):
        table.keep(free, Value.cast(entry), Const(0))
    with m.If(takes | goes):
        m.d.sync += settled.eq(1)
    with m.If(lacks):
        m.d.sync += counted.eq(1)
    return LoadStatus(
        held=held, load=load, duplicate=again, bypassed=goes, stalled=lacks & ~counted,
        purged=purged,
    )

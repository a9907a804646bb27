# SPDX-License-Identifier: Apache-2.0
"""First stage of a reduction unit: operands, and packets that stand for entries to be evicted."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream

from hw.switch.packet import header_of
from hw.switch.reduction_entry import entry_of_operand
from hw.switch.reduction_table import ReductionTable

__all__ = ["Offered", "offer"]


@dataclass(frozen=True, kw_only=True)
class Offered:
    """A beat behind the first stage.

    Members
    -------
    valid:
        There is a beat.
    beat:
        A beat of the input, or ``first`` and ``last`` of a packet that stands for an entry.
    expires, yields:
        It stands for an entry to be evicted; ``yields``: for a load that waits, not for its age.
    found:
        The entry that it stands for, or that its header matches.
    """

    valid: Signal
    beat: Any
    expires: Signal
    yields: Signal
    found: Signal


def offer(
    m: Module, i: stream.Interface, table: ReductionTable,
    *, beats: int, go: Signal, between: Signal, waits: Signal, purging: Value,
) -> Offered:
    """First stage: a flit of the input, or of a packet that stands for an entry to be evicted: the
    entry is overdue, its region is purged, or a load waits for it.

    Such a packet goes between two others, so that no entry is evicted while an operand of it is in
    flight, and when it was known a cycle before that the entry is overdue or purged. The input has
    the next turn, so that entries which age faster than packets pass cannot keep it waiting.
    Entries that match are looked for in the same cycle.

    Parameters
    ----------
    beats:
        Beats of a packet behind its header.
    go:
        The stage moves on.
    between:
        Driven: no packet at the input is in progress.
    waits:
        A load waits for an entry.
    purging:
        Regions whose entries are to be evicted, a bit for each.
    """
    arriving = Signal(i.p.shape())
    within = Signal()  # a packet of the input has begun
    rest = Signal(range(beats + 1))  # beats to come of a packet that stands for an entry
    begin = Signal()
    stands = Signal()
    turn = Signal()
    overdue, leaving, due = (
        Signal(len(table.valid), name=name) for name in ("overdue", "leaving", "due")
    )
    m.d.sync += due.eq(table.overdue() | table.of_regions(purging))
    m.d.comb += [
        arriving.eq(i.payload),
        overdue.eq(due & table.valid),
        leaving.eq(Mux(overdue.any(), overdue & -overdue, Mux(waits, table.oldest_sum(), 0))),
        between.eq(~within & (rest == 0)),
        begin.eq(between & leaving.any() & ~turn),
        stands.eq(begin | (rest != 0)),
        i.ready.eq(go & ~stands),
    ]
    valid, expires, yields = Signal(), Signal(), Signal()
    found = Signal(len(table.valid))
    beat = Signal(i.p.shape())
    header = header_of(arriving.flit)
    with m.If(go):
        m.d.sync += [
            valid.eq(stands | i.valid), beat.eq(arriving), expires.eq(stands),
            yields.eq(~overdue.any()), turn.eq(stands),
        ]
        with m.If(stands):
            m.d.sync += [
                rest.eq(Mux(begin, beats, rest - 1)),
                beat.flit.first.eq(begin),
                beat.flit.last.eq(rest == 1),
                found.eq(leaving),
            ]
        with m.Else():
            m.d.sync += found.eq(table.match(entry_of_operand(m, table.layout, header)))
            with m.If(i.valid):
                m.d.sync += within.eq(~arriving.flit.last)
    return Offered(valid=valid, beat=beat, expires=expires, yields=yields, found=found)

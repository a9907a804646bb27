# SPDX-License-Identifier: Apache-2.0
"""Verdict on a packet at a reduction table, and the change of the table that follows."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value

from hw.switch.packet import HEADER, Kind, header_of
from hw.switch.reduction_arrivals import Offered
from hw.switch.reduction_entry import entry_of_operand, header_of_entry
from hw.switch.reduction_table import ReductionTable

__all__ = ["LookedUp", "Verdict", "carry_out", "judge", "look_up"]


@dataclass(frozen=True, kw_only=True)
class LookedUp:
    """A beat behind the second stage.

    Members
    -------
    valid, beat, expires, yields:
        As in `Offered`.
    hit:
        There is an entry for it.
    full:
        There is no free entry.
    where:
        Its entry, or the one that it may take, one-hot.
    meta, count, has:
        Fields that this entry keeps of its first packet, its operands, and whether there are any:
        the entry of a load has none at first.
    total, whole, excess:
        Of a header: operands of the entry together with its own; they are as many as expected; they
        are more, or it has none.
    differs:
        It has another operation or epoch than the entry that matches.
    discards, forgets:
        The region of the packet, or of the entry, was purged in the cycle before.
    """

    valid: Signal
    beat: Any
    expires: Signal
    yields: Signal
    hit: Signal
    full: Signal
    where: Signal
    meta: Any
    count: Signal
    has: Signal
    total: Signal
    whole: Signal
    excess: Signal
    differs: Signal
    discards: Signal
    forgets: Signal


def look_up(
    m: Module, offered: Offered, table: ReductionTable, *, go: Signal, purging: Value
) -> LookedUp:
    """Second stage: the entry that matches, or the one that is to be taken, and what of the verdict
    is arithmetic, and whether they are of a region that is *purging*, a bit for each."""
    where = Signal(len(table.valid))
    hit = offered.found.any()
    m.d.comb += where.eq(Mux(hit, offered.found, table.place()))
    bits = HEADER["count"].width
    shapes: dict[str, Any] = {
        "valid": 1, "beat": offered.beat.shape(), "expires": 1, "yields": 1, "hit": 1, "full": 1,
        "where": len(where), "meta": table.layout, "count": bits, "has": 1, "total": bits + 1,
        "whole": 1, "excess": 1, "differs": 1, "discards": 1, "forgets": 1,
    }
    head = header_of(offered.beat.flit)
    entry: Any = Signal(table.layout, name="matched")
    before, total = Signal(bits), Signal(bits + 1)
    expected = Mux(hit & entry.pull, entry.expected, offered.beat.expected)
    m.d.comb += [
        Value.cast(entry).eq(table.meta(offered.found)),
        before.eq(Mux(hit, table.count(offered.found), 0)),
        total.eq(before + head.count),
    ]
    same = (entry.op == head.op) & (entry.epoch == head.epoch)
    if "format" in table.layout.members:
        same = same & (entry.format == entry_of_operand(m, table.layout, head).format)
    held = LookedUp(
        **{name: Signal(shape, name=f"looked_{name}") for name, shape in shapes.items()}
    )
    with m.If(go):
        m.d.sync += [
            held.valid.eq(offered.valid),
            held.beat.eq(offered.beat),
            held.expires.eq(offered.expires),
            held.yields.eq(offered.yields),
            held.hit.eq(offered.found.any()),
            held.full.eq(table.valid.all()),
            held.where.eq(where),
            Value.cast(held.meta).eq(table.meta(where)),
            held.count.eq(table.count(where)),
            held.has.eq(table.count(where) != 0),
            held.total.eq(total),
            held.whole.eq(total == expected),
            held.excess.eq((expected - before - head.count)[-1] | (head.count == 0)),
            held.differs.eq(~same),
            held.discards.eq(purging.bit_select(head.region, 1)),
            held.forgets.eq(table.is_of(where, purging)),
        ]
    return held


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Verdict on a packet. All but ``head`` and ``new`` are high only with its header.

    Members
    -------
    heads:
        There is a header.
    head, new:
        The header, and the entry that it would begin.
    excess, mismatch:
        It is dropped.
    passes:
        It is an answer without an entry, and goes on as it is.
    purged:
        It is discarded, or the entry that it stands for is, since the region is purged.
    take, complete:
        It becomes part of a sum that stays in the table, or that is complete and leaves.
    adds:
        The data of the entry is added to its own, if that goes anywhere.
    evict:
        The entry at its place is evicted; one without operands is only forgotten.
    to_partial, to_result:
        A packet begins to leave through that queue.
    """

    heads: Value
    head: Any
    new: Any
    excess: Signal
    mismatch: Signal
    purged: Value
    passes: Signal
    take: Signal
    complete: Signal
    adds: Value
    evict: Signal
    to_partial: Signal
    to_result: Signal


def judge(m: Module, b: LookedUp, table: ReductionTable, *, multicast_partials: bool) -> Verdict:
    """Judge a packet by its header.

    Sums go to the queue of results when they are complete, to that of partials when they are not;
    with *multicast_partials* all sums of pushed operands go to that of results. Packets of a region
    that is purged are discarded.
    """
    head = header_of(b.beat.flit)
    new, entry = entry_of_operand(m, table.layout, head), b.meta
    heads = b.valid & b.beat.flit.first
    discards = heads & ~b.expires & b.discards
    operand = heads & ~b.expires & ~b.discards
    excess, mismatch, passes, complete, take, evict, leaves = (Signal() for _ in range(7))
    good = operand & ~mismatch & ~excess
    shared = (leaves & ~entry.pull) if multicast_partials else None  # for all members
    alone = leaves if shared is None else leaves & entry.pull
    whole = complete & ~new.pull
    to_partial, to_result = Signal(), Signal()
    m.d.comb += [
        mismatch.eq(operand & b.hit & b.differs),
        excess.eq(operand & ~mismatch & b.excess),
        passes.eq(good & new.pull & ~b.hit),
        complete.eq(good & ~passes & b.whole),
        take.eq(good & ~passes & ~complete),
        evict.eq((take & ~b.hit & b.full) | (heads & b.expires)),
        leaves.eq(evict & b.has & ~b.forgets),
        to_partial.eq(alone | passes | (complete & new.pull)),
        to_result.eq(whole if shared is None else whole | shared),
    ]
    return Verdict(
        heads=heads, head=head, new=new, excess=excess, mismatch=mismatch,
        purged=discards | (heads & b.expires & b.forgets), passes=passes, take=take,
        complete=complete, adds=operand & b.hit & b.has, evict=evict,
        to_partial=to_partial, to_result=to_result,
    )


def carry_out(
    m: Module, b: LookedUp, verdict: Verdict, table: ReductionTable,
    *, go: Signal, multicast_partials: bool,
) -> Any:
    """Change the table as a header is judged, when it moves on. Returns the header of the packet
    that leaves, if one does."""
    v, entry = verdict, b.meta
    meta: Any = Signal(table.layout)
    m.d.comb += meta.eq(v.new)
    with m.If(b.hit):
        # An entry keeps all fields of its first operand but the poison.
        m.d.comb += [
            meta.eq(entry),
            meta.poison.eq(entry.poison | v.head.poison),
            meta.source.eq(Mux(b.has, entry.source, v.head.source)),
        ]
    with m.If(v.take & go):
        table.keep(b.where, Value.cast(meta), b.total[:-1])
    with m.If((v.complete | b.expires) & v.heads & go):
        table.forget(Mux(b.hit, b.where, 0))
    incomplete = Kind.SUBTOTAL if multicast_partials else Kind.PARTIAL
    return header_of_entry(
        m, table.layout, Mux(v.evict, Value.cast(entry), Value.cast(meta)),
        count=Mux(v.evict, b.count, b.total[:-1]),
        kind=Mux(v.evict, incomplete, Kind.RESULT),
    )

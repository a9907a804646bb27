# SPDX-License-Identifier: Apache-2.0
"""The data of packets at a reduction unit: rows of the table, adders, and the queues behind."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import data

from hw.common.select import index_of
from hw.common.sram import SRAMBank
from hw.fp.alu import ReduceALU
from hw.fp.ops import ReduceOp
from hw.switch.packet_queue import PacketQueue
from hw.switch.reduction_verdict import LookedUp, Verdict

__all__ = ["execute", "row_cycles", "rows_are_written"]


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """Plan for a packet: add a row of ``entry`` to each beat, with ``op``; write the sum back, or
    send it, or the ``old`` row, to a queue."""

    adds: Value
    op: Value
    writes: Value
    partial: Value
    result: Value
    old: Value
    entry: Value


def row_cycles(*, beats: int, stages: int) -> int:
    """Cycles from a row of the memory to adders of some *stages*: a register, if packets have so
    many *beats* that the row is still written before the next packet reads it."""
    return 1 if beats > stages + 1 else 0


def rows_are_written(
    m: Module, *, heads: Value, last: Value, beats: int, stages: int
) -> Value:
    """High if the rows that a packet reads have been written, or are being written, whichever
    packet was before it, where packets have fewer *beats* than adders *stages*.

    *heads*: a header wants to move on; *last*: a packet's last beat moves on.
    """
    most = stages - beats
    wait = Signal(range(most + 1))
    with m.If(last):
        m.d.sync += wait.eq(most)
    with m.Elif(wait != 0):
        m.d.sync += wait.eq(wait - 1)
    return ~heads | (wait == 0)


def execute(
    m: Module, b: LookedUp, verdict: Verdict, header: Any, rows: SRAMBank,
    *, go: Signal, partials: PacketQueue, results: PacketQueue, beats: int, stages: int,
) -> None:
    """Read, add, and write or send: from the third stage on nothing stalls.

    Parameters
    ----------
    b, verdict:
        A beat behind the second stage, and the verdict on the packet that it begins.
    header:
        Header of the packet that leaves, if one does.
    rows:
        Data of the entries: for each *beats* rows of a beat.
    go:
        The beat moves on.
    partials, results:
        Queues in which room is reserved for the packet that leaves.
    beats:
        Beats of a packet behind its header.
    stages:
        Stages of the adders.
    """
    heads, flit = verdict.heads, b.beat.flit
    plan = _Plan(
        adds=verdict.adds, op=verdict.head.op[: Shape.cast(ReduceOp).width], writes=verdict.take,
        partial=verdict.to_partial, result=verdict.to_result, old=verdict.evict,
        entry=index_of(b.where),
    )
    held, row = _for_all_beats(m, plan, heads & go, b.valid & go, beats)
    move = b.valid & go
    m.d.comb += [
        rows.r_en.eq(move & ~heads),
        rows.r_addr.eq(row),
    ]
    control = data.StructLayout(
        {"row": len(rows.w_addr), "writes": 1, "partial": 1, "result": 1, "old": 1,
         "first": 1, "last": 1}
    )
    operand = Signal(len(flit.data))
    adds = Signal()
    op = Signal(ReduceOp)
    step = Signal(control)
    m.d.sync += [
        operand.eq(Mux(heads, header.as_value(), flit.data)),
        adds.eq(~heads & held.adds),
        Value.cast(op).eq(held.op),
        step.row.eq(row),
        step.writes.eq(move & ~heads & held.writes),
        step.partial.eq(move & Mux(heads, plan.partial, held.partial)),
        step.result.eq(move & Mux(heads, plan.result, held.result)),
        step.old.eq(~heads & held.old),
        step.first.eq(heads),
        step.last.eq(flit.last),
    ]
    m.submodules.alu = alu = ReduceALU(len(operand) // 32, stages=stages, keeps=True)
    old = _row(m, rows, handed_on=beats <= stages)
    for _ in range(row_cycles(beats=beats, stages=stages)):
        read = {"row": old, "operand": operand, "adds": adds, "op": op, "step": step}
        rows_held = {
            name: Signal.like(each, name=f"read_{name}", reset_less=name != "step")
            for name, each in read.items()
        }
        m.d.sync += [rows_held[name].eq(each) for name, each in read.items()]
        old, operand, adds, op, step = rows_held.values()
    m.d.comb += [
        alu.i_valid.eq(step.writes | step.partial | step.result),
        alu.op.eq(op),
        alu.keep.eq(~adds),
        alu.a.eq(old),
        alu.b.eq(operand),
    ]
    for stage in range(stages):
        later = Signal(control, name=f"step_{stage}")
        kept = Signal.like(old, name=f"old_{stage}")
        m.d.sync += [later.eq(step), kept.eq(old)]
        step, old = later, kept
    m.d.comb += [
        rows.w_en.eq(step.writes),
        rows.w_addr.eq(step.row),
        rows.w_data.eq(alu.o),
    ]
    for queue, wanted in ((partials, step.partial), (results, step.result)):
        m.d.comb += [
            queue.i.valid.eq(wanted),
            queue.i.p.data.eq(Mux(step.old, old, alu.o)),
            queue.i.p.first.eq(step.first),
            queue.i.p.last.eq(step.last),
        ]


def _for_all_beats(
    m: Module, plan: _Plan, first: Value, later: Value, beats: int
) -> tuple[_Plan, Value]:
    """The plan that came with the header, and the row of this beat in the memory."""
    row = Signal(range(beats))
    held = _Plan(
        **{name: Signal(len(each), name=f"plan_{name}") for name, each in vars(plan).items()}
    )
    with m.If(first):
        m.d.sync += [getattr(held, name).eq(each) for name, each in vars(plan).items()]
        m.d.sync += row.eq(0)
    with m.Elif(later):
        m.d.sync += row.eq(row + 1)
    return held, Cat(row, held.entry)


def _row(m: Module, rows: SRAMBank, *, handed_on: bool) -> Value:
    """The row that was read in the cycle before; *handed_on*: forwarded if it was being written.
    Without, the next packet always comes too late to need that."""
    if not handed_on:
        return rows.r_data
    written, fresh = Signal(len(rows.w_data)), Signal()
    m.d.sync += [
        written.eq(rows.w_data),
        fresh.eq(rows.w_en & rows.r_en & (rows.w_addr == rows.r_addr)),
    ]
    return Mux(fresh, written, rows.r_data)

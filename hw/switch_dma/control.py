# SPDX-License-Identifier: Apache-2.0
"""Queue of all-reduces: checks them, gives them to the links, collects outcomes."""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.common.all_reduce import AllReduceQueue
from hw.fp.ops import ReduceOp
from hw.switch.packet import Format
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.fixed_point import UNIT_BITS, unit_of
from hw.switch_dma.interfaces import StateSignature, WorkSignature
from hw.switch_dma.layouts import (
    FORMAT,
    NODE,
    PARTS,
    Part,
    each_region,
    halved,
    job_layout,
    outcome_layout,
    per_region,
    pick,
    row_of,
)
from hw.switch_dma.registers import CommandError

__all__ = ["Control", "descriptor_layout"]


_ROW_BITS = 3
"""Of the field that names a region's row."""


def descriptor_layout(c: SwitchDmaConfig) -> data.StructLayout:
    """An all-reduce as software describes it."""
    return data.StructLayout(
        {
            "source": c.address_bits,
            "destination": c.address_bits,
            "elements": 32,
            "op": ReduceOp,
            "tag": 8,
            "pull": 1,
            **({"row": _ROW_BITS} if c.regions > 1 else {}),
            **({"fixed": 1, "exponent": UNIT_BITS} if c.fixed_point else {}),
            **(PARTS if c.parts else {}),
            **(FORMAT if c.lengths else {}),
        }
    )


class Control(AllReduceQueue):
    """Descriptor queue and completion.

    A command is judged 2 cycles after it was given. One all-reduce runs at a time, in the order of
    the commands, whatever their regions; the next is begun 2 cycles after the one before is
    complete on all links. When a region's are given up those of others stay in the queue; the
    places of the former are free when those before them have begun.

    Parameters
    ----------
    config : SwitchDmaConfig

    Members
    -------
    node : ``In(NODE)``, for each region
        Who this is; always valid.
    state : ``In(StateSignature())``, for each region
        Of the region; with several, it is flushed in place of all by `flush`.
    pending : ``Out(regions)``, only with several
        Regions that have been given up, of which software is still to take note: their commands
        are refused. Always valid.
    row : ``Out(range(regions))``, only with several
        Of what runs, or is to run next; valid if there is any.
    lanes : ``Out(WorkSignature(config)).array(links)``
        Of each link, all of which take a job at once.

    And those of `AllReduceQueue`.
    """

    node: Any
    state: Any
    pending: Signal
    row: Signal
    lanes: Any

    def __init__(self, config: SwitchDmaConfig) -> None:
        count = config.regions
        several: dict[str, Any] = {"pending": Out(count), "row": Out(range(count))}
        super().__init__(
            config,
            descriptor=descriptor_layout(config),
            outcome=outcome_layout(),
            errors=CommandError,
            node=per_region(config, In(NODE)),
            state=per_region(config, In(StateSignature())),
            **(several if count > 1 else {}),
            lanes=Out(WorkSignature(config)).array(config.links),
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        self._reach = self._measure(m) if c.half else None
        self._nodes = each_region(c, self.node)
        self._joined, self._ready, self._flushes, aborted = (
            Cat(getattr(each, name) for each in each_region(c, self.state))
            for name in ("joined", "ready", "flush", "aborted")
        )
        self._taken = Signal(range(c.descriptors + 1), name="taken")
        given, accepted = self._take(m)
        head = accepted.p
        self._job = stream.Signature(job_layout(c)).create(path=("job",))
        job: Any = self._job.p
        last = Signal(32)
        block_bits = exact_log2(c.block_elements)
        takes = self._job.valid & self._job.ready
        running = Signal()
        row, void, flush = self._by_region(m, given, accepted, running, aborted)
        m.d.comb += [
            last.eq(head.elements - 1),
            job.source.eq(head.source),
            job.destination.eq(head.destination),
            job.elements.eq(head.elements),
            job.final.eq(last >> block_bits),
            job.tail_beats.eq(last[exact_log2(c.lanes) : block_bits]),
            job.tail_lanes.eq(last[: exact_log2(c.lanes)]),
            job.op.eq(head.op),
            job.tag.eq(head.tag),
            job.pull.eq(head.pull),
            self._job.valid.eq(
                accepted.valid & ~running & self._ready.bit_select(row, 1) & ~flush & ~void
            ),
            accepted.ready.eq(takes | void),
            self.completed.eq(running & Cat(each.done for each in self.lanes).all() & ~flush),
            *((job.row.eq(head.row),) if c.regions > 1 else ()),
        ]
        if c.fixed_point:
            m.d.comb += job.fixed.eq(head.fixed)
            with m.If(head.fixed):
                m.d.comb += [
                    job.op.eq(ReduceOp.SUM_I32),
                    job.unit.eq(unit_of(head.exponent, self._members(row))),
                ]
        if c.lengths:
            m.d.comb += job.format.eq(head.format)
        if c.half:  # twice as many in a beat
            with m.If(halved(head)):
                m.d.comb += [
                    job.tail_beats.eq(last[exact_log2(c.lanes) + 1 : block_bits]),
                    job.tail_lanes.eq(last),
                ]
        if c.parts:
            m.d.comb += [
                job.part.eq(head.part),
                # The last block is whole, however short it is.
                *(job[name].eq((head[name] + c.block_elements - 1)[:33] >> block_bits)
                  for name in ("begin", "end")),
            ]
            with m.If(head.part == Part.SEND):  # what nothing but zeros is added to
                m.d.comb += job.op.eq(ReduceOp.SUM_I32)
        m.d.comb += self._job.ready.eq(Cat(each.job.ready for each in self.lanes).all())
        for each in self.lanes:
            m.d.comb += [each.job.valid.eq(takes), each.job.payload.eq(self._job.payload)]
        with m.If(takes):
            m.d.sync += [running.eq(1), self.completed_tag.eq(job.tag)]
        with m.If(self.completed | flush):
            m.d.sync += running.eq(0)
        for name, _ in outcome_layout():
            m.d.comb += self.failed[name].eq(Cat(each.outcome[name] for each in self.lanes).any())
        return m

    def _members(self, row: Any) -> Value:
        """Number of members of the region in *row*."""
        return pick([each.members for each in self._nodes], row)

    def _by_region(
        self, m: Module, given: Any, accepted: Any, running: Signal, aborted: Value
    ) -> tuple[Value, Value, Value]:
        """Keep track of jobs by region. Of the job that runs, or is to run next, returns its row,
        whether it was given up in the queue, and whether its region is being given up."""
        c = self._config
        if c.regions == 1:
            m.d.comb += self.state.outstanding.eq(self.outstanding != 0)
            return C(0, 1), C(0, 1), self.flush
        begun = Signal(range(c.regions))
        with m.If(self._job.valid & self._job.ready):
            m.d.sync += begun.eq(self._job.p.row)
        m.d.comb += self.row.eq(Mux(running, begun, accepted.p.row))
        flush = self._flushes.bit_select(self.row, 1)
        void = self._void(m, given, accepted)
        # A job that was given up keeps its place in the queue until those before it have begun.
        passes = accepted.valid & accepted.ready & void
        ends = running & (self.completed | flush)
        taken = self._taken
        m.d.sync += taken.eq(taken + self.accepted - passes - ends)
        left: list[Any] = []
        for k, state in enumerate(self.state):
            count = Signal.like(self.outstanding, name=f"outstanding_{k}")
            here = self.accepted & (given.row == k)
            left.append(Mux(state.flush, 0,
                            count + here - (self.completed & (self.row == k))))
            m.d.sync += count.eq(left[-1])
            m.d.comb += state.outstanding.eq(count != 0)
        m.d.sync += [
            self.outstanding.eq(sum(left)),
            self.pending.eq(Mux(self.unaware, self.pending, 0) | aborted),
        ]
        return self.row, void, flush

    def _void(self, m: Module, given: Any, accepted: Any) -> Value:
        """High if the next job in the queue was given up after it was accepted."""
        c = self._config
        places = range(c.descriptors)
        first, free = Signal(places), Signal(places)
        void = Signal(c.descriptors)
        for count, moves in ((first, accepted.valid & accepted.ready), (free, self.accepted)):
            with m.If(moves):
                m.d.sync += count.eq(Mux(count == c.descriptors - 1, 0, count + 1))
        for k in places:
            row = Signal(range(c.regions), name=f"row_{k}")
            with m.If(self.accepted & (free == k)):
                m.d.sync += [row.eq(given.row), void[k].eq(0)]
            with m.Elif(self._flushes.bit_select(row, 1)):
                m.d.sync += void[k].eq(1)
        return accepted.valid & void.bit_select(first, 1)

    def _measure(self, m: Module) -> tuple[Signal, Signal, Signal]:
        """Ends of the vector and the result of the last command, for elements of its format, and
        whether memory cannot be so large."""
        unreachable = Signal()
        given: Any = Signal(self._descriptor, name="measured")
        ends = [Signal(max(self._config.address_bits, 34) + 1, name=f"end_{k}") for k in range(2)]
        with m.If(self.command_strobe):
            m.d.sync += [unreachable.eq(self.unreachable), given.eq(self.command)]
        length_bytes = Mux(halved(given), given.elements << 1, given.elements << 2)
        m.d.sync += [
            end.eq(start + length_bytes)
            for end, start in zip(ends, (given.source, given.destination))
        ]
        return ends[0], ends[1], unreachable

    def _early_faults(self, given: Any) -> dict[str, Any]:
        c = self._config
        row = given.row if c.regions > 1 else C(0, 1)
        endpoints, members, known = c.endpoints, self._members(row), C(1, 1)
        outside = pick([each.endpoint for each in self._nodes], row) >= endpoints
        faults: dict[str, Any] = {}
        if c.regions > 1:
            first, _ = row_of(self._nodes, pick([each.region for each in self._nodes], given.row))
            faults["REGION"] = (given.row >= c.regions) | ((members != 0) & (first != given.row))
            known = ~faults["REGION"]
        if c.fixed_point:
            exponent = given.exponent
            faults["WINDOW"] = given.fixed & (
                (given.op != ReduceOp.SUM_F32) | (exponent == 0) | exponent.all()
            )
        if c.parts:
            bits = exact_log2(c.block_elements)
            cut = Cat(
                each[:bits].any() & (each != given.elements) for each in (given.begin, given.end)
            ).any()
            beyond = (given.end > given.elements) | (given.begin > given.end)
            sent = given.part == Part.SEND
            both = sent & given.fixed if c.fixed_point else 0
            faults["PART"] = (Value.cast(given.part) != Part.NONE.value) & (cut | beyond | both)
        if c.lengths:
            faults["FORMAT"] = self._misused(given)
        faults["MEMBERS"] = known & ((members < 2) | (members > endpoints) | outside)
        return faults

    def _misused(self, given: Any) -> Value:
        """High if a command's format is unknown, or not for what it asks."""
        c = self._config
        unknown = Cat(
            given.format == each
            for each in Format if each is not Format.WORDS and each not in c.lengths
        ).any()
        barred = given.op == ReduceOp.SUM_I32
        if c.fixed_point:
            barred = barred | given.fixed
        if c.parts:
            barred = barred | (given.part == Part.SEND)
        return unknown | ((given.format != Format.WORDS) & barred)

    def _faults(self, given: Any, found: Mapping[str, Signal]) -> dict[str, Any]:
        several = self._config.regions > 1
        row = given.row if several else C(0, 1)
        faults: dict[str, Any] = {"UNJOINED": ~self._joined.bit_select(row, 1)}
        if several:
            faults["UNJOINED"] &= ~found["REGION"]
            faults["FULL"] = self._taken == self._config.descriptors
            faults["ABORTING"] = self._flushes.bit_select(row, 1) | (
                self.unaware & self.pending.bit_select(row, 1)
            )
        if self._reach is not None:
            read, written, unreachable = self._reach
            faults["ADDRESS"] = (
                unreachable | (read > self._memory_size) | (written > self._memory_size)
            )
        return faults

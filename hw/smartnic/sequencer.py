# SPDX-License-Identifier: Apache-2.0
"""Walks through the blocks of an all-reduce in the order of one flow."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from hw.common.skid import SkidBuffer
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import item_layout, job_layout

__all__ = ["BlockSequencer"]


class BlockSequencer(wiring.Component):
    """Turns a job into blocks: for every round of this engine, the block of each rank once.

    Rank *r* starts the reduction of a round with block *r* and goes down from there, modulo the
    number of nodes, since that is the order in which partial sums arrive; it ends with block
    *r* + 1, which is then complete. The gathering starts with that one and goes down likewise.

    One item per cycle within a round; 2 cycles between rounds, 3 between jobs. Outputs depend on
    registers only.

    Parameters
    ----------
    config : SmartNicConfig
    engine : int
        Which engine this is: it takes rounds *engine*, *engine* + ``config.engines``, ...
    gather : bool
        Order of the gathering, with an item of no beats and ``end`` at the end of every job;
        otherwise the order of the reduction, without such items.

    Members
    -------
    job : ``In(stream.Signature(job_layout(config)))``
        All-reduces to do.
    o : ``Out(stream.Signature(item_layout(config)))``
        Their blocks.
    """

    job: stream.Interface
    o: stream.Interface

    def __init__(self, config: SmartNicConfig, *, engine: int, gather: bool) -> None:
        self._config = config
        self._engine = engine
        self._gather = gather
        super().__init__(
            {
                "job": In(stream.Signature(job_layout(config))),
                "o": Out(stream.Signature(item_layout(config))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        beat_bits = exact_log2(c.bus_bytes)
        m.submodules.items = items = SkidBuffer(item_layout(c))
        connect(m, items.o, flipped(self.o))

        job: Any = Signal(job_layout(c))
        nodes = Signal(range(257))
        number = Signal(33)  # of the round, and in "WALK" of the next one
        begins = Signal()  # it is the first of the all-reduce
        base = Signal(33)  # beats before it
        beyond = Signal(signed(35))  # beats of the vector from there on
        # The round is one of full blocks; it is the one with the rest.
        full, partial = Signal(), Signal()
        block = Signal(range(c.block_beats + 1))
        offset = Signal(34)  # of the block, in beats from the start of the vector
        left = Signal(signed(35))  # beats of the vector from there on; they keep step
        span = Signal(range(255 * c.block_beats + 1))  # from the first block to the last
        # In the round with the rest: the beats before the first block, and the span.
        rest_before, rest_span = Signal.like(span), Signal.like(span)
        index = Signal.like(job.rank)
        first_index = Signal.like(job.rank)
        passed = Signal.like(job.rank)  # blocks of this round done
        round_span = Signal(range(256 * c.block_beats + 1))
        block_bits = exact_log2(c.block_beats)
        item = items.i.p
        vector = job.destination if self._gather else job.source
        given = self.job.p

        m.d.comb += [
            nodes.eq(job.last_rank + 1),
            round_span.eq(nodes << block_bits),
            item.beats.eq(block),
            item.first.eq(passed == 0),
            item.last.eq(passed == job.last_rank),
            item.start.eq((passed == 0) & begins),
            *(item[name].eq(job[name]) for name in ("tail_lanes", "op", "compress")),
            item.address.eq(vector + (offset << beat_bits)),
        ]
        self._clip(m, item, left, block)
        # Known in "SELECT": a round has two blocks at least, and a job comes two cycles earlier.
        m.d.sync += [
            full.eq(number < job.rounds),
            partial.eq((number == job.rounds) & (job.rest != 0)),
        ]
        before = Mux(full, first_index << block_bits, rest_before)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.job.ready.eq(1)
                m.d.sync += number.eq(self._engine)
                with m.If(self.job.valid):
                    m.d.sync += [job.eq(given), first_index.eq(given.rank)]
                    if self._gather:
                        after = Mux(given.rank == given.last_rank, 0, given.rank + 1)
                        m.d.sync += first_index.eq(after)
                    m.next = "START"
            with m.State("START"):
                m.d.sync += [
                    base.eq(self._engine * round_span if self._engine else 0),
                    beyond.eq(job.beats - (self._engine * round_span if self._engine else 0)),
                    begins.eq(self._engine == 0),
                    rest_before.eq(first_index * job.rest),
                    rest_span.eq(job.last_rank * job.rest),
                ]
                m.next = "SELECT"
            with m.State("SELECT"):
                m.d.sync += [
                    block.eq(Mux(full, c.block_beats, job.rest)),
                    span.eq(Mux(full, job.last_rank << block_bits, rest_span)),
                    offset.eq(base + before),
                    left.eq(beyond - before),
                    index.eq(first_index),
                    passed.eq(0),
                    number.eq(number + c.engines),
                    base.eq(base + c.engines * round_span),
                    beyond.eq(beyond - c.engines * round_span),
                ]
                with m.If(full | partial):
                    m.next = "WALK"
                with m.Else():
                    m.next = "END" if self._gather else "IDLE"
            with m.State("WALK"):
                m.d.comb += items.i.valid.eq(1)
                with m.If(items.i.ready):
                    m.d.sync += [
                        passed.eq(passed + 1),
                        index.eq(Mux(index == 0, job.last_rank, index - 1)),
                        offset.eq(Mux(index == 0, offset + span, offset - block)),
                        left.eq(Mux(index == 0, left - span, left + block)),
                    ]
                    with m.If(item.last):
                        m.d.sync += begins.eq(0)
                        m.next = "SELECT"
            if self._gather:
                with m.State("END"):
                    self._end(m, items.i)
                    with m.If(items.i.ready):
                        m.next = "IDLE"
        return m

    def _end(self, m: Module, items: Any) -> None:
        """Offer the item that ends an all-reduce."""
        m.d.comb += [
            items.valid.eq(1),
            items.p.beats.eq(0),
            items.p.valid.eq(0),
            items.p.some.eq(0),
            items.p.tail.eq(0),
            items.p.end.eq(1),
        ]

    def _clip(self, m: Module, item: Any, left: Signal, block: Signal) -> None:
        """Beats of the *block* that the vector has if *left* are, and whether its last one is
        among them."""
        m.d.comb += [item.some.eq(left > 0), item.tail.eq((left > 0) & (left <= block))]
        with m.If(left <= 0):
            m.d.comb += item.valid.eq(0)
        with m.Elif(left < block):
            m.d.comb += item.valid.eq(left)
        with m.Else():
            m.d.comb += item.valid.eq(block)

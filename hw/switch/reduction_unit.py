# SPDX-License-Identifier: Apache-2.0
"""The reduction table of a switch port, with its ALUs."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.params import require, require_choice, require_int
from hw.common.sram import SRAMBank
from hw.fp.adder import MAX_STAGES
from hw.switch.formats import FLIT_LANES, LANES
from hw.switch.layouts import LOAD_HEADER, OF_REGION, TAKEN, operand_beat
from hw.switch.packet import HEADER, beats_of
from hw.switch.packet_queue import PacketQueue
from hw.switch.reduction_arrivals import offer
from hw.switch.reduction_datapath import execute, row_cycles, rows_are_written
from hw.switch.reduction_entry import entry_layout
from hw.switch.reduction_loads import LoadStatus, take_loads
from hw.switch.reduction_table import ReductionTable
from hw.switch.reduction_verdict import LookedUp, Verdict, carry_out, judge, look_up

__all__ = ["EVENTS", "ReductionUnit"]

EVENTS = (
    "completed", "evicted", "expired", "stalled", "bypassed", "passed", "excess", "mismatch",
    "duplicate", "purged", "load_purged",
)
"""Outputs of the unit that are high for one cycle for every event."""


class ReductionUnit(wiring.Component):
    """Reduces operands address by address: those that endpoints push, and the answers to loads.

    **Push.** The table is a fully associative cache of sums. The first operand of an address takes
    an entry, later ones are added to it, and the operand that makes it complete sends it on as a
    RESULT instead of writing it back. If there is no free entry, the least recently used one is
    sent on while the new operand takes its place.

    **Pull.** A LOAD takes an entry before it is sent on to the members. RESPONSEs are added to it,
    and the one that makes it complete sends it on as a RESPONSE. A load of an endpoint at this
    switch waits until there is a free entry; if the least recently used one is a sum of pushed
    operands, it gives way. A load of another switch goes on without an entry, if none is free. A
    RESPONSE without an entry is sent on as it came.

    An entry that gives way, or that got no operand for one to two periods of ``timeout`` cycles, is
    sent on incomplete, with the number of its operands: as a PARTIAL (with `multicast_partials` as
    a SUBTOTAL, among the results), or as a RESPONSE. An answer to which nothing has been added yet
    is only forgotten.

    An operand waits for room in the queue of results or partials that it adds to, and for nothing
    else: never for an entry to complete, and never for a load. If the other queue has none, it goes
    on a cycle later. Operands are reduced in the order of their arrival; the sum so far is the left
    operand of the addition.

    A packet is a header and ``payload_flits * 4 / lanes`` beats of `lanes` words. Throughput is one
    beat per cycle, also for packets of one entry back to back: an entry's row is written before the
    next packet can read it, or handed on as it is written. A packet of fewer beats than the adders
    have stages takes ``alu_stages + 1`` cycles. The header of a packet that leaves is offered ``5 +
    alu_stages`` cycles after that of the packet that caused it was accepted (6 from queues of 64
    beats on, and one more if packets have more beats than ``alu_stages + 1``: rows are held in
    front of the adders), its beats as those of that packet arrive. A time-out takes the time of a
    packet, a load none: it takes its entry between two packets, and is offered 2 cycles after it
    was accepted or later. All outputs depend on registers only.

    Dropped whole: operands of which the entry would count more than are expected (``excess``), with
    none (``count`` 0, too), or of another operation or epoch than their entry (``mismatch``); loads
    that have an entry already (``duplicate``).

    Parameters
    ----------
    entries : int
        Size of the table, 1 to 32.
    payload_flits : int
        Flits of data in a packet: a power of two, more than `alu_stages`, at least 2.
    alu_stages : int
        Pipeline stages of the adders, 0 to 8.
    queue_packets : int
        Packets that wait for the output, of either kind. With 3 the unit keeps up with the input.
    timeout_bits : int
        Width of ``timeout``.
    formats : bool
        Whether results get the format of their operands; else headers have none.
    multicast_partials : bool
        Whether sums of pushed operands that are not complete are for all members.
    lanes : int
        Words that are added in a cycle: 4, 8 or 16, half of a packet's at most.
    regions : int
        Regions whose packets come.

    Members
    -------
    i : ``In(stream.Signature(operand_beat(lanes)))``
        Whole packets of kind PUSH or RESPONSE, of as many beats each. ``destination``
        names the home endpoint or the requester. The checksum is not looked at.
    load : ``In(stream.Signature(LOAD_HEADER))``
        Loads.
    request : ``Out(stream.Signature(LOAD_HEADER))``
        The same, when they have an entry or go on without.
    partial, result : ``Out(stream.Signature(beats_of(lanes)))``
        Whole packets, PARTIAL and RESPONSE, and RESULT and SUBTOTAL; their checksum is not filled
        in.
    timeout : ``In(timeout_bits)``
        Cycles of a period; 0 for never.
    occupied : ``Out(range(entries + 1))``
        Entries in use.
    completed, evicted, expired : ``Out(1)``
        High for one cycle for every entry that completed, gave way, or was timed out.
    stalled, bypassed, passed : ``Out(1)``
        For every load that had to wait for an entry, for every load that went on without, and for
        every RESPONSE that had none.
    excess, mismatch, duplicate : ``Out(1)``
        For every packet dropped.
    purged, load_purged : ``Out(1)``
        For every operand and entry discarded; for every load.
    purging : ``In(regions)``
        Regions of which everything is discarded: operands and loads as they come, entries one after
        the other, in the time of a packet each; but not what is in the queues already.
    holds : ``Out(regions)``
        Regions that have entries, or a load that is held.
    judged, left, load_dropped : ``Out(valid, region)``
        ``valid`` for one cycle for every operand that is judged, every packet that begins to leave
        for a queue, every load that does not go on.
    taken : ``Out(TAKEN)``
        ``valid`` for one cycle for every operand that is reduced, in the order of reduction.
    idle : ``Out(1)``
        Nothing is held.

    Raises
    ------
    TypeError, ValueError
        A parameter is not allowed.
    """

    i: stream.Interface
    load: stream.Interface
    request: stream.Interface
    partial: stream.Interface
    result: stream.Interface
    timeout: Signal
    occupied: Signal
    completed: Signal
    evicted: Signal
    expired: Signal
    stalled: Signal
    bypassed: Signal
    passed: Signal
    excess: Signal
    mismatch: Signal
    duplicate: Signal
    purged: Signal
    load_purged: Signal
    purging: Signal
    holds: Signal
    judged: Any
    left: Any
    load_dropped: Any
    taken: Any
    idle: Signal

    def __init__(
        self,
        *,
        entries: int,
        payload_flits: int = 8,
        alu_stages: int = 3,
        queue_packets: int = 3,
        timeout_bits: int = 16,
        formats: bool = False,
        multicast_partials: bool = False,
        lanes: int = FLIT_LANES,
        regions: int = 1,
    ) -> None:
        self.multicast_partials = multicast_partials
        self._layout = entry_layout(regions=regions, formats=formats)
        self._entries = require_int("ReductionUnit entries", entries, maximum=32)
        self._stages = require_int(
            "ReductionUnit alu_stages", alu_stages, minimum=0, maximum=MAX_STAGES
        )
        flits = require_int(
            "ReductionUnit payload_flits",
            payload_flits,
            minimum=max(2, self._stages + 1),
            power_of_two=True,
        )
        self._lanes = require_choice("ReductionUnit lanes", lanes, LANES)
        # With a single beat, a load would look for its entry before the header has changed the
        # table.
        self._beats = flits * FLIT_LANES // lanes
        most = flits * FLIT_LANES // 2
        require(lanes <= most, "ReductionUnit lanes", f"at most {most}", lanes)
        self._beat = beats_of(lanes)
        self._regions = require_int("ReductionUnit regions", regions, maximum=64)
        self._packets = require_int("ReductionUnit queue_packets", queue_packets)
        timeout_bits = require_int("ReductionUnit timeout_bits", timeout_bits, maximum=32)
        super().__init__(
            {
                "i": In(stream.Signature(operand_beat(lanes))),
                "load": In(stream.Signature(LOAD_HEADER)),
                "request": Out(stream.Signature(LOAD_HEADER)),
                "partial": Out(stream.Signature(self._beat)),
                "result": Out(stream.Signature(self._beat)),
                "timeout": In(timeout_bits),
                "occupied": Out(range(self._entries + 1)),
                **dict.fromkeys(EVENTS, Out(1)),
                "purging": In(self._regions),
                "holds": Out(self._regions),
                **dict.fromkeys(("judged", "left", "load_dropped"), Out(OF_REGION)),
                "taken": Out(TAKEN),
                "idle": Out(1),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from the acceptance of a header to the offer of the header that it causes."""
        held = row_cycles(beats=self._beats, stages=self._stages)
        return 3 + held + self._stages + self._queue().latency

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        table = ReductionTable(m, self._entries, self._layout, HEADER["count"].width)
        m.submodules.partials = partials = self._queue()
        m.submodules.results = results = self._queue()
        connect(m, partials.o, flipped(self.partial))
        connect(m, results.o, flipped(self.result))
        rows = SRAMBank(depth=self._entries * self._beats, width=32 * self._lanes)
        m.submodules.rows = rows

        purging = Signal.like(self.purging)
        m.d.sync += purging.eq(self.purging)
        go = Signal()  # the three stages in front of the adders move on
        table.age(self.timeout)
        table.update()
        between = Signal()  # of the packets at the input one has ended and none has begun
        waits = Signal()  # a load waits for an entry
        offered = offer(
            m, self.i, table, beats=self._beats, go=go, between=between, waits=waits,
            purging=purging,
        )
        loads = take_loads(
            m, self.load, self.request, table, between=between, waits=waits,
            purged_next=self.purging, settles=self._beats > 2,
        )
        self._report_loads(m, loads)
        looked = look_up(m, offered, table, go=go, purging=purging)
        verdict = judge(m, looked, table, multicast_partials=self.multicast_partials)
        self._move(m, looked, verdict, go, partials, results)
        self._report_packets(m, looked, verdict, go)
        header = carry_out(
            m, looked, verdict, table, go=go, multicast_partials=self.multicast_partials
        )
        execute(
            m, looked, verdict, header, rows, go=go, partials=partials, results=results,
            beats=self._beats, stages=self._stages,
        )
        goes_on = verdict.to_partial | verdict.to_result
        m.d.comb += [
            self.holds.eq(table.regions(self._regions)
                          | Mux(loads.held, 1 << loads.load.region, 0)),
            self.judged.valid.eq(verdict.heads & ~looked.expires & go),
            self.judged.region.eq(verdict.head.region),
            self.left.valid.eq(goes_on & go),
            self.left.region.eq(header.region),
            self.occupied.eq(sum(table.valid[k] for k in range(self._entries))),
            self.idle.eq(
                ~table.valid.any() & partials.empty & results.empty
                & ~offered.valid & ~looked.valid & ~loads.held
            ),
        ]
        return m

    def _queue(self) -> PacketQueue:
        return PacketQueue(packets=self._packets, flits=self._beats + 1, layout=self._beat)

    def _move(
        self, m: Module, b: LookedUp, verdict: Verdict, go: Signal, partials: PacketQueue,
        results: PacketQueue,
    ) -> None:
        """The stages in front of the adders wait for room in the queue that a packet goes to.

        Many registers hear of it. So a header goes on at once if both have room; if not, the next
        cycle knows which of them it needs, which nobody else fills meanwhile."""
        to_partial, to_result = verdict.to_partial, verdict.to_result
        fits = Signal()
        m.d.sync += fits.eq(
            ~go & ~(to_result & ~results.room) & ~(to_partial & ~partials.room)
        )
        moves = ~verdict.heads | (results.room & partials.room) | fits
        if self._beats < self._stages:
            moves = moves & rows_are_written(
                m, heads=verdict.heads, last=b.valid & b.beat.flit.last & go, beats=self._beats,
                stages=self._stages,
            )
        m.d.comb += [
            go.eq(moves),
            partials.reserve.eq(to_partial & go),
            results.reserve.eq(to_result & go),
        ]

    def _report_loads(self, m: Module, loads: LoadStatus) -> None:
        m.d.sync += [
            self.duplicate.eq(loads.duplicate),
            self.bypassed.eq(loads.bypassed),
            self.stalled.eq(loads.stalled),
            self.load_purged.eq(loads.purged),
            self.load_dropped.valid.eq(loads.duplicate | loads.purged),
            self.load_dropped.region.eq(loads.load.region),
        ]

    def _report_packets(self, m: Module, b: LookedUp, verdict: Verdict, go: Signal) -> None:
        v = verdict
        overdue = b.expires & ~b.yields
        m.d.sync += [
            self.excess.eq(v.excess & go),
            self.mismatch.eq(v.mismatch & go),
            self.passed.eq(v.passes & go),
            self.completed.eq(v.complete & go),
            self.purged.eq(v.purged & go),
            self.evicted.eq(v.evict & go & ~overdue),
            self.expired.eq(v.evict & go & overdue & ~v.purged),
            self.taken.valid.eq((v.take | v.complete) & go),
            self.taken.pull.eq(v.new.pull),
            *(self.taken[name].eq(v.new[name])
              for name in ("region", "address", "tag", "destination", "source")),
            self.taken.count.eq(v.head.count),
        ]

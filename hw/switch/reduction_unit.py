"""The reduction table of a switch port, with its ALUs."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.fifo import StreamFIFO
from hw.common.params import require, require_choice, require_int
from hw.common.sram import SRAMBank
from hw.fp.adder import MAX_STAGES
from hw.fp.alu import ReduceALU
from hw.fp.ops import ReduceOp
from hw.switch.formats import FLIT_LANES, LANES
from hw.switch.layouts import LOAD_HEADER
from hw.switch.packet import FLIT, HEADER, Kind, beats_of, header_of
from hw.switch.reduction_table import ReductionTable

__all__ = ["EVENTS", "OPERAND_FLIT", "TAKEN", "PacketQueue", "ReductionUnit", "operand_beat"]


def operand_beat(lanes: int) -> data.StructLayout:
    """A beat of an operand of *lanes* words, and how many operands make its region's results
    (looked at in headers)."""
    return data.StructLayout({"flit": beats_of(lanes), "expected": len(Signal(HEADER).count)})


OPERAND_FLIT = operand_beat(FLIT_LANES)
"""The same where a beat is a flit."""

TAKEN = data.StructLayout(
    {
        "valid": 1,
        "pull": 1,  # for a load; ``destination`` is its requester
        **{name: HEADER[name].shape
           for name in ("region", "address", "tag", "destination", "source", "count")},
    }
)
"""An operand, or a sum of ``count`` of them, that becomes part of a sum."""

_NAMES = ("op", "region", "address", "tag", "destination", "source", "epoch", "poison")
def _kept(names: Sequence[str]) -> data.StructLayout:
    """What an entry has of its first packet."""
    return data.StructLayout(
        {
            **{name: HEADER[name].shape for name in names},
            "pull": 1,  # the answer to a load
            "expected": HEADER["count"].shape,  # operands in it, when it is complete
        }
    )


EVENTS = (
    "completed", "evicted", "expired", "stalled", "bypassed", "passed", "excess", "mismatch",
    "duplicate",
)
"""Outputs of the unit that are high for one cycle for every event."""


class PacketQueue(wiring.Component):
    """FIFO for flits, or beats, in which room for whole packets is reserved before they are
    written.

    Latency is that of a `StreamFIFO` of ``packets * flits`` flits. ``i`` never stalls, since its
    writer has reserved room. A packet may be read while it is being written.

    Parameters
    ----------
    packets : int
        Packets that fit.
    flits : int
        Flits of the longest packet.
    layout : data.StructLayout
        Of a flit.

    Members
    -------
    room : ``Out(1)``
        There is room for another packet.
    reserve : ``In(1)``
        It is taken; only with ``room``.
    i : ``In(stream.Signature(layout, always_ready=True))``
        Flits of packets for which room was reserved.
    o : ``Out(stream.Signature(layout))``
        The same flits.
    empty : ``Out(1)``
        Nothing is held or reserved.
    """

    room: Signal
    reserve: Signal
    i: stream.Interface
    o: stream.Interface
    empty: Signal

    def __init__(
        self, *, packets: int, flits: int, layout: data.StructLayout = FLIT
    ) -> None:
        self._packets = require_int("PacketQueue packets", packets)
        self._flits = require_int("PacketQueue flits", flits)
        self._layout = layout
        super().__init__(
            {
                "room": Out(1),
                "reserve": In(1),
                "i": In(stream.Signature(layout, always_ready=True)),
                "o": Out(stream.Signature(layout)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.flits = flits = StreamFIFO(
            self._layout, self._packets * self._flits
        )
        connect(m, flits.o, flipped(self.o))
        left = self.o.valid & self.o.ready & self.o.p.last
        taken = Signal(range(self._packets + 1))
        m.d.sync += taken.eq(taken + self.reserve - left)
        m.d.comb += [
            flits.i.valid.eq(self.i.valid),
            flits.i.payload.eq(self.i.payload),
            self.room.eq(taken != self._packets),
            self.empty.eq(taken == 0),
        ]
        return m


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
    else: never for an entry to complete, and never for a load. Operands are reduced in the order of
    their arrival; the sum so far is the left operand of the addition.

    A packet is a header and ``payload_flits * 4 / lanes`` beats of `lanes` words. Throughput is one
    beat per cycle, also for packets of one entry back to back: an entry's row is written before the
    next packet can read it, or handed on as it is written. A packet of fewer beats than the adders
    have stages takes ``alu_stages + 1`` cycles. The header of a packet that leaves is offered ``4 +
    alu_stages`` cycles after that of the packet that caused it was accepted (5 from queues of 64
    beats on), its beats as those of that packet arrive. A time-out takes the time of a packet, a
    load none: it takes its entry between two packets, and is offered 2 cycles after it was accepted
    or later. All outputs depend on registers only.

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
        Pipeline stages of the adders, 0 to 6.
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
    ) -> None:
        self.multicast_partials = multicast_partials
        self._names = (*_NAMES, "format") if formats else _NAMES
        self._kept = _kept(self._names)
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
                "taken": Out(TAKEN),
                "idle": Out(1),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from the acceptance of a header to the offer of the header that it causes."""
        queue = StreamFIFO(self._beat, self._packets * (self._beats + 1))
        return 3 + self._stages + queue.latency

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        table = ReductionTable(m, self._entries, self._kept, HEADER["count"].width)
        m.submodules.partials = partials = self._queue()
        m.submodules.results = results = self._queue()
        connect(m, partials.o, flipped(self.partial))
        connect(m, results.o, flipped(self.result))
        rows = SRAMBank(depth=self._entries * self._beats, width=32 * self._lanes)
        m.submodules.rows = rows

        go = Signal()  # the three stages in front of the adders move on
        self._age(m, table)
        between = Signal()  # of the packets at the input one has ended and none has begun
        waits = Signal()  # a load waits for an entry
        offered = self._offered(m, table, go, between, waits)
        loaded = self._load(m, table, between, waits)
        looked = self._look_up(m, offered, table, go)
        planned = self._decide(m, looked, table, go, partials, results)
        self._execute(m, planned, rows, partials, results)
        m.d.comb += [
            self.occupied.eq(sum(table.valid[k] for k in range(self._entries))),
            self.idle.eq(
                ~table.valid.any() & partials.empty & results.empty
                & ~offered["valid"] & ~looked["valid"] & ~loaded
            ),
        ]
        return m

    def _queue(self) -> PacketQueue:
        return PacketQueue(packets=self._packets, flits=self._beats + 1, layout=self._beat)

    def _age(self, m: Module, table: ReductionTable) -> None:
        since = Signal.like(self.timeout)
        over = Signal()
        m.d.comb += over.eq((self.timeout != 0) & (since + 1 >= self.timeout))
        m.d.sync += since.eq(Mux(over | (self.timeout == 0), 0, since + 1))
        table.age(over)

    def _offered(
        self, m: Module, table: ReductionTable, go: Signal, between: Signal, waits: Signal
    ) -> dict[str, Any]:
        """First stage: a flit of the input, or of a packet that stands for an entry that is to
        leave: it is overdue, or a load waits for it.

        Such a packet has its place between others, so that an entry never leaves so while an
        operand of it is under way. After it the input has a turn, so that entries which age faster
        than packets pass cannot keep it waiting. Entries that match are looked for in the same
        cycle.
        """
        arriving = Signal(operand_beat(self._lanes))
        within = Signal()  # a packet of the input has begun
        rest = Signal(range(self._beats + 1))  # beats to come of a packet that stands for another
        begin = Signal()
        stands = Signal()
        turn = Signal()
        overdue, leaving = Signal(self._entries), Signal(self._entries)
        m.d.comb += [
            arriving.eq(self.i.payload),
            overdue.eq(table.overdue()),
            leaving.eq(Mux(overdue.any(), overdue & -overdue, Mux(waits, table.oldest_sum(), 0))),
            between.eq(~within & (rest == 0)),
            begin.eq(between & leaving.any() & ~turn),
            stands.eq(begin | (rest != 0)),
            self.i.ready.eq(go & ~stands),
        ]
        valid, expires, yields = Signal(), Signal(), Signal()
        found = Signal(self._entries)
        beat = Signal(operand_beat(self._lanes))
        header = header_of(arriving.flit)
        with m.If(go):
            m.d.sync += [
                valid.eq(stands | self.i.valid), beat.eq(arriving), expires.eq(stands),
                yields.eq(~overdue.any()), turn.eq(stands),
            ]
            with m.If(stands):
                m.d.sync += [
                    rest.eq(Mux(begin, self._beats, rest - 1)),
                    beat.flit.first.eq(begin),
                    beat.flit.last.eq(rest == 1),
                    found.eq(leaving),
                ]
            with m.Else():
                m.d.sync += found.eq(table.match(self._entry_of(m, header)))
                with m.If(self.i.valid):
                    m.d.sync += within.eq(~arriving.flit.last)
        return {
            "valid": valid, "beat": beat, "expires": expires, "yields": yields, "found": found,
        }

    def _entry_of(self, m: Module, header: Any) -> Any:
        """What an entry would have of an operand that is the first of it."""
        entry: Any = Signal(self._kept)
        pull = header.kind == Kind.RESPONSE
        m.d.comb += [
            *(entry[name].eq(header[name]) for name in self._names),
            # Answers become words, whatever they were.
            *([entry.format.eq(Mux(pull, 0, header.format))] if "format" in self._names else []),
            entry.pull.eq(pull),
            entry.tag.eq(Mux(pull, header.tag, 0)),
        ]
        return entry

    def _load(self, m: Module, table: ReductionTable, between: Signal, waits: Signal) -> Signal:
        """A load takes an entry between two packets: the header of the one before has changed the
        table by then. Returns whether there is a load."""
        held, settled, counted = Signal(), Signal(), Signal()
        load: Any = Signal(LOAD_HEADER)
        entry: Any = Signal(self._kept)
        free = Signal(self._entries)
        again, takes, goes = Signal(), Signal(), Signal()
        m.d.comb += [
            *(entry[name].eq(load[name]) for name in self._names),
            entry.destination.eq(load.source),
            entry.poison.eq(0),
            entry.pull.eq(1),
            entry.expected.eq(load.expected),
            free.eq(table.free()),
            self.load.ready.eq(~held),
            self.request.valid.eq(settled),
            self.request.payload.eq(load),
        ]
        with m.If(held & ~settled):
            m.d.comb += waits.eq(load.first & ~free.any())
            with m.If(between):
                m.d.comb += [
                    again.eq(table.match(entry).any()),
                    takes.eq(~again & free.any()),
                    goes.eq(~again & ~free.any() & ~load.first),
                ]
        with m.If(self.load.valid & ~held):
            m.d.sync += [held.eq(1), load.eq(self.load.payload), counted.eq(0)]
        with m.If(again | (settled & self.request.ready)):
            m.d.sync += [held.eq(0), settled.eq(0)]
        with m.If(takes):
            table.keep(free, Value.cast(entry), Const(0))
        with m.If(takes | goes):
            m.d.sync += settled.eq(1)
        with m.If(waits):
            m.d.sync += counted.eq(1)
        m.d.sync += [
            self.duplicate.eq(again),
            self.bypassed.eq(goes),
            self.stalled.eq(waits & ~counted),
        ]
        return held

    def _look_up(
        self, m: Module, offered: dict[str, Any], table: ReductionTable, go: Signal
    ) -> dict[str, Any]:
        """Second stage: what the entry holds, or the entry that is to be taken."""
        where = Signal(self._entries)
        m.d.comb += where.eq(Mux(offered["found"].any(), offered["found"], table.place()))
        held = {
            "valid": Signal(),
            "beat": Signal(operand_beat(self._lanes)),
            "expires": Signal(),
            "yields": Signal(),
            "hit": Signal(),
            "full": Signal(),
            "where": Signal(self._entries),
            "meta": Signal(self._kept),
            "count": Signal(HEADER["count"].width),
        }
        now = {
            **{name: offered[name] for name in ("valid", "beat", "expires", "yields")},
            "hit": offered["found"].any(),
            "full": table.valid.all(),
            "where": where,
            "meta": table.meta(where),
            "count": table.count(where),
        }
        with m.If(go):
            m.d.sync += [Value.cast(held[name]).eq(now[name]) for name in held]
        return held

    def _decide(
        self, m: Module, b: dict[str, Any], table: ReductionTable, go: Signal,
        partials: PacketQueue, results: PacketQueue,
    ) -> dict[str, Any]:
        """Third stage: what becomes of a packet, decided with its header, kept for its flits."""
        flit = b["beat"].flit
        head = header_of(flit)
        new, entry = self._entry_of(m, head), b["meta"]
        heads = b["valid"] & flit.first
        has = b["count"] != 0  # an entry of a load has no operand at first
        total = Signal(len(b["count"]) + 1)
        expected = Mux(b["hit"] & entry.pull, entry.expected, b["beat"].expected)
        m.d.comb += total.eq(Mux(b["hit"], b["count"], 0) + head.count)
        operand = heads & ~b["expires"]
        same = (entry.op == head.op) & (entry.epoch == head.epoch)
        if "format" in self._names:
            same = same & (entry.format == new.format)
        excess, mismatch, passes, complete, take, evict, leaves = (Signal() for _ in range(7))
        good = operand & ~mismatch & ~excess
        shared = (leaves & ~entry.pull) if self.multicast_partials else None  # for all members
        alone = leaves if shared is None else leaves & entry.pull
        whole = complete & ~new.pull
        to_partial, to_result = Signal(), Signal()
        moves = ~(to_result & ~results.room) & ~(to_partial & ~partials.room)
        if self._beats < self._stages:
            moves = moves & self._in_time(m, heads, b["valid"] & flit.last & go)
        m.d.comb += [
            mismatch.eq(operand & b["hit"] & ~same),
            excess.eq(operand & ~mismatch & ((total > expected) | (head.count == 0))),
            passes.eq(good & new.pull & ~b["hit"]),
            complete.eq(good & ~passes & (total == expected)),
            take.eq(good & ~passes & ~complete),
            evict.eq((take & ~b["hit"] & b["full"]) | (heads & b["expires"])),
            leaves.eq(evict & has),
            to_partial.eq(alone | passes | (complete & new.pull)),
            to_result.eq(whole if shared is None else whole | shared),
            go.eq(moves),
            partials.reserve.eq(to_partial & go),
            results.reserve.eq(to_result & go),
        ]
        overdue = b["expires"] & ~b["yields"]
        m.d.sync += [
            self.excess.eq(excess & go),
            self.mismatch.eq(mismatch & go),
            self.passed.eq(passes & go),
            self.completed.eq(complete & go),
            self.evicted.eq(evict & go & ~overdue),
            self.expired.eq(evict & go & overdue),
            self.taken.valid.eq((take | complete) & go),
            self.taken.pull.eq(new.pull),
            *(self.taken[name].eq(new[name])
              for name in ("region", "address", "tag", "destination", "source")),
            self.taken.count.eq(head.count),
        ]
        meta: Any = Signal(self._kept)
        m.d.comb += meta.eq(new)
        with m.If(b["hit"]):
            # Of an entry everything stays as its first operand had it but the poison.
            m.d.comb += [
                meta.eq(entry),
                meta.poison.eq(entry.poison | head.poison),
                meta.source.eq(Mux(has, entry.source, head.source)),
            ]
        with m.If(take & go):
            table.keep(b["where"], Value.cast(meta), total[:-1])
        with m.If((complete | b["expires"]) & heads & go):
            table.forget(Mux(b["hit"], b["where"], 0))

        out = self._header(
            m, Mux(evict, Value.cast(entry), Value.cast(meta)),
            Mux(evict, b["count"], total[:-1]),
            Mux(evict, Kind.SUBTOTAL if self.multicast_partials else Kind.PARTIAL, Kind.RESULT),
        )
        plan = {
            "adds": operand & b["hit"] & has,
            "op": head.op[: Shape.cast(ReduceOp).width],
            "writes": take,
            "partial": to_partial,
            "result": to_result,
            "old": evict,
            "entry": _index(b["where"]),
        }
        row = Signal(range(self._beats))
        held = {name: Signal(len(value), name=f"plan_{name}") for name, value in plan.items()}
        with m.If(heads & go):
            m.d.sync += [held[name].eq(value) for name, value in plan.items()]
            m.d.sync += row.eq(0)
        with m.Elif(b["valid"] & go):
            m.d.sync += row.eq(row + 1)
        return {
            "move": b["valid"] & go, "heads": heads, "last": flit.last, "data": flit.data,
            "header": out, "plan": plan, "held": held, "row": Cat(row, held["entry"]),
        }

    def _in_time(self, m: Module, heads: Value, last: Value) -> Value:
        """Whether the rows that a packet asks for are written, or being written, whichever packet
        was before it; *last*: this one's last beat moves on."""
        most = self._stages - self._beats
        wait = Signal(range(most + 1))
        with m.If(last):
            m.d.sync += wait.eq(most)
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        return ~heads | (wait == 0)

    def _header(self, m: Module, entry: Value, count: Value, kind: Value) -> Signal:
        """The header of what leaves: a sum that was pushed, of *kind*, or the answer to a load."""
        of: Any = Signal(self._kept)
        out: Any = Signal(HEADER)
        m.d.comb += [
            of.eq(entry),
            out.offload.eq(1),
            *(out[name].eq(of[name]) for name in self._names),
            out.kind.eq(Mux(of.pull, Kind.RESPONSE, kind)),
            out.source.eq(Mux(of.pull, of.source, of.destination)),
            out.count.eq(count),
        ]
        if "format" in self._names:
            with m.If(kind != Kind.RESULT.value):
                m.d.comb += out.format.eq(0)
        return out

    def _execute(
        self, m: Module, b: dict[str, Any], rows: SRAMBank, partials: PacketQueue,
        results: PacketQueue,
    ) -> None:
        """From the third stage on nothing stalls: read, add, and write or send."""
        plan, held, heads = b["plan"], b["held"], b["heads"]
        m.d.comb += [
            rows.r_en.eq(b["move"] & ~heads),
            rows.r_addr.eq(b["row"]),
        ]
        control = data.StructLayout(
            {"row": len(rows.w_addr), "writes": 1, "partial": 1, "result": 1, "old": 1,
             "first": 1, "last": 1}
        )
        operand = Signal(32 * self._lanes)
        adds = Signal()
        op = Signal(ReduceOp)
        step = Signal(control)
        m.d.sync += [
            operand.eq(Mux(heads, b["header"].as_value(), b["data"])),
            adds.eq(~heads & held["adds"]),
            Value.cast(op).eq(held["op"]),
            step.row.eq(b["row"]),
            step.writes.eq(b["move"] & ~heads & held["writes"]),
            step.partial.eq(b["move"] & Mux(heads, plan["partial"], held["partial"])),
            step.result.eq(b["move"] & Mux(heads, plan["result"], held["result"])),
            step.old.eq(~heads & held["old"]),
            step.first.eq(heads),
            step.last.eq(b["last"]),
        ]
        # What is not to be reduced passes the adders as an integer to which nothing is added.
        m.submodules.alu = alu = ReduceALU(self._lanes, stages=self._stages)
        old = self._row(m, rows)
        m.d.comb += [
            alu.i_valid.eq(step.writes | step.partial | step.result),
            alu.op.eq(Mux(adds, op, ReduceOp.SUM_I32)),
            alu.a.eq(Mux(adds, old, 0)),
            alu.b.eq(operand),
        ]
        for stage in range(self._stages):
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


    def _row(self, m: Module, rows: SRAMBank) -> Value:
        """The row that was asked for in the cycle before: if it was being written, as written."""
        if self._beats > self._stages:
            return rows.r_data  # the next packet comes too late for that
        written, fresh = Signal(32 * self._lanes), Signal()
        m.d.sync += [
            written.eq(rows.w_data),
            fresh.eq(rows.w_en & rows.r_en & (rows.w_addr == rows.r_addr)),
        ]
        return Mux(fresh, written, rows.r_data)


def _index(one_hot: Value) -> Value:
    """Number of the bit that is set."""
    bits = max(1, (len(one_hot) - 1).bit_length())
    return Cat(
        Cat(one_hot[k] for k in range(len(one_hot)) if k >> bit & 1).any() for bit in range(bits)
    )

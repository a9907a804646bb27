"""The reduction table of a switch port, with its ALUs."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.fifo import StreamFIFO
from hw.common.params import require_int
from hw.common.sram import SRAMBank
from hw.fp.adder import MAX_STAGES
from hw.fp.alu import ReduceALU
from hw.fp.ops import ReduceOp
from hw.link.packet import FLIT_BITS
from hw.switch.packet import FLIT, HEADER, Kind, header_of

__all__ = ["OPERAND_FLIT", "TAKEN", "PacketQueue", "ReductionUnit"]

OPERAND_FLIT = data.StructLayout({"flit": FLIT, "expected": len(Signal(HEADER).count)})
"""A flit of an operand, and how many operands make its region's results (looked at in headers)."""

TAKEN = data.StructLayout(
    {"valid": 1, **{name: HEADER[name].shape for name in ("source", "region", "address")}}
)
"""An operand that becomes part of a sum."""

_LANES = FLIT_BITS // 32
_KEPT = ("op", "region", "address", "destination", "epoch", "poison")


class PacketQueue(wiring.Component):
    """FIFO for flits in which room for whole packets is reserved before they are written.

    Latency is that of a `StreamFIFO` of ``packets * flits`` flits. ``i`` never stalls, since its
    writer has reserved room. A packet may be read while it is being written.

    Parameters
    ----------
    packets : int
        Packets that fit.
    flits : int
        Flits of the longest packet.

    Members
    -------
    room : ``Out(1)``
        There is room for another packet.
    reserve : ``In(1)``
        It is taken; only with ``room``.
    i : ``In(stream.Signature(FLIT, always_ready=True))``
        Flits of packets for which room was reserved.
    o : ``Out(stream.Signature(FLIT))``
        The same flits.
    empty : ``Out(1)``
        Nothing is held or reserved.
    """

    room: Signal
    reserve: Signal
    i: stream.Interface
    o: stream.Interface
    empty: Signal

    def __init__(self, *, packets: int, flits: int) -> None:
        self._packets = require_int("PacketQueue packets", packets)
        self._flits = require_int("PacketQueue flits", flits)
        super().__init__(
            {
                "room": Out(1),
                "reserve": In(1),
                "i": In(stream.Signature(FLIT, always_ready=True)),
                "o": Out(stream.Signature(FLIT)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.flits = flits = StreamFIFO(FLIT, self._packets * self._flits)
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


class _Table:
    """State of the entries of a reduction table, as a part of its unit's module.

    Rows of all members are entries. ``rank`` orders the entries by their last use, 0 is the newest.
    """

    def __init__(self, m: Module, entries: int, meta: data.Layout, count_bits: int) -> None:
        self._m = m
        self._entries = entries
        self.valid = Signal(entries)
        self._aged = Signal(entries)  # not used since the period before this one began
        self._late = Signal(entries)
        self._meta = [Signal(meta, name=f"meta_{k}") for k in range(entries)]
        self._count = [Signal(count_bits, name=f"count_{k}") for k in range(entries)]
        self._rank = [Signal(range(max(2, entries)), name=f"rank_{k}", init=k)
                      for k in range(entries)]

    def match(self, region: Value, address: Value) -> Value:
        """Entries that hold this address: one at most."""
        return Cat(
            valid & (meta.region == region) & (meta.address == address)
            for valid, meta in zip(self.valid, self._meta)
        )

    def place(self) -> Value:
        """The entry that an address without one gets: a free one, else the least recently used."""
        free = ~self.valid
        oldest = Cat(rank == self._entries - 1 for rank in self._rank)
        return Mux(free.any(), free & -free, oldest)

    def meta(self, where: Value) -> Value:
        """What is kept of the packets of the entry that *where* has the bit of."""
        return self._selected(where, self._meta)

    def count(self, where: Value) -> Value:
        """Operands summed in that entry."""
        return self._selected(where, self._count)

    def overdue(self) -> Value:
        """Entries without an operand for one to two periods."""
        return self.valid & self._late

    @staticmethod
    def _selected(where: Value, rows: list[Any]) -> Value:
        return reduce(or_, (Mux(bit, Value.cast(row), 0) for bit, row in zip(where, rows)))

    def keep(self, where: Value, meta: Value, count: Value) -> None:
        """Write an entry: it is the newest now."""
        for k in range(self._entries):
            with self._m.If(where[k]):
                self._m.d.sync += [
                    Value.cast(self._meta[k]).eq(meta),
                    self._count[k].eq(count),
                    self.valid[k].eq(1),
                    self._late[k].eq(0),
                    self._aged[k].eq(0),
                ]
        own = self._selected(where, self._rank)
        for k, rank in enumerate(self._rank):
            with self._m.If(where[k]):
                self._m.d.sync += rank.eq(0)
            with self._m.Elif(rank < own):
                self._m.d.sync += rank.eq(rank + 1)

    def free(self, where: Value) -> None:
        """Forget an entry."""
        self._m.d.sync += self.valid.eq(self.valid & ~where)

    def age(self, period_over: Value) -> None:
        """Another period has passed; uses in this cycle, stated later, count."""
        with self._m.If(period_over):
            self._m.d.sync += [self._late.eq(self._aged & self.valid), self._aged.eq(self.valid)]


class ReductionUnit(wiring.Component):
    """Reduces the operands that endpoints push, address by address, until all have arrived.

    The table is a fully associative cache of sums. The first operand of an address takes an entry,
    later ones are added to it, and the operand that makes it complete sends it on as a RESULT
    instead of writing it back. If there is no free entry, the least recently used one is sent on as
    a PARTIAL, with the number of its operands, while the new operand takes its place. An entry that
    got no operand for one to two periods of ``timeout`` cycles is sent on as a PARTIAL as well.

    An operand waits for room in the queue of results or partials that it adds to, and for nothing
    else: never for an entry to complete. Operands are reduced in the order of their arrival; the
    sum so far is the left operand of the addition.

    Throughput is one flit per cycle, also for packets of one entry back to back: an entry's row is
    written before the next packet can read it. The header of a PARTIAL or RESULT is offered
    ``4 + alu_stages`` cycles after that of the packet that caused it was accepted (5 from queues of
    64 flits on), its flits as those of that packet arrive. A time-out takes the time of a packet.
    ``i.ready`` and all outputs depend on registers only.

    Dropped whole: operands of which the entry would count more than are expected (``excess``), with
    none (``count`` 0, too), or of another operation or epoch than their entry (``mismatch``).

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

    Members
    -------
    i : ``In(stream.Signature(OPERAND_FLIT))``
        Whole packets of kind PUSH, of ``payload_flits`` + 1 flits each. ``destination`` names the
        home endpoint. The checksum is not looked at.
    partial, result : ``Out(stream.Signature(FLIT))``
        Whole packets; their checksum is not filled in.
    timeout : ``In(timeout_bits)``
        Cycles of a period; 0 for never.
    occupied : ``Out(range(entries + 1))``
        Entries in use.
    evicted, expired, completed, excess, mismatch : ``Out(1)``
        High for one cycle for every entry that gave way, was timed out or completed, and for every
        operand dropped.
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
    partial: stream.Interface
    result: stream.Interface
    timeout: Signal
    occupied: Signal
    evicted: Signal
    expired: Signal
    completed: Signal
    excess: Signal
    mismatch: Signal
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
    ) -> None:
        self._entries = require_int("ReductionUnit entries", entries, maximum=32)
        self._stages = require_int(
            "ReductionUnit alu_stages", alu_stages, minimum=0, maximum=MAX_STAGES
        )
        self._flits = require_int(
            "ReductionUnit payload_flits",
            payload_flits,
            minimum=max(2, self._stages + 1),
            power_of_two=True,
        )
        self._packets = require_int("ReductionUnit queue_packets", queue_packets)
        timeout_bits = require_int("ReductionUnit timeout_bits", timeout_bits, maximum=32)
        super().__init__(
            {
                "i": In(stream.Signature(OPERAND_FLIT)),
                "partial": Out(stream.Signature(FLIT)),
                "result": Out(stream.Signature(FLIT)),
                "timeout": In(timeout_bits),
                "occupied": Out(range(self._entries + 1)),
                **dict.fromkeys(
                    ("evicted", "expired", "completed", "excess", "mismatch"), Out(1)
                ),
                "taken": Out(TAKEN),
                "idle": Out(1),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from the acceptance of a header to the offer of the header that it causes."""
        queue = StreamFIFO(FLIT, self._packets * (self._flits + 1))
        return 3 + self._stages + queue.latency

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        kept = data.StructLayout({name: HEADER[name].shape for name in _KEPT})
        counts = HEADER["count"].width
        table = _Table(m, self._entries, kept, counts)
        m.submodules.partials = partials = PacketQueue(
            packets=self._packets, flits=self._flits + 1
        )
        m.submodules.results = results = PacketQueue(packets=self._packets, flits=self._flits + 1)
        connect(m, partials.o, flipped(self.partial))
        connect(m, results.o, flipped(self.result))
        rows = SRAMBank(depth=max(2, self._entries * self._flits), width=FLIT_BITS)
        m.submodules.rows = rows

        go = Signal()  # the three stages in front of the adders move on
        self._age(m, table)
        offered = self._offered(m, table, go)
        looked = self._look_up(m, offered, table, go, kept, counts)
        planned = self._decide(m, looked, table, go, kept, partials, results)
        self._execute(m, planned, rows, partials, results)
        m.d.comb += [
            self.occupied.eq(sum(table.valid[k] for k in range(self._entries))),
            self.idle.eq(
                ~table.valid.any() & partials.empty & results.empty
                & ~offered["valid"] & ~looked["valid"]
            ),
        ]
        return m

    def _age(self, m: Module, table: _Table) -> None:
        since = Signal.like(self.timeout)
        over = Signal()
        m.d.comb += over.eq((self.timeout != 0) & (since + 1 >= self.timeout))
        m.d.sync += since.eq(Mux(over | (self.timeout == 0), 0, since + 1))
        table.age(over)

    def _offered(self, m: Module, table: _Table, go: Signal) -> dict[str, Any]:
        """First stage: a flit of the input, or of a packet that stands for a time-out.

        Such a packet has its place between others, so that an entry is never timed out while an
        operand of it is under way. Entries that match are looked for in the same cycle.
        """
        arriving = Signal(OPERAND_FLIT)
        within = Signal()  # a packet of the input has begun
        rest = Signal(range(self._flits + 1))  # flits to come of a packet that stands for another
        begin = Signal()
        stands = Signal()
        overdue = Signal(self._entries)
        m.d.comb += [
            arriving.eq(self.i.payload),
            overdue.eq(table.overdue()),
            begin.eq(overdue.any() & ~within & (rest == 0)),
            stands.eq(begin | (rest != 0)),
            self.i.ready.eq(go & ~stands),
        ]
        valid, expires = Signal(), Signal()
        found = Signal(self._entries)
        beat = Signal(OPERAND_FLIT)
        header = header_of(arriving.flit)
        with m.If(go):
            m.d.sync += [valid.eq(stands | self.i.valid), beat.eq(arriving), expires.eq(stands)]
            with m.If(stands):
                m.d.sync += [
                    rest.eq(Mux(begin, self._flits, rest - 1)),
                    beat.flit.first.eq(begin),
                    beat.flit.last.eq(rest == 1),
                    found.eq(overdue & -overdue),
                ]
            with m.Else():
                m.d.sync += found.eq(table.match(header.region, header.address))
                with m.If(self.i.valid):
                    m.d.sync += within.eq(~arriving.flit.last)
        return {"valid": valid, "beat": beat, "expires": expires, "found": found}

    def _look_up(
        self, m: Module, offered: dict[str, Any], table: _Table, go: Signal, kept: data.Layout,
        counts: int,
    ) -> dict[str, Any]:
        """Second stage: what the entry holds, or the entry that is to be taken."""
        where = Signal(self._entries)
        m.d.comb += where.eq(Mux(offered["found"].any(), offered["found"], table.place()))
        held = {
            "valid": Signal(),
            "beat": Signal(OPERAND_FLIT),
            "expires": Signal(),
            "hit": Signal(),
            "full": Signal(),
            "where": Signal(self._entries),
            "meta": Signal(kept),
            "count": Signal(counts),
        }
        now = {
            **{name: offered[name] for name in ("valid", "beat", "expires")},
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
        self, m: Module, b: dict[str, Any], table: _Table, go: Signal, kept: data.Layout,
        partials: PacketQueue, results: PacketQueue,
    ) -> dict[str, Any]:
        """Third stage: what becomes of a packet, decided with its header, kept for its flits."""
        flit = b["beat"].flit
        head = header_of(flit)
        heads = b["valid"] & flit.first
        base = Mux(b["hit"], b["count"], 0)
        total = Signal(len(b["count"]) + 1)
        m.d.comb += total.eq(base + head.count)
        operand = heads & ~b["expires"]
        same = (b["meta"].op == head.op) & (b["meta"].epoch == head.epoch)
        excess, mismatch, complete, evict, take = (Signal() for _ in range(5))
        m.d.comb += [
            mismatch.eq(operand & b["hit"] & ~same),
            excess.eq(operand & ~mismatch
                      & ((total > b["beat"].expected) | (head.count == 0))),
            complete.eq(operand & ~mismatch & ~excess & (total == b["beat"].expected)),
            take.eq(operand & ~mismatch & ~excess & ~complete),
            evict.eq((take & ~b["hit"] & b["full"]) | (heads & b["expires"])),
            go.eq(~(complete & ~results.room) & ~(evict & ~partials.room)),
            partials.reserve.eq(evict & go),
            results.reserve.eq(complete & go),
        ]
        m.d.sync += [
            self.excess.eq(excess & go),
            self.mismatch.eq(mismatch & go),
            self.completed.eq(complete & go),
            self.evicted.eq(evict & go & ~b["expires"]),
            self.expired.eq(evict & go & b["expires"]),
            self.taken.valid.eq((take | complete) & go),
            self.taken.source.eq(head.source),
            self.taken.region.eq(head.region),
            self.taken.address.eq(head.address),
        ]
        meta: Any = Signal(kept)
        m.d.comb += [getattr(meta, name).eq(getattr(head, name)) for name in _KEPT]
        with m.If(b["hit"]):
            # Of an entry everything stays as its first operand had it but the poison.
            m.d.comb += [meta.eq(b["meta"]), meta.poison.eq(b["meta"].poison | head.poison)]
        with m.If(take & go):
            table.keep(b["where"], Value.cast(meta), total[:-1])
        with m.If((complete | b["expires"]) & heads & go):
            table.free(Mux(b["hit"], b["where"], 0))

        leaving = Mux(evict, Value.cast(b["meta"]), Value.cast(meta))
        out = self._header(m, data.View(kept, leaving), evict, Mux(evict, b["count"], total[:-1]))
        plan = {
            "adds": operand & b["hit"],
            "op": head.op[: Shape.cast(ReduceOp).width],
            "writes": take,
            "partial": evict,
            "result": complete,
            "entry": _index(b["where"]),
        }
        row = Signal(range(self._flits))
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

    def _header(self, m: Module, of: Any, evict: Value, count: Value) -> Signal:
        out = Signal(HEADER)
        m.d.comb += [
            out.offload.eq(1),
            out.kind.eq(Mux(evict, Kind.PARTIAL, Kind.RESULT)),
            out.source.eq(of.destination),
            out.count.eq(count),
            *(out[name].eq(of[name]) for name, _ in of.shape()),
        ]
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
        operand = Signal(FLIT_BITS)
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
            step.old.eq(~heads & held["partial"]),
            step.first.eq(heads),
            step.last.eq(b["last"]),
        ]
        # What is not to be reduced passes the adders as an integer to which nothing is added.
        m.submodules.alu = alu = ReduceALU(_LANES, stages=self._stages)
        m.d.comb += [
            alu.i_valid.eq(step.writes | step.partial | step.result),
            alu.op.eq(Mux(adds, op, ReduceOp.SUM_I32)),
            alu.a.eq(Mux(adds, rows.r_data, 0)),
            alu.b.eq(operand),
        ]
        old: Value = rows.r_data
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


def _index(one_hot: Value) -> Value:
    """Number of the bit that is set."""
    bits = max(1, (len(one_hot) - 1).bit_length())
    return Cat(
        Cat(one_hot[k] for k in range(len(one_hot)) if k >> bit & 1).any() for bit in range(bits)
    )

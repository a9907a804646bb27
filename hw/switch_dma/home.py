# SPDX-License-Identifier: Apache-2.0
"""The home endpoint's part: adds partials until every operand is in the sum."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from hw.common.fifo import StreamFIFO
from hw.common.sram import SRAMBank
from hw.fp.alu import ReduceALU
from hw.fp.ops import ReduceOp
from hw.link.packet import FLIT_BITS
from hw.switch.packet import FLIT, HEADER, Kind
from hw.switch.packet_queue import PacketQueue
from hw.switch.reduction_datapath import row_cycles
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.interfaces import MemberSignature, PartSignature
from hw.switch_dma.layouts import (
    NODE,
    address_of,
    each_region,
    number_of,
    per_region,
    pick,
    row_of,
)

__all__ = ["TOOK", "HomeStore"]

TOOK = data.StructLayout(
    {"valid": 1, **{name: HEADER[name].width for name in ("address", "source", "count", "region")}}
)
"""A packet that becomes part of a sum: its address, sender, number of operands and region."""

_LANES = FLIT_BITS // 32


class HomeStore(wiring.Component):
    """Sums of partials in memory, ``config.sums`` of them, and the results that they become. A
    requester adds what it loads in the same way; with ``config.multicast_partials`` every member
    adds partials, and stores the result itself.

    The sum of block *n* is in slot ``n % sums`` of its region, each of which has slots of its own:
    others may have begun a region's all-reduce while that of another runs here. No two sums that
    are not complete share one, as no endpoint has more than ``config.slots`` successive blocks
    under way (`WaveControl`), and none is done with a block that was not begun here. A partial is
    taken whatever becomes of the output: the place of a sum that is complete goes to a list that
    has room for all of them, and the sum stays in its slot until the output takes it. Partials and
    results take turns, packet by packet. The sum so far is the left operand.

    A flit per cycle. A packet is judged in the cycle after its header; its sum, the list and what
    is reported follow a cycle later. The row that a flit is added to is read 1 cycle before the
    adders and written after their `alu_stages`, one later if packets are long enough for a register
    between. A row of a result is read 2 cycles before it is put out, from the cycle in which that
    is begun.

    Parameters
    ----------
    config : SwitchDmaConfig

    Members
    -------
    member : ``In(MemberSignature())``, for each region
        Who this is.
    i : ``In(stream.Signature(FLIT))``
        PARTIAL, SUBTOTAL and RESPONSE packets; a loaded block's own operand is a RESPONSE, too.
    part : ``Out(PartSignature(config))``
        The block that a packet is of: a RESPONSE is taken when its load went out, a PARTIAL of
        other blocks, when they are not done. With several regions no block that is ahead becomes
        complete: the own operand is not in it.
    format, contract : ``In``, only with a format beside words
        What headers of results say, but for that of the block of this number.
    o : ``Out(stream.Signature(FLIT))``
        RESULT packets, of words, without checksum, for the other members and for this endpoint;
        with bit 0 of ``tag`` for this endpoint alone, since the others have their own.
    forget : ``In(regions)``
        Forget all sums of a region. Hold until `busy` is low.
    busy : ``Out(regions)``
        A packet is under way, or something is still to be forgotten.
    gives : ``Out(1)``
        A result waits for the output.
    empty : ``Out(1)``
        No sum is held.
    added, finished : ``Out(1)``
        High for one cycle per partial that was added, and per sum that it completed.
    stale : ``Out(1)``
        High for one cycle per packet dropped: of another epoch.
    misled : ``Out(1)``
        High for one cycle per packet dropped: for another endpoint.
    unknown : ``Out(1)``
        High for one cycle per packet dropped: for a block that does not wait for it.
    excess : ``Out(1)``
        High for one cycle per packet dropped: no operands, or more than are missing.
    mismatch : ``Out(regions)``
        A packet was dropped whose operation is not that of its sum.
    overflow : ``Out(regions)``
        A packet was dropped since its slot has another block's sum.
    took : ``Out(TOOK)``
        The packet that is added, two cycles after its header.
    """

    member: Any
    i: stream.Interface
    part: Any
    format: Signal
    contract: Signal
    o: stream.Interface
    forget: Signal
    busy: Signal
    gives: Signal
    empty: Signal
    added: Signal
    finished: Signal
    stale: Signal
    misled: Signal
    unknown: Signal
    excess: Signal
    mismatch: Signal
    overflow: Signal
    took: Any

    def __init__(self, config: SwitchDmaConfig) -> None:
        c = self._config = config
        self._meta = data.StructLayout(
            {
                "number": c.number_bits,
                "op": ReduceOp,
                "count": HEADER["count"].width,
                "poison": 1,
                **({"loaded": 1} if c.multicast_partials else {}),
            }
        )
        names = ("added", "finished", "stale", "misled", "unknown", "excess")
        super().__init__(
            {
                "member": per_region(c, In(MemberSignature())),
                "i": In(stream.Signature(FLIT)),
                "part": Out(PartSignature(c)),
                **({"format": In(HEADER["format"].width), "contract": In(c.number_bits)}
                   if c.lengths else {}),
                "o": Out(stream.Signature(FLIT)),
                "forget": In(c.regions),
                "busy": Out(c.regions),
                "gives": Out(1),
                "empty": Out(1),
                **dict.fromkeys(names, Out(1)),
                **dict.fromkeys(("mismatch", "overflow"), Out(c.regions)),
                "took": Out(TOOK),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        members = each_region(c, self.member)
        self._nodes, self._epochs = (
            [getattr(each, name) for each in members] for name in ("node", "epoch")
        )
        slot_bits = exact_log2(c.sums)
        # A slot's place is its region's row and its number there.
        place_bits = (c.regions * c.sums - 1).bit_length()
        metas: Memory = Memory(shape=self._meta, depth=c.regions * c.sums, init=[])
        m.submodules.metas = metas
        keep, look = metas.write_port(), metas.read_port(domain="comb")
        m.submodules.complete = complete = StreamFIFO(place_bits, c.slots, memory=False)
        m.submodules.results = results = PacketQueue(packets=2, flits=c.packet_flits)
        connect(m, results.o, flipped(self.o))
        self._valid = Signal(c.regions * c.sums)
        self._slot = Signal(place_bits)
        left = Signal(range(c.payload_flits + 1))
        takes, gives = Signal(), Signal()  # what goes on: one at most
        idle, ready = Signal(init=1), Signal(init=1)
        begin_take, begin_give = Signal(), Signal()
        shown, ends = Signal(), Signal()  # a flit of a result is put out; the last one
        turn = Signal()  # whose turn it is if both could begin
        header: Any = Signal(HEADER)
        m.d.comb += Value.cast(header).eq(self.i.p.data)
        row, _ = row_of(self._nodes, header.region)
        number = number_of(c, header.address)
        slot = number[:slot_bits]
        m.d.comb += self.part.number.eq(number)
        if c.regions > 1:
            m.d.comb += self.part.row.eq(row)
            slot = Cat(slot, self.part.row)
        forgotten = self.forget.bit_select(self._row_of(complete.o.payload), 1)
        can_give, gives_next = Signal(), Signal()  # but for what is forgotten in that cycle
        can_take = self.i.valid
        m.d.comb += [
            begin_take.eq(idle & can_take & ready),
            begin_give.eq(idle & can_give & ~(can_take & ~turn) & ~forgotten),
            self.i.ready.eq(ready),
            self.empty.eq(~self._valid.any()),
            look.addr.eq(Mux(can_give & (turn | ~can_take), complete.o.payload, slot)),
            complete.o.ready.eq(begin_give | forgotten),
            self.gives.eq(~results.empty),
            results.reserve.eq(begin_give),
        ]
        m.d.comb += gives_next.eq(
            (complete.i.valid | (complete.o.valid & ~forgotten)) & results.room & ~begin_give
        )
        m.d.sync += can_give.eq(gives_next)
        meta: Any = Signal(self._meta)
        place = Signal(range(c.payload_flits))  # of the row to be read
        moved = (takes & self.i.valid) | gives
        with m.If(begin_take | begin_give):
            m.d.sync += [
                turn.eq(begin_take), left.eq(c.payload_flits), idle.eq(0), takes.eq(begin_take),
                gives.eq(begin_give), self._slot.eq(look.addr), meta.eq(look.data),
                place.eq(begin_give),
            ]
        with m.Elif(moved):
            m.d.sync += [left.eq(left - 1), place.eq(place + 1)]
            with m.If(left == 1):
                m.d.sync += [idle.eq(1), takes.eq(0), gives.eq(0), place.eq(0)]
        # Known a cycle early: whether an idle store would take a packet that comes.
        takes_next = Mux(idle | (moved & (left == 1)), ~(gives_next & turn), takes)
        m.d.sync += ready.eq(Mux(begin_give, 0, begin_take | takes_next))
        judged = self._judge(m, header, row, slot, look.data, meta, begin_take)
        m.d.comb += [
            complete.i.valid.eq(judged.settles & judged.finishes),
            complete.i.payload.eq(self._slot),
            keep.en.eq(judged.settles),
            keep.addr.eq(self._slot),
            keep.data.eq(judged.meta),
        ]
        with m.If(judged.settles):
            m.d.sync += self._valid.bit_select(self._slot, 1).eq(1)
        with m.If(gives & (left == 1)):
            m.d.sync += self._valid.bit_select(self._slot, 1).eq(0)
        for k in range(c.regions):
            held = self._valid.word_select(k, c.sums)
            listed = complete.o.valid & (self._row_of(complete.o.payload) == k)
            here = ~idle & (self._row_of(self._slot) == k)
            m.d.comb += self.busy[k].eq(here | (self.forget[k] & (listed | held.any())))
            with m.If(self.forget[k] & idle):
                m.d.sync += held.eq(0)
        reads = Signal()
        row_read = Cat(place, Mux(idle, complete.o.payload, self._slot))
        m.d.comb += reads.eq((idle & can_give) | (gives & (left != 1)))
        m.d.sync += [shown.eq(gives), ends.eq(left == 1)]
        data = self._add(m, row_read, takes & self.i.valid, reads, judged)
        with m.If(shown):
            m.d.comb += [
                results.i.valid.eq(1), results.i.p.data.eq(data), results.i.p.last.eq(ends),
            ]
        self._head(m, self._row_of(complete.o.payload), meta, begin_give, results)
        return m

    def _row_of(self, place: Any) -> Value:
        """The region's row of a slot's place."""
        return place[exact_log2(self._config.sums) :] if self._config.regions > 1 else C(0, 1)

    def _judge(
        self, m: Module, header: Any, row: Value, slot: Value, looked: Any, meta: Any,
        begins: Signal,
    ) -> "_Judged":
        """Judge a packet whose *header* is taken when it *begins*; *looked*: what was kept in its
        slot, as *meta* in the cycle after."""
        c = self._config
        judged = _Judged(self._meta)
        node: Any = Signal(NODE)
        m.d.comb += Value.cast(node).eq(pick(self._nodes, row))
        answer = Value.cast(header.kind) == Kind.RESPONSE.value
        misled = header.destination != node.endpoint
        if c.multicast_partials:
            misled = misled & answer
        part, given = self.part, judged.header
        # All of the cycle in which it begins.
        held, answers, misleads, stale, ahead, near, asked_for, judges = (
            Signal(name=name) for name in (
                "held", "answers", "misleads", "is_stale", "ahead", "near", "asked_for", "judges"
            )
        )
        # Contributions that are missing before the packet, but for its own; less than none if it
        # brings too many.
        missing = Signal(signed(HEADER["count"].width + 1))
        counted = Signal(HEADER["count"].width)  # operands of the sum before it
        full = self._valid.bit_select(slot, 1)
        m.d.sync += judges.eq(begins)
        with m.If(begins):
            m.d.sync += [
                given.eq(header), held.eq(full), answers.eq(answer),
                counted.eq(Mux(full, looked.count, 0)),
                misleads.eq(misled), missing.eq(node.members - header.count),
                stale.eq((header.epoch != pick(self._epochs, row))
                         | self.forget.bit_select(row, 1)),
                ahead.eq(part.ahead), near.eq(part.near), asked_for.eq(part.asked_for),
            ]
        number = number_of(c, given.address)
        finishes = counted == missing
        too_early = finishes & ahead if c.regions > 1 else C(0, 1)
        good = Signal()
        of_row = self._row_of(self._slot)
        reports = ("stale", "misled", "unknown", "excess", "mismatch", "overflow")
        m.d.sync += [getattr(self, name).eq(0) for name in reports]
        with m.If(stale):
            m.d.sync += self.stale.eq(judges)
        with m.Elif(misleads):
            m.d.sync += self.misled.eq(judges)
        with m.Elif(Mux(ahead, answers, ~near | (answers != asked_for))):
            m.d.sync += self.unknown.eq(judges)
        with m.Elif(held & (meta.number != number)):
            m.d.sync += self.overflow.bit_select(of_row, 1).eq(judges)
        with m.Elif((given.count == 0) | (counted > missing) | too_early):
            m.d.sync += self.excess.eq(judges)
        with m.Elif(~near):  # farther ahead than anyone may be, but nothing is in its place
            m.d.sync += self.unknown.eq(judges)
        with m.Elif(held & (Value.cast(meta.op) != given.op)):
            m.d.sync += self.mismatch.bit_select(of_row, 1).eq(judges)
        with m.Else():
            m.d.comb += good.eq(1)
        m.d.sync += judged.settles.eq(judges & good)
        with m.If(judges):
            m.d.sync += [
                judged.good.eq(good), judged.finishes.eq(finishes), judged.fresh.eq(~held),
            ]
        kept = judged.meta
        m.d.comb += [
            kept.number.eq(number),
            kept.op.eq(Value.cast(given.op)[: len(Value.cast(kept.op))]),
            kept.count.eq(given.count + counted),
            kept.poison.eq(given.poison | (held & meta.poison)),
            *((kept.loaded.eq(answers),) if c.multicast_partials else ()),
            self.added.eq(judged.settles),
            self.finished.eq(judged.settles & judged.finishes),
            self.took.valid.eq(judged.settles),
            *(self.took[name].eq(given[name]) for name in dict(TOOK) if name != "valid"),
        ]
        return judged

    def _add(
        self, m: Module, row: Value, takes: Value, reads: Signal, judged: "_Judged"
    ) -> Signal:
        """The memory of sums and the adders, which a flit *takes*. Returns the *row* of a result,
        2 cycles after it *reads* it."""
        c = self._config
        m.submodules.rows = rows = SRAMBank(
            depth=c.regions * c.sums * c.payload_flits, width=FLIT_BITS
        )
        m.submodules.alu = alu = ReduceALU(_LANES, stages=c.alu_stages, keeps=True)
        flit, data, written = Signal(FLIT_BITS), Signal(FLIT_BITS), Signal(FLIT_BITS)
        adding, meets, met = Signal(), Signal(), Signal()
        where = Signal(range(rows.depth))
        m.d.comb += [
            # A result that follows its last operand reads rows as they are written.
            meets.eq(rows.w_en & (rows.w_addr == row)),
            rows.r_en.eq(takes | (reads & ~meets)), rows.r_addr.eq(row),
        ]
        m.d.sync += [
            flit.eq(self.i.p.data),
            adding.eq(takes),
            where.eq(row),
            met.eq(meets),
            written.eq(rows.w_data),
            data.eq(Mux(met, written, rows.r_data)),
        ]
        # The verdict is there with the first flit of data.
        # Where its row has been written by then, a register is behind the SRAM, which answers late.
        held = row_cycles(beats=c.payload_flits, stages=c.alu_stages)
        domain = m.d.sync if held else m.d.comb
        domain += [
            alu.i_valid.eq(adding & judged.good),
            alu.op.eq(judged.meta.op),
            alu.keep.eq(judged.fresh),
            alu.a.eq(rows.r_data),
            alu.b.eq(flit),
        ]
        later: Value = where
        for _ in range(held + c.alu_stages):
            stage = Signal.like(where)
            m.d.sync += stage.eq(later)
            later = stage
        m.d.comb += [
            rows.w_en.eq(alu.o_valid),
            rows.w_addr.eq(later),
            rows.w_data.eq(alu.o),
        ]
        return data

    def _head(
        self, m: Module, row: Value, meta: Any, begins: Signal, results: PacketQueue
    ) -> None:
        """The header of a result of the region in *row*, a cycle after it was begun."""
        c = self._config
        there = Signal()
        node: Any = Signal(NODE)
        epoch = Signal(HEADER["epoch"].width)
        m.d.sync += [there.eq(begins), epoch.eq(pick(self._epochs, row))]
        m.d.comb += Value.cast(node).eq(pick(self._nodes, self._row_of(self._slot)))
        header: Any = Signal(HEADER)
        m.d.comb += [
            header.offload.eq(1),
            header.kind.eq(Kind.RESULT),
            header.op.eq(meta.op),
            header.region.eq(node.region),
            header.address.eq(address_of(c, epoch, meta.number)),
            header.source.eq(node.endpoint),
            header.destination.eq(node.endpoint),
            header.count.eq(meta.count),
            header.epoch.eq(epoch),
            header.poison.eq(meta.poison),
        ]
        if c.multicast_partials:
            m.d.comb += header.tag.eq(~meta.loaded)
        if c.lengths:
            m.d.comb += header.format.eq(Mux(meta.number == self.contract, 0, self.format))
        with m.If(there):
            m.d.comb += [
                results.i.valid.eq(1),
                results.i.p.data.eq(header.as_value()),
                results.i.p.first.eq(1),
            ]


class _Judged:
    """The verdict on a packet: registers from the second cycle after it began on, until the next
    one has begun; what is kept of its sum then, from the first."""

    def __init__(self, meta: data.StructLayout) -> None:
        self.header: Any = Signal(HEADER, name="judged")
        self.meta: Any = Signal(meta, name="kept")
        self.settles = Signal(name="settles")  # in that cycle, if it is added
        self.good = Signal(name="good")  # it is added
        self.finishes = Signal(name="finishes")  # and completes its sum
        self.fresh = Signal(name="fresh")  # and begins it

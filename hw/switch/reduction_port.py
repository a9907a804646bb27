# SPDX-License-Identifier: Apache-2.0
"""A reduction unit with what joins it to the crossbar."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect

from hw.common.fifo import StreamFIFO
from hw.common.select import index_of, select_in_parts
from hw.link.packet import FLIT_BITS
from hw.switch.config import SwitchConfig
from hw.switch.epochs import question_layout
from hw.switch.formats import FLIT_LANES, length_shape
from hw.switch.layouts import LOAD_HEADER, TAKEN
from hw.switch.packet import (
    CLASSES,
    EPOCH_BITS,
    FLIT,
    HEADER,
    NOTICE,
    PASSING,
    AbortCause,
    Kind,
    Traffic,
    header_of,
    notice_fields,
    notice_of,
)
from hw.switch.packet_queue import PacketQueue
from hw.switch.packet_turns import packet_turns
from hw.switch.recode import CompressPackets, ExpandPackets, cut
from hw.switch.reduction_unit import EVENTS, ReductionUnit
from hw.switch.send_buffer import SendBuffer, parts_of

__all__ = ["ReductionPort"]


class ReductionPort(wiring.Component):
    """A reduction unit between two buffers: an output of the crossbar and an input of it.

    Notices that the port's link brings take the same way, past the unit: each goes on when the
    `EpochTracker` says so, and goes back by the link when it says that. One that has to wait lets
    those behind it pass.

    Parameters
    ----------
    config : SwitchConfig
    port : int
        Number of this port: where partials and answers go, and where loads came from.

    Members
    -------
    flit : ``In(FLIT)``, valid : ``In(1)``
        Operands; their sender has a credit for each packet.
    credit : ``Out(1)``
        Gives a credit back; at first there are ``queue_packets``.
    load : ``In(LOAD_HEADER)``, load_valid : ``In(1)``, load_credit : ``Out(1)``
        The same for loads.
    notice : ``In(HEADER)``, notice_valid : ``In(1)``, notice_credit : ``Out(1)``
        The same for notices.
    asks : ``Out(1)``, question : ``Out(question_layout(config))``
        A notice wants to go on.
    passed, postponed, answered : ``In(1)``, answer : ``In(32)``
        What is said to that.
    local : ``In(endpoints)``
        Endpoints at this port.
    purging : ``In(regions)``
        Regions of which everything is discarded.
    closed : ``In(ports)``
        Links that take nothing.
    holds : ``Out(regions)``
        Regions of which something is held.
    expected : ``In(...).array(regions)``
        Operands that make a result, by region.
    targets : ``In(ports).array(regions)``
        Links that results and loads go to, by region.
    timeout : ``In(timeout_bits)``
        Cycles of a period, see `ReductionUnit`; 0 for never.
    available, stopped, wanted, asking, length, grant, hold, offers, busy, granted, took, sent,
    sends
        The crossbar's side of a `SendBuffer` with a channel per class; *sent* and *sends* are its
        ``flit.data`` and ``valid``.
    events : ``Out(len(EVENTS))``
        Of the unit.
    discarded : ``Out(2)``
        Packets that were discarded behind the unit, a bit for each.
    taken : ``Out(TAKEN)``
        Of the unit.
    idle : ``Out(1)``
        Nothing is held or on its way.
    """

    flit: Any
    valid: Signal
    credit: Signal
    load: Any
    load_valid: Signal
    load_credit: Signal
    notice: Any
    notice_valid: Signal
    notice_credit: Signal
    asks: Signal
    question: Any
    passed: Signal
    postponed: Signal
    answered: Signal
    answer: Signal
    local: Signal
    purging: Signal
    closed: Signal
    holds: Signal
    discarded: Signal
    expected: Any
    targets: Any
    timeout: Signal
    available: Any
    stopped: Any
    wanted: Signal
    asking: Signal
    length: Signal
    grant: Signal
    hold: Signal
    offers: Signal
    busy: Signal
    granted: Signal
    took: Signal
    sent: Signal
    sends: Signal
    events: Signal
    taken: Any
    idle: Signal

    def __init__(self, config: SwitchConfig, *, port: int) -> None:
        c = self._config = config
        self._port = port
        super().__init__(
            {
                "flit": In(FLIT),
                "valid": In(1),
                "credit": Out(1),
                "load": In(LOAD_HEADER),
                "load_valid": In(1),
                "load_credit": Out(1),
                "notice": In(HEADER),
                "notice_valid": In(1),
                "notice_credit": Out(1),
                "asks": Out(1),
                "question": Out(question_layout(c)),
                **dict.fromkeys(("passed", "postponed", "answered"), In(1)),
                "answer": In(EPOCH_BITS),
                "local": In(c.endpoints),
                "purging": In(c.regions),
                "closed": In(c.ports),
                "holds": Out(c.regions),
                "discarded": Out(2),
                "expected": In(HEADER["count"].width).array(c.regions),
                "targets": In(c.ports).array(c.regions),
                "timeout": In(c.timeout_bits),
                "available": In(c.ports).array(CLASSES),
                "stopped": In(c.ports).array(CLASSES),
                "wanted": Out(c.ports),
                "asking": Out(CLASSES),
                "length": Out(length_shape(c.short)),
                "grant": In(c.ports),
                "hold": In(1),
                "offers": Out(1),
                "busy": Out(1),
                "granted": Out(1),
                "took": Out(parts_of(c.ports)),
                "sent": Out(FLIT_BITS),
                "sends": Out(1),
                "events": Out(len(EVENTS)),
                "taken": Out(TAKEN),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        m.submodules.operands = operands = PacketQueue(
            packets=c.queue_packets, flits=c.packet_flits
        )
        m.submodules.unit = unit = ReductionUnit(
            entries=c.entries, payload_flits=c.payload_flits, alu_stages=c.alu_stages,
            queue_packets=c.queue_packets, timeout_bits=c.timeout_bits, formats=bool(c.lengths),
            multicast_partials=c.multicast_partials, lanes=c.lanes, regions=c.regions,
        )
        m.submodules.buffer = buffer = SendBuffer(
            channels=CLASSES, outputs=c.ports, packets=c.queue_packets, flits=c.packet_flits,
            short=c.short, passing=[each.value for each in PASSING], rows=c.regions, kills=True,
        )
        words, result, none = self._recode(m, operands.o, unit.result)
        partial = self._flits(m, unit.partial)
        # Room is reserved when the sender pays a credit; here, when the header arrives.
        m.d.comb += [
            operands.i.valid.eq(self.valid),
            operands.i.payload.eq(self.flit),
            operands.reserve.eq(self.valid & self.flit.first),
            unit.i.valid.eq(words.valid),
            unit.i.p.flit.eq(words.payload),
            unit.i.p.expected.eq(Array(self.expected)[header_of(words.p).region]),
            words.ready.eq(unit.i.ready),
            unit.timeout.eq(self.timeout),
            unit.purging.eq(self.purging),
            buffer.kill.eq(self.purging),
            buffer.closed.eq(self.closed),
        ]
        left = operands.o.valid & operands.o.ready & operands.o.p.last
        m.d.sync += self.credit.eq(left)
        loads_empty = self._take_loads(m, unit)
        notice, notices_empty = self._take_notices(m)
        moved = self._fill(m, unit.request, partial, result, notice, buffer)
        inside = self._count(m, unit, moved)
        dropped = Signal()
        m.d.sync += dropped.eq(moved.dropped)
        for k in range(CLASSES):
            m.d.comb += [
                buffer.available[k].eq(self.available[k]),
                buffer.stopped[k].eq(self.stopped[k]),
            ]
        m.d.comb += [
            self.wanted.eq(buffer.wanted),
            self.asking.eq(buffer.asking),
            self.length.eq(buffer.length),
            buffer.grant.eq(self.grant),
            buffer.hold.eq(self.hold),
            self.offers.eq(buffer.offers),
            self.busy.eq(buffer.busy),
            self.granted.eq(buffer.granted),
            self.took.eq(buffer.took),
            self.sent.eq(buffer.flit.data),
            self.sends.eq(buffer.valid),
            self.events.eq(Cat(getattr(unit, name) for name in EVENTS)),
            self.taken.eq(unit.taken),
            self.holds.eq(inside | unit.holds | buffer.holds),
            self.discarded.eq(Cat(buffer.discarded, dropped)),
            self.idle.eq(operands.empty & loads_empty & notices_empty & unit.idle & buffer.empty
                         & none & ~moved.valid),
        ]
        return m

    def _recode(
        self, m: Module, operands: Any, results: Any
    ) -> tuple[Any, Any, Value]:
        """Convert operands to words, results to their format; high if none is in progress."""
        c = self._config
        if not c.lengths:
            return operands, results, Const(1)
        m.submodules.expand = expand = ExpandPackets(
            payload_flits=c.payload_flits, half=c.half, bfp=c.bfp, lanes=c.lanes
        )
        m.submodules.compress = compress = CompressPackets(
            payload_flits=c.payload_flits, half=c.half, bfp=c.bfp, lanes=c.lanes
        )
        connect(m, operands, expand.i)
        connect(m, results, compress.i)
        return expand.o, compress.o, expand.empty & compress.empty

    def _flits(self, m: Module, packets: Any) -> Any:
        """Cut packets of words into flits."""
        parts = self._config.lanes // FLIT_LANES
        if parts == 1:
            return packets
        flits = stream.Signature(FLIT).create(path=("partial",))
        cut(m, packets, flits, parts, whole=packets.p.first)
        m.d.comb += flits.p.first.eq(packets.p.first)
        return flits

    def _take_loads(self, m: Module, unit: ReductionUnit) -> Value:
        """Hold loads until the unit takes them; return whether there are none."""
        m.submodules.loads = loads = StreamFIFO(
            LOAD_HEADER, self._config.queue_packets, kept=True
        )
        m.d.comb += [
            loads.i.valid.eq(self.load_valid),
            loads.i.payload.eq(self.load),
            unit.load.valid.eq(loads.o.valid),
            unit.load.payload.eq(loads.o.payload),
            loads.o.ready.eq(unit.load.ready),
        ]
        m.d.sync += self.load_credit.eq(loads.o.valid & loads.o.ready)
        return loads.level == 0

    def _take_notices(self, m: Module) -> tuple["_Notice", Value]:
        """Hold notices until the tracker lets them go on. Returns the one that goes on, and whether
        there are none."""
        c = self._config
        layout = data.StructLayout(  # the rest of the header is the same in all
            {"region": range(c.regions), "source": HEADER["source"].shape, "said": NOTICE}
        )
        m.submodules.notices = notices = StreamFIFO(layout, c.queue_packets, kept=True)
        held, goes, back = Signal(), Signal(), Signal()
        own: Any = Signal(layout)
        comes: Any = Signal(layout)
        header: Any = Signal(HEADER)
        again = held & self.postponed  # to the end of the queue, whose place was kept
        leaves = Signal(name="notice_leaves")
        m.d.comb += [
            *(comes[name].eq(self.notice[name]) for name in ("region", "source")),
            comes.said.eq(notice_of(self.notice)),
            notices.i.valid.eq(self.notice_valid | again),
            notices.i.payload.eq(Mux(self.notice_valid, Value.cast(comes), Value.cast(own))),
            notices.o.ready.eq(~held),
            self.asks.eq(held & ~goes),
            self.question.row.eq(own.region),
            self.question.epoch.eq(own.said.epoch),
            self.question.fresh.eq(own.said.fresh & self.local.bit_select(own.source, 1)),
            header.offload.eq(1),
            header.kind.eq(Kind.SYNC),
            header.region.eq(own.region),
            header.source.eq(own.source),
            *(header[name].eq(value) for name, value in notice_fields(own.said).items()),
        ]
        with m.If(notices.o.valid & ~held):
            m.d.sync += [held.eq(1), own.eq(notices.o.payload)]
        with m.Elif((again & ~self.notice_valid) | leaves):
            m.d.sync += [held.eq(0), goes.eq(0)]
        with m.If(held & (self.passed | self.answered)):
            m.d.sync += [goes.eq(1), back.eq(self.answered)]
        with m.If(held & self.answered):
            # The answer has the endpoint's own number as source, by which it knows it.
            answer = {"epoch": self.answer, "cause": AbortCause.RESET, "origin": own.source}
            answered: Any = Signal(NOTICE)
            m.d.comb += [answered[name].eq(value) for name, value in answer.items()]
            m.d.sync += own.said.eq(answered)
        m.d.sync += self.notice_credit.eq(leaves)
        return _Notice(valid=goes, header=header, back=back, leaves=leaves), (
            ~held & (notices.level == 0)
        )

    def _count(self, m: Module, unit: ReductionUnit, moved: "_Moved") -> Value:
        """Regions with packets in the unit's queues, or in flight through it."""
        c = self._config
        operand = header_of(self.flit)
        comes = [(self.valid & self.flit.first, operand.region),
                 (self.load_valid, self.load.region), (unit.left.valid, unit.left.region)]
        goes = [(unit.judged.valid, unit.judged.region),
                (unit.load_dropped.valid, unit.load_dropped.region),
                (moved.ended, moved.region)]
        counts = []
        for k in range(c.regions):
            count = Signal(range(8 * c.queue_packets + 16), name=f"inside_{k}")
            come, gone = Signal(len(comes)), Signal(len(goes))
            m.d.sync += [  # counted a cycle later: what is inside is so for longer
                *(
                    bits.eq(Cat(event & (region == k) for event, region in events))
                    for bits, events in ((come, comes), (gone, goes))
                ),
                count.eq(count + sum(come) - sum(gone)),
            ]
            counts.append(count != 0)
        return Cat(counts)

    def _fill(
        self, m: Module, loads: Any, partial: Any, result: Any, notice: "_Notice",
        buffer: SendBuffer,
    ) -> "_Moved":
        """Move packets from the unit's queues, and notices, to the buffer, whole, as there is
        room."""
        c = self._config
        # Loads, partials, results and notices, with their classes.
        classes = [*range(CLASSES), Traffic.RESULT.value]
        load = loads.payload
        request: Any = Signal(FLIT)
        cleaned: Any = Signal(LOAD_HEADER)
        told: Any = Signal(FLIT, name="told")
        m.d.comb += [
            cleaned.eq(load),
            *(cleaned[name].eq(0) for name, _ in LOAD_HEADER if name not in dict(HEADER)),
            request.data.eq(cleaned),
            request.first.eq(1),
            request.last.eq(1),
            told.data.eq(Value.cast(notice.header)),
            told.first.eq(1),
            told.last.eq(1),
        ]
        shown = (request, partial.payload, result.payload, told)
        offers = [loads.valid, partial.valid, result.valid, notice.valid]
        readies = [loads.ready, partial.ready, result.ready, notice.leaves]
        chosen = Signal(len(classes))  # if it is offered
        # What is discarded needs no room.
        # Headers that waited in the cycle before and are of a region that is purged; notices are of
        # none.
        gone = Signal(len(classes))
        m.d.sync += [
            gone[k].eq(
                offers[k] & ~readies[k] & self.purging.bit_select(header_of(each).region, 1)
            )
            for k, each in enumerate(shown[:-1])
        ]
        moved = _Flit(len(classes), c.ports)
        ends = Signal(CLASSES, name="moved_ends")  # the last flit of a packet of the class moves
        free = [buffer.room_beside(number, ends[number]) for number in classes]
        m.d.sync += [
            ends[number].eq(Cat(
                chosen[k] & offers[k] & shown[k].last
                for k, each in enumerate(classes) if each == number
            ).any())
            for number in range(CLASSES)
        ]
        chosen_flit: Any = Signal(FLIT)
        turns = packet_turns(
            m, Cat(offers), Cat(free) | gone, ready=Const(1), last=chosen_flit.last
        )
        number = Signal(range(len(classes)))  # of the one whose turn it is
        with m.If(turns.changes):
            m.d.sync += number.eq(index_of(turns.grant))
        m.d.comb += [
            chosen.eq(turns.passes),
            *(each.eq(chosen[k] & offers[k]) for k, each in enumerate(readies)),
            Value.cast(chosen_flit).eq(
                select_in_parts(m, "chosen", number, [Value.cast(each) for each in shown])
            ),
        ]
        m.d.sync += [
            moved.valid.eq(turns.shown),
            Value.cast(moved.flit).eq(chosen_flit),
            moved.chosen.eq(turns.owner),
            moved.wasted.eq((gone & chosen).any()),
            moved.back.eq(Mux(turns.owner[CLASSES], notice.back, load.back)),
        ]
        return self._store(m, moved, classes, buffer)

    def _store(
        self, m: Module, moved: "_Flit", classes: list[int], buffer: SendBuffer
    ) -> "_Moved":
        """Store a flit that was chosen in the cycle before, with the outputs that its packet is
        for."""
        c = self._config
        store, flit, chosen = buffer.store, moved.flit, moved.chosen
        for k, number in enumerate(classes):
            with m.If(chosen[k]):
                m.d.comb += store.channel.eq(number)
        here = Const(1 << self._port, c.ports)
        header = header_of(flit)
        members = Array(self.targets)[header.region]
        others = members & ~here
        back = Mux(moved.back, here, 0)
        ways = (
            Mux(chosen[Traffic.REQUEST.value], others | back, 0)
            | Mux(chosen[Traffic.PARTIAL.value], here, 0)
            | Mux(chosen[Traffic.RESULT.value], members, 0)
            | Mux(chosen[CLASSES], Mux(moved.back, here, others), 0)
        )
        meant, row = Signal(c.ports), Signal(HEADER["region"].width)
        begins, wasted, wastes = Signal(), Signal(), Signal()
        leads = Signal(c.ports)
        region = Signal.like(row)
        purged = self.purging.bit_select(header.region, 1) & ~chosen[CLASSES]
        m.d.comb += [
            begins.eq(moved.valid & flit.first),
            # A packet that nobody is to get, since tables have changed, is none.
            wastes.eq(Mux(flit.first, moved.wasted | purged | ~leads.any(), wasted)),
            leads.eq(Mux(flit.first, ways & ~self.closed, meant)),
            region.eq(Mux(flit.first, header.region, row)),
            store.valid.eq(moved.valid & ~wastes),
            store.data.eq(flit.data),
            store.first.eq(flit.first),
            store.commit.eq(flit.last),
            store.targets.eq(leads),
            store.row.eq(region),
            # A purge discards no notice: an answer that a switch owes comes but once.
            store.lasting.eq(chosen[CLASSES]),
        ]
        with m.If(begins):
            m.d.sync += [meant.eq(leads), wasted.eq(wastes), row.eq(header.region)]
        ended = moved.valid & flit.last & ~chosen[CLASSES]
        return _Moved(valid=moved.valid, ended=ended, region=region, dropped=ended & wastes)


class _Flit:
    """A flit that moves to the buffer: from which of the queues, a bit each; ``wasted``: its
    packet, of which it is the header, had no need of room; ``back``: it goes back by its link."""

    def __init__(self, queues: int, ports: int) -> None:
        self.valid = Signal(name="moved_valid")
        self.flit: Any = Signal(FLIT, name="moved_flit")
        self.chosen = Signal(queues, name="moved_chosen")
        self.wasted = Signal(name="moved_wasted")
        self.back = Signal(name="moved_back")


@dataclass(frozen=True, kw_only=True)
class _Notice:
    """The notice that goes on, or ``back`` by its link; ``leaves`` is driven when it does."""

    valid: Value
    header: Any
    back: Value
    leaves: Signal


@dataclass(frozen=True, kw_only=True)
class _Moved:
    """A flit has left the queues; the last one of a packet of a region; whether this was
    discarded."""

    valid: Value
    ended: Value
    region: Value
    dropped: Value

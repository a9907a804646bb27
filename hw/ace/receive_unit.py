"""Receive unit: executes the receive instruction that each arriving packet names."""

from itertools import pairwise

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.alu_pool import ALUClientSignature
from hw.ace.config import AceConfig
from hw.ace.layouts import event_layout, lookup_layout, ready_layout, resolved_layout
from hw.ace.sram import READ_LATENCY, SRAMReadSignature, SRAMWriteSignature
from hw.common.fifo import StreamFIFO
from hw.link.packet import PacketKind
from hw.link.transmit import PacketQueueSignature

__all__ = ["ForwardSignature", "ReceiveUnit"]


class ForwardSignature(wiring.Signature):
    """Claim on the forward queue of a transmit port, seen from a receive unit.

    ``want`` asks for room for one packet behind those this unit has claimed before; ``grant``
    answers in the same cycle; ``claim`` takes it. Claimed packets are then written without
    stalling, each closed by its header.
    """

    def __init__(self, c: AceConfig) -> None:
        self._key = c
        queue = PacketQueueSignature(c.format, bus_bytes=c.bus_bytes)
        super().__init__(
            {
                "want": Out(1),
                "grant": In(1),
                "claim": Out(1),
                "data": queue.members["data"],
                "header": queue.members["header"],
            }
        )

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._key == self._key

    def __repr__(self) -> str:
        return f"ForwardSignature({self._key!r})"


class ReceiveUnit(wiring.Component):
    """Consumes the packets of one receive buffer, in order of arrival.

    For each DATA packet an FSM is asked for its context and instruction (answers come in order, a
    fixed time after the question is taken). The packet is then streamed, one beat per cycle, back
    to back with the next one: a reduction reads the operand from SRAM and adds; the outcome is
    stored, forwarded or both. At the start of a packet the unit takes the ALU and room in the
    forward queue together. If there is no such room or the peer is not ready, the packet is
    *parked*: written to SRAM and left for the FSM to send. So no packet here ever waits for an
    output, which is what keeps the network free of cyclic waits.

    Stalls: SRAM bank conflicts, an ALU that another port uses, FSM lookups and events under
    contention.

    Members
    -------
    header, payload_row, payload_enable, payload, release, release_control
        The receive buffer (``hw.link.receive``).
    lookup, resolved
        Question to and answer from the FSMs.
    event : ``Out(stream)``
        A packet has been consumed.
    ready : ``Out(stream)``
        A READY packet arrived.
    alu, operand, store, forward
        ALU, SRAM read port, SRAM write port, one forward queue per link.
    rejected : ``Out(2)``
        Number of packets dropped in this cycle since no context expects them.
    parked : ``Out(1)``
        A packet was parked.
    idle : ``Out(1)``
    """

    header: stream.Interface
    payload_row: Signal
    payload_enable: Signal
    payload: Signal
    release: Signal
    release_control: Signal
    lookup: stream.Interface
    resolved: stream.Interface
    event: stream.Interface
    ready: stream.Interface
    rejected: Signal
    parked: Signal
    idle: Signal
    forward: list

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        sram = {"depth": c.sram_beats, "width": 8 * c.bus_bytes}
        super().__init__(
            {
                "node": In(c.format.node),
                "header": In(stream.Signature(c.format.layout)),
                "payload_row": Out(range(c.rx_packets * c.packet_beats)),
                "payload_enable": Out(1),
                "payload": In(8 * c.bus_bytes),
                "release": Out(1),
                "release_control": Out(1),
                "lookup": Out(stream.Signature(lookup_layout(c))),
                "resolved": In(stream.Signature(resolved_layout(c), always_ready=True)),
                "event": Out(stream.Signature(event_layout(c))),
                "ready": Out(stream.Signature(ready_layout(c))),
                "alu": Out(ALUClientSignature(lanes=c.lanes)),
                "operand": Out(SRAMReadSignature(**sram)),
                "store": Out(SRAMWriteSignature(**sram)),
                "forward": Out(ForwardSignature(c)).array(c.ports),
                "rejected": Out(2),
                "parked": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config

        # ---- Questions to the FSMs: up to `window` packets ahead of the one being streamed.
        window = 8
        m.submodules.asked = asked = StreamFIFO(c.format.layout, window)
        m.submodules.answers = answers = StreamFIFO(resolved_layout(c), window)
        outstanding = Signal(range(window + 1))
        head = self.header.p
        is_data = head.kind == PacketKind.DATA
        known = head.queue < c.fsms
        may_ask = Signal()
        ask = Signal()
        skip = Signal()  # a READY, or for an FSM that does not exist
        greets = Signal()  # a READY of a context that can exist
        m.d.comb += [
            may_ask.eq(outstanding != window),
            self.lookup.valid.eq(self.header.valid & is_data & known & may_ask),
            self.lookup.p.queue.eq(head.queue),
            self.lookup.p.slot.eq(head.slot),
            self.lookup.p.key.collective.eq(head.collective),
            self.lookup.p.key.chunk.eq(head.chunk),
            self.lookup.p.op.eq(head.op),
            self.lookup.p.step.eq(head.step),
            self.lookup.p.offset.eq(head.offset),
            self.lookup.p.length.eq(head.length),
            self.lookup.p.contributions.eq(head.contributions),
            ask.eq(self.lookup.valid & self.lookup.ready),
            asked.i.valid.eq(ask),
            asked.i.p.eq(head),
            answers.i.valid.eq(self.resolved.valid),
            answers.i.p.eq(self.resolved.p),
            greets.eq(~is_data & known & (head.slot < c.contexts)),
            self.ready.valid.eq(self.header.valid & greets),
            self.ready.p.queue.eq(head.queue),
            self.ready.p.slot.eq(head.slot),
            self.ready.p.key.collective.eq(head.collective),
            self.ready.p.key.chunk.eq(head.chunk),
        ]
        # A DATA packet for an unknown FSM would have to be released out of order; it is asked of
        # FSM 0 instead, whose answer is refused below because the queue does not match.
        with m.If(is_data & ~known):
            m.d.comb += [
                self.lookup.valid.eq(self.header.valid & may_ask),
                self.lookup.p.queue.eq(0),
            ]
        m.d.comb += [
            skip.eq(~is_data & (~greets | self.ready.ready)),
            self.header.ready.eq(ask | skip),
            self.release_control.eq(self.header.valid & skip),
        ]

        # ---- The packet being streamed.
        last_beat = range(max(2, c.packet_beats))
        record = data.StructLayout(
            {
                "header": c.format.layout,
                "store": 1,
                "forward": 1,
                "parked": 1,
                "port": range(max(2, c.ports)),
                "row": range(c.sram_beats),
                "empty": 1,
                "last": last_beat,
            }
        )
        m.submodules.flying = flying = StreamFIFO(record, 8)
        active = Signal()
        reduce = Signal()
        operator = Signal.like(answers.o.p.operator)
        operand_row = Signal(range(c.sram_beats))
        last = Signal(last_beat)
        beat = Signal(last_beat)
        slot_base = Signal(range(c.rx_packets * c.packet_beats))

        # Results come back a fixed time after their issue; a beat is issued only if its result has
        # a place.
        latency = READ_LATENCY + c.alu_latency
        depth = latency + 6
        m.submodules.results = results = StreamFIFO(8 * c.bus_bytes, depth)
        promised = Signal(range(depth + 1))
        issue = Signal()
        ending = Signal()
        collect = Signal()
        m.d.comb += [
            self.operand.enable.eq(active & reduce & (promised != depth)),
            self.operand.row.eq(operand_row),
            issue.eq(active & (promised != depth) & (~reduce | self.operand.grant)),
            ending.eq(issue & (beat == last)),
            self.payload_enable.eq(issue),
            self.payload_row.eq(slot_base + beat),
        ]
        m.d.sync += promised.eq(promised + issue - collect)

        # ---- Start of a packet: ALU and output together or not at all.
        want = answers.o.p
        packet = asked.o.p
        startable = Signal()
        grant_alu = Signal()
        forwardable = Signal()
        start = Signal()
        reject = Signal()
        wants_send = Signal()
        beats_minus_1 = Signal(last_beat)
        usable = Signal()
        m.d.comb += [
            usable.eq(want.valid & (packet.queue < c.fsms)),
            startable.eq(answers.o.valid & asked.o.valid & (~active | ending) & flying.i.ready),
            wants_send.eq(usable & want.op.send & want.granted),
            self.alu.want.eq(startable & usable & want.op.reduce),
            grant_alu.eq(~want.op.reduce | self.alu.grant),
            start.eq(startable & usable & grant_alu),
            # Not in the cycle in which another packet ends: one slot is freed at a time.
            reject.eq(answers.o.valid & asked.o.valid & ~usable & ~active),
            self.rejected.eq(reject + (self.release_control & ~greets)),
            beats_minus_1.eq(
                Mux(
                    packet.length == 0,
                    0,
                    (packet.length - 1) >> (c.bus_bytes.bit_length() - 1),
                )
            ),
            self.alu.claim.eq(start & want.op.reduce),
            self.alu.release.eq(ending & reduce),
        ]
        for n, out in enumerate(self.forward):
            m.d.comb += [
                out.want.eq(startable & wants_send & (want.port == n)),
                out.claim.eq(out.want & out.grant & start),
            ]
            with m.If(out.want & out.grant):
                m.d.comb += forwardable.eq(1)

        parked = Signal()
        m.d.comb += [
            parked.eq(want.op.send & ~forwardable),
            self.parked.eq(start & parked),
            flying.i.valid.eq(start),
            flying.i.p.store.eq(want.op.store | parked),
            flying.i.p.forward.eq(want.op.send & ~parked),
            flying.i.p.parked.eq(parked),
            flying.i.p.port.eq(want.port),
            flying.i.p.row.eq(Mux(want.op.store, want.store_row, want.park_row)),
            flying.i.p.empty.eq(packet.length == 0),
            flying.i.p.last.eq(beats_minus_1),
            flying.i.p.header.eq(packet),
        ]
        # What changes in the header of a forwarded packet. The own context and step stay in the
        # record for the event.
        m.d.comb += [
            asked.o.ready.eq(start | reject),
            answers.o.ready.eq(start | reject),
        ]
        m.submodules.onward = onward = StreamFIFO(
            data.StructLayout(
                {"slot": c.format.slot, "step": c.format.step, "contributions": c.format.node}
            ),
            8,
        )
        m.d.comb += [
            onward.i.valid.eq(start),
            onward.i.p.slot.eq(want.remote_slot),
            onward.i.p.step.eq(want.peer_step),
            onward.i.p.contributions.eq(want.contributions),
        ]
        with m.If(start):
            m.d.sync += [
                active.eq(1),
                reduce.eq(want.op.reduce),
                operator.eq(want.operator),
                operand_row.eq(want.operand_row),
                last.eq(beats_minus_1),
                beat.eq(0),
            ]
        with m.Elif(issue):
            m.d.sync += [active.eq(~ending), beat.eq(beat + 1), operand_row.eq(operand_row + 1)]
        m.d.sync += outstanding.eq(outstanding + ask - (start | reject))
        # The payload is read as beats are issued, and a slot is free once its last beat has been.
        consumed = Signal()
        m.d.comb += [consumed.eq(ending | reject), self.release.eq(consumed)]
        next_base = Signal(range(c.rx_packets * c.packet_beats + c.packet_beats + 1))
        m.d.comb += next_base.eq(slot_base + c.packet_beats)
        with m.If(consumed):
            m.d.sync += slot_base.eq(Mux(next_base == c.rx_packets * c.packet_beats, 0, next_base))

        # ---- Operands: payload and SRAM data meet READ_LATENCY cycles after issue.
        stage = data.StructLayout({"valid": 1, "reduce": 1})
        issued = [Signal(stage, name=f"issued_{n}") for n in range(latency + 1)]
        m.d.comb += [issued[0].valid.eq(issue), issued[0].reduce.eq(reduce)]
        for before, after in pairwise(issued):
            m.d.sync += after.eq(before)
        payload = self.payload  # one cycle after issue
        aligned = Signal(8 * c.bus_bytes)
        with m.If(issued[1].valid):
            m.d.sync += aligned.eq(payload)
        operators = [operator]
        for n in range(READ_LATENCY):
            delayed = Signal.like(operator, name=f"operator_{n + 1}")
            m.d.sync += delayed.eq(operators[-1])
            operators.append(delayed)
        at_alu = issued[READ_LATENCY]
        m.d.comb += [
            self.alu.valid.eq(at_alu.valid & at_alu.reduce),
            self.alu.op.eq(operators[READ_LATENCY]),
            self.alu.a.eq(aligned),
            self.alu.b.eq(self.operand.data),
        ]
        # What is not reduced takes as long, so that order is kept.
        around = aligned
        for n in range(c.alu_latency):
            delayed = Signal(8 * c.bus_bytes, name=f"around_{n + 1}")
            with m.If(issued[READ_LATENCY + n].valid & ~issued[READ_LATENCY + n].reduce):
                m.d.sync += delayed.eq(around)
            around = delayed
        out = issued[latency]
        m.d.comb += [
            results.i.valid.eq(out.valid),
            results.i.payload.eq(Mux(out.reduce, self.alu.result, around)),
        ]

        # ---- Outcome: store and forward together.
        flight = flying.o.p
        position = Signal(last_beat)
        finishing = Signal()
        m.submodules.events = events = StreamFIFO(event_layout(c), 4)
        wiring.connect(m, events.o, wiring.flipped(self.event))
        room = Signal()  # the last beat also reports the event
        stores = Signal()
        m.d.comb += [
            finishing.eq(position == flight.last),
            room.eq(~finishing | events.i.ready),
            stores.eq(flight.store & ~flight.empty),
            self.store.enable.eq(flying.o.valid & results.o.valid & room & stores),
            self.store.row.eq(flight.row + position),
            self.store.data.eq(results.o.payload),
            collect.eq(flying.o.valid & results.o.valid & room & (~stores | self.store.grant)),
            results.o.ready.eq(collect),
            flying.o.ready.eq(collect & finishing),
            onward.o.ready.eq(collect & finishing),
        ]
        with m.If(collect):
            m.d.sync += position.eq(Mux(finishing, 0, position + 1))
        header = Signal(c.format.layout)
        m.d.comb += [
            header.eq(flight.header),
            header.slot.eq(onward.o.p.slot),
            header.step.eq(onward.o.p.step),
            header.contributions.eq(onward.o.p.contributions),
            header.source.eq(self.node),
        ]
        for n, port in enumerate(self.forward):
            mine = Signal(name=f"forward_{n}")
            m.d.comb += [
                mine.eq(collect & flight.forward & (flight.port == n)),
                port.data.valid.eq(mine & ~flight.empty),
                port.data.payload.eq(results.o.payload),
                port.header.valid.eq(mine & finishing),
                port.header.p.eq(header),
            ]
        m.d.comb += [
            events.i.valid.eq(collect & finishing),
            events.i.p.queue.eq(flight.header.queue),
            events.i.p.slot.eq(flight.header.slot),
            events.i.p.step.eq(flight.header.step),
            events.i.p.offset.eq(flight.header.offset),
            events.i.p.received.eq(1),
            events.i.p.sent.eq(flight.forward),
            events.i.p.parked.eq(flight.parked),
            self.idle.eq(
                ~self.header.valid
                & (outstanding == 0)
                & ~active
                & (flying.level == 0)
                & (events.level == 0)
            ),
        ]
        return m

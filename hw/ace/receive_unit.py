# SPDX-License-Identifier: Apache-2.0
"""Receive unit: executes the receive instruction that each arriving packet names."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.alu_pool import ALUClientSignature
from hw.ace.config import AceConfig
from hw.ace.layouts import event_layout, lookup_layout, ready_layout, resolved_layout
from hw.ace.packet_lookup import PacketLookup
from hw.ace.packet_outcome import ForwardDataSignature, PacketOutcome
from hw.ace.reduce_path import ReducePath
from hw.ace.sram import SRAMReadSignature, SRAMWriteSignature
from hw.common.signature import ParametricSignature
from hw.link.receive import PayloadReadSignature

__all__ = ["ForwardSignature", "ReceiveUnit"]


class ForwardSignature(ParametricSignature):
    """Claim on the forward queue of a transmit port, seen from a receive unit.

    Members
    -------
    want : ``Out(1)``
        Asks for room for one packet behind those that this unit has claimed before.
    grant : ``In(1)``
        Answers ``want`` in the same cycle.
    claim : ``Out(1)``
        Takes the room, in a cycle with ``grant``.
    packets : ``Out(ForwardDataSignature(config))``
        The packets that were claimed, in order; they never stall.
    """

    def __init__(self, c: AceConfig) -> None:
        super().__init__(
            {
                "want": Out(1),
                "grant": In(1),
                "claim": Out(1),
                "packets": Out(ForwardDataSignature(c)),
            },
            config=c,
        )


class PacketStart(wiring.Component):
    """Start of a packet: what comes late passes one level of logic, in a block of its own.

    Members
    -------
    startable : ``In(1)``, reduces : ``In(1)``
        It may begin; it is reduced.
    streams : ``In(1)``, operand : ``In(1)``
        It follows a packet that is reduced, and begins only if that gets its last operand.
    turn : ``In(1)``, free : ``In(1)``
        Of the ALU, see `ALUClientSignature`.
    start : ``Out(1)``, claim : ``Out(1)``
        It begins; it takes the ALU.
    """

    startable: Signal
    reduces: Signal
    streams: Signal
    operand: Signal
    turn: Signal
    free: Signal
    start: Signal
    claim: Signal

    def __init__(self) -> None:
        known = ("startable", "reduces", "streams", "operand", "turn", "free")
        super().__init__(
            {**dict.fromkeys(known, In(1)), **dict.fromkeys(("start", "claim"), Out(1))}
        )

    def elaborate(self, platform):
        m = Module()
        follows = self.startable & (~self.streams | self.operand)
        gets = self.turn & self.free
        m.d.comb += [
            self.start.eq(follows & (~self.reduces | gets)),
            self.claim.eq(follows & self.reduces & gets),
        ]
        return m


class ReceiveUnit(wiring.Component):
    """Consumes the packets of one receive buffer, in order of arrival.

    For each DATA packet an FSM is asked for its context and instruction (`PacketLookup`). The
    packet is then streamed, one beat per cycle, back to back with the next one: a reduction reads
    the operand from SRAM and adds (`ReducePath`); the outcome is stored, forwarded or both
    (`PacketOutcome`). At the start of a packet the unit takes the ALU and room in the forward queue
    together. If there is no such room or the peer is not ready, the packet is *parked*: written to
    SRAM and left for the FSM to send. So no packet here ever waits for an output, which is what
    keeps the network free of cyclic waits.

    Timing: with nothing in its way, the first beat of a packet is issued 2 cycles after the
    response to its lookup, and is stored or forwarded ``READ_LATENCY + alu_latency + 1`` cycles
    after that.

    Stalls: SRAM bank conflicts, an ALU that another port uses, FSM lookups and events under
    contention.

    Members
    -------
    node : ``In(config.format.node)``, epoch : ``In(config.format.epoch)``
        This node's rank and epoch.
    restart : ``In(1)``
        The other end numbers its packets from 0 again.
    header : ``In(stream)``, payload : ``Out(PayloadReadSignature)``
        The receive buffer.
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
    repeated : ``Out(1)``, missing : ``Out(config.format.sequence)``
        A packet came again; number of packets that did not come before this one.
    parked : ``Out(1)``
        A packet was parked.
    idle : ``Out(1)``
        No header waits, no packet is streamed, and no outcome is left.
    """

    node: Signal
    epoch: Signal
    restart: Signal
    header: stream.Interface
    lookup: stream.Interface
    resolved: stream.Interface
    event: stream.Interface
    ready: stream.Interface
    rejected: Signal
    repeated: Signal
    missing: Signal
    parked: Signal
    idle: Signal
    forward: list

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        sram = {"depth": c.sram_beats, "width": 8 * c.bus_bytes}
        super().__init__(
            {
                "node": In(c.format.node),
                "epoch": In(c.format.epoch),
                "restart": In(1),
                "header": In(stream.Signature(c.format.layout)),
                "payload": Out(PayloadReadSignature(bus_bytes=c.bus_bytes, rows=c.rx_beats)),
                "lookup": Out(stream.Signature(lookup_layout(c))),
                "resolved": In(stream.Signature(resolved_layout(c), always_ready=True)),
                "event": Out(stream.Signature(event_layout(c))),
                "ready": Out(stream.Signature(ready_layout(c))),
                "alu": Out(ALUClientSignature(lanes=c.lanes)),
                "operand": Out(SRAMReadSignature(**sram)),
                "store": Out(SRAMWriteSignature(**sram)),
                "forward": Out(ForwardSignature(c)).array(c.ports),
                "rejected": Out(2),
                "repeated": Out(1),
                "missing": Out(c.format.sequence),
                "parked": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.lookups = lookups = PacketLookup(self._config)
        m.submodules.path = path = ReducePath(self._config)
        m.submodules.outcome = outcome = PacketOutcome(self._config)
        for inner, outer in (
            (lookups.header, self.header),
            (lookups.lookup, self.lookup),
            (lookups.resolved, self.resolved),
            (lookups.ready, self.ready),
            (path.alu, self.alu.operands),
            (outcome.store, self.store),
            (outcome.event, self.event),
            *((mine, port.packets) for mine, port in zip(outcome.forward, self.forward)),
        ):
            wiring.connect(m, inner, wiring.flipped(outer))
        wiring.connect(m, path.result, outcome.result)

        active = Signal()  # a packet is being streamed
        final = Signal()  # of which one beat is left
        issue = Signal()  # a beat is issued
        # A packet may start behind the one that is streamed. All that is decided about it is
        # decided before it is known whether SRAM gives the operand of the last beat: then it starts
        # or not.
        turn = ~active | (final & path.room)
        m.submodules.begins = begins = PacketStart()
        m.d.comb += begins.operand.eq(self.operand.grant)
        start, reject, stores, last = self._start(
            m, lookups.packet, outcome.packet, turn, begins, active
        )
        self._stream(
            m, lookups.packet.p, stores, last, begins, reject, path, active, final, issue
        )
        m.d.comb += [
            outcome.node.eq(self.node),
            lookups.epoch.eq(self.epoch),
            lookups.restart.eq(self.restart),
            lookups.packet.ready.eq(start | reject),
            self.payload.release_control.eq(lookups.release_control),
            self.rejected.eq((reject & ~lookups.packet.p.repeated) + lookups.dropped),
            self.repeated.eq(lookups.repeated),
            self.missing.eq(lookups.missing),
            self.idle.eq(lookups.idle & ~active & outcome.idle),
        ]
        return m

    def _start(self, m, offered, outcome, turn, begins, active):
        """Begin with the packet *offered*, ALU and output together or not at all, or reject it. It
        is its *turn* unless SRAM holds up the one before, which comes late. Returns whether it
        begins or is rejected, whether it is stored, and its last beat."""
        header, resolved = offered.p.header, offered.p.resolved
        operation = resolved.op
        startable = Signal()
        forwardable = Signal()
        parked = Signal()
        start = Signal()
        reject = Signal()
        stores = Signal()
        last = Signal(range(max(2, self._config.packet_beats)))  # its last beat
        m.d.comb += [
            startable.eq(offered.valid & resolved.valid & turn & outcome.ready),
            self.alu.want.eq(startable & operation.reduce),
            begins.startable.eq(startable),
            begins.reduces.eq(operation.reduce),
            begins.turn.eq(self.alu.grant),
            begins.free.eq(self.alu.free),
            start.eq(begins.start),
            self.alu.claim.eq(begins.claim),
            # Not in the cycle in which another packet ends: one slot is freed at a time.
            reject.eq(offered.valid & ~resolved.valid & ~active),
        ]
        for n, port in enumerate(self.forward):
            wanted = operation.send & resolved.granted & (resolved.port == n)
            m.d.comb += [
                port.want.eq(startable & wanted),
                port.claim.eq(port.want & port.grant & start),
            ]
            with m.If(port.want & port.grant):
                m.d.comb += forwardable.eq(1)
        beat_bits = self._config.bus_bytes.bit_length() - 1
        empty = header.length == 0
        m.d.comb += [
            parked.eq(operation.send & ~forwardable),
            self.parked.eq(start & parked),
            outcome.valid.eq(start),
            outcome.p.header.eq(header),
            outcome.p.onward.context.eq(resolved.remote_context),
            outcome.p.onward.step.eq(resolved.peer_step),
            outcome.p.onward.contributions.eq(resolved.contributions),
            outcome.p.onward.poison.eq(header.poison | resolved.poisoned),
            outcome.p.forward.eq(operation.send & ~parked),
            outcome.p.parked.eq(parked),
            outcome.p.odd.eq(resolved.odd),
            outcome.p.port.eq(resolved.port),
            outcome.p.row.eq(resolved.place if self._config.phased else resolved.row),
            outcome.p.empty.eq(empty),
            stores.eq((operation.store | parked) & ~empty),
            last.eq(Mux(empty, 0, (header.length - 1) >> beat_bits)),
        ]
        return start, reject, stores, last

    def _stream(self, m, packet, stores, last_beat, begins, reject, path, active, final, issue):
        """Read payload and operand of the packet that was started, one beat per cycle."""
        c = self._config
        resolved, start = packet.resolved, begins.start
        reduce = Signal()  # it is active and reduced
        stored = Signal()
        operator = Signal.like(resolved.operator)
        operand_row = Signal(range(c.sram_beats))
        last = Signal.like(last_beat)
        beat = Signal.like(last_beat)
        ending = Signal()
        m.d.comb += [
            self.operand.enable.eq(reduce & path.room),
            self.operand.row.eq(operand_row),
            issue.eq(active & path.room & (~reduce | self.operand.grant)),
            ending.eq(issue & final),
            begins.streams.eq(reduce),
            self.alu.ending.eq(reduce & path.room & final),
            self.alu.release.eq(self.operand.grant),
            path.issue.valid.eq(issue),
            path.issue.p.reduce.eq(reduce),
            path.issue.p.operator.eq(operator),
            path.issue.p.stores.eq(stored),
            path.issue.p.last.eq(final),
            path.payload.eq(self.payload.data),
            path.operand.eq(self.operand.data),
        ]
        # Behind the last beat nothing of a packet is used, whether another one starts or not: so
        # registers need not wait for what starts.
        first = ~active | final
        m.d.sync += [
            active.eq(start | (active & ~ending)),
            reduce.eq(begins.claim | (reduce & ~ending)),
        ]
        with m.If(~active | issue):
            m.d.sync += [
                operand_row.eq(Mux(first, resolved.row, operand_row + 1)),
                beat.eq(Mux(first, 0, beat + 1)),
                final.eq(Mux(first, last_beat == 0, beat + 1 == last)),
            ]
            with m.If(first):
                m.d.sync += [
                    stored.eq(stores),
                    operator.eq(resolved.operator),
                    last.eq(last_beat),
                ]

        # The payload is read as beats are issued, and a slot is free once its last beat has been.
        base = Signal(range(c.rx_beats))
        row = Signal(range(c.rx_beats))
        next_base = Signal(range(c.rx_beats))
        m.d.comb += [
            self.payload.enable.eq(issue),
            self.payload.row.eq(row),
            self.payload.release.eq(ending | reject),
            next_base.eq(Mux(base == c.rx_beats - c.packet_beats, 0, base + c.packet_beats)),
        ]
        with m.If(self.payload.release):
            m.d.sync += base.eq(next_base)
        with m.If(issue | reject):
            m.d.sync += row.eq(Mux(first, next_base, row + 1))

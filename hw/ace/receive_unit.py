# SPDX-License-Identifier: Apache-2.0
"""Receive unit: executes the receive instruction that each arriving packet names."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.alu_pool import ALUClientSignature
from hw.ace.beat_issue import BeatIssue
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


class ReceiveUnit(wiring.Component):
    """Consumes the packets of one receive buffer, in order of arrival.

    For each DATA packet an FSM is asked for its context and instruction (`PacketLookup`). The
    packet is then streamed, one beat per cycle, back to back with the next one: a reduction reads
    the operand from SRAM (`BeatIssue`) and adds (`ReducePath`); the outcome is stored, forwarded or
    both (`PacketOutcome`). At the start of a packet the unit takes the ALU and room in the forward
    queue together. If there is no such room or the peer is not ready, the packet is *parked*:
    written to SRAM and left for the FSM to send. So no packet here ever waits for an output, which
    is what keeps the network free of cyclic waits.

    Timing: with nothing in its way, the first beat of a packet asks for its operand 3 cycles after
    the response to its lookup; its outcome is forwarded, and asks for its place in SRAM a cycle
    later, ``READ_LATENCY + alu_latency + 1`` cycles after that was granted. The slot of a packet is
    free 2 cycles after the grant for its last beat.

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
        A packet was parked in the cycle before.
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
                "operand": Out(SRAMReadSignature(**c.sram_port)),
                "store": Out(SRAMWriteSignature(**c.sram_port)),
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
        m.submodules.issues = issues = BeatIssue(self._config)
        m.submodules.path = path = ReducePath(self._config)
        m.submodules.outcome = outcome = PacketOutcome(self._config)
        for inner, outer in (
            (lookups.header, self.header),
            (lookups.lookup, self.lookup),
            (lookups.resolved, self.resolved),
            (lookups.ready, self.ready),
            (issues.operand, self.operand),
            (path.alu, self.alu.operands),
            (outcome.store, self.store),
            (outcome.event, self.event),
            *((mine, port.packets) for mine, port in zip(outcome.forward, self.forward)),
        ):
            wiring.connect(m, inner, wiring.flipped(outer))
        wiring.connect(m, issues.issued, path.issue)
        wiring.connect(m, path.result, outcome.result)

        active = Signal()  # a packet is being streamed
        final = Signal()  # its last beat is next
        ending = Signal()  # which goes on in this cycle
        start, reject, stores, last = self._start(
            m, lookups.packet, outcome.packet, ~active | final, ~active | ending,
            ~active & issues.rests,
        )
        self._stream(
            m, lookups.packet.p, stores, last, start, reject, issues, active, final, ending
        )
        # All slots are given back a cycle late, so their credits keep their order.
        m.d.sync += self.payload.release_control.eq(lookups.release_control)
        m.d.comb += [
            outcome.node.eq(self.node),
            lookups.epoch.eq(self.epoch),
            lookups.restart.eq(self.restart),
            lookups.packet.ready.eq(start | reject),
            issues.room.eq(path.room),
            path.promise.eq(issues.beat.valid & issues.beat.ready),
            issues.ahead.eq(self.alu.ahead),
            self.alu.waits.eq(issues.waits),
            self.alu.behind.eq(issues.behind),
            path.payload.eq(self.payload.data),
            path.operand.eq(self.operand.data),
            # A row is read until its beat has its operand, and a slot is free once its last beat
            # has been issued.
            self.payload.enable.eq(issues.reads),
            self.payload.row.eq(issues.payload_row),
            self.payload.release.eq(issues.ended | reject),
            self.rejected.eq((reject & ~lookups.packet.p.repeated) + lookups.dropped),
            self.repeated.eq(lookups.repeated),
            self.missing.eq(lookups.missing),
            self.idle.eq(lookups.idle & ~active & outcome.idle),
        ]
        return m

    def _start(self, m, offered, outcome, near, turn, rest):
        """Begin with the packet *offered* at its *turn*, ALU and output together or not at all, or
        reject it. Returns whether it begins or is rejected, whether it is stored, and its last
        beat. Behind the last beat of another packet its turn is *near*, but known late; at *rest*
        no beat of one is left."""
        header, resolved = offered.p.header, offered.p.resolved
        operation = resolved.op
        asks = Signal()
        startable = Signal()
        forwardable = Signal()
        parked = Signal()
        start = Signal()
        reject = Signal()
        stores = Signal()
        last = Signal(range(max(2, self._config.packet_beats)))  # its last beat
        gets = self.alu.grant & self.alu.free
        m.d.comb += [
            # Who shares an ALU or a queue with this unit is told without what comes late.
            asks.eq(offered.valid & resolved.valid & outcome.ready & near),
            startable.eq(asks & turn),
            self.alu.want.eq(asks & operation.reduce),
            start.eq(startable & (~operation.reduce | gets)),
            self.alu.claim.eq(startable & operation.reduce & gets),
            self.alu.refused.eq(startable & operation.reduce & ~gets),
            # Not in the cycle in which the slot of another packet is free: one at a time.
            reject.eq(offered.valid & ~resolved.valid & rest),
        ]
        for n, port in enumerate(self.forward):
            wanted = operation.send & resolved.granted & (resolved.port == n)
            m.d.comb += [
                port.want.eq(asks & wanted),
                port.claim.eq(port.want & port.grant & start),
            ]
            with m.If(port.want & port.grant):
                m.d.comb += forwardable.eq(1)
        beat_bits = self._config.bus_bytes.bit_length() - 1
        empty = header.length == 0
        m.d.sync += self.parked.eq(start & parked)  # counted far from here
        m.d.comb += [
            parked.eq(operation.send & ~forwardable),
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

    def _stream(self, m, packet, stores, last_beat, start, reject, issues, active, final, ending):
        """Give the beats of the packet that was started to *issues*, one per cycle."""
        c = self._config
        resolved = packet.resolved
        reduce = Signal()  # the packet is reduced, as long as it is active
        stored = Signal()
        operator = Signal.like(resolved.operator)
        operand_row = Signal(range(c.sram_beats))
        last = Signal.like(last_beat)
        beat = Signal.like(last_beat)
        offered = issues.beat
        moves = offered.valid & offered.ready
        m.d.comb += [
            # Beats of two clients never meet in an ALU.
            offered.valid.eq(active & ~(reduce & self.alu.blocked)),
            offered.p.issue.reduce.eq(reduce),
            offered.p.issue.operator.eq(operator),
            offered.p.issue.stores.eq(stored),
            offered.p.issue.last.eq(final),
            offered.p.operand_row.eq(operand_row),
            ending.eq(moves & final),
            self.alu.ending.eq(ending & reduce),
        ]
        # Behind the last beat nothing of a packet is used, whether another one starts or not: so
        # registers need not wait for what starts.
        first = ~active | final
        m.d.sync += [
            active.eq(start | (active & ~ending)),
            reduce.eq(self.alu.claim | (reduce & ~ending)),
        ]
        with m.If(~active | moves):
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

        base = Signal(range(c.rx_beats))  # of the payload
        row = Signal(range(c.rx_beats))
        next_base = Signal(range(c.rx_beats))
        m.d.comb += [
            offered.p.payload_row.eq(row),
            next_base.eq(Mux(base == c.rx_beats - c.packet_beats, 0, base + c.packet_beats)),
        ]
        with m.If(ending | reject):
            m.d.sync += base.eq(next_base)
        with m.If(moves | reject):
            m.d.sync += row.eq(Mux(first, next_base, row + 1))

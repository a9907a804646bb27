# SPDX-License-Identifier: Apache-2.0
"""One link of the engine: what receives, forwards and sends its packets."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.alu_pool import ALUClientSignature
from hw.ace.config import AceConfig
from hw.ace.forward_gate import ForwardGate
from hw.ace.layouts import (
    event_layout,
    lookup_layout,
    ready_layout,
    resolved_layout,
    send_command_layout,
)
from hw.ace.receive_unit import ForwardSignature, ReceiveUnit
from hw.ace.send_unit import SendUnit
from hw.ace.sram import SRAMReadSignature, SRAMWriteSignature
from hw.common.signature import ParametricSignature
from hw.link.packet import FLIT_BITS, PacketKind
from hw.link.receive import ReceiveBuffer
from hw.link.transmit import TransmitPort

__all__ = ["LinkSignature", "Port", "WireSignature"]


class WireSignature(ParametricSignature):
    """One direction of a link, seen from the sender: AXI4-Stream with credits.

    A sender starts with as many credits as the receive buffer of the other end holds packets.

    Members
    -------
    tdata : ``Out(FLIT_BITS * flits)``
        Flits of a beat, the first in the lowest bits.
    tkeep : ``Out(flits)``
        A bit per flit that exists (a prefix).
    tuser : ``Out(flits)``
        A bit per flit that is a packet header.
    tvalid : ``Out(1)``
        A beat is sent.
    tready : ``In(1)``
        The beat is taken; always high at an engine, since packets are sent only with credit.
    credit : ``In(1)``
        High for one cycle for each packet slot that the receiver has freed.
    """

    def __init__(self, *, flits: int) -> None:
        super().__init__(
            {
                "tdata": Out(FLIT_BITS * flits),
                "tkeep": Out(flits),
                "tuser": Out(flits),
                "tvalid": Out(1),
                "tready": In(1),
                "credit": In(1),
            },
            flits=flits,
        )


class LinkSignature(ParametricSignature):
    """A link, seen from the engine.

    Members
    -------
    tx : ``Out(WireSignature(flits))``
        The direction away from the engine.
    rx : ``In(WireSignature(flits))``
        The direction towards the engine.
    """

    def __init__(self, *, flits: int) -> None:
        wire = WireSignature(flits=flits)
        super().__init__({"tx": Out(wire), "rx": In(wire)}, flits=flits)


class Port(wiring.Component):
    """The five parts of a link: receive buffer and unit, send unit, forward gate, transmit port.

    Their data sheets say how long they take and when they stall; nothing is added here.

    Members
    -------
    node : ``In(config.format.node)``, epoch : ``In(config.format.epoch)``
        This node's rank and epoch.
    flush, restart : ``In(1)``
        Drop what waits to be sent; bring both ends of the link into step.
    halt, halted : ``In(1)``, ``Out(1)``, because, halted_because : ``In(2)``, ``Out(2)``
        Tell the peer that all collectives have been given up, and why; it says so.
    link : ``Out(LinkSignature(flits))``
        The wires.
    lookup, resolved, ready, received : streams
        Of the receive unit: questions and answers, READY packets, events.
    command, sent : streams
        Of the send unit: commands, events.
    forward : ``Out(ForwardSignature(config)).array(ports)``
        To the ports on which packets go on.
    forwarded : ``In(ForwardSignature(config)).array(ports)``
        From the ports on which packets came.
    alu, operand, store, read
        An ALU; SRAM ports: operands and outcomes of received packets, payloads of sent ones.
    dropped, parked, starved, repeated : ``Out(1)``, rejected : ``Out(2)``, missing : ``Out``
        Events to be counted: damaged packets, parked ones, no credit, packets that came again,
        unexpected ones, those that did not come.
    idle : ``Out(1)``
        No packet or event is held, and nothing is to be sent.
    """

    node: Signal
    epoch: Signal
    flush: Signal
    restart: Signal
    halt: Signal
    because: Signal
    halted: Signal
    halted_because: Signal
    lookup: stream.Interface
    resolved: stream.Interface
    ready: stream.Interface
    received: stream.Interface
    command: stream.Interface
    sent: stream.Interface
    forward: list
    forwarded: list
    dropped: Signal
    rejected: Signal
    repeated: Signal
    missing: Signal
    parked: Signal
    starved: Signal
    idle: Signal

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        super().__init__(
            {
                "node": In(c.format.node),
                "epoch": In(c.format.epoch),
                "flush": In(1),
                "restart": In(1),
                "halt": In(1),
                "because": In(2),
                "halted": Out(1),
                "halted_because": Out(2),
                "link": Out(LinkSignature(flits=c.flits)),
                "lookup": Out(stream.Signature(lookup_layout(c))),
                "resolved": In(stream.Signature(resolved_layout(c), always_ready=True)),
                "ready": Out(stream.Signature(ready_layout(c))),
                "received": Out(stream.Signature(event_layout(c))),
                "command": In(stream.Signature(send_command_layout(c))),
                "sent": Out(stream.Signature(event_layout(c))),
                "forward": Out(ForwardSignature(c)).array(c.ports),
                "forwarded": In(ForwardSignature(c)).array(c.ports),
                "alu": Out(ALUClientSignature(lanes=c.lanes)),
                "operand": Out(SRAMReadSignature(**c.sram_port)),
                "store": Out(SRAMWriteSignature(**c.sram_port)),
                "read": Out(SRAMReadSignature(**c.sram_port)),
                "dropped": Out(1),
                "rejected": Out(2),
                "repeated": Out(1),
                "missing": Out(c.format.sequence),
                "parked": Out(1),
                "starved": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        buffer = {"bus_bytes": c.bus_bytes}
        receiver = ReceiveBuffer(c.format, packets=c.rx_packets, **buffer)
        transmitter = TransmitPort(c.format, packets=c.tx_packets, credits=c.rx_packets, **buffer)
        unit, gate, sender = ReceiveUnit(c), ForwardGate(c), SendUnit(c)
        m.submodules.receive_buffer = receiver
        m.submodules.receive_unit = unit
        m.submodules.forward_gate = gate
        m.submodules.send_unit = sender
        m.submodules.transmit_port = transmitter

        wiring.connect(m, receiver.header, unit.header)
        wiring.connect(m, receiver.payload, unit.payload)
        wiring.connect(m, gate.queue, transmitter.queue[0])
        wiring.connect(m, sender.queue, transmitter.queue[1])
        for inner, outer in (
            (unit.lookup, self.lookup),
            (unit.resolved, self.resolved),
            (unit.ready, self.ready),
            (unit.event, self.received),
            (unit.alu, self.alu),
            (unit.operand, self.operand),
            (unit.store, self.store),
            (sender.command, self.command),
            (sender.event, self.sent),
            (sender.read, self.read),
            *zip(unit.forward, self.forward, strict=True),
            *zip(gate.client, self.forwarded, strict=True),
        ):
            wiring.connect(m, inner, wiring.flipped(outer))

        control = receiver.control.p
        heard = receiver.control.valid & (control.epoch == self.epoch)
        sync_epoch = Signal(c.format.epoch)
        with m.If(receiver.control.valid & (control.kind == PacketKind.SYNC)):
            m.d.sync += sync_epoch.eq(control.epoch)
        # An ACK that is heard as its epoch ends comes with the restart, which ignores it.
        m.d.sync += transmitter.synced.eq(heard & (control.kind == PacketKind.ACK))
        # No packet follows before this has been acknowledged, in its epoch, which is a new one.
        m.d.sync += unit.restart.eq(receiver.drained)
        rx, tx = self.link.rx, self.link.tx
        m.d.comb += [
            receiver.rx.valid.eq(rx.tvalid),
            receiver.rx.p.data.eq(rx.tdata),
            receiver.rx.p.keep.eq(rx.tkeep),
            receiver.rx.p.start.eq(rx.tuser),
            rx.tready.eq(receiver.rx.ready),
            rx.credit.eq(receiver.credit),
            tx.tvalid.eq(transmitter.tx.valid),
            tx.tdata.eq(transmitter.tx.p.data),
            tx.tkeep.eq(transmitter.tx.p.keep),
            tx.tuser.eq(transmitter.tx.p.start),
            transmitter.tx.ready.eq(tx.tready),
            transmitter.credit.eq(tx.credit),
            unit.node.eq(self.node),
            unit.epoch.eq(self.epoch),
            transmitter.epoch.eq(self.epoch),
            transmitter.flush.eq(self.flush),
            transmitter.restart.eq(self.restart),
            transmitter.halt.eq(self.halt),
            transmitter.because.eq(self.because),
            transmitter.acknowledge.eq(receiver.drained),
            transmitter.acknowledged.eq(sync_epoch),
            self.halted.eq(heard & (control.kind == PacketKind.HALT)),
            self.halted_because.eq(control.op[:2]),
            sender.node.eq(self.node),
            self.rejected.eq(unit.rejected),
            self.repeated.eq(unit.repeated),
            self.missing.eq(unit.missing),
            self.parked.eq(unit.parked),
            self.starved.eq(transmitter.starved),
            self.idle.eq(receiver.idle & unit.idle & sender.idle & transmitter.idle),
        ]
        m.d.sync += self.dropped.eq(receiver.dropped)  # known late, and in no hurry
        return m

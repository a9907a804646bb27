# SPDX-License-Identifier: Apache-2.0
"""Asks the FSMs what arriving packets are for, ahead of the packet that is being consumed."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import lookup_layout, ready_layout, resolved_layout
from hw.common.fifo import StreamFIFO
from hw.link.packet import PacketKind

__all__ = ["PacketLookup", "resolved_packet_layout"]

_WINDOW = 8
"""Most packets that have been asked about and not taken: more than a lookup takes cycles, so that
packets of one beat flow without a gap."""


def resolved_packet_layout(c: AceConfig) -> data.StructLayout:
    """A DATA packet, and what the FSM that it names says about it; ``repeated`` if the packet has
    come before."""
    return data.StructLayout(
        {"header": c.format.layout, "resolved": resolved_layout(c), "repeated": 1}
    )


class PacketLookup(wiring.Component):
    """Front of a receive unit: headers in, DATA packets with their lookups out, in order.

    A READY is passed to its FSM and freed; one that names an FSM or context that cannot exist is
    dropped. A DATA packet is looked up; one for an FSM that does not exist would have to be freed
    out of order, so it is looked up as well (in FSM 0) and marked as not valid.

    Packets of a link are numbered. One whose number lies up to half the numbers behind what is due
    has come before: it is not passed on if it is a READY, and marked as not valid otherwise. Any
    other number than the one due tells how many packets did not come. Packets of another epoch
    are dropped like those that nobody expects.

    Timing: a header is taken in the cycle in which its FSM takes the lookup or READY; its packet is
    offered a cycle after the response. One header per cycle. Stalls: up to 8 packets may be asked
    about and not taken; lookups and READYs under contention.

    Members
    -------
    header : ``In(stream.Signature(config.format.layout))``
        Of the receive buffer.
    release_control : ``Out(1)``
        A READY has been consumed.
    lookup : ``Out(stream.Signature(lookup_layout(config)))``
        Questions to the FSM that ``lookup.p.fsm`` names.
    resolved : ``In(stream.Signature(resolved_layout(config), always_ready=True))``
        Answers of the FSMs, in the order of the questions.
    ready : ``Out(stream.Signature(ready_layout(config)))``
        READY packets.
    epoch : ``In(config.format.epoch)``
        Of this node.
    restart : ``In(1)``
        The other end numbers its packets from 0 again.
    packet : ``Out(stream.Signature(resolved_packet_layout(config)))``
        DATA packets with their lookups, in order of arrival.
    dropped : ``Out(1)``
        A READY was dropped.
    repeated : ``Out(1)``, missing : ``Out(config.format.sequence)``
        A packet came again; packets that did not come before the one that did now.
    idle : ``Out(1)``
        No header waits and no packet is held.
    """

    header: stream.Interface
    release_control: Signal
    lookup: stream.Interface
    resolved: stream.Interface
    ready: stream.Interface
    epoch: Signal
    restart: Signal
    packet: stream.Interface
    dropped: Signal
    repeated: Signal
    missing: Signal
    idle: Signal

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        super().__init__(
            {
                "header": In(stream.Signature(c.format.layout)),
                "release_control": Out(1),
                "lookup": Out(stream.Signature(lookup_layout(c))),
                "resolved": In(stream.Signature(resolved_layout(c), always_ready=True)),
                "ready": Out(stream.Signature(ready_layout(c))),
                "epoch": In(c.format.epoch),
                "restart": In(1),
                "packet": Out(stream.Signature(resolved_packet_layout(c))),
                "dropped": Out(1),
                "repeated": Out(1),
                "missing": Out(c.format.sequence),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        kept = data.StructLayout({"header": c.format.layout, "repeated": 1, "stale": 1})
        m.submodules.asked = asked = StreamFIFO(kept, _WINDOW)
        m.submodules.answers = answers = StreamFIFO(resolved_layout(c), _WINDOW)
        outstanding = Signal(range(_WINDOW + 1))
        head = self.header.p
        is_data = head.kind == PacketKind.DATA
        known = head.fsm < c.fsms
        ask = Signal()
        skip = Signal()  # a READY that is dropped or taken
        expectable = Signal()  # a READY of a context that can exist
        due = Signal(c.format.sequence)  # number of the next packet
        ahead = Signal(c.format.sequence)
        repeated = ahead[-1]
        taken = self.header.valid & self.header.ready
        m.d.comb += [
            ahead.eq(head.sequence - due),
            self.repeated.eq(taken & repeated),
            self.missing.eq(Mux(taken & ~repeated, ahead, 0)),
        ]
        stale = Signal()
        m.d.comb += stale.eq(head.epoch != self.epoch)
        with m.If(self.restart):
            m.d.sync += due.eq(0)
        with m.Elif(taken & ~repeated):
            m.d.sync += due.eq(head.sequence + 1)
        for request in (self.lookup, self.ready):
            m.d.comb += [
                request.p.context.eq(head.context),
                request.p.key.collective.eq(head.collective),
                request.p.key.chunk.eq(head.chunk),
            ]
        m.d.comb += [
            self.lookup.valid.eq(self.header.valid & is_data & (outstanding != _WINDOW)),
            self.lookup.p.op.eq(head.op),
            self.lookup.p.step.eq(head.step),
            self.lookup.p.offset.eq(head.offset),
            self.lookup.p.length.eq(head.length),
            self.lookup.p.contributions.eq(head.contributions),
            expectable.eq(
                ~is_data & known & (head.context < c.contexts) & ~repeated & ~stale
            ),
            self.ready.valid.eq(self.header.valid & expectable),
            self.ready.p.fsm.eq(head.fsm),
            self.ready.p.op.eq(head.op),
            self.ready.p.digest.eq(Cat(head.step, head.offset)),
        ]
        with m.If(known):
            m.d.comb += self.lookup.p.fsm.eq(head.fsm)
        m.d.comb += [
            ask.eq(self.lookup.valid & self.lookup.ready),
            asked.i.valid.eq(ask),
            asked.i.p.header.eq(head),
            asked.i.p.repeated.eq(repeated),
            asked.i.p.stale.eq(stale),
            answers.i.valid.eq(self.resolved.valid),
            answers.i.p.eq(self.resolved.p),
            skip.eq(~is_data & (~expectable | self.ready.ready)),
            self.header.ready.eq(ask | skip),
            self.release_control.eq(self.header.valid & skip),
            self.dropped.eq(self.release_control & ~expectable & ~repeated),
        ]
        left = self.packet.valid & self.packet.ready
        m.d.sync += outstanding.eq(outstanding + ask - left)
        m.d.comb += [
            self.packet.valid.eq(asked.o.valid & answers.o.valid),
            self.packet.p.header.eq(asked.o.p.header),
            self.packet.p.repeated.eq(asked.o.p.repeated),
            self.packet.p.resolved.eq(answers.o.p),
            self.packet.p.resolved.valid.eq(
                answers.o.p.valid
                & (asked.o.p.header.fsm < c.fsms)
                & ~asked.o.p.repeated
                & ~asked.o.p.stale
            ),
            asked.o.ready.eq(left),
            answers.o.ready.eq(left),
            self.idle.eq(~self.header.valid & (outstanding == 0)),
        ]
        return m

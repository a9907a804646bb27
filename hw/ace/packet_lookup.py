# SPDX-License-Identifier: Apache-2.0
"""Asks the FSMs what arriving packets are for, ahead of the packet that is being consumed."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import lookup_layout, ready_layout, resolved_layout
from hw.ace.lookup import LOOKUP_LATENCY
from hw.common.count import stepped, stepped_to
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

    Timing: a header is checked in the cycle in which it is taken, and goes to its FSM in the next
    one; its packet is offered a cycle after the response. One header per cycle. Stalls: up to 8
    packets may be asked about and not taken; lookups and READYs under contention.

    Members
    -------
    header : ``In(stream.Signature(config.format.layout))``
        Of the receive buffer.
    release_control : ``Out(1)``
        A READY has been consumed.
    lookup : ``Out(stream.Signature(lookup_layout(config)))``
        Questions to the FSM that ``lookup.p.fsm`` names by its bit.
    resolved : ``In(stream.Signature(resolved_layout(config), always_ready=True))``
        Answers of the FSMs, in the order of the questions.
    ready : ``Out(stream.Signature(ready_layout(config)))``
        READY packets.
    epoch : ``In(config.format.epoch)``
        Of this node.
    restart : ``In(1)``
        The other end numbers its packets from 0 again.
    packet : ``Out(stream.Signature(resolved_packet_layout(config)))``
        DATA packets with their lookups, in order of arrival. ``ready`` may be high
        only with ``valid``.
    dropped : ``Out(1)``
        A READY was dropped, a cycle before.
    repeated : ``Out(1)``, missing : ``Out(config.format.sequence)``
        A packet came again; packets that did not come before the one that did. A cycle later.
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
        waits = data.StructLayout({"header": c.format.layout, "repeated": 1})
        resolved = resolved_layout(c)
        # What decides whether a packet may start is at hand; all else of it is read with that.
        early = {"valid", "op", "granted", "port"}
        late = tuple(name for name in resolved.members if name not in early)
        m.submodules.asked = asked = StreamFIFO(waits, _WINDOW, kept=True)
        m.submodules.answers = answers = StreamFIFO(resolved, _WINDOW, kept=late)
        outstanding = Signal(range(_WINDOW + 1))
        checked = self._checked(m)
        head, repeated, is_data = checked.p.header, checked.p.repeated, checked.p.data
        ask = Signal()
        skip = Signal()  # a READY that is dropped or taken, a stale one as well
        expectable = checked.p.expectable
        stale = Signal()  # packets may wait while the epoch changes
        full = Signal()  # as many are asked about as may be
        m.d.comb += stale.eq(head.epoch != self.epoch)
        for request in (self.lookup, self.ready):
            m.d.comb += [
                request.p.context.eq(head.context),
                request.p.key.collective.eq(head.collective),
                request.p.key.chunk.eq(head.chunk),
            ]
        m.d.comb += [
            self.lookup.valid.eq(checked.valid & is_data & ~full),
            self.lookup.p.fsm.eq(Mux(self.lookup.valid, checked.p.fsm, 0)),
            self.lookup.p.op.eq(head.op),
            self.lookup.p.step.eq(head.step),
            self.lookup.p.offset.eq(head.offset),
            self.lookup.p.length.eq(head.length),
            self.lookup.p.contributions.eq(head.contributions),
            self.ready.valid.eq(checked.valid & expectable),
            self.ready.p.fsm.eq(Mux(self.ready.valid, checked.p.fsm, 0)),
            self.ready.p.stale.eq(stale),
            self.ready.p.op.eq(head.op),
            self.ready.p.digest.eq(Cat(head.step, head.offset)),
        ]
        # Answers come as long after their questions.
        fit = checked.p.known & ~repeated & ~stale
        for n in range(LOOKUP_LATENCY):
            later = Signal(name=f"fit_{n + 1}")
            m.d.sync += later.eq(fit)
            fit = later
        # Whose turn it is comes late, and a header is wanted with its answer only: a register is in
        # front of their queue.
        m.d.sync += [
            asked.i.valid.eq(ask),
            asked.i.p.header.eq(head),
            asked.i.p.repeated.eq(repeated),
        ]
        m.d.comb += [
            ask.eq(self.lookup.valid & self.lookup.ready),
            answers.i.valid.eq(self.resolved.valid),
            answers.i.p.eq(self.resolved.p),
            answers.i.p.valid.eq(self.resolved.p.valid & fit),
            skip.eq(~is_data & (~expectable | self.ready.ready)),
            checked.ready.eq(Mux(is_data, ~full & self.lookup.ready, skip)),
            self.release_control.eq(checked.valid & skip),
        ]
        # Of what is skipped; whether a READY is taken comes late.
        m.d.sync += self.dropped.eq(
            checked.valid & ~is_data & ~repeated & (~expectable | (stale & self.ready.ready))
        )
        left = self.packet.ready
        m.d.sync += [
            outstanding.eq(stepped(outstanding, up=ask, down=left)),
            full.eq(stepped_to(outstanding, _WINDOW, up=ask, down=left)),
        ]
        m.d.comb += [
            self.packet.valid.eq(answers.o.valid),  # of a header that was kept before
            self.packet.p.header.eq(asked.o.p.header),
            self.packet.p.repeated.eq(asked.o.p.repeated),
            self.packet.p.resolved.eq(answers.o.p),
            asked.o.ready.eq(left),
            answers.o.ready.eq(left),
            self.idle.eq(~self.header.valid & ~checked.valid & (outstanding == 0)),
        ]
        return m

    def _checked(self, m):
        """Headers and what can be said of them, a cycle later; their numbers are followed here."""
        c = self._config
        flags = ("data", "known", "repeated", "expectable")
        # Whom it is for is at hand, a bit for each FSM; all else of a header is read.
        shape = data.StructLayout(
            {"header": c.format.layout, "fsm": c.fsms, **dict.fromkeys(flags, 1)}
        )
        m.submodules.checked = checked = StreamFIFO(shape, 2, kept=("header",))
        head = self.header.p
        due = Signal(c.format.sequence)  # number of the next packet
        ahead = Signal(c.format.sequence)
        repeated = ahead[-1]
        taken = self.header.valid & checked.i.ready
        m.d.comb += [
            ahead.eq(head.sequence - due),
            checked.i.valid.eq(self.header.valid),
            self.header.ready.eq(checked.i.ready),
            checked.i.p.header.eq(head),
            checked.i.p.fsm.eq(Mux(checked.i.p.known, 1 << head.fsm, 1)),
            checked.i.p.data.eq(head.kind == PacketKind.DATA),
            checked.i.p.known.eq(head.fsm < c.fsms),
            checked.i.p.repeated.eq(repeated),
            checked.i.p.expectable.eq(
                (head.kind != PacketKind.DATA)
                & checked.i.p.known & (head.context < c.contexts) & ~repeated
            ),
        ]
        m.d.sync += [
            self.repeated.eq(taken & repeated),
            self.missing.eq(Mux(taken & ~repeated, ahead, 0)),
        ]
        with m.If(self.restart):
            m.d.sync += due.eq(0)
        with m.Elif(taken & ~repeated):
            m.d.sync += due.eq(head.sequence + 1)
        return checked.o

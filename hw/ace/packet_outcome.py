# SPDX-License-Identifier: Apache-2.0
"""Outputs of a receive unit for the outcome of a packet: store, forward queue, event."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import event_layout
from hw.ace.reduce_path import result_layout
from hw.ace.request_buffer import RequestBuffer
from hw.ace.sram import SRAMWriteSignature
from hw.common.count import stepped, stepped_to
from hw.common.fifo import StreamFIFO, room_for
from hw.common.signature import ParametricSignature
from hw.link.transmit import PacketQueueSignature, queued_header, queued_header_layout

__all__ = ["ForwardDataSignature", "PacketOutcome", "outcome_layout"]

_PACKETS = 8
"""Most packets that wait for their beats."""

_EVENTS = 6

_MADE_READY = ("header", "onward")
"""Of a packet: what its header for the forward queue is made of."""


class ForwardDataSignature(ParametricSignature):
    """Packets into a forward queue that has been claimed: beats, each packet closed by its header;
    without stalls."""

    def __init__(self, c: AceConfig) -> None:
        queue = PacketQueueSignature(c.format, bus_bytes=c.bus_bytes)
        members = {name: queue.members[name] for name in ("data", "header")}
        super().__init__(members, config=c)


def outcome_layout(c: AceConfig) -> data.StructLayout:
    """A packet in flight and its destinations; its beats say whether they are stored.

    ``header`` is as it came; ``onward`` is what changes in it if the packet is forwarded to
    ``port``. A packet that is stored goes to ``row``.
    """
    return data.StructLayout(
        {
            "header": c.format.layout,
            "onward": data.StructLayout(
                {
                    "context": c.format.context,
                    "step": c.format.step,
                    "contributions": c.format.node,
                    "poison": 1,
                }
            ),
            "forward": 1,
            "parked": 1,
            "odd": 1,
            "port": range(max(2, c.ports)),
            "row": range(c.sram_beats),
            "empty": 1,  # no payload, but one beat all the same
        }
    )


class PacketOutcome(wiring.Component):
    """Back of a receive unit: writes the beats of packets to where they go, in order.

    A beat is forwarded at once, and stored when SRAM grants it. The last one closes the packet:
    header to the forward queue, event to the FSM when it is stored.

    Timing: a beat that is offered goes on in the same cycle, one per cycle, back to back across
    packets, and asks for its place in SRAM a cycle later; an event is told a cycle after the last
    beat is granted, or would ask if it is not stored. Stalls: SRAM bank
    conflicts of a store; events under contention at the end of a packet.

    Members
    -------
    node : ``In(config.format.node)``
        This node's rank, the source of forwarded packets.
    packet : ``In(stream.Signature(outcome_layout(config)))``
        Up to 8 wait for their beats, which come 2 cycles later or more.
    result : ``In(stream.Signature(result_layout(config)))``
        Their beats.
    store : ``Out(SRAMWriteSignature)``
        Writes of beats that are stored.
    forward : ``Out(ForwardDataSignature(config)).array(ports)``
        Beats and headers for the forward queue of each link.
    event : ``Out(stream.Signature(event_layout(config)))``
        A packet is done; for the FSM that it names.
    idle : ``Out(1)``
        No packet waits for its beats, and no event is left.
    """

    node: Signal
    packet: stream.Interface
    result: stream.Interface
    forward: list
    event: stream.Interface
    idle: Signal

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        super().__init__(
            {
                "node": In(c.format.node),
                "packet": In(stream.Signature(outcome_layout(c))),
                "result": In(stream.Signature(result_layout(c))),
                "store": Out(SRAMWriteSignature(**c.sram_port)),
                "forward": Out(ForwardDataSignature(c)).array(c.ports),
                "event": Out(stream.Signature(event_layout(c))),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        m.submodules.events = events = StreamFIFO(event_layout(c), _EVENTS)
        wiring.connect(m, events.o, wiring.flipped(self.event))
        m.submodules.stores = stores = RequestBuffer(
            c, {"beat": 8 * c.bus_bytes, "last": 1, "event": event_layout(c)}
        )
        stores.join(m, self.store)

        packets, none = self._packets(m)
        packet = packets.o.p
        within = Signal()  # it is not at its first beat, and the row:
        next_row = Signal.like(self.store.row)
        ending = Signal()
        collect = Signal()
        # Beats go on without waiting for grants. The last one also reports the event, for which
        # there is a place, and for the two before that may be on their way.
        may_end = room_for(m, events, 3, name="may_end")
        event = stores.i.p.event
        m.d.comb += [
            ending.eq(self.result.p.last),
            stores.i.valid.eq(self.result.valid & (~ending | may_end)),
            stores.i.p.row.eq(Mux(within, next_row, packet.row)),
            stores.i.p.beat.eq(self.result.p.beat),
            stores.i.p.access.eq(self.result.p.stores),
            stores.i.p.last.eq(ending),
            collect.eq(stores.i.valid & stores.i.ready),
            self.result.ready.eq(collect),
            packets.o.ready.eq(collect & ending),
        ]
        with m.If(collect):
            m.d.sync += [within.eq(~ending), next_row.eq(stores.i.p.row + 1)]

        for n, port in enumerate(self.forward):
            mine = Signal(name=f"forward_{n}")
            m.d.comb += [
                mine.eq(collect & packet.forward & (packet.port == n)),
                port.data.valid.eq(mine & ~packet.empty),
                port.data.payload.eq(self.result.p.beat),
                port.header.valid.eq(mine & ending),
                port.header.p.eq(packet.onward),
            ]
        stored = stores.taken
        m.d.comb += [
            event.received.eq(1),
            event.fsm.eq(packet.onward.header.fsm),
            event.offset.eq(packet.onward.header.offset),
            event.context.eq(packet.context),
            event.step.eq(packet.step),
            event.sent.eq(packet.forward),
            event.parked.eq(packet.parked),
            event.odd.eq(packet.odd),
            event.poisoned.eq(packet.poisoned),
            self.store.data.eq(stored.p.beat),
            events.i.valid.eq(stored.valid & stored.p.last),
            events.i.p.eq(stored.p.event),
        ]
        quiet = stores.empty & ~stored.valid & (events.level == 0)
        m.d.comb += self.idle.eq(none & quiet)
        return m

    def _packets(self, m):
        """The packets that wait for their beats, and whether there is none.

        A packet is here long before its first beat, so it is a register before its header is made
        ready for the forward queue: neither its checksum nor what makes it start late is in the
        way of what follows.
        """
        c = self._config
        before = outcome_layout(c)
        waiting = {
            name: shape for name, shape in before.members.items() if name not in _MADE_READY
        }
        made = {
            "onward": queued_header_layout(c.format),
            "context": c.format.context,
            "step": c.format.step,
            "poisoned": 1,
        }
        m.submodules.packets = packets = StreamFIFO(
            data.StructLayout({**waiting, **made}), _PACKETS, kept=tuple(made)
        )
        packet: Any = Signal(before)
        comes = Signal()
        m.d.sync += [packet.eq(self.packet.p), comes.eq(self.packet.valid & self.packet.ready)]
        held = Signal(range(_PACKETS + 1))
        room = Signal(init=1)
        moves = {
            "up": self.packet.valid & self.packet.ready,
            "down": packets.o.valid & packets.o.ready,
        }
        m.d.sync += [
            held.eq(stepped(held, **moves)), room.eq(~stepped_to(held, _PACKETS, **moves)),
        ]
        header = Signal(c.format.layout)
        m.d.comb += [header.eq(packet.header), header.source.eq(self.node)]
        m.d.comb += [header[name].eq(packet.onward[name]) for name in packet.onward.shape().members]
        entry = packets.i.p
        m.d.comb += [
            self.packet.ready.eq(room),
            packets.i.valid.eq(comes),
            *(entry[name].eq(packet[name]) for name in waiting),
            *queued_header(entry.onward, header, c.format, flits=c.flits),
            entry.context.eq(packet.header.context),
            entry.step.eq(packet.header.step),
            entry.poisoned.eq(packet.header.poison),
        ]
        return packets, held == 0

# SPDX-License-Identifier: Apache-2.0
"""Send unit: reads packets from SRAM and queues them for a link."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import event_layout, send_command_layout
from hw.ace.request_buffer import RequestBuffer
from hw.ace.sram import READ_LATENCY, SRAMReadSignature
from hw.common.fifo import StreamFIFO, room_for
from hw.link.packet import PacketKind
from hw.link.transmit import PacketQueueSignature, queued_header, queued_header_layout

__all__ = ["SendUnit"]

_EVENTS = 6


class SendUnit(wiring.Component):
    """Carries out the send commands of the FSMs for one link.

    A packet is read from SRAM at one beat per cycle into room reserved in the transmit queue, the
    next one right behind it. When its last beat has been read, a *sent* event goes to the FSM (not
    for READY packets), which may then reuse the SRAM.

    Timing: a command is taken in the cycle before the last beat of the one before asks for its
    read; a beat is in the queue ``READ_LATENCY`` cycles after its read is granted, the header with
    the last one. An event is told a cycle after that grant. Stalls: no
    room in the queue, SRAM bank conflicts, contention for events.

    Members
    -------
    node : ``In``
        Rank of this node, for the source field.
    command : ``In(stream)``
        Packets to send.
    read : ``Out(SRAMReadSignature)``
        Reads of their payloads.
    queue : ``Out(PacketQueueSignature)``
        The transmit queue.
    event : ``Out(stream)``
        A packet has been read as a whole; for its FSM.
    idle : ``Out(1)``
        No command is being carried out, and no event is left.
    """

    node: Signal
    command: stream.Interface
    event: stream.Interface
    idle: Signal

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        super().__init__(
            {
                "node": In(c.format.node),
                "command": In(stream.Signature(send_command_layout(c))),
                "read": Out(SRAMReadSignature(**c.sram_port)),
                "queue": Out(PacketQueueSignature(c.format, bus_bytes=c.bus_bytes)),
                "event": Out(stream.Signature(event_layout(c))),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        index = range(max(2, c.packet_beats))

        active = Signal()
        command = Signal(send_command_layout(c))
        row = Signal(range(c.sram_beats))
        beat = Signal(index)
        empty = Signal()
        last = Signal(index)
        final = Signal()  # one beat is left
        m.submodules.events = events = StreamFIFO(event_layout(c), _EVENTS)
        wiring.connect(m, events.o, wiring.flipped(self.event))
        m.submodules.reads = reads = RequestBuffer(
            c, {"last": 1, "header": c.format.layout, "tells": 1, "event": event_layout(c)}
        )
        reads.join(m, self.read)

        step = Signal()
        ending = Signal()
        accept = Signal()
        claimed = Signal()  # room, in the cycle before: known late, so a register before it counts
        # There is a place for an event, and for the two before that may be on their way.
        may_end = room_for(m, events, 3, name="may_end")
        event = reads.i.p.event
        m.d.comb += [
            reads.i.valid.eq(active & (~final | may_end)),
            reads.i.p.row.eq(row),
            reads.i.p.access.eq(~empty),
            reads.i.p.last.eq(final),
            reads.i.p.tells.eq(final & ~command.ready),
            event.fsm.eq(command.fsm),
            event.context.eq(command.context),
            event.sent.eq(1),
            event.odd.eq(command.odd),
            step.eq(reads.i.valid & reads.i.ready),
            ending.eq(step & final),
            accept.eq(
                (~active | ending) & (self.queue.spare | (self.queue.room & ~claimed))
            ),
            self.command.ready.eq(accept),
            self.queue.reserve.eq(claimed),
            events.i.valid.eq(reads.taken.valid & reads.taken.p.tells),
            events.i.p.eq(reads.taken.p.event),
        ]
        length = self.command.p.length
        none = length == 0
        past = Signal(index)  # the last beat of what comes
        m.d.comb += past.eq(Mux(none, 0, (length - 1) >> (c.bus_bytes.bit_length() - 1)))
        starts = accept & self.command.valid
        m.d.sync += [active.eq(starts | (active & ~ending)), claimed.eq(starts)]
        with m.If(~active | step):
            # Behind the last beat nothing of a command is used, whether another one comes or not:
            # so registers need not wait for room.
            first = ~active | final
            m.d.sync += [
                row.eq(Mux(first, self.command.p.row, row + 1)),
                beat.eq(Mux(first, 0, beat + 1)),
                final.eq(Mux(first, past == 0, beat + 1 == last)),
            ]
            with m.If(first):
                m.d.sync += [command.eq(self.command.p), empty.eq(none), last.eq(past)]

        self._header(m, command, reads.i.p.header)
        self._queue(m, reads.taken)
        quiet = reads.empty & ~reads.taken.valid & (events.level == 0)
        m.d.comb += self.idle.eq(~active & quiet)
        return m

    def _header(self, m, command, header):
        """Fill in the *header* of the packet that a *command* sends."""
        m.d.comb += [
            header.offload.eq(1),
            header.kind.eq(Mux(command.ready, PacketKind.READY, PacketKind.DATA)),
            header.op.eq(command.operator),
            header.collective.eq(command.key.collective),
            header.chunk.eq(command.key.chunk),
            header.fsm.eq(command.fsm),
            header.context.eq(command.remote_context),
            header.step.eq(command.step),
            header.offset.eq(command.offset),
            header.length.eq(command.length),
            header.source.eq(self.node),
            header.contributions.eq(command.contributions),
            header.poison.eq(command.poisoned),
        ]

    def _queue(self, m, read):
        """Put into the queue what was *read*: data, and the header with the last beat."""
        c = self._config
        # Data follows a granted read by READ_LATENCY cycles, of which the first one is over.
        stage = data.StructLayout({"data": 1, "header": 1})
        delayed = Signal(stage)
        m.d.comb += [
            delayed.data.eq(read.valid & read.p.access),
            delayed.header.eq(read.valid & read.p.last),
        ]
        headers: Any = read.p.header
        for n in range(2, READ_LATENCY + 1):
            after = Signal(stage, name=f"after_{n}")
            header_after = Signal(queued_header_layout(c.format), name=f"header_after_{n}")
            m.d.sync += after.eq(delayed)
            if n == 2:  # made ready for the queue
                m.d.sync += queued_header(header_after, headers, c.format, flits=c.flits)
            else:
                m.d.sync += header_after.eq(headers)
            delayed, headers = after, header_after
        m.d.comb += [
            self.queue.data.valid.eq(delayed.data),
            self.queue.data.payload.eq(self.read.data),
            self.queue.header.valid.eq(delayed.header),
            self.queue.header.p.eq(headers),
        ]

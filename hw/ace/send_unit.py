# SPDX-License-Identifier: Apache-2.0
"""Send unit: reads packets from SRAM and queues them for a link."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import event_layout, send_command_layout
from hw.ace.sram import READ_LATENCY, SRAMReadSignature
from hw.common.fifo import StreamFIFO, room_for
from hw.common.skid import ReadySkid
from hw.link.packet import PacketKind
from hw.link.transmit import PacketQueueSignature, queued_header, queued_header_layout

__all__ = ["SendUnit"]

_EVENTS = 5


class SendUnit(wiring.Component):
    """Carries out the send commands of the FSMs for one link.

    A packet is read from SRAM at one beat per cycle into room reserved in the transmit queue, the
    next one right behind it. When its last beat has been read, a *sent* event goes to the FSM (not
    for READY packets), which may then reuse the SRAM.

    Timing: a command is taken in the cycle in which the last beat of the one before is read, or
    waits to be (`ReadySkid`); a beat is in the queue ``READ_LATENCY`` cycles after its read is
    granted, the header with the last one. An event is told a cycle after that grant. Stalls: no
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
                "read": Out(SRAMReadSignature(depth=c.sram_beats, width=8 * c.bus_bytes)),
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
        event = Signal(event_layout(c))
        m.submodules.events = events = StreamFIFO(event_layout(c), _EVENTS)
        wiring.connect(m, events.o, wiring.flipped(self.event))
        # Grants come late: the unit goes on without waiting for them.
        m.submodules.reads = reads = ReadySkid(
            data.StructLayout({"row": range(c.sram_beats), "empty": 1, "last": 1, "event": 1})
        )

        step = Signal()
        ending = Signal()
        accept = Signal()
        claimed = Signal()  # room, in the cycle before: known late, so a register before it counts
        granted = Signal()
        # There is a place for an event, and for the one before that may be on its way.
        may_end = room_for(m, events, 2, name="may_end")
        m.d.comb += [
            reads.i.valid.eq(active & (~final | may_end)),
            reads.i.p.row.eq(row),
            reads.i.p.empty.eq(empty),
            reads.i.p.last.eq(final),
            reads.i.p.event.eq(final & ~command.ready),
            step.eq(reads.i.valid & reads.i.ready),
            ending.eq(step & final),
            self.read.enable.eq(reads.o.valid & ~reads.o.p.empty),
            self.read.row.eq(reads.o.p.row),
            granted.eq(reads.o.valid & (reads.o.p.empty | self.read.grant)),
            reads.o.ready.eq(granted),
            accept.eq(
                (~active | ending) & (self.queue.spare | (self.queue.room & ~claimed))
            ),
            self.command.ready.eq(accept),
            self.queue.reserve.eq(claimed),
            events.i.p.eq(event),
        ]
        m.d.sync += events.i.valid.eq(granted & reads.o.p.event)
        with m.If(step):
            m.d.sync += [
                event.fsm.eq(command.fsm),
                event.context.eq(command.context),
                event.sent.eq(1),
                event.odd.eq(command.odd),
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

        self._queue(m, command, step, granted, reads.o.p)
        quiet = reads.i.ready & ~events.i.valid & (events.level == 0)
        m.d.comb += self.idle.eq(~active & quiet)
        return m

    def _queue(self, m, command, step, granted, read):
        """Put into the queue the beats of a *read* that is *granted*, and the header of *command*,
        which is of the packet that is read last in each *step*."""
        c = self._config
        # Data follows a granted read by READ_LATENCY cycles; the header goes in with the last beat.
        header = Signal(c.format.layout)
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
        stage = data.StructLayout({"data": 1, "header": 1})
        delayed = Signal(stage)
        m.d.comb += [
            delayed.data.eq(granted & ~read.empty),
            delayed.header.eq(granted & read.last),
        ]
        kept = Signal(c.format.layout)  # until the last beat is read
        with m.If(step):
            m.d.sync += kept.eq(header)
        headers: Any = kept
        for n in range(READ_LATENCY):
            after = Signal(stage, name=f"after_{n + 1}")
            m.d.sync += after.eq(delayed)
            delayed = after
            if n == 1:  # made ready for the queue behind a register
                header_after = Signal(queued_header_layout(c.format), name="header_after_2")
                m.d.sync += queued_header(header_after, headers, c.format, flits=c.flits)
                headers = header_after
            elif n:
                header_after = Signal.like(headers, name=f"header_after_{n + 1}")
                m.d.sync += header_after.eq(headers)
                headers = header_after
        m.d.comb += [
            self.queue.data.valid.eq(delayed.data),
            self.queue.data.payload.eq(self.read.data),
            self.queue.header.valid.eq(delayed.header),
            self.queue.header.p.eq(headers),
        ]

# SPDX-License-Identifier: Apache-2.0
"""Copy unit: results that no packet brings, from a slot to that of the next partition."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import event_layout, send_command_layout
from hw.ace.request_buffer import RequestBuffer
from hw.ace.sram import READ_LATENCY, SRAMReadSignature, SRAMWriteSignature
from hw.common.count import stepped, stepped_to
from hw.common.fifo import StreamFIFO, room_for

__all__ = ["CopyUnit"]

_BEATS = READ_LATENCY + 5  # that are to be read, or have been and do not wait to be written
_EVENTS = 6


class CopyUnit(wiring.Component):
    """Carries out the commands of ``COPY`` instructions, a packet's length of data each.

    A gather keeps the block of its own node, which comes with no packet (ISCA 2021, section 4.3:
    each phase has a partition, and its results lie in the next one). An FSM sends such data to this
    unit as it sends packets to links. When the last beat has been written, a *sent* event goes to
    the FSM.

    Timing: one beat per cycle, the next command right behind; a beat asks to be written
    ``READ_LATENCY`` + 2 cycles after its read is granted, and an event is told a cycle after the
    last one was. Stalls: SRAM bank conflicts, contention for events.

    Members
    -------
    command : ``In(stream.Signature(send_command_layout(config)))``
        From ``row`` to ``place``, no READYs.
    read, write : ``Out(SRAMReadSignature)``, ``Out(SRAMWriteSignature)``
        The SRAM.
    event : ``Out(stream.Signature(event_layout(config)))``
        Data have been copied; for the FSM.
    idle : ``Out(1)``
        No command is being carried out, and no event is left.
    """

    command: stream.Interface
    event: stream.Interface
    idle: Signal

    def __init__(self, config: AceConfig) -> None:
        self._config = config
        super().__init__(
            {
                "idle": Out(1),
                "command": In(stream.Signature(send_command_layout(config))),
                "event": Out(stream.Signature(event_layout(config))),
                "read": Out(SRAMReadSignature(**config.sram_port)),
                "write": Out(SRAMWriteSignature(**config.sram_port)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        m.submodules.events = events = StreamFIFO(event_layout(c), _EVENTS)
        m.submodules.copies = copies = StreamFIFO(send_command_layout(c), 4)
        m.submodules.beats = beats = StreamFIFO(8 * c.bus_bytes, _BEATS, memory=False)
        wiring.connect(m, events.o, wiring.flipped(self.event))

        m.submodules.reads = reads = RequestBuffer(c)
        m.submodules.writes = writes = RequestBuffer(
            c, {"beat": 8 * c.bus_bytes, "last": 1, "event": event_layout(c)}
        )
        reads.join(m, self.read)
        writes.join(m, self.write)

        # Reads: as many as there is room for what they return.
        active = Signal()
        command = Signal(send_command_layout(c))
        read = self._walk(m, "read", command)
        promised = Signal(range(_BEATS + 1))
        more = Signal(init=1)
        accept = Signal()
        m.d.comb += [
            reads.i.valid.eq(active & more),
            reads.i.p.access.eq(~read.empty),
            reads.i.p.row.eq(command.row + read.beat),
            read.step.eq(reads.i.valid & reads.i.ready),
            accept.eq((~active | read.ending) & copies.i.ready),
            self.command.ready.eq(accept),
            copies.i.valid.eq(accept & self.command.valid),
            copies.i.p.eq(self.command.p),
        ]
        with m.If(accept):
            m.d.sync += active.eq(self.command.valid)
            with m.If(self.command.valid):
                m.d.sync += command.eq(self.command.p)
        with m.Elif(read.ending):
            m.d.sync += active.eq(0)
        arrives = reads.taken.valid
        for n in range(2, READ_LATENCY + 1):
            after = Signal(name=f"arrives_{n}")
            m.d.sync += after.eq(arrives)
            arrives = after
        m.d.comb += [beats.i.valid.eq(arrives), beats.i.payload.eq(self.read.data)]

        # Writes. A command without data has a beat all the same, which is not written.
        copy = copies.o.p
        write = self._walk(m, "write", copy)
        counted = {"up": read.step, "down": write.step}
        m.d.sync += [
            promised.eq(stepped(promised, **counted)),
            more.eq(~stepped_to(promised, _BEATS, **counted)),
        ]
        # There is a place for an event, and for the two before that may be on their way.
        may_end = room_for(m, events, 3, name="may_end")
        last = write.beat == write.last
        m.d.comb += [
            writes.i.valid.eq(copies.o.valid & beats.o.valid & (~last | may_end)),
            writes.i.p.access.eq(~write.empty),
            writes.i.p.row.eq(copy.place + write.beat),
            writes.i.p.beat.eq(beats.o.payload),
            writes.i.p.last.eq(last),
            writes.i.p.event.fsm.eq(copy.fsm),
            writes.i.p.event.context.eq(copy.context),
            writes.i.p.event.sent.eq(1),
            writes.i.p.event.odd.eq(copy.odd),
            write.step.eq(writes.i.valid & writes.i.ready),
            beats.o.ready.eq(write.step),
            copies.o.ready.eq(write.ending),
            self.write.data.eq(writes.taken.p.beat),
            events.i.valid.eq(writes.taken.valid & writes.taken.p.last),
            events.i.p.eq(writes.taken.p.event),
            self.idle.eq(
                (copies.level == 0) & writes.empty & ~writes.taken.valid & (events.level == 0)
            ),
        ]
        return m

    def _walk(self, m, name, command):
        """Signals of a walk through the beats of a command."""
        c = self._config
        walk = _Walk(range(max(2, c.packet_beats)), name)
        m.d.comb += [
            walk.empty.eq(command.length == 0),
            walk.last.eq(
                Mux(walk.empty, 0, (command.length - 1) >> (c.bus_bytes.bit_length() - 1))
            ),
            walk.ending.eq(walk.step & (walk.beat == walk.last)),
        ]
        with m.If(walk.step):
            m.d.sync += walk.beat.eq(Mux(walk.ending, 0, walk.beat + 1))
        return walk


class _Walk:
    """``beat`` of ``last``, which moves on in each ``step``; ``ending``: with the last one."""

    def __init__(self, beats: range, name: str) -> None:
        self.beat = Signal(beats, name=f"{name}_beat")
        self.last = Signal(beats, name=f"{name}_last")
        self.empty = Signal(name=f"{name}_empty")
        self.step = Signal(name=f"{name}_step")
        self.ending = Signal(name=f"{name}_ending")

# SPDX-License-Identifier: Apache-2.0
"""Copy unit: results that no packet brings, from a slot to that of the next partition."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import event_layout, send_command_layout
from hw.ace.sram import READ_LATENCY, SRAMReadSignature, SRAMWriteSignature
from hw.common.fifo import StreamFIFO

__all__ = ["CopyUnit"]

_BEATS = READ_LATENCY + 4  # that have been read and not written


class CopyUnit(wiring.Component):
    """Carries out the commands of ``COPY`` instructions, a packet's length of data each.

    A gather keeps the block of its own node, which comes with no packet (ISCA 2021, section 4.3:
    each phase has a partition, and its results lie in the next one). An FSM sends such data to this
    unit as it sends packets to links. When the last beat has been written, a *sent* event goes to
    the FSM.

    Timing: one beat per cycle, the next command right behind; a beat is written ``READ_LATENCY`` +
    1 cycles after its read is granted. Stalls: SRAM bank conflicts, contention for events.

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
        rows, bits = config.sram_beats, 8 * config.bus_bytes
        super().__init__(
            {
                "idle": Out(1),
                "command": In(stream.Signature(send_command_layout(config))),
                "event": Out(stream.Signature(event_layout(config))),
                "read": Out(SRAMReadSignature(depth=rows, width=bits)),
                "write": Out(SRAMWriteSignature(depth=rows, width=bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        m.submodules.events = events = StreamFIFO(event_layout(c), 4)
        m.submodules.copies = copies = StreamFIFO(send_command_layout(c), 4)
        m.submodules.beats = beats = StreamFIFO(8 * c.bus_bytes, _BEATS, memory=False)
        wiring.connect(m, events.o, wiring.flipped(self.event))

        # Reads: as many as there is room for what they return.
        active = Signal()
        command = Signal(send_command_layout(c))
        read = self._walk(m, "read", command)
        promised = Signal(range(_BEATS + 1))
        accept = Signal()
        m.d.comb += [
            self.read.enable.eq(active & ~read.empty & (promised != _BEATS)),
            self.read.row.eq(command.row + read.beat),
            read.step.eq(active & (read.empty | self.read.grant)),
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
        arrives = self.read.enable & self.read.grant
        for n in range(READ_LATENCY):
            after = Signal(name=f"arrives_{n + 1}")
            m.d.sync += after.eq(arrives)
            arrives = after
        m.d.comb += [beats.i.valid.eq(arrives), beats.i.payload.eq(self.read.data)]
        written = self.write.enable & self.write.grant
        m.d.sync += promised.eq(promised + (self.read.enable & self.read.grant) - written)

        # Writes.
        copy = copies.o.p
        write = self._walk(m, "write", copy)
        m.d.comb += [
            self.write.enable.eq(
                copies.o.valid & beats.o.valid & ~write.empty
                & (events.i.ready | (write.beat != write.last))
            ),
            self.write.row.eq(copy.place + write.beat),
            self.write.data.eq(beats.o.payload),
            write.step.eq(copies.o.valid & Mux(write.empty, events.i.ready, written)),
            beats.o.ready.eq(written),
            copies.o.ready.eq(write.ending),
            events.i.valid.eq(write.ending),
            events.i.p.fsm.eq(copy.fsm),
            events.i.p.context.eq(copy.context),
            events.i.p.sent.eq(1),
            events.i.p.odd.eq(copy.odd),
            self.idle.eq((copies.level == 0) & (events.level == 0)),
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

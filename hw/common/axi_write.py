# SPDX-License-Identifier: Apache-2.0
"""AXI4 master that writes a stream to memory."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.axi import AXI4Signature, BurstMaster, BurstSplitter, constants
from hw.common.fifo import StreamFIFO
from hw.common.skid import SkidBuffer

__all__ = ["AXI4Writer"]


class AXI4Writer(BurstMaster):
    """Writes runs of consecutive beats; several bursts are under way at a time.

    The first address is on the bus 2 cycles after its command was accepted; data passes in 1 cycle.
    Throughput is 1 beat per cycle, also across commands of 2 beats or more, while *outstanding*
    bursts cover the latency of the memory. ``cmd`` stalls while a command is being cut into bursts
    or *outstanding* bursts are under way; ``data`` stalls while there is no command for it or the
    bus is stalled; a stalled ``done`` stalls the write responses. No combinational path joins the
    bus to a stream or to itself.

    A write that the memory answers with SLVERR or DECERR sets ``error`` of its command's ``done``,
    and the command goes on.

    Parameters
    ----------
    addr_width : int
        Bits of a byte address, from 13 to 64.
    data_width : int
        Bits of a data beat, a power of two from 8 to 1024.
    max_burst : int
        Most beats in a burst, a power of two up to 256. Bursts end at multiples of it.
    outstanding : int
        Most bursts that were begun and not yet acknowledged, at least 1.
    beats_width : int
        Bits of the length of a command, up to 32.

    Members
    -------
    cmd : ``In(stream.Signature({address, beats, last_strobe}))``
        Write ``beats`` beats from byte address ``address``, a multiple of the beat size. Of the
        last beat, only the bytes enabled in ``last_strobe`` are written. A command of zero beats
        has no effect and no ``done``.
    data : ``In(stream.Signature(data_width))``
        The beats of all commands in order.
    done : ``Out(stream.Signature({error}))``
        One beat per command, in order, once the memory has acknowledged all of it.
    bus : ``Out(AXIWriteSignature(...))``
        The memory.
    """

    cmd: stream.Interface
    data: stream.Interface
    done: stream.Interface
    bus: Any

    def _members(self, command: dict[str, Any], bus: AXI4Signature) -> dict[str, Any]:
        lanes = bus.data_width // 8
        self._run = data.StructLayout({"length": 8, "strobe": lanes, "final": 1})
        self._beat = data.StructLayout({"data": bus.data_width, "strobe": lanes, "last": 1})
        self._outcome = data.StructLayout({"error": 1})
        return {
            "cmd": In(stream.Signature(data.StructLayout({**command, "last_strobe": lanes}))),
            "data": In(stream.Signature(bus.data_width)),
            "done": Out(stream.Signature(self._outcome)),
            "bus": Out(bus.write),
        }

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.splitter = bursts = BurstSplitter(**self._cutting)
        # What the data channel has yet to send, and what the response channel has yet to receive.
        m.submodules.runs = runs = StreamFIFO(self._run, self._outstanding, memory=False)
        m.submodules.under_way = under_way = StreamFIFO(1, self._outstanding, memory=False)
        self._send_addresses(m, bursts, runs, under_way)
        self._send_data(m, runs)
        self._receive_responses(m, under_way)
        return m

    def _send_addresses(
        self, m: Module, bursts: BurstSplitter, runs: StreamFIFO, under_way: StreamFIFO
    ) -> None:
        bus = self.bus
        begin = Signal()
        strobe = Signal.like(self.cmd.p.last_strobe)
        m.d.comb += [
            bursts.cmd.valid.eq(self.cmd.valid),
            bursts.cmd.p.address.eq(self.cmd.p.address),
            bursts.cmd.p.beats.eq(self.cmd.p.beats),
            self.cmd.ready.eq(bursts.cmd.ready),
            *constants(bus, "aw"),
            # The data of a burst may be sent before its address is accepted: a slave is allowed
            # to accept the address only once it sees data.
            # `runs` has room whenever `under_way` has: data leaves before its response returns.
            bursts.o.ready.eq((~bus.awvalid | bus.awready) & under_way.i.ready),
            begin.eq(bursts.o.valid & bursts.o.ready),
            runs.i.valid.eq(begin),
            runs.i.p.length.eq(bursts.o.p.length),
            runs.i.p.final.eq(bursts.o.p.final),
            runs.i.p.strobe.eq(strobe),
            under_way.i.valid.eq(begin),
            under_way.i.payload.eq(bursts.o.p.final),
        ]
        with m.If(self.cmd.valid & self.cmd.ready):
            m.d.sync += strobe.eq(self.cmd.p.last_strobe)
        with m.If(bus.awready):
            m.d.sync += bus.awvalid.eq(0)
        with m.If(begin):
            m.d.sync += [
                bus.awvalid.eq(1),
                bus.awaddr.eq(bursts.o.p.address),
                bus.awlen.eq(bursts.o.p.length),
            ]

    def _send_data(self, m: Module, runs: StreamFIFO) -> None:
        bus = self.bus
        m.submodules.beats = beats = SkidBuffer(self._beat)
        sent = Signal.like(runs.o.p.length)
        last = Signal()
        transfer = Signal()
        m.d.comb += [
            last.eq(sent == runs.o.p.length),
            beats.i.valid.eq(self.data.valid & runs.o.valid),
            beats.i.p.data.eq(self.data.payload),
            beats.i.p.strobe.eq(Mux(last & runs.o.p.final, runs.o.p.strobe, -1)),
            beats.i.p.last.eq(last),
            self.data.ready.eq(beats.i.ready & runs.o.valid),
            transfer.eq(beats.i.valid & beats.i.ready),
            runs.o.ready.eq(transfer & last),
            bus.wvalid.eq(beats.o.valid),
            bus.wdata.eq(beats.o.p.data),
            bus.wstrb.eq(beats.o.p.strobe),
            bus.wlast.eq(beats.o.p.last),
            beats.o.ready.eq(bus.wready),
        ]
        with m.If(transfer):
            m.d.sync += sent.eq(Mux(last, 0, sent + 1))

    def _receive_responses(self, m: Module, under_way: StreamFIFO) -> None:
        bus = self.bus
        m.submodules.outcomes = outcomes = SkidBuffer(self._outcome)
        failed = Signal()  # an earlier burst of the same command had an error
        final = under_way.o.payload
        error = failed | bus.bresp[1]
        connect(m, outcomes.o, flipped(self.done))
        m.d.comb += [
            bus.bready.eq(outcomes.i.ready),
            under_way.o.ready.eq(bus.bvalid & bus.bready),
            outcomes.i.valid.eq(bus.bvalid & final),
            outcomes.i.p.error.eq(error),
        ]
        with m.If(bus.bvalid & bus.bready):
            m.d.sync += failed.eq(error & ~final)

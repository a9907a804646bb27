# SPDX-License-Identifier: Apache-2.0
"""AXI4 master that reads memory into a stream."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.axi import AXI4Signature, BurstMaster, BurstSplitter, constants
from hw.common.fifo import StreamFIFO

__all__ = ["AXI4Reader"]


class AXI4Reader(BurstMaster):
    """Reads runs of consecutive beats; several bursts are under way at a time.

    The first address is on the bus 2 cycles after its command was accepted; data passes in 1 cycle.
    Throughput is 1 beat per cycle, also across commands of 2 beats or more, while *outstanding*
    bursts cover the latency of the memory. ``cmd`` stalls while a command is being cut into bursts
    or *outstanding* bursts are under way; a stalled ``data`` stalls the bus. No combinational path
    joins the bus to a stream or to itself.

    Beats that the memory answers with SLVERR or DECERR are delivered with ``error`` set, and the
    command goes on.

    Parameters
    ----------
    addr_width : int
        Bits of a byte address, from 13 to 64.
    data_width : int
        Bits of a data beat, a power of two from 8 to 1024.
    max_burst : int
        Most beats in a burst, a power of two up to 256. Bursts end at multiples of it.
    outstanding : int
        Most bursts whose address was sent and whose data is not complete, at least 1.
    beats_width : int
        Bits of the length of a command, up to 32.

    Members
    -------
    cmd : ``In(stream.Signature({address, beats}))``
        Read ``beats`` beats from byte address ``address``, a multiple of the beat size. A command
        of zero beats has no effect.
    data : ``Out(stream.Signature({data, last, error}))``
        The beats of all commands in order; ``last`` marks the last one of each command.
    bus : ``Out(AXIReadSignature(...))``
        The memory.
    """

    cmd: stream.Interface
    data: stream.Interface
    bus: Any

    def _members(self, command: dict[str, Any], bus: AXI4Signature) -> dict[str, Any]:
        self._beat = data.StructLayout({"data": bus.data_width, "last": 1, "error": 1})
        return {
            "cmd": In(stream.Signature(data.StructLayout(command))),
            "data": Out(stream.Signature(self._beat)),
            "bus": Out(bus.read),
        }

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.splitter = bursts = BurstSplitter(**self._cutting)
        # One entry per burst under way: whether it is the last one of its command.
        m.submodules.under_way = under_way = StreamFIFO(1, self._outstanding, memory=False)
        # Data in rows: whoever takes a beat late moves an address, not a register of its width.
        m.submodules.beats = beats = StreamFIFO(self._beat, 2, memory=False, kept=("data",))
        connect(m, flipped(self.cmd), bursts.cmd)
        connect(m, beats.o, flipped(self.data))

        bus = self.bus
        m.d.comb += [
            *constants(bus, "ar"),
            bursts.o.ready.eq((~bus.arvalid | bus.arready) & under_way.i.ready),
            under_way.i.valid.eq(bursts.o.valid & bursts.o.ready),
            under_way.i.payload.eq(bursts.o.p.final),
        ]
        with m.If(bus.arready):
            m.d.sync += bus.arvalid.eq(0)
        with m.If(bursts.o.valid & bursts.o.ready):
            m.d.sync += [
                bus.arvalid.eq(1),
                bus.araddr.eq(bursts.o.p.address),
                bus.arlen.eq(bursts.o.p.length),
            ]

        m.d.comb += [
            beats.i.valid.eq(bus.rvalid),
            beats.i.p.data.eq(bus.rdata),
            beats.i.p.last.eq(bus.rlast & under_way.o.payload),
            beats.i.p.error.eq(bus.rresp[1]),
            bus.rready.eq(beats.i.ready),
            under_way.o.ready.eq(bus.rvalid & bus.rready & bus.rlast),
        ]
        return m

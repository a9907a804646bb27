# SPDX-License-Identifier: Apache-2.0
"""An AXI4 reader and an AXI4 writer on one bus that copy memory: a design for the benches."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.axi import AXI4Signature
from hw.common.axi_read import AXI4Reader
from hw.common.axi_write import AXI4Writer
from hw.common.fifo import StreamFIFO

__all__ = ["CopyEngine"]


class CopyEngine(wiring.Component):
    """Copies runs of beats; errors of reads are dropped, those of writes reported by ``done``.

    Parameters
    ----------
    data_width : int
        Bits of a data beat.
    max_burst, outstanding : int
        As in :class:`AXI4Reader`.

    Members
    -------
    source : ``In(stream.Signature({address, beats}))``
        What to read.
    target : ``In(stream.Signature({address, beats, last_strobe}))``
        Where to write; as many beats in all as are read.
    done : ``Out(stream.Signature({error}))``
        One beat per target.
    mem : ``Out(AXI4Signature(...))``
        The memory.
    """

    source: stream.Interface
    target: stream.Interface
    done: stream.Interface
    mem: Any

    def __init__(self, *, data_width: int, max_burst: int = 16, outstanding: int = 8) -> None:
        self._parameters = {
            "addr_width": 32,
            "data_width": data_width,
            "max_burst": max_burst,
            "outstanding": outstanding,
        }
        run = {"address": 32, "beats": 16}
        write = data.StructLayout({**run, "last_strobe": data_width // 8})
        super().__init__(
            {
                "source": In(stream.Signature(data.StructLayout(run))),
                "target": In(stream.Signature(write)),
                "done": Out(stream.Signature(data.StructLayout({"error": 1}))),
                "mem": Out(AXI4Signature(addr_width=32, data_width=data_width)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.reader = reader = AXI4Reader(**self._parameters)
        m.submodules.writer = writer = AXI4Writer(**self._parameters)
        m.submodules.beats = beats = StreamFIFO(len(writer.data.payload), 16)
        connect(m, flipped(self.source), reader.cmd)
        connect(m, flipped(self.target), writer.cmd)
        connect(m, writer.done, flipped(self.done))
        connect(m, beats.o, writer.data)
        m.d.comb += [
            beats.i.valid.eq(reader.data.valid),
            beats.i.payload.eq(reader.data.p.data),
            reader.data.ready.eq(beats.i.ready),
        ]
        connect(m, reader.bus, flipped(self.mem.read))
        connect(m, writer.bus, flipped(self.mem.write))
        return m

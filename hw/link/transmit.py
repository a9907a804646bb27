"""Transmit side of a link: packet queues, credits and the packer."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.fifo import StreamFIFO
from hw.common.params import require_int
from hw.common.signature import ParametricSignature
from hw.link.packer import LinkPacker
from hw.link.packet import (
    FLIT_BITS,
    FLIT_BYTES,
    PacketFormat,
    checksum_of,
    link_beat_layout,
    link_flits,
)

__all__ = ["PacketQueueSignature", "TransmitPort"]


class PacketQueueSignature(ParametricSignature):
    """Where a writer puts packets for a link, seen from the writer.

    Room for a whole packet is reserved (``reserve`` while ``room`` is high) before its first beat
    is written, so ``data`` and ``header`` never stall. The header is written with or after the last
    data beat; only then may the packet leave, so a slow writer never leaves a gap on the link.
    """

    def __init__(self, format: PacketFormat, *, bus_bytes: int) -> None:
        super().__init__(
            {
                "room": In(1),
                "reserve": Out(1),
                "data": Out(stream.Signature(8 * bus_bytes, always_ready=True)),
                "header": Out(stream.Signature(format.layout, always_ready=True)),
            },
            format=format,
            bus_bytes=bus_bytes,
        )


class TransmitPort(wiring.Component):
    """Output port buffer of one link.

    Two queues of whole packets are drained into the packer, the first one (``queue[0]``, packets
    forwarded by a receive unit) before the second: forwarding keeps the receive side streaming, and
    what it forwards is what other nodes wait for. The header checksum is filled in here.

    A packet is on the wire 2 cycles after its header was written, if that fills a beat; one of a
    single beat 3 cycles if the payload queue is in block memory (64 beats or more). Packets follow
    each other without a gap while a queue holds one and the receiver has credit; the wire stalls
    only for ``tx.ready``. A packet begins only with a credit in hand, and a credit that arrives
    counts from the next cycle on. One that arrives while all are home is ignored.

    Parameters
    ----------
    format : PacketFormat
        Header fields and payload size.
    bus_bytes : int
        Bytes per beat: 16, 32, 64 or 128.
    packets : int
        Packets per queue, at least 1.
    credits : int
        Packets that the receive buffer at the other end holds, at least 1.

    Members
    -------
    queue : ``In(PacketQueueSignature).array(2)``
        The two queues.
    tx : ``Out(stream.Signature(link_beat_layout(flits)))``
        The wire.
    credit : ``In(1)``
        The receiver has freed a packet slot.
    starved : ``Out(1)``
        A packet waits and there is no credit.
    idle : ``Out(1)``
        Nothing is queued or held, and every credit is home.
    """

    queue: list
    tx: stream.Interface
    credit: Signal
    starved: Signal
    idle: Signal

    def __init__(self, format: PacketFormat, *, bus_bytes: int, packets: int, credits: int) -> None:
        self._flits = link_flits(bus_bytes)
        if format.payload_bytes % bus_bytes:
            raise ValueError(
                f"payload_bytes must be a multiple of the {bus_bytes} bus bytes, "
                f"not {format.payload_bytes!r}"
            )
        self._format = format
        self._bus_bytes = bus_bytes
        self._packets = require_int("packets", packets)
        self._credits = require_int("credits", credits)
        super().__init__(
            {
                "queue": In(PacketQueueSignature(format, bus_bytes=bus_bytes)).array(2),
                "tx": Out(stream.Signature(link_beat_layout(self._flits))),
                "credit": In(1),
                "starved": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        flits = self._flits
        beats = self._format.payload_bytes // self._bus_bytes

        m.submodules.packer = packer = LinkPacker(flits)
        wiring.connect(m, packer.o, wiring.flipped(self.tx))

        headers, payloads, leave = [], [], []
        busy = Signal(2)
        for n, port in enumerate(self.queue):
            header_queue = StreamFIFO(self._format.layout, self._packets)
            payload_queue = StreamFIFO(8 * self._bus_bytes, self._packets * beats)
            m.submodules[f"headers_{n}"] = header_queue
            m.submodules[f"payloads_{n}"] = payload_queue
            reserved = Signal(range(self._packets + 1), name=f"reserved_{n}")
            done = Signal(name=f"leave_{n}")
            m.d.comb += [
                header_queue.i.valid.eq(port.header.valid),
                header_queue.i.p.eq(port.header.p),
                payload_queue.i.valid.eq(port.data.valid),
                payload_queue.i.payload.eq(port.data.payload),
                port.room.eq(reserved != self._packets),
                busy[n].eq(reserved != 0),
            ]
            m.d.sync += reserved.eq(reserved + port.reserve - done)
            headers.append(header_queue.o)
            payloads.append(payload_queue.o)
            leave.append(done)

        # A packet is chosen when it is first offered to the packer and kept to its last beat.
        beat = Signal(range(max(2, beats)))
        chosen = Signal()
        bound = Signal()
        source = Signal()
        m.d.comb += source.eq(Mux(bound, chosen, ~headers[0].valid))
        header = Signal(self._format.layout)
        header_valid = Signal()
        payload_valid = Signal()
        payload = Signal(8 * self._bus_bytes)
        m.d.comb += [
            header.eq(Array(h.payload.as_value() for h in headers)[source]),
            header_valid.eq(Array(h.valid for h in headers)[source]),
            payload.eq(Array(p.payload for p in payloads)[source]),
            payload_valid.eq(Array(p.valid for p in payloads)[source]),
        ]

        total = Signal(range(self._format.payload_flits + 1))  # payload flits of the packet
        rest = Signal(range(self._format.payload_flits + 1))  # from this beat on
        last = Signal()
        credits = Signal(range(self._credits + 1), init=self._credits)
        allowed = Signal()
        m.d.comb += [
            total.eq((header.length + (FLIT_BYTES - 1)) >> 4),
            rest.eq(total - beat * flits),
            last.eq(rest <= flits),
            allowed.eq((beat != 0) | (credits != 0)),
            packer.i.valid.eq(header_valid & allowed & (payload_valid | (total == 0))),
            packer.i.p.first.eq(beat == 0),
            packer.i.p.header.eq(
                Cat(header.as_value()[: FLIT_BITS - 8], checksum_of(header.as_value()))
            ),
            packer.i.p.count.eq(Mux(last, rest, flits)),
            packer.i.p.data.eq(payload),
            self.starved.eq(header_valid & ~allowed),
        ]
        moved = packer.i.valid & packer.i.ready
        with m.If(moved):
            m.d.sync += [beat.eq(Mux(last, 0, beat + 1)), bound.eq(~last), chosen.eq(source)]
        with m.Elif(packer.i.valid):
            m.d.sync += [bound.eq(1), chosen.eq(source)]
        for n in range(2):
            m.d.comb += [
                leave[n].eq(moved & last & (source == n)),
                headers[n].ready.eq(leave[n]),
                payloads[n].ready.eq(moved & (source == n) & (total != 0)),
            ]
        spend = moved & (beat == 0)
        earn = self.credit & (spend | (credits != self._credits))
        m.d.sync += credits.eq(credits + earn - spend)
        m.d.comb += self.idle.eq((busy == 0) & packer.empty & (credits == self._credits))
        return m

"""Transmit side of a link: packet queues, credits and the packer."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.fifo import StreamFIFO
from hw.link.packer import LinkPacker
from hw.link.packet import FLIT_BITS, FLIT_BYTES, PacketFormat, checksum_of, link_beat_layout

__all__ = ["PacketQueueSignature", "TransmitPort"]


class PacketQueueSignature(wiring.Signature):
    """Where a writer puts packets for a link, seen from the writer.

    Room for a whole packet is reserved (``reserve`` while ``room`` is high) before its first beat is written, so
    ``data`` and ``header`` never stall. The header is written with or after the last data beat; only
    then may the packet leave, so a slow writer never leaves a gap on the link.
    """

    def __init__(self, format: PacketFormat, *, bus_bytes: int) -> None:
        super().__init__(
            {
                "room": In(1),
                "reserve": Out(1),
                "data": Out(stream.Signature(8 * bus_bytes, always_ready=True)),
                "header": Out(stream.Signature(format.layout, always_ready=True)),
            }
        )
        self._key = (format, bus_bytes)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._key == self._key

    def __repr__(self) -> str:
        return f"PacketQueueSignature({self._key[0]!r}, bus_bytes={self._key[1]!r})"


class TransmitPort(wiring.Component):
    """Output port buffer of one link.

    Two queues of whole packets are drained into the packer, the first one (``queue[0]``, packets forwarded by a receive
    unit) before the second: forwarding keeps the receive side streaming, and what it forwards is what
    other nodes wait for. Packets follow each other without a gap while a queue holds one and the receiver
    has credit. The header checksum is filled in here.

    Parameters
    ----------
    format : PacketFormat
        Header fields and payload size.
    bus_bytes : int
        Bytes per beat.
    packets : int
        Packets per queue.
    credits : int
        Packets that the receive buffer at the other end holds.

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
        if packets < 1:
            raise ValueError(f"packets must be at least 1, not {packets!r}")
        if credits < 1:
            raise ValueError(f"credits must be at least 1, not {credits!r}")
        self._format = format
        self._bus_bytes = bus_bytes
        self._packets = packets
        self._credits = credits
        super().__init__(
            {
                "queue": In(PacketQueueSignature(format, bus_bytes=bus_bytes)).array(2),
                "tx": Out(stream.Signature(link_beat_layout(bus_bytes // FLIT_BYTES))),
                "credit": In(1),
                "starved": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        flits = self._bus_bytes // FLIT_BYTES
        beats = self._format.payload_bytes // self._bus_bytes

        m.submodules.packer = packer = LinkPacker(flits)
        wiring.connect(m, packer.o, wiring.flipped(self.tx))

        headers, payloads, leave = [], [], []
        busy = Signal(2)
        for n, port in enumerate(self.queue):
            header = StreamFIFO(self._format.layout, self._packets)
            payload = StreamFIFO(8 * self._bus_bytes, self._packets * beats)
            m.submodules[f"headers_{n}"] = header
            m.submodules[f"payloads_{n}"] = payload
            reserved = Signal(range(self._packets + 1), name=f"reserved_{n}")
            done = Signal(name=f"leave_{n}")
            m.d.comb += [
                header.i.valid.eq(port.header.valid),
                header.i.p.eq(port.header.p),
                payload.i.valid.eq(port.data.valid),
                payload.i.payload.eq(port.data.payload),
                port.room.eq(reserved != self._packets),
                busy[n].eq(reserved != 0),
            ]
            m.d.sync += reserved.eq(reserved + port.reserve - done)
            headers.append(header.o)
            payloads.append(payload.o)
            leave.append(done)

        # A packet is chosen at its first beat and kept to its last.
        beat = Signal(range(max(2, beats)))
        chosen = Signal()
        source = Signal()
        m.d.comb += source.eq(Mux(beat == 0, ~headers[0].valid, chosen))
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
            m.d.sync += [beat.eq(Mux(last, 0, beat + 1)), chosen.eq(source)]
        for n in range(2):
            m.d.comb += [
                leave[n].eq(moved & last & (source == n)),
                headers[n].ready.eq(leave[n]),
                payloads[n].ready.eq(moved & (source == n) & (total != 0)),
            ]
        m.d.sync += credits.eq(credits + self.credit - (moved & (beat == 0)))
        m.d.comb += self.idle.eq((busy == 0) & packer.empty & (credits == self._credits))
        return m

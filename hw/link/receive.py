"""Receive side of a link: finds packets, checks them, keeps whole ones until they are consumed."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.fifo import StreamFIFO
from hw.common.sram import SRAMBank
from hw.link.packet import FLIT_BITS, FLIT_BYTES, PacketFormat, PacketKind, checksum_of, link_beat_layout

__all__ = ["ReceiveBuffer"]


class ReceiveBuffer(wiring.Component):
    """Input port buffer of one link.

    Beats are unpacked one per cycle into whole packets. A packet appears on ``header`` only when all of it has
    arrived; a packet with a wrong checksum, an unknown kind, an impossible length or missing flits is dropped whole,
    counted on ``dropped``, and its credit is returned, so that the link stays usable. After a damaged
    header the receiver skips to the next flit that is marked as a header.

    Payload slots are a ring in order of arrival: the consumer reads beat ``b`` of its current packet through
    ``payload_*`` (data one cycle after the address) and frees the oldest packet with ``release``. Packets
    without a payload slot (kind READY) are freed with ``release_control``.

    Parameters
    ----------
    format : PacketFormat
        Header fields and payload size.
    bus_bytes : int
        Bytes per beat.
    packets : int
        Packets that fit. It must cover one round trip of the link to sustain its full rate.

    Members
    -------
    rx : ``In(stream.Signature(link_beat_layout(flits)))``
        The wire. ``rx.ready`` comes from a register and stays high while the sender obeys its credits.
    credit : ``Out(1)``
        One cycle per packet slot that became free.
    header : ``Out(stream.Signature(format.layout))``
        Headers of whole packets, in order of arrival.
    payload_row : ``In(range(packets * beats))``, payload_enable : ``In(1)``, payload : ``Out(8 * bus_bytes)``
        Read port of the payload memory; the row of a beat is its slot times the beats per packet plus the beat.
    release, release_control : ``In(1)``
        The oldest DATA packet, or a READY packet, has been consumed.
    dropped : ``Out(1)``
        High for one cycle for each damaged packet.
    idle : ``Out(1)``
        Nothing is being received and no credit waits to be returned.
    """

    rx: stream.Interface
    header: stream.Interface
    credit: Signal
    payload_row: Signal
    payload_enable: Signal
    payload: Signal
    release: Signal
    release_control: Signal
    dropped: Signal
    idle: Signal

    def __init__(self, format: PacketFormat, *, bus_bytes: int, packets: int) -> None:
        if packets < 1:
            raise ValueError(f"packets must be at least 1, not {packets!r}")
        if format.payload_bytes % bus_bytes:
            raise ValueError(
                f"payload_bytes must be a multiple of the {bus_bytes} bus bytes, not {format.payload_bytes!r}"
            )
        self._format = format
        self._flits = bus_bytes // FLIT_BYTES
        self._beats = format.payload_bytes // bus_bytes
        self._packets = packets
        super().__init__(
            {
                "rx": In(stream.Signature(link_beat_layout(self._flits))),
                "credit": Out(1),
                "header": Out(stream.Signature(format.layout)),
                "payload_row": In(range(packets * self._beats)),
                "payload_enable": In(1),
                "payload": Out(8 * bus_bytes),
                "release": In(1),
                "release_control": In(1),
                "dropped": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        flits, beats, packets = self._flits, self._beats, self._packets

        # Packets without payload take a quarter of a beat but a whole cycle to parse. Every packet holds a credit, so this
        # many beats absorb the worst burst of them.
        m.submodules.wire = wire = StreamFIFO(link_beat_layout(flits), packets // flits + 4)
        wiring.connect(m, wiring.flipped(self.rx), wire.i)

        m.submodules.headers = headers = StreamFIFO(self._format.layout, packets)
        wiring.connect(m, headers.o, wiring.flipped(self.header))
        m.submodules.slots = slots = SRAMBank(depth=packets * beats, width=FLIT_BITS * flits, ports="1r1w")
        m.d.comb += [
            slots.r_en.eq(self.payload_enable),
            slots.r_addr.eq(self.payload_row),
            self.payload.eq(slots.r_data),
        ]

        # Window of received flits: as many as a header with a full beat takes, and one beat more.
        capacity = 2 * flits + 1
        flit = data.StructLayout({"bits": FLIT_BITS, "start": 1})
        window = Signal(data.ArrayLayout(flit, capacity))
        level = Signal(range(capacity + 1))
        starts = Cat(window[n].start for n in range(capacity))

        head = Signal(self._format.layout)
        m.d.comb += head.eq(window[0].bits)
        payload_flits = Signal(range(self._format.payload_flits + 1))
        # Every field of a header is checked before it is believed.
        good = Signal()
        is_data = head.kind == PacketKind.DATA
        is_ready = (head.kind == PacketKind.READY) & (head.length == 0)
        m.d.comb += [
            good.eq(
                head.offload
                & (head.checksum == checksum_of(head.as_value()))
                & (is_data | is_ready)
                & (head.length <= self._format.payload_bytes)
            ),
            payload_flits.eq((head.length + (FLIT_BYTES - 1)) >> 4),
        ]

        rest = Signal(range(self._format.payload_flits + 1))  # payload flits still to come
        pending = Signal(self._format.layout)  # header of the packet being received
        row = Signal(range(packets * beats))  # where its next beat goes
        base = Signal(range(packets * beats))  # where its first beat went
        resync = Signal()  # discarding flits until the next header

        first = Signal()
        m.d.comb += first.eq(rest == 0)
        wanted = Signal(range(self._format.payload_flits + 1))
        chunk = Signal(range(flits + 1))  # payload flits to take now
        m.d.comb += [
            wanted.eq(Mux(first, payload_flits, rest)),
            chunk.eq(Mux(wanted > flits, flits, wanted)),
        ]

        take = Signal(range(flits + 2))
        write = Signal()
        complete = Signal()
        enough = Signal()
        truncated = Signal()
        m.d.comb += enough.eq(level >= chunk + first)
        for n in range(flits):
            position = Mux(first, starts[n + 1], starts[n])
            exists = Mux(first, level > n + 1, level > n)
            with m.If((chunk > n) & exists & position):
                m.d.comb += truncated.eq(1)

        done = Signal(self._format.layout)
        m.d.comb += done.eq(Mux(first, head.as_value(), pending.as_value()))
        with m.If(level != 0):
            with m.If(first & ~window[0].start):
                m.d.comb += [take.eq(1), self.dropped.eq(~resync)]
                m.d.sync += resync.eq(1)
            with m.Elif(first & ~good):
                m.d.comb += [take.eq(1), self.dropped.eq(1)]
                m.d.sync += resync.eq(1)
            with m.Elif(truncated):
                # Not the whole packet came: forget it; what it left in the window is skipped up to the next header.
                m.d.comb += [take.eq(first), self.dropped.eq(1)]
                m.d.sync += [rest.eq(0), row.eq(base), resync.eq(1)]
            with m.Elif(enough):
                m.d.comb += [
                    take.eq(chunk + first),
                    write.eq(chunk != 0),
                    complete.eq(wanted <= flits),
                ]
                m.d.sync += [rest.eq(wanted - chunk), pending.eq(done), resync.eq(0)]

        after = Signal(range(packets * beats + beats + 1))
        m.d.comb += after.eq(base + beats)
        with m.If(write):
            m.d.sync += row.eq(row + 1)
        with m.If(complete & (done.kind == PacketKind.DATA)):
            # The next packet starts in the next slot, however short this one was.
            m.d.sync += [
                row.eq(Mux(after == packets * beats, 0, after)),
                base.eq(Mux(after == packets * beats, 0, after)),
            ]
        m.d.comb += [
            slots.w_en.eq(write),
            slots.w_addr.eq(row),
            slots.w_data.eq(
                Cat(Mux(first, window[n + 1].bits, window[n].bits) for n in range(flits))
            ),
            headers.i.valid.eq(complete),
            headers.i.p.eq(done),
        ]

        # Shift what was taken out, append the next beat behind the rest.
        left = Signal(range(capacity + 1))
        arriving = Signal(range(flits + 1))
        kept = Signal(window.shape())
        m.d.comb += [
            left.eq(level - take),
            wire.o.ready.eq(left + flits <= capacity),
            arriving.eq(
                Mux(wire.o.valid & wire.o.ready, sum(Cat(wire.o.p.keep[n]) for n in range(flits)), 0)
            ),
        ]
        with m.Switch(take):
            for count in range(flits + 2):
                with m.Case(count):
                    m.d.comb += kept.eq(window.as_value() >> (count * flit.size))
        incoming = [Cat(wire.o.p.data[n], wire.o.p.start[n]) for n in range(flits)]
        for n in range(capacity):
            with m.If(left > n):
                m.d.sync += window[n].eq(kept[n])
            for first_free in range(max(0, n - flits + 1), n + 1):
                with m.If(left == first_free):
                    m.d.sync += window[n].eq(incoming[n - first_free])
        m.d.sync += level.eq(left + arriving)

        # A damaged packet gives its credit back too, but a false start in the middle of one must not: only what carried a
        # header start was ever charged. Up to three events may free a slot in one cycle; a counter spreads them.
        refund = Signal()
        m.d.comb += refund.eq(self.dropped & (window[0].start | ~first))
        owed = Signal(range(packets + 4))
        freed = Signal(2)
        m.d.comb += freed.eq(self.release + self.release_control + refund)
        m.d.comb += self.credit.eq(owed != 0)
        m.d.sync += owed.eq(owed + freed - (owed != 0))

        m.d.comb += self.idle.eq(
            (level == 0) & (wire.level == 0) & (headers.level == 0) & (owed == 0) & (rest == 0)
        )
        return m

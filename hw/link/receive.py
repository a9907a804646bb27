# SPDX-License-Identifier: Apache-2.0
"""Receive side of a link: finds packets, checks them, keeps whole ones until consumed."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.count import stepped, stepped_to
from hw.common.fifo import StreamFIFO
from hw.common.params import FieldError, require_int
from hw.common.select import select
from hw.common.signature import ParametricSignature
from hw.common.sram import SRAMBank
from hw.link.packet import (
    FLIT_BITS,
    FLIT_BYTES,
    PacketFormat,
    PacketKind,
    checksum_of,
    link_beat_layout,
    link_flits,
)

__all__ = ["PayloadReadSignature", "ReceiveBuffer"]

_ROWS = 4
"""Of flits that are being looked at: two beats and a header are, and a third beat is written."""


class PayloadReadSignature(ParametricSignature):
    """Payloads of a receive buffer, seen from their consumer.

    Slots are a ring in order of arrival, one of ``payload_bytes / bus_bytes`` rows for each DATA
    packet. Nothing stalls.

    Parameters
    ----------
    bus_bytes : int
        Bytes per row.
    rows : int
        Rows of all slots together.

    Members
    -------
    row, enable : ``Out(range(rows))``, ``Out(1)``
        Read this row.
    data : ``In(8 * bus_bytes)``
        The row, 1 cycle after ``enable``; it stays until the next read.
    release : ``Out(1)``
        Free the oldest slot, of which no row is read any more.
    release_control : ``Out(1)``
        Free a READY packet, which has no slot.
    """

    def __init__(self, *, bus_bytes: int, rows: int) -> None:
        super().__init__(
            {
                "row": Out(range(rows)),
                "enable": Out(1),
                "data": In(8 * bus_bytes),
                "release": Out(1),
                "release_control": Out(1),
            },
            bus_bytes=bus_bytes,
            rows=rows,
        )


class ReceiveBuffer(wiring.Component):
    """Input port buffer of one link.

    Parses one beat of a packet per cycle: a header with up to ``flits`` payload flits, or up to
    ``flits`` payload flits; so a link beat per cycle unless many short packets meet. The header is
    offered 1 cycle (2 from 64 ``packets`` on) after the last flit of the packet has been parsed,
    which is 3 cycles or more after its beat was on the wire.

    A packet is *damaged* if its checksum is wrong, the mode bit is 0, its kind is unknown, its
    length impossible, or if the next header comes before its last flit. It is dropped whole and
    counted on ``dropped``, its credit is returned, and what is left of it is skipped up to the next
    header. So are flits that no header announced, but they return no credit, since nobody paid one
    for them (unless they begin with a sound header that only lost its mark). The end of a cut
    packet shows when the next header arrives.

    The consumer reads and frees payloads through ``payload``. A sender that has more packets under
    way than there is room for is stalled; nothing is overwritten.

    Parameters
    ----------
    format : PacketFormat
        Header fields and payload size.
    bus_bytes : int
        Bytes per beat: 16, 32, 64 or 128.
    packets : int
        Packets that fit, at least 2: the end of a cut packet shows only if another one may follow.
        They must cover one round trip of the link to sustain its full rate.

    Members
    -------
    rx : ``In(stream.Signature(link_beat_layout(flits)))``
        The wire. ``rx.ready`` comes from registers. It is always high if a `TransmitPort` that
        keeps to its credits sends over a link of constant latency.
    credit : ``Out(1)``
        High for one cycle per packet slot that became free, 2 cycles after that, at most one in a
        cycle.
    header : ``Out(stream.Signature(format.layout))``
        Headers of whole packets, in order of arrival.
    payload : ``In(PayloadReadSignature(bus_bytes, rows=packets * beats))``
        What lies behind the last flit of a packet in its last row is arbitrary.
    dropped : ``Out(1)``
        High for one cycle for each damaged packet and each run of unannounced flits.
    control : ``Out(stream.Signature(format.layout, always_ready=True))``
        HALT, SYNC and ACK packets, as they are parsed: ahead of packets that wait at ``header``.
    drained : ``Out(1)``
        Every packet that came before a SYNC has been freed; from the SYNC on no credit was
        returned, and the sender may count on all slots.
    idle : ``Out(1)``
        Nothing is being received or held, and every credit has been returned.
    """

    rx: stream.Interface
    header: stream.Interface
    credit: Signal
    dropped: Signal
    control: stream.Interface
    drained: Signal
    idle: Signal

    def __init__(self, format: PacketFormat, *, bus_bytes: int, packets: int) -> None:
        self._flits = link_flits(bus_bytes)
        if format.payload_bytes % bus_bytes:
            raise FieldError(
                "payload_bytes", f"must be a multiple of the {bus_bytes} bus bytes, "
                f"not {format.payload_bytes!r}"
            )
        self._format = format
        self._beats = format.payload_bytes // bus_bytes
        self._packets = require_int("packets", packets, minimum=2)
        self._behind = range(format.payload_flits + 1)
        rows = self._packets * self._beats
        super().__init__(
            {
                "rx": In(stream.Signature(link_beat_layout(self._flits))),
                "credit": Out(1),
                "header": Out(stream.Signature(format.layout)),
                "payload": In(PayloadReadSignature(bus_bytes=bus_bytes, rows=rows)),
                "dropped": Out(1),
                "control": Out(stream.Signature(format.layout, always_ready=True)),
                "drained": Out(1),
                "idle": Out(1),
            }
        )

    def _sound(self, head):
        """High for a sound header: every field that is used here passes its check."""
        is_data = head.kind == PacketKind.DATA
        is_empty = (head.kind == PacketKind.READY) | self._is_control(head)
        return (
            head.offload
            & (head.checksum == checksum_of(head.as_value()))
            & (is_data | (is_empty & (head.length == 0)))
            & (head.length <= self._format.payload_bytes)
        )

    @staticmethod
    def _is_control(head):
        return (
            (head.kind == PacketKind.HALT)
            | (head.kind == PacketKind.SYNC)
            | (head.kind == PacketKind.ACK)
        )

    def elaborate(self, platform):
        m = Module()
        layout = self._format.layout
        flits = self._flits
        rows = self._packets * self._beats

        # A beat may hold the ends of several short packets, each of which takes a cycle to parse.
        # A transmit port starts no more packet beats than there are cycles, of which its packer
        # holds back up to 2 * flits; when these come at once, as many full beats may follow before
        # they are parsed.
        # Each flit is judged before it is kept, as the header that it may be.
        judged = data.StructLayout(
            {
                "beat": link_beat_layout(flits),
                "sound": flits,
                "control": flits,
                "behind": data.ArrayLayout(self._behind, flits),
                "short": flits,
            }
        )
        m.submodules.wire = wire = StreamFIFO(judged, 2 * flits + 4, kept=True)
        m.d.comb += [
            wire.i.valid.eq(self.rx.valid),
            wire.i.p.beat.eq(self.rx.p),
            self.rx.ready.eq(wire.i.ready),
        ]
        for n in range(flits):
            coming = data.View(layout, self.rx.p.data[n])
            m.d.comb += [
                wire.i.p.sound[n].eq(self._sound(coming)),
                wire.i.p.control[n].eq(self._is_control(coming)),
                wire.i.p.behind[n].eq((coming.length + (FLIT_BYTES - 1)) >> 4),
                wire.i.p.short[n].eq(coming.length <= FLIT_BYTES * flits),
            ]
        m.submodules.headers = headers = StreamFIFO(layout, self._packets)
        wiring.connect(m, headers.o, wiring.flipped(self.header))
        m.submodules.slots = slots = SRAMBank(depth=rows, width=FLIT_BITS * flits, ports="1r1w")
        m.d.comb += [
            slots.r_en.eq(self.payload.enable),
            slots.r_addr.eq(self.payload.row),
            self.payload.data.eq(slots.r_data),
        ]
        window, bits, level, take = self._window(m, wire.o)

        # What is at the front of the window?
        rest = Signal(range(self._format.payload_flits + 1))  # payload flits still to come
        closing = Signal()  # they are a beat at most
        first = Signal(init=1)  # none: a packet must begin here
        ends = Signal()  # with what is taken now
        head = Signal(layout)
        sound = window[0].sound
        wanted = Signal.like(rest)
        chunk = Signal(range(flits + 1))  # payload flits to take now
        needed = Signal(range(flits + 2))
        m.d.comb += [
            head.eq(bits[0]),
            wanted.eq(Mux(first, window[0].behind, rest)),
            ends.eq(Mux(first, window[0].short, closing)),
            chunk.eq(Mux(ends, wanted, flits)),
            needed.eq(chunk + first),
        ]
        # Flits before the next header, an own one at the front included.
        ahead = Signal(range(flits + 2))
        cut = Signal()
        m.d.comb += ahead.eq(Mux(level > flits + 1, flits + 1, level))
        for n in reversed(range(flits + 1)):
            not_own = ~first if n == 0 else 1
            with m.If((level > n) & window[n].start & not_own):
                m.d.comb += [ahead.eq(n), cut.eq(1)]
        enough = ahead >= needed

        # Take a beat of a packet, or drop what is not one.
        pending = Signal(layout)  # header of the packet being received
        current = Signal(layout)
        skipping = Signal()  # what is not a header belongs to a packet that has been counted
        row = Signal(range(rows))  # where the next beat goes
        base = Signal(range(rows))  # where the first beat of the packet went
        write = Signal()
        complete = Signal()
        refund = Signal()
        room = Signal()
        m.d.comb += current.eq(Mux(first, head.as_value(), pending.as_value()))
        with m.If(level != 0):
            with m.If(first & ~(window[0].start & sound)):
                m.d.comb += [
                    take.eq(ahead),
                    self.dropped.eq(window[0].start | ~skipping),
                    refund.eq(window[0].start | (sound & ~skipping)),
                ]
                m.d.sync += skipping.eq(1)
            with m.Elif(first & window[0].control):
                m.d.comb += [take.eq(1), self.control.valid.eq(1)]
                m.d.sync += skipping.eq(0)
            with m.Elif(cut & ~enough):
                m.d.comb += [take.eq(ahead), self.dropped.eq(1), refund.eq(1)]
                m.d.sync += [rest.eq(0), first.eq(1), row.eq(base)]
            with m.Elif(enough & room):
                m.d.comb += [take.eq(needed), write.eq(chunk != 0), complete.eq(ends)]
                m.d.sync += [
                    rest.eq(wanted - chunk), closing.eq(wanted <= 2 * flits), first.eq(ends),
                    pending.eq(current), skipping.eq(0),
                ]

        after = Signal(range(rows + self._beats))
        m.d.comb += after.eq(base + self._beats)
        with m.If(write):
            m.d.sync += row.eq(row + 1)
        with m.If(complete & (current.kind == PacketKind.DATA)):
            # The next packet starts in the next slot, however short this one was.
            next_base = Mux(after == rows, 0, after)
            m.d.sync += [row.eq(next_base), base.eq(next_base)]
        # Written a cycle later, before anybody can have looked at the header.
        m.d.sync += [
            slots.w_en.eq(write),
            slots.w_addr.eq(row),
            slots.w_data.eq(
                Cat(Mux(first, bits[n + 1], bits[n]) for n in range(flits))
            ),
        ]
        m.d.comb += [
            headers.i.valid.eq(complete),
            headers.i.p.eq(current),
        ]

        m.d.comb += self.control.p.eq(head)
        draining = Signal()  # since a SYNC
        occupied = self._credits(m, complete, refund, room, draining)
        with m.If(self.control.valid & (head.kind == PacketKind.SYNC)):
            m.d.sync += draining.eq(1)
        with m.Elif(occupied == 0):
            m.d.comb += self.drained.eq(draining)
            m.d.sync += draining.eq(0)
        at_rest = (level == 0) & (wire.level == 0) & first & (occupied == 0)
        m.d.comb += self.idle.eq(at_rest & ~draining)
        return m

    def _window(self, m, wire):
        """Received flits: a header with a full beat, and room to append a beat.

        Returns marks of the flits, the flits from the front on, how many there are, and how many to
        take, which the caller drives. How many are taken is known late: a flit stays in its place
        and the front moves, and only its marks move up.
        """
        flits = self._flits
        capacity = 2 * flits + 1
        # As a header: whether it is sound, and for control; payload flits behind it, and whether
        # they are a beat at most.
        names = ("sound", "control", "behind", "short")
        shapes = (1, 1, self._behind, 1)
        mark = data.StructLayout({"start": 1, **dict(zip(names, shapes, strict=True))})
        window = Signal(data.ArrayLayout(mark, capacity))
        level = Signal(range(capacity + 1))
        take = Signal(range(flits + 2))
        left = Signal.like(level)
        arriving = Signal(range(flits + 1))
        kept = Signal(window.shape())
        m.d.comb += [
            left.eq(level - take),
            wire.ready.eq(left + flits <= capacity),
        ]
        with m.Switch(take):
            for count in range(flits + 2):
                with m.Case(count):
                    m.d.comb += kept.eq(window.as_value()[count * mark.size :])
        with m.If(wire.valid & wire.ready):
            m.d.comb += arriving.eq(sum(wire.p.beat.keep[n] for n in range(flits)))
        m.d.sync += level.eq(left + arriving)
        incoming = [
            Cat(wire.p.beat.start[n], *(wire.p[name][n] for name in names))
            for n in range(flits)
        ]
        # What lies behind those that are there may be anything: no place asks whether it is one.
        for n in range(capacity):
            m.d.sync += window[n].eq(kept[n])
            for first_free in range(max(0, n - flits + 1), n + 1):
                with m.If(left == first_free):
                    m.d.sync += window[n].eq(incoming[n - first_free])
        return window, self._places(m, wire.p.beat.data, take, arriving), level, take

    def _places(self, m, coming, take, arriving):
        """Places for flits, in rows of a beat: what comes is always written behind those that are
        there, for which there is room. Returns the first flits, those of a header and a beat."""
        flits = self._flits
        count = _ROWS * flits
        held = [Signal(FLIT_BITS, name=f"place_{k}", reset_less=True) for k in range(count)]
        front, free = Signal(range(count)), Signal(range(count))
        m.d.sync += [front.eq(front + take), free.eq(free + arriving)]
        column, row = front % flits, front // flits
        turned, first = (
            [Signal(FLIT_BITS, name=f"{name}_{k}") for k in range(flits)]
            for name in ("turned", "column")
        )
        bits = [Signal(FLIT_BITS, name=f"flit_{n}") for n in range(flits + 1)]
        for k, place in enumerate(held):
            with m.If(Cat(free == (k - n) % count for n in range(flits)).any()):
                m.d.sync += place.eq(turned[k % flits])
        for k in range(flits):  # the first flit in each column
            of_row = (row + (column > k))[: len(row)] if k < flits - 1 else row
            m.d.comb += first[k].eq(select(of_row, held[k::flits]))
        with m.Switch(free % flits):
            for n in range(flits):
                with m.Case(n):
                    m.d.comb += [each.eq(coming[k - n]) for k, each in enumerate(turned)]
        with m.Switch(column):
            for n in range(flits):
                with m.Case(n):
                    m.d.comb += [
                        each.eq(first[(k + n) % flits]) for k, each in enumerate(bits[:-1])
                    ]
        m.d.comb += bits[-1].eq(select(front, held[flits:] + held[:flits]))
        return bits

    def _credits(self, m, complete, refund, room, draining):
        """Credits for slots that are free again; drives *room*, returns the slots in use.

        A damaged packet counts as one that is consumed when it arrives. Up to three slots become
        free in a cycle; ``owed`` spreads their credits. A false header mark would be refunded
        twice, so never more is owed than there are slots. While *draining*, slots become free
        without a credit.
        """
        packets = self._packets
        occupied = Signal(range(packets + 1))  # slots that the sender may not count on
        owed = Signal(range(packets + 1))  # those of them that are free again
        returned = refund & room
        freed = Signal(2)  # in the cycle before
        give = owed != 0
        has_room = Signal(init=1)
        moves = {"up": complete | returned, "down": give}
        m.d.comb += [room.eq(has_room), self.credit.eq(give & ~draining)]
        m.d.sync += [
            has_room.eq(~stepped_to(occupied, packets, **moves)),
            freed.eq(self.payload.release + self.payload.release_control),
            occupied.eq(stepped(occupied, **moves)),
            owed.eq(owed + freed + returned - give),
        ]
        return occupied

# SPDX-License-Identifier: Apache-2.0
"""Transmit side of a link: packet queues, credits and the packer."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.count import stepped
from hw.common.fifo import StreamFIFO
from hw.common.params import FieldError, require_int
from hw.common.select import lowest
from hw.common.signature import ParametricSignature
from hw.link.packer import LinkPacker
from hw.link.packet import (
    FLIT_BYTES,
    PacketFormat,
    PacketKind,
    checksum_change,
    checksum_of,
    link_beat_layout,
    link_flits,
)

__all__ = ["PacketQueueSignature", "TransmitPort", "queued_header", "queued_header_layout"]


def queued_header_layout(format: PacketFormat) -> data.StructLayout:
    """A header that waits, with what can be said of it before it is its turn: how many flits of
    payload follow it, whether these are a ``single`` beat, whether there are enough for a ``full``
    one, or ``none``."""
    return data.StructLayout(
        {
            "header": format.layout,
            "flits": range(format.payload_flits + 1),
            "single": 1,
            "full": 1,
            "none": 1,
        }
    )


def queued_header(entry: Any, header: Value, format: PacketFormat, *, flits: int) -> Any:
    """Make *entry*, of `queued_header_layout`, of a *header*: statements for any domain.

    The checksum is that of a header without number and epoch, which `TransmitPort` fills in. It is
    up to writers to have a register behind this, since they know a header long before its last
    beat.
    """
    known = ((1 << format.layout.size) - 1) & ~sum(
        ((1 << format.layout[name].width) - 1) << format.layout[name].offset
        for name in ("sequence", "epoch", "checksum")
    )
    bare = Value.cast(header) & known
    length = data.View(format.layout, bare).length
    count = ((length + (FLIT_BYTES - 1)) >> 4)[: len(entry.flits)]
    return [
        entry.header.eq(bare),
        entry.header.checksum.eq(checksum_of(bare)),
        entry.flits.eq(count),
        entry.single.eq(count <= flits),
        entry.full.eq(count >= flits),
        entry.none.eq(count == 0),
    ]


class PacketQueueSignature(ParametricSignature):
    """Where a writer puts packets for a link, seen from the writer.

    A packet may leave only when its header is written, so a slow writer never leaves a gap on the
    link.

    Members
    -------
    room : ``In(1)``, spare : ``In(1)``
        There is room for a whole packet, and for two.
    reserve : ``Out(1)``
        Reserves that room, with ``room``, before the first beat of the packet is written.
    data : ``Out(stream.Signature(8 * bus_bytes, always_ready=True))``
        Payload beats; they never stall.
    header : ``Out(stream.Signature(queued_header_layout(format), always_ready=True))``
        The header as `queued_header` makes it, with or after the last payload beat; it never
        stalls.
    """

    def __init__(self, format: PacketFormat, *, bus_bytes: int) -> None:
        super().__init__(
            {
                "room": In(1),
                "spare": In(1),
                "reserve": Out(1),
                "data": Out(stream.Signature(8 * bus_bytes, always_ready=True)),
                "header": Out(stream.Signature(queued_header_layout(format), always_ready=True)),
            },
            format=format,
            bus_bytes=bus_bytes,
        )


class TransmitPort(wiring.Component):
    """Output port buffer of one link.

    Two queues of whole packets are drained into the packer, the first one (``queue[0]``, packets
    forwarded by a receive unit) before the second: forwarding keeps the receive side streaming, and
    what it forwards is what other nodes wait for. Sequence number and epoch are filled in here, and
    their part of the checksum.

    A packet is on the wire 2 cycles after its header was written, if that fills a beat; one of a
    single beat 3 cycles if the payload queue is in block memory (64 beats or more). There is room
    for another one 2 cycles after its last beat was taken. Packets follow each other without a gap
    while a queue holds one and the receiver has credit; the wire stalls only for ``tx.ready``. A
    packet begins only with a credit in hand, and a credit that arrives counts from the next cycle
    on. One that arrives while all are home is ignored.

    Control packets go between two packets, before all others and without credit. After ``restart``
    a SYNC is sent, and until the other end has acknowledged it, packets that were queued are
    dropped and credits that arrive ignored; then all credits are home, whatever was lost before,
    and packets are numbered from 0 again.

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
    epoch : ``In(format.epoch)``
        Of all packets that begin.
    halt : ``In(1)``, because : ``In(2)``
        Send a HALT with this ``op``.
    acknowledge : ``In(1)``, acknowledged : ``In(format.epoch)``
        Send an ACK (`ReceiveBuffer.drained` of this link) with the epoch of the SYNC.
    restart : ``In(1)``, synced : ``In(1)``
        Send a SYNC; its ACK has come.
    flush : ``In(1)``
        Drop packets that have not begun.
    starved : ``Out(1)``
        A packet waits and there is no credit.
    idle : ``Out(1)``
        Nothing is queued or held, and every credit is home.
    """

    queue: list
    tx: stream.Interface
    credit: Signal
    epoch: Signal
    halt: Signal
    because: Signal
    acknowledge: Signal
    acknowledged: Signal
    restart: Signal
    synced: Signal
    flush: Signal
    starved: Signal
    idle: Signal

    def __init__(self, format: PacketFormat, *, bus_bytes: int, packets: int, credits: int) -> None:
        self._flits = link_flits(bus_bytes)
        if format.payload_bytes % bus_bytes:
            raise FieldError(
                "payload_bytes", f"must be a multiple of the {bus_bytes} bus bytes, "
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
                "epoch": In(format.epoch),
                "halt": In(1),
                "because": In(2),
                "acknowledge": In(1),
                "acknowledged": In(format.epoch),
                "restart": In(1),
                "synced": In(1),
                "flush": In(1),
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

        queued = queued_header_layout(self._format)
        flit_count = range(self._format.payload_flits + 1)
        headers, payloads, leave = [], [], []
        busy = Signal(2)
        for n, port in enumerate(self.queue):
            header_queue = StreamFIFO(queued, self._packets, kept=("header",))
            payload_queue = StreamFIFO(
                8 * self._bus_bytes, self._packets * beats, kept=True
            )
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
                port.spare.eq(reserved < self._packets - 1),
                busy[n].eq(reserved != 0),
            ]
            gone = Signal(name=f"gone_{n}")  # a packet is, which is known late
            m.d.sync += [
                gone.eq(done), reserved.eq(stepped(reserved, up=port.reserve, down=gone)),
            ]
            headers.append(header_queue.o)
            payloads.append(payload_queue.o)
            leave.append(done)

        # A packet is chosen when it is first offered to the packer and kept to its last beat.
        begun = Signal()  # it is not at its first beat
        chosen = Signal()
        bound = Signal()
        source = Signal()
        m.d.comb += source.eq(Mux(bound, chosen, ~headers[0].valid))
        entry = Signal(queued)
        header = Signal(self._format.layout)
        sequence = Signal(self._format.sequence)
        header_valid = Signal()
        ready = Signal()  # header and payload
        full = Signal()
        payload = Signal(8 * self._bus_bytes)
        m.d.comb += [
            entry.eq(Array(h.payload.as_value() for h in headers)[source]),
            header.eq(entry.header),
            header.sequence.eq(sequence),
            header.epoch.eq(self.epoch),
            header_valid.eq(Array(h.valid for h in headers)[source]),
            payload.eq(Array(p.payload for p in payloads)[source]),
            # Asked of each queue while the source is chosen.
            ready.eq(
                Array(
                    h.valid & (p.valid | h.payload.none) for h, p in zip(headers, payloads)
                )[source]
            ),
            full.eq(Array(h.payload.full for h in headers)[source]),
        ]

        # The part of the header that is added here, and its part of the checksum.
        late = Signal(self._format.layout)
        change = Signal(8)
        m.d.comb += [
            late.sequence.eq(sequence), late.epoch.eq(self.epoch), change.eq(checksum_change(late)),
        ]
        rest = Signal(flit_count)  # payload flits from this beat on
        left = Signal(flit_count)  # the same, behind the first beat
        last = Signal()
        ending = Signal()  # the same, behind the first beat
        credits = Signal(range(self._credits + 1), init=self._credits)
        in_hand = Signal(init=1)  # a credit
        allowed = Signal()
        control, control_valid, waiting = self._control(m, bound, packer.i.ready)
        dropping = Signal()  # the packet that has begun is
        drop = Signal()
        available = Signal()
        m.d.comb += [
            drop.eq(Mux(bound, dropping, self.flush | waiting)),
            available.eq(ready & ~control_valid),
            rest.eq(Mux(begun, left, entry.flits)),
            last.eq(Mux(begun, ending, entry.single)),
            allowed.eq(begun | in_hand),
            packer.i.valid.eq(control_valid | (available & allowed & ~drop)),
            packer.i.p.first.eq(~begun),
            packer.i.p.full.eq(full & ~control_valid),
            header.checksum.eq(entry.header.checksum ^ change),
            packer.i.p.header.eq(Mux(control_valid, control.as_value(), header.as_value())),
            packer.i.p.count.eq(Mux(control_valid, 0, Mux(last, rest, flits))),
            packer.i.p.data.eq(payload),
            self.starved.eq(header_valid & ~allowed & ~drop),
        ]
        sent = packer.i.valid & packer.i.ready & ~control_valid
        moved = sent | (available & drop)
        with m.If(moved):
            m.d.sync += [
                begun.eq(~last),
                left.eq(rest - flits),
                ending.eq(rest <= 2 * flits),
                bound.eq(~last),
                chosen.eq(source),
                dropping.eq(drop),
            ]
        with m.Elif(packer.i.valid & ~control_valid):
            m.d.sync += [bound.eq(1), chosen.eq(source), dropping.eq(0)]
        for n in range(2):
            m.d.comb += [
                leave[n].eq(moved & last & (source == n)),
                headers[n].ready.eq(leave[n]),
                payloads[n].ready.eq(moved & (source == n) & ~headers[n].payload.none),
            ]
        spend = sent & ~begun  # late: what it leads to is there before it
        home = credits == self._credits  # all of them
        with m.If(waiting & self.synced):
            m.d.sync += [credits.eq(self._credits), in_hand.eq(1), sequence.eq(0)]
        with m.Else():
            with m.If(spend):
                m.d.sync += sequence.eq(sequence + 1)
            m.d.sync += [
                credits.eq(
                    Mux(spend | ~home, stepped(credits, up=self.credit, down=spend), credits)
                ),
                in_hand.eq(self.credit | Mux(spend, credits > 1, in_hand)),
            ]
        m.d.comb += self.idle.eq(
            (busy == 0)
            & packer.empty
            & (credits == self._credits)
            & ~waiting
            & ~control_valid
        )
        return m

    def _control(self, m, bound, ready):
        """The control packet that is to be sent next, whether one is to be sent now, and whether an
        acknowledgement is awaited."""
        header = Signal(self._format.layout, name="control_body")
        whole = Signal(self._format.layout, name="control")
        valid = Signal(name="control_valid")
        waiting = Signal()
        cause = Signal.like(self.because)
        due = Signal(3)  # HALT, ACK, SYNC, in this order
        some = Signal()
        first = lowest(due)
        leaves = Signal(3)
        stays = due & ~leaves | Cat(self.halt, self.acknowledge, self.restart)
        m.d.comb += [
            valid.eq(some & ~bound),
            leaves.eq(Mux(valid & ready, first, 0)),
            header.offload.eq(1),
            # An ACK is for the peer's epoch, which this node may not have come to yet.
            header.epoch.eq(Mux(first[:2] == 0b10, self.acknowledged, self.epoch)),
            header.kind.eq(
                Mux(first[0], PacketKind.HALT, Mux(first[1], PacketKind.ACK, PacketKind.SYNC))
            ),
            header.op.eq(Mux(first[0], cause, 0)),
            whole.eq(header),
            whole.checksum.eq(checksum_of(header)),
        ]
        m.d.sync += [due.eq(stays), some.eq(stays.any())]
        with m.If(self.halt):
            m.d.sync += cause.eq(self.because)
        with m.If(self.restart):
            m.d.sync += waiting.eq(1)
        with m.Elif(self.synced):
            m.d.sync += waiting.eq(0)
        return whole, valid, waiting

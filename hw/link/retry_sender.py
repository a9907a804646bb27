# SPDX-License-Identifier: Apache-2.0
"""The sending half of a link with retry: numbers frames, keeps and repeats them."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.link.retry_frame import CRC_START, KIND_BITS, Control, RetryConfig, RetryFormat
from hw.link.retry_store import FrameStore

__all__ = ["FrameWriteSignature", "NewsSignature", "RetrySender", "wire_layout"]


def wire_layout(width: int) -> data.StructLayout:
    """A flit on the wire; ``start`` marks headers."""
    return data.StructLayout({"data": width, "start": 1})


class FrameWriteSignature(wiring.Signature):
    """Where frames are written to be sent, seen from the writer.

    Members
    -------
    room : ``In(1)``
        A slot is free; nothing may be written or committed without.
    waits : ``In(1)``
        Frames are held that were never sent.
    write, data : ``Out(1)``, ``Out(format.width)``
        The next body flit of the frame.
    fresh : ``Out(1)``
        The frame is begun anew, with the flit of this cycle, if there is one; flits that were
        written without ``commit`` are forgotten.
    commit, content : ``Out(1)``, ``Out(format.content)``
        The frame is complete and has this content; with its last body flit or later.
    soon : ``Out(1)``
        A frame is on its way, which credits may wait for.
    """

    def __init__(self, format: RetryFormat) -> None:
        super().__init__(
            {
                "room": In(1),
                "waits": In(1),
                "write": Out(1),
                "fresh": Out(1),
                "data": Out(format.width),
                "commit": Out(1),
                "content": Out(format.content),
                "soon": Out(1),
            }
        )


class NewsSignature(wiring.Signature):
    """Reports from a link's receiving half to its sending half, seen from the former.

    Members
    -------
    acked, acknowledge : ``Out(1)``, ``Out(format.sequence)``
        The peer acknowledges all frames before this number.
    again, first, last : ``Out(1)``, ``Out(format.sequence)``, ``Out(format.sequence)``
        The peer misses the frames from ``first`` to ``last``.
    expected : ``Out(format.sequence)``
        The acknowledgement for the peer: the number of the frame that is awaited.
    due : ``Out(1)``
        It is to be sent: high until ``told``.
    told : ``In(1)``
        A frame begins to be sent, with the acknowledgement.
    reply : ``Out(stream.Signature(format.control_layout))``
        A NAK for the peer.
    """

    def __init__(self, format: RetryFormat) -> None:
        number = format.sequence
        super().__init__(
            {
                "acked": Out(1),
                "acknowledge": Out(number),
                "again": Out(1),
                "first": Out(number),
                "last": Out(number),
                "expected": Out(number),
                "due": Out(1),
                "told": In(1),
                "reply": Out(stream.Signature(format.control_layout)),
            }
        )


class RetrySender(wiring.Component):
    """Sends frames, and sends those again that did not arrive (selective repeat).

    A frame is kept until the peer has acknowledged it. It is repeated when the peer misses it, and
    the oldest one when nothing was acknowledged for ``timeout_cycles``. When the link works again
    after it has failed, all frames that are kept are repeated; so they are sent to a peer that was
    reset.

    Latency is 4 cycles from commit to the header on the wire if that is free; throughput is a flit
    per cycle. Credits leave with the next frame that is committed, or in a frame of their own.

    Parameters
    ----------
    format : RetryFormat
    config : RetryConfig

    Members
    -------
    frame : ``In(FrameWriteSignature(format))``
        Frames to be sent.
    freed : ``In(1).array(classes)``
        A credit to be sent.
    news : ``In(NewsSignature(format))``
        Reports of the receiving half.
    joined, up : ``In(1)``, mine, peer : ``In(format.session)``, notice : ``In(stream.Signature)``
        Of `RetrySession`: there is a session; frames are to be sent; the numbers of both ends; its
        own frames.
    tx : ``Out(stream.Signature(wire_layout(width)))``
        The wire.
    stuck : ``Out(1)``
        A frame was repeated ``tries`` times and not acknowledged.
    resent : ``Out(1)``
        A frame is repeated.
    idle : ``Out(1)``
        Everything was acknowledged, and nothing is to be sent.
    """

    frame: Any
    freed: Any
    news: Any
    joined: Signal
    up: Signal
    mine: Signal
    peer: Signal
    notice: Any
    tx: Any
    stuck: Signal
    resent: Signal
    idle: Signal

    def __init__(self, format: RetryFormat, config: RetryConfig) -> None:
        self._format, self._config = format, config
        super().__init__(
            {
                "frame": In(FrameWriteSignature(format)),
                "freed": In(1).array(format.classes),
                "news": In(NewsSignature(format)),
                "joined": In(1),
                "up": In(1),
                "mine": In(format.session),
                "peer": In(format.session),
                "notice": In(stream.Signature(format.control_layout)),
                "tx": Out(stream.Signature(wire_layout(format.width))),
                "stuck": Out(1),
                "resent": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        f = self._format
        kept = data.StructLayout({"content": f.content, "credits": f.credits, "crc": 32})
        m.submodules.store = store = FrameStore(
            slots=self._config.slots, flits=f.flits, width=f.width, header=kept.size,
            length=lambda header: f.length_of(Value.cast(header)[: f.content]),
        )
        base = Signal(f.sequence)  # the oldest frame that is kept
        following = Signal(f.sequence)  # the next to be sent for the first time
        tail = Signal(f.sequence)  # the next to be written
        stale = self._acknowledge(m, base, following)
        pending = self._write(m, store, kept, base, tail)
        number = self._choose(m, store, base, following, tail, stale)
        with m.If(~self.joined):
            m.d.sync += following.eq(base)
        m.d.comb += store.flush.eq(~self.joined)
        self._transmit(m, store, kept, number, base)
        m.d.comb += [
            self.frame.waits.eq(following != tail),
            self.idle.eq(
                self.up & (base == tail) & ~store.o.valid & ~self.tx.valid & ~pending
                & ~self.news.due & ~self.news.reply.valid & ~self.notice.valid
            ),
        ]
        return m

    def _acknowledge(self, m: Module, base: Signal, following: Signal) -> Signal:
        """Free acknowledged frames; return whether the oldest one is to be repeated."""
        news, c = self.news, self._config
        stale = Signal()
        timer = Signal(range(c.timeout_cycles + 1))
        tries = Signal(range(c.tries + 1))
        progress = Signal()
        under_way = Signal(self._format.sequence)
        newly = Signal(self._format.sequence)
        m.d.comb += [
            under_way.eq(following - base),
            newly.eq(news.acknowledge - base),
            progress.eq(self.joined & news.acked & (newly != 0) & (newly <= under_way)),
        ]
        m.d.sync += [timer.eq(timer + 1), stale.eq(0)]
        with m.If(progress):
            m.d.sync += [base.eq(news.acknowledge), timer.eq(0), tries.eq(0)]
        with m.Elif(~self.up):
            m.d.sync += [timer.eq(0), tries.eq(0)]
        with m.Elif(under_way == 0):
            m.d.sync += timer.eq(0)
        with m.Elif(timer == c.timeout_cycles):
            m.d.sync += [timer.eq(0), tries.eq(tries + 1)]
            with m.If(tries == c.tries):
                m.d.comb += self.stuck.eq(1)
            with m.Else():
                m.d.sync += stale.eq(1)
        return stale

    def _write(
        self, m: Module, store: FrameStore, kept: data.StructLayout, base: Signal, tail: Signal,
    ) -> Value:
        """Write frames into slots, with credits to send; return whether credits are left."""
        f, frame = self._format, self.frame
        most = (1 << f.credit) - 1
        place = Signal(range(f.flits + 1))
        state = Signal(32, init=CRC_START)
        now = Signal.like(place)
        before, after = Signal.like(state), Signal.like(state)
        carries = Signal()
        enters = Signal()
        header = Signal(kept)
        owed = [Signal(8, name=f"owed_{k}") for k in range(f.classes)]
        left = Cat(*(count.any() for count in owed)).any()
        m.d.comb += [
            frame.room.eq((tail - base)[: f.sequence] != self._config.slots),
            now.eq(Mux(frame.fresh, 0, place)),
            before.eq(Mux(now == 0, CRC_START, state)),
            after.eq(Mux(frame.write, f.crc_of_flit(before, frame.data), before)),
            carries.eq(left & frame.room & self.up & ~frame.soon & ~frame.write & ~frame.commit
                       & (place == 0)),
            enters.eq(frame.commit | carries),
            store.write.eq(frame.write),
            store.slot.eq(tail),
            store.place.eq(now),
            store.data.eq(frame.data),
            store.enter.eq(enters),
            header.content.eq(Mux(carries, Control.CARRIER.value << KIND_BITS, frame.content)),
            header.crc.eq(Mux(carries, CRC_START, after)),
            store.header.eq(header),
        ]
        with m.If(frame.commit):
            m.d.sync += [place.eq(0), tail.eq(tail + 1)]
        with m.Elif(carries):
            m.d.sync += tail.eq(tail + 1)
        with m.Elif(frame.write | frame.fresh):
            m.d.sync += [place.eq(now + frame.write), state.eq(after)]
        for count, given, freed in zip(owed, header.credits, self.freed, strict=True):
            m.d.comb += given.eq(Mux(count > most, most, count))
            m.d.sync += count.eq(count + freed - Mux(enters, given, 0))
        return left

    def _choose(
        self, m: Module, store: FrameStore, base: Signal, following: Signal, tail: Signal,
        stale: Signal,
    ) -> Signal:
        """Read the next frame: the oldest, a missing one, or a new one. Returns its number."""
        f, news = self._format, self.news
        oldest = Signal()  # is to be repeated
        missed = Signal()  # those from `first` to `last` are
        first, last = Signal(f.sequence), Signal(f.sequence)
        which = Signal(f.sequence)
        number = Signal(f.sequence)
        known = Signal()
        fresh = Signal()
        m.d.comb += [
            known.eq((which - base)[: f.sequence] < (following - base)[: f.sequence]),
            fresh.eq(~oldest & ~missed),
            which.eq(Mux(oldest, base, Mux(missed, first, following))),
            store.which.eq(which),
            store.ask.eq(self.up & Mux(fresh, following != tail, known)),
            self.resent.eq(store.taken & ~fresh),
        ]
        with m.If(store.taken):
            m.d.sync += number.eq(which)
        with m.If(store.taken & fresh):
            m.d.sync += following.eq(following + 1)
        # What has been acknowledged meanwhile is not repeated.
        done = store.taken | ~known
        with m.If(oldest & done):
            m.d.sync += oldest.eq(0)
        with m.Elif(missed & done & ~oldest):
            m.d.sync += [first.eq(first + 1), missed.eq(first != last)]
        with m.If(stale):
            m.d.sync += oldest.eq(1)
        with m.If(news.again & ~missed):
            m.d.sync += [missed.eq(1), first.eq(news.first), last.eq(news.last)]
        was_up = Signal()
        m.d.sync += was_up.eq(self.up)
        with m.If(~self.joined):
            m.d.sync += [oldest.eq(0), missed.eq(0)]
        with m.Elif(self.up & ~was_up):
            # All that was sent before the link failed.
            m.d.sync += [missed.eq(following != base), first.eq(base), last.eq(following - 1)]
        return number

    def _transmit(
        self, m: Module, store: FrameStore, kept: data.StructLayout, number: Signal, base: Signal,
    ) -> None:
        """Send frames, and control frames between two of them."""
        f, news, notice, tx = self._format, self.news, self.notice, self.tx
        free = Signal()
        offers = Signal()  # a frame; those of a session that is over are not sent
        inside = Signal()  # a frame
        sends_notice, sends_reply, sends_ack = Signal(), Signal(), Signal()
        sends_control = Signal()
        control = Signal(f.control_layout)
        header = Signal(f.header)
        stored = Signal(kept)
        m.d.comb += [
            free.eq(~tx.valid | tx.ready),
            offers.eq(store.o.valid & self.joined),
            inside.eq(offers & ~store.o.p.first),
            sends_notice.eq(free & ~inside & notice.valid),
            sends_reply.eq(free & ~inside & ~notice.valid & news.reply.valid),
            sends_ack.eq(free & ~offers & ~notice.valid & ~news.reply.valid & news.due),
            sends_control.eq(sends_notice | sends_reply | sends_ack),
            notice.ready.eq(sends_notice),
            news.reply.ready.eq(sends_reply),
            store.o.ready.eq(free & ~sends_control),
            stored.eq(store.o.p.header),
            header.acknowledge.eq(news.expected),
            header.sequence.eq(Mux(sends_control, 0, number)),
            header.content.eq(Mux(sends_control, control.as_value(), stored.content)),
            header.credits.eq(Mux(sends_control, 0, Value.cast(stored.credits))),
        ]
        with m.If(sends_notice):
            m.d.comb += control.eq(notice.p)
            with m.If(notice.p.control == Control.SYNC):
                m.d.comb += control.first.eq(base)
        with m.Else():
            m.d.comb += [
                control.control.eq(Mux(sends_reply, Control.NAK, Control.ACK)),
                control.heard.eq(1),
                control.first.eq(Mux(sends_reply, news.reply.p.first, 0)),
                control.last.eq(Mux(sends_reply, news.reply.p.last, 0)),
                control.session.eq(self.mine),
                control.echo.eq(self.peer),
            ]
        starts = sends_control | (free & offers & store.o.p.first)
        sends = sends_control | (free & offers)
        crc = f.crc_of_header(Mux(sends_control, CRC_START, stored.crc), header)
        whole = Signal(f.header)
        m.d.comb += [
            whole.eq(header),
            whole.crc.eq(f.sealed(crc, ~sends_control, self.mine, self.peer)),
            news.told.eq(starts),
        ]
        with m.If(free):
            m.d.sync += [
                tx.valid.eq(sends),
                tx.p.start.eq(starts),
                tx.p.data.eq(Mux(starts, whole.as_value(), store.o.p.data)),
            ]

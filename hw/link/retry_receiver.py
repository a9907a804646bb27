# SPDX-License-Identifier: Apache-2.0
"""The receiving half of a link with retry: checks frames, brings them into order."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.link.retry_frame import CRC_START, KIND_BITS, Control, RetryConfig, RetryFormat
from hw.link.retry_sender import NewsSignature, wire_layout
from hw.link.retry_session import SessionSignature
from hw.link.retry_store import FrameStore

__all__ = ["RetryReceiver", "arrived_layout"]


def arrived_layout(format: RetryFormat) -> data.StructLayout:
    """A beat from a link: the content of a frame (``first``), then its flits up to ``last``."""
    return data.StructLayout(
        {"first": 1, "last": 1, "content": format.content, "data": format.width}
    )


class RetryReceiver(wiring.Component):
    """Takes frames in any order and delivers each once, in the order of their numbers.

    A frame whose CRC is right is kept in the slot of its number, out of order if need be; the peer
    is told which ones are missing. Everything else is dropped: damaged frames, flits without a
    header, frames that came before. A body is written as it arrives, but never over a frame that is
    kept.

    Latency from the last flit of a frame to its header at ``o`` is 3 cycles; throughput is a flit
    per cycle. ``o`` may stall; the peer's frames are then acknowledged late, so the stall should be
    shorter than its ``timeout_cycles``.

    Parameters
    ----------
    format : RetryFormat
    config : RetryConfig

    Members
    -------
    rx : ``In(stream.Signature(wire_layout(width), always_ready=True))``
        The wire.
    o : ``Out(stream.Signature(arrived_layout(format)))``
        Frames in the order of their numbers.
    credits : ``Out(format.credits)``
        Credits that have come, in this cycle.
    news : ``Out(NewsSignature(format))``
        For the sending half.
    session : ``In(SessionSignature(format))``
        What is agreed on with the peer.
    damaged, repeated : ``Out(1)``
        A frame was dropped: it was damaged; it had come before.
    idle : ``Out(1)``
        Nothing is held.
    """

    rx: Any
    o: Any
    credits: Any
    news: Any
    session: Any
    damaged: Signal
    repeated: Signal
    idle: Signal

    def __init__(self, format: RetryFormat, config: RetryConfig) -> None:
        self._format, self._config = format, config
        super().__init__(
            {
                "rx": In(stream.Signature(wire_layout(format.width), always_ready=True)),
                "o": Out(stream.Signature(arrived_layout(format))),
                "credits": Out(format.credits),
                "news": Out(NewsSignature(format)),
                "session": In(SessionSignature(format)),
                "damaged": Out(1),
                "repeated": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        f, slots = self._format, self._config.slots
        kept = data.StructLayout({"content": f.content, "credits": f.credits})
        m.submodules.store = store = FrameStore(
            slots=slots, flits=f.flits, width=f.width, header=kept.size,
            length=lambda header: f.length_of(Value.cast(header)[: f.content]),
        )
        held = Signal(slots)  # slots with a frame that has come and was not delivered
        expected = Signal(f.sequence)  # the next frame to be delivered
        session = self.session
        head, sound = self._parse(m, store, held)
        control = session.came
        accept = Signal()
        offset = Signal(f.sequence)
        own = Signal()  # of the link itself
        occupied = Array(held)[Value.cast(head.sequence)[: len(store.slot)]]
        m.d.comb += [
            Value.cast(control).eq(Value.cast(head.content)),
            own.eq(sound & ~self._numbered(head)),
            session.own.eq(own),
            session.numbered.eq(sound & ~own & session.joined),
            offset.eq(head.sequence - expected),
            accept.eq(session.numbered & (offset < slots) & ~occupied),
            self.repeated.eq(session.numbered & ~accept),
            store.slot.eq(head.sequence),
            store.enter.eq(accept),
            store.header.eq(Cat(head.content, head.credits)),
            store.flush.eq(session.load),
        ]
        finished = self._deliver(m, store, kept, held, expected, accept)
        news = self.news
        m.d.comb += [
            news.acked.eq(session.numbered | session.match),
            news.acknowledge.eq(head.acknowledge),
            news.again.eq(session.match & (control.control == Control.NAK)),
            news.first.eq(control.first),
            news.last.eq(control.last),
            news.expected.eq(expected),
            self.idle.eq(~held.any() & ~store.o.valid),
        ]
        self._miss(m, head, offset, expected, accept, finished)
        return m

    @staticmethod
    def _numbered(head: Any) -> Value:
        """High if a frame is numbered."""
        content = Value.cast(head.content)
        own = content[:KIND_BITS] == 0
        return ~own | (content[KIND_BITS : KIND_BITS + 3] == Control.CARRIER.value)

    def _parse(self, m: Module, store: FrameStore, held: Signal) -> tuple[Any, Signal]:
        """Write bodies into the store. Returns the header of the frame that has just ended, and
        whether it is sound."""
        f, rx = self._format, self.rx
        arriving = Signal(f.header)
        head = Signal(f.header)
        left = Signal(range(f.flits + 1))
        place = Signal(range(max(2, f.flits)))
        state = Signal(32, init=CRC_START)
        complete = Signal()
        sound = Signal()
        stray = Signal()
        starts = rx.valid & rx.p.start
        body = rx.valid & ~rx.p.start & (left != 0)
        length = f.length_of(arriving.content)
        seal = f.sealed(
            f.crc_of_header(state, head), self._numbered(head), self.session.peer,
            self.session.mine,
        )
        busy = Array(held)[Value.cast(head.sequence)[: len(store.slot)]]
        m.d.comb += [
            Value.cast(arriving).eq(rx.p.data),
            store.write.eq(body & ~busy),
            store.place.eq(place),
            store.data.eq(rx.p.data),
            sound.eq(complete & self.session.awake & (seal == head.crc)),
            stray.eq((starts & (left != 0)) | (rx.valid & ~rx.p.start & (left == 0))),
            self.damaged.eq(stray | (complete & self.session.awake & ~sound)),
        ]
        m.d.sync += complete.eq((starts & (length == 0)) | (body & (left == 1)))
        with m.If(starts):
            m.d.sync += [head.eq(arriving), left.eq(length), place.eq(0), state.eq(CRC_START)]
        with m.Elif(body):
            m.d.sync += [
                left.eq(left - 1), place.eq(place + 1), state.eq(f.crc_of_flit(state, rx.p.data)),
            ]
        return head, sound

    def _deliver(
        self, m: Module, store: FrameStore, kept: data.StructLayout, held: Signal,
        expected: Signal, accept: Signal,
    ) -> Signal:
        """Deliver frames in the order of their numbers; return whether one has been delivered."""
        slots = self._config.slots
        reading = Signal.like(expected)  # the next frame to be read
        finished = Signal()
        ended = Signal(slots)
        entered = Signal(slots)
        front = Signal(kept)
        carrier = Signal()
        bits = len(store.slot)
        m.d.comb += [
            store.which.eq(reading),
            store.ask.eq(Array(held)[reading[:bits]]),
            finished.eq(store.o.valid & store.o.ready & store.o.p.last),
            # A slot is free only when its frame was read to the end.
            ended.eq(Mux(finished, 1 << expected[:bits], 0)),
            entered.eq(Mux(accept, 1 << store.slot, 0)),
            front.eq(store.o.p.header),
            carrier.eq(store.o.p.first & (front.content[:KIND_BITS] == 0)),
            self.o.valid.eq(store.o.valid & ~carrier),
            self.o.p.first.eq(store.o.p.first),
            self.o.p.last.eq(store.o.p.last),
            self.o.p.content.eq(front.content),
            self.o.p.data.eq(store.o.p.data),
            store.o.ready.eq(self.o.ready | carrier),
        ]
        with m.If(store.o.valid & store.o.ready & store.o.p.first):
            m.d.comb += self.credits.eq(front.credits)
        first = self.session.came.first
        with m.If(self.session.load):
            m.d.sync += [held.eq(0), expected.eq(first), reading.eq(first)]
        with m.Else():
            m.d.sync += [
                held.eq(held & ~ended | entered),
                expected.eq(expected + finished),
                reading.eq(reading + store.taken),
            ]
        return finished

    def _miss(
        self, m: Module, head: Any, offset: Signal, expected: Signal, accept: Signal,
        finished: Signal,
    ) -> None:
        """Tell the peer which frames are missing (NAK), and when an acknowledgement is due."""
        f, news = self._format, self.news
        highest = Signal(f.sequence)  # one past the last frame that has come
        ahead = Signal(f.sequence)
        missing = Signal()
        first, last = Signal(f.sequence), Signal(f.sequence)
        m.d.comb += [
            ahead.eq(highest - expected),
            news.reply.valid.eq(missing),
            news.reply.p.control.eq(Control.NAK),
            news.reply.p.first.eq(first),
            news.reply.p.last.eq(last),
        ]
        with m.If(news.reply.ready):
            m.d.sync += missing.eq(0)
        with m.If(news.told):
            m.d.sync += news.due.eq(0)
        with m.If(finished | self.repeated):
            m.d.sync += news.due.eq(1)
        with m.If(accept & (offset >= ahead)):
            m.d.sync += highest.eq(head.sequence + 1)
            with m.If((offset != ahead) & ~missing):
                m.d.sync += [missing.eq(1), first.eq(highest), last.eq(head.sequence - 1)]
        with m.If(self.session.load):
            m.d.sync += [highest.eq(self.session.came.first), missing.eq(0), news.due.eq(0)]

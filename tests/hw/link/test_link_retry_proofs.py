# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Proofs: whatever a wire loses, repeats or damages, frames arrive once and in order.

The halves are proved apart, without a bound. What the receiver relies on (`ReceiverHarness`) is
what the sender is proved to do: a frame is new if fewer than `slots` are under way, or one of the
last `slots` once more; the wire keeps the order. Both together are proved for some cycles, in which
a frame gets through after a repetition; and, where the wire has two faults at most, for more, in
which four do, so that a number comes again. `test_link_retry_ends` goes on.
"""

from dataclasses import dataclass, replace

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.link import retry_link
from hw.link.retry_frame import Control, RetryConfig, RetryFormat
from hw.link.retry_link import RetryLink
from hw.link.retry_receiver import RetryReceiver
from hw.link.retry_sender import RetrySender
from tests.hw.common.prover import ever, holds, nth

NUMBERS = 8
"""Frames are told apart by their number modulo this; fewer are under way."""
MARK = Const(5, 28)
"""In the checksum of a frame with a body, which no body has."""
SEAL = 16
"""Where the session is in a checksum."""


@dataclass(frozen=True, kw_only=True)
class PlainFormat(RetryFormat):
    """In the place of the CRC a header has the number of the frame that its body belongs to, and
    the last bits of both flits tell of damage."""

    def crc_of_flit(self, state, flit):
        flit = Value.cast(flit)
        return Cat(flit[:3], flit[-1], MARK)

    def crc_of_header(self, state, header):
        return state

    def sealed(self, crc, numbered, sender, receiver):
        return crc ^ Mux(numbered, Cat(Const(0, SEAL), sender, receiver), 0)


@dataclass(frozen=True, kw_only=True)
class ShortConfig(RetryConfig):
    """As short times as there can be."""

    def __post_init__(self):
        pass


FORMAT = PlainFormat(width=55, flits=1, content=18, sequence=2, classes=1, credit=1, session=3)
CONFIG = ShortConfig(slots=2, timeout_cycles=3, tries=3, keepalive_cycles=0)
BODY, ALONE = Const(4, 4), Const(1, 4)


def frame_of(number):
    """Content of a frame: odd ones have a body."""
    return Cat(Mux(number[0], BODY, ALONE), number)


def checksum_of(number):
    """Of an odd frame that of its body, else that of no body."""
    return Mux(number[0], Cat(number, Const(0, 1), MARK), Const((1 << 32) - 1, 32))


def delivers(m, stream, due, inside):
    """Whether what is offered at *stream* is not the frame number *due*, whole."""
    p = stream.p
    taken = stream.valid & stream.ready
    with m.If(taken):
        m.d.sync += [inside.eq(~p.last), due.eq(due + p.last)]
    odd = due[0]
    return stream.valid & Mux(
        p.first,
        inside | (p.content[:7] != frame_of(due)) | (p.last != ~odd),
        ~inside | (p.data[:3] != due) | p.data[-1] | ~p.last,
    )


class ReceiverHarness(wiring.Component):
    """A receiving half, and a peer that does what a sending half may do, over any wire.

    In each cycle the peer sends nothing, the next frame if fewer than `slots` were sent since the
    last that was delivered, one of the last `slots` again, any frame of another session, or a flit
    of any body; the wire loses it or turns over its mark or its last bit.
    """

    def __init__(self, receiver=RetryReceiver):
        self.receiver = receiver
        super().__init__(
            {
                "what": In(3), "which": In(1), "body": In(3), "seal": In(6), "lose": In(1),
                "mark": In(1),
                "damage": In(1), "take": In(1), "told": In(1), "ready": In(1), "bad": Out(1),
                "cover_fifth_frame_is_delivered_after_a_repetition": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = self.receiver(FORMAT, CONFIG)
        slots = CONFIG.slots
        due = Signal(range(NUMBERS))
        sent = Signal(range(NUMBERS))  # the next new one
        started = Signal()
        inside = Signal()
        number = Signal(range(NUMBERS))
        header = Signal(FORMAT.header)
        fresh = self.what == 1
        again = self.what == 2
        foreign = (self.what == 3) & (self.seal != 0)
        body = self.what == 4
        allowed = (sent - due)[:3] < slots
        sends = (fresh & allowed) | (again & started) | foreign
        session = receiver.session
        m.d.comb += [
            number.eq(Mux(fresh, sent, Mux(foreign, self.body, sent - 1 - self.which))),
            header.content.eq(frame_of(number)),
            header.sequence.eq(number),
            header.crc.eq(checksum_of(number) ^ Mux(foreign, self.seal << SEAL, 0)),
            receiver.rx.valid.eq((sends | body) & ~self.lose),
            receiver.rx.p.start.eq(sends ^ self.mark),
            receiver.rx.p.data.eq(Mux(sends, header.as_value(), self.body)
                                  ^ Cat(Const(0, FORMAT.width - 1), self.damage)),
            receiver.o.ready.eq(self.take),
            session.awake.eq(1),
            session.joined.eq(1),
            receiver.news.told.eq(self.told),
            receiver.news.reply.ready.eq(self.ready),
        ]
        with m.If(fresh & allowed):
            m.d.sync += [sent.eq(sent + 1), started.eq(1)]
        # With one frame sent, the one before it is none.
        first = Signal()
        with m.If(fresh & allowed & started):
            m.d.sync += first.eq(1)
        with m.If(again & self.which & ~first):
            m.d.comb += receiver.rx.valid.eq(0)
        m.d.comb += self.bad.eq(delivers(m, receiver.o, due, inside))
        repeated = ever(m, again & receiver.rx.valid & receiver.rx.p.start)
        m.d.comb += self.cover_fifth_frame_is_delivered_after_a_repetition.eq(
            repeated & nth(m, receiver.o.valid & receiver.o.ready & receiver.o.p.last, 5)
        )
        return m


class SenderHarness(wiring.Component):
    """A sending half, a writer, and a peer that acknowledges what it likes of what was sent.

    `bad` is high when a frame is sent that is neither the next one, with fewer than `slots` under
    way, nor one of the last `slots`; or not what was written; or with a body of another one that
    the CRC does not tell from its own.
    """

    def __init__(self, sender=RetrySender):
        self.sender = sender
        super().__init__(
            {
                "commit": In(1), "ready": In(1), "acked": In(1), "advance": In(2),
                "again": In(1), "first": In(2), "last": In(2), "joined": In(1), "up": In(1),
                "due": In(1), "reply": In(1), "notice": In(1), "sync": In(1), "bad": Out(1),
                "cover_fifth_frame_is_sent_after_a_repetition": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.sender = sender = self.sender(FORMAT, CONFIG)
        slots = CONFIG.slots
        written = Signal(range(NUMBERS))
        sent = Signal(range(NUMBERS))  # the next new one
        done = Signal(range(NUMBERS))  # all before it are acknowledged
        frame, news, tx = sender.frame, sender.news, sender.tx
        goes = tx.valid & tx.ready
        header = Signal(FORMAT.header)
        content = Signal(FORMAT.content)
        number = Signal(range(NUMBERS))
        follows = Signal()  # a body
        says = Signal(range(NUMBERS))
        acked = Signal()
        # Only what has left can be acknowledged.
        under_way = (sent - done)[:3]
        m.d.comb += [
            frame.fresh.eq(1),
            frame.commit.eq(self.commit & frame.room),
            frame.write.eq(frame.commit & written[0]),
            frame.data.eq(written),
            frame.content.eq(frame_of(written)),
            tx.ready.eq(self.ready),
            acked.eq(self.acked & (self.advance <= under_way)),
            news.acked.eq(acked),
            news.acknowledge.eq(done + self.advance),
            news.again.eq(self.again),
            news.first.eq(self.first),
            news.last.eq(self.last),
            sender.joined.eq(self.joined),
            sender.up.eq(self.joined & self.up),
            sender.notice.valid.eq(self.notice),
            sender.notice.p.control.eq(Mux(self.sync, Control.SYNC, Control.PROBE)),
            news.due.eq(self.due),
            news.reply.valid.eq(self.reply),
            header.eq(tx.p.data),
            content.eq(header.content),
            number.eq(content[4:7]),
        ]
        m.d.sync += written.eq(written + frame.commit)
        # An acknowledgement counts in a session.
        with m.If(acked & self.joined):
            m.d.sync += done.eq(done + self.advance)
        own = content[:4] == 0
        fresh = number == sent
        stale = Signal()  # of a session that is over: its peer does not take it
        syncs = own & (content[4:7] == Control.SYNC.value)
        with m.If(goes & tx.p.start):
            m.d.sync += [follows.eq(~own & number[0]), says.eq(number)]
            with m.If(~own & fresh & ~stale):
                m.d.sync += sent.eq(sent + 1)
        with m.Elif(goes):
            m.d.sync += follows.eq(0)
        with m.If(~self.joined):
            # All that is kept is sent again in the next session.
            m.d.sync += sent.eq(done)
        behind = (sent - number)[:3]
        wrong_frame = ~own & (
            (behind > slots)
            | (fresh & ((under_way >= slots) | (sent == written)))
            | (header.sequence != number[:2])
            | (content != frame_of(number))
            | (header.crc != checksum_of(number))
        )
        # One that waits for the wire is as it was when it was made.
        waits = Signal()
        joined = Signal()
        m.d.sync += [
            waits.eq(tx.valid & ~tx.ready),
            joined.eq(self.joined),
            stale.eq(tx.valid & ~tx.ready & (stale | ~self.joined)),
        ]
        wrong_sync = syncs & ~joined & ~waits & (content[8:10] != done[:2])
        body = tx.p.data
        wrong_body = ~follows | ((body[:3] == says) & body[-1]) | (body[3:-1] != 0)
        m.d.comb += self.bad.eq(
            tx.valid & Mux(tx.p.start, (wrong_frame & ~stale) | wrong_sync, wrong_body)
        )
        repeated = ever(m, goes & tx.p.start & ~own & ~fresh)
        m.d.comb += self.cover_fifth_frame_is_sent_after_a_repetition.eq(
            repeated & nth(m, goes & tx.p.start & ~own & fresh, 5)
        )
        return m


FAULTS = ("lose", "mark", "damage", "again")


def in_session(link):
    """The same, in a session from reset on."""

    class Joined(link):
        def elaborate(self, platform):
            m = super().elaborate(platform)
            frames = m.submodules.session.frames
            for each in (frames.awake, frames.joined, frames.mine, frames.peer):
                each._init = 1
            return m

    return Joined


class RetryHarness(wiring.Component):
    """Two ends in a session, frames from one to the other, and wires that do what they like.

    In each cycle a wire may lose a flit, change its mark, damage it, or send a flit again in place
    of the next one; with *faults* in so many cycles at most, and then there is always a frame to be
    sent, what comes is taken at once, and no credit is given, by which more cycles can be looked
    at. `bad` is high when a frame that is delivered is not the next one, whole, or when a credit
    arrives that was not given.
    """

    def __init__(self, link=RetryLink, *, faults=None):
        self.link, self.faults = link, faults
        super().__init__(
            {**{name: In(2) for name in FAULTS}, "commit": In(1), "give": In(1), "take": In(1),
             "bad": Out(1),
             "cover_second_frame_is_delivered": Out(1),
             "cover_a_frame_is_delivered_after_a_repetition": Out(1),
             **({"cover_fourth_frame_is_delivered_after_a_repetition": Out(1)} if faults else {})}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.near = near = in_session(self.link)(FORMAT, CONFIG)
        m.submodules.far = far = in_session(self.link)(FORMAT, CONFIG)
        struck = {name: getattr(self, name) for name in FAULTS}
        if self.faults:
            left = Signal(range(self.faults + 1), init=self.faults)
            m.d.sync += left.eq(left - ((left != 0) & Cat(struck.values()).any()))
            struck = {name: Mux(left != 0, bits, 0) for name, bits in struck.items()}
        self._wire(m, near, far, 0, struck)
        self._wire(m, far, near, 1, struck)
        number = Signal(range(NUMBERS))
        frame = near.frame
        m.d.comb += [
            frame.fresh.eq(1),
            frame.commit.eq((1 if self.faults else self.commit) & frame.room),
            frame.write.eq(frame.commit & number[0]),
            frame.data.eq(number),
            frame.content.eq(frame_of(number)),
            far.o.ready.eq(1 if self.faults else self.take),
        ]
        m.d.sync += number.eq(number + frame.commit)
        due = Signal(range(NUMBERS))
        inside = Signal()
        bad = delivers(m, far.o, due, inside)
        out = Signal(2)
        given = Const(0) if self.faults else self.give & (out != 3)
        m.d.comb += near.freed[0].eq(given)
        m.d.sync += out.eq(out + given - far.credits[0])
        bad |= far.credits[0] & (out == 0)
        arrives = far.o.valid & far.o.ready & far.o.p.last
        m.d.comb += [
            self.bad.eq(bad),
            self.cover_second_frame_is_delivered.eq(nth(m, arrives, 2)),
            self.cover_a_frame_is_delivered_after_a_repetition.eq(
                ever(m, near.resent) & arrives
            ),
        ]
        if self.faults:
            m.d.comb += self.cover_fourth_frame_is_delivered_after_a_repetition.eq(
                ever(m, near.resent) & nth(m, arrives, 4)
            )
        return m

    def _wire(self, m, sender, receiver, k, struck):
        last = Signal.like(sender.tx.p.as_value(), name=f"last_{k}")
        again = Signal(name=f"again_{k}")
        held = Signal(name=f"held_{k}")
        flit = Signal(sender.tx.p.shape(), name=f"flit_{k}")
        bits = flit.as_value()
        m.d.comb += [
            again.eq(struck["again"][k] & held),
            sender.tx.ready.eq(~again),
            bits.eq(Mux(again, last, sender.tx.p.as_value())),
            receiver.rx.valid.eq((again | sender.tx.valid) & ~struck["lose"][k]),
            receiver.rx.p.start.eq(flit.start ^ struck["mark"][k]),
            # The last bit of a flit is one of the CRC if it is a header.
            receiver.rx.p.data.eq(Cat(flit.data[:-1], flit.data[-1] ^ struck["damage"][k])),
        ]
        with m.If(sender.tx.valid & sender.tx.ready):
            m.d.sync += [last.eq(sender.tx.p.as_value()), held.eq(1)]


class OverwritingReceiver(RetryReceiver):
    """Planted bug: a body is written over that of a frame that is kept."""

    def _parse(self, m, store, held):
        found = super()._parse(m, store, held)
        m.d.comb += store.write.eq(self.rx.valid & ~self.rx.p.start)
        return found


class ReceiverOfTooMany(RetryReceiver):
    """Planted bug: a frame that comes again is taken for one that is still to come."""

    def __init__(self, format, config):
        super().__init__(format, replace(config, slots=2 * config.slots))


class HastySender(RetrySender):
    """Planted bug: a slot is used again before its frame was acknowledged."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.frame.room.eq(1)
        return m


class StubbornSender(RetrySender):
    """Planted bug: in a new session frames go on where they were in the old one."""

    def _acknowledge(self, m, base, following):
        stale = super()._acknowledge(m, base, following)
        with m.If(~self.joined):
            m.d.sync += base.eq(following)
        return stale


class LinkOfTooMany(RetryLink):
    """Planted bug: more frames are under way than half of their numbers."""

    def __init__(self, format, config):
        super().__init__(format, config)
        self._config = replace(config, slots=2 * config.slots)


def test_receiver_delivers_each_frame_once_and_in_order(tmp_path):
    assert holds(ReceiverHarness(), tmp_path)


@pytest.mark.parametrize("receiver", [OverwritingReceiver, ReceiverOfTooMany])
def test_receivers_with_planted_bugs_are_refuted(receiver, tmp_path):
    assert not holds(ReceiverHarness(receiver), tmp_path)


def test_sender_sends_what_a_receiver_may_rely_on(tmp_path):
    assert holds(SenderHarness(), tmp_path)


@pytest.mark.parametrize("sender", [HastySender, StubbornSender])
def test_senders_with_planted_bugs_are_refuted(sender, tmp_path):
    assert not holds(SenderHarness(sender), tmp_path)


def test_both_ends_deliver_each_frame_once_and_in_order(tmp_path):
    assert holds(RetryHarness(), tmp_path, cycles=15)


def test_a_link_with_a_planted_bug_is_refuted(tmp_path):
    assert not holds(RetryHarness(LinkOfTooMany), tmp_path, cycles=30)


FAULTY_CYCLES = 26
"""In which two faults of the wire may come, and a fourth frame be delivered after a repetition."""


@pytest.mark.full
def test_both_ends_deliver_four_frames_whatever_two_faults_do(tmp_path):
    assert holds(RetryHarness(faults=2), tmp_path, cycles=FAULTY_CYCLES)


@pytest.mark.parametrize("half, planted", [
    ("RetryReceiver", ReceiverOfTooMany), ("RetrySender", HastySender),
])
def test_two_faults_refute_a_half_with_a_planted_bug(half, planted, monkeypatch, tmp_path):
    monkeypatch.setattr(retry_link, half, planted)
    assert not holds(RetryHarness(faults=2), tmp_path, cycles=FAULTY_CYCLES)

# SPDX-License-Identifier: Apache-2.0
"""Sessions of a link with retry, and whether the link works."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.link.retry_frame import Control, RetryConfig, RetryFormat

__all__ = ["RetrySession", "SessionSignature"]


class SessionSignature(wiring.Signature):
    """Wires between the receiving half of a link and its `RetrySession`, seen from the latter.

    Members
    -------
    came, own : ``In(format.control_layout)``, ``In(1)``
        A frame of the link itself (no CARRIER) has come.
    numbered : ``In(1)``
        A numbered frame of this session has come.
    match : ``Out(1)``
        The frame ``came`` is of this session, and no SYNC; in the same cycle.
    mine, peer : ``Out(format.session)``
        Numbers of both ends in the session; valid when ``joined``.
    joined : ``Out(1)``
        There is a session.
    load : ``Out(1)``
        A session begins, or ends: the peer's next frame has the number ``came.first``.
    awake : ``Out(1)``
        Low for ``timeout_cycles`` after reset, in which nothing is heard.
    """

    def __init__(self, format: RetryFormat) -> None:
        super().__init__(
            {
                "came": In(format.control_layout),
                "own": In(1),
                "numbered": In(1),
                "match": Out(1),
                "mine": Out(format.session),
                "peer": Out(format.session),
                "joined": Out(1),
                "load": Out(1),
                "awake": Out(1),
            }
        )


class RetrySession(wiring.Component):
    """Agrees with the peer on a session, and finds out when the link fails and when it is mended.

    Each end has a number that it keeps until reset; after that it learns the last one from its peer
    and takes the next. Both numbers are the session. An end joins it when a SYNC echoes its own
    number, and leaves it for nothing but a SYNC that echoes this number and has a newer one of the
    peer, which only a peer that was reset can send. So a copy of any frame, however late, changes
    nothing.

    A link that has failed keeps its session. The peer is asked (PROBE) until it answers (ANSWER):
    at first when nothing was heard for ``keepalive_cycles``, or when a frame was repeated in vain;
    then every ``timeout_cycles``, for as long as it takes.

    Parameters
    ----------
    format : RetryFormat
    config : RetryConfig

    Members
    -------
    frames : ``Out(SessionSignature(format))``
        For the receiving half.
    stuck : ``In(1)``
        A frame was repeated ``tries`` times in vain.
    up : ``Out(1)``
        Frames are to be sent.
    failed : ``Out(1)``
        The peer does not answer, or does not hear this end.
    restarted : ``Out(1)``
        A session has begun after another one: the peer was reset, what it had is lost.
    reply : ``Out(stream.Signature(format.control_layout))``
        SYNC, PROBE and ANSWER; ``first`` of a SYNC is to be filled in.
    """

    frames: Any
    stuck: Signal
    up: Signal
    failed: Signal
    restarted: Signal
    reply: Any

    def __init__(self, format: RetryFormat, config: RetryConfig) -> None:
        self._format, self._config = format, config
        super().__init__(
            {
                "frames": Out(SessionSignature(format)),
                "stuck": In(1),
                "up": Out(1),
                "failed": Out(1),
                "restarted": Out(1),
                "reply": Out(stream.Signature(format.control_layout)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        frames, came = self.frames, self.frames.came
        timer = Signal(range(self._config.timeout_cycles + 1))
        expired, joins, leaves, waits, deaf = (
            Signal(name=name) for name in ("expired", "joins", "leaves", "waits", "deaf")
        )
        before = Signal()  # there was a session since reset
        due = Signal(3)  # SYNC, ANSWER, PROBE
        first = due & -due
        new = Signal(3)
        sync = frames.own & (came.control == Control.SYNC)
        m.d.comb += [
            expired.eq(timer == self._config.timeout_cycles),
            frames.load.eq(joins | leaves),
            self.restarted.eq(joins & before),
            frames.match.eq(frames.own & ~sync & frames.joined & (came.session == frames.peer)
                          & (came.echo == frames.mine)),
        ]
        m.d.sync += timer.eq(Mux(expired | frames.awake & ~waits, 0, timer + 1))
        with m.If(expired):
            m.d.sync += frames.awake.eq(1)
        with m.If(joins):
            m.d.sync += before.eq(1)
        announces = self._agree(m, sync, joins, leaves)
        asked, mark, asks, answers = self._listen(m, expired, waits, deaf, before)
        m.d.comb += [
            new.eq(Cat(announces | expired & ~frames.joined, answers, asks)),
            self.reply.valid.eq(due.any()),
            self.reply.p.control.eq(
                Mux(first[0], Control.SYNC, Mux(first[1], Control.ANSWER, Control.PROBE))
            ),
            self.reply.p.heard.eq(Mux(first[0], frames.joined, ~deaf)),
            self.reply.p.first.eq(Mux(first[1], mark, asked)),
            self.reply.p.session.eq(frames.mine),
            self.reply.p.echo.eq(frames.peer),
        ]
        with m.If(frames.load):
            m.d.sync += due.eq(new[0])
        with m.Else():
            m.d.sync += due.eq(due & ~Mux(self.reply.ready, first, 0) | new)
        return m

    def _newer(self, one: Value, other: Value) -> Value:
        """High if *one* comes after *other*; session numbers wrap around."""
        distance = (one - other)[: self._format.session]
        return (distance != 0) & ~distance[-1]

    def _agree(self, m: Module, sync: Value, joins: Signal, leaves: Signal) -> Value:
        """Update the session by a SYNC; return whether a SYNC is the answer."""
        frames = self.frames
        came, mine, peer = frames.came, frames.mine, frames.peer
        fresh, echoed, newer, older, learns = (
            Signal(name=name) for name in ("fresh", "echoed", "newer", "older", "learns")
        )
        following = Signal.like(mine)
        known = came.session == peer
        m.d.comb += [
            fresh.eq(mine == 0),
            echoed.eq(~fresh & (came.echo == mine)),
            newer.eq((came.session != 0) & ((peer == 0) | self._newer(came.session, peer))),
            older.eq((came.session == 0) | ~newer & ~known),
            # The peer knows a number that this end had before it was reset, or has a session with
            # an end that had the same one.
            learns.eq(
                (came.echo != 0) & (fresh | self._newer(came.echo, mine))
                | came.heard & echoed & newer
            ),
            following.eq(came.echo + 1),
            joins.eq(sync & ~frames.joined & echoed
                     & Mux(came.heard, known & (peer != 0), ~older)),
            leaves.eq(sync & frames.joined & echoed & ~came.heard & newer),
        ]
        with m.If(leaves):
            m.d.sync += [frames.joined.eq(0), peer.eq(came.session)]
        with m.Elif(sync & ~frames.joined):
            m.d.sync += frames.joined.eq(joins)
            with m.If(~older):
                m.d.sync += peer.eq(came.session)
            with m.If(learns):
                m.d.sync += mine.eq(Mux(following == 0, 1, following))
            with m.Elif(fresh):
                m.d.sync += mine.eq(1)
        # An end with a session does not answer a peer that has one, too.
        return sync & ~(came.heard & (frames.joined | joins))

    def _listen(
        self, m: Module, expired: Signal, waits: Signal, deaf: Signal, before: Signal
    ) -> tuple[Signal, Signal, Value, Value]:
        """Find out whether the link works. Returns the marks of this end's PROBE and of the peer's,
        and whether to send a PROBE, and an ANSWER, now."""
        frames, c = self.frames, self._config
        came = frames.came
        unheard = Signal()  # the peer says that it hears no answer
        probing = Signal()  # nothing was heard for a long time
        quiet = Signal()
        tries = Signal(range(c.tries + 1))
        asked, mark = Signal(self._format.sequence), Signal(self._format.sequence)
        question, answered = Signal(), Signal()
        m.d.comb += [
            question.eq(frames.match & (came.control == Control.PROBE)),
            answered.eq(frames.match & (came.control == Control.ANSWER) & (came.first == asked)),
            self.up.eq(frames.joined & ~deaf & ~unheard),
            self.failed.eq(deaf | unheard),
        ]
        if c.keepalive_cycles:
            silence = Signal(range(c.keepalive_cycles + 1))
            m.d.comb += quiet.eq(silence == c.keepalive_cycles)
            with m.If(frames.match | frames.numbered | quiet | probing | ~self.up):
                m.d.sync += silence.eq(0)
            with m.Else():
                m.d.sync += silence.eq(silence + 1)
        with m.If(question):
            m.d.sync += [mark.eq(came.first), unheard.eq(~came.heard)]
        with m.If(frames.load):
            m.d.sync += [deaf.eq(0), unheard.eq(0), probing.eq(0), tries.eq(0)]
        with m.Elif(answered):
            m.d.sync += [
                deaf.eq(0), unheard.eq(~came.heard), probing.eq(0), tries.eq(0),
                asked.eq(asked + 1),
            ]
        with m.Elif(self.stuck):
            m.d.sync += deaf.eq(1)
        with m.Elif(quiet):
            m.d.sync += [probing.eq(1), tries.eq(0)]
        with m.Elif(expired & before):
            with m.If(tries == c.tries):
                m.d.sync += deaf.eq(1)
            with m.Else():
                m.d.sync += tries.eq(tries + 1)
        m.d.comb += waits.eq(~self.up | probing)
        return asked, mark, (self.stuck | quiet | expired) & frames.joined, question

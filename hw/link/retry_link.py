# SPDX-License-Identifier: Apache-2.0
"""Both halves of an end of a link with retry."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.params import FieldError, require_type
from hw.link.retry_frame import RetryConfig, RetryFormat
from hw.link.retry_receiver import RetryReceiver, arrived_layout
from hw.link.retry_sender import FrameWriteSignature, RetrySender, wire_layout
from hw.link.retry_session import RetrySession

__all__ = ["RETRY_COUNTS", "RETRY_STATUS", "RetryLink"]

RETRY_COUNTS = {name: Out(32) for name in ("resent", "damaged", "repeated")}
"""Members of a component that counts the events of these names of all its links."""

RETRY_STATUS = ("up", "failed", "restarted", *RETRY_COUNTS)
"""Status bits of an end."""


class RetryLink(wiring.Component):
    """One end of a link over which every frame arrives once, in order, whatever the wire does.

    The wire may lose, repeat and change frames and parts of them, and delay copies of them: those
    of numbered frames by less than it takes to send half of the numbers, others at will. After a
    reset of this end, nothing that was on the wire before may come later than ``timeout_cycles``.

    Parameters
    ----------
    format : RetryFormat
    config : RetryConfig

    Members
    -------
    frame : ``In(FrameWriteSignature(format))``
        Frames to be sent.
    o : ``Out(stream.Signature(arrived_layout(format)))``
        Frames that have come.
    freed : ``In(1).array(classes)``, credits : ``Out(format.credits)``
        A credit to be sent; credits that have come.
    tx : ``Out(stream.Signature(wire_layout(width)))``
        To the wire.
    rx : ``In(stream.Signature(wire_layout(width), always_ready=True))``
        From the wire.
    up : ``Out(1)``
        Frames are sent.
    failed : ``Out(1)``
        There was a session, and one end does not hear the other any more.
    restarted : ``Out(1)``
        Event: the peer was reset, and a new session has begun. What it had is lost; all that this
        end had not seen acknowledged is sent again.
    resent, damaged, repeated : ``Out(1)``
        Events: a frame is repeated; one arrived damaged; one arrived again.
    idle : ``Out(1)``
        Nothing is held that the peer has not acknowledged, nothing is to be delivered or sent.
    """

    frame: Any
    o: Any
    freed: Any
    credits: Any
    tx: Any
    rx: Any
    up: Signal
    failed: Signal
    restarted: Signal
    resent: Signal
    damaged: Signal
    repeated: Signal
    idle: Signal

    def __init__(self, format: RetryFormat, config: RetryConfig) -> None:
        self._format = require_type("RetryLink format", format, RetryFormat)
        self._config = require_type("RetryLink config", config, RetryConfig)
        if 2 * config.slots > 1 << format.sequence:
            raise FieldError(
                "slots", f"must be at most half of the {1 << format.sequence} numbers of frames, "
                f"not {config.slots!r}"
            )
        super().__init__(
            {
                "frame": In(FrameWriteSignature(format)),
                "o": Out(stream.Signature(arrived_layout(format))),
                "freed": In(1).array(format.classes),
                "credits": Out(format.credits),
                "tx": Out(stream.Signature(wire_layout(format.width))),
                "rx": In(stream.Signature(wire_layout(format.width), always_ready=True)),
                "up": Out(1),
                "failed": Out(1),
                "restarted": Out(1),
                "resent": Out(1),
                "damaged": Out(1),
                "repeated": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.sender = sender = RetrySender(self._format, self._config)
        m.submodules.receiver = receiver = RetryReceiver(self._format, self._config)
        m.submodules.session = session = RetrySession(self._format, self._config)
        connect(m, flipped(self.frame), sender.frame)
        connect(m, sender.tx, flipped(self.tx))
        connect(m, flipped(self.rx), receiver.rx)
        connect(m, receiver.o, flipped(self.o))
        connect(m, receiver.news, sender.news)
        connect(m, session.frames, receiver.session)
        connect(m, session.reply, sender.notice)
        m.d.comb += [
            *(inner.eq(outer) for inner, outer in zip(sender.freed, self.freed, strict=True)),
            self.credits.eq(receiver.credits),
            sender.joined.eq(session.frames.joined),
            sender.up.eq(session.up),
            sender.mine.eq(session.frames.mine),
            sender.peer.eq(session.frames.peer),
            session.stuck.eq(sender.stuck),
            self.up.eq(session.up),
            self.failed.eq(session.failed),
            self.restarted.eq(session.restarted),
            self.resent.eq(sender.resent),
            self.damaged.eq(receiver.damaged),
            self.repeated.eq(receiver.repeated),
            self.idle.eq(sender.idle & receiver.idle),
        ]
        return m

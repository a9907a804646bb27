# SPDX-License-Identifier: Apache-2.0
"""Beats of a packed link in frames with retry."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_choice, require_type
from hw.link.packet import FLIT_BITS, link_beat_layout
from hw.link.retry_frame import KIND_BITS, RetryConfig, RetryFormat
from hw.link.retry_link import RETRY_STATUS, RetryLink

__all__ = ["BeatFormat", "BeatRetry", "beat_format", "frame_beats"]

_BEATS = 1
"""Kind of frame."""
_MARKS = 64
_MOST_BEATS = 16


@dataclass(frozen=True, kw_only=True)
class BeatFormat(RetryFormat):
    """Frames of up to ``flits`` beats of a link, each a body flit; the content says the rest."""

    @property
    def link_flits(self) -> int:
        """Flits of 16 bytes per beat."""
        return self.width // FLIT_BITS

    @property
    def beats_layout(self) -> data.StructLayout:
        """The content: beats, flits of the last one, and a bit per flit: it is a header."""
        return data.StructLayout(
            {
                "kind": KIND_BITS,
                "beats": 5,
                "last": 4,
                "marks": data.ArrayLayout(self.link_flits, self.flits),
            }
        )

    def length_of(self, content: Value) -> Value:
        bits = Value.cast(content)
        return Mux(bits[:KIND_BITS] == _BEATS, bits[KIND_BITS : KIND_BITS + 5], 0)


def beat_format(flits: int) -> BeatFormat:
    """Frames for a link with beats of so many flits of 16 bytes: 1, 2, 4 or 8.

    A frame is a beat longer than what is in it: 16 beats, and 8 of eight flits.
    """
    require_choice("flits per beat", flits, (1, 2, 4, 8))
    return BeatFormat(
        width=FLIT_BITS * flits, flits=min(_MOST_BEATS, _MARKS // flits), classes=1, credit=3
    )


def frame_beats(flits: int) -> int:
    """Beats of the longest frame of a link of so many flits per beat, its header among them."""
    return 1 + beat_format(flits).flits


class BeatRetry(wiring.Component):
    """Stands between a port of a packed link and the wire, and makes the wire reliable.

    Beats of the port travel in frames: a beat with the header, then up to 16 as they are. A frame
    ends when it is full, with a beat that is not full, and when nothing follows while the wire has
    nothing to do. What the port sees of it is latency: the length of a frame twice, and 10 cycles.

    Parameters
    ----------
    flits : int
        Flits of 16 bytes per beat: 1, 2, 4 or 8.
    config : RetryConfig

    Members
    -------
    i : ``In(stream.Signature(link_beat_layout(flits)))``, credit : ``Out(1)``
        What the port sends, and credits for it.
    o : ``Out(stream.Signature(link_beat_layout(flits)))``, freed : ``In(1)``
        What the port receives, and the credits that it gives.
    tx : ``Out(stream.Signature(link_beat_layout(flits)))``
        To the wire; only headers of frames are marked.
    rx : ``In(stream.Signature(link_beat_layout(flits), always_ready=True))``
        From the wire, likewise.
    up, failed, restarted, resent, damaged, repeated, idle : ``Out(1)``
        As of `RetryLink`.
    """

    i: Any
    credit: Signal
    o: Any
    freed: Signal
    tx: Any
    rx: Any
    up: Signal
    failed: Signal
    restarted: Signal
    resent: Signal
    damaged: Signal
    repeated: Signal
    idle: Signal

    def __init__(self, flits: int, config: RetryConfig) -> None:
        self._format = beat_format(flits)
        self._config = require_type("BeatRetry config", config, RetryConfig)
        beat = link_beat_layout(flits)
        super().__init__(
            {
                "i": In(stream.Signature(beat)),
                "credit": Out(1),
                "o": Out(stream.Signature(beat)),
                "freed": In(1),
                "tx": Out(stream.Signature(beat)),
                "rx": In(stream.Signature(beat, always_ready=True)),
                **dict.fromkeys((*RETRY_STATUS, "idle"), Out(1)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.link = link = RetryLink(self._format, self._config)
        open_frame = self._send(m, link)
        held = self._receive(m, link)
        tx, rx = self.tx, self.rx
        first = link.tx.p.start
        m.d.comb += [
            tx.valid.eq(link.tx.valid),
            Value.cast(tx.p.data).eq(link.tx.p.data),
            tx.p.keep.eq(Mux(first, 1, (1 << len(tx.p.keep)) - 1)),
            tx.p.start.eq(first),
            link.tx.ready.eq(tx.ready),
            link.rx.valid.eq(rx.valid),
            link.rx.p.data.eq(Value.cast(rx.p.data)),
            link.rx.p.start.eq(rx.p.start[0]),
            *(getattr(self, name).eq(getattr(link, name))
              for name in RETRY_STATUS),
            self.idle.eq(link.idle & ~open_frame & ~held),
        ]
        return m

    def _send(self, m: Module, link: RetryLink) -> Value:
        """Pack beats of the port into frames; return whether one is open."""
        f, i, frame = self._format, self.i, link.frame
        content = Signal(f.beats_layout)
        marks = Signal(f.beats_layout["marks"].shape)
        count = Signal(range(f.flits + 1))  # beats of the open frame
        taken = Signal()
        ends = Signal()
        whole = i.p.keep.all()
        m.d.comb += [
            i.ready.eq(frame.room),
            taken.eq(i.valid & i.ready),
            ends.eq(
                Mux(taken, ~whole | (count == f.flits - 1),
                    ~i.valid & frame.room & (count != 0) & ~frame.waits)
            ),
            frame.soon.eq(i.valid | (count != 0)),
            frame.write.eq(taken),
            frame.fresh.eq(count == 0),
            frame.data.eq(Value.cast(i.p.data)),
            frame.commit.eq(ends),
            frame.content.eq(content),
            content.kind.eq(_BEATS),
            content.beats.eq(count + taken),
            content.last.eq(
                Mux(taken, sum((i.p.keep[n] for n in range(f.link_flits)), start=Signal(1)),
                    f.link_flits)
            ),
        ]
        for n in range(f.flits):
            own = taken & (count == n)
            m.d.comb += content.marks[n].eq(Mux(own, i.p.start, marks[n]))
        with m.If(ends):
            m.d.sync += [count.eq(0), Value.cast(marks).eq(0)]
        with m.Elif(taken):
            m.d.sync += [count.eq(count + 1), marks.eq(content.marks)]
        m.d.comb += link.freed[0].eq(self.freed)
        return count != 0

    def _receive(self, m: Module, link: RetryLink) -> Value:
        """Unpack frames into beats for the port; return whether credits for it are held."""
        f, o, came = self._format, self.o, link.o
        content = Signal(f.beats_layout)
        marks = Signal(f.beats_layout["marks"].shape)
        last = Signal(4)
        every = (1 << f.link_flits) - 1
        m.d.comb += [
            Value.cast(content).eq(came.p.content),
            o.valid.eq(came.valid & ~came.p.first),
            Value.cast(o.p.data).eq(came.p.data),
            o.p.keep.eq(Mux(came.p.last, Cat(last > n for n in range(f.link_flits)), every)),
            o.p.start.eq(marks[0]),
            came.ready.eq(o.ready | came.p.first),
        ]
        with m.If(came.valid & came.p.first):
            m.d.sync += [marks.eq(content.marks), last.eq(content.last)]
        with m.Elif(came.valid & came.ready):
            m.d.sync += Value.cast(marks).eq(Value.cast(marks) >> f.link_flits)
        owed = Signal(8)
        m.d.comb += self.credit.eq(owed != 0)
        m.d.sync += owed.eq(owed + link.credits[0] - self.credit)
        return owed != 0

# SPDX-License-Identifier: Apache-2.0
"""Checks frames and keeps the payload of good ones."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from hw.common.fifo import StreamFIFO
from hw.common.sram import buffer_rows
from hw.smartnic.config import HEADER_BYTES, SmartNicConfig
from hw.smartnic.layouts import (
    COUNT_BITS,
    ETHERTYPE,
    SEQUENCE_BITS,
    VERSION,
    Contract,
    FrameKind,
    HeaderLayout,
    Heard,
    net_layout,
    wire_layout,
)
from hw.smartnic.sides import NetworkSide

__all__ = ["Receive", "ReceiveBuffer", "Verdict"]


_FLOWS = FrameKind.REDUCE, FrameKind.GATHER


class Verdict(data.Struct):
    """Verdicts on frames in this cycle, one bit each."""

    accepted: 1  # data
    control: 1  # credit or abort
    foreign: 1  # another EtherType, version or kind, or other addresses
    stale: 1  # of another epoch, or it came in part during an abort
    length: 1  # length differs from the header's, or the MAC says that it is damaged
    repeated: 1  # sequence number of an earlier frame
    gap: 1  # an earlier frame is missing
    overflow: 1  # more than the buffer holds: the sender does not obey the credits


class ReceiveBuffer(wiring.Component):
    """Memory for *depth* beats whose frames count only once they are committed.

    Latency from commit to `o` is 3 cycles; throughput is 1 beat per cycle. Block RAM answers late,
    so beats pass a short queue between it and `o`; their rows are free when they leave there.

    Parameters
    ----------
    shape : shape-like
        Of a beat.
    depth : int
    kept : bool or tuple of str
        What of a beat the queue keeps in rows alone, see `StreamFIFO`.

    Members
    -------
    beat : ``In(shape)``, write : ``In(1)``
        A beat of the present frame; has no effect while `full`.
    commit, drop : ``In(1)``
        The frame, including the beat written in this cycle, is good, or never was.
    full : ``Out(1)``
        No row is free.
    o : ``Out(stream.Signature(shape))``
        Beats of committed frames.
    """

    beat: Any
    write: Signal
    commit: Signal
    drop: Signal
    full: Signal
    o: stream.Interface

    def __init__(
        self, shape: Any, depth: int, *, kept: bool | tuple[str, ...] = True
    ) -> None:
        self._depth = depth
        self._kept = kept
        self._shape = shape
        super().__init__(
            {
                "beat": In(shape),
                "write": In(1),
                "commit": In(1),
                "drop": In(1),
                "full": Out(1),
                "o": Out(stream.Signature(shape)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        depth = self._depth
        held = Signal(range(depth + 1))  # rows with beats that have not passed to the queue
        good = Signal.like(held)  # of them those of committed frames
        pending = Signal()  # some are of the present frame
        is_full = Signal()
        free = Signal(range(depth))
        start = Signal(range(depth))  # of the present frame
        first = Signal(range(depth))
        after_first = Signal(range(depth), init=1 % depth)
        wrote = Signal()
        shown = Signal()  # the row that was read last is the next beat
        pop = Signal()
        m.submodules.queue = queue = StreamFIFO(
            self._shape, 3, memory=False, kept=self._kept
        )
        connect(m, queue.o, flipped(self.o))
        after_free = Signal(range(depth))
        m.d.comb += [
            self.full.eq(is_full),
            wrote.eq(self.write & ~is_full),
            pop.eq(shown & queue.i.ready),
            after_free.eq(Mux(free == depth - 1, 0, free + 1)),
            queue.i.valid.eq(shown),
        ]
        m.d.comb += Value.cast(queue.i.payload).eq(
            buffer_rows(
                m, depth, Value.cast(self.beat), write=wrote, free=free,
                row=Mux(pop, after_first, first), read=pop | ~shown,
            )
        )
        # Sums of what is known early, chosen by what is known late: a verdict, a beat that leaves.
        left, grown = Signal.like(held), Signal.like(held)
        dropped, leaves, fills = Signal(), Signal(), Signal()
        m.d.comb += [
            left.eq(Mux(pop, good - 1, good)),
            grown.eq(Mux(wrote == pop, held, Mux(wrote, held + 1, held - 1))),
            dropped.eq(self.drop & ~self.commit),
            leaves.eq(self.o.valid & self.o.ready),
            fills.eq((held + queue.level == depth - 1) & wrote),
        ]
        m.d.sync += [
            shown.eq(good != pop),
            good.eq(Mux(self.commit, grown, left)),
            held.eq(Mux(dropped, left, grown)),
            pending.eq((pending | wrote) & ~self.commit & ~self.drop),
            is_full.eq(Mux(dropped, is_full & ~pending, is_full | fills) & ~leaves),
        ]
        with m.If(pop):
            m.d.sync += [
                first.eq(after_first),
                after_first.eq(Mux(after_first == depth - 1, 0, after_first + 1)),
            ]
        with m.If(wrote):
            m.d.sync += free.eq(after_free)
        with m.If(self.commit):
            m.d.sync += start.eq(Mux(wrote, after_free, free))
        with m.Elif(self.drop):
            m.d.sync += free.eq(start)
        return m


class Receive(NetworkSide):
    """One AXI4-Stream of frames to two flows.

    `net` is always ready: a MAC cannot hold back the wire. A frame is delivered after its last
    beat, and only if everything about it is right; otherwise nothing of it is. Latency is 6 cycles
    from the last beat of a frame to its first beat at a flow: one to take it, one to judge it, one
    for the verdict. Throughput is 1 beat per cycle, headers included.

    Parameters
    ----------
    config : SmartNicConfig

    Members
    -------
    net : ``In(stream.Signature(net_layout(config), always_ready=True))``
        Frames from the network.
    epoch : ``In(32)``
        Frames of other epochs are dropped.
    heard : ``Out(Heard)``
        What came, 2 cycles after its last beat, also during a flush.
    contract : ``Out(stream.Signature(Contract, always_ready=True))``
        Of an all-reduce whose first frame has come.
    verdict : ``Out(Verdict)``
        Verdicts on frames, for the counters.
    idle : ``Out(1)``
        Nothing is held, no frame is under way.

    And those of `NetworkSide`.
    """

    heard: Any
    verdict: Any

    def __init__(self, config: SmartNicConfig) -> None:
        super().__init__(
            config,
            flow=Out,
            wire=wire_layout(config),
            net=In(stream.Signature(net_layout(config), always_ready=True)),
            heard=Out(Heard),
            contract=Out(stream.Signature(Contract, always_ready=True)),
            verdict=Out(Verdict),
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        buffers = []
        for flow, port in enumerate((self.reduce, self.gather)):
            buffer = ReceiveBuffer(wire_layout(c), c.receive_beats, kept=("data",))
            m.submodules[f"buffer_{flow}"] = ResetInserter(self.flush)(buffer)
            connect(m, buffer.o, flipped(port))
            buffers.append(buffer)
            with m.If(port.valid & port.ready):
                m.d.sync += self.freed[flow].eq(self.freed[flow] + 1)
        frame = _Frame(c)
        m.d.sync += [frame.valid.eq(self.net.valid), frame.beat.eq(self.net.payload)]
        with m.If(frame.valid):
            m.d.sync += frame.start.eq(frame.beat.last)
        self._read_header(m, frame)
        self._measure(m, frame)
        sequence = self._judge(m, frame, buffers)
        self._deliver(m, frame, buffers, sequence)
        held = Cat(port.valid for port in (self.reduce, self.gather)).any()
        m.d.comb += self.idle.eq(~frame.valid & ~frame.ended & frame.start & ~held)
        with m.If(self.flush):
            m.d.sync += [
                *(each.eq(0) for each in sequence),
                *(self.freed[f].eq(0) for f in range(2)),
                *(self.peer_freed[f].eq(0) for f in range(2)),
            ]
        return m

    def _read_header(self, m: Module, frame: "_Frame") -> None:
        """Decode the header, and keep it for the other beats of the frame."""
        now, kept = frame.now, frame.kept
        m.d.comb += frame.header.eq(Mux(frame.start, now.as_value(), kept.as_value()))
        kind = now.kind.as_value()
        wrong = [now.version != VERSION, ~Cat(kind == each.value for each in FrameKind).any()]
        if self._config.ethernet:
            sources = (now.source != self.preceding, now.source != self.following)
            wrong += [
                now.ethertype != (ETHERTYPE >> 8 | (ETHERTYPE & 0xFF) << 8),
                now.destination != self.here,
                Mux(_back(kind), sources[1], sources[0]),
            ]
        with m.If(frame.valid & frame.start):
            m.d.sync += [
                kept.eq(now),
                frame.foreign.eq(Cat(*wrong).any()),
                *(frame.mine[f].eq(kind == flow.value) for f, flow in enumerate(_FLOWS)),
            ]

    def _measure(self, m: Module, frame: "_Frame") -> None:
        """Measure the frame up to this beat, and note whether a beat of it was odd or flushed."""
        odd = Signal()
        cut = Signal()
        m.d.comb += [
            frame.odd.eq(~frame.beat.keep.all() | frame.beat.error | (odd & ~frame.start)),
            frame.cut.eq(self.flush | (cut & ~frame.start)),
        ]
        with m.If(frame.valid):
            m.d.sync += [odd.eq(frame.odd), cut.eq(frame.cut)]
            # Compared a beat ahead, so that no verdict waits for it.
            length_bits = exact_log2(self._config.bus_bytes)
            with m.If(frame.start):
                m.d.sync += [
                    frame.place.eq(1),
                    frame.fits.eq(frame.now.payload_bytes == 1 << length_bits),
                ]
            with m.Elif(frame.place != self._config.frame_beats + 2):
                after = frame.place + 1
                m.d.sync += [
                    frame.place.eq(after),
                    frame.fits.eq(frame.kept.payload_bytes == after << length_bits),
                ]

    def _judge(self, m: Module, frame: "_Frame", buffers: list[ReceiveBuffer]) -> list[Signal]:
        """Judge the frame with its last beat: whatever it is compared with side by side, what
        excludes what a cycle later. Return the sequence numbers expected next."""
        c = self._config
        now, kept, kind = frame.now, frame.kept, frame.header.kind.as_value()
        found: Any = Signal(Verdict)  # for a sound frame of this epoch
        judging, sound, stale, credited = Signal(), Signal(), Signal(), Signal()
        sequence = [Signal(SEQUENCE_BITS, name=f"sequence_{f}") for f in range(2)]
        expected, ahead = Signal(SEQUENCE_BITS), Signal(SEQUENCE_BITS)
        overflow = Signal()
        spilled = Signal()
        full = Mux(frame.flow, buffers[1].full, buffers[0].full)
        # A data frame of one beat has a wrong length: numbers are compared of headers kept.
        m.d.comb += [
            expected.eq(Mux(frame.flow, sequence[1], sequence[0])),
            ahead.eq(kept.sequence - expected),
            spilled.eq(~frame.start & (overflow | full)),
        ]
        with m.If(frame.valid):
            m.d.sync += overflow.eq(spilled & ~frame.beat.last)
        whole = frame.valid & frame.beat.last
        judges = whole & ~self.flush
        of_flow = judges & ~frame.start & frame.mine.any()
        # Not a comparison: synthesis would take the difference above for it, with its carry.
        differs = (kept.sequence ^ expected).any()
        is_data = (kind == FrameKind.REDUCE.value) | (kind == FrameKind.GATHER.value)
        wrong_length = (
            frame.odd
            | Mux(frame.start, now.payload_bytes != 0, ~frame.fits)
            | (is_data & (frame.start | (frame.place > c.frame_beats)))
        )
        other_epoch = Mux(frame.start, now.epoch != self.epoch, kept.epoch != self.epoch)
        m.d.sync += [
            frame.ended.eq(whole),
            judging.eq(judges),
            sound.eq(whole & ~wrong_length),
            stale.eq(other_epoch | (frame.cut & is_data)),
            credited.eq(judges & (kind == FrameKind.CREDIT.value)),
            found.repeated.eq(of_flow & ahead[-1]),
            found.gap.eq(of_flow & ~ahead[-1] & differs),
            found.overflow.eq(of_flow & ~differs & spilled),
            found.accepted.eq(of_flow & ~differs & ~spilled),
        ]

        # ---- A cycle later it is also known whether the addresses are ours.
        verdict, ours = self.verdict, ~frame.foreign
        tells = _tells(kept.kind.as_value())
        fresh = sound & ~stale & ours
        m.d.comb += [
            *(
                verdict[name].eq(found[name] & fresh)
                for name in ("repeated", "gap", "overflow", "accepted")
            ),
            verdict.control.eq((judging & sound & ours & tells) | (credited & fresh)),
            verdict.stale.eq(judging & sound & stale & ours & ~tells),
            verdict.length.eq(judging & ~sound & ours),
            verdict.foreign.eq(judging & frame.foreign),
            self.heard.valid.eq(sound & ours),
            self.heard.back.eq(_back(kept.kind.as_value())),
            self.heard.abort.eq(tells),
            self.heard.wanted.eq(kept.wanted),
            self.heard.fresh.eq(kept.start),
            self.heard.epoch.eq(kept.epoch),
            Value.cast(self.heard.cause).eq(kept.detail),
            self.heard.rank.eq(kept.rank),
        ]
        with m.If(credited & fresh):
            m.d.sync += [
                self.peer_freed[0].eq(kept.detail[:COUNT_BITS]),
                self.peer_freed[1].eq(kept.detail[COUNT_BITS:]),
            ]
        return sequence

    def _deliver(
        self, m: Module, frame: "_Frame", buffers: list[ReceiveBuffer], sequence: list[Signal]
    ) -> None:
        """Write the payload into the buffer of its flow; commit or drop it with the verdict."""
        beat, verdict, kept = frame.beat, self.verdict, frame.kept
        contract = self.contract.p
        m.d.comb += [
            self.contract.valid.eq(verdict.accepted & kept.start),
            contract.elements.eq(kept.detail),
            *(contract[n].eq(kept[n]) for n in ("tag", "coding", "last_rank", "rank")),
            Value.cast(contract.op).eq(kept.op),
        ]
        payload = frame.valid & ~frame.start & (frame.place <= self._config.frame_beats)
        for f, buffer in enumerate(buffers):
            mine = frame.mine[f]
            m.d.comb += [
                buffer.beat.data.eq(beat.data),
                buffer.beat.last.eq(beat.last & kept.block_end),
                buffer.beat.bad.eq(kept.poison),
                buffer.write.eq(payload & mine),
                buffer.commit.eq(verdict.accepted & mine),
                buffer.drop.eq(frame.ended & mine & ~verdict.accepted),
            ]
            with m.If(buffer.commit):
                m.d.sync += sequence[f].eq(sequence[f] + 1)


def _back(kind: Value) -> Value:
    """True for kinds of frames that come from the next node."""
    return (kind == FrameKind.CREDIT.value) | (kind == FrameKind.RECALL.value)


def _tells(kind: Value) -> Value:
    """True for kinds of frames that tell of an abort."""
    return (kind == FrameKind.ABORT.value) | (kind == FrameKind.RECALL.value)


class _Frame:
    """The beat under examination, and what is known of its frame."""

    def __init__(self, c: SmartNicConfig) -> None:
        self.valid = Signal()
        beat: Any = Signal(net_layout(c))
        self.beat = beat
        self.start = Signal(init=1)  # it is the first of its frame
        self.now = data.View(HeaderLayout, beat.data[: 8 * HEADER_BYTES])  # and has a header
        # Kinds are compared as numbers: the value may be none of them.
        kept: Any = Signal(HeaderLayout)
        self.kept = kept  # of the last frame whose first beat has passed
        self.header: Any = Signal(HeaderLayout)
        self.mine = Signal(2)  # it is of this flow
        self.flow = self.mine[1]
        self.foreign = Signal()  # the frame of `kept` is
        self.ended = Signal()  # the last beat of a frame was examined in the cycle before
        self.place = Signal(range(c.frame_beats + 3))  # in the payload from 1 on, of a later beat
        self.fits = Signal()  # its header has the length up to a beat at `place`
        self.odd = Signal()  # a beat of the frame, up to this one, was incomplete or damaged
        self.cut = Signal()  # an abort here has taken a beat of the frame

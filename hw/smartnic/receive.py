"""Checks frames and keeps the payload of good ones."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

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

    Latency from commit to `o` is 2 cycles; throughput is 1 beat per cycle.

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

    def __init__(self, shape: Any, depth: int) -> None:
        self._depth = depth
        self._width = Shape.cast(shape).width
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
        used = Signal(range(depth + 1))  # rows that are not free
        good = Signal(range(depth + 1))  # rows of committed frames
        pending = Signal(range(depth + 1))  # rows of the present frame
        free = Signal(range(depth))
        start = Signal(range(depth))  # of the present frame
        first = Signal(range(depth))
        after_first = Signal(range(depth))
        wrote = Signal()
        pop = Signal()
        after_free = Signal(range(depth))
        m.d.comb += [
            self.full.eq(used == depth),
            wrote.eq(self.write & ~self.full),
            pop.eq(self.o.valid & self.o.ready),
            after_first.eq(Mux(first == depth - 1, 0, first + 1)),
            after_free.eq(Mux(free == depth - 1, 0, free + 1)),
        ]
        m.d.comb += Value.cast(self.o.payload).eq(
            buffer_rows(
                m, depth, Value.cast(self.beat), write=wrote, free=free,
                row=Mux(pop, after_first, first), read=pop | ~self.o.valid,
            )
        )
        m.d.sync += [
            self.o.valid.eq(good != pop),
            good.eq(good - pop),
            used.eq(used + wrote - pop),
            pending.eq(pending + wrote),
        ]
        with m.If(pop):
            m.d.sync += first.eq(after_first)
        with m.If(wrote):
            m.d.sync += free.eq(after_free)
        with m.If(self.commit):
            m.d.sync += [
                good.eq(good + pending + wrote - pop),
                pending.eq(0),
                start.eq(Mux(wrote, after_free, free)),
            ]
        with m.Elif(self.drop):
            m.d.sync += [used.eq(used - pending - pop), pending.eq(0), free.eq(start)]
        return m


class Receive(NetworkSide):
    """One AXI4-Stream of frames to two flows.

    `net` is always ready: a MAC cannot hold back the wire. A frame is delivered after its last
    beat, and only if everything about it is right; otherwise nothing of it is. Latency is 4 cycles
    from the last beat of a frame to its first beat at a flow. Throughput is 1 beat per cycle,
    headers included.

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
        What came in this cycle, also during a flush.
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
            buffer = ReceiveBuffer(wire_layout(c), c.receive_beats)
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
        m.d.comb += self.idle.eq(~frame.valid & frame.start & ~held)
        with m.If(self.flush):
            m.d.sync += [
                *(each.eq(0) for each in sequence),
                *(self.freed[f].eq(0) for f in range(2)),
                *(self.peer_freed[f].eq(0) for f in range(2)),
            ]
        return m

    def _read_header(self, m: Module, frame: "_Frame") -> None:
        """Decode the header, and keep it for the other beats of the frame."""
        now = data.View(HeaderLayout, frame.beat.data[: 8 * HEADER_BYTES])
        kept: Any = Signal(HeaderLayout)
        kept_foreign = Signal()
        header = frame.header
        m.d.comb += header.eq(Mux(frame.start, now.as_value(), kept.as_value()))
        known = Cat(frame.kind == each.value for each in FrameKind)
        wrong = [header.version != VERSION, ~known.any()]
        back = (frame.kind == FrameKind.CREDIT.value) | (frame.kind == FrameKind.RECALL.value)
        m.d.comb += frame.back.eq(back)
        if self._config.ethernet:
            wrong += [
                header.ethertype != (ETHERTYPE >> 8 | (ETHERTYPE & 0xFF) << 8),
                header.destination != self.here,
                header.source != Mux(back, self.following, self.preceding),
            ]
        m.d.comb += frame.foreign.eq(Mux(frame.start, Cat(*wrong).any(), kept_foreign))
        with m.If(frame.valid & frame.start):
            m.d.sync += [kept.eq(now), kept_foreign.eq(frame.foreign)]

    def _measure(self, m: Module, frame: "_Frame") -> None:
        """Measure the frame up to this beat, and note whether a beat of it was odd or flushed."""
        c = self._config
        odd = Signal()
        cut = Signal()
        length = Mux(frame.start, 0, frame.beats + 1)
        m.d.comb += [
            frame.odd.eq(~frame.beat.keep.all() | frame.beat.error | (odd & ~frame.start)),
            frame.cut.eq(self.flush | (cut & ~frame.start)),
            frame.length_bytes.eq(length << exact_log2(c.bus_bytes)),
        ]
        with m.If(frame.valid):
            m.d.sync += [odd.eq(frame.odd), cut.eq(frame.cut)]
            with m.If(frame.start):
                m.d.sync += frame.beats.eq(0)
            with m.Elif(frame.beats != c.frame_beats + 1):
                m.d.sync += frame.beats.eq(frame.beats + 1)

    def _judge(self, m: Module, frame: "_Frame", buffers: list[ReceiveBuffer]) -> list[Signal]:
        """Judge the frame with its last beat; update the sequence numbers expected next."""
        c = self._config
        header, kind, verdict = frame.header, frame.kind, self.verdict
        sequence = [Signal(SEQUENCE_BITS, name=f"sequence_{f}") for f in range(2)]
        ahead = Signal(SEQUENCE_BITS)
        overflow = Signal()
        spilled = Signal()
        full = Mux(frame.flow, buffers[1].full, buffers[0].full)
        m.d.comb += [
            ahead.eq(header.sequence - Mux(frame.flow, sequence[1], sequence[0])),
            spilled.eq(~frame.start & (overflow | full)),
        ]
        with m.If(frame.valid):
            m.d.sync += overflow.eq(spilled & ~frame.beat.last)
        whole = frame.valid & frame.beat.last
        wrong_length = (
            frame.odd
            | (frame.length_bytes != header.payload_bytes)
            | (frame.is_data & (frame.start | (frame.beats >= c.frame_beats)))
        )
        abort = (kind == FrameKind.ABORT.value) | (kind == FrameKind.RECALL.value)
        m.d.comb += [
            self.heard.valid.eq(whole & ~frame.foreign & ~wrong_length),
            self.heard.back.eq(frame.back),
            self.heard.abort.eq(abort),
            self.heard.wanted.eq(header.wanted),
            self.heard.fresh.eq(header.start),
            self.heard.epoch.eq(header.epoch),
            Value.cast(self.heard.cause).eq(header.detail),
            self.heard.rank.eq(header.rank),
        ]
        with m.If(whole & ~self.flush):
            with m.If(frame.foreign):
                m.d.comb += verdict.foreign.eq(1)
            with m.Elif(wrong_length):
                m.d.comb += verdict.length.eq(1)
            with m.Elif(abort):
                m.d.comb += verdict.control.eq(1)
            with m.Elif((header.epoch != self.epoch) | (frame.cut & frame.is_data)):
                m.d.comb += verdict.stale.eq(1)
            with m.Elif(kind == FrameKind.CREDIT.value):
                m.d.comb += verdict.control.eq(1)
                m.d.sync += [
                    self.peer_freed[0].eq(header.detail[:COUNT_BITS]),
                    self.peer_freed[1].eq(header.detail[COUNT_BITS:]),
                ]
            with m.Elif(ahead[-1]):
                m.d.comb += verdict.repeated.eq(1)
            with m.Elif(ahead != 0):
                m.d.comb += verdict.gap.eq(1)
            with m.Elif(spilled):
                m.d.comb += verdict.overflow.eq(1)
            with m.Else():
                m.d.comb += verdict.accepted.eq(1)
        return sequence

    def _deliver(
        self, m: Module, frame: "_Frame", buffers: list[ReceiveBuffer], sequence: list[Signal]
    ) -> None:
        """Write the payload into the buffer of its flow; commit or drop it with the last beat."""
        beat, verdict, header = frame.beat, self.verdict, frame.header
        contract = self.contract.p
        m.d.comb += [
            self.contract.valid.eq(verdict.accepted & header.start),
            contract.elements.eq(header.detail),
            *(contract[n].eq(header[n]) for n in ("tag", "coding", "last_rank", "rank")),
            Value.cast(contract.op).eq(header.op),
        ]
        for f, buffer in enumerate(buffers):
            mine = frame.valid & frame.is_data & (frame.flow == f)
            m.d.comb += [
                buffer.beat.data.eq(beat.data),
                buffer.beat.last.eq(beat.last & header.block_end),
                buffer.beat.bad.eq(header.poison),
                buffer.write.eq(
                    mine & ~frame.start & (frame.beats <= self._config.frame_beats - 1)
                ),
                buffer.commit.eq(mine & verdict.accepted),
                buffer.drop.eq(mine & beat.last & ~verdict.accepted),
            ]
            with m.If(buffer.commit):
                m.d.sync += sequence[f].eq(sequence[f] + 1)


class _Frame:
    """The beat under examination, and what is known of its frame."""

    def __init__(self, c: SmartNicConfig) -> None:
        self.valid = Signal()
        self.beat: Any = Signal(net_layout(c))
        self.start = Signal(init=1)  # it is the first of its frame
        header: Any = Signal(HeaderLayout)
        self.header = header
        # Compared as numbers: the value may be none of the kinds.
        self.kind = header.kind.as_value()
        self.flow = self.kind == FrameKind.GATHER.value
        self.is_data = (self.kind == FrameKind.REDUCE.value) | self.flow
        self.foreign = Signal()
        self.back = Signal()  # from the next node
        self.beats = Signal(range(c.frame_beats + 2))  # of payload before it, up to one too many
        self.odd = Signal()  # a beat of the frame, up to this one, was incomplete or damaged
        self.cut = Signal()  # an abort here has taken a beat of the frame
        self.length_bytes = Signal(16)  # of payload, this beat included

# SPDX-License-Identifier: Apache-2.0
"""Cuts the two flows into frames and sends them, as far as the next node has room."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.common.fifo import StreamFIFO
from hw.common.skid import SkidBuffer
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import (
    COUNT_BITS,
    ETHERTYPE,
    SEQUENCE_BITS,
    VERSION,
    AbortCause,
    Contract,
    FrameKind,
    HeaderLayout,
    net_layout,
    send_layout,
)
from hw.smartnic.sides import NetworkSide

__all__ = ["FrameBuilder", "Transmit"]

SHORTEST_FRAME_BYTES = 64
"""Ethernet's least, without which a MAC would add padding that the length does not tell."""


class FrameBuilder(wiring.Component):
    """Transmit queue of one flow: collects beats until a frame is full or its block ends.

    Latency is 2 cycles from the last beat of a frame to `frame` and to its first beat at `o`;
    throughput is 1 beat per cycle. ``i`` stalls while two full frames, or eight of any length, are
    held.

    Parameters
    ----------
    config : SmartNicConfig

    Members
    -------
    i : ``In(stream.Signature(send_layout(config)))``
        Blocks of the flow.
    frame : ``Out(stream.Signature({beats, block_end, bad, start}))``
        A complete frame; ``start`` if it is the first one of an all-reduce, ``bad`` if it ends a
        block that is.
    o : ``Out(stream.Signature(8 * bus_bytes))``
        The beats of the frames, in order.
    """

    i: stream.Interface
    frame: stream.Interface
    o: stream.Interface

    def __init__(self, config: SmartNicConfig) -> None:
        self._config = config
        self._frame = data.StructLayout(
            {"beats": range(config.frame_beats + 1), "block_end": 1, "bad": 1, "start": 1}
        )
        super().__init__(
            {
                "i": In(stream.Signature(send_layout(config))),
                "frame": Out(stream.Signature(self._frame)),
                "o": Out(stream.Signature(8 * config.bus_bytes)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        m.submodules.beats = beats = StreamFIFO(8 * c.bus_bytes, 2 * c.frame_beats, kept=True)
        m.submodules.frames = frames = StreamFIFO(self._frame, 8, memory=False)
        connect(m, beats.o, flipped(self.o))
        connect(m, frames.o, flipped(self.frame))
        collected = Signal(range(c.frame_beats))
        fresh = Signal(init=1)  # no frame of the block is complete
        longest = Mux(self.i.p.compress, c.compressed_frame_beats, c.frame_beats)
        full = collected == longest - 1
        taken = self.i.valid & self.i.ready
        m.d.comb += [
            self.i.ready.eq(beats.i.ready & frames.i.ready),
            beats.i.valid.eq(self.i.valid & frames.i.ready),
            beats.i.payload.eq(self.i.p.data),
            frames.i.valid.eq(taken & (full | self.i.p.last)),
            frames.i.p.beats.eq(collected + 1),
            frames.i.p.block_end.eq(self.i.p.last),
            frames.i.p.bad.eq(self.i.p.last & self.i.p.bad),
            frames.i.p.start.eq(self.i.p.start & fresh),
        ]
        with m.If(frames.i.valid):
            m.d.sync += fresh.eq(self.i.p.last)
        with m.If(taken):
            m.d.sync += collected.eq(Mux(full | self.i.p.last, 0, collected + 1))
        return m


class Transmit(NetworkSide):
    """Two flows to one AXI4-Stream of frames.

    A data frame is sent when the next node's buffer of its flow has room for all of it: room is
    `receive_beats` minus what was sent plus what the next node said it has freed. Frames of both
    flows take turns. Credit frames, to the previous node, go before them, abort frames before
    everything. A frame costs its payload and one beat; frames follow each other
    without a bubble: between two choices of a flow are two cycles, of which one finds out whether
    there is room. Outputs depend on registers only.

    Parameters
    ----------
    config : SmartNicConfig

    Members
    -------
    net : ``Out(stream.Signature(net_layout(config)))``
        Frames to the network.
    contract : ``In(stream.Signature(Contract))``
        Of the all-reduces whose first frames are to be sent; taken with them.
    flush : ``In(1)``
        Hold until `busy` is low: a frame that was begun ends too early or too late, so that nobody
        takes it for a good one.
    busy : ``Out(1)``
        A frame is being sent.
    due, waiting : ``In(2)``
        Send an abort frame to the next node, to the previous one; who is to answer it.
    tell : ``In(1)``
        What is due is the first that they hear of this epoch.
    cause : ``In(AbortCause)``, origin : ``In(8)``
        Of the abort.
    refresh : ``In(1)``
        Send the counts of freed beats again.
    sent_frame, sent_beat, starved : ``Out(1)``
        Data frame begun; beat on the network; a data frame waited for room in this cycle.

    And those of `NetworkSide`.
    """

    busy: Signal
    due: Signal
    waiting: Signal
    tell: Signal
    cause: Any
    origin: Signal
    refresh: Signal
    sent_frame: Signal
    sent_beat: Signal
    starved: Signal

    def __init__(self, config: SmartNicConfig) -> None:
        events = ("busy", "sent_frame", "sent_beat", "starved")
        super().__init__(
            config,
            flow=In,
            wire=send_layout(config),
            net=Out(stream.Signature(net_layout(config))),
            contract=In(stream.Signature(Contract)),
            **dict.fromkeys(("due", "waiting"), In(2)),
            **dict.fromkeys(("tell", "refresh"), In(1)),
            cause=In(AbortCause),
            origin=In(8),
            **dict.fromkeys(events, Out(1)),
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        builders = []
        for name, port in ("reduce", self.reduce), ("gather", self.gather):
            builder = FrameBuilder(c)
            m.submodules[name] = ResetInserter(self.flush)(builder)
            connect(m, flipped(port), builder.i)
            builders.append(builder)
        chosen: Any = Signal(
            data.StructLayout(
                {
                    "header": HeaderLayout,
                    "beats": range(c.frame_beats + 1),
                    "flow": 1,
                    "data": 1,
                }
            )
        )
        chosen_valid = Signal()
        taken = Signal()
        self._choose(m, builders, chosen, chosen_valid, taken)
        self._send(m, builders, chosen, chosen_valid, taken)
        return m

    def _choose(
        self, m: Module, builders: list[FrameBuilder], chosen: Any, chosen_valid: Signal, taken: Any
    ) -> None:
        """Pick the next frame while the present one is being sent."""
        c = self._config
        least_beats = max(0, -(-(SHORTEST_FRAME_BYTES - c.bus_bytes) // c.bus_bytes))
        sent = [Signal(COUNT_BITS, name=f"sent_{flow}") for flow in range(2)]
        told = [Signal(COUNT_BITS, name=f"told_{flow}") for flow in range(2)]
        sequence = [Signal(SEQUENCE_BITS, name=f"sequence_{flow}") for flow in range(2)]
        abort_due = Signal(2)
        again = Signal()  # the counts are to be told although they have not changed
        fits, waits = self._find_room(m, builders, sent)
        telling = Signal()
        credit_due = self._find_credits(m, told, telling)
        turn = Signal()  # the flow that went last
        free = Signal()
        flow = Signal()
        # Frames leave their queues without regard for the choice of headers, which is wider.
        others = abort_due.any() | credit_due | again
        for f, builder in enumerate(builders):
            first = fits[f] & (~fits[1 - f] | (turn != f))
            m.d.comb += builder.frame.ready.eq(free & ~others & first)
        m.d.comb += [
            free.eq(~chosen_valid | taken),
            flow.eq(Mux(fits.all(), ~turn, fits[1])),
            self.starved.eq(free & waits.any() & ~fits.any() & ~credit_due & ~again),
            self.idle.eq(
                ~chosen_valid & ~self.busy & ~abort_due.any()
                & ~Cat(builder.frame.valid for builder in builders).any()
            ),
        ]
        header = chosen.header
        frames = Array(builder.frame.p for builder in builders)
        told_now = Signal(2)
        fresh = Signal(2)
        m.d.sync += [
            abort_due.eq((abort_due & ~told_now) | self.due),
            fresh.eq((fresh & ~told_now) | self.tell.replicate(2)),
        ]
        with m.If(self.refresh):
            m.d.sync += again.eq(1)
        with m.If(free):
            m.d.sync += [
                chosen_valid.eq(abort_due.any() | credit_due | again | fits.any()),
                chosen.beats.eq(least_beats),
                chosen.data.eq(0),
                header.eq(0),
                header.version.eq(VERSION),
                header.payload_bytes.eq(least_beats * c.bus_bytes),
                header.epoch.eq(self.epoch),
            ]
            if c.ethernet:
                m.d.sync += [
                    header.destination.eq(self.following),
                    header.source.eq(self.here),
                    header.ethertype.eq(ETHERTYPE >> 8 | (ETHERTYPE & 0xFF) << 8),
                ]
            with m.If(abort_due.any()):
                m.d.comb += told_now.eq(Mux(abort_due[0], 0b01, 0b10))
                self._tell(m, header, back=~abort_due[0], fresh=fresh)
            with m.Elif(credit_due | again):
                m.d.comb += telling.eq(1)
                m.d.sync += [
                    again.eq(0),
                    header.kind.eq(FrameKind.CREDIT),
                    header.detail.eq(Cat(self.freed[0], self.freed[1])),
                    *(told[f].eq(self.freed[f]) for f in range(2)),
                ]
                if c.ethernet:
                    m.d.sync += header.destination.eq(self.preceding)
            with m.Elif(fits.any()):
                beats = frames[flow].beats
                m.d.comb += self.sent_frame.eq(1)
                m.d.sync += [
                    turn.eq(flow),
                    chosen.data.eq(1),
                    chosen.flow.eq(flow),
                    chosen.beats.eq(beats),
                    header.kind.eq(Mux(flow, FrameKind.GATHER, FrameKind.REDUCE)),
                    header.block_end.eq(frames[flow].block_end),
                    header.poison.eq(frames[flow].bad),
                    header.payload_bytes.eq(beats * c.bus_bytes),
                    header.sequence.eq(Mux(flow, sequence[1], sequence[0])),
                ]
                for f, builder in enumerate(builders):
                    with m.If(builder.frame.ready):
                        m.d.sync += [
                            sent[f].eq(sent[f] + beats),
                            sequence[f].eq(sequence[f] + 1),
                        ]
                with m.If(frames[flow].start):
                    self._offer(m, header)
        with m.If(self.flush):
            m.d.sync += [
                chosen_valid.eq(0),
                again.eq(0),
                *(each.eq(0) for each in (*sent, *told, *sequence)),
            ]

    def _find_room(
        self, m: Module, builders: list[FrameBuilder], sent: list[Signal]
    ) -> tuple[Signal, Signal]:
        """Bit by flow, as it was a cycle ago: a frame has room at the next node; one has none."""
        fits, waits = Signal(2), Signal(2)
        for f, builder in enumerate(builders):
            # Rows that will be free there if this frame is sent: its sign tells, no comparison.
            spare = Signal(COUNT_BITS, name=f"spare_{f}")
            held = sent[f] + builder.frame.p.beats
            room = ~spare[-1]
            stays = builder.frame.valid & ~builder.frame.ready & ~self.flush
            m.d.comb += spare.eq(self._config.receive_beats + self.peer_freed[f] - held)
            m.d.sync += [fits[f].eq(stays & room), waits[f].eq(stays & ~room)]
        return fits, waits

    def _find_credits(self, m: Module, told: list[Signal], telling: Signal) -> Signal:
        """High if, a cycle ago, there was enough to tell the previous node and it was not told."""
        due = Signal(name="credit_due")
        untold = [Signal(COUNT_BITS, name=f"untold_{flow}") for flow in range(2)]
        enough = Cat(each >= self._config.credit_beats for each in untold).any()
        m.d.comb += [untold[f].eq(self.freed[f] - told[f]) for f in range(2)]
        m.d.sync += due.eq(enough & ~telling & ~self.flush)
        return due

    def _tell(self, m: Module, header: Any, *, back: Any, fresh: Signal) -> None:
        """Make the header of an abort frame, to the next node or *back* to the previous one."""
        m.d.sync += [
            header.kind.eq(Mux(back, FrameKind.RECALL, FrameKind.ABORT)),
            header.wanted.eq(Mux(back, self.waiting[1], self.waiting[0])),
            header.start.eq(Mux(back, fresh[1], fresh[0])),
            header.detail.eq(Value.cast(self.cause)),
            header.rank.eq(self.origin),
        ]
        if self._config.ethernet:
            m.d.sync += header.destination.eq(Mux(back, self.preceding, self.following))

    def _offer(self, m: Module, header: Any) -> None:
        """Put the contract of an all-reduce into the header of its first frame."""
        contract = self.contract.p
        m.d.comb += self.contract.ready.eq(1)
        m.d.sync += [
            header.start.eq(1),
            header.detail.eq(contract.elements),
            *(header[n].eq(contract[n]) for n in ("tag", "coding", "last_rank", "rank")),
            header.op.eq(Value.cast(contract.op)),
        ]

    def _send(
        self, m: Module, builders: list[FrameBuilder], chosen: Any, chosen_valid: Signal, taken: Any
    ) -> None:
        """Send header, then payload."""
        c = self._config
        m.submodules.out = out = SkidBuffer(net_layout(c))
        connect(m, out.o, flipped(self.net))
        left = Signal(range(c.frame_beats + 1))  # payload beats to send
        between = Signal(init=1)  # there are none: the next beat is a header
        payload: Any = Signal(data.StructLayout({"flow": 1, "data": 1}))
        there = Signal()
        beats = Array(builder.o.payload for builder in builders)
        ready = out.i.ready
        m.d.comb += [
            out.i.p.keep.eq(-1),
            there.eq(~payload.data | Array(builder.o.valid for builder in builders)[payload.flow]),
            self.busy.eq(~between),
            taken.eq(between & chosen_valid & ready & ~self.flush),
            self.sent_beat.eq(out.i.valid & ready),
        ]
        with m.If(between):
            m.d.comb += [
                out.i.valid.eq(chosen_valid & ~self.flush),
                out.i.p.data.eq(chosen.header.as_value()),
                out.i.p.last.eq(chosen.beats == 0),
            ]
            with m.If(taken):
                m.d.sync += [
                    left.eq(chosen.beats),
                    between.eq(chosen.beats == 0),
                    payload.flow.eq(chosen.flow),
                    payload.data.eq(chosen.data),
                ]
        with m.Else():
            m.d.comb += [
                out.i.valid.eq(there),
                out.i.p.data.eq(Mux(payload.data, beats[payload.flow], 0)),
                out.i.p.last.eq(left == 1),
            ]
            for flow, builder in enumerate(builders):
                m.d.comb += builder.o.ready.eq(ready & payload.data & (payload.flow == flow))
            with m.If(there & ready):
                m.d.sync += [left.eq(left - 1), between.eq(left == 1)]
        with m.If(self.flush):
            # The queues are empty from now on, and of what is left of a frame nobody may make use:
            # its length will not be that of its header.
            after = left - (there & ready)
            m.d.sync += payload.data.eq(0)
            with m.If(payload.data & ~between & (after != 0)):
                m.d.sync += left.eq(Mux(after == 1, 2, 1))

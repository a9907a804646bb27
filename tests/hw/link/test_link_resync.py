# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Unbounded proofs: whatever was lost on a link, both ends agree again after a SYNC and its ACK.

Each end is proved by itself: a receive buffer has forgotten everything when it reports that it is
drained; a transmit port sends nothing between its SYNC and the ACK, and has all credits afterwards.
These are two halves of one proof, for a link keeps the order of packets, and an ACK takes no less
time than the credits that were sent before it.
"""

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from hw.link.packet import PacketFormat, PacketKind
from hw.link.transmit import TransmitPort, queued_header
from tests.hw.common.prover import ever, holds, nth
from tests.hw.link.test_link_proofs import PlainReceiveBuffer

FORMAT = PacketFormat(payload_bytes=16, sequence=2)
SLOTS = 2
QUIET = 10  # cycles in which an end at rest has noticed that it is


def _within(condition, m, name):
    """Whether *condition* holds and has held for `QUIET` cycles."""
    cycles = Signal(range(QUIET + 1), name=name)
    m.d.sync += cycles.eq(Mux(condition, Mux(cycles == QUIET, cycles, cycles + 1), 0))
    return (cycles == QUIET) & condition


class DrainHarness(wiring.Component):
    """A receive buffer, a sender that does anything but is silent after a SYNC, and a consumer.

    One header bit stands for all that makes a header sound. `bad` is high if a credit comes between
    a SYNC and its answer, if the answer comes although a packet is held, or not although none is;
    and if after the answer anything of what was before shows, until something is sent again.
    """

    def __init__(self, buffer):
        self.buffer = buffer
        ones = ("valid", "start", "sound", "control", "ready_kind", "empty", "take", "free")
        super().__init__({**{name: In(1) for name in ones}, "bad": Out(1),
                          "cover_a_packet_is_taken_after_the_second_drain": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.buffer = buffer = self.buffer
        silent = Signal()  # from a SYNC to its answer
        draining = Signal()  # from the cycle after the SYNC was parsed
        fresh = Signal()  # nothing was sent since the answer
        head = Signal(FORMAT.layout)
        is_control = self.control & self.start
        m.d.comb += [
            head.offload.eq(self.sound),
            head.kind.eq(
                Mux(
                    is_control, PacketKind.SYNC,
                    Mux(self.ready_kind, PacketKind.READY, PacketKind.DATA),
                )
            ),
            head.length.eq(Mux(self.empty | self.ready_kind | is_control, 0, 16)),
            buffer.rx.p.data[0].eq(head.as_value()),
            buffer.rx.p.keep.eq(1),
            buffer.rx.p.start.eq(self.start),
            buffer.rx.valid.eq(self.valid & ~silent),
        ]
        sends = buffer.rx.valid & buffer.rx.ready

        header = buffer.header
        pop = header.valid & header.ready
        ready_packet = header.p.kind == PacketKind.READY
        held = Signal(range(SLOTS + 1))  # DATA packets taken and not freed
        m.d.comb += [
            header.ready.eq(self.take),
            buffer.payload.release.eq(self.free & (held != 0)),
            buffer.payload.release_control.eq(pop & ready_packet),
        ]
        m.d.sync += held.eq(held + (pop & ~ready_packet) - buffer.payload.release)

        with m.If(buffer.control.valid):
            m.d.sync += draining.eq(1)
        with m.Elif(buffer.drained):
            m.d.sync += draining.eq(0)
        with m.If(sends & is_control & self.sound):
            m.d.sync += silent.eq(1)
        with m.Elif(buffer.drained):
            m.d.sync += silent.eq(0)
        with m.If(sends):
            m.d.sync += fresh.eq(0)
        with m.Elif(buffer.drained & silent):
            m.d.sync += fresh.eq(1)

        waiting = (held != 0) | header.valid
        shows = Cat(waiting, buffer.credit, buffer.control.valid, buffer.dropped, buffer.drained)
        m.d.comb += self.bad.eq(
            (draining & buffer.credit)
            | (buffer.drained & (waiting | ~draining))
            | _within(silent & ~waiting & ~buffer.drained, m, "late")
            | (fresh & (~buffer.idle | shows.any()))
        )
        m.d.comb += self.cover_a_packet_is_taken_after_the_second_drain.eq(
            ever(m, nth(m, buffer.drained & silent, 2)) & pop & ~ready_packet
        )
        return m


class HastyReceiveBuffer(PlainReceiveBuffer):
    """Planted bug: returns credits for what came before a SYNC after it as well."""

    def _credits(self, m, complete, refund, room, draining):
        return super()._credits(m, complete, refund, room, Const(0))


class RashReceiveBuffer(PlainReceiveBuffer):
    """Planted bug: answers a SYNC at once."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        answers = Signal()
        m.d.sync += answers.eq(self.control.valid)
        m.d.comb += self.drained.eq(answers)
        return m


class RestartHarness(wiring.Component):
    """A transmit port with a writer that keeps the rules, and a link that may lose credits.

    With `rogue` credits are lost or invented until the next ACK. An ACK comes when the SYNC has
    been on the wire. `bad` is high if between SYNC and ACK any other packet is sent, if packets
    are not numbered from 0 after the ACK, and on a link without losses if more packets are out than
    credits, or if the port is idle although a packet is out or not idle although nothing is.
    """

    def __init__(self, port):
        self.transmitter = port
        ones = ("reserve", "finish", "empty", "give", "ready", "restart", "ack", "rogue")
        super().__init__({**{name: In(1) for name in ones}, "bad": Out(1),
                          "cover_packets_follow_the_second_ack": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.port = port = self.transmitter
        queue = port.queue[1]
        promised = Signal()
        write = self.finish & promised
        header = Signal(FORMAT.layout)
        m.d.comb += [
            queue.reserve.eq(self.reserve & queue.room & ~promised),
            queue.header.valid.eq(write),
            header.kind.eq(Mux(self.empty, PacketKind.READY, PacketKind.DATA)),
            header.length.eq(Mux(self.empty, 0, 16)),
            *queued_header(queue.header.p, header, FORMAT, flits=1),
            queue.data.valid.eq(write & ~self.empty),
        ]
        m.d.sync += promised.eq(Mux(promised, ~write, queue.reserve))

        clean = Signal(init=1)
        waiting = Signal()
        asked = Signal()  # the SYNC has been on the wire
        out = Signal(range(SLOTS + 2))
        number = Signal(FORMAT.sequence)
        head = Signal(FORMAT.layout)
        begins = port.tx.valid & port.tx.ready & port.tx.p.start[0]
        sync = head.kind == PacketKind.SYNC
        sent = Signal()
        acknowledged = Signal()
        m.d.comb += [
            head.eq(port.tx.p.data[0]),
            port.tx.ready.eq(self.ready),
            sent.eq(begins & ~sync),
            # A node asks again only when it has been heard.
            port.restart.eq(self.restart & (~waiting | asked)),
            acknowledged.eq(self.ack & asked & ~self.restart),
            port.synced.eq(acknowledged),
            port.credit.eq(self.give & ((out != 0) | waiting | ~clean)),
        ]
        with m.If(port.restart):
            m.d.sync += [waiting.eq(1), asked.eq(0)]
        with m.Elif(acknowledged):
            m.d.sync += [waiting.eq(0), asked.eq(0)]
        with m.Elif(begins & sync):
            m.d.sync += asked.eq(1)
        with m.If(acknowledged):
            m.d.sync += [clean.eq(1), out.eq(0), number.eq(0)]
        with m.Else():
            m.d.sync += number.eq(number + sent)
            with m.If(self.rogue):
                m.d.sync += clean.eq(0)
            with m.If(clean & ~waiting & ~port.restart):
                m.d.sync += out.eq(out + sent - port.credit)

        settled = clean & ~waiting
        rest = settled & queue.room & ~promised & ~port.tx.valid & (out == 0) & ~port.restart
        m.d.comb += self.bad.eq(
            Cat(
                asked & begins,
                sent & (head.sequence != number),
                begins & sync & ~waiting,
                waiting & port.idle,
                settled & (out > SLOTS),
                settled & port.idle & (out != 0),
                _within(rest, m, "resting") & ~port.idle,
            ).any()
        )
        m.d.comb += self.cover_packets_follow_the_second_ack.eq(
            ever(m, nth(m, acknowledged, 2)) & settled & nth(m, sent, SLOTS + 2)
        )
        return m


class DeafTransmitPort(TransmitPort):
    """Planted bug: sends on after a SYNC, and counts on the credits that it had."""

    def _control(self, m, bound, ready):
        header, valid, _ = super()._control(m, bound, ready)
        return header, valid, Const(0)


def _buffer(kind=PlainReceiveBuffer):
    return kind(FORMAT, bus_bytes=16, packets=SLOTS)


def _port(kind=TransmitPort, credits=SLOTS):
    return kind(FORMAT, bus_bytes=16, packets=1, credits=credits)


def test_receive_buffer_has_forgotten_all_losses_when_it_is_drained(tmp_path):
    assert holds(DrainHarness(_buffer()), tmp_path)


@pytest.mark.parametrize("kind", [HastyReceiveBuffer, RashReceiveBuffer])
def test_receive_buffer_that_drains_wrongly_is_refuted(kind, tmp_path):
    assert not holds(DrainHarness(_buffer(kind)), tmp_path)


def test_transmit_port_is_silent_up_to_the_ack_and_has_all_credits_then(tmp_path):
    assert holds(RestartHarness(_port()), tmp_path)


@pytest.mark.parametrize("port", [{"kind": DeafTransmitPort}, {"credits": SLOTS + 1}])
def test_transmit_port_that_restarts_wrongly_is_refuted(port, tmp_path):
    assert not holds(RestartHarness(_port(**port)), tmp_path)


def test_control_packets_say_in_turn_what_they_were_asked_to_say():
    """Of three that are asked for at once, while the link stands and nodes go on meanwhile."""
    port, sent = _port(), []

    async def bench(ctx):
        ctx.set(port.epoch, 1)
        ctx.set(port.because, 2)
        ctx.set(port.acknowledged, 3)
        for each in (port.halt, port.acknowledge, port.restart):
            ctx.set(each, 1)
        await ctx.tick()
        for each in (port.halt, port.acknowledge, port.restart):
            ctx.set(each, 0)
        ctx.set(port.because, 1)  # the next one's
        await ctx.tick().repeat(5)
        ctx.set(port.tx.ready, 1)
        async for _, _, valid, beat in ctx.tick().sample(port.tx.valid, port.tx.p):
            if valid:
                sent.append(FORMAT.decode(beat.data[0]))
            if len(sent) == 3:
                return

    simulator = Simulator(port)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run_until(100e-6)

    assert [(each["kind"], each["op"], each["epoch"]) for each in sent] == [
        (PacketKind.HALT.value, 2, 1),
        (PacketKind.ACK.value, 0, 3),
        (PacketKind.SYNC.value, 0, 1),
    ]

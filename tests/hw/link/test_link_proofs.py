# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Unbounded proofs: the packer is a queue of flits; credits are neither lost nor invented."""

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.link.packer import LinkPacker
from hw.link.packet import PacketFormat, PacketKind
from hw.link.receive import ReceiveBuffer
from hw.link.transmit import TransmitPort, queued_header
from tests.hw.common.prover import assert_moore, ever, holds, nth
from tests.hw.link.wire import LinkEnds

SMALL = PacketFormat(payload_bytes=16)
TWO_BEATS = PacketFormat(payload_bytes=32)


def count(bits):
    return sum((bit for bit in bits), start=Signal(1))


class PackerHarness(wiring.Component):
    """Compares a packer of one-bit flits with an ideal queue of marked bits.

    `bad` is high when a link beat is not the oldest flits accepted, is not a prefix of at least
    one flit, is not full although the flits are there and nobody was idle, changes while it waits,
    or when flits are held back for more than `patience` cycles in which nothing was offered.
    """

    def __init__(self, packer, *, patience):
        self.packer = packer
        self.patience = patience
        self.flits = len(packer.o.p.keep)
        super().__init__(
            {
                "first": In(1),
                "header": In(1),
                "count": In(range(self.flits + 1)),
                "data": In(self.flits),
                "valid": In(1),
                "ready": In(1),
                "bad": Out(1), "cover_fifth_beat_leaves": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.packer = packer = self.packer
        flits, i, o = self.flits, packer.i, packer.o
        number = Signal(range(flits + 1))
        arriving = Signal(range(flits + 2))
        m.d.comb += [
            number.eq(Mux(self.count > flits, flits, self.count)),
            arriving.eq(number + self.first),
            i.valid.eq(self.valid),
            i.p.first.eq(self.first),
            i.p.header.eq(self.header),
            i.p.count.eq(number),
            i.p.full.eq(number == flits),
            o.ready.eq(self.ready),
            *(i.p.data[n].eq(self.data[n]) for n in range(flits)),
        ]
        payload = Cat(Cat(self.data[n], 0) for n in range(flits))
        entries = Signal(2 * (flits + 1))
        m.d.comb += entries.eq(Mux(self.first, Cat(self.header, 1, payload), payload))

        capacity = 3 * flits
        queue = Signal(2 * capacity)
        held = Signal(range(capacity + flits + 2))
        push = i.valid & i.ready
        pop = o.valid & o.ready
        leaving = Signal(range(flits + 1))
        left = Signal.like(held)
        mask = Signal(2 * (flits + 1))
        idle = Signal(range(self.patience + 2))
        m.d.comb += [
            leaving.eq(Mux(pop, count(o.p.keep), 0)),
            left.eq(held - leaving),
            mask.eq((1 << (2 * arriving)) - 1),
        ]
        m.d.sync += [
            queue.eq((queue >> (2 * leaving)) | Mux(push, (entries & mask) << (2 * left), 0)),
            held.eq(left + Mux(push, arriving, 0)),
            idle.eq(Mux(i.valid | o.valid | (held == 0), 0, idle + 1)),
        ]
        stalled = Signal()
        before = Signal.like(o.p.as_value())
        m.d.sync += [stalled.eq(o.valid & ~o.ready), before.eq(o.p.as_value())]
        kept = count(o.p.keep)
        problems = [
            held > capacity,
            pop & (leaving > held),
            o.valid & ~o.p.keep[0],
            o.valid & (o.p.keep & (o.p.keep + 1)).any(),
            stalled & ~(o.valid & (o.p.as_value() == before)),
            idle > self.patience,
            packer.empty != (held == 0),
            (held >= 2 * flits) & ~o.valid,
        ]
        for n in range(flits):
            wrong = (o.p.data[n] != queue[2 * n]) | (o.p.start[n] != queue[2 * n + 1])
            problems.append(o.valid & (kept > n) & wrong)
        bad = Cat(*problems).any()
        m.d.comb += self.bad.eq(bad)
        m.d.comb += self.cover_fifth_beat_leaves.eq(
            ever(m, stalled) & nth(m, pop, 5)
        )
        return m


class RepeatingPacker(LinkPacker):
    """Planted bug: believes that the output register is free when it is not."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.i.ready.eq(1)
        return m


class CreditHarness(wiring.Component):
    """A transmit port with a writer that keeps the rules and a receiver that returns credits.

    `bad` is high when more packets are out than *credits*, or the port calls itself idle although
    a credit is out. A credit may come back as soon as the header has been on the wire.
    """

    def __init__(self, port, *, credits):
        self.transmitter = port
        self.credits = credits
        super().__init__(
            {
                "reserve": In(2),
                "finish": In(2),
                "length": In(5),
                "give": In(1),
                "ready": In(1),
                "bad": Out(1), "cover_packets_go_on_after_all_credits_were_out": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.port = port = self.transmitter
        for n, queue in enumerate(port.queue):
            promised = Signal(2, name=f"promised_{n}")
            reserve = self.reserve[n] & queue.room
            write = self.finish[n] & (promised != 0)
            header = Signal(SMALL.layout, name=f"header_{n}")
            m.d.comb += [
                queue.reserve.eq(reserve),
                queue.header.valid.eq(write),
                header.length.eq(Mux(self.length > 16, 16, self.length)),
                *queued_header(queue.header.p, header, SMALL, flits=1),
                queue.data.valid.eq(write & (self.length != 0)),
            ]
            m.d.sync += promised.eq(promised + reserve - write)
        out = Signal(range(self.credits + 3))
        sent = Signal(2)
        m.d.comb += [
            port.tx.ready.eq(self.ready),
            port.credit.eq(self.give & (out != 0)),
            sent.eq(Mux(port.tx.valid & port.tx.ready, count(port.tx.p.start), 0)),
            self.bad.eq((out > self.credits) | (port.idle & (out != 0))),
        ]
        m.d.sync += out.eq(out + sent - port.credit)
        m.d.comb += self.cover_packets_go_on_after_all_credits_were_out.eq(
            ever(m, out == self.credits) & nth(m, sent != 0, self.credits + 2)
        )
        return m


class SlotHarness(wiring.Component):
    """A receive buffer with any sender and a consumer that frees only what it has.

    One header bit stands for all that makes a header sound. `bad` is high when more packets wait
    to be freed than there are slots, when a credit is returned that nobody paid, when the buffer
    calls itself idle although one is missing, or when it is not ready. Payments are header marks;
    a sound header without mark, or a sender beyond its credits, is not judged here.
    """

    def __init__(self, buffer, *, packets):
        self.buffer = buffer
        self.packets = packets
        super().__init__(
            {
                "valid": In(1),
                "start": In(1),
                "keep": In(1),
                "sound": In(1),
                "ready_kind": In(1),
                "empty": In(1),
                "take": In(1),
                "free": In(1),
                "bad": Out(1), "cover_packets_come_again_after_all_slots_were_full": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.buffer = buffer = self.buffer
        head = Signal(TWO_BEATS.layout)
        kind = Mux(self.ready_kind, PacketKind.READY, PacketKind.DATA)
        paid = Signal(range(self.packets + 1))
        pays = buffer.rx.valid & buffer.rx.ready & self.start
        m.d.comb += [
            head.offload.eq(self.sound),
            head.kind.eq(kind),
            # Two payload flits, so that a packet can be cut before and between them.
            head.length.eq(Mux(self.empty | self.ready_kind, 0, 32)),
            buffer.rx.p.data[0].eq(head.as_value()),
            buffer.rx.p.keep.eq(1),
            buffer.rx.p.start.eq(self.start),
            # A flit without mark is payload or noise; it must not pass for a header here.
            buffer.rx.valid.eq(
                self.valid & ~(self.start & (paid == self.packets)) & (self.start | ~self.sound)
            ),
        ]
        m.d.sync += paid.eq(paid + pays - buffer.credit)

        header = buffer.header
        pop = header.valid & header.ready
        control = header.p.kind == PacketKind.READY
        held = Signal(range(self.packets + 2))  # DATA packets taken and not freed
        m.d.comb += [
            header.ready.eq(self.take),
            buffer.payload.release.eq(self.free & (held != 0)),
            buffer.payload.release_control.eq(pop & control),
            self.bad.eq(
                (held > self.packets)
                | (buffer.credit & (paid == 0))
                | (buffer.idle & (paid != 0))
                | ~buffer.rx.ready
            ),
        ]
        m.d.sync += held.eq(held + (pop & ~control) - buffer.payload.release)
        m.d.comb += self.cover_packets_come_again_after_all_slots_were_full.eq(
            ever(m, held == self.packets) & nth(m, buffer.payload.release, self.packets + 1)
        )
        return m


class PlainReceiveBuffer(ReceiveBuffer):
    """Takes the mode bit for all that makes a header sound."""

    def _sound(self, head):
        return head.offload


class GenerousReceiveBuffer(PlainReceiveBuffer):
    """Planted bug: returns a credit in every cycle."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.credit.eq(1)
        return m


@pytest.mark.parametrize("flits", [1, 2, 4])
def test_packer_is_a_queue_of_flits(flits, tmp_path):
    packer = LinkPacker(flits, flush_after=2, flit_bits=1)

    assert holds(PackerHarness(packer, patience=4), tmp_path)


def test_packer_with_a_planted_bug_is_refuted(tmp_path):
    packer = RepeatingPacker(2, flush_after=2, flit_bits=1)

    assert not holds(PackerHarness(packer, patience=4), tmp_path)


def test_packer_claimed_to_be_faster_than_it_is_is_refuted(tmp_path):
    packer = LinkPacker(2, flush_after=2, flit_bits=1)

    assert not holds(PackerHarness(packer, patience=2), tmp_path)


def test_transmit_port_never_sends_without_credit(tmp_path):
    port = TransmitPort(SMALL, bus_bytes=16, packets=1, credits=2)

    assert holds(CreditHarness(port, credits=2), tmp_path)


def test_transmit_port_with_a_credit_too_many_is_refuted(tmp_path):
    port = TransmitPort(SMALL, bus_bytes=16, packets=1, credits=2)

    assert not holds(CreditHarness(port, credits=1), tmp_path)


def test_receive_buffer_returns_every_credit_once(tmp_path):
    buffer = PlainReceiveBuffer(TWO_BEATS, bus_bytes=16, packets=2)

    assert holds(SlotHarness(buffer, packets=2), tmp_path)


def test_receive_buffer_with_a_planted_bug_is_refuted(tmp_path):
    buffer = GenerousReceiveBuffer(TWO_BEATS, bus_bytes=16, packets=2)

    assert not holds(SlotHarness(buffer, packets=2), tmp_path)


def test_no_output_of_a_link_depends_on_an_input_of_the_same_cycle(tmp_path):
    # Events of a counter are registered where they are counted.
    assert_moore(LinkEnds(widths=[1]), tmp_path, but="o:*starved")


def test_packer_lets_only_ready_through(tmp_path):
    assert_moore(LinkPacker(2, flit_bits=4), tmp_path, but="o:i_ready")

# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Proofs about the units that move packets: what they wait for, and that they write only where they
have room."""

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace import receive_unit, send_unit
from hw.ace.config import AceConfig
from hw.ace.receive_unit import ReceiveUnit
from hw.ace.send_unit import SendUnit
from hw.link.packet import PacketKind
from tests.hw.common.prover import ever, holds, nth, with_change

CONFIG = AceConfig(
    ports=2,
    bus_bytes=16,
    packet_bytes=32,
    sram_bytes=1 << 10,
    banks=1,
    alus=1,
    fsms=1,
    contexts=1,
    program_words=64,
    memory_ports=1,
    rx_packets=2,
    tx_packets=2,
    max_nodes=2,
    address_bits=24,
)


class SendHarness(wiring.Component):
    """Any commands, SRAM and event port that stall at will, a queue with room for two packets.

    `bad`: room is taken that is not there, something is written without room, a packet has the
    wrong number of beats or the wrong kind, an event comes without a packet; or, while nobody
    stalls, a command takes longer than it has beats.
    """

    def __init__(self, unit):
        self.unit = unit
        super().__init__(
            {
                "offer": In(1),
                "ready": In(1),
                "length": In(6),
                "grant": In(1),
                "event": In(1),
                "drain": In(1),
                "bad": Out(1), "cover_fourth_packet_is_written": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = self.unit
        queue = unit.queue
        taken = Signal(2)  # room in use
        written = Signal(2)  # packets with a header
        m.d.comb += [
            unit.command.valid.eq(self.offer),
            unit.command.p.ready.eq(self.ready),
            unit.command.p.length.eq(Mux(self.ready | (self.length > 32), 0, self.length)),
            unit.read.grant.eq(self.grant),
            unit.event.ready.eq(self.event),
            queue.room.eq(taken != 2),
            queue.spare.eq(taken == 0),
        ]
        drained = Signal()
        m.d.comb += drained.eq(self.drain & (written != 0))
        m.d.sync += [
            taken.eq(taken + queue.reserve - drained),
            written.eq(written + queue.header.valid - drained),
        ]
        # Accepted commands whose header is not written yet, oldest first.
        accepted = unit.command.valid & unit.command.ready
        reserves = Signal()  # in the cycle after that
        m.d.sync += reserves.eq(accepted)
        beats = (unit.command.p.length + 15) >> 4
        depth = 3
        due = [Signal(3, name=f"due_{n}") for n in range(depth)]  # ready, beats
        level = Signal(range(depth + 1))
        after_pop = Signal(range(depth + 1))
        m.d.comb += after_pop.eq(level - queue.header.valid)
        m.d.sync += level.eq(after_pop + accepted)
        for n in range(depth):
            follower = due[n + 1] if n + 1 < depth else 0
            m.d.sync += due[n].eq(
                Mux(
                    accepted & (after_pop == n),
                    Cat(unit.command.p.ready, beats[:2]),
                    Mux(queue.header.valid, follower, due[n]),
                )
            )
        seen = Signal(3)  # beats of the packet being written
        now = Signal(3)
        m.d.comb += now.eq(seen + queue.data.valid)
        m.d.sync += seen.eq(Mux(queue.header.valid, 0, now))

        owed = Signal(4)  # events of packets that were accepted
        reported = unit.event.valid & unit.event.ready
        m.d.sync += owed.eq(owed + (accepted & ~unit.command.p.ready) - reported)

        friendly = self.grant & self.event & (taken + reserves < 2)
        late = Signal(3)
        with m.If(~(self.offer & ~unit.command.ready & friendly)):
            m.d.sync += late.eq(0)
        with m.Elif(late != 7):
            m.d.sync += late.eq(late + 1)
        is_ready = queue.header.p.header.kind == PacketKind.READY
        m.d.comb += self.bad.eq(
            Cat(
                queue.reserve & ~queue.room,
                queue.reserve != reserves,
                (queue.data.valid | queue.header.valid) & (level == 0),
                queue.header.valid & (now != due[0][1:]),
                queue.header.valid & (is_ready != due[0][0]),
                queue.data.valid & (now > CONFIG.packet_beats),
                reported & (owed == 0),
                late == 3,
            ).any()
        )
        m.d.comb += self.cover_fourth_packet_is_written.eq(
            nth(m, queue.header.valid, 4) & ever(m, queue.header.valid & (now == 2))
        )
        return m


class TwinHarness(wiring.Component):
    """Two receive units that see the same packets, answers and stalls, but different forward
    queues.

    `bad`: they differ in when they take, free or report a packet, or in what they ask of ALU and
    SRAM reads; or a beat is taken to be reduced though those of another client go behind, or one
    that goes behind asks for its operand. A packet that is parked is stored where one that is
    forwarded need not be; writes therefore stall only while both units write. *alu_with_output*
    plants the bug that an ALU is granted only together with the output.
    """

    def __init__(self, units, *, alu_with_output=False):
        self.units = units
        self.alu_with_output = alu_with_output
        super().__init__(
            {
                "offer": In(1),
                "kind": In(1),
                "sequence": In(8),
                "length": In(6),
                "valid": In(1),
                "op": In(4),
                "port": In(1),
                "granted": In(1),
                "answer": In(1),
                "forward": In(4),
                "stall": In(6),
                "blocked": In(1),
                "ahead": In(1),
                "bad": Out(1), "cover_third_packet_is_reported_while_queues_differ": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        seen, meets = [], []
        writing = Cat(unit.store.wants.any() for unit in self.units)
        refused = Signal()
        m.d.sync += refused.eq(self.blocked)
        for k, unit in enumerate(self.units):
            m.submodules[f"unit_{k}"] = unit
            outputs = Cat(~port.want | port.grant for port in unit.forward)
            m.d.comb += [
                unit.header.valid.eq(self.offer),
                unit.header.p.kind.eq(Mux(self.kind, PacketKind.READY, PacketKind.DATA)),
                unit.header.p.sequence.eq(self.sequence),
                unit.header.p.length.eq(self.length),
                unit.lookup.ready.eq(~self.stall[0]),
                unit.ready.ready.eq(~self.stall[1]),
                unit.operand.grant.eq(~self.stall[2]),
                unit.alu.grant.eq(outputs.all() if self.alu_with_output else 1),
                unit.alu.free.eq(~self.stall[3]),
                unit.alu.blocked.eq(self.blocked),
                unit.alu.ahead.eq(self.ahead),
                unit.event.ready.eq(~self.stall[4]),
                unit.store.grant.eq(~(self.stall[5] & writing.all())),
                unit.resolved.valid.eq(self.answer),
                unit.resolved.p.valid.eq(self.valid),
                unit.resolved.p.op.eq(self.op),
                unit.resolved.p.granted.eq(self.granted),
                unit.resolved.p.port.eq(self.port),
                Cat(port.grant for port in unit.forward).eq(self.forward.word_select(k, 2)),
            ]
            timing = Signal(12, name=f"timing_{k}")
            m.d.comb += timing.eq(
                Cat(
                    unit.header.ready,
                    unit.lookup.valid,
                    unit.ready.valid,
                    unit.payload.release,
                    unit.payload.release_control,
                    unit.event.valid,
                    unit.alu.want,
                    unit.alu.claim,
                    unit.alu.ending,
                    unit.alu.waits,
                    unit.operand.wants,
                    unit.rejected,
                )
            )
            seen.append(timing)
            waited = Signal(name=f"waited_{k}")
            m.d.sync += waited.eq(unit.alu.waits)
            meets += [
                unit.alu.waits & ~waited & refused,
                unit.operand.wants.any() & unit.alu.behind & self.ahead,
            ]
        m.d.comb += self.bad.eq((seen[0] != seen[1]) | Cat(meets).any())
        differ = self.forward.word_select(0, 2) != self.forward.word_select(1, 2)
        m.d.comb += self.cover_third_packet_is_reported_while_queues_differ.eq(
            ever(m, differ) & nth(m, self.units[0].event.valid & ~self.stall[4], 3)
        )
        return m


class SilentSender(SendUnit):
    """Planted bug: never takes a second command."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        once = Signal()
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += once.eq(1)
        with m.If(once):
            m.d.comb += self.command.ready.eq(0)
        return m


class LoudSender(SendUnit):
    """Planted bug: reports READY packets as sent."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        reads = m.submodules.reads.i
        m.d.comb += reads.p.tells.eq(reads.p.last)
        return m


def test_send_unit_writes_what_it_reserved_and_waits_for_nothing_else(tmp_path):
    assert holds(SendHarness(SendUnit(CONFIG)), tmp_path)


@pytest.mark.parametrize("planted", [SilentSender, LoudSender])
def test_broken_send_unit_is_refuted(planted, tmp_path):
    assert not holds(SendHarness(planted(CONFIG)), tmp_path)


@pytest.mark.parametrize(
    "old, new",
    [("self.queue.spare | (self.queue.room & ~claimed)", "1"),
     ("(self.queue.room & ~claimed)", "self.queue.room")],
    ids=["waits for no room", "forgets what it has just claimed"],
)
def test_send_unit_that_writes_without_room_is_refuted(old, new, tmp_path):
    changed = with_change(send_unit, "SendUnit", old, new)
    assert not holds(SendHarness(changed(CONFIG)), tmp_path)



def test_receive_unit_never_waits_for_an_output(tmp_path):
    units = [ReceiveUnit(CONFIG), ReceiveUnit(CONFIG)]
    assert holds(TwinHarness(units), tmp_path, twins=True)


def test_waiting_for_an_output_is_refuted(tmp_path):
    units = [ReceiveUnit(CONFIG), ReceiveUnit(CONFIG)]
    assert not holds(TwinHarness(units, alu_with_output=True), tmp_path, twins=True)


def test_beats_that_meet_those_of_another_packet_are_refuted(tmp_path):
    changed = with_change(
        receive_unit, "ReceiveUnit", "active & ~(reduce & self.alu.blocked)", "active"
    )
    assert not holds(TwinHarness([changed(CONFIG), changed(CONFIG)]), tmp_path, twins=True)

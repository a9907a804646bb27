# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Unbounded proofs about what is shared: ports, forward queues, ALUs and SRAM banks."""

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace import command_arbiter, forward_gate
from hw.ace.alu_pool import ALUPool
from hw.ace.beat_issue import BeatIssue
from hw.ace.command_arbiter import CommandArbiter
from hw.ace.config import AceConfig
from hw.ace.forward_gate import ForwardGate
from hw.ace.layouts import AGE_BITS, send_command_layout
from hw.ace.sram import BankedSRAM, bank_bits
from hw.common.arbiter import RoundRobinArbiter
from tests.families import quick
from tests.hw.common.prover import ever, holds, nth, with_change

_PATIENCE = 6
"""Cycles in which a client's beats may wait while SRAM grants all: two of its own, two that are
ahead, and what registers take."""

SMALL = {
    "bus_bytes": 16,
    "packet_bytes": 32,
    "sram_bytes": 1 << 10,
    "banks": 1,
    "alus": 1,
    "fsms": 1,
    "contexts": 1,
    "program_words": 64,
    "memory_ports": 1,
    "rx_packets": 2,
    "tx_packets": 2,
    "max_nodes": 2,
    "address_bits": 24,
}


def several(bits):
    return (bits & (bits - 1)) != 0


class CommandHarness(wiring.Component):
    """FSMs that give any commands to ports that have room, and ports that take them when they like.

    `bad`: room goes or comes without a command that is given or leaves; a port has no command, or
    another one, though one has left for it or was not taken; none leaves for a port that has none
    though FSMs ask, or one although the port has one, or two at once; it is not a READY though one
    asks, or not that of the lowest FSM; or it is not of the oldest chunk, from which less than half
    of all ages lead to each of the others that ask (not if there is no such chunk), or not that of
    the lowest FSM of those with this age.
    """

    def __init__(self, arbiter, config):
        self.arbiter = arbiter
        self.config = config
        self.shape = shape = send_command_layout(config)
        super().__init__(
            {
                "offer": In(config.fsms),
                "commands": In(shape).array(config.fsms),
                "to": In(range(max(2, config.ports))).array(config.fsms),
                "ready": In(config.ports),
                "bad": Out(1),
                "cover_each_port_has_had_a_command_of_each_fsm_that_was_passed_over": Out(1),
                "cover_one_is_the_oldest_though_its_number_is_the_highest": Out(1),
                "cover_none_is_the_oldest": Out(1),
                "cover_an_fsm_waits_at_one_port_and_is_served_at_the_other": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = arbiter = self.arbiter
        fsms = range(self.config.fsms)
        begun = Signal()
        m.d.sync += begun.eq(1)
        given = [Signal(len(arbiter.o), name=f"given_{f}") for f in fsms]
        for f, to in enumerate(self.to):
            gives = begun & self.offer[f] & (to < len(arbiter.o))
            m.d.comb += [
                given[f].eq((gives & arbiter.room[f].bit_select(to, 1)) << to),
                arbiter.i[f].eq(self.commands[f]),
                arbiter.to[f].eq(given[f]),
            ]
        faults, late, wrapped, unordered, elsewhere = [], [], [], [], []
        for p, port in enumerate(arbiter.o):
            asks, gave = Signal(len(fsms), name=f"asks_{p}"), Signal(len(fsms), name=f"gave_{p}")
            free, stays = Signal(name=f"free_{p}"), Signal(name=f"stays_{p}")
            command = Signal(self.shape, name=f"command_{p}")
            room = Cat(each[p] for each in arbiter.room)
            last = [Signal(self.shape, name=f"last_{f}_{p}") for f in fsms]  # that were given
            ages = [each.age for each in last]
            # All of these are of the cycle before, and so is what has left.
            left = asks & room
            m.d.comb += port.ready.eq(self.ready[p])
            m.d.sync += [
                asks.eq(~room), gave.eq(Cat(each[p] for each in given)),
                free.eq(begun & ~port.valid), stays.eq(port.valid & ~port.ready),
                command.eq(port.p),
            ]
            for f in fsms:
                with m.If(given[f][p]):
                    m.d.sync += last[f].eq(self.commands[f])
            oldest = Signal(len(fsms), name=f"oldest_{p}")
            m.d.comb += oldest.eq(Cat(
                asks[f] & Cat(
                    ~asks[g] | ((ages[g] - ages[f])[:AGE_BITS] < 1 << AGE_BITS - 1) for g in fsms
                ).all()
                for f in fsms
            ))
            asking = asks & Cat(each.ready for each in last)
            best = Mux(asking.any(), asking, oldest)
            expected = Signal(self.shape, name=f"expected_{p}")
            for f in fsms:
                with m.If(left[f]):
                    m.d.comb += [expected.eq(last[f]), expected.fsm.eq(f)]
            faults += [
                (room & gave).any(),
                begun & (~room & ~gave & ~asks).any(),
                port.valid != (left.any() | stays),
                stays & (Value.cast(port.p) != Value.cast(command)),
                left.any() & (Value.cast(port.p) != Value.cast(expected)),
                left.any() & ~free,
                asks.any() & free & ~left.any(),
                several(left),
                left.any() & best.any() & (left != (best & -best)),
            ]
            passed = Signal(len(fsms), name=f"passed_{p}")
            with m.If(left.any()):
                m.d.sync += passed.eq(passed | (asks & ~left))
            late += [ever(m, left[f] & passed[f]) for f in fsms]
            alone = left.any() & ~asking.any()
            wrapped.append(alone & asks.all() & Cat(
                left[f] & Cat(ages[f] > ages[g] for g in fsms if g != f).all() for f in fsms
            ).any())
            unordered.append(alone & ~oldest.any())
            elsewhere.append((left & ~Cat(each[1 - p] for each in arbiter.room)).any())
        m.d.comb += [
            self.bad.eq(Cat(faults).any()),
            self.cover_each_port_has_had_a_command_of_each_fsm_that_was_passed_over.eq(
                Cat(late).all()
            ),
            self.cover_one_is_the_oldest_though_its_number_is_the_highest.eq(Cat(wrapped).any()),
            self.cover_none_is_the_oldest.eq(Cat(unordered).any()),
            self.cover_an_fsm_waits_at_one_port_and_is_served_at_the_other.eq(
                Cat(elsewhere).any()
            ),
        ]
        return m


COMMAND_BUGS = {
    "a command that is alone does not go": (
        "return ~a.asks | (b.ready", "return (b.ready"),
    "one that does not ask goes": (
        "a.asks & b.asks &", "a.asks &"),
    "the youngest chunk goes first": (
        "(b.command.age - a.command.age)", "(a.command.age - b.command.age)"),
    "ages do not wrap": (
        "(b.command.age - a.command.age)[:AGE_BITS][-1]", "b.command.age < a.command.age"),
    "a READY has the age of a chunk": (
        "a.asks & b.asks & ~a.ready & ~b.ready", "a.asks & b.asks"),
    "the last READY goes first": (
        "(b.ready & ~a.ready)", "b.ready"),
    "the winner of a half has the age of its first one": (
        "select(later_low, [self._goes_first(b, a) for a in low])",
        "self._goes_first(b, low[0])"),
    "the winner of a half keeps the command of its first one": (
        "select(later, [Value.cast(each.command) for each in half])",
        "Value.cast(half[0].command)"),
    "a command leaves while the port is stalled": (
        "with m.If(~self.o.valid):", "with m.If(1):"),
    "a command leaves in the cycle in which another one is taken": (
        "with m.If(~self.o.valid):", "with m.If(~self.o.valid | self.o.ready):"),
    "a port waits for a cycle more between two commands": (
        "with m.If(first.asks):", "with m.If(first.asks & ~self.o.ready):"),
    "a command is for another port, too": (
        "its.valid.eq(self.to[f][p])", "its.valid.eq(self.to[f].any())"),
    "there is room though a command has come": (
        "self.room[f].eq(0)", "self.room[f].eq(~self.o.valid)"),
    "room is that of another port": (
        "self.room[f][p].eq(of_port.room[f])", "self.room[f][1 - p].eq(of_port.room[f])"),
    "all that ask have left": (
        "takes.eq(1 << first.command.fsm)", "takes.eq(~self.room)"),
    "the command keeps the FSM that came with it": (
        "command.eq(waiting), command.fsm.eq(f)", "command.eq(waiting)"),
}


class GateHarness(wiring.Component):
    """Receive units that claim when they are granted, and write the header of a claimed packet at
    any later time, in front of a queue of two packets that has room when it likes.

    `bad`: two are granted, one is granted without room, or without a place in the queue, a claim
    does not reserve in the next cycle, packets of two units may mix, a header is not written in the
    next cycle, or a unit that keeps wanting sees others begin, with nothing in flight, as often as
    there are units.
    """

    def __init__(self, gate, ports):
        self.gate = gate
        self.ports = ports
        super().__init__(
            {
                "want": In(ports),
                "take": In(ports),
                "close": In(ports),
                "room": In(1),
                "spare": In(1),
                "bad": Out(1), "cover_each_unit_sends_two_packets": Out(1),
                "cover_the_last_place_is_claimed_behind_another_one": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.gate = gate = self.gate
        claims, grants, opened, closing = Signal(self.ports), Signal(self.ports), [], []
        everything = Signal(2)  # places that are claimed
        reserved = Signal(2)  # those that the queue knows of
        claimed = Signal()
        m.d.sync += claimed.eq(claims.any())
        m.d.comb += [
            gate.queue.room.eq(self.room & (reserved != 2)),
            gate.queue.spare.eq(self.spare & gate.queue.room & (reserved == 0)),
            grants.eq(Cat(client.grant for client in gate.client)),
            claims.eq(grants & self.want & self.take),
        ]
        for n, client in enumerate(gate.client):
            mine = Signal(2, name=f"open_{n}")
            close = Signal(name=f"closing_{n}")
            m.d.comb += [
                client.want.eq(self.want[n]),
                client.claim.eq(claims[n]),
                close.eq(self.close[n] & (mine != 0)),
                client.packets.header.valid.eq(close),
            ]
            m.d.sync += mine.eq(mine + claims[n] - close)
            opened.append(mine != 0)
            closing.append(close)
        written = Signal()
        m.d.sync += [
            written.eq(Cat(closing).any()),
            everything.eq(everything + claims.any() - written),
            reserved.eq(reserved + gate.queue.reserve - written),
        ]
        m.d.comb += self.cover_the_last_place_is_claimed_behind_another_one.eq(
            claimed & claims.any() & (everything == 1)
        )
        waited = []
        for n in range(self.ports):
            others = Signal(range(self.ports + 1), name=f"others_{n}")
            with m.If(~self.want[n] | claims[n]):
                m.d.sync += others.eq(0)
            with m.Elif(claims.any() & (everything == 0) & (others != self.ports)):
                m.d.sync += others.eq(others + 1)
            waited.append(others == self.ports)
        m.d.comb += self.bad.eq(
            Cat(
                *waited,
                several(grants),
                (grants & ~self.want).any(),
                grants.any() & ~(gate.queue.room & (everything != 2)),
                gate.queue.reserve != claimed,
                several(Cat(opened)),
                gate.queue.header.valid != written,
            ).any()
        )
        m.d.comb += self.cover_each_unit_sends_two_packets.eq(
            Cat(ever(m, nth(m, each, 2)) for each in closing).all()
        )
        return m


class MixingGate(ForwardGate):
    """Planted bug: grants a unit while another one has packets in flight."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        turns = m.submodules.turns
        wants = Cat(client.want for client in self.client)
        m.d.comb += turns.requests.eq(Mux(self.queue.room, wants, 0))
        return m


class RoomlessGate(ForwardGate):
    """Planted bug: grants without room."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        wants = Cat(client.want for client in self.client)
        with m.If(~self.queue.room):
            m.d.comb += m.submodules.turns.requests.eq(wants)
        return m


class PoolHarness(wiring.Component):
    """Clients that claim when they are granted, and give back with any later beat, which SRAM may
    hold up for any time.

    `bad`: two clients hold an ALU or are granted it at a time, or issue a beat in one cycle, a free
    ALU is not granted to anyone who wants it, a client that keeps wanting waits for more than one
    packet of every other client, or a beat waits for ever while SRAM grants all. `held` times are
    up to the clients.
    """

    def __init__(self, pool, config):
        self.pool = pool
        self.config = config
        n = config.ports
        super().__init__({"want": In(n), "take": In(n), "give": In(n), "read": In(n),
                          "bad": Out(1), "cover_each_has_an_alu_after_it_waited": Out(1),
                          "cover_a_client_is_blocked": Out(1)})

    def elaborate(self, platform):
        m = Module()
        c = self.config
        m.submodules.pool = pool = self.pool
        faults, patient, blocked = [], [], []
        for first in range(c.alus):
            clients = range(first, c.ports, c.alus)
            claims, grants, held = (Signal(len(clients), name=f"{x}_{first}") for x in "cgh")
            issued = Signal(len(clients), name=f"i_{first}")
            gives = Signal(len(clients), name=f"gives_{first}")
            wants = Signal(len(clients), name=f"wants_{first}")
            for n, port in enumerate(clients):
                client = pool.client[port]
                m.submodules[f"issue_{port}"] = issue = BeatIssue(c)
                m.d.comb += [
                    issue.room.eq(1),
                    issue.beat.valid.eq(held[n] & ~client.blocked),
                    issue.beat.p.issue.reduce.eq(1),
                    issue.ahead.eq(client.ahead),
                    issue.operand.grant.eq(self.read[port]),
                    client.behind.eq(issue.behind),
                    gives[n].eq(issue.beat.valid & issue.beat.ready & self.give[port]),
                    issued[n].eq(issue.issued.valid),
                    # A unit that streams a packet may want the next ALU before that packet ends.
                    wants[n].eq(self.want[port]),
                    client.want.eq(wants[n]),
                    grants[n].eq(client.grant & client.free),
                    claims[n].eq(
                        wants[n] & grants[n] & self.take[port] & (~held[n] | gives[n])
                    ),
                    client.claim.eq(claims[n]),
                    client.ending.eq(gives[n]),
                    client.waits.eq(issue.waits),
                ]
                stuck = Signal(range(_PATIENCE + 1), name=f"stuck_{port}")
                with m.If(~issue.waits | ~self.read.all() | issue.issued.valid):
                    m.d.sync += stuck.eq(0)
                with m.Elif(stuck != _PATIENCE):
                    m.d.sync += stuck.eq(stuck + 1)
                faults.append(stuck == _PATIENCE)
                blocked.append(held[n] & client.blocked)
            m.d.sync += held.eq((held & ~gives) | claims)
            used = Signal(name=f"used_{first}")
            m.d.comb += used.eq(claims.any())
            faults += [
                several(held),
                several(issued),
                (claims & ~wants).any(),
                several(claims),
                (claims.any() & (held & ~gives).any()),
                wants.any() & ~(held & ~gives).any() & ~(grants & wants).any(),
            ]
            for n in range(len(clients)):
                others = Signal(range(len(clients) + 1), name=f"others_{first}_{n}")
                with m.If(~wants[n] | claims[n]):
                    m.d.sync += others.eq(0)
                with m.Elif(used & (others != len(clients))):
                    m.d.sync += others.eq(others + 1)
                faults.append(others == len(clients))
                alone = len(clients) == 1
                patient.append(claims[n] if alone else claims[n] & (others != 0))
        m.d.comb += self.bad.eq(Cat(faults).any())
        m.d.comb += self.cover_each_has_an_alu_after_it_waited.eq(
            Cat(ever(m, each) for each in patient).all()
        )
        m.d.comb += self.cover_a_client_is_blocked.eq(Cat(blocked).any())
        return m


class SharedALU(ALUPool):
    """Planted bug: an ALU counts as free while a client holds it."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += [client.free.eq(1) for client in self.client]
        return m


class HeldALU(ALUPool):
    """Planted bug: an ALU is not free in the cycle in which it is given back."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        ending = Cat(client.ending for client in self.client)
        with m.If(ending.any()):
            m.d.comb += [client.free.eq(0) for client in self.client]
        return m


class OpenALU(ALUPool):
    """Planted bug: beats are issued while one of another packet waits."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += [client.ahead.eq(0) for client in self.client]
        return m


class CrowdedALU(ALUPool):
    """Planted bug: beats are taken while those of another client go behind."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += [client.blocked.eq(0) for client in self.client]
        return m


class BankHarness(wiring.Component):
    """Readers and writers that keep asking for a row until they get it.

    `bad`: a bank serves two of a kind (or, with one port, two at all) in a cycle, one that does not
    ask is granted, or one waits for longer than the others of its kind need for one turn each.
    """

    def __init__(self, sram, *, readers, writers, shared, interleave=2, bit=0):
        self.sram = sram
        self.shared = shared
        self.interleave = interleave
        self.bit = bit  # of a row: its bank
        self.count = readers, writers
        ports = readers + writers
        super().__init__({"ask": In(ports), "rows": In(2 * ports), "bad": Out(1),
                          "cover_each_is_granted_after_it_waited": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.sram = sram = self.sram
        readers, writers = self.count
        ports = [*sram.read, *sram.write]
        faults, patient = [], []
        banks = []
        for n, port in enumerate(ports):
            waiting = Signal(name=f"waiting_{n}")
            row = Signal(2, name=f"row_{n}")
            asks = Signal(name=f"asks_{n}")
            wanted = Signal(2, name=f"wanted_{n}")
            m.d.comb += [
                asks.eq(waiting | self.ask[n]),
                wanted.eq(Mux(waiting, row, self.rows.word_select(n, 2))),
                port.wants.eq(
                    asks << bank_bits(wanted, banks=2, interleave=self.interleave)
                ),
                port.row.eq(row),
            ]
            m.d.sync += [waiting.eq(asks & ~port.grant), row.eq(wanted)]
            rivals = readers + writers if self.shared else readers if n < readers else writers
            age = Signal(range(rivals + 1), name=f"age_{n}")
            with m.If(port.grant):
                m.d.sync += age.eq(0)
            with m.Elif(asks & (age != rivals)):
                m.d.sync += age.eq(age + 1)
            faults += [age == rivals, port.grant & ~asks]
            patient.append(port.grant & (age != 0))
            banks.append(wanted[self.bit])
        kinds = [range(len(ports))] if self.shared else [range(readers), range(readers, len(ports))]
        for kind in kinds:
            for bank in (0, 1):
                faults.append(several(Cat(ports[n].grant & (banks[n] == bank) for n in kind)))
        m.d.comb += self.bad.eq(Cat(faults).any())
        m.d.comb += self.cover_each_is_granted_after_it_waited.eq(
            Cat(ever(m, each) for each in patient).all()
        )
        return m


class StuckArbiter(RoundRobinArbiter):
    """Planted bug: the same requester is preferred for ever."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.grant.eq(self.requests & -self.requests)
        return m


class GreedyArbiter(RoundRobinArbiter):
    """Planted bug: all are granted."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.grant.eq(self.requests)
        return m


def _commands():
    return AceConfig(ports=2, **SMALL | {"fsms": 3})


def test_no_port_waits_while_a_command_is_there_and_the_oldest_goes_first(tmp_path):
    assert holds(CommandHarness(CommandArbiter(_commands()), _commands()), tmp_path, twins=True)


@pytest.mark.parametrize("bug", quick(3, COMMAND_BUGS))
def test_broken_command_arbiter_is_refuted(bug, tmp_path):
    changed = with_change(
        command_arbiter, "CommandArbiter", *COMMAND_BUGS[bug], of="PortCommands"
    )
    assert not holds(CommandHarness(changed(_commands()), _commands()), tmp_path, twins=True)


@pytest.mark.parametrize("ports", [2, 3])
def test_forward_gate_grants_one_unit_with_room_and_mixes_no_packets(ports, tmp_path):
    config = AceConfig(ports=ports, **SMALL)
    assert holds(GateHarness(ForwardGate(config), ports), tmp_path)


@pytest.mark.parametrize("planted", [MixingGate, RoomlessGate])
def test_broken_forward_gate_is_refuted(planted, tmp_path):
    assert not holds(GateHarness(planted(AceConfig(ports=2, **SMALL)), 2), tmp_path)


@pytest.mark.parametrize(
    "old, new",
    [("self.queue.spare | (self.queue.room & ~claimed.any())", "self.queue.room"),
     ("none.eq((before == 0) & ~claimed.any())", "none.eq(before == 0)"),
     ("claimed | Mux(claimed.any(), 0, owner)", "claimed | owner"),
     ("turns.advance.eq(claimed.any())", "turns.advance.eq(0)")],
    ids=["two claim the last place", "another one claims behind it", "the one before claims",
         "turns stand still"],
)
def test_gate_that_forgets_the_last_claim_is_refuted(old, new, tmp_path):
    changed = with_change(forward_gate, "ForwardGate", old, new)
    assert not holds(GateHarness(changed(AceConfig(ports=2, **SMALL)), 2), tmp_path)


@pytest.mark.parametrize("ports, alus", [(2, 1), (3, 1), (3, 2)])
def test_an_alu_has_one_owner_and_every_client_its_turn(ports, alus, tmp_path):
    config = AceConfig(ports=ports, **SMALL | {"alus": alus})
    assert holds(PoolHarness(ALUPool(config), config), tmp_path)


@pytest.mark.parametrize("planted", [SharedALU, HeldALU, OpenALU, CrowdedALU])
def test_broken_alu_pool_is_refuted(planted, tmp_path):
    config = AceConfig(ports=2, **SMALL)
    assert not holds(PoolHarness(planted(config), config), tmp_path)


def _sram(shared, readers=3, writers=2, **options):
    return BankedSRAM(
        depth=4,
        width=1,
        banks=2,
        **options,
        bank_ports="1rw" if shared else "1r1w",
        readers=readers,
        writers=writers,
    )


@pytest.mark.parametrize("shared", [False, True])
def test_a_bank_serves_one_and_starves_nobody(shared, tmp_path):
    assert holds(BankHarness(_sram(shared), readers=3, writers=2, shared=shared), tmp_path)


@pytest.mark.parametrize("shared", [False, True])
def test_a_bank_of_a_group_serves_one_and_starves_nobody(shared, tmp_path):
    """Each of two banks is a group."""
    sram = _sram(shared, interleave=1)
    harness = BankHarness(sram, readers=3, writers=2, shared=shared, interleave=1, bit=1)
    assert holds(harness, tmp_path)


def test_a_bank_of_another_group_is_refuted(tmp_path):
    sram = _sram(False, interleave=1)
    harness = BankHarness(sram, readers=3, writers=2, shared=False, interleave=1)
    assert not holds(harness, tmp_path)


@pytest.mark.parametrize("planted", [StuckArbiter, GreedyArbiter])
def test_broken_bank_is_refuted(planted, tmp_path, monkeypatch):
    monkeypatch.setattr("hw.ace.sram.RoundRobinArbiter", planted)
    assert not holds(BankHarness(_sram(False), readers=3, writers=2, shared=False), tmp_path)

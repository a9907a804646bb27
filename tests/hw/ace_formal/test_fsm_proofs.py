# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Proofs about the parts of an FSM: no READY is lost, no peer or phase waited for, no chunk and no
phase ends early."""


import pytest
from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.ace import contexts, send_generator
from hw.ace.config import AceConfig
from hw.ace.contexts import ContextTable
from hw.ace.isa import instruction_layout, phase_layout
from hw.ace.lookup import LOOKUP_LATENCY
from hw.ace.ready_table import ReadyTable
from hw.ace.send_generator import SendGenerator, Source
from hw.common.select import index_of
from tests.families import full, quick
from tests.hw.common.prover import COVER_CYCLES, ever, holds, nth, with_change


def small(contexts):
    return AceConfig(
        ports=2, bus_bytes=16, packet_bytes=16, sram_bytes=64 * contexts, banks=1, alus=1,
        alu_stages=2, fsms=1, contexts=contexts, program_words=64, memory_ports=1, rx_packets=2,
        tx_packets=2, max_nodes=2, address_bits=24, commands=1,
    )  # fmt: skip


class ReadyHarness(wiring.Component):
    """Peers that send READYs for chunks 0 to 3 as they like, and contexts that take these chunks.

    The READYs of one peer for one chunk (chunk, port, context of the peer) are watched, of any one.
    Rules of the protocol: a peer does not use its context for another READY while the watched one
    waits, has one context for a chunk, says for a second and third time that it is ready only to a
    context that is live, and for no chunk that is just over; no chunk is over whose READY has been
    taken and not been counted, since the packets that it is for are yet to leave (a packet waits
    until so many READYs are counted: `GrantHarness`, `SendHarness`; a chunk ends when all packets
    have left: `ContextHarness`); contexts that are assigned have different chunks; nothing is
    admitted during a sweep or a search.

    `bad`: after the search for its chunk, a context has not counted all READYs of the peer since
    the last chunk of that name, whether they came before or after its admission, or has counted
    another one, or does not know the context of the peer. Or a READY that was taken waits for more
    than a sweep and 4 cycles; or rows of the table do not hold just what has yet to be counted.
    """

    def __init__(self, table):
        self.table = table
        super().__init__(
            {
                "valid": In(2),
                "chunk": In(4),
                "slot": In(2),
                "admit": In(1),
                "admit_chunk": In(2),
                "admit_context": In(1),
                "free": In(2),
                "wait": In(1),
                "abort": In(1),
                "watch": In(4),
                "bad": Out(1), "cover_a_ready_that_waited_is_granted_after_an_abort": Out(1),
                "cover_three_are_counted_of_which_one_has_waited": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        table = self.table
        m.submodules.table = inner = table.elaborate(platform)
        rows = [inner.submodules.early.read_port(domain="comb") for _ in range(2)]
        chosen, started = Signal(data.StructLayout({"chunk": 2, "port": 1, "slot": 1})), Signal()
        m.d.sync += started.eq(1)
        with m.If(~started):
            m.d.sync += chosen.eq(self.watch)

        assigned, keys = Signal(2), [Signal(2, name=f"key_{n}") for n in range(2)]
        setup, newest = Signal(), Signal(1)
        taken = Cat(assigned[n] & (keys[n] == self.admit_chunk) for n in range(2)).any()
        admit = Signal()
        offer = Signal()  # an admission, which an abort forgets
        m.d.comb += [
            offer.eq(
                started & self.admit & ~setup & ~table.sweeping & ~taken
                & ~assigned.bit_select(self.admit_context, 1)
            ),
            admit.eq(offer & ~self.abort),
        ]
        freed = []
        pending = Signal()  # the watched READY has been taken and not been counted
        for n in range(2):
            over = assigned[n] & ~(pending & (keys[n] == chosen.chunk))
            free = self.free[n] & over & ~(setup & (newest == n))
            freed.append(free & (keys[n] == chosen.chunk))
            with m.If(admit & (self.admit_context == n)):
                m.d.sync += [assigned[n].eq(1), keys[n].eq(self.admit_chunk)]
            with m.If(free):
                m.d.sync += assigned[n].eq(0)
            m.d.comb += table.contexts.key[n].chunk.eq(keys[n])
        done = setup & table.searched & ~self.wait
        with m.If(admit):
            m.d.sync += [setup.eq(1), newest.eq(self.admit_context)]
        with m.Elif(done):
            m.d.sync += setup.eq(0)
        newest_key = Mux(newest, keys[1], keys[0])
        m.d.comb += [
            table.contexts.assigned.eq(assigned),
            table.contexts.setup.eq(setup),
            table.contexts.newest.context.eq(newest),
            table.contexts.newest.key.chunk.eq(newest_key),
            table.admit.valid.eq(offer),
            table.admit.p.context.eq(self.admit_context),
            table.forget.eq(self.abort),
        ]

        mine = Cat(assigned[n] & (keys[n] == chosen.chunk) for n in range(2))
        kept, waited = Signal(), Signal()  # the first READY waits; it has waited
        count = Signal(2)  # READYs that came for the watched chunk
        live = mine.any() & ~(setup & mine.bit_select(newest, 1))
        more = ((count == 0) | (live & (count != 3))) & ~Cat(freed).any()
        comes = Signal()
        for p in range(2):
            slot, chunk = self.slot[p], self.chunk.word_select(p, 2)
            here = chosen.port == p
            watched = here & (chunk == chosen.chunk)
            allowed = Mux(
                watched, (slot == chosen.slot) & more, ~(here & (slot == chosen.slot) & kept)
            )
            m.d.comb += [
                table.ready[p].valid.eq(started & self.valid[p] & allowed),
                table.ready[p].p.context.eq(slot),
                table.ready[p].p.key.chunk.eq(chunk),
            ]
            with m.If(table.ready[p].valid & table.ready[p].ready & watched):
                m.d.comb += comes.eq(1)
        found = done & (newest_key == chosen.chunk)
        with m.If(found):
            m.d.sync += kept.eq(0)
        with m.If(comes):
            m.d.sync += count.eq(count + 1)
            with m.If(~mine.any()):
                m.d.sync += [kept.eq(1), waited.eq(1)]
        with m.If(Cat(freed).any()):
            m.d.sync += [count.eq(0), kept.eq(0), waited.eq(0)]
        with m.If(self.abort):
            m.d.sync += [count.eq(0), kept.eq(0), waited.eq(0), assigned.eq(0), setup.eq(0)]

        m.d.sync += pending.eq((comes | (pending & table.waits)) & ~self.abort)

        # The rows of the watched peer, whatever the table shows of them.
        held = []
        for row, slot in zip(rows, (chosen.slot, ~chosen.slot)):
            m.d.comb += row.addr.eq(Cat(slot, chosen.port))
            held.append(~table.sweeping & row.data.valid & (row.data.key.chunk == chosen.chunk))
        late = Signal(3)  # cycles that the watched READY has waited without a sweep
        m.d.sync += late.eq(Mux(pending & ~comes & ~table.sweeping, late + 1, 0))
        bad = [
            held[1],
            held[0] & live,
            ~mine.any() & (count != held[0] + pending),
            late == 6,
        ]
        granted = []
        for n in range(2):
            readies = Mux(chosen.port, table.grants.readies[n][1], table.grants.readies[n][0])
            remote = Mux(chosen.port, table.grants.remote[n][1], table.grants.remote[n][0])
            judged = mine[n] & (~(setup & (newest == n)) | done)
            bad += [
                judged & (readies != count - pending),
                mine[n] & ~judged & (readies + held[0] + pending != count),
                judged & (readies != 0) & (remote != chosen.slot),
            ]
            granted.append(judged & (readies != 0) & waited)
        m.d.comb += self.bad.eq(started & Cat(bad).any())
        m.d.comb += self.cover_a_ready_that_waited_is_granted_after_an_abort.eq(
            started & ever(m, self.abort) & Cat(granted).any()
        )
        m.d.comb += self.cover_three_are_counted_of_which_one_has_waited.eq(
            started & Cat(granted).any() & (count == 3)
        )
        return m


class HastyTable(ReadyTable):
    """Planted bug: takes a READY while the write port is in use."""

    def _taken(self, m, wait):
        return super()._taken(m, Const(0))


class StaleTable(ReadyTable):
    """Planted bug: an admission does not revoke the grants of the last chunk."""

    def _grant(self, m, which, port, remote):
        super()._grant(m, which, port, remote)
        with m.If(self.admit.valid):
            m.d.sync += [each.eq(each) for counts in self.grants.readies for each in counts]


class SingleTable(ReadyTable):
    """Planted bug: a READY of a later phase is not counted."""

    def _grant(self, m, which, port, remote):
        super()._grant(m, which, port, remote)
        for counts in self.grants.readies:
            for each in counts:
                with m.If(each != 0):
                    m.d.sync += each.eq(Mux(self.admit.valid, 0, each))


class CommonTable(ReadyTable):
    """Planted bug: READYs of all ports are counted together."""

    def _grant(self, m, which, port, remote):
        super()._grant(m, which, Const(0), remote)


class SendHarness(wiring.Component):
    """Two contexts, lookups that answer what they like, peers that are ready when they like,
    phases that are settled when they like, and two ports that take a command when they like.

    Rule: a context starts when nothing of it is left, and a fresh instruction has no packet to wait
    for. One context is watched, and its READY for one port, any ones.

    `bad`: a READY goes to a port to which none is due, at the beginning or in the phase that was
    opened last, or twice; a packet is sent without the grant of its peer, or is not sent with it
    though its port has room; a command is given to a port without room; a phase is opened that is
    not settled, or otherwise than the program says, or so soon before a table entry or another
    phase that counts collide (see `ContextTable`); the generator denies that a context has
    instructions or READYs left. Or, while nobody stalls, a READY that is due is not sent within the
    time of three packets; or the watched context is not looked at while it has instructions left
    and waits for no phase and no room, though others are nine times (if it is the younger one:
    without sending a packet) or nothing is done for the time of a packet, whatever is answered; an
    instruction is looked at that is not of the oldest context, of those that can go on and have not
    been looked at since a packet was sent, or since all had been, but for want of room.
    """

    def __init__(self, generator):
        self.generator = generator
        super().__init__(
            {
                "start": In(1),
                "start_context": In(1),
                "ports": In(2),
                "live": In(2),
                "settled": In(2),
                "parked": In(1),
                "parked_context": In(1),
                "ask_entry": In(1),
                "stall": In(3),
                "op": In(4),
                "phase_ports": In(2),
                "counts": In(2),
                "granted": In(1),
                "port": In(1),
                "watch": In(1),
                "bad": Out(1), "cover_packets_follow_both_readies": Out(1),
                "cover_second_phase_is_announced_after_it_was_passed_over": Out(1),
                "cover_watched_context_sends_while_the_other_waits_for_its_phase": Out(1),
                "cover_watched_context_sends_while_the_other_waits_for_room": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.generator = generator = self.generator
        sent, send = generator.send.valid, generator.send.p
        to = index_of(generator.to)
        held = Signal(2)  # ports that have yet to take a command
        m.d.sync += held.eq((held & self.stall[1:]) | generator.to)
        watched, watched_port, begun = Signal(), Signal(), Signal()
        m.d.sync += begun.eq(1)
        with m.If(~begun):
            m.d.sync += [watched.eq(self.watch), watched_port.eq(self.port)]
        parked = Signal(2)  # at most 3
        park = self.parked & (parked != 3)
        # Lookups under way, each with its context.
        asked = Signal(data.StructLayout({"valid": 1, "context": 1, "table": 1}))
        m.d.comb += [
            asked.valid.eq(generator.request.valid & generator.request.ready),
            asked.context.eq(generator.request.p.context),
            asked.table.eq(generator.request.p.table),
        ]
        answered = asked
        for n in range(LOOKUP_LATENCY):
            after = Signal(asked.shape(), name=f"asked_{n + 1}")
            m.d.sync += after.eq(answered)
            answered = after
        response = generator.response
        fresh_now = answered.valid & ~answered.table & (generator._source == Source.FRESH)
        # Of a context, the port at which its packet has found no room: it is for no other one.
        aims = [Signal(2, name=f"aim_{n}") for n in range(2)]
        port = Signal()
        known = Array(aims)[answered.context] & fresh_now.replicate(2)
        m.d.comb += port.eq(Mux(known.any(), known[1], self.port))
        word, phase = Signal(instruction_layout), Signal(phase_layout)
        opens, ends = Signal(), Signal()
        m.d.comb += [
            word.op.eq(self.op & ~((fresh_now | answered.table) << 3)),
            phase.op.eq(word.op),
            phase.ready_ports.eq(self.phase_ports),
            phase.receives.eq(self.counts[0]),
            phase.sends.eq(self.counts[1]),
            phase.run.eq(1 + self.counts),
            opens.eq(fresh_now & word.op.reduce & ~word.op.send),
            ends.eq(fresh_now & ~word.op.reduce & ~word.op.send),
            response.valid.eq(answered.valid),
            response.p.word.eq(Mux(opens, phase, word)),
            response.p.resolved.granted.eq(self.granted),
            response.p.resolved.port.eq(port),
        ]
        m.d.sync += parked.eq(parked + park - (sent & ~send.ready & (parked != 0)))

        started = Signal(2)
        pending, due = Signal(2), [Signal(2, name=f"due_{n}") for n in range(2)]
        # Phases with nothing left, as the generator knows them a cycle later: what has settled
        # stays so until the next phase is opened (`ContextTable`).
        over = Signal(2)
        m.d.sync += over.eq(self.settled & Cat(~each.any() for each in due))
        wanted = self.start & ~generator.sending.bit_select(self.start_context, 1)
        quiet = ~(generator.send.valid & (send.context == self.start_context))
        m.d.comb += [
            started.eq((wanted & quiet & begun) << self.start_context),
            generator.start.eq(started),
            generator.admit.valid.eq(started.any()),
            generator.admit.p.context.eq(self.start_context),
            generator.contexts.live.eq(self.live),
            generator.contexts.settled.eq(self.settled),
            generator.request.ready.eq(~self.stall[0]),
            generator.room.eq(~held),
            generator.event.valid.eq(park),
            generator.event.p.parked.eq(1),
            generator.event.p.context.eq(self.parked_context),
            generator.entry_request.valid.eq(self.ask_entry),
        ]
        denied = []
        for n in range(2):
            mine = answered.context == n
            m.d.comb += [
                generator.contexts.entry[n].ready_ports.eq(self.ports),
                *(each.eq(1) for each in generator.contexts.packets[n]),
            ]
            with m.If(started[n]):
                m.d.sync += [pending[n].eq(1), due[n].eq(self.ports)]
            with m.If(ends & mine):
                m.d.sync += pending[n].eq(0)
            with m.If(opens & mine & over[n]):
                m.d.sync += due[n].eq(self.phase_ports)
            with m.If(sent & send.ready & (send.context == n)):
                m.d.sync += due[n].eq(due[n] & ~generator.to)
            denied.append((pending[n] | (due[n] != 0)) & ~generator.sending[n])

        late, since = Signal(5), Signal(2, init=3)
        since_entry = Signal(2, init=2)
        settles = over.bit_select(answered.context, 1)
        opened = generator.phase.valid
        goes = answered.valid & ~answered.table & ~opens & ~ends & self.granted
        taken = held | due[0] | due[1]  # ports at which a packet finds no room
        crowded = goes & taken.bit_select(port, 1)
        watched_due = Array(due)[watched].bit_select(watched_port, 1)
        with m.If(~watched_due | self.stall.any() | self.ask_entry):
            m.d.sync += late.eq(0)
        with m.Elif(late != 31):
            m.d.sync += late.eq(late + 1)
        mine_sent = sent & ~send.ready & (send.context == watched)
        # While the watched context has a turn to come: lookups of others, cycles without any.
        turns, still = Signal(4), Signal(4)
        waits = Signal(2)  # contexts, for the end of their phases
        for n in range(2):
            with m.If(opens & (answered.context == n)):
                m.d.sync += waits[n].eq(~settles)
            with m.Elif(started[n]):
                m.d.sync += waits[n].eq(0)
        # Contexts whose packet waits for room at a port.
        crowded_out = Signal(2)
        for n in range(2):
            m.d.comb += crowded_out[n].eq((aims[n] & taken).any())
            with m.If(crowded & fresh_now & (answered.context == n)):
                m.d.sync += aims[n].eq(1 << port)
            with m.Elif(started[n] | (sent & ~send.ready & fresh_now & (send.context == n))):
                m.d.sync += aims[n].eq(0)
        able = pending & (~waits | over) & ~crowded_out
        owed = able.bit_select(watched, 1) & ~self.ask_entry
        is_fresh = generator._source == Source.FRESH
        sends_fresh = sent & ~send.ready & is_fresh
        youngest = Signal(1)
        with m.If(started.any()):
            m.d.sync += youngest.eq(self.start_context)
        elder_sends = sends_fresh & (youngest == watched) & (send.context != watched)
        with m.If(~owed | (asked.valid & is_fresh & (asked.context == watched)) | elder_sends):
            m.d.sync += turns.eq(0)
        with m.Elif(asked.valid & ~asked.table & (turns != 15)):
            m.d.sync += turns.eq(turns + 1)
        # The cycle before a lookup is asked for is that in which it was chosen.
        able_before, asking = Signal(2), Signal()
        looked = Signal(2)
        request = generator.request
        chosen = request.valid & ~asking & ~request.p.table & is_fresh
        left = able_before & ~looked
        candidates = Mux(left.any(), left, able_before)
        elder = Signal(1)
        first = Mux(candidates.bit_select(elder, 1), elder, ~elder)
        m.d.sync += [
            able_before.eq(able), elder.eq(~youngest), asking.eq(request.valid & ~request.ready),
        ]
        with m.If(chosen):
            m.d.sync += looked.eq(Mux(left.any(), looked, 0) | (1 << request.p.context))
        with m.Elif(sends_fresh):
            m.d.sync += looked.eq(0)
        with m.Elif(crowded & fresh_now):
            m.d.sync += looked.bit_select(answered.context, 1).eq(0)
        at_rest = owed & ~self.stall.any() & ~park & (Cat(due) == 0)
        with m.If(~at_rest | asked.valid | sent):
            m.d.sync += still.eq(0)
        with m.Elif(still != 15):
            m.d.sync += still.eq(still + 1)
        with m.If(opened):
            m.d.sync += since.eq(0)
        with m.Elif(since != 3):
            m.d.sync += since.eq(since + 1)
        with m.If(generator.entry.valid):
            m.d.sync += since_entry.eq(0)
        with m.Elif(since_entry != 2):
            m.d.sync += since_entry.eq(since_entry + 1)
        m.d.comb += self.bad.eq(
            Cat(
                sent != generator.to.any(),
                (generator.to & (generator.to - 1)).any(),
                sent & send.ready & ~Array(due)[send.context].bit_select(to, 1),
                sent & ~send.ready & ~goes,
                goes & ~crowded & ~sent,
                sent & held.bit_select(to, 1),
                opened != (opens & settles),
                opened & (generator.phase.p.context != answered.context),
                opened & (generator.phase.p.receives != phase.receives),
                opened & (generator.phase.p.sends != phase.sends),
                opened & (generator.phase.p.run != phase.run),
                opened & (Array(due)[answered.context] != 0),
                (opened | generator.entry.valid) & (since != 3),
                opened & (generator.entry.valid | (since_entry != 2)),
                *denied,
                chosen & (request.p.context != first),
                late == 2 * LOOKUP_LATENCY + 14,
                turns == 9,
                still == LOOKUP_LATENCY + 6,
            ).any()
        )
        m.d.comb += self.cover_packets_follow_both_readies.eq(
            Cat(ever(m, sent & send.ready & (to == k)) for k in range(2)).all()
            & nth(m, sent & ~send.ready, 2)
        )
        passed = Signal()
        with m.If(opens & ~settles):
            m.d.sync += passed.eq(1)
        m.d.comb += self.cover_second_phase_is_announced_after_it_was_passed_over.eq(
            passed & nth(m, opened, 2) & (self.phase_ports != 0)
        )
        m.d.comb += self.cover_watched_context_sends_while_the_other_waits_for_its_phase.eq(
            passed & ~ever(m, opened) & mine_sent
        )
        m.d.comb += self.cover_watched_context_sends_while_the_other_waits_for_room.eq(
            mine_sent & is_fresh & crowded_out.bit_select(~watched, 1) & pending.all()
        )
        return m


GENERATOR_BUGS = {
    "it asks about a fresh packet until its peer is ready": (
        "        with m.Else():\n            m.next = \"PICK\"",
        "        with m.Else():\n            m.next = \"ASK\""),
    "it sends a parked packet though its peer is not ready": (
        "m.next = \"REPARK\"", "m.d.comb += self.send.valid.eq(1); m.next = \"PICK\""),
    "it asks about the end of a phase until the phase is settled": (
        "m.d.sync += ports.eq(phase.ready_ports)\n            m.next = \"PICK\"",
        ("m.d.sync += ports.eq(phase.ready_ports)\n            m.next = \"PICK\"\n"
         "            with m.If(~is_over): m.next = \"ASK\"")),
    "it opens a phase while the one before is not settled": (
        "self.phase.valid.eq(is_over)", "self.phase.valid.eq(1)"),
    "it takes the end of a phase for that of the program": (
        "& ends & operation.reduce & ~operation.receive", "& ends & operation.receive"),
    "it announces no phase but the first": ("ports.eq(phase.ready_ports)", "ports.eq(0)"),
    "it announces a phase to the ports of the first": (
        "ports.eq(phase.ready_ports)", "ports.eq(self.contexts.entry[n].ready_ports)"),
    "it forgets that a context waits for its phase when this is settled": (
        "(~waiting | over)", "~waiting"),
    "a phase begins while READYs of the one before are left": (
        "over.eq(self.contexts.settled & Cat(~ports.any() for ports in ready_ports))",
        "over.eq(self.contexts.settled)"),
    "packets take the room that a READY waits for": (
        "self._free.eq(self.room & ~claimed)", "self._free.eq(self.room)"),
    "the youngest context goes first": (
        "return fresh, ages.grant, take", "return fresh, fresh & ~ages.grant, take"),
    "a context that was passed over waits for all others": (
        "with m.Elif(self._sends_fresh()):\n            m.d.sync += passed.eq(0)",
        "with m.Elif(0): pass"),
    "a context that was passed over is the first again": (
        "Mux(left.any(), passed, 0) | ages.grant", "0"),
    "it gives a packet to a port without room": (
        "resolved.granted & room", "resolved.granted"),
    "it gives a READY to a port without room": (
        "map(lowest, able)", "map(lowest, self.wanted)"),
    "it asks about a packet again and again for which there is no room": (
        "crowded_out[n].eq((wanted & ~self._free).any())", "crowded_out[n].eq(0)"),
    "a context that waited for room has lost its place": (
        "m.d.sync += passed.bit_select(self._context, 1).eq(0)", "pass"),
    "a new chunk waits for the room that the one before it wanted": (
        "self.start[n] | (self._sends_fresh()", "(self._sends_fresh()"),
    "a context waits for room at the wrong port": (
        "wanted.eq(1 << self.response.p.resolved.port)", "wanted.eq(1)"),
    "the context is over when it waits for its phase": (
        "self.sending.eq(fresh |", "self.sending.eq((fresh & ~waiting) |"),
}
"""Bugs, as changes of the text."""


class ContextHarness(wiring.Component):
    """Two contexts, chunks of one or two packets per block and up to 3 runs of one or two blocks
    that arrive and leave in each of any number of phases, some of their packets before the phase
    begins; a run has two packets at most.

    Rules: a chunk is admitted when there is room, to where the table says, after an abort when all
    is quiet; units report no more than the program has; the generator opens a phase of a live
    context that is settled and has instructions left (``sending``), keeps these for the six
    cycles that counts take, and has neither another phase within five cycles nor a table entry
    within four, nor a phase within two of an entry; packets come ahead only of a phase that is to
    come, and no more than it has; the DMA stores each job once.

    `bad`: a chunk leaves its context with something left to arrive, to leave or to send; a live
    context is said to be settled when packets of its phase are left, or not to be when none are;
    runs of a phase, or of the one ahead, have another length; or
    a context is vacant whose chunk is not yet stored.
    """

    def __init__(self, table):
        self.table = table
        super().__init__(
            {
                "admit": In(1),
                "two": In(1),
                "long": In(1),
                "receives": In(2),
                "sends": In(2),
                "answer": In(1),
                "searched": In(1),
                "loaded": In(2),
                "event": In(1),
                "event_context": In(1),
                "received": In(1),
                "sent": In(1),
                "early": In(1),
                "ahead": In(1),
                "phase": In(1),
                "phase_context": In(1),
                "phase_receives": In(2),
                "phase_sends": In(2),
                "sending": In(2),
                "take": In(1),
                "stored": In(2),
                "abort": In(1),
                "bad": Out(1), "cover_third_chunk_is_stored_after_an_abort": Out(1),
                "cover_chunk_of_three_phases_is_stored_beside_an_admission": Out(1),
                "cover_chunk_is_stored_whose_packets_came_ahead": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = self.table
        state = table.state
        newest = state.newest.context
        admit, asked = Signal(), Signal()
        in_use, handed = Signal(2), Signal(2)  # slots: of a chunk; the DMA has the job
        aborted = Signal()
        with m.If(self.abort):
            m.d.sync += aborted.eq(1)
        with m.Elif(~table.busy & (handed == 0)):
            m.d.sync += aborted.eq(0)
        since = Signal(3, init=6)  # cycles since a phase was opened, at most 6
        since_entry = Signal(2, init=2)
        two = Signal(2)  # packets of a block of each context, less one
        held = Signal(1)  # that context
        offered, opens = Signal(), Signal()
        sending = Signal(2)
        # Packets of the next phase that have come and gone, for each context.
        early = [
            [Signal(3, name=f"early_{n}_{what}") for what in ("received", "sent")] for n in range(2)
        ]
        is_early = Signal()
        enough = Signal(2)  # the phase has as many as have come ahead
        m.d.comb += [
            sending.eq(
                self.sending | Mux(since != 6, 1 << held, 0)
                | Cat((Cat(*each) != 0) for each in early)
            ),
            offered.eq(
                self.phase & (since >= 5) & (since_entry == 2)
                & (state.live & state.settled & self.sending & enough)
                .bit_select(self.phase_context, 1)
                & ~((since != 6) & (held == self.phase_context)) & ~table.entry.valid
            ),
            table.phase.valid.eq(offered),
            # A phase that begins in the cycle of an abort is forgotten.
            opens.eq(offered & ~self.abort),
            table.phase.p.context.eq(self.phase_context),
            table.phase.p.receives.eq(self.phase_receives),
            table.phase.p.sends.eq(self.phase_sends),
            table.phase.p.run.eq(1 + (self.long & ~two.bit_select(self.phase_context, 1))),
            table.phase.p.ahead.eq(self.ahead),
        ]
        with m.If(opens):
            m.d.sync += [since.eq(0), held.eq(self.phase_context)]
        with m.Elif(since != 6):
            m.d.sync += since.eq(since + 1)
        with m.If(table.entry.valid):
            m.d.sync += since_entry.eq(0)
        with m.Elif(since_entry != 2):
            m.d.sync += since_entry.eq(since_entry + 1)
        m.d.comb += [
            # An admission in the cycle of an abort is forgotten.
            admit.eq(table.admit.valid & ~self.abort),
            table.admit.valid.eq(self.admit & table.vacant & ~aborted),
            table.admit.p.context.eq(table.vacant_context),
            table.admit.p.beats.eq(1 + self.two),
            table.job.slot.eq(table.vacant_context),
            table.entry_request.ready.eq(~asked),
            table.entry.valid.eq(asked & self.answer & (since >= 4)),
            table.entry.p.context.eq(state.newest.context),
            table.entry.p.entry.receives.eq(self.receives),
            table.entry.p.entry.sends.eq(self.sends),
            table.entry.p.entry.run.eq(1 + (self.long & ~two.bit_select(newest, 1))),
            table.searched.eq(self.searched),
            table.sending.eq(sending),
            table.store.ready.eq(self.take),
            table.forget.eq(self.abort),
        ]
        with m.If(table.entry_request.valid & table.entry_request.ready):
            m.d.sync += asked.eq(1)
        with m.If(table.entry.valid):
            m.d.sync += asked.eq(0)
        with m.If(admit | self.abort):
            m.d.sync += asked.eq(0)

        bad = []
        loaded = Signal(2)
        one_load = Mux(self.loaded[0], 1, self.loaded & 2)
        m.d.comb += [
            loaded.eq(one_load & state.assigned & ~state.live),
            table.loaded.valid.eq(loaded.any()),
            table.loaded.p.slot.eq(loaded[1]),
        ]
        one_store = Mux((self.stored & handed)[0], 1, self.stored & handed & 2)
        m.d.comb += [table.stored.valid.eq(one_store.any()), table.stored.p.slot.eq(one_store[1])]
        counts, phases, twos = [], [], Signal(2)
        for n in range(2):
            receives, sends = Signal(3, name=f"receives_{n}"), Signal(3, name=f"sends_{n}")
            counts.append((receives, sends))
            before = Signal(name=f"before_{n}")
            phase = Signal(2, name=f"phase_{n}")  # phases that were opened, at most 3
            phases.append(phase)
            with m.If(admit & (table.vacant_context == n)):
                m.d.sync += [two[n].eq(self.two), phase.eq(0)]
            with m.If(opens & (self.phase_context == n) & (phase != 3)):
                m.d.sync += phase.eq(phase + 1)
            doubled = two[n] | self.long
            with m.If((table.entry.valid & (newest == n)) | (opens & (self.phase_context == n))):
                m.d.sync += twos[n].eq(doubled)
            came = self.phase_receives << doubled, self.phase_sends << doubled
            opened = opens & (self.phase_context == n)
            hers = table.event.valid & (self.event_context == n)
            # A packet that comes in the cycle in which its phase begins is still said to be early.
            events = [
                hers & is_early & each for each in (table.event.p.received, table.event.p.sent)
            ]
            ahead_of = [got + event for got, event in zip(early[n], events)]
            m.d.comb += enough[n].eq((came[0] >= ahead_of[0]) & (came[1] >= ahead_of[1]))
            for got, event in zip(early[n], (table.event.p.received, table.event.p.sent)):
                with m.If((admit & (table.vacant_context == n)) | opened):
                    m.d.sync += got.eq(0)
                with m.Elif(hers & is_early):
                    m.d.sync += got.eq(got + event)
            mine = table.entry.valid & (state.newest.context == n)
            with m.If(mine):
                m.d.sync += [
                    receives.eq(self.receives << doubled), sends.eq(self.sends << doubled),
                ]
            with m.Elif(opened):
                m.d.sync += [receives.eq(came[0] - ahead_of[0]), sends.eq(came[1] - ahead_of[1])]
            with m.Elif(hers & ~is_early):
                m.d.sync += [
                    receives.eq(receives - table.event.p.received),
                    sends.eq(sends - table.event.p.sent),
                ]
            settled = (receives == 0) & (sends == 0)
            left = ~settled | sending[n]
            idle = Signal(name=f"idle_{n}")
            m.d.sync += [before.eq(state.live[n] & ~self.abort), idle.eq(~left)]
            known = state.live[n] & ~((since != 6) & (held == n))
            bad += [before & ~state.live[n] & ~idle, known & (state.settled[n] != settled)]
            # Beats of runs: of this phase, and of the one ahead.
            span, beyond = Signal(3, name=f"span_{n}"), Signal(3, name=f"beyond_{n}")
            with m.If(mine):
                m.d.sync += [span.eq(1 + doubled), beyond.eq(1 + doubled)]
            with m.Elif(opened):
                m.d.sync += [span.eq(1 + doubled), beyond.eq(Mux(self.ahead, 1 + doubled, 0))]
            for odd in range(2):
                of_phase = state.odd[n] == odd
                said = state.span[n][odd]
                bad.append(known & of_phase & (said != span))
                bad.append(known & (since == 6) & ~of_phase & (said != beyond))
        receives = Mux(self.event_context, counts[1][0], counts[0][0])
        sends = Mux(self.event_context, counts[1][1], counts[0][1])
        # No more than the largest phase has.
        gone = [Mux(self.event_context, *both) for both in zip(*early[::-1])]
        left = [Mux(is_early, came != 6, rest != 0) for came, rest in zip(gone, (receives, sends))]
        m.d.comb += [
            is_early.eq(self.early & self.sending.bit_select(self.event_context, 1)),
            table.event.valid.eq(self.event & state.live.bit_select(self.event_context, 1)),
            table.event.p.context.eq(self.event_context),
            table.event.p.odd.eq(state.odd.bit_select(self.event_context, 1) ^ is_early),
            table.event.p.received.eq(self.received & left[0]),
            table.event.p.sent.eq(self.sent & left[1]),
        ]
        jobs = table.store.valid & table.store.ready
        # A job that waits stays the same, though it is read where admissions write.
        waits, job = Signal(), Signal.like(table.store.payload.as_value())
        m.d.sync += [
            waits.eq(table.store.valid & ~table.store.ready), job.eq(table.store.payload),
        ]
        bad.append(waits & (~table.store.valid | (table.store.payload.as_value() != job)))
        for n in range(2):
            with m.If(jobs & (table.store.p.slot == n)):
                m.d.sync += handed[n].eq(1)
            with m.If(one_store[n]):
                m.d.sync += [handed[n].eq(0), in_use[n].eq(0)]
            with m.If(admit & (table.vacant_context == n)):
                m.d.sync += in_use[n].eq(1)
            with m.If(self.abort & state.assigned[n]):
                m.d.sync += in_use[n].eq(0)
        bad.append(admit & in_use.bit_select(table.vacant_context, 1))
        m.d.comb += self.bad.eq(Cat(bad).any())
        m.d.comb += self.cover_third_chunk_is_stored_after_an_abort.eq(
            ever(m, self.abort) & nth(m, one_store.any() & ~aborted, 3)
        )
        beside = Signal()  # a phase was opened while a chunk was being admitted
        with m.If(opens & state.setup):
            m.d.sync += beside.eq(1)
        m.d.comb += self.cover_chunk_of_three_phases_is_stored_beside_an_admission.eq(
            beside & Cat(one_store[n] & (phases[n] >= 2) & twos[n] for n in range(2)).any()
        )
        ahead = Signal(2)  # a chunk of which packets came ahead
        for n in range(2):
            with m.If(Cat(*early[n]) != 0):
                m.d.sync += ahead[n].eq(1)
        covered = (ahead & one_store).any()
        m.d.comb += self.cover_chunk_is_stored_whose_packets_came_ahead.eq(covered)
        return m


CONTEXT_BUGS = {
    "a chunk is finished when its phase is settled, whatever is left of its program": (
        "state.live[n] & ~self.sending[n] & state.settled[n]", "state.live[n] & state.settled[n]"),
    "a phase is settled when everything has arrived": (
        "a & b for (_, a), (_, b) in", "a for (_, a), (_, b) in"),
    "sends of a phase are those that arrive": (
        "count.eq(phase.sends)", "count.eq(phase.receives)"),
    "packets that come ahead are forgotten when their phase begins": (
        "left.eq(left + Mux(begins, product, 0) - ", "left.eq(Mux(begins, product, left) - "),
    "packets that come ahead count for the phase that is open": (
        "(self.parity == parity)", "(self.odd == parity)"),
    "a run of the phase ahead is as long as one of this phase": (
        "count.eq(phase.ahead)", "count.eq(1)"),
    "an abort leaves a product under way": (
        "m.d.sync += [opening.eq(0), entering.eq(0)]", "m.d.sync += opening.eq(0)"),
    "a slot is free when its job is handed over": (
        "with m.If(self.stored.valid):\n            m.d.sync += occupied.bit_select(self.stored.p",
        ("with m.If(self.store.valid & self.store.ready):\n"
         "            m.d.sync += occupied.bit_select(self.store.p")),
    "a job that waits gives way to the next one": (
        "read.addr.eq(storing)", "read.addr.eq(completed)"),
    "a slot is free when its chunk is finished": (
        "state.live.bit_select(completed, 1).eq(0),",
        "state.live.bit_select(completed, 1).eq(0), occupied.bit_select(completed, 1).eq(0),"),
    "a chunk is finished when its instructions are over, whatever is left to arrive or to leave": (
        "state.live[n] & ~self.sending[n] & state.settled[n]", "state.live[n] & ~self.sending[n]"),
    "a phase is settled when everything has left": (
        "a & b for (_, a), (_, b) in", "b for (_, a), (_, b) in"),
    "the last packet does not settle a phase": ("left == event)", "left == 0)"),
    "an admission takes the product of a phase": (
        "& self.searched & ~opening.any()", "& self.searched"),
    "a phase has the packets of the newest context": (
        "Mux(phase.context == n,", "Mux(newest == n,"),
    "blocks of a phase are as long as those of the newest context": (
        "length.eq(Array(beats)[self.phase.p.context])", "length.eq(state.newest.beats)"),
    "runs of a phase are as long as those of the first one": (
        "self.entry | (self.opening[0] & its)", "self.entry"),
    "a phase has the counts of the first one": (
        "Mux(begins, product, 0)", "Mux(begins, due, 0)"),
}
"""Bugs, as changes of the text."""


def test_ready_packets_reach_their_contexts_however_early_they_come(tmp_path):
    assert holds(ReadyHarness(ReadyTable(small(2))), tmp_path, timeout=900)


@pytest.mark.parametrize("broken", [
    HastyTable, CommonTable,
    *full((StaleTable, SingleTable)),
])
def test_broken_ready_table_is_refuted(broken, tmp_path):
    assert not holds(ReadyHarness(broken(small(2))), tmp_path)


def test_generator_sends_what_is_granted_and_waits_for_no_peer_and_no_phase(tmp_path):
    assert holds(SendHarness(SendGenerator(small(2))), tmp_path)


@pytest.mark.parametrize("bug", quick(3, GENERATOR_BUGS))
def test_broken_generator_is_refuted(bug, tmp_path):
    changed = with_change(
        send_generator, "SendGenerator", *GENERATOR_BUGS[bug], of="ReadyTurns"
    )
    assert not holds(SendHarness(changed(small(2))), tmp_path)


CONTEXT_CYCLES = 19
"""From reset, in which each of the planted bugs shows."""


@pytest.mark.parametrize("cycles", [CONTEXT_CYCLES, *full([None])])
def test_chunks_and_phases_end_when_nothing_is_left_and_slots_when_they_are_stored(
    cycles, tmp_path
):
    harness = ContextHarness(ContextTable(small(2)))
    assert holds(harness, tmp_path, cycles=cycles, cover_cycles=COVER_CYCLES, timeout=900)


@pytest.mark.parametrize("bug", quick(3, CONTEXT_BUGS))
def test_broken_context_table_is_refuted(bug, tmp_path):
    changed = with_change(contexts, "ContextTable", *CONTEXT_BUGS[bug], of="PhaseCounts")
    harness = ContextHarness(changed(small(2)))
    assert not holds(harness, tmp_path, cycles=CONTEXT_CYCLES)

# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The parts of FSM, receive unit and dispatcher keep the latencies of their data sheets."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from hw.ace.beat_issue import BeatIssue
from hw.ace.command_table import CommandTable
from hw.ace.config import preset
from hw.ace.isa import Opcode, instruction_layout, opcode_layout, program_entry_layout
from hw.ace.lookup import LOOKUP_LATENCY, LookupPipeline
from hw.ace.packet_lookup import PacketLookup
from hw.ace.packet_outcome import PacketOutcome
from hw.ace.ready_table import ReadyTable
from hw.ace.reduce_path import ReducePath, results_depth
from hw.ace.send_generator import SendGenerator
from hw.ace.sram import READ_LATENCY
from hw.common.testing import simulate
from hw.fp.ops import ReduceOp
from hw.link.packet import PacketKind

CONFIG = preset("test")
PACKET = {
    "context": 1, "key": {"collective": 9, "chunk": 3}, "op": 0, "step": 1, "offset": 0,
    "length": 64, "contributions": 2,
}  # fmt: skip


def entry(**fields):
    return program_entry_layout.const(fields).as_value().value


def instruction(opcode, **fields):
    parts = {name: opcode.value >> n & 1 for n, name in enumerate(opcode_layout.members)}
    return instruction_layout.const({"op": parts, **fields}).as_value().value


async def cycles_until(ctx, condition, limit=60):
    for cycle in range(limit):
        if ctx.get(condition):
            return cycle
        await ctx.tick()
    raise AssertionError(f"not within {limit} cycles")


async def set_up_lookup(ctx, dut):
    """A program of SEND, RECV_REDUCE_SEND and, in the phase ahead, RECV in context 1; runs of two
    blocks of 16 elements, 64 bytes, and of one there."""
    words = {
        0: entry(entry=2, last=2),
        8: instruction(Opcode.SEND, block=0, contributions=1),
        9: instruction(
            Opcode.RECV_REDUCE_SEND, block=2, contributions=3, arriving=2, peer_step=4, port=1,
            readies=1,
        ),
        10: instruction(Opcode.RECV, arriving=4, odd=1),
    }
    for address, word in words.items():
        ctx.set(dut.program.p, {"address": address, "word": word})
        ctx.set(dut.program.valid, 1)
        await ctx.tick()
    ctx.set(dut.program.valid, 0)
    row = {
        "context": 1, "beats": 4, "elements": 48, "row": 100,
    }  # fmt: skip
    ctx.set(dut.admit.p, row)
    ctx.set(dut.admit.valid, 1)
    await ctx.tick()
    ctx.set(dut.admit.valid, 0)
    ctx.set(dut.contexts.live, 0b10)
    ctx.set(dut.contexts.key[1], PACKET["key"])
    ctx.set(dut.contexts.entry[1], {"entry": 2, "last": 2})
    for parity, packets in enumerate((2, 1)):
        ctx.set(dut.contexts.span[1][parity], 4 * packets)
        ctx.set(dut.contexts.packets[1][parity], packets)
    ctx.set(dut.grants.readies[1][1], 2)
    ctx.set(dut.grants.remote[1][1], 3)


def test_lookup_answers_after_its_latency_what_the_program_says():
    dut = LookupPipeline(CONFIG)

    async def bench(ctx):
        await set_up_lookup(ctx, dut)
        ctx.set(dut.request[0].p, PACKET)
        ctx.set(dut.request[0].valid, 1)
        assert ctx.get(dut.request[0].ready)
        await ctx.tick()
        ctx.set(dut.request[0].valid, 0)
        assert await cycles_until(ctx, dut.response[0].valid) == LOOKUP_LATENCY - 1
        got = ctx.get(dut.response[0].p)
        assert (got.valid, got.granted, got.port, got.remote_context) == (1, 1, 1, 3)
        assert (got.peer_step, got.length, got.contributions) == (4, 64, 3)
        assert got.row == 108
        assert not ctx.get(dut.response[1].valid) and not ctx.get(dut.own_response.valid)

    simulate(dut, bench)


@pytest.mark.parametrize(
    "wrong",
    [
        {"context": 0}, {"context": 9}, {"key": {"collective": 9, "chunk": 4}}, {"op": 1},
        {"step": 0}, {"step": 3}, {"offset": 2}, {"length": 60}, {"contributions": 3},
        {"offset": 2, "length": 0},
        {"step": 2, "offset": 1, "contributions": 4},
        {"step": 2, "offset": 1, "contributions": 4, "length": 0},
    ],
    ids=str,
)  # fmt: skip
def test_lookup_refuses_what_the_program_does_not_expect(wrong):
    dut = LookupPipeline(CONFIG)

    async def bench(ctx):
        await set_up_lookup(ctx, dut)
        for fields, valid in ((PACKET | wrong, 0), (PACKET, 1)):
            ctx.set(dut.request[1].p, fields)
            ctx.set(dut.request[1].valid, 1)
            await ctx.tick()
            ctx.set(dut.request[1].valid, 0)
            await cycles_until(ctx, dut.response[1].valid)
            assert ctx.get(dut.response[1].p.valid) == valid
            await ctx.tick()

    simulate(dut, bench)


def test_lookup_refuses_a_packet_for_a_context_that_is_not_live_whatever_else_it_has():
    dut = LookupPipeline(CONFIG)

    async def bench(ctx):
        await set_up_lookup(ctx, dut)
        for live in (0b00, 0b01, 0b10):
            ctx.set(dut.contexts.live, live)
            ctx.set(dut.request[0].p, PACKET)
            ctx.set(dut.request[0].valid, 1)
            await ctx.tick()
            ctx.set(dut.request[0].valid, 0)
            await cycles_until(ctx, dut.response[0].valid)
            assert ctx.get(dut.response[0].p.valid) == live >> PACKET["context"]
            await ctx.tick()

    simulate(dut, bench)


def test_lookup_knows_the_runs_of_the_phase_ahead_and_says_that_it_is_that_one():
    dut = LookupPipeline(CONFIG)

    async def bench(ctx):
        await set_up_lookup(ctx, dut)
        ctx.set(dut.request[0].p, PACKET | {"step": 2, "contributions": 4})
        ctx.set(dut.request[0].valid, 1)
        await ctx.tick()
        ctx.set(dut.request[0].valid, 0)
        await cycles_until(ctx, dut.response[0].valid)
        got = ctx.get(dut.response[0].p)
        assert (got.valid, got.odd, got.length, got.row) == (1, 1, 64, 100)

    simulate(dut, bench)


def test_lookups_of_all_requesters_take_turns_without_a_gap():
    dut = LookupPipeline(CONFIG)
    seen = []

    async def bench(ctx):
        await set_up_lookup(ctx, dut)
        for port in dut.request:
            ctx.set(port.p, PACKET)
            ctx.set(port.valid, 1)
        ctx.set(dut.own_request.p, {"context": 1, "step": 0, "table": 1})
        ctx.set(dut.own_request.valid, 1)
        for _ in range(30):
            await ctx.tick()
            answers = (*dut.response, dut.own_response)
            seen.append([ctx.get(answer.valid) for answer in answers])
        assert ctx.get(dut.own_response.p.word) == entry(entry=2, last=2)

    simulate(dut, bench)
    steady = seen[LOOKUP_LATENCY:]
    assert all(sum(row) == 1 for row in steady)
    assert [sum(column) for column in zip(*steady[:24])] == [8, 8, 8]


@pytest.mark.parametrize("stale", [0, 1])
def test_search_and_sweep_take_a_cycle_per_row(stale):
    dut = ReadyTable(CONFIG)
    rows = CONFIG.ports * CONFIG.contexts

    async def bench(ctx):
        swept = await cycles_until(ctx, ~dut.sweeping)
        assert swept == rows + 1
        ctx.set(dut.ready[1].p, {"stale": stale, "context": 2, "key": {"chunk": 5}})
        ctx.set(dut.ready[1].valid, 1)
        assert ctx.get(dut.ready[1].ready)
        await ctx.tick()
        ctx.set(dut.ready[1].valid, 0)
        admitted = {"context": 1, "key": {"chunk": 5}}
        ctx.set(dut.admit.p, admitted)
        ctx.set(dut.admit.valid, 1)
        await ctx.tick()
        ctx.set(dut.admit.valid, 0)
        ctx.set(dut.contexts.setup, 1)
        ctx.set(dut.contexts.newest, admitted)
        assert await cycles_until(ctx, dut.searched) == rows + 1
        assert [ctx.get(n) for n in dut.grants.readies[1]] == [0, 1 - stale]
        assert ctx.get(dut.grants.remote[1][1]) == (0 if stale else 2)

    simulate(dut, bench)


@pytest.mark.parametrize("granted", [1, 0])
def test_generator_takes_the_lookup_and_two_cycles_for_a_packet(granted):
    """When the peer is not ready, the packet is asked about again and again."""
    dut = SendGenerator(CONFIG)
    asked, sent = [], []

    async def answer(ctx):
        waiting = [0] * LOOKUP_LATENCY
        ctx.set(dut.response.p.word, instruction(Opcode.SEND))
        ctx.set(dut.response.p.resolved.granted, granted)
        ctx.set(dut.request.ready, 1)
        ctx.set(dut.room, (1 << CONFIG.ports) - 1)
        ctx.set(dut.contexts.packets[0][0], 8)
        ctx.set(dut.start, 1)
        for cycle in range(200):
            ctx.set(dut.response.valid, waiting.pop(0))
            waiting.append(ctx.get(dut.request.valid))
            asked.extend([cycle] * ctx.get(dut.request.valid))
            sent.extend([ctx.get(dut.send.p.offset)] * ctx.get(dut.send.valid))
            await ctx.tick()
            ctx.set(dut.start, 0)

    simulate(dut, answer)
    assert {after - before for before, after in pairwise(asked)} == {LOOKUP_LATENCY + 2}
    assert sent == ([n % 8 for n in range(len(sent))] if granted else [])
    assert bool(sent) == granted


@pytest.mark.parametrize("live", [1, 0])
def test_generator_is_busy_as_long_as_a_packet_is_parked_or_under_way(live):
    """An abort leaves parked packets of contexts that are no more: they are work as well."""
    dut = SendGenerator(CONFIG)

    async def bench(ctx):
        waiting = [0] * LOOKUP_LATENCY
        ctx.set(dut.response.p.word, instruction(Opcode.SEND))
        ctx.set(dut.response.p.resolved.granted, 1)
        ctx.set(dut.request.ready, 1)
        ctx.set(dut.contexts.live, live)
        ctx.set(dut.room, (1 << CONFIG.ports) - 1)
        await ctx.tick()
        assert not ctx.get(dut.busy)
        sent = pending = waits = 0
        for cycle in range(200):
            parked = cycle < 5
            ctx.set(dut.event.valid, parked)
            ctx.set(dut.event.p.parked, parked)
            taken = waits and cycle % 29 == 0
            ctx.set(dut.room[0], not waits)
            ctx.set(dut.response.valid, waiting.pop(0))
            waiting.append(ctx.get(dut.request.valid))
            given = ctx.get(dut.send.valid)
            assert not (given and waits), "a command without room for it"
            sent += given
            if live and cycle:
                assert ctx.get(dut.busy) == (pending > 0), f"in cycle {cycle}"
            elif 0 < cycle < 5:
                assert ctx.get(dut.busy)
            waits += given - taken
            pending += parked - taken
            await ctx.tick()
        assert not ctx.get(dut.busy)
        assert sent == (5 if live else 0)

    simulate(dut, bench)


def test_packets_are_looked_up_without_a_gap_and_come_out_in_order():
    dut = PacketLookup(CONFIG)
    taken = []

    async def fsm(ctx):
        waiting = [0] * (LOOKUP_LATENCY - 1)
        ctx.set(dut.lookup.ready, 1)
        ctx.set(dut.ready.ready, 1)
        ctx.set(dut.resolved.p.valid, 1)
        for cycle in range(40):
            kind = PacketKind.READY if cycle == 7 else PacketKind.DATA
            header = {"kind": kind, "step": cycle, "sequence": cycle, "fsm": int(cycle == 9)}
            ctx.set(dut.header.p, header)
            ctx.set(dut.header.valid, 1)
            assert ctx.get(dut.header.ready), "no header has to wait"
            assert ctx.get(dut.release_control) == (cycle == 8)
            waiting.append(ctx.get(dut.lookup.valid))
            ctx.set(dut.packet.ready, ctx.get(dut.packet.valid))
            if ctx.get(dut.packet.valid):
                taken.append((ctx.get(dut.packet.p.header.step), cycle,
                              ctx.get(dut.packet.p.resolved.valid)))  # fmt: skip
            await ctx.tick()
            ctx.set(dut.resolved.valid, waiting.pop(0))

    simulate(dut, fsm)
    steps = [step for step, _, _ in taken]
    assert steps == [n for n in range(len(steps) + 1) if n != 7]
    assert all(valid == (step != 9) for step, _, valid in taken)
    assert {cycle - step for step, cycle, _ in taken} == {LOOKUP_LATENCY + 2}


@pytest.mark.parametrize("stages", [1, 3])
def test_reduced_and_passed_beats_take_the_same_time(stages):
    config = replace(CONFIG, alu_stages=stages)
    dut = ReducePath(config)
    latency = READ_LATENCY + config.alu_latency
    ahead = 2  # cycles in which a beat waits for its operand
    kinds = [n % 3 == 1 for n in range(30)]
    out = []

    async def bench(ctx):
        alu = [0] * (config.alu_latency + 1)
        ctx.set(dut.result.ready, 1)
        for cycle in range(-ahead, 60):
            issued = 0 <= cycle < len(kinds)
            ctx.set(dut.promise, cycle + ahead < len(kinds))
            ctx.set(dut.issue.valid, issued)
            ctx.set(dut.issue.p, {"reduce": issued and kinds[cycle], "operator": ReduceOp.MAX_F32})
            assert ctx.get(dut.room)
            ctx.set(dut.payload, max(0, cycle) + 1000)
            ctx.set(dut.operand, max(0, cycle - READ_LATENCY + 1))
            alu.insert(0, ctx.get(dut.alu.a) + 5000 if ctx.get(dut.alu.valid) else 0)
            if alu[0]:
                assert ctx.get(dut.alu.op) == ReduceOp.MAX_F32
                assert ctx.get(dut.alu.a) == 1000 + ctx.get(dut.alu.b)
            ctx.set(dut.alu.result, alu[config.alu_latency])
            if ctx.get(dut.result.valid):
                out.append((cycle, ctx.get(dut.result.p.beat)))
            await ctx.tick()

    simulate(dut, bench)
    assert out == [
        (n + latency, 1000 + n + 5000 * kind) for n, kind in enumerate(kinds)
    ]  # fmt: skip


def test_issue_stops_when_results_have_no_place():
    dut = ReducePath(CONFIG)

    async def bench(ctx):
        issued = before = 0
        for _ in range(40):
            ctx.set(dut.issue.valid, before)
            before = ctx.get(dut.room)
            ctx.set(dut.promise, before)
            issued += before
            await ctx.tick()
        taken = 0
        ctx.set(dut.issue.valid, 0)
        ctx.set(dut.result.ready, 1)
        while ctx.get(dut.result.valid):
            taken += 1
            await ctx.tick()
        assert taken == issued == results_depth(CONFIG)

    simulate(dut, bench)


def test_six_packets_end_before_their_events_must_be_taken():
    """Two more than must be known to have a place, as they may not have come to the queue yet."""
    dut = PacketOutcome(CONFIG)

    async def bench(ctx):
        for stream in (dut.packet, dut.result):
            ctx.set(stream.valid, 1)
        ctx.set(dut.result.p.last, 1)
        beats = 0
        for _ in range(30):
            beats += ctx.get(dut.result.ready)
            await ctx.tick()
        assert beats == 6
        ctx.set(dut.event.ready, 1)
        await ctx.tick().repeat(3)
        ctx.set(dut.event.ready, 0)
        assert await cycles_until(ctx, dut.result.ready) <= 1

    simulate(dut, bench)


def test_eight_packets_wait_for_their_beats_and_keep_their_order():
    dut = PacketOutcome(CONFIG)
    seen = []

    async def bench(ctx):
        ctx.set(dut.event.ready, 1)
        ctx.set(dut.packet.valid, 1)
        taken = 0
        for cycle in range(61):
            ctx.set(dut.packet.p.header.step, taken)
            # None goes on at first; then every other cycle, while more are offered.
            ctx.set(dut.result.p.last, 1)
            ctx.set(dut.result.valid, cycle >= 20 and cycle % 2)
            assert ctx.get(dut.packet.ready) or cycle >= 8
            taken += ctx.get(dut.packet.ready)
            if cycle == 19:
                assert taken == 8
            if ctx.get(dut.event.valid):
                seen.append(ctx.get(dut.event.p.step))
            await ctx.tick()
        assert taken == len(seen) + 9, "one beat waits to be stored, or would"

    simulate(dut, bench)
    assert seen == list(range(len(seen)))
    assert len(seen) >= 18


def test_outcome_stores_forwards_and_reports_in_the_cycle_of_the_beat():
    dut = PacketOutcome(CONFIG)
    stored, sent, events = [], [], []

    async def bench(ctx):
        ctx.set(dut.node, 6)
        ctx.set(dut.store.grant, 1)
        ctx.set(dut.event.ready, 1)
        packet = {
            "header": {"context": 1, "step": 2, "offset": 3, "contributions": 4, "length": 32},
            "onward": {"context": 3, "step": 5, "contributions": 6},
            "forward": 1, "port": 1, "row": 40,
        }  # fmt: skip
        ctx.set(dut.packet.p, packet)
        ctx.set(dut.packet.valid, 1)
        await ctx.tick()
        ctx.set(dut.packet.valid, 0)
        asked = 0
        for cycle in range(8):
            ctx.set(dut.result.p, {"beat": 70 + cycle, "stores": 1, "last": cycle == 2})
            ctx.set(dut.result.valid, cycle in (1, 2))
            if asked:
                stored.append((cycle, ctx.get(dut.store.row), ctx.get(dut.store.data)))
            asked = ctx.get(dut.store.wants)
            port = dut.forward[1]
            if ctx.get(port.header.valid):
                sent.append((cycle, ctx.get(port.header.p.header)))
            assert ctx.get(port.data.valid) == (cycle in (1, 2))
            assert not ctx.get(dut.forward[0].data.valid)
            if ctx.get(dut.event.valid):
                events.append((cycle, ctx.get(dut.event.p)))
            await ctx.tick()
        assert ctx.get(dut.idle)

    simulate(dut, bench)
    assert stored == [(3, 40, 71), (4, 41, 72)]
    ((cycle, header),) = sent
    assert (cycle, header.context, header.step, header.offset) == (2, 3, 5, 3)
    assert (header.contributions, header.source) == (6, 6)
    ((cycle, event),) = events
    assert (cycle, event.context, event.step, event.offset) == (5, 1, 2, 3)
    assert (event.received, event.sent, event.parked) == (1, 1, 0)


@pytest.mark.parametrize("poison", [0, 1])
@pytest.mark.parametrize("store, forward", [(1, 0), (0, 1), (1, 1)])
def test_poison_is_reported_of_what_is_stored_and_of_what_only_passes(store, forward, poison):
    dut = PacketOutcome(CONFIG)
    events = []

    async def bench(ctx):
        ctx.set(dut.store.grant, 1)
        ctx.set(dut.event.ready, 1)
        ctx.set(dut.packet.p, {
            "header": {"context": 1, "step": 2, "length": 32, "poison": poison},
            "onward": {"context": 3, "step": 5, "poison": poison},
            "forward": forward, "port": 1, "row": 40,
        })
        ctx.set(dut.packet.valid, 1)
        await ctx.tick()
        ctx.set(dut.packet.valid, 0)
        for cycle in range(8):
            ctx.set(dut.result.valid, cycle < 4)
            ctx.set(dut.result.p, {"stores": store, "last": cycle == 1})
            if ctx.get(dut.event.valid):
                events.append(ctx.get(dut.event.p))
            await ctx.tick()

    simulate(dut, bench)
    (event,) = events
    assert (event.poisoned, event.sent) == (poison, forward)


def test_command_completes_when_its_last_chunk_is_stored():
    dut = CommandTable(CONFIG)

    async def pulse(ctx, **values):
        for name, value in values.items():
            ctx.set(getattr(dut, name), value)
        await ctx.tick()
        for name in values:
            ctx.set(getattr(dut, name), 0)

    async def bench(ctx):
        for entry, ticket in ((0, 5), (1, 6)):
            assert ctx.get(dut.free) == entry
            await pulse(ctx, entry=entry, start=1, ticket=ticket)
        await pulse(ctx, entry=1, admitted=1)
        await pulse(ctx, entry=1, admitted=1, last=1)
        for left in (1, 0):
            assert not ctx.get(dut.completed.valid)
            # What was wrong with one chunk is wrong with the collective.
            ctx.set(dut.stored.p, {"command": 1, "error": left, "poisoned": 1 - left})
            ctx.set(dut.stored.valid, 1)
            await ctx.tick()
            ctx.set(dut.stored.valid, 0)
            assert ctx.get(dut.completed.valid) == (left == 0)
        assert ctx.get(dut.completed.p.ticket) == 6
        causes = ctx.get(dut.completed.p.causes)
        assert (causes.memory, causes.poisoned, causes.aborted) == (1, 1, 0)
        await ctx.tick()
        assert not ctx.get(dut.completed.valid)
        assert ctx.get(dut.free) == 1

    simulate(dut, bench)


@pytest.mark.parametrize("seed", range(8))
def test_beats_are_issued_in_order_with_room_and_operand_and_behind_those_of_rivals(seed):
    rng = random.Random(seed)
    busy, crowded, refused, contended = (rng.choice([0, 0.3, 0.6]) for _ in range(4))
    dut = BeatIssue(CONFIG)
    left = [
        {"issue": {"reduce": rng.random() < 0.6, "operator": rng.choice(list(ReduceOp)),
                   "stores": rng.random() < 0.5, "last": rng.random() < 0.4},
         "operand_row": rng.randrange(CONFIG.sram_beats),
         "payload_row": rng.randrange(CONFIG.rx_beats)}
        for _ in range(200)
    ]  # fmt: skip
    held, issued, operand = [], None, None  # not granted; granted in the cycle before, and its row
    behind = False

    async def bench(ctx):
        nonlocal issued, operand, behind
        for _ in range(4000):
            ahead = rng.random() < contended
            room, grant = rng.random() >= crowded, rng.random() >= refused
            offers = bool(left) and rng.random() >= busy
            ctx.set(dut.beat.valid, offers)
            if offers:
                ctx.set(dut.beat.p, left[0])
            ctx.set(dut.room, room)
            ctx.set(dut.ahead, ahead)
            ctx.set(dut.operand.grant, grant)
            front = held[0] if held else None
            may_go = bool(front) and not (behind and ahead)
            reduces = bool(front) and front["issue"]["reduce"]
            waits = any(each["issue"]["reduce"] for each in held)
            assert bool(ctx.get(dut.operand.wants)) == (may_go and reduces)
            assert ctx.get(dut.beat.ready) == (len(held) < 2 and room)
            assert ctx.get(dut.waits) == waits
            assert ctx.get(dut.behind) == behind
            assert ctx.get(dut.reads) == bool(front)
            assert ctx.get(dut.rests) == (not held and issued is None)
            assert ctx.get(dut.issued.valid) == (issued is not None)
            assert ctx.get(dut.ended) == bool(issued and issued["last"])
            if front:
                assert ctx.get(dut.payload_row) == front["payload_row"]
            if issued:
                assert ctx.get(dut.operand.row) == operand
                for name, value in issued.items():
                    assert ctx.get(dut.issued.p[name]) == value
            issued = None
            accepted = offers and len(held) < 2 and room
            behind = ahead and (behind or (accepted and left[0]["issue"]["reduce"]))
            if may_go and (grant or not reduces):
                issued, operand = held[0]["issue"], held[0]["operand_row"]
                held.pop(0)
            if accepted:
                held.append(left.pop(0))
            await ctx.tick()

    simulate(dut, bench)
    assert not left and not held


@pytest.mark.parametrize("seed", range(4))
def test_outcomes_are_stored_in_order_and_told_of_when_they_are(seed):
    rng = random.Random(seed)
    refused, silent = (0, 0.3, 0.7, 0.8)[seed], rng.choice([0, 0.3])
    dut = PacketOutcome(CONFIG)
    kinds = [(rng.random() < 0.7, rng.random() < 0.5) for _ in range(40)]  # stored, forwarded
    lengths = rng.choices([1, 2, 4], k=len(kinds))
    beats = [
        (number, beat, beat == length - 1)
        for number, length in enumerate(lengths) for beat in range(length)
    ]  # fmt: skip
    forwarded, stored, told = [], [], []

    async def bench(ctx):
        left = list(beats)
        granted = False
        given, known = 0, [0, 0, 0]  # packets now and in the cycles before: beats come 2 later
        for _ in range(1500):
            ctx.set(dut.packet.valid, given < len(kinds))
            if given < len(kinds):
                ctx.set(dut.packet.p, {
                    "header": {"context": 1, "step": given, "length": 64}, "port": 1,
                    "forward": kinds[given][1], "row": 100 + 4 * given,
                })  # fmt: skip
            offers = bool(left) and left[0][0] < known[0] and rng.random() < 0.9
            ctx.set(dut.result.valid, offers)
            if offers:
                number, beat, last = left[0]
                ctx.set(dut.result.p, {
                    "beat": 1000 * number + beat, "stores": kinds[number][0], "last": last
                })  # fmt: skip
            if granted:
                stored.append((ctx.get(dut.store.row), ctx.get(dut.store.data)))
            granted = bool(ctx.get(dut.store.wants)) and rng.random() >= refused
            ctx.set(dut.store.grant, granted)
            ctx.set(dut.event.ready, rng.random() >= silent)
            if ctx.get(dut.forward[1].data.valid):
                forwarded.append(ctx.get(dut.forward[1].data.payload))
            if offers and ctx.get(dut.result.ready):
                left.pop(0)
            if ctx.get(dut.event.valid) and ctx.get(dut.event.ready):
                told.append(ctx.get(dut.event.p.step))
                # All of its beats are in SRAM.
                due = sum(kinds[number][0] for number, _, _ in beats if number <= told[-1])
                assert len(stored) >= due
            given += ctx.get(dut.packet.valid) and ctx.get(dut.packet.ready)
            known = [*known[1:], given]
            await ctx.tick()
        assert ctx.get(dut.idle) and not left

    simulate(dut, bench)
    assert told == list(range(len(kinds)))
    assert stored == [
        (100 + 4 * number + beat, 1000 * number + beat)
        for number, beat, _ in beats if kinds[number][0]
    ]  # fmt: skip
    assert forwarded == [
        1000 * number + beat for number, beat, _ in beats if kinds[number][1]
    ]  # fmt: skip

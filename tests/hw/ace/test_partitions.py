# SPDX-License-Identifier: Apache-2.0
"""Partitions by phase: the blocks beside models, whole engines of any division, bad divisions."""

import random
from dataclasses import replace

import numpy as np
import pytest

from hw.ace.config import preset
from hw.ace.copy_unit import CopyUnit
from hw.ace.partitions import PartitionChain
from hw.ace.sram import READ_LATENCY
from hw.common.testing import check_stream, simulate
from sim.collectives.ace_program import AceProgram
from sim.collectives.fsm_program import PROGRAM_ENTRY
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.hosts.wiring import EngineWiring
from sim.network.network import Network
from sim.rtl.ace.ring import AceRing
from sim.rtl.driver import Request
from sim.rtl.errors import CommandRefusedError
from sim.rtl.writes import halves
from sim.workload.graph import CollectiveKind
from tests.families import full, quick
from tests.hw.ace.sram_port import reads, writes
from tests.hw.ace.test_ace_tori import organised, wired

TEST = preset("test")
THREE = replace(
    TEST, ports=4, partitions="phase", phases=3, fsms=6, contexts=2, sram_bytes=32 << 10,
    memory_ports=2, program_words=128,
)


# ---- The copy unit.


@pytest.mark.parametrize("stalls, refused", [
    (0.0, (0.0, 0.0)), (0.5, (0.5, 0.5)), (0.9, (0.9, 0.9)), (0.0, (0.0, 0.9)), (0.0, (0.9, 0.0)),
])
def test_copies_reach_their_place_whole_before_they_are_reported(stalls, refused):
    rng = random.Random(7)
    dut = CopyUnit(THREE)
    beats, lanes = THREE.packet_beats, THREE.lanes
    memory = {row: rng.getrandbits(128) for row in range(THREE.sram_beats)}
    copies = []
    for number in range(80):
        length = 4 * rng.choice([0, 1, lanes, lanes + 1, rng.randrange(beats * lanes + 1)])
        copies.append((8 * number, 1024 + 8 * number, length, number % 6, number % 2))
    reported = []

    async def commands(ctx):
        for row, place, length, fsm, context in copies:
            while rng.random() < stalls / 2:
                await ctx.tick()
            ctx.set(dut.command.valid, 1)
            ctx.set(dut.command.p, {"row": row, "place": place, "length": length, "fsm": fsm,
                                    "context": context})
            await ctx.tick().until(dut.command.ready)
            ctx.set(dut.command.valid, 0)

    async def rest(ctx):
        """The unit is busy from a command on until its event is taken."""
        under_way = 0
        while len(reported) < len(copies):
            assert ctx.get(dut.idle) == (under_way == 0)
            _, _, comes, goes = await ctx.tick().sample(
                dut.command.valid & dut.command.ready, dut.event.valid & dut.event.ready
            )
            under_way += comes - goes

    async def events(ctx):
        for row, place, length, fsm, context in copies:
            while rng.random() < stalls:
                await ctx.tick()
            ctx.set(dut.event.ready, 1)
            (event,) = await ctx.tick().sample(dut.event.p).until(dut.event.valid)
            ctx.set(dut.event.ready, 0)
            assert (event.fsm, event.context, event.sent, event.received) == (fsm, context, 1, 0)
            for beat in range(-(-length // 16)):
                assert memory[place + beat] == memory[row + beat]
            reported.append((fsm, context))
        assert {row for row in memory if row >= 1024 and memory[row] != initial[row]} == {
            place + beat for _, place, length, *_ in copies for beat in range(-(-length // 16))
        }

    initial = dict(memory)
    checks = [
        check_stream(dut.event, "event"),
        reads(dut.read, memory.__getitem__, lambda: rng.random() >= refused[0]),
        writes(dut.write, memory.__setitem__, lambda: rng.random() >= refused[1]),
    ]
    simulate(dut, commands, events, rest, checks=checks, deadline=60_000)
    assert len(reported) == len(copies)


def test_a_copy_takes_a_beat_in_each_cycle():
    dut = CopyUnit(THREE)
    asked = []

    async def bench(ctx):
        ctx.set(dut.read.grant, 1)
        ctx.set(dut.write.grant, 1)
        ctx.set(dut.event.ready, 1)
        ctx.set(dut.command.valid, 1)
        ctx.set(dut.command.p, {"length": THREE.packet_bytes, "place": 64})
        for cycle in range(60):
            if ctx.get(dut.write.wants):
                asked.append(cycle)
            await ctx.tick()

    simulate(dut, bench)
    assert asked == [*range(asked[0], 60)]
    # Read and asked for in registers, each a cycle; there, and in the queue behind it.
    assert asked[0] == 2 + READ_LATENCY + 2


# ---- The chain of phases.


class Chunks:
    """Chunks of some collectives in a chain whose FSMs take any time for each."""

    def __init__(self, config, seed, *, aborts=0.0):
        self.config, self.random = config, random.Random(seed)
        self.aborts, self.forgotten = aborts, []
        self.dut = PartitionChain(config)
        self.total = 60
        self.entered, self.stored, self.under_way = 0, [], {}
        self.slots = [
            [config.slots_of(f).number for f in config.fsms_of(p)] for p in range(config.phases)
        ]
        self.held = {}  # (fsm, slot): kept for results or in use
        self.done = {}  # (fsm, slot): chunk whose phase is over
        self.final = {}

    async def run(self, ctx):
        dut, c, rng = self.dut, self.config, self.random
        number, place = 0, 0
        collective = 0
        length = rng.randrange(1, 9)
        while len(self.stored) + len(self.forgotten) < self.total:
            forgets = rng.random() < self.aborts
            ctx.set(dut.forget, forgets)
            # What the FSMs say in this cycle.
            for f in range(c.fsms):
                count = c.slots_of(f).number
                free = [n for n in range(count) if (f, n) not in self.held]
                stage = dut.stage[f]
                ctx.set(stage.room, bool(free))
                ctx.set(stage.vacant_context, free[0] if free else 0)
                ctx.set(stage.open, rng.random() < 0.7)
                for n in range(count):
                    chunk = self.under_way.get((f, n))
                    if chunk is not None and rng.random() < 0.1:
                        self.done[f, n] = chunk
                leaving = ctx.get(stage.leaving)
                chunk = self.under_way.get((f, leaving), 1)
                ctx.set(stage.results, self.row_of(f, leaving))
                ctx.set(stage.finished, (f, leaving) in self.done)
                ctx.set(stage.poisoned, chunk % 3 == 0)
                ctx.set(stage.tainted, chunk % 5 == 0 and f < c.first_fsms)
            for port in dut.store:
                ctx.set(port.ready, rng.random() < 0.4)
            stored = rng.choice([None, *self.final]) if rng.random() < 0.2 else None
            ctx.set(dut.stored.valid, stored is not None)
            if stored is not None:
                ctx.set(dut.stored.p, {"fsm": stored[0], "slot": stored[1]})
            # The dispatcher: the FSM that is next, a context of it and a slot for the results.
            f = number % c.first_fsms
            ctx.set(dut.first, number == 0)
            free = [n for n in range(c.slots_of(f).number) if (f, n) not in self.held]
            enters = (
                self.entered < self.total and bool(free) and ctx.get(dut.room) and
                rng.random() < 0.5
            )
            for each in dut.dispatched:
                ctx.set(each.valid, 0)
            if enters:
                entering = dut.dispatched[f]
                ctx.set(entering.valid, 1)
                ctx.set(entering.p.context, free[0])
                ctx.set(entering.p.key, {"collective": collective, "chunk": number})
                ctx.set(entering.p.elements, self.entered)
                ctx.set(dut.job.walk.row, 3 * self.entered)
            self.note(ctx, enters, f, free[0] if free else 0)
            await ctx.tick()
            if stored is not None:
                self.stored.append(self.final.pop(stored))
            if forgets:
                self.forgotten += self.under_way.values()
                for each in (self.under_way, self.held, self.done):
                    each.clear()
                assert ctx.get(dut.busy) == bool(self.final)
                number = length - 1  # a collective of its own is next
            if enters or forgets:
                number += 1
                if number == length:
                    number, collective, length = 0, collective + 1, rng.randrange(1, 9)
            place += 1

    def row_of(self, fsm, context):
        """Row of the results of a context."""
        return (37 * fsm + context) % self.config.sram_beats

    def note(self, ctx, enters, f, context):
        """What happens in this cycle."""
        dut, c = self.dut, self.config
        left = {}  # phase -> chunk, row of its results
        for g in range(c.fsms):
            n = ctx.get(dut.stage[g].leaving)
            if ctx.get(dut.stage[g].release):
                assert (g, n) in self.done, "a context that has not finished"
                chunk = self.done.pop((g, n))
                assert self.under_way.pop((g, n)) == chunk
                self.held.pop((g, n))
                phase = c.phase_of(g)[0]
                earlier = [
                    each for (h, _), each in self.under_way.items() if c.phase_of(h)[0] <= phase
                ]
                assert all(each > chunk for each in earlier), "out of order"
                assert phase not in left
                left[phase] = chunk, self.row_of(g, n)
        for g in range(c.fsms):
            if ctx.get(dut.stage[g].reserve):
                slot = ctx.get(dut.stage[g].vacant_context)
                assert (g, slot) not in self.held
                self.held[g, slot] = "kept"
        for g in range(c.fsms):
            barred = ctx.get(dut.stage[g].barred)
            assert barred == (1 << c.contexts) - (1 << c.slots_of(g).number)
        assert [ctx.get(each.valid) for each in dut.admit[: c.first_fsms]] == [
            enters and n == f and not ctx.get(dut.forget) for n in range(c.first_fsms)
        ]
        for g, admit in enumerate(dut.admit[c.first_fsms :], c.first_fsms):
            if ctx.get(admit.valid):
                assert ctx.get(dut.stage[g].open)
                chunk, slot = ctx.get(admit.p.elements), ctx.get(admit.p.context)
                assert ctx.get(admit.p.loaded)
                assert self.held[g, slot] == "kept", "a slot that was not kept"
                phase, index = c.phase_of(g)
                number = ctx.get(admit.p.key.chunk)
                assert (chunk, ctx.get(admit.p.row)) == left.pop(phase - 1)
                assert ctx.get(admit.p.poisoned) == (chunk % 3 == 0)
                assert index == number % c.fsms_by_phase[phase]
                self.held[g, slot] = "used"
                self.under_way[g, slot] = chunk
        for port in dut.store:
            if ctx.get(port.valid) and ctx.get(port.ready):
                key = ctx.get(port.p.fsm), ctx.get(port.p.slot)
                assert key not in self.final, "a slot of results that is in use"
                assert key[1] < c.results_of(key[0]).number
                chunk, row = left.pop(c.phases - 1)
                assert ctx.get(port.p.walk.row) == (row + 3 * chunk) % c.sram_beats
                assert ctx.get(port.p.poisoned) == (chunk % 5 == 0)
                self.final[key] = chunk
        assert not left, "a chunk that is nowhere"
        if enters:
            self.held[f, context] = "used"
            self.under_way[f, context] = self.entered
            self.entered += 1


@pytest.mark.parametrize("seed", quick(1, range(6)))
@pytest.mark.parametrize("division", [
    {}, {"partition_slots": (2, 1, 1, 1)},
    {"phase_fsms": (1, 3, 2), "partition_slots": (2, 2, 1, 2)},
    {"phases": 1, "fsms": 2}, {"phases": 6},
], ids=str)
def test_chunks_move_on_in_order_to_slots_of_their_own(division, seed):
    chunks = Chunks(replace(THREE, **division), seed)
    simulate(chunks.dut, chunks.run, deadline=60_000)
    assert chunks.entered == chunks.total
    assert not chunks.under_way and not chunks.held
    assert sorted(chunks.stored) == [*range(chunks.total)]


@pytest.mark.parametrize("seed", quick(2, range(4)))
@pytest.mark.parametrize("division", [
    {}, {"phase_fsms": (1, 3, 2), "partition_slots": (2, 2, 1, 2)}, {"phases": 1, "fsms": 2},
], ids=str)
def test_an_abort_forgets_all_chunks_but_those_that_are_being_stored(division, seed):
    chunks = Chunks(replace(THREE, **division), seed, aborts=0.02)
    chunks.total = 150
    simulate(chunks.dut, chunks.run, deadline=60_000)
    assert chunks.entered == chunks.total and chunks.stored and chunks.forgotten
    assert sorted(chunks.stored + chunks.forgotten) == [*range(chunks.total)]


# ---- Whole engines.


UNLIKE = replace(
    THREE, commands=8, fsms=8, phase_fsms=(2, 4, 2), partition_slots=(2, 1, 2, 2),
    partition_bytes=(16384, 2048, 4096, 8192),
)
"""Partitions that have nothing alike."""


@pytest.mark.parametrize("config", [
    UNLIKE,
    *full(replace(THREE, commands=8, **division) for division in (
        {"partition_slots": (1, 1, 1, 1)},
        {"partition_slots": (2, 1, 1, 1)},
        {"phase_fsms": (2, 4, 2), "fsms": 8, "partition_slots": (2, 1, 2, 2)},
        {"phase_fsms": (4, 2, 2), "fsms": 8},
        {"partition_bytes": (8192, 2048, 4096, 8192)},
        {"phases": 6, "fsms": 12},
    )),
], ids=str)
def test_any_division_gives_the_same_bits(ring, vectors, config):
    around = wired((3, 2), config, style="enhanced")
    cluster = ring(
        6, config=config, wiring=around, memory_bytes=1 << 18, link_stalls=0.2, memory_stalls=0.2,
        seed=5,
    )
    arrays = vectors(6, 3001)
    golden = cluster.golden(arrays)
    shards = [golden[cluster.program.shard(3001, rank)] for rank in range(6)]
    kinds = [*PROGRAM_ENTRY] * 3 + [CollectiveKind.ALL_REDUCE]
    requests = [
        Request(
            inputs=shards if kind is CollectiveKind.ALL_GATHER else arrays, collective=kind,
            elements=3001,
        )
        for kind in kinds[:7]
    ]
    for kind, got in zip(kinds, cluster.run(*requests), strict=False):
        if kind is not CollectiveKind.REDUCE_SCATTER:
            assert all(each.tobytes() == golden.tobytes() for each in got)


@pytest.mark.parametrize("nodes", [2, 3, 5])
@pytest.mark.parametrize("phases", quick(1, [3, 1]))
def test_a_ring_has_one_phase_and_copies_in_those_that_are_left(ring, vectors, nodes, phases):
    config = organised(TEST, "phase", phases=phases)
    cluster = ring(nodes, config=config, link_stalls=0.1)
    for elements in (1, 100, 1500):
        arrays = vectors(nodes, elements, odd=True)
        golden = cluster.golden(arrays)
        assert all(got.tobytes() == golden.tobytes() for got in cluster.all_reduce(arrays))


def test_blocks_that_do_not_fit_a_small_partition_are_refused(vectors, monkeypatch):
    """By the engine, whatever software computes."""
    around = wired((3, 2), UNLIKE, style="enhanced")
    cluster = AceRing(UNLIKE, Surroundings(nodes=6, wiring=around, memory_bytes=1 << 17))
    arrays = vectors(6, 3000)
    most = cluster.program.chunk_elements(CollectiveKind.ALL_REDUCE) // 6
    golden = cluster.golden(arrays, block=most)
    assert all(each.tobytes() == golden.tobytes() for each in
               cluster.all_reduce(arrays, block=most))
    monkeypatch.setattr(AceProgram, "chunk_elements", lambda *_: UNLIKE.slot_elements)
    with pytest.raises(CommandRefusedError, match="block"):
        cluster.all_reduce(arrays, block=most + UNLIKE.lanes)


def test_a_command_that_a_later_phase_has_no_program_for_is_refused(vectors):
    config = organised(TEST, "phase", phases=3)
    cluster = AceRing(config, Surroundings(nodes=2, memory_bytes=1 << 16))
    arrays = vectors(2, 100)
    cluster.all_reduce(arrays)
    for node in cluster.system.nodes:
        entry = PROGRAM_ENTRY[CollectiveKind.ALL_REDUCE]
        cluster.write(node, "program_address", word=entry, fsm=1)
        cluster.perform(node, halves("program", 0))
    with pytest.raises(CommandRefusedError, match="program"):
        cluster.all_reduce(arrays, max_cycles=20_000)


@pytest.mark.parametrize("phases, fsms", [
    (1, 1), *full(((1, 2), (2, 4), (1, 6))),
])
def test_hamiltonian_rings_with_fewer_fsms_than_ways(vectors, phases, fsms):
    config = replace(THREE, phases=phases, fsms=fsms, memory_ports=1, max_nodes=16)
    network = Network.torus((3, 3), bandwidth_bytes_per_s=16e9, latency_s=1e-8)
    wiring = EngineWiring.hamiltonian(network, clock_hz=1e9, bus_bytes=16)
    cluster = AceRing(config, Surroundings(nodes=9, wiring=wiring, memory_bytes=1 << 17))
    arrays = vectors(9, 700)
    golden = cluster.golden(arrays)
    assert all(each.tobytes() == golden.tobytes() for each in cluster.all_reduce(arrays))


def test_registers_tell_the_division():
    cluster = AceRing(organised(TEST, "phase", phases=1), Surroundings(nodes=2))
    node = cluster.system.nodes[0]
    assert cluster.read(node, "shape")["phases"] == 1
    assert cluster.read(node, "fsms") == {"count": 1}
    in_place = AceRing("test", Surroundings(nodes=2))
    assert in_place.read(in_place.system.nodes[0], "shape")["phases"] == 0


def test_slots_lie_apart():
    for config in (THREE, preset("isca21"), replace(THREE, phase_fsms=(1, 3, 2))):
        rows = np.zeros(config.sram_beats, int)
        last = config.phases - 1
        slots = [config.slots_of(f) for f in range(config.fsms)]
        slots += [config.results_of(f) for f in config.fsms_of(last)]
        for row, beats, count in slots:
            rows[row : row + beats * count] += 1
            assert row + beats * count <= config.sram_beats
        assert rows.max() == 1 and len(slots) == sum(config.fsms_by_phase) + len(
            config.fsms_of(last)
        )


@pytest.mark.parametrize("division, message", [
    ({"phases": 0}, "phases must be an integer from 1 to 15, not 0"),
    ({"phases": 16}, "phases must be an integer from 1 to 15, not 16"),
    ({"phases": 4}, "phases must be a divisor of the 6 FSMs, unless phase_fsms says"),
    ({"phases": 7}, "phases must be at most the 6 FSMs, one for each, not 7"),
    ({"phase_fsms": (3, 3)}, r"phase_fsms must be 3 numbers for 3 phases, or none, not \(3, 3\)"),
    ({"phase_fsms": (3, 3, 0)}, "phase_fsms must be an integer at least 1, not 0"),
    ({"phase_fsms": (3, 2, 2)}, "phase_fsms must be numbers whose sum is the 6 FSMs"),
    ({"phase_fsms": [2, 2, 2]}, "phase_fsms must be a tuple"),
    ({"partition_slots": (2, 2, 3, 2)}, "partition_slots must be at most the 2 contexts"),
    ({"partition_bytes": (16384, 16384, 16, 16)}, "partition_bytes must be sizes that add up to"),
    ({"partition_bytes": (8192, 8200, 64, 64)}, "partition_bytes must be multiples of 16 bytes"),
    ({"partition_bytes": (8192, 128, 8192, 8192)},
     "partition_bytes must be large enough for a packet of 64 bytes in each of the 2 x 2 slots"),
    ({"sram_bytes": 512}, "sram_bytes must be large enough for a packet"),
    ({"interleave": 1, "banks": 2}, "interleave must be 0 beside partitions = 'phase', not 1"),
    ({"partitions": "rows"}, "partitions must be one of 'slot', 'phase', not 'rows'"),
    ({"partitions": "slot"}, "phases must be 0 beside partitions = 'slot', not 3"),
    ({"partitions": "slot", "phases": 0, "phase_fsms": (6,)},
     "phase_fsms must be left out beside partitions = 'slot'"),
], ids=str)
def test_divisions_that_do_not_work_are_refused_by_name(division, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        replace(THREE, **division)


@pytest.mark.parametrize("fsms, used", [((4, 3, 2), None), ((2, 2, 3), None), ((4, 2, 2), 3)])
def test_fsms_in_which_a_chunk_would_change_its_path_are_refused(fsms, used):
    config = replace(THREE, phase_fsms=fsms, fsms=sum(fsms))
    around = wired((3, 2), replace(THREE, fsms=6), style="enhanced")
    with pytest.raises(ValueError, match=r"^phase_fsms must be multiples of the 2 paths"):
        AceRing(config, Surroundings(nodes=6, wiring=around, fsms=used))


def test_partitions_that_hold_no_beat_of_each_block_are_refused_by_name():
    config = replace(THREE, partition_bytes=(16384, 256, 256, 256))
    around = Surroundings(nodes=6, wiring=wired((3, 2), config, style="enhanced"))
    with pytest.raises(ValueError, match=r"^partition_bytes must be large enough for 6 beats in "):
        AceRing.check_command(config, around, Command(elements=96))


def test_programs_of_more_phases_are_refused():
    config = replace(THREE, phases=2, fsms=8)
    with pytest.raises(ValueError, match=r"^phases must be at least the 3 of the programs, not 2$"):
        AceRing(config, Surroundings(nodes=6, wiring=wired((3, 2), config, style="enhanced")))

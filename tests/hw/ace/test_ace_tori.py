# SPDX-License-Identifier: Apache-2.0
"""Whatever befalls a torus, in any phase of its programs, is reported; and then it goes on."""

import itertools
import random
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from hw.ace.config import preset
from hw.ace.isa import Opcode, phase_layout, program_entry_layout
from hw.fp.ops import ReduceOp
from hw.link.retry_frame import RetryConfig
from sim.collectives.fsm_program import PROGRAM_ENTRY, PhaseStart
from sim.collectives.phase_order import BY_DIMENSION
from sim.hosts.surroundings import Surroundings
from sim.hosts.wiring import EngineWiring
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.rtl.ace.ring import AceRing
from sim.rtl.driver import Request
from sim.rtl.errors import MemoryAccessError, NoProgressError, PoisonedError
from sim.rtl.harness.specs import HeaderFault, PacketFault
from sim.rtl.writes import halves
from sim.workload.graph import CollectiveKind
from tb.link.lossy import bad_wires
from tests.families import quick
from tests.hw.ace.exits import assert_exact, outcomes, recover, start
from tests.sim.cycles.test_tori import ACE

SQUARE = preset("test")
"""Engines of 2 x 2 nodes with one link in each dimension; one FSM, which has one path."""
PHASES = 3  # reduce-scatter, all-reduce, all-gather
ORGANISATIONS = ("slot", "phase")


def organised(config, partitions, *, phases):
    """The engine with as many FSMs for each of *phases*, and slots as large, or as it is."""
    if partitions == "slot":
        return config
    return replace(
        config, partitions=partitions, phases=phases, fsms=min(2, config.fsms) * phases,
        sram_bytes=(phases + 1) * config.sram_bytes,
    )


def wired(sizes, config, *, style="multi_colour", **options):
    """Links of a torus, slower from dimension to dimension; as few for two nodes as ports need."""
    single = 2 * len(sizes) > config.ports
    network = Network(
        [
            Dimension(
                kind="ring", size=size, bandwidth_bytes_per_s=16e9, latency_s=(2 + 3 * n) * 1e-9,
                single_link=single and size == 2,
            )
            for n, size in enumerate(sizes)
        ]
    )
    return EngineWiring.by_dimension(
        network, style=style, fsms=config.first_fsms, clock_hz=1e9, bus_bytes=16,
        bidirectional=config.first_fsms > 1, **options,
    )


@pytest.fixture(params=ORGANISATIONS)
def torus(ring, request):
    """Builds a torus of engines, by default of four with one FSM, or one in each phase."""

    def build(sizes=(2, 2), *, config=SQUARE, style="multi_colour", **options):
        phases = 3 if len(sizes) == 2 and style != "halves" else 2 * len(sizes)
        config = organised(config, request.param, phases=phases)
        around = wired(sizes, config, style=style)
        return ring(around.ranks, config=config, wiring=around, **options)

    return build


def sent(cluster, rank, elements):
    """For each phase of a chunk, the packets that a rank sends in it: (port, number)."""
    program = cluster.program
    cut = program.cut(elements, collective=CollectiveKind.ALL_REDUCE)
    assert (cut.chunks, program.queues) == (1, 1)
    phase, ports = -1, []
    for fsm in program.fsms:
        code = program.code(CollectiveKind.ALL_REDUCE, fsm=fsm, rank=rank)
        spine = [each.op for each in code.instructions].index(Opcode.END)
        receives = iter(code.instructions[spine + 1 :])
        for each in [code.first, *code.instructions[:spine]]:
            if isinstance(each, PhaseStart):
                phase += 1
                packets = -(-cut.block * each.run // cluster.config.packet_elements)
                ports += [(phase, port) for port in each.ready_ports]
                forwards = [next(receives) for _ in range(each.receives)]
                ports += [(phase, to.port) for to in forwards if to.op.value & 4] * packets
            elif each.op is Opcode.SEND:
                ports += [(phase, each.port)] * packets
    made = [[] for _ in range(phase + 1)]
    numbers = Counter()
    for phase, port in sorted(ports):
        made[phase].append((port, numbers[port]))
        numbers[port] += 1
    return made


def advance_to(cluster, rank, port, number):
    """Go on until a rank has sent packet *number* of a port, from the collective's first one."""
    system = cluster.system
    while system.link_activity(rank, port).header_flits <= number:
        system.advance(system.cycle + 1)
        assert system.cycle < 10_000_000


def headers(cluster, rank):
    """Packets that each port of a rank has sent so far."""
    return [
        cluster.system.link_activity(rank, port).header_flits
        for port in range(cluster.config.ports)
    ]


def test_aborts_in_every_cycle(torus, vectors):
    """Eight in a row are a round of epochs; then a collective that is not disturbed."""
    cluster = torus()
    arrays = vectors(4, 20)
    begin = cluster.system.cycle
    assert_exact(cluster, arrays)
    for cycle in range(cluster.system.cycle - begin):
        start(cluster, arrays)
        cluster.system.advance(cluster.system.cycle + cycle)
        cluster.recover()
        if cycle % 8 == 7:
            assert_exact(cluster, arrays)
    recover(cluster)
    assert_exact(cluster, arrays)


@pytest.mark.parametrize("phase", range(PHASES))
def test_aborts_in_each_phase_at_times_of_their_own(torus, vectors, phase):
    rng = random.Random(phase)
    cluster = torus(link_stalls=0.2, memory_stalls=0.2, seed=phase)
    arrays = vectors(4, 300)
    for turn in range(16):
        rank = rng.randrange(4)
        port, number = rng.choice(sent(cluster, rank, 300)[phase])
        before = headers(cluster, rank)[port]
        start(cluster, arrays)
        advance_to(cluster, rank, port, before + number)
        longest = rng.choice([2, 30, 300])
        recover(
            cluster, after=lambda _, longest=longest: rng.randrange(longest),
            again=(lambda _, longest=longest: rng.randrange(longest)) if turn % 2 else None,
        )
        if turn % 8 == 7:
            assert_exact(cluster, arrays)


@pytest.mark.parametrize("seed", quick(1, range(4)))
def test_aborts_of_many_chunks_in_many_phases(torus, vectors, seed):
    rng = random.Random(seed)
    cluster = torus((3, 2), config=ACE, style=BY_DIMENSION[seed], seed=seed, link_stalls=0.1,
                    memory_bytes=1 << 17)
    arrays = vectors(6, 3000)
    begin = cluster.system.cycle
    assert_exact(cluster, arrays)
    spent = cluster.system.cycle - begin
    for turn in range(16):
        for _ in range(rng.randint(1, 2)):
            start(cluster, arrays, after=lambda rank: rng.choice([0, rng.randrange(200)]))
        cluster.system.advance(cluster.system.cycle + rng.randrange(spent))
        again = (lambda rank: rng.randrange(200)) if rng.random() < 0.3 else None
        recover(cluster, after=lambda rank: rng.randrange(200), again=again)
        if turn % 8 == 7:
            assert_exact(cluster, arrays)


@pytest.mark.parametrize("phase", range(PHASES))
@pytest.mark.parametrize("fault", ["damaged", "lost", "repeated"])
def test_every_packet_of_every_phase(torus, vectors, fault, phase):
    rng = random.Random(phase)
    cluster = torus()
    arrays = vectors(4, 150)
    for rank in range(4):
        phases = sent(cluster, rank, 150)
        last = dict(itertools.chain(*phases))
        for port, number in phases[phase]:
            if fault == "repeated" and number == last[port]:
                continue  # it would come again in the next collective
            at = {"node": rank, "port": port, "packet": headers(cluster, rank)[port] + number}
            cluster.system.inject(
                HeaderFault(**at, bits=tuple(rng.sample(range(128), 2))) if fault == "damaged"
                else PacketFault(**at, repeat=fault == "repeated")
            )
            found = outcomes(cluster, arrays)
            assert any(found), "nobody has noticed"
            if fault == "repeated":
                # It is told from a new one by its number.
                assert sorted(map(len, found)) == [0, 0, 0, 1] and {"dropped"} in found
            recover(cluster)
        assert_exact(cluster, arrays)


@pytest.mark.parametrize("phase", range(PHASES))
def test_one_engine_that_is_reset_in_a_phase_joins_again(torus, vectors, phase):
    rng = random.Random(phase)
    cluster = torus(link_stalls=0.1, seed=phase)
    arrays = vectors(4, 300)
    for victim in range(4):
        port, number = rng.choice(sent(cluster, victim, 300)[phase])
        before = headers(cluster, victim)[port]
        start(cluster, arrays)
        advance_to(cluster, victim, port, before + number)
        node = cluster.system.nodes[victim]
        node.reset_engine()
        cluster.perform(node, cluster.set_up(victim))
        cluster.system.run(drain=False)
        recover(cluster)
        assert_exact(cluster, arrays)


@pytest.mark.parametrize("block", range(6))
def test_memory_that_cannot_be_read_poisons_every_rank(torus, vectors, block):
    """Any block, which is in another phase on each of them when it gets there."""
    cluster = torus((3, 2), config=ACE, memory_bytes=1 << 17, link_stalls=0.1, seed=block)
    arrays, victim = vectors(6, 3000), 5 - block
    place = cluster.program.cut(3000, collective=CollectiveKind.ALL_REDUCE).run(0, block)
    node = cluster.system.nodes[victim]
    node.fail_memory(4 * (place.start + place.stop) // 2, 1, writes=False)
    with pytest.raises(MemoryAccessError, match=f"memory of node {victim} answered"):
        cluster.all_reduce(arrays)
    assert {rank for rank, said in cluster.reports.items() if type(said) is PoisonedError} == {
        *range(6)
    } - {victim}
    node.heal_memory()
    assert_exact(cluster, arrays)


@pytest.mark.parametrize("phase", range(PHASES))
@pytest.mark.parametrize("way", ["reads", "writes"])
def test_memory_that_fails_from_a_phase_on(torus, vectors, phase, way):
    cluster = torus(memory_stalls=0.1, seed=phase)
    arrays = vectors(4, 300)
    for victim in range(4):
        port, number = sent(cluster, victim, 300)[phase][0]
        before = headers(cluster, victim)[port]
        start(cluster, arrays)
        start(cluster, arrays)  # is loaded while the first one is in its phases
        advance_to(cluster, victim, port, before + number)
        node = cluster.system.nodes[victim]
        node.fail_memory(0, 1 << 16, reads=way == "reads", writes=way == "writes")
        waits = [cluster.wait(each, 2) for each in cluster.system.nodes]
        cluster.system.run(max_cycles=50_000)
        assert all(wait.done for wait in waits)
        for rank, each in enumerate(cluster.system.nodes):
            causes = cluster.read(each, "interrupt")
            assert not causes["dropped"] and causes["memory"] <= (rank == victim)
            for record in cluster.records(each):
                assert record.causes <= {"poisoned", *["memory"] * (rank == victim)}
        if way == "writes":
            assert cluster.read(node, "interrupt")["memory"] == 1
        node.heal_memory()
        recover(cluster)
        assert_exact(cluster, arrays)


@pytest.mark.parametrize("apart", [{1}, {0, 1}, {0, 2}], ids=["one", "row", "column"])
@pytest.mark.parametrize("what", ["op", "elements"])
def test_ranks_that_disagree_in_the_first_phase_or_the_second(torus, vectors, what, apart):
    """Where all of a row do the same, only the second phase can tell."""
    cluster = torus()
    arrays = vectors(4, 150)
    other = {"op": {"op": ReduceOp.MAX_F32}, "elements": {"elements": 149}}[what]
    found = outcomes(
        cluster, arrays,
        change=lambda rank, command: replace(command, **other) if rank in apart else command,
    )
    assert all("failed" in each for each in found)
    causes = [record.causes for node in cluster.nodes for record in cluster.records(node)]
    assert causes == [{"disagreement"}] * 4
    recover(cluster)
    assert_exact(cluster, arrays)


def test_links_with_retry_lose_nothing_in_any_phase(vectors):
    retry = RetryConfig(slots=16, timeout_cycles=180, tries=30)
    around = Surroundings(
        nodes=4, wiring=wired((2, 2), SQUARE), memory_bytes=1 << 17, seed=3, retry=retry,
        **bad_wires(0.05),
    )
    cluster = AceRing(SQUARE, around)
    for elements in (3000, 17):
        assert_exact(cluster, vectors(4, elements))
    assert sum(cluster.system.struck(rank, port) for rank in range(4) for port in (0, 1)) > 50


@pytest.mark.parametrize("torus, sizes, style", [
    # Each number of phases is an engine of its own.
    pytest.param(
        organisation, sizes, style,
        marks=pytest.mark.full
        if organisation == "phase" and (len(sizes) == 3 or style == "halves") else (),
    )
    for organisation in ORGANISATIONS for sizes in ((2, 2), (3, 2), (2, 2, 2))
    for style in BY_DIMENSION
], indirect=["torus"], ids=str)
def test_stalls_of_everything_change_no_bit(torus, vectors, sizes, style):
    nodes = int(np.prod(sizes))
    cluster = torus(sizes, config=ACE, style=style, seed=nodes, link_stalls=0.3,
                    memory_stalls=0.2, host_stalls=0.2, memory_bytes=1 << 17,
                    read_latency_cycles=30)
    arrays = vectors(nodes, 777)
    golden = cluster.golden(arrays)
    kind = CollectiveKind.REDUCE_SCATTER
    summed = cluster.program.all_reduced(arrays, op=ReduceOp.SUM_F32, collective=kind)
    places = [cluster.program.shard(777, rank) for rank in range(nodes)]
    shards = [golden[place] for place in places]
    assert {*PROGRAM_ENTRY} == {each.collective for each in _requests(arrays, shards)}
    # What an all-gather brings to a node is for a next one that may not have started yet.
    gathered, reduced, scattered = cluster.run(*_requests(arrays, shards), start_skew_cycles=1500)
    for got, expected in ((reduced, [golden] * nodes), (gathered, [golden] * nodes),
                          (scattered, [summed[place] for place in places])):
        assert [each.tobytes() for each in got] == [each.tobytes() for each in expected]


def _requests(arrays, shards):
    return [
        Request(inputs=shards, collective=CollectiveKind.ALL_GATHER, elements=len(arrays[0])),
        Request(inputs=arrays),
        Request(inputs=arrays, collective=CollectiveKind.REDUCE_SCATTER),
    ]


@pytest.mark.parametrize("phase, waiting", [(0, {0, 1, 2, 3}), (1, {2, 3}), (2, {2})])
def test_a_program_that_waits_for_what_never_comes_is_stopped_by_the_watchdog(
    torus, vectors, phase, waiting
):
    """Rank 2 expects one block too many: ranks whose later phases need it wait, too."""
    cluster = torus()
    arrays = vectors(4, 150)
    victim = cluster.system.nodes[2]
    fsm = phase if cluster.config.phased else 0
    program = cluster.program.words(fsm, rank=2)
    entry, *later = [
        at for at, word in program.items() if at == 0 or (at >= 16 and word & 15 == 1)
    ][:PHASES]
    first, following = (
        layout["receives"].offset for layout in (program_entry_layout, phase_layout)
    )
    address, bit = [(entry, first), *((each, following) for each in later)][phase - fsm]

    def store(word):
        cluster.write(victim, "program_address", word=address, fsm=fsm)
        cluster.perform(victim, halves("program", word))

    store(program[address] + (1 << bit))
    found = outcomes(cluster, arrays)
    assert {rank for rank, said in enumerate(found) if said} == waiting
    assert all(said == {"stalled"} for said in found if said)
    recover(cluster)
    with pytest.raises(NoProgressError, match=r"^node 2 has made no progress") as error:
        cluster.all_reduce(arrays)
    place, waits = str(error.value).split("\n  ")[1].split(": waits for ")
    # Of one block, or run of blocks, from the peer that sends in this phase.
    assert re.fullmatch(rf"[35] packets to arrive through port {phase % 2}", waits)
    code = cluster.program.code(CollectiveKind.ALL_REDUCE, fsm=fsm, rank=2).instructions
    ends = [n for n, each in enumerate(code) if each.op in (Opcode.PHASE, Opcode.END)]
    end = ends[phase - fsm]
    step = f"step {end} {code[end].op.name}"
    assert place.startswith(f"rank 2, FSM {fsm}, context 0, chunk 0 of collective 1, {step}")
    assert set(cluster.reports) == waiting
    store(program[address])
    assert_exact(cluster, arrays)

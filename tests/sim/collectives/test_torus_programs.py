# SPDX-License-Identifier: Apache-2.0
"""Programs of tori, executed as texts in place: any order of events gives the golden additions."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from hw.ace.config import preset
from hw.fp.ops import ReduceOp
from sim.collectives.ace_program import AceProgram
from sim.collectives.fold import check_alike
from sim.collectives.fsm_program import PROGRAM_ENTRY, PhaseStart
from sim.collectives.golden import torus_all_reduce, torus_partial
from sim.collectives.partition import Partition
from sim.collectives.path_choice import torus_paths
from sim.collectives.phase_order import BY_DIMENSION
from sim.collectives.torus_paths import TorusPath, TorusPaths
from sim.fields import FoldError
from sim.hosts.wiring import EngineWiring
from sim.network.network import Network
from sim.workload.graph import CollectiveKind
from tests.sim.collectives.fsm import Rank, run_programs

ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER = (
    CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER,
)


def torus(shape, **options):
    return Network.torus(shape, bandwidth_bytes_per_s=16e9, latency_s=1e-8, **options)


def wired(network, style, *, backwards=False, fsms=12, **options):
    return EngineWiring.by_dimension(
        network, style=style, fsms=fsms, clock_hz=1e9, bus_bytes=16, gather_backwards=backwards,
        **options,
    )


def run(wiring, collective, path, seed):
    """Ranks of the torus at the end; a block is the nested pairs that were added."""
    ends = {(wire.rank, wire.port): (wire.peer, wire.peer_port) for wire in wiring.wires}
    nodes = range(wiring.ranks)
    gathers = collective is ALL_GATHER
    ranks = [
        Rank(
            wiring.torus.code(collective, path=path, rank=rank),
            {rank: rank} if gathers else dict.fromkeys(nodes, rank),
            add=lambda received, own: (received, own),
        )
        for rank in nodes
    ]
    run_programs(ranks, random.Random(seed), lambda rank, port: ends[rank, port])
    return ranks


def value_of(expression, vectors):
    """A block's sum, in the order in which it was added up."""
    if isinstance(expression, int):
        return vectors[expression]
    received, own = expression
    return value_of(received, vectors) + value_of(own, vectors)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("style", BY_DIMENSION)
@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (4, 3), (2, 3, 2), (4, 1, 3)], ids=str)
def test_any_order_of_events_gives_the_golden_result(shape, style, backwards):
    wiring = wired(torus(shape), style, backwards=backwards)
    nodes = wiring.ranks
    vectors = np.random.default_rng(3).standard_normal((nodes, 1)).astype(np.float32)
    for path in range(len(wiring.torus.paths)):
        for rank, state in enumerate(run(wiring, ALL_GATHER, path, path)):
            assert state.data == {block: block for block in range(nodes)}, rank
        whole = run(wiring, ALL_REDUCE, path, path)
        scattered = run(wiring, REDUCE_SCATTER, path, path + 1)
        for block in range(nodes):
            for states, collective in ((whole, ALL_REDUCE), ([scattered[block]], REDUCE_SCATTER)):
                golden = torus_partial(
                    vectors, wiring.torus, path=path, operands=nodes, rank=block,
                    owner=wiring.torus.parts_of(collective, path)[block],
                )
                for state in states:
                    assert value_of(state.data[block], vectors) == golden
    # A torus of several phases says so; a node says READY for each once.
    phases = wiring.torus.code(ALL_REDUCE, path=0, rank=0).phases
    assert len(phases) == len(wiring.torus.steps(ALL_REDUCE, 0)) > 1
    told = Counter(port for each in phases for port in each.ready_ports)
    assert told == Counter(port for each in phases for port in each.from_ports)
    assert not any(each.ahead for each in phases[-1:])


def test_golden_vector_is_made_of_golden_blocks():
    wiring = wired(torus((3, 2)), "multi_colour")
    vectors = np.random.default_rng(1).standard_normal((6, 1000)).astype(np.float32)
    cut = Partition.plan(
        1000, 6, queues=len(wiring.torus.paths), lanes=4, packet_elements=16, slot_elements=512,
        block=16, contiguous=True,
    )
    result = torus_all_reduce(list(vectors), cut, wiring.torus)
    np.testing.assert_allclose(result, vectors.sum(axis=0), rtol=1e-4, atol=1e-5)
    assert cut.chunks > len(wiring.torus.paths)
    for chunk, number, part in cut.blocks():
        path = chunk % cut.queues % len(wiring.torus.paths)
        block = torus_partial(
            vectors[:, part], wiring.torus, path=path, owner=wiring.torus.parts(path)[number],
            operands=6, rank=0,
        )
        assert block.tobytes() == result[part].tobytes()


@pytest.mark.parametrize("collective", PROGRAM_ENTRY, ids=lambda each: each.value)
@pytest.mark.parametrize("style", BY_DIMENSION)
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4), (1, 5), (3, 3, 2)], ids=str)
def test_the_programs_of_all_nodes_are_one_moved_of_known_length(shape, style, collective):
    paths = wired(torus(shape), style).torus
    for path in range(len(paths.paths)):
        origin = paths.first(collective, path=path)
        assert len(origin.instructions) == paths.length(collective, path=path)
        digits = paths.digits(collective, path)
        for rank in range(paths.nodes):
            moved = []
            for each, phase in zip(origin.instructions, origin.phase_of, strict=True):
                if not isinstance(each, PhaseStart) and each.op.value:
                    block, rest = 0, each.block
                    for dimension, blocks in digits[phase]:
                        at = rest // blocks + int(paths.places[rank, dimension])
                        block += at % shape[dimension] * blocks
                        rest %= blocks
                    each = replace(each, block=block)
                moved.append(each)
            assert paths.code(collective, path=path, rank=rank).instructions == tuple(moved)


@pytest.mark.parametrize("style", BY_DIMENSION)
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4), (3, 3, 2)], ids=str)
def test_runs_of_a_phase_are_all_that_a_node_works_on(shape, style):
    """Parts of a phase are as many as nodes of its ring, beside each other, and a reduce-scatter
    leaves one of them."""
    paths = wired(torus(shape), style).torus
    for path in range(len(paths.paths)):
        steps = paths.steps(ALL_REDUCE, path)
        for rank in range(paths.nodes):
            code = paths.code(ALL_REDUCE, path=path, rank=rank)
            held = [(0, paths.nodes)]
            for number, (dimension, kind) in enumerate(steps):
                run, size = code.phases[number].run, shape[dimension]
                named = {
                    each.block for each, phase in zip(code.instructions, code.phase_of)
                    if phase == number and not isinstance(each, PhaseStart) and each.op.value
                }
                if kind is ALL_GATHER:
                    held.pop()
                first, blocks = held[-1]
                assert run * size == blocks
                assert named == {first + n * run for n in range(size)}
                if kind is REDUCE_SCATTER:
                    held.append((first + int(paths.places[rank, dimension]) * run, run))


def test_ranks_of_a_placement_own_the_blocks_of_their_numbers():
    order = [3, 1, 0, 5, 4, 2]
    paths = TorusPaths(
        shape=(3, 2), style="halves", members=tuple(np.argsort(order).tolist()),
        paths=(TorusPath(order=(0, 1), way=1, ports=((0, 1), (2, 3))),),
    )
    plain = replace(paths, members=())
    for rank, node in enumerate(order):
        code = paths.code(REDUCE_SCATTER, path=0, rank=rank).instructions
        same = plain.code(REDUCE_SCATTER, path=0, rank=node).instructions
        for here, there in zip(code, same):
            if not isinstance(here, PhaseStart) and here.op.value:
                assert order[here.block] == there.block


@pytest.mark.parametrize("shape, share", [((4, 4), 1.0), ((4, 4, 4), 1.0), ((2, 2, 2), 1.0),
                                          ((8, 4), 1.02), ((4, 2, 2), 1.03)], ids=str)
def test_colours_load_all_links_alike(shape, share):
    network = torus(shape)
    sent = np.zeros(len(shape))
    paths = torus_paths(network, style="multi_colour", fsms=16)
    for path in paths:
        data = 1.0
        for dimension in path.order:
            data /= shape[dimension]
            sent[dimension] += data * (shape[dimension] - 1)
    assert sent.max() <= share * sent.mean()
    assert {path.way for path in paths} == {1, -1}


def test_slow_dimensions_come_last_more_often():
    network = Network.torus((4, 4), bandwidth_bytes_per_s=[32e9, 8e9], latency_s=1e-8)
    orders = [path.order for path in torus_paths(network, style="multi_colour", fsms=16)]
    assert orders.count((0, 1)) > orders.count((1, 0)) >= 0


def test_lanes_take_turns():
    paths = torus_paths(torus((3, 3), lanes=2), style="baseline", fsms=4)
    assert [path.ports for path in paths] == 2 * [((0, 1), (4, 5))] + 2 * [((2, 3), (6, 7))]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"style": "hamiltonian"}, "style must be one of baseline, .* not 'hamiltonian'"),
        ({"fsms": 1}, "fsms must be at least 2, one for each direction and lane"),
        ({"fsms": 2.5}, "fsms must be an integer"),
        ({"bidirectional": "x"}, "bidirectional must be True or False, not 'x'"),
    ],
)
def test_paths_that_cannot_be_are_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        torus_paths(torus((3, 3)), **({"style": "baseline", "fsms": 4} | change))


def test_one_node_has_no_paths():
    with pytest.raises(ValueError, match="network must have two nodes or more, not 1"):
        torus_paths(torus((1,)), style="baseline", fsms=4)


def test_paths_need_links():
    wiring = wired(torus((3, 3)), "baseline")
    path = TorusPath(order=(0, 1), way=1, ports=((1, 0), (2, 3)))
    with pytest.raises(ValueError, match="torus must have paths over links; there is none from"):
        replace(wiring, torus=replace(wiring.torus, paths=(path,)))
    with pytest.raises(ValueError, match=r"paths must go once through the dimensions \[0, 1\]"):
        replace(wiring.torus, paths=(replace(path, order=(0,)),))


def test_programs_of_64_nodes_fit_the_published_store():
    wiring = wired(torus((4, 4, 4)), "multi_colour")
    program = AceProgram(config=preset("torus"), nodes=64, queues=12, torus=wiring.torus)
    assert len(program.code(ALL_REDUCE, fsm=0, rank=7).instructions) == 28
    assert len(program.code(ALL_GATHER, fsm=0, rank=7).instructions) == 87
    for size, length in ((16, 100), (46, 280)):
        path = TorusPath(order=(0, 1, 2), way=1, ports=((0, 1), (2, 3), (4, 5)))
        cube = TorusPaths(shape=(size,) * 3, style="multi_colour", paths=(path,))
        assert cube.length(ALL_REDUCE, path=0) == length  # as docs/reference/ace-programs.md says
    for fsm in range(12):
        assert program.loaded(program.kind(fsm)) == list(PROGRAM_ENTRY)
        assert len(program.words(fsm, rank=63)) < 256
    assert list(PROGRAM_ENTRY) == [ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER]


def _program(**changes):
    """The program of a rank of 3 x 2 nodes, with some of its parts others."""
    network = torus((3, 2))
    wiring = wired(network, "multi_colour")
    return replace(wiring.torus.code(ALL_REDUCE, path=0, rank=1), **changes)


def _more(start, **counts):
    return replace(start, **{name: getattr(start, name) + n for name, n in counts.items()})


@pytest.mark.parametrize(
    "counts, message",
    [
        ({"receives": 1}, r"receives of all phases must be those of the instructions, 6, not 7"),
        ({"receives": -1}, r"receives of all phases must be those of the instructions, 6, not 5"),
        ({"sends": 1}, r"sends of all phases must be those of the instructions, 6, not 7"),
    ],
)
@pytest.mark.parametrize("phase", range(3))
def test_a_phase_that_waits_for_what_never_comes_is_refused(phase, counts, message):
    code = _program()
    places = [n for n, each in enumerate(code.instructions) if isinstance(each, PhaseStart)]
    assert len(places) == 2
    with pytest.raises(ValueError, match=message):
        if not phase:
            _program(first=_more(code.first, **counts))
        else:
            made = list(code.instructions)
            made[places[phase - 1]] = _more(made[places[phase - 1]], **counts)
            _program(instructions=tuple(made))


def test_programs_in_no_order_that_an_fsm_has_are_refused():
    code = _program().instructions
    end = [each.op.name for each in code].index("END")
    for instructions, message in (
        (code[:end], "instructions must have an END"),
        ((*code[:end], *code[end + 1 :], code[end]),
         "must be SEND, COPY or PHASE before END, not RECV"),
        ((*code[1 : end + 1], code[0], *code[end + 1 :]), "must be receive instructions behind"),
        ((*(each for each in code[:end] if isinstance(each, PhaseStart)),
          *(each for each in code[:end] if not isinstance(each, PhaseStart)), *code[end:]),
         "sends of a phase must be at least its SENDs"),
    ):
        with pytest.raises(ValueError, match=message):
            _program(instructions=instructions)


@pytest.mark.parametrize("collective", [ALL_REDUCE, REDUCE_SCATTER], ids=lambda each: each.value)
@pytest.mark.parametrize("style", BY_DIMENSION)
@pytest.mark.parametrize("shape", [(3, 4), (4, 2, 3), (1, 4, 2), (3, 3)], ids=str)
def test_the_sum_of_images_is_that_of_the_engine_that_stands_for_all(shape, style, collective):
    """Where parts of several all-reduces do not lie within one another, no engine stands for all:
    it would add parts that do not belong together."""
    nodes = int(np.prod(shape))
    order = np.random.default_rng(nodes).permutation(nodes)
    for members in ((), tuple(order.tolist())):
        made = wired(torus(shape), style).torus
        program = AceProgram(
            config=preset("torus"), nodes=nodes, queues=len(made.paths),
            torus=replace(made, members=members),
        )
        elements = nodes * 64 * 48
        cut = program.cut(elements, collective=collective)
        assert cut.rounded == elements and cut.chunks > len(made.paths) // 2
        own = np.random.default_rng(2).standard_normal(elements).astype(np.float32)
        images = program.images(own, collective=collective)
        assert images[0].tobytes() == own.tobytes()
        summed = program.all_reduced(images, op=ReduceOp.SUM_F32, collective=collective)
        one = program.rotated(own, op=ReduceOp.SUM_F32, collective=collective)
        crossed = {"baseline": [(3, 4), (4, 2, 3)], "enhanced": [(4, 2, 3)]}.get(style, [])
        assert one.tobytes() == summed.tobytes()
        if collective is ALL_REDUCE and shape in crossed:
            with pytest.raises(FoldError, match=f"wiring cannot be of style {style} on"):
                check_alike(program, elements, block=None, collective=collective)


@pytest.mark.parametrize(
    "shape, packet_bytes, message",
    [
        ((2, 64, 64), 64, "runs of 4095 blocks in a first phase; .* 2 x 64 x 64 nodes needs 4096"),
        ((4, 128, 128), 64, "runs of 4095 blocks .* 4 x 128 x 128 nodes needs 16384"),
        # 1024 packets of 4 elements are fewer than the blocks of a run: no room at all, not any.
        ((64, 2, 128), 16, "runs of blocks whose packets a header can number"),
        ((64, 2, 16), 16, None),
    ],
    ids=str,
)
def test_tori_whose_runs_nothing_can_name_are_refused_before_they_are_built(
    shape, packet_bytes, message
):
    config = replace(
        preset("duo"), ports=6, fsms=2, contexts=1, max_nodes=131071, program_words=8192,
        sram_bytes=4 << 20, packet_bytes=packet_bytes,
    )
    paths = tuple(
        TorusPath(order=(0, 1, 2), way=way, ports=((0, 1), (2, 3), (4, 5))) for way in (1, -1)
    )
    torus = TorusPaths(shape=shape, style="baseline", paths=paths)
    program = AceProgram(config=config, nodes=torus.nodes, queues=2, torus=torus)

    def made():
        program.loaded(0)
        return program.words(0, rank=0), program.cut(10**6, collective=CollectiveKind.ALL_REDUCE)

    if message is None:
        words, cut = made()
        assert words and max(program.runs(ALL_REDUCE)) * cut.block <= 1024 * 4
        return
    with pytest.raises(ValueError, match=f"^nodes must be few enough for {message}"):
        made()


@pytest.mark.parametrize("block", [8.0, "8", True, 0, -4, 6])
def test_blocks_are_whole_beats(block):
    program = AceProgram(config=preset("duo"), nodes=4, queues=2)
    with pytest.raises(ValueError, match=r"^block must be a multiple of 4 from 4 to"):
        program.cut(100, block=block, collective=CollectiveKind.ALL_REDUCE)


def test_links_alike_are_those_of_rank_0():
    wiring = wired(torus((3, 3)), "baseline")
    with pytest.raises(ValueError, match=r"^links must begin at rank 0 where all are alike, not"):
        replace(wiring, alike=True)
    with pytest.raises(TypeError, match=r"^alike must be True or False, not 'no'"):
        replace(wiring, alike="no")

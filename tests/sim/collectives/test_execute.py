# SPDX-License-Identifier: Apache-2.0
"""Every plan does on data what its collective is for, whatever the order of events."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from sim.collectives.execute import ExecutionError, Outcome, execute
from sim.collectives.layout import Layout
from sim.collectives.phases import group_ranks
from sim.collectives.plan import AlgorithmChoice, plan_collective
from sim.collectives.program import Phase, Plan, Program, Receipt, Segment, Send, Source
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

ALL_REDUCE, REDUCE_SCATTER = CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER
ALL_GATHER, ALL_TO_ALL = CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL
BROADCAST = CollectiveKind.BROADCAST


def dimension(kind: str, size: int, **changes: object) -> Dimension:
    return Dimension(kind=kind, size=size, bandwidth_bytes_per_s=1e9, **changes)  # type: ignore[arg-type]


ring = partial(Dimension.ring, bandwidth_bytes_per_s=1e9)

NETWORKS = {
    "ring of 2": Network([ring(2)]),
    "ring of 7": Network([ring(7)]),
    "one-way ring of 5": Network([ring(5, bidirectional=False)]),
    "three lanes": Network([ring(4, lanes=3)]),
    "torus 4x3": Network([ring(4), ring(3)]),
    "torus 2x3x4": Network([ring(2), ring(3), ring(4)]),
    "torus with a dimension of one": Network([ring(3), ring(1), ring(4)]),
    "five dimensions": Network([ring(2)] * 5),
    "switch of 8": Network([dimension("switch", 8, lanes=2)]),
    "switch of 6": Network([dimension("switch", 6)]),
    "ring and switch": Network([ring(3), dimension("switch", 4)]),
    "fully connected 3x4": Network([dimension("fully_connected", 3), ring(4)]),
    "fat tree": Network([dimension("fat_tree", 8, group=4)]),
    "4x4 seen as 2x8": Network([ring(4), ring(4)], logical_shape=[2, 8]),
    "12 in another order": Network(
        [ring(12)], logical_shape=[4, 3], placement=[5, 2, 0, 1, 11, 3, 4, 10, 9, 6, 8, 7]
    ),
}
STYLES = ("baseline", "enhanced", "dimension_ordered", "multi_colour")


def counted(network: Network, shape: tuple[int, ...]) -> np.ndarray:
    """Data of which every sum tells how often each node has contributed: node n holds powers of
    (nodes + 1), so that digit n of a sum counts its contributions; times an odd factor of its own
    for every element."""
    base = [(network.nodes + 1) ** n for n in range(network.nodes)]
    data = np.empty((network.nodes, *shape), dtype=object)
    for node, power in enumerate(base):
        elements = np.arange(int(np.prod(shape)), dtype=object).reshape(shape)
        data[node] = power * (2 * elements + 1)
    return data


def groups(network: Network, dims: list[int]) -> list[np.ndarray]:
    """Members of each group in the order of their ranks."""
    key = np.zeros(network.nodes, int)
    for d in range(len(network.shape)):
        if d not in dims:
            key = key * network.shape[d] + network.coordinates[d]
    rank = group_ranks(network, dims)
    found = []
    for value in np.unique(key):
        nodes = np.flatnonzero(key == value)
        found.append(nodes[np.argsort(rank[nodes])])
    return found


def check(network: Network, kind: CollectiveKind, data: np.ndarray, made: Outcome) -> None:
    check_groups(network, kind, data, made, list(range(len(network.shape))), cuts=network.nodes)


def check_groups(
    network: Network,
    kind: CollectiveKind,
    data: np.ndarray,
    made: Outcome,
    dims: list[int],
    *,
    cuts: int,
) -> None:
    """``cuts``: how many blocks may be one element longer than others."""
    for members in groups(network, dims):
        has, value = made.has[members], made.value[members]
        if kind is ALL_REDUCE:
            assert has.all()
            assert (value == data[members].sum(axis=0)).all()
        elif kind is REDUCE_SCATTER:
            assert (has.sum(axis=0) == 1).all(), "every element is somewhere, once"
            assert (value[has] == np.broadcast_to(data[members].sum(axis=0), has.shape)[has]).all()
            share = has.sum(axis=1)
            assert share.max() - share.min() <= cuts, "shares are alike"
        elif kind is ALL_GATHER:
            assert has.all()
            assert (value == data[members][None]).all()
        elif kind is BROADCAST:
            assert has.all()
            assert (value == data[members[0]]).all()
        else:
            assert has.all()
            for place in range(len(members)):
                assert (value[place] == data[members, place]).all()


def run(
    network: Network,
    kind: CollectiveKind,
    choice: AlgorithmChoice,
    elements: int,
    *,
    dims: list[int] | None = None,
    seed: int = 0,
) -> None:
    plan = plan_collective(network, kind, choice, dims)
    whole = list(range(len(network.shape))) if dims is None else dims
    members = len(groups(network, whole)[0])
    shape = (members, elements) if kind is ALL_TO_ALL else (elements,)
    data = counted(network, shape)
    made = execute(network, plan, kind, data, dimensions=dims, seed=seed)
    cuts = sum(len(variant.phases) for variant in plan.variants)
    check_groups(network, kind, data, made, whole, cuts=cuts)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kind", list(CollectiveKind), ids=lambda kind: kind.value)
def test_the_usual_algorithms_yield_what_numpy_yields(name: str, kind: CollectiveKind) -> None:
    network = NETWORKS[name]
    for style in STYLES if kind is ALL_REDUCE else ("multi_colour",):
        for seed, elements in ((0, 48), (1, 37)):
            few = 5 if kind is ALL_TO_ALL else elements
            run(network, kind, AlgorithmChoice(style=style), few, seed=seed)


@pytest.mark.parametrize("algorithm", ["ring", "direct", "halving_doubling", "tree"])
@pytest.mark.parametrize("shape", [(8,), (4, 2), (2, 4, 2)])
@pytest.mark.parametrize("kind", [ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER])
@pytest.mark.parametrize("kind_of_dimension", ["ring", "switch"])
def test_every_algorithm_fits_every_style(
    algorithm: str, shape: tuple[int, ...], kind: CollectiveKind, kind_of_dimension: str
) -> None:
    network = Network([dimension(kind_of_dimension, size) for size in shape])
    for style in STYLES:
        if algorithm == "tree" and (kind is not ALL_REDUCE or style != "baseline"):
            continue
        for late in (False, True):
            choice = AlgorithmChoice(
                style=style,
                reductions=(algorithm,) * len(shape),
                gather_backwards=late,
            )
            run(network, kind, choice, 64, seed=int(late))


@pytest.mark.parametrize("first", ["ring", "direct", "halving_doubling"])
@pytest.mark.parametrize("second", ["ring", "direct", "halving_doubling"])
@pytest.mark.parametrize("style", STYLES)
def test_algorithms_may_differ_between_dimensions(first: str, second: str, style: str) -> None:
    """What a phase leaves to be added is added by the first send of the next one."""
    network = Network([ring(4), ring(4)])
    for elements in (64, 41):
        run(network, ALL_REDUCE, AlgorithmChoice(style=style, reductions=(first, second)), elements)


@pytest.mark.parametrize("size", [2, 3, 5, 8, 13])
def test_trees_of_any_size_reduce_and_broadcast(size: int) -> None:
    network = Network([ring(size)])
    choice = AlgorithmChoice(style="baseline", reductions=("tree",))
    for seed in range(3):
        run(network, ALL_REDUCE, choice, 20, seed=seed)
        run(network, BROADCAST, choice, 20, seed=seed)


@pytest.mark.parametrize("all_to_all", ["direct", "ring", "relay"])
@pytest.mark.parametrize("span", ["dimensions", "all"])
@pytest.mark.parametrize("name", ["ring of 7", "torus 4x3", "torus 2x3x4", "4x4 seen as 2x8"])
def test_every_part_of_an_all_to_all_gets_where_it_belongs(
    all_to_all: str, span: str, name: str
) -> None:
    choice = AlgorithmChoice(all_to_all=all_to_all, all_to_all_span=span)
    for elements in (12, 5, 1):
        run(NETWORKS[name], ALL_TO_ALL, choice, elements)


@pytest.mark.parametrize("dims", [[0], [1], [2], [0, 2], [1, 2]])
@pytest.mark.parametrize("kind", list(CollectiveKind), ids=lambda kind: kind.value)
def test_collectives_over_some_dimensions_stay_in_their_groups(
    dims: list[int], kind: CollectiveKind
) -> None:
    run(NETWORKS["torus 2x3x4"], kind, AlgorithmChoice(), 24, dims=dims)


def test_any_order_of_events_gives_the_same_result() -> None:
    for seed in range(20):
        run(NETWORKS["torus 4x3"], ALL_REDUCE, AlgorithmChoice(), 24, seed=seed)
        run(NETWORKS["switch of 8"], ALL_REDUCE, AlgorithmChoice(), 24, seed=seed)


def test_random_numbers_add_up_too() -> None:
    network = NETWORKS["torus 4x3"]
    data = np.random.default_rng(5).integers(-(10**6), 10**6, (network.nodes, 50))
    plan = plan_collective(network, ALL_REDUCE, AlgorithmChoice())
    made = execute(network, plan, ALL_REDUCE, data)
    assert np.array_equal(made.value, np.broadcast_to(data.sum(axis=0), data.shape))


# ---- The interpreter notices what is wrong with a plan.


def changed(plan: Plan, number: int, change: object) -> Plan:
    """The plan with every send of a phase changed by a function."""

    def of_segment(segment: Segment) -> Segment:
        sends = tuple(tuple(change(send) for send in step) for step in segment.sends)  # type: ignore[operator]
        return replace(segment, sends=sends)

    def of_phase(phase: Phase) -> Phase:
        programs = [
            Program(segments=tuple(map(of_segment, program.segments)), slots=program.slots)
            for program in phase.programs
        ]
        return replace(phase, programs=tuple(programs))

    variants = [
        replace(
            variant,
            phases=tuple(
                of_phase(phase) if i == number else phase for i, phase in enumerate(variant.phases)
            ),
        )
        for variant in plan.variants
    ]
    return replace(plan, variants=tuple(variants))


def impatient(phase: Phase) -> Phase:
    programs = [
        Program(
            segments=tuple(replace(s, count=max(0, s.count - 1)) for s in program.segments),
            slots=program.slots,
        )
        for program in phase.programs
    ]
    return replace(phase, programs=tuple(programs))


def outcome_is_wrong(network: Network, plan: Plan, kind: CollectiveKind) -> bool:
    data = counted(network, (24,))
    try:
        check(network, kind, data, execute(network, plan, kind, data))
    except (ExecutionError, AssertionError):
        return True
    return False


BREAKS = {
    "a sum that is only passed on": lambda send: replace(send, source=Source.FORWARD),
    "own data where a sum is due": lambda send: replace(send, source=Source.FRESH),
    "a sum made on arrival and again": lambda send: replace(send, receipt=Receipt.REDUCE),
    "a message of the wrong size": lambda send: replace(send, fraction=send.fraction / 2),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_wrong_send_is_noticed(name: str) -> None:
    network = NETWORKS["torus 4x3"]
    choice = AlgorithmChoice(style="dimension_ordered")
    plan = plan_collective(network, ALL_REDUCE, choice)
    assert not outcome_is_wrong(network, plan, ALL_REDUCE)
    assert outcome_is_wrong(network, changed(plan, 1, BREAKS[name]), ALL_REDUCE)


def test_a_program_that_does_not_wait_is_noticed() -> None:
    network = NETWORKS["ring of 7"]
    plan = plan_collective(network, ALL_REDUCE, AlgorithmChoice())
    phase = plan.variants[0].phases[0]
    early = replace(plan, variants=(replace(plan.variants[0], phases=(impatient(phase),)),))
    assert outcome_is_wrong(network, early, ALL_REDUCE)


def test_a_program_that_waits_for_too_much_is_named() -> None:
    network = NETWORKS["ring of 7"]
    send = Send(channel=network.shift(0, 1), fraction=1.0)
    program = Program(segments=(Segment(steps=1, sends=((send,),)), Segment(steps=1, count=2)))
    phase = Phase(name="ring", dimension=0, ring=0, programs=(program,), data_in=1.0, data_out=1.0)
    plan = plan_collective(network, ALL_REDUCE, AlgorithmChoice())
    plan = replace(plan, variants=(replace(plan.variants[0], phases=(phase,)),))
    with pytest.raises(ExecutionError, match="ring: node 0 waits for ever"):
        execute(network, plan, ALL_REDUCE, counted(network, (7,)))


def test_nodes_of_a_group_share_the_list_of_its_blocks() -> None:
    """An all-to-all of 384 nodes took 9 GB with a list for each, of members times members."""
    network = NETWORKS["torus 4x3"]
    choice = AlgorithmChoice(all_to_all_span="all")
    (variant, *_) = plan_collective(network, ALL_TO_ALL, choice).variants
    rank = group_ranks(network, [0, 1])
    layout = Layout(network, variant.phases, ALL_TO_ALL, [0, 1], rank, 1)

    assert [len({id(of) for of in blocks}) for blocks in layout.blocks] == [1]
    assert len(layout.blocks[0][0]) == 12 * 12

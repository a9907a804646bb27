# SPDX-License-Identifier: Apache-2.0
"""Plans put the right bytes on the right links, and orders of dimensions share the load."""

import pytest

from sim.collectives.algorithm import Group
from sim.collectives.plan import AlgorithmChoice, plan_collective
from sim.collectives.tree import TREE
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.network.dimension import Dimension, DimensionKind
from sim.network.network import Network
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind


def torus(*sizes: int, rates=(50e9, 50e9, 50e9, 50e9)) -> Network:
    return Network.torus(sizes, bandwidth_bytes_per_s=rates[: len(sizes)], latency_s=50e-9)


def bytes_per_dimension(where: Network, kind: CollectiveKind, size: int, **choice) -> list[float]:
    """Sent by one node."""
    builder = GraphBuilder()
    builder.add("c", TaskKind.COLLECTIVE, call=CollectiveCall(kind=kind, size_bytes=size))
    record = simulate(
        where,
        Job(name="c", graphs=(builder.graph(),)),
        algorithms=AlgorithmChoice(**choice),
        scheduler=Scheduler(splits=1),
        fold="off",
    )
    sums = [0.0] * len(where.dimensions)
    for link, amount in zip(record.links, record.link_bytes):
        sums[link.dimension] += amount / where.nodes
    return sums


SIZE = 64 * 64 * 64 * 4


@pytest.mark.parametrize(
    ("shape", "expected"), [((1, 64, 1), 126 / 64), ((1, 8, 8), 28 / 8), ((4, 4, 4), 36 / 8)]
)
def test_baseline_style_sends_what_the_paper_says(shape, expected):
    sent = bytes_per_dimension(
        torus(*shape), CollectiveKind.ALL_REDUCE, SIZE, style="baseline", rings=1
    )
    assert sum(sent) == pytest.approx(expected * SIZE, rel=1e-12)


@pytest.mark.parametrize("shape", [(4, 4, 4), (2, 4, 8), (8, 2, 2)])
def test_enhanced_style_divides_the_other_dimensions_by_the_first(shape):
    base, enhanced = (
        bytes_per_dimension(torus(*shape), CollectiveKind.ALL_REDUCE, SIZE, style=s, rings=1)
        for s in ("baseline", "enhanced")
    )
    assert enhanced[1] * shape[0] == base[1]
    assert enhanced[2] * shape[0] == base[2]


def test_all_to_all_on_a_ring_by_relay_moves_half_n_messages_each():
    sent = bytes_per_dimension(
        torus(6), CollectiveKind.ALL_TO_ALL, 6000, all_to_all="ring", rings=1
    )
    assert sum(sent) == 1000 * 6 * 5 / 2


@pytest.mark.parametrize("rates", [(50e9, 50e9, 50e9), (200e9, 25e9, 25e9), (10e9, 30e9, 90e9)])
@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 4), (2, 3, 5)])
def test_orders_share_the_load_as_well_as_any_shares_could(shape, rates):
    """Against a fine grid of shares; no other share has a lower worst load."""
    import itertools

    import numpy as np

    from sim.collectives.plan import _balanced, colour_loads

    where = torus(*shape, rates=rates)
    load = np.array([colour_loads(where, o) for o in itertools.permutations(range(len(shape)))])
    best = (np.array(_balanced(load)) @ load).max()
    draws = np.random.default_rng(1).dirichlet(np.full(len(load), 0.3), 20_000)
    assert best <= (draws @ load).max(axis=1).min() * (1 + 1e-9)


def test_symmetric_tori_use_all_dimensions_alike():
    plan = plan_collective(torus(4, 4, 4), CollectiveKind.ALL_REDUCE, AlgorithmChoice())
    sums = [0.0, 0.0, 0.0]
    for variant in plan.variants:
        for phase in variant.phases:
            for segment in phase.programs[0].segments:
                for send in segment.sends[0]:
                    sums[phase.dimension] += variant.weight * send.fraction * segment.steps
    assert sums[0] == pytest.approx(sums[1]) == pytest.approx(sums[2])


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ({"style": "fast"}, "style must be one of"),
        ({"reductions": ("magic",)}, "reductions must be of"),
        ({"rings": 0}, "rings must be at least 1"),
        ({"all_to_all": "tree"}, "all_to_all must be one of"),
    ],
)
def test_bad_choices_are_refused(choice, text):
    with pytest.raises(ValueError, match=text):
        AlgorithmChoice(**choice)


def test_algorithms_that_do_not_fit_are_refused():
    three = torus(3)
    choice = AlgorithmChoice(reductions=("halving_doubling",))
    with pytest.raises(ValueError, match="power of two"):
        plan_collective(three, CollectiveKind.ALL_REDUCE, choice)
    with pytest.raises(ValueError, match="each of 1 dimensions"):
        plan_collective(three, CollectiveKind.ALL_REDUCE, AlgorithmChoice(reductions=(None, None)))
    for wrong in (1, -1, True, 0.5, "0"):
        with pytest.raises(ValueError, match="dimension must be an integer from 0 to 0, not"):
            plan_collective(three, CollectiveKind.ALL_REDUCE, AlgorithmChoice(), (wrong,))
    with pytest.raises(ValueError, match=r"dimensions must be different ones, not \(0, 0\)"):
        plan_collective(three, CollectiveKind.ALL_REDUCE, AlgorithmChoice(), (0, 0))


@pytest.mark.parametrize("size", [2, 4, 6, 8, 16, 24])
def test_trees_come_in_pairs_that_load_all_nodes_alike(size):
    """On a switch with one lane too; who is a leaf in one has children in the other."""
    switch = Dimension(
        kind=DimensionKind.SWITCH, size=size, bandwidth_bytes_per_s=25e9, latency_s=1e-7
    )
    choice = AlgorithmChoice(style="baseline", reductions=("tree",), rings=1)
    plan = plan_collective(Network([switch]), CollectiveKind.ALL_REDUCE, choice)

    assert [variant.weight for variant in plan.variants] == [0.5, 0.5]
    assert [phase.ring for variant in plan.variants for phase in variant.phases] == [0, 0]
    leaves = []
    for number in range(2):
        up, _ = TREE.rounds(CollectiveKind.ALL_REDUCE, Group(shape=(size,), number=number))
        leaves.append(set(range(size)) - set(up.peers[0].members))
    assert leaves[0] | leaves[1] == set(range(size)) and not leaves[0] & leaves[1]

# SPDX-License-Identifier: Apache-2.0
"""Every algorithm against numpy, through each of its back ends, and what they refuse."""

import random
from dataclasses import replace

import numpy as np
import pytest

from sim.collectives import plan as plans
from sim.collectives.algorithm import (
    Algorithm,
    Group,
    Listed,
    Neighbour,
    Round,
    Shift,
    block_count,
    held_at_start,
)
from sim.collectives.execute import execute, expected_of, what_is_wrong
from sim.collectives.fsm_program import PROGRAM_ENTRY, ring_program
from sim.collectives.golden import addition_order
from sim.collectives.outcome import carry_out
from sim.collectives.plan import ALGORITHMS, AlgorithmChoice, plan_collective, register
from sim.collectives.ring import NIC_RING, RING
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.workload.graph import CollectiveKind
from tests.sim.collectives.fsm import NEXT, PREVIOUS, Rank, run_programs

ALL_REDUCE, REDUCE_SCATTER = CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER
ALL_GATHER, ALL_TO_ALL = CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL

CASES = [
    (name, kind, size)
    for name, algorithm in ALGORITHMS.items()
    for kind in CollectiveKind
    if algorithm.does(kind)
    for size in range(2, 10)
    if name != "halving_doubling" or size in (2, 4, 8)
]


def network_of(size: int, kind: str = "ring") -> Network:
    return Network([Dimension(kind=kind, size=size, bandwidth_bytes_per_s=1e9)])


def choice_of(name: str, kind: CollectiveKind, **options: object) -> AlgorithmChoice:
    key = "all_to_all" if kind is ALL_TO_ALL else "reductions"
    value = name if kind is ALL_TO_ALL else (name,)
    return AlgorithmChoice(style="baseline", **{key: value}, **options)  # type: ignore[arg-type]


def vectors_of(kind: CollectiveKind, size: int, each: int, seed: int = 0) -> np.ndarray:
    """What the members begin with, as blocks of *each* elements: (members, blocks, elements)."""
    rng = np.random.default_rng(seed)
    held = held_at_start(kind, size)
    values = rng.standard_normal((size, block_count(kind, size), each)).astype(np.float32)
    return np.where(held[..., None], values, np.float32(0))


@pytest.mark.parametrize("name, kind, size", CASES)
def test_the_rounds_do_what_numpy_says(name, kind, size):
    rng = np.random.default_rng(size)
    blocks = rng.integers(-9, 9, (size, block_count(kind, size), 3))
    made = carry_out(ALGORITHMS[name], kind, blocks)
    mine = np.arange(size)
    if kind is ALL_GATHER:
        assert (made == blocks[mine, mine]).all()
    elif kind is ALL_TO_ALL:
        for rank in mine:
            assert (made[rank, mine * size + rank] == blocks[mine, mine * size + rank]).all()
    elif kind is REDUCE_SCATTER:
        assert (made[mine, mine] == blocks.sum(axis=0)).all()
    else:
        whole = blocks[0] if kind is CollectiveKind.BROADCAST else blocks.sum(axis=0)
        assert (made == whole).all()


@pytest.mark.parametrize("kind_of_network", ["ring", "switch"])
@pytest.mark.parametrize("name, kind, size", CASES)
def test_the_plan_does_what_numpy_says(name, kind, size, kind_of_network):
    network = network_of(size, kind_of_network)
    plan = plan_collective(network, kind, choice_of(name, kind))
    for elements in (24 * size, 31, 1):
        assert what_is_wrong(network, plan, kind, elements=elements, seed=elements) is None


@pytest.mark.parametrize("name, kind, size", CASES)
def test_the_plan_adds_in_the_order_of_the_rounds_whatever_the_order_of_events(name, kind, size):
    if kind in (ALL_GATHER, ALL_TO_ALL):
        return
    network = network_of(size)
    plan = plan_collective(network, kind, choice_of(name, kind, rings=1))
    # Of a pair of trees one alone: the mirror image adds in another order.
    plan = replace(plan, variants=(replace(plan.variants[0], weight=1.0),))
    blocks = vectors_of(kind, size, each=7)
    bits = carry_out(ALGORITHMS[name], kind, blocks).reshape(size, -1)
    for seed in range(4):
        made = execute(network, plan, kind, blocks.reshape(size, -1), seed=seed)
        assert made.has.any(axis=0).all()
        assert made.value[made.has].tobytes() == bits[made.has].tobytes()


def run_on_fsms(
    algorithm: Algorithm, kind: CollectiveKind, blocks: np.ndarray, *, direction: int = 1
) -> list[dict[int, np.ndarray]]:
    """Results of the ranks, by block."""
    size = len(blocks)
    ports = (NEXT, PREVIOUS) if direction == 1 else (PREVIOUS, NEXT)
    ranks = [
        Rank(
            ring_program(
                kind, rank=rank, nodes=size, direction=direction,
                to_port=ports[0], from_port=ports[1], algorithm=algorithm,
            ),
            {rank: blocks[rank, rank]} if kind is ALL_GATHER else dict(enumerate(blocks[rank])),
            add=np.add,
        )
        for rank in range(size)
    ]
    run_programs(ranks, random.Random(size))
    return [
        {rank: each.data[rank]} if kind is REDUCE_SCATTER else each.data
        for rank, each in enumerate(ranks)
    ]


def check_on_fsms(
    algorithm: Algorithm, kind: CollectiveKind, blocks: np.ndarray, *, direction: int = 1
) -> None:
    results = run_on_fsms(algorithm, kind, blocks, direction=direction)
    mine = np.arange(len(blocks))
    whole = blocks[mine, mine] if kind is ALL_GATHER else blocks.sum(axis=0)
    for rank, result in enumerate(results):
        assert set(result) == ({rank} if kind is REDUCE_SCATTER else set(mine))
        for block, values in result.items():
            assert (values == whole[block]).all()


@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("kind", list(PROGRAM_ENTRY), ids=lambda kind: kind.value)
@pytest.mark.parametrize("size", range(2, 10))
def test_fsm_programs_yield_what_numpy_says_and_the_bits_of_the_rounds(size, kind, direction):
    numbers = np.random.default_rng(size).integers(-9, 9, (size, size, 3))
    check_on_fsms(RING, kind, numbers, direction=direction)
    blocks = vectors_of(kind, size, each=5, seed=size)
    bits = carry_out(RING, kind, blocks, group=Group(shape=(size,), way=direction))
    for rank, result in enumerate(run_on_fsms(RING, kind, blocks, direction=direction)):
        for block, values in result.items():
            assert values.tobytes() == bits[rank, block].tobytes()


@pytest.mark.parametrize("size", [2, 3, 8])
def test_the_nic_counts_blocks_from_where_they_start(size):
    order = addition_order(NIC_RING, ALL_REDUCE, Group(shape=(size,)))
    assert order.tolist() == [[(b + hop) % size for hop in range(size)] for b in range(size)]


def test_a_tree_of_additions_is_not_a_chain():
    with pytest.raises(ValueError, match="halving_doubling does not add up blocks along a chain"):
        addition_order(ALGORITHMS["halving_doubling"], ALL_REDUCE, Group(shape=(4,)))


# ---- Planted bugs.


def wrong(algorithm: Algorithm, member: int, *, number: int = 0) -> Algorithm:
    """The same, but for one member that is one block off in one round."""

    def spoilt(kind, group):
        rounds = list(algorithm.rounds(kind, group))
        each, count = rounds[number], block_count(kind, group.size)
        rounds[number] = replace(
            each, send=lambda at: (each.send(at) + (at.rank == member)) % count
        )
        return tuple(rounds)

    kinds = {kind: (lambda group, kind=kind: spoilt(kind, group)) for kind in algorithm.collectives}
    return Algorithm(name="wrong", collectives=kinds)


@pytest.mark.parametrize("kind", [ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL])
@pytest.mark.parametrize("name", ["ring", "direct", "halving_doubling"])
def test_one_wrong_block_is_noticed_in_a_plan(name, kind, monkeypatch):
    algorithm = ALGORITHMS[name]
    if not algorithm.does(kind):
        return
    monkeypatch.setattr(plans, "ALGORITHMS", dict(ALGORITHMS))
    for member in range(4):
        register(wrong(algorithm, member))
        network = network_of(4)
        plan = plan_collective(network, kind, choice_of("wrong", kind))
        assert what_is_wrong(network, plan, kind, elements=32) is not None
        del plans.ALGORITHMS["wrong"]


@pytest.mark.parametrize("kind", list(PROGRAM_ENTRY), ids=lambda kind: kind.value)
def test_one_wrong_block_is_noticed_in_fsm_programs(kind):
    numbers = np.random.default_rng(1).integers(-9, 9, (5, 5, 3))
    check_on_fsms(RING, kind, numbers)
    for member in range(5):
        with pytest.raises((ValueError, AssertionError)):
            check_on_fsms(wrong(RING, member), kind, numbers)


# ---- Other shapes, and what is refused.


def chain(group: Group) -> tuple[Round, ...]:
    """Sums run up a line of members, results down again."""
    whole, size = np.arange(group.size), group.size
    return (
        Round(
            to=Listed((*range(1, size), -1)), send=lambda at: whole, reduce=True, cascade=True
        ),
        Round(to=Listed((-1, *range(size - 1))), send=lambda at: whole, cascade=True),
    )


@pytest.mark.parametrize("size", range(2, 10))
def test_a_chain_of_members_is_an_algorithm_too(size, monkeypatch):
    monkeypatch.setattr(plans, "ALGORITHMS", dict(ALGORITHMS))
    register(Algorithm(name="chain", collectives={ALL_REDUCE: chain}))
    network = network_of(size)
    plan = plan_collective(network, ALL_REDUCE, choice_of("chain", ALL_REDUCE))
    for seed in range(3):
        assert what_is_wrong(network, plan, ALL_REDUCE, elements=40, seed=seed) is None


def test_a_name_stands_for_one_algorithm():
    with pytest.raises(ValueError, match=r"^name must not be 'ring', which is one of Foldwire's o"):
        register(Algorithm(name="ring", collectives={}))
    register(RING)


def test_an_own_algorithm_is_replaced_by_the_next_of_its_name(monkeypatch):
    monkeypatch.setattr(plans, "ALGORITHMS", dict(ALGORITHMS))
    for _ in range(2):
        register(again := Algorithm(name="chain", collectives={ALL_REDUCE: chain}))
    assert plans.ALGORITHMS["chain"] is again
    assert choice_of("chain", ALL_REDUCE).reductions == ("chain",)


def test_what_an_algorithm_does_not_do_is_named_with_what_it_does():
    with pytest.raises(ValueError, match="tree does all_reduce, broadcast only, not all_gather"):
        ALGORITHMS["tree"].rounds(ALL_GATHER, Group(shape=(4,)))
    with pytest.raises(ValueError, match="power of two, not a group of 6"):
        ALGORITHMS["halving_doubling"].rounds(ALL_GATHER, Group(shape=(6,)))


def rounds_of(*rounds: Round) -> Algorithm:
    return Algorithm(name="odd", collectives=dict.fromkeys(CollectiveKind, lambda group: rounds))


AHEAD, BACK = Neighbour(1), Neighbour(-1)
REFUSED = {
    "peers of odd all_gather must be neighbours for an FSM program, not Shift": (
        ALL_GATHER, Round(to=Shift((2,)), send=lambda at: at.rank),
    ),
    "rank 0 sends what it does not have": (
        ALL_GATHER, Round(to=AHEAD, send=lambda at: at.peer),
    ),
    "rank 3 adds a second packet, an FSM can add one": (
        REDUCE_SCATTER, Round(to=(AHEAD, BACK), send=lambda at: at.peer, reduce=True),
    ),
    "rank 0 sends a packet on twice, an FSM can once": (
        ALL_GATHER,
        Round(to=AHEAD, send=lambda at: at.rank),
        Round(to=(AHEAD, BACK), send=lambda at: (at.rank - 1) % 4),
    ),
    "rank 0 drops a packet": (
        REDUCE_SCATTER, Round(to=AHEAD, send=lambda at: at.rank, reduce=True),
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_an_fsm_cannot_do_is_refused_in_a_line(text):
    kind, *rounds = REFUSED[text]
    with pytest.raises(ValueError, match=text):
        ring_program(
            kind, rank=0, nodes=4, direction=1, to_port=0, from_port=1,
            algorithm=rounds_of(*rounds),
        )


def test_what_has_no_place_in_the_program_table_is_refused():
    with pytest.raises(ValueError, match="all_gather, not all_to_all"):
        ring_program(ALL_TO_ALL, rank=0, nodes=4, direction=1, to_port=0, from_port=1)


def test_a_cascade_that_waits_for_itself_is_refused():
    circle = rounds_of(Round(to=AHEAD, send=lambda at: at.rank, cascade=True))
    with pytest.raises(ValueError, match="cascade of member 0 waits for itself"):
        carry_out(circle, ALL_GATHER, np.zeros((3, 3)))


def test_rounds_that_send_what_is_not_there_are_named():
    early = rounds_of(Round(to=AHEAD, send=lambda at: (at.rank - 1) % 3))
    with pytest.raises(ValueError, match="member 0 does not have block 2 to send"):
        carry_out(early, ALL_GATHER, np.zeros((3, 3)))


def test_expectations_are_those_of_the_definition():
    data = np.arange(12.0).reshape(3, 4)
    assert (expected_of(ALL_REDUCE, data) == data.sum(axis=0)).all()
    assert expected_of(ALL_GATHER, data).shape == (3, 3, 4)
    to_all = np.arange(9).reshape(3, 3, 1)
    assert (expected_of(ALL_TO_ALL, to_all)[2, 1] == to_all[1, 2]).all()

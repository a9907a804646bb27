# SPDX-License-Identifier: Apache-2.0
"""Shapes that split each other, and what a collective of a job sees of a network."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.network.shapes import ShapePart, coarsest, parts_within, split_into

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


@pytest.mark.parametrize(
    ("shape", "split", "parts"),
    [
        ((8, 1, 6), (2, 2, 2, 1, 2, 3), [(0, 1, 2), (3,), (4, 5)]),
        ((8,), (4, 2), [(0, 1)]),
        ((2, 2), (2, 2, 1), [(0,), (1, 2)]),
        ((1, 4), (1, 4), [(0,), (1,)]),
    ],
)
def test_parts_of_dimensions_are_in_their_place(shape, split, parts):
    assert split_into(shape, split) == parts


@pytest.mark.parametrize(
    ("shape", "split"), [((8,), (3, 2)), ((4, 4), (8, 2)), ((8,), (4,)), ((8,), (8, 2)), ((4,), ())]
)
def test_shapes_that_are_not_parts_are_refused(shape, split):
    with pytest.raises(ValueError, match="does not split the dimensions of"):
        split_into(shape, split)


def test_only_what_a_group_cuts_is_cut():
    split = (4, 2, 2, 2, 2)  # of 8 x 8
    parts = split_into((8, 8), split)

    assert coarsest(split, parts, (0, 1)) == ((8, 8), (0, 1), (0,))
    assert coarsest(split, parts, (0,)) == ((4, 2, 8), (0, 0, 1), (0,))
    assert coarsest(split, parts, (1, 2, 3, 4)) == ((4, 2, 8), (0, 0, 1), (1, 2))
    assert coarsest(split, parts, (2, 4)) == ((8, 2, 2, 2), (0, 1, 1, 1), (1, 3))


def test_dimensions_of_one_node_split_nothing():
    parts = split_into((4, 1), (1, 4, 1))

    assert coarsest((1, 4, 1), parts, (1,)) == ((4, 1), (0, 1), (0,))


@settings(deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=3), st.data())
def test_coarsest_shape_has_the_same_groups(factors, data):
    """The members of a group are the same in the job's shape and in the view of it."""
    split = tuple(size for of in factors for size in of)
    shape = tuple(_product(of) for of in factors)
    chosen = data.draw(st.sets(st.integers(0, len(split) - 1)))
    if not _product(shape) > 1:
        return
    seen, _, inside = coarsest(split, split_into(shape, split), chosen)

    assert _product(seen) == _product(shape)
    assert len(seen) <= len(split)
    assert _groups(seen, inside) == _groups(split, chosen)


def _product(sizes):
    product = 1
    for size in sizes:
        product *= size
    return product


def _groups(shape, chosen):
    groups = {}
    for node in range(_product(shape)):
        rest, outside = node, []
        for dimension, size in enumerate(shape):
            if dimension not in chosen:
                outside.append((dimension, rest % size, size) if size > 1 else None)
            rest //= size
        groups.setdefault(tuple(filter(None, outside)), set()).add(node)
    return {frozenset(members) for members in groups.values()}


def test_dimensions_know_where_they_lie():
    assert parts_within((4, 2, 8), (8, 8)) == (
        ShapePart(within=0, whole=False), ShapePart(within=0, whole=False),
        ShapePart(within=1, whole=True),
    )
    assert parts_within((16, 4), (8, 8)) == (None, ShapePart(within=1, whole=False))
    assert parts_within((2, 6), (4, 3)) == (ShapePart(within=0, whole=False), None)


def test_collectives_of_all_see_the_network_itself():
    network = Network.torus([8, 4], bandwidth_bytes_per_s=25e9)
    job = network.split((4, 2, 4))

    assert job.shape == (4, 2, 4) and job.whole_shape == (8, 4) and job.mapped
    for dimensions, seen in ((None, None), ((0, 1), (0,)), ((2,), (1,))):
        view, inside = job.view(dimensions)
        assert (view.shape, inside, view.mapped) == ((8, 4), seen, False)
    view, inside = job.view((0, 2))
    assert (view.shape, inside) == ((4, 2, 4), (0, 2))
    assert [view.label(each) for each in range(3)] == [
        "dim 0 (4 of 8)", "dim 0 (2 of 8, 4 apart)", "dim 1"
    ]
    assert network.split((8, 4)) is network
    with pytest.raises(ValueError, match=r"^4 x 8 does not split the dimensions of 8 x 4$"):
        network.split((4, 8))
    with pytest.raises(ValueError, match=r"^dimension must be from 0 to 2, not 3$"):
        job.view((3,))


@pytest.mark.parametrize(
    ("dimension", "shape", "share"),
    [
        # Of a line of four the way back lies on the same links: half of them all.
        (Dimension.ring(8, 10e9), (4, 2), 0.5),
        # Every second of eight: two rings on each link.
        (Dimension.ring(8, 10e9), (2, 4), 0.5),
        # Opposite ones, all of which cross every link of a half.
        (Dimension.ring(8, 10e9), (4, 2), 0.25),
        (Dimension.ring(8, 10e9, lanes=3), (4, 2), 0.5),
        (Dimension.switch(8, 10e9, lanes=2), (4, 2), 1.0),
    ],
)
def test_rings_of_parts_share_the_links(dimension, shape, share):
    network = Network(dimension).split(shape)
    part = 1 if share == 0.25 or shape == (2, 4) else 0
    view, (inside,) = network.view((part,))

    assert view.injection_bytes_per_s(inside) == pytest.approx(
        share * dimension.injection_bytes_per_s
    )

# SPDX-License-Identifier: Apache-2.0
"""Short ways to make dimensions and networks, and what a slip of the hand is told."""

import re

import pytest

from sim.network.dimension import Dimension
from sim.network.network import Network


def test_short_constructors_of_dimensions_are_the_long_one():
    for kind in ("ring", "switch", "fully_connected"):
        short = getattr(Dimension, kind)(4, 25e9, 1e-7, lanes=2, efficiency=0.9)
        assert short == Dimension(
            kind=kind, size=4, bandwidth_bytes_per_s=25e9, latency_s=1e-7, lanes=2, efficiency=0.9
        )
    assert Dimension.fat_tree(8, 2, 25e9, spine=True) == Dimension(
        kind="fat_tree", size=8, group=2, bandwidth_bytes_per_s=25e9
    )


def test_a_network_may_be_one_dimension():
    network = Network(Dimension.switch(4, 25e9))

    assert network.dimensions == (Dimension.switch(4, 25e9),)


def test_a_torus_has_rates_for_all_dimensions_or_for_each():
    same = Network.torus((4, 2), bandwidth_bytes_per_s=25e9, latency_s=1e-7, lanes=2)
    own = Network.torus((4, 2), bandwidth_bytes_per_s=(200e9, 25e9), latency_s=[1e-8, 1e-7])

    assert same.dimensions == tuple(Dimension.ring(size, 25e9, 1e-7, lanes=2) for size in (4, 2))
    assert own.dimensions == (Dimension.ring(4, 200e9, 1e-8), Dimension.ring(2, 25e9, 1e-7))


def test_a_ring_is_a_torus_of_one_dimension():
    network = Network.ring(8, 25e9, 1e-7, logical_shape=(4, 2), efficiency=0.94)

    assert network.dimensions == (Dimension.ring(8, 25e9, 1e-7, efficiency=0.94),)
    assert network.shape == (4, 2)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Dimension.ring(4, "25GB/s"),
         "bandwidth_bytes_per_s must be a number, not '25GB/s'"),
        (lambda: Dimension.ring(4, 25e9, "1us"), "latency_s must be a number, not '1us'"),
        (lambda: Dimension.ring(4, 25e9, efficiency=None),
         "efficiency must be a number, not None"),
        (lambda: Dimension.ring(4, 25e9, router_latency_s=True),
         "router_latency_s must be a number, not True"),
        (lambda: Dimension.fat_tree(4, 2, 25e9, trunk_bandwidth_bytes_per_s="fast"),
         "trunk_bandwidth_bytes_per_s must be a number, not 'fast'"),
        (lambda: Network.torus((4, 4), bandwidth_bytes_per_s="25GB/s"),
         "bandwidth_bytes_per_s must be a number, not '25GB/s'"),
        (lambda: Network(4), "dimensions must be one Dimension or a sequence of them, not 4"),
        (lambda: Network([4, 4]),
         "dimensions must be one Dimension or a sequence of them, not [4, 4]"),
        (lambda: Network.torus(4, bandwidth_bytes_per_s=25e9),
         "sizes must be a sequence of integers, not 4"),
    ],
)
def test_wrong_types_are_named(make, text):
    with pytest.raises(TypeError, match="^" + re.escape(text) + "$"):
        make()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Network([]), "dimensions must hold at least one dimension"),
        (lambda: Network.torus((4, 4), bandwidth_bytes_per_s=(25e9,)),
         "bandwidth_bytes_per_s must be one value or one for each of 2 dimensions, not 1"),
        (lambda: Network.torus((4, 0), bandwidth_bytes_per_s=25e9),
         "size must be at least 1, not 0"),
    ],
)
def test_bad_values_are_named(make, text):
    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        make()

# SPDX-License-Identifier: Apache-2.0
"""Rings through all nodes of a torus at the event level: who sends what, over which links."""

import itertools

import numpy as np
import pytest

from sim.collectives.execute import what_is_wrong
from sim.collectives.plan import AlgorithmChoice, plan_collective
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

STYLE = AlgorithmChoice(style="hamiltonian")


def torus(*sizes, **options):
    return Network.torus(sizes, bandwidth_bytes_per_s=1e9, **options)


@pytest.mark.parametrize("kind", list(CollectiveKind), ids=lambda kind: kind.value)
@pytest.mark.parametrize("sizes", [(3, 3), (4, 3), (3, 1, 5), (3, 4, 3)], ids=str)
def test_every_member_ends_with_what_it_must(sizes, kind):
    for lanes, seed in itertools.product((1, 2), (0, 3)):
        network = torus(*sizes, lanes=lanes)
        plan = plan_collective(network, kind, STYLE)
        assert what_is_wrong(network, plan, kind, elements=400, seed=seed) is None


def test_groups_over_some_dimensions_have_rings_of_their_own():
    network = torus(3, 4, 5)
    for dimensions in ((0, 2), (1, 2), (1,)):
        plan = plan_collective(network, CollectiveKind.ALL_REDUCE, STYLE, dimensions)
        wrong = what_is_wrong(
            network, plan, CollectiveKind.ALL_REDUCE, elements=120, dimensions=dimensions
        )
        assert wrong is None


@pytest.mark.parametrize("lanes", [1, 2])
def test_all_rings_together_use_every_link_once(lanes):
    network = torus(4, 3, 3, lanes=lanes)
    plan = plan_collective(network, CollectiveKind.REDUCE_SCATTER, STYLE)
    channels = [
        next(send.channel for segment in variant.phases[0].programs[0].segments
             for sends in segment.sends for send in sends)
        for variant in plan.variants
    ]
    used = np.concatenate([channel.links.ravel() for channel in channels])
    assert len(plan.variants) == 6 * lanes
    assert sorted(used.tolist()) == list(range(len(network.links())))
    assert len({variant.phases[0].ring for variant in plan.variants}) == 6 * lanes


def test_what_has_no_such_rings_is_refused():
    ring = torus(3).dimensions[0]
    for network, text in (
        (torus(4, 2), "style must not be 'hamiltonian', which is for dimensions with rings of 3"),
        (Network((ring, Dimension.switch(4, 1e9))), "style must not be 'hamiltonian', which is"),
        (torus(3, 3, bidirectional=False), "style must not be 'hamiltonian', which is for"),
        (Network((ring, torus(3, lanes=2).dimensions[0])), "where lanes differ from dimension to"),
        (torus(9, 3, logical_shape=(3, 3, 3)), "whose rings lie in whole dimensions"),
        (torus(3, 3, placement=tuple(range(9))[::-1]), "by a logical shape, a placement or groups"),
        (torus(3, 3, logical_shape=(9,)), None),
    ):
        if text is None:  # one dimension is a ring of its own
            plan_collective(network, CollectiveKind.ALL_REDUCE, STYLE)
            continue
        with pytest.raises(ValueError, match=text):
            plan_collective(network, CollectiveKind.ALL_REDUCE, STYLE)


@pytest.mark.parametrize("name, value", [
    ("rings", 1), ("reductions", ("ring", "ring")), ("halves", ("ring", "ring")),
])
def test_choices_that_its_rings_leave_no_room_for_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be absent beside style = 'hamiltonian'"):
        AlgorithmChoice(style="hamiltonian", **{name: value})

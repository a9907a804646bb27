# SPDX-License-Identifier: Apache-2.0
from functools import partial

import numpy as np
import pytest

from sim.endpoint.rates import EndpointRates
from sim.limits.bounds import lower_bound
from sim.limits.network import call_bound
from sim.network.dimension import Dimension
from sim.network.link import LinkFault
from sim.network.network import Network
from sim.units import GB
from sim.workload.graph import CollectiveCall
from sim.workload.graph import CollectiveKind as Kind

SIZE = 1 << 20

ring = partial(Dimension.ring, bandwidth_bytes_per_s=GB)
fault = partial(LinkFault, both_ways=False)


def call(kind=Kind.ALL_REDUCE, dimensions=None, size=SIZE):
    return CollectiveCall(kind=kind, size_bytes=size, dimensions=dimensions)


@pytest.mark.parametrize("kind", list(Kind))
def test_call_over_all_dimensions_has_the_bound_of_the_network(kind):
    dims = [Dimension.ring(4, 200 * GB), Dimension.ring(4, 25 * GB), Dimension.ring(2, 25 * GB)]

    bound = call_bound(Network(dims), call(kind))

    assert bound == lower_bound(kind, SIZE, dims)


def test_call_over_some_dimensions_has_the_bound_of_these():
    dims = [Dimension.ring(4, 200 * GB), Dimension.ring(4, 25 * GB), Dimension.ring(2, 25 * GB)]

    bound = call_bound(Network(dims), call(dimensions=(0, 2)))

    assert bound == lower_bound(Kind.ALL_REDUCE, SIZE, [dims[0], dims[2]])


def test_call_within_single_nodes_needs_nothing():
    network = Network([ring(4), ring(1)])

    assert call_bound(network, call(dimensions=(1,))).seconds == 0


def test_slow_link_raises_the_bound():
    slow = fault(source=0, target=1, bandwidth_factor=0.25)
    whole = call_bound(Network([ring(4)]), call())

    bound = call_bound(Network([ring(4)], faults=[slow]), call())

    # 7.25 of 8 links are left; 6 values of each position cross.
    assert bound.resource == "injection"
    assert bound.seconds == pytest.approx(6 * SIZE / (7.25 * GB))
    assert bound.seconds > whole.seconds


def test_node_with_most_of_its_links_down_sets_the_bound():
    down = [fault(source=0, target=1), fault(source=0, target=4, bandwidth_factor=0.1)]
    down += [fault(source=0, target=12), fault(source=0, target=3, bandwidth_factor=0.1)]

    bound = call_bound(Network([ring(4), ring(4)], faults=down), call())

    assert bound.resource == "links out of the slowest node"
    assert bound.seconds == pytest.approx(SIZE / (0.2 * GB))


def test_slow_trunk_of_a_fat_tree_raises_only_the_bound_of_the_trunks():
    tree = Dimension(
        kind="fat_tree", size=8, group=4, bandwidth_bytes_per_s=GB, spine=True,
        trunk_bandwidth_bytes_per_s=2 * GB,
    )
    plain = Network([tree])
    trunk = int(np.flatnonzero(plain.link_source >= plain.nodes)[-1])
    slow = fault(
        source=int(plain.link_source[trunk]),
        target=int(plain.link_target[trunk]),
        bandwidth_factor=0.5,
    )

    def terms(network):
        bound = call_bound(network, call(Kind.ALL_TO_ALL))
        return {t.resource: t.seconds for t in bound.terms}

    healthy, broken = terms(plain), terms(Network([tree], faults=[slow]))

    assert broken["injection"] == healthy["injection"]
    assert healthy["trunks of dimension 0"] == pytest.approx(SIZE / 2 / (0.5 * GB))
    assert broken["trunks of dimension 0"] == pytest.approx(SIZE / 2 / (0.375 * GB))


def test_logical_shape_of_all_nodes_has_the_bound_of_the_physical_network():
    dims = [ring(4), ring(4)]

    bound = call_bound(Network(dims, logical_shape=[16]), call())

    assert bound == lower_bound(Kind.ALL_REDUCE, SIZE, dims)


def test_partial_collective_on_a_mapped_network_keeps_what_holds_for_any_placement():
    network = Network([ring(4), ring(4)], logical_shape=[8, 2])
    endpoint = EndpointRates(reducer_bytes_per_s=0.1 * GB)

    bound = call_bound(network, call(dimensions=(0,)), endpoint=endpoint)

    terms = {t.resource: t.seconds for t in bound.terms}
    assert terms == {
        "injection": pytest.approx(2 * 7 / 8 * SIZE / (4 * GB)),
        "reducer": pytest.approx(7 / 8 * SIZE / (0.1 * GB)),
    }

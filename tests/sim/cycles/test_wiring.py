# SPDX-License-Identifier: Apache-2.0
"""Links and rings of engines that cannot be, refused where they are made."""

from dataclasses import replace

import numpy as np
import pytest

from sim.hosts.surroundings import Surroundings
from sim.hosts.wiring import EngineWiring, Wire
from sim.network.dimension import Dimension
from sim.network.embedding import RingPlace, hamiltonian_cycles, hamiltonian_rings
from sim.network.network import Network
from sim.rtl.smartnic.ring import NicRing

RING = EngineWiring.ring(3, latency_cycles=2, beats_per_cycle=1.0)
THERE, BACK = RING.links[0]
PLACES = RING.rings[0]
TORUS = Network.torus((3, 3), bandwidth_bytes_per_s=16e9)


@pytest.mark.parametrize(
    "changes, error, text",
    [
        ({"links": (THERE, BACK)}, TypeError, "links must be pairs of Wire"),
        ({"links": ((THERE,),)}, TypeError, "links must be pairs of Wire"),
        ({"links": ((THERE, THERE),)}, ValueError, "links must be both directions of a link"),
        ({"links": (*RING.links, RING.links[0])}, ValueError, "links must have ports of their own"),
        ({"links": RING.links[:2]}, ValueError, "none from port 0 of rank 2 to port 1 of rank 0"),
        ({"rings": (PLACES[:2],)}, ValueError, "links must be between ranks below 2, not to 2"),
        ({"rings": ((0, 1, 2),)}, TypeError, "rings must be tuples of RingPlace"),
        ({"rings": (PLACES, PLACES[:2])}, ValueError, r"once through 3 ranks, not \[0, 1\]"),
        ({"rings": (PLACES[::-1],)}, ValueError, "none from port 0 of rank 2 to port 1 of rank 1"),
        ({"rings": ((*PLACES[:2], RingPlace(node=1, next_port=0, previous_port=1)),)},
         ValueError, r"once through 3 ranks, not \[0, 1, 1\]"),
        ({"rings": ()}, ValueError, "rings must be at least one"),
    ],
)
def test_links_and_rings_fit_together(changes, error, text):
    with pytest.raises(error, match=text):
        replace(RING, **changes)


@pytest.mark.parametrize("pace", ["1", True, None, float("nan"), 0, 1.5])
def test_the_pace_of_a_wire_is_a_number_up_to_one(pace):
    with pytest.raises(ValueError, match="beats_per_cycle must be"):
        Wire(rank=0, port=0, peer=1, peer_port=1, beats_per_cycle=pace)


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"order": [0, 1, 2]}, "order must have every node below 9 once"),
        ({"order": [0, 1, 2, 3, 4, 5, 6, 7, 7]}, "order must have every node below 9 once"),
        ({"clock_hz": "1"}, "clock_hz must be a number"),
        ({"clock_hz": float("inf")}, "clock_hz must be a finite number"),
    ],
)
def test_orders_and_clocks_that_cannot_be_are_named(changes, text):
    given = {"clock_hz": 1e9, "bus_bytes": 16, **changes}
    with pytest.raises(ValueError, match=text):
        EngineWiring.of(TORUS, hamiltonian_rings(TORUS), **given)


def test_an_order_may_be_an_array():
    given = {"clock_hz": 1e9, "bus_bytes": 16}
    rings = hamiltonian_rings(TORUS)
    order = np.arange(9)[::-1]
    assert EngineWiring.of(TORUS, rings, order=order, **given) == EngineWiring.of(
        TORUS, rings, order=order.tolist(), **given
    )


@pytest.mark.parametrize("shape", [["3", 3], [3, True], [3.0, 3], [3, float("nan")], "33"])
def test_shapes_are_integers(shape):
    with pytest.raises(ValueError, match="shape must be an integer"):
        hamiltonian_cycles(shape)


def test_rings_of_all_links_need_rings():
    for other in (Dimension.switch(4, 1e9), Dimension.fully_connected(4, 1e9)):
        with pytest.raises(ValueError, match="dimensions must be rings, not"):
            hamiltonian_rings(Network((TORUS.dimensions[0], other)))


def test_nics_have_no_wiring_of_their_own():
    around = Surroundings(nodes=3, wiring=RING, memory_bytes=1 << 16)
    with pytest.raises(ValueError, match="wiring must be None for NICs"):
        NicRing("test", around)

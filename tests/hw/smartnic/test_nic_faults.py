# SPDX-License-Identifier: Apache-2.0
"""Damaged frames in rings of compiled NICs: dropped whole, counted, signalled, recovered from."""

from dataclasses import replace

import numpy as np
import pytest

from hw.smartnic.config import preset
from hw.smartnic.layouts import HeaderLayout
from hw.smartnic.registers import INTERRUPTS
from sim.collectives.golden import nic_all_reduce
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.rtl.harness.specs import HeaderFault
from sim.rtl.smartnic.ring import NicRing

TEST = preset("test")
# Two engines, which abort together; the configuration of test_nic_rings.py.
PAIR = replace(TEST, engines=2, ethernet=False, codec="mxint8", compressed_frame_beats=1)
NODES = 4


def bit_of(field, bit=0):
    return dict(HeaderLayout.as_shape())[field].offset + bit


def run_both(ring, arrays):
    """The all-reduce that is hit, then a good one."""
    with pytest.raises(RuntimeError, match=r"reports: .*aborted"):
        ring.all_reduce(arrays, compress=True, max_cycles=50_000)
    outputs = ring.all_reduce(arrays, max_cycles=50_000)
    golden = nic_all_reduce(arrays, ring.config)
    for output in outputs:
        np.testing.assert_array_equal(output.view(np.uint32), golden.view(np.uint32))


@pytest.mark.parametrize("frame", [0, 3, 11])
@pytest.mark.parametrize("field", ["destination", "source", "ethertype", "version"])
def test_frame_that_is_not_ours_any_more_aborts_everywhere_and_the_next_all_reduce_works(
    field, frame
):
    fault = HeaderFault(node=1, port=0, packet=2 * frame, bits=(bit_of(field),))
    ring = NicRing(
        TEST,
        Surroundings(nodes=NODES, latency_cycles=9, link_stalls=0.2, memory_stalls=0.2),
        faults=[fault],
    )
    rng = np.random.default_rng(frame)
    arrays = [rng.standard_normal(1500).astype(np.float32) for _ in range(NODES)]

    run_both(ring, arrays)

    hit = ring.system.nodes[2]
    assert ring.read(hit, "dropped_foreign", 0)["count"] == 1
    assert ring.read(hit, "dropped_gap", 0)["count"] >= 1
    for node in ring.system.nodes:
        assert ring.read(node, "status") == {"idle": 1, "outstanding": 0, "epoch": 1}


@pytest.mark.parametrize("config", [TEST, PAIR], ids=["test", "pair"])
def test_software_aborts_a_ring_in_which_one_node_never_starts(config):
    ring = NicRing(config, Surroundings(nodes=NODES, latency_cycles=9))
    for node in ring.system.nodes[1:]:
        ring.start(node, Command(elements=1000, destination=8192))
        ring.start(node, Command(elements=1000, destination=8192, compress=True))
        node.delay(700)
    ring.system.run(drain=False, max_cycles=5000)
    assert [ring.read(node, "status")["outstanding"] for node in ring.system.nodes] == [0, 2, 2, 2]

    ring.write(ring.system.nodes[3], "control", abort=1)
    ring.system.run(max_cycles=5000)

    for node in ring.system.nodes:
        assert ring.read(node, "status") == {"idle": 1, "outstanding": 0, "epoch": 1}
        causes = ring.read(node, "interrupt")
        assert causes["aborted"] == 1 and causes["done"] == 0
        ring.write(node, "interrupt", **causes)
    ring.system.run(max_cycles=5000)
    arrays = [np.full(300, rank + 1, np.float32) for rank in range(NODES)]
    outputs = ring.all_reduce(arrays, max_cycles=50_000)
    assert all(np.array_equal(output, np.full(300, 10, np.float32)) for output in outputs)


@pytest.mark.parametrize("engine", [0, 1])
def test_missing_frame_of_one_engine_aborts_all_of_them(engine):
    fault = HeaderFault(node=2, port=2 * engine, packet=8, bits=(bit_of("version"),))
    ring = NicRing(PAIR, Surroundings(nodes=NODES, latency_cycles=9), faults=[fault])
    rng = np.random.default_rng(engine)
    arrays = [rng.standard_normal(3000).astype(np.float32) for _ in range(NODES)]

    run_both(ring, arrays)

    hit = ring.system.nodes[3]
    assert ring.read(hit, "dropped_foreign", engine)["count"] == 1
    assert ring.read(hit, "dropped_gap", engine)["count"] >= 1
    assert {ring.read(node, "status")["epoch"] for node in ring.system.nodes} == {1}


def test_many_aborts_leave_the_ring_usable():
    ring = NicRing(TEST, Surroundings(nodes=3, latency_cycles=5))
    for number in range(300):
        ring.write(ring.system.nodes[number % 3], "control", abort=1)
        ring.system.run(max_cycles=2000)

    epochs = [ring.read(node, "status")["epoch"] for node in ring.system.nodes]

    assert epochs == [300] * 3
    for node in ring.system.nodes:
        ring.write(node, "interrupt", **dict.fromkeys(INTERRUPTS, 1))
    arrays = [np.full(50, rank, np.float32) for rank in range(3)]
    outputs = ring.all_reduce(arrays, max_cycles=50_000)
    assert all(np.array_equal(output, np.full(50, 3, np.float32)) for output in outputs)

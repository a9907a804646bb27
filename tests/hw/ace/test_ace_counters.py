# SPDX-License-Identifier: Apache-2.0
"""Performance counters, against counts that were made without them."""

from dataclasses import replace

import numpy as np
import pytest

from hw.ace.config import preset
from hw.fp.ops import ReduceOp
from sim.cycles.ace.model import EngineModel
from sim.hosts.command import Command
from sim.hosts.script import Interrupt, Issue
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.ring import AceRing
from sim.workload.graph import CollectiveKind
from tests.families import quick
from tests.hw.ace.neighbours import Neighbours


def test_cycles_without_credit_are_counted_on_their_link(engine, jobs):
    rig = engine(rank=1, nodes=3, stalls=0)
    rig.links[0].miserly = True
    planned = jobs(rig, 3, [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, 900, 16)])
    neighbours = Neighbours(rig, 1, 3, planned, "early")
    neighbours.store_inputs()
    neighbours.start()
    for _ in range(2000):
        neighbours.act()
        rig.step()
    assert rig.links[0].owed == rig.config.rx_packets  # every credit is out
    seen = []
    for _ in range(2):
        cycle = rig.cycle
        seen.append((cycle, [rig.read("starved", port)["cycles"] for port in (0, 1)]))
        rig.settle(777)
    (first, before), (second, after) = seen
    assert after[0] - before[0] == second - first
    assert before[1] == after[1] == 0


def test_beats_are_those_of_the_links(engine, jobs, converse):
    rig = engine(rank=1, nodes=3, stalls=0.3)
    kinds = [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, 500, 16)]
    converse(rig, 1, 3, jobs(rig, 3, kinds))
    rig.settle(10)
    for port, link in enumerate(rig.links):
        assert rig.read("sent", port)["beats"] == link.beats_out
        assert rig.read("received", port)["beats"] == link.beats_in
        assert link.beats_out > 3


def _after_an_all_reduce(config, elements, **ring_options):
    """A ring, and its cycle model."""
    settings = Surroundings(nodes=3, memory_bytes=1 << 17, latency_cycles=10, **ring_options)
    ring = AceRing(config, settings)
    rng = np.random.default_rng(0)
    ring.all_reduce([rng.standard_normal(elements).astype(np.float32) for _ in range(3)])
    command = Command(elements=elements, destination=-(-4 * elements // 128) * 128)
    model = EngineModel(config, settings, [command], [[Issue(command=0), Interrupt()]] * 3)
    model.run()
    return ring, model


def _counted_and_modelled(config, elements, counter):
    """A counter of every engine of a ring after an all-reduce, beside the cycle model's count."""
    ring, model = _after_an_all_reduce(config, elements)
    return [
        (ring.read(node, counter)["cycles"], int(model.state.node[rank][counter]))
        for rank, node in enumerate(ring.system.nodes)
    ]


@pytest.mark.parametrize("elements", [900, 5000])
def test_requests_that_wait_for_a_bank_are_those_of_the_cycle_model(elements):
    for counted, modelled in _counted_and_modelled(preset("duo"), elements, "bank_conflicts"):
        assert counted > 50
        assert counted == pytest.approx(modelled, rel=0.05)


@pytest.mark.parametrize("elements", [900, 5000])
def test_packets_that_wait_for_an_alu_are_those_of_the_cycle_model(elements):
    """Both directions of the ring share one."""
    config = replace(preset("duo"), alus=1)
    for counted, modelled in _counted_and_modelled(config, elements, "alu_conflicts"):
        assert counted > 50
        assert counted == modelled


@pytest.mark.parametrize("tx_packets", quick(1, [2, 4]))
def test_packets_that_are_parked_are_those_of_the_cycle_model(tx_packets):
    config = replace(preset("duo"), tx_packets=tx_packets)
    ring, model = _after_an_all_reduce(config, 5000)
    counted = [
        [ring.read(node, "parked", port)["count"] for port in range(config.ports)]
        for node in ring.system.nodes
    ]
    assert counted == model.state.port["parked"][:, : config.ports].tolist()
    received = [
        [ring.read(node, "received", port)["beats"] for port in range(config.ports)]
        for node in ring.system.nodes
    ]
    assert 0 < np.sum(counted) < np.sum(received) / 5  # most of four beats go on at once


def test_no_packet_waits_for_an_alu_of_its_own():
    assert _counted_and_modelled(preset("duo"), 900, "alu_conflicts") == [(0, 0)] * 3


@pytest.mark.parametrize("elements, block", [(1, None), (7, None), (61, 12), (893, 16)])
def test_bytes_behind_the_vector_leave_as_zero(engine, jobs, converse, elements, block):
    rig = engine(rank=1, nodes=3, stalls=0.1)
    rig.memory[:] = 0xAB
    planned = jobs(rig, 3, [(CollectiveKind.ALL_REDUCE, ReduceOp.SUM_F32, elements, block)])
    converse(rig, 1, 3, planned)
    checked = 0
    for fields, payload in rig.links[0].raw:
        rest = payload[fields["length"] :]
        # What is forwarded goes on with what it came with, and that was zero.
        assert not any(rest)
        checked += len(rest)
    assert checked

# SPDX-License-Identifier: Apache-2.0
"""Collectives through switches: the right numbers, and each link of the tree crossed once."""

import numpy as np
import pytest

import foldwire as fw
from sim.collectives import in_switch
from sim.collectives.execute import what_is_wrong
from sim.collectives.plan import BY_DIMENSION, AlgorithmChoice, plan_collective
from sim.collectives.program import Source, relays_of
from sim.describe.reader import ConfigError
from sim.describe.topologies import named_dimensions
from sim.endpoint.kinds import endpoint
from sim.events.simulate import simulate
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

GB = 1e9
MODES = [
    *in_switch.MODES, in_switch.PUSH_HOME, in_switch.PULL_TURNS, in_switch.PULL_WHOLE,
]
KINDS = [kind for kind in CollectiveKind if kind is not CollectiveKind.ALL_TO_ALL]
NETWORKS = {
    "switch": [Dimension.switch(5, GB, lanes=2)],
    "DGX-2": [Dimension(**fields) for fields in named_dimensions("dgx2", (16,))],
    "fat tree": [Dimension.fat_tree(12, 4, GB, lanes=2)],
    "one leaf": [Dimension.fat_tree(4, 4, GB)],
    "ring and switch": [Dimension.ring(3, GB), Dimension.switch(4, GB, lanes=2)],
    "switch and fat tree": [Dimension.switch(2, GB, lanes=2), Dimension.fat_tree(6, 2, GB)],
}


def described(mode="push", collective="all_reduce", size=1 << 20, topology=None, **tables):
    return {
        "topology": topology or {"kind": "dgx2"},
        "endpoint": {"kind": "in_switch", "mode": mode},
        "workload": {"collective": collective, "size_bytes": size},
        "run": {"passes": 1, "check": True},
        **tables,
    }


def of_node(run, node, way):
    """Bytes on the links out of a node, or into it."""
    ends = [link.source if way == "out" else link.target for link in run.record.links]
    return sum(run.record.link_bytes[np.array(ends) == node])


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("mode", MODES)
def test_numbers_are_those_of_numpy(name, mode):
    network = Network(NETWORKS[name])
    for kind in KINDS:
        for style in BY_DIMENSION:
            choice = AlgorithmChoice(style=style)
            plan = plan_collective(network, kind, choice, in_switch=mode)
            assert any(relays_of(phase) for v in plan.variants for phase in v.phases)
            assert what_is_wrong(network, plan, kind, elements=97) is None


def test_an_operand_that_is_left_out_is_found(monkeypatch):
    network = Network(NETWORKS["fat tree"])
    right = in_switch.Sweeps.relay

    def hasty(self, at, need, *sends, **options):
        return right(self, at, max(1, need - 1), *sends, **options)

    monkeypatch.setattr(in_switch.Sweeps, "relay", hasty)
    plan = plan_collective(
        network, CollectiveKind.ALL_REDUCE, AlgorithmChoice(), in_switch="push"
    )
    assert what_is_wrong(network, plan, CollectiveKind.ALL_REDUCE, elements=24) is not None


@pytest.mark.parametrize("mode", in_switch.MODES)
@pytest.mark.parametrize(
    "topology", [{"kind": "dgx2"}, {"kind": "fat_tree", "shape": [16]}], ids=["dgx2", "fat_tree"]
)
def test_every_link_of_the_tree_carries_the_vector_once(mode, topology):
    size = 6 * 16 * 8192
    whole_bytes = {"scheduler": {"chunk_bytes": 8192}}
    run = fw.run(described(mode, size=size, topology=topology, **whole_bytes))
    for node in (0, 7, 15):
        assert of_node(run, node, "out") == of_node(run, node, "in") == size
    trunks = {}
    for link, amount in zip(run.record.links, run.record.link_bytes):
        if link.source >= 16 and link.target >= 16:
            key = link.source, link.target
            trunks[key] = trunks.get(key, 0) + int(amount)
    assert set(trunks.values()) == {size // 6}


def test_a_ring_sends_nearly_twice_as_much():
    size = 6 * 16 * 8192
    ring = described(size=size, algorithm={"reductions": ["ring"]})
    ring["endpoint"] = {"kind": "ideal"}
    assert of_node(fw.run(ring), 3, "out") == 2 * 15 * size // 16


def test_times_of_a_push_by_hand():
    dim = Dimension.switch(4, GB, latency_s=100e-9)
    graph = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=1000)
    graph.add("c", TaskKind.COLLECTIVE, call=call)
    push = endpoint("in_switch", message_bytes=1000, memory_latency_s=50e-9)
    record = simulate(Network(dim), Job(name="c", graphs=(graph.graph(),)), endpoint=push)
    # Memory, then twice 1 us on a link and its latency.
    assert record.end_fs == 1_000_000 * (50 + 2 * (1000 + 100))
    pull = endpoint("in_switch", mode="pull", message_bytes=1000, memory_latency_s=50e-9)
    record = simulate(Network(dim), Job(name="c", graphs=(graph.graph(),)), endpoint=pull)
    # Memory for a request's operands once more; requests, three quarters there, a quarter back, a
    # quarter there, three quarters back; barrier.
    expected = 2 * 50 + 2 * 100 + (750 + 250 + 2 * 100) + (250 + 750 + 2 * 100) + 2 * 100
    assert record.end_fs == pytest.approx(1_000_000 * expected, abs=10)


@pytest.mark.parametrize("mode", in_switch.MODES)
def test_waves_bound_what_is_in_flight(mode):
    few = described(mode, size=8 << 20)
    few["endpoint"]["waves"] = 1
    many = described(mode, size=8 << 20)
    many["endpoint"]["waves"] = 32
    assert fw.run(few).time_s > 1.8 * fw.run(many).time_s


def test_rates_are_those_of_the_packet_format():
    rates = {}
    for mode in in_switch.MODES:
        run = fw.run(described(mode, size=32 << 20))
        rates[mode] = (32 << 20) / run.time_s
    assert 0.9 * 120e9 < rates["pull"] < rates["push"] < 120e9


def test_training_and_other_collectives_run():
    run = fw.run(
        {
            "topology": {"kind": "switch", "shape": [4]},
            "endpoint": {"kind": "in_switch", "mode": "pull"},
            "workload": {"generator": "mlp"},
            "run": {"passes": 1, "check": True, "data": True},
        }
    )
    assert run.data.exact
    to_all = fw.run(described("push", "all_to_all"))
    assert not to_all.record.network_reduces


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        (
            {"topology": {"kind": "torus", "shape": [4, 4]}},
            "kind: must not be 'in_switch' without dimensions of kind switch or fat_tree: ring",
        ),
        ({"network": {"granularity": "packet"}}, "in_switch needs messages that travel whole"),
        ({"topology": {"kind": "dgx2", "efficiency": 0.9}}, "packet format of endpoint.switch"),
        ({"topology": {"kind": "dgx2", "logical_shape": [4, 4]}}, "physical dimensions"),
        (
            {"scenario": {"link": [{"source": 0, "target": 16}]}},
            "switches that reduce need all links of dimension 0",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tables, text):
    with pytest.raises(ConfigError) as error:
        fw.run({**described(), **tables})
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_networks_without_switches_are_refused_in_python():
    ring = Network.ring(4, GB)
    with pytest.raises(ValueError, match=r"needs a network with switches .* not 4 ring"):
        plan_collective(ring, CollectiveKind.ALL_REDUCE, AlgorithmChoice(), in_switch="push")


def test_a_phase_does_no_all_to_all():
    network = Network(NETWORKS["switch"])
    with pytest.raises(ValueError, match="switches do no all_to_all"):
        in_switch.in_switch_phase(
            network, 0, CollectiveKind.ALL_TO_ALL, "push", data=1.0, prior=Source.FRESH, ring=0
        )

# SPDX-License-Identifier: Apache-2.0
"""Groups keep rings of their own: other collectives take the time that they always do."""

import json
from dataclasses import replace

import pytest

from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.run import run
from sim.workload.chakra import CommType, NodeType, Trace, TraceNode
from sim.workload.chakra_file import write_trace
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

ALL_REDUCE = CollectiveKind.ALL_REDUCE
MIB = 1 << 20
LATER_S = 2e-3
NETWORKS = {
    "ring": (Network.ring(8, 25e9, 5e-7), (4, 2)),
    "two lanes": (Network.ring(8, 25e9, 5e-7, lanes=2), (2, 4)),
    "one way": (Network.ring(8, 25e9, 5e-7, bidirectional=False), (4, 2)),
    "torus": (Network.torus([4, 6], bandwidth_bytes_per_s=25e9, latency_s=5e-7), (2, 2, 6)),
    "torus, second": (
        Network.torus([3, 8], bandwidth_bytes_per_s=25e9, latency_s=5e-7), (3, 4, 2)
    ),
    "switch": (Network(Dimension.switch(8, 25e9, 5e-7)), (4, 2)),
    "fully connected": (Network(Dimension.fully_connected(8, 25e9, 5e-7)), (2, 4)),
}


WHOLE = {shape: network.shape for network, shape in NETWORKS.values()}


def job(calls, shape=None, *, graphs=1):
    """(kind, bytes, dimensions, begin in s) of each call; more graphs: the calls over dimensions
    in the first one alone."""
    made = []
    for number in range(graphs):
        builder = GraphBuilder()
        for kind, size_bytes, dimensions, begin_s in calls:
            if number and dimensions is not None:
                continue
            wait = builder.add("wait", TaskKind.DELAY, duration_s=begin_s)
            call = CollectiveCall(kind=kind, size_bytes=size_bytes, dimensions=dimensions)
            builder.add("call", TaskKind.COLLECTIVE, [wait], call=call)
        made.append(builder.graph())
    return Job(
        name="groups", graphs=tuple(made), shape=shape, topology_shape=WHOLE.get(shape)
    )


def spent_fs(record, task):
    return int(record.task_end_fs[:, task].max() - record.task_start_fs[:, task].min())


@pytest.mark.parametrize("kind", list(CollectiveKind), ids=lambda kind: kind.value)
@pytest.mark.parametrize("name", NETWORKS)
def test_all_npus_take_the_same_time_beside_groups(name, kind):
    network, shape = NETWORKS[name]
    world, part = (kind, 2 * MIB, None), len(shape) - 2
    alone = spent_fs(simulate(network, job([(*world, 0.0)])), 1)
    for dimensions in ((part,), (part + 1,)):
        group = (ALL_REDUCE, MIB, dimensions)
        after = simulate(network, job([(*world, 0.0), (*group, LATER_S)], shape), check=True)
        before = simulate(network, job([(*group, 0.0), (*world, LATER_S)], shape), check=True)

        assert spent_fs(after, 1) == spent_fs(before, 3) == alone
        assert spent_fs(after, 3) == spent_fs(before, 1)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_call_of_one_group_alone_changes_nothing_for_all(name):
    """Only the first group calls: nodes run different graphs."""
    network, shape = NETWORKS[name]
    part = len(shape) - 1
    world, group = (ALL_REDUCE, 2 * MIB, None, 0.0), (ALL_REDUCE, MIB, (part,), LATER_S)
    alone = spent_fs(simulate(network, job([world])), 1)
    stride = network.nodes // shape[part]
    one = replace(
        job([world, group], shape, graphs=2),
        graph_of=tuple(int(node % stride > 0) for node in range(network.nodes)),
    )

    record = simulate(network, one)

    assert spent_fs(record, 1) == alone
    assert record.notes[-1] == "not folded: nodes run different graphs"


@pytest.mark.parametrize("kind", ["switch", "fully_connected"])
def test_a_group_at_a_switch_is_a_smaller_switch(kind):
    """No link is shared, so that a group of four of eight is as fast as four alone."""
    small, large = (Network(Dimension(kind=kind, size=size, bandwidth_bytes_per_s=25e9))
                    for size in (4, 8))
    alone = simulate(small, job([(ALL_REDUCE, MIB, None, 0.0)])).end_fs

    assert simulate(large, job([(ALL_REDUCE, MIB, (0,), 0.0)], (4, 2))).end_fs == alone


def test_what_overlaps_costs_its_bytes():
    """4 MiB of all, 1 MiB of groups of four on a ring of eight, at once."""
    network, shape = NETWORKS["ring"]
    world, group = (ALL_REDUCE, 4 * MIB, None, 0.0), (ALL_REDUCE, MIB, (0,), 0.0)
    alone = simulate(network, job([world])).end_fs
    busiest = int(simulate(network, job([group], shape)).link_busy_fs.max())

    both = simulate(network, job([world, group], shape)).end_fs

    assert alone + 0.8 * busiest < both < 1.005 * (alone + busiest)


@pytest.mark.parametrize(
    ("name", "dimensions", "note"),
    [
        ("ring", (0,), "dim 0 (4 of 8), up to 3 links to the next member, up to 2 rings on a link"),
        (
            "ring",
            (1,),
            "dim 0 (2 of 8, 4 apart), up to 4 links to the next member, up to 4 rings on a link",
        ),
        ("switch", (0,), "dim 0 (4 of 8), on the links of the switch"),
        (
            "torus",
            (0, 2),
            "dim 0 (2 of 4), up to 1 link to the next member, up to 2 rings on a link",
        ),
    ],
)
def test_the_embedding_of_a_group_is_a_note(name, dimensions, note):
    network, shape = NETWORKS[name]
    record = simulate(network, job([(ALL_REDUCE, MIB, dimensions, 0.0)], shape))

    assert f"groups have rings of their own: {note}" in record.notes


def test_groups_of_the_whole_network_have_no_note():
    network, shape = NETWORKS["torus"]
    record = simulate(network, job([(ALL_REDUCE, MIB, (0, 1), 0.0)], shape))

    assert not any("rings of their own" in note for note in record.notes)


def test_queues_do_not_depend_on_what_other_groups_do():
    """In a queue for each phase more chunks are under way, and all-reduces take another time."""
    network, shape = NETWORKS["torus"]
    world = (ALL_REDUCE, 8 * MIB, None, 0.0)
    phase = simulate(network, job([world]), scheduler=Scheduler(queues="phase")).end_fs
    auto = simulate(network, job([world])).end_fs
    beside = simulate(network, job([world, (ALL_REDUCE, 4, (0,), LATER_S)], shape))

    assert auto != phase
    assert spent_fs(beside, 1) == auto


@pytest.mark.parametrize(
    "topology",
    [
        {"kind": "ring", "shape": [8]},
        {"kind": "switch", "shape": [8]},
        {"kind": "torus", "shape": [8, 2]},
    ],
    ids=lambda topology: topology["kind"],
)
def test_traces_with_groups_run_on_rings_of_their_own(tmp_path, topology):
    """Through files: a call of all, then one of groups that cover half of a dimension."""
    nodes = 16 if topology["kind"] == "torus" else 8
    groups = {f"g{first}": list(range(first, first + 4)) for first in range(0, nodes, 4)}
    (tmp_path / "groups.json").write_text(json.dumps(groups))

    def time_us(name, *, grouped):
        for npu in range(nodes):
            call = {"comm_type": int(CommType.ALL_REDUCE), "comm_size": 4 * MIB}
            tasks = [TraceNode(id=0, name="all", type=NodeType.COMM_COLL_NODE, attributes=call)]
            if grouped:
                own = {**call, "comm_size": 4, "pg_name": f"g{npu // 4 * 4}"}
                tasks.append(TraceNode(id=1, name="own", type=NodeType.COMM_COLL_NODE,
                                       attributes=own, data_deps=(0,)))
            write_trace(tmp_path / f"{name}.{npu}.et", Trace(nodes=tuple(tasks)))
        description = {
            "topology": topology,
            "workload": {"file": name, "groups": "groups.json"},
        }
        done = run(description, source=str(tmp_path / "system"))
        return int(done.record.task_end_fs[:, 0].max())

    assert time_us("with", grouped=True) == time_us("without", grouped=False)

# SPDX-License-Identifier: Apache-2.0
"""Traces: the wire format, dependencies, and jobs made of them."""

import base64
import contextlib
import gzip
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.workload.chakra import ChakraError, CommType, NodeType, Trace, TraceNode, sorted_nodes
from sim.workload.chakra_file import decode, encode, read_trace, write_trace
from sim.workload.chakra_job import chakra_job, read_traces
from sim.workload.compute_model import Roofline
from sim.workload.graph import CollectiveKind, TaskKind
from sim.workload.load import load_workload
from sim.workload.resources import ComputeResources

# Written by Google's implementation of protocol buffers from the published schema: one node with
# an attribute of every type, lists included.
OFFICIAL = base64.b64decode(
    "CwoCdjkSBQoBcTgBoAYI////////////ARIDYWxsGAQiAgECKgEDMAQ4BUIJCgFhEgFiGgFjUhoKCmRvdWJsZV92"
    "YWwSA2RvYxkAAAAAAAD0P1IVCglmbG9hdF92YWwSA2RvYy0AACDAUhsKCWludDMyX3ZhbBIDZG9jOPn/////////"
    "/wFSGwoJaW50NjRfdmFsEgNkb2NI+P//////////AVITCgp1aW50MzJfdmFsEgNkb2NYCVIcCgp1aW50NjRfdmFs"
    "EgNkb2No////////////AVITCgpzaW50MzJfdmFsEgNkb2N4BVIUCgpzaW50NjRfdmFsEgNkb2OIAQdSGAoLZml4"
    "ZWQzMl92YWwSA2RvY50BBQAAAFIcCgtmaXhlZDY0X3ZhbBIDZG9jqQEGAAAAAAAAAFIZCgxzZml4ZWQzMl92YWwS"
    "A2RvY70B+////1IdCgxzZml4ZWQ2NF92YWwSA2RvY8kB+v////////9SEgoIYm9vbF92YWwSA2RvY9gBAVIWCgpz"
    "dHJpbmdfdmFsEgNkb2PqAQLDqVIVCglieXRlc192YWwSA2RvY/oBAgABUiEKC2RvdWJsZV9saXN0IhIKEAAAAAAA"
    "APg/AAAAAAAAAMBSFAoKZmxvYXRfbGlzdDIGCgQAAAA/UhsKCmludDMyX2xpc3RCDQoL////////////AQJSGwoK"
    "aW50NjRfbGlzdFINCgv///////////8BAlITCgt1aW50MzJfbGlzdGIECgIBAlITCgt1aW50NjRfbGlzdHIECgIB"
    "AlIUCgtzaW50MzJfbGlzdIIBBAoCAQRSFAoLc2ludDY0X2xpc3SSAQQKAgEEUhsKDGZpeGVkMzJfbGlzdKIBCgoI"
    "AQAAAAIAAABSIwoMZml4ZWQ2NF9saXN0sgESChABAAAAAAAAAAIAAAAAAAAAUhwKDXNmaXhlZDMyX2xpc3TCAQoK"
    "CP////8CAAAAUiQKDXNmaXhlZDY0X2xpc3TSARIKEP//////////AgAAAAAAAABSEgoJYm9vbF9saXN04gEECgIB"
    "AFITCgtzdHJpbmdfbGlzdPIBAwoBYQ=="
)


MIB = 1 << 20


def node(number, kind="COMP", after=(), **values):
    attributes = {name: value for name, value in values.items() if name not in ("us", "control")}
    return TraceNode(
        id=number,
        name=f"n{number}",
        type=NodeType[f"{kind}_NODE"],
        data_deps=tuple(after),
        ctrl_deps=tuple(values.get("control", ())),
        duration_us=values.get("us", 0),
        attributes=attributes,
    )


def collective(number, after=(), size=MIB, kind=CommType.ALL_REDUCE, **values):
    return node(number, "COMM_COLL", after, comm_type=int(kind), comm_size=size, **values)


def trace(*nodes, source="t.et"):
    return Trace(nodes=nodes, source=source)


def job_of(*nodes, shape=(4,), **options):
    return chakra_job([trace(*nodes)] * shape_size(shape), shape=shape, **options)


def shape_size(shape):
    size = 1
    for each in shape:
        size *= each
    return size


def test_a_file_of_the_official_implementation_is_read_whole():
    read = decode(OFFICIAL, source="official")
    (only,) = read.nodes

    assert read.version == "v9"
    assert (only.id, only.name, only.type) == (2**64 - 1, "all", NodeType.COMP_NODE)
    assert (only.data_deps, only.ctrl_deps, only.duration_us) == ((3,), (1, 2), 5)
    assert only.attributes == {
        "double_val": 1.25,
        "float_val": -2.5,
        "int32_val": -7,
        "int64_val": -8,
        "uint32_val": 9,
        "uint64_val": 2**64 - 1,
        "sint32_val": -3,
        "sint64_val": -4,
        "fixed32_val": 5,
        "fixed64_val": 6,
        "sfixed32_val": -5,
        "sfixed64_val": -6,
        "bool_val": True,
        "string_val": "é",
        "bytes_val": b"\0\1",
        "double_list": [1.5, -2.0],
        "float_list": [0.5],
        "int32_list": [-1, 2],
        "int64_list": [-1, 2],
        "uint32_list": [1, 2],
        "uint64_list": [1, 2],
        "sint32_list": [-1, 2],
        "sint64_list": [-1, 2],
        "fixed32_list": [1, 2],
        "fixed64_list": [1, 2],
        "sfixed32_list": [-1, 2],
        "sfixed64_list": [-1, 2],
        "bool_list": [True, False],
    }
    # To Python 1 == True, but an attribute that holds a number is no truth value.
    assert only.attributes["bool_val"] is True
    assert only.attributes["bool_list"][1] is False


IDS = st.integers(0, 2**64 - 1)
VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.lists(st.booleans(), min_size=1, max_size=3),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=3),
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=3),
)
NODES = st.builds(
    TraceNode,
    id=IDS,
    name=st.text(max_size=8),
    type=st.sampled_from(NodeType),
    data_deps=st.lists(IDS, max_size=3).map(tuple),
    ctrl_deps=st.lists(IDS, max_size=3).map(tuple),
    duration_us=IDS,
    attributes=st.dictionaries(st.text(max_size=5), VALUES, max_size=3),
)
TRACES = st.builds(
    Trace,
    nodes=st.lists(NODES, max_size=4).map(tuple),
    version=st.text(max_size=5),
    source=st.just("any"),
)


@given(TRACES)
def test_what_is_written_reads_back_the_same(written):
    assert decode(encode(written), source="any") == written


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_with_an_error_of_ours(data):
    with contextlib.suppress(ChakraError):
        decode(data, source="any")


@given(st.data())
@settings(max_examples=300)
def test_a_damaged_file_is_read_or_refused_with_an_error_of_ours(data):
    damaged = bytearray(OFFICIAL)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ChakraError):
        decode(bytes(damaged), source="any")


def test_every_truncation_inside_a_message_is_refused():
    file = encode(trace(node(1, us=3), collective(2, (1,))))
    whole = []
    for length in range(1, len(file)):
        try:
            decode(file[:length], source="cut")
        except ChakraError as error:
            assert str(error).startswith("cut: byte ")
        else:
            whole.append(length)

    # Only the ends of the metadata and of the first node are ends of a file as well.
    assert len(whole) == 2


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "any: holds no trace; it is empty"),
        (b"\x80" * 11, "any: byte 0: a number is longer than 10 bytes"),
        (b"\x00\x80", "any: byte 1: a number is cut off"),
        (b"\x00\x05\x08", "any: byte 1: a message of 5 bytes, but only 1 follow"),
        (b"\x00\xff\xff\xff\xff\x7f", "any: byte 1: a message of 34359738367 bytes is longer than"),
        (b"\x00\x02\x12\x7f", "any: byte 2: field 2 has 127 bytes, but only 0 follow"),
        (b"\x00\x02\x09\x00", "any: byte 2: field 1 is cut off"),
        (b"\x00\x02\x0b\x00", "any: byte 2: field 1 has wire type 3, which is not in use"),
        (b"\x00\x02\x00\x00", r"any: byte 2: field number must be 1 \.\. 536870911, not 0"),
        (b"\x00\x02\x18\x63", r"any: byte 2: node 0 has type 99; allowed are 0 \.\. 10"),
        (b"\x00\x02\x0a\x00", "any: byte 2: field 1 of a node must be a number"),
        (b"\x00\x02\x10\x00", "any: byte 2: a text has the wire type of a number"),
        (b"\x00\x03\x12\x01\xff", "any: byte 4: a text is not UTF-8"),
        (b"\x00\x02\x50\x00", "any: byte 2: an attribute must be a message"),
        (
            b"\x00\x04\x52\x02\x18\x00",
            "any: byte 4: attribute '' has the wire type of another type",
        ),
        (b"\x00\x07\x52\x05\x22\x03\x0a\x01\x00", "any: byte 8: a list of numbers is cut off"),
        (b"\x00\x06\x52\x04\x22\x02\x08\x01", "has the wire type of another type"),
    ],
)
def test_malformed_messages_are_refused_with_their_place(data, reason):
    with pytest.raises(ChakraError, match=reason):
        decode(data, source="any")


def test_files_are_read_plain_and_packed(tmp_path):
    written = trace(node(1, us=3), source=str(tmp_path / "plain.et"))
    write_trace(tmp_path / "plain.et", written)
    (tmp_path / "packed.et").write_bytes(gzip.compress(encode(written)))

    assert read_trace(tmp_path / "plain.et") == written
    assert read_trace(tmp_path / "packed.et").nodes == written.nodes


def test_files_beyond_the_limit_are_refused_even_if_they_are_packed_small(tmp_path):
    (tmp_path / "bomb.et").write_bytes(gzip.compress(bytes(MIB)))

    with pytest.raises(ChakraError, match=r"bomb\.et: is larger than the 1000 bytes allowed"):
        read_trace(tmp_path / "bomb.et", limit_bytes=1000)


def test_files_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "cut.et").write_bytes(gzip.compress(bytes(1000))[:-9])

    with pytest.raises(ChakraError, match=r"cut\.et: cannot be read"):
        read_trace(tmp_path / "cut.et")
    with pytest.raises(ChakraError, match=r"absent\.et: cannot be read"):
        read_trace(tmp_path / "absent.et")


def test_nodes_come_after_what_they_depend_on_then_by_id():
    order = sorted_nodes(trace(node(7), node(3, after=(5,)), node(5, control=(7,)), node(1)))

    assert [each.id for each in order] == [1, 7, 5, 3]


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ((node(1, after=(1,)),), "t.et: dependencies form a cycle: 1 -> 1"),
        (
            (node(0), node(1, after=(0, 3)), node(2, control=(1,)), node(3, after=(2,))),
            "t.et: dependencies form a cycle: 1 -> 3 -> 2 -> 1",
        ),
        ((node(1), node(1)), "t.et: two nodes have the id 1"),
        ((node(1, after=(9,)),), r"t.et: node 1 \('n1'\) depends on node 9, which does not exist"),
    ],
)
def test_impossible_dependencies_are_refused(nodes, reason):
    with pytest.raises(ChakraError, match=reason):
        sorted_nodes(trace(*nodes))


def test_a_long_cycle_is_found_without_recursion():
    count = 50_000
    nodes = [node(number, after=((number + 1) % count,)) for number in range(count)]

    with pytest.raises(ChakraError, match="dependencies form a cycle: 0 -> 1 -> 2"):
        sorted_nodes(trace(*nodes))


def test_each_node_becomes_its_task():
    job = job_of(
        node(0, "METADATA"),
        node(1, us=3, after=(0,), tensor_size=64),
        node(2, us=4, is_cpu_op=True),
        node(3, "MEM_LOAD", tensor_size=1000),
        node(4, "MEM_STORE", us=5, tensor_size=1000),
        collective(5, (1, 2), kind=CommType.ALL_GATHER, comm_priority=7, control=(4,)),
        memory_bytes_per_s=1e6,
        memory_latency_s=2e-3,
    )
    tasks = job.graphs[0].tasks

    assert [(task.kind, task.duration_s) for task in tasks] == [
        (TaskKind.DELAY, 0),
        (TaskKind.COMPUTE, pytest.approx(3e-6)),
        (TaskKind.DELAY, pytest.approx(4e-6)),
        (TaskKind.DELAY, pytest.approx(3e-3)),
        (TaskKind.DELAY, pytest.approx(5e-6)),
        (TaskKind.COLLECTIVE, 0),
    ]
    assert tasks[1].memory_bytes == 64
    assert tasks[5].after == (1, 2, 4)
    call = tasks[5].call
    assert (call.kind, call.size_bytes) == (CollectiveKind.ALL_GATHER, MIB)
    assert (call.priority, call.dimensions) == (7, None)
    assert job.note == "take no time: 1 METADATA_NODE"


def test_a_compute_model_times_operations_and_leaves_the_rest():
    compute = Roofline(resources=ComputeResources(flops_per_s=1e6, memory_bytes_per_s=1e6))
    tasks = (
        job_of(
            node(0, us=9, num_ops=5000, tensor_size=10),
            node(1, us=9, num_ops=10, tensor_size=3000),
            node(2, us=9, num_ops=5000, is_cpu_op=True),
            node(3, us=9),
            compute=compute,
        )
        .graphs[0]
        .tasks
    )

    assert [task.duration_s for task in tasks] == pytest.approx([5e-3, 3e-3, 9e-6, 9e-6])


def test_computations_without_any_time_are_counted():
    assert job_of(node(0), node(1)).note == "take no time: 2 computations without a duration"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (CommType.ALL_REDUCE, CollectiveKind.ALL_REDUCE),
        (CommType.ALL_TO_ALL, CollectiveKind.ALL_TO_ALL),
        (CommType.BROADCAST, CollectiveKind.BROADCAST),
        (CommType.REDUCE_SCATTER, CollectiveKind.REDUCE_SCATTER),
        (CommType.REDUCE_SCATTER_BLOCK, CollectiveKind.REDUCE_SCATTER),
    ],
)
def test_collectives_keep_their_kind(kind, expected):
    assert job_of(collective(0, kind=kind)).graphs[0].tasks[0].call.kind is expected


def test_involved_dimensions_of_more_dimensions_than_there_are_count_as_far_as_they_go():
    calls = [
        task.call.dimensions
        for task in job_of(
            collective(0, involved_dim=[True, False, True, True]),
            collective(1, involved_dim=[True, True, True]),
            collective(2, involved_dim=[True, True]),
            shape=(4, 2),
        )
        .graphs[0]
        .tasks
    ]

    assert calls == [(0,), None, None]


GROUPS = {
    # Tensor parallel in pairs, data parallel over the rest: 8 NPUs in a ring.
    **{f"t{first}": (first, first + 1) for first in (0, 2, 4, 6)},
    "d0": (0, 2, 4, 6),
    "d1": (1, 3, 5, 7),
}


def grouped(npu):
    return trace(
        collective(0, pg_name=f"t{npu // 2 * 2}"),
        collective(1, (0,), pg_name=f"d{npu % 2}"),
        collective(2, (1,), pg_name="0"),
        source=f"{npu}.et",
    )


def test_groups_become_dimensions_of_a_split_shape():
    job = chakra_job([grouped(npu) for npu in range(8)], shape=(8,), groups=GROUPS)

    assert job.shape == (2, 4)
    for graph in job.graphs:
        assert [task.call.dimensions for task in graph.tasks] == [(0,), (1,), None]


def test_involved_dimensions_follow_a_split():
    traces = [grouped(npu) for npu in range(8)] * 2
    traces = [
        replace(each, nodes=(*each.nodes, collective(9, involved_dim=[True, False])))
        for each in traces
    ]
    groups = {
        **{f"t{first}": (first, first + 1) for first in range(0, 8, 2)},
        "d0": (0, 2, 4, 6),
        "d1": (1, 3, 5, 7),
    }
    with pytest.raises(ChakraError, match="NPU 8 is not in its group 't0'"):
        chakra_job(traces, shape=(8, 2), groups=groups)
    job = chakra_job(traces[:8], shape=(8, 1), groups=groups)

    assert job.shape == (2, 4, 1)
    assert job.graphs[0].tasks[-1].call.dimensions is None


def test_one_trace_for_all_is_one_graph():
    assert job_of(collective(0)).graph_of is None


def ring(npu, npus=3):
    """Send to the right, receive from the left."""
    return trace(
        node(0, "COMM_SEND", comm_size=8, comm_dst=(npu + 1) % npus, comm_tag=4, comm_src=npu),
        node(1, "COMM_RECV", comm_size=8, comm_src=(npu - 1) % npus, comm_tag=4),
        source=f"{npu}.et",
    )


def test_messages_keep_peer_tag_and_size():
    job = chakra_job([ring(npu) for npu in range(3)], shape=(3,))
    send, receive = job.graphs[1].tasks

    assert job.graph_of == (0, 1, 2)
    assert (send.kind, send.peer, send.tag, send.size_bytes) == (TaskKind.SEND, 2, 4, 8)
    assert (receive.kind, receive.peer) == (TaskKind.RECEIVE, 0)


def other(change, npus=3):
    """The ring, with the nodes of NPU 1 changed."""
    traces = [ring(npu, npus) for npu in range(npus)]
    traces[1] = replace(traces[1], nodes=tuple(change(each) for each in traces[1].nodes))
    return traces


def with_attribute(kind, **values):
    def change(each):
        if each.type is not NodeType[f"COMM_{kind}_NODE"]:
            return each
        return replace(each, attributes={**each.attributes, **values})

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            with_attribute("SEND", comm_tag=5),
            "waits for a message from NPU 1 with tag 4 that is no",
        ),
        (
            with_attribute("SEND", comm_size=9),
            "'n1' of NPU 2 expects 8 bytes, but 'n0' of NPU 1 se",
        ),
        (
            with_attribute("RECV", comm_tag=5),
            "'n1' of NPU 1 waits for a message from NPU 0 with ta",
        ),
        (
            with_attribute("SEND", comm_src=0),
            r"1\.et: node 0 \('n0'\): comm_src must be NPU 1, not",
        ),
        (
            with_attribute("RECV", comm_dst=2),
            r"1\.et: node 1 \('n1'\): comm_dst must be NPU 1, not",
        ),
        (with_attribute("SEND", comm_dst=3), r"comm_dst must be 0 \.\. 2, not 3"),
        (with_attribute("SEND", comm_dst=None), r"comm_dst is missing"),
        (
            with_attribute("SEND", comm_size=-1),
            "comm_size must be 0 .. 9223372036854775807, not -1",
        ),
        (
            lambda each: replace(each, type=NodeType.COMP_NODE) if each.id == 1 else each,
            "'n0' of NPU 0 sends a message with tag 4 that NPU 1 does not receive",
        ),
    ],
)
def test_messages_without_a_counterpart_are_refused(change, reason):
    with pytest.raises(ValueError, match=reason):
        chakra_job(other(change), shape=(3,))


def test_npus_that_wait_for_each_other_for_ever_are_refused():
    def backwards(npu):
        first, then = ring(npu).nodes
        return trace(replace(first, data_deps=(1,)), then)

    with pytest.raises(ValueError, match="NPUs wait for each other for ever; 6 tasks cannot start"):
        chakra_job([backwards(npu) for npu in range(3)], shape=(3,))


def test_a_collective_and_a_message_in_opposite_orders_are_refused():
    first = trace(collective(0), node(1, "COMM_SEND", (0,), comm_size=1, comm_dst=1), source="0")
    early = trace(node(1, "COMM_RECV", comm_size=1, comm_src=0), collective(2, (1,)), source="1")
    late = trace(collective(0), node(1, "COMM_RECV", (0,), comm_size=1, comm_src=0), source="1")

    with pytest.raises(ValueError, match="NPUs wait for each other for ever"):
        chakra_job([first, early], shape=(2,))
    assert len(chakra_job([first, late], shape=(2,)).graphs) == 2


def test_npus_must_call_the_same_collectives():
    small = trace(collective(0, size=4), source="1.et")
    none = trace(node(0, us=1), source="1.et")
    big = trace(collective(0), source="0.et")

    with pytest.raises(ValueError, match=r"NPU 1 calls 'n0' \(all_reduce, 4 bytes\) where NPU 0"):
        chakra_job([big, small], shape=(2,))
    with pytest.raises(ValueError, match=r"of NPU 0 is called by 1 of its group of 2 NPUs"):
        chakra_job([big, none], shape=(2,))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (node(4, "COMM_COLL", comm_size=8), r"t.et: node 4 \('n4'\): comm_type is missing"),
        (node(4, "COMM_COLL", comm_type=0), "comm_size is missing"),
        (collective(4, kind=CommType.GATHER), "comm_type must be one of ALL_REDUCE, .* not GATHER"),
        (node(4, "COMM_COLL", comm_type=77, comm_size=8), r"comm_type must be 0 \.\. 9, not 77"),
        (node(4, "COMM_COLL", comm_type="x", comm_size=8), "comm_type must be .* not 'x'"),
        (
            collective(4, size=2**63),
            "comm_size must be 0 .. 9223372036854775807, not 9223372036854",
        ),
        (collective(4, pg_name="9"), r"pg_name must be one of the groups \(none\), not '9'"),
        (collective(4, involved_dim=[]), "involved_dim must hold true or false for each of the 1"),
        (collective(4, involved_dim=3), "involved_dim must hold true or false for each of the 1"),
        (node(4, num_ops=5), "has num_ops but no duration, so it needs a compute model"),
        (node(4, "MEM_LOAD", tensor_size=5), "has no duration, so it needs memory_bytes_per_s"),
    ],
)
def test_nodes_without_meaning_are_refused_by_name(bad, reason):
    with pytest.raises(ChakraError, match=reason):
        job_of(bad)


def test_traces_must_be_as_many_as_npus():
    with pytest.raises(ValueError, match="traces must be as many as the 8 NPUs of 4 x 2, not 4"):
        chakra_job([trace(collective(0))] * 4, shape=(4, 2))


def test_a_prefix_stands_for_one_file_per_npu(tmp_path):
    for npu in range(3):
        write_trace(tmp_path / f"ring.{npu}.et", ring(npu))
    job = load_workload(tmp_path / "ring", shape=(3,))

    assert (job.name, len(job.graphs)) == ("ring", 3)
    with pytest.raises(ChakraError, match=r"ring\.3\.et is missing"):
        load_workload(tmp_path / "ring", shape=(4,))


def test_equal_files_share_a_graph(tmp_path):
    for npu in range(4):
        write_trace(tmp_path / f"w.{npu}.et", trace(collective(0)))

    assert len({id(each) for each in read_traces(tmp_path / "w", npus=4)}) == 1
    assert len(load_workload(tmp_path / "w", shape=(4,)).graphs) == 1


def test_groups_come_from_a_json_file(tmp_path):
    for npu in range(8):
        write_trace(tmp_path / f"g.{npu}.et", grouped(npu))
    (tmp_path / "groups.json").write_text(json.dumps(GROUPS))

    job = load_workload(tmp_path / "g", shape=(8,), groups=tmp_path / "groups.json")

    assert job.shape == (2, 4)


def test_attributes_without_effect_are_in_the_note():
    """Parts of unequal size were ignored in silence."""
    unequal = {"comm_type": int(CommType.ALL_TO_ALL), "comm_size": 64, "out_split": [1, 2, 3, 4]}
    nodes = (
        TraceNode(id=0, name="a", type=NodeType.COMM_COLL_NODE, attributes=unequal),
        TraceNode(
            id=1, name="b", type=NodeType.COMM_COLL_NODE,
            attributes={**unequal, "is_cpu_op": False, "in_split": [4, 3, 2, 1]},
        ),
        TraceNode(
            id=2, name="c", type=NodeType.COMP_NODE, duration_us=1,
            attributes={"is_cpu_op": False, "num_ops": 1, "tensor_size": 1},
        ),
    )
    job = chakra_job([Trace(nodes=nodes)] * 4, shape=(4,))

    assert job.note == "attributes without effect: out_split of 2 nodes, in_split of 1 node"

# SPDX-License-Identifier: Apache-2.0
"""Values that are of the right type and mean nothing are refused with their place, or mean it."""

import re

import pytest

from sim.describe.build import build
from sim.describe.reader import ConfigError, load_toml
from sim.describe.system import describe, parse
from sim.run import run

SYSTEM = {
    "topology": {"kind": "torus", "shape": [4, 4], "bandwidth_bytes_per_s": 25e9},
    "workload": {"collective": "all_reduce", "size_bytes": 1 << 20},
}
RTL = {
    "topology": {"kind": "ring", "shape": [4], "bandwidth_bytes_per_s": 16 * 1.245e9},
    "endpoint": {"kind": "ace", "preset": "test", "level": "rtl"},
}


def with_(section, **changes):
    return {**SYSTEM, section: {**SYSTEM.get(section, {}), **changes}}


@pytest.mark.parametrize(
    ("system", "message"),
    [
        (with_("workload", size_bytes=0), "workload.size_bytes: must be at least 1, not 0"),
        (with_("workload", dimensions=[]), "workload.dimensions: must be at least one dimension, "),
        (with_("endpoint", message_bytes=0.001), "endpoint.message_bytes: must be at least 1, not"),
        (
            with_("endpoint", kind="ace", memory_bytes_per_s=1e-300),
            "endpoint must handle the collectives within 9000 s of simulated time; at its rates it",
        ),
        (
            with_("topology", bandwidth_bytes_per_s=25),
            "bandwidths (from 25 bytes/s) it may take ",
        ),
        (
            with_("workload", collective="allreduce"),
            "broadcast, not 'allreduce' (did you mean 'all_reduce'?)",
        ),
        (with_("topology", kind="tors"), "links, not 'tors' (did you mean 'torus'?)"),
        (with_("endpoint", kind="acee"), "not 'acee' (did you mean 'ace'?)"),
        (
            {**SYSTEM, "workload": {"shipped": "resnet-50"}},
            "not 'resnet-50' (did you mean 'resnet50'?)",
        ),
        (
            {**SYSTEM, "workload": {"generator": "gpt3"}},
            "workload.generator: must be 'transformer', with preset = 'gpt3', not 'gpt3'",
        ),
        (
            {
                **SYSTEM,
                "workload": {"generator": "transformer", "preset": "gpt3"},
                "scheduler": {"chunk_bytes": 65536},
            },
            "; from 65536 to 262144 would do",
        ),
        (
            {**RTL, "workload": {"collective": "all_reduce", "size_bytes": 1 << 36}},
            "workload.size_bytes: must be cut into at most 2097151 chunks, not 67108864 of 2048 B",
        ),
        (
            {
                "topology": {"kind": "ring", "shape": [4], "bandwidth_bytes_per_s": 6.4e9},
                "endpoint": {"kind": "smartnic", "preset": "test", "level": "rtl"},
                "workload": {"collective": "reduce_scatter", "size_bytes": 4096},
            },
            "collective must be all_reduce for NICs, not reduce_scatter",
        ),
    ],
)
def test_what_has_no_sense_is_refused_in_one_line(system, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        run(system)

    assert str(error.value).startswith("system: ") and "\n" not in str(error.value)


def test_the_chunk_size_that_is_proposed_will_do():
    system = {**SYSTEM, "workload": {"generator": "transformer", "preset": "gpt3"}}

    build(describe({**system, "scheduler": {"chunk_bytes": 262144}}))
    build(describe(system))  # chosen ones do, too


def test_files_nested_too_deeply_are_refused():
    with pytest.raises(ConfigError, match=r"s\.toml: not valid TOML: nested too deeply"):
        load_toml("a = " + "[" * 5000 + "]" * 5000, source="s.toml")


@pytest.mark.parametrize("section", ["[workload]\n", '[workload]\nfile = "a"\nshipped = "b"\n'])
def test_one_source_of_work_is_asked_for(section):
    text = '[topology]\nkind = "ring"\nshape = [4]\nbandwidth_bytes_per_s = 1e9\n' + section

    with pytest.raises(ConfigError, match="what runs"):
        parse(text, source="s.toml")


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-(2**62), 0), (-(2**62), 2**62)])
def test_only_the_order_of_priorities_counts(low, high):
    """Two all-reduces that begin together: the one of higher priority is done first."""
    from sim.events.simulate import simulate
    from sim.network.network import Network
    from sim.workload.graph import CollectiveCall, GraphBuilder, Job, TaskKind

    def ends(first, second):
        builder = GraphBuilder()
        for priority in (first, second):
            call = CollectiveCall(kind="all_reduce", size_bytes=1 << 22, priority=priority)
            builder.add("x", TaskKind.COLLECTIVE, (), call=call, size_bytes=call.size_bytes)
        network = Network.ring(4, 25e9)
        return simulate(network, Job(name="x", graphs=(builder.graph(),))).task_end_fs[0].tolist()

    assert ends(low, high)[0] > ends(low, high)[1]
    assert ends(high, low)[0] < ends(high, low)[1]
    assert ends(low, high) == ends(0, 1) and ends(high, low) == ends(1, 0)

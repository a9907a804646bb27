# SPDX-License-Identifier: Apache-2.0
"""All-reduces of vectors by switches in RTL, and runs at the edges of what engines take."""

import warnings

import numpy as np
import pytest

import foldwire as fw
from sim.describe.reader import ConfigError


def vectors(count, elements=60, kind=np.float32):
    rng = np.random.default_rng(count)
    return [(100 * rng.standard_normal(elements)).astype(kind) for _ in range(count)]


@pytest.mark.parametrize("kind, op", [("f4", None), ("i4", None), ("f4", "max_f32")])
def test_switch_adds_what_numpy_adds(kind, op):
    reduced = fw.all_reduce(vectors(4, kind=kind), engine="in_switch", op=op)

    assert reduced.exact and reduced.cycles > 0
    assert all(np.array_equal(each, reduced.vectors[0]) for each in reduced.vectors)


def test_one_reducer_takes_vectors_of_all_sizes():
    reducer = fw.AllReducer("in_switch")
    found = [reducer.reduce(vectors(members, size)) for members, size in ((3, 7), (4, 200), (2, 7))]

    assert all(each.exact for each in found)
    assert reducer.cycles == sum(each.cycles for each in found)


def test_opposite_infinities_are_the_hardwares_nan_without_a_warning():
    given = [np.array([value, 1], "f4") for value in (np.inf, -np.inf, 0)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reduced = fw.all_reduce(given, engine="in_switch")

    assert reduced.exact and np.isnan(reduced.vectors[0][0])


@pytest.mark.parametrize(
    "options, message",
    [
        ({"level": "golden"}, "level must be rtl for in_switch: its additions have the order in"),
        ({"format": "bfp16"}, "format must be None for in_switch, not 'bfp16'"),
        ({"preset": "16port"}, "preset must be one of test, 8-port, 16-port, not '16port'"),
    ],
)
def test_what_switches_do_not_have_is_one_line(options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        fw.all_reduce(vectors(3), engine="in_switch", **options)


def test_more_vectors_than_ports_are_refused():
    with pytest.raises(ValueError, match=r"^vectors must be at most 4, one for each port of the"):
        fw.all_reduce(vectors(5), engine="in_switch")


def test_links_too_long_for_the_rtl_of_switches_are_refused_by_their_key():
    system = {
        "topology": {"kind": "switch", "shape": [3], "bandwidth_bytes_per_s": 25e9,
                     "latency_s": 1901 * 16 / 25e9},
        "endpoint": {"kind": "in_switch", "preset": "test"},
        "switch": {"preset": "test", "level": "rtl"},
        "workload": {"collective": "all_reduce", "size_bytes": 120},
    }
    with pytest.raises(ConfigError, match=r"topology.latency_s: must be at most 1900 cycles with"):
        fw.run(system)
    with pytest.raises(ValueError, match=r"^latency_cycles must be at most 1900 for RTL of switc"):
        fw.AllReducer("in_switch", latency_cycles=1901).reduce(vectors(3))


@pytest.mark.parametrize("bandwidth", [0.3e9, 1e9, 5e9])
def test_nic_that_compresses_is_not_faster_than_links_that_carry_less(bandwidth):
    done = fw.run({
        "topology": {"kind": "ring", "shape": [6], "bandwidth_bytes_per_s": bandwidth,
                     "latency_s": 5e-8},
        "endpoint": {"kind": "smartnic_bfp", "preset": "test", "level": "cycles"},
        "workload": {"collective": "all_reduce", "size_bytes": 16384},
    })

    assert done.time_s > 0 and done.record.wire_factor < 1


def test_table_of_the_npu_is_a_table_of_ace():
    ring = {
        "topology": {"kind": "ring", "shape": [4], "bandwidth_bytes_per_s": 5e9},
        "workload": {"collective": "all_reduce", "size_bytes": 4096},
    }
    with pytest.raises(ConfigError, match=r"npu: must be a table, \[endpoint.npu\], not 3"):
        fw.run({**ring, "endpoint": {"kind": "ace", "preset": "test", "npu": 3}})
    with pytest.raises(ConfigError, match=r"endpoint.npu: unknown key"):
        fw.run({**ring, "endpoint": {"kind": "smartnic", "preset": "test", "npu": {"cores": 2}}})


def test_credit_for_every_beat_is_described():
    ring = {
        "topology": {"kind": "ring", "shape": [4], "bandwidth_bytes_per_s": 5e9},
        "workload": {"collective": "all_reduce", "size_bytes": 4096},
        "endpoint": {"kind": "smartnic", "preset": "test", "credit_beats": 1},
    }
    assert fw.run(ring).time_s > 0

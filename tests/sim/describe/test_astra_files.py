# SPDX-License-Identifier: Apache-2.0
"""Files of parameters: what they say arrives, and what is wrong is refused with its place."""

import re
from dataclasses import fields
from importlib.resources import files

import pytest

from sim.describe.astra_params import AstraExtras, AstraParameters, key_of
from sim.describe.astra_text import construct, merge, parse_table, parse_text, read_files
from sim.describe.reader import ConfigError

DATA = files("sim") / "workload/data/astra-sim-1.0"
TORUS = """# 16 NPUs
num-npus: 16
num-packages: 8
package-rows = 2
topology: Torus2D   # hierarchical
local-rings: 2
vertical-rings: 4
preferred-set-splits: 8
scheduling-policy: FIFO
flit-width: 512
local-link-efficiency: 0.9
"""


def read(text):
    return construct(AstraParameters, merge(parse_text(text, source="net.txt")))


def test_table_iii_has_its_28_parameters_in_order():
    numbers = [each.metadata["number"] for each in fields(AstraParameters)]

    assert numbers == list(range(1, 29))
    assert [key_of(each) for each in fields(AstraParameters)][-4:] == [
        "router-latency",
        "local-link-latency",
        "package-link-latency",
        "buffers-per-vc",
    ]


def test_both_forms_of_a_line_and_comments_are_read():
    found = read(TORUS)

    assert (found.num_npus, found.num_packages, found.package_rows) == (16, 8, 2)
    assert found.shape == (2, 2, 4)
    assert (found.scheduling_policy, found.preferred_set_splits) == ("fifo", 8)
    assert (found.flit_width, found.local_link_efficiency) == (512, 0.9)
    assert found.buffers_per_vc == AstraParameters().buffers_per_vc


def test_spelling_of_the_released_code_means_the_same():
    old = TORUS.replace("preferred-set-splits", "preferred-dataset-splits")

    assert read(old.replace("Torus2D", "Torus3D")) == read(TORUS)


def test_table_of_toml_takes_the_same_keys():
    table = {"num-npus": 8, "algorithm": "enhanced", "package-link-efficiency": 0.5}

    found = construct(AstraParameters, merge(parse_table(table)))

    assert (found.num_npus, found.algorithm) == (8, "enhanced")
    assert found.package_link_efficiency == 0.5


@pytest.mark.parametrize("name", ["garnet_sample_torus.txt", "garnet_sample_a2a.txt"])
@pytest.mark.parametrize(
    "system",
    [
        "sample_3dim_sys.txt",
        "sample_a2a_A2A_AG_F_OP_sys.txt",
        "sample_a2a_AG_OP_F_H_sys.txt",
        "sample_a2a_sys.txt",
        "sample_torus_sys.txt",
    ],
)
def test_files_of_the_released_code_are_read_whole(name, system):
    stated = merge(read_files(DATA / "network" / name, DATA / "system" / system))

    parameters = construct(AstraParameters, stated)
    extras = construct(AstraExtras, stated)

    assert parameters.num_npus == 8
    assert parameters.shape == ((2, 2, 2) if "torus" in name else (2, 4))
    assert (parameters.flit_width, parameters.vcs_per_vnet) == (2048, 50)
    assert parameters.algorithm == "dimension_ordered"
    assert (extras.active_chunks_per_dimension, extras.boost_mode) == (1, 0)
    assert extras.all_reduce_implementation


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("num-npus", "num-npu", "net.txt:2: num-npu: unknown key; did you mean 'num-npus'?"),
        ("num-npus: 16", "num-npus 16", "net.txt:2: must be of the form 'key: value', not"),
        ("npus: 16", "npus: 16.5", "net.txt:2: num-npus: must be an integer, not '16.5'"),
        ("npus: 16", "npus: -4", "net.txt:2: num-npus: must be at least 2, not -4"),
        ("npus: 16", "npus:", "net.txt:2: num-npus: must be an integer, not ''"),
        ("npus: 16", "npus: 20", "net.txt:3: num-packages: must be a divisor of num-npus, which"),
        ("rows = 2", "rows = 3", "net.txt:4: package-rows: must be a divisor of num-packages, whi"),
        ("Torus2D", "Mesh", "net.txt:5: topology: must be one of Torus2D, Torus3D, AllToAll"),
        ("FIFO", "fifo", "net.txt:9: scheduling-policy: must be one of LIFO, FIFO, not 'fifo'"),
        ("512", "100", "net.txt:10: flit-width: must be a multiple of 8 bits, not 100"),
        ("0.9", "0", "net.txt:11: local-link-efficiency: must be above 0 and at most 1, not 0"),
        ("0.9", "1.5", "net.txt:11: local-link-efficiency: must be above 0 and at most 1, not 1.5"),
        ("0.9", "nan", "net.txt:11: local-link-efficiency: must be above 0 and at most 1, not nan"),
        ("flit-width", "fast-forward", "net.txt:10: fast-forward: is not supported: a shortcut"),
        (
            "flit-width: 512",
            "preferred-dataset-splits: 8",
            "net.txt:10: preferred-dataset-splits: is given twice; first at net.txt:8 (preferred-",
        ),
        (
            "Torus2D",
            "AllToAll",
            "net.txt:4: package-rows: must be 1 or absent for an all-to-all topology",
        ),
        (
            "flit-width: 512",
            "global-switches: 2",
            "net.txt:10: global-switches: must be absent for topology torus, not 2",
        ),
        (
            "flit-width: 512",
            "all-reduce-implementation: ring_oneRing",
            "net.txt:10: all-reduce-implementation: must be algorithms joined by '_', of ring,",
        ),
    ],
)
def test_errors_name_file_line_key_value_and_what_is_allowed(old, new, message):
    assert TORUS.count(old) == 1
    with pytest.raises(ConfigError, match="^" + re.escape(message)):
        read(TORUS.replace(old, new))


def test_rings_of_a_torus_are_refused_for_an_all_to_all_topology():
    text = "num-npus: 8\ntopology: NV_Switch\nvertical-rings: 2\n"
    with pytest.raises(ConfigError, match=r"net.txt:3: vertical-rings: must be absent for"):
        read(text)


def test_value_given_by_two_files_is_refused(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text("endpoint-delay: 3\n")
    with pytest.raises(ConfigError, match=r"b:1: endpoint-delay: is given twice; first at .*a:1"):
        merge(read_files(tmp_path / "a", tmp_path / "b"))


def test_unreadable_files_are_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, reason in (("absent", "No such file"), ("binary", "not UTF-8"), ("", "directory")):
        with pytest.raises(ConfigError, match=f"cannot be read: .*{reason}"):
            read_files(tmp_path / name)


def test_switch_between_modes_that_text_cannot_hold_is_refused_in_tables():
    with pytest.raises(ConfigError, match="boost-mode: must be an integer, not True"):
        parse_table({"boost-mode": True})

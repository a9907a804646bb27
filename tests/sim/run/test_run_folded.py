# SPDX-License-Identifier: Apache-2.0
"""``[run] fold`` of ACE rings at levels cycles and rtl: the run of all engines, or a refusal."""

import copy

import numpy as np
import pytest

import sim.rtl.driver
from sim.collectives.ace_program import AceProgram
from sim.describe.reader import ConfigError
from sim.describe.system import parse
from sim.run import run

RING = {
    "topology": {
        "kind": "ring", "shape": [6], "bandwidth_bytes_per_s": 16 * 1.245e9, "latency_s": 30e-9,
    },
    "endpoint": {"kind": "ace", "preset": "duo"},
    "workload": {"collective": "all_reduce", "size_bytes": 4 * 6 * 4 * 2 * 40},
    "run": {"passes": 2, "seed": 5},
}
TORUS = {"kind": "torus", "shape": [3, 3]}
WIDE = {
    "preset": "test", "ports": 4, "alus": 4, "fsms": 4, "max_nodes": 16, "memory_ports": 2,
    "banks": 16, "program_words": 256, "sram_bytes": 64 << 10,
}


def described(level, **tables):
    made = copy.deepcopy(RING)
    for name, table in tables.items():
        made[name] = {**made.get(name, {}), **table}
    made["endpoint"]["level"] = level
    return made


def pair(level, **tables):
    """The run of all engines and that of one."""
    own = {**tables.pop("run", {})}
    return [
        run(described(level, **tables, run={**own, "fold": fold})) for fold in ("off", "on")
    ]


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("level", ["cycles", "rtl"])
def test_folded_runs_are_those_of_all_engines(level, kind):
    whole, folded = pair(level, workload={"collective": kind}, run={"bucket_s": 1e-7})

    one, every = folded.record, whole.record
    assert one.folded and not every.folded and one.nodes == every.nodes == 6
    assert one.end_fs == every.end_fs
    for name in ("task_ready_fs", "task_start_fs", "task_end_fs"):
        assert (getattr(one, name) == getattr(every, name)).all()
        assert getattr(one, name).shape[0] == 1
    assert [(each.source, each.target) for each in one.links] == [(0, 1), (0, 5)]
    place = [(each.source, each.target) for each in every.links]
    own = [place.index((0, 1)), place.index((0, 5))]
    assert one.link_bytes.tolist() == every.link_bytes[own].tolist()
    assert one.link_busy_fs.tolist() == every.link_busy_fs[own].tolist()
    assert (6 * one.link_series_fs == every.link_series_fs).all()
    assert (one.unit_bytes == every.unit_bytes[:, :1]).all()
    known = {"folded": 1.0} | ({"results": 2.0} if level == "rtl" else {})
    assert folded.metrics == pytest.approx(whole.metrics | known, rel=1e-8)
    stands = f"1 as {'RTL' if level == 'rtl' else 'cycle models'} for all 6 (folded)"
    assert stands in one.notes[-1]
    assert folded.summary.title.endswith("on 6 NPUs (folded)")
    if level == "rtl":
        assert folded.data.exact and folded.data.results == 2
        assert one.notes[-1].endswith("that are this one's, its shards moved on")
    else:
        assert folded.data is None


def test_all_reduces_that_cut_through_each_other_do_not_fold():
    text = "topology cannot be of style baseline on 3 x 4 nodes where one engine stands for all"
    with pytest.raises(ConfigError, match=f"run.fold: must be 'off' or 'auto' .*{text}"):
        pair(
            "cycles", topology={**TORUS, "shape": [3, 4]}, endpoint={**WIDE, "banks": 2},
            algorithm={"style": "baseline"}, workload={"size_bytes": 4 * 12 * 4 * 16 * 8},
        )


@pytest.mark.parametrize("style", ["halves", "multi_colour"])
@pytest.mark.parametrize("level", ["cycles", "rtl"])
def test_tori_by_dimension_fold(level, style):
    whole, folded = pair(
        level, topology={**TORUS, "shape": [3, 4]}, endpoint={**WIDE, "banks": 2},
        algorithm={"style": style},
        workload={"size_bytes": 4 * 12 * 4 * 16 * 8},
    )
    one, every = folded.record, whole.record
    assert one.folded and one.end_fs == every.end_fs
    assert [each.source for each in one.links] == [0] * 4
    own = [number for number, each in enumerate(every.links) if each.source == 0]
    assert one.link_bytes.tolist() == every.link_bytes[own].tolist()
    assert level == "cycles" or (folded.data.exact and folded.data.results == 2)


def test_a_wrong_sum_is_reported_and_not_called_equal(monkeypatch):
    real = AceProgram.rotated
    monkeypatch.setattr(
        AceProgram, "rotated",
        lambda *args, **options: np.nextafter(real(*args, **options), np.float32(9)),
    )
    folded = run(described("rtl", run={"fold": "on"}))
    assert not folded.data.exact and folded.data.wrong == 2
    assert "of 2 results 2 differ from numpy's" in folded.record.notes[-1]


@pytest.mark.parametrize("level", ["cycles", "rtl"])
@pytest.mark.parametrize("fold", ["auto", "off"])
def test_engines_are_folded_where_that_is_asked_for_alone(level, fold):
    found = run(described(level, run={"fold": fold, "passes": 1}))
    assert not found.record.folded and len(found.engines.steps) == 6


def test_a_ring_with_a_placement_and_one_of_two_fold():
    for topology in ({"placement": [3, 0, 5, 1, 4, 2]}, {"shape": [2]}):
        whole, folded = pair("cycles", topology=topology)
        assert folded.time_s == whole.time_s
        first = topology.get("placement", [0])[0]
        assert [each.source for each in folded.record.links] == [first, first]
        own = [n for n, each in enumerate(whole.record.links) if each.source == first]
        assert folded.record.link_bytes.tolist() == whole.record.link_bytes[own].tolist()


def test_training_with_overlap_folds(tmp_path):
    (tmp_path / "job.txt").write_text(
        "DATA\n2\nfront -1 3000 NONE 0 2000 NONE 0 2500 ALLREDUCE 7680 300\n"
        "back -1 1000 NONE 0 1500 NONE 0 500 ALLREDUCE 1536 0\n"
    )
    for level in ("cycles", "rtl"):
        made = described(level, host={"wait": "all"})
        made["workload"] = {"file": str(tmp_path / "job.txt")}
        whole = run(made)
        made["run"]["fold"] = "on"
        folded = run(made)
        assert folded.time_s == whole.time_s and folded.metrics["exposed_s"] > 0
        assert (folded.record.task_end_fs == whole.record.task_end_fs).all()
        assert level == "cycles" or (folded.data.exact and folded.data.results == 4)


REFUSED = [
    ({"workload": {"size_bytes": 4004}},
     r"elements cannot be 1001 .* would be unequal; it works with 960 or 1008"),
    ({"workload": {"size_bytes": 12000}},
     r"last block cannot be 20 .* so conflicts at banks would depend on the rank; it works"),
    ({"network": {"stall_probability": 0.1}},
     r"network.stall_probability must be 0 where one engine stands for all, not 0.1"),
    ({"memory": {"stall_probability": 0.2}}, r"memory.stall_probability must be 0 .*, not 0.2"),
    ({"topology": TORUS, "endpoint": WIDE, "algorithm": {"style": "hamiltonian"}},
     r"topology must be one ring of links alike, or paths by dimension"),
    ({"topology": {**TORUS, "one_dimension": True}, "endpoint": WIDE},
     r"topology must be one ring of links alike, or paths by dimension"),
    ({"scenario": {"node": [{"node": 1, "slowdown": 2.0}]}},
     r"it needs nodes that do the same, but some nodes are slower than others"),
    ({"endpoint": {"kind": "smartnic", "preset": "test"},
      "topology": {"bandwidth_bytes_per_s": 1e9}},
     r"it needs ACE: NICs do not stand for one another"),
]


@pytest.fixture
def no_compiler(monkeypatch):
    def compiles(*args, **options):
        raise AssertionError("compiled")

    monkeypatch.setattr(sim.rtl.driver, "_compiled", compiles)
    monkeypatch.setattr(sim.rtl.driver, "compile_model", compiles)
    monkeypatch.setattr("sim.cycles.model.bind", compiles)


@pytest.mark.parametrize("level", ["cycles", "rtl"])
@pytest.mark.parametrize(("tables", "text"), REFUSED, ids=lambda each: str(each)[:40])
def test_what_makes_nodes_differ_is_refused_before_anything_is_compiled(
    level, tables, text, no_compiler
):
    start = rf"system: run.fold: must be 'off' or 'auto' at level '{level}', not 'on': "
    with pytest.raises(ConfigError, match=f"^{start}{text}") as error:
        run(described(level, **tables, run={"fold": "on"}))
    assert "\n" not in str(error.value)
    with pytest.raises(AssertionError, match="compiled"):
        run(described(level, **tables))


@pytest.mark.parametrize(
    ("network", "name"),
    [({"loss_probability": 0.1}, "loss"), ({"repetition_probability": 0.1}, "repetition"),
     ({"damage_probability": 0.1}, "damage")],
)
def test_bad_wires_are_refused(network, name, no_compiler):
    text = rf"not 'on': network.{name}_probability must be 0 where one engine stands for all"
    with pytest.raises(ConfigError, match=text):
        run(described("rtl", network={"retry": True, **network}, run={"fold": "on"}))


def test_levels_of_single_nodes_are_refused(no_compiler):
    on = [{"nodes": [2], "level": "cycles"}]
    with pytest.raises(ConfigError, match=r"endpoint.level must be one for all nodes, not cycles"):
        run(described("rtl", endpoint={"on": on}, run={"fold": "on"}))


def test_endpoints_at_switches_are_refused(no_compiler):
    made = {
        "topology": {"kind": "switch", "shape": [4], "bandwidth_bytes_per_s": 16e9,
                     "latency_s": 10e-9},
        "endpoint": {"kind": "in_switch", "preset": "test", "level": "rtl"},
        "switch": {"preset": "test", "clock_hz": 1e9},
        "workload": {"collective": "all_reduce", "size_bytes": 4096},
        "run": {"passes": 1, "fold": "on"},
    }
    text = "run.fold: .* it needs ACE: endpoints at switches do not stand for one another"
    with pytest.raises(ConfigError, match=text):
        run(made)


def test_a_slow_link_and_a_wrong_word_are_refused_as_ever(no_compiler):
    link = {"link": [{"source": 0, "target": 1, "slowdown": 2.0}]}
    with pytest.raises(ConfigError, match=r"scenario.link: has no meaning at level 'rtl', only"):
        run(described("rtl", scenario=link, run={"fold": "on"}))
    with pytest.raises(ConfigError, match=r"run.fold: must be one of auto, on, off, not 'yes'"):
        run(described("rtl", run={"fold": "yes"}))


def test_the_line_of_the_key_is_named():
    text = """
[topology]
kind = "ring"
shape = [6]
bandwidth_bytes_per_s = 19.92e9
latency_s = 30e-9

[endpoint]
kind = "ace"
preset = "duo"
level = "cycles"

[workload]
collective = "all_reduce"
size_bytes = 4004

[run]
fold = "on"
"""
    with pytest.raises(ConfigError, match=r"^s.toml:18: run.fold: must be .off. or .auto."):
        run(parse(text, source="s.toml"))

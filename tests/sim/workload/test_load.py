# SPDX-License-Identifier: Apache-2.0
import pytest

from sim.workload.astra_text import SHIPPED, render, shipped
from sim.workload.compute_model import Roofline
from sim.workload.graph import Job
from sim.workload.load import GENERATORS, load_workload
from sim.workload.resources import Accelerator

LANGUAGE_MODELS = ("libra-gpt3", "libra-turing-nlg", "libra-msft-1t")


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_workload_loads_by_name(name):
    options = {}
    if name in LANGUAGE_MODELS:
        options = {"parallelism": "HYBRID_TRANSFORMER", "model_parallel_npus": 4}
    job = load_workload(name, shape=(4, 4), **options)

    assert isinstance(job, Job)
    assert job.graphs[0].tasks


@pytest.mark.parametrize("name", GENERATORS)
def test_every_generator_loads_by_name(name):
    job = load_workload(f"model:{name}", shape=(2, 2), passes=1)

    assert {task.iteration for task in job.graphs[0].tasks} == {0}


def test_every_preset_loads():
    for name, (_, presets) in GENERATORS.items():
        for preset in presets:
            job = load_workload(f"model:{name}", preset=preset, shape=(8,), passes=1)
            assert job.graphs[0].tasks


def test_options_replace_those_of_a_preset():
    job = load_workload("model:dlrm", preset="libra", batch=64, shape=(4,), passes=1)

    assert job.graphs[0].tasks[1].call.size_bytes == 4_194_304 // 8


def test_a_text_file_loads_as_the_shipped_one_does(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(render(shipped("dlrm")))

    from_file, bundled = (load_workload(each, shape=(4,), passes=3) for each in (path, "dlrm"))
    assert from_file.graphs == bundled.graphs


def test_compute_is_what_times_a_model():
    fast = Roofline(resources=Accelerator().left())
    slow = Roofline(resources=Accelerator(memory_bytes_per_s=1e9).left())
    first = [
        load_workload("model:mlp", shape=(4,), compute=each).graphs[0].tasks[0]
        for each in (fast, slow)
    ]

    assert first[0].duration_s < first[1].duration_s
    assert load_workload("model:mlp", shape=(4,)).graphs[0].tasks[0] == first[0]


@pytest.mark.parametrize(
    ("source", "options", "reason"),
    [
        ("vgg", {}, "source must be model:NAME, a text workload .* not 'vgg'"),
        ("model:vgg", {}, "model must be one of resnet50"),
        ("w.json", {}, "source must be .* not 'w.json'"),
        ("absent.txt", {}, "absent.txt: cannot be read"),
        ("absent.et", {}, "absent.et"),
        ("resnet50", {"pass": 3}, "option of resnet50 must be one of passes, .* not 'pass'"),
        ("resnet50", {"passes": "2"}, "passes must be of type int, not '2'"),
        ("resnet50", {"passes": None}, "passes must be of type int, not None"),
        ("resnet50", {"overlap": 0}, "overlap must be of type bool, not 0"),
        ("resnet50", {"comm_scale": True}, "comm_scale must be of type float, not True"),
        ("resnet50", {"parallelism": 4}, "parallelism must be of type str, not 4"),
        ("model:mlp", {"passes": "2"}, "passes must be of type int, not '2'"),
        ("libra-gpt3", {}, "has no header; parallelism must be given"),
        ("resnet50", {"compute": Roofline(resources=Accelerator().left())}, "compute does not app"),
        ("resnet50", {"side": Roofline(resources=Accelerator().left())}, "side does not apply"),
        ("model:mlp", {"side": Roofline(resources=Accelerator().left())}, "side does not apply t"),
    ],
)
def test_what_has_no_meaning_is_refused(source, options, reason):
    with pytest.raises(ValueError, match=reason):
        load_workload(source, shape=(4,), **options)


def test_none_stands_for_options_that_may_be_absent():
    plain = load_workload("resnet50", shape=(4,))
    assert load_workload("resnet50", shape=(4,), parallelism=None) == plain

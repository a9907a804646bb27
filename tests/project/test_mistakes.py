"""A mistake in an argument of a public function is one line that names it and what is allowed."""

import numpy as np
import pytest

import foldwire as fw

NETWORK = fw.Network.torus((4,), bandwidth_bytes_per_s=25e9)
JOB = fw.load_workload("resnet50", shape=NETWORK.shape, passes=1)
DESCRIPTION = {
    "topology": {"kind": "ring", "shape": [4]},
    "workload": {"collective": "all_reduce", "size_bytes": 4096},
}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fw.simulate(JOB, NETWORK), "network must be a Network, not Job"),
        (lambda: fw.simulate(NETWORK, NETWORK), "job must be a Job, not Network"),
        (lambda: fw.simulate(NETWORK, JOB, endpoint="acee"), "endpoint must be one of ideal, "),
        (lambda: fw.simulate(NETWORK, JOB, endpoint=7), "endpoint must be the name of an endpoi"),
        (
            lambda: fw.simulate(NETWORK, JOB, algorithms="ring"),
            "algorithms must be an AlgorithmChoice, or one for each kind of collective, not 'ring'",
        ),
        (
            lambda: fw.simulate(NETWORK, JOB, scheduler="lifo"),
            "scheduler must be a Scheduler or None, not 'lifo'",
        ),
        (
            lambda: fw.load_workload("resnet50", shape=16),
            "shape must be a sequence of integers, such as network.shape, not 16",
        ),
        (lambda: fw.Dimension.ring(4, "25GB/s"), "bandwidth_bytes_per_s must be a number, not '2"),
        (lambda: fw.RingSettings(nodes="4"), "nodes must be an integer at least 2, not '4'"),
        (lambda: fw.save_run(JOB, NETWORK, "x"), "record must be a RunRecord, not Job"),
        (lambda: fw.break_down(JOB, JOB), "record must be a RunRecord, not Job"),
        (lambda: fw.call_bound(JOB, JOB), "network must be a Network, not Job"),
        (lambda: fw.load_run("nowhere"), "nowhere/run.json: cannot be read: No such file"),
        (lambda: fw.run(7), "description must be the path of a file, or a mapping, not 7"),
        (lambda: fw.run(DESCRIPTION, endpoint=7), "endpoint must be KIND or KIND:LEVEL, not 7"),
        (
            lambda: fw.all_reduce([np.zeros(4), np.zeros(4)]),
            "vectors must hold float32, int32 or uint32, not float64",
        ),
        (
            lambda: fw.all_reduce([np.zeros(4, np.float32)] * 2, op="summ"),
            "op must be sum_f32 or min_f32 or max_f32 for float32 vectors, not 'summ'",
        ),
        (lambda: fw.all_reduce(None), "vectors must be a sequence of arrays, one per rank, not N"),
        (
            lambda: fw.all_reduce([np.zeros(0, np.float32)] * 2),
            "vectors must have one dimension and elements, not (0,)",
        ),
        (
            lambda: fw.all_reduce([np.zeros(4, np.float32), np.zeros(4, "i4")], level="golden"),
            "vectors must be of one type, not float32, int32",
        ),
        (lambda: fw.preset("ace", "tst"), "name must be one of test, duo, "),
        (lambda: fw.engine("ace"), "config must be an AceConfig or a SmartNicConfig, not 'ace'"),
    ],
)
def test_mistake_is_one_line(call, message):
    with pytest.raises((TypeError, ValueError)) as error:
        call()

    text = str(error.value)
    assert text.startswith(message) and "\n" not in text


def test_endpoint_by_name_and_paths_as_text(tmp_path):
    by_name = fw.simulate(NETWORK, JOB, endpoint="ace")

    assert by_name.end_fs == fw.simulate(NETWORK, JOB, endpoint=fw.endpoint("ace")).end_fs
    folder = str(tmp_path / "ace")
    saved = fw.save_run(by_name, JOB, folder, figures=False)
    assert fw.load_run(folder) == saved

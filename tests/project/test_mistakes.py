# SPDX-License-Identifier: Apache-2.0
"""A mistake in an argument of a public function is one line that names it and what is allowed."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import foldwire as fw
from gen.yosys import YosysError
from sim.fields import FieldError
from sim.rtl.harness.system import CycleLimitError
from sim.workload.wire import WireError

NETWORK = fw.Network.torus((4,), bandwidth_bytes_per_s=25e9)
JOB = fw.load_workload("resnet50", shape=NETWORK.shape, passes=1)
BIG_JOB = fw.load_workload("resnet50", shape=(8, 8), passes=1)
ADDER = fw.FPAdder()
ADDER._MustUse__silence = True  # of what is never elaborated
SLOW = fw.Network.torus((4,), bandwidth_bytes_per_s=25)  # meant GB
DESCRIPTION = {
    "topology": {"kind": "ring", "shape": [4]},
    "workload": {"collective": "all_reduce", "size_bytes": 4096},
}
IN_PYTHON = (
    "net = fw.Network([fw.Dimension(kind='ring', size=4, bandwidth_bytes_per_s=1e9)])\n"
    "graph = fw.GraphBuilder()\n"
    "call = fw.CollectiveCall(kind=fw.CollectiveKind.ALL_REDUCE, size_bytes=4096)\n"
    "graph.add('sum', fw.TaskKind.COLLECTIVE, call=call)\n"
    "fw.simulate(net, fw.Job(name='sum', graphs=(graph.graph(),)))"
)
SWEEP = {"base": DESCRIPTION, "grid": {"workload.size_bytes": [1024]}}


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
        (lambda: fw.Surroundings(nodes="4"), "nodes must be an integer at least 2, not '4'"),
        (lambda: fw.save_run(JOB, NETWORK, "x"), "record must be a Run or a RunRecord, not Job"),
        (lambda: fw.break_down(JOB, JOB), "record must be a Run or a RunRecord, not Job"),
        (lambda: fw.call_bound(JOB, JOB), "network must be a Network, not Job"),
        (lambda: fw.load_run("nowhere"), "nowhere/run.json: cannot be read: No such file"),
        (lambda: fw.run(7), "description must be the path of a file, or a mapping, not 7"),
        (lambda: fw.run(DESCRIPTION, endpoint=7), "endpoint must be KIND or KIND:LEVEL, not 7"),
        (
            lambda: fw.all_reduce([np.zeros(4, bool), np.zeros(4, bool)]),
            "vectors must hold real numbers or integers of at most 64 bits, not bool",
        ),
        (
            lambda: fw.all_reduce([np.zeros(4, np.float32)] * 2, op="summ"),
            "op must be sum_f32 or min_f32 or max_f32 for float32 vectors, not 'summ'",
        ),
        (lambda: fw.all_reduce(None), "vectors must be a sequence of arrays, one per rank, not N"),
        (
            lambda: fw.all_reduce([np.zeros(0, np.float32)] * 2),
            "vectors must have elements, not shape (0,)",
        ),
        (
            lambda: fw.all_reduce([np.zeros(4, np.float32), np.zeros(4, "i4")], level="golden"),
            "vectors must be of one type, not float32, int32",
        ),
        (lambda: fw.preset("ace", "tst"), "name must be one of test, duo, "),
        (lambda: fw.preset("ace", ["x"]), "name must be one of test, duo, "),
        (
            lambda: fw.all_reduce([np.zeros(3, "M8[s]")] * 2, level="golden"),
            "vectors must hold real numbers or integers of at most 64 bits, not datetime64[s]",
        ),
        (
            lambda: fw.all_reduce([np.arange(4, dtype="i4")] * 2, op="sum_f32"),
            "op must be sum_i32 for int32 vectors, not 'sum_f32'",
        ),
        (
            lambda: fw.AceRing(fw.preset("smartnic", "test"), fw.Surroundings(nodes=4)),
            "config must be an AceConfig or a preset's name, not SmartNicConfig",
        ),
        (lambda: fw.AceRing("test", 4), "settings must be Surroundings, not 4"),
        (lambda: fw.NicRing("test", 4), "settings must be Surroundings, not 4"),
        (
            lambda: fw.Network([fw.Dimension.ring(4, 25e9)], logical_shape=4),
            "logical_shape must be a sequence of integers or None, not 4",
        ),
        (
            lambda: fw.Network([fw.Dimension.ring(4, 25e9)], placement="abcd"),
            "placement must be a sequence of integers or None, not 'abcd'",
        ),
        (
            lambda: fw.Network([fw.Dimension.ring(4, 25e9)], faults=[3]),
            "faults must be a sequence of LinkFault, not list",
        ),
        (lambda: fw.LinkFault(source="0", target=1), "source must be an integer, not '0'"),
        (
            lambda: fw.load_workload(7, shape=(4,)),
            "source must be the name of a workload, or a path, not 7",
        ),
        (
            lambda: fw.simulate(NETWORK, JOB, stragglers=[1]),
            "stragglers must be a mapping of nodes to factors, or None, not list",
        ),
        (
            lambda: fw.simulate(NETWORK, JOB, stragglers={0: "x"}),
            "the factor of straggler 0 must be a number above 0, not 'x'",
        ),
        (
            lambda: fw.simulate(NETWORK, JOB, bucket_s="1"),
            "bucket_s must be a number of at least 0, not '1'",
        ),
        (
            lambda: fw.simulate(NETWORK, JOB, spans=True),
            "spans must be an integer of at least 0, not True",
        ),
        (lambda: fw.simulate(NETWORK, JOB, packets=3), "packets must be None unless granularity"),
        (
            lambda: fw.simulate(NETWORK, JOB, algorithms={"all_reduce": "ring"}),
            "algorithms must be AlgorithmChoices by CollectiveKind, not {'all_reduce': 'ring'}",
        ),
        (
            lambda: fw.simulate(fw.Network.torus((4, 4), bandwidth_bytes_per_s=25e9), BIG_JOB),
            "the job is for a logical shape of (8, 8), the network's is (4, 4); load the workload",
        ),
        (
            lambda: fw.simulate(fw.Network.ring(64, 25e9), BIG_JOB),
            "the job is for a logical shape of (8, 8), the network's is (64,); give the network",
        ),
        (
            lambda: fw.simulate(SLOW, JOB),
            "dimension 0 of the network must handle the collectives within 9000 s of simulated",
        ),
        (lambda: fw.run(DESCRIPTION, trace="x"), "trace must be True, False or None, not 'x'"),
        (lambda: fw.run(DESCRIPTION).save(7), "folder must be a path, not 7"),
        (lambda: fw.run(DESCRIPTION).save("/proc/x/y"), "/proc/x/y: cannot be written: No such"),
        (lambda: fw.load_run(7), "folder must be a path, not 7"),
        (lambda: fw.sweep(7, "x"), "description must be the path of a file, or a mapping, not 7"),
        (lambda: fw.sweep(SWEEP, 7), "folder must be a path, not 7"),
        (lambda: fw.sweep(SWEEP, "/proc/x"), "/proc/x: cannot be written: No such file"),
        (
            lambda: fw.CollectiveCall(kind="allreduce", size_bytes=4),
            "kind must be one of all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, ",
        ),
        (
            lambda: fw.CollectiveCall(kind="all_reduce", size_bytes="x"),
            "size_bytes must be a number, not 'x'",
        ),
        (
            lambda: fw.CollectiveCall(kind="all_reduce", size_bytes=4, dimensions=()),
            "dimensions must be at least one dimension, each once, or None for all, not ()",
        ),
        (
            lambda: fw.AlgorithmChoice(reductions="ring"),
            "reductions must be a sequence (each a text or None) or None, not 'ring'",
        ),
        (lambda: fw.Scheduler(chunk_bytes="1"), "chunk_bytes must be a number or None, not '1'"),
        (lambda: fw.endpoint(3), "endpoint must be one of ideal, "),
        (lambda: fw.AllReducer(threads="3"), "threads must be an integer of at least 1, not '3'"),
        (lambda: fw.emit(fw.preset("ace", "test"), name="x"), "component must be an amaranth.lib"),
        (lambda: fw.emit(ADDER, name=3), "name must be a Verilog identifier, not 3"),
        (lambda: fw.emit_files(ADDER, 7, name="x"), "directory must be a path, not 7"),
        (lambda: fw.emit_files(ADDER, "/proc/x", name="x"), "/proc/x: cannot be written: No such"),
        (lambda: fw.Table("x", ["a"], [[1]]), "columns must be Columns, not 'a'"),
        (lambda: fw.training_job("resnet50", shape=(4,)), "workload must be a Workload, as read"),
        (lambda: fw.endpoint("ace", sram_bytes="4MiB"), "sram_bytes must be an integer, not '4M"),
        (lambda: fw.engine("ace"), "config must be of AceConfig, SmartNicConfig, SwitchConfig, S"),
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


def test_a_collective_is_called_by_name():
    call = fw.CollectiveCall(kind="all_reduce", size_bytes=4)

    assert call == fw.CollectiveCall(kind=fw.CollectiveKind.ALL_REDUCE, size_bytes=4)


def test_what_a_simulation_leaves_out_of_a_job_is_noted():
    note = "the endpoint takes 7.5 % of the compute units, which the job's times leave out"

    by_hand = fw.simulate(NETWORK, JOB, endpoint="baseline_comm_opt")
    assert note in by_hand.notes
    described = fw.run({**DESCRIPTION, "workload": {"shipped": "resnet50"}})
    assert not [each for each in described.record.notes if "leave out" in each]


@pytest.mark.parametrize("name", ["sim", "hw", "gen"])
def test_a_module_of_ones_own_that_hides_ours_is_named(tmp_path, name):
    (tmp_path / f"{name}.py").write_text("")
    script = tmp_path / "script.py"
    script.write_text("import foldwire")
    root = str(Path(fw.__file__).parents[1])

    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: {tmp_path / name}.py hides Foldwire's package {name}; rename it, or run "
        "from another folder"
    )


def test_a_folder_of_ones_own_without_python_is_no_harm(tmp_path):
    (tmp_path / "hw").mkdir()
    (tmp_path / "script.py").write_text("import foldwire")
    root = str(Path(fw.__file__).parents[1])

    command = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": root}, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    "calls, more",
    [
        (f"fw.run({DESCRIPTION!r})", ()),
        (IN_PYTHON, ("tomllib", "sim.describe.sections", "sim.engines.engine")),
    ],
    ids=["description", "python"],
)
def test_a_small_run_loads_no_more_than_it_needs(calls, more):
    """What a run loads is most of the time that it takes."""
    script = (
        f"import sys\nimport foldwire as fw\n{calls}\n"
        "needless = {'numba', 'matplotlib', 'pyarrow', 'rich', 'amaranth', 'numpy.ma',"
        " 'importlib.metadata', 'sim.workload.load', 'sim.workload.chakra_job',"
        " 'concurrent.futures', 'logging', 'subprocess', 'tempfile', 'sim.engines.ace',"
        f" 'sim.engines.smartnic', 'sim.engines.in_switch', *{more!r}}}\n"
        "assert not needless & set(sys.modules), needless & set(sys.modules)"
    )
    root = str(Path(fw.__file__).parents[1])

    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("error", [
    YosysError("Yosys stopped with status 1", "line 1\nline 2"),
    FieldError("chunk_bytes", "must be a power of two, not 3"),
    WireError(17, "no message"),
    CycleLimitError("not finished after 5 cycles", None),
], ids=lambda error: type(error).__name__)
def test_an_error_comes_whole_out_of_another_process(error):
    again = pickle.loads(pickle.dumps(error))

    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)

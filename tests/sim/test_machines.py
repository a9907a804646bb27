"""Machines by name: nothing above its bound, and a fit finds what was planted."""

import pytest

import foldwire as fw
from foldwire.cli import main
from sim.describe.machines import MACHINES
from sim.describe.reader import ConfigError
from sim.endpoint.calibrated import Calibration
from sim.machines.fit import fit, read_table
from sim.machines.measure import measure, sizes_from

PLANTED = Calibration(share=0.8, start=5e-6, step=4e-7)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "all_to_all"])
def test_large_vectors_come_near_the_bound_and_not_above(name, collective):
    row = measure(name, collective, 1 << 32)
    assert 85 <= row.percent <= 100 * (1 + 1e-9)


def test_only_machines_whose_switches_reduce_take_that_way():
    for name, each in MACHINES.items():
        offered = set(MACHINES[name].algorithms("all_reduce"))
        assert bool(offered & {"push", "pull"}) == (each.in_switch is not None)
    assert measure("dgx-h100", "all_reduce", 1 << 28).algorithm == "pull"
    assert measure("dgx-a100", "all_reduce", 1 << 28).algorithm not in ("push", "pull")


def test_sizes_are_those_of_nccl_tests():
    gather = measure("dgx-a100", "all_gather", 1 << 26, algorithm="ring")
    reduce = measure("dgx-a100", "all_reduce", 1 << 26, algorithm="ring")
    # Each rank receives 7/8 of what is gathered, and twice that of what is reduced.
    assert gather.time_s == pytest.approx(reduce.time_s / 2, rel=0.05)
    assert gather.busbw / gather.algbw == pytest.approx(7 / 8)
    assert reduce.busbw / reduce.algbw == pytest.approx(14 / 8)
    assert sizes_from(1024, 5000, 2) == [1024, 2048, 4096, 5000]
    assert sizes_from(1024, 1024, 2) == [1024]
    with pytest.raises(ValueError, match="last size must be at least the first, 2048, not 1024"):
        sizes_from(2048, 1024, 2)


def test_a_run_with_neutral_constants_is_the_same():
    plain = {
        "topology": {"machine": "2x-p5"},
        "endpoint": {"kind": "baseline_comm_opt"},
        "workload": {"collective": "all_reduce", "size_bytes": 1 << 20},
    }
    neutral = {**plain, "calibration": {"share": 1, "start": 0, "step": 0}}
    assert fw.run(plain).metrics == fw.run(neutral).metrics


def test_constants_do_what_they_say():
    def time_s(**constants):
        calibration = Calibration(**constants)
        return measure(
            "dgx-a100", "all_reduce", 1 << 20, algorithm="ring", calibration=calibration
        ).time_s

    plain = time_s()
    assert time_s(share=0.5) == pytest.approx(2 * plain, rel=1e-6)
    assert time_s(start=1e-3) == pytest.approx(plain + 1e-3, rel=1e-9)
    # A ring of eight: fourteen messages after each other.
    assert time_s(step=1e-3) == pytest.approx(plain + 14e-3, rel=0.01)


def test_planted_constants_are_found_in_a_table(tmp_path, capsys):
    arguments = ["--algorithm", "ring", "--from", "4096", "--to", str(1 << 28), "--factor", "16"]
    constants = ["--share", "0.8", "--start", "5e-6", "--step", "4e-7"]
    assert main(["machines", "dgx-a100", *arguments, *constants]) == 0
    printed = capsys.readouterr().out
    path = tmp_path / "table.txt"
    path.write_text(printed, encoding="utf-8")
    rows = read_table(path)
    assert [row.size_bytes for row in rows] == [4096, 1 << 16, 1 << 20, 1 << 24, 1 << 28]
    found = fit("dgx-a100", "all_reduce", "ring", rows).calibration
    assert found.share == pytest.approx(PLANTED.share, rel=0.01)
    assert found.start == pytest.approx(PLANTED.start, rel=0.02)
    assert found.step == pytest.approx(PLANTED.step, rel=0.02)


def test_output_of_nccl_tests_is_read(tmp_path):
    path = tmp_path / "table.txt"
    path.write_text(
        "# nThread 1 nGpus 8 minBytes 1024 maxBytes 4096\n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
        "        1024           256     float     sum      -1    20.50    0.05    0.09      0\n"
        "        2048           512     float     sum      -1    21.00    0.10    0.17      0\n"
        "        4096          1024     float     sum      -1    22.00    0.19    0.33      0\n"
        "# Avg bus bandwidth    : 0.2\n",
        encoding="utf-8",
    )
    assert [(row.size_bytes, row.time_s) for row in read_table(path)] == [
        (1024, pytest.approx(20.5e-6)),
        (2048, pytest.approx(21e-6)),
        (4096, pytest.approx(22e-6)),
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [("", "at least three rows"),
     ("1024 256 float sum -1 N/A 0 0\n", "line 1 must hold time and algbw"),
     ("1048576 262144 float sum -1 20.97 36.7 64.2 0\n", "line 1: size over time must be algbw, ")],
)
def test_a_file_that_is_no_table_is_refused(tmp_path, text, what):
    path = tmp_path / "table.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=what):
        read_table(path)


def test_tables_without_a_root_and_of_other_types_are_read(tmp_path):
    path = tmp_path / "table.txt"
    path.write_text(
        "1048576  262144  float  sum  50.00  20.97  36.70  5e-07  49.10  21.36  37.37  5e-07\n"
        "2097152  262144  uint64  sum  -1  100.0  20.97  36.70  0\n"
        "      8       2  float  sum  -1  0.0125  0.64  1.12  0\n",
        encoding="utf-8",
    )
    assert [row.time_s for row in read_table(path)] == pytest.approx([50e-6, 100e-6, 0.0125e-6])


@pytest.mark.parametrize(("collective", "count"), [("all_reduce", 2048), ("all_gather", 256)])
def test_counts_are_those_of_nccl_tests(collective, count, capsys):
    arguments = ["machines", "dgx-h100", "--collective", collective]
    assert main([*arguments, "--from", "8192", "--to", "8192"]) == 0
    row = capsys.readouterr().out.strip().splitlines()[-1].split()
    assert row[:2] == ["8192", str(count)]


def test_bytes_that_are_no_text_are_no_table(tmp_path):
    path = tmp_path / "table.bin"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(ValueError, match=r"table.bin: must hold at least three rows"):
        read_table(path)


@pytest.mark.parametrize(
    ("tables", "what"),
    [
        ({"topology": {"machine": "dgx-9"}}, "topology.machine: must be one of dgx-2"),
        ({"topology": {"machine": "dgx-2", "kind": "ring"}}, "absent beside kind"),
        ({"endpoint": {"kind": "in_switch"}}, "the switches of dgx-a100 do not reduce"),
        (
            {"topology": {"machine": "dgx-h100"},
             "endpoint": {"kind": "in_switch", "mode": "push"}},
            "endpoint.mode: must be pull on dgx-h100, not 'push'",
        ),
        ({"calibration": {"share": 2}}, "calibration.share: must be above 0 and at most 1, not 2"),
        ({"calibration": {"speed": 2}}, "calibration.speed"),
    ],
)
def test_wrong_descriptions_are_refused(tables, what):
    workload = {"collective": "all_reduce", "size_bytes": 1024}
    with pytest.raises(ConfigError, match="(?s)" + what.replace("[", "\\[")):
        fw.run({"topology": {"machine": "dgx-a100"}, "workload": workload, **tables})


def test_the_command_lists_all_machines_with_their_sources(capsys):
    assert main(["machines"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in MACHINES)
    assert main(["machines", "dgx-9"]) == 2
    assert "must be one of dgx-2" in capsys.readouterr().err


AUTO = {
    "topology": {"machine": "dgx-h100"},
    "workload": {"collective": "all_reduce", "size_bytes": 1 << 20},
    "run": {"passes": 1},
}


def test_auto_takes_the_fastest_algorithm_of_the_machine_and_says_which():
    names = list(MACHINES["dgx-h100"].algorithms("all_reduce"))
    times = {name: fw.run({**AUTO, "algorithm": name}).time_s for name in names}
    seen = []
    run = fw.run({**AUTO, "algorithm": "auto"}, report=seen.append)

    assert names == ["ring", "direct", "tree", "pull"]
    assert run.time_s == min(times.values())
    assert run.algorithm == run.provenance["algorithm"] == min(times, key=times.get)
    assert f"algorithm auto: {run.algorithm}, the fastest of ring" in run.summary.note
    assert all(0 <= share <= 1 for share in seen)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"algorithm": "nccl"}, "algorithm: must be one of auto, ring, direct, tree, pull, not"),
        ({"algorithm": "auto", "topology": {"kind": "switch", "shape": [8]}}, "on a machine"),
        ({"algorithm": "auto", "topology": {"machine": "dgx-h1000"}}, "machine: must be one of"),
        ({"algorithm": "auto", "topology": {"machine": [1]}}, r"topology.machine: must be a text"),
        ({"algorithm": "push", "topology": {"machine": "dgx-a100"}}, "must be one of auto, ring"),
        ({"algorithm": "ring", "endpoint": {"kind": "in_switch"}}, "endpoint.kind: must be absent"),
    ],
)
def test_algorithms_that_a_machine_has_not_are_refused(changed, what):
    with pytest.raises(ConfigError, match=what):
        fw.run(AUTO | changed)

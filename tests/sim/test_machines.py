# SPDX-License-Identifier: Apache-2.0
"""Machines by name: nothing above its bound, and a fit finds what was planted."""

import re
from pathlib import Path

import numpy as np
import pytest

import foldwire as fw
from bench.machines import MEASURED, outside
from foldwire.cli import cli, main
from sim.describe.machines import MACHINES, machine
from sim.describe.reader import ConfigError
from sim.endpoint.calibrated import Calibration
from sim.machines.fit import Measured, fit, model_of, read_table
from sim.machines.measure import lines_of, measure, sizes_from

ROOT = Path(__file__).resolve().parents[2]
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
    [("", "at least three sizes"),
     ("size_bytes,time_us\n8,1\n16,2\n", "at least three sizes, .*, not 2"),
     ("size_bytes,time_us\n8,1\n\n16,x\n", "line 4 must hold size_bytes and time_us, not '16,x'"),
     ("size_bytes,time_us\n8\n", "line 2 must hold size_bytes and time_us, not '8'"),
     ("size_bytes,time_us\n8,nan\n", "line 2: time_us must be above 0 and at most 1e.09, not '8,"),
     ("size_bytes,time_us\n-8,1\n", "line 2: size_bytes must be above 0 and at most"),
     ("size_bytes,time_us\n8,1,2\n", "line 2: size_bytes must be .* not '8,1,2'"),
     ("size_bytes,busbw\n8,1\n", "at least three sizes, below the header size_bytes,time_us"),
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
    with pytest.raises(ValueError, match=r"table.bin: must hold at least three sizes"):
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


def test_no_time_is_printed_that_nothing_is_stated_of():
    """Links alone would do 8 bytes in picoseconds."""
    for name, each in MACHINES.items():
        row = measure(name, "all_reduce", 1 << 12)
        cells = lines_of(name, "all_reduce", [row])[-1].split()
        assert row.is_timed is each.latency_is_stated
        assert (cells[5], cells[8]) == ("-", "-") or row.is_timed
        assert any("links alone" in line for line in lines_of(name, "all_reduce", [row])) is not (
            row.is_timed
        )
    assert [name for name, each in MACHINES.items() if each.latency_is_stated] == ["dgx-2-klenk"]


@pytest.mark.parametrize("start", [1e-9, 2.00049e-5, 0.0123456])
def test_no_time_is_below_the_start(start, capsys):
    arguments = ["machines", "dgx-h100", "--from", "8", "--to", "4096", "--factor", "8"]
    assert main([*arguments, "--start", str(start)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "#" not in line]
    assert len(rows) == 4
    for row in rows:
        assert min(float(row[5]), float(row[8])) >= start * 1e6
        assert float(row[9]) <= 100


def test_what_a_switch_sums_with_the_own_operand_rises_with_the_ranks():
    rates = {
        nodes: measure("dgx-h100", "all_reduce", 1 << 30, algorithm="pull", nodes=nodes).algbw
        for nodes in range(2, 9)
    }
    for nodes, rate in rates.items():
        assert rate == pytest.approx(450e9 / (1 + 1 / nodes), rel=0.03)
    assert sorted(rates.values()) == list(rates.values())
    # Of two and three ranks a ring sends no more.
    assert measure("dgx-h100", "all_reduce", 1 << 30, nodes=2).algorithm == "ring"


def test_a_machine_has_the_same_bound_in_a_row_and_in_a_description():
    size = 1 << 26
    for name, nodes in (("dgx-h100", 8), ("gb200-x4", 2), ("dgx-2-klenk", 16)):
        row = measure(name, "all_reduce", size, nodes=nodes)
        done = fw.run({
            "topology": {"machine": name, "nodes": nodes}, "algorithm": row.algorithm,
            "workload": {"collective": "all_reduce", "size_bytes": size}, "run": {"passes": 1},
        })
        (bound_s,), (percent,) = done.limits["bound_s"], done.limits["best_percent"]
        assert bound_s == pytest.approx(row.bound_s), name
        assert 97 < percent <= 100, name


def test_an_own_operand_that_stays_is_an_option_of_the_description():
    described = {
        "topology": {"machine": "dgx-h100"},
        "workload": {"collective": "all_reduce", "size_bytes": 1 << 24},
        "endpoint": {"kind": "in_switch"},
        "run": {"passes": 1},
    }
    stays = {**described, "endpoint": {"kind": "in_switch", "own_travels": False}}
    assert fw.run(described).time_s / fw.run(stays).time_s == pytest.approx(9 / 8, rel=0.02)
    wrong = {"kind": "in_switch", "mode": "push", "own_travels": True}
    topology = {"machine": "dgx-2-klenk"}
    with pytest.raises(ConfigError, match=r"endpoint.mode: must be 'pull' where own_travels"):
        fw.run({**described, "topology": topology, "endpoint": wrong})


@pytest.mark.parametrize(
    ("name", "nodes", "sizes"),
    [
        ("dgx-2", 12, [12]), ("dgx-2", 7, [7]), ("2x-p5", 16, [8, 2]), ("2x-p5", 5, [5]),
        ("tpu-v4-pod", 512, [16, 16, 2]), ("gb200-x8", 2, [2]),
    ],
)
def test_a_part_of_a_machine_fills_packages_one_after_the_other(name, nodes, sizes):
    part = machine(name, nodes)
    assert [each["size"] for each in part.dimensions] == sizes and part.nodes == nodes
    row = measure(name, "all_reduce", 1 << 28, nodes=nodes)
    assert 85 <= row.percent <= 100 * (1 + 1e-9)
    run = fw.run({
        "topology": {"machine": name, "nodes": nodes},
        "workload": {"collective": "all_reduce", "size_bytes": 1 << 20},
    })
    assert run.network.nodes == nodes


@pytest.mark.parametrize(
    ("name", "nodes", "what"),
    [
        ("dgx-2", 17, "nodes must be from 2 to 16, not 17"),
        ("dgx-2", 1, "nodes must be from 2 to 16, not 1"),
        ("dgx-2", 11, "nodes must be an even number above 8, not 11"),
        ("2x-p5", 12, "nodes must be a multiple of 8 above 8, not 12"),
    ],
)
def test_ranks_that_a_machine_has_not_are_refused(name, nodes, what, capsys):
    assert main(["machines", name, "--nodes", str(nodes)]) == 2
    assert what in capsys.readouterr().err
    key = what.replace("nodes", "topology.nodes:", 1)
    with pytest.raises(ConfigError, match=key):
        fw.run({
            "topology": {"machine": name, "nodes": nodes},
            "workload": {"collective": "all_reduce", "size_bytes": 1 << 20},
        })


@pytest.mark.parametrize("each", MEASURED, ids=lambda each: each.file)
def test_measured_tables_are_read_and_named_with_their_source(each):
    rows = read_table(each.path)
    assert len(rows) >= 4 and all(1e-6 < row.time_s < 1 for row in rows)
    assert each.file in (each.path.parent / "README.md").read_text(encoding="utf-8")
    assert machine(each.machine, each.nodes).nodes == each.nodes


def test_runs_at_full_bandwidth_stand_for_those_with_a_share():
    rows = [Measured(size, 1.0) for size in (1 << 12, 1 << 22, 1 << 26)]
    for nodes in (12, 16):
        times = model_of("dgx-2", "all_reduce", "ring", rows, nodes)
        calibration = Calibration(share=0.37, start=3e-5, step=2e-6)
        true = [
            measure(
                "dgx-2", "all_reduce", row.size_bytes, algorithm="ring", calibration=calibration,
                nodes=nodes,
            ).time_s
            for row in rows
        ]
        assert times(0.37, 3e-5, 2e-6) == pytest.approx(true, rel=1e-6)


def _bent(sizes):
    """Times that no start and no rate meet, as those of a library that changes protocols."""
    return [Measured(s, 3e-5 + s / 2e11 * (3 if s < 1 << 22 else 1)) for s in sizes]


def test_a_fit_is_as_near_as_the_best_of_many_outside_starts():
    rows = _bent([1 << n for n in (10, 16, 20, 23, 26)])
    found = fit("dgx-a100", "all_reduce", "ring", rows)
    times = model_of("dgx-a100", "all_reduce", "ring", rows)
    goal = np.array([row.time_s for row in rows])

    assert found.squares <= 1.05 * outside(times, goal, 1, starts=4)
    assert found.squares == pytest.approx(found.errors @ found.errors)
    slope, start = np.polyfit([r.size_bytes for r in rows], goal, 1, w=1 / goal)
    assert found.line == pytest.approx((start, slope), rel=1e-6)


@pytest.mark.parametrize(
    "times_us",
    [
        [1e9, 1e9, 1e9],  # a share near 0
        [1e-6, 1e-6, 1e-6],  # faster than the links
        [5.0, 4.0, 3.0],  # faster with size
        [1e-6, 1e9, 1e-6],
    ],
)
def test_no_table_makes_a_fit_fail(times_us, tmp_path, capsys):
    # Of the second one a latency is stated, so its fit goes on from the estimate.
    name = "dgx-2-klenk" if times_us[0] == times_us[1] else "dgx-a100"
    path = tmp_path / "table.csv"
    sizes = (1 << 10, 1 << 14, 1 << 18)
    rows = "".join(f"{size},{time}\n" for size, time in zip(sizes, times_us))
    path.write_text(f"# from nowhere\nsize_bytes,time_us\n{rows}", encoding="utf-8")
    assert main(["machines", name, "--algorithm", "ring", "--fit", str(path)]) == 0
    out = capsys.readouterr().out
    assert "a straight line: worst row" in out and "this model: worst row" in out
    values = [float(line.split(" = ")[1]) for line in out.splitlines() if " = " in line]
    assert 0 < values[0] <= 1 and min(values[1:]) >= 0 and all(map(np.isfinite, values))


def test_page_of_machines_has_every_option_and_shows_what_is_printed(capsys):
    page = (ROOT / "docs" / "reference" / "machines.md").read_text(encoding="utf-8")
    block = r"`foldwire (machines [^`]*)` prints\n\n```text\n(.*?)```"
    ((command, shown),) = re.findall(block, page, re.DOTALL)

    assert main(command.split()) == 0
    assert capsys.readouterr().out == shown
    options = {name for each in cli.commands["machines"].params for name in each.opts}
    assert not [name for name in options if name.startswith("--") and f"`{name}`" not in page]

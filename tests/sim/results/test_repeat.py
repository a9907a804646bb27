# SPDX-License-Identifier: Apache-2.0
"""A folder of results holds what it needs to be run again, wherever it is moved."""

import copy
import json
import shutil
import tomllib
from pathlib import Path

import pytest

from bench.repeat import differences
from foldwire.cli import main
from sim.describe.reader import ConfigError
from sim.opened import opening, recorded
from sim.results import repeat
from sim.results.store import load_run
from sim.run import run

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
RING = {
    "topology": {"kind": "ring", "shape": (4,), "bandwidth_bytes_per_s": 25e9},
    "workload": {"collective": "all_reduce", "size_bytes": 65536},
    "run": {"passes": 1},
}


def trained(folder, file):
    system = {key: RING[key] for key in ("topology", "run")}
    system["workload"] = {"file": file, "compute": {"flops_per_s": 1e14}}
    return run(system, source=str(folder / "system.toml"))


def test_changes_and_endpoint_are_in_the_description(tmp_path):
    done = run(RING, endpoint="ace", changes={"scheduler.chunk_bytes": 4096}, trace=True)

    assert differences(done, tmp_path) == []
    document = tomllib.loads((tmp_path / "moved" / "system.toml").read_text())
    assert document["endpoint"] == {"kind": "ace"} and document["run"]["trace"] is True
    assert document["scheduler"] == {"chunk_bytes": 4096}
    kept = load_run(tmp_path / "moved").origin
    assert kept["endpoint"] == "ace" and kept["changes"] == {"scheduler.chunk_bytes": 4096}
    assert kept["description"] == document and kept["versions"]["foldwire"]
    assert load_run(tmp_path / "moved").provenance["seed"] == 1


def test_another_seed_gives_other_results_and_is_repeated(tmp_path):
    system = copy.deepcopy(RING) | {"endpoint": {"kind": "ace", "preset": "test"}}
    system["topology"]["bandwidth_bytes_per_s"] = 16 * 1.245e9
    system["network"] = {"stall_probability": 0.3}
    system["endpoint"]["level"] = "cycles"
    system["workload"]["size_bytes"] = 4096
    times = set()
    for seed in (1, 2):
        done = run(system, changes={"run.seed": seed})
        assert differences(done, tmp_path / str(seed)) == []
        times.add(done.time_s)
    assert len(times) == 2


def test_a_description_that_is_changed_later_is_kept_as_it_ran(tmp_path):
    system = copy.deepcopy(RING)
    done = run(system)
    system["workload"]["size_bytes"] = 4

    assert differences(done, tmp_path) == []


def test_files_are_copied_with_their_places_relative_to_one_another(tmp_path):
    shutil.copytree(EXAMPLES.parent / "sim/workload/data/astra-sim-1.0", tmp_path / "data")
    source = (EXAMPLES / "astra_files.toml").read_text()
    source = source.replace("../sim/workload/data/astra-sim-1.0", "data")
    (tmp_path / "system.toml").write_text(source)

    done = run(tmp_path / "system.toml", changes={"run.passes": 1})
    saved = done.save(tmp_path / "run", figures=False)
    shutil.rmtree(tmp_path / "data")

    again = run((tmp_path / "run").rename(tmp_path / "elsewhere") / "system.toml")
    assert again.metrics == saved.metrics
    assert len(saved.origin["files"]) == 3
    # What was changed replaces what the files say, once more and with a line of its own.
    again = run(tmp_path / "elsewhere" / "system.toml", changes={"run.passes": 2})
    assert again.metrics["time_s"] > saved.metrics["time_s"]


def test_links_in_a_file_go_with_the_folder(tmp_path):
    links = tmp_path / "links.csv"
    links.write_text((EXAMPLES / "dragonfly.csv").read_text())
    system = RING | {"topology": {"kind": "links", "file": "links.csv"}}
    done = run(system, source=str(tmp_path / "system.toml"))

    assert differences(done, tmp_path / "runs") == []
    document = tomllib.loads((tmp_path / "runs" / "moved" / "system.toml").read_text())
    assert document["topology"]["file"] == "inputs/links.csv"


def test_traces_of_single_npus_are_found_by_their_prefix(tmp_path):
    for npu in range(4):
        shutil.copy(EXAMPLES / "traces" / "two_layers.et", tmp_path / f"layers.{npu}.et")

    assert differences(trained(tmp_path, "layers"), tmp_path / "out") == []


def test_large_files_stay_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(repeat, "MOST_COPIED_BYTES", 10)
    shutil.copy(EXAMPLES / "traces" / "two_layers.et", tmp_path / "a.et")

    assert differences(trained(tmp_path, "a.et"), tmp_path / "out") == []
    assert not (tmp_path / "out/moved/inputs").exists()


def test_value_that_toml_cannot_say_is_kept_for_python(tmp_path):
    saved = run(RING | {"scheduler": {"concurrency": None}}).save(tmp_path, figures=False)

    assert not (tmp_path / "system.toml").exists()
    assert saved.origin["without_toml"] == ["scheduler.concurrency"]
    assert run(load_run(tmp_path).origin["description"]).metrics == saved.metrics


def test_folder_is_not_complete_while_it_is_written_again(tmp_path, monkeypatch):
    done = run(RING)
    done.save(tmp_path, figures=False)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("sim.results.store.write_trace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        done.save(tmp_path, figures=False)
    with pytest.raises(ValueError, match=r"run\.json: cannot be read: No such file"):
        load_run(tmp_path)


def test_folders_of_before_are_read(tmp_path):
    saved = run(RING).save(tmp_path, figures=False)
    document = json.loads((tmp_path / "run.json").read_text())
    document["format"] = 2
    del document["origin"]
    (tmp_path / "run.json").write_text(json.dumps(document))

    old = load_run(tmp_path)
    assert old.metrics == saved.metrics and old.origin == {}


def test_command_repeats_a_folder_under_its_name(tmp_path, capsys):
    file = tmp_path / "my ring.toml"
    file.write_text((EXAMPLES / "failed_link.toml").read_text())

    assert main(["sim", str(file), "--set", "workload.size_bytes=4096", "-o", str(tmp_path)]) == 0
    (first,) = tmp_path.glob("my ring-*")
    command = load_run(first).origin["command"]
    assert command == f"foldwire sim '{file}' --set workload.size_bytes=4096"
    for output, name in ((tmp_path / "out", first.name), (tmp_path, f"{first.name}-again")):
        assert main(["sim", str(first / "system.toml"), "-o", str(output)]) == 0
        assert load_run(output / name).metrics == load_run(first).metrics
    assert load_run(first).origin["command"] == command
    capsys.readouterr()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("changes = 3", "a.toml:1: changes: must be a table, [changes], not 3"),
        ('[changes]\n"run.pases" = 1', "a.toml:2: changes.run.pases: unknown key; did you mean"),
        (
            '[changes]\n"run.passes.x" = 1\n"run.passes" = 1',
            "a.toml:2: run.passes.x: 'x' lies in 1, which is no table",
        ),
    ],
)
def test_wrong_changes_in_a_file_name_their_line(tmp_path, changes, message):
    file = tmp_path / "a.toml"
    rest = '\n[run]\npasses = 1\n[topology]\nkind = "ring"\nshape = [4]\n'
    file.write_text(f'{changes}{rest}[workload]\ncollective = "all_reduce"\nsize_bytes = 64\n')

    with pytest.raises(ConfigError) as error:
        run(file)
    assert message in str(error.value)


def test_files_that_are_opened_are_noted_by_outer_readers_too(tmp_path):
    (tmp_path / "a").write_text("x")
    with recorded() as outer:
        with recorded() as inner:
            opening(tmp_path / "a")
    assert outer == inner != {}


def test_a_run_of_a_folder_can_be_saved_to_the_same_folder(tmp_path):
    links = tmp_path / "links.csv"
    links.write_text((EXAMPLES / "dragonfly.csv").read_text())
    system = RING | {"topology": {"kind": "links", "file": "links.csv"}}
    folder = tmp_path / "runs"
    first = run(system, source=str(tmp_path / "system.toml")).save(folder, figures=False)

    again = run(folder / "system.toml").save(folder, figures=False)

    assert again.metrics == first.metrics
    assert (folder / "inputs" / "links.csv").read_text() == links.read_text()
    assert not list(folder.glob(".inputs*"))

# SPDX-License-Identifier: Apache-2.0
"""``--endpoint KIND`` works on any file, and notes advise nothing that the next run refuses."""

from pathlib import Path

import pytest

from sim.describe.reader import ConfigError
from sim.run import run

EXAMPLES = sorted(Path(__file__).parents[3].glob("examples/*.toml"))
GPT = {
    "topology": {"kind": "torus", "shape": [4, 2]},
    "endpoint": {"kind": "ace", "fsms": 4, "sram_bytes": 2 << 20, "message_bytes": 8192},
    "workload": {"generator": "mlp", "sizes": [256, 256, 256], "batch": 8},
    "run": {"passes": 1},
}
SMALL = {"run.passes": 1}


@pytest.mark.parametrize(
    "name", ["ring.toml", "ring_with_stalls.toml", "training_rtl.toml", "collective.toml",
             "in_switch_cycles.toml", "straggler.toml", "training_torus.toml"],
)
def test_a_file_runs_with_the_ideal_endpoint(name):
    (path,) = [each for each in EXAMPLES if each.name == name]
    done = run(path, endpoint="ideal", changes=SMALL)

    assert (done.description.kind, done.level) == ("ideal", "events")
    assert done.time_s > 0


def test_what_means_nothing_is_left_out_and_named():
    """Keys of another kind were refused at their line of the file, which was right."""
    done = run(GPT, endpoint="ideal")
    alone = run({**GPT, "endpoint": {"kind": "ideal", "message_bytes": 8192}})

    assert done.record.notes[-1] == (
        "left out, without meaning for ideal: endpoint.fsms, endpoint.sram_bytes"
    )
    assert done.time_s == alone.time_s
    assert not any("left out" in note for note in run(GPT, endpoint="ace").record.notes)
    with pytest.raises(ConfigError, match=r"endpoint.fsms: unknown key"):
        run(GPT, changes={"endpoint.kind": "ideal"})  # the change of one key is that of one key
    stated = run(GPT, endpoint="ideal", changes={"endpoint.message_bytes": 4096})
    assert stated.description.endpoint.message_bytes == 4096


def test_another_engine_takes_its_own_preset():
    ring = {
        "topology": {"kind": "ring", "shape": [4], "bandwidth_bytes_per_s": 5e9},
        "endpoint": {"kind": "ace", "preset": "duo", "fsms": 1, "level": "cycles"},
        "memory": {"stall_probability": 0.1},
        "workload": {"collective": "all_reduce", "size_bytes": 4096},
    }
    done = run(ring, endpoint="smartnic")

    assert done.level == "events" and done.description.engine is None
    assert done.record.notes[-1] == (
        "left out, without meaning for smartnic: endpoint.preset, endpoint.fsms, endpoint.level, "
        "memory"
    )


@pytest.mark.parametrize(
    ("topology", "text"),
    [
        ({"kind": "ring", "shape": [4], "bandwidth_bytes_per_s": 5e9},
         'endpoint.level = "cycles" counts the cycles'),
        ({"kind": "torus", "shape": [2, 2], "bandwidth_bytes_per_s": 5e9},
         "there is no count of the cycles: system: endpoint.ports: at level 'cycles', must be at"),
    ],
    ids=["ring", "torus"],
)
def test_a_note_advises_what_the_next_run_does(topology, text):
    base = {
        "topology": topology,
        "endpoint": {"kind": "ace", "preset": "test"},
        "workload": {"collective": "all_reduce", "size_bytes": 4096},
        "run": {"passes": 1},
    }
    (note,) = [each for each in run(base).record.notes if "an estimate" in each]
    assert note.startswith(f"preset test as events: an estimate; {text}")
    if "no count" in text:
        with pytest.raises(ConfigError) as refused:
            run(base, changes={"endpoint.level": "cycles"})
        assert str(refused.value) in note
    else:
        assert run(base, changes={"endpoint.level": "cycles"}).level == "cycles"


def test_what_the_endpoint_leaves_to_training_is_said():
    """With a preset it leaves less: the same FSMs and SRAM, and computations that take longer."""
    by_kind, by_preset = run(GPT), run(
        {**GPT, "endpoint": {"kind": "ace", "preset": "isca21", "fsms": 4}}
    )
    notes = [
        next(note for note in done.record.notes if note.startswith("training has"))
        for done in (by_kind, by_preset)
    ]

    before, behind = "training has 100 % of the compute units and", "modelled computations differ"
    assert notes == [
        f"{before} {memory} of 900 GB/s of memory, by {by}; {behind} with it"
        for memory, by in (
            ("772", "the parameters of endpoint kind ace, without a preset"),
            ("740.6", "preset isca21, whose memory ports take all that they can"),
        )
    ]
    assert by_preset.metrics["compute_s"] > by_kind.metrics["compute_s"]
    assert not any("training has" in note for note in run(GPT, endpoint="ideal").record.notes)

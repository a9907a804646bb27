# SPDX-License-Identifier: Apache-2.0
"""The examples of training on a torus of RTL: data that are numpy's, times of the other levels."""

import tomllib
from pathlib import Path

import pytest

from sim.run import run

EXAMPLES = Path(__file__).parents[3] / "examples"


def example(name, **tables):
    """A description, with the workload where it lies; *tables* replace keys."""
    made = tomllib.loads((EXAMPLES / f"{name}.toml").read_text())
    made["workload"]["file"] = str(EXAMPLES / made["workload"]["file"])
    for section, keys in tables.items():
        made[section] |= keys
    return made


def test_one_model_stands_for_all_in_a_job():
    whole, folded = (
        run(example("torus_rtl", endpoint={"level": "cycles"}, run={"fold": fold}))
        for fold in ("off", "on")
    )
    assert folded.time_s == whole.time_s
    larger = run(example("torus_folded", endpoint={"level": "cycles"}))
    assert larger.time_s > whole.time_s


@pytest.mark.full
def test_a_job_on_a_torus_of_rtl_takes_the_time_of_the_model_and_of_one_engine():
    rtl = run(example("torus_rtl"))
    assert rtl.data.exact and rtl.data.results == 3 * 8
    cycles = run(example("torus_rtl", endpoint={"level": "cycles"}))
    assert cycles.time_s == pytest.approx(rtl.time_s, rel=0.02)
    folded = run(example("torus_rtl", run={"fold": "on"}))
    assert folded.data.exact and folded.time_s == rtl.time_s


@pytest.mark.full
def test_one_engine_stands_for_64_in_a_job():
    rtl = run(example("torus_folded"))
    assert rtl.data.exact and rtl.data.results == 3
    models = run(example("torus_folded", endpoint={"level": "cycles"}))
    assert models.time_s == pytest.approx(rtl.time_s, rel=0.02)


@pytest.mark.full
def test_one_node_of_rtl_among_63_models():
    mixed = run(example("torus_mixed"))
    assert mixed.data.exact and mixed.engines.packets > 0
    made = example("torus_mixed")
    del made["endpoint"]["on"]
    assert mixed.time_s == pytest.approx(run(made).time_s, rel=0.02)

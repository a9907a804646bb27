# SPDX-License-Identifier: Apache-2.0
"""Training through the NIC's golden all-reduce: formats, agreement of the workers, and RTL."""

import numpy as np
import pytest

from sim.hosts.surroundings import Surroundings
from sim.learning.accuracy import (
    error_table,
    golden_all_reduce,
    nic_config,
    study,
    study_table,
)
from sim.learning.datasets import load_digits, load_tumours
from sim.learning.figures import study_figure
from sim.learning.training import train
from sim.rtl.smartnic.ring import NicRing

STEPS = 40


@pytest.fixture(scope="module")
def results():
    codecs = ("none", "bfp16", "16e8m2")
    return {each.codec: each for each in study(load_digits, codecs, steps=STEPS, seeds=(0, 1))}


def test_training_with_bfp16_ends_where_training_with_binary32_does(results):
    plain, bfp16 = results["none"], results["bfp16"]
    assert plain.accuracy > 0.85
    assert abs(plain.accuracy - bfp16.accuracy) < 0.01
    assert np.abs(plain.losses - bfp16.losses).max() < 0.02


def test_two_bits_per_element_leave_their_mark_on_the_losses(results):
    plain, coarse = results["none"], results["16e8m2"]
    assert coarse.losses[:, -10:].mean() > 1.05 * plain.losses[:, -10:].mean()


def test_formats_start_from_the_same_weights_and_then_differ(results):
    first = [each.losses[:, 0] for each in results.values()]
    assert (first[0] == first[1]).all()
    assert (results["none"].losses[:, 1:] != results["bfp16"].losses[:, 1:]).any()


def test_all_workers_hold_the_same_bits_in_every_format(results):
    assert not any(each.diverged for each in results.values())


def test_a_table_has_a_row_per_format_and_drops_against_the_first(results):
    table = study_table("digits", list(results.values()))
    assert [row[0] for row in table.rows] == ["binary32", "bfp16", "16e8m2"]
    names = [column.name for column in table.columns]
    drop = table.rows[2][names.index("drop_percent")]
    wanted = 100 * (results["none"].accuracy - results["16e8m2"].accuracy)
    assert drop == pytest.approx(wanted)
    assert table.rows[0][names.index("drop_percent")] == 0


def test_a_figure_names_every_format(results, tmp_path):
    study_figure(tmp_path / "study.svg", list(results.values()), title="digits")
    text = (tmp_path / "study.svg").read_text()
    assert all(f">{name}<" in text for name in ("binary32", "bfp16", "16e8m2"))


def test_a_figure_of_nothing_is_refused(tmp_path):
    with pytest.raises(ValueError, match="results must hold at least one format"):
        study_figure(tmp_path / "study.svg", [], title="nothing")


def test_binary32_all_reduce_is_the_mean_within_rounding():
    vectors = [np.random.default_rng(rank).standard_normal(100, np.float32) for rank in range(6)]
    (total, *others) = golden_all_reduce(nic_config("none"))(vectors)
    assert len(others) == 5
    assert np.allclose(total, np.sum(vectors, axis=0, dtype=np.float64), rtol=1e-5, atol=1e-6)


def test_errors_grow_with_the_number_of_hops_and_with_shorter_elements():
    def vectors(nodes: int) -> list[np.ndarray]:
        rng = np.random.default_rng(3)
        return [rng.standard_normal(4096, np.float32) for _ in range(nodes)]

    none, bfp16, bfp12 = error_table(vectors, ("none", "bfp16", "bfp12"), nodes=(2, 32)).rows
    assert none[1] < 1e-4
    assert 0.1 < bfp16[1] < bfp16[2] < bfp12[2]
    # Four bits less are rounded 16 times as coarsely.
    assert bfp12[1] / bfp16[1] == pytest.approx(16, rel=0.1)


def test_tumours_are_standardised_by_the_part_that_is_trained_on():
    data = load_tumours(seed=1)
    assert len(data.train_x) + len(data.test_x) == 569
    assert (data.features, data.classes) == (30, 2)
    assert np.allclose(data.train_x.mean(axis=0), 0, atol=1e-4)
    assert np.allclose(data.train_x.std(axis=0), 1, atol=1e-4)
    assert set(data.test_y) == {0, 1}


def test_training_through_rtl_gives_the_bits_of_the_golden_model():
    config = nic_config("bfp16", base="test")
    ring = NicRing(config, Surroundings(nodes=3, memory_bytes=1 << 15))

    def by_rtl(vectors):
        return ring.all_reduce(vectors, compress=True)

    digits = load_digits()
    rtl = train(by_rtl, digits, workers=3, steps=3)
    model = train(golden_all_reduce(config), digits, workers=3, steps=3)
    assert rtl.losses == model.losses
    assert rtl.diverged_at is None
    for ours, theirs in zip(rtl.weights, model.weights, strict=True):
        assert np.array_equal(ours.view(np.uint32), theirs.view(np.uint32))

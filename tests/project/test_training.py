# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from sim.learning.datasets import DATA_SETS, Dataset, load_digits
from sim.learning.training import _loss_and_gradient, gradient_size, train, weight_shapes

DIGITS = load_digits()


def in_rank_order(vectors):
    total = vectors[0]
    for vector in vectors[1:]:
        total = total + vector
    return [total.copy() for _ in vectors]


def test_workers_agree_and_the_network_learns():
    run = train(in_rank_order, DIGITS, steps=60)

    assert run.diverged_at is None
    assert run.accuracy > 0.9
    assert run.losses[-1] < run.losses[0] / 5


def test_training_is_repeatable_bit_for_bit():
    first, second = (train(in_rank_order, DIGITS, steps=20) for _ in range(2))

    assert first.losses == second.losses
    assert all(np.array_equal(a, b) for a, b in zip(first.weights, second.weights, strict=True))


def test_one_wrong_bit_at_one_worker_is_noticed():
    calls = []

    def flips_a_bit(vectors):
        sums = in_rank_order(vectors)
        calls.append(len(vectors))
        if len(calls) == 3:
            sums[2].view(np.uint32)[1000] ^= 1
        return sums

    run = train(flips_a_bit, DIGITS, steps=5)

    assert run.diverged_at == 2


def test_another_order_of_additions_gives_other_bits():
    def reversed_order(vectors):
        return in_rank_order(vectors[::-1])

    forward, backward = (train(each, DIGITS, steps=20) for each in (in_rank_order, reversed_order))

    assert not np.array_equal(forward.weights[0], backward.weights[0])


def test_gradient_is_the_derivative_of_the_loss():
    gradients = []

    def spy(vectors):
        gradients.append(vectors[0].copy())
        return [np.zeros_like(vector) for vector in vectors]

    run = train(spy, DIGITS, steps=1)

    weights, random = run.weights[0].astype(np.float64), np.random.default_rng(1)
    x, y = DIGITS.train_x[:64].astype(np.float64), DIGITS.train_y[:64]
    shapes = weight_shapes(DIGITS)
    _, gradient = _loss_and_gradient(weights, shapes, x, y)
    for index in random.choice(gradient_size(DIGITS), 25, replace=False):
        step = np.zeros_like(weights)
        step[index] = 1e-6
        above, _ = _loss_and_gradient(weights + step, shapes, x, y)
        below, _ = _loss_and_gradient(weights - step, shapes, x, y)
        assert gradient[index] == pytest.approx((above - below) / 2e-6, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": 1}, "workers must be at least 2, not 1"),
        ({"steps": 0}, "steps must be at least 1, not 0"),
        ({"batch": 10_000}, "batch must be 1 .. 359"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        train(in_rank_order, DIGITS, **arguments)


def test_result_of_the_wrong_kind_is_refused():
    with pytest.raises(ValueError, match="must return 4 vectors, not 3"):
        train(lambda vectors: vectors[:3], DIGITS, steps=1)
    with pytest.raises(ValueError, match="must return float32 vectors of 2410 elements"):
        train(lambda vectors: [v.astype(np.float64) for v in vectors], DIGITS, steps=1)


def test_the_network_has_the_shape_of_the_data():
    sizes = {"digits": 64 * 32 + 32 + 32 * 10 + 10, "tumours": 30 * 32 + 32 + 32 * 2 + 2}
    assert {name: gradient_size(load()) for name, load in DATA_SETS.items()} == sizes


def test_own_data_train():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((400, 5), np.float32)
    y = (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0)
    data = Dataset(train_x=x[:320], train_y=y[:320], test_x=x[320:], test_y=y[320:])

    assert (data.features, data.classes) == (5, 3)
    assert train(in_rank_order, data, workers=2, steps=80).accuracy > 0.8


def test_data_of_the_wrong_shape_are_refused():
    x, y = np.zeros((4, 2), np.float32), np.zeros(3, np.int64)
    with pytest.raises(ValueError, match=r"train_y must be one class per row of train_x"):
        Dataset(train_x=x, train_y=y, test_x=x, test_y=y)
    with pytest.raises(TypeError, match="data must be a Dataset, not function"):
        train(in_rank_order, load_digits)

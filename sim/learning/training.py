"""Data-parallel training of a small network on real data, with an all-reduce that is handed in.

Every worker holds its own copy of the weights and its own shard of the handwritten digits that
scikit-learn ships. In each step it computes the gradients of its batch, flattened to one float32
vector; the vectors go through `all_reduce`, and every worker applies the sum that it got back.
Nothing else connects the workers, so their weights stay equal only if every one of them receives
the same bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["AllReduce", "Digits", "TrainingRun", "gradient_size", "load_digits", "train"]

Floats: TypeAlias = npt.NDArray[np.float32]
AllReduce: TypeAlias = Callable[[list[Floats]], list[Floats]]
"""Takes one vector per worker; gives back to each worker the sum of all."""

HIDDEN = 32
CLASSES = 10
PIXELS = 64
SHAPES = ((PIXELS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,))
LEARNING_RATE = 0.2
MOMENTUM = 0.9


@dataclass(frozen=True, kw_only=True)
class Digits:
    """The data set: 8 x 8 pixels scaled to 0 .. 1, and the digit that they show."""

    train_x: Floats
    train_y: npt.NDArray[np.int64]
    test_x: Floats
    test_y: npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """What a training run produced.

    Parameters
    ----------
    losses
        Mean loss over all workers, one per step.
    weights
        The final weights of each worker, flattened.
    diverged_at
        First step in which two workers got sums, or ended with weights, that differ in any bit;
        None if none did.
    accuracy
        Share of the test images that worker 0 classifies correctly.
    """

    losses: tuple[float, ...]
    weights: tuple[Floats, ...]
    diverged_at: int | None
    accuracy: float


def gradient_size() -> int:
    """Elements of the vector that each worker hands to the all-reduce."""
    return sum(int(np.prod(shape)) for shape in SHAPES)


def load_digits(*, test_share: float = 0.2, seed: int = 0) -> Digits:
    """The 1 797 digits of scikit-learn, shuffled and split."""
    try:
        from sklearn.datasets import load_digits as sklearn_digits
    except ImportError as error:
        raise ValueError(
            "the training demo needs scikit-learn; please run: pip install 'foldwire[demo]'"
        ) from error
    images, labels = sklearn_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    x = (images[order] / 16).astype(np.float32)
    y = labels[order].astype(np.int64)
    cut = round(len(x) * (1 - test_share))
    return Digits(train_x=x[:cut], train_y=y[:cut], test_x=x[cut:], test_y=y[cut:])


def train(
    all_reduce: AllReduce,
    digits: Digits,
    *,
    workers: int = 4,
    steps: int = 120,
    batch: int = 32,
    seed: int = 0,
    on_step: Callable[[int], None] = lambda step: None,
) -> TrainingRun:
    """Train on *workers* shards for *steps* steps of *batch* images each.

    `on_step` is called after every step with the number of steps done.
    """
    if workers < 2:
        raise ValueError(f"workers must be at least 2, not {workers!r}")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps!r}")

    random = np.random.default_rng(seed)
    start = _initial_weights(random)
    shards = [slice(rank, None, workers) for rank in range(workers)]
    smallest = min(len(digits.train_x[shard]) for shard in shards)
    if not 1 <= batch <= smallest:
        raise ValueError(f"batch must be 1 .. {smallest} (a worker's shard), not {batch!r}")

    weights = [start.copy() for _ in range(workers)]
    velocity = [np.zeros_like(start) for _ in range(workers)]
    losses: list[float] = []
    diverged_at = None
    order = random.permutation(smallest)
    cursor = 0
    for step in range(steps):
        if cursor + batch > smallest:
            order = random.permutation(smallest)
            cursor = 0
        chosen = order[cursor : cursor + batch]
        cursor += batch

        results = [
            _loss_and_gradient(
                weights[rank], digits.train_x[shard][chosen], digits.train_y[shard][chosen]
            )
            for rank, shard in enumerate(shards)
        ]
        sums = all_reduce([gradient for _, gradient in results])
        _check_sums(sums, workers, start.size)
        for rank in range(workers):
            mean = sums[rank] * np.float32(1 / workers)
            velocity[rank] = np.float32(MOMENTUM) * velocity[rank] + mean
            weights[rank] = weights[rank] - np.float32(LEARNING_RATE) * velocity[rank]
        losses.append(float(np.mean([loss for loss, _ in results])))
        # The sums too: rounding in the update may hide a wrong bit from the weights.
        if diverged_at is None and not (_identical(sums) and _identical(weights)):
            diverged_at = step
        on_step(step + 1)

    return TrainingRun(
        losses=tuple(losses),
        weights=tuple(weights),
        diverged_at=diverged_at,
        accuracy=_accuracy(weights[0], digits.test_x, digits.test_y),
    )


def _initial_weights(random: np.random.Generator) -> Floats:
    parts = []
    for shape in SHAPES:
        if len(shape) == 2:
            scale = np.sqrt(2 / shape[0])
            parts.append((random.standard_normal(shape) * scale).astype(np.float32).ravel())
        else:
            parts.append(np.zeros(shape, np.float32))
    return np.concatenate(parts)


def _unflatten(vector: Floats) -> list[Floats]:
    parts = []
    first = 0
    for shape in SHAPES:
        size = int(np.prod(shape))
        parts.append(vector[first : first + size].reshape(shape))
        first += size
    return parts


def _loss_and_gradient(
    weights: Floats, x: Floats, y: npt.NDArray[np.int64]
) -> tuple[float, Floats]:
    w1, b1, w2, b2 = _unflatten(weights)
    hidden = np.maximum(x @ w1 + b1, np.float32(0))
    scores = hidden @ w2 + b2
    scores -= scores.max(axis=1, keepdims=True)
    exponentials = np.exp(scores)
    probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
    rows = np.arange(len(y))
    loss = float(-np.log(probabilities[rows, y]).mean())

    # Softmax and cross-entropy together: probability minus one at the true class.
    d_scores = probabilities
    d_scores[rows, y] -= np.float32(1)
    d_scores /= np.float32(len(y))
    d_hidden = (d_scores @ w2.T) * (hidden > 0)
    parts = (x.T @ d_hidden, d_hidden.sum(axis=0), hidden.T @ d_scores, d_scores.sum(axis=0))
    return loss, np.concatenate([part.astype(np.float32).ravel() for part in parts])


def _check_sums(sums: Sequence[Floats], workers: int, size: int) -> None:
    if len(sums) != workers:
        raise ValueError(f"all_reduce must return {workers} vectors, not {len(sums)}")
    for each in sums:
        if each.shape != (size,) or each.dtype != np.float32:
            raise ValueError(
                f"all_reduce must return float32 vectors of {size} elements, "
                f"not {each.dtype} of shape {each.shape}"
            )


def _identical(vectors: Sequence[Floats]) -> bool:
    # Bits, not values: -0 == +0 and NaN != NaN would mislead.
    first = vectors[0].view(np.uint32)
    return all(np.array_equal(first, each.view(np.uint32)) for each in vectors[1:])


def _accuracy(weights: Floats, x: Floats, y: npt.NDArray[np.int64]) -> float:
    w1, b1, w2, b2 = _unflatten(weights)
    scores = np.maximum(x @ w1 + b1, np.float32(0)) @ w2 + b2
    return float((scores.argmax(axis=1) == y).mean())

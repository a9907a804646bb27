# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training of a small network on real data, with an all-reduce that is handed in.

Every worker holds its own copy of the weights and its own shard of the data. In each step it
computes the gradients of its batch, flattened to one float32 vector; the vectors go through
`all_reduce`, and every worker applies the sum that it got back. Nothing else connects the workers,
so their weights stay equal only if every one of them receives the same bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gen.arguments import typed
from gen.brief import Brief
from sim.fields import FieldError, check_type
from sim.learning.datasets import Dataset, Floats

__all__ = ["AllReduce", "TrainingRun", "gradient_size", "train", "weight_shapes"]

AllReduce: TypeAlias = Callable[[list[Floats]], list[Floats]]
"""Takes one vector per worker; gives back to each worker the sum of all."""

Shapes: TypeAlias = tuple[tuple[int, ...], ...]

HIDDEN = 32
MOST_STEPS = 10**9
LEARNING_RATE = 0.2
MOMENTUM = 0.9


@dataclass(frozen=True, kw_only=True, repr=False)
class TrainingRun(Brief):
    """Result of a training run.

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
        Share of the test samples that worker 0 classifies correctly.
    """

    losses: tuple[float, ...]
    weights: tuple[Floats, ...]
    diverged_at: int | None
    accuracy: float


def gradient_size(data: Dataset) -> int:
    """Elements of the vector that each worker hands to the all-reduce."""
    return sum(prod(shape) for shape in weight_shapes(data))


def weight_shapes(data: Dataset) -> Shapes:
    """Weights and biases of the hidden layer, then of the output."""
    return (data.features, HIDDEN), (HIDDEN,), (HIDDEN, data.classes), (data.classes,)


@typed("all_reduce", "data", least={"seed": 0}, most={"steps": MOST_STEPS})
def train(
    all_reduce: AllReduce,
    data: Dataset,
    *,
    workers: int = 4,
    steps: int = 120,
    batch: int = 32,
    seed: int = 0,
    on_step: Callable[[int], None] = lambda step: None,
) -> TrainingRun:
    """Train on *workers* shards for *steps* steps of *batch* samples each.

    `on_step` is called after every step with the number of steps done.
    """
    check_type("all_reduce", all_reduce, "callable with a list of vectors", callable(all_reduce))
    check_type("data", data, "a Dataset", isinstance(data, Dataset))
    if workers < 2:
        raise FieldError("workers", f"must be at least 2, not {workers!r}")
    if steps < 1:
        raise FieldError("steps", f"must be at least 1, not {steps!r}")

    random = np.random.default_rng(seed)
    shapes = weight_shapes(data)
    start = _initial_weights(random, shapes)
    shards = [slice(rank, None, workers) for rank in range(workers)]
    smallest = min(len(data.train_x[shard]) for shard in shards)
    if not 1 <= batch <= smallest:
        raise FieldError("batch", f"must be 1 .. {smallest} (a worker's shard), not {batch!r}")

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
                weights[rank], shapes, data.train_x[shard][chosen], data.train_y[shard][chosen]
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
        accuracy=_accuracy(weights[0], shapes, data.test_x, data.test_y),
    )


def _initial_weights(random: np.random.Generator, shapes: Shapes) -> Floats:
    parts = []
    for shape in shapes:
        if len(shape) == 2:
            scale = np.sqrt(2 / shape[0])
            parts.append((random.standard_normal(shape) * scale).astype(np.float32).ravel())
        else:
            parts.append(np.zeros(shape, np.float32))
    return np.concatenate(parts)


def _unflatten(vector: Floats, shapes: Shapes) -> list[Floats]:
    parts = []
    first = 0
    for shape in shapes:
        size = prod(shape)
        parts.append(vector[first : first + size].reshape(shape))
        first += size
    return parts


def _loss_and_gradient(
    weights: Floats, shapes: Shapes, x: Floats, y: npt.NDArray[np.int64]
) -> tuple[float, Floats]:
    w1, b1, w2, b2 = _unflatten(weights, shapes)
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
        raise FieldError("all_reduce", f"must return {workers} vectors, not {len(sums)}")
    for each in sums:
        if each.shape != (size,) or each.dtype != np.float32:
            raise FieldError(
                "all_reduce", f"must return float32 vectors of {size} elements, "
                f"not {each.dtype} of shape {each.shape}"
            )


def _identical(vectors: Sequence[Floats]) -> bool:
    # Bits, not values: -0 == +0 and NaN != NaN would mislead.
    first = vectors[0].view(np.uint32)
    return all(np.array_equal(first, each.view(np.uint32)) for each in vectors[1:])


def _accuracy(weights: Floats, shapes: Shapes, x: Floats, y: npt.NDArray[np.int64]) -> float:
    w1, b1, w2, b2 = _unflatten(weights, shapes)
    scores = np.maximum(x @ w1 + b1, np.float32(0)) @ w2 + b2
    return float((scores.argmax(axis=1) == y).mean())

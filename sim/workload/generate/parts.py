# SPDX-License-Identifier: Apache-2.0
"""Layers that several models share."""

from sim.fields import FieldError
from sim.workload.graph import CollectiveKind
from sim.workload.model import LayerPass, ModelLayer
from sim.workload.work import Gemm, Work

__all__ = ["checked", "dense", "gradient_pass", "summed", "update_bytes"]


MOST_LAYERS = 100_000
"""Each is a row of the table, and tasks of the job."""


def checked(**sizes: int) -> None:
    """FieldError, with name and value, unless all *sizes* are whole numbers of at least 1; those of
    layers at most `MOST_LAYERS`."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise FieldError(name, f"must be a whole number of at least 1, not {size!r}")
        if name.endswith("layers") and size > MOST_LAYERS:
            raise FieldError(name, f"must be at most {MOST_LAYERS}, not {size!r}")


def update_bytes(parameters: int, dtype_bytes: int) -> int:
    """Traffic of plain gradient descent: read weight and gradient, write the weight."""
    return 3 * parameters * dtype_bytes


def summed(work: Work, size_bytes: int) -> LayerPass:
    """*work*, then an all-reduce of *size_bytes* unless that is 0."""
    kind = CollectiveKind.ALL_REDUCE if size_bytes else None
    return LayerPass(work=work, collective=kind, size_bytes=size_bytes)


def gradient_pass(work: Work, parameters: int, dtype_bytes: int) -> LayerPass:
    """A weight gradient that replicas sum."""
    return summed(work, parameters * dtype_bytes)


def dense(
    name: str,
    gemm: Gemm,
    *,
    dtype_bytes: int,
    bias: bool = True,
    first: bool = False,
    own_weights: bool = True,
    more_parameters: int = 0,
    forward_sum: int = 0,
    gradient_sum: int = 0,
    beside: Work | None = None,
) -> ModelLayer:
    """A fully connected layer Y = X W, its weights k x n.

    Parameters
    ----------
    first
        There is nothing below it, so no input gradient is computed.
    own_weights
        False: the weights belong to another layer, which communicates their gradient.
    more_parameters
        Parameters of parts that go with the layer, such as a normalisation.
    forward_sum, gradient_sum
        Elements that are all-reduced after the forward pass and after the input gradient.
    beside
        Work of the forward pass beside the product; the backward pass takes it twice, once with
        each gradient.
    """
    parameters = more_parameters
    if own_weights:
        parameters += (gemm.k + (1 if bias else 0)) * gemm.n
    traffic = gemm.elements() * dtype_bytes

    def work(product: Gemm) -> Work:
        return Work(gemms=(product,), memory_bytes=traffic) + (beside or Work())

    return ModelLayer(
        name=name,
        parameters=parameters,
        forward=summed(work(gemm), forward_sum * dtype_bytes),
        input_gradient=LayerPass()
        if first
        else summed(work(gemm.input_gradient()), gradient_sum * dtype_bytes),
        weight_gradient=gradient_pass(work(gemm.weight_gradient()), parameters, dtype_bytes),
        update_bytes=update_bytes(parameters, dtype_bytes),
    )

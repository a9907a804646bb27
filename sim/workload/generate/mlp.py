# SPDX-License-Identifier: Apache-2.0
"""A multilayer perceptron, data parallel or split over NPUs."""

from collections.abc import Sequence
from itertools import pairwise

from sim.fields import FieldError
from sim.workload.generate.parts import checked, dense
from sim.workload.model import ModelTable
from sim.workload.training import Parallelism
from sim.workload.work import Gemm

__all__ = ["generate"]


def generate(
    *,
    sizes: Sequence[int] = (1024, 4096, 4096, 1024),
    batch: int = 32,
    dtype_bytes: int = 2,
    model_parallel_npus: int = 1,
) -> ModelTable:
    """Fully connected layers from ``sizes[0]`` inputs to ``sizes[-1]`` outputs.

    With *model_parallel_npus* above 1, layers alternate between weights split by columns and by
    rows, so that activations are summed after every second layer and gradients before (Megatron).
    """
    checked(batch=batch, dtype_bytes=dtype_bytes, model_parallel_npus=model_parallel_npus)
    if len(sizes) < 2 or any(size < 1 for size in sizes):
        raise FieldError("sizes", f"must hold two or more sizes of at least 1, not {list(sizes)}")
    for size in sizes[1:-1:2]:
        if size % model_parallel_npus:
            raise FieldError(
                "model_parallel_npus", f"must divide every second of sizes, {list(sizes[1:-1:2])}, "
                f"not {model_parallel_npus!r}"
            )
    split = model_parallel_npus > 1
    if split and len(sizes) % 2 == 0:
        raise FieldError(
            "sizes",
            f"must give an even number of layers to be split over NPUs, not {len(sizes) - 1}"
        )
    layers = []
    for number, (k, n) in enumerate(pairwise(sizes)):
        columns = number % 2 == 0
        gemm = Gemm(
            m=batch,
            n=n // model_parallel_npus if columns else n,
            k=k if columns else k // model_parallel_npus,
        )
        layers.append(
            dense(
                f"fc{number}",
                gemm,
                dtype_bytes=dtype_bytes,
                first=number == 0,
                forward_sum=batch * n if split and not columns else 0,
                gradient_sum=batch * k if split and columns and number else 0,
            )
        )
    scheme = Parallelism(keyword="DATA")
    if split:
        scheme = Parallelism(keyword="HYBRID_TRANSFORMER", model_parallel_npus=model_parallel_npus)
    return ModelTable(
        name="mlp",
        layers=tuple(layers),
        parallelism=scheme,
        batch=batch,
        dtype_bytes=dtype_bytes,
    )

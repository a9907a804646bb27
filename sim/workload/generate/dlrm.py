# SPDX-License-Identifier: Apache-2.0
"""Deep learning recommendation model (Naumov et al., arXiv 1906.00091), hybrid parallel.

Embedding tables are spread over the NPUs; each looks up the rows of its tables for the samples of
everyone, and an all-to-all brings every NPU the vectors of its own samples. The MLPs are data
parallel.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sim.fields import FieldError
from sim.workload.generate.parts import checked, dense
from sim.workload.graph import CollectiveKind
from sim.workload.model import LayerPass, ModelLayer, ModelTable
from sim.workload.training import Parallelism
from sim.workload.work import Gemm, Work

__all__ = ["PRESETS", "generate"]

PRESETS: dict[str, dict[str, Any]] = {
    # Solved from the times and sizes of DLRM.txt of the LIBRA workloads: ratios of its times give
    # the layer sizes, its gradients (114 823 168 B) and all-to-alls (4 194 304 B) come out exactly,
    # and 8 rows a table reproduce its lookup of 419 431 ns at 80 GB/s.
    "libra": {
        "bottom": (1600, *(1024,) * 6, 64),
        "top": (*(2048,) * 11, 1),
        "tables": 64,
        "dimension": 64,
        "lookups": 8,
        "interaction": "concatenate",
        "batch": 512,
        "bias": False,
    },
    # The DLRM of ASTRA-sim 1.0 and SCALE-Sim; the input of its top MLP is as wide as those say.
    "astra-sim": {
        "bottom": (13, 512, 512, 512, 16),
        "top": (512, 512, 512),
        "tables": 24,
        "dimension": 16,
        "lookups": 1,
        "interaction": "concatenate",
        "top_input": 1040,
        "batch": 128,
        "bias": False,
    },
}


def generate(
    *,
    bottom: Sequence[int] = (13, 512, 256, 64),
    top: Sequence[int] = (512, 256, 1),
    tables: int = 26,
    dimension: int = 64,
    lookups: int = 1,
    interaction: str = "dot",
    top_input: int | None = None,
    batch: int = 128,
    dtype_bytes: int = 2,
    bias: bool = True,
) -> ModelTable:
    """A DLRM; *batch* samples per NPU. ``generate(**PRESETS["libra"])`` is a published one.

    Parameters
    ----------
    bottom
        Sizes of the bottom MLP from its dense inputs to its outputs, which are as many as
        `dimension`.
    top
        Sizes of the top MLP after its inputs.
    tables, dimension, lookups
        Embedding tables of all NPUs together, elements of a row, rows summed per sample and table.
    interaction
        ``"dot"``: products of all pairs of vectors, and the dense one. ``"concatenate"``: all
        vectors.
    top_input
        Inputs of the top MLP where they are not those of the interaction.
    """
    checked(
        tables=tables, dimension=dimension, lookups=lookups, batch=batch, dtype_bytes=dtype_bytes
    )
    for name, sizes, least in (("bottom", bottom, 2), ("top", top, 1)):
        if len(sizes) < least or any(size < 1 for size in sizes):
            raise FieldError(name, f"must hold {least} or more sizes above 0, not {list(sizes)}")
    if bottom[-1] != dimension:
        raise FieldError("bottom", f"must end with dimension, {dimension}, not {bottom[-1]}")
    vectors = tables + 1
    if interaction == "dot":
        inputs = dimension + vectors * (vectors - 1) // 2
        pairs = Gemm(m=vectors, n=vectors, k=dimension, count=batch)
        combine = Work(gemms=(pairs,), memory_bytes=pairs.elements() * dtype_bytes)
    elif interaction == "concatenate":
        inputs = dimension * vectors
        combine = Work(memory_bytes=2 * batch * inputs * dtype_bytes)
    else:
        raise FieldError("interaction", f"must be dot or concatenate, not {interaction!r}")
    inputs = inputs if top_input is None else top_input

    layers = [_embedding(batch * tables * dimension * dtype_bytes, lookups)]
    for number, (k, n) in enumerate(pairwise(bottom)):
        layers.append(
            dense(
                f"bottom{number}",
                Gemm(m=batch, n=n, k=k),
                dtype_bytes=dtype_bytes,
                first=number == 0,
                bias=bias,
            )
        )
    for number, (k, n) in enumerate(pairwise((inputs, *top))):
        layers.append(
            dense(
                f"top{number}",
                Gemm(m=batch, n=n, k=k),
                dtype_bytes=dtype_bytes,
                bias=bias,
                beside=combine if number == 0 else None,
            )
        )
    return ModelTable(
        name="dlrm",
        layers=tuple(layers),
        parallelism=Parallelism(keyword="HYBRID_DLRM", last_bottom=len(bottom) - 1),
        batch=batch,
        dtype_bytes=dtype_bytes,
        assumptions=(
            "tables are spread evenly, so each NPU looks up as many rows as its own samples need",
            "the parameters of the tables are not counted; no optimiser state is kept for them",
        ),
    )


def _embedding(vector_bytes: int, lookups: int) -> ModelLayer:
    # vector_bytes: the summed rows of all tables for one NPU's samples.
    def exchanged(work: Work) -> LayerPass:
        kind = CollectiveKind.ALL_TO_ALL
        return LayerPass(work=work, collective=kind, size_bytes=vector_bytes)

    return ModelLayer(
        name="embedding",
        parameters=0,
        forward=exchanged(Work(memory_bytes=(lookups + 1) * vector_bytes)),
        input_gradient=exchanged(Work()),
        # Read the gradient once, read and write every row.
        weight_gradient=LayerPass(work=Work(memory_bytes=(2 * lookups + 1) * vector_bytes)),
    )

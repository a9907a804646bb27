# SPDX-License-Identifier: Apache-2.0
"""The dimensions of a system over which a layer's collectives run.

Parallelism decides it: replicas that hold the same weights sum their gradients, NPUs that hold
parts of one layer exchange activations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from sim.fields import FieldError, check_type

__all__ = ["Dimensions", "Reach", "checked_shape", "everywhere", "reach_of", "split_shape"]

Dimensions: TypeAlias = tuple[int, ...] | None
"""As in CollectiveCall: None is all dimensions, () is none, so that nothing is communicated."""


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The dimensions of a layer's collectives in each pass."""

    forward: Dimensions
    input_gradient: Dimensions
    weight_gradient: Dimensions


def checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """*shape* as a tuple; ValueError unless it holds at least one size, all of them positive."""
    ok = isinstance(shape, Sequence) and not isinstance(shape, str | bytes)
    check_type("shape", shape, "a sequence of integers, such as network.shape", ok)
    sizes = tuple(shape)
    if not sizes or not all(isinstance(size, int) and size >= 1 for size in sizes):
        raise FieldError(
            "shape", f"must hold sizes of at least 1, one per dimension, not {shape!r}"
        )
    return sizes


def split_shape(shape: tuple[int, ...], group: int) -> tuple[tuple[int, ...], int]:
    """The shape in which *group* NPUs are exactly the first dimensions, and their number.

    A dimension that the group covers in part is split in two: ``split_shape((8, 8), 4)`` is
    ``((4, 2, 8), 1)``. Neighbours within the group stay neighbours.
    """
    if group < 1 or prod(shape) % group:
        raise FieldError(
            "model_parallel_npus", f"must divide the {prod(shape)} NPUs of {_text(shape)}, "
            f"not {group!r}"
        )
    done = 1
    for dimension, size in enumerate(shape):
        if done == group:
            return shape, dimension
        part = group // done
        if part < size:
            if size % part:
                raise ValueError(
                    f"model_parallel_npus {group} must cover dimension {dimension} of "
                    f"{_text(shape)} whole or in equal parts"
                )
            return (*shape[:dimension], part, size // part, *shape[dimension + 1 :]), dimension + 1
        if part % size:
            raise ValueError(
                f"model_parallel_npus {group} must be a product of the first dimensions of "
                f"{_text(shape)}, the last of them in equal parts"
            )
        done *= size
    return shape, len(shape)


def reach_of(parallelism: str, shape: tuple[int, ...], model_dimensions: int = 0) -> Reach:
    """The reach of a layer under *parallelism*, a keyword of the text format.

    `model_dimensions`: number of first dimensions that hold one copy of a model split over NPUs
    (HYBRID_TRANSFORMER keywords only). "ALL" reaches everywhere in all passes.
    """
    last = len(shape)
    if parallelism in ("DATA", "HYBRID_DLRM", "HYBRID_DLRM_ENHANCED", "MICRO"):
        model, data = range(0), range(last)
    elif parallelism in ("MODEL", "DISTRIBUTED_INFERENCE"):
        model, data = range(last), range(0)
    elif parallelism == "HYBRID_DATA_MODEL":
        model, data = range(1), range(1, last)
    elif parallelism == "HYBRID_MODEL_DATA":
        model, data = range(1, last), range(1)
    elif parallelism in ("HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD"):
        model, data = range(model_dimensions), range(model_dimensions, last)
    elif parallelism == "ALL":
        model = data = range(last)
    else:
        raise ValueError(f"parallelism {parallelism!r} does not say which NPUs communicate")
    inside = everywhere(model, shape)
    return Reach(forward=inside, input_gradient=inside, weight_gradient=everywhere(data, shape))


def everywhere(dimensions: Sequence[int], shape: tuple[int, ...]) -> Dimensions:
    """*dimensions* without those of size 1, None if they are all that *shape* has.

    So equal groups have equal dimensions.
    """
    used = tuple(dimension for dimension in dimensions if shape[dimension] > 1)
    everything = tuple(dimension for dimension, size in enumerate(shape) if size > 1)
    return None if used and used == everything else used


def _text(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape)

# SPDX-License-Identifier: Apache-2.0
"""Turns the layers of a model into the job that every NPU runs.

:func:`training_job` takes a text workload, :func:`layers_job` layers with times and collectives of
any origin. Both pick the loop by the keyword of the parallelism.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, prod

from gen.arguments import typed
from sim.fields import FieldError, check_type
from sim.workload.astra_text import (
    PARALLELISMS,
    Layer,
    TrainingPass,
    Workload,
)
from sim.workload.graph import Job
from sim.workload.loops import (
    Loop,
    LoopStep,
    TrainingLayer,
    data_parallel,
    dlrm,
    dlrm_side_thread,
    inference,
    layer_by_layer,
    micro,
)
from sim.workload.reach import Reach, checked_shape, reach_of, split_shape

__all__ = ["Parallelism", "SideThread", "layers_job", "training_job"]

DLRM = ("HYBRID_DLRM", "HYBRID_DLRM_ENHANCED")
TRANSFORMER = ("HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD")


@dataclass(frozen=True, kw_only=True)
class SideThread:
    """DLRM's embedding beside the critical path: times of its lookup and of its update."""

    lookup_s: float
    update_s: float


@dataclass(frozen=True, kw_only=True)
class Parallelism:
    """Distribution of a model over NPUs, which decides its training loop.

    Parameters
    ----------
    keyword
        One of the text format: DATA, MODEL, HYBRID_DATA_MODEL, HYBRID_MODEL_DATA, HYBRID_DLRM,
        HYBRID_DLRM_ENHANCED, HYBRID_TRANSFORMER, HYBRID_TRANSFORMER_FWD_IN_BCKWD,
        HYBRID_CUSTOMIZED, DISTRIBUTED_INFERENCE, MICRO.
    model_parallel_npus
        NPUs that hold one copy of the model (HYBRID_TRANSFORMER keywords).
    last_bottom
        Number of the last layer of the bottom MLP; layer 0 is the embedding (HYBRID_DLRM keywords).
    checkpoints, recomputed_before
        Layers whose inputs are kept, and layers before whose backward pass the layers from the
        last checkpoint on run forward again (HYBRID_TRANSFORMER_FWD_IN_BCKWD).
    """

    keyword: str
    model_parallel_npus: int | None = None
    last_bottom: int | None = None
    checkpoints: tuple[int, ...] = ()
    recomputed_before: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.keyword not in PARALLELISMS:
            raise FieldError(
                "parallelism", f"must be one of {', '.join(PARALLELISMS)}, not {self.keyword!r}"
            )
        if self.keyword in TRANSFORMER and self.model_parallel_npus is None:
            raise ValueError(f"{self.keyword} needs model_parallel_npus")
        if self.keyword in DLRM and self.last_bottom is None:
            raise ValueError(f"{self.keyword} needs last_bottom, the last layer of the bottom MLP")

    def recomputations(self, layers: int) -> dict[int, range]:
        """The layers that run forward again before the backward pass of a layer."""
        found = {}
        for layer in self.recomputed_before:
            kept = [number for number in self.checkpoints if number < layer]
            if not kept or not 0 <= layer < layers:
                raise ValueError(
                    f"checkpoint_initiates names layer {layer}; it must be one of the {layers} "
                    f"layers, above one of the checkpoints {list(self.checkpoints)}"
                )
            found[layer] = range(max(kept), layer)
        return found


MOST_PASSES = 100_000


@typed("workload", "shape", least={"control_cycles": 0}, most={"cycle_s": 1.0})
def training_job(
    workload: Workload,
    *,
    shape: Sequence[int],
    passes: int = 2,
    compute_scale: float = 1.0,
    comm_scale: float = 1.0,
    cycle_s: float = 1e-9,
    parallelism: str | None = None,
    model_parallel_npus: int | None = None,
    last_bottom: int | None = None,
    overlap: bool = True,
    control_cycles: int = 0,
) -> Job:
    """The job of a text workload; :func:`~sim.workload.load.load_workload` takes its name.

    Parameters
    ----------
    shape
        Sizes of the dimensions of the topology.
    passes
        Training iterations.
    compute_scale, comm_scale
        Factors on all cycles of computations, on all bytes; results are cut to whole cycles and
        bytes. Updates after collectives are not scaled.
    cycle_s
        Seconds per cycle of the file.
    parallelism, model_parallel_npus, last_bottom
        In place of what the file says; needed where it says nothing (see :class:`Parallelism`).
    overlap
        False: weight gradients are communicated at the end of each iteration, fused.
    control_cycles
        Added to every computation. The reference simulator takes one cycle from each to the next.

    Raises
    ------
    ValueError
        If an option does not fit the file or the shape; the text names it and what is allowed.
    """
    ok = isinstance(workload, Workload)
    check_type("workload", workload, "a Workload, as read from a file or shipped", ok)
    for name, factor in (
        ("compute_scale", compute_scale),
        ("comm_scale", comm_scale),
        ("cycle_s", cycle_s),
    ):
        if not (isfinite(factor) and factor > 0):
            raise FieldError(name, f"must be positive, not {factor!r}")
    scheme = _parallelism(workload, parallelism, model_parallel_npus, last_bottom)

    def step(each: TrainingPass) -> LoopStep:
        return LoopStep(
            duration_s=int(each.compute_cycles * compute_scale) * cycle_s,
            collective=each.collective,
            size_bytes=int(each.size_bytes * comm_scale),
        )

    layers = [
        TrainingLayer(
            name=layer.name,
            forward=step(layer.forward),
            input_gradient=step(layer.input_gradient),
            weight_gradient=step(layer.weight_gradient),
            update_s=layer.update_cycles * cycle_s,
        )
        for layer in workload.layers
    ]
    own = None
    if scheme.keyword == "HYBRID_CUSTOMIZED":
        own = [_own_parallelism(layer, scheme) for layer in workload.layers]
    return layers_job(
        workload.name,
        layers,
        scheme,
        shape=shape,
        passes=passes,
        overlap=overlap,
        control_s=control_cycles * cycle_s,
        layer_parallelism=own,
    )


def layers_job(
    name: str,
    layers: Sequence[TrainingLayer],
    parallelism: Parallelism,
    *,
    shape: Sequence[int],
    passes: int = 2,
    overlap: bool = True,
    control_s: float = 0.0,
    side: SideThread | None = None,
    layer_parallelism: Sequence[str] | None = None,
) -> Job:
    """The job of *layers*, whose collectives get their reach here.

    `side` takes DLRM's embedding off the critical path; it needs `overlap` and a HYBRID_DLRM
    keyword. `layer_parallelism` holds one keyword per layer for HYBRID_CUSTOMIZED. Other
    parameters as in :func:`training_job`.
    """
    if not layers:
        raise FieldError("layers", "must hold at least one layer")
    if passes < 1:
        raise FieldError("passes", f"must be at least 1, not {passes!r}")
    if passes > MOST_PASSES:
        raise FieldError("passes", f"must be at most {MOST_PASSES}, not {passes!r}")
    keyword = parallelism.keyword
    sizes = whole = checked_shape(shape)
    model_dimensions = 0
    if parallelism.model_parallel_npus is not None:
        sizes, model_dimensions = split_shape(sizes, parallelism.model_parallel_npus)
    keywords = list(layer_parallelism or [keyword] * len(layers))
    if keyword in DLRM:
        keywords[0] = "ALL"
    reached = [
        _with_reach(layer, reach_of(word, sizes, model_dimensions))
        for layer, word in zip(layers, keywords)
    ]

    loop = Loop(reached, overlap=overlap, control_s=control_s)
    if side is not None and not (keyword in DLRM and overlap):
        raise ValueError("side needs overlap and the parallelism HYBRID_DLRM")
    if keyword == "DATA":
        data_parallel(loop, passes)
    elif keyword in DLRM:
        last_bottom = parallelism.last_bottom
        if last_bottom is None or not 1 <= last_bottom < len(layers) - 1:
            raise FieldError(
                "last_bottom", f"must be 1 .. {len(layers) - 2}, with layers above it, "
                f"not {last_bottom!r}"
            )
        if side is None:
            dlrm(
                loop,
                passes,
                last_bottom=last_bottom,
                wait_for_gradient=keyword == "HYBRID_DLRM",
            )
        else:
            dlrm_side_thread(
                loop,
                passes,
                last_bottom=last_bottom,
                lookup_s=side.lookup_s,
                update_s=side.update_s,
            )
    elif keyword == "DISTRIBUTED_INFERENCE":
        inference(loop, passes)
    elif keyword == "MICRO":
        micro(loop, passes)
    else:
        layer_by_layer(
            loop,
            passes,
            first_input_gradient=keyword in TRANSFORMER,
            recompute=parallelism.recomputations(len(layers)),
        )
    return Job(
        name=name,
        graphs=(loop.graph(),),
        shape=sizes,
        topology_shape=whole,
        note=f"{keyword}, {prod(sizes)} NPUs, iterations: {passes}",
    )


def _parallelism(
    workload: Workload, keyword: str | None, group: int | None, last_bottom: int | None
) -> Parallelism:
    keyword = workload.parallelism if keyword is None else keyword
    if keyword is None:
        raise ValueError(
            f"workload {workload.name!r} has no header; parallelism must be given, one of "
            f"{', '.join(PARALLELISMS)}"
        )
    if group is not None and keyword not in (*TRANSFORMER, "HYBRID_CUSTOMIZED"):
        raise FieldError("model_parallel_npus", f"has no meaning with parallelism {keyword}")
    if last_bottom is not None and keyword not in DLRM:
        raise FieldError("last_bottom", f"has no meaning with parallelism {keyword}")
    options: Mapping[str, tuple[int, ...]] = workload.options
    if group is None and keyword in TRANSFORMER:
        group = options.get("model_parallel_NPU_group", (None,))[0]
    if last_bottom is None and keyword in DLRM:
        last_bottom = options.get("", (None,))[0]
    return Parallelism(
        keyword=keyword,
        model_parallel_npus=group,
        last_bottom=last_bottom,
        # The first number of each list is the count of the others.
        checkpoints=options.get("checkpoints", ())[1:],
        recomputed_before=options.get("checkpoint_initiates", ())[1:],
    )


def _own_parallelism(layer: Layer, scheme: Parallelism) -> str:
    allowed = [
        word
        for word in PARALLELISMS
        if word != "HYBRID_CUSTOMIZED"
        and (word not in TRANSFORMER or scheme.model_parallel_npus is not None)
    ]
    if layer.parallelism not in allowed:
        raise ValueError(
            f"layer {layer.name!r}: parallelism must be one of {', '.join(allowed)}, "
            f"not {layer.parallelism!r}"
        )
    return layer.parallelism


def _with_reach(layer: TrainingLayer, reach: Reach) -> TrainingLayer:
    return replace(
        layer,
        forward=replace(layer.forward, dimensions=reach.forward),
        input_gradient=replace(layer.input_gradient, dimensions=reach.input_gradient),
        weight_gradient=replace(layer.weight_gradient, dimensions=reach.weight_gradient),
    )

# SPDX-License-Identifier: Apache-2.0
"""Models as tables of layers, and the training jobs made of them.

A generator in ``sim.workload.generate`` fills a :class:`ModelTable`. Times come in when a job is
made of it: :func:`model_job` asks a compute model, which knows the resources that the endpoint
leaves to training.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sim.workload.astra_text import Layer, TrainingPass, Workload
from sim.workload.compute_model import ComputeModel
from sim.workload.graph import CollectiveKind, Job
from sim.workload.loops import LoopStep, TrainingLayer
from sim.workload.training import Parallelism, SideThread, layers_job
from sim.workload.work import Work

__all__ = ["LayerPass", "ModelLayer", "ModelTable", "model_job", "text_workload"]


@dataclass(frozen=True, kw_only=True)
class LayerPass:
    """Computation, then communication, of one pass through one layer, per NPU."""

    work: Work = field(default_factory=Work)
    collective: CollectiveKind | None = None
    size_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class ModelLayer:
    """One layer on one NPU.

    `parameters` are those that the NPU holds and trains. `update_bytes` is the memory traffic of
    the optimiser after a collective of the layer.
    """

    name: str
    parameters: int
    forward: LayerPass
    input_gradient: LayerPass
    weight_gradient: LayerPass
    update_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class ModelTable:
    """A model: its layers in forward order, as one NPU sees them.

    Parameters
    ----------
    name
    layers
    parallelism
        Distribution of the model over NPUs, which picks the training loop.
    batch
        Samples per NPU, or per group of NPUs that hold one copy of the model.
    dtype_bytes
        Size of an activation, weight or gradient.
    assumptions
        Assumptions of the generator beyond its parameters.
    """

    name: str
    layers: tuple[ModelLayer, ...]
    parallelism: Parallelism
    batch: int
    dtype_bytes: int
    assumptions: tuple[str, ...] = ()

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    @property
    def forward_macs(self) -> int:
        """Multiply-adds of the forward pass of the batch."""
        return sum(layer.forward.work.macs for layer in self.layers)


def model_job(
    table: ModelTable,
    compute: ComputeModel,
    *,
    shape: Sequence[int],
    passes: int = 2,
    overlap: bool = True,
    side: ComputeModel | None = None,
) -> Job:
    """The training job of *table*, timed by *compute*.

    Parameters
    ----------
    shape
        Sizes of the dimensions of the topology.
    passes
        Training iterations.
    overlap
        False: weight gradients are communicated at the end of each iteration, fused.
    side
        DLRM only: the resources of a side thread that looks up and updates embeddings off the
        critical path. *compute* must not hold them too.
    """
    thread = None
    if side is not None:
        embedding = table.layers[0]
        thread = SideThread(
            lookup_s=side.time_s(embedding.forward.work),
            update_s=side.time_s(embedding.weight_gradient.work),
        )
    return layers_job(
        table.name,
        [_timed(layer, compute) for layer in table.layers],
        table.parallelism,
        shape=shape,
        passes=passes,
        overlap=overlap,
        side=thread,
    )


def text_workload(table: ModelTable, compute: ComputeModel, *, cycle_s: float = 1e-9) -> Workload:
    """*table* as a text workload, with times rounded to cycles of *cycle_s*."""

    def one(each: LayerPass) -> TrainingPass:
        return TrainingPass(
            compute_cycles=round(compute.time_s(each.work) / cycle_s),
            collective=each.collective,
            size_bytes=each.size_bytes,
        )

    scheme = table.parallelism
    options: dict[str, tuple[int, ...]] = {}
    if scheme.model_parallel_npus is not None:
        options["model_parallel_NPU_group"] = (scheme.model_parallel_npus,)
    if scheme.last_bottom is not None:
        options[""] = (scheme.last_bottom,)
    if scheme.recomputed_before:
        for label, layers in (
            ("checkpoints", scheme.checkpoints),
            ("checkpoint_initiates", scheme.recomputed_before),
        ):
            options[label] = (len(layers), *layers)
    return Workload(
        name=table.name,
        layers=tuple(
            Layer(
                name=layer.name,
                forward=one(layer.forward),
                input_gradient=one(layer.input_gradient),
                weight_gradient=one(layer.weight_gradient),
                update_cycles=round(_update_s(layer, compute) / cycle_s),
            )
            for layer in table.layers
        ),
        parallelism=scheme.keyword,
        options=options,
    )


def _timed(layer: ModelLayer, compute: ComputeModel) -> TrainingLayer:
    def step(each: LayerPass) -> LoopStep:
        return LoopStep(
            duration_s=compute.time_s(each.work),
            collective=each.collective,
            size_bytes=each.size_bytes,
            memory_bytes=each.work.memory_bytes,
        )

    return TrainingLayer(
        name=layer.name,
        forward=step(layer.forward),
        input_gradient=step(layer.input_gradient),
        weight_gradient=step(layer.weight_gradient),
        update_s=_update_s(layer, compute),
    )


def _update_s(layer: ModelLayer, compute: ComputeModel) -> float:
    return compute.time_s(Work(memory_bytes=layer.update_bytes))

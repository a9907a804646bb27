# SPDX-License-Identifier: Apache-2.0
"""Training loops: the order in which layers compute, communicate and wait.

The loops are those of ASTRA-sim (ISPASS 2020) and of the ACE papers (ISCA 2021, section V). An NPU
computes one thing at a time, so its computations form a chain. A collective starts when the
computation before it ends; a task that waits for a collective names it in its ``after``. Time
between the end of the chain's previous computation and that of the collective is exposed
communication.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sim.workload.graph import (
    CollectiveCall,
    CollectiveKind,
    GraphBuilder,
    TaskGraph,
    TaskKind,
    TrainingPhase,
)
from sim.workload.reach import Dimensions

__all__ = [
    "HIGHEST",
    "Loop",
    "LoopStep",
    "TrainingLayer",
    "data_parallel",
    "dlrm",
    "dlrm_side_thread",
    "inference",
    "layer_by_layer",
    "micro",
]

HIGHEST = 1
"""Priority of collectives that go before all others; the others have 0."""


@dataclass(frozen=True, kw_only=True)
class LoopStep:
    """One pass through one layer: a computation, then perhaps a collective.

    `memory_bytes`: traffic of the computation to and from memory. `dimensions` is the reach of
    the collective; with ``()`` there is none.
    """

    duration_s: float
    collective: CollectiveKind | None = None
    size_bytes: int = 0
    dimensions: Dimensions = None
    memory_bytes: int = 0

    def call(self, priority: int = 0, policy: str | None = None) -> CollectiveCall | None:
        if self.collective is None or self.dimensions == () or self.size_bytes == 0:
            return None
        return CollectiveCall(
            kind=self.collective,
            size_bytes=self.size_bytes,
            dimensions=self.dimensions,
            priority=priority,
            policy=policy,
        )


@dataclass(frozen=True, kw_only=True)
class TrainingLayer:
    """A layer as the loops see it. `update_s` passes after each of its collectives."""

    name: str
    forward: LoopStep
    input_gradient: LoopStep
    weight_gradient: LoopStep
    update_s: float = 0.0

    def step(self, phase: TrainingPhase) -> LoopStep:
        if phase is TrainingPhase.FORWARD:
            return self.forward
        if phase is TrainingPhase.INPUT_GRADIENT:
            return self.input_gradient
        return self.weight_gradient


class Loop:
    """Builds the graph of one NPU: the chain of its computations and their collectives.

    Parameters
    ----------
    layers
        In forward order.
    overlap
        False collects the collectives of the weight gradients and issues them at the end of the
        back-propagation, fused into one per kind and reach; the next iteration waits for them.
    control_s
        Time of the loop itself, added to every computation.
    """

    def __init__(
        self, layers: Sequence[TrainingLayer], *, overlap: bool = True, control_s: float = 0.0
    ) -> None:
        self.layers = tuple(layers)
        self.overlap = overlap
        self._control_s = control_s
        self._builder = GraphBuilder([layer.name for layer in layers])
        self._last: int | None = None
        self._awaited: set[int] = set()
        self._held: dict[tuple[CollectiveKind, Dimensions], tuple[int, float]] = {}
        self.iteration = 0

    def graph(self) -> TaskGraph:
        return self._builder.graph()

    @property
    def last(self) -> int | None:
        """The newest computation of the chain."""
        return self._last

    def compute(self, index: int, phase: TrainingPhase) -> None:
        """Let layer *index* compute, after everything awaited since the last computation."""
        step = self.layers[index].step(phase)
        self._last = self._builder.add(
            f"{self.layers[index].name} {phase.value}",
            TaskKind.COMPUTE,
            (self._last, *self._awaited),
            duration_s=step.duration_s + self._control_s,
            memory_bytes=step.memory_bytes,
            layer=index,
            phase=phase,
            iteration=self.iteration,
        )
        self._awaited.clear()

    def start(
        self, index: int, phase: TrainingPhase, *, priority: int = 0, policy: str | None = None
    ) -> int | None:
        """Start the collective of a pass; None if it has none."""
        return self._start(index, phase, (self._last, *self._awaited), priority, policy)

    def start_weights(self, index: int, policy: str | None = None) -> int | None:
        """Start the collective of the weight gradient, or hold it back (see `overlap`)."""
        if self.overlap:
            return self.start(index, TrainingPhase.WEIGHT_GRADIENT, policy=policy)
        layer = self.layers[index]
        call = layer.weight_gradient.call()
        if call is not None:
            size, update_s = self._held.get((call.kind, call.dimensions), (0, 0.0))
            self._held[call.kind, call.dimensions] = (
                size + call.size_bytes,
                update_s + layer.update_s,
            )
        return None

    def release(self) -> None:
        """Start the collectives that were held back and wait for them."""
        for (kind, dimensions), (size_bytes, update_s) in self._held.items():
            self.wait(
                self._builder.add(
                    f"fused {kind.value}",
                    TaskKind.COLLECTIVE,
                    (self._last, *self._awaited),
                    duration_s=update_s,
                    call=CollectiveCall(kind=kind, size_bytes=size_bytes, dimensions=dimensions),
                    phase=TrainingPhase.WEIGHT_GRADIENT,
                    iteration=self.iteration,
                )
            )
        self._held.clear()

    def wait(self, collective: int | None) -> None:
        """Let the next computation wait for *collective*."""
        if collective is not None:
            self._awaited.add(collective)

    def aside(
        self, index: int, phase: TrainingPhase, duration_s: float, after: Sequence[int | None]
    ) -> int:
        """Work beside the chain, on resources of its own."""
        return self._builder.add(
            f"{self.layers[index].name} {phase.value}",
            TaskKind.DELAY,
            after,
            duration_s=duration_s,
            memory_bytes=self.layers[index].step(phase).memory_bytes,
            layer=index,
            phase=phase,
            iteration=self.iteration,
        )

    def start_aside(self, index: int, phase: TrainingPhase, after: int) -> int | None:
        """The collective of a pass that ran beside the chain, before all others."""
        return self._start(index, phase, (after,), HIGHEST, None)

    def _start(
        self,
        index: int,
        phase: TrainingPhase,
        after: Sequence[int | None],
        priority: int,
        policy: str | None,
    ) -> int | None:
        layer = self.layers[index]
        call = layer.step(phase).call(priority, policy)
        if call is None:
            return None
        return self._builder.add(
            f"{layer.name} {phase.value} {call.kind.value}",
            TaskKind.COLLECTIVE,
            after,
            duration_s=layer.update_s,
            call=call,
            layer=index,
            phase=phase,
            iteration=self.iteration,
        )


def data_parallel(loop: Loop, passes: int) -> None:
    """Forward of a layer waits for its weight gradient's collective of the previous iteration.

    Backward: weight gradient, its collective, input gradient, next lower layer. The first layer
    needs no input gradient.
    """
    weights: dict[int, int | None] = {}
    for loop.iteration in range(passes):
        for index in range(len(loop.layers)):
            loop.wait(weights.get(index))
            loop.compute(index, TrainingPhase.FORWARD)
        for index in reversed(range(len(loop.layers))):
            loop.compute(index, TrainingPhase.WEIGHT_GRADIENT)
            weights[index] = loop.start_weights(index)
            if index > 0:
                loop.compute(index, TrainingPhase.INPUT_GRADIENT)
        loop.release()


def layer_by_layer(
    loop: Loop,
    passes: int,
    *,
    first_input_gradient: bool,
    recompute: dict[int, range] | None = None,
) -> None:
    """Loop of the model-parallel and hybrid schemes.

    Forward: compute, then the collective, which is waited for. Backward: input gradient and its
    collective (LIFO), weight gradient and its collective (FIFO), then wait for the former.

    Parameters
    ----------
    first_input_gradient
        The input gradient of the first layer is communicated; it is computed anyway.
    recompute
        Layers to run forward again before the backward pass of a layer, by that layer.
    """
    weights: dict[int, int | None] = {}

    def forward(index: int) -> None:
        loop.wait(weights.get(index))
        loop.compute(index, TrainingPhase.FORWARD)
        loop.wait(loop.start(index, TrainingPhase.FORWARD))

    for loop.iteration in range(passes):
        for index in range(len(loop.layers)):
            forward(index)
        for index in reversed(range(len(loop.layers))):
            for again in (recompute or {}).get(index, ()):
                forward(again)
            loop.compute(index, TrainingPhase.INPUT_GRADIENT)
            gradient = None
            if index > 0 or first_input_gradient:
                gradient = loop.start(index, TrainingPhase.INPUT_GRADIENT, policy="lifo")
            if not loop.overlap:
                loop.wait(gradient)
            loop.compute(index, TrainingPhase.WEIGHT_GRADIENT)
            weights[index] = loop.start_weights(index, policy="fifo")
            loop.wait(gradient)
        loop.release()


def dlrm(loop: Loop, passes: int, *, last_bottom: int, wait_for_gradient: bool = True) -> None:
    """Layer 0 is the embedding, split over NPUs; the others are data parallel.

    Forward: the embedding's all-to-all goes before all others; the layers after *last_bottom* wait
    for it. Backward: after the input gradient of the layer above *last_bottom* the all-to-all of
    the embedding's gradient goes before all others; the iteration ends with it, or with the weight
    gradient of the embedding unless *wait_for_gradient*. Without overlap every all-to-all is
    waited for at once, that of the gradient together with the weight gradients and before the
    embedding is updated.
    """
    weights: dict[int, int | None] = {}
    for loop.iteration in range(passes):
        lookup = None
        for index in range(len(loop.layers)):
            loop.wait(weights.get(index))
            loop.compute(index, TrainingPhase.FORWARD)
            if index == 0:
                lookup = loop.start(0, TrainingPhase.FORWARD, priority=HIGHEST)
                if not loop.overlap:
                    loop.wait(lookup)
            if index == last_bottom:
                loop.wait(lookup)
        gradient = None
        for index in reversed(range(len(loop.layers))):
            if index == 0 and not loop.overlap:
                gradient = loop.start(0, TrainingPhase.INPUT_GRADIENT, priority=HIGHEST)
                loop.release()
                loop.wait(gradient)
            loop.compute(index, TrainingPhase.WEIGHT_GRADIENT)
            weights[index] = loop.start_weights(index)
            if index > 0:
                loop.compute(index, TrainingPhase.INPUT_GRADIENT)
                if index == last_bottom + 1 and loop.overlap:
                    gradient = loop.start(0, TrainingPhase.INPUT_GRADIENT, priority=HIGHEST)
        if wait_for_gradient:
            loop.wait(gradient)
        loop.release()


def dlrm_side_thread(
    loop: Loop, passes: int, *, last_bottom: int, lookup_s: float, update_s: float
) -> None:
    """DLRM with the embedding off the critical path (ISCA 2021, Fig. 12).

    While iteration i computes, a side thread with resources of its own looks up the embeddings of
    iteration i + 1, starts their all-to-all, then updates the embeddings with the gradient of
    iteration i - 1. The iterations are taken out of a long training: the first finds its lookup
    done, and nothing waits for what the last one prepares. So every iteration holds one
    lookup, one update and one all-to-all each way, and none has to fill or drain the pipeline.
    """
    weights: dict[int, int | None] = {}
    lookup: int | None = None
    gradient: int | None = None
    side: int | None = None
    for loop.iteration in range(passes):
        side = loop.aside(0, TrainingPhase.FORWARD, lookup_s, (loop.last, side))
        next_lookup = loop.start_aside(0, TrainingPhase.FORWARD, side)
        side = loop.aside(0, TrainingPhase.WEIGHT_GRADIENT, update_s, (side, gradient))
        loop.wait(weights.get(0))
        for index in range(1, len(loop.layers)):
            if index == last_bottom + 1:
                loop.wait(lookup)
            loop.wait(weights.get(index))
            loop.compute(index, TrainingPhase.FORWARD)
        lookup = next_lookup
        for index in reversed(range(1, len(loop.layers))):
            loop.compute(index, TrainingPhase.WEIGHT_GRADIENT)
            weights[index] = loop.start_weights(index)
            loop.compute(index, TrainingPhase.INPUT_GRADIENT)
            if index == last_bottom + 1:
                gradient = loop.start(0, TrainingPhase.INPUT_GRADIENT, priority=HIGHEST)
        weights[0] = loop.start_weights(0)


def inference(loop: Loop, passes: int) -> None:
    """Forward passes only, each collective waited for."""
    for loop.iteration in range(passes):
        for index in range(len(loop.layers)):
            loop.compute(index, TrainingPhase.FORWARD)
            loop.wait(loop.start(index, TrainingPhase.FORWARD))


def micro(loop: Loop, passes: int) -> None:
    """The weight gradient's collective of the first layer, all passes at once, no computation."""
    for loop.iteration in range(passes):
        loop.start(0, TrainingPhase.WEIGHT_GRADIENT)

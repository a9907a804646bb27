# SPDX-License-Identifier: Apache-2.0
"""A ring of smart NICs over an Ethernet switch, and the training trace that it runs."""

from dataclasses import dataclass
from typing import Any

from sim.analytic.smartnic import Mlp, Worker, layer_time
from sim.collectives.plan import AlgorithmChoice
from sim.endpoint.smartnic import SmartNicEndpoint
from sim.events.scheduler import Scheduler
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.workload.graph import (
    CollectiveCall,
    CollectiveKind,
    GraphBuilder,
    Job,
    TaskKind,
    TrainingPhase,
)

__all__ = ["NicSystem", "trace_job"]


@dataclass(frozen=True, kw_only=True)
class NicSystem:
    """Nodes with a smart NIC each, one port each of one switch.

    Parameters
    ----------
    nodes : int
    endpoint : SmartNicEndpoint
    ethernet_bytes_per_s : float
        Line rate in one direction.
    ethernet_share : float
        Share of it that carries payload, see :func:`sim.network.ethernet.frame_share`.
    latency_s : float
        From NIC to NIC: two cables and the switch.
    piece_bytes : int
        Unit that is passed on as soon as it has arrived: the payload of a frame. One piece per node
        is a chunk of the simulation.
    pieces : int
        Most pieces in flight to a node: as many as its two receive buffers hold, 1024 beats of
        32 bytes each.
    """

    nodes: int
    endpoint: SmartNicEndpoint
    ethernet_bytes_per_s: float = 5e9
    ethernet_share: float = 1.0
    latency_s: float = 1e-6
    piece_bytes: int = 2048
    pieces: int = 32

    @property
    def network(self) -> Network:
        """The switch; a path through it has two links."""
        rate, latency_s = self.ethernet_bytes_per_s, self.latency_s / 2
        return Network(
            Dimension.switch(self.nodes, rate, latency_s, efficiency=self.ethernet_share)
        )

    def parts(self) -> dict[str, Any]:
        """Keyword arguments for :func:`sim.events.simulate.simulate` beside network and job."""
        return {
            "endpoint": self.endpoint,
            "scheduler": Scheduler(
                policy="fifo",
                chunk_bytes=self.nodes * self.piece_bytes,
                concurrency=self.pieces,
            ),
            "algorithms": AlgorithmChoice(reductions=("ring",)),
        }


def trace_job(mlp: Mlp, worker: Worker) -> Job:
    """One iteration as in :func:`sim.analytic.smartnic.trace_s`, for every node.

    The all-reduce of a layer waits for its backward pass and for the all-reduce of the layer after
    it; a backward pass waits for the update of two layers further on.
    """
    times = layer_time(mlp, worker, 0.0)
    names = [f"layer {number}" for number in range(1, mlp.layers + 1)]
    graph = GraphBuilder(names)
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=mlp.gradient_bytes)
    computed: int | None = None
    reduced: int | None = None

    def compute(layer: int, what: str, phase: TrainingPhase, seconds: float) -> int:
        nonlocal computed
        waits = (computed, reduced if phase is TrainingPhase.UPDATE else None)
        computed = graph.add(
            f"{what} {names[layer]}",
            TaskKind.COMPUTE,
            waits,
            duration_s=seconds,
            layer=layer,
            phase=phase,
        )
        return computed

    for layer in range(mlp.layers):
        compute(layer, "forward", TrainingPhase.FORWARD, times.forward_s)
    last = mlp.layers - 1
    backward = compute(last, "backward", TrainingPhase.INPUT_GRADIENT, times.backward_s)
    for layer in range(last, -1, -1):
        before = reduced
        if layer < last:
            compute(layer + 1, "update", TrainingPhase.UPDATE, times.update_s)
        # The gradients are there since the backward pass of the layer, one step ago.
        reduced = graph.add(
            f"all-reduce {names[layer]}",
            TaskKind.COLLECTIVE,
            (backward, before),
            call=call,
            layer=layer,
            phase=TrainingPhase.WEIGHT_GRADIENT,
        )
        if layer > 0:
            backward = compute(
                layer - 1, "backward", TrainingPhase.INPUT_GRADIENT, times.backward_s
            )
    compute(0, "update", TrainingPhase.UPDATE, times.update_s)
    return Job(name=f"MLP {mlp.layers} x {mlp.width}", graphs=(graph.graph(),))

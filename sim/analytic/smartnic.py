# SPDX-License-Identifier: Apache-2.0
"""The smart NIC's analytic model: a training trace, and an all-reduce as its slowest part.

Training of a multilayer perceptron with data parallelism (the smart-NIC paper; facts and the
reconstruction of lost equations in docs/reference/smartnic-model.md). Backward passes run from the
last layer to the first; the all-reduce of a layer's gradients runs beside the update of the layer
after it and the backward pass of the layer before it, and the next one starts when all three have
ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sim.fields import FieldError, check_at_least, check_positive
from sim.units import PCIE_GEN3_X8

__all__ = [
    "AllReduceTime",
    "LayerTime",
    "Mlp",
    "SmartNicModel",
    "TrainingTime",
    "Worker",
    "layer_time",
    "naive",
    "nic_training",
    "overlapped",
    "trace_s",
]

FORWARD_OPERATIONS = 2  # a multiplication and an addition per weight and sample
BACKWARD_OPERATIONS = 4  # gradients of the inputs and of the weights


@dataclass(frozen=True, kw_only=True)
class Mlp:
    """``layers`` square layers of ``width`` x ``width`` weights; ``batch`` samples per worker;
    weights and gradients of ``element_bytes``."""

    layers: int = 20
    width: int = 2048
    batch: int = 448
    element_bytes: int = 4

    def __post_init__(self) -> None:
        check_positive(self, "layers", "width", "batch", "element_bytes")

    @property
    def weights(self) -> int:
        """Weights of one layer."""
        return self.width * self.width

    @property
    def gradient_bytes(self) -> int:
        """Bytes of one layer's gradients."""
        return self.weights * self.element_bytes


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A computer.

    Parameters
    ----------
    flops_per_s
        All its cores together, in forward and backward passes.
    update_bytes_per_s
        Memory bandwidth of the weight update, which reads weights and gradients and writes
        weights.
    """

    flops_per_s: float
    update_bytes_per_s: float

    def __post_init__(self) -> None:
        check_positive(self, "flops_per_s", "update_bytes_per_s")


@dataclass(frozen=True, kw_only=True)
class LayerTime:
    """Seconds of one layer's forward pass, backward pass, update and all-reduce."""

    forward_s: float
    backward_s: float
    update_s: float
    all_reduce_s: float

    def __post_init__(self) -> None:
        check_at_least(self, 0, *vars(self))


@dataclass(frozen=True, kw_only=True)
class TrainingTime:
    """One iteration, in seconds: computations, and the all-reduces that they do not hide."""

    forward_s: float
    backward_s: float
    update_s: float
    exposed_s: float

    @property
    def total_s(self) -> float:
        return self.forward_s + self.backward_s + self.update_s + self.exposed_s


@dataclass(frozen=True, kw_only=True)
class AllReduceTime:
    """Seconds that the parts of an all-reduce take by themselves; the slowest sets the pace."""

    ring_s: float
    add_s: float
    memory_s: float

    @property
    def seconds(self) -> float:
        return max(self.ring_s, self.add_s, self.memory_s)

    @property
    def limit(self) -> str:
        """Slowest part: ``network``, ``adders`` or ``host bus``."""
        parts = {"network": self.ring_s, "adders": self.add_s, "host bus": self.memory_s}
        return max(parts, key=lambda part: parts[part])


def trace_s(layers: Sequence[LayerTime]) -> float:
    """T_total of the trace; ``layers[0]`` is the first layer of the forward pass.

    With L layers, counted from 1: all forward passes, the backward pass of layer L, then steps that
    last as long as their slowest part: (all-reduce of L, backward pass of L - 1); for each layer l
    from L - 1 down to 2 (all-reduce of l, update of l + 1 and backward pass of l - 1); (all-reduce
    of 1, update of 2); at last the update of layer 1.
    """
    if not layers:
        raise FieldError("layers", "must hold at least one layer")
    last = len(layers) - 1
    total = sum(layer.forward_s for layer in layers) + layers[last].backward_s
    for index in range(last, -1, -1):
        beside = layers[index + 1].update_s if index < last else 0.0
        if index > 0:
            beside += layers[index - 1].backward_s
        total += max(beside, layers[index].all_reduce_s)
    return total + layers[0].update_s


def overlapped(layers: Sequence[LayerTime]) -> TrainingTime:
    """An iteration as traced; ``exposed_s`` is its length minus all computations."""
    alone = naive([replace(layer, all_reduce_s=0.0) for layer in layers])
    return replace(alone, exposed_s=max(0.0, trace_s(layers) - alone.total_s))


def naive(layers: Sequence[LayerTime]) -> TrainingTime:
    """An iteration without overlap: every all-reduce is exposed."""
    return TrainingTime(
        forward_s=sum(layer.forward_s for layer in layers),
        backward_s=sum(layer.backward_s for layer in layers),
        update_s=sum(layer.update_s for layer in layers),
        exposed_s=sum(layer.all_reduce_s for layer in layers),
    )


def layer_time(mlp: Mlp, worker: Worker, all_reduce_s: float) -> LayerTime:
    """One layer on a worker whose cores all compute."""
    operations = mlp.weights * mlp.batch
    return LayerTime(
        forward_s=FORWARD_OPERATIONS * operations / worker.flops_per_s,
        backward_s=BACKWARD_OPERATIONS * operations / worker.flops_per_s,
        update_s=3 * mlp.gradient_bytes / worker.update_bytes_per_s,
        all_reduce_s=all_reduce_s,
    )


@dataclass(frozen=True, kw_only=True)
class SmartNicModel:
    """T_AR = max(T_ring, T_add, T_mem) of the NIC.

    Parameters
    ----------
    nodes : int
        N, at least 2.
    ethernet_bytes_per_s, ethernet_share
        Line rate in one direction, and alpha, the share of it that carries payload.
    ratio
        beta: bytes of gradients per byte on the wire, ``BlockFormat.ratio``; 1 for none.
    additions_per_s
        P_FPGA: lanes times clock.
    host_bytes_per_s
        PCIe in one direction; the default is Gen3 x8, 8 lanes of 8 Gbit/s with 128b/130b.
    half_duplex : bool
        Reads and writes of host memory share the bandwidth.
    passes : str
        Data that pass through the adders: ``"sums"``, the additions alone, N - 1 chunks;
        ``"reduction"``, also the chunk with which a rank begins, N chunks (the RTL in
        ``hw/smartnic``); ``"both"``, all sent in both halves of the ring, 2 (N - 1) chunks.
    """

    nodes: int
    ethernet_bytes_per_s: float = 5e9
    ethernet_share: float = 1.0
    ratio: float = 1.0
    additions_per_s: float = 8 * 200e6
    host_bytes_per_s: float = PCIE_GEN3_X8
    half_duplex: bool = False
    passes: str = "sums"

    def __post_init__(self) -> None:
        if self.nodes < 2:
            raise FieldError("nodes", f"must be at least 2, not {self.nodes!r}")
        check_positive(
            self, "ethernet_bytes_per_s", "ethernet_share", "ratio", "additions_per_s",
            "host_bytes_per_s",
        )
        if self.ethernet_share > 1:
            raise FieldError("ethernet_share", f"must be at most 1, not {self.ethernet_share!r}")
        if self.passes not in ("sums", "reduction", "both"):
            raise FieldError("passes", f"must be sums, reduction or both, not {self.passes!r}")

    def chunk(self, elements: int) -> int:
        """Elements of a chunk: the vector is padded to a multiple of N."""
        if elements < 1:
            raise FieldError("elements", f"must be at least 1, not {elements!r}")
        return -(-elements // self.nodes)

    def sent_bytes(self, elements: int, element_bytes: int = 4) -> int:
        """D: bytes that a NIC sends, and receives, without compression: 2 (N - 1) chunks."""
        return 2 * (self.nodes - 1) * self.chunk(elements) * element_bytes

    def all_reduce(self, elements: int, element_bytes: int = 4) -> AllReduceTime:
        """The parts of an all-reduce of *elements* elements."""
        n, chunk = self.nodes, self.chunk(elements)
        passed = {"sums": n - 1, "reduction": n, "both": 2 * (n - 1)}[self.passes]
        on_wire = self.sent_bytes(elements, element_bytes) / self.ratio
        host = n * chunk * element_bytes * (2 if self.half_duplex else 1)
        return AllReduceTime(
            ring_s=on_wire / (self.ethernet_share * self.ethernet_bytes_per_s),
            add_s=passed * chunk / self.additions_per_s,
            memory_s=host / self.host_bytes_per_s,
        )


def nic_training(mlp: Mlp, worker: Worker, nic: SmartNicModel) -> TrainingTime:
    """An iteration with the NIC: all cores compute."""
    seconds = nic.all_reduce(mlp.weights, mlp.element_bytes).seconds
    return overlapped([layer_time(mlp, worker, seconds)] * mlp.layers)

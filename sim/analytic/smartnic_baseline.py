# SPDX-License-Identifier: Apache-2.0
"""The system that the smart NIC is compared with: MPI all-reduces on cores set aside for them."""

import math
from dataclasses import dataclass, replace

from sim.analytic.smartnic import Mlp, TrainingTime, Worker, layer_time, naive, overlapped
from sim.fields import FieldError, check_at_least, check_positive

__all__ = ["SCHEMES", "BaselineSystem", "MpiCost", "mpi_cost"]

SCHEMES = ("ring", "rabenseifner", "binomial")


@dataclass(frozen=True, kw_only=True)
class MpiCost:
    """Messages that a node sends in sequence, and the bytes sent per byte of the vector."""

    steps: int
    volume: float


def mpi_cost(scheme: str, nodes: int) -> MpiCost:
    """The critical path of an all-reduce.

    Parameters
    ----------
    scheme
        * ``ring``: reduce-scatter and all-gather around a ring;
        * ``rabenseifner``: reduce-scatter by recursive halving, all-gather by recursive doubling.
          With r nodes above a power of two, r nodes first hand their whole vector to a partner and
          get the result back at the end, as MPICH does;
        * ``binomial``: reduction to one node and broadcast from it, both of the whole vector along
          a binomial tree;
        * ``default``: the one that sends least, then the one with fewer messages.
    """
    if nodes < 2:
        raise FieldError("nodes", f"must be at least 2, not {nodes!r}")
    if scheme == "default":
        costs = [mpi_cost(each, nodes) for each in SCHEMES]
        return min(costs, key=lambda cost: (cost.volume, cost.steps))
    if scheme == "ring":
        return MpiCost(steps=2 * (nodes - 1), volume=2 * (nodes - 1) / nodes)
    if scheme == "rabenseifner":
        rounds = nodes.bit_length() - 1
        power = 1 << rounds
        more = 2 if power != nodes else 0
        return MpiCost(steps=2 * rounds + more, volume=2 * (power - 1) / power + more)
    if scheme == "binomial":
        rounds = math.ceil(math.log2(nodes))
        return MpiCost(steps=2 * rounds, volume=2.0 * rounds)
    raise FieldError("scheme", f"must be one of default, {', '.join(SCHEMES)}, not {scheme!r}")


@dataclass(frozen=True, kw_only=True)
class BaselineSystem:
    """Workers that do their all-reduces by MPI over Ethernet.

    Parameters
    ----------
    nodes : int
    cores, communication_cores : int
        Cores of a worker, and those set aside while communication overlaps. All of them compute
        in the forward pass, which overlaps with nothing.
    core_bytes_per_s : float
        Rate at which one core sends, including all copies and additions that this takes.
    naive_bytes_per_s : float or None
        The same for the core that also computes, as all others do (`naive`); None: no slower.
    network_bytes_per_s : float
        Line rate in one direction.
    step_s : float
        Latency of a message, which every step of an all-reduce adds.
    scheme : str
        See :func:`mpi_cost`.
    """

    nodes: int
    core_bytes_per_s: float
    cores: int = 28
    communication_cores: int = 2
    network_bytes_per_s: float = 12.5e9
    step_s: float = 0.0
    scheme: str = "default"
    naive_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        mpi_cost(self.scheme, self.nodes)
        if not 0 < self.communication_cores < self.cores:
            raise FieldError(
                "communication_cores", f"must be from 1 to {self.cores - 1}, "
                f"not {self.communication_cores!r}"
            )
        check_positive(self, "core_bytes_per_s", "network_bytes_per_s")
        if self.naive_bytes_per_s is not None and not self.naive_bytes_per_s > 0:
            raise FieldError(
                "naive_bytes_per_s", f"must be above 0 or None, not {self.naive_bytes_per_s!r}"
            )
        check_at_least(self, 0, "step_s")

    def all_reduce_s(self, size_bytes: float, *, cores: int | None = None) -> float:
        """Duration for one vector that *cores* cores send (None: those set aside)."""
        sending = self.communication_cores if cores is None else cores
        return self._all_reduce_s(size_bytes, sending * self.core_bytes_per_s)

    def _all_reduce_s(self, size_bytes: float, sent_bytes_per_s: float) -> float:
        rate = min(self.network_bytes_per_s, sent_bytes_per_s)
        cost = mpi_cost(self.scheme, self.nodes)
        return cost.steps * self.step_s + cost.volume * size_bytes / rate

    def overlapped(self, mlp: Mlp, worker: Worker) -> TrainingTime:
        """An iteration in which all-reduces run beside backward passes and updates."""
        layer = layer_time(mlp, worker, self.all_reduce_s(mlp.gradient_bytes))
        slower = self.cores / (self.cores - self.communication_cores)
        return overlapped([replace(layer, backward_s=layer.backward_s * slower)] * mlp.layers)

    def naive(self, mlp: Mlp, worker: Worker) -> TrainingTime:
        """An iteration in which the computing process calls blocking all-reduces: all cores
        compute, one sends."""
        rate = self.naive_bytes_per_s
        rate = self.core_bytes_per_s if rate is None else rate
        seconds = self._all_reduce_s(mlp.gradient_bytes, rate)
        return naive([layer_time(mlp, worker, seconds)] * mlp.layers)

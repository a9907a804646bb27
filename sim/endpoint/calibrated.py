# SPDX-License-Identifier: Apache-2.0
"""An endpoint corrected by a measurement: added time per call, and per dependent message."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sim.collectives.plan import AlgorithmChoice
from sim.collectives.program import Plan
from sim.endpoint.endpoint import ComputeShare, Endpoint, EndpointModel
from sim.fields import check, check_at_least, check_fields
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = ["CalibratedEndpoint", "Calibration"]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Corrections of data-sheet figures by a measurement.

    ``share``: the part of every link's bandwidth that is left; ``start``: seconds added once in
    every call; ``step``: seconds added after every message that something waits for.
    """

    share: float = 1.0
    start: float = 0.0
    step: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        check("share", self.share, "above 0 and at most 1", 0 < self.share <= 1)
        check_at_least(self, 0, "start", "step")

    def links(self, dimensions: Sequence[Dimension]) -> tuple[Dimension, ...]:
        """The dimensions with ``share`` of their bandwidth."""
        return tuple(
            replace(
                each,
                bandwidth_bytes_per_s=each.bandwidth_bytes_per_s * self.share,
                trunk_bandwidth_bytes_per_s=None
                if each.trunk_bandwidth_bytes_per_s is None
                else each.trunk_bandwidth_bytes_per_s * self.share,
                graph=None if each.graph is None else each.graph.scaled(self.share),
            )
            for each in dimensions
        )

    def endpoint(self, endpoint: Endpoint) -> Endpoint:
        """*endpoint* with ``start`` and ``step`` added."""
        if not self.start and not self.step:
            return endpoint
        return CalibratedEndpoint(endpoint=endpoint, start_s=self.start, step_s=self.step)


@dataclass(frozen=True, kw_only=True)
class CalibratedEndpoint:
    """*endpoint*, with ``start_s`` once in every call and ``step_s`` after every message."""

    endpoint: Endpoint
    start_s: float
    step_s: float

    @property
    def overlaps(self) -> bool:
        return self.endpoint.overlaps

    @property
    def in_switch(self) -> str | None:
        """Mode in which switches reduce; None if they do not."""
        return getattr(self.endpoint, "in_switch", None)

    @property
    def chunk_of(self) -> Callable[[Sequence[Dimension]], float] | None:
        """Bytes of a chunk by dimensions; None if the endpoint does not cut collectives."""
        return getattr(self.endpoint, "chunk_of", None)

    @property
    def concurrency_of(self) -> Callable[[Sequence[Dimension]], int] | None:
        """Chunks in flight by dimensions; None if the endpoint does not say."""
        return getattr(self.endpoint, "concurrency_of", None)

    def planned(
        self, network: Network, kind: CollectiveKind, choice: AlgorithmChoice, plan: Plan
    ) -> Plan:
        """*plan* as the endpoint carries it out."""
        planned = getattr(self.endpoint, "planned", None)
        return plan if planned is None else planned(network, kind, choice, plan)

    def model(self, network: Network, kind: CollectiveKind, plan: Plan) -> EndpointModel:
        made = self.endpoint.model(network, kind, plan)
        return replace(
            made,
            start_s=made.start_s + self.start_s,
            receive_delay_s=made.receive_delay_s + self.step_s,
        )

    def share(self) -> ComputeShare:
        return self.endpoint.share()

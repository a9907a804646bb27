"""The endpoint that costs nothing."""

from dataclasses import dataclass

from sim.algorithms.program import Plan
from sim.endpoint.endpoint import ComputeShare, EndpointModel
from sim.workload.graph import CollectiveKind

__all__ = ["IdealEndpoint"]


@dataclass(frozen=True, kw_only=True)
class IdealEndpoint:
    """Handles every message in ``delay_s`` (one cycle) and leaves everything to training (ACE
    Table VI). ``message_bytes`` None: a step's data travel as one message."""

    name: str = "ideal"
    delay_s: float = 1e-9
    message_bytes: float | None = None
    memory_bytes_per_s: float = 900e9

    def model(self, kind: CollectiveKind, plan: Plan) -> EndpointModel:
        return EndpointModel(receive_delay_s=self.delay_s, message_bytes=self.message_bytes)

    def share(self) -> ComputeShare:
        return ComputeShare(compute=1.0, memory_bytes_per_s=self.memory_bytes_per_s)

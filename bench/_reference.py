"""The systems on which reference simulators were measured, described for ours.

ASTRA-sim 2.x: rings of 50 GB/s (GB = 2**30 B) and 500 ns, one direction for reduce-scatter and
all-reduce, the other for all-gather; a chunk travels as one message and is stored and forwarded at
every hop; reductions cost three accesses at 1600e9 B/s; 9 ns from arrival to the next send.

ASTRA-sim 1.0: the two links of a dimension carry each message together, so a ring is one ring of
twice the bandwidth; latency 1 ns; one cycle passes at the endpoint.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sim.collectives.plan import AlgorithmChoice
from sim.collectives.program import Plan, Receipt, Source
from sim.endpoint.endpoint import ComputeShare, EndpointModel, Stage
from sim.endpoint.kinds import IdealEndpoint
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.units import GIB
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

__all__ = ["System", "collective", "release_1", "release_2"]

LINK = 50 * GIB
LOCAL_MEMORY = 1600e9


@dataclass(frozen=True, kw_only=True)
class ReductionEndpoint:
    """Adds what arrives at memory speed; ``line_s_per_byte`` stands for a link that is never shared
    (the mode without congestion)."""

    overlaps: bool = True
    line_s_per_byte: float = 0.0

    def model(self, network: Network, kind: CollectiveKind, plan: Plan) -> EndpointModel:
        line = Stage(unit=None, s_per_byte=self.line_s_per_byte)
        add = Stage(unit=None, s_per_byte=3 / LOCAL_MEMORY)
        return EndpointModel(
            before={Source.FRESH: (line,), Source.REDUCED: (add, line), Source.FORWARD: (line,)}
            if self.line_s_per_byte
            else {Source.REDUCED: (add,)},
            after={Receipt.REDUCE: (add,)},
            receive_delay_s=9e-9,
        )

    def share(self) -> ComputeShare:
        return ComputeShare(compute=1.0, memory_bytes_per_s=LOCAL_MEMORY)


@dataclass(frozen=True, kw_only=True)
class System:
    """Everything but the job."""

    network: Network
    endpoint: object
    scheduler: Scheduler
    algorithms: AlgorithmChoice
    options: dict[str, object] = field(default_factory=dict)

    def run(self, job: Job, fold: str = "off"):  # type: ignore[no-untyped-def]
        """The record of a run; unfolded unless asked otherwise."""
        return simulate(
            self.network,
            job,
            endpoint=self.endpoint,  # type: ignore[arg-type]
            scheduler=self.scheduler,
            algorithms=self.algorithms,
            fold=fold,
        )


def release_2(
    shape: Sequence[int],
    *,
    splits: int = 4,
    active: int = 1,
    aware: bool = True,
    kind: str = "ring",
    gather_backwards: bool = True,
) -> System:
    """ASTRA-sim 2.x with its analytical network, congestion-aware or not."""
    bandwidth = LINK if aware else LINK * 1e6
    latency = 500e-9
    return System(
        network=Network(
            [
                Dimension(kind=kind, size=k, bandwidth_bytes_per_s=bandwidth, latency_s=latency)
                for k in shape
            ]
        ),
        endpoint=ReductionEndpoint(line_s_per_byte=0.0 if aware else 1 / LINK),
        scheduler=Scheduler(splits=splits, concurrency=active, queues="dimension"),
        algorithms=AlgorithmChoice(
            style="dimension_ordered",
            rings=1,
            gather_backwards=gather_backwards,
            sum_on_arrival=True,
        ),
    )


def release_1(
    shape: Sequence[int], *, bundled: bool = True, logical: Sequence[int] | None = None
) -> System:
    """ASTRA-sim 1.0 with the parameters of its torus sample: links of 32, 16, 16 GB/s."""
    lanes = 2 if bundled else 1
    return System(
        network=Network.torus(
            shape,
            bandwidth_bytes_per_s=[lanes * b * GIB for _, b in zip(shape, (32, 16, 16))],
            latency_s=1e-9,
            logical_shape=logical,
        ),
        endpoint=IdealEndpoint(delay_s=1e-9, message_bytes=None),
        scheduler=Scheduler(splits=4, concurrency=1, queues="dimension"),
        algorithms=AlgorithmChoice(
            style="dimension_ordered", rings=1 if bundled else None, all_to_all="ring"
        ),
    )


def collective(size_bytes: int, kind: CollectiveKind = CollectiveKind.ALL_REDUCE) -> Job:
    """A job of one collective."""
    builder = GraphBuilder()
    call = CollectiveCall(kind=kind, size_bytes=size_bytes)
    builder.add(kind.value, TaskKind.COLLECTIVE, call=call)
    return Job(name=kind.value, graphs=(builder.graph(),))

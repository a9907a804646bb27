"""The systems of the three papers, from the parameters of their tables, and how a run is judged.

ACE v1 Table 7, ISCA 2021 Table V, ASTRA-SIM Table IV. Where a paper leaves a parameter open, the
choice is made here once, for all of its figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sim.collectives.plan import AlgorithmChoice
from sim.endpoint.endpoint import Endpoint
from sim.events.record import RunRecord
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.results.breakdown import Breakdown, break_down
from sim.units import FS_PER_S, GB
from sim.workload.astra_text import Workload
from sim.workload.compute_model import ComputeModel, Roofline, SystolicArray
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind
from sim.workload.model import ModelTable, model_job
from sim.workload.resources import ComputeResources
from sim.workload.training import training_job

__all__ = [
    "ACE_STYLE",
    "CYCLE_S",
    "EFFICIENCY",
    "GB",
    "ISCA21_CYCLE_S",
    "Rates",
    "astra_packages",
    "astra_torus",
    "collective",
    "isca21_torus",
    "measure",
    "name_of",
    "train",
    "train_text",
    "v1_switch",
    "v1_torus",
]

EFFICIENCY = 0.94
INTRA, INTER = 200 * GB, 25 * GB
_ring = partial(Dimension.ring, efficiency=EFFICIENCY)
ISCA21_CYCLE_S = 1 / 1.245e9
# The LogGP bus of the released code has its constants at 1 GHz.
CYCLE_S = 1e-9
ACE_STYLE = AlgorithmChoice(style="enhanced", all_to_all_span="all")
"""The four phases of the ACE papers; all-to-all in a single phase, routed by the network."""


def name_of(shape: Sequence[int]) -> str:
    """``4x4x4``."""
    return "x".join(map(str, shape))


def isca21_torus(shape: Sequence[int], *, inter_cycles: float = 500) -> Network:
    """L x V x H: one bidirectional ring in every dimension."""
    local, *others = shape
    return Network(
        [
            _ring(local, INTRA, 90 * ISCA21_CYCLE_S),
            *(_ring(size, INTER, inter_cycles * ISCA21_CYCLE_S) for size in others),
        ]
    )


def v1_torus(shape: Sequence[int]) -> Network:
    """L x V x H. Where V or H is 1, the links that are free make a second ring in the other."""
    local, vertical, horizontal = shape
    lanes = {0: 1, 1: 2 if horizontal == 1 else 1, 2: 2 if vertical == 1 else 1}
    return Network(
        [
            _ring(local, INTRA, 90 * CYCLE_S),
            _ring(vertical, INTER, 200 * CYCLE_S, lanes=lanes[1]),
            _ring(horizontal, INTER, 200 * CYCLE_S, lanes=lanes[2]),
        ]
    )


def v1_switch(local: int, packages: int) -> Network:
    """L x P: a ring in the package, four switches between packages; half the latency per link."""
    switches = Dimension.switch(packages, INTER, 100 * CYCLE_S, lanes=4, efficiency=EFFICIENCY)
    return Network([_ring(local, INTRA, 90 * CYCLE_S), switches])


def astra_torus(
    shape: Sequence[int],
    *,
    symmetric: bool = False,
    local_bidirectional: bool = False,
) -> Network:
    """M x N x K = local x horizontal x vertical.

    Collectives go through local, vertical, horizontal. Two local rings run one way, two rings in
    each other dimension both ways. ``symmetric``: local links are as fast, and as far, as those
    between packages; else 8 times as fast.
    """
    local, horizontal, vertical = shape
    inside = _ring(
        local,
        INTER if symmetric else INTRA,
        (200 if symmetric else 90) * CYCLE_S,
        router_latency_s=CYCLE_S,
        lanes=2,
        bidirectional=local_bidirectional,
    )
    others = [
        _ring(size, INTER, 200 * CYCLE_S, lanes=2, router_latency_s=CYCLE_S)
        for size in (vertical, horizontal)
    ]
    return Network([inside, *others])


def astra_packages(kind: str, size: int, links: int) -> Network:
    """One dimension of packages: a ring with *links* per neighbour, or *links* switches."""
    if kind == "ring":
        return Network([_ring(size, INTER, 200 * CYCLE_S, lanes=links, router_latency_s=CYCLE_S)])
    latency_s, router_s = 100 * CYCLE_S, CYCLE_S
    switch = Dimension.switch(
        size, INTER, latency_s, router_latency_s=router_s, lanes=links, efficiency=EFFICIENCY
    )
    return Network([switch])


def collective(kind: CollectiveKind, size_bytes: int) -> Job:
    """One collective over all dimensions, and nothing else."""
    graph = GraphBuilder()
    call = CollectiveCall(kind=kind, size_bytes=size_bytes)
    graph.add(kind.value, TaskKind.COLLECTIVE, call=call)
    return Job(name=kind.value, graphs=(graph.graph(),))


@dataclass(frozen=True, kw_only=True)
class Rates:
    """A collective alone: its time, and per node what was sent and read."""

    record: RunRecord
    seconds: float
    sent_bytes: float
    wire_bytes_per_s: float
    events: int

    def busy_s(self, unit: str) -> float:
        """Time that an endpoint's unit worked, mean over nodes."""
        return float(self.record.unit_busy_fs[self.record.unit_names.index(unit)].mean()) / FS_PER_S


def measure(
    network: Network,
    endpoint: Endpoint,
    size_bytes: int,
    *,
    kind: CollectiveKind = CollectiveKind.ALL_REDUCE,
    style: AlgorithmChoice = ACE_STYLE,
    scheduler: Scheduler | None = None,
    **options: Any,
) -> Rates:
    """Run one collective. ``wire_bytes_per_s`` is what a node sends, headers included."""
    record = simulate(
        network,
        collective(kind, size_bytes),
        endpoint=endpoint,
        scheduler=scheduler or Scheduler(),
        algorithms=style,
        **options,
    )
    seconds = record.end_fs / FS_PER_S
    leaving = [i for i, link in enumerate(record.links) if link.source < record.nodes]
    rows = 1 if record.folded else record.nodes
    sent = float(record.link_bytes[leaving].sum()) / rows
    return Rates(
        record=record,
        seconds=seconds,
        sent_bytes=sent,
        wire_bytes_per_s=sent / EFFICIENCY / seconds,
        events=record.events,
    )


def train(
    table: ModelTable,
    network: Network,
    endpoint: Endpoint,
    *,
    passes: int = 2,
    scheduler: Scheduler | None = None,
    style: AlgorithmChoice = ACE_STYLE,
    systolic: bool = False,
    side: bool = False,
    **options: Any,
) -> Breakdown:
    """Train for some iterations, LIFO, with what the endpoint leaves of the NPU.

    The NPU of ISCA 2021 is a roofline of 120 TFLOPS and 900 GB/s, that of the other papers a
    256x256 array at 700 MHz (``systolic``). ``side`` moves the embeddings of a DLRM to a side
    thread.
    """
    job = model_job(
        table,
        compute_of(endpoint, systolic=systolic, side=side),
        shape=network.shape,
        passes=passes,
        overlap=endpoint.overlaps,
        side=Roofline(resources=SIDE) if side else None,
    )
    record = simulate(
        network,
        job,
        endpoint=endpoint,
        scheduler=scheduler or Scheduler(),
        algorithms=style,
        **options,
    )
    return break_down(record, job)


def train_text(
    workload: Workload,
    network: Network,
    endpoint: Endpoint,
    *,
    cycle_s: float,
    comm_scale: float = 1.0,
    compute_scale: float = 1.0,
    model_parallel_npus: int | None = None,
    passes: int = 2,
    scheduler: Scheduler | None = None,
    style: AlgorithmChoice = ACE_STYLE,
    **options: Any,
) -> Breakdown:
    """Train a text workload; its times take longer by the compute units that the endpoint takes."""
    job = training_job(
        workload,
        shape=network.shape,
        passes=passes,
        compute_scale=compute_scale / endpoint.share().compute,
        comm_scale=comm_scale,
        cycle_s=cycle_s,
        model_parallel_npus=model_parallel_npus,
        overlap=endpoint.overlaps,
    )
    record = simulate(
        network,
        job,
        endpoint=endpoint,
        scheduler=scheduler or Scheduler(),
        algorithms=style,
        **options,
    )
    return break_down(record, job)


PEAK_FLOPS, CORES, MEMORY = 120e12, 80, 900 * GB
SIDE = ComputeResources(flops_per_s=PEAK_FLOPS / CORES, memory_bytes_per_s=80 * GB, share=1 / CORES)
"""What DLRM's side thread has: one core and 80 GB/s (ISCA 2021, section VI-D)."""


def compute_of(endpoint: Endpoint, *, systolic: bool = False, side: bool = False) -> ComputeModel:
    """The compute model that is left by an endpoint, and by a side thread if there is one."""
    left = endpoint.share()
    share = left.compute - (SIDE.share if side else 0.0)
    resources = ComputeResources(
        flops_per_s=share * PEAK_FLOPS,
        memory_bytes_per_s=left.memory_bytes_per_s - (80 * GB if side else 0.0),
        share=share,
    )
    return SystolicArray(resources=resources) if systolic else Roofline(resources=resources)

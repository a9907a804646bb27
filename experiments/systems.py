# SPDX-License-Identifier: Apache-2.0
"""The systems of the three papers, from the parameters of their tables, and how a run is judged.

ACE v1 Table 7, ISCA 2021 Table V, ASTRA-SIM Table IV. Where a paper leaves a parameter open, the
choice is made here once, for all of its figures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from experiments.figure import Assumption
from sim.collectives.plan import AlgorithmChoice
from sim.endpoint.endpoint import Endpoint
from sim.endpoint.kinds import IdealEndpoint
from sim.events.record import RunRecord
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.results.breakdown import Breakdown, break_down
from sim.units import FS_PER_S, GB
from sim.workload.astra_text import Workload, shipped
from sim.workload.compute_model import ComputeModel, Roofline, SystolicArray
from sim.workload.generate import gnmt, resnet50
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind
from sim.workload.model import ModelTable, model_job
from sim.workload.resources import ComputeResources
from sim.workload.training import training_job

__all__ = [
    "ACE_STYLE",
    "ARRAY_FLOPS",
    "BATCH",
    "CHUNKS",
    "CYCLE_S",
    "DISPATCHER",
    "EFFICIENCY",
    "GB",
    "GNMT_STEP",
    "IMAGES",
    "ISCA21_CYCLE_S",
    "ISCA21_DISPATCHER",
    "LOOP",
    "LOST_SHARES",
    "ONE_IMAGE",
    "RELEASED",
    "Rates",
    "astra_packages",
    "astra_symmetric",
    "astra_torus",
    "collective",
    "gnmt_step",
    "isca21_torus",
    "least_iteration_s",
    "measure",
    "name_of",
    "resnet50_batch",
    "serial_all_reduces_s",
    "train",
    "train_released",
    "train_text",
    "v1_switch",
    "v1_torus",
]

RELEASED, BATCH = "ResNet-50", "ResNet-50, 32 images"
"""The workload file that the authors released, one image per NPU, and what the papers state."""
IMAGES = 32

EFFICIENCY = 0.94
INTRA, INTER = 200 * GB, 25 * GB
_ring = partial(Dimension.ring, efficiency=EFFICIENCY)
ISCA21_CYCLE_S = 1 / 1.245e9
# The LogGP bus of the released code has its constants at 1 GHz.
CYCLE_S = 1e-9
PEAK_FLOPS, CORES, MEMORY = 120e12, 80, 900 * GB
ARRAY_FLOPS = SystolicArray().peak_flops_per_s
CHUNKS = Scheduler(chunk_bytes=65536, concurrency=8)
"""64 KiB (ACE v1, Table 4), and 8 chunks at a time in a queue (see below)."""
DISPATCHER = replace(CHUNKS, threshold=8, issue=16)
"""16 chunks while fewer than 8 are in their first phase (ASTRA-SIM, section V-F), and 8 chunks at a
time in a queue, as in the first release of that simulator."""
ISCA21_DISPATCHER = replace(DISPATCHER, concurrency=16)

LOOP = Assumption("two iterations, LIFO, weak scaling", "stated")
ONE_IMAGE = Assumption(
    "ResNet-50: times of the released file, one image on a weight-stationary 256x256 array",
    "data",
    "the closed form of that array gives all 54 weight gradients of the file to the cycle",
)
LOST_SHARES = Assumption(
    "what training loses makes a layer of the file longer by the ratio of our compute model's "
    "times for it",
    "chosen",
    "the papers give the shares, not what they do to a layer",
)
GNMT_STEP = Assumption(
    "GNMT: one time step of every LSTM, a classifier over 51 tokens, 36548 word pieces",
    "data",
    "the authors' list of products, gnmt_gemm_mnk.csv",
)
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


def astra_torus(shape: Sequence[int]) -> Network:
    """M x N x K = local x horizontal x vertical, links in a package 8 times as fast (Table IV).

    Collectives go through local, vertical, horizontal. Two local rings run one way, two rings in
    each other dimension both ways.
    """
    local, horizontal, vertical = shape
    inside = _ring(
        local,
        INTRA,
        90 * CYCLE_S,
        router_latency_s=CYCLE_S,
        lanes=2,
        bidirectional=False,
    )
    others = [
        _ring(size, INTER, 200 * CYCLE_S, lanes=2, router_latency_s=CYCLE_S)
        for size in (vertical, horizontal)
    ]
    return Network([inside, *others])


SYMMETRIC_RINGS = 6


def astra_symmetric(shape: Sequence[int]) -> Network:
    """M x N x K packages of one NPU each, all links alike.

    Section V adds dimensions "without increasing the number of links": Table IV's two rings in each
    of three dimensions are three in each of two, and six in one.
    """
    local, horizontal, vertical = shape
    used = sum(size > 1 for size in shape)
    return Network(
        [
            _ring(
                size,
                INTER,
                200 * CYCLE_S,
                lanes=SYMMETRIC_RINGS // used if size > 1 else 1,
                router_latency_s=CYCLE_S,
            )
            for size in (local, vertical, horizontal)
        ]
    )


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
    """Run one collective, if not told otherwise in `CHUNKS`. ``wire_bytes_per_s`` is what a node
    sends, headers included."""
    record = simulate(
        network,
        collective(kind, size_bytes),
        endpoint=endpoint,
        scheduler=scheduler or CHUNKS,
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
    return _broken_down(job, network, endpoint, scheduler, style, options)


def _broken_down(
    job: Job,
    network: Network,
    endpoint: Endpoint,
    scheduler: Scheduler | None,
    style: AlgorithmChoice,
    options: Mapping[str, Any],
) -> Breakdown:
    """A run of a training job; without a scheduler, by `CHUNKS` alone."""
    record = simulate(
        network,
        job,
        endpoint=endpoint,
        scheduler=scheduler or CHUNKS,
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
    """Train a text workload with its times as they are."""
    job = training_job(
        workload,
        shape=network.shape,
        passes=passes,
        compute_scale=compute_scale,
        comm_scale=comm_scale,
        cycle_s=cycle_s,
        model_parallel_npus=model_parallel_npus,
        overlap=endpoint.overlaps,
    )
    return _broken_down(job, network, endpoint, scheduler, style, options)


def train_released(
    network: Network,
    endpoint: Endpoint,
    *,
    cycle_s: float,
    systolic: bool = False,
    comm_scale: float = 1.0,
    **options: Any,
) -> Breakdown:
    """Train the released ResNet-50, its times longer by what the endpoint takes from training.

    The file says how long a layer takes with the whole NPU. With less it takes longer by the ratio
    of two times of the compute model (see `train`) for the same layer and one image.
    """
    workload = replace(
        shipped("resnet50"),
        layers=tuple(
            replace(
                layer,
                **{
                    part: replace(
                        getattr(layer, part),
                        compute_cycles=round(getattr(layer, part).compute_cycles * factor),
                    )
                    for part, factor in factors.items()
                },
            )
            for layer, factors in zip(
                shipped("resnet50").layers, slowed(endpoint, systolic=systolic), strict=True
            )
        ),
    )
    return train_text(
        workload, network, endpoint, cycle_s=cycle_s, comm_scale=comm_scale, **options
    )


def slowed(endpoint: Endpoint, *, systolic: bool = False) -> list[dict[str, float]]:
    """By how much an endpoint makes each layer of ResNet-50 (one image) longer, pass by pass."""
    whole = compute_of(IdealEndpoint(), systolic=systolic)
    left = compute_of(endpoint, systolic=systolic)
    found = []
    for layer in resnet50.generate(batch=1, fused=True).layers:
        work = {
            part: getattr(layer, part).work
            for part in ("forward", "input_gradient", "weight_gradient")
        }
        found.append(
            {
                part: left.time_s(each) / whole.time_s(each) if whole.time_s(each) else 1.0
                for part, each in work.items()
            }
        )
    return found


@cache
def resnet50_batch(dtype_bytes: int) -> ModelTable:
    """32 images. Matrix products alone are timed, so a convolution hides its normalisation."""
    return resnet50.generate(batch=IMAGES, dtype_bytes=dtype_bytes, fused=True)


@cache
def gnmt_step(batch: int, dtype_bytes: int) -> ModelTable:
    """GNMT as in the authors' list of products: see `GNMT_STEP`."""
    return gnmt.generate(
        batch=batch,
        dtype_bytes=dtype_bytes,
        source_length=1,
        target_length=1,
        classifier_tokens=51,
        vocabulary=36548,
    )


def serial_all_reduces_s(
    table: ModelTable, network: Network, endpoint: Endpoint, **options: Any
) -> float:
    """The gradients of all layers, summed one layer after the other with nothing beside it."""
    sizes = [layer.weight_gradient.size_bytes for layer in table.layers]
    lone = {
        size: measure(network, endpoint, size, **options).seconds for size in set(sizes) if size
    }
    return sum(lone[size] for size in sizes if size)


def least_iteration_s(table: ModelTable, flops_per_s: float) -> float:
    """Forward and both gradients with all units busy all the time: no iteration is shorter."""
    return 3 * 2 * table.forward_macs / flops_per_s


SIDE = ComputeResources(flops_per_s=PEAK_FLOPS / CORES, memory_bytes_per_s=80 * GB, share=1 / CORES)
"""Resources of DLRM's side thread: one core and 80 GB/s (ISCA 2021, section VI-D)."""


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

"""The tables of a described training system that are no dataclass of another module.

Checks start with the name of the key, by which readers find its place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sim.collectives.plan import AlgorithmChoice
from sim.describe.reader import TomlReader, check
from sim.endpoint.endpoint import Endpoint
from sim.endpoint.kinds import KINDS
from sim.events.packets import PacketOptions
from sim.events.scheduler import Scheduler
from sim.network.dimension import Dimension
from sim.network.link import LinkFault
from sim.workload.graph import CollectiveKind

__all__ = [
    "WORKLOAD_SOURCES",
    "Description",
    "NetworkSection",
    "NodeTrouble",
    "RunSection",
    "ScenarioSection",
    "TopologySection",
    "WorkloadSection",
]

MOST_PASSES, MOST_SPANS, MOST_BUCKETS = 10_000, 100_000_000, 1_000_000
GRANULARITIES = ("message", "packet")
ROUTINGS = ("hardware", "software")
RESERVES = ("auto", "on", "off")
FOLDS = ("auto", "on", "off")
WORKLOAD_SOURCES = ("file", "shipped", "generator", "collective")


@dataclass(frozen=True, kw_only=True)
class TopologySection:
    """``kind`` and ``shape`` name a topology; without ``kind``, the [[dimension]] tables are all.

    ``bandwidth_bytes_per_s``, ``latency_s``, ``efficiency`` and ``router_latency_s`` are for all
    dimensions. ``nodes``, if given, is checked. Collectives see ``logical_shape`` (or all nodes as
    ``one_dimension``), the rank i on the node ``placement[i]``.
    """

    kind: str | None = None
    shape: tuple[int, ...] | None = None
    bandwidth_bytes_per_s: float | None = None
    latency_s: float | None = None
    efficiency: float | None = None
    router_latency_s: float | None = None
    nodes: int | None = None
    logical_shape: tuple[int, ...] | None = None
    one_dimension: bool = False
    placement: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.kind is None:
            check("shape", self.shape, "absent without kind", self.shape is None)
        if self.one_dimension:
            shape = self.logical_shape
            check("logical_shape", shape, "absent beside one_dimension", shape is None)


@dataclass(frozen=True, kw_only=True)
class WorkloadSection:
    """One of ``file`` (a path), ``shipped``, ``generator`` or ``collective``, and its options."""

    file: str | None = None
    shipped: str | None = None
    generator: str | None = None
    collective: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> tuple[str, str]:
        """The key that was given, and its value."""
        given = [(key, getattr(self, key)) for key in WORKLOAD_SOURCES]
        return next((key, value) for key, value in given if value is not None)


@dataclass(frozen=True, kw_only=True)
class NodeTrouble:
    """A straggler: all its computations take ``slowdown`` times as long."""

    node: int
    slowdown: float

    def __post_init__(self) -> None:
        check("slowdown", self.slowdown, "above 0 and at most 1e6", 0 < self.slowdown <= 1e6)


@dataclass(frozen=True, kw_only=True)
class ScenarioSection:
    """What differs between nodes or links that are otherwise alike."""

    link: tuple[LinkFault, ...] = ()
    node: tuple[NodeTrouble, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NetworkSection:
    """``granularity`` message, or packet with ``packets``; who forwards on ways of several hops."""

    granularity: str = "message"
    packet_routing: str = "hardware"
    packets: PacketOptions | None = None

    def __post_init__(self) -> None:
        allowed = f"one of {', '.join(GRANULARITIES)}"
        check("granularity", self.granularity, allowed, self.granularity in GRANULARITIES)
        allowed = f"one of {', '.join(ROUTINGS)}"
        check("packet_routing", self.packet_routing, allowed, self.packet_routing in ROUTINGS)


@dataclass(frozen=True, kw_only=True)
class RunSection:
    """How long, and what is recorded.

    ``fold``: simulate one NPU for all where the result is the same: ``auto`` where possible,
    ``on`` (an error where it is not), ``off``. ``bucket_s``: width of the ``buckets`` of link
    utilisation over time; None records none. ``trace``: record up to ``most_spans`` intervals.
    ``reserve``: a place for the least live chunk of every node, ``auto`` where nodes would wait for
    each other without. ``check``: that nothing was lost or doubled.
    """

    passes: int = 2
    fold: str = "auto"
    trace: bool = False
    most_spans: int = 1_000_000
    bucket_s: float | None = None
    buckets: int = 1000
    reserve: str = "auto"
    check: bool = False

    def __post_init__(self) -> None:
        allowed = f"from 1 to {MOST_PASSES}"
        check("passes", self.passes, allowed, 1 <= self.passes <= MOST_PASSES)
        check("fold", self.fold, f"one of {', '.join(FOLDS)}", self.fold in FOLDS)
        check("reserve", self.reserve, f"one of {', '.join(RESERVES)}", self.reserve in RESERVES)
        bucket = self.bucket_s
        check("bucket_s", bucket, "above 0", bucket is None or bucket > 0)
        for name, most in (("most_spans", MOST_SPANS), ("buckets", MOST_BUCKETS)):
            check(name, getattr(self, name), f"from 1 to {most}", 1 <= getattr(self, name) <= most)


@dataclass(frozen=True, kw_only=True)
class Description:
    """A training system. ``reader`` knows where values stand; ``folder`` is that of the file."""

    dimensions: tuple[Dimension, ...]
    workload: WorkloadSection
    topology: TopologySection = field(default_factory=TopologySection)
    endpoint: Endpoint = KINDS["ideal"]
    algorithms: Mapping[CollectiveKind, AlgorithmChoice] = field(default_factory=dict)
    scheduler: Scheduler = field(default_factory=Scheduler)
    network: NetworkSection = field(default_factory=NetworkSection)
    scenario: ScenarioSection = field(default_factory=ScenarioSection)
    run: RunSection = field(default_factory=RunSection)
    reader: TomlReader = field(default_factory=lambda: TomlReader("system"), compare=False)
    folder: Path = field(default_factory=Path, compare=False)

# SPDX-License-Identifier: Apache-2.0
"""The tables of a described training system that are not dataclasses of other modules.

Errors of their checks begin with the key, by which readers find its place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from gen.brief import Brief
from sim.collectives.plan import AlgorithmChoice
from sim.describe.reader import TomlReader
from sim.endpoint.calibrated import Calibration
from sim.endpoint.endpoint import Endpoint
from sim.endpoint.kinds import KINDS
from sim.events.packets import PacketOptions
from sim.events.scheduler import Scheduler
from sim.fields import FieldError, check, check_at_least, check_positive
from sim.network.dimension import Dimension
from sim.network.graph import GraphLink
from sim.network.link import LinkFault
from sim.results.origin import Origin
from sim.workload.graph import CollectiveKind

__all__ = [
    "LEVELS",
    "WIRE_KEYS",
    "WORKLOAD_SOURCES",
    "Description",
    "EngineSection",
    "HostSection",
    "LinkRow",
    "MemorySection",
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
LEVELS = ("events", "cycles", "rtl")
WAITS = ("each", "all")
OPS = ("sum_f32", "min_f32", "max_f32", "sum_i32")
WIRE_KEYS = ("loss_probability", "repetition_probability", "damage_probability")
RETRY_KEYS = ("retry", "retry_slots", "retry_timeout_cycles", "retry_tries")
WORKLOAD_SOURCES = ("file", "shipped", "generator", "collective")


@dataclass(frozen=True, kw_only=True)
class LinkRow:
    """``[[topology.link]]``: links from each of ``source`` to each of ``target``, nodes by number
    and switches by name, with the options of `sim.network.graph.GraphLink`.
    """

    source: int | str | tuple[int | str, ...]
    target: int | str | tuple[int | str, ...]
    lanes: int = 1
    bandwidth_bytes_per_s: float | None = None
    latency_s: float | None = None
    both_ways: bool = True

    def __post_init__(self) -> None:
        GraphLink(source=0, target=1, **self.options)

    @property
    def options(self) -> dict[str, Any]:
        """Fields of `GraphLink` beside its ends."""
        return {
            each.name: getattr(self, each.name)
            for each in fields(self) if each.name not in ("source", "target")
        }


@dataclass(frozen=True, kw_only=True)
class TopologySection:
    """``kind`` and ``shape`` name a topology, ``machine`` one of `sim.describe.machines`; without
    either, the [[dimension]] tables define it. For kind ``links``, ``link`` lists the links, or
    ``file``, a CSV file.

    ``bandwidth_bytes_per_s``, ``latency_s``, ``efficiency`` and ``router_latency_s`` are for all
    dimensions. ``nodes``, if given, is checked; with a machine it
    selects that many ranks. Collectives see ``logical_shape`` (or all nodes as
    ``one_dimension``), with rank i on node ``placement[i]``. ``own_links``: logical dimensions
    that split a physical one have links of their own, those of its kind between their members.
    """

    kind: str | None = None
    machine: str | None = None
    shape: tuple[int, ...] | None = None
    bandwidth_bytes_per_s: float | None = None
    latency_s: float | None = None
    efficiency: float | None = None
    router_latency_s: float | None = None
    nodes: int | None = None
    logical_shape: tuple[int, ...] | None = None
    one_dimension: bool = False
    own_links: bool = False
    placement: tuple[int, ...] | None = None
    file: str | None = None
    link: tuple[LinkRow, ...] = ()

    def __post_init__(self) -> None:
        self._check_links()
        if self.kind is None:
            check("shape", self.shape, "absent without kind", self.shape is None)
        else:
            check("machine", self.machine, "absent beside kind", self.machine is None)
        if self.one_dimension:
            shape = self.logical_shape
            check("logical_shape", shape, "absent beside one_dimension", shape is None)

    def _check_links(self) -> None:
        if self.kind != "links":
            for name in ("file", "link"):
                if getattr(self, name):
                    raise FieldError(name, f"is for kind = 'links' only, not {self.kind!r}")
            return
        if self.link and self.file is not None:
            raise FieldError("file", "must be absent beside [[topology.link]]")
        if not self.link and self.file is None:
            raise FieldError("kind", "'links' needs [[topology.link]] tables, or a file of links")
        check("shape", self.shape, "absent for links (logical_shape)", self.shape is None)
        nodes = self.nodes
        check("nodes", nodes, "at least 1", nodes is None or nodes >= 1)
        check("own_links", self.own_links, "false for links", not self.own_links)


@dataclass(frozen=True, kw_only=True)
class WorkloadSection:
    """One of ``file`` (a path), ``shipped``, ``generator`` or ``collective``, and its options.

    ``op``: operation that combines two values in reductions; it decides which data a run has.
    ``sum``, ``min`` and ``max`` are those of binary32, and large letters as good as small ones.
    """

    file: str | None = None
    shipped: str | None = None
    generator: str | None = None
    collective: str | None = None
    op: str = "sum_f32"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        name = self.op.lower() if "_" in self.op else f"{self.op.lower()}_f32"
        check("op", self.op, f"one of {', '.join(OPS)}", name in OPS)
        object.__setattr__(self, "op", name)

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
    """Differences between nodes or links that are otherwise alike."""

    link: tuple[LinkFault, ...] = ()
    node: tuple[NodeTrouble, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NetworkSection:
    """``granularity`` message, or packet with ``packets``; ``packet_routing``: who forwards.

    ``shared_links`` false: a message finds every link free, as if it were alone.
    ``stall_probability``: that of a link taking nothing in a cycle, drawn from the run's seed.
    ``loss_probability``, ``repetition_probability``, ``damage_probability``: those of a wire
    losing, repeating or damaging a packet, drawn from the run's seed, too.
    ``retry``: all links resend packets that their wires lose; ``retry_slots``,
    ``retry_timeout_cycles`` and ``retry_tries`` are those of `hw.link.retry_frame.RetryConfig`, the
    time-out by default a round trip of the link plus the cycles that both ends need.
    """

    granularity: str = "message"
    packet_routing: str = "hardware"
    shared_links: bool = True
    stall_probability: float = 0.0
    loss_probability: float = 0.0
    repetition_probability: float = 0.0
    damage_probability: float = 0.0
    retry: bool = False
    retry_slots: int = 64
    retry_timeout_cycles: int | None = None
    retry_tries: int = 16
    packets: PacketOptions | None = None

    def __post_init__(self) -> None:
        allowed = f"one of {', '.join(GRANULARITIES)}"
        check("granularity", self.granularity, allowed, self.granularity in GRANULARITIES)
        allowed = f"one of {', '.join(ROUTINGS)}"
        check("packet_routing", self.packet_routing, allowed, self.packet_routing in ROUTINGS)
        alone = not self.shared_links and self.granularity == "packet"
        check("shared_links", self.shared_links, "true with packets", not alone)
        _check_probability(self, "stall_probability")
        left = 1.0
        for name in WIRE_KEYS:
            value = getattr(self, name)
            others = " (the others have the rest)" if left < 1 else ""
            check(name, value, f"from 0 to {left:.6g}{others}", 0 <= value <= left)
            left -= value


@dataclass(frozen=True, kw_only=True)
class MemorySection:
    """The memory behind an engine's DMA.

    Latencies are from the request to the first beat, and from the last beat to the answer; None for
    the engine's default. ``bandwidth_bytes_per_s``: of reads and of writes each, in equal parts for
    the memory ports; None: their width. ``stall_probability``: that of a port's channel pausing in
    a cycle.
    """

    read_latency_s: float | None = None
    write_latency_s: float | None = None
    bandwidth_bytes_per_s: float | None = None
    stall_probability: float = 0.0

    def __post_init__(self) -> None:
        check_at_least(self, 0, "read_latency_s", "write_latency_s", optional=True)
        check_positive(self, "bandwidth_bytes_per_s", optional=True)
        _check_probability(self, "stall_probability")


@dataclass(frozen=True, kw_only=True)
class HostSection:
    """Behaviour of the host of an engine.

    ``wait``: a task that needs a collective waits for that one (``each``), or for all that the host
    has started (``all``).
    """

    wait: str = "each"

    def __post_init__(self) -> None:
        check("wait", self.wait, f"one of {', '.join(WAITS)}", self.wait in WAITS)


@dataclass(frozen=True, kw_only=True)
class RunSection:
    """Length of a run, and what it records.

    ``fold``: simulate one NPU for all where the result is the same: ``auto`` where possible,
    ``on`` (an error where it is not), ``off``; for engines ``auto`` is ``off``. ``bucket_s``: width
    of the ``buckets`` of link utilisation over time; None records none. ``trace``: record up to
    ``most_spans`` intervals.
    ``reserve``: keep a place for the least live chunk of every node, ``auto`` where nodes would
    deadlock without. ``check``: check that nothing was lost or doubled. ``data``: real vectors pass
    through the run and its results are compared with numpy's, bit for bit; always so for RTL.
    ``seed`` draws them, and stalls. ``threads`` run RTL nodes. ``trace_signals``: patterns of
    signals of RTL nodes, such as ``*.fsm_state``, that are written as waveforms.
    """

    passes: int = 2
    fold: str = "auto"
    trace: bool = False
    most_spans: int = 1_000_000
    bucket_s: float | None = None
    buckets: int = 1000
    reserve: str = "auto"
    check: bool = False
    data: bool = False
    seed: int = 1
    threads: int = 1
    trace_signals: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        allowed = f"from 1 to {MOST_PASSES}"
        check("passes", self.passes, allowed, 1 <= self.passes <= MOST_PASSES)
        check("fold", self.fold, f"one of {', '.join(FOLDS)}", self.fold in FOLDS)
        check("reserve", self.reserve, f"one of {', '.join(RESERVES)}", self.reserve in RESERVES)
        check("seed", self.seed, "at least 0", self.seed >= 0)
        check("threads", self.threads, "from 1 to 64", 1 <= self.threads <= 64)
        bucket = self.bucket_s
        check("bucket_s", bucket, "above 0", bucket is None or bucket > 0)
        for name, most in (("most_spans", MOST_SPANS), ("buckets", MOST_BUCKETS)):
            check(name, getattr(self, name), f"from 1 to {most}", 1 <= getattr(self, name) <= most)


@dataclass(frozen=True, kw_only=True)
class OnNodes:
    """``[[endpoint.on]]``: nodes whose endpoint runs at a level of its own."""

    nodes: tuple[int, ...]
    level: str

    def __post_init__(self) -> None:
        check("nodes", list(self.nodes), "at least one node", bool(self.nodes))
        check("level", self.level, f"one of {', '.join(LEVELS)}", self.level in LEVELS)


@dataclass(frozen=True, kw_only=True)
class OnSwitches:
    """``[[switch.on]]``: switches that run at a level of their own."""

    switches: tuple[int, ...]
    level: str

    def __post_init__(self) -> None:
        check("switches", list(self.switches), "at least one switch", bool(self.switches))
        check("level", self.level, f"one of {', '.join(LEVELS)}", self.level in LEVELS)


@dataclass(frozen=True, kw_only=True)
class EngineSection:
    """The engine behind an endpoint that has a preset, or that runs at ``cycles`` or ``rtl``.

    Parameters
    ----------
    kind : str
        ``ace`` or ``smartnic``.
    preset : str
        The named configuration that ``config`` started from.
    config : AceConfig or SmartNicConfig
    clock_hz : float
    compress : bool
        Data travel in the engine's block floating-point format.
    style : str
        Of algorithms, as stated; empty where it is not.
    """

    kind: str
    preset: str
    config: Any
    clock_hz: float
    compress: bool = False
    style: str = ""


@dataclass(frozen=True, kw_only=True, repr=False)
class Description(Brief):
    """A system, what runs on it, and at which level.

    ``engine`` is None for endpoints that are described by event parameters alone. ``levels`` are
    those of single nodes that differ from ``level``. ``switch_level`` is that of switches that
    reduce, None: that of the endpoints; ``switch_on`` has those of single ones. ``alternatives``:
    descriptions by the name of an algorithm, the fastest of which a run takes (``algorithm =
    "auto"``). ``reader`` knows the places of values; ``folder`` is that of the file, ``digest`` a
    hash of what was stated. ``left_out``: keys of the file that have no meaning for the endpoint
    that replaced its own. ``origin``: what was stated, and the files that were read for it.
    """

    dimensions: tuple[Dimension, ...]
    workload: WorkloadSection
    topology: TopologySection = field(default_factory=TopologySection)
    endpoint: Endpoint = KINDS["ideal"]
    calibration: Calibration = field(default_factory=Calibration)
    kind: str = "ideal"
    level: str = "events"
    levels: Mapping[int, str] = field(default_factory=dict)
    switch_level: str | None = None
    switch_on: tuple[OnSwitches, ...] = ()
    engine: EngineSection | None = None
    algorithms: Mapping[CollectiveKind, AlgorithmChoice] = field(default_factory=dict)
    scheduler: Scheduler = field(default_factory=Scheduler)
    network: NetworkSection = field(default_factory=NetworkSection)
    memory: MemorySection = field(default_factory=MemorySection)
    host: HostSection = field(default_factory=HostSection)
    scenario: ScenarioSection = field(default_factory=ScenarioSection)
    run: RunSection = field(default_factory=RunSection)
    alternatives: Mapping[str, "Description"] = field(default_factory=dict)
    reader: TomlReader = field(default_factory=lambda: TomlReader("system"), compare=False)
    folder: Path = field(default_factory=Path, compare=False)
    digest: str = ""
    left_out: tuple[str, ...] = field(default=(), compare=False)
    origin: Origin | None = field(default=None, compare=False)


def _check_probability(owner: object, name: str) -> None:
    value = getattr(owner, name)
    check(name, value, "at least 0 and below 1", 0 <= value < 1)

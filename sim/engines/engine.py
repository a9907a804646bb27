# SPDX-License-Identifier: Apache-2.0
"""The record of an engine: all that shared code asks of one.

A record answers for configurations and components, for keys of a description and what follows from
them, for event endpoints, and for how the engine is run as cycle models and as RTL. Modules of
records are light: hardware and models are imported where they are asked for.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from sim.collectives.plan import AlgorithmChoice
from sim.describe.build import DescribedSystem
from sim.describe.reader import TomlReader
from sim.describe.sections import Description, EngineSection, MemorySection
from sim.endpoint.endpoint import Endpoint
from sim.endpoint.kinds import KINDS, SOFTWARE
from sim.endpoint.memory_times import MemoryTimes
from sim.engines import registry
from sim.events.scheduler import Scheduler
from sim.fields import FieldError, check, check_type
from sim.network.dimension import Dimension
from sim.network.network import Network

if TYPE_CHECKING:
    from amaranth.lib import wiring

    from gen.estimate.space import Space
    from hw.common.register_map import RegisterMap
    from sim.engines.kind import EngineKind
    from sim.hosts.surroundings import Surroundings

__all__ = [
    "Blueprint",
    "EngineGroup",
    "EngineRecord",
    "Measures",
    "StatedEngine",
    "engine_named",
    "engine_of",
    "register_engine",
]

Measures = Mapping[str, Callable[[], Mapping[str, int]]]
"""Name of a measurement -> function that returns the latencies it finds, in cycles, as fields of
`sim.endpoint.latencies.EventLatencies`."""


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """A component of an engine that can be emitted.

    Parameters
    ----------
    summary : str
        A line for lists.
    config : type
        Dataclass of its parameters.
    presets : mapping
        Name -> configuration; the smallest comes first.
    component, registers : callable
        Take a configuration.
    handoff : str
        Module that knows what is handed over with its Verilog; its ``HANDOFF`` is a
        :class:`foldwire.handoff.part.Handoff`.
    space : Space or None
        Configurations whose cells are estimated; None: no model of them is stored.
    """

    summary: str
    config: type
    presets: Mapping[str, Any]
    component: "Callable[[Any], wiring.Component]"
    registers: "Callable[[Any], RegisterMap]"
    handoff: str
    space: "Space | None" = None


class StatedEngine(NamedTuple):
    """An endpoint that is hardware, as a description states it.

    Parameters
    ----------
    kind, level : str
    own : dict
        ``[endpoint]`` without kind, level and levels of single nodes. Readers take from it.
    switch : dict
        ``[switch]`` without level, mode and levels of single switches.
    style : str
        Of algorithms, as stated; empty where it is not.
    """

    reader: TomlReader
    kind: str
    level: str
    own: dict[str, Any]
    switch: dict[str, Any]
    memory: MemorySection
    dimensions: Sequence[Dimension]
    style: str = ""


@dataclass(frozen=True, kw_only=True)
class EngineGroup:
    """Engines that work together, and at which level each runs: one for each rank, or one for all.

    ``config`` is what runs take: the engine's configuration, or an `Assembly` of switches, whose
    ``levels`` are behind those of ranks. ``nodes`` has the node of each rank. ``crossed``: by rank
    and port, the links of the network that are crossed; None: those of a ring.
    """

    engine: EngineSection
    config: Any
    settings: "Surroundings"
    levels: tuple[str, ...]
    nodes: tuple[int, ...]
    crossed: Callable[[int, int], Sequence[int]] | None = None


class EngineRecord(ABC):
    """What the rest of Foldwire asks of an engine.

    Attributes
    ----------
    name : str
        In descriptions, in manifests and at the door.
    events : mapping
        Kinds of ``[endpoint]`` that are this hardware -> event endpoint where no preset is stated.
    published : mapping
        Further kinds, which are event endpoints alone.
    styles : tuple of str
        Styles of algorithms that a description may ask for where it is run itself.
    styles_of_tori : tuple of str
        Further ones in several dimensions.
    set_by_hardware : str
        Field of the event endpoint that only a preset sets.
    memory : MemoryTimes
        Behind the engine, where a description states none.
    paces_memory : bool
        The memory behind it may be slower than its ports.
    takes_switch : bool
        ``[switch]`` describes a part of it.
    network_reduces : bool
        The network adds up, so that its bounds are other ones.
    computes : bool
        Its hosts carry out computations at levels ``cycles`` and ``rtl``, and may wait for single
        collectives; those of other engines pass computations over.
    takes_algorithms : bool
        Programs of its rings may be of other algorithms.
    """

    name: ClassVar[str]
    events: ClassVar[Mapping[str, Endpoint]]
    published: ClassVar[Mapping[str, Endpoint]] = {}
    styles: ClassVar[tuple[str, ...]] = ()
    styles_of_tori: ClassVar[tuple[str, ...]] = ()
    set_by_hardware: ClassVar[str] = "ring"
    memory: ClassVar[MemoryTimes] = MemoryTimes()
    paces_memory: ClassVar[bool] = False
    takes_switch: ClassVar[bool] = False
    network_reduces: ClassVar[bool] = False
    computes: ClassVar[bool] = False
    takes_algorithms: ClassVar[bool] = False

    # ---- Hardware.

    @property
    @abstractmethod
    def blueprints(self) -> Mapping[str, Blueprint]:
        """Name of a design -> what it is; the first is the one of the engine's own name, if any."""

    @property
    @abstractmethod
    def kind(self) -> "EngineKind":
        """How it runs, as cycle models and as RTL."""

    @property
    def measures(self) -> Measures:
        """Measurements of its event endpoint's latencies on its cycle model, by name."""
        return {}

    @property
    def presets(self) -> Mapping[str, Any]:
        """Name -> configuration, as :meth:`component` and the levels take it."""
        return next(iter(self.blueprints.values())).presets

    def group(self, config: Any, nodes: int) -> Any:
        """What runs of *nodes* of them take in place of a configuration."""
        return config

    def in_format(self, config: Any, format: str) -> Any:
        """A configuration whose data travel in *format*.

        Raises
        ------
        ValueError
            There is none.
        """
        raise FieldError("format", f"must be None for {self.name}, not {format!r}")

    # ---- Descriptions.

    def is_hardware(self, stated: StatedEngine, *, levels_of_switches: bool) -> bool:
        """True if a description means the hardware, and not just an event endpoint."""
        return stated.level != "events" or "preset" in stated.own

    @abstractmethod
    def read(self, stated: StatedEngine) -> tuple[Endpoint, EngineSection]:
        """The event endpoint and the hardware.

        Raises
        ------
        ConfigError
        """

    def dimensions(
        self, section: EngineSection, dimensions: tuple[Dimension, ...], memory: MemorySection,
        *, level: str,
    ) -> tuple[Dimension, ...]:
        """The dimensions with the share of payload that packets of the hardware leave; events know
        of no credits, so there those are part of it."""
        return dimensions

    @property
    def sets_efficiency(self) -> str:
        """The key that decides on the packet format."""
        return "endpoint.preset"

    def without_hardware(
        self, reader: TomlReader, endpoint: Endpoint, dimensions: tuple[Dimension, ...]
    ) -> tuple[tuple[Dimension, ...], str]:
        """The dimensions of an event endpoint alone, and which key decides on their share of
        payload; empty for none."""
        return dimensions, ""

    def on_network(self, endpoint: Endpoint, dimensions: Sequence[Dimension]) -> Endpoint:
        """The event endpoint, once the dimensions are final."""
        return endpoint

    def algorithm(self, section: EngineSection, dimensions: int) -> AlgorithmChoice:
        """Algorithm of collectives where a description states none."""
        return AlgorithmChoice()

    @abstractmethod
    def scheduler(
        self, section: EngineSection, dimensions: Sequence[Dimension], shards: int
    ) -> Scheduler:
        """Chunks as the engine cuts them, in the order of its commands; a collective starts from
        one of *shards*."""

    # ---- Runs.

    @abstractmethod
    def described_group(
        self, description: Description, section: EngineSection, system: DescribedSystem
    ) -> EngineGroup:
        """What runs at levels ``cycles`` and ``rtl``.

        Raises
        ------
        ConfigError
            The engine cannot be run on such a system.
        """

    def most_cycles(self, network: Network) -> int:
        """Cycles that a run may take."""
        from sim.cycles.model import MOST_CYCLES

        return MOST_CYCLES

    def most_latency_cycles(self) -> int:
        """Cycles that a link may take where some nodes are RTL."""
        from sim.rtl.harness.specs import MOST_LATENCY_CYCLES

        return MOST_LATENCY_CYCLES

    def check_links(  # noqa: B027 - most engines take all links
        self, description: Description, section: EngineSection, network: Network
    ) -> None:
        """Refuse links that a cycle model cannot have.

        Raises
        ------
        ConfigError
        """

    def check_events(  # noqa: B027 - most engines can be built for all
        self, description: Description, section: EngineSection, network: Network
    ) -> None:
        """Refuse, at level ``events``, what cannot be built.

        Raises
        ------
        ConfigError
        """

    def host_s(self, section: EngineSection, dimensions: int) -> float:
        """Seconds that the host takes for a collective, where the event endpoint has none of it."""
        return 0.0

    def notes(self, description: Description, section: EngineSection) -> list[str]:
        """Notes of a run at any level."""
        return []

    def wire_factor(self, section: EngineSection) -> float:
        """Size of data on the links over that in memory."""
        return 1.0

    def format_note(self, section: EngineSection) -> str:
        """How data travel, if that is worth a word."""
        return ""

    def link_name(self, section: EngineSection) -> Callable[[int, int], str] | None:
        """Name of a link, by rank and port, in figures; None: those of rings."""
        return None


def register_engine(engine: EngineRecord) -> None:
    """Add an engine of one's own, under its name; all of Foldwire knows it then.

    Raises
    ------
    TypeError
        *engine* is no instance of an `EngineRecord`, or a part of it has the wrong type.
    ValueError
        For the name, a kind of endpoint, a design or a configuration's class of another one.
    """
    check_type("engine", engine, "an EngineRecord", isinstance(engine, EngineRecord))
    name = getattr(engine, "name", None)
    ok = isinstance(name, str) and re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None
    check("engine", name, "a record whose name has small letters, digits and _", ok)
    parts = {each: getattr(engine, each, None) for each in ("events", "published", "blueprints")}
    for part, named in parts.items():
        ok = isinstance(named, Mapping) and all(isinstance(key, str) for key in named)
        ok = ok and (bool(named) or part == "published")
        check_type("engine", named, f"a record whose {part} are a mapping of names", ok)
    kinds = {**parts["published"], **parts["events"]}  # type: ignore[dict-item]
    for kind, endpoint in kinds.items():
        ok = is_dataclass(endpoint) and hasattr(endpoint, "model")
        check_type("engine", endpoint, f"a record whose {kind!r} is an event endpoint", ok)
    designs: Mapping[str, Any] = parts["blueprints"] or {}
    for design, blueprint in designs.items():
        ok = isinstance(blueprint, Blueprint)
        check_type("engine", blueprint, f"a record whose {design!r} is a Blueprint", ok)
    others = [(key, each) for one in registry.records() for key, each in one.blueprints.items()]
    taken = {*registry.names(), *registry.BLOCKS, *(key for key, _ in others)}
    if name in taken:
        raise FieldError("engine", f"must have a name of its own, not {name!r}")
    for kind in kinds:
        if kind in KINDS:
            raise FieldError("engine", f"must have kinds of endpoints of its own, not {kind!r}")
    for design, blueprint in designs.items():
        if design in taken:
            raise FieldError("engine", f"must have designs of its own, not {design!r}")
        if blueprint.config in {each.config for _, each in others}:
            own = blueprint.config.__name__
            raise FieldError("engine", f"must have configurations of its own, not {own}")
    registry.add(engine)


def engine_named(name: str) -> EngineRecord:
    """The record of an engine; a ``ValueError`` says which there are."""
    found: EngineRecord = registry.record(name)
    return found


def engine_of(kind: str) -> EngineRecord | None:
    """The record whose endpoints are of that kind; None for endpoints that are no hardware."""
    if isinstance(kind, str) and kind in SOFTWARE:  # for which no engine has to be loaded
        return None
    found: EngineRecord | None = registry.of_kind(kind)
    return found

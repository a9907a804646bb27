# SPDX-License-Identifier: Apache-2.0
"""Records of engines that pass packets around a ring of themselves."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from sim.describe.build import DescribedSystem
from sim.describe.levels import meaningless
from sim.describe.reader import ConfigError
from sim.describe.sections import Description, EngineSection, MemorySection
from sim.endpoint.endpoint import Endpoint
from sim.endpoint.memory_times import MemoryTimes
from sim.engines.engine import EngineGroup, EngineRecord, StatedEngine
from sim.engines.wires import refused, stated_at, wires
from sim.fields import FieldError, FoldError, not_one_of
from sim.network.dimension import Dimension, DimensionKind
from sim.network.network import Network
from sim.network.ports import Ports
from sim.units import beats_per_cycle, seconds_to_cycles

if TYPE_CHECKING:
    from sim.hosts.wiring import EngineWiring

__all__ = ["Keys", "RingRecord"]

OF_THE_NPU = {"lost_memory_bytes_per_s", "overlaps"}
"""Keys that a preset leaves open: the share of the NPU that training loses."""


@dataclass(kw_only=True)
class Keys:
    """Keys of ``[endpoint]`` that are neither the configuration's nor shared: as the engine reads
    them.

    Parameters
    ----------
    clock_hz : float
        Of the engine.
    compress : bool
        Data travel in the engine's block format.
    more : mapping
        For the engine itself.
    """

    clock_hz: float
    compress: bool = False
    more: dict[str, Any] = field(default_factory=dict)


class RingRecord(EngineRecord):
    """An engine whose programs are rings, with one configuration and one component.

    Attributes
    ----------
    preset : str
        Where a description names none.
    own_keys : tuple of str
        Of ``[endpoint]``, beside the fields of the configuration and of the event endpoint.
    ring_kinds : tuple of DimensionKind
        Topologies of one dimension that it takes.
    """

    preset: ClassVar[str]
    own_keys: ClassVar[tuple[str, ...]] = ()
    ring_kinds: ClassVar[tuple[DimensionKind, ...]] = (DimensionKind.RING,)

    # ---- Descriptions.

    @abstractmethod
    def read_keys(self, stated: StatedEngine, extra: dict[str, Any]) -> Keys:
        """Take own keys out of *extra*, the keys of ``[endpoint]`` that are not the
        configuration's."""

    @abstractmethod
    def event_endpoint(
        self, section: EngineSection, keys: Keys, memory: MemoryTimes,
        dimensions: Sequence[Dimension],
    ) -> Any:
        """The event endpoint of a configuration; its ``ring`` is not None where it stands for the
        hardware's own."""

    def read(self, stated: StatedEngine) -> tuple[Endpoint, EngineSection]:
        reader, own, level = stated.reader, dict(stated.own), stated.level
        presets = self.presets
        preset = reader.convert("endpoint", "preset", own.pop("preset", self.preset), str)
        if preset not in presets:
            raise reader.error("endpoint", "preset", not_one_of(preset, presets))
        names = {each.name for each in fields(presets[preset])}
        extra = {key: own.pop(key) for key in list(own) if key not in names}
        keys = self.read_keys(stated, extra)
        base = self.events[self.name]
        beside = ["kind", "level", "preset", "on", *self.own_keys]
        if level != "events" and extra:
            key = min(extra)
            if key in {each.name for each in fields(base)}:  # type: ignore[arg-type]
                what = f"{meaningless(level, ['events'])}: the engine's configuration sets it"
                raise reader.error("endpoint", key, what)
            raise reader.unknown(key, "endpoint", [*beside, *sorted(names)])
        config = reader.vary(presets[preset], "endpoint", own)
        if keys.compress and getattr(config, "codec_format", None) is None:
            what = "must be false for an engine without a block format"
            raise reader.error("endpoint", "compress", what)
        section = EngineSection(
            kind=self.name, preset=preset, config=config, clock_hz=keys.clock_hz,
            compress=keys.compress, style=stated.style,
        )
        times = self.memory_times(stated.memory, keys.clock_hz)
        made = self.event_endpoint(section, keys, times, stated.dimensions)
        known = {each.name for each in fields(made)}
        for key in extra:
            if key == "ring" or (made.ring is not None and key in known - OF_THE_NPU):
                what = "must be absent beside endpoint.preset: the engine's configuration sets it"
                raise reader.error("endpoint", key, what)
        beside += [each.name for each in fields(config)]
        endpoint: Endpoint = reader.vary(made, "endpoint", extra, beside=beside)
        return endpoint, section

    def memory_times(self, memory: MemorySection, clock_hz: float) -> MemoryTimes:
        """Latencies of the memory behind it, in cycles."""
        return MemoryTimes.of(
            memory.read_latency_s, memory.write_latency_s, clock_hz=clock_hz, default=self.memory,
            bandwidth_bytes_per_s=memory.bandwidth_bytes_per_s,
        )

    # ---- Runs.

    def memory_pace(self, memory: MemoryTimes, section: EngineSection) -> float:
        """Beats of a memory port in a cycle, each way."""
        return 1.0

    def most_nodes(self, config: Any) -> int:
        """Nodes in a ring."""
        return 256

    def described_group(
        self, description: Description, section: EngineSection, system: DescribedSystem
    ) -> EngineGroup:
        from hw.link.packet import link_flits
        from hw.link.retry_beats import frame_beats
        from sim.hosts.surroundings import Surroundings

        network, config = system.network, section.config
        nodes = network.nodes
        self._check_nodes(description, section, nodes)
        ring = self._ring_of(description, section)
        times = self.memory_times(description.memory, section.clock_hz)
        linked = [each for each in description.dimensions if each.size > 1]
        latency = max(seconds_to_cycles(each.hop_s, section.clock_hz) for each in linked)
        pace = min(
            self._pace(description, section, index) for index in range(len(description.dimensions))
        )
        frame = math.ceil(frame_beats(link_flits(config.bus_bytes)) / pace)
        settings = Surroundings(
            nodes=nodes,
            latency_cycles=latency,
            beats_per_cycle=pace,
            **wires(description, latency, frame),
            read_latency_cycles=times.read_cycles,
            write_latency_cycles=times.write_cycles,
            memory_beats_per_cycle=self.memory_pace(times, section),
            link_stalls=description.network.stall_probability,
            memory_stalls=description.memory.stall_probability,
            bidirectional=ring.bidirectional,
            wiring=self.wiring(description, section, network),
            folded=description.run.fold == "on",
            seed=description.run.seed,
        )
        order = range(nodes) if network.placement is None else network.placement.tolist()
        levels = tuple(description.levels.get(node, description.level) for node in order)
        if settings.folded and len(set(levels)) > 1:
            what = f"must be one for all nodes, not {' and '.join(sorted(set(levels)))}"
            raise FoldError("levels", what)
        crossed = None
        if settings.wiring is not None:
            ports = Ports(network)

            def crossed(rank: int, port: int) -> Sequence[int]:
                return [ports.number(order[rank], port)]

        return EngineGroup(
            engine=section,
            config=config,
            settings=settings,
            levels=levels[: settings.engines],
            nodes=tuple(order),
            crossed=crossed,
        )

    def wiring(
        self, description: Description, section: EngineSection, network: Network
    ) -> "EngineWiring | None":
        """Links and rings of engines in several dimensions; None in one, which is a ring."""
        from sim.hosts.wiring import EngineWiring

        if len(network.dimensions) < 2:
            return None
        return EngineWiring.through(
            network, clock_hz=section.clock_hz, bus_bytes=section.config.bus_bytes
        )

    def check_torus(self, description: Description, section: EngineSection) -> None:
        """Refuse several dimensions that a ring of the engine does not go through.

        Raises
        ------
        ConfigError
        """
        raise self._several(description)

    def _several(self, description: Description, hint: str = "") -> ConfigError:
        what = f"must have one dimension, {self._allowed}{hint}, not {len(description.dimensions)}"
        return refused(description, "topology", f"{what}: programs of the engine are rings")

    @property
    def _allowed(self) -> str:
        return " or ".join(f"one {kind.value}" for kind in self.ring_kinds)

    def _check_nodes(self, description: Description, section: EngineSection, nodes: int) -> None:
        most = self.most_nodes(section.config)
        if not 2 <= nodes <= most:
            what = (
                f"must have from 2 to {most} nodes, the max_nodes of preset {section.preset!r}, "
                f"not {nodes}"
            )
            raise refused(description, "topology", what)

    def _ring_of(self, description: Description, section: EngineSection) -> Dimension:
        """The dimension whose links the ring uses."""
        dimensions = description.dimensions
        ring = next((each for each in dimensions if each.size > 1), dimensions[0])
        if len(dimensions) > 1:
            self.check_torus(description, section)
        for each in dimensions:
            if each.kind not in self.ring_kinds:
                kind = DimensionKind(each.kind).value.replace("_", " ")
                found = kind if each.graph is not None else f"a {kind}"
                raise refused(description, "topology", f"must be {self._allowed}, not {found}")
        if ring.lanes != 1 and len(dimensions) == 1:
            raise refused(description, "topology", f"must have one lane, not {ring.lanes}")
        return ring

    def _pace(self, description: Description, section: EngineSection, index: int) -> float:
        """Beats per cycle on the links of a dimension."""
        bus = section.config.bus_bytes * getattr(section.config, "engines", 1)
        try:
            return beats_per_cycle(
                description.dimensions[index].bandwidth_bytes_per_s, clock_hz=section.clock_hz,
                bus_bytes=bus,
            )
        except FieldError as error:
            key = "bandwidth_bytes_per_s"
            name, index = stated_at(description, key, index)
            raise description.reader.error(name, key, error.what, index) from error

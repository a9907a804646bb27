# SPDX-License-Identifier: Apache-2.0
"""ACE: the endpoint engine whose programs are rings, with an SRAM and FSMs of its own."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from gen.estimate.space import Space, bits
from sim.collectives.phase_order import BY_DIMENSION
from sim.collectives.plan import AlgorithmChoice
from sim.describe.sections import Description, EngineSection, MemorySection
from sim.endpoint.ace import AceEndpoint, ace_v1
from sim.endpoint.endpoint import Endpoint
from sim.endpoint.kinds import Npu
from sim.endpoint.memory_times import MemoryTimes
from sim.engines.engine import Blueprint, Measures, StatedEngine
from sim.engines.ring_record import Keys, RingRecord
from sim.engines.wires import refused
from sim.events.scheduler import Scheduler
from sim.fields import FieldError
from sim.network.dimension import Dimension, DimensionKind
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

if TYPE_CHECKING:
    from sim.engines.kind import EngineKind
    from sim.hosts.wiring import EngineWiring

__all__ = ["ENGINE", "AceRecord"]

_SPACE = Space(
    choices={
        "ports": (2, 3, 4, 6, 8),
        "bus_bytes": (16, 32, 64),
        "packet_bytes": (64, 128, 256),
        "sram_bytes": tuple(1 << n for n in range(14, 23)),
        "banks": (1, 2, 4, 8, 16),
        "bank_ports": ("1r1w", "1rw"),
        "alus": (1, 2, 3, 4, 6),
        "alu_stages": (3, 2, 4),
        "fsms": (1, 2, 4, 8, 16),
        "contexts": (1, 2, 4, 8),
        "program_words": (128, 256, 1024),
        "memory_ports": (1, 2, 4),
        "rx_packets": (16, 32, 64, 128, 256),
        "tx_packets": (4, 8, 16),
        "max_nodes": (8, 16, 64),
        "address_bits": (32, 40),
        "commands": (2, 4),
        "partitions": ("slot", "phase"),
        "phases": (0, 1, 2, 3, 4),
    },
    parts=lambda c: {
        "ports": c.ports, "fsms": c.fsms, "contexts": c.contexts, "banks": c.banks,
        "alus": c.alus, "memory_ports": c.memory_ports, "commands": c.commands,
        "phases": c.phases, "phased": float(c.phased), "single": float(c.bank_ports == "1rw"),
        "shared": c.alus * c.bus_bytes * (c.alus < c.ports), "requesters": c.sram_requesters,
        "crossbar": c.banks * c.sram_requesters * c.bus_bytes,
        "bus": c.bus_bytes, "stages": c.alu_stages, "address": c.address_bits,
        "tx": c.tx_packets, "rx": bits(c.rx_packets), "beats": c.packet_beats,
        "rows": bits(c.sram_beats), "slot": bits(c.slot_beats), "nodes": c.max_nodes,
        "node_bits": bits(c.max_nodes), "program": bits(c.program_words),
    },
    banks=lambda c: import_module("hw.ace.memories").banks(c),
    queues=lambda c: import_module("hw.ace.memories").queues(c),
    free=frozenset({"interleave", "phase_fsms", "partition_bytes", "partition_slots"}),
)


class AceRecord(RingRecord):
    name = "ace"
    events: ClassVar[Mapping[str, Endpoint]] = {"ace": AceEndpoint()}
    published: ClassVar[Mapping[str, Endpoint]] = {"ace_v1": ace_v1()}
    preset = "ring"
    own_keys = ("npu",)
    styles = ("hamiltonian",)
    styles_of_tori = BY_DIMENSION
    computes = True
    takes_algorithms = True
    paces_memory = True

    @cached_property
    def blueprints(self) -> Mapping[str, Blueprint]:
        from hw.ace.config import PRESETS, AceConfig
        from hw.ace.engine import AceEngine
        from hw.ace.registers import register_map

        return {
            "ace": Blueprint(
                summary="accelerator collectives engine",
                config=AceConfig, presets=PRESETS, component=AceEngine,
                registers=register_map, handoff="foldwire.handoff.ace", space=_SPACE,
            )
        }

    @cached_property
    def kind(self) -> "EngineKind":
        from sim.cycles.ace.model import EngineModel
        from sim.engines.kind import EngineKind
        from sim.rtl.ace.exchange import AceExchange
        from sim.rtl.ace.ring import AceRing

        return EngineKind(rules=AceRing, model=EngineModel, driver=AceRing, exchange=AceExchange)

    @property
    def measures(self) -> Measures:
        from sim.cycles.ace.measure import MEASURES

        return MEASURES

    def read_keys(self, stated: StatedEngine, extra: dict[str, Any]) -> Keys:
        table = extra.pop("npu", {})
        if not isinstance(table, Mapping):
            what = f"must be a table, [endpoint.npu], not {table!r}"
            raise stated.reader.error("endpoint", "npu", what)
        npu: Npu = stated.reader.vary(Npu(), "endpoint.npu", table)
        compress = stated.reader.convert("endpoint", "compress", extra.pop("compress", False), bool)
        return Keys(clock_hz=npu.clock_hz, compress=compress, more={"npu": npu})

    def event_endpoint(
        self, section: EngineSection, keys: Keys, memory: MemoryTimes,
        dimensions: Sequence[Dimension],
    ) -> AceEndpoint:
        from sim.endpoint.ace_hardware import ace_endpoint, ace_on_rings, ace_on_torus

        made = ace_endpoint(
            section.config, npu=keys.more["npu"], memory=memory, base=AceEndpoint()
        )
        if _on_rings(section, dimensions):
            made = ace_on_rings(made, section.config, dimensions, memory=memory)
        elif _on_torus(dimensions):
            made = ace_on_torus(
                made, section.config, dimensions, style=section.style or AlgorithmChoice().style,
                memory=memory,
            )
        return made

    def dimensions(
        self, section: EngineSection, dimensions: tuple[Dimension, ...], memory: MemorySection,
        *, level: str,
    ) -> tuple[Dimension, ...]:
        from sim.endpoint.ace_hardware import ace_link_share, ace_wire_share

        on_links = _on_rings(section, dimensions) or _on_torus(dimensions)
        if level != "events" or on_links:  # credits are a resource there
            share = ace_wire_share(section.config)
            return tuple(replace(each, efficiency=share) for each in dimensions)
        return tuple(
            replace(
                each, efficiency=ace_link_share(section.config, each, clock_hz=section.clock_hz)
            )
            for each in dimensions
        )

    def on_network(self, endpoint: Endpoint, dimensions: Sequence[Dimension]) -> Endpoint:
        from sim.endpoint.ace_hardware import ace_after_ready

        assert isinstance(endpoint, AceEndpoint)
        return ace_after_ready(endpoint, dimensions)

    def algorithm(self, section: EngineSection, dimensions: int) -> AlgorithmChoice:
        """In one dimension a single phase, in both directions with more than one FSM."""
        if dimensions > 1:
            # As published: four phases on three dimensions.
            return AlgorithmChoice(style="enhanced") if section.config.phased else AlgorithmChoice()
        return AlgorithmChoice(style="baseline", rings=1 if section.config.fsms == 1 else None)

    def scheduler(
        self, section: EngineSection, dimensions: Sequence[Dimension], shards: int
    ) -> Scheduler:
        """A chunk, all shards of it, fills a slot; contexts bound how many are live."""
        return Scheduler(
            policy="fifo",
            chunk_bytes=max(1.0, 4.0 * section.config.slot_elements / shards),
            concurrency=None,
        )

    def host_s(self, section: EngineSection, dimensions: int) -> float:
        from sim.endpoint.latencies import EventLatencies

        if dimensions == 1 or section.style == "hamiltonian":
            return 0.0
        return EventLatencies.stored().ace_start / section.clock_hz

    def most_nodes(self, config: Any) -> int:
        return int(config.max_nodes)

    def memory_pace(self, memory: MemoryTimes, section: EngineSection) -> float:
        config = section.config
        return memory.pace(config.memory_ports * config.bus_bytes * section.clock_hz)

    def check_torus(self, description: Description, section: EngineSection) -> None:
        """A ring goes through a torus whose nodes collectives see as one dimension; otherwise
        programs use all its links, along Hamiltonian cycles or dimension by dimension."""
        dimensions = description.dimensions
        if section.style == "hamiltonian":
            self._check_hamiltonian(description, section)
            return
        if not description.topology.one_dimension:
            self._check_links(description, section)
            self._check_phases(description, section)
            return
        if any(each.lanes != 1 for each in dimensions):
            lanes = max(each.lanes for each in dimensions)
            raise refused(description, "topology", f"must have one lane, not {lanes}")
        if any(each != replace(dimensions[0], size=each.size) for each in dimensions):
            raise refused(description, "topology", "must have dimensions with links alike")
        if section.config.ports < 2 * len(dimensions):
            what = (
                f"must be at least {2 * len(dimensions)}, two for each of the {len(dimensions)} "
                f"dimensions of the torus, not {section.config.ports}"
            )
            raise refused(description, "endpoint", what, "ports")

    def _check_hamiltonian(self, description: Description, section: EngineSection) -> None:
        dimensions = description.dimensions
        if any(each.kind is DimensionKind.RING and each.size == 2 for each in dimensions):
            what = (
                "must have 3 nodes or more in every dimension of more than one beside "
                "algorithm.style = 'hamiltonian'"
            )
            raise refused(description, "topology", what)
        lanes = {each.lanes for each in dimensions if each.size > 1}
        if len(lanes) > 1:
            what = (
                "must have as many lanes in all dimensions beside algorithm.style = 'hamiltonian', "
                f"not {max(lanes)} and {min(lanes)}"
            )
            raise refused(description, "topology", what)
        self._check_links(description, section)

    def _check_phases(self, description: Description, section: EngineSection) -> None:
        """A partition for each phase of every style that is asked for."""
        from sim.collectives.phase_order import joined_steps

        config = section.config
        if not config.phased:
            return
        active = tuple(n for n, each in enumerate(description.dimensions) if each.size > 1)
        for kind, choice in description.algorithms.items():
            if choice.style not in BY_DIMENSION:
                continue
            needed = len(
                joined_steps(
                    active, kind, choice.style, gather_backwards=choice.gather_backwards
                )
            )
            if needed > config.phases:
                what = (
                    f"must be at least {needed}, those of style {choice.style!r} in "
                    f"{len(active)} dimensions, not {config.phases}"
                )
                raise refused(description, "endpoint", what, "phases")

    def _check_links(self, description: Description, section: EngineSection) -> None:
        """Lanes that paths can share, and a port for each link."""
        from sim.collectives.path_choice import check_lanes

        dimensions = [each for each in description.dimensions if each.size > 1]
        try:
            check_lanes([each.lanes for each in dimensions])
        except FieldError as error:
            raise refused(description, "topology", error.what) from error
        ports = sum(each.links_per_node for each in dimensions)
        if section.config.ports < ports:
            what = f"must be at least {ports}, one for each link, not {section.config.ports}"
            raise refused(description, "endpoint", what, "ports")

    def wiring(
        self, description: Description, section: EngineSection, network: Network
    ) -> "EngineWiring | None":
        if len(network.dimensions) < 2 or description.topology.one_dimension:
            return super().wiring(description, section, network)
        from sim.hosts.wiring import EngineWiring

        links = {"clock_hz": section.clock_hz, "bus_bytes": section.config.bus_bytes}
        if section.style == "hamiltonian":
            return EngineWiring.hamiltonian(network, **links)
        choice = description.algorithms[CollectiveKind.ALL_REDUCE]
        try:
            return EngineWiring.by_dimension(
                network, style=choice.style, fsms=math.gcd(*section.config.fsms_by_phase),
                gather_backwards=choice.gather_backwards, alike=description.run.fold == "on",
                **links,
            )
        except FieldError as error:
            raise refused(description, "endpoint", error.what, error.field) from error


def _on_torus(dimensions: Sequence[Dimension]) -> bool:
    """True if there are rings both ways, with lanes that paths can share, in several dimensions."""
    linked = [each for each in dimensions if each.size > 1]
    most = max((each.lanes for each in linked), default=1)
    return bool(linked) and not any(most % each.lanes for each in linked) and all(
        each.kind is DimensionKind.RING and each.bidirectional for each in linked
    )


def _on_rings(section: EngineSection, dimensions: Sequence[Dimension]) -> bool:
    """True if every collective runs on rings through all nodes, as the hardware does it."""
    rings = all(
        each.kind is DimensionKind.RING and (each.bidirectional or section.config.fsms == 1)
        for each in dimensions if each.size > 1
    )
    return rings and (len(dimensions) == 1 or section.style == "hamiltonian")


ENGINE = AceRecord()

# SPDX-License-Identifier: Apache-2.0
"""Switches that reduce, and the endpoints at them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from gen.estimate.space import Space, bits
from sim.describe.build import DescribedSystem
from sim.describe.reader import TomlReader
from sim.describe.sections import Description, EngineSection, MemorySection
from sim.endpoint.endpoint import Endpoint
from sim.endpoint.in_switch import InSwitchEndpoint
from sim.engines.engine import Blueprint, EngineGroup, EngineRecord, Measures, StatedEngine
from sim.engines.wires import refused, stated_at, wires
from sim.events.scheduler import Scheduler
from sim.fields import FieldError
from sim.network.dimension import Dimension, DimensionKind
from sim.network.network import Network
from sim.units import seconds_to_cycles

if TYPE_CHECKING:
    from sim.engines.kind import EngineKind

__all__ = ["ENGINE", "InSwitchRecord"]

_SWITCH_SPACE = Space(
    choices={
        "ports": (3, 4, 6, 8, 12, 16),
        "entries": (1, 2, 4),
        "alu_stages": (2, 3, 4),
        "buffer_packets": (2, 4, 8),
        "credits": (2, 4, 8),
        "queue_packets": (1, 2, 3),
        "regions": (1, 2, 4),
        "homes": (4, 8, 16),
        "endpoints": (8, 16),
        "timeout_bits": (10, 16),
        "half": (False, True),
    },
    parts=lambda c: {
        "ports": c.ports, "entries": c.entries, "regions": c.regions, "homes": c.homes,
        "half": float(c.half), "endpoints": c.endpoints, "stages": c.alu_stages,
        "buffers": bits(c.buffer_packets), "credits": bits(c.credits), "queue": c.queue_packets,
        "timeout": c.timeout_bits,
    },
    banks=lambda c: import_module("hw.switch.memories").banks(c),
    queues=lambda c: import_module("hw.switch.memories").queues(c),
)
_ENDPOINT_SPACE = Space(
    choices={
        "links": (1, 2, 3, 4, 6),
        "waves": (4, 8, 16),
        "wave_blocks": (2, 4, 8, 16),
        "read_ahead": (2, 4, 8, 16),
        "descriptors": (4, 8, 16),
        "regions": (1, 2, 4),
        "buffer_packets": (2, 4, 8),
        "credits": (2, 4, 8),
        "endpoints": (8, 16),
        "max_burst": (4, 8, 16),
        "outstanding_bursts": (4, 8, 16, 32),
        "address_bits": (32, 48, 64),
    },
    parts=lambda c: {
        "links": c.links, "waves": c.waves, "wave_blocks": c.wave_blocks,
        "blocks": c.slots, "block_bits": bits(c.slots), "regions": c.regions,
        "descriptors": c.descriptors, "bursts": c.outstanding_bursts,
        "burst": bits(c.max_burst), "address": c.address_bits, "read_ahead": c.read_ahead,
        "buffers": bits(c.buffer_packets), "credits": bits(c.credits),
        "endpoints": bits(c.endpoints),
    },
    banks=lambda c: import_module("hw.switch_dma.memories").banks(c),
    queues=lambda c: import_module("hw.switch_dma.memories").queues(c),
)


class InSwitchRecord(EngineRecord):
    name = "in_switch"
    events: ClassVar[Mapping[str, Endpoint]] = {"in_switch": InSwitchEndpoint()}
    set_by_hardware = "times"
    takes_switch = True
    network_reduces = True
    sets_efficiency = "switch.preset"

    # ---- Hardware.

    @cached_property
    def blueprints(self) -> Mapping[str, Blueprint]:
        from hw.switch.config import PRESETS as SWITCHES
        from hw.switch.config import SwitchConfig
        from hw.switch.registers import register_map
        from hw.switch.switch import Switch
        from hw.switch_dma.config import PRESETS as ENDPOINTS
        from hw.switch_dma.config import SwitchDmaConfig
        from hw.switch_dma.dma import SwitchDma
        from hw.switch_dma.registers import register_map as endpoint_registers

        return {
            "switch": Blueprint(
                summary="switch that reduces what endpoints push or pull (in-network compute)",
                config=SwitchConfig, presets=SWITCHES, component=Switch,
                registers=register_map, handoff="foldwire.handoff.switch",
                space=_SWITCH_SPACE,
            ),
            "switch-dma": Blueprint(
                summary="endpoint of the switch: DMA engine for all-reduces through it",
                config=SwitchDmaConfig, presets=ENDPOINTS, component=SwitchDma,
                registers=endpoint_registers, handoff="foldwire.handoff.switch_dma",
                space=_ENDPOINT_SPACE,
            ),
        }

    @cached_property
    def kind(self) -> "EngineKind":
        from sim.cycles.switch.hosts import SwitchHosts
        from sim.engines.kind import EngineKind
        from sim.rtl.switch.exchange import SwitchExchange
        from sim.rtl.switch.fabric import SwitchFabric
        from sim.rtl.switch.rules import SwitchRules

        return EngineKind(
            rules=SwitchRules, model=SwitchHosts, driver=SwitchFabric, exchange=SwitchExchange
        )

    @property
    def measures(self) -> Measures:
        from sim.cycles.switch.measure import MEASURES

        return MEASURES

    @cached_property
    def presets(self) -> Mapping[str, Any]:
        """By preset of the switch, a `SwitchSystem`: it, and endpoints with a link to it."""
        from sim.engines.switches import systems

        return systems()

    def group(self, config: Any, nodes: int) -> Any:
        """Endpoints at one switch.

        Raises
        ------
        ValueError
            The switch has too few ports.
        """
        from sim.cycles.switch.fabric import Fabric
        from sim.cycles.switch.hosts import Assembly

        if nodes > config.switch.ports:
            what = f"at most {config.switch.ports}, one for each port of the switch"
            raise FieldError("vectors", f"must be {what}, not {nodes}")
        links: tuple[tuple[()], ...] = ((),) * nodes  # of no described network
        return Assembly(system=config, fabric=Fabric.flat(nodes), links=links)

    # ---- Descriptions.

    def is_hardware(self, stated: StatedEngine, *, levels_of_switches: bool) -> bool:
        return (
            levels_of_switches
            or bool(stated.switch)
            or super().is_hardware(stated, levels_of_switches=levels_of_switches)
        )

    def read(self, stated: StatedEngine) -> tuple[Endpoint, EngineSection]:
        from sim.engines.switches import read_switches

        return read_switches(
            stated.reader, stated.level, stated.own, stated.switch, stated.memory,
            stated.dimensions,
        )

    def dimensions(
        self, section: EngineSection, dimensions: tuple[Dimension, ...], memory: MemorySection,
        *, level: str,
    ) -> tuple[Dimension, ...]:
        from sim.endpoint.switch_hardware import switch_dimension
        from sim.engines.switches import memory_times

        if level != "events":
            share = section.config.payload_share
            return tuple(replace(each, efficiency=share) for each in dimensions)
        times = memory_times(memory, section.clock_hz)
        return tuple(switch_dimension(section.config, each, memory=times) for each in dimensions)

    def without_hardware(
        self, reader: TomlReader, endpoint: Endpoint, dimensions: tuple[Dimension, ...]
    ) -> tuple[tuple[Dimension, ...], str]:
        """Some dimensions must have switches, whose packets decide on the share of payload."""
        from sim.engines.switches import require_switches

        require_switches(reader, dimensions)
        assert isinstance(endpoint, InSwitchEndpoint)
        share = endpoint.switch.payload_share
        return tuple(replace(each, efficiency=share) for each in dimensions), "endpoint.switch"

    def scheduler(
        self, section: EngineSection, dimensions: Sequence[Dimension], shards: int
    ) -> Scheduler:
        return Scheduler(policy="fifo")

    # ---- Runs.

    def most_cycles(self, network: Network) -> int:
        """Of those in which something is under way."""
        from sim.cycles.model import MOST_STEPS

        return MOST_STEPS // network.vertices

    def most_latency_cycles(self) -> int:
        from sim.rtl.switch.fabric import MOST_LATENCY_CYCLES

        return MOST_LATENCY_CYCLES

    def check_events(
        self, description: Description, section: EngineSection, network: Network
    ) -> None:
        """As at other levels; trunks may have any rate here."""
        from sim.engines.switches import assembly

        if [each.kind for each in network.dimensions] == [DimensionKind.SWITCH]:
            assembly(description.reader, description.level, section, network)

    def described_group(
        self, description: Description, section: EngineSection, system: DescribedSystem
    ) -> EngineGroup:
        from sim.engines.switches import (
            assembly,
            check_model,
            check_rtl,
            memory_times,
            switch_settings,
        )

        reader, network = description.reader, system.network
        made = assembly(reader, description.level, section, network)
        endpoints = [
            description.levels.get(node, description.level) for node in range(network.nodes)
        ]
        switches = _switch_levels(description, made.fabric.switches)
        if "cycles" in [*endpoints, *switches]:
            check_model(reader, made.system, "cycles")
        if "rtl" in [*endpoints, *switches]:
            check_rtl(
                reader, made, network, endpoints=endpoints.count("rtl"),
                switches=switches.count("rtl"),
            )
        times = memory_times(description.memory, section.clock_hz)
        if description.network.stall_probability:
            what = "must be 0: links of switches do not stall"
            raise refused(description, "network", what, "stall_probability")
        latencies = (
            seconds_to_cycles(each.latency_s, section.clock_hz) for each in network.dimensions
        )
        settings = switch_settings(
            reader,
            section,
            network.dimensions,
            stated=stated_at(description, "bandwidth_bytes_per_s")[0],
            read_latency_cycles=times.read_cycles,
            write_latency_cycles=times.write_cycles,
            memory_stalls=description.memory.stall_probability,
            **wires(description, max(1, *latencies), made.system.switch.packet_flits),
            folded=description.run.fold == "on",
            seed=description.run.seed,
        )
        return EngineGroup(
            engine=section,
            config=made,
            settings=settings,
            levels=(*endpoints, *switches),
            nodes=tuple(range(network.nodes)),
            crossed=lambda rank, port: [made.links[rank][port][0]],
        )

    def notes(self, description: Description, section: EngineSection) -> list[str]:
        """A note if buffers of switches and endpoints cannot keep the longest link full."""
        dimensions = description.dimensions
        cycles = seconds_to_cycles(max(each.latency_s for each in dimensions), section.clock_hz)
        router_cycles = section.config.router_cycles
        found = section.config.short_of_credits(
            max(1, cycles),
            max(router_cycles(each.router_latency_s) for each in dimensions),
            cables=any(each.kind is not DimensionKind.SWITCH for each in dimensions),
        )
        return [found] if found else []

    def wire_factor(self, section: EngineSection) -> float:
        return float(section.config.wire_factor)

    def format_note(self, section: EngineSection) -> str:
        if section.config.wire_factor < 1:
            return f"{section.config.format_name} on links"
        return ""

    def link_name(self, section: EngineSection) -> Callable[[int, int], str]:
        planes = section.config.dma.links
        # Up and down by turns in all planes, then those between switches.
        return lambda rank, port: (
            f"NPU {rank}, plane {port // 2}" if port % 2 == 0 and port < 2 * planes else ""
        )


def _switch_levels(description: Description, count: int) -> list[str]:
    """The level of each of *count* switches."""
    levels = [description.switch_level or description.level] * count
    for index, part in enumerate(description.switch_on):
        for number in part.switches:
            if number >= count:
                what = f"must be from 0 to {count - 1}, the switches of the topology, not {number}"
                raise description.reader.error("switch.on", "switches", what, index)
            levels[number] = part.level
    return levels


ENGINE = InSwitchRecord()

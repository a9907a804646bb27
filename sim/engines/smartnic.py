# SPDX-License-Identifier: Apache-2.0
"""The FPGA smart NIC: ring all-reduce with block floating point on the wire."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from gen.estimate.space import Space, bits
from sim.collectives.plan import AlgorithmChoice
from sim.describe.sections import Description, EngineSection, MemorySection
from sim.endpoint.endpoint import Endpoint
from sim.endpoint.memory_times import MemoryTimes
from sim.endpoint.smartnic import SmartNicEndpoint
from sim.engines.engine import Blueprint, Measures, StatedEngine
from sim.engines.ring_record import Keys, RingRecord
from sim.engines.wires import refused, stated_at
from sim.events.scheduler import Scheduler
from sim.network.dimension import Dimension, DimensionKind
from sim.network.network import Network

if TYPE_CHECKING:
    from sim.engines.kind import EngineKind

__all__ = ["ENGINE", "SmartNicRecord"]

_SPACE = Space(
    choices={
        "bus_bytes": (32, 64),
        "engines": (1, 2, 4),
        "alu_stages": (2, 3, 4, 5),
        "block_beats": (64, 128, 256, 512),
        "frame_beats": (16, 32, 64),
        "compressed_frame_beats": (8, 16),
        "receive_beats": (256, 512, 1024),
        "credit_beats": (32, 64, 128),
        "input_beats": (64, 128, 256),
        "output_beats": (32, 64),
        "max_burst": (8, 16),
        "outstanding_bursts": (8, 16, 32),
        "address_bits": (32, 48, 64),
        "descriptors": (2, 4, 8, 16),
        "ethernet": (True, False),
        "codec": ("none", "bfp16"),
    },
    parts=lambda c: {
        "engines": c.engines, "others": c.engines - 1, "codec": float(c.codec != "none"),
        "ethernet": float(c.ethernet), "descriptors": c.descriptors,
        "bursts": c.outstanding_bursts, "bus": c.bus_bytes, "stages": c.alu_stages,
        "address": c.address_bits, "block": bits(c.block_beats), "frame": bits(c.frame_beats),
        "short_frame": bits(c.compressed_frame_beats), "receive": bits(c.receive_beats),
        "credit": bits(c.credit_beats), "input": bits(c.input_beats),
        "output": bits(c.output_beats), "burst": bits(c.max_burst),
    },
    banks=lambda c: import_module("hw.smartnic.memories").banks(c),
    queues=lambda c: import_module("hw.smartnic.memories").queues(c),
)

NIC_BLOCKS = 3
"""Blocks of a rank under way: one in each flow of the NIC, and one that is being fetched."""


class SmartNicRecord(RingRecord):
    name = "smartnic"
    events: ClassVar[Mapping[str, Endpoint]] = {
        "smartnic": SmartNicEndpoint(), "smartnic_bfp": SmartNicEndpoint(codec="bfp16"),
    }
    memory = MemoryTimes(read_cycles=50, write_cycles=10)
    preset = "100g"
    own_keys = ("clock_hz", "compress")
    ring_kinds = (DimensionKind.RING, DimensionKind.SWITCH)

    @cached_property
    def blueprints(self) -> Mapping[str, Blueprint]:
        from hw.smartnic.config import PRESETS, SmartNicConfig
        from hw.smartnic.nic import SmartNic
        from hw.smartnic.registers import register_map

        return {
            "smartnic": Blueprint(
                summary="network interface with ring all-reduce and compression",
                config=SmartNicConfig, presets=PRESETS, component=SmartNic,
                registers=register_map, handoff="foldwire.handoff.smartnic", space=_SPACE,
            )
        }

    @cached_property
    def kind(self) -> "EngineKind":
        from sim.cycles.smartnic.model import NicModel
        from sim.engines.kind import EngineKind
        from sim.rtl.smartnic.exchange import NicExchange
        from sim.rtl.smartnic.ring import NicRing

        return EngineKind(rules=NicRing, model=NicModel, driver=NicRing, exchange=NicExchange)

    @property
    def measures(self) -> Measures:
        from sim.cycles.smartnic.measure import MEASURES

        return MEASURES

    def in_format(self, config: Any, format: str) -> Any:
        return replace(config, codec=format)

    def read_keys(self, stated: StatedEngine, extra: dict[str, Any]) -> Keys:
        reader, default = stated.reader, SmartNicEndpoint().clock_hz
        compress = reader.convert(
            "endpoint", "compress", extra.pop("compress", stated.kind == "smartnic_bfp"), bool
        )
        clock = reader.convert("endpoint", "clock_hz", extra.pop("clock_hz", default), float)
        if not clock >= 1:
            raise reader.error("endpoint", "clock_hz", f"must be at least 1, not {clock!r}")
        return Keys(clock_hz=clock, compress=compress)

    def event_endpoint(
        self, section: EngineSection, keys: Keys, memory: MemoryTimes,
        dimensions: Sequence[Dimension],
    ) -> SmartNicEndpoint:
        from sim.endpoint.nic_hardware import nic_endpoint

        return nic_endpoint(
            section.config,
            dimensions,
            clock_hz=section.clock_hz,
            memory=memory,
            compress=section.compress,
            base=SmartNicEndpoint(),
        )

    def dimensions(
        self, section: EngineSection, dimensions: tuple[Dimension, ...], memory: MemorySection,
        *, level: str,
    ) -> tuple[Dimension, ...]:
        from sim.endpoint.nic_hardware import nic_dimension
        from sim.endpoint.nic_ring import nic_wire_share

        if level == "events" and len(dimensions) == 1:
            return (nic_dimension(section.config, dimensions[0], compress=section.compress),)
        share = nic_wire_share(section.config, compress=section.compress)
        return tuple(replace(each, efficiency=share) for each in dimensions)

    def algorithm(self, section: EngineSection, dimensions: int) -> AlgorithmChoice:
        """One ring, in one direction; in several dimensions one in each."""
        if dimensions > 1:
            return AlgorithmChoice(style="baseline", reductions=("ring",) * dimensions, rings=1)
        return AlgorithmChoice(
            style="halves", reductions=("adding_ring",), rings=section.config.engines
        )

    def scheduler(
        self, section: EngineSection, dimensions: Sequence[Dimension], shards: int
    ) -> Scheduler:
        """A frame from every rank; an engine reduces a block at a time. In several dimensions as
        many are under way as a block has in each flow and before them."""
        from sim.endpoint.nic_ring import nic_frame_beats

        config = section.config
        frame = nic_frame_beats(config, compress=section.compress)
        if len(dimensions) > 1:
            return Scheduler(
                policy="fifo",
                chunk_bytes=float(dimensions[0].size * frame * config.bus_bytes * config.engines),
                concurrency=max(1, int(NIC_BLOCKS * config.block_beats // frame)),
            )
        return Scheduler(
            policy="fifo",
            concurrency=math.ceil(config.block_beats / frame),
            together=True,
            queues="phase",
        )

    def wire_factor(self, section: EngineSection) -> float:
        fmt = section.config.codec_format if section.compress else None
        return 1.0 if fmt is None else 1 / fmt.ratio

    def host_s(self, section: EngineSection, dimensions: int) -> float:
        from sim.endpoint.latencies import EventLatencies

        return EventLatencies.stored().nic_host / section.clock_hz if dimensions > 1 else 0.0

    def check_links(
        self, description: Description, section: EngineSection, network: Network
    ) -> None:
        from sim.cycles.model import MOST_IN_FLIGHT

        flight = MOST_IN_FLIGHT // (network.nodes * section.config.engines)
        for index, each in enumerate(description.dimensions):
            if each.hop_s * section.clock_hz > flight:
                key = max("latency_s", "router_latency_s", key=lambda at: float(getattr(each, at)))
                what = f"must be less, so that a way has at most {flight} cycles, "
                name, place = stated_at(description, key, index)
                what += f"not {getattr(each, key):g}"
                raise refused(description, name, what, key, place)


ENGINE = SmartNicRecord()

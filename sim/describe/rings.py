"""From a description at level ``cycles`` or ``rtl`` to a ring of engines.

The engines' programs are rings, so the topology must hold one: a ring, a switch (NICs only), or a
torus whose nodes collectives see as one dimension. What an engine cannot do is refused here, in
one line that names the limit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sim.cycles.ring import RingSettings
from sim.describe.build import System
from sim.describe.levels import refused_at
from sim.describe.reader import ConfigError
from sim.describe.sections import WIRE_KEYS, Description, EngineSection
from sim.describe.switches import (
    assembly,
    check_model,
    check_rtl,
    memory_times,
    switch_settings,
)
from sim.endpoint.hardware import MemoryTimes, engine_defaults
from sim.network.dimension import Dimension, DimensionKind
from sim.rtl.specs import MOST_LATENCY_CYCLES, ring_links
from sim.units import beats_per_cycle, seconds_to_cycles

__all__ = ["EngineRing", "engine_ring"]


@dataclass(frozen=True, kw_only=True)
class EngineRing:
    """A ring of engines, or endpoints at switches, and at which level each rank runs.

    ``config`` is what runs take: the engine's configuration, or an `Assembly` of switches, whose
    ``levels`` are behind those of ranks. ``nodes`` has the node of each rank. ``crossed``: by rank
    and port, the links of the network that are crossed; None: those of a ring. ``options`` are the
    links and ports of the topology in which an RTL ring lies, where that is not a ring itself.
    """

    engine: EngineSection
    config: Any
    settings: RingSettings
    levels: tuple[str, ...]
    nodes: tuple[int, ...]
    options: Mapping[str, Any]
    crossed: Callable[[int, int], Sequence[int]] | None = None


def engine_ring(description: Description, system: System) -> EngineRing:
    """The ring that *description* describes; ``memory_bytes`` is left to the job.

    Raises
    ------
    ConfigError
        For a topology without a ring, links faster than the engine's bus, RTL with links that are
        too long, or more nodes than the engine supports.
    """
    engine = description.engine
    assert engine is not None
    made = (_switched if engine.kind == "in_switch" else _ring)(description, engine, system)
    cycles = made.settings.latency_cycles
    if "rtl" in made.levels and cycles > MOST_LATENCY_CYCLES:
        stated = description.topology.latency_s is not None
        what = f"must be at most {MOST_LATENCY_CYCLES} cycles with RTL, not {cycles}"
        section, index = ("topology", -1) if stated else ("dimension", 0)
        raise description.reader.error(section, "latency_s", what, index)
    return made


def _ring(description: Description, engine: EngineSection, system: System) -> EngineRing:
    """Engines that pass packets on to one another."""
    nodes = system.network.nodes
    _check_wires(description, f"{engine.kind} engines have no retry on their links")
    _check_nodes(description, engine, nodes)
    ring = _ring_of(description, engine)
    _, memory, _ = engine_defaults(engine.kind)
    times = MemoryTimes.of(
        description.memory.read_latency_s,
        description.memory.write_latency_s,
        clock_hz=engine.clock_hz,
        default=memory,
    )
    settings = RingSettings(
        nodes=nodes,
        latency_cycles=seconds_to_cycles(ring.hop_s, engine.clock_hz),
        beats_per_cycle=_pace(description, engine, ring),
        read_latency_cycles=times.read_cycles,
        write_latency_cycles=times.write_cycles,
        link_stalls=description.network.stall_probability,
        memory_stalls=description.memory.stall_probability,
        bidirectional=ring.bidirectional,
        seed=description.run.seed,
    )
    network = system.network
    options: dict[str, Any] = {}
    if len(network.dimensions) > 1:
        options["ports"], options["links"] = ring_links(
            network,
            clock_hz=engine.clock_hz,
            bus_bytes=engine.config.bus_bytes,
            stall_probability=settings.link_stalls,
        )
    order = range(nodes) if network.placement is None else network.placement.tolist()
    return EngineRing(
        engine=engine,
        config=engine.config,
        settings=settings,
        levels=tuple(description.levels.get(node, description.level) for node in order),
        nodes=tuple(order),
        options=options,
    )


def _switched(description: Description, engine: EngineSection, system: System) -> EngineRing:
    """Endpoints at switches."""
    reader, network = description.reader, system.network
    made = assembly(reader, description.level, engine, network)
    endpoints = [
        description.levels.get(node, description.level) for node in range(network.nodes)
    ]
    switches = _switch_levels(description, made.fabric.switches)
    if "cycles" in [*endpoints, *switches]:
        check_model(reader, made.system, "cycles")
    if "rtl" in [*endpoints, *switches]:
        check_rtl(
            reader, made, network, endpoints=endpoints.count("rtl"), switches=switches.count("rtl")
        )
    levels = [*endpoints, *switches]
    if made.system.retry is None:
        _check_wires(description, "switch.retry = true gets over it")
    elif "cycles" in levels:
        one = description.level if {*levels} == {description.level} else "mixed"
        what = f"must be false at level {one!r}: only where all endpoints and all switches are "
        raise reader.error("switch", "retry", f"{what}'rtl' is there retry on links")
    times = memory_times(description.memory, engine.clock_hz)
    if description.network.stall_probability:
        what = "must be 0: links of switches do not stall"
        raise _refused(description, "network", what, "stall_probability")
    stated = description.topology.bandwidth_bytes_per_s is not None
    settings = switch_settings(
        reader,
        engine,
        network.dimensions,
        stated="topology" if stated else "dimension",
        read_latency_cycles=times.read_cycles,
        write_latency_cycles=times.write_cycles,
        memory_stalls=description.memory.stall_probability,
        link_loss=description.network.loss_probability,
        link_repetition=description.network.repetition_probability,
        link_damage=description.network.damage_probability,
        seed=description.run.seed,
    )
    return EngineRing(
        engine=engine,
        config=made,
        settings=settings,
        levels=(*endpoints, *switches),
        nodes=tuple(range(network.nodes)),
        options={},
        crossed=lambda rank, port: [made.links[rank][port][0]],
    )


def _check_wires(description: Description, why: str) -> None:
    """Refuse wires that lose, repeat or damage packets for good."""
    for name in WIRE_KEYS:
        if value := getattr(description.network, name):
            raise description.reader.error("network", name, f"must be 0, not {value:g}: {why}")


def _switch_levels(description: Description, count: int) -> list[str]:
    """That of each switch."""
    levels = [description.switch_level or description.level] * count
    for index, part in enumerate(description.switch_on):
        for number in part.switches:
            if number >= count:
                what = f"must be from 0 to {count - 1}, the switches of the topology, not {number}"
                raise description.reader.error("switch.on", "switches", what, index)
            levels[number] = part.level
    return levels


def _refused(description: Description, section: str, what: str, key: str = "") -> ConfigError:
    return refused_at(description.level, description.reader, section, key, what)


def _check_nodes(description: Description, engine: EngineSection, nodes: int) -> None:
    most = engine.config.max_nodes if engine.kind == "ace" else 256
    if not 2 <= nodes <= most:
        what = (
            f"must have from 2 to {most} nodes, the max_nodes of preset {engine.preset!r}, "
            f"not {nodes}"
        )
        raise _refused(description, "topology", what)


def _ring_of(description: Description, engine: EngineSection) -> Dimension:
    """The dimension whose links the ring uses."""
    dimensions: Sequence[Dimension] = description.dimensions
    kinds = [DimensionKind.RING]
    if engine.kind == "smartnic":
        kinds.append(DimensionKind.SWITCH)
    allowed = " or ".join(f"one {kind.value}" for kind in kinds)
    ring = dimensions[0]
    if len(dimensions) > 1:
        if engine.kind != "ace" or not description.topology.one_dimension:
            hint = "" if engine.kind != "ace" else ", or be a torus with one_dimension = true"
            what = f"must have one dimension, {allowed}{hint}, not {len(dimensions)}"
            raise _refused(description, "topology", f"{what}: programs of the engine are rings")
        if any(each != replace(ring, size=each.size) for each in dimensions):
            raise _refused(description, "topology", "must have dimensions with links alike")
        if engine.config.ports < 2 * len(dimensions):
            what = (
                f"must have at most {engine.config.ports // 2} dimensions, two ports of preset "
                f"{engine.preset!r} for each, not {len(dimensions)}"
            )
            raise _refused(description, "topology", what)
    for each in dimensions:
        if each.kind not in kinds:
            kind = DimensionKind(each.kind).value.replace("_", " ")
            what = f"must be {allowed}, not a {kind}"
            raise _refused(description, "topology", what)
    if ring.lanes != 1:
        raise _refused(description, "topology", f"must have one lane, not {ring.lanes}")
    return ring


def _pace(description: Description, engine: EngineSection, ring: Dimension) -> float:
    """Beats per cycle on the links."""
    bus = engine.config.bus_bytes * getattr(engine.config, "engines", 1)
    try:
        return beats_per_cycle(ring.bandwidth_bytes_per_s, clock_hz=engine.clock_hz, bus_bytes=bus)
    except ValueError as error:
        what = str(error).removeprefix("bandwidth_bytes_per_s ")
        stated = description.topology.bandwidth_bytes_per_s is not None
        section, index = ("topology", -1) if stated else ("dimension", 0)
        raise description.reader.error(section, "bandwidth_bytes_per_s", what, index) from error


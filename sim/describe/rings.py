"""Turns a description at level ``cycles`` or ``rtl`` into a ring of engines.

The engines' programs are rings, so the topology must hold one: a ring, a switch (NICs only), or a
torus whose nodes collectives see as one dimension. What an engine cannot do is refused here, in
one line that names the limit.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hw.link.packet import FLIT_BYTES, link_flits
from hw.link.retry_beats import frame_beats
from hw.link.retry_frame import RetryConfig
from sim.cycles.ring import MOST_CYCLES, MOST_IN_FLIGHT, MOST_STEPS, RingSettings
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
from sim.limits.bounds import LATENCY
from sim.limits.network import call_bound
from sim.network.dimension import Dimension, DimensionKind
from sim.rtl.specs import MOST_LATENCY_CYCLES, longest_packet, ring_links
from sim.units import beats_per_cycle, seconds_to_cycles
from sim.workload.graph import TaskKind

__all__ = ["EngineRing", "engine_ring"]

MOST_RETRY_CYCLES = 65535
_END_CYCLES = 26  # in both ends of a link with retry, beside the wire


@dataclass(frozen=True, kw_only=True)
class EngineRing:
    """A ring of engines, or endpoints at switches, and the level of each rank.

    ``config``: the engine's configuration, or an `Assembly` of switches, whose ``levels`` follow
    those of ranks. ``nodes`` has the node of each rank. ``crossed``: by rank and port, the links
    of the network that are crossed; None: those of a ring. ``options`` are the links and ports of
    the topology in which an RTL ring lies, where that is not a ring itself.
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
    _check_cycles(description, engine, system)
    made = (_switched if engine.kind == "in_switch" else _ring)(description, engine, system)
    cycles = made.settings.latency_cycles
    if "rtl" in made.levels and cycles > MOST_LATENCY_CYCLES:
        stated = description.topology.latency_s is not None
        what = f"must be at most {MOST_LATENCY_CYCLES} cycles with RTL, not {cycles}"
        section, index = ("topology", -1) if stated else ("dimension", 0)
        raise description.reader.error(section, "latency_s", what, index)
    return made


def _check_cycles(description: Description, engine: EngineSection, system: System) -> None:
    """Refuse jobs that take more cycles than are simulated in any case: by the longest latencies of
    memory and links, by the data that must cross the links, or by computations."""
    most = MOST_CYCLES
    if engine.kind == "in_switch":
        most = MOST_STEPS // system.network.vertices  # cycles in which anything is in flight
    most_s = most / engine.clock_hz
    graphs = system.job.graphs
    for key in ("read_latency_s", "write_latency_s"):
        value = getattr(description.memory, key)
        if value is not None and value > most_s:
            raise _too_long(description, "memory", key, value, value, most)
    calls = {task.call for graph in graphs for task in graph.tasks if task.call is not None}
    stated = description.topology
    for index, each in enumerate(description.dimensions):
        key = max("latency_s", "router_latency_s", key=lambda name: float(getattr(each, name)))
        where = ("dimension", index) if getattr(stated, key) is None else ("topology", -1)
        value = getattr(each, key)
        if description.level == "rtl":
            continue  # its links are much shorter
        if calls and each.farthest_s > most_s:
            raise _too_long(description, where[0], key, value, each.farthest_s, most, where[1])
        units = system.network.nodes * getattr(engine.config, "engines", 1)
        flight = MOST_IN_FLIGHT // units
        if engine.kind == "smartnic" and each.hop_s * engine.clock_hz > flight:
            what = f"must be less, so that a way has at most {flight} cycles, not {value:g}"
            raise refused_at(description.level, description.reader, where[0], key, what, where[1])
    reduces = engine.kind == "in_switch"
    needed = {
        call: max(
            [
                term.seconds
                for term in call_bound(system.network, call, network_reduces=reduces).terms
                if term.resource != LATENCY
            ],
            default=0.0,
        )
        for call in calls
    }
    for graph in graphs:
        busy_s = {"compute": 0.0, "the links of collectives": 0.0, "delays": 0.0}
        for task in graph.tasks:
            if task.call is not None:
                busy_s["the links of collectives"] += needed[task.call]
            elif engine.kind != "ace":
                continue  # passed over
            elif task.kind is TaskKind.COMPUTE:
                busy_s["compute"] += task.duration_s
            elif task.kind is TaskKind.DELAY:
                busy_s["delays"] = max(busy_s["delays"], task.duration_s)
        name = max(busy_s, key=lambda each: busy_s[each])
        if busy_s[name] > most_s:
            what = f"must end within {most_s:.3g} s ({most} cycles), not {busy_s[name]:.3g} s, "
            raise _refused(description, "workload", f"{what}for {name} alone")


def _too_long(
    description: Description, section: str, key: str, value: float, takes_s: float, most: int,
    index: int = -1,
) -> ConfigError:
    assert description.engine is not None
    ends = f"so that a run ends within {most} cycles ({most / description.engine.clock_hz:.3g} s)"
    way = "" if value == takes_s else f"; the longest way takes {takes_s:g} s"
    what = f"must be less, {ends}, not {value:g}{way}"
    return refused_at(description.level, description.reader, section, key, what, index)


def _ring(description: Description, engine: EngineSection, system: System) -> EngineRing:
    """Engines that pass packets on to one another."""
    nodes = system.network.nodes
    _check_nodes(description, engine, nodes)
    ring = _ring_of(description, engine)
    _, memory, _ = engine_defaults(engine.kind)
    times = MemoryTimes.of(
        description.memory.read_latency_s,
        description.memory.write_latency_s,
        clock_hz=engine.clock_hz,
        default=memory,
    )
    latency, pace = seconds_to_cycles(ring.hop_s, engine.clock_hz), _pace(description, engine, ring)
    frame = math.ceil(frame_beats(link_flits(engine.config.bus_bytes)) / pace)
    settings = RingSettings(
        nodes=nodes,
        latency_cycles=latency,
        beats_per_cycle=pace,
        **_wires(description, latency, frame),
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
            loss_probability=settings.link_loss,
            repetition_probability=settings.link_repetition,
            damage_probability=settings.link_damage,
            packet_flits=longest_packet(
                1 + engine.config.packet_bytes // FLIT_BYTES, settings.retry,
                beat_flits=engine.config.flits,
            ),
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
    times = memory_times(description.memory, engine.clock_hz)
    if description.network.stall_probability:
        what = "must be 0: links of switches do not stall"
        raise _refused(description, "network", what, "stall_probability")
    stated = description.topology.bandwidth_bytes_per_s is not None
    times_of = (seconds_to_cycles(each.latency_s, engine.clock_hz) for each in network.dimensions)
    latency = max(1, *times_of)
    settings = switch_settings(
        reader,
        engine,
        network.dimensions,
        stated="topology" if stated else "dimension",
        read_latency_cycles=times.read_cycles,
        write_latency_cycles=times.write_cycles,
        memory_stalls=description.memory.stall_probability,
        **_wires(description, latency, made.system.switch.packet_flits),
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


def _wires(description: Description, latency: int, frame: int) -> dict[str, Any]:
    """Settings of the faults of wires, and of links with retry; *latency*: that of the longest
    link, *frame*: the time of a frame on it, in cycles."""
    reader, network = description.reader, description.network
    if not network.retry:
        for name in WIRE_KEYS:
            if value := getattr(network, name):
                what = f"must be 0, not {value:g}: network.retry = true gets over it"
                raise reader.error("network", name, what)
        return {}
    least = 2 * latency + 2 * frame + _END_CYCLES
    if least > MOST_RETRY_CYCLES:
        what = f"must be false: links of {latency} cycles need a time-out of {least} cycles, "
        raise reader.error("network", "retry", f"{what}and it has at most {MOST_RETRY_CYCLES}")
    stated = network.retry_timeout_cycles
    # An answer also waits for frames that the link is busy with, and for those the wire repeats.
    period = min(least + 6 * frame, MOST_RETRY_CYCLES) if stated is None else stated
    if not least <= period <= MOST_RETRY_CYCLES:
        what = (
            f"must be from {least} (a round trip, {2 * latency} cycles, two frames and what both "
            f"ends need) to {MOST_RETRY_CYCLES}, not {period}"
        )
        raise reader.error("network", "retry_timeout_cycles", what)
    try:
        retry = RetryConfig(
            slots=network.retry_slots, timeout_cycles=period, tries=network.retry_tries
        )
    except ValueError as error:
        key, _, what = str(error).partition(" ")
        raise reader.error("network", f"retry_{key}", what) from error
    return {
        "link_loss": network.loss_probability,
        "link_repetition": network.repetition_probability,
        "link_damage": network.damage_probability,
        "retry": retry,
    }


def _switch_levels(description: Description, count: int) -> list[str]:
    """The level of each switch."""
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
                f"must be at least {2 * len(dimensions)}, two for each of the {len(dimensions)} "
                f"dimensions of the torus, not {engine.config.ports}"
            )
            raise _refused(description, "endpoint", what, "ports")
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


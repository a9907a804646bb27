# SPDX-License-Identifier: Apache-2.0
"""``[switch]``: reducing switches as hardware, their endpoints, and the fabric that they form.

One reading serves events and cycle models: a preset of the switch, one of the endpoint, and the
dimension of the topology that they form. Impossible combinations are refused in one line.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from hw.switch.config import PRESETS as SWITCHES
from hw.switch.config import PlaneConfig, SwitchConfig
from hw.switch.formats import HALVES
from hw.switch_dma.config import PRESETS as ENDPOINTS
from hw.switch_dma.config import SwitchDmaConfig
from sim.collectives.in_switch import MODES
from sim.cycles.switch.fabric import Fabric, Spot
from sim.cycles.switch.hosts import Assembly
from sim.describe.levels import meaningless, refused_at
from sim.describe.reader import TomlReader
from sim.describe.sections import EngineSection, MemorySection
from sim.endpoint.background import Background
from sim.endpoint.in_switch import InSwitchEndpoint
from sim.endpoint.memory_times import MemoryTimes
from sim.endpoint.switch_hardware import longest_wait_cycles, switch_endpoint
from sim.endpoint.switch_system import FORMATS, SwitchSystem
from sim.fields import FieldError, not_one_of
from sim.hosts.surroundings import Surroundings
from sim.network.dimension import Dimension, DimensionKind
from sim.network.network import Network
from sim.units import seconds_to_cycles

__all__ = [
    "SwitchSection",
    "assembly",
    "check_model",
    "check_rtl",
    "memory_times",
    "read_switches",
    "require_switches",
    "switch_settings",
    "systems",
]

DEFAULT_PRESET, DEFAULT_ENDPOINT = "16-port", "1-link"
DEFAULT_FORMAT = "fp32"
TIMEOUT_CYCLES = 4000
MOST_RTL_ENDPOINTS, MOST_RTL_SWITCHES = 8, 4
_DERIVED = ("mode", "switch", "wave_bytes", "waves", "reduce_at", "times")
_MODELLED: Mapping[str, Any] = {"speedup": 2, "half": False, "bfp": False}
_THE_SAME = ("payload_flits", "alu_stages", "multicast_partials")  # in switches and endpoints
_LEAST_RATE = 1e-6  # relative difference of rates that are the same


@dataclass(frozen=True, kw_only=True)
class SwitchSection:
    """Keys of ``[switch]`` beside ``preset``, ``level``, ``mode`` and fields of `SwitchConfig`.

    ``clock_hz``: a link carries 16 bytes in a cycle. ``timeout_cycles``: period after which unused
    entries of a table are sent to their home endpoint; None: 4000, or for pull twice the longest
    wait of a load's entry for the first answer, if that is more (`longest_wait_cycles`); at most
    as far as the preset counts. ``acknowledged``: headers that acknowledge packets take their
    share of the links.
    ``format``: that of operands and results on links, one of `FORMATS`.
    ``background``: ordinary packets between endpoints, in cycle models only.
    """

    clock_hz: float = 25e9 / 16
    timeout_cycles: int | None = None
    acknowledged: bool = False
    format: str = DEFAULT_FORMAT
    background: Background | None = None

    def __post_init__(self) -> None:
        if not 0 < self.clock_hz < 1e12:
            raise FieldError("clock_hz", f"must be above 0 and below 1e12, not {self.clock_hz!r}")
        if self.format not in FORMATS:
            raise FieldError("format", not_one_of(self.format, FORMATS))


def require_switches(reader: TomlReader, dimensions: Iterable[Dimension]) -> None:
    """Refuse a network without switches, in which nothing could reduce."""
    dimensions = list(dimensions)
    if not any(each.has_switches for each in dimensions):
        found = ", ".join(dict.fromkeys(DimensionKind(each.kind).value for each in dimensions))
        what = f"must not be 'in_switch' without dimensions of kind switch or fat_tree: {found}"
        raise reader.error("endpoint", "kind", what)


def read_switches(
    reader: TomlReader,
    level: str,
    own: Mapping[str, Any],
    table: Mapping[str, Any],
    memory: MemorySection,
    dimensions: Sequence[Dimension],
) -> tuple[InSwitchEndpoint, EngineSection]:
    """The event endpoint and the hardware.

    Parameters
    ----------
    own, table : mapping
        ``[endpoint]`` without its kind and level, and ``[switch]`` without level and mode.

    Raises
    ------
    ConfigError
    """
    require_switches(reader, dimensions)
    own, table = dict(own), dict(table)
    mode = _mode(reader, own.pop("mode", "push"))
    preset = _preset(reader, "switch", table, SWITCHES, DEFAULT_PRESET)
    config, section = _switch(reader, preset, table)
    nodes = math.prod(each.size for each in dimensions)
    if nodes > config.endpoints:
        what = f"must be at least {nodes}, the endpoints of the network, not {config.endpoints}"
        raise reader.error("switch", "endpoints", what)
    planes = _planes(reader, dimensions)
    dma = _endpoint(reader, own, config, planes, section.format)
    most = (1 << config.timeout_bits) - 1
    stated = section.timeout_cycles
    if stated is not None and not 1 <= stated <= most:
        what = f"must be from 1 to {most}, what timeout_bits = {config.timeout_bits} count: "
        what += f"entries are left behind by others that gave way; not {stated}"
        raise reader.error("switch", "timeout_cycles", what)
    system = SwitchSystem(
        switch=config,
        dma=dma,
        mode=mode,
        clock_hz=section.clock_hz,
        timeout_cycles=min(TIMEOUT_CYCLES, most) if stated is None else stated,
        acknowledged=section.acknowledged,
        background=section.background,
        format=FORMATS[section.format],
    )
    if stated is None and mode == "pull":
        # Once an entry has timed out, its answers travel one by one.
        wait = 2 * longest_wait_cycles(
            system, memory_times(memory, section.clock_hz), dimensions
        )
        system = replace(system, timeout_cycles=min(most, max(TIMEOUT_CYCLES, wait)))
    if level == "events":
        check_model(reader, system, level)
    extra = {key: own[key] for key in own if key not in _names(SwitchDmaConfig)}
    endpoint = _event_endpoint(reader, level, extra, system, memory, dimensions)
    engine = EngineSection(
        kind="in_switch", preset=preset, config=system, clock_hz=section.clock_hz
    )
    return endpoint, engine


def _names(kind: type) -> list[str]:
    """Parameters of a component that a description may state; retry is the network's."""
    return [each.name for each in fields(kind) if each.name != "retry"]


def _mode(reader: TomlReader, mode: Any) -> str:
    mode = reader.convert("endpoint", "mode", mode, str)
    if mode not in MODES:
        raise reader.error("endpoint", "mode", not_one_of(mode, MODES))
    return str(mode)


def _preset(
    reader: TomlReader, section: str, table: dict[str, Any], presets: Iterable[str], default: str
) -> str:
    name = reader.convert(section, "preset", table.pop("preset", default), str)
    if name not in presets:
        raise reader.error(section, "preset", not_one_of(name, presets))
    return str(name)


def _switch(
    reader: TomlReader, preset: str, table: Mapping[str, Any]
) -> tuple[SwitchConfig, SwitchSection]:
    names = _names(SwitchConfig)
    stated = {key: table[key] for key in table if key not in names}
    beside = ["preset", "level", "mode", "on", *names]
    section = reader.construct(
        SwitchSection,
        "switch",
        reader.values(SwitchSection, "switch", stated, beside=beside),
    )
    own = {key: table[key] for key in table if key in names}
    made = reader.vary(replace(SWITCHES[preset], **_built_for(section.format)), "switch", own)
    _check_built(reader, "switch", made, section.format)
    return made, section


def _built_for(format: str) -> dict[str, Any]:
    """Parameters of switches and endpoints whose data travel in *format*."""
    if format == DEFAULT_FORMAT:
        return {}
    return {"half" if FORMATS[format] in HALVES else "bfp": True}


def _check_built(reader: TomlReader, section: str, made: PlaneConfig, format: str) -> None:
    """Refuse switches or endpoints that are stated to be built without what *format* needs."""
    for name in _built_for(format):
        if not getattr(made, name):
            what = f"must be true, or absent, with switch.format = {format!r}, not false"
            raise reader.error(section, name, what)


def _planes(reader: TomlReader, dimensions: Sequence[Dimension]) -> int:
    planes = {each.lanes for each in dimensions if each.has_switches}
    if len(planes) > 1:
        found = " and ".join(map(str, sorted(planes)))
        what = f"must be the same in all dimensions with switches, not {found}: a link to each"
        raise reader.error("dimension", "lanes", what, 0)
    (count,) = planes
    most = 6
    if count > most:
        what = f"must be from 1 to {most}, the links that an endpoint may have, not {count}"
        raise reader.error("dimension", "lanes", what, 0)
    return count


def _endpoint(
    reader: TomlReader, own: dict[str, Any], switch: SwitchConfig, planes: int, format: str
) -> SwitchDmaConfig:
    """The endpoint's configuration; parameters that the switches share follow from them."""
    stated = "preset" in own
    preset = _preset(reader, "endpoint", own, ENDPOINTS, DEFAULT_ENDPOINT)
    base = ENDPOINTS[preset]
    given = {key: own[key] for key in own if key in _names(SwitchDmaConfig)}
    derived = _shared(switch) | ({} if stated else {"links": planes})
    base = replace(base, **_built_for(format))
    made: SwitchDmaConfig = reader.vary(replace(base, **derived), "endpoint", given)
    _check_built(reader, "endpoint", made, format)
    if made.links != planes:
        key = "links" if "links" in given else "preset"
        what = f"must have {planes} links, one to each plane of the topology, not {made.links}"
        raise reader.error("endpoint", key, what)
    for name, wanted in derived.items():
        found = getattr(made, name)
        fits = found <= wanted if name == "credits" else found >= wanted
        if name in _THE_SAME:
            fits = found == wanted
        if not fits:
            word = {"credits": "at most", **dict.fromkeys(_THE_SAME, "")}
            bound = f"{word.get(name, 'at least')} {_toml(wanted)}".strip()
            what = f"must be {bound}, as the switches have it, not {_toml(found)}"
            raise reader.error("endpoint", name, what)
    return made


def _shared(switch: SwitchConfig) -> dict[str, Any]:
    """Parameters of endpoints that follow from those of the switches."""
    return {
        "payload_flits": switch.payload_flits,
        "alu_stages": switch.alu_stages,
        "buffer_packets": switch.credits,
        "credits": switch.buffer_packets,
        "endpoints": switch.endpoints,
        "multicast_partials": switch.multicast_partials,
    }


def systems() -> dict[str, SwitchSystem]:
    """Each preset of the switch, with endpoints of one link that fit it; they push."""
    made = {}
    for name, switch in SWITCHES.items():
        base = ENDPOINTS[name if name in ENDPOINTS else DEFAULT_ENDPOINT]
        made[name] = SwitchSystem(
            switch=switch,
            dma=replace(base, links=1, **_shared(switch)),
            mode=MODES[0],
            clock_hz=SwitchSection().clock_hz,
            timeout_cycles=min(TIMEOUT_CYCLES, (1 << switch.timeout_bits) - 1),
        )
    return made


def _event_endpoint(
    reader: TomlReader,
    level: str,
    extra: Mapping[str, Any],
    system: SwitchSystem,
    memory: MemorySection,
    dimensions: Sequence[Dimension],
) -> InSwitchEndpoint:
    """The event endpoint of the hardware, with the other keys that the table states."""
    known = [name for name in _names(InSwitchEndpoint) if name not in _DERIVED]
    for key in extra:
        if key in _DERIVED or (key in known and level != "events"):
            what = meaningless(level, ["events"])
            if level == "events":
                what = "must be absent beside switch.preset"
            raise reader.error("endpoint", key, f"{what}: the engine's configuration sets it")
        if key not in known:
            allowed = ["kind", "level", "mode", "preset", *_names(SwitchDmaConfig)]
            raise reader.unknown(key, "endpoint", [*allowed, *(known if level == "events" else [])])
    times = memory_times(memory, system.clock_hz)
    base = switch_endpoint(system, memory=times, dimensions=dimensions)
    return reader.vary(base, "endpoint", extra)


def memory_times(memory: MemorySection, clock_hz: float) -> MemoryTimes:
    """Latencies of the memory of an endpoint."""
    return MemoryTimes.of(
        memory.read_latency_s, memory.write_latency_s, clock_hz=clock_hz, default=MemoryTimes()
    )


# ---- The fabric.


def switch_settings(
    reader: TomlReader,
    engine: EngineSection,
    dimensions: Sequence[Dimension],
    *,
    stated: str,
    **others: Any,
) -> Surroundings:
    """Settings around the endpoints; *stated* is the section that has the rate of the links."""
    dim, clock = dimensions[0], engine.clock_hz
    rate = engine.config.bus_bytes * clock
    if abs(dim.bandwidth_bytes_per_s - rate) > _LEAST_RATE * rate:
        own = dim.bandwidth_bytes_per_s / engine.config.bus_bytes
        what = (
            f"must be {rate:.6g}, a flit of {engine.config.bus_bytes} B in every cycle of "
            f"switch.clock_hz, not {dim.bandwidth_bytes_per_s:.6g}; clock_hz = {own:.6g} fits it"
        )
        raise reader.error(
            stated, "bandwidth_bytes_per_s", what, -1 if stated == "topology" else 0
        )
    return Surroundings(
        nodes=dim.size, latency_cycles=max(1, seconds_to_cycles(dim.latency_s, clock)), **others
    )


def assembly(
    reader: TomlReader, level: str, engine: EngineSection, network: Network
) -> Assembly:
    """The switches of a network and its endpoints; the network has one dimension with switches.

    Raises
    ------
    ConfigError
        For a network that such switches cannot make.
    """

    refused = partial(refused_at, level, reader)
    if len(network.dimensions) > 1 or not network.dimensions[0].has_switches:
        found = " x ".join(DimensionKind(each.kind).value for each in network.dimensions)
        what = f"must have one dimension, a switch or a fat_tree, not {found}"
        raise refused("topology", "", what)
    if network.placement is not None:
        raise refused("topology", "placement", "must be absent: endpoints are where they are")
    (dim,), switch = network.dimensions, engine.config.switch
    tree = dim.kind is DimensionKind.FAT_TREE and dim.group < dim.size
    leaf = dim.group if tree else dim.size
    cables = _cables(dim) if tree else 0
    leaves = dim.size // leaf
    if dim.size < 2:
        raise refused("topology", "", f"must have 2 endpoints at least, not {dim.size}")
    if tree and not 1 <= cables <= leaf:
        rate = dim.trunk_payload_bytes_per_s / dim.payload_bytes_per_s
        what = f"must be from 1 to {leaf} (group) whole links of the members, not {rate:.6g}"
        raise reader.error("dimension", "trunk_bandwidth_bytes_per_s", what, 0)
    needed = max(leaf + cables, leaves if tree and dim.spine else 0)
    if needed > switch.ports:
        parts = f"{leaf} endpoints" + (f" and {cables} links to other switches" if tree else "")
        if needed > leaf + cables:
            parts = f"{leaves} leaves"
        what = f"must be at least {needed}, for {parts} at a switch, not {switch.ports}"
        raise refused("switch", "ports", what)
    if cables > switch.regions:
        what = f"must be at least {cables}, one for each link between two switches, not "
        raise refused("switch", "regions", f"{what}{switch.regions}")
    if not tree:
        fabric = Fabric.flat(dim.size, planes=dim.lanes)
    elif dim.spine:
        fabric = Fabric.spines(
            dim.size, leaf=leaf, cables=cables, ports=switch.ports, planes=dim.lanes
        )
    else:
        fabric = Fabric.pair(leaf, cables=cables, planes=dim.lanes)
    # Blocks take the regions in turn, and the numbers compared are those within a region.
    least = (2 * math.ceil(engine.config.dma.slots / len(fabric.trees)) - 1).bit_length()
    if 0 < switch.age_bits < least:
        what = f"must be 0, or from {least} on, to tell the blocks that endpoints have under way "
        raise refused("switch", "age_bits", f"{what}apart, not {switch.age_bits}")
    return Assembly(
        system=engine.config,
        fabric=fabric,
        links=_links(network, fabric),
        router_cycles=engine.config.router_cycles(dim.router_latency_s),
    )


def check_model(reader: TomlReader, system: SwitchSystem, level: str) -> None:
    """Refuse features that events and cycle models of switches and endpoints lack.

    Raises
    ------
    ConfigError
    """
    for section, config in (("switch", system.switch), ("endpoint", system.dma)):
        for name, needed in _MODELLED.items():
            found = getattr(config, name, needed)
            if found != needed:
                what = f"must be {_toml(needed)}, not {_toml(found)}: only RTL has it"
                raise refused_at(level, reader, section, name, what)


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def check_rtl(
    reader: TomlReader, made: Assembly, network: Network, *, endpoints: int, switches: int
) -> None:
    """Refuse systems that do not run with this many RTL endpoints and switches.

    Raises
    ------
    ConfigError
    """
    refused = partial(refused_at, "rtl", reader)
    (dim,), system, fabric = network.dimensions, made.system, made.fabric
    limits = (
        ("endpoints", endpoints, MOST_RTL_ENDPOINTS),
        ("switches", switches, MOST_RTL_SWITCHES),
    )
    for what, count, most in limits:
        if count > most:
            raise refused("topology", "", f"must have at most {most} {what}, not {count}")
    if len(fabric.trees) > 1:
        what = f"must be that of one link ({dim.bandwidth_bytes_per_s:.6g}), not of "
        what += f"{len(fabric.trees)}: an all-reduce in RTL is in one region, whose tree has one"
        raise refused("dimension", "trunk_bandwidth_bytes_per_s", what, 0)
    if made.router_cycles:
        own = system.own_switch_cycles / system.clock_hz
        what = f"must be at most {own:.6g}, the switch's own "
        what += f"{system.own_switch_cycles} cycles, not {dim.router_latency_s:.6g}"
        raise refused("dimension", "router_latency_s", what, 0)


def _cables(dim: Dimension) -> int:
    """Links of the members' rate between a leaf and all above it; 0 if not a whole number."""
    count = dim.trunk_payload_bytes_per_s / dim.payload_bytes_per_s
    return round(count) if abs(count - round(count)) < _LEAST_RATE * count else 0


def _in_use(network: Network, link: int) -> bool:
    """True unless the link is idle: without a spine, each leaf's link back from the other is."""
    trunk = link - network.wiring.trunk[0]
    return network.dimensions[0].spine or trunk < 0 or trunk % 2 == 0


def _links(
    network: Network, fabric: Fabric
) -> list[list[tuple[int, tuple[Spot | int, ...]]]]:
    """For each endpoint, the links of the network that are counted with it, and their senders.

    Those between switches are counted with the first endpoint of a leaf. Switches above the leaves
    of a plane are one vertex of the network, and links in parallel are one link.
    """
    planes = len(fabric.places[0])
    ends = zip(
        network.link_source.tolist(), network.link_target.tolist(), network.link_lane.tolist()
    )
    number = {each: link for link, each in enumerate(ends) if _in_use(network, link)}
    leaf_of = {(source, lane): target for source, target, lane in number if source < network.nodes}
    up_of = {
        (source, lane): target
        for source, target, lane in number
        if source >= network.nodes and target >= network.nodes
    }
    vertex: dict[int, int] = {}
    counted: list[dict[int, list[Spot | int]]] = [{} for _ in fabric.places]
    owner: dict[int, int] = {}
    plane_of: dict[int, int] = {}
    for endpoint, spots in enumerate(fabric.places):
        for k, (w, p) in enumerate(spots):
            leaf = vertex[w] = leaf_of[endpoint, k]
            plane_of[w] = k
            owner.setdefault(w, endpoint)
            counted[endpoint][number[endpoint, leaf, k]] = [endpoint * planes + k]
            counted[endpoint][number[leaf, endpoint, k]] = [(w, p)]
    for (w, p), (v, q) in fabric.cables:
        k = plane_of[w]
        there = vertex.get(v, up_of[vertex[w], k])
        up, down = number[vertex[w], there, k], number[there, vertex[w], k]
        counted[owner[w]].setdefault(up, []).append((w, p))
        counted[owner.get(v, owner[w])].setdefault(down, []).append((v, q))
    return [[(link, tuple(made)) for link, made in each.items()] for each in counted]

# SPDX-License-Identifier: Apache-2.0
"""A system described in TOML: its hardware, its workload, the level at which it runs, its faults.

Most tables hold the fields of the dataclass that they configure, so that class is the reference of
the keys: ``[[dimension]]`` of `Dimension`, ``[endpoint]`` of the class that ``kind`` names,
``[algorithm]`` of `AlgorithmChoice`, ``[scheduler]`` of `Scheduler`. ``endpoint.level`` says
whether endpoints are events, cycle models or RTL (:mod:`sim.describe.levels`). Units are those of
the key's name (bytes, seconds). A file states only what differs from the defaults.

``load`` at the top lists Python files that register what the description names.

``[astra]`` takes the parameters of ASTRA-SIM's Table III and its files; see `config_astra`.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from sim.collectives.plan import AlgorithmChoice
from sim.describe.changes import with_changes
from sim.describe.endpoints import EndpointChoice, read_endpoint
from sim.describe.levels import refuse_meaningless
from sim.describe.loaded import LOAD, load_stated
from sim.describe.reader import TomlReader, load_toml, read_text
from sim.describe.sections import (
    RETRY_KEYS,
    WIRE_KEYS,
    WORKLOAD_SOURCES,
    Description,
    HostSection,
    MemorySection,
    NetworkSection,
    RunSection,
    ScenarioSection,
    TopologySection,
    WorkloadSection,
)
from sim.describe.topologies import named_dimensions
from sim.endpoint.calibrated import Calibration
from sim.engines.engine import EngineRecord, engine_named, engine_of
from sim.events.packets import PacketOptions
from sim.events.scheduler import Scheduler
from sim.fields import FieldError, not_one_of
from sim.network.dimension import Dimension
from sim.opened import recorded
from sim.results.origin import Origin, plain
from sim.workload.graph import CollectiveKind

if TYPE_CHECKING:
    from sim.describe.machines import Machine

__all__ = ["Description", "describe", "parse", "read"]

INJECTION_POLICIES: dict[str, dict[str, int | None]] = {
    "normal": {"concurrency": 8, "threshold": 64},
    "semi_aggressive": {"concurrency": 16, "threshold": 64},
    "aggressive": {"concurrency": 32, "threshold": 64},
    "extra_aggressive": {"concurrency": 64, "threshold": 128},
    "infinite": {"concurrency": None, "threshold": None},
}
"""ASTRA-sim's bounds (those of its released code): chunks in a queue and in first phases."""

REDUCTION_KEYS = {
    "all_reduce": CollectiveKind.ALL_REDUCE,
    "reduce_scatter": CollectiveKind.REDUCE_SCATTER,
    "all_gather": CollectiveKind.ALL_GATHER,
}
MOST_NODES, MOST_LINKS = 1 << 18, 1 << 24
COMMON = ("bandwidth_bytes_per_s", "latency_s", "efficiency", "router_latency_s")
LINKED = tuple(each.name for each in fields(Dimension) if each.name not in COMMON)
"""Fields of a dimension that its list of links decides."""


SECTIONS = (
    "astra",
    "topology",
    "dimension",
    "endpoint",
    "switch",
    "calibration",
    "algorithm",
    "scheduler",
    "network",
    "memory",
    "host",
    "workload",
    "scenario",
    "run",
)


def read(path: str | Path) -> Description:
    """The training system described in the file *path*."""
    path = Path(path)
    return parse(read_text(path), source=str(path), folder=path.parent)


def parse(text: str, *, source: str, folder: Path | None = None) -> Description:
    """Parse *text*; *source* names the file in errors, files are relative to *folder*."""
    document = load_toml(text, source=source)
    return describe(document, reader=TomlReader(source, text), folder=folder)


def describe(
    document: Mapping[str, Any],
    *,
    reader: TomlReader | None = None,
    folder: Path | None = None,
) -> Description:
    """The training system of a parsed document (or a dictionary of the same shape).

    Raises
    ------
    ConfigError
        Naming file, line if known, key, value and what is allowed.
    """
    reader = TomlReader("system") if reader is None else reader
    if not document:
        what = "describes nothing; a description has [topology] and [workload], or [astra]"
        raise reader.error("", "", what)
    folder = Path() if folder is None else folder
    changes = plain(document.get("changes", {}))
    document = with_changes(document, reader)
    stated = plain(document)
    with recorded() as files:
        load_stated(document, reader, folder)
        rest = {name: table for name, table in document.items() if name != LOAD}
        made = _described(rest, reader, folder)
    origin = Origin(
        document=stated, folder=folder, source=reader.source, changes=changes, files=files
    )
    return replace(made, origin=origin)


def _described(document: Mapping[str, Any], reader: TomlReader, folder: Path) -> Description:
    if isinstance(document.get("algorithm"), str):
        return _by_name(document, reader, folder)
    tables = _tables(document, reader)
    if "astra" in tables:
        from sim.describe.astra import expand

        tables = expand(tables, reader, folder)
    topology = reader.build(TopologySection, "topology", tables.get("topology", {}))
    dimensions = _dimensions(reader, topology, tables.get("dimension", []), folder)
    nodes = math.prod(each.size for each in dimensions)
    memory = reader.build(MemorySection, "memory", tables.get("memory", {}))
    switch = tables.get("switch")
    own = _of_machine(reader, topology.machine, tables.get("endpoint", {}), switch)
    algorithm = tables.get("algorithm", {})
    style = reader.convert("algorithm", "style", algorithm.get("style", ""), str)
    if style == "hamiltonian" and topology.one_dimension:
        what = "must be false beside algorithm.style = 'hamiltonian', whose rings are its own"
        raise reader.error("topology", "one_dimension", what)
    chosen = read_endpoint(reader, own, memory, dimensions, switch, style)
    refuse_meaningless(reader, tables, chosen.all_levels)
    record = engine_of(chosen.kind)
    if memory.bandwidth_bytes_per_s is not None and not (record and record.paces_memory):
        what = f"must be absent beside endpoint.kind = {chosen.kind!r}, whose ports set it"
        raise reader.error("memory", "bandwidth_bytes_per_s", what)
    if record is not None:
        dimensions = _framed(reader, dimensions, record, chosen, tables, memory)
        if chosen.engine is not None:
            endpoint = record.on_network(chosen.endpoint, dimensions)
            chosen = replace(chosen, endpoint=endpoint)
    calibration = reader.build(Calibration, "calibration", tables.get("calibration", {}))
    workload = _workload(reader, tables.get("workload", {}))
    shards = nodes if workload.collective == "all_gather" else 1
    return Description(
        dimensions=calibration.links(dimensions),
        workload=workload,
        topology=topology,
        endpoint=calibration.endpoint(chosen.endpoint),
        calibration=calibration,
        kind=chosen.kind,
        level=chosen.level,
        levels=chosen.levels,
        switch_level=chosen.switch_level,
        switch_on=chosen.switch_on,
        engine=chosen.engine,
        algorithms=_algorithms(reader, chosen, len(dimensions), algorithm),
        scheduler=_scheduler(reader, chosen, dimensions, tables.get("scheduler", {}), shards),
        network=_network(reader, len(dimensions), tables.get("network", {})),
        memory=memory,
        host=reader.build(HostSection, "host", tables.get("host", {})),
        scenario=reader.build(ScenarioSection, "scenario", tables.get("scenario", {})),
        run=reader.build(RunSection, "run", tables.get("run", {})),
        reader=reader,
        folder=folder,
        digest=_digest(document),
    )


def _by_name(document: Mapping[str, Any], reader: TomlReader, folder: Path) -> Description:
    """A description whose ``algorithm`` is ``auto``, or names one that its machine has."""
    name, rest = document["algorithm"], {k: v for k, v in document.items() if k != "algorithm"}
    tables = _tables(rest, reader)
    topology = reader.build(TopologySection, "topology", tables.get("topology", {}))
    if topology.machine is None:
        what = "must be a table, [algorithm]; on a machine (topology.machine) it may be a name"
        raise reader.error("algorithm", "", f"{what}, not {name!r}")
    here = _machine(reader, topology)
    kind = tables.get("endpoint", {}).get("kind")
    if _network_reduces(kind):
        what = f"must be absent, or not {kind!r}, where algorithm is a name"
        raise reader.error("endpoint", "kind", what)
    offered = here.algorithms(tables.get("workload", {}).get("collective", "all_reduce"))
    if name not in ("auto", *offered):
        raise reader.error("algorithm", "", not_one_of(name, ["auto", *offered]))
    each = {
        key: describe({**rest, **offered[key]}, reader=reader, folder=folder)
        for key in (offered if name == "auto" else [name])
    }
    chosen = next(iter(each.values()))
    alternatives = each if name == "auto" else {}
    return replace(chosen, alternatives=alternatives, digest=_digest(document))


def _machine(reader: TomlReader, topology: TopologySection) -> "Machine":
    from sim.describe.machines import machine

    made: Machine = reader.construct(
        machine, "topology", {"name": topology.machine}, names=["machine"]
    )
    if topology.nodes is None:
        return made
    taken: Machine = reader.construct(made.of, "topology", {"nodes": topology.nodes})
    return taken


def _of_machine(
    reader: TomlReader,
    name: str | None,
    table: Mapping[str, Any],
    switch: Mapping[str, Any] | None,
) -> Mapping[str, Any]:
    """``[endpoint]`` on a machine, with the machine's own keys if its switches are to reduce."""
    kind = table.get("kind")
    if name is None or not _network_reduces(kind):
        return table
    from sim.describe.machines import MACHINES

    here = MACHINES[name]
    if here.in_switch is None:
        what = f"must not be {kind!r}: the switches of {name} do not reduce"
        raise reader.error("endpoint", "kind", what)
    hardware = {*(switch or {})} - {"mode", "level"} or {"preset"} & {*table}
    levels = {str(each.get("level", "events")) for each in (table, switch or {})}
    if here.in_switch and (hardware or levels != {"events"}):
        what = f"must be absent on {name}, of whose switches no data sheet states the packets"
        raise reader.error("switch" if switch else "endpoint", "", what)
    mode = table.get("mode", (switch or {}).get("mode", here.modes[0]))
    if mode not in here.modes:
        what = f"must be {' or '.join(here.modes)} on {name}, not {mode!r}"
        raise reader.error("endpoint" if "mode" in table else "switch", "mode", what)
    return {"mode": mode, **here.in_switch, **table}


def _network_reduces(kind: Any) -> bool:
    """True for endpoints whose network adds up."""
    record = engine_of(kind)
    return record is not None and record.network_reduces


def _digest(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _tables(document: Mapping[str, Any], reader: TomlReader) -> dict[str, Any]:
    for name, table in document.items():
        if name in ("base", "grid", "zip"):
            raise reader.error(name, "", "belongs to a sweep; foldwire sweep runs it")
        if name not in SECTIONS:
            raise reader.unknown(name, "", SECTIONS)
        if name == "dimension":
            if not isinstance(table, list) or not all(isinstance(each, dict) for each in table):
                raise reader.error(name, "", f"must be tables, [[{name}]], not {table!r}")
        elif not isinstance(table, dict):
            raise reader.error(name, "", f"must be a table, [{name}], not {table!r}")
    return dict(document)


def _dimensions(
    reader: TomlReader,
    topology: TopologySection,
    overrides: list[dict[str, Any]],
    folder: Path,
) -> tuple[Dimension, ...]:
    named: list[dict[str, Any]]
    if topology.machine is not None:
        named = [dict(each) for each in _machine(reader, topology).dimensions]
    elif topology.kind is None:
        if not overrides:
            what = "must have a kind or a machine, or [[dimension]] tables must be there"
            raise reader.error("topology", "", what)
        named = [{} for _ in overrides]
    else:
        named = reader.construct(
            named_dimensions, "topology", {"kind": topology.kind, "shape": topology.shape}
        )
    if topology.kind == "links":
        from sim.describe.links import linked_graph

        graph = linked_graph(reader, topology, folder)
        named = [{**each, "size": graph.members, "graph": graph} for each in named]
    if len(overrides) > len(named):
        what = f"must be at most {len(named)} tables, one per dimension of the topology"
        raise reader.error("dimension", "", what, len(named))
    for key in COMMON:
        if (value := getattr(topology, key)) is not None:
            named = [{**each, key: value} for each in named]
    made = []
    for index, fields_of in enumerate(named):
        own = overrides[index] if index < len(overrides) else {}
        without = LINKED if topology.kind == "links" else ("graph",)
        stated = reader.values(Dimension, "dimension", own, index, without=without)
        values = {**fields_of, **stated}
        if own.get("kind") == "links":
            what = "must be another one: links are listed in [topology], with kind = 'links'"
            raise reader.error("dimension", "kind", what, index)
        for key in ("kind", "size", "bandwidth_bytes_per_s"):
            if key not in values:
                raise reader.error("dimension", key, "is missing", index)
        alone = topology.kind is None and topology.machine is None
        place = ("dimension", index) if own or alone else ("topology", -1)
        made.append(reader.construct(Dimension, place[0], values, place[1]))
        nodes = math.prod(each.size for each in made)
        if nodes > MOST_NODES:
            key = "shape" if topology.shape else ""
            what = f"must multiply to at most {MOST_NODES} nodes, not {nodes}"
            raise reader.error("topology", key, what)
    links = total = math.prod(each.size for each in made)
    links *= sum(each.links_per_node for each in made)
    if links > MOST_LINKS:
        what = f"must have at most {MOST_LINKS} links in all, not {links}"
        raise reader.error("topology", "", what)
    if topology.nodes is not None and topology.nodes != total:
        sizes = " x ".join(str(each.size) for each in made)
        what = f"must be the product of the dimensions, {sizes} = {total}, not {topology.nodes}"
        raise reader.error("topology", "nodes", what)
    return tuple(made)


def _framed(
    reader: TomlReader,
    dimensions: tuple[Dimension, ...],
    record: EngineRecord,
    chosen: EndpointChoice,
    tables: Mapping[str, Any],
    memory: MemorySection,
) -> tuple[Dimension, ...]:
    """The dimensions with the share of payload that packets of an engine leave."""
    if chosen.engine is not None:
        source = record.sets_efficiency
        made = record.dimensions(chosen.engine, dimensions, memory, level=chosen.level)
    else:
        made, source = record.without_hardware(reader, chosen.endpoint, dimensions)
    if source:
        _refuse_efficiency(reader, tables, source)
    return made


def _refuse_efficiency(reader: TomlReader, tables: Mapping[str, Any], source: str) -> None:
    for section in ("topology", "dimension"):
        found = tables.get(section, {})
        for index, each in enumerate(found) if isinstance(found, list) else [(-1, found)]:
            if "efficiency" in each:
                what = f"follows from the packet format of {source} and must be absent"
                raise reader.error(section, "efficiency", what, index)


def _algorithms(
    reader: TomlReader, chosen: EndpointChoice, dimensions: int, table: Mapping[str, Any]
) -> dict[CollectiveKind, AlgorithmChoice]:
    """The fields of `AlgorithmChoice`; ``reductions`` may differ by collective, under its name.

    An engine with a preset runs a ring of one dimension as one phase, in both directions if it has
    more than one FSM; the NIC always runs one ring, in one direction.
    """
    default = AlgorithmChoice()
    if chosen.engine is not None:
        default = engine_named(chosen.engine.kind).algorithm(chosen.engine, dimensions)
    own = {key: value for key, value in table.items() if key not in REDUCTION_KEYS}
    if own.get("style") == "hamiltonian":  # whose rings are not an engine's to choose
        default = AlgorithmChoice(style="hamiltonian")
    choice = reader.vary(default, "algorithm", own, beside=REDUCTION_KEYS)
    made = dict.fromkeys(CollectiveKind, choice)
    hint = get_type_hints(AlgorithmChoice)["reductions"]
    for key, kind in REDUCTION_KEYS.items():
        if key in table:
            reductions = reader.convert("algorithm", key, table[key], hint)
            try:
                made[kind] = replace(choice, reductions=reductions)
            except FieldError as error:
                raise reader.error("algorithm", key, error.what) from error
    return made


def _scheduler(
    reader: TomlReader,
    chosen: EndpointChoice,
    dimensions: Sequence[Dimension],
    table: Mapping[str, Any],
    shards: int,
) -> Scheduler:
    """The scheduler, the engine's if there is a preset; a collective starts from one of *shards*.

    ``injection_policy`` stands for a ``concurrency`` and a ``threshold``.

    ``active_chunks_per_dimension`` is shared by the rings or switches of the first dimension and
    so gives a ``concurrency``.
    """
    if chosen.engine is not None:
        if table:
            what = "must be absent beside endpoint.preset: chunks and their order are the engine's"
            raise reader.error("scheduler", min(table), what)
        return engine_named(chosen.engine.kind).scheduler(chosen.engine, dimensions, shards)
    policies = ("injection_policy", "active_chunks_per_dimension")
    own = {key: value for key, value in table.items() if key not in policies}
    made = reader.vary(Scheduler(), "scheduler", own, beside=policies)
    bounds: dict[str, int | None] = {}
    if (policy := table.get("injection_policy")) is not None:
        policy = reader.convert("scheduler", "injection_policy", policy, str)
        if policy not in INJECTION_POLICIES:
            what = not_one_of(policy, INJECTION_POLICIES)
            raise reader.error("scheduler", "injection_policy", what)
        bounds = INJECTION_POLICIES[policy]
    if (active := table.get("active_chunks_per_dimension")) is not None:
        active = reader.convert("scheduler", "active_chunks_per_dimension", active, int)
        if active < 1:
            what = f"must be at least 1, not {active}"
            raise reader.error("scheduler", "active_chunks_per_dimension", what)
        first = dimensions[0]
        share = -(-active // (first.lanes * first.directions))
        bounds = {"concurrency": share, "threshold": None}
    for key in bounds:
        if key in own:
            what = "must be absent beside injection_policy or active_chunks_per_dimension"
            raise reader.error("scheduler", key, f"{what}, not {own[key]!r}")
    return replace(made, **bounds)  # type: ignore[arg-type]


def _network(reader: TomlReader, dimensions: int, table: Mapping[str, Any]) -> NetworkSection:
    """Fields of `NetworkSection`, and at packet granularity those of `PacketOptions`."""
    links = ("granularity", "packet_routing", "shared_links", "stall_probability")
    common = (*links, *WIRE_KEYS, *RETRY_KEYS)
    own = {key: value for key, value in table.items() if key not in common}
    stated = {key: table[key] for key in common if key in table}
    section = reader.build(NetworkSection, "network", stated)
    for key in RETRY_KEYS[1:]:
        if key in stated and not section.retry:
            raise reader.error("network", key, "has no meaning without retry = true")
    packets = reader.vary(PacketOptions(), "network", own, beside=common)
    if section.granularity == "message":
        if own:
            what = 'must be absent unless granularity is "packet"'
            raise reader.error("network", min(own), what)
        return section
    for name in ("packet_bytes", "link_width_bits"):
        if getattr(packets, name) is not None:
            reader.construct(
                partial(packets.per_dimension, name, dimensions), "network", {}, names=[name]
            )
    return replace(section, packets=packets)


def _workload(reader: TomlReader, table: Mapping[str, Any]) -> WorkloadSection:
    """Keys other than the source are options of the reader or generator, checked when it runs."""
    stated = [key for key in WORKLOAD_SOURCES if key in table]
    if len(stated) != 1:
        what = f"must state what runs, by one of {', '.join(WORKLOAD_SOURCES)}"
        if stated:
            what = f"must be absent beside {stated[0]}: one of them says what runs"
        raise reader.error("workload", stated[1] if stated else "", what)
    name = reader.convert("workload", stated[0], table[stated[0]], str)
    options = {key: value for key, value in table.items() if key not in (stated[0], "op")}
    op = reader.convert("workload", "op", table.get("op", "sum_f32"), str)
    return reader.construct(
        WorkloadSection, "workload", {stated[0]: name, "op": op, "options": options}
    )

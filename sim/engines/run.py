# SPDX-License-Identifier: Apache-2.0
"""From a description at level ``cycles`` or ``rtl`` to a ring of engines, or endpoints at
switches.

What cannot be run is refused here, in one line that names the limit.
"""

from dataclasses import replace

from sim.describe.build import DescribedSystem
from sim.describe.levels import refused_at
from sim.describe.reader import ConfigError
from sim.describe.sections import Description, EngineSection
from sim.engines.engine import EngineGroup, EngineRecord, engine_named
from sim.engines.own_algorithm import own_algorithm
from sim.engines.wires import refused, stated_at
from sim.fields import FoldError
from sim.limits.bounds import LATENCY
from sim.limits.network import call_bound
from sim.workload.graph import CollectiveKind, TaskKind

__all__ = ["cannot_fold", "engine_group"]

_STATED = {
    "levels": "endpoint.level", "wiring": "topology",
    "link_stalls": "network.stall_probability", "memory_stalls": "memory.stall_probability",
    "link_loss": "network.loss_probability", "link_damage": "network.damage_probability",
    "link_repetition": "network.repetition_probability",
}
"""What a description calls settings with which one engine cannot stand for all."""


def cannot_fold(description: Description, error: FoldError) -> ConfigError:
    """The error of a description in which one engine is to stand for all, and cannot."""
    name = "it" if error.field == "folded" else _STATED.get(error.field, error.field)
    what = f"must be 'off' or 'auto' at level {description.level!r}, not 'on': {name} {error.what}"
    return description.reader.error("run", "fold", what)


def engine_group(description: Description, system: DescribedSystem) -> EngineGroup:
    """The ring that *description* describes; ``memory_bytes`` is left to the job.

    Raises
    ------
    ConfigError
        For a topology without a ring, links faster than the engine's bus, RTL with links that are
        too long, more nodes than the engine supports, or nodes for which one cannot stand.
    """
    section = description.engine
    assert section is not None
    record = engine_named(section.kind)
    _check_cycles(description, record, section, system)
    choice = description.algorithms[CollectiveKind.ALL_REDUCE]
    default = record.algorithm(section, len(description.dimensions)).style
    torus = len(description.dimensions) > 1 and not description.topology.one_dimension
    styles = (*record.styles, *(record.styles_of_tori if torus else ()))
    if choice.style not in (default, *styles):
        allowed = " or ".join(repr(each) for each in styles)
        what = f"must be absent{f' or {allowed}' if allowed else ''}, not {choice.style!r}"
        raise refused(description, "algorithm", what, "style")
    by_dimension = torus and choice.style in record.styles_of_tori
    if choice.gather_backwards and not by_dimension:
        what = "must be false for an engine whose collectives are single rings, not true"
        raise refused(description, "algorithm", what, "gather_backwards")
    dimensions = description.dimensions
    algorithm = own_algorithm(description, record, section, system)
    try:
        made = record.described_group(description, section, system)
        if algorithm is not None:
            settings = replace(made.settings, algorithm=algorithm)
            made = replace(made, settings=settings)
    except FoldError as error:
        raise cannot_fold(description, error) from error
    if "rtl" in made.levels and record.kind.driver is None:
        what = f"must be 'cycles' for {description.kind!r}, which has no RTL, not 'rtl'"
        raise description.reader.error("endpoint", "level", what)
    cycles, most = made.settings.latencies[1], record.most_latency_cycles()
    if "rtl" in made.levels and cycles > most:
        what = f"must be at most {most} cycles with RTL, not {cycles}"
        longest = max((each.size > 1, each.hop_s, -n) for n, each in enumerate(dimensions))
        name, index = stated_at(description, "latency_s", -longest[2])
        raise description.reader.error(name, "latency_s", what, index)
    return made


def _check_cycles(
    description: Description, record: EngineRecord, section: EngineSection, system: DescribedSystem
) -> None:
    """Refuse a run that takes more cycles than are simulated, whatever else happens: one way
    through the longest times of memory and links, the transfers of its links, or computations."""
    most = record.most_cycles(system.network)
    most_s = most / section.clock_hz
    graphs = system.job.graphs
    for key in ("read_latency_s", "write_latency_s"):
        value = getattr(description.memory, key)
        if value is not None and value > most_s:
            raise _too_long(description, "memory", key, value, value, most)
    calls = {task.call for graph in graphs for task in graph.tasks if task.call is not None}
    if description.level != "rtl":  # whose links are much shorter
        for index, each in enumerate(description.dimensions):
            key = max("latency_s", "router_latency_s", key=lambda name: float(getattr(each, name)))
            name, place = stated_at(description, key, index)
            if calls and each.farthest_s > most_s:
                value = getattr(each, key)
                raise _too_long(description, name, key, value, each.farthest_s, most, place)
        record.check_links(description, section, system.network)
    needed = {
        call: max(
            [
                term.seconds
                for term in call_bound(
                    system.network, call, network_reduces=record.network_reduces
                ).terms
                if term.resource != LATENCY
            ],
            default=0.0,
        )
        for call in calls
    }
    for graph in graphs:
        busy_s = {
            "compute": 0.0, "the links of collectives": 0.0, "the memory of collectives": 0.0,
            "delays": 0.0,
        }
        for task in graph.tasks:
            if task.call is not None:
                busy_s["the links of collectives"] += needed[task.call]
                if (rate := description.memory.bandwidth_bytes_per_s) is not None:
                    busy_s["the memory of collectives"] += task.call.size_bytes / rate
            elif not record.computes:
                continue  # passed over
            elif task.kind is TaskKind.COMPUTE:
                busy_s["compute"] += task.duration_s
            elif task.kind is TaskKind.DELAY:
                busy_s["delays"] = max(busy_s["delays"], task.duration_s)
        name = max(busy_s, key=lambda each: busy_s[each])
        if busy_s[name] > most_s:
            what = f"must end within {most_s:.3g} s ({most} cycles), not {busy_s[name]:.3g} s, "
            raise refused(description, "workload", f"{what}for {name} alone")


def _too_long(
    description: Description, section: str, key: str, value: float, takes_s: float, most: int,
    index: int = -1,
) -> ConfigError:
    assert description.engine is not None
    ends = f"so that a run ends within {most} cycles ({most / description.engine.clock_hz:.3g} s)"
    way = "" if value == takes_s else f"; the longest way takes {takes_s:g} s"
    what = f"must be less, {ends}, not {value:g}{way}"
    return refused_at(description.level, description.reader, section, key, what, index)

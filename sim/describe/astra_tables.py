# SPDX-License-Identifier: Apache-2.0
"""ASTRA-SIM's parameters translated into the tables of a described training system."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.describe.astra_params import AstraExtras, AstraParameters
from sim.describe.astra_text import Stated, construct
from sim.describe.reader import FilePlace, TomlReader
from sim.endpoint.kinds import KINDS, Bus
from sim.units import GB

__all__ = ["AstraTables", "TableEntry", "has_topology"]

TERA = 1e12
LEAST_CHUNK_BYTES = 1024  # in the released code of 1.0
REDUCTIONS = (
    "all_reduce_implementation",
    "reduce_scatter_implementation",
    "all_gather_implementation",
)
# Parameters that act on packets only.
OF_PACKETS = (
    "flit_width",
    "local_packet_size",
    "package_packet_size",
    "vcs_per_vnet",
    "buffers_per_vc",
)
# Fields of a bus, by parameter.
LOGGP = {
    "loggp_latency": "latency_s",
    "loggp_overhead": "overhead_s",
    "loggp_gap": "gap_s",
    "loggp_gap_per_byte": "bytes_per_s",
}


@dataclass(frozen=True)
class TableEntry:
    """One key of our tables; ``place`` is None where the value is a default of Table IV."""

    section: str
    key: str
    value: Any
    place: FilePlace | None
    index: int = -1


def has_topology(tables: Mapping[str, Any]) -> bool:
    """True if the description itself states the topology."""
    return "kind" in tables.get("topology", {}) or "dimension" in tables


class AstraTables:
    """Stated parameters, and their translation into our tables, one method for each table."""

    def __init__(self, stated: Mapping[str, Stated], clock_hz: float, release: int = 1) -> None:
        self.stated = stated
        self.release = release
        self.parameters = construct(AstraParameters, stated)
        self.extras = construct(AstraExtras, stated)
        self.cycle_s = 1 / clock_hz

    def entry(self, section: str, key: str, field: str, value: Any = None) -> TableEntry:
        """An entry for *key* with the value of *field*, or with *value*, which is made from it."""
        if value is None:
            value = getattr(self.parameters, field)
        return TableEntry(section, key, value, self.place(field))

    def place(self, field: str) -> FilePlace | None:
        return self.stated[field].place if field in self.stated else None

    def refuse(self, names: Iterable[str], reason: str) -> None:
        """Raise an error if one of the fields was stated."""
        for name in names:
            if name in self.stated:
                each = self.stated[name]
                raise each.place.error(f"must be absent: keys of links {reason}")

    def dimensions(self) -> Iterator[TableEntry]:
        """Table III's topologies: rings inside a package, tori or switches between packages.

        Local rings are unidirectional, vertical and horizontal ones bidirectional (5.1). A link
        carries its width in each cycle.
        """
        p = self.parameters
        if (stated := self.extras.routing_algorithm) not in (None, p.topology):
            where = self.place("routing_algorithm")
            assert where is not None
            raise where.error(f"must be the one of topology {p.topology}, not of {stated}")
        shape = p.shape
        rings = ["local_rings"]
        if p.topology == "torus":
            rings += ["vertical_rings", "horizontal_rings"]
        else:
            rings += ["global_switches"]
        for index, (size, lanes) in enumerate(zip(shape, rings)):
            local = index == 0
            width = "tile_link_width" if local else "package_link_width"
            latency = "local_link_latency" if local else "package_link_latency"
            efficiency = "local_link_efficiency" if local else "package_link_efficiency"
            ring = local or p.topology == "torus"
            values = [
                ("kind", "topology", "ring" if ring else "switch"),
                ("size", "num_npus", size),
                ("lanes", lanes, getattr(p, lanes)),
                ("bidirectional", lanes, not local),
                ("bandwidth_bytes_per_s", width, getattr(p, width) / 8 / self.cycle_s),
                ("latency_s", latency, getattr(p, latency) * self.cycle_s),
                ("efficiency", efficiency, getattr(p, efficiency)),
                ("router_latency_s", "router_latency", p.router_latency * self.cycle_s),
            ]
            for key, field, value in values:
                yield TableEntry("dimension", key, value, self.place(field), index)

    def run(self, reader: TomlReader, folder: Path) -> Iterator[TableEntry]:
        """Workload, iterations, scales and folding."""
        yield self.entry("run", "passes", "num_passes")
        if (name := self.parameters.dnn_name) is not None:
            place = self.place("dnn_name")
            assert place is not None
            beside = folder if place.source == reader.source else Path(place.source).parent
            path = beside / name
            if not path.suffix:
                path = path.with_suffix(".txt")
            yield TableEntry("workload", "file", str(path.resolve()), place)
        for key in ("compute_scale", "comm_scale"):
            if (scale := getattr(self.extras, key)) is not None:
                yield TableEntry("workload", key, scale, self.place(key))
        # Boost mode is a shortcut there and exact here: it is taken wherever it can be, and the run
        # says where it cannot.
        if self.extras.boost_mode is not None:
            yield TableEntry("run", "fold", "auto", None)

    def compute(self, workload: Mapping[str, Any]) -> Iterator[TableEntry]:
        """Timing of operations: the roofline of the peak and of the memory, if it is on."""
        if not self.extras.roofline_enabled:
            return
        place = self.place("roofline_enabled")
        assert place is not None
        if "collective" in workload:
            return
        if "shipped" in workload or str(workload.get("file", "")).endswith(".txt"):
            raise place.error("must be 0, not 1: the workload states times")
        yield TableEntry("workload.compute", "kind", "roofline", place)
        for section, key, field, unit in (
            ("workload.compute", "flops_per_s", "peak_perf", TERA),
            ("endpoint.npu", "memory_bytes_per_s", "local_mem_bw", GB),
        ):
            if (rate := getattr(self.extras, field)) is None:
                missing = FilePlace(place.source, place.line, field.replace("_", "-"))
                raise missing.error("is missing: the roofline is on")
            yield TableEntry(section, key, rate * unit, self.place(field))

    def collectives(self) -> Iterator[TableEntry]:
        """Order of phases and algorithm of each dimension."""
        yield self.entry("algorithm", "style", "algorithm")
        given = {name: getattr(self.extras, name) for name in REDUCTIONS}
        given = {name: parts for name, parts in given.items() if parts is not None}
        flat = {name for name, parts in given.items() if parts[0].startswith("one_")}
        to_all = self.extras.all_to_all_implementation
        if flat and (len(flat) < len(given) or (to_all and not to_all[0].startswith("one_"))):
            place = self.place(min(flat))
            assert place is not None
            raise place.error("one... must stand for all collectives that are given, or for none")
        if flat:
            yield TableEntry("topology", "one_dimension", True, self.place(min(flat)))
        for name, parts in given.items():
            key = name.removesuffix("_implementation")
            algorithms = tuple(part.removeprefix("one_") for part in parts)
            yield TableEntry("algorithm", key, list(algorithms), self.place(name))
        whole, scatter = (given.get(name) for name in REDUCTIONS[:2])
        if whole and scatter and {"tree", "one_tree"} & set(whole):
            # A tree does all-reduces only: halves of these use the algorithms of reduce-scatters.
            halves = [part.removeprefix("one_") for part in scatter]
            yield TableEntry("algorithm", "halves", halves, self.place(REDUCTIONS[1]))
        yield from self._all_to_all(to_all, bool(flat))

    def _all_to_all(self, parts: tuple[str, ...] | None, flat: bool) -> Iterator[TableEntry]:
        if parts is None:
            yield TableEntry("algorithm", "all_to_all", "direct", None)
            return
        place = self.place("all_to_all_implementation")
        assert place is not None
        kinds = {part.removeprefix("one_") for part in parts}
        if len(kinds) > 1 or not kinds <= {"ring", "direct"}:
            raise place.error("must be ring or direct in all dimensions alike")
        (chosen,) = kinds
        if parts[0].startswith("one_") and not flat:
            if chosen != "direct":
                raise place.error("oneRing must stand for all collectives that are given")
            yield TableEntry("algorithm", "all_to_all_span", "all", place)
        # The released code passes blocks on one by one.
        named = "relay" if chosen == "ring" else chosen
        yield TableEntry("algorithm", "all_to_all", named, place)

    def scheduler(self) -> Iterator[TableEntry]:
        """Order of chunks, their number, and the bounds on those that are active."""
        yield self.entry("scheduler", "policy", "scheduling_policy")
        yield self.entry("scheduler", "splits", "preferred_set_splits")
        if self.release == 1:
            yield TableEntry("scheduler", "least_chunk_bytes", LEAST_CHUNK_BYTES, None)
        active = self.extras.active_chunks_per_dimension
        if active is None:
            yield self.entry("scheduler", "injection_policy", "injection_policy")
            return
        place = self.place("active_chunks_per_dimension")
        if self.release == 2:
            yield TableEntry("scheduler", "concurrency", active, place)
            return
        if "injection_policy" in self.stated:
            raise self.stated["injection_policy"].place.error(
                "must be absent where active-chunks-per-dimension is given"
            )
        yield TableEntry("scheduler", "active_chunks_per_dimension", active, place)

    def network(self, tables: Mapping[str, Any], dimensions: int) -> Iterator[TableEntry]:
        """Who forwards; packets, flits and buffers, if one of their parameters was stated.

        ``[network]`` may still ask for whole messages; then these parameters have no effect.
        Dimension 0 is inside a package. A link narrower than a flit moves it in whole cycles.
        """
        if self.release == 2 and "packet_routing" not in self.stated:
            yield TableEntry("network", "packet_routing", "hardware", None)
        else:
            yield self.entry("network", "packet_routing", "packet_routing")
        stated = [name for name in OF_PACKETS if name in self.stated]
        if not stated or tables.get("network", {}).get("granularity") == "message":
            return
        p = self.parameters
        first = self.place(stated[0])
        if "granularity" not in tables.get("network", {}):
            yield TableEntry("network", "granularity", "packet", first)
        further = dimensions - 1
        sizes = [p.local_packet_size] + [p.package_packet_size] * further
        place = self.place("local_packet_size") or self.place("package_packet_size")
        yield TableEntry("network", "packet_bytes", sizes, place)
        yield TableEntry("network", "flit_bytes", p.flit_width // 8, self.place("flit_width"))
        yield self.entry("network", "vcs_per_vnet", "vcs_per_vnet")
        yield self.entry("network", "buffers_per_vc", "buffers_per_vc")
        if p.num_npus is not None and not has_topology(tables):
            widths = [p.tile_link_width] + [p.package_link_width] * further
            whole = [width if width <= p.flit_width else 1 for width in widths]
            yield TableEntry("network", "link_width_bits", whole, None)

    def endpoint(self, kind: object) -> Iterator[TableEntry]:
        """The constant delay after a message, and buses by LogGP, where the endpoint has them.

        The released code sends the data of a step as one message.
        """
        base = KINDS.get(kind) if isinstance(kind, str) else None
        # A message that arrives in a cycle is answered in the next, within the delay of 2.x.
        cycles = self.parameters.endpoint_delay - (self.release == 2)
        delay_s = max(0, cycles) * self.cycle_s
        place = self.place("endpoint_delay")
        if base is None or hasattr(base, "delay_s"):
            yield TableEntry("endpoint", "delay_s", delay_s, place)
            yield TableEntry("endpoint", "message_bytes", None, None)
            if (rate := self.extras.local_mem_bw) is not None:
                place = self.place("local_mem_bw")
                yield TableEntry("endpoint", "sum_bytes_per_s", rate * GB, place)
        elif place is not None:
            raise place.error(f"must be absent for endpoint {kind}, which has delays of its own")
        yield from self._bus(kind, base)

    def of_release(self) -> Iterator[TableEntry]:
        """Behaviour of release 2 that differs from 1; each part may be stated otherwise.

        Reduce-scatters and all-reduces go round a ring one way, all-gathers the other; sums are
        made on arrival; an NPU has one collective under way; all phases of a dimension share a
        queue; messages pass through NPUs without stopping there.
        """
        if self.release != 2:
            return
        for section, key, value in (
            ("algorithm", "rings", 1),
            ("algorithm", "gather_backwards", True),
            ("scheduler", "queues", "dimension"),
            ("scheduler", "collectives", "one"),
        ):
            yield TableEntry(section, key, value, None)

    def _bus(self, kind: object, base: object) -> Iterator[TableEntry]:
        if not (stated := [name for name in LOGGP if name in self.stated]):
            return
        place = self.stated[stated[0]].place
        bus = getattr(base, "bus", None)
        if not isinstance(bus, Bus):
            raise place.error(f"must be absent for endpoint {kind}, which has no bus")
        if self.extras.model_shared_bus == 0:
            raise place.error("must be absent where model-shared-bus is 0")
        for name in stated:
            value = getattr(self.extras, name) * self.cycle_s
            where = self.stated[name].place
            if name == "loggp_gap_per_byte":
                if not value:
                    raise where.error("must be above 0, not 0")
                value = 1 / value
            yield TableEntry("endpoint.bus", LOGGP[name], value, where)

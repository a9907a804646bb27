# SPDX-License-Identifier: Apache-2.0
"""The table ``[astra]``: ASTRA-SIM's parameters, from its files or by name, as tables of ours.

``system`` and ``network`` name files of parameters: text of 1.0, or 2.x's system in JSON; the
network may also be one of the analytical network, in JSON (1.0) or YAML (2.x). ``release = 2``, or
a file in a format of 2.x, selects the behaviour of release 2. Every other key but ``clock_hz`` is
a parameter. A stated value may not be stated elsewhere as well; the other tables replace only the
defaults of Table IV.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sim.describe.astra_analytical import read_analytical
from sim.describe.astra_files import read_network, read_system
from sim.describe.astra_tables import AstraTables, TableEntry, has_topology
from sim.describe.astra_text import Stated, merge, parse_table, read_files
from sim.describe.reader import TomlReader

__all__ = ["expand"]

FORMATS_OF_2 = {"system": (".json",), "network": (".yml", ".yaml")}
OURS = ("system", "network", "clock_hz", "release")
# Parameters that describe the links of Table III's own topologies.
OF_LINKS = (
    "num_packages",
    "package_rows",
    "topology",
    "local_rings",
    "vertical_rings",
    "horizontal_rings",
    "global_switches",
    "local_link_efficiency",
    "package_link_efficiency",
    "tile_link_width",
    "package_link_width",
    "router_latency",
    "local_link_latency",
    "package_link_latency",
    "routing_algorithm",
)


def expand(tables: Mapping[str, Any], reader: TomlReader, folder: Path) -> dict[str, Any]:
    """*tables* with ``[astra]`` replaced by the tables that it stands for.

    Raises
    ------
    ConfigError
        Naming the place of a value that is wrong, given twice or has no effect.
    """
    astra = tables["astra"]
    files = {
        key: folder / reader.convert("astra", key, astra[key], str)
        for key in ("system", "network")
        if key in astra
    }
    clock_hz = reader.convert("astra", "clock_hz", astra.get("clock_hz", 1e9), float)
    if not 0 < clock_hz < math.inf:
        raise reader.error("astra", "clock_hz", f"must be above 0, not {clock_hz!r}")
    release = _release(astra, files, reader)
    described = {".json": read_analytical, ".yml": read_network, ".yaml": read_network}
    links = described.get(files["network"].suffix) if "network" in files else None
    stated: list[Stated] = []
    for key, path in files.items():
        if key == "system" and path.suffix == ".json":
            stated += read_system(path)
        elif not (key == "network" and links):
            stated += read_files(path)
    own = {key: value for key, value in astra.items() if key not in OURS}
    inline = parse_table(own, place=lambda key: reader.place("astra", key))
    source = AstraTables(merge([*stated, *inline]), clock_hz, release)

    entries: list[TableEntry] = []
    if links is not None:
        source.refuse(OF_LINKS, "have no effect beside a network file that describes the links")
        dimensions, places = links(files["network"])
        for index, values in enumerate(dimensions):
            place = places.get("units-count") or places["npus_count"]
            entries += [TableEntry("dimension", k, v, place, index) for k, v in values.items()]
    elif source.parameters.num_npus is not None and not has_topology(tables):
        entries += source.dimensions()
    else:
        source.refuse(OF_LINKS, "have no effect without num-npus or beside another topology")
    if source.parameters.num_npus is not None:
        entries.append(source.entry("topology", "nodes", "num_npus"))
    entries += source.run(reader, folder)
    entries += source.compute(_workload(tables, entries))
    entries += source.collectives()
    entries += source.scheduler()
    entries += source.network(tables, _count(tables, entries))
    kind = tables.get("endpoint", {}).get("kind", "ideal")
    entries += source.endpoint(kind)
    entries += source.of_release()
    return _merged(tables, entries, reader)


def _release(astra: Mapping[str, Any], files: Mapping[str, Path], reader: TomlReader) -> int:
    """Release of the formats of *files*, or else the stated one, or 1.

    The analytical network in JSON does not decide: it is a 1.0 format that both releases accept.
    """
    of_format = {
        key: 2 if path.suffix in FORMATS_OF_2[key] else 1
        for key, path in files.items()
        if not (key == "network" and path.suffix == ".json")
    }
    if len({*of_format.values()}) > 1:
        one, two = sorted(of_format, key=lambda key: of_format[key])
        what = (
            f"must be of the release of {one} = {astra[one]!r}, 1.0 (text), not {astra[two]!r}, "
            f"a format of 2.x"
        )
        raise reader.error("astra", two, what)
    known = next(iter(of_format), None)
    if "release" not in astra:
        return 1 if known is None else of_format[known]
    release: int = reader.convert("astra", "release", astra["release"], int)
    if release not in (1, 2):
        raise reader.error("astra", "release", f"must be 1 or 2, not {release}")
    if known is not None and release != of_format[known]:
        format_of = {1: "1.0 (text)", 2: f"2.x ({files[known].suffix})"}[of_format[known]]
        what = (
            f"must be {of_format[known]} or absent beside {known} = {astra[known]!r}, a file of "
            f"{format_of}, not {release}"
        )
        raise reader.error("astra", "release", what)
    return release


def _workload(tables: Mapping[str, Any], entries: Iterable[TableEntry]) -> dict[str, Any]:
    """``[workload]`` with the *entries* that belong to it."""
    own = {entry.key: entry.value for entry in entries if entry.section == "workload"}
    return own | dict(tables.get("workload", {}))


def _count(tables: Mapping[str, Any], entries: Iterable[TableEntry]) -> int:
    """Number of dimensions."""
    own = 1 + max((entry.index for entry in entries), default=-1)
    shape = tables.get("topology", {}).get("shape", [0])
    named = len(shape) if isinstance(shape, list | tuple) else 1
    return own or max(named, len(tables.get("dimension", [])))


def _merged(
    tables: Mapping[str, Any], entries: Iterable[TableEntry], reader: TomlReader
) -> dict[str, Any]:
    """*tables* with *entries* added; a stated entry may not be in *tables* as well."""
    merged = {name: table for name, table in tables.items() if name not in ("astra", "dimension")}
    merged = {name: dict(table) for name, table in merged.items()}
    dimensions = [dict(table) for table in tables.get("dimension", [])]
    for entry in entries:
        if entry.index >= 0:
            dimensions += [{} for _ in range(entry.index + 1 - len(dimensions))]
            table = dimensions[entry.index]
        else:
            table = merged
            for part in entry.section.split("."):
                table[part] = dict(table.get(part, {}))
                table = table[part]
        if entry.key in table:
            overridden = (entry.section, entry.index, entry.key) in reader.changed
            if entry.place is not None and not overridden:
                other = reader.place(entry.section, entry.key, entry.index)
                where = f"{other.source}:{other.line}" if other.line else other.source
                raise entry.place.error(f"is given twice; also at {where} ({other.key})")
            continue
        table[entry.key] = entry.value
        if entry.place is not None:
            reader.origins[entry.section, entry.index, entry.key] = entry.place
    if dimensions:
        merged["dimension"] = dimensions
    return merged

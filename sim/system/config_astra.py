"""The table ``[astra]``: ASTRA-SIM's parameters, from its files or by name, as tables of ours.

``system`` and ``network`` name files (of parameters; the network may also be one of the analytical
network, JSON); every other key but ``clock_hz`` is a parameter. A value that was stated may stand
nowhere else; the other tables replace only the defaults of Table IV.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sim.config_reader import ConfigError, Place, TomlReader
from sim.system.params import (
    AstraExtras,
    AstraParameters,
    Stated,
    construct,
    key_of,
    merge,
    parse_table,
    read_files,
)
from sim.system.params_analytical import read_analytical

__all__ = ["expand"]

OURS = ("system", "network", "clock_hz")
REDUCTIONS = (
    "all_reduce_implementation",
    "reduce_scatter_implementation",
    "all_gather_implementation",
)
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


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One key of our tables; ``place`` is None where the value is a default of Table IV."""

    section: str
    key: str
    value: Any
    place: Place | None
    index: int = -1


def expand(
    tables: Mapping[str, Any], reader: TomlReader, folder: Path
) -> dict[str, Any]:
    """*tables* without ``[astra]``, with what it says in its place.

    Raises
    ------
    ConfigError
        Naming the place of a value that is wrong, stands twice or has no effect.
    """
    astra = tables["astra"]
    files = {
        key: folder / reader.convert("astra", key, astra[key], str)
        for key in ("system", "network")
        if key in astra
    }
    clock_hz = reader.convert("astra", "clock_hz", astra.get("clock_hz", 1e9), float)
    if not clock_hz > 0:
        raise reader.error("astra", "clock_hz", f"must be above 0, not {clock_hz!r}")
    analytical = "network" in files and files["network"].suffix == ".json"
    texts = [path for key, path in files.items() if not (key == "network" and analytical)]
    own = {key: value for key, value in astra.items() if key not in OURS}
    inline = parse_table(own, place=lambda key: reader.place("astra", key))
    stated = merge([*read_files(*texts), *inline])
    parameters = construct(AstraParameters, stated)
    extras = construct(AstraExtras, stated)

    entries: list[_Entry] = []
    source = _Source(parameters, extras, stated, clock_hz)
    if analytical:
        dimensions, places = read_analytical(files["network"])
        source.refuse(OF_LINKS, "the network file describes the links")
        place = places["units-count"]
        for index, values in enumerate(dimensions):
            entries += [_Entry("dimension", k, v, place, index) for k, v in values.items()]
    elif parameters.num_npus is not None and not _has_topology(tables):
        entries += source.dimensions()
    else:
        source.refuse(OF_LINKS, "num-npus or [topology] says what the links are")
    if parameters.num_npus is not None:
        entries.append(source.entry("topology", "nodes", "num_npus"))
    logical = [each["size"] for each in _dimension_tables(entries)] or None
    entries += [*source.run(), *source.collectives(tables, logical), *source.scheduler(logical)]
    return _merged(tables, entries, reader)


def _has_topology(tables: Mapping[str, Any]) -> bool:
    return "kind" in tables.get("topology", {}) or "dimension" in tables

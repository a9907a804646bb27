# SPDX-License-Identifier: Apache-2.0
"""Meaning of the keys of a description at each level, where it is not the same at all of them.

``docs/reference/levels.md`` holds this table for readers; a test compares the two. A key that has
no meaning at the level of a description is refused where it is stated. A key that has one may have
a value that is impossible at a level: `refused_at` makes the error wherever that is found.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sim.describe.reader import ConfigError, TomlReader
from sim.describe.sections import LEVELS

__all__ = ["ANY", "MEANINGS", "Meaning", "meaningless", "refuse_meaningless", "refused_at"]

ANY = "*"
"""Stands for every key of a table that has no row of its own."""


class Meaning(NamedTuple):
    """Meaning of a key at each level; None: it has none, and is refused.

    In a system of several levels a key is refused if it has no meaning at any of them; with
    *everywhere*, also if it lacks one at some of them.
    """

    events: str | None
    cycles: str | None
    rtl: str | None
    everywhere: bool = False


_RATE = (
    "bytes/s; beats per cycle of the engine's bus, refused above one; at `in_switch` exactly one"
)
_PORTS = "at `ace` with a preset: of reads and of writes each, in equal parts for the memory ports"
_CYCLES = "seconds, rounded up to cycles"
_ROUTER = f"{_CYCLES}; those of a switch that reduces are part of it"
_WIRE = "of a packet on a wire, with `network.retry`"
_RETRY = "of links; all nodes and switches must be RTL"
_FORMAT = "of operands and results on links; all endpoints and switches must be RTL"
_LANES = "elements that a reduction unit adds in a cycle; all endpoints and switches must be RTL"
_PARTIALS = "sums that leave tables incomplete go to all members"
_HEADS = "headers that acknowledge packets, a share of links"
_ORDINARY = "ordinary packets between endpoints"
_MODELS = "all endpoints and switches must be models"
_ENGINE = None  # the engine decides: chunks, order, concurrency, algorithm
_RINGS = (
    "at `ace` on a torus: phases by dimension, or `hamiltonian`, rings that use every link; one "
    "order of dimensions for both halves of a collective"
)
_BACK = "all-gathers go the other way round; at `ace` on a torus, by dimension"
_OWN = "at `ace` on one ring: an algorithm of neighbours by name, registered or built in"
_FOLD = (
    "`on`: one engine for all, at `ace` on a ring or torus, or refused; `auto` and `off`: all "
    "engines"
)
_HEADERS = (
    "share of payload; with a preset it follows from packet format and credits and is refused"
)

MEANINGS: Mapping[str, Mapping[str, Meaning]] = {
    "topology": {
        "bandwidth_bytes_per_s": Meaning("bytes/s of a link, headers included", _RATE, _RATE),
        "latency_s": Meaning("seconds", _CYCLES, _CYCLES),
        "router_latency_s": Meaning("seconds", _ROUTER, _ROUTER),
        "efficiency": Meaning(_HEADERS, None, None),
        "logical_shape": Meaning("dimensions that collectives see", None, None),
        "own_links": Meaning("links of logical dimensions", None, None),
    },
    "dimension": {
        "bandwidth_bytes_per_s": Meaning("bytes/s of a link, headers included", _RATE, _RATE),
        "latency_s": Meaning("seconds", _CYCLES, _CYCLES),
        "router_latency_s": Meaning("seconds", _ROUTER, _ROUTER),
        "efficiency": Meaning(_HEADERS, None, None),
    },
    "switch": {
        "format": Meaning(None, None, _FORMAT, everywhere=True),
        "lanes": Meaning(None, None, _LANES, everywhere=True),
        "multicast_partials": Meaning(None, _PARTIALS, _PARTIALS),
        "acknowledged": Meaning(_HEADS, f"{_HEADS}; {_MODELS}", None, everywhere=True),
        "background": Meaning(None, f"{_ORDINARY}; {_MODELS}", None, everywhere=True),
    },
    "calibration": {ANY: Meaning("what measurement adds to data sheets", None, None)},
    "algorithm": {
        "style": Meaning("order of dimensions, or rings", _RINGS, _RINGS),
        "gather_backwards": Meaning("all-gathers go the other way round", _BACK, _BACK),
        "reductions": Meaning("by dimension", _OWN, _OWN),
        ANY: Meaning("without a preset: the algorithms", _ENGINE, _ENGINE),
    },
    "scheduler": {ANY: Meaning("without a preset: chunks and queues", _ENGINE, _ENGINE)},
    "network": {
        "granularity": Meaning("messages or packets", None, None),
        "packet_routing": Meaning("who forwards", None, None),
        "shared_links": Meaning("whether messages wait for links", None, None),
        "stall_probability": Meaning(None, "of a link, in a cycle", "of a link, in a cycle"),
        "loss_probability": Meaning(None, None, _WIRE),
        "repetition_probability": Meaning(None, None, _WIRE),
        "damage_probability": Meaning(None, None, _WIRE),
        "retry": Meaning(None, None, _RETRY, everywhere=True),
        "retry_slots": Meaning(None, None, _RETRY, everywhere=True),
        "retry_timeout_cycles": Meaning(None, None, _RETRY, everywhere=True),
        "retry_tries": Meaning(None, None, _RETRY, everywhere=True),
        ANY: Meaning("sizes and buffers of packets", None, None),
    },
    "memory": {
        "read_latency_s": Meaning("with a preset: seconds", _CYCLES, _CYCLES),
        "write_latency_s": Meaning("with a preset: seconds", _CYCLES, _CYCLES),
        "bandwidth_bytes_per_s": Meaning(_PORTS, _PORTS, _PORTS),
        "stall_probability": Meaning(None, "of a channel, in a cycle", "of a channel, in a cycle"),
    },
    "scenario": {
        "link": Meaning("slow and failed links", None, None),
    },
    "run": {
        "fold": Meaning("one NPU for all where that is exact", _FOLD, _FOLD),
        "trace": Meaning("chunks and transfers in the trace", None, None),
        "most_spans": Meaning("room for the trace", None, None),
        "reserve": Meaning("a place for the least live chunk", None, None),
        "check": Meaning("conservation of messages and chunks", None, None),
        "data": Meaning("results compared with numpy's", None, "always true"),
        "threads": Meaning(None, None, "that run the nodes"),
        "trace_signals": Meaning(None, None, "signals that are written as waveforms"),
    },
}


def meaningless(level: str, known: Sequence[str]) -> str:
    """Reason to refuse a key at *level* that has a meaning at the *known* levels only."""
    return f"has no meaning at level {level!r}, only at {' and '.join(known)}"


def refused_at(
    level: str, reader: TomlReader, section: str, key: str, what: str, index: int = -1
) -> ConfigError:
    """Error for a value, or a section, that is impossible at *level* but not at all levels."""
    return reader.error(section, key, f"at level {level!r}, {what}", index)


def refuse_meaningless(
    reader: TomlReader, tables: Mapping[str, Any], levels: Sequence[str]
) -> None:
    """Refuse the first stated key that has no meaning at *levels*, those of the nodes.

    Raises
    ------
    ConfigError
        With the place of the key, and the levels at which it has a meaning.
    """
    for section, keys in MEANINGS.items():
        table = tables.get(section, {})
        for index, each in enumerate(table) if isinstance(table, list) else [(-1, table)]:
            for key in each:
                meaning = keys.get(key) or keys.get(ANY)
                if meaning is None:
                    continue
                without = [level for level in levels if getattr(meaning, level) is None]
                if without and (meaning.everywhere or len(without) == len(levels)):
                    known = [name for name in LEVELS if getattr(meaning, name) is not None]
                    raise reader.error(section, key, meaningless(without[0], known), index)

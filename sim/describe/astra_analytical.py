# SPDX-License-Identifier: Apache-2.0
"""Network files of ASTRA-sim's analytical network (JSON): dimensions by lists of equal length.

Bandwidths are in units of 2^30 bytes a second and latencies in cycles of 1 ns, as that simulator
counts them. Links are those of one NPU: a ring of two links goes both ways.
"""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sim.describe.reader import ConfigError, FilePlace, read_text, unknown_key
from sim.units import GIB

__all__ = ["read_analytical"]

NS = 1e-9
KINDS = {"Ring": "ring", "Switch": "switch", "FullyConnected": "fully_connected"}
LABELS = ("T", "N", "P")
LISTS = {
    "topologies-per-dim": str,
    "dimension-type": str,
    "units-count": int,
    "links-count": int,
    "link-latency": float,
    "link-bandwidth": float,
    "nic-latency": float,
    "router-latency": float,
    "hbm-latency": float,
    "hbm-bandwidth": float,
    "hbm-scale": float,
}
REQUIRED = ("topologies-per-dim", "units-count", "links-count", "link-latency", "link-bandwidth")


def read_analytical(path: str | Path) -> tuple[list[dict[str, Any]], dict[str, FilePlace]]:
    """The fields of each dimension, and the place of each key.

    ``dimension-type`` only labels dimensions and has no effect. ``nic-latency`` and a memory model
    (``hbm-scale`` above 0) have no counterpart in a network: they are refused and belong into
    ``[endpoint]``; with ``hbm-scale`` 0 the memory's other values have no effect.

    Raises
    ------
    ConfigError
        With file, line, key, value and what is allowed.
    """
    text = read_text(path)
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise FilePlace(str(path), line, "").error(f"not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: must be an object with named values, not {document!r}")
    reader = _Reader(str(path), text)
    known = ["topology-name", "dimensions-count", *LISTS]
    for key in document:
        if key not in known:
            raise reader.place(key).error(unknown_key(key, known))
    for key in ("dimensions-count", *REQUIRED):
        if key not in document:
            raise reader.place(key).error("is missing")
    if (name := document.get("topology-name", "Hierarchical")) != "Hierarchical":
        raise reader.place("topology-name").error(f"must be 'Hierarchical', not {name!r}")
    count = document["dimensions-count"]
    if type(count) is not int or not 1 <= count <= 16:
        raise reader.place("dimensions-count").error(f"must be from 1 to 16, not {count!r}")
    lists = {key: reader.list_of(key, document[key], count) for key in LISTS if key in document}
    return [reader.dimension(lists, index) for index in range(count)], {
        key: reader.place(key) for key in document
    }


class _Reader:
    def __init__(self, source: str, text: str) -> None:
        self._source = source
        self._lines = text.splitlines()

    def place(self, key: str) -> FilePlace:
        for number, line in enumerate(self._lines, start=1):
            if re.search(rf'"{re.escape(key)}"\s*:', line):
                return FilePlace(self._source, number, key)
        return FilePlace(self._source, None, key)

    def list_of(self, key: str, value: Any, count: int) -> list[Any]:
        kind = LISTS[key]
        words = {str: "texts", int: "positive integers", float: "numbers of at least 0"}[kind]
        allowed = f"a list of {count} {words}, as many as dimensions-count"
        if not isinstance(value, list) or len(value) != count:
            raise self.place(key).error(f"must be {allowed}, not {value!r}")
        for each in value:
            ok = type(each) is kind or (kind is float and type(each) is int)
            if kind is not str:
                ok = ok and math.isfinite(each) and each >= (1 if kind is int else 0)
            if not ok:
                raise self.place(key).error(f"must be {allowed}, not {value!r}")
        return value

    def dimension(self, lists: dict[str, list[Any]], index: int) -> dict[str, Any]:
        kind = self._one_of("topologies-per-dim", lists, index, tuple(KINDS))
        if "dimension-type" in lists:
            self._one_of("dimension-type", lists, index, LABELS)
        for key in ("nic-latency", "hbm-scale"):
            if key in lists and lists[key][index]:
                raise self.place(key).error(
                    f"must be 0 (its model belongs into [endpoint]), not {lists[key][index]!r}"
                )
        if not lists["link-bandwidth"][index]:
            raise self.place("link-bandwidth").error("must be above 0, not 0")
        size, links = lists["units-count"][index], lists["links-count"][index]
        fields = {
            "kind": KINDS[kind],
            "size": size,
            "bandwidth_bytes_per_s": lists["link-bandwidth"][index] * GIB,
            "latency_s": lists["link-latency"][index] * NS,
            "router_latency_s": lists.get("router-latency", [0.0] * (index + 1))[index] * NS,
        }
        if kind == "Ring":
            one_way = links % 2 == 1
            single = size == 2 and links == 1
            fields["lanes"] = links if one_way else links // 2
            fields["bidirectional"] = single or not one_way
            fields["single_link"] = single
        elif kind == "Switch":
            fields["lanes"] = links
        else:
            if size < 2 or links % (size - 1):
                allowed = f"a multiple of {size - 1}, the other members"
                raise self.place("links-count").error(f"must be {allowed}, not {links!r}")
            fields["lanes"] = links // (size - 1)
        return fields

    def _one_of(
        self, key: str, lists: dict[str, list[Any]], index: int, allowed: Sequence[str]
    ) -> str:
        value = lists[key][index]
        if value not in allowed:
            raise self.place(key).error(f"must be of {', '.join(allowed)}, not {value!r}")
        return str(value)

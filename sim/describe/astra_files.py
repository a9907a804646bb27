# SPDX-License-Identifier: Apache-2.0
"""Files of ASTRA-sim 2.x: a system in JSON, the analytical network in YAML.

The system has the keys of 1.0's text files, with lists for algorithms. Only the part of YAML that
such files use is read: ``key: [value, ...]``, or ``key:`` with ``- value`` lines below.
"""

import json
import re
from pathlib import Path
from typing import Any

from sim.describe.astra_text import REFUSED, Stated, state
from sim.describe.reader import FilePlace, read_text, unknown_key
from sim.units import GIB

__all__ = ["read_network", "read_system"]

NS = 1e-9
KINDS = {"Ring": "ring", "Switch": "switch", "FullyConnected": "fully_connected"}
KEYS = ("topology", "npus_count", "bandwidth", "latency")
SWITCHES = ("trace-enabled", "replay-only")
"""Keys of a system that must be 0, or are refused with the reason."""
OF_REPORTS = ("track-local-mem", "local-mem-trace-filename")
"""Keys of a system for further output, which do not affect the simulation."""
_KEY = re.compile(r"([A-Za-z_][\w-]*)\s*:\s*(.*)$")


def read_system(path: str | Path) -> list[Stated]:
    """All values of a system in JSON.

    Raises
    ------
    ConfigError
        With file, line, key, value and what is allowed.
    """
    text, source = read_text(path), str(path)
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise FilePlace(source, line, "").error(f"not valid JSON: {error}") from error
    if not isinstance(document, dict):
        place = FilePlace(source, None, "")
        raise place.error(f"must be an object with named values, not {document}")
    lines = text.splitlines()
    found = []
    for key, value in document.items():
        mark = re.compile(rf'"{re.escape(key)}"\s*:')
        number = next((n for n, line in enumerate(lines, start=1) if mark.search(line)), None)
        place = FilePlace(source, number, key)
        if key in OF_REPORTS:
            continue
        if key in SWITCHES:
            if type(value) is not int or value != 0:
                raise place.error(f"must be 0, not {value!r}: {REFUSED[key]}")
            continue
        parts = value if isinstance(value, list) else [value]
        if not parts or not all(type(part) in (str, int, float) for part in parts):
            raise place.error(f"must be a text, a number or a list of texts, not {value!r}")
        found.append(state(place, "_".join(str(part) for part in parts)))
    return found


def read_network(path: str | Path) -> tuple[list[dict[str, Any]], dict[str, FilePlace]]:
    """The fields of each dimension, and the place of each key.

    Bandwidths are in units of 2^30 bytes a second of one link in one direction, latencies in ns.

    Raises
    ------
    ConfigError
        With file, line, key, value and what is allowed.
    """
    source = str(path)
    values, places = _lists(read_text(path), source)
    for key in KEYS:
        if key not in values:
            raise FilePlace(source, None, key).error("is missing")
    count = len(values["topology"])
    for key in KEYS:
        if len(values[key]) != count:
            what = f"must have {count} values, as many as topology, not {len(values[key])}"
            raise places[key].error(what)
    dimensions = []
    for index in range(count):
        kind = values["topology"][index]
        if kind not in KINDS:
            raise places["topology"].error(f"must be of {', '.join(KINDS)}, not {kind!r}")
        dimensions.append(
            {
                "kind": KINDS[kind],
                "size": int(_number(values, places, "npus_count", index, whole=True)),
                "bandwidth_bytes_per_s": _number(values, places, "bandwidth", index) * GIB,
                "latency_s": _number(values, places, "latency", index, zero=True) * NS,
            }
        )
    return dimensions, places


def _lists(text: str, source: str) -> tuple[dict[str, list[str]], dict[str, FilePlace]]:
    values: dict[str, list[str]] = {}
    places: dict[str, FilePlace] = {}
    current = ""
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.split("#", 1)[0].rstrip()
        if not bare.strip() or bare.strip() == "---":
            continue
        match = _KEY.match(bare)
        if match is None:
            if not current or not bare.lstrip().startswith("-"):
                what = f"must be of the form 'key: [value, ...]', not {bare.strip()!r}"
                raise FilePlace(source, number, "").error(what)
            values[current].append(_text(bare.lstrip()[1:]))
            continue
        current, rest = match[1], match[2].strip()
        places[current] = FilePlace(source, number, current)
        if current not in KEYS:
            raise places[current].error(unknown_key(current, KEYS))
        if current in values:
            raise places[current].error("is given twice")
        if rest and not (rest.startswith("[") and rest.endswith("]")):
            raise places[current].error(f"must be a list, [value, ...], not {rest!r}")
        values[current] = [_text(part) for part in rest[1:-1].split(",")] if rest else []
    return values, places


def _text(part: str) -> str:
    return part.strip().strip("\"'")


def _number(
    values: dict[str, list[str]],
    places: dict[str, FilePlace],
    key: str,
    index: int,
    *,
    whole: bool = False,
    zero: bool = False,
) -> float:
    text = values[key][index]
    allowed = "positive integers" if whole else f"numbers {'of at least' if zero else 'above'} 0"
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    ok = 0 <= number < 1e15 and (zero or number > 0) and (not whole or number == int(number))
    if not ok:
        raise places[key].error(f"must be {allowed}, not {text!r}")
    return number

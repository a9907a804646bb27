# SPDX-License-Identifier: Apache-2.0
"""Single keys of a description changed by their dotted paths, as sweeps and command lines do."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sim.describe.reader import FilePlace, TomlReader

__all__ = ["OPTION", "apply", "changed", "parse_change", "with_changes"]

OPTION = "--set"
"""Name of the place of a changed key in errors."""

MOST_MADE = 64  # tables of an array that a key may make

Config = dict[str, Any]


def parse_change(text: str) -> tuple[str, Any]:
    """``KEY=VALUE`` as a dotted key and a value: one of TOML, else a text.

    Raises
    ------
    ConfigError
        There is no key, or no ``=``.
    """
    import tomllib

    key, equals, value = text.partition("=")
    if not equals or not all(part.strip() for part in key.split(".")):
        place = FilePlace(OPTION, None, "")
        raise place.error(f"must be KEY=VALUE, as scheduler.concurrency=16, not {text!r}")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def apply(
    config: Config, changes: Mapping[str, Any], reader: TomlReader, *, section: str | None = None
) -> None:
    """Change *config* in place; errors at these keys name `OPTION` from then on, or their line in
    *section* of the file if that is where the changes are.

    Raises
    ------
    ConfigError
        A key leads nowhere.
    """
    for key, value in changes.items():
        if not isinstance(key, str):
            place = FilePlace(OPTION, None, "")
            raise place.error(f"keys must be dotted paths, as scheduler.concurrency, not {key!r}")
        value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
        place = FilePlace(OPTION, None, key) if section is None else reader.place(section, key)
        try:
            changed(config, key, value)
        except ValueError as error:
            raise replace(place, key="").error(str(error)) from error
        parts = key.split(".")
        index = int(parts[1]) if len(parts) > 2 and parts[1].isdecimal() else -1
        table = ".".join(part for part in parts[:-1] if not part.isdecimal())
        reader.origins[table, index, parts[-1]] = place
        reader.changed.add((table, index, parts[-1]))


def with_changes(document: Mapping[str, Any], reader: TomlReader) -> Mapping[str, Any]:
    """*document* with what its ``[changes]`` says: dotted keys in place of what is stated.

    Raises
    ------
    ConfigError
        As `apply`, or as it is no table.
    """
    if not isinstance(changes := document.get("changes", {}), Mapping):
        raise reader.error("changes", "", f"must be a table, [changes], not {changes!r}")
    if "changes" not in document:
        return document
    made = copy.deepcopy({key: table for key, table in document.items() if key != "changes"})
    apply(made, changes, reader, section="changes")
    return made


def changed(config: Config, key: str, value: Any) -> None:
    """Set the value at a dotted key in place; tables that are missing on the way are made.

    Raises
    ------
    ValueError
        The key leads through something that is no table, or to a place that an array lacks.
    """
    _set(config, key.split("."), value, key)


def _set(place: Any, parts: list[str], value: Any, key: str) -> None:
    part, *rest = parts
    if isinstance(place, list):
        if part.isdecimal() and len(place) <= int(part) < MOST_MADE:
            place += [{} for _ in range(int(part) + 1 - len(place))]
        if part == "*" and place:
            chosen = range(len(place))
        elif part.isdecimal() and int(part) < len(place):
            chosen = range(int(part), int(part) + 1)
        else:
            allowed = f"0 to {MOST_MADE - 1}, or * for all that the base has"
            raise ValueError(
                f"{key}: there is no entry {part!r} among {len(place)}; allowed: {allowed}"
            )
        for index in chosen:
            if rest:
                _set(place[index], rest, value, key)
            else:
                place[index] = copy.deepcopy(value)
    elif isinstance(place, dict):
        if rest:
            missing: Any = [] if rest[0] == "*" or rest[0].isdecimal() else {}
            _set(place.setdefault(part, missing), rest, value, key)
        else:
            place[part] = copy.deepcopy(value)
    else:
        raise ValueError(f"{key}: {part!r} lies in {place!r}, which is no table")

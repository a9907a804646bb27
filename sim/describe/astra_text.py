# SPDX-License-Identifier: Apache-2.0
"""Files and tables of ASTRA-SIM's parameters: what they state, and where.

Text files hold one ``key: value`` (or ``key = value``) a line. Several files describe one system:
each adds keys, and a key is given once. Keys of later releases are mapped to what they mean here or
refused with the reason; nothing is ignored in silence.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

from sim.describe.astra_params import IMPLEMENTATIONS, AstraExtras, AstraParameters
from sim.describe.reader import ConfigError, FilePlace, read_text, unknown_key
from sim.fields import FieldError

__all__ = [
    "REFUSED",
    "Stated",
    "construct",
    "merge",
    "parse_table",
    "parse_text",
    "read_files",
    "state",
]

T = TypeVar("T")

REFUSED = {
    "fast-forward": "a shortcut of another simulator; folding gives exact results instead",
    "local-reduction-delay": "what a sum costs follows from the endpoint: local-mem-bw",
    "trace-enabled": "foldwire sim --trace records what happens",
    "replay-only": "traces without [workload.compute] keep their times",
    "track-local-mem": "memory use of traces is not simulated",
    "local-mem-trace-filename": "memory use of traces is not simulated",
    "perpendicular-rings": "tori of more dimensions are described by [[dimension]]",
    "fourth-rings": "tori of more dimensions are described by [[dimension]]",
    "collective-implementation": "of a release before the shared samples; state "
    "all-reduce-implementation instead",
}
"""Known keys that are refused, with the reason."""


class Stated(NamedTuple):
    """A value as some file gave it."""

    field: str
    value: Any
    place: FilePlace


_OWNERS = {
    each.name: (kind, each) for kind in (AstraParameters, AstraExtras) for each in fields(kind)
}
_FIELDS = {name: f for _, f in _OWNERS.values() for name in f.metadata["names"]}
_LINE = re.compile(r"\s*([A-Za-z][\w-]*)\s*[:=]\s*(.*?)\s*(?:#.*)?$")


def parse_text(text: str, *, source: str) -> list[Stated]:
    """All values of a text file.

    Raises
    ------
    ConfigError
        With *source*, line, key, value and what is allowed.
    """
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.split("#", 1)[0].strip():
            continue
        match = _LINE.match(line)
        if match is None:
            raise FilePlace(source, number, "").error(
                f"must be of the form 'key: value', not {line.strip()!r}"
            )
        found.append(state(FilePlace(source, number, match[1]), match[2]))
    return found


def state(place: FilePlace, text: str) -> Stated:
    """The value that a file spells as *text* at *place*, which names the key."""
    each = _field(place)
    return Stated(field=each.name, value=_from_text(each, text, place), place=place)


def parse_table(
    table: Mapping[str, Any], *, place: Callable[[str], FilePlace] | None = None
) -> list[Stated]:
    """All values of a TOML table or of a dictionary, with the keys of text files.

    *place* says where a key is.
    """
    found = []
    for key, value in table.items():
        where = place(key) if place else FilePlace("parameters", None, key)
        each = _field(FilePlace(where.source, where.line, key))
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise where.error(f"must be {_kind_words(each)}, not {value!r}")
        taken = _from_text(each, str(value), where)
        found.append(Stated(field=each.name, value=taken, place=where))
    return found


def read_files(*paths: str | Path) -> list[Stated]:
    """The values of several text files together."""
    return [each for path in paths for each in parse_text(read_text(path), source=str(path))]


def merge(stated: Iterable[Stated]) -> dict[str, Stated]:
    """Values by field; each may be stated only once.

    Raises
    ------
    ConfigError
        Naming both places of a value that is given twice.
    """
    found: dict[str, Stated] = {}
    for each in stated:
        first = found.setdefault(each.field, each)
        if first is not each:
            where = f"{first.place.source}:{first.place.line or '?'}"
            raise each.place.error(
                f"is given twice; first at {where} ({first.place.key} = {first.value!r})"
            )
    return found


def construct(kind: type[T], stated: Mapping[str, Stated]) -> T:
    """The dataclass *kind* from what was stated; errors name the place of the value.

    A torus has no global switches and an all-to-all topology no vertical or horizontal rings; to
    state them there is an error.
    """
    try:
        made = kind(**{k: each.value for k, each in stated.items() if _OWNERS[k][0] is kind})
    except FieldError as error:
        each = stated.get(_FIELDS[error.field].name)
        if each is not None:
            raise each.place.error(error.what) from error
        raise ConfigError(str(error)) from error
    if isinstance(made, AstraParameters):
        of_other = {
            "torus": ("global_switches",),
            "all_to_all": ("vertical_rings", "horizontal_rings"),
        }
        for name in of_other[made.topology]:
            if name in stated:
                raise stated[name].place.error(
                    f"must be absent for topology {made.topology}, not {stated[name].value!r}"
                )
    return made


def _field(place: FilePlace) -> Field[Any]:
    if place.key in REFUSED:
        raise place.error(f"is not supported: {REFUSED[place.key]}")
    if place.key not in _FIELDS:
        raise place.error(unknown_key(place.key, _FIELDS))
    return _FIELDS[place.key]


def _from_text(each: Field[Any], text: str, place: FilePlace) -> Any:
    """The value of a field that a file spells as *text*; ranges are checked later."""
    if each.metadata["choices"] is not None:
        choices = each.metadata["choices"]
        if text not in choices:
            raise place.error(f"must be one of {', '.join(choices)}, not {text!r}")
        return choices[text]
    kind = _kind(each)
    if kind is str and text:
        return text
    if kind is int and re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    if kind is float:
        try:
            return float(text)
        except ValueError:
            pass
    if kind is tuple and text and all(part in IMPLEMENTATIONS for part in text.split("_")):
        parts = tuple(IMPLEMENTATIONS[part] for part in text.split("_"))
        if len(parts) == 1 or not any(part.startswith("one_") for part in parts):
            return parts
    raise place.error(f"must be {_kind_words(each)}, not {text!r}")


def _kind(each: Field[Any]) -> type:
    """int, float, str or tuple (of implementations)."""
    hint = get_type_hints(_OWNERS[each.name][0])[each.name]
    if hint in (int, float, str):
        return hint  # type: ignore[no-any-return]
    first = get_args(hint)[0]
    return first if first in (int, float, str) else tuple


def _kind_words(each: Field[Any]) -> str:
    if each.metadata["choices"] is not None:
        return f"one of {', '.join(each.metadata['choices'])}"
    return {
        int: "an integer",
        float: "a number",
        str: "a text",
        tuple: f"algorithms joined by '_', of {', '.join(IMPLEMENTATIONS)}; one... stands alone",
    }[_kind(each)]

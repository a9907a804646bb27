# SPDX-License-Identifier: Apache-2.0
"""Checks that the signals of an emitted text have the names that the source gives them.

The names in the source are observed while it runs: at every line a trace looks which variable,
attribute, key or list holds the signals created since the previous line. This is independent of
Amaranth's naming and of the emitter.
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from amaranth.hdl import Signal, Value, ValueCastable
from amaranth.hdl import _ast as hdl

__all__ = ["Names", "Seen", "checked", "seen_names"]

_ROOT = str(Path(__file__).resolve().parent.parent)
_APART = tuple(f"{_ROOT}/{name}/" for name in ("gen", "bench", "foldwire", ".venv"))
_DEEP = 4  # levels of nested containers that are searched
_LINES = 20  # longest statement


@dataclass
class Seen:
    """Names of signals in the source, by their unique numbers (`duid`).

    Attributes
    ----------
    names:
        Names under which the source first holds them.
    given:
        The names that Amaranth has.
    """

    names: dict[int, set[str]]
    given: dict[int, str]


@contextmanager
def seen_names(belongs: Callable[[str], bool] | None = None) -> Iterator[Seen]:
    """Record names while the body elaborates designs; *belongs* tells which files are source."""
    seen = Seen({}, {})
    ours = belongs or (
        lambda path: path.startswith(_ROOT) and not path.startswith(_APART)
    )
    looked: dict[FrameType, tuple[int, int, int]] = {}

    def made() -> int:
        return int(vars(hdl.DUID)["_DUID__next_uid"])

    def local(frame: FrameType, event: str, _: object) -> Any:
        first, last, left = looked[frame]
        now = made()
        if now > last or left:
            # A multi-line statement creates signals some lines before it binds them.
            looked[frame] = first, now, _LINES if now > last else left - 1
            code = frame.f_code
            arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            found: dict[int, set[str]] = {}
            for name, value in list(frame.f_locals.items()):
                if name in arguments and isinstance(value, Value | ValueCastable):
                    continue  # named by the caller
                for signal, words in _held(value, [] if name == "self" else [name], 0):
                    duid: int = signal.duid  # type: ignore[attr-defined]  # not published
                    if duid >= first and duid not in seen.names:
                        found.setdefault(duid, set()).add("_".join(words))
                        seen.given[duid] = signal.name
            seen.names |= found
        if event == "return":
            looked.pop(frame)
        return local

    def start(frame: FrameType, _event: str, _: object) -> Any:
        path = frame.f_code.co_filename
        if frame.f_code.co_name.startswith("<") or not ours(path):
            return None
        looked[frame] = made(), made(), 0
        return local

    outer = sys.gettrace()
    sys.settrace(start)
    try:
        yield seen
    finally:
        sys.settrace(outer)


def _held(value: object, words: list[str], depth: int) -> Iterator[tuple[Signal, list[str]]]:
    """Yield the signals in *value*, each with the words of the path to it."""
    if isinstance(value, ValueCastable):
        try:
            value = Value.cast(value)
        except (TypeError, AttributeError):  # it is still being made
            return
    if isinstance(value, Signal):
        yield value, words
        return
    if isinstance(value, Value) or depth == _DEEP:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _held(inner, [*words, *_word(key)], depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from _held(inner, words, depth + 1)
    elif not words or _is_record(value):
        for name, inner in list(getattr(value, "__dict__", {}).items()):
            yield from _held(inner, [*words, name], depth + 1)


def _is_record(value: object) -> bool:
    library = type(value).__module__.split(".")[0] in ("amaranth", "builtins")
    return not library and not hasattr(value, "elaborate")


def _word(key: object) -> list[str]:
    if isinstance(key, enum.Enum):
        return [key.name.lower()]
    return [str(key)] if isinstance(key, str | int) else []


@dataclass(frozen=True)
class Names:
    """Counts of signals compared and of those that the source never holds (`unheld`); the `wrong`
    names.
    """

    compared: int
    wrong: list[str]
    unheld: int


def checked(seen: Seen, names: list[tuple[str, str, int]]) -> Names:
    """Compare *names* of a text with what was *seen*.

    A name is right if it ends in the name of what holds the signal, or in the name that the source
    gave it; a trailing number makes it unique or is an index.
    """
    compared = unheld = 0
    wrong: list[str] = []
    for path, name, serial in names:
        held = seen.names.get(serial)
        if held is None:
            unheld += 1
            continue
        compared += 1
        given = seen.given[serial]
        accepted = held if given.startswith("$") else {*held, given}
        stem = _plain(name)
        if not any(_ends(stem, _plain(each)) for each in accepted):
            wrong.append(f"{path}.{name}: {', '.join(sorted(accepted))}")
    return Names(compared, wrong, unheld)


def _plain(name: str) -> str:
    """*name* without trailing numbers and without the underscores that escape reserved words."""
    words = re.sub(r"(\[\d+\])+$", "", name).strip("_").split("_")
    while len(words) > 1 and (words[-1].isdigit() or not words[-1]):
        words.pop()
    return "_".join(word for word in words if word)


def _ends(name: str, end: str) -> bool:
    return name == end or name.endswith(f"_{end}")

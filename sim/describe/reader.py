# SPDX-License-Identifier: Apache-2.0
"""Common base of all readers of descriptions: checked values, and errors that name their place.

A description is a frozen dataclass whose fields are values, further dataclasses (tables of TOML) or
tuples of dataclasses (arrays of tables). Every key is checked: an unknown one, a value of the wrong
kind or one that is not allowed is an error that names file, line, key, value and what is allowed.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from enum import Enum
from functools import partial
from inspect import signature
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from sim.fields import FieldError, FieldTypeError, nearest
from sim.opened import opening

__all__ = [
    "ConfigError",
    "FilePlace",
    "TomlReader",
    "load_toml",
    "read_text",
    "unknown_key",
]

T = TypeVar("T")


class ConfigError(ValueError):
    """A description that cannot be used; the text starts with the file and, if known, the line."""


@dataclass(frozen=True)
class FilePlace:
    """Place of a value: the file (or a name in its stead), the line if known, the key."""

    source: str
    line: int | None
    key: str

    def error(self, what: str) -> ConfigError:
        """An error at this place; *what* says what is wrong."""
        where = f"{self.source}:{self.line}" if self.line else self.source
        return ConfigError(f"{where}: {self.key}: {what}" if self.key else f"{where}: {what}")


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    """Text for an unknown key, with the key that was probably meant and all allowed ones."""
    names = list(dict.fromkeys(allowed))
    near = nearest(key, names)
    hint = f"did you mean {near!r}? " if near else ""
    return f"unknown key; {hint}allowed: {', '.join(names)}"


def read_text(path: str | Path) -> str:
    """The text of a file.

    Raises
    ------
    ConfigError
        If it is absent, unreadable or not UTF-8.
    """
    try:
        return opening(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read: {reason}") from error


def load_toml(text: str, *, source: str) -> dict[str, Any]:
    """The tables of *text*; *source* names the file in errors."""
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{source}: not valid TOML: nested too deeply") from error


class TomlReader:
    """Turns tables into dataclasses, and finds the place of a value in the file.

    Parameters
    ----------
    source : str
        Name of the file in errors.
    text : str
        Text of the file, to find lines in; if it is empty, errors name no line.

    Attributes
    ----------
    origins
        By section, index and key: place of a value that comes from another file.
    changed
        Sections, indices and keys whose value took the place of another that was stated.
    """

    def __init__(self, source: str, text: str = "") -> None:
        self.source = source
        self.origins: dict[tuple[str, int, str], FilePlace] = {}
        self.changed: set[tuple[str, int, str]] = set()
        self._lines = text.splitlines()

    def build(self, kind: type[T], section: str, table: Mapping[str, Any], index: int = -1) -> T:
        """A *kind* from *table*, which is ``[section]``, or the *index*-th ``[[section]]``."""
        values = self.values(kind, section, table, index)
        for key, parameter in signature(kind).parameters.items():
            if parameter.default is parameter.empty and key not in values:
                raise self.error(section, key, "is missing", index)
        return self.construct(kind, section, values, index)

    def values(
        self,
        kind: Callable[..., Any],
        section: str,
        table: Mapping[str, Any],
        index: int = -1,
        *,
        without: Container[str] = (),
        beside: Iterable[str] = (),
    ) -> dict[str, Any]:
        """The parameters of *kind* (a dataclass or a function) that *table* states, each of the
        right type.

        Parameters in *without* may not be stated; *beside* are keys that the caller has taken from
        the table, which messages list as allowed.
        """
        hints = get_type_hints(kind)
        names = [each.name for each in signature(kind).parameters.values()]
        allowed = {name: hints[name] for name in names if name not in without}
        values = {}
        for key, value in table.items():
            if key not in allowed:
                raise self.unknown(key, section, [*beside, *allowed], index)
            values[key] = self.convert(section, key, value, allowed[key], index)
        return values

    def vary(
        self,
        base: T,
        section: str,
        table: Mapping[str, Any],
        index: int = -1,
        *,
        beside: Iterable[str] = (),
    ) -> T:
        """The dataclass *base* with what *table* states in its place, at any depth."""
        plain, nested = {}, {}
        for key, value in table.items():
            part = getattr(base, key, None)
            if is_dataclass(part) and isinstance(value, Mapping):
                path = f"{section}.{key}" if section else key
                nested[key] = self.vary(part, path, value)
            else:
                plain[key] = value
        changes = self.values(type(base), section, plain, index, beside=beside) | nested
        change = partial(replace, base)  # type: ignore[type-var]
        names = signature(type(base)).parameters
        return self.construct(change, section, changes, index, names=names)

    def construct(
        self,
        kind: Callable[..., T],
        section: str,
        values: Mapping[str, Any],
        index: int = -1,
        *,
        names: Container[str] | None = None,
    ) -> T:
        """Call *kind*. An error of its checks that names one of its parameters (or of *names*)
        gets the place of that key, any other that of the section."""
        try:
            return kind(**values)
        except ConfigError:
            raise
        except (TypeError, ValueError, ArithmeticError) as error:
            known = signature(kind).parameters if names is None else names
            key, what = "", str(error)
            if isinstance(error, FieldError | FieldTypeError):
                key, what = error.field, error.what
            if key not in known:
                key, what = "", str(error)
            raise self.error(section, key, what, index) from error

    def convert(self, section: str, key: str, value: Any, kind: Any, index: int = -1) -> Any:
        """*value* if it is of *kind*; whole numbers are accepted where reals are meant."""
        found, converted = self._as(section, key, value, kind, index)
        if not found:
            large = type(value) in (int, float) and not abs(value) < 1 << 63
            size = " of at most 64 bits" if large else ""
            raise self.error(section, key, f"must be {_words(kind)}{size}, not {value!r}", index)
        return converted

    def _as(self, section: str, key: str, value: Any, kind: Any, index: int) -> tuple[bool, Any]:
        path = f"{section}.{key}" if section else key
        if isinstance(kind, UnionType):
            tried = (self._as(section, key, value, each, index) for each in get_args(kind))
            return next((each for each in tried if each[0]), (False, None))
        if is_dataclass(kind):
            if isinstance(value, Mapping):
                return True, self.build(kind, path, value, index)  # type: ignore[arg-type]
        elif get_origin(kind) in (tuple, Sequence):
            item = get_args(kind)[0]
            if not isinstance(value, list | tuple):
                return False, None
            if is_dataclass(item):
                if all(isinstance(each, Mapping) for each in value):
                    tables = enumerate(value)
                    return True, tuple(self.build(item, path, t, n) for n, t in tables)  # type: ignore[arg-type]
                return False, None
            parts = [self._as(section, key, each, item, index) for each in value]
            return all(ok for ok, _ in parts), tuple(part for _, part in parts)
        elif get_origin(kind) is Mapping:
            return isinstance(value, Mapping), value
        elif isinstance(kind, type) and issubclass(kind, Enum):
            made = [each for each in kind if value == each.value or value is each]
            return bool(made), made[0] if made else None
        elif kind is float:
            ok = type(value) in (int, float) and abs(value) < 1 << 63
            return ok, float(value) if ok else None
        elif kind is int:
            return type(value) is int and abs(value) < 1 << 63, value
        elif type(value) is kind:
            return True, value
        return False, None

    def unknown(
        self, key: str, section: str, allowed: Iterable[str], index: int = -1
    ) -> ConfigError:
        return self.error(section, key, unknown_key(key, allowed), index)

    def error(self, section: str, key: str, what: str, index: int = -1) -> ConfigError:
        """An error at *key* of *section*, or at the whole section where *key* is empty."""
        return self.place(section, key, index).error(what)

    def place(self, section: str, key: str, index: int = -1) -> FilePlace:
        """Place of a key, or else of its section."""
        if (section, index, key) in self.origins:
            return self.origins[section, index, key]
        part = f"{section}[{index}]" if index >= 0 else section
        name = f"{part}.{key}" if part and key else part or key
        return FilePlace(self.source, self._line(section, key, index), name)

    def _line(self, section: str, key: str, index: int) -> int | None:
        """The line of a key, or else of its section; None when the file has neither."""
        current, seen, found = "", -1, None
        parent, _, leaf = section.rpartition(".")
        for number, line in enumerate(self._lines, start=1):
            if header := re.match(r"\s*(\[\[?)\s*([\w.\-]+)\s*\]", line):
                current = header[2]
                if current == section and header[1] == "[[":
                    seen += 1
                if current == section and (header[1] == "[" or seen == index):
                    found = number
                elif not section and current == key:
                    return number
            elif current == section and seen in (-1, index):
                if key and re.match(rf"\s*{_spelling(key)}\s*[=.]", line):
                    return number
            elif leaf and current == parent and re.match(rf"\s*{_spelling(leaf)}\s*[=.]", line):
                found = number  # an inline table, or an array of them
        return found


def _spelling(key: str) -> str:
    """A key as it may be written: bare or quoted."""
    return rf"[\"']?{re.escape(key)}[\"']?"


def _words(kind: Any) -> str:
    """Name of a value of *kind* in messages."""
    if isinstance(kind, UnionType):
        kinds = [each for each in get_args(kind) if each is not type(None)]
        return " or ".join(dict.fromkeys(_words(each) for each in kinds))
    if get_origin(kind) in (tuple, Sequence):
        item = get_args(kind)[0]
        item = get_args(item)[0] if isinstance(item, UnionType) else item
        plural = {int: "integers", float: "numbers", str: "texts"}
        if get_origin(item) in (tuple, Sequence):
            return f"a list of {_words(item).removeprefix('a ').replace('list', 'lists', 1)}"
        return f"a list of {plural.get(item, 'tables')}"
    if is_dataclass(kind) or get_origin(kind) is Mapping:
        return "a table"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"one of {', '.join(str(each.value) for each in kind)}"
    words = {int: "an integer", float: "a number", bool: "true or false"}
    return words.get(kind, "a text")

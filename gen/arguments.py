# SPDX-License-Identifier: Apache-2.0
"""Check the arguments of public functions by their annotations.

A wrong argument is refused in one line, ``name must be ALLOWED, not VALUE``, before it is used.
Numbers must be finite and within what the programs behind can hold: integers of 64 bits, others
below 1e24.
"""

import functools
import inspect
import math
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar

import numpy as np

from hw.common.params import FieldError, FieldTypeError

__all__ = ["MOST_INTEGER", "MOST_NUMBER", "shown", "size_of_number", "typed"]

MOST_INTEGER = 2**63 - 1
MOST_NUMBER = 1e24
F = TypeVar("F", bound=Callable[..., Any])
_WORDS = {
    int: "an integer", float: "a number", bool: "True or False", str: "a text", Path: "a path",
    NoneType: "None",
}
_ITEMS = {int: "integers", float: "numbers", str: "texts"}


def typed(
    *skip: str,
    least: Mapping[str, float] | None = None,
    above: Mapping[str, float] | None = None,
    most: Mapping[str, float] | None = None,
) -> Callable[[F], F]:
    """Decorator that checks all arguments except those named in *skip*, and their bounds.

    Annotations that cannot be evaluated at run time (names of modules that are not loaded) are
    ignored; one that is a protocol only refuses texts and numbers.

    Raises
    ------
    TypeError
        By the decorated function: an argument is of the wrong type.
    ValueError
        By the decorated function: an argument is out of bounds, not finite or too large.
    """
    bounds = {
        name: ((least or {}).get(name), (above or {}).get(name), (most or {}).get(name))
        for name in {*(least or {}), *(above or {}), *(most or {})}
    }

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        hints: dict[str, Any] = {}

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            if not hints:
                hints.update(_hints(function))
            given = signature.bind(*args, **kwargs).arguments
            for name, value in given.items():
                if name in hints and name not in skip:
                    if not _fits(value, hints[name]):
                        what = f"must be {_said(hints[name])}, not {shown(value)}"
                        raise FieldTypeError(name, what)
                    if (allowed := size_of_number(value)) is not None:
                        raise FieldError(name, f"must be {allowed}, not {shown(value)}")
                if name in bounds and isinstance(value, Real):
                    _within(name, value, *bounds[name])
            return function(*args, **kwargs)

        return typing.cast(F, checked)

    return decorate


def shown(value: object) -> str:
    """A value on one line of at most 80 characters: plain ones as repr, others as their type."""
    plain = value is None or isinstance(value, str | bytes | int | float)
    text = repr(value) if plain else type(value).__name__
    return text if len(text) <= 80 else f"{text[:77]}..."


def size_of_number(value: object) -> str | None:
    """Return what is allowed if *value* is a number too large or not finite, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, Integral):
        ok = -MOST_INTEGER <= int(value) <= MOST_INTEGER
        return None if ok else "an integer of at most 64 bits"
    if isinstance(value, Real):
        ok = math.isfinite(value) and abs(float(value)) < MOST_NUMBER
        return None if ok else f"a finite number below {MOST_NUMBER:g}"
    return None


def _within(
    name: str, value: Any, least: float | None, above: float | None, most: float | None
) -> None:
    ok = (
        (least is None or value >= least)
        and (above is None or value > above)
        and (most is None or value <= most)
    )
    if not ok:
        low = f"above {above:g}" if above is not None else f"at least {least:g}" if (
            least is not None) else ""
        high = "" if most is None else f"at most {most:g}"
        allowed = " and ".join(each for each in (low, high) if each)
        raise FieldError(name, f"must be {allowed}, not {shown(value)}")


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Annotations that can be evaluated in the module of the function."""
    found: dict[str, Any] = {}
    space = getattr(inspect.unwrap(function), "__globals__", {})
    for name, each in inspect.signature(function).parameters.items():
        hint = each.annotation
        if isinstance(hint, str):
            try:
                hint = eval(hint, space)  # as typing.get_type_hints does, one by one
            except NameError:
                continue
        if hint is not each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
            found[name] = hint
    return found


def _fits(value: object, kind: Any) -> bool:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, UnionType) or origin is typing.Union:
        return any(_fits(value, each) for each in parts)
    if kind is Any or kind is object or isinstance(kind, TypeVar):
        return True
    if kind is None:
        return value is None
    if kind in (int, float):
        number = Integral if kind is int else Real
        return isinstance(value, number) and not isinstance(value, bool | np.bool_)
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if origin is not None and isinstance(origin, type):
        if issubclass(origin, Callable):  # type: ignore[arg-type]
            return callable(value)
        if issubclass(origin, Iterable) and not issubclass(origin, Mapping | np.ndarray):
            return _holds(value, origin, parts[0] if parts else Any)
        return isinstance(value, origin)
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return not isinstance(kind, type) or not isinstance(value, str | bytes | Real)
    return isinstance(value, kind)


def _holds(value: object, origin: type, item: Any) -> bool:
    if isinstance(value, str | bytes | Mapping):
        return False
    if issubclass(origin, Sequence | tuple):
        listed = isinstance(value, Sequence | np.ndarray)
        return listed and all(_fits(each, item) for each in typing.cast(Sequence[Any], value))
    return isinstance(value, Iterable)


def _said(kind: Any) -> str:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, UnionType) or origin is typing.Union:
        words = list(dict.fromkeys(_said(each) for each in parts))
        if "a path" in words and "a text" in words:
            words.remove("a text")
        return " or ".join(words)
    if kind in _WORDS:
        return _WORDS[kind]
    if origin is not None and isinstance(origin, type):
        if issubclass(origin, Callable):  # type: ignore[arg-type]
            return "callable"
        if issubclass(origin, Mapping):
            return "a mapping"
        if issubclass(origin, Iterable) and origin is not np.ndarray:
            item = parts[0] if parts else Any
            inner = _ITEMS.get(item) or getattr(item, "__name__", None) or "values"
            return f"a sequence of {inner}"
        return f"a {origin.__name__}"
    return f"a {kind.__name__}" if isinstance(kind, type) else str(kind)

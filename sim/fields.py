# SPDX-License-Identifier: Apache-2.0
"""Checks of the fields of settings, all with one wording: ``name must be ALLOWED, not VALUE``."""

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import fields
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from gen.arguments import MOST_INTEGER, size_of_number
from hw.common.params import FieldError, FieldTypeError

__all__ = [
    "FieldError",
    "FieldTypeError",
    "FoldError",
    "check",
    "check_at_least",
    "check_fields",
    "check_integer",
    "check_number",
    "check_positive",
    "check_size",
    "check_type",
    "nearest",
    "not_one_of",
]


class FoldError(FieldError):
    """A setting with which one node cannot stand for all."""


def check(name: str, value: object, allowed: str, ok: bool) -> None:
    """Raise FieldError unless *ok*."""
    if not ok:
        raise FieldError(name, f"must be {allowed}, not {value!r}")


def nearest(given: object, names: Iterable[str], *, cutoff: float = 0.5) -> str | None:
    """The name that was probably meant, if one is at least as similar as *cutoff*."""
    import difflib

    return next(iter(difflib.get_close_matches(str(given), list(names), n=1, cutoff=cutoff)), None)


def not_one_of(value: object, allowed: Iterable[str]) -> str:
    """Text for a wrong value: the allowed ones, and the one that was probably meant."""
    names = list(allowed)
    begun = [name for name in names if isinstance(value, str) and name.startswith(f"{value}_")]
    near = begun[0] if begun else nearest(value, names, cutoff=0.6)
    hint = f" (did you mean {near!r}?)" if near else ""
    return f"must be one of {', '.join(names)}, not {value!r}{hint}"


def check_number(name: str, value: object, *, optional: bool = False) -> None:
    """A real number: not a text such as "25 GB/s", not True."""
    ok = isinstance(value, Real) and not isinstance(value, bool)
    check(name, value, "a number", ok or (optional and value is None))
    check_size(name, value)


def check_fields(owner: Any) -> None:
    """Every field of a dataclass must be of the type it is declared with; whole numbers are reals,
    truth values are neither. Numbers are finite but where ``metadata`` has ``infinite``."""
    for each in fields(owner):
        value = getattr(owner, each.name)
        check(each.name, value, _words(each.type), _is(value, each.type))
        if value != math.inf or not each.metadata.get("infinite"):
            check_size(each.name, value)


def check_size(name: str, value: object) -> None:
    """Raise FieldError unless numbers are finite and within 64 bits, or a useful range of reals."""
    for each in value if isinstance(value, list | tuple) else (value,):
        if (allowed := size_of_number(each)) is not None:
            raise FieldError(name, f"must be {allowed}, not {value!r}")


def _is(value: object, kind: Any) -> bool:
    if isinstance(kind, UnionType):
        return any(_is(value, each) for each in get_args(kind))
    if get_origin(kind) in (tuple, Sequence):
        item = get_args(kind)[0]
        return isinstance(value, list | tuple) and all(_is(each, item) for each in value)
    if kind in (int, float):
        number = Integral if kind is int else Real
        return isinstance(value, number) and not isinstance(value, bool)
    plain = get_origin(kind) or kind
    # Protocols cannot be checked at run time.
    return not isinstance(plain, type) or hasattr(plain, "_is_protocol") or isinstance(value, plain)


def _words(kind: Any) -> str:
    if isinstance(kind, UnionType):
        return " or ".join(_words(each) for each in get_args(kind))
    if get_origin(kind) in (tuple, Sequence):
        return f"a sequence (each {_words(get_args(kind)[0])})"
    words = {int: "an integer", float: "a number", bool: "True or False", str: "a text"}
    return "None" if kind is NoneType else words.get(kind) or f"a {kind.__name__}"


def check_type(name: str, value: object, allowed: str, ok: bool) -> None:
    """Raise TypeError, naming the type of an object and the value of a number or text."""
    if not ok:
        given = repr(value) if isinstance(value, str | int | float) else type(value).__name__
        raise TypeError(f"{name} must be {allowed}, not {given}")


def check_integer(name: str, value: Any, least: int, end: int | None = None) -> None:
    """Refuse a value that is not an integer from *least* to below *end*."""
    limits = f"at least {least}" if end is None else f"from {least} to {end - 1}"
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is not None and abs(number) > MOST_INTEGER and end is None:
        raise FieldError(name, f"must be an integer of at most 64 bits, not {value!r}")
    if number is None or number < least or (end is not None and number >= end):
        raise FieldError(name, f"must be an integer {limits}, not {value!r}")


def check_positive(owner: Any, *names: str, optional: bool = False) -> None:
    """Fields that must be numbers above 0 (or, where *optional*, None)."""
    for name in names:
        value = getattr(owner, name)
        check_number(name, value, optional=optional)
        check(name, value, "above 0", value is None or value > 0)


def check_at_least(owner: Any, least: float, *names: str, optional: bool = False) -> None:
    """Fields that must be numbers of at least *least* (or, where *optional*, None)."""
    for name in names:
        value = getattr(owner, name)
        check_number(name, value, optional=optional)
        check(name, value, f"at least {least}", value is None or value >= least)

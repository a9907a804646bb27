# SPDX-License-Identifier: Apache-2.0
"""Checks of parameters: a bad one is refused everywhere in the same way and in the same words.

A message reads "*name* must be *what is allowed*, not *value*". A value of the wrong type is a
``TypeError``, one that is not allowed a ``ValueError``. *name* is the component and its parameter
(``"StreamFIFO depth"``), or for a configuration, whose fields are keys that users write, the field.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

__all__ = [
    "FieldError", "FieldTypeError", "preset_of", "require", "require_choice", "require_field",
    "require_int", "require_type",
]

T = TypeVar("T")


class _OfField(Exception):
    def __init__(self, field: str, what: str) -> None:
        super().__init__(field, what)  # as given: it is pickled on its way between processes
        self.field, self.what = field, what

    def __str__(self) -> str:
        return f"{self.field} {self.what}"


class FieldError(_OfField, ValueError):
    """A parameter that may not have its value.

    Attributes
    ----------
    field, what : str
        The parameter, and the rest of the message. Readers of files find its place by *field*.
    """


class FieldTypeError(_OfField, TypeError):
    """A parameter whose value has the wrong type; attributes are those of `FieldError`."""


def require(ok: Any, name: str, allowed: str, value: Any) -> None:
    """Raise a ``ValueError`` unless *ok*: *name* must be *allowed*, not *value*."""
    if not ok:
        raise FieldError(name, f"must be {allowed}, not {value!r}")


def require_type(name: str, value: Any, kind: type[T]) -> T:
    """Return *value* if it is a *kind*, else raise a ``TypeError``."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOUaeiou" else "a"
        raise FieldTypeError(name, f"must be {article} {kind.__name__}, not {value!r}")
    return value


def require_int(
    name: str,
    value: Any,
    *,
    minimum: int = 1,
    maximum: int | None = None,
    power_of_two: bool = False,
    multiple_of: int = 1,
) -> int:
    """Return *value* as an ``int`` if it is allowed, else raise an error that says what is.

    Parameters
    ----------
    name : str
        What the parameter is called in the message, for example ``"StreamFIFO depth"``.
    value : int-like
        What the caller passed.
    minimum, maximum : int
        Smallest and largest allowed value (no upper limit if ``None``).
    power_of_two : bool
        Whether only powers of two are allowed.
    multiple_of : int
        What the value must be a multiple of.

    Raises
    ------
    TypeError
        If *value* is not an integer.
    ValueError
        If it is one that is not allowed.
    """
    wanted = "a power of two" if power_of_two else "an integer"
    if multiple_of != 1:
        wanted = f"a multiple of {multiple_of}"
    limits = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    what = f"must be {wanted} {limits}, not {value!r}"
    number = _as_int(value)
    if number is None:
        raise FieldTypeError(name, what)
    too_large = maximum is not None and number > maximum
    odd = number % multiple_of or (power_of_two and number & (number - 1))
    if number < minimum or too_large or odd:
        raise FieldError(name, what)
    return number


def require_choice(name: str, value: Any, choices: Iterable[T]) -> T:
    """Return the one of *choices* that *value* is, else raise an error that lists them.

    It is a ``TypeError`` if no choice is of the type of *value*.
    """
    allowed = list(choices)
    listed = ", ".join(repr(choice) for choice in allowed)
    what = f"must be one of {listed}, not {value!r}"
    number = _as_int(value)
    given = value if number is None else number
    kinds = {type(choice) for choice in allowed}
    # Truth values would pass as the integers 0 and 1.
    if not isinstance(given, tuple(kinds)) or (isinstance(given, bool) and bool not in kinds):
        raise FieldTypeError(name, what)
    if given not in allowed:
        raise FieldError(name, what)
    return allowed[allowed.index(given)]


def require_field(
    config: Any, name: str, minimum: int, maximum: int, *, power_of_two: bool = False
) -> int:
    """`require_int` of the field *name* of a configuration, which is its own name."""
    value = getattr(config, name)
    return require_int(name, value, minimum=minimum, maximum=maximum, power_of_two=power_of_two)


def preset_of(presets: Mapping[str, T]) -> Callable[[str], T]:
    """The function that finds one of *presets*, configurations by name."""

    def preset(name: str) -> T:
        """The configuration called *name*; a ``ValueError`` lists the names if there is none."""
        return presets[require_choice("preset", name, presets)]

    return preset


def _as_int(value: Any) -> int | None:
    """*value* if it is an integer of any type; truth values are none."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None

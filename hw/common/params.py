"""Checks of constructor parameters, so that every block refuses a bad one in the same words."""

import operator
from collections.abc import Iterable
from typing import Any

__all__ = ["require_choice", "require_int"]


def require_int(
    name: str,
    value: Any,
    *,
    minimum: int = 1,
    maximum: int | None = None,
    power_of_two: bool = False,
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

    Raises
    ------
    TypeError
        If *value* is not an integer.
    ValueError
        If it is one that is not allowed.
    """
    wanted = "a power of two" if power_of_two else "an integer"
    limits = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    message = f"{name} must be {wanted} {limits}, not {value!r}"
    if isinstance(value, bool):
        raise TypeError(message)
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(message) from None
    too_large = maximum is not None and number > maximum
    if number < minimum or too_large or (power_of_two and number & (number - 1)):
        raise ValueError(message)
    return number


def require_choice(name: str, value: Any, choices: Iterable[Any]) -> Any:
    """Return *value* if it is one of *choices*, else raise a ``ValueError`` that lists them."""
    allowed = list(choices)
    if value not in allowed:
        listed = ", ".join(repr(choice) for choice in allowed)
        raise ValueError(f"{name} must be one of {listed}, not {value!r}")
    return value

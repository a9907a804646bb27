"""Checks of the fields of settings, all with one wording: ``name must be ALLOWED, not VALUE``."""

from typing import Any

__all__ = ["FieldError", "check", "check_at_least", "check_number", "check_positive", "check_type"]


class FieldError(ValueError):
    """A field that may not have its value. Readers of files find its place by ``field``."""

    def __init__(self, field: str, what: str) -> None:
        super().__init__(f"{field} {what}")
        self.field = field
        self.what = what


def check(name: str, value: object, allowed: str, ok: bool) -> None:
    """Raise FieldError unless *ok*."""
    if not ok:
        raise FieldError(name, f"must be {allowed}, not {value!r}")


def check_number(name: str, value: object, *, optional: bool = False) -> None:
    """A real number: not a text such as "25 GB/s", not True."""
    ok = isinstance(value, int | float) and not isinstance(value, bool)
    check(name, value, "a number", ok or (optional and value is None))


def check_type(name: str, value: object, allowed: str, ok: bool) -> None:
    """Raise TypeError, naming the type of an object and the value of a number or text."""
    if not ok:
        given = repr(value) if isinstance(value, str | int | float) else type(value).__name__
        raise TypeError(f"{name} must be {allowed}, not {given}")


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

# SPDX-License-Identifier: Apache-2.0
"""Marks functions that are to be compiled, and finds what their machine code depends on.

Nothing here imports the compiler. A marked function stays a plain Python function, good for single
calls and for a debugger; records are then an ``np.recarray``, and no field may have the name of an
attribute of numpy's, which would be found in its place. Compiled, it may not raise, allocate or use
Python objects: all its inputs are arguments, and it returns a number to report an error.
"""

import hashlib
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

__all__ = [
    "ENTRY",
    "compiled",
    "fingerprint",
    "globals_of",
    "indexed_from_begin",
    "inlined",
    "is_indexed_from_begin",
    "options_of",
    "prefetch",
]

ENTRY = "foldwire_entry"
"""Symbol of kept code: (address of the table of arguments) -> result, both 64 bits."""

Marked = Callable[..., Any]
_State = TypeVar("_State", bound=type)
_OPTIONS = "_native_options"
_FROM_BEGIN = "_native_from_begin"


if TYPE_CHECKING:
    # The compiler infers the types of marked functions; annotations would be a second truth.
    from typing import no_type_check as compiled
    from typing import no_type_check as inlined
else:

    def compiled(function: Marked) -> Marked:
        """Mark a function that compiled code calls; the compiler inlines it if it is small."""
        setattr(function, _OPTIONS, {})
        return function

    def inlined(function: Marked) -> Marked:
        """Mark a function that is inlined into its callers: one called once, or short and often.
        """
        setattr(function, _OPTIONS, {"forceinline": True})
        return function


def indexed_from_begin(state: _State) -> _State:
    """Mark a state whose arrays are never read or written with a negative index.

    Compiled code then does not test for indices that count from the end, which takes a sixth of
    the time of an event. A negative one would be an address before the array.
    """
    setattr(state, _FROM_BEGIN, True)
    return state


def is_indexed_from_begin(state: object) -> bool:
    """True if the type of a state is marked with :func:`indexed_from_begin`."""
    return getattr(type(state), _FROM_BEGIN, False)


def prefetch(array: Any, index: Any) -> None:
    """Prefetch the record ``array[index]`` of a one-dimensional array.

    Plain Python does nothing; compiled, it is an instruction that nothing waits for.
    """


def options_of(value: object) -> dict[str, Any] | None:
    """Options for the compiler; None if *value* is no marked function."""
    if isinstance(value, FunctionType):
        options: dict[str, Any] | None = getattr(value, _OPTIONS, None)
        return options
    return None


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def globals_of(function: FunctionType) -> dict[str, Any]:
    """Globals that a function may refer to, those of modules of ours under dotted names."""
    space = function.__globals__
    names = list(dict.fromkeys(_names(function.__code__)))
    found = {}
    for name in names:
        if name not in space:
            continue
        value = found[name] = space[name]
        if isinstance(value, ModuleType) and value is not np:
            known = vars(value)
            found.update({f"{name}.{inner}": known[inner] for inner in names if inner in known})
    return found


def fingerprint(function: Marked) -> bytes:
    """Hash of a marked function, all that it calls, and the constants that are compiled in."""
    digest = hashlib.sha256()
    seen: set[FunctionType] = set()

    def add(current: FunctionType) -> None:
        seen.add(current)
        digest.update(repr((current.__qualname__, options_of(current))).encode())
        digest.update(repr(current.__defaults__).encode())
        _add_code(digest, current.__code__)
        for name, value in globals_of(current).items():
            if options_of(value) is not None:
                digest.update(f"{name} calls {value.__module__}.{value.__qualname__}".encode())
                if value not in seen:
                    add(value)
            elif isinstance(value, ModuleType):
                digest.update(f"{name} is {value.__name__}".encode())
            elif callable(value):
                where = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
                digest.update(f"{name} is {where}".encode())
            else:
                digest.update(f"{name} = {value!r}".encode())

    assert isinstance(function, FunctionType)
    add(function)
    return digest.digest()


def _add_code(digest: Any, code: CodeType) -> None:
    digest.update(code.co_code)
    digest.update(repr((code.co_names, code.co_varnames)).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add_code(digest, constant)
        else:
            digest.update(repr(constant).encode())

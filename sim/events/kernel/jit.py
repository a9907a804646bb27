"""Marks the functions that are to be compiled, without importing the compiler.

Numba takes longer to import than most runs take. Kernel modules say ``@njit(...)`` as usual, with
the decorator from here; :mod:`sim.events.kernel.native` hands the marked functions to Numba when
there is no compiled kernel yet. Unmarked by a compiler they are plain Python, good for a debugger.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

__all__ = ["compile_marked", "njit"]

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = "_jit_options"


def njit(**options: Any) -> Callable[[F], F]:
    """Like ``numba.njit``, later.

    Leave out ``cache``: Numba's own cache does not notice changes in other modules, and
    :mod:`sim.events.kernel.native` keeps what is compiled.
    """

    def mark(function: F) -> F:
        setattr(function, _OPTIONS, options)
        return function

    return mark


def compile_marked(modules: list[ModuleType]) -> dict[str, Any]:
    """The marked functions of *modules* as Numba dispatchers, by name.

    Within the modules the names are bound to the dispatchers too, so that they find each other.
    """
    import numba

    made: dict[int, Any] = {}
    names: dict[str, Any] = {}
    for module in modules:
        for value in list(vars(module).values()):
            options = getattr(value, _OPTIONS, None)
            if options is not None and id(value) not in made:
                compiled = hasattr(value, "py_func")  # by an earlier call
                made[id(value)] = value if compiled else numba.njit(**options)(value)
    for module in modules:
        for name, value in list(vars(module).items()):
            if id(value) in made:
                names[name] = made[id(value)]
                setattr(module, name, made[id(value)])
    return names

"""From a marked function and its states to a native call."""

import ctypes
import hashlib
import os
import platform
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from gen.cache import announce, kept
from sim.native.mark import fingerprint, is_indexed_from_begin

__all__ = ["ENTRY", "bind"]

ENTRY = "foldwire_entry"
"""Symbol of kept code: (address of the table of arguments) -> result, both 64 bits."""

_loaded: dict[str, Callable[[int], int]] = {}
_engines: list[Any] = []  # own the code


def bind(function: Callable[..., Any], *states: Any, doing: str) -> Callable[..., int]:
    """A native call of ``function(*states, *numbers)``; returns its result.

    Parameters
    ----------
    function : marked function
        Returns an integer.
    states : tuples of arrays, with names, or None
        Arrays are contiguous and of plain or record type. They are bound, not copied: the call
        works on them for as long as it is kept. Types and numbers of dimensions are compiled in;
        lengths are not.
    doing : str
        What the user is told when it has to be compiled: "compiling the simulator (about 20 s)".

    Returns
    -------
    callable
        Takes what *function* takes after its states, as 64-bit integers.
    """
    arrays = [array for state in states if state is not None for array in state]
    names = [name for state in states if state is not None for name in state._fields]
    for name, array in zip(names, arrays):
        if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
            raise TypeError(f"{name} of the state must be a contiguous array")
    assert isinstance(function, FunctionType)
    numbers = function.__code__.co_argcount - len(states)
    key = _key(function, states)
    if key not in _loaded:
        _loaded[key] = _load(_object_code(function, states, key, doing))
    call = _loaded[key]
    # Address and shape of every array, then the numbers.
    words = [word for array in arrays for word in (array.ctypes.data, *array.shape)]
    table = np.array(words + [0] * numbers, np.int64)
    address, first = table.ctypes.data, len(words)

    def run(*values: int) -> int:
        table[first:] = values
        return call(address)

    run.__dict__["states"] = states  # live as long as the call
    return run


def _key(function: Callable[..., Any], states: tuple[Any, ...]) -> str:
    import llvmlite
    from llvmlite import binding

    layout = [
        state and [(name, a.dtype.descr, a.ndim) for name, a in zip(state._fields, state)]
        for state in states
    ]
    parts = [
        fingerprint(function).hex(),
        Path(__file__).with_name("compile.py").read_text(encoding="utf-8"),
        _numba_version(),
        llvmlite.__version__,
        np.__version__,
        platform.machine(),
        platform.python_version(),
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
        str(sorted(pair for pair in os.environ.items() if pair[0].startswith("NUMBA_"))),
        str(layout),
        str([is_indexed_from_begin(state) for state in states]),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _numba_version() -> str:
    """What Numba says of its version, read: to load it takes longer than what it compiled runs."""
    found = PathFinder.find_spec("numba")
    if found is not None and found.origin is not None:
        stated = Path(found.origin).with_name("_version.py")
        if stated.is_file():
            return stated.read_text(encoding="utf-8")
    from importlib.metadata import version

    return version("numba")


def _object_code(
    function: Callable[..., Any], states: tuple[Any, ...], key: str, doing: str
) -> bytes:
    """From the cache; compiled, and kept if there is a place for it."""
    made: list[bytes] = []

    def make(path: Path) -> None:
        from sim.native.compile import object_code

        made.append(object_code(function, states))
        path.write_bytes(made[0])

    try:
        path = kept(f"native/{key}.o", make, doing=doing)
        return made[0] if made else path.read_bytes()
    except OSError as error:
        announce(f"compiled code cannot be kept: {error}")
        if not made:
            from sim.native.compile import object_code

            made.append(object_code(function, states))
        return made[0]


def _load(code: bytes) -> Callable[[int], int]:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(codemodel="jitdefault")
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    return call(engine.get_function_address(ENTRY))

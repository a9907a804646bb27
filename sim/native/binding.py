# SPDX-License-Identifier: Apache-2.0
"""Binds a marked function and its states to a native call."""

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
from collections.abc import Callable
from importlib.machinery import PathFinder
from itertools import takewhile
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from gen.cache import announce, kept
from sim.native.mark import ENTRY, fingerprint, is_indexed_from_begin

__all__ = ["bind"]

_loaded: dict[str, Callable[[int], int]] = {}
_engines: list[Any] = []  # own the code of objects


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
        Text for the user when it has to be compiled: "compiling the simulator (about 20 s)".

    Returns
    -------
    callable
        Takes the arguments of *function* that follow its states, as 64-bit integers.
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
        _loaded[key] = _load(_code(function, states, key, doing))
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
    layout = [
        state and [(name, a.dtype.descr, a.ndim) for name, a in zip(state._fields, state)]
        for state in states
    ]
    parts = [
        fingerprint(function).hex(),
        *_environment(),
        str(sorted(pair for pair in os.environ.items() if pair[0].startswith("NUMBA_"))),
        str(layout),
        str([is_indexed_from_begin(state) for state in states]),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


@functools.cache
def _environment() -> list[str]:
    """The compiler with its versions, and the processor that it compiles for."""
    return [
        Path(__file__).with_name("compile.py").read_text(encoding="utf-8"),
        _version("numba"),
        _version("llvmlite"),
        np.__version__,
        platform.machine(),
        platform.python_version(),
        _processor(),
    ]


def _version(package: str) -> str:
    """Version of a package, read from its files: loading it takes longer than compiled code runs.
    """
    found = PathFinder.find_spec(package)
    if found is not None and found.origin is not None:
        stated = Path(found.origin).with_name("_version.py")
        if stated.is_file():
            return stated.read_text(encoding="utf-8")
    from importlib.metadata import version

    return version(package)


def _processor() -> str:
    """Name and instruction sets of the processor, for which code is compiled."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            # Of the first of perhaps hundreds of processors: all of them take milliseconds.
            first = [line.rstrip("\n") for line in takewhile(str.strip, file)]
    except OSError:
        from llvmlite import binding

        return f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"
    fixed = ("vendor", "cpu family", "model", "flags", "Features", "CPU part", "isa")
    return "\n".join(line for line in first if line.startswith(fixed))


def _code(
    function: Callable[..., Any], states: tuple[Any, ...], key: str, doing: str
) -> Path | bytes:
    """A file of the cache, compiled now if it is not there; the object code itself if it cannot be
    kept."""
    made: list[bytes] = []

    def make(path: Path) -> None:
        from sim.native.compile import object_code

        made.append(object_code(function, states))
        _link(made[0], path)

    try:
        return kept(f"native/{key}", make, doing=doing)
    except OSError as error:
        announce(f"compiled code cannot be kept: {error}")
        if not made:
            from sim.native.compile import object_code

            made.append(object_code(function, states))
        return made[0]


def _link(code: bytes, path: Path) -> None:
    """Make a library, which the system loads at once; without a C++ compiler it stays an object."""
    import subprocess

    from gen.compiler import CompileError, find_compiler

    path.write_bytes(code)
    library = path.with_name("library")
    try:
        command = [find_compiler()[0], "-shared", "-o", str(library), str(path)]
        subprocess.run(command, check=True, capture_output=True)
    except (CompileError, OSError, subprocess.CalledProcessError):
        return
    library.replace(path)


def _load(code: Path | bytes) -> Callable[[int], int]:
    """Load the entry of a library, or of object code, which needs llvmlite."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    if isinstance(code, Path):
        with contextlib.suppress(OSError):
            return kind((ENTRY, ctypes.CDLL(str(code))))
        code = code.read_bytes()
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(codemodel="jitdefault")
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return kind(engine.get_function_address(ENTRY))

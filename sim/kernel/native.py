"""The kernel as native code, kept between processes.

Numba compiles ``begin`` and ``run`` once; the object code goes into the cache folder under a hash
of everything it depends on. Later processes load it with llvmlite alone, which takes a tenth of the
time that importing Numba does.
"""

import ctypes
import hashlib
import json
import os
import platform
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gen.cache import default_cache_dir

__all__ = ["Kernel", "kernel"]

MODULES = ("queue", "loop")
BEGIN, RUN = 0, 1
_loaded: dict[str, "Kernel"] = {}


class Kernel:
    """``begin(state)`` and ``run(state)``, each returning a status."""

    def __init__(self, address: int, keep: object) -> None:
        self._call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(address)
        self._keep = keep  # owns the code

    def begin(self, state: Any) -> int:
        return int(self._call(_table(state).ctypes.data, BEGIN))

    def run(self, state: Any) -> int:
        return int(self._call(_table(state).ctypes.data, RUN))


def _table(state: Any) -> NDArray[np.int64]:
    """Address and length of every array."""
    return np.array([(array.ctypes.data, array.size) for array in state], np.int64)


def kernel(state: Any) -> Kernel:
    """The kernel for states like *state*: compiled now, or before."""
    for name, array in zip(state._fields, state):
        if array.ndim != 1 or not array.flags.c_contiguous:
            raise TypeError(f"{name} of the state must be a contiguous one-dimensional array")
    key = _key(state)
    if key not in _loaded:
        path = default_cache_dir() / "kernel" / f"{key}.o"
        _loaded[key] = _load(path) or _compile(state, path)
    return _loaded[key]


def _key(state: Any) -> str:
    from llvmlite import binding

    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    parts = [
        version("numba"),
        version("llvmlite"),
        platform.machine(),
        platform.python_version(),
        binding.get_host_cpu_name(),
        str([(name, array.dtype.descr) for name, array in zip(state._fields, state)]),
    ]
    digest.update("\n".join(parts).encode())
    return digest.hexdigest()[:32]


# ---- Loading.


def _load(path: Path) -> Kernel | None:
    """The kernel in an object file; None if there is none that can be used."""
    from llvmlite import binding

    try:
        meta = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        data = path.read_bytes()
    except (OSError, ValueError):
        return None
    if hashlib.sha256(data).hexdigest() != meta["sha256"]:
        return None
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    process = ctypes.CDLL(None)
    for name in meta["needs"]:
        # What Numba's wrapper calls to raise exceptions, which the kernel never does.
        if binding.address_of_symbol(name) is None:
            binding.add_symbol(name, ctypes.cast(process.abort, ctypes.c_void_p).value)
    machine = binding.Target.from_default_triple().create_target_machine(codemodel="jitdefault")
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(data))
    engine.finalize_object()
    address = engine.get_function_address(meta["symbol"])
    return Kernel(address, engine) if address else None


# ---- Compiling.

# The entry that is compiled: from a table of addresses and lengths to a State.
_ENTRY = """
def entry(table, what):
    at = carray(table, ({count},), int64)
    state = State({fields})
    return begin(state) if what == {begin} else run(state)
"""


def _compile(state: Any, path: Path) -> Kernel:
    """Compile with Numba and keep the object code."""
    from sim.kernel.jit import compile_marked

    numba: Any = import_module("numba")
    types = numba.types

    @numba.extending.intrinsic
    def pointer(context, address):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            from llvmlite import ir

            return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

        return types.voidptr(types.int64), generate

    modules = [import_module(f"sim.kernel.{name}") for name in MODULES]
    functions = compile_marked(modules)
    arrays = [
        f"carray(pointer(at[{2 * i}]), (at[{2 * i + 1}],), dtype{i})" for i in range(len(state))
    ]
    source = _ENTRY.format(count=2 * len(state), fields=", ".join(arrays), begin=BEGIN)
    space: dict[str, Any] = {
        "State": type(state),
        "begin": functions["begin"],
        "run": functions["run"],
        "carray": numba.carray,
        "pointer": pointer,
        "int64": np.int64,
        **{f"dtype{i}": _dtype(array) for i, array in enumerate(state)},
    }
    exec(compile(source, "<kernel entry>", "exec"), space)
    signature = types.int64(types.CPointer(types.int64), types.int64)
    entry = numba.cfunc(signature, nopython=True)(space["entry"])
    _keep(entry, path)
    return Kernel(entry.address, entry)


def _dtype(array: Any) -> Any:
    return array.dtype if array.dtype.fields else array.dtype.type


def _keep(entry: Any, path: Path) -> None:
    """Write object code and description, each whole or not at all."""
    library = entry._library
    data = library.serialize_using_object_code()[2][0]
    needs = [
        function.name
        for function in library._final_module.functions
        if function.is_declaration and not function.name.startswith("llvm.")
    ]
    meta = {
        "symbol": entry.native_name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "needs": needs,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    for target, content in (
        (path, data),
        (path.with_suffix(".json"), json.dumps(meta).encode()),
    ):
        draft = target.with_name(f"{target.name}.{os.getpid()}")
        draft.write_bytes(content)
        draft.replace(target)

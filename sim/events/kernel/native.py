"""The kernel as native code, kept between processes.

Numba compiles ``begin`` and ``run`` once (and once more for packet granularity); the object code
goes into the cache folder under a hash of everything it depends on. Later processes load it with
llvmlite alone, which takes a tenth of the time that importing Numba does.
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

MODULES = ("queue", "packets", "loop")
BEGIN, RUN = 0, 1
_loaded: dict[str, "Kernel"] = {}


class Kernel:
    """``begin(*states)`` and ``run(*states)``, each returning a status."""

    def __init__(self, address: int, keep: object) -> None:
        self._call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(address)
        self._keep = keep  # owns the code

    def begin(self, *states: Any) -> int:
        return self._enter(states, BEGIN)

    def run(self, *states: Any) -> int:
        return self._enter(states, RUN)

    def _enter(self, states: tuple[Any, ...], what: int) -> int:
        table = _table(states)  # lives as long as the call
        return int(self._call(table.ctypes.data, what))


def _arrays(states: tuple[Any, ...]) -> list[tuple[str, Any]]:
    return [pair for state in states for pair in zip(state._fields, state)]


def _table(states: tuple[Any, ...]) -> NDArray[np.int64]:
    """Address and length of every array."""
    return np.array([(array.ctypes.data, array.size) for _, array in _arrays(states)], np.int64)


def kernel(*states: Any) -> Kernel:
    """The kernel for states like these, compiled now or before: one for messages, or one with the
    packet network beside it."""
    for name, array in _arrays(states):
        if array.ndim != 1 or not array.flags.c_contiguous:
            raise TypeError(f"{name} of the state must be a contiguous one-dimensional array")
    key = _key(states)
    if key not in _loaded:
        path = default_cache_dir() / "kernel" / f"{key}.o"
        _loaded[key] = _load(path) or _compile(states, path)
    return _loaded[key]


def _key(states: tuple[Any, ...]) -> str:
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
        str([(name, array.dtype.descr) for name, array in _arrays(states)]),
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
    # What Numba's wrapper calls to raise exceptions, which the kernel never does. They are of this
    # code alone: Numba itself looks its own up in the process, and may be imported later.
    stubs = "".join(
        f'define void @"{name}"() {{ call void @abort() unreachable }}\n' for name in meta["needs"]
    )
    assembly = f"declare void @abort()\n{stubs}"
    machine = binding.Target.from_default_triple().create_target_machine(codemodel="jitdefault")
    engine = binding.create_mcjit_compiler(binding.parse_assembly(assembly), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(data))
    engine.finalize_object()
    address = engine.get_function_address(meta["symbol"])
    return Kernel(address, engine) if address else None


# ---- Compiling.

# The entry that is compiled: from a table of addresses and lengths to the states.
_ENTRY = """
def entry(table, what):
    at = carray(table, ({count},), int64)
    state = {first}
    return begin(state) if what == {begin} else run(state, {second})
"""


def _compile(states: tuple[Any, ...], path: Path) -> Kernel:
    """Compile with Numba and keep the object code."""
    from sim.events.kernel.jit import compile_marked

    numba: Any = import_module("numba")
    types = numba.types

    @numba.extending.intrinsic
    def pointer(context, address):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            from llvmlite import ir

            return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

        return types.voidptr(types.int64), generate

    modules = [import_module(f"sim.events.kernel.{name}") for name in MODULES]
    functions = compile_marked(modules)
    arrays = [array for _, array in _arrays(states)]
    texts = iter(
        [f"carray(pointer(at[{2 * i}]), (at[{2 * i + 1}],), dtype{i})" for i in range(len(arrays))]
    )
    made = [f"State{n}({', '.join(next(texts) for _ in s)})" for n, s in enumerate(states)]
    source = _ENTRY.format(
        count=2 * len(arrays), first=made[0], second=made[1] if made[1:] else None, begin=BEGIN
    )
    space: dict[str, Any] = {
        **{f"State{n}": type(state) for n, state in enumerate(states)},
        "begin": functions["begin"],
        "run": functions["run"],
        "carray": numba.carray,
        "pointer": pointer,
        "int64": np.int64,
        **{f"dtype{i}": _dtype(array) for i, array in enumerate(arrays)},
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

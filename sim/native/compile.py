"""Has Numba compile a marked function; the only module of the simulator that imports it."""

import dis
from collections.abc import Callable
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from llvmlite import binding, ir

from sim.native.binding import ENTRY
from sim.native.mark import globals_of, options_of

__all__ = ["object_code"]

numba: Any = import_module("numba")  # its types know no decorators with these options

_STUBS = ("Py", "_Py", "numba_", "NRT_")
"""Beginnings of the names of functions that Numba's error paths call."""

# The entry that is compiled: from a table of addresses, lengths and numbers to the call.
_SOURCE = """
def entry(table):
    at = carray(pointer(table), ({words},), int64)
    return function({arguments})
"""


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def _pointer(context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return numba.types.voidptr(numba.types.int64), generate


def object_code(function: Callable[..., Any], states: tuple[Any, ...]) -> bytes:
    """Machine code that calls *function* with states like these, under the symbol ``ENTRY``."""
    assert isinstance(function, FunctionType)
    space: dict[str, Any] = {
        "carray": numba.carray,
        "pointer": _pointer,
        "int64": np.int64,
        "function": _dispatchers(function),
    }
    arguments = []
    words = 0
    for number, state in enumerate(states):
        if state is None:
            arguments.append("None")
            continue
        arrays = []
        for array in state:
            name = f"type{words}"
            space[name] = array.dtype if array.dtype.fields else array.dtype.type
            shape = "".join(f"at[{words + 1 + axis}], " for axis in range(array.ndim))
            arrays.append(f"carray(pointer(at[{words}]), ({shape}), {name})")
            words += 1 + array.ndim
        space[f"State{number}"] = type(state)
        arguments.append(f"State{number}({', '.join(arrays)})")
    numbers = function.__code__.co_argcount - len(states)
    arguments += [f"at[{words + n}]" for n in range(numbers)]
    source = _SOURCE.format(words=words + numbers, arguments=", ".join(arguments))
    exec(compile(source, "<entry of native code>", "exec"), space)
    signature = numba.types.int64(numba.types.int64)
    entry = numba.cfunc(signature, nopython=True)(space["entry"])
    return _emit(entry.inspect_llvm(), entry.native_name)


def _dispatchers(function: FunctionType) -> Any:
    """Numba's version of a marked function and of all that it calls.

    They are made of copies with globals of their own, in which names of marked functions stand for
    their compiled versions. The modules themselves stay as they are.
    """
    made: dict[FunctionType, Any] = {}

    def make(original: FunctionType) -> Any:
        if original in made:
            return made[original]
        if any(step.opname == "RAISE_VARARGS" for step in dis.get_instructions(original)):
            raise TypeError(f"{original.__name__} may not raise: it is compiled")
        space = dict(original.__globals__)
        copy = FunctionType(original.__code__, space, original.__name__, original.__defaults__)
        options = options_of(original) or {}
        # Nothing is ever called from Python, so no wrapper for that is made.
        made[original] = numba.njit(error_model="numpy", no_cpython_wrapper=True, **options)(copy)
        for name, value in globals_of(original).items():
            if options_of(value) is None:
                continue
            module, _, inner = name.rpartition(".")
            if module:
                if space[module] is original.__globals__[module]:
                    space[module] = ModuleType(module)
                    vars(space[module]).update(vars(original.__globals__[module]))
                setattr(space[module], inner, make(value))
            else:
                space[name] = make(value)
        return made[original]

    return make(function)


def _emit(text: str, entry: str) -> bytes:
    """Machine code for Numba's optimised LLVM code, closed in itself.

    What Numba's wrapper calls to raise exceptions, which marked functions never do, becomes a call
    of ``abort``: the code is loaded into processes that have no Numba, or their own.
    """
    module = binding.parse_assembly(text)
    needed = [
        function.name
        for function in module.functions
        if function.is_declaration and not function.name.startswith("llvm.")
    ]
    foreign = [name for name in needed if not name.startswith(_STUBS) or "lloc" in name]
    if foreign:
        raise RuntimeError(f"compiled code may not call {', '.join(foreign)}")
    stubs = "".join(
        f'define void @"{name}"() {{ call void @abort() unreachable }}\n' for name in needed
    )
    stubs = (
        f"declare void @abort()\n{stubs}"
        f'declare i64 @"{entry}"(i64)\n'
        f"define i64 @{ENTRY}(i64 %table) {{\n"
        f'  %result = call i64 @"{entry}"(i64 %table)\n  ret i64 %result\n}}\n'
    )
    module.link_in(binding.parse_assembly(stubs))
    for name in needed:
        module.get_function(name).linkage = "internal"
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
        codemodel="jitdefault",
        jit=True,
    )
    code: bytes = machine.emit_object(module)
    return code

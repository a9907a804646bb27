# SPDX-License-Identifier: Apache-2.0
"""Has Numba compile a marked function; the only module of the simulator that imports it.

A state reaches compiled functions as one pointer: to the words from which :mod:`sim.native.binding`
makes the table of a call, with address and shape of each array. Its fields look like those of the
tuple of arrays. Passed as a tuple, sixty arrays would be 420 arguments of each function.
"""

import dis
import operator
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from llvmlite import binding, ir
from numba import cfunc, extending, from_dtype, njit, types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate

from sim.native.mark import ENTRY, globals_of, is_indexed_from_begin, options_of, prefetch

__all__ = ["object_code"]

_WORD = ir.IntType(64)
_STUBS = ("Py", "_Py", "numba_", "NRT_")
"""Beginnings of the names of functions that Numba's error paths call."""


class _Plain(types.Array):
    """An array of a state that is indexed from its begin: a single index is used unchanged."""

    def __init__(self, dtype: Any, ndim: int, layout: str) -> None:
        super().__init__(dtype, ndim, layout, name=f"plain({dtype}, {ndim}d, {layout})")


@extending.register_model(_Plain)
class _PlainModel(extending.models.ArrayModel):
    pass


def _from_begin(operation: Any) -> Any:
    """Lowers an access by an integer as Numba does that by an unsigned one."""

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, index, *value = signature.args
        whole = context.cast(builder, arguments[1], index, types.intp)
        base = types.Array(array.dtype, array.ndim, array.layout)
        plain = signature.return_type(base, types.uintp, *value)
        access = context.get_function(operation, plain)
        return access(builder, (arguments[0], whole, *arguments[2:]))

    return lower


extending.lower_builtin(operator.getitem, _Plain, types.Integer)(_from_begin(operator.getitem))
extending.lower_builtin(operator.setitem, _Plain, types.Integer, types.Any)(
    _from_begin(operator.setitem)
)


@extending.intrinsic
def _prefetch(context: Any, array: Any, index: Any) -> Any:
    """Replaces :func:`sim.native.mark.prefetch`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        where = context.cast(builder, arguments[1], index, types.intp)
        address = builder.bitcast(builder.gep(data, [where]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], kind)
        builder.call(fetch, [address, number(1), number(3), number(1)])  # to write, to keep, data
        return context.get_dummy_value()

    return types.void(array, index), generate


class _State(types.Type):
    """A named tuple of arrays, behind a pointer to addresses and shapes."""

    def __init__(self, state: Any) -> None:
        self.fields: dict[str, tuple[Any, int]] = {}  # name -> type, index of its first word
        kind = _Plain if is_indexed_from_begin(state) else types.Array
        words = 0
        for name, array in zip(state._fields, state):
            self.fields[name] = kind(from_dtype(array.dtype), array.ndim, "C"), words
            words += 1 + array.ndim
        self.words = words
        key = hash(tuple(self.fields.items())) & 0xFFFFFFFF
        super().__init__(name=f"{type(state).__name__}{key:08x}")


@extending.register_model(_State)
class _StateModel(extending.models.PrimitiveModel):
    def __init__(self, manager: Any, of: Any) -> None:
        super().__init__(manager, of, _WORD)


def _word(builder: Any, address: Any, index: int) -> Any:
    """A word of the table, which nobody changes during a call."""
    pointer = builder.inttoptr(builder.add(address, _WORD(8 * index)), _WORD.as_pointer())
    word = builder.load(pointer)
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


@extending.infer_getattr
class _StateFields(AttributeTemplate):
    key = _State

    def generic_resolve(self, state: _State, name: str) -> Any:
        return state.fields[name][0] if name in state.fields else None


@extending.lower_getattr_generic(_State)
def _field(context: Any, builder: Any, state: _State, address: Any, name: str) -> Any:
    kind, first = state.fields[name]
    data, *shape = (_word(builder, address, first + n) for n in range(1 + kind.ndim))
    size = _WORD(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    lengths = [size]  # in bytes: of an element, a row, ..., all
    for length in reversed(shape):
        lengths.insert(0, builder.mul(lengths[0], length))
    array = cgutils.create_struct_proxy(kind)(context, builder)
    array.data = builder.inttoptr(data, array.data.type)
    array.shape = cgutils.pack_array(builder, shape)
    array.strides = cgutils.pack_array(builder, lengths[1:])
    array.itemsize = size
    array.nitems = builder.udiv(lengths[0], size)
    return array._getvalue()


def _argument(kind: Any) -> Any:
    """A function from an address to an argument of type *kind*."""

    @extending.intrinsic
    def convert(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _word(builder, arguments[0], 0) if kind is types.int64 else arguments[0]

        return kind(types.int64), generate

    return convert


def object_code(function: Callable[..., Any], states: tuple[Any, ...]) -> bytes:
    """Machine code that calls *function* with states like these, under the symbol ``ENTRY``."""
    assert isinstance(function, FunctionType)
    space: dict[str, Any] = {"function": _dispatchers(function)}
    arguments = []
    words = 0
    numbers = function.__code__.co_argcount - len(states)
    kinds = [state if state is None else _State(state) for state in states]
    for number, kind in enumerate(kinds + [types.int64] * numbers):
        if kind is None:
            arguments.append("None")
            continue
        space[f"argument{number}"] = _argument(kind)
        arguments.append(f"argument{number}(table + {8 * words})")
        words += 1 if kind is types.int64 else kind.words
    exec(f"def entry(table):\n    return function({', '.join(arguments)})\n", space)
    entry = cfunc(types.int64(types.int64), nopython=True)(space["entry"])
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
        made[original] = njit(
            error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, **options
        )(copy)
        for name, value in globals_of(original).items():
            if value is prefetch:
                space[name] = _prefetch
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

    Numba's wrapper calls functions that raise exceptions, as marked functions never do; they become
    calls of ``abort``: the code is loaded into processes that have no Numba, or their own.
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
        reloc="pic",
        codemodel="small",
    )
    code: bytes = machine.emit_object(module)
    return code

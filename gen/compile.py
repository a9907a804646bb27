# SPDX-License-Identifier: Apache-2.0
"""A component as native code: RTLIL -> C++ -> shared object, cached by content.

Two generators write the C++. `gen.native` writes straight-line code on 64-bit words; decision 27
describes it. The other one is CXXRTL of Yosys. It is used where the first does not support
something in a design, and as the second opinion in the tests. With CXXRTL, one call of `fw_cycle`
is one rising edge of the clock and costs one evaluation of the design:

- the clock of the generated model never falls. Its edge detector is replaced by a constant, so
  each evaluation computes the next state, and the registers are committed after it;
- outputs are detached from the design before C++ is written. The logic that only they need is not
  part of that evaluation; it runs after the commit, on the new state.

That is exact when one evaluation settles the logic, which the output of CXXRTL states. Where it
does not (an apparent loop through a wire), the shim falls back to the plain protocol of a low and
a high phase, each iterated until nothing changes; `CompiledModel.single_pass` tells which.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from amaranth.lib import wiring

from gen.arguments import typed
from gen.cache import announce, kept
from gen.checks import DesignError
from gen.closing import Closing
from gen.compiler import CompileError, find_compiler, vector_flags
from gen.cxx import CxxSource, prepare
from gen.merge import merge_modules
from gen.native.cells import UnsupportedError
from gen.native.generate import generate
from gen.native.module import ClockError
from gen.rtlil import (
    RESET,
    DesignPort,
    MacroPlatform,
    OncePlatform,
    component_ports,
    to_rtlil,
    uncollected,
)
from gen.waves import TracedSignal
from gen.yosys import Step, cxxrtl_include_dir, run_yosys, yosys_version

__all__ = [
    "CompileError",
    "CompiledModel",
    "Instance",
    "compile_model",
    "compile_rtlil",
    "conditions",
    "optimisation",
]

_TOP = "fw_top"
_JOBS = 2
"""Most compilers that run at once."""
_HERE = Path(__file__).parent
_FLAGS = ("-std=c++17", "-fPIC", "-DNDEBUG", "-w")


@dataclass(frozen=True)
class _Source:
    """RTLIL and Verilog that a model is built from, and the ports that it must have."""

    rtlil: str
    instances: dict[str, int]
    macros: str
    ports: tuple[DesignPort, ...]
    lanes: int = 1


def _source(
    component: wiring.Component, trace: Sequence[str] = (), traced: list[TracedSignal] | None = None
) -> _Source:
    # Signals in a block that is built once are not in the design, so they cannot be traced.
    platform = MacroPlatform() if trace else OncePlatform()
    traced = [] if traced is None else traced
    try:
        rtlil = to_rtlil(component, name=_TOP, platform=platform, trace=trace, traced=traced)
    except DesignError as error:  # users do not know our name of the top
        said = str(error).replace(_TOP, type(component).__name__)
        raise DesignError(said) from None
    blocks = platform.blocks.values() if isinstance(platform, OncePlatform) else ()
    merged = merge_modules("\n".join([rtlil, *blocks]), top=_TOP)
    ports = [*component_ports(component), DesignPort(name=RESET, width=1, is_input=True)]
    there = {port.name for port in ports}
    added = {each.port: each.width for each in traced if each.port not in there}
    ports += [DesignPort(name=port, width=width, is_input=False) for port, width in added.items()]
    macros = "\n".join(platform.sram_macros[name] for name in sorted(platform.sram_macros))
    return _Source(
        merged.text, merged.instances, macros, tuple(port for port in ports if port.width)
    )


def _steps(instances: dict[str, int] | None) -> list[Step]:
    keep: list[Step] = [] if instances is None else [("keep_modules", {"instances": instances})]
    return [
        "read_rtlil model.il",
        "read_verilog macros.v",
        f"hierarchy -top {_TOP}",
        "proc",
        "opt_clean",
        *keep,
        "flatten",
        "opt_expr",
        "opt_clean",
        "splitnets -driver",
        "memory_dff",
        "opt_clean",
        ("detach_outputs", {}),
        "write_cxxrtl -nohierarchy -noflatten -noproc -header model.cc",
    ]


def _generate(work: Path, source: _Source, instances: dict[str, int] | None) -> CxxSource:
    run_yosys(_steps(instances), cwd=work)
    header, text = (work / "model.h").read_text(), (work / "model.cc").read_text()
    return prepare(header, text, source.ports)


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise CompileError(
            f"{command[0]} ended with status {result.returncode}:\n{result.stderr[:3000]}"
        )


def _by_cxxrtl(work: Path, source: _Source) -> CxxSource:
    cxx = _generate(work, source, source.instances)
    if not cxx.single_pass:
        # A loop through a module that was kept apart may vanish when that is flattened.
        cxx = _generate(work, source, None)
    return cxx


def _by_ourselves(work: Path, source: _Source) -> CxxSource:
    files = generate(work, _TOP, source.ports, source.lanes)
    units = tuple(name for name in files if name.startswith("unit"))
    return CxxSource(files, units, single_pass=True, defines=())


@dataclass(frozen=True)
class _Generator:
    """One way from RTLIL to a shared object.

    Members
    -------
    write:
        Writes the C++ of the RTLIL and Verilog in a folder.
    shim:
        The C interface around it, in the folder that holds its headers.
    flags:
        Flags of the compiler besides those that all models have.
    recipe:
        Files that decide what is built from given RTLIL.
    """

    write: Callable[[Path, _Source], CxxSource]
    shim: Path
    flags: tuple[str, ...]
    recipe: tuple[Path, ...]

    def all_flags(self, lanes: int = 1) -> tuple[str, ...]:
        vectors = vector_flags() if lanes > 1 else ()
        return (*_FLAGS, *self.flags, *vectors, *os.environ.get("FOLDWIRE_CXXFLAGS", "").split())

    def key(self, source: _Source, compiler_version: str) -> str:
        """The hash of all that a model of *source* depends on."""
        parts = (source, yosys_version(), compiler_version, self.all_flags(source.lanes))
        key = hashlib.sha256(repr(parts).encode())
        for file in self.recipe:
            key.update(file.read_bytes())
        return key.hexdigest()[:24]

    def build(self, source: _Source, compiler: str, target: Path) -> None:
        """Make the shared object *target*; its folder is scratch space."""
        work = target.parent
        (work / "model.il").write_text(source.rtlil)
        (work / "macros.v").write_text(source.macros)
        cxx = self.write(work, source)
        for name, text in cxx.files.items():
            (work / name).write_text(text)
        include = [f"-I{path}" for path in (cxxrtl_include_dir(), work, self.shim.parent)]
        # The longest first, so that it is not compiled last and alone.
        units = sorted(cxx.units, key=lambda name: -len(cxx.files[name]))
        paths = [self.shim, *(work / name for name in units)]
        objects = [work / f"{path.stem}.o" for path in paths]
        with ThreadPoolExecutor(max_workers=min(_JOBS, os.cpu_count() or 1)) as pool:
            commands = (
                [compiler, *self.all_flags(source.lanes), *cxx.defines, *include,
                 "-c", str(path), "-o", str(made)]
                for path, made in zip(paths, objects, strict=True)
            )
            list(pool.map(_run, commands))
        _run([compiler, "-shared", *map(str, objects), "-o", str(target)])


_NATIVE = (
    "-O2",
    # GCC 12 gets sums of `byte != 0` wrong where it vectorises them (-1 for 1).
    "-fno-tree-slp-vectorize",
    # A cycle runs more code than the cache holds, most of it once: short code is fast code.
    "-fno-align-functions", "-fno-align-jumps", "-fno-align-loops", "-fno-align-labels",
    "-fno-thread-jumps", "-fno-tree-pre", "-fno-gcse",
)
_COMMON = (_HERE / "compile.py", _HERE / "yosys_worker.py")
_GENERATORS = {
    "native": _Generator(
        _by_ourselves,
        _HERE / "native" / "shim.cc",
        (*_NATIVE, "-fvisibility=hidden"),
        (*_COMMON, *sorted(set((_HERE / "native").iterdir()) - {_HERE / "native" / "__pycache__"})),
    ),
    "cxxrtl": _Generator(
        _by_cxxrtl,
        _HERE / "shim.cc",
        ("-O1", "-DCXXRTL_NDEBUG"),
        (*_COMMON, *(_HERE / name for name in ("cxx.py", "fast_values.h", "shim.cc"))),
    ),
}
_DEFAULT = "native"
_LANES = (1, 2, 4, 8)


def _chosen(generator: str | None) -> str:
    name, where = generator, "generator"
    if name is None:
        name, where = os.environ.get("FOLDWIRE_MODELS", "") or _DEFAULT, "FOLDWIRE_MODELS"
    if name not in _GENERATORS:
        raise ValueError(f"{where} must be {' or '.join(_GENERATORS)}, not {name!r}")
    return name


class CompiledModel:
    """A design as a shared object. Make instances with `instance()`; they are independent.

    Members
    -------
    path:
        The shared object. Its C interface is described in docs/reference/gen.md.
    ports:
        All ports but the clock; the reset is an ordinary input.
    generator:
        Generator of its C++: "native" or "cxxrtl".
    single_pass:
        True when a cycle costs one evaluation.
    traced:
        Internal signals that have ports too; see `gen.waves`.
    lanes:
        Number of instances of the design that an `Instance` holds.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.traced: tuple[TracedSignal, ...] = ()
        # RTLD_LOCAL (the default) keeps the equal symbols of several models apart.
        library = ctypes.CDLL(str(path.resolve()))
        for name, result, arguments in (
            ("fw_create", ctypes.c_void_p, []),
            ("fw_destroy", None, [ctypes.c_void_p]),
            ("fw_generator", ctypes.c_char_p, []),
            ("fw_single_pass", ctypes.c_int, []),
            ("fw_port_count", ctypes.c_int, []),
            ("fw_port_name", ctypes.c_char_p, [ctypes.c_int]),
            ("fw_port_width", ctypes.c_int, [ctypes.c_int]),
            ("fw_port_is_input", ctypes.c_int, [ctypes.c_int]),
            ("fw_port_data", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int]),
            ("fw_settle", None, [ctypes.c_void_p]),
            ("fw_cycle", None, [ctypes.c_void_p]),
            ("fw_cycles", None, [ctypes.c_void_p, ctypes.c_uint64]),
            (
                "fw_run",
                None,
                [
                    ctypes.c_void_p,
                    ctypes.c_uint64,
                    ctypes.c_int,
                    ctypes.c_void_p,
                    ctypes.c_void_p,
                    ctypes.c_int,
                    ctypes.c_void_p,
                    ctypes.c_void_p,
                ],
            ),
        ):
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
        self._library = library
        self.generator: str = library.fw_generator().decode()
        self.single_pass = bool(library.fw_single_pass())
        self.lanes = 1
        if self.generator == "native":
            self.lanes = library.fw_lanes()
            library.fw_idle.argtypes = [ctypes.c_void_p]
            library.fw_lane_data.restype = ctypes.c_void_p
            library.fw_lane_data.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
        self.ports = tuple(
            DesignPort(
                name=library.fw_port_name(index).decode(),
                width=library.fw_port_width(index),
                is_input=bool(library.fw_port_is_input(index)),
            )
            for index in range(library.fw_port_count())
        )

    def instance(self) -> Instance:
        """A new instance in its initial state, all inputs zero."""
        return Instance(self)


class Instance(Closing):
    """One running copy of a `CompiledModel`."""

    def __init__(self, model: CompiledModel) -> None:
        self._library = model._library
        self._generator = model.generator
        self.traced = model.traced
        self._handle = self._library.fw_create()
        self._index = {port.name: (index, port) for index, port in enumerate(model.ports)}
        self._lanes = model.lanes
        self._data: list[ctypes.Array[ctypes.c_uint32]] = []
        for index, port in enumerate(model.ports):
            pointer = self._library.fw_port_data(self._handle, index)
            chunks = ctypes.c_uint32 * _chunks(port.width)
            self._data.append(chunks.from_address(pointer))
        self._settled = True

    @property
    def handle(self) -> int:
        """The pointer that the C interface takes."""
        if self._handle is None:
            raise ValueError("this instance is closed")
        handle: int = self._handle
        return handle

    def close(self) -> None:
        """Free the instance; it must not be used afterwards."""
        if self._handle is not None:
            self._library.fw_destroy(self._handle)
            self._handle = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def _port(self, name: str, *, is_input: bool | None = None) -> tuple[int, DesignPort]:
        try:
            index, port = self._index[name]
        except KeyError:
            raise ValueError(f"no port {name!r}; there are {', '.join(self._index)}") from None
        if is_input is not None and port.is_input != is_input:
            raise ValueError(f"port {name!r} is an {'input' if port.is_input else 'output'}")
        return index, port

    def set(self, name: str, value: int) -> None:
        """Drive input `name`; it is sampled by the next `cycle`."""
        index, port = self._port(name, is_input=True)
        if not 0 <= value < 1 << port.width:
            raise ValueError(f"{name} is {port.width} bits wide and cannot hold {value}")
        data = self._data[index]
        if self._handle is None:
            raise ValueError("this instance is closed")
        for chunk in range(len(data)):
            data[chunk] = value & 0xFFFFFFFF
            value >>= 32
        self._settled = False

    def get(self, name: str) -> int:
        """The value of port `name`, for the present state and the inputs as set."""
        index, _ = self._port(name)
        if not self._settled:
            self._library.fw_settle(self.handle)
            self._settled = True
        elif self._handle is None:
            raise ValueError("this instance is closed")
        return int.from_bytes(bytes(self._data[index]), "little")

    def cycle(self, n: int = 1) -> None:
        """`n` rising edges with the inputs as set."""
        if not 0 <= n < 1 << 64:
            raise ValueError(f"n must be from 0 to 2**64 - 1, not {n}")
        self._library.fw_cycles(self.handle, n)
        self._settled = self._settled or n > 0

    @property
    def idle(self) -> bool:
        """True if no cycle changes anything until an input does; CXXRTL does not know: False."""
        handle = self.handle
        return self._generator == "native" and bool(self._library.fw_idle(handle))

    def replay(self, stimulus: npt.NDArray[np.uint32]) -> None:
        """Apply one row of `stimulus` per cycle, without reading any output.

        A row is a uint32 word for every 32 bits of every input, inputs in the order of the ports,
        least significant word first, bits beyond a port zero; one lane after the other. Nothing is
        converted, and only type and shape are checked.
        """
        index = [index for index, port in self._index.values() if port.is_input]
        words = sum(_chunks(port.width) for _, port in self._index.values() if port.is_input)
        words *= self._lanes
        if stimulus.dtype != np.uint32 or stimulus.ndim != 2 or stimulus.shape[1] != words:
            raise ValueError(
                f"stimulus must be uint32 of shape (rows, {words}), "
                f"not {stimulus.dtype} of shape {stimulus.shape}"
            )
        self._run(np.array(index, np.int32), stimulus, np.zeros(0, np.int32),
                  np.zeros((len(stimulus), 0), np.uint32))

    def _run(
        self, inputs: npt.NDArray[np.int32], stimulus: npt.NDArray[np.uint32],
        outputs: npt.NDArray[np.int32], result: npt.NDArray[np.uint32],
    ) -> None:
        stimulus = np.ascontiguousarray(stimulus)
        self._library.fw_run(
            self.handle,
            len(stimulus),
            len(inputs),
            inputs.ctypes.data,
            stimulus.ctypes.data,
            len(outputs),
            outputs.ctypes.data,
            result.ctypes.data,
        )
        self._settled = True

    def run(
        self, inputs: Mapping[str, npt.ArrayLike], outputs: Sequence[str]
    ) -> dict[str, npt.NDArray[np.generic]]:
        """Apply one row of `inputs` per cycle; return the `outputs` after each cycle.

        The loop is native. An array for a port of up to 32 bits is one-dimensional of any integer
        type; for a wider port it is uint64 (up to 64 bits) or two-dimensional uint32, one row per
        cycle, least significant word first. Outputs come as uint32, uint64 or such a table. Inputs
        not named keep their value. The model has one lane; see `run_lanes`.
        """
        (seen,) = self.run_lanes([inputs], outputs)
        return seen

    def run_lanes(
        self, inputs: Sequence[Mapping[str, npt.ArrayLike]], outputs: Sequence[str]
    ) -> list[dict[str, npt.NDArray[np.generic]]]:
        """Like `run`, with the `inputs` of each lane, which must name the same ports."""
        if len(inputs) != self._lanes or any(set(lane) != set(inputs[0]) for lane in inputs):
            raise ValueError(f"inputs must name the same ports for {self._lanes} lanes")
        in_ports = [self._port(name, is_input=True) for name in inputs[0]]
        out_ports = [self._port(name) for name in outputs]
        columns = [
            _to_words(port, np.asarray(lane[port.name])) for lane in inputs for _, port in in_ports
        ]
        lengths = {len(column) for column in columns}
        if len(lengths) != 1:
            raise ValueError(f"inputs must have the same number of rows, not {sorted(lengths)}")
        (rows,) = lengths
        stimulus = np.hstack(columns).astype(np.uint32, copy=False)
        in_index = np.array([index for index, _ in in_ports], dtype=np.int32)
        out_index = np.array([index for index, _ in out_ports], dtype=np.int32)
        widths = [_chunks(port.width) for _, port in out_ports]
        result = np.zeros((rows, self._lanes, sum(widths)), dtype=np.uint32)
        self._run(in_index, stimulus, out_index, result)
        seen = []
        for lane in range(self._lanes):
            splits = np.split(result[:, lane], np.cumsum(widths)[:-1], axis=1) if widths else []
            seen.append({
                port.name: _from_words(port, words)
                for (_, port), words in zip(out_ports, splits, strict=True)
            })
        return seen


def _chunks(width: int) -> int:
    return max(1, -(-width // 32))


def _to_words(port: DesignPort, values: npt.NDArray[np.generic]) -> npt.NDArray[np.uint32]:
    chunks = _chunks(port.width)
    if values.dtype.kind not in "bui":
        raise TypeError(f"{port.name}: values must be integers, not {values.dtype}")
    if values.ndim == 1 and chunks <= 2:
        wide = values.astype(np.uint64)
        if wide.size and int(wide.max()) >> port.width:
            raise ValueError(f"{port.name} is {port.width} bits wide and cannot hold {wide.max()}")
        words = [wide & 0xFFFFFFFF, wide >> np.uint64(32)][:chunks]
        return np.stack(words, axis=1).astype(np.uint32)
    if values.ndim != 2 or values.shape[1] != chunks or values.dtype != np.uint32:
        raise ValueError(
            f"{port.name}: values must be a uint32 array of shape (rows, {chunks}), "
            f"not {values.dtype} of shape {values.shape}"
        )
    table = values.astype(np.uint32)
    top_bits = port.width - 32 * (chunks - 1)
    if table.size and int(table[:, -1].max()) >> top_bits:
        raise ValueError(f"{port.name} is {port.width} bits wide; a row has a higher bit set")
    return table


def _from_words(port: DesignPort, words: npt.NDArray[np.uint32]) -> npt.NDArray[np.generic]:
    if words.shape[1] == 1:
        return words[:, 0].copy()
    if words.shape[1] == 2:
        low, high = words[:, 0].astype(np.uint64), words[:, 1].astype(np.uint64)
        return low | high << np.uint64(32)
    return words.copy()


@typed("component", "name")
def compile_model(
    component: wiring.Component,
    *,
    name: str = "model",
    cache_dir: Path | None = None,
    generator: str | None = None,
    trace: Sequence[str] = (),
    lanes: int = 1,
) -> CompiledModel:
    """Compile `component` to native code, or take it from the cache.

    Parameters
    ----------
    component:
        Component to compile; SRAM becomes memories.
    name:
        Part of the name of the file; equal designs with equal names share one file.
    cache_dir:
        Where shared objects are kept; `gen.cache.default_cache_dir()` unless given.
    generator:
        "native" or "cxxrtl"; ``$FOLDWIRE_MODELS`` unless given, else "native". Where that does not
        support something in the design, this is announced (`gen.cache.announce`) and CXXRTL is
        used instead.
    trace:
        Patterns of dotted paths of signals, as ``["fsm_0.*", "*.fsm_state"]``; they can be read as
        ports and written as a waveform (`gen.waves.Waveform`).
    lanes:
        Number of instances that a model evaluates at a time, in SIMD vectors: 1, 2, 4 or 8. More
        than one needs the native generator.

    Raises
    ------
    ValueError
        For a *name* that is no identifier, a design with more than one clock, or a pattern of
        *trace* that matches no signal.
    CompileError
        If there is no C++ compiler, or it fails.
    """
    _checked_name(name)
    chosen = _chosen(generator)
    traced: list[TracedSignal] = []
    with uncollected():  # garbage is collected while Yosys runs
        source = replace(_source(component, trace, traced), lanes=lanes)
        model = _model(source, name, cache_dir, chosen)
    model.traced = tuple(traced)
    return model


def conditions(generator: str | None, lanes: int = 1) -> tuple[str, ...]:
    """The chosen generator, and all that decides what is compiled, except the design."""
    chosen = _chosen(generator)
    return (chosen, f"{lanes} lanes", *find_compiler(), *_GENERATORS[chosen].all_flags(lanes))


def optimisation() -> tuple[str, ...]:
    """Flags that decide how fast native models are, for programs that are compared with them."""
    return (*_NATIVE, *os.environ.get("FOLDWIRE_CXXFLAGS", "").split())


def compile_rtlil(
    rtlil: str,
    ports: Sequence[DesignPort],
    *,
    name: str = "model",
    cache_dir: Path | None = None,
    generator: str | None = None,
    lanes: int = 1,
) -> CompiledModel:
    """Compile RTLIL text with the top module `fw_top`; see `compile_model`.

    Parameters
    ----------
    ports:
        Ports of the top module except the clock, `clk`.
    """
    _checked_name(name)
    return _model(_Source(rtlil, {}, "", tuple(ports), lanes), name, cache_dir, _chosen(generator))


def _checked_name(name: str) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name, flags=re.ASCII):
        raise ValueError(f"name must be an identifier, not {name!r}")


def _model(source: _Source, name: str, cache_dir: Path | None, chosen: str) -> CompiledModel:
    if type(source.lanes) is not int or source.lanes not in _LANES:
        raise ValueError(f"lanes must be {', '.join(map(str, _LANES))}, not {source.lanes!r}")
    if source.lanes > 1 and chosen != "native":
        raise ValueError(f"models of several lanes are native, not {chosen}")
    if chosen == "native":
        try:
            return _kept_model(source, "native", name, cache_dir)
        except UnsupportedError as why:
            if source.lanes > 1:
                raise ValueError(f"{name}: no native code for {why}, so no lanes") from None
            announce(f"{name}: no native code for {why}; CXXRTL takes its place")
        except ClockError as clock:
            raise ValueError(
                f"a compiled model has one clock, 'clk', and rising edges; this one has {clock}"
            ) from None
    return _kept_model(source, "cxxrtl", name, cache_dir)


def _kept_model(
    source: _Source, generator: str, name: str, cache_dir: Path | None
) -> CompiledModel:
    compiler, compiler_version = find_compiler()
    made_by = _GENERATORS[generator]
    path = kept(
        f"{name}-{made_by.key(source, compiler_version)}.so",
        lambda target: made_by.build(source, compiler, target),
        doing=f"compiling {name} to native code (seconds to minutes)",
        folder=cache_dir,
    )
    return CompiledModel(path)

# SPDX-License-Identifier: Apache-2.0
"""The example of a driver in C, compiled with its header, on compiled models of the engine."""

import ctypes
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from foldwire.catalog import Design
from foldwire.handoff.driver import driver_files
from gen.compiler import find_compiler
from hw.fp.ops import ReduceOp
from sim.engines import registry
from sim.hosts.surroundings import Surroundings
from sim.rtl.driver import EngineDriver

__all__ = ["DIALECTS", "STRICT", "all_reduced_by_c", "compiled_driver", "compiled_header"]

STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion")
DIALECTS = {"c11": ("-x", "c", "-std=c11"), "c++17": ("-x", "c++", "-std=c++17")}

_MEMORY_BYTES = 1 << 20
_DESTINATION = _MEMORY_BYTES // 2
_PATIENCE = 1 << 16  # cycles of the watchdog
_TIMEOUT = 1000  # cycles of that of switches
_POLLS = 100_000

_SHIM = """\
#include <stdint.h>
typedef uint32_t (*reader)(uintptr_t, uint32_t);
typedef void (*writer)(uintptr_t, uint32_t, uint32_t);
static reader read_word;
static writer write_word;
#define {TOP}_DEVICE uintptr_t
#define {TOP}_READ32(device, offset) read_word(device, offset)
#define {TOP}_WRITE32(device, offset, word) write_word(device, offset, word)
#ifdef __cplusplus
extern "C" {{
#endif
#include "{top}-example.c"
void connect_bus(reader r, writer w);
void connect_bus(reader r, writer w) {{ read_word = r; write_word = w; }}
#ifdef __cplusplus
}}
#endif
"""


def compiled_driver(
    files: dict[str, str], top: str, folder: Path, *, dialect: str = "c11"
) -> ctypes.CDLL:
    """The files of `driver_files` as a library whose accesses `connect_bus` takes.

    Raises
    ------
    ValueError
        With what the compiler says.
    """
    text = _SHIM.format(top=top, TOP=top.upper())
    return ctypes.CDLL(str(_compiled(files, text, folder, dialect)))


def compiled_header(files: dict[str, str], top: str, folder: Path, *, dialect: str) -> None:
    """Compile the C header, and the example if there is one, as they are.

    Raises
    ------
    ValueError
        With what the compiler says.
    """
    whole = f"{top}-example.c"
    text = f'#include "{whole if whole in files else f"{top}.h"}"\nextern int nothing;\n'
    _compiled(files, text, folder, dialect)


def _compiled(files: dict[str, str], text: str, folder: Path, dialect: str) -> Path:
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    shim, library = folder / "shim.c", folder / f"shim-{dialect.replace('+', 'p')}.so"
    shim.write_text(text, encoding="utf-8")
    options = [*STRICT, *DIALECTS[dialect], "-shared", "-fPIC", str(shim), "-o", str(library)]
    done = subprocess.run([find_compiler()[0], *options], capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(done.stderr[:3000])
    return library


def all_reduced_by_c(
    design: Design, inputs: Sequence[NDArray[Any]], op: ReduceOp, *, dialect: str = "c11",
    change: Callable[[dict[str, str]], None] = lambda files: None, middle: Design | None = None,
) -> list[NDArray[Any]]:
    """The vector of each rank of a ring of engines that software in C has set up and started.

    Parameters
    ----------
    design : Design
        Of engines in a ring, or of endpoints at a switch.
    inputs : sequence of arrays of float32 or int32
        A vector for each rank.
    change : callable
        Changes the files before they are compiled.
    middle : Design or None
        Of the switch, whose example sets it up first.

    Raises
    ------
    ValueError
        If the files do not compile, or the driver refuses or reports a failure.
    """
    ring = _ring(design, len(inputs))
    libraries = []
    for each in (middle, design):
        if each is not None:
            files = driver_files(each)
            change(files)
            with tempfile.TemporaryDirectory() as folder:
                library = compiled_driver(files, each.top, Path(folder), dialect=dialect)
            libraries.append((each.top, library))
    return _run(ring, libraries, inputs, op)


def _ring(design: Design, nodes: int) -> EngineDriver:
    """Engines as they are after reset: the driver in C sets them up."""
    values: dict[str, Any] = design.parameters
    settings = Surroundings(nodes=nodes, latency_cycles=3, memory_bytes=_MEMORY_BYTES)
    record, blueprint = next(
        (record, blueprint) for record in registry.records()
        for blueprint in record.blueprints.values() if blueprint.handoff == design.handoff
    )
    config = blueprint.config(**values)
    if len(record.blueprints) > 1:
        system = next(each for each in record.presets.values() if config in vars(each).values())
        config = record.group(system, nodes)
    driver = record.kind.driver
    assert driver is not None
    with mock.patch.object(driver, "start_system", lambda self: None):
        made: EngineDriver = driver(config, settings)
    return made


def _run(
    ring: EngineDriver, libraries: Sequence[tuple[str, ctypes.CDLL]],
    inputs: Sequence[NDArray[Any]], op: ReduceOp,
) -> list[NDArray[Any]]:
    word = ctypes.c_uint32

    def read(device: int, offset: int) -> int:
        ticket = ring.system.nodes[device].read(offset)
        ring.system.run(drain=False)
        return ticket.value

    def write(device: int, offset: int, value: int) -> None:
        ring.system.nodes[device].write(offset, value)
        ring.system.run(drain=False)

    bus = (ctypes.CFUNCTYPE(word, ctypes.c_size_t, word)(read),
           ctypes.CFUNCTYPE(None, ctypes.c_size_t, word, word)(write))
    for _, library in libraries:
        library.connect_bus(*bus)
    long, place = ctypes.c_uint64, ctypes.c_size_t
    nodes, elements = len(inputs), len(inputs[0])
    top, library = libraries[-1]
    for switch, other in libraries[:-1]:
        for number in range(nodes, len(ring.system.nodes)):
            if other[f"{switch}_example_set_up"](place(number), word(nodes), word(_TIMEOUT)):
                raise ValueError(f"{switch}: set-up refuses {nodes} members")
    for rank, (node, values) in enumerate(zip(ring.nodes, inputs, strict=True)):
        raw = np.ascontiguousarray(values).view(np.uint8)
        node.memory[: len(raw)] = raw
        refused = library[f"{top}_example_set_up"](
            place(rank), word(rank), word(nodes), long(_MEMORY_BYTES), word(_PATIENCE)
        )
        if refused:
            raise ValueError(f"{top}: set-up refuses {nodes} nodes")
    for rank in range(nodes):
        if len(libraries) > 1:
            _await(library[f"{top}_example_ready"], top, rank)
        library[f"{top}_example_start"](
            place(rank), word(nodes), long(0), long(_DESTINATION), word(elements),
            ctypes.c_int(op.value), word(1),
        )
    for rank in range(nodes):
        _await(library[f"{top}_example_poll"], top, rank)
    ring.system.run()
    end = _DESTINATION + 4 * elements
    return [node.memory[_DESTINATION:end].view(inputs[0].dtype).copy() for node in ring.nodes]


def _await(poll: Callable[..., int], top: str, rank: int) -> None:
    found = next(filter(None, (poll(ctypes.c_size_t(rank)) for _ in range(_POLLS))), 0)
    if found != 1:
        raise ValueError(f"{top}: rank {rank} is not ready or reports no valid result")

# SPDX-License-Identifier: Apache-2.0
"""Cycle-exact traces of engines: whether a change of the RTL changes an output in any cycle.

::

    python -m tests.hw.ace.traces record before.npz    # on the commit before the change
    python -m tests.hw.ace.traces check before.npz     # on the one after it
    python -m tests.hw.ace.traces compare before.npz after.npz  # of both, each with its own driver

A trace holds every input and every output of one engine of a ring in every cycle: collectives of
all kinds under stalls, a damaged packet, aborts. It is replayed as recorded and in disturbed copies
(random words in random cycles on any input), which brings damage of every kind, memory errors and
register accesses that no driver makes; what the engine says to those is recorded as well. Where the
driver changes with the engine (other programs), a trace of one is no stimulus for the other; the
traces that both have made themselves are compared then.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np

from gen.compile import CompiledModel
from gen.rtlil import DesignPort
from hw.ace.config import AceConfig, preset
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.ring import AceRing
from sim.rtl.harness.specs import HeaderFault

__all__ = ["differences", "disturbed", "record", "respond"]

_RECORDER = Path(__file__).parents[3] / "bench" / "recorder.cc"
_PRESETS = ("test", "duo")
_DISTURBANCES = (0.0, 1e-5, 1e-4, 1e-4, 5e-4, 0.01)  # share of the words of the inputs


def _words(port: DesignPort) -> int:
    return max(1, -(-port.width // 32))


def _inputs(engine: CompiledModel) -> list[DesignPort]:
    return [port for port in engine.ports if port.is_input]


def _outputs(engine: CompiledModel) -> list[DesignPort]:
    return [port for port in engine.ports if not port.is_input]


def _columns(ports: Sequence[DesignPort], table: np.ndarray) -> dict[str, np.ndarray]:
    """Words of each port, as `Instance.run` takes them."""
    columns, start = {}, 0
    for port in ports:
        words = np.ascontiguousarray(table[:, start : start + _words(port)])
        columns[port.name] = words if _words(port) > 1 else words[:, 0]
        start += _words(port)
    return columns


def _traffic(config: AceConfig, nodes: int) -> None:
    """Collectives, a damaged packet, aborts at odd times."""
    ring = AceRing(
        config,
        Surroundings(
            nodes=nodes, latency_cycles=5, link_stalls=0.15, memory_stalls=0.2, seed=nodes,
            memory_bytes=1 << 16, read_latency_cycles=20,
        ),
        faults=[HeaderFault(node=nodes - 1, port=0, packet=100, bits=(5,))],
        skip_idle=False,
    )
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(900).astype(np.float32) for _ in range(nodes)]
    ring.all_gather(ring.reduce_scatter(arrays, start_skew_cycles=200), 900)
    for cycles in (4000, 150, 700):  # the first one meets the damaged packet, so it never ends
        command = Command(elements=900, destination=1 << 15)
        for rank, node in enumerate(ring.system.nodes):
            node.delay(7 * rank)
            ring.start(node, command)
            node.delay(cycles)
        ring.next_collective()
        for _ in range(2):
            for node in ring.system.nodes:
                ring.write(node, "control", abort=1)
            ring.system.run(drain=False)
            for node in ring.system.nodes:
                node.wait_register(ring.registers.offset("status"), mask=1, value=1)
            ring.system.run(max_cycles=20_000)
        for node in ring.system.nodes:
            ring.write(node, "interrupt", 0x7F)
    ring.all_reduce(arrays, block=8)


def record(engine: CompiledModel, config: AceConfig, nodes: int) -> np.ndarray:
    """Inputs of the first engine of a ring, a row of words per cycle."""
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        recorder, trace = Path(folder) / "recorder.so", Path(folder) / "trace.bin"
        subprocess.run(
            [os.environ.get("CXX", "g++"), "-O1", "-fPIC", "-shared",
             f'-DENGINE="{engine.path.resolve()}"', f'-DTRACE="{trace}"', str(_RECORDER),
             "-o", str(recorder), "-ldl"],
            check=True,
        )
        with mock.patch.object(AceRing, "compiled", lambda *_: SimpleNamespace(path=recorder)):
            _traffic(config, nodes)
        data = np.fromfile(trace, dtype=np.uint32)
    width = sum(map(_words, _inputs(engine)))
    row = width + sum(map(_words, _outputs(engine)))
    return data[: len(data) // row * row].reshape(-1, row)[:, :width].copy()


def disturbed(engine: CompiledModel, stimulus: np.ndarray, share: float, seed: int) -> np.ndarray:
    """*stimulus* with that *share* of its words replaced by random ones, but for the reset."""
    rng = np.random.default_rng(seed)
    masks = []
    for port in _inputs(engine):
        rest = 0 if port.name == "rst" else port.width
        for _ in range(_words(port)):
            masks.append((1 << min(32, rest)) - 1)
            rest -= min(32, rest)
    noise = rng.integers(0, 1 << 32, stimulus.shape, np.uint64).astype(np.uint32)
    # One bit or all of them: a header with one wrong bit, a valid that comes from nowhere.
    one = np.uint32(1) << rng.integers(0, 32, stimulus.shape).astype(np.uint32)
    noise = np.where(rng.random(stimulus.shape) < 0.5, stimulus ^ one, noise)
    hit = rng.random(stimulus.shape) < share
    mask = np.array(masks, np.uint32)
    return np.where(hit & (mask != 0), noise & mask, stimulus)


def _reordered(
    table: np.ndarray, before: Sequence[DesignPort], ports: Sequence[DesignPort]
) -> np.ndarray:
    """A table of the ports *before* in the order of *ports*, which have the same names."""
    columns = _columns(before, table)
    return np.column_stack([columns[port.name] for port in ports])


def respond(engine: CompiledModel, stimulus: np.ndarray) -> np.ndarray:
    """Outputs after each cycle of *stimulus*, a row of words per cycle."""
    names = [port.name for port in _outputs(engine)]
    with engine.instance() as instance:
        seen = instance.run(_columns(_inputs(engine), stimulus), names)
    columns = []
    for port in _outputs(engine):
        column = seen[port.name]
        if _words(port) == 2:
            columns.append(np.stack([column & 0xFFFFFFFF, column >> 32], axis=1).astype(np.uint32))
        else:
            columns.append(column.reshape(len(column), -1).astype(np.uint32))
    return np.hstack(columns)


def differences(engine: CompiledModel, stimulus: np.ndarray, response: np.ndarray) -> list[str]:
    """Outputs of *engine* that are not as recorded: ``port at cycle``, the first cycle of each."""
    found = []
    seen = respond(engine, stimulus)
    start = 0
    for port in _outputs(engine):
        place = slice(start, start + _words(port))
        start += _words(port)
        wrong = np.flatnonzero((seen[:, place] != response[:, place]).any(axis=1))
        if len(wrong):
            found.append(f"{port.name} at {wrong[0]}")
    return found


def changed_bits(before: np.ndarray, after: np.ndarray, ports: Sequence[str]) -> list[str]:
    """Outputs that differ between two traces, with the bits: ``port: cycles, from the first one,
    bits``. *ports*: name, width and direction of each, as `record` saves them."""
    found = []
    if len(before) != len(after):
        found.append(f"{len(before)} and {len(after)} cycles")
        common = min(len(before), len(after))
        before, after = before[:common], after[:common]
    start = 0
    for line in ports:
        name, width, is_input = line.split()
        if is_input == "True":
            continue
        place = slice(start, start + max(1, -(-int(width) // 32)))
        start = place.stop
        differ = before[:, place] ^ after[:, place]
        rows = np.flatnonzero(differ.any(axis=1))
        if len(rows):
            bits = np.bitwise_or.reduce(differ, axis=0)
            mask = sum(int(word) << 32 * n for n, word in enumerate(bits))
            found.append(f"{name}: {len(rows)} cycles from {rows[0]}, bits {mask:#x}")
    return found


def _record_all(file: str) -> None:
    saved: dict[str, np.ndarray] = {}
    for name in _PRESETS:
        engine = AceRing.compiled(preset(name))
        ports = [f"{port.name} {port.width} {port.is_input}" for port in engine.ports]
        saved[f"{name}_ports"] = np.array(ports)
        saved[name] = record(engine, preset(name), 3)
        for n, share in enumerate(_DISTURBANCES):
            stimulus = disturbed(engine, saved[name], share, seed=n)
            saved[f"{name}_{n}_in"], saved[f"{name}_{n}_out"] = stimulus, respond(engine, stimulus)
    np.savez_compressed(file, **saved)  # type: ignore[arg-type]


def _check_all(file: str) -> int:
    saved = np.load(file)
    status = 0
    for name in _PRESETS:
        engine = AceRing.compiled(preset(name))
        words = [line.split() for line in saved[f"{name}_ports"]]
        before = [
            DesignPort(name=port, width=int(width), is_input=is_input == "True")
            for port, width, is_input in words
        ]
        if {*before} != {*engine.ports}:
            others = sorted(port.name for port in {*before} ^ {*engine.ports})
            print(f"{name}: other ports: {', '.join(others)}")
            return 1
        for n, share in enumerate(_DISTURBANCES):
            stimulus, response = (
                _reordered(
                    saved[f"{name}_{n}_{side}"],
                    [port for port in before if port.is_input == (side == "in")],
                    [port for port in engine.ports if port.is_input == (side == "in")],
                )
                for side in ("in", "out")
            )
            wrong = differences(engine, stimulus, response)
            status |= bool(wrong)
            print(f"{name}, {len(stimulus)} cycles, {share:.3%} of inputs disturbed:",
                  "; ".join(wrong) or "all outputs equal")
    return status


def _compare_all(before_file: str, after_file: str) -> int:
    before, after = np.load(before_file), np.load(after_file)
    status = 0
    for name in _PRESETS:
        traces = (saved[f"{name}_0_out"] for saved in (before, after))
        found = changed_bits(*traces, before[f"{name}_ports"])
        status |= bool(found)
        print(f"{name}, {len(after[f'{name}_0_out'])} cycles:", "; ".join(found) or "all equal")
    return status


if __name__ == "__main__":
    action, *files = sys.argv[1:]
    actions = {"record": _record_all, "check": _check_all, "compare": _compare_all}
    sys.exit(actions[action](*files))  # type: ignore[operator]

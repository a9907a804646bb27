# SPDX-License-Identifier: Apache-2.0
"""Recorded traffic of an engine, and the simulators that replay it.

All of them see the same inputs in every cycle, and their outputs are compared with the recording.
"""

import hashlib
import os
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from gen.cache import kept
from gen.compile import CompiledModel, Instance
from gen.compiler import find_compiler
from gen.rtlil import DesignPort
from gen.verilator import find_verilator, has_verilator
from sim.rtl.driver import EngineDriver

__all__ = ["Compiled", "Icarus", "Trace", "Verilator", "clocked", "record", "record_engine",
           "record_stepped"]


@dataclass(frozen=True)
class Trace:
    """Recorded ports: one row per cycle, columns in the order of the ports."""

    inputs: list[DesignPort]
    outputs: list[DesignPort]
    stimulus: np.ndarray
    response: np.ndarray


def words_of(port: DesignPort) -> int:
    return max(1, -(-port.width // 32))


def _columns(ports: list[DesignPort], table: np.ndarray) -> dict[str, np.ndarray]:
    columns, start = {}, 0
    for port in ports:
        words = table[:, start : start + words_of(port)]
        start += words_of(port)
        if words_of(port) == 2:
            columns[port.name] = words[:, 0] | words[:, 1].astype(np.uint64) << np.uint64(32)
        else:
            columns[port.name] = words[:, 0] if words_of(port) == 1 else np.ascontiguousarray(words)
    return columns


def record(
    driver: type[EngineDriver], config: Any, run: Callable[[], object], work: Path
) -> Trace:
    """Record the ports of the first engine of *config* that *run* steps; files go to *work*."""
    return record_engine(
        driver.compiled(config),
        lambda made: mock.patch.object(driver, "compiled", staticmethod(lambda *_: made)), run, work
    )


def record_engine(
    engine: CompiledModel, used: Callable[[Any], AbstractContextManager[Any]],
    run: Callable[[], object], work: Path,
) -> Trace:
    """Record the ports of the first instance of *engine* that *run* steps; files go to *work*. In
    the context ``used(other)``, *run* takes *other* in its place."""
    recorder, trace = work / "recorder.so", work / "trace.bin"
    subprocess.run(
        [os.environ.get("CXX", "g++"), "-O1", "-fPIC", "-shared",
         f'-DENGINE="{engine.path.resolve()}"', f'-DTRACE="{trace}"',
         str(Path(__file__).with_name("recorder.cc")), "-o", str(recorder), "-ldl"],
        check=True,
    )
    stand_in = SimpleNamespace(path=recorder)
    with used(stand_in):
        run()
    inputs = [port for port in engine.ports if port.is_input]
    outputs = [port for port in engine.ports if not port.is_input]
    width = sum(map(words_of, inputs)), sum(map(words_of, outputs))
    data = np.fromfile(trace, dtype=np.uint32)
    rows = data[: len(data) // sum(width) * sum(width)].reshape(-1, sum(width))
    return Trace(inputs, outputs, rows[:, : width[0]].copy(), rows[:, width[0] :].copy())


def record_stepped(model: CompiledModel, run: Callable[[], object]) -> Trace:
    """Record the ports of the first instance of *model* that *run* creates and steps in Python."""
    recorders: list[_Recorder] = []
    make = CompiledModel.instance

    def instance(other: CompiledModel) -> Instance:
        if other.path != model.path or recorders:
            return make(other)
        recorders.append(_Recorder(other))
        return recorders[0]

    with mock.patch.object(CompiledModel, "instance", instance):
        run()
    (recorder,) = recorders
    return recorder.trace()


class _Recorder(Instance):
    """An instance that records its ports in every cycle."""

    def __init__(self, model: CompiledModel) -> None:
        super().__init__(model)
        self._ports = model.ports
        self._rows: dict[bool, list[bytes]] = {True: [], False: []}

    def cycle(self, n: int = 1) -> None:
        for _ in range(n):
            self._write_down(True)
            super().cycle()
            self._write_down(False)

    def _write_down(self, inputs: bool) -> None:
        ports = zip(self._ports, self._data, strict=True)
        self._rows[inputs].append(b"".join(
            bytes(words) for port, words in ports if port.is_input == inputs
        ))

    def trace(self) -> Trace:
        tables = {
            inputs: np.frombuffer(b"".join(rows), np.uint32).reshape(len(rows), -1)
            for inputs, rows in self._rows.items()
        }
        ports = {side: [port for port in self._ports if port.is_input == side] for side in tables}
        return Trace(ports[True], ports[False], tables[True], tables[False])


class Compiled:
    """Replays a trace on the compiled model."""

    def __init__(self, engine: CompiledModel, trace: Trace) -> None:
        self._engine = engine
        self._trace = trace
        self._inputs = _columns(trace.inputs, trace.stimulus)

    def differing(self) -> list[str]:
        """Outputs that differ from the recording in any cycle."""
        with self._engine.instance() as instance:
            seen = instance.run(self._inputs, [port.name for port in self._trace.outputs])
        expected = _columns(self._trace.outputs, self._trace.response)
        return [name for name, column in expected.items() if not np.array_equal(seen[name], column)]

    def check(self) -> None:
        """Compare every output in every cycle with the recording."""
        if names := self.differing():
            raise RuntimeError(f"replay differs from the recording at {names[0]}")

    def hertz(self) -> float:
        """Cycles per second of CPU time, without reading and converting the stimulus."""
        rounds = 0
        stimulus = np.ascontiguousarray(self._trace.stimulus)
        with self._engine.instance() as instance:
            start = time.process_time()
            while rounds < 1 or time.process_time() - start < 0.3:
                instance.replay(stimulus)
                rounds += 1
            return rounds * len(self._trace.stimulus) / (time.process_time() - start)


_BENCH = """`timescale 1ns / 1ps
module bench;
  reg [{inputs}:0] stimulus [0:{last}];
  reg [{inputs}:0] in;
  wire [{outputs}:0] out;
  reg clk, check;
  integer row, rows, file;
  ace engine(.clk(clk){connections});
{padding}  initial begin
    $readmemh("stimulus.hex", stimulus);
    if (!$value$plusargs("rows=%d", rows)) rows = 0;
    check = $test$plusargs("check");
    if (check) file = $fopen("response.hex", "w");
    clk = 0;
    for (row = 0; row < rows; row = row + 1) begin
      in = stimulus[row];
      #1 clk = 1;
      #1;
      if (check) $fwrite(file, "%h\\n", out);
      clk = 0;
    end
    $finish;
  end
endmodule
"""


class Icarus:
    """Replays a trace on the emitted Verilog, under a plain Verilog bench."""

    def __init__(self, verilog: str, trace: Trace, work: Path) -> None:
        self._trace, self._work = trace, work
        (work / "ace.v").write_text(verilog)
        widths = [32 * trace.stimulus.shape[1], 32 * trace.response.shape[1]]
        connections = _connections(trace.inputs, "in") + _connections(trace.outputs, "out")
        (work / "bench.v").write_text(
            _BENCH.format(inputs=widths[0] - 1, outputs=widths[1] - 1,
                          last=len(trace.stimulus) - 1, connections=connections,
                          padding=_padding(trace.outputs))
        )
        big_endian = trace.stimulus[:, ::-1].astype(">u4")
        (work / "stimulus.hex").write_text("\n".join(row.tobytes().hex() for row in big_endian))
        subprocess.run(
            ["iverilog", "-g2005", "-o", "bench.vvp", "bench.v", "ace.v"],
            cwd=work, check=True, capture_output=True,
        )

    def _cpu(self, rows: int, *options: str) -> float:
        """Seconds of CPU time for the first *rows* of the recording."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            ["vvp", "-n", "bench.vvp", f"+rows={rows}", *options],
            cwd=self._work, check=True, capture_output=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def check(self) -> None:
        """Compare every output in every cycle after the reset with the recording."""
        self._cpu(len(self._trace.stimulus), "+check")
        first = _reset_rows(self._trace)
        expected = self._trace.response[:, ::-1].astype(">u4")
        lines = (self._work / "response.hex").read_text().split()
        for row in range(first, len(expected)):
            if lines[row] != expected[row].tobytes().hex():
                raise RuntimeError(f"Icarus differs from the recording in cycle {row}")

    def hertz(self) -> float:
        """Cycles per second of CPU time, without start-up and reading the stimulus."""
        rows = len(self._trace.stimulus)
        return rows / (self._cpu(rows) - self._cpu(0))


_VERILATOR = ("-O3", "-Wno-fatal", "--x-assign", "fast", "--x-initial", "fast")

_MAIN = """#include "Vtop.h"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>
// Arguments: file of the stimulus, rows in it, file for the outputs or "-", rounds.
int main(int, char **arguments) {{
  const size_t rows = std::strtoull(arguments[2], nullptr, 10);
  std::vector<uint32_t> stimulus(rows * {inputs});
  std::FILE *file = std::fopen(arguments[1], "rb");
  if (!file || std::fread(stimulus.data(), 4, stimulus.size(), file) != stimulus.size()) return 1;
  std::fclose(file);
  const bool check = arguments[3][0] != '-';
  if (check) file = std::fopen(arguments[3], "wb");
  Vtop top;
  top.eval();  // else there is no edge of the clock in the first cycle
  const std::clock_t start = std::clock();
  for (int round = std::atoi(arguments[4]); round > 0; round--)
    for (size_t row = 0; row < rows; row++) {{
      const uint32_t *in = stimulus.data() + row * {inputs};
{sets}{edge}      top.eval();
      if (check) {{
        uint32_t out[{outputs}];
{gets}        std::fwrite(out, 4, {outputs}, file);
      }}
    }}
  if (check) std::fclose(file);
  std::printf("%.9f\\n", double(std::clock() - start) / CLOCKS_PER_SEC);
  top.final();
}}
"""


_EDGE = """      top.clk = 1;
      top.eval();
      top.clk = 0;
"""


def clocked(verilog: str) -> bool:
    """True if the text has a port for the clock."""
    return bool(re.search(r"^ +input +(?:(?:logic|wire) +)*clk\b", verilog, re.MULTILINE))


class Verilator:
    """Replays a trace on the emitted Verilog, translated by Verilator, one thread, no tracing.

    The top module is called ``ace``.

    Members
    -------
    build_s:
        Seconds that it took to translate and compile; 0 if the program was kept.
    """

    def __init__(self, verilog: str, trace: Trace, work: Path, flags: str) -> None:
        self._trace, self._work = trace, work
        (work / "ace.sv").write_text(verilog)
        sizes = trace.stimulus.shape[1], trace.response.shape[1]
        (work / "main.cc").write_text(_MAIN.format(
            inputs=sizes[0], outputs=sizes[1],
            sets=_moves(trace.inputs, "in", True),
            edge=_EDGE if clocked(verilog) else "",
            gets=_moves(trace.outputs, "out", False),
        ))
        trace.stimulus.astype("<u4").tofile(work / "stimulus.bin")
        self.build_s = 0.0

        def build(target: Path) -> None:
            before = time.perf_counter()
            program = find_verilator().build(
                [work / "ace.sv", work / "main.cc"], top="ace", folder=work / "verilated",
                arguments=_VERILATOR, flags=flags,
            )
            self.build_s = time.perf_counter() - before
            shutil.copy(program, target)

        parts = (verilog, (work / "main.cc").read_text(), self.version(), flags, find_compiler()[1])
        key = hashlib.sha256(repr(parts).encode()).hexdigest()[:24]
        self._program = kept(
            f"verilator/ace-{key}", build, doing="building with Verilator (seconds to minutes)"
        )

    @staticmethod
    def version() -> str | None:
        """Version and options of the program, None without one."""
        if not has_verilator():
            return None
        return " ".join([find_verilator().version, *_VERILATOR])

    def _run(self, outputs: str, rounds: int) -> float:
        run = subprocess.run(
            [self._program, "stimulus.bin", str(len(self._trace.stimulus)), outputs,
             str(rounds)],
            cwd=self._work, check=True, capture_output=True, text=True,
        )
        return float(run.stdout)

    def mismatches(self) -> int:
        """Number of cycles after the reset in which an output differs from the recording."""
        self._run("response.bin", 1)
        seen = np.fromfile(self._work / "response.bin", "<u4").reshape(self._trace.response.shape)
        first = _reset_rows(self._trace)
        return int((seen != self._trace.response).any(axis=1)[first:].sum())

    def check(self) -> None:
        """Compare every output in every cycle after the reset with the recording."""
        if wrong := self.mismatches():
            raise RuntimeError(f"Verilator differs from the recording in {wrong} cycles")

    def hertz(self) -> float:
        """Cycles per second of CPU time."""
        rounds = 1
        while (spent := self._run("-", rounds)) < 0.3:
            rounds *= 2
        return rounds * len(self._trace.stimulus) / spent


def _moves(ports: Sequence[DesignPort], vector: str, into: bool) -> str:
    """C++ that moves words between a vector and the ports of a Verilator model."""
    lines, start = [], 0
    for port in ports:
        for index in range(words_of(port)):
            word = f"{vector}[{start + index}]"
            name = f"top.{port.name}"
            if port.width > 64:
                name += f"[{index}]"
            elif into and port.width > 32:
                if index == 0:
                    high = f"{vector}[{start + 1}]"
                    lines.append(f"{name} = {word} | uint64_t({high}) << 32;")
                continue
            elif index:
                name = f"uint32_t({name} >> 32)"
            lines.append(f"{name} = {word};" if into else f"{word} = uint32_t({name});")
        start += words_of(port)
    return "".join(f"      {line}\n" for line in lines)


def _reset_rows(trace: Trace) -> int:
    """Number of leading rows under reset."""
    resets = [n for n, port in enumerate(trace.inputs) if port.name == "rst"]
    if not resets:
        return 0
    (reset,) = resets
    column = sum(words_of(port) for port in trace.inputs[:reset])
    return int(np.argmin(trace.stimulus[:, column]))


def _connections(ports: list[DesignPort], vector: str) -> str:
    text, start = "", 0
    for port in ports:
        text += f",\n    .{port.name}({vector}[{start + port.width - 1}:{start}])"
        start += 32 * words_of(port)
    return text


def _padding(ports: list[DesignPort]) -> str:
    """Zeros between the outputs, as in the recording."""
    text, start = "", 0
    for port in ports:
        top = start + 32 * words_of(port)
        if start + port.width < top:
            text += f"  assign out[{top - 1}:{start + port.width}] = 0;\n"
        start = top
    return text

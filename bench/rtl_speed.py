"""Endpoint cycles per second of the compiled engine, against Icarus and on two threads.

Traffic: one node of a 4-node ring all-reduce, recorded cycle by cycle. The compiled model and the
emitted Verilog under Icarus then replay the same inputs, and their outputs are compared.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np

from bench.result import result
from gen.compile import CompiledModel
from gen.rtlil import Port
from gen.verilog import emit
from hw.ace.config import AceConfig, preset
from hw.ace.engine import AceEngine
from sim.cycles.ring import RingSettings
from sim.rtl.ace_ring import AceRing

NODES = 4
REPEATS = 5
TARGET_RATIO = 20.0
TARGET_THREADS = 1.6


@dataclass(frozen=True)
class Trace:
    """Recorded ports: one row per cycle, columns in the order of the ports."""

    inputs: list[Port]
    outputs: list[Port]
    stimulus: np.ndarray
    response: np.ndarray


def _words(port: Port) -> int:
    return max(1, -(-port.width // 32))


def _all_reduce(config: AceConfig, elements: int, threads: int = 1, latency: int = 16) -> float:
    """Run it once, compare with numpy; return stepped endpoint cycles per second of wall time."""
    settings = RingSettings(nodes=NODES, latency_cycles=latency)
    ring = AceRing(config, settings, threads=threads, skip_idle=False)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(elements).astype(np.float32) for _ in range(NODES)]
    results = ring.all_reduce(arrays)
    golden = ring.golden(arrays)
    if any(one.tobytes() != golden.tobytes() for one in results):
        raise RuntimeError("the all-reduce did not give numpy's sums")
    assert ring.last_run is not None
    return ring.last_run.stepped_node_cycles / ring.last_run.wall_s


def _record(config: AceConfig, elements: int, work: Path) -> Trace:
    engine = AceRing.compiled(config)
    recorder, trace = work / "recorder.so", work / "trace.bin"
    compiler = os.environ.get("CXX", "g++")
    source = Path(__file__).with_name("recorder.cc")
    subprocess.run(
        [compiler, "-O1", "-fPIC", "-shared", f'-DENGINE="{engine.path.resolve()}"',
         f'-DTRACE="{trace}"', str(source), "-o", str(recorder), "-ldl"],
        check=True,
    )
    stand_in = SimpleNamespace(path=recorder)
    with mock.patch.object(AceRing, "compiled", staticmethod(lambda _: stand_in)):
        _all_reduce(config, elements)
    inputs = [port for port in engine.ports if port.is_input]
    outputs = [port for port in engine.ports if not port.is_input]
    width = sum(map(_words, inputs)), sum(map(_words, outputs))
    data = np.fromfile(trace, dtype=np.uint32)
    rows = data[: len(data) // sum(width) * sum(width)].reshape(-1, sum(width))
    return Trace(inputs, outputs, rows[:, : width[0]].copy(), rows[:, width[0] :].copy())


def _columns(ports: list[Port], table: np.ndarray) -> dict[str, np.ndarray]:
    columns, start = {}, 0
    for port in ports:
        words = table[:, start : start + _words(port)]
        start += _words(port)
        if _words(port) == 2:
            columns[port.name] = words[:, 0] | words[:, 1].astype(np.uint64) << np.uint64(32)
        else:
            columns[port.name] = words[:, 0] if _words(port) == 1 else np.ascontiguousarray(words)
    return columns


class Compiled:
    """Replays a trace on the compiled model."""

    def __init__(self, engine: CompiledModel, trace: Trace) -> None:
        self._engine = engine
        self._trace = trace
        self._inputs = _columns(trace.inputs, trace.stimulus)

    def check(self) -> None:
        """Compare every output in every cycle with the recording."""
        with self._engine.instance() as instance:
            seen = instance.run(self._inputs, [port.name for port in self._trace.outputs])
        for name, expected in _columns(self._trace.outputs, self._trace.response).items():
            if not np.array_equal(seen[name], expected):
                raise RuntimeError(f"replay differs from the recording at {name}")

    def hertz(self) -> float:
        """Cycles per second of CPU time."""
        rounds = 0
        with self._engine.instance() as instance:
            start = time.process_time()
            while rounds < 1 or time.process_time() - start < 0.3:
                instance.run(self._inputs, [])
                rounds += 1
            return rounds * len(self._trace.stimulus) / (time.process_time() - start)


_BENCH = """`timescale 1ns / 1ps
module bench;
  reg [{inputs}:0] stimulus [0:{last}];
  reg [{inputs}:0] in;
  wire [{outputs}:0] out;
  reg clk;
  integer row, file;
  ace engine(.clk(clk){connections});
{padding}  initial begin
    $readmemh("stimulus.hex", stimulus);
`ifdef CHECK
    file = $fopen("response.hex", "w");
`endif
    clk = 0;
    for (row = 0; row < `ROWS; row = row + 1) begin
      in = stimulus[row];
      #1 clk = 1;
      #1;
`ifdef CHECK
      $fwrite(file, "%h\\n", out);
`endif
      clk = 0;
    end
    $finish;
  end
endmodule
"""


class Icarus:
    """Replays a trace on the emitted Verilog, under a plain Verilog bench."""

    def __init__(self, config: AceConfig, trace: Trace, work: Path) -> None:
        self._trace, self._work = trace, work
        (work / "ace.v").write_text(emit(AceEngine(config), name="ace", header=asdict(config)).text)
        widths = [32 * trace.stimulus.shape[1], 32 * trace.response.shape[1]]
        connections = _connections(trace.inputs, "in") + _connections(trace.outputs, "out")
        (work / "bench.v").write_text(
            _BENCH.format(inputs=widths[0] - 1, outputs=widths[1] - 1,
                          last=len(trace.stimulus) - 1, connections=connections,
                          padding=_padding(trace.outputs))
        )
        big_endian = trace.stimulus[:, ::-1].astype(">u4")
        (work / "stimulus.hex").write_text("\n".join(row.tobytes().hex() for row in big_endian))
        rows = len(trace.stimulus)
        for name, flags in {"check": ["-DCHECK", f"-DROWS={rows}"], "run": [f"-DROWS={rows}"],
                            "none": ["-DROWS=0"]}.items():
            subprocess.run(
                ["iverilog", "-g2005", *flags, "-o", f"{name}.vvp", "bench.v", "ace.v"],
                cwd=work, check=True, capture_output=True,
            )

    def _cpu(self, name: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            ["vvp", "-n", f"{name}.vvp"], cwd=self._work, check=True, capture_output=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def check(self) -> None:
        """Compare every output in every cycle after the reset with the recording."""
        self._cpu("check")
        (reset,) = (n for n, port in enumerate(self._trace.inputs) if port.name == "rst")
        column = sum(_words(port) for port in self._trace.inputs[:reset])
        first = int(np.argmin(self._trace.stimulus[:, column]))  # rows under reset come first
        expected = self._trace.response[:, ::-1].astype(">u4")
        lines = (self._work / "response.hex").read_text().split()
        for row in range(first, len(expected)):
            if lines[row] != expected[row].tobytes().hex():
                raise RuntimeError(f"Icarus differs from the recording in cycle {row}")

    def hertz(self) -> float:
        """Cycles per second of CPU time, without start-up and reading the stimulus."""
        return len(self._trace.stimulus) / (self._cpu("run") - self._cpu("none"))


def _connections(ports: list[Port], vector: str) -> str:
    text, start = "", 0
    for port in ports:
        text += f",\n    .{port.name}({vector}[{start + port.width - 1}:{start}])"
        start += 32 * _words(port)
    return text


def _padding(ports: list[Port]) -> str:
    """Zeros between the outputs, as in the recording."""
    text, start = "", 0
    for port in ports:
        top = start + 32 * _words(port)
        if start + port.width < top:
            text += f"  assign out[{top - 1}:{start + port.width}] = 0;\n"
        start = top
    return text


def _interleaved(first: Callable[[], float], second: Callable[[], float]) -> list[list[float]]:
    figures: list[list[float]] = [[], []]
    for _ in range(REPEATS):
        for side, measure in enumerate((first, second)):
            figures[side].append(measure())
    return figures


def _print(name: str, figures: Sequence[float]) -> float:
    median = statistics.median(figures)
    print(
        f"  {name:34}{median / 1e3:10.2f} kHz   "
        f"({min(figures) / 1e3:.2f} .. {max(figures) / 1e3:.2f})"
    )
    return median


def main(argv: Sequence[str]) -> int:
    """Print the figures of both configurations."""
    parser = argparse.ArgumentParser(prog="python -m bench rtl_speed", description=__doc__)
    parser.add_argument("--small", default="test", help="preset with few lanes (test)")
    parser.add_argument("--wide", default="wide", help="preset with 64 lanes (wide)")
    options = parser.parse_args(argv)
    if shutil.which("iverilog") is None:
        raise SystemExit("bench rtl_speed: needs Icarus (apt-get install iverilog)")

    hertz, ratios = {}, {}
    for name, elements in ((options.small, 512), (options.wide, 8192)):
        config = preset(name)
        start = time.perf_counter()
        engine = AceRing.compiled(config)
        built = time.perf_counter() - start
        with tempfile.TemporaryDirectory(prefix="rtl-speed-") as folder:
            trace = _record(config, elements, Path(folder))
            compiled, icarus = Compiled(engine, trace), Icarus(config, trace, Path(folder))
            compiled.check()
            icarus.check()
            fast, slow = _interleaved(compiled.hertz, icarus.hertz)
        print(
            f"{name}: {config.alus * config.lanes} lanes, {len(trace.stimulus)} cycles of a "
            f"{NODES}-node ring all-reduce; model ready in {built:.1f} s; all outputs equal"
        )
        hertz[name] = _print("compiled", fast)
        ratios[name] = hertz[name] / _print("Icarus, same Verilog and inputs", slow)
        print(f"  ratio {ratios[name]:.1f}")

    config = preset(options.wide)
    one, two = _interleaved(
        lambda: _all_reduce(config, 1 << 16), lambda: _all_reduce(config, 1 << 16, threads=2)
    )
    print(
        f"{options.wide} in a {NODES}-node ring all-reduce, "
        "endpoint cycles per second of wall time:"
    )
    thread_ratio = 1 / _print("1 thread", one) * _print("2 threads", two)
    print(f"  ratio {thread_ratio:.2f}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    worst = min(ratios.values())
    result(
        "rtl_speed",
        ratio_vs_icarus=worst,
        thread_ratio=thread_ratio,
        hz_test=hertz[options.small],
        hz_64lane=hertz[options.wide],
        verdict="ok" if worst >= TARGET_RATIO and thread_ratio >= TARGET_THREADS else "short",
    )
    return 0

# SPDX-License-Identifier: Apache-2.0
"""Native models against CXXRTL, every output in every cycle; which presets have no native model.

Random designs hold every kind of cell, of all widths and signs, memories with all kinds of ports,
and hierarchy with logic from inputs to outputs. They, arithmetic and codecs run on random inputs;
engines also on recordings of them at work, in a ring or at a switch. CXXRTL takes too long for the
largest presets, which are made of the same components; for presets the bench only checks that they
have native models.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
from amaranth.lib import wiring

from bench._recordings import RECORDINGS
from bench._replay import Compiled, Trace
from bench.random_netlists import (
    random_cells,
    random_choices,
    random_inputs,
    random_memories,
    random_registers,
    random_tree,
)
from bench.result import result
from foldwire.catalog import CATALOG, build
from foldwire.console import say
from gen.compile import CompiledModel, compile_model, compile_rtlil
from gen.rtlil import DesignPort
from hw.bfp import format as bfp
from hw.bfp.codec import Compressor, Decompressor
from hw.fp.adder import FPAdder
from hw.fp.alu import ReduceALU

__all__ = ["PRESETS", "Totals", "differing", "main", "models_of"]

ROWS = 1000
GENERATORS = ("native", "cxxrtl")
PRESETS = [f"{name}/{preset}" for name, entry in CATALOG.items() for preset in entry.presets]


def _blocks() -> Iterator[tuple[str, Callable[[], wiring.Component]]]:
    for stages in (0, 3):
        yield f"adder_{stages}_stages", partial(FPAdder, stages=stages)
    yield "alu", partial(ReduceALU, 4)
    for name, fmt in bfp.PRESETS.items():
        yield f"compressor_{name}", partial(Compressor, fmt, lanes=8, bus_bits=256)
        yield f"decompressor_{name}", partial(Decompressor, fmt, lanes=8, bus_bits=256)


def models_of(
    rtlil: str, ports: Sequence[DesignPort], *, cache_dir: Path | None = None
) -> tuple[CompiledModel, CompiledModel]:
    """Compile a design with both generators; the native one keeps even small modules separate."""
    with mock.patch("gen.native.generate.LARGE_CELLS", 10):
        return _both(rtlil, ports, cache_dir)


def _both(
    rtlil: str, ports: Sequence[DesignPort], cache_dir: Path | None
) -> tuple[CompiledModel, CompiledModel]:
    native, cxxrtl = (
        compile_rtlil(rtlil, ports, name="random", cache_dir=cache_dir, generator=generator)
        for generator in GENERATORS
    )
    return native, cxxrtl


def _compiled(
    make: Callable[[], wiring.Component], name: str
) -> tuple[CompiledModel, CompiledModel]:
    native, cxxrtl = (
        compile_model(make(), name=name, generator=generator) for generator in GENERATORS
    )
    return native, cxxrtl


def differing(one: CompiledModel, other: CompiledModel, *, rows: int, seed: int) -> list[str]:
    """Outputs that differ between two models in *rows* cycles of random inputs."""
    inputs = random_inputs(one.ports, rows, seed)
    names = [port.name for port in one.ports if not port.is_input]
    with one.instance() as first, other.instance() as second:
        seen, expected = first.run(inputs, names), second.run(inputs, names)
    return [name for name in names if not np.array_equal(seen[name], expected[name])]


@dataclass
class Totals:
    """Counts over all comparisons."""

    designs: int = 0
    differing: int = 0
    recorded: int = 0
    presets: int = 0
    fallbacks: int = 0

    def compare(
        self, name: str, native: CompiledModel, cxxrtl: CompiledModel, trace: Trace | None = None
    ) -> None:
        """Run both on random inputs, and on *trace*; count and print differences."""
        different = differing(native, cxxrtl, rows=ROWS, seed=self.designs)
        cycles = f"{ROWS} random cycles"
        if trace is not None:
            for model in (native, cxxrtl):
                different += Compiled(model, trace).differing()
            cycles += f", {len(trace.stimulus)} recorded ones"
        fallback = native.generator != "native"
        verdict = f"differs at {', '.join(different[:3])}" if different else "equal"
        say(f"  {name:32}{'left to CXXRTL' if fallback else verdict}   ({cycles})")
        self.designs += 1
        self.recorded += trace is not None
        self.differing += bool(different)
        self.fallbacks += fallback

    def add_preset(self, name: str, native: CompiledModel) -> None:
        """Count and print whether a preset has a native model."""
        fallback = native.generator != "native"
        say(f"  {name:32}{'left to CXXRTL' if fallback else 'native'}")
        self.presets += 1
        self.fallbacks += fallback


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench codegen", description=__doc__)
    parser.add_argument("--seeds", type=int, default=8, help="random designs of each kind (8)")
    for what, known, text in (
        ("engines", list(RECORDINGS), "engines to compare"),
        ("presets", PRESETS, "designs of the catalog that must have native models"),
    ):
        parser.add_argument(
            f"--{what}", nargs="*", choices=known, default=known, metavar="NAME",
            help=f"{text}, of: {', '.join(known)}; all by default",
        )
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Print a line for each design, and how many differ or have no native code."""
    options = _options(argv)
    start = time.perf_counter()
    totals = Totals()
    for make in (random_cells, random_memories, random_tree, random_choices, random_registers):
        for seed in range(options.seeds):
            totals.compare(f"{make.__name__}({seed})", *models_of(*make(seed)))
    for name, block in _blocks():
        totals.compare(name, *_compiled(block, name))
    for name in options.engines:
        engine = RECORDINGS[name]
        models = _compiled(engine.component, engine.name)
        with tempfile.TemporaryDirectory(prefix="codegen-") as folder:
            totals.compare(name, *models, engine.trace(Path(folder)))
    for name in options.presets:
        design, _, preset = name.partition("/")
        component = build(design, preset, {}).component
        model = compile_model(component, name=design.replace("-", "_"), generator="native")
        totals.add_preset(name, model)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu_minutes = sum(each.ru_utime + each.ru_stime for each in used) / 60
    minutes = (time.perf_counter() - start) / 60
    result("codegen", **asdict(totals), minutes=minutes, cpu_minutes=cpu_minutes,
           verdict="ok" if totals.differing == totals.fallbacks == 0 else "short")
    return int(totals.differing > 0)

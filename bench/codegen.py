"""Native models against CXXRTL, on random inputs: random designs, then every engine of the project.

Every output is compared in every cycle. Random designs hold every kind of cell, of all widths and
signs, memories with all kinds of ports, and hierarchy with logic from inputs to outputs.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
from amaranth.lib import wiring

from bench.random_netlists import (
    random_cells,
    random_choices,
    random_inputs,
    random_memories,
    random_tree,
)
from bench.result import result
from gen.compile import CompiledModel, compile_model, compile_rtlil
from gen.rtlil import Port
from hw.ace import config as ace
from hw.ace.engine import AceEngine
from hw.bfp import format as bfp
from hw.bfp.codec import Compressor, Decompressor
from hw.fp.adder import FPAdder
from hw.fp.alu import ReduceALU
from hw.smartnic import config as nic
from hw.smartnic.nic import SmartNic

__all__ = ["differing", "main", "models_of"]

ROWS = 1000


def _engines(names: Sequence[str]) -> Iterator[tuple[str, Callable[[], wiring.Component]]]:
    for stages in (0, 3):
        yield f"adder_{stages}_stages", partial(FPAdder, stages=stages)
    yield "alu", partial(ReduceALU, 4)
    for name, fmt in bfp.PRESETS.items():
        yield f"compressor_{name}", partial(Compressor, fmt, lanes=8, bus_bits=256)
        yield f"decompressor_{name}", partial(Decompressor, fmt, lanes=8, bus_bits=256)
    for each in names:
        kind, _, name = each.partition(":")
        if kind == "ace":
            yield f"ace_{name}", partial(AceEngine, ace.preset(name))
        else:
            yield f"nic_{name}", partial(SmartNic, nic.preset(name))


def models_of(
    rtlil: str, ports: Sequence[Port], *, cache_dir: Path | None = None
) -> tuple[CompiledModel, CompiledModel]:
    """The models of a design by both generators; small modules of the native one stay apart too."""
    with mock.patch("gen.native.generate.LARGE_CELLS", 10):
        return _both(rtlil, ports, cache_dir)


def _both(
    rtlil: str, ports: Sequence[Port], cache_dir: Path | None
) -> tuple[CompiledModel, CompiledModel]:
    native, cxxrtl = (
        compile_rtlil(rtlil, ports, name="random", cache_dir=cache_dir, generator=generator)
        for generator in ("native", "cxxrtl")
    )
    return native, cxxrtl


def differing(one: CompiledModel, other: CompiledModel, *, rows: int, seed: int) -> list[str]:
    """Outputs in which two models differ on *rows* cycles of random inputs."""
    inputs = random_inputs(one.ports, rows, seed)
    names = [port.name for port in one.ports if not port.is_input]
    with one.instance() as first, other.instance() as second:
        seen, expected = first.run(inputs, names), second.run(inputs, names)
    return [name for name in names if not np.array_equal(seen[name], expected[name])]


def main(argv: Sequence[str]) -> int:
    """Print a line for each design, and how many differ or have no native code."""
    parser = argparse.ArgumentParser(prog="python -m bench codegen", description=__doc__)
    parser.add_argument("--seeds", type=int, default=8, help="random designs of each kind (8)")
    parser.add_argument(
        "--engines", nargs="*", metavar="KIND:PRESET",
        default=["ace:test", "ace:duo", "ace:ring", "ace:wide", "nic:test", "nic:40g", "nic:100g"],
        help="large engines, as ace:test or nic:100g; the small ones always run",
    )
    options = parser.parse_args(argv)
    wrong, fallbacks, designs = 0, 0, 0

    def compare(name: str, native: CompiledModel, cxxrtl: CompiledModel) -> None:
        nonlocal wrong, fallbacks, designs
        start = time.perf_counter()
        different = differing(native, cxxrtl, rows=ROWS, seed=designs)
        fallback = native.generator != "native"
        verdict = f"differs at {', '.join(different[:3])}" if different else "equal"
        print(f"  {name:32}{'left to CXXRTL' if fallback else verdict}"
              f"   ({ROWS} cycles, {time.perf_counter() - start:.1f} s)", flush=True)
        designs += 1
        wrong += bool(different)
        fallbacks += fallback

    for make in (random_cells, random_memories, random_tree, random_choices):
        for seed in range(options.seeds):
            compare(f"{make.__name__}({seed})", *models_of(*make(seed)))
    for name, component in _engines(options.engines):
        native, cxxrtl = (
            compile_model(component(), name=name, generator=generator)
            for generator in ("native", "cxxrtl")
        )
        compare(name, native, cxxrtl)
    result("codegen", designs=designs, differing=wrong, fallbacks=fallbacks,
           verdict="ok" if wrong == fallbacks == 0 else "short")
    return int(wrong > 0)

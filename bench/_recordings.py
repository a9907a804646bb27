# SPDX-License-Identifier: Apache-2.0
"""Recordings of designs at work, cycle by cycle: those of the engines, and arithmetic on random
operands.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from amaranth.lib import wiring

from bench._recording import Recording
from bench._replay import Trace, record_stepped
from bench.records.registered import modules
from foldwire.catalog import CATALOG, build
from gen.compile import compile_model
from sim.engines.registry import BLOCKS

__all__ = ["OF_PRESETS", "RECORDINGS"]


def _arithmetic(name: str, cycles: int = 2000) -> Recording:
    """A preset without a driver, on random inputs."""
    kind, _, chosen = name.partition("/")

    def make() -> wiring.Component:
        return build(kind, chosen, {}).component

    def trace(_: Path) -> Trace:
        model = compile_model(make(), name=kind)
        rng = np.random.default_rng(1)

        def run() -> None:
            inputs = [port for port in model.ports if port.is_input]
            with model.instance() as instance:
                for cycle in range(cycles):
                    for port in inputs:
                        value = int.from_bytes(rng.bytes(-(-port.width // 8)), "little")
                        value = cycle < 2 if port.name == "rst" else value % (1 << port.width)
                        instance.set(port.name, value)
                    instance.cycle()

        return record_stepped(model, run)

    return Recording(kind, make, trace)


OF_PRESETS: Mapping[str, Recording] = {
    **{
        name: each
        for found in modules("recordings").values() for name, each in found.RECORDINGS.items()
    },
    **{
        f"{kind}/{preset}": _arithmetic(f"{kind}/{preset}")
        for kind in BLOCKS for preset in CATALOG[kind].presets
    },
}
"""The recording of each preset of the catalog."""

RECORDINGS = {each.title: each for each in OF_PRESETS.values() if each.title}
"""Recordings of engines by title, small enough for all uses."""

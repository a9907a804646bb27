# SPDX-License-Identifier: Apache-2.0
"""A recording of a design at work, cycle by cycle: engines in a ring that all-reduce."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.lib import wiring

from bench._replay import Trace, record
from sim.engines.engine import engine_named
from sim.hosts.surroundings import Surroundings

__all__ = ["Recording", "of_ring"]


@dataclass(frozen=True)
class Recording:
    """A design and how to record it.

    Members
    -------
    name:
        Name of its compiled model.
    component:
        Makes the engine.
    trace:
        Records its inputs and outputs; takes a folder for temporary files.
    title:
        In `RECORDINGS`, which are small enough for all uses; empty for others.
    """

    name: str
    component: Callable[[], wiring.Component]
    trace: Callable[[Path], Trace]
    title: str = ""


def of_ring(engine: str, preset: str, elements: int, title: str = "") -> Recording:
    """An engine in a ring of four that all-reduces random arrays."""
    config = engine_named(engine).presets[preset]
    driver: Any = engine_named(engine).kind.driver

    def run() -> None:
        ring = driver(config, Surroundings(nodes=4, latency_cycles=16), skip_idle=False)
        rng = np.random.default_rng(1)
        ring.all_reduce([rng.standard_normal(elements).astype(np.float32) for _ in range(4)])

    make = partial(driver.component, config)
    return Recording(driver.name, make, partial(record, driver, config, run), title)

"""Recordings of designs at work, cycle by cycle: engines in a ring all-reduce, switches and
endpoints that reduce together, arithmetic on random operands.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from amaranth.lib import wiring
from numpy.typing import NDArray

from bench._replay import Trace, record, record_engine, record_stepped
from foldwire.catalog import CATALOG, build
from gen.compile import compile_model
from gen.configured import compile_configured
from hw.ace.config import preset as ace_preset
from hw.fp.ops import ReduceOp
from hw.smartnic.config import preset as nic_preset
from hw.switch.config import preset as switch_preset
from hw.switch.switch import Switch
from hw.switch_dma.config import preset as dma_preset
from hw.switch_dma.dma import SwitchDma
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.ring import AceRing
from sim.rtl.smartnic.ring import NicRing
from tb.switch_dma.fabric import AllReduce, flat, join

__all__ = ["OF_PRESETS", "RECORDINGS", "RINGS", "Recording"]


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
    """

    name: str
    component: Callable[[], wiring.Component]
    trace: Callable[[Path], Trace]


def _ring(driver: type[AceRing] | type[NicRing], config: Any, elements: int) -> Recording:
    """An engine in a ring of four that all-reduces random arrays."""

    def run() -> None:
        ring = driver(config, Surroundings(nodes=4, latency_cycles=16), skip_idle=False)
        ring.all_reduce(_arrays(elements))

    make = partial(driver.component, config)
    return Recording(driver.name, make, partial(record, driver, config, run))


def _arrays(elements: int) -> list[NDArray[np.float32]]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(elements).astype(np.float32) for _ in range(4)]


def _at_switch(
    which: str, switch: str, dma: str, elements: int, members: int = 3
) -> Recording:
    """A switch that reduces the operands of pushing endpoints, or one of these endpoints."""
    configs = switch_preset(switch), dma_preset(dma)

    def run() -> None:
        system = join(flat(*configs, members, stalls=0.3))
        job = AllReduce(system, ReduceOp.SUM_F32, elements)
        job.start()
        system.settle(quiet=700)

    kind, config = {"switch": (Switch, configs[0]), "switch_dma": (SwitchDma, configs[1])}[which]

    def used(made: Any) -> Any:
        return mock.patch(
            "sim.rtl.switch.stepped.compile_configured", lambda each, *rest, **options:
            made if each is kind else compile_configured(each, *rest, **options)
        )

    def trace(work: Path) -> Trace:
        return record_engine(compile_configured(kind, config, name=which), used, run, work)

    return Recording(which, partial(kind, config), trace)


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


RINGS = {
    "ACE test": _ring(AceRing, ace_preset("test"), 512),
    "ACE duo": _ring(AceRing, ace_preset("duo"), 512),
    "smart NIC test": _ring(NicRing, nic_preset("test"), 4096),
}
"""Engines in rings, small enough for all uses."""

RECORDINGS = {
    **RINGS,
    "ACE ring": _ring(AceRing, ace_preset("ring"), 4096),
    "smart NIC 40g": _ring(NicRing, nic_preset("40g"), 8192),
    "smart NIC 100g": _ring(NicRing, nic_preset("100g"), 8192),
    "switch test": _at_switch("switch", "test", "test", 701),
    "switch endpoint test": _at_switch("switch_dma", "test", "test", 701),
}
"""All recordings by title. A NIC is recorded together with its port of an Ethernet switch."""

OF_PRESETS = {
    "ace/test": RINGS["ACE test"],
    "ace/duo": RINGS["ACE duo"],
    "ace/ring": RECORDINGS["ACE ring"],
    "ace/wide": _ring(AceRing, ace_preset("wide"), 4096),
    "ace/isca21": _ring(AceRing, ace_preset("isca21"), 4096),
    "smartnic/test": RINGS["smart NIC test"],
    "smartnic/40g": RECORDINGS["smart NIC 40g"],
    "smartnic/100g": RECORDINGS["smart NIC 100g"],
    "smartnic/400g": _ring(NicRing, nic_preset("400g"), 32768),
    "switch/test": RECORDINGS["switch test"],
    "switch/8-port": _at_switch("switch", "8-port", "1-link", 1001, 6),
    "switch/16-port": _at_switch("switch", "16-port", "1-link", 1001, 12),
    "switch-dma/test": RECORDINGS["switch endpoint test"],
    "switch-dma/1-link": _at_switch("switch_dma", "8-port", "1-link", 2001),
    "switch-dma/6-link": _at_switch("switch_dma", "8-port", "6-link", 6001),
    **{
        f"{kind}/{preset}": _arithmetic(f"{kind}/{preset}")
        for kind in ("adder", "alu") for preset in CATALOG[kind].presets
    },
}
"""The recording of each preset of the catalog."""

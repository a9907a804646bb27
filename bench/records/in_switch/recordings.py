# SPDX-License-Identifier: Apache-2.0
"""Recordings of switches and of endpoints that reduce together."""

from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from bench._recording import Recording
from bench._replay import Trace, record_engine
from gen.configured import compile_configured
from hw.fp.ops import ReduceOp
from hw.switch.config import preset as switch_preset
from hw.switch.switch import Switch
from hw.switch_dma.config import preset as dma_preset
from hw.switch_dma.dma import SwitchDma
from tb.switch_dma.fabric import AllReduce, flat, join

__all__ = ["RECORDINGS"]


def _at_switch(
    which: str, switch: str, dma: str, elements: int, members: int = 3, title: str = ""
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

    return Recording(which, partial(kind, config), trace, title)


RECORDINGS = {
    "switch/test": _at_switch("switch", "test", "test", 701, title="switch test"),
    "switch/8-port": _at_switch("switch", "8-port", "1-link", 1001, 6),
    "switch/16-port": _at_switch("switch", "16-port", "1-link", 1001, 12),
    "switch-dma/test": _at_switch("switch_dma", "test", "test", 701, title="switch endpoint test"),
    "switch-dma/1-link": _at_switch("switch_dma", "8-port", "1-link", 2001),
    "switch-dma/6-link": _at_switch("switch_dma", "8-port", "6-link", 6001),
}

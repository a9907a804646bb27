# SPDX-License-Identifier: Apache-2.0
"""Systems of endpoints on switches that reduce, a collective on each, and what goes wrong."""

import random
from dataclasses import dataclass, replace
from typing import Any

from bench.random_rtl.on_switches import OnSwitches
from bench.random_rtl.trial import CLEAN, FAULTS
from hw.fp.ops import ReduceOp
from hw.link.retry_frame import RetryConfig
from hw.switch.config import SwitchConfig
from hw.switch.config import preset as switch_preset
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.config import preset as dma_preset
from hw.switch_dma.layouts import Part

__all__ = ["CLASSES", "PARTS", "Case", "Engine", "draw_case", "draw_engines", "kinds_of"]

MOST_ENDPOINTS = 8

CLASSES = (
    CLEAN,
    *FAULTS,
    "modes differ",
    "eviction storm",
    "region reprogrammed",
    "endpoint late",
    "endpoint reset",
    "operand outside",
    "bad packets",
)

PARTS = {"all-gather": Part.SEND, "broadcast": Part.SEND, "reduce-scatter": Part.STORE}
"""Collectives in which endpoints send, or store, only a part."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Configurations of the switches, the endpoints, and their links; without *retry*, wires must
    be error-free."""

    switch: SwitchConfig
    dma: SwitchDmaConfig
    retry: RetryConfig | None


@dataclass(frozen=True, kw_only=True)
class Case(OnSwitches):
    """A system, a collective on it, and what goes wrong.

    Members
    -------
    engine:
        Configurations.
    groups:
        Endpoints of each region. The fault is in the first one; the others run at the same time.
    leaf:
        Endpoints at each leaf switch; 0: one switch per plane.
    mode:
        ``push``, ``pull``, or ``whole``: pull in which own operands travel, too.
    what:
        Collective of the first region: ``all-reduce``, one of `PARTS`, or ``deterministic``, that
        is FP32 in fixed point.
    fault:
        One of `CLASSES`.
    latency, stalls, timeout, skew:
        Latency of links; stall rate of memories, 0 to 1; time-out of tables; most cycles that an
        endpoint starts late. Times in cycles.
    seed:
        Seed of the data, and of the place and time of the fault.
    """

    engine: Engine
    groups: tuple[tuple[int, ...], ...]
    leaf: int
    mode: str
    what: str
    fault: str
    op: ReduceOp
    elements: int
    latency: int
    stalls: float
    timeout: int
    skew: int
    seed: int

    def __str__(self) -> str:
        switch, dma = self.engine.switch, self.engine.dma
        return (
            f"{self.mode} {self.what} x{'+'.join(map(str, map(len, self.groups)))} on {self.where} "
            f"{self.op.name.lower()} {self.elements} links {dma.links} entries {switch.entries} "
            f"buffers {switch.buffer_packets}{' retry' * (self.engine.retry is not None)} "
            f"latency {self.latency} stalls {self.stalls:g} timeout {self.timeout} seed {self.seed}"
        )


def draw_engines(rng: random.Random, count: int) -> list[Engine]:
    """Draw *count* different engines, every other one with retry, small enough to run fast."""
    found: list[Engine] = []
    while len(found) < count:
        packets = rng.choice((1, 2, 2, 4))
        shared: dict[str, Any] = {
            "payload_flits": rng.choice((4, 8, 8)), "alu_stages": rng.choice((0, 1, 3)),
            "buffer_packets": packets, "credits": packets, "endpoints": MOST_ENDPOINTS,
            "trace": True,
        }
        switch = replace(
            switch_preset("test"), ports=rng.choice((4, 4, 6)), entries=rng.choice((1, 2, 4)),
            queue_packets=rng.choice((1, 2)), homes=rng.choice((1, 4, 8)), **shared,
        )
        dma = replace(
            dma_preset("test"), links=rng.choice((1, 1, 2)), waves=rng.choice((2, 4)),
            wave_blocks=rng.choice((2, 4)), read_ahead=rng.choice((1, 2, 4)),
            fixed_point=rng.random() < 0.8, parts=rng.random() < 0.8, **shared,
        )
        retry = RetryConfig(slots=8, timeout_cycles=120, tries=60) if len(found) % 2 else None
        drawn = Engine(switch=switch, dma=dma, retry=retry)
        if drawn not in found:
            found.append(drawn)
    return found


def kinds_of(dma: SwitchDmaConfig) -> list[str]:
    """Collectives that endpoints can do; an all-reduce counts twice if others are in parts."""
    parts = list(PARTS) if dma.parts else []
    return ["all-reduce"] * (2 if parts else 1) + ["deterministic"] * dma.fixed_point + parts


def draw_case(rng: random.Random, engine: Engine, fault: str) -> Case | None:
    """Draw a collective on a system of *engine*; None if the fault cannot occur in it."""
    ports = engine.switch.ports
    leaf = rng.choice((0, 0, 2, ports - 1))
    most = min(MOST_ENDPOINTS, leaf * ports if leaf else ports)
    members = rng.randint(leaf + 1 if leaf else 2, most)
    order = rng.sample(range(members), members)
    cut = rng.randint(2, members - 2) if members >= 4 and rng.random() < 0.5 else members
    groups = [order[:cut], order[cut:]]
    case = Case(
        engine=engine,
        groups=tuple(tuple(sorted(group)) for group in groups if group),
        leaf=leaf,
        mode=rng.choice(("push", "push", "pull", "pull", "whole")),
        what=rng.choice(kinds_of(engine.dma)),
        fault=fault,
        op=rng.choice(list(ReduceOp)),
        elements=round(2 ** rng.uniform(3, 10)),
        latency=rng.choice((1, 3, 9, 25)),
        stalls=rng.choice((0.0, 0.1, 0.3)),
        timeout=rng.choice((20, 100, 300)),
        skew=rng.choice((0, 50, 500)),
        seed=rng.getrandbits(32),
    )
    if fault == "packet repeated" and engine.retry is None:
        return None  # only a link with retry can deliver a packet twice
    if fault == "bad packets" and engine.retry is not None:
        return None  # the link would drop them before the switch
    if fault == "operand outside":
        if not engine.dma.fixed_point:
            return None
        case = replace(case, what="deterministic")
    if case.what == "deterministic":
        case = replace(case, op=ReduceOp.SUM_F32)
    if fault == "eviction storm":
        if engine.switch.entries > 2:
            return None
        case = replace(case, timeout=rng.randint(1, 10), skew=500)
    return case

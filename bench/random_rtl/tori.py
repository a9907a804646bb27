# SPDX-License-Identifier: Apache-2.0
"""Tori of RTL engines with faults drawn by a seed: Hamiltonian cycles, and phases by dimension."""

import random
from dataclasses import replace
from typing import Any

from bench.random_rtl.rings import CLASSES, Case, draw_case, run_case
from bench.random_rtl.trial import Kind
from bench.records.ace.rings import RINGS
from hw.ace.config import AceConfig
from sim.collectives.phase_order import BY_DIMENSION, joined_steps
from sim.hosts.wiring import EngineWiring
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = ["TORI", "draw_engines", "draw_wiring"]

_CLOCK_HZ = 1e9
_MOST_NODES = 12


def draw_engines(rng: random.Random, count: int) -> list[AceConfig]:
    """*count* different engines with ports for two or three dimensions, small enough to run fast.
    """
    found: list[AceConfig] = []
    while len(found) < count:
        ports, fsms = rng.choice((4, 4, 6)), rng.choice((2, 4))
        ring = RINGS.draw(rng)
        drawn = replace(
            ring, bus_bytes=16, ports=ports, fsms=fsms, banks=rng.choice((2, 8)),
            alus=rng.choice((1, ports)), memory_ports=rng.choice((1, 2)), program_words=256,
            sram_bytes=fsms * ring.contexts * rng.choice((2 << 10, 4 << 10)), max_nodes=16,
        )
        if rng.random() < 0.4:
            drawn = _by_phase(rng, drawn)
        if drawn not in found:
            found.append(drawn)
    return found


def _by_phase(rng: random.Random, engine: AceConfig) -> AceConfig:
    """The engine with partitions by phase."""
    phases, contexts = rng.choice((3, 4)), engine.contexts
    slots = rng.choice(((), tuple(rng.randint(1, contexts) for _ in range(phases + 1))))
    return replace(
        engine, partitions="phase", phases=phases, fsms=2 * phases, partition_slots=slots,
        sram_bytes=(phases + 1) * engine.sram_bytes,
    )


def draw_wiring(rng: random.Random, engine: AceConfig) -> EngineWiring | None:
    """A torus with rings or paths for *engine*, and a latency of its own in each dimension; None if
    they do not fit together."""
    style = rng.choice(("hamiltonian", *BY_DIMENSION))
    gather_backwards = rng.random() < 0.3
    least = 3 if style == "hamiltonian" else 2
    dimensions = []
    for _ in range(rng.choice((2, 2, 3))):
        size = rng.randint(least, 4)
        dimensions.append(
            Dimension(
                kind="ring", size=size, bandwidth_bytes_per_s=engine.bus_bytes * _CLOCK_HZ,
                latency_s=rng.choice((1, 3, 9, 40)) / _CLOCK_HZ,
                single_link=size == 2 and rng.random() < 0.4,
            )
        )
    network = Network(dimensions)
    ports = sum(each.links_per_node for each in dimensions)
    if network.nodes > _MOST_NODES or ports > engine.ports:
        return None
    if engine.phased and style != "hamiltonian":
        steps = joined_steps(
            range(len(dimensions)), CollectiveKind.ALL_REDUCE, style,
            gather_backwards=gather_backwards,
        )
        if len(steps) > engine.phases:
            return None
    if style == "hamiltonian":
        return EngineWiring.hamiltonian(network, clock_hz=_CLOCK_HZ, bus_bytes=engine.bus_bytes)
    return EngineWiring.by_dimension(
        network, style=style, fsms=engine.first_fsms, gather_backwards=gather_backwards,
        bidirectional=rng.random() < 0.7, clock_hz=_CLOCK_HZ, bus_bytes=engine.bus_bytes,
    )


def _draw_case(rng: random.Random, engine: AceConfig, fault: str) -> Case | None:
    wiring = draw_wiring(rng, engine)
    return None if wiring is None else draw_case(rng, engine, fault, wiring=wiring)


def _collective(case: Any) -> str:
    torus = case.ring.wiring.torus
    style = "hamiltonian" if torus is None else torus.style
    return f"{case.command.collective.name.lower().replace('_', '-')} {style}"


TORI = Kind(
    name="tori", classes=CLASSES, engines=6, clean=40, per_class=15, least=(6, 40, 15),
    draw_engines=draw_engines, draw_case=_draw_case, collective=_collective, run=run_case,
)
"""Tori of ACE."""

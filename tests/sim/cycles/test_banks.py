# SPDX-License-Identifier: Apache-2.0
"""Banks of the cycle model are those of the RTL, in groups of them, too."""

from dataclasses import replace

import numpy as np
import pytest

from hw.ace.config import preset
from sim.collectives.fsm_program import PROGRAM_ENTRY
from sim.cycles.ace.crossbar import _bank
from sim.cycles.ace.model import EngineModel
from sim.hosts.command import Command
from sim.hosts.script import Interrupt, Issue
from sim.hosts.surroundings import Surroundings
from sim.hosts.wiring import EngineWiring
from sim.network.network import Network
from sim.runs.scripts import draw_inputs, run_engines
from sim.workload.graph import CollectiveKind
from tests.hw.ace.test_banked_sram import bank_of
from tests.sim.cycles.test_tori import ACE

DUO = replace(preset("duo"), banks=8)
STEPS = [Issue(command=0), Interrupt()]


@pytest.mark.parametrize("banks, interleave", [
    (1, 0), (1, 1), (8, 0), (8, 8), (8, 4), (8, 2), (8, 1), (64, 16),
])
def test_a_row_has_the_bank_that_it_has_in_rtl(banks, interleave):
    config = replace(preset("duo"), banks=banks, interleave=interleave)
    command = Command(elements=64, destination=4096)
    model = EngineModel(config, Surroundings(nodes=2), [command], [STEPS] * 2)
    settings = model.state.c.view(np.recarray)[0]
    place = {"depth": config.sram_beats, "banks": banks, "interleave": interleave or banks}
    found = [int(_bank(settings, row)) for row in range(config.sram_beats)]
    assert found == [bank_of(row, **place)[0] for row in range(config.sram_beats)]
    assert np.bincount(found).tolist() == [config.sram_beats // banks] * banks


def _both(config, around, kind, elements):
    """Runs in RTL and of the cycle model: cycles, those of each host, and flits of all links."""
    commands = [Command(collective=kind, elements=elements, destination=1 << 15)]
    inputs = draw_inputs(commands, around.nodes, seed=elements)
    scripts = [STEPS] * around.nodes
    rtl = run_engines("ace", config, around, commands, scripts, inputs)
    assert rtl.wrong == 0 and rtl.checked == around.nodes
    model = run_engines(
        "ace", config, around, commands, scripts, levels="cycles", start_cycle=rtl.begin
    )
    return [
        (each.cycles, each.steps, {end: link.flits for end, link in each.links.items()})
        for each in (rtl, model)
    ]


@pytest.mark.parametrize("kind", list(PROGRAM_ENTRY), ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize(
    "changes", [
        pytest.param({"interleave": 1}, marks=pytest.mark.full),
        {"interleave": 2, "bank_ports": "1rw"},
    ], ids=str,
)
def test_rings_with_groups_of_banks_take_the_cycles_of_the_rtl(changes, kind):
    around = Surroundings(nodes=3, latency_cycles=10, memory_bytes=1 << 16)
    for elements in (60, 1300):
        rtl, model = _both(replace(DUO, **changes), around, kind, elements)
        assert rtl == model


@pytest.mark.full
@pytest.mark.parametrize("latency, elements", [(1, 1950), (1, 2300), (7, 2650), (20, 900)])
def test_an_alu_waits_for_a_packet_whose_turn_is_near(latency, elements):
    """One ALU for two ports and a bank for everyone: the last beat of a packet waits, and the next
    one of its port, which has the turn, keeps the other port from the ALU meanwhile."""
    around = Surroundings(nodes=2, latency_cycles=latency, memory_bytes=1 << 16)
    config = replace(DUO, alus=1, banks=1, bank_ports="1rw")
    rtl, model = _both(config, around, CollectiveKind.ALL_REDUCE, elements)
    assert rtl == model


@pytest.mark.full
@pytest.mark.parametrize("kind", list(PROGRAM_ENTRY), ids=lambda kind: kind.name.lower())
def test_tori_with_groups_of_banks_take_the_cycles_of_the_rtl(kind):
    network = Network.torus((2, 2), bandwidth_bytes_per_s=16e9, latency_s=9e-9)
    wiring = EngineWiring.by_dimension(
        network, style="multi_colour", fsms=4, clock_hz=1e9, bus_bytes=16
    )
    around = Surroundings(nodes=4, wiring=wiring, memory_bytes=1 << 16)
    for elements in (256, 2304):
        rtl, model = _both(replace(ACE, interleave=2), around, kind, elements)
        assert rtl == model


def test_the_interleave_decides_what_meets():
    command, around = Command(elements=1300, destination=8192), Surroundings(nodes=3)
    seen = set()
    for interleave in (1, 2, 4, 8):
        model = EngineModel(
            replace(DUO, interleave=interleave), around, [command], [STEPS] * 3
        )
        model.run()
        seen.add(int(model.state.node["bank_conflicts"].sum()))
    assert len(seen) == 4

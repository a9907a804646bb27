# SPDX-License-Identifier: Apache-2.0
"""Engines with partitions by phase: RTL and cycle model, beat by beat; and what both organisations
had apart before."""

from dataclasses import replace

import pytest

from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.hosts.wiring import EngineWiring
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.workload.graph import CollectiveKind
from tests.families import full
from tests.sim.cycles.test_tori import ACE, GHZ, both

REDUCE, SCATTER, GATHER = (
    CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER,
)
BASE = replace(ACE, sram_bytes=128 << 10)


def by_phase(phases, fsms, *slots, contexts=2, **changes):
    """The engine with partitions."""
    return replace(
        BASE, partitions="phase", phases=phases, fsms=fsms, contexts=contexts,
        partition_slots=slots, **changes,
    )


def surroundings(config, shape, style, *, stalls=0.0, latency_cycles=30, seed=1):
    network = Network([
        Dimension.ring(size, 16 * GHZ, latency_cycles / GHZ, single_link=size == 2)
        for size in shape
    ])
    wiring = EngineWiring.by_dimension(
        network, style=style, fsms=config.first_fsms, clock_hz=GHZ, bus_bytes=16
    )
    return Surroundings(
        nodes=network.nodes, wiring=wiring, memory_bytes=1 << 18, link_stalls=stalls,
        memory_stalls=stalls, seed=seed,
    )


def apart(work, *, block=None):
    """Commands in places of their own."""
    return [
        Command(
            collective=kind, elements=elements, block=block, source=n << 16,
            destination=(n << 16) + (1 << 15),
        )
        for n, (kind, elements) in enumerate(work)
    ]


def check(config, shape, style, work, *, stalls=0.0, latency_cycles=30, seed=1, block=None):
    """Every beat of all links is in the same cycle."""
    around = surroundings(
        config, shape, style, stalls=stalls, latency_cycles=latency_cycles, seed=seed
    )
    commands = apart(work, block=block)
    rtl, model = both(config, around, commands, trace=True)
    assert rtl.checked == around.nodes * len(commands) and rtl.wrong == 0
    assert rtl.cycles == model.cycles
    for end, link in rtl.links.items():
        assert link.beat_cycles.tolist() == model.links[end].beat_cycles.tolist(), end


MORE_SLOTS = by_phase(3, 12, 2, 2, 2, 3, contexts=3, banks=2, bank_ports="1rw")
"""Those of results are the smaller ones."""


@pytest.mark.parametrize("config, shape, style, work, stalls, latency_cycles", [
    (by_phase(3, 12), (3, 3), "enhanced", [(REDUCE, 5000)], 0.1, 30),
    *full((
        (MORE_SLOTS, (3, 3), "enhanced", [(REDUCE, 5000)], 0.1, 30),
        (by_phase(3, 12, contexts=1, rx_packets=64), (2, 2), "enhanced",
         [(SCATTER, 2666), (GATHER, 2666), (REDUCE, 8000)], 0.0, 30),
        (by_phase(2, 8, banks=8, bank_ports="1rw", alus=1), (3, 2), "baseline",
         [(SCATTER, 2666), (GATHER, 8000), (REDUCE, 8000)], 0.0, 5),
        (by_phase(4, 16, 1, 1, 2, 2, 1, banks=2), (3, 2), "halves", [(SCATTER, 97)], 0.1, 5),
        (by_phase(3, 8, 2, 1, 2, 2, phase_fsms=(2, 4, 2)), (3, 2), "enhanced", [(REDUCE, 5003)],
         0.0, 90),
        (by_phase(6, 12, rx_packets=4, tx_packets=2), (3, 2), "multi_colour", [(REDUCE, 3000)],
         0.0, 30),
    )),
], ids=str)
def test_every_beat_is_in_the_cycle_of_the_model(
    config, shape, style, work, stalls, latency_cycles
):
    """One slot or several in each partition, equal and unequal FSMs, copies, phases to spare."""
    check(config, shape, style, work, stalls=stalls, latency_cycles=latency_cycles)


@pytest.mark.full
@pytest.mark.parametrize("config, style, work", [
    (by_phase(3, 6, contexts=1, banks=1, memory_ports=1, tx_packets=16), "enhanced",
     [(SCATTER, 340), (SCATTER, 340)]),
    (replace(BASE, fsms=16, contexts=1, banks=2, alus=1, rx_packets=64), "dimension_ordered",
     [(REDUCE, 1000), (SCATTER, 1000), (GATHER, 333)]),
], ids=str)
def test_bursts_end_when_the_skid_buffer_has_room_though_writes_wait(config, style, work):
    """Short bursts under conflicts at banks: the place of one is free when its last beat has come,
    which the beat before may hold up by no more than the buffer."""
    check(config, (3, 2), style, work)


@pytest.mark.full
def test_a_forwarded_packet_goes_first_once_its_header_is_there():
    """Also while its only beat is still on its way through a queue in block memory."""
    config = replace(
        BASE, contexts=3, banks=2, alus=1, memory_ports=1, rx_packets=64, tx_packets=16
    )
    check(
        config, (3, 3), "baseline", [(REDUCE, 32), (GATHER, 32), (REDUCE, 97)], latency_cycles=5
    )


@pytest.mark.full
@pytest.mark.parametrize("config, block, work", [
    (replace(BASE, sram_bytes=48 << 10), 16, [(SCATTER, 333), (GATHER, 3000)]),
    *((by_phase(2, 8, contexts=contexts), None, [(SCATTER, 333), (GATHER, 2500)])
      for contexts in (4, 5)),
], ids=str)
def test_blocks_without_data_pass_while_the_ones_before_them_wait_for_memory(config, block, work):
    """The walker of the TX DMA is at the next job before the bursts of the last block have gone."""
    check(config, (3, 3), "baseline", work, latency_cycles=2, block=block)


@pytest.mark.parametrize("shape, style, rtl", [
    ((3, 3), "enhanced", (0,)), ((3, 2), "baseline", (2, 5)), ((5,), "baseline", (0, 3)),
    pytest.param((3, 3), "enhanced", (1, 4, 7), marks=pytest.mark.full),
], ids=str)
def test_rtl_among_models_sends_golden_packets_in_every_phase(shape, style, rtl):
    config = by_phase(3, 12)
    around = surroundings(config, shape, style, latency_cycles=5)
    levels = ["rtl" if rank in rtl else "cycles" for rank in range(around.nodes)]
    commands = apart([(REDUCE, 3000), (SCATTER, 901), (GATHER, 901)])
    mixed, model = both(config, around, commands, levels=levels)
    assert mixed.checked == 3 * len(rtl) and mixed.wrong == 0 and mixed.packets > 0
    assert mixed.cycles == model.cycles


@pytest.mark.full
def test_golden_packets_of_a_ring_are_of_the_blocks_that_its_collective_has():
    """Slots of the last partition are small: blocks of an all-reduce are as well, not those of a
    reduce-scatter, which has one there."""
    around = Surroundings(nodes=5, memory_bytes=1 << 18)
    levels = ["rtl", "cycles", "rtl", "rtl", "cycles"]
    commands = apart([(SCATTER, 8000), (REDUCE, 8000), (GATHER, 8000)])
    mixed, model = both(MORE_SLOTS, around, commands, levels=levels)
    assert mixed.checked == 9 and mixed.wrong == 0 and mixed.packets > 0
    assert mixed.cycles == model.cycles

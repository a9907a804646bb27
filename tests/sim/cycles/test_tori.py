# SPDX-License-Identifier: Apache-2.0
"""Engines on tori: rings of RTL, models and both, on links of every dimension."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from hw.ace.config import AceConfig
from sim.collectives.fsm_program import PROGRAM_ENTRY
from sim.hosts.command import Command
from sim.hosts.script import Compute, Interrupt, Issue, Reached
from sim.hosts.surroundings import Surroundings
from sim.hosts.wiring import EngineWiring
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.rtl.ace.ring import AceRing
from sim.rtl.driver import Request
from sim.runs.scripts import draw_inputs, run_engines
from sim.workload.graph import CollectiveKind
from tests.families import full

GHZ = 1e9
ACE = AceConfig(
    ports=4, bus_bytes=16, packet_bytes=64, sram_bytes=64 << 10, banks=8, alus=4, fsms=4,
    contexts=4, program_words=256, memory_ports=2, rx_packets=16, tx_packets=4, max_nodes=16,
    address_bits=32,
)


def wired(sizes, *, latency_cycles=8, paces=1.0, **options):
    """Surroundings of a torus whose links of dimension d have *latency_cycles* x (d + 1)."""
    paces = np.broadcast_to(paces, len(sizes))
    network = Network.torus(
        sizes, bandwidth_bytes_per_s=[16 * GHZ * each for each in paces],
        latency_s=[latency_cycles * (d + 1) / GHZ for d in range(len(sizes))],
    )
    wiring = EngineWiring.hamiltonian(network, clock_hz=GHZ, bus_bytes=16)
    return Surroundings(nodes=network.nodes, wiring=wiring, memory_bytes=1 << 17, **options)


def both(config, around, commands, *, levels="rtl", scripts=None, **options):
    """Runs at *levels* and as models alone."""
    end = Interrupt() if len(commands) == 1 else Reached(count=len(commands))
    steps = scripts or [
        [*(Issue(command=n) for n in range(len(commands))), end]
    ] * around.nodes
    inputs = draw_inputs(commands, around.nodes, seed=5)
    first = run_engines("ace", config, around, commands, steps, inputs, levels=levels, **options)
    model = run_engines(
        "ace", config, around, commands, steps, levels="cycles", start_cycle=first.begin, **options
    )
    return first, model


def apart(kind, elements, number=0):
    """A command whose vectors are nobody else's."""
    at = number << 14
    return Command(collective=kind, elements=elements, source=at, destination=at + (1 << 13))


@pytest.mark.parametrize("collective", list(PROGRAM_ENTRY), ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize("sizes", [(3, 3), (4, 3)], ids=str)
def test_results_are_exact_and_take_the_cycles_of_the_model(sizes, collective):
    for elements in (1, 77, 2000):
        rtl, model = both(ACE, wired(sizes), [apart(collective, elements)])
        assert rtl.checked == np.prod(sizes) and rtl.wrong == 0
        assert rtl.cycles == model.cycles
        assert {end: each.flits for end, each in rtl.links.items()} == {
            end: each.flits for end, each in model.links.items()
        }


def test_every_link_is_at_work():
    rtl, _ = both(ACE, wired((4, 4)), [apart(CollectiveKind.ALL_REDUCE, 2000)])
    beats = [each.beats for each in rtl.links.values()]
    assert len(beats) == 64 and min(beats) > 0.7 * max(beats)


@pytest.mark.full
def test_fsms_that_share_ports_serve_the_oldest_chunk_first_in_rtl_too():
    """Two FSMs for each path, and more chunks than contexts: by numbers of FSMs it takes other
    cycles."""
    config = replace(ACE, fsms=8, contexts=2, memory_ports=4)
    network = Network.torus((2, 2), bandwidth_bytes_per_s=16 * GHZ, latency_s=16 / GHZ)
    wiring = EngineWiring.by_dimension(
        network, style="baseline", fsms=8, clock_hz=GHZ, bus_bytes=16
    )
    around = Surroundings(nodes=4, wiring=wiring, memory_bytes=1 << 18)
    rtl, model = both(
        config, around, [Command(elements=16384, source=0, destination=1 << 17)]
    )
    assert rtl.checked == 4 and rtl.wrong == 0
    assert rtl.cycles == model.cycles


DEEP = replace(ACE, fsms=8, sram_bytes=128 << 10, rx_packets=64, tx_packets=64)
"""Header queues in block memory, and two FSMs for each path."""
NARROW = replace(ACE, fsms=8, contexts=2, alus=1, banks=4, memory_ports=3, tx_packets=2)
FEW = replace(ACE, fsms=8, contexts=2, rx_packets=4, tx_packets=2)
"""So few credits that READYs wait for room, and come to an FSM from several ports at once."""


@pytest.mark.parametrize("config, shape, style, elements, stalls, latency_cycles", [
    (ACE, (2, 3), "multi_colour", (400, 9000), 0.0, 5),
    *full((
        (FEW, (2, 2), "dimension_ordered", (400, 400), 0.0, 5),
        (FEW, (2, 2), "dimension_ordered", (1000, 1000), 0.0, 5),
        (DEEP, (2, 3), "multi_colour", (9000, 9000), 0.0, 30),
        (DEEP, (2, 2), "halves", (5000,), 0.1, 90),
        (NARROW, (2, 3), "multi_colour", (5000, 5000), 0.0, 30),
        (NARROW, (2, 3), "baseline", (9000,), 0.1, 90),
        (NARROW, (4, 4), "baseline", (1,), 0.0, 60),
    )),
], ids=str)
def test_every_beat_on_single_links_is_in_the_cycle_of_the_model(
    config, shape, style, elements, stalls, latency_cycles
):
    """Units, FSMs and DMAs meet everywhere, and each must have the turn that RTL gives it."""
    network = Network([
        Dimension.ring(size, 16 * GHZ, latency_cycles / GHZ, single_link=size == 2)
        for size in shape
    ])
    wiring = EngineWiring.by_dimension(
        network, style=style, fsms=config.fsms, clock_hz=GHZ, bus_bytes=16
    )
    around = Surroundings(
        nodes=network.nodes, wiring=wiring, memory_bytes=1 << 20, link_stalls=stalls,
        memory_stalls=stalls,
    )
    commands = [
        Command(elements=each, source=n << 17, destination=(4 + n) << 17)
        for n, each in enumerate(elements)
    ]
    rtl, model = both(config, around, commands, trace=True)
    assert rtl.checked == network.nodes * len(commands) and rtl.wrong == 0
    assert rtl.cycles == model.cycles
    for end, link in rtl.links.items():
        assert link.beat_cycles.tolist() == model.links[end].beat_cycles.tolist()


@pytest.mark.parametrize("rtl", [(0,), (1, 4, 7), (0, 1, 2, 3, 4, 5, 6, 7)], ids=str)
def test_rtl_among_models_sends_golden_packets_over_links_of_any_latency(rtl):
    commands = [apart(kind, 900, n) for n, kind in enumerate(PROGRAM_ENTRY)]
    levels = ["rtl" if rank in rtl else "cycles" for rank in range(9)]
    mixed, model = both(ACE, wired((3, 3), latency_cycles=3), commands, levels=levels)
    assert mixed.checked == 3 * len(rtl) and mixed.wrong == 0 and mixed.packets > 0
    assert mixed.cycles == model.cycles


def test_slow_dimensions_are_slow_in_both():
    fast, _ = both(ACE, wired((3, 3)), [apart(CollectiveKind.ALL_REDUCE, 2000)])
    rtl, model = both(ACE, wired((3, 3), paces=(1, 0.25)), [apart(CollectiveKind.ALL_REDUCE, 2000)])
    assert rtl.cycles > 2 * fast.cycles
    assert rtl.cycles == model.cycles


@pytest.mark.parametrize("seed", range(3))
def test_stalls_and_late_hosts_change_no_bit(seed):
    draw = np.random.default_rng(seed)
    around = wired(
        (3, 3), link_stalls=0.3, memory_stalls=0.2, host_stalls=0.1, seed=seed,
        read_latency_cycles=int(draw.integers(1, 60)),
    )
    commands = [
        apart(kind, int(draw.integers(1, 1500)), n) for n, kind in enumerate([*PROGRAM_ENTRY] * 2)
    ]
    scripts = [
        [Compute(cycles=int(draw.integers(1, 400))),
         *itertools.chain(*((Issue(command=n), Reached(count=n + 1)) for n in range(6)))]
        for _ in range(9)
    ]
    rtl, model = both(ACE, around, commands, scripts=scripts)
    assert rtl.wrong == 0
    assert rtl.cycles == pytest.approx(model.cycles, rel=0.05)  # it knows nothing of late hosts


def test_one_way_and_fewer_fsms_than_rings():
    for changes in ({"bidirectional": False}, {"fsms": 1}, {"fsms": 3}):
        rtl, model = both(ACE, wired((3, 3), **changes), [apart(CollectiveKind.ALL_REDUCE, 800)])
        assert rtl.wrong == 0 and rtl.cycles == model.cycles


def test_an_abort_on_a_torus_leaves_engines_that_work():
    ring = AceRing(ACE, wired((3, 3)))
    vectors = list(np.random.default_rng(2).standard_normal((9, 3000)).astype(np.float32))
    for cycles in (40, 300, 900):
        for rank, node in enumerate(ring.nodes):
            command = Command(elements=3000, destination=1 << 14)
            ring.store(node, command, vectors[rank])
            ring.queue_script(node, [Issue(command=0)], [command])
        ring.system.advance(ring.system.cycle + cycles)
        ring.recover()
        results, = ring.run(Request(inputs=vectors))
        expected = ring.golden(vectors)
        assert all(each.tobytes() == expected.tobytes() for each in results)


TOO_LONG = "nodes must be few enough for 64 program words; up to reduce_scatter these need 65"


def test_an_engine_without_ports_or_program_words_is_refused():
    with pytest.raises(ValueError, match="ports must be at least 6 for these links, not 4"):
        AceRing(replace(ACE, max_nodes=64), wired((3, 3, 3)))
    message = "nodes must be few enough for 64 program words; up to all_reduce these need 66"
    with pytest.raises(ValueError, match=message):
        AceRing(replace(ACE, program_words=64, max_nodes=32), wired((5, 5)))
    config, around = replace(ACE, program_words=64), wired((4, 4))
    AceRing.check(config, around)
    with pytest.raises(ValueError, match=TOO_LONG):
        AceRing.check_command(config, around, apart(CollectiveKind.REDUCE_SCATTER, 64))


@pytest.mark.full
def test_a_ring_refuses_a_collective_without_a_program():
    ring = AceRing(replace(ACE, program_words=64), wired((4, 4)))
    with pytest.raises(ValueError, match=TOO_LONG):
        ring.reduce_scatter([np.zeros(64, np.float32)] * 16)


@pytest.mark.parametrize("links, rings, text", [
    (1, 2, "links must be a tuple of pairs of Wire, not 1"),
    ((), (), "links must be at least one"),
    (((1, 2),), ((),), "links must be pairs of Wire"),
])
def test_wirings_that_are_none_are_refused_by_name(links, rings, text):
    with pytest.raises((TypeError, ValueError), match=text):
        EngineWiring(links=links, rings=rings)

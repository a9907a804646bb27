# SPDX-License-Identifier: Apache-2.0
"""The cycle model takes the cycles that the RTL takes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hw.ace.config import AceConfig
from sim.collectives.fsm_program import PROGRAM_ENTRY
from sim.cycles.ace.events import pop, post
from sim.cycles.ace.latencies import Latencies
from sim.cycles.ace.model import EngineModel, completion_cycles
from sim.cycles.ace.state import allocate
from sim.hosts.script import POLL_CYCLES, Compute, Interrupt, Issue, Reached
from sim.hosts.surroundings import Surroundings
from sim.runs.scripts import draw_inputs
from sim.workload.graph import CollectiveKind

# nodes, elements, link latency, memory latency, stalls
CELLS = [
    (2, 600, 1, 50, 0.0),
    (3, 1500, 20, 20, 0.0),
    (4, 40, 90, 150, 0.0),  # most shards are empty
    (5, 2000, 5, 50, 0.0),  # contexts are used again
    (3, 700, 8, 50, 0.2),
]
STEPS = [Issue(command=0), Interrupt()]


@pytest.mark.parametrize("collective", list(PROGRAM_ENTRY), ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_collective_takes_as_long_as_in_rtl(run, command, collective, cell):
    nodes, elements, latency, memory, stalls = cell
    ring = Surroundings(
        nodes=nodes, latency_cycles=latency, read_latency_cycles=memory, link_stalls=stalls, seed=7
    )
    commands = [command(collective, elements)]
    inputs = draw_inputs(commands, nodes, seed=1)
    rtl = run(ring, commands, [STEPS] * nodes, inputs, trace=True, bucket_cycles=64)
    model = run(
        ring, commands, [STEPS] * nodes, start_cycle=rtl.begin, levels="cycles", trace=True,
        bucket_cycles=64,
    )
    assert rtl.wrong == 0
    # A cycle more or less at one arbiter changes who is first at all that follow.
    assert model.cycles == pytest.approx(rtl.cycles, rel=0.05 if stalls else 0.01)
    for of_rtl, of_model in zip(rtl.steps, model.steps, strict=True):
        assert of_model[0] == of_rtl[0]  # the command is given in the same cycle
    assert (np.abs(model.completions - rtl.completions) <= 0.05 * rtl.cycles).all()
    assert model.links.keys() == rtl.links.keys()
    for place, of_model in model.links.items():
        of_rtl = rtl.links[place]
        # READY and DATA packets are the same; how they share beats depends on the cycle.
        assert (of_model.flits, of_model.header_flits) == (of_rtl.flits, of_rtl.header_flits)
        assert of_model.beats == pytest.approx(of_rtl.beats, rel=0.1, abs=3)
        assert of_model.beat_header_flits.sum() == of_model.header_flits
        assert of_model.beat_flits.sum() == of_model.flits
        assert of_model.payload_flits_per_bucket.sum() == of_model.payload_flits
        if of_model.flits:
            assert of_model.first_cycle == pytest.approx(of_rtl.first_cycle, abs=0.05 * rtl.cycles)
            assert of_model.last_cycle == of_model.beat_cycles[-1]


@pytest.mark.parametrize("fsms, bidirectional", [(1, True), (2, False)])
def test_all_fsms_may_run_the_ring_one_way(run, command, fsms, bidirectional):
    ring = Surroundings(nodes=3, fsms=fsms, bidirectional=bidirectional, latency_cycles=4)
    commands = [command(CollectiveKind.ALL_REDUCE, 900)]
    inputs = draw_inputs(commands, 3, seed=2)
    rtl = run(ring, commands, [STEPS] * 3, inputs)
    model = run(ring, commands, [STEPS] * 3, levels="cycles")
    assert rtl.wrong == 0
    assert model.cycles == pytest.approx(rtl.cycles, rel=0.02)


def test_collectives_started_one_after_another_take_as_long_as_in_rtl(run, command):
    ring = Surroundings(nodes=3, latency_cycles=10)
    commands = [
        command(CollectiveKind.ALL_REDUCE, 500),
        command(CollectiveKind.ALL_GATHER, 300, source=8192),
        command(CollectiveKind.REDUCE_SCATTER, 400, source=16384),
    ]
    steps = [
        [
            Compute(cycles=50 * rank), Issue(command=0), Issue(command=1), Compute(cycles=100),
            Issue(command=2), Reached(count=3),
        ]
        for rank in range(3)
    ]
    inputs = draw_inputs(commands, 3, seed=3)
    rtl = run(ring, commands, steps, inputs)
    model = run(ring, commands, steps, levels="cycles")
    assert rtl.checked == 9 and rtl.wrong == 0
    # Each host sees completions at its polls.
    assert model.cycles == pytest.approx(rtl.cycles, abs=2 * (POLL_CYCLES + 3))


@pytest.mark.parametrize("name", ["parse", "report", "event", "interrupt", "command"])
def test_every_latency_counts(duo, run, command, name):
    ring = Surroundings(nodes=2)
    commands = [command(CollectiveKind.ALL_REDUCE, 64)]
    scripts = [STEPS] * 2
    ends = []
    table = Latencies.stored()
    for latencies in (table, replace(table, **{name: getattr(table, name) + 5})):
        model = EngineModel(duo, ring, commands, scripts, latencies=latencies)
        model.run()
        ends.append(model.steps(0)[-1])
    assert ends[1] >= ends[0] + 5


def test_a_run_in_windows_is_the_same_run(duo, run, command):
    ring = Surroundings(nodes=4, latency_cycles=7)
    commands = [command(CollectiveKind.ALL_REDUCE, 1200)]
    ends = []
    for window in (1, 5, 10**6):
        model = EngineModel(duo, ring, commands, [STEPS] * 4)
        now = 0
        while not model.done:
            now += window
            model.run(now)
        ends.append(model.completions().tolist())
    assert ends[0] == ends[1] == ends[2]


def test_ranks_that_start_late_complete_late(duo):
    ring = Surroundings(nodes=3)
    prompt = completion_cycles(duo, ring, CollectiveKind.ALL_REDUCE, 3000)
    late = completion_cycles(duo, ring, CollectiveKind.ALL_REDUCE, 3000, starts=[0, 500, 100])
    assert (late >= prompt + 300).all()
    with pytest.raises(ValueError, match=r"starts must be 3 cycles of at least 0, not \[1, 2\]"):
        completion_cycles(duo, ring, CollectiveKind.ALL_REDUCE, 3000, starts=[1, 2])
    with pytest.raises(ValueError, match="size_bytes must be a multiple of 4 above 0, not 6"):
        completion_cycles(duo, ring, CollectiveKind.ALL_REDUCE, 6)


def test_a_longer_memory_and_a_longer_link_cost_cycles(duo: AceConfig):
    def last(**changes):
        ring = Surroundings(**{"nodes": 4, "latency_cycles": 5, **changes})
        return completion_cycles(duo, ring, CollectiveKind.ALL_REDUCE, 4096).max()

    assert last() < last(read_latency_cycles=150) < last(read_latency_cycles=150, latency_cycles=60)
    assert last() < last(beats_per_cycle=0.5)


@given(st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 24), st.integers(0, 4095))))
def test_events_come_in_the_order_of_cycle_kind_and_place(events):
    state = allocate(AceConfig(), 2, commands=1, operations=1)
    for cycle, kind, place in events:
        post(state, cycle, kind, 1, place)
    keys = [int(pop(state.heap, state.registers)) for _ in events]
    expected = sorted((cycle, kind, place) for cycle, kind, place in events)
    assert [(key >> 32, key >> 27 & 31, key & 4095) for key in keys] == expected


def test_completions_are_counted_per_collective(duo, run, command):
    ring = Surroundings(nodes=2)
    commands = [command(CollectiveKind.ALL_REDUCE, n) for n in (64, 640)]
    script = [Issue(command=0), Issue(command=1), Reached(count=2)]
    model = EngineModel(duo, ring, commands, [script] * 2)
    model.run()
    done = model.completions()
    assert (np.diff(done, axis=1) > 0).all()
    assert model.done


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"nodes": 9}, "nodes must be from 2 to 8 for this engine, not 9"),
        ({"fsms": 3}, "fsms must be from 1 to 2 for this engine, not 3"),
    ],
)
def test_a_ring_that_the_engine_does_not_support_is_refused(duo, changes, text):
    with pytest.raises(ValueError, match=text):
        ring = Surroundings(**{"nodes": 4, **changes})
        completion_cycles(duo, ring, CollectiveKind.ALL_REDUCE, 64)


def test_commands_and_scripts_must_fit_the_ring(duo, command):
    ring = Surroundings(nodes=3)
    with pytest.raises(ValueError, match=r"scripts must be one per rank \(3\), not 2"):
        EngineModel(duo, ring, [command(CollectiveKind.ALL_REDUCE, 64)], [[]] * 2)


def test_a_ring_of_many_ranks_completes(duo):
    wide = replace(duo, max_nodes=1024, sram_bytes=1 << 20, program_words=4096)
    ring = Surroundings(nodes=300, latency_cycles=10)
    done = completion_cycles(wide, ring, CollectiveKind.ALL_REDUCE, 4 * 4 * 300)
    # A symmetric ring: all ranks are done at the same time.
    assert (done == done[0]).all() and done[0] > 2 * 299 * 10

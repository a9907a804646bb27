# SPDX-License-Identifier: Apache-2.0
"""RTL nodes among models: same bits, and the same run whatever the window."""

import pytest

from sim.collectives import ace_program
from sim.collectives.fsm_program import PROGRAM_ENTRY
from sim.hosts.script import Compute, Interrupt, Issue
from sim.hosts.surroundings import Surroundings
from sim.rtl.exchange import PayloadError
from sim.runs.scripts import draw_inputs
from sim.workload.graph import CollectiveKind

STEPS = [Issue(command=0), Interrupt()]


def mixed_ring(nodes, *rtl):
    return ["rtl" if rank in rtl else "cycles" for rank in range(nodes)]


@pytest.mark.parametrize("collective", list(PROGRAM_ENTRY), ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize("rtl", [(0,), (1, 3), (0, 1, 2)], ids=str)
def test_rtl_among_models_gives_golden_results_and_packets(run, command, collective, rtl):
    ring = Surroundings(nodes=4, latency_cycles=12)
    commands = [command(collective, 700)]
    inputs = draw_inputs(commands, 4, seed=1)
    mixed = run(ring, commands, [STEPS] * 4, inputs, levels=mixed_ring(4, *rtl))
    model = run(ring, commands, [STEPS] * 4, levels="cycles")
    assert mixed.checked == len(rtl) and mixed.wrong == 0
    assert mixed.packets > 0
    assert mixed.cycles == pytest.approx(model.cycles, rel=0.04)


def test_the_window_changes_nothing(run, command):
    ring = Surroundings(nodes=3, latency_cycles=6)
    commands = [command(CollectiveKind.ALL_REDUCE, 500)]
    steps = [[Compute(cycles=40 * rank), *STEPS] for rank in range(3)]
    inputs = draw_inputs(commands, 3, seed=2)
    runs = [
        run(ring, commands, steps, inputs, levels=mixed_ring(3, 1), window_cycles=window)
        for window in range(1, 7)
    ]
    # Runs begin where the set-up of the engine ended, which is a multiple of the latency.
    assert all(run.steps == runs[0].steps for run in runs)
    assert all(run.packets == runs[0].packets for run in runs)


def test_a_packet_that_is_not_the_golden_one_is_found(
    run, command, monkeypatch: pytest.MonkeyPatch
):
    ring = Surroundings(nodes=3, latency_cycles=6)
    commands = [command(CollectiveKind.ALL_REDUCE, 500)]
    inputs = draw_inputs(commands, 3, seed=3)
    golden = ace_program.ring_partials

    def one_bit_off(*arguments, **options):
        arriving, leaving, whole = golden(*arguments, **options)
        leaving.view("u4")[123] ^= 1
        return arriving, leaving, whole

    monkeypatch.setattr(ace_program, "ring_partials", one_bit_off)
    with pytest.raises(PayloadError, match="rank 1 sent a packet of collective 0, chunk "):
        run(ring, commands, [STEPS] * 3, inputs, levels=mixed_ring(3, 1))


def test_what_models_send_is_what_the_engine_adds(run, command, monkeypatch: pytest.MonkeyPatch):
    ring = Surroundings(nodes=3, latency_cycles=6)
    commands = [command(CollectiveKind.REDUCE_SCATTER, 600)]
    inputs = draw_inputs(commands, 3, seed=4)
    golden = ace_program.ring_partials

    def doubled(*arguments, **options):
        arriving, leaving, whole = golden(*arguments, **options)
        return 2 * arriving, leaving, whole

    monkeypatch.setattr(ace_program, "ring_partials", doubled)
    with pytest.raises(PayloadError):
        run(ring, commands, [STEPS] * 3, inputs, levels=mixed_ring(3, 0))


@pytest.mark.parametrize(
    "options, text",
    [
        ({"levels": mixed_ring(2, 0)}, "levels must be rtl or cycles, for all or each of 3 ranks"),
        ({"levels": ["rtl", "events", "rtl"]}, "levels must be rtl or cycles, for all or each "),
        ({"levels": "both"}, "levels must be rtl or cycles, for all or each of 3 ranks, not "),
        ({"levels": mixed_ring(3, 0), "window_cycles": 7}, "window_cycles must be from 1 to the 6"),
    ],
)
def test_what_cannot_be_mixed_is_refused(run, command, options, text):
    ring = Surroundings(nodes=3, latency_cycles=6)
    commands = [command(CollectiveKind.ALL_REDUCE, 100)]
    inputs = draw_inputs(commands, 3, seed=5)
    with pytest.raises(ValueError, match=text):
        run(ring, commands, [STEPS] * 3, inputs, **options)


def test_more_collectives_than_packets_can_name_are_refused(run, command):
    ring = Surroundings(nodes=2, latency_cycles=6)
    commands = [command(CollectiveKind.ALL_REDUCE, 4)] * 129
    scripts = [[Issue(command=n) for n in range(129)]] * 2
    inputs = draw_inputs(commands, 2, seed=7)
    with pytest.raises(ValueError, match=r"^commands must be at most 128 among RTL and models, "):
        run(ring, commands, scripts, inputs, levels=mixed_ring(2, 0))


def test_a_run_that_takes_too_long_is_given_up(run, command):
    ring = Surroundings(nodes=2, latency_cycles=6)
    commands = [command(CollectiveKind.ALL_REDUCE, 100)]
    inputs = draw_inputs(commands, 2, seed=6)
    with pytest.raises(RuntimeError, match="the scripts have not ended after 60 cycles"):
        run(ring, commands, [STEPS] * 2, inputs, levels=mixed_ring(2, 0), max_cycles=60)

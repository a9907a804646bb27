"""RTL nodes among models: same bits, and the same run whatever the window."""

import pytest

from sim.collectives.fsm_program import PROGRAM_ENTRY
from sim.cycles.ace.model import Surroundings
from sim.rtl import payload
from sim.rtl.payload import PayloadError
from sim.rtl.run import draw_inputs, run_mixed, run_model
from sim.rtl.script import Compute, Interrupt, Issue
from sim.workload.graph import CollectiveKind

STEPS = [Issue(command=0), Interrupt()]


@pytest.mark.parametrize("collective", list(PROGRAM_ENTRY), ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize("rtl", [(0,), (1, 3), (0, 1, 2)], ids=str)
def test_rtl_among_models_gives_golden_results_and_packets(duo, command, collective, rtl):
    around = Surroundings(nodes=4, latency_cycles=12)
    commands = [command(around, collective, 700)]
    inputs = draw_inputs(commands, 4, seed=1)
    mixed = run_mixed(duo, around, commands, [STEPS] * 4, inputs, rtl=rtl)
    model = run_model(duo, around, commands, [STEPS] * 4)
    assert mixed.checked == len(rtl) and mixed.wrong == 0
    assert mixed.packets > 0
    assert mixed.cycles == pytest.approx(model.cycles, rel=0.04)


def test_the_window_changes_nothing(duo, command):
    around = Surroundings(nodes=3, latency_cycles=6)
    commands = [command(around, CollectiveKind.ALL_REDUCE, 500)]
    steps = [[Compute(cycles=40 * rank), *STEPS] for rank in range(3)]
    inputs = draw_inputs(commands, 3, seed=2)
    runs = [
        run_mixed(duo, around, commands, steps, inputs, rtl=(1,), window_cycles=window)
        for window in range(1, 7)
    ]
    # Runs begin where the set-up of the engine ended, which is a multiple of the latency.
    assert all(run.steps == runs[0].steps for run in runs)
    assert all(run.packets == runs[0].packets for run in runs)


def test_a_packet_that_is_not_the_golden_one_is_found(
    duo, command, monkeypatch: pytest.MonkeyPatch
):
    around = Surroundings(nodes=3, latency_cycles=6)
    commands = [command(around, CollectiveKind.ALL_REDUCE, 500)]
    inputs = draw_inputs(commands, 3, seed=3)
    golden = payload.ring_partials

    def one_bit_off(*arguments, **options):
        arriving, leaving, whole = golden(*arguments, **options)
        leaving.view("u4")[123] ^= 1
        return arriving, leaving, whole

    monkeypatch.setattr(payload, "ring_partials", one_bit_off)
    with pytest.raises(PayloadError, match="rank 1 sent a packet of collective 0, chunk "):
        run_mixed(duo, around, commands, [STEPS] * 3, inputs, rtl=(1,))


def test_what_models_send_is_what_the_engine_adds(duo, command, monkeypatch: pytest.MonkeyPatch):
    around = Surroundings(nodes=3, latency_cycles=6)
    commands = [command(around, CollectiveKind.REDUCE_SCATTER, 600)]
    inputs = draw_inputs(commands, 3, seed=4)
    golden = payload.ring_partials

    def doubled(*arguments, **options):
        arriving, leaving, whole = golden(*arguments, **options)
        return 2 * arriving, leaving, whole

    monkeypatch.setattr(payload, "ring_partials", doubled)
    with pytest.raises(PayloadError):
        run_mixed(duo, around, commands, [STEPS] * 3, inputs, rtl=(0,))


@pytest.mark.parametrize(
    "options, text",
    [
        ({"rtl": ()}, r"rtl must name ranks from 0 to 2, at least one, not \(\)"),
        ({"rtl": (3,)}, r"rtl must name ranks from 0 to 2, at least one, not \(3,\)"),
        ({"rtl": (0, 1, 2)}, "rtl must leave at least one rank to the model"),
        ({"rtl": (0,), "window_cycles": 7}, "window_cycles must be from 1 to the 6 cycles"),
    ],
)
def test_what_cannot_be_mixed_is_refused(duo, command, options, text):
    around = Surroundings(nodes=3, latency_cycles=6)
    commands = [command(around, CollectiveKind.ALL_REDUCE, 100)]
    inputs = draw_inputs(commands, 3, seed=5)
    with pytest.raises(ValueError, match=text):
        run_mixed(duo, around, commands, [STEPS] * 3, inputs, **options)


def test_a_run_that_takes_too_long_is_given_up(duo, command):
    around = Surroundings(nodes=2, latency_cycles=6)
    commands = [command(around, CollectiveKind.ALL_REDUCE, 100)]
    inputs = draw_inputs(commands, 2, seed=6)
    with pytest.raises(RuntimeError, match="the scripts have not ended after 60 cycles"):
        run_mixed(duo, around, commands, [STEPS] * 2, inputs, rtl=(0,), max_cycles=60)

# SPDX-License-Identifier: Apache-2.0
"""RTL NICs among their models: same bits, same cycles, and the same run whatever the window."""

from dataclasses import replace

import pytest

from hw.smartnic.config import preset
from sim.hosts.command import Command
from sim.hosts.script import Compute, Interrupt, Issue, Reached
from sim.hosts.surroundings import Surroundings
from sim.rtl.exchange import PayloadError
from sim.rtl.smartnic import payload
from sim.runs.scripts import draw_inputs, run_engines

NIC = preset("test")
RING = Surroundings(nodes=4, latency_cycles=7, write_latency_cycles=10)
COMMANDS = [
    Command(elements=300, destination=2048),
    Command(elements=5, compress=True, source=4096, destination=4224),
    Command(elements=700, compress=True, source=8192, destination=12288),
]
SCRIPT = [
    Issue(command=0), Issue(command=1), Interrupt(), Compute(cycles=40), Issue(command=2),
    Reached(count=3),
]
SCRIPTS = [[Compute(cycles=31 * rank), *SCRIPT] for rank in range(4)]
INPUTS = draw_inputs(COMMANDS, 4, seed=1)


def run(*rtl, config=NIC, ring=RING, **options):
    levels = ["rtl" if rank in rtl else "cycles" for rank in range(4)]
    return run_engines(
        "smartnic", config, ring, COMMANDS, SCRIPTS, INPUTS, levels=levels, **options
    )


def since(begin, steps):
    return [[cycle - begin for cycle in of_rank] for of_rank in steps]


@pytest.mark.parametrize("rtl", [(0,), (1, 2), (0, 2), (0, 1, 3)], ids=str)
def test_rtl_among_models_takes_the_cycles_of_rtl_among_rtl(rtl):
    every, mixed = run(0, 1, 2, 3), run(*rtl)
    assert mixed.checked == 3 * len(rtl) and mixed.wrong == 0
    assert mixed.packets > 50
    assert since(mixed.begin, mixed.steps) == since(every.begin, every.steps)
    for place, activity in every.links.items():
        assert mixed.links[place].beats == activity.beats


@pytest.mark.parametrize(("engines", "rank"), [
    (1, 0), (1, 2), pytest.param(2, 1, marks=pytest.mark.full),
])
def test_stalls_are_drawn_alike_by_rtl_and_models(engines, rank):
    config = replace(NIC, engines=engines)
    ring = replace(RING, link_stalls=0.1, memory_stalls=0.2, host_stalls=0.1, seed=3)
    mixed = run(rank, config=config, ring=ring)
    model = run(config=config, ring=ring, start_cycle=mixed.begin)
    assert mixed.wrong == 0 and mixed.steps == model.steps


def test_the_window_changes_nothing():
    runs = [run(2, window_cycles=window) for window in range(1, 8)]
    assert all(each.steps == runs[0].steps for each in runs)
    assert all(each.packets == runs[0].packets for each in runs)


@pytest.mark.parametrize("flow", [0, 1])
def test_a_frame_that_is_not_the_golden_one_is_found(flow, monkeypatch):
    golden = payload.nic_ring_sums

    def one_bit_off(*arguments, rank, **options):
        sums = golden(*arguments, rank=rank, **options)
        sums[flow].view("u4")[123] ^= rank  # what the model sends stays as it is
        return sums

    monkeypatch.setattr(payload, "nic_ring_sums", one_bit_off)
    with pytest.raises(PayloadError, match=r"^rank 1 sent a frame .* is not the golden one$"):
        run(1)


def test_what_models_send_is_what_the_nic_adds(monkeypatch):
    golden = payload.nic_ring_sums

    def doubled(*arguments, rank, **options):
        leaving, whole = golden(*arguments, rank=rank, **options)
        return (2 * leaving if rank == 0 else leaving), whole

    monkeypatch.setattr(payload, "nic_ring_sums", doubled)
    with pytest.raises(PayloadError, match=r"^rank 1 sent a frame"):
        run(1)


def test_a_frame_with_another_header_is_found(monkeypatch):
    monkeypatch.setattr(payload, "VERSION", 1)
    with pytest.raises(PayloadError, match=r"^rank 1 sent a frame .* is not the golden one$"):
        run(1)

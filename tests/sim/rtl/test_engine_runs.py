# SPDX-License-Identifier: Apache-2.0
"""Scripts on rings of either kind of engine: results, times, and what is refused."""

import re
from dataclasses import replace

import numpy as np
import pytest

from hw.ace.config import preset as ace_preset
from hw.fp.ops import ReduceOp
from hw.smartnic.config import preset as nic_preset
from sim.collectives import ace_program
from sim.hosts.command import Command
from sim.hosts.script import Compute, Interrupt, Issue, Reached
from sim.hosts.surroundings import Surroundings
from sim.rtl.harness.system import CycleLimitError
from sim.runs.job import plan_job
from sim.runs.scripts import draw_inputs, run_engines
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

ACE, NIC = ace_preset("test"), nic_preset("test")
RING = Surroundings(nodes=3, latency_cycles=20, write_latency_cycles=10)
CLOCK = 1e9


@pytest.mark.parametrize("engine, config", [("ace", ACE), ("smartnic", NIC)])
def test_queued_all_reduces_are_exact_and_hosts_see_them_complete(engine, config):
    sizes = [(700, ReduceOp.SUM_F32), (90, ReduceOp.SUM_I32), (300, ReduceOp.MAX_F32)]
    commands = [
        Command(elements=elements, op=op, source=8192 * n, destination=8192 * n + 4096)
        for n, (elements, op) in enumerate(sizes)
    ]
    script = [
        *(Issue(command=n) for n in range(3)), Interrupt(), Compute(cycles=5), Reached(count=2),
        Reached(count=3),
    ]
    scripts = [[Compute(cycles=100 * rank), *script] for rank in range(3)]
    inputs = draw_inputs(commands, 3, seed=1)

    run = run_engines(engine, config, RING, commands, scripts, inputs, trace=True, bucket_cycles=32)

    assert run.checked == 9 and run.wrong == 0
    for steps, known, own in zip(run.steps, run.completions, scripts, strict=True):
        assert len(steps) == len(own) and steps == sorted(steps)
        assert known.tolist() == [steps[4], steps[6], steps[7]]
    assert run.cycles == max(steps[-1] for steps in run.steps) + 1 - run.begin
    for activity in run.links.values():
        assert activity.beat_flits.sum() == activity.flits
        assert activity.payload_flits_per_bucket.sum() == activity.payload_flits
    # Each rank reads and writes its vectors once, in whole beats at most.
    moved = 4 * sum(elements for elements, _ in sizes)
    for rank in range(3):
        memory = [each for (of, _), each in run.memory.items() if of == rank]
        for total in (sum(m.read_bytes for m in memory), sum(m.written_bytes for m in memory)):
            assert moved <= total <= moved + 3 * config.bus_bytes


def test_compressed_all_reduces_of_nics_are_compared_with_the_golden_model():
    commands = [Command(elements=600, compress=True, destination=4096)]
    scripts = [[Issue(command=0), Reached(count=1)]] * 3
    inputs = draw_inputs(commands, 3, seed=2)

    run = run_engines("smartnic", NIC, RING, commands, scripts, inputs)
    assert run.checked == 3 and run.wrong == 0


def test_results_that_differ_are_counted(monkeypatch):
    golden = ace_program.ring_all_reduce

    def one_bit_off(*arguments, **options):
        result = golden(*arguments, **options)
        result.view(np.uint32)[70] ^= 1  # in the shard of rank 2
        return result

    monkeypatch.setattr(ace_program, "ring_all_reduce", one_bit_off)
    commands = [Command(collective=CollectiveKind.REDUCE_SCATTER, elements=90, destination=4096)]
    inputs = draw_inputs(commands, 3, seed=3)
    scripts = [[Issue(command=0), Interrupt()]] * 3
    run = run_engines("ace", ACE, RING, commands, scripts, inputs)
    assert (run.checked, run.wrong) == (3, 1)


def test_memory_is_as_large_as_the_commands_need():
    ring = replace(RING, memory_bytes=128)
    commands = [Command(elements=200, source=1 << 16, destination=1 << 17)]
    inputs = draw_inputs(commands, 3, seed=4)
    run = run_engines("ace", ACE, ring, commands, [[Issue(command=0), Interrupt()]] * 3, inputs)
    assert run.wrong == 0


def test_scripts_that_do_not_end_say_where_the_engines_stand():
    commands = [Command(elements=2000, destination=1 << 14)]
    inputs = draw_inputs(commands, 3, seed=5)
    scripts = [[Issue(command=0), Reached(count=1)], [], []]
    with pytest.raises(CycleLimitError, match=r"engines by rank: 0 busy; 1 .*; 2 "):
        run_engines("ace", ACE, RING, commands, scripts, inputs, max_cycles=900)


ONE = Command(elements=12, destination=128)
ISSUE = [[Issue(command=0)]] * 3
DATA = [np.ones((3, 12), np.float32)]


@pytest.mark.parametrize(
    "engine, changes, message",
    [
        ("gpu", {}, "engine must be one of ace, smartnic, in_switch, not 'gpu'"),
        ("ace", {"ring": Surroundings(nodes=9)}, "nodes must be from 2 to 8 for this engine"),
        ("ace", {"commands": [replace(ONE, compress=True)]}, "compress must be False for ACE"),
        ("ace", {"scripts": ISSUE[:2]}, "scripts must be one per rank (3), not 2"),
        ("ace", {"inputs": None}, "inputs must be data for 1 commands, not None"),
        ("ace", {"inputs": DATA * 2}, "inputs must be data for 1 commands, not 2"),
        ("ace", {"inputs": [DATA[0][:2]]}, "inputs[0] must be one array per rank (3), not 2"),
        ("ace", {"inputs": [DATA[0][:, :9]]}, "inputs[0][0] must be 12 elements of float32 in "),
        ("ace", {"inputs": [DATA[0].astype(np.int32)]}, "op must be sum_i32 for int32 vectors, "),
        (
            "smartnic",
            {"commands": [replace(ONE, collective=CollectiveKind.ALL_GATHER)]},
            "collective must be all_reduce for NICs, not all_gather",
        ),
    ],
)
def test_what_an_engine_cannot_run_is_refused(engine, changes, message):
    config = NIC if engine == "smartnic" else ACE
    given = {"ring": RING, "commands": [ONE], "scripts": ISSUE, "inputs": DATA} | changes
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        run_engines(engine, config, **given)


# ---- Jobs.


def sums_and_uses() -> Job:
    """A long and a short sum, and work that needs the long one, then work that needs the other."""
    graph = GraphBuilder()
    for name, size in ("long", 4000), ("short", 400):
        call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=size)
        graph.add(name, TaskKind.COLLECTIVE, call=call)
    graph.add("of long", TaskKind.COMPUTE, [0], duration_s=3e-7)
    graph.add("of short", TaskKind.COMPUTE, [1], duration_s=3e-7)
    return Job(name="sums", graphs=(graph.graph(),))


def test_a_host_of_nics_may_wait_for_the_one_all_reduce_that_a_task_needs():
    job = sums_and_uses()
    cycles = {}
    for wait, counts in ("all", [2]), ("each", [1, 2]):
        plan = plan_job(job, "smartnic", NIC, RING, clock_hz=CLOCK, wait=wait)
        waits = [step.count for step in plan.scripts[0] if isinstance(step, Reached)]
        assert waits == counts
        inputs = draw_inputs(plan.commands, 3, seed=6)
        run = run_engines("smartnic", NIC, RING, plan.commands, plan.steps, inputs)
        assert run.checked == 6 and run.wrong == 0
        times = plan.times(0, run.steps[0], begin=run.begin)
        assert (times.start[2:] >= times.end[:2]).all()
        assert times.start[2] < times.end[1] or wait == "all"
        cycles[wait] = run.cycles
    assert cycles["each"] < cycles["all"]


def test_waiting_for_one_collective_needs_completions_in_order():
    with pytest.raises(ValueError, match=r"^wait must be 'all' for engine 'ace': its collectives "):
        plan_job(sums_and_uses(), "ace", ACE, RING, clock_hz=CLOCK, wait="each")
    alone = replace(ACE, commands=1)
    plan = plan_job(sums_and_uses(), "ace", alone, RING, clock_hz=CLOCK, wait="each")
    assert [step.count for step in plan.scripts[0] if isinstance(step, Reached)] == [1, 2]
    with pytest.raises(ValueError, match=r"^wait must be 'all' or 'each', not 'none'$"):
        plan_job(sums_and_uses(), "ace", ACE, RING, clock_hz=CLOCK, wait="none")


def test_no_more_all_reduces_are_queued_than_a_nic_has_descriptors():
    graph = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=64)
    for number in range(NIC.descriptors + 3):
        graph.add(f"sum {number}", TaskKind.COLLECTIVE, call=call)
    job = Job(name="sums", graphs=(graph.graph(),))
    for wait in "all", "each":
        plan = plan_job(job, "smartnic", NIC, RING, clock_hz=CLOCK, wait=wait)
        complete = most = 0
        for step in plan.scripts[0]:
            if isinstance(step, Issue):
                most = max(most, step.command + 1 - complete)
            elif isinstance(step, Reached):
                complete = step.count
        assert most == NIC.descriptors
        inputs = draw_inputs(plan.commands, 3, seed=7)
        run = run_engines("smartnic", NIC, RING, plan.commands, plan.steps, inputs)
        assert run.checked == 3 * (NIC.descriptors + 3) and run.wrong == 0


def test_what_the_nic_cannot_do_is_refused_before_the_run():
    graph = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.ALL_GATHER, size_bytes=64)
    graph.add("gather", TaskKind.COLLECTIVE, call=call)
    job = Job(name="gather", graphs=(graph.graph(),))
    with pytest.raises(ValueError, match=r"^collective must be all_reduce for NICs, not all_gath"):
        plan_job(job, "smartnic", NIC, RING, clock_hz=CLOCK)


def test_limits_of_a_ring_are_those_of_the_configuration():
    job = sums_and_uses()
    wide = replace(ACE, max_nodes=64, sram_bytes=64 << 10, program_words=256)
    ring = replace(RING, nodes=30)
    assert len(plan_job(job, "ace", wide, ring, clock_hz=CLOCK).steps) == 30
    for config, text in (
        (ACE, "nodes must be from 2 to 8 for this engine, not 30"),
        (replace(wide, program_words=64), "nodes must be few enough for 64 program words; .* 76"),
    ):
        with pytest.raises(ValueError, match=text):
            plan_job(job, "ace", config, ring, clock_hz=CLOCK)

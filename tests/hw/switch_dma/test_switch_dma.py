# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Endpoints and switches, all RTL: all-reduces, and every way in which they can go wrong."""

from dataclasses import replace

import numpy as np
import pytest

from gen.verilator import find_verilator, has_verilator
from gen.verilog import WAIVERS_SV, emit_files
from hw.fp.ops import ReduceOp
from hw.link.packet import FLIT_BITS
from hw.switch.config import preset as switch_preset
from hw.switch.packet import AbortCause, Kind, encode
from hw.switch_dma.config import SwitchDmaConfig, preset
from hw.switch_dma.dma import SwitchDma
from hw.switch_dma.registers import CommandError
from tb.switch_dma.fabric import AllReduce, Placement, flat, join, smallest, two_levels
from tests.families import full
from tests.hw.common.prover import assert_moore

SWITCH = replace(switch_preset("test"), trace=True)
DMA = replace(preset("test"), trace=True)
QUIET = 700


@pytest.fixture(params=["push", "pull"])
def mode(request):
    """How operands are reduced."""
    return request.param


def finish(system, *jobs, epoch=0, base=None):
    """Start the jobs on all nodes, run to the end, check each."""
    for job in jobs:
        job.start()
    system.settle(quiet=QUIET)
    base = [0] * system.dma.links if base is None else base
    for job in jobs:
        job.check(base=base, epoch=epoch)
        blocks = -(-job.elements // system.dma.block_elements)
        base = [b + 1 + len(range(k, blocks, system.dma.links)) for k, b in enumerate(base)]
    for status in system.ask("status"):
        assert status["outstanding"] == 0 and status["idle"] == 1, status
    for switch in system.switches:
        assert switch.output("idle")
    return base


def counted(system, name):
    links = range(system.dma.links)
    return sum(each["count"] for k in links for each in system.ask(name, k))


def switch_count(system, *names):
    return sum(s.counters().get(name, 0) for s in system.switches for name in names)


def evicted(system):
    return switch_count(system, "evicted", "expired")


@pytest.mark.parametrize("op", list(ReduceOp))
@pytest.mark.parametrize("stalls, latency", [(0.0, 1), (0.5, 5)])
def test_four_endpoints_at_a_switch(op, stalls, latency, mode):
    system = join(flat(SWITCH, DMA, 4, mode=mode, stalls=stalls, latency=latency, seed=latency))

    finish(system, AllReduce(system, op, 701, seed=latency))

    assert counted(system, "results") == 4 * 22
    assert [each["count"] for each in system.ask("completed")] == [1] * 4


@pytest.mark.parametrize("make, members", [(flat, 3), (two_levels, 8)])
@pytest.mark.parametrize("stalls", [0.0, 0.7])
def test_tables_of_one_entry_and_buffers_of_one_packet(make, members, stalls, mode):
    switch, dma = smallest(SWITCH, DMA)
    system = join(make(switch, dma, members, mode=mode, stalls=stalls, seed=4))

    # Late endpoints make the others' operands wait in tables, and leave them; loads are not sent
    # before all have begun.
    job = AllReduce(system, ReduceOp.SUM_F32, 900, seed=2)
    for node in system.nodes:
        job.start([node])
        system.settle(quiet=100)
    system.settle(quiet=QUIET)

    job.check()
    assert counted(system, "partials") > 0 and counted(system, "finished") > 0
    if mode == "push":
        assert evicted(system) > 0
    else:
        assert counted(system, "barrier") > 100
        assert make is flat or switch_count(system, "bypassed") > 0
    assert not any(counted(system, f"dropped_{name}") for name in ("stale", "unknown", "excess"))


@pytest.mark.parametrize(
    "links", [2, *full((3, 6))]
)
def test_several_links(links, mode):
    system = join(flat(SWITCH, replace(DMA, links=links), 4, mode=mode, stalls=0.2, seed=links))

    first = AllReduce(system, ReduceOp.SUM_F32, 32 * 13 + 5, seed=links)
    base = finish(system, first)
    finish(system, AllReduce(system, ReduceOp.SUM_I32, 40, seed=9), base=base)

    sent = [system.flits(0, k) for k in range(links)]
    assert all(sent), "a link was not used"


@pytest.mark.parametrize("make, members", [(flat, 2), (two_levels, 6)])
def test_own_operands_travel_too(make, members):
    system = join(make(SWITCH, DMA, members, mode="whole", stalls=0.3, seed=members))

    finish(system, AllReduce(system, ReduceOp.SUM_F32, 333, seed=members))

    assert counted(system, "answers") == 11 * members
    assert counted(system, "partials") >= counted(system, "loads") == 11
    assert system.ask("partials", 0)[0]["count"] < 2 * system.ask("loads", 0)[0]["count"]


@pytest.mark.parametrize("make, members", [(flat, 4), (two_levels, 6)])
def test_answers_that_are_given_up_are_added_at_the_requester(make, members):
    """Time-outs shorter than the memories take: what a table has given up arrives in parts."""
    system = join(make(SWITCH, DMA, members, mode="pull", stalls=0.9, seed=members, timeout=20))

    job = AllReduce(system, ReduceOp.SUM_F32, 500, seed=members)
    finish(system, job)

    assert evicted(system) > 0 and switch_count(system, "passed") > 0
    assert counted(system, "partials") > 2 * counted(system, "loads")


def test_members_are_requesters_in_turn():
    """Every member loads its share, of two vectors in succession, and answers all others."""
    system = join(flat(SWITCH, DMA, 3, mode="pull"))
    base = finish(system, AllReduce(system, ReduceOp.SUM_I32, 32 * 7))
    finish(system, AllReduce(system, ReduceOp.SUM_I32, 32 * 4), base=base)

    # Blocks 0 and 8 are the contracts.
    turns = [sum(n % 3 == rank for n in range(13) if n not in (0, 8)) for rank in range(3)]
    assert [each["count"] for each in system.ask("loads", 0)] == turns
    assert [each["count"] for each in system.ask("answers", 0)] == [11 - n for n in turns]
    assert [each["count"] for each in system.ask("operands", 0)] == [2] * 3


@pytest.mark.parametrize("elements", [1, 3, 4, 31, 32, 33, 64, 65])
def test_lengths(elements, mode):
    system = join(flat(SWITCH, DMA, 2, mode=mode))

    finish(system, AllReduce(system, ReduceOp.SUM_F32, elements, seed=elements))


def test_several_all_reduces_in_place_one_after_the_other(mode):
    system = join(flat(SWITCH, DMA, 4, mode=mode, stalls=0.3))
    base = None
    for number in range(4):
        job = AllReduce(system, list(ReduceOp)[number], 200 + number, seed=number, tag=number,
                        at=Placement(in_place=True))
        job.start()
        system.settle(quiet=QUIET)
        golden = job.golden(base=base or [0], epoch=0)
        assert all(each.tobytes() == golden.tobytes() for each in job.results())
        base = [(base or [0])[0] + 1 + -(-job.elements // 32)]


def test_queued_commands_run_in_order(mode):
    system = join(flat(SWITCH, DMA, 3, mode=mode, stalls=0.3))
    jobs = [AllReduce(system, ReduceOp.SUM_I32, 100, seed=k, tag=k) for k in range(1)]
    for tag in range(DMA.descriptors):
        jobs[0].start(tag=tag)
    system.settle(quiet=QUIET)
    jobs[0].check()
    assert system.ask("completed") == [{"count": 4, "error": 0, "tag": 3}] * 3


def test_waves_limit_what_is_under_way(mode):
    system = join(flat(SWITCH, DMA, 4, mode=mode))
    took = {}
    for size_log2, outstanding in ((0, 1), (1, 4)):
        for node in system.nodes:
            node.write("waves", size_log2=size_log2, outstanding=outstanding)
        system.settle(quiet=10)
        begin = system.cycle
        job = AllReduce(system, ReduceOp.SUM_I32, 640)
        job.start()
        system.run(lambda: all(n.output("irq") for n in system.nodes))
        took[outstanding] = system.cycle - begin
        for node in system.nodes:
            node.write("interrupt", done=1)
        system.settle(quiet=QUIET)
        assert all(np.array_equal(each, sum(job.inputs[1:], job.inputs[0]))
                   for each in job.results())
    assert took[1] > 2 * took[4], took


@pytest.mark.full
def test_a_flit_per_cycle():
    """Operands go out, and results come in, without a gap in the middle of a long vector."""
    switch = replace(SWITCH, entries=4, buffer_packets=8, credits=8, queue_packets=3)
    dma = replace(DMA, buffer_packets=8, credits=8, waves=8, wave_blocks=8, read_ahead=16,
                  max_burst=16, outstanding_bursts=16)
    system = join(flat(switch, dma, 4, timeout=1000, memory_bytes=1 << 17))
    job = AllReduce(system, ReduceOp.SUM_I32, 8192)
    begin, sent = system.cycle, []
    job.start()
    while not all(node.output("irq") for node in system.nodes):
        system.step()
        sent.append(system.flits(0, 0))
    low, high = len(sent) // 4, 3 * len(sent) // 4

    job.check()
    assert (sent[high] - sent[low]) / (high - low) > 0.97
    assert system.cycle - begin < 1.1 * 257 * 9


# ---- Exits.


def expect_abort(system, cause, *, origin=None):
    for answer, abort in zip(system.ask("interrupt"), system.ask("abort")):
        assert answer["aborted"], (answer, abort)
        assert abort["cause"] == cause.value, abort
        assert origin is None or abort["endpoint"] == origin
    assert all(each["outstanding"] == 0 for each in system.ask("status"))


def recover(system, *, seed=99):
    """The next all-reduce works."""
    for node in system.nodes:
        node.write("interrupt", **dict.fromkeys(("aborted", "done", "memory", "invalid", "stalled",
                                                 "dropped", "refused"), 1))
    system.settle(quiet=QUIET)
    epochs = {each["value"] for each in system.ask("epoch")}
    assert len(epochs) == 1 and all(each["ready"] for each in system.ask("status"))
    finish(system, AllReduce(system, ReduceOp.SUM_F32, 333, seed=seed), epoch=epochs.pop())
    assert not any(each["aborted"] or each["invalid"] for each in system.ask("interrupt"))


@pytest.mark.parametrize("after", [5, 60, 200, 400])
def test_abort_by_software(after, mode):
    system = join(flat(SWITCH, DMA, 4, mode=mode, stalls=0.2, seed=after))
    job = AllReduce(system, ReduceOp.SUM_F32, 1500)
    job.start()
    system.step(after)
    system.nodes[1].write("control", abort=1)
    system.settle(quiet=QUIET)

    expect_abort(system, AbortCause.SOFTWARE, origin=1)
    recover(system)


def test_abort_on_two_endpoints_twice(mode):
    system = join(flat(SWITCH, DMA, 4, mode=mode))
    for _ in range(2):
        AllReduce(system, ReduceOp.SUM_I32, 1500).start()
        system.step(90)
        for node in system.nodes[:2]:
            node.write("control", abort=1)
            node.write("control", abort=1)
        system.settle(quiet=QUIET)
        expect_abort(system, AbortCause.SOFTWARE)
        for node in system.nodes:
            node.write("interrupt", aborted=1)
        system.settle(quiet=20)
    recover(system)


def test_an_abort_before_the_others_have_the_command(mode):
    system = join(flat(SWITCH, DMA, 4, mode=mode))
    AllReduce(system, ReduceOp.SUM_I32, 500).start(system.nodes[:2])
    system.settle(quiet=50)
    system.nodes[3].write("control", abort=1)
    system.settle(quiet=QUIET)
    expect_abort(system, AbortCause.SOFTWARE, origin=3)
    recover(system)


@pytest.mark.parametrize("changes", [{"op": ReduceOp.SUM_F32}, {"elements": 450}, {"tag": 77},
                                     {"pull": None}])
def test_disagreement_is_found_by_all(changes, mode):
    system = join(flat(SWITCH, DMA, 4, mode=mode, seed=5))
    if "pull" in changes:
        changes = {"pull": int(mode == "push")}
    job = AllReduce(system, ReduceOp.SUM_I32, 500)
    job.start(system.nodes[1:])
    job.start(system.nodes[:1], **changes)
    system.settle(quiet=QUIET)

    expect_abort(system, AbortCause.DISAGREEMENT)
    assert not counted(system, "loads"), "loaded before all had begun"
    recover(system)


@pytest.mark.parametrize("waves", [{"size_log2": 0, "outstanding": 4},
                                   {"size_log2": 1, "outstanding": 2}])
def test_waves_differ(waves, mode):
    """A push does not rely on the waves of others; a load that waits does."""
    system = join(flat(SWITCH, DMA, 4, mode=mode))
    system.nodes[2].write("waves", **waves)
    system.settle(quiet=10)
    job = AllReduce(system, ReduceOp.SUM_I32, 500)
    job.start()
    system.settle(quiet=QUIET)

    if mode == "push":
        job.check()
    else:
        expect_abort(system, AbortCause.DISAGREEMENT)
        system.nodes[2].write("waves", size_log2=1, outstanding=4)
        system.settle(quiet=10)
        recover(system)


def test_every_command_of_a_queue_has_a_record_of_its_own(mode):
    """Two of three that are not valid; refused ones; and more than there is room for."""
    system = join(flat(SWITCH, DMA, 3, mode=mode))
    jobs = [AllReduce(system, ReduceOp.SUM_I32, 200, tag=k, at=Placement(0x4000 * (k + 1)), seed=k)
            for k in range(3)]
    system.nodes[0].refuse(reads=range(jobs[0].source, jobs[0].source + 16))
    end = jobs[2].destination
    system.nodes[1].refuse(writes=range(end, end + 16))
    for job in jobs:
        job.start()
    system.settle(quiet=QUIET)

    clear = {"valid": 1, "overrun": 0, "read": 0, "write": 0, "error": 0}
    for number in range(3):
        for k, record in enumerate(system.ask("completion")):
            assert record == {**clear, "tag": number, "read": int(number == 0),
                              "write": int(number == 2 and k == 1)}
        for node in system.nodes:
            node.write("completion_taken", taken=1)
    assert not any(each["valid"] for each in system.ask("completion"))

    node, room = system.nodes[0], 2 * DMA.descriptors
    for tag in range(room + 3):
        job.start([node], tag=tag, elements=0)
        system.settle(quiet=10)
    found = []
    while (record := system.ask("completion", nodes=[node])[0])["valid"]:
        found.append((record["tag"], record["overrun"], record["error"]))
        node.write("completion_taken", taken=1)
    empty = CommandError.EMPTY.value
    assert found == [(tag, int(tag == 3), empty) for tag in range(3, room + 3)]


@pytest.mark.parametrize("place", [0, 127, 1999])
def test_a_refused_read_is_known_to_all(place, mode):
    system = join(flat(SWITCH, DMA, 4, mode=mode, stalls=0.1))
    job = AllReduce(system, ReduceOp.SUM_I32, 500)
    system.nodes[2].refuse(reads=range(job.source + place // 16 * 16,
                                                  job.source + place + 1))
    job.start()
    system.settle(quiet=QUIET)

    for number, answer in enumerate(system.ask("interrupt")):
        assert answer["done"] and answer["invalid"] and answer["memory"] == (number == 2)
    assert all(each["read"] and not each["write"] for each in system.ask("invalid"))
    system.nodes[2].node.heal_memory()
    for node in system.nodes:
        node.write("interrupt", done=1, invalid=1, memory=1)
    job = AllReduce(system, ReduceOp.SUM_F32, 300, seed=8)
    finish(system, job, base=[1 + 16])
    assert not any(each["invalid"] for each in system.ask("interrupt"))


@pytest.mark.parametrize("victim", range(3))
def test_a_refused_read_is_known_to_all_through_partials(victim, mode):
    """Tables of one entry, endpoints one after the other: every sum is made of partials."""
    system = join(flat(*smallest(SWITCH, DMA), 3, mode=mode, timeout=20))
    job = AllReduce(system, ReduceOp.SUM_I32, 200)
    system.nodes[victim].refuse(reads=range(job.source + 256, job.source + 272))
    for node in system.nodes:
        job.start([node])
        system.settle(quiet=150)
    system.settle(quiet=QUIET)

    assert counted(system, "partials") > 0
    assert all(each["read"] and each["count"] == 1 for each in system.ask("invalid"))


def test_a_refused_write_is_known_here_alone(mode):
    system = join(flat(SWITCH, DMA, 4, mode=mode))
    job = AllReduce(system, ReduceOp.SUM_I32, 500)
    system.nodes[1].refuse(writes=range(job.destination + 64, job.destination + 80))
    job.start()
    system.settle(quiet=QUIET)

    golden = job.golden(base=[0], epoch=0)
    for number, answer in enumerate(system.ask("invalid")):
        assert answer["write"] == (number == 1) and not answer["read"]
        same = job.results()[number].tobytes() == golden.tobytes()
        assert same == (number != 1)


def test_the_watchdog_ends_what_an_endpoint_does_not_join_in(mode):
    system = join(flat(SWITCH, DMA, 4, mode=mode), watchdog=500, tries=2)
    begin = system.cycle
    AllReduce(system, ReduceOp.SUM_I32, 500).start(system.nodes[:3])
    system.run(lambda: system.nodes[3].output("irq"))
    assert system.cycle - begin > 3 * 500
    system.settle(quiet=QUIET)
    expect_abort(system, AbortCause.WATCHDOG)
    assert all(each["stalled"] for each in system.ask("interrupt")[:3])
    recover(system)


@pytest.mark.parametrize("working", [False, True])
def test_an_endpoint_that_is_reset_alone(working, mode):
    """It joins anew; what it had sent before is in no sum afterwards."""
    system = join(flat(SWITCH, DMA, 4, mode=mode, timeout=1000))
    base = finish(system, AllReduce(system, ReduceOp.SUM_I32, 100))
    job = AllReduce(system, ReduceOp.SUM_I32, 300, seed=3)
    if working:
        job.start(system.nodes[:3])  # node 1 has operands in the tables when it is reset
        system.settle(quiet=60)
    assert base
    node = system.nodes[1]
    node.restart()
    node.configure(members=4)
    node.join()
    system.settle(quiet=QUIET)
    for number, answer in enumerate(system.ask("interrupt")):
        assert answer["aborted"] == (number != 1)
    assert {each["cause"] for each in system.ask("abort")[::2]} == {AbortCause.RESET.value}
    recover(system)


def test_a_region_is_left_and_joined_anew_without_an_interrupt(mode):
    """The same endpoints with other homes, while nothing goes on: nothing was given up."""
    system = join(flat(SWITCH, DMA, 3, mode=mode))
    finish(system, AllReduce(system, ReduceOp.SUM_I32, 100))
    for node in system.nodes:
        node.write("interrupt", done=1)
    system.settle(quiet=QUIET)
    system.region(range(3), links=[range(3)], homes=[2, 0])
    system.log.clear()

    join(system)

    epoch = system.ask("epoch")[0]["value"]
    finish(system, AllReduce(system, ReduceOp.SUM_F32, 333, seed=3), epoch=epoch)
    assert not any(each["aborted"] or each["refused"] for each in system.ask("interrupt"))


def test_a_memory_that_stands_still_does_not_keep_partials_out(mode):
    """No home endpoint stores or reads: all operands of the others are taken nevertheless."""
    switch, dma = smallest(SWITCH, DMA)
    system = join(flat(switch, dma, 4, mode=mode))
    job = AllReduce(system, ReduceOp.SUM_F32, 256)
    system.nodes[0].node.pace_memory(0)
    job.start()
    system.settle(quiet=3000)
    assert counted(system, "partials") > 0
    system.nodes[0].node.pace_memory()
    system.settle(quiet=QUIET)
    job.check()


REFUSED = {
    CommandError.EMPTY: {"elements": 0},
    CommandError.ALIGNMENT: {"source": 0x1008},
    CommandError.ADDRESS: {"elements": 1 << 31},
}


def test_bad_commands_are_refused():
    system = join(flat(SWITCH, DMA, 2))
    node = system.nodes[0]
    job = AllReduce(system, ReduceOp.SUM_I32, 64)
    for number, (error, changes) in enumerate(REFUSED.items()):
        node.write("memory_end_low", value=(1 << 16) - 1)
        job.start([node], tag=number, **changes)
        system.settle(quiet=10)
        assert system.ask("refusal", nodes=[node]) == [
            {"error": error.value, "tag": number, "count": number + 1}
        ]
    for _ in range(DMA.descriptors + 1):
        job.start([node])
    system.settle(quiet=100)
    assert system.ask("refusal", nodes=[node])[0]["error"] == CommandError.FULL.value
    for _ in range(DMA.descriptors):
        job.start(system.nodes[1:])
    system.settle(quiet=QUIET)
    assert [each["count"] for each in system.ask("completed")] == [DMA.descriptors] * 2


def test_a_command_before_joining_is_refused():
    system = flat(SWITCH, DMA, 2)
    for node in system.nodes:
        node.configure(members=2)
    job = AllReduce(system, ReduceOp.SUM_I32, 64)
    job.start()
    system.settle(quiet=20)
    assert {each["error"] for each in system.ask("refusal")} == {CommandError.UNJOINED.value}


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("links", 7, "links must be an integer from 1 to 6, not 7"),
        ("waves", 3, "waves must be a power of two from 1 to 32, not 3"),
        ("alu_stages", 9, "alu_stages must be an integer from 0 to 8, not 9"),
        ("bus_bytes", 32, "bus_bytes must be one of 16, not 32"),
    ],
)
def test_bad_parameters(name, value, words):
    with pytest.raises(ValueError, match=f"^{words}$"):
        SwitchDmaConfig(**{name: value})


def test_what_was_not_asked_for_is_in_no_sum(mode):
    """Answers, and partials of blocks that are done: of all blocks but those that may be under
    way."""
    system = join(flat(SWITCH, DMA, 4, mode=mode))
    tap = system.tap(system.to_node((0, 2)))
    finish(system, AllReduce(system, ReduceOp.SUM_I32, 1000))  # 32 blocks and the contract
    job = AllReduce(system, ReduceOp.SUM_F32, 800, seed=2)
    kinds = [*[Kind.PARTIAL] * 3, *[Kind.RESPONSE] * 3]
    for kind, number in zip(kinds, (32, 30, 32 + 3 * DMA.slots, 32, 34, 38)):
        header = encode({"kind": kind.value, "address": number * DMA.payload_flits, "count": 1,
                         "source": 1, "destination": 2, "op": job.op.value})
        system.add(tap, ([header | 1 << FLIT_BITS, *range(DMA.payload_flits)], 1))
    system.settle(quiet=QUIET)
    job.start()
    system.settle(quiet=QUIET)

    job.check(base=[33])
    assert not system.added(tap) and counted(system, "dropped_unknown") == len(kinds)
    assert all(each["done"] and not each["aborted"] for each in system.ask("interrupt"))


@pytest.mark.parametrize("to", ["node", "switch"])
@pytest.mark.parametrize("flit", [1, 5, 8])
def test_a_packet_of_which_a_flit_came_twice_is_dropped(flit, to, mode):
    """Whole, and counted; what it leaves incomplete ends by the watchdog."""
    system = join(flat(SWITCH, DMA, 3, mode=mode, timeout=100), watchdog=600, tries=2)
    wire = (system.to_node if to == "node" else system.to_switch)((0, 2))
    job = AllReduce(system, ReduceOp.SUM_I32, 640, seed=flit)
    system.hit(wire, stutter=flit)
    job.start()
    system.settle(quiet=3000)

    assert system.system.struck(*wire) == 1
    assert switch_count(system, "dropped_damaged") + counted(system, "dropped_damaged") == 1
    total = np.sum(job.inputs, axis=0, dtype=np.int32)
    for answer, result in zip(system.ask("interrupt"), job.results()):
        assert answer["done"] or answer["aborted"]
        assert not answer["done"] or np.array_equal(result, total)
    recover(system)


@pytest.mark.parametrize(
    "seed", [1, *full((0, 2, 3))]
)
def test_random_troubles(seed, mode):
    """Aborts, refused reads and disagreements at random cycles: each is signalled, none lasts."""
    rng = np.random.default_rng(seed)
    switch = replace(SWITCH, entries=int(rng.integers(1, 4)))
    members = int(rng.integers(2, 5))
    system = join(flat(switch, DMA, members, mode=mode, stalls=0.3 * rng.random(), seed=seed,
                         latency=int(rng.integers(1, 8)), timeout=int(rng.integers(20, 300))),
                    watchdog=3000)
    for step in range(5):
        job = AllReduce(system, ReduceOp(int(rng.integers(4))), int(rng.integers(1, 900)),
                        seed=step)
        trouble = rng.choice(["none", "abort", "read", "length", "late"])
        victim = system.nodes[int(rng.integers(members))]
        others = [node for node in system.nodes if node is not victim]
        if trouble == "read":
            victim.refuse(reads=range(job.source, job.source + 16))
        job.start(others)
        job.start([victim], **({"elements": job.elements + 1} if trouble == "length" else {}))
        if trouble == "abort":
            system.step(int(rng.integers(1, 400)))
            victim.write("control", abort=1)
        system.settle(quiet=QUIET)
        victim.node.heal_memory()
        answers = system.ask("interrupt")
        if trouble in ("abort", "length"):
            assert all(each["aborted"] for each in answers), trouble
        elif trouble == "read":
            assert all(each["invalid"] for each in answers)
        else:
            results = job.results()
            assert all(each.tobytes() == results[0].tobytes() for each in results)
            assert all(each["done"] and not each["aborted"] for each in answers)
        for node in system.nodes:
            node.write("interrupt", done=1, aborted=1, invalid=1, memory=1, dropped=1, stalled=1)
        system.settle(quiet=100)
    system.settle(quiet=QUIET)
    for node in system.nodes:
        node.write("control", abort=1)
    system.settle(quiet=QUIET)
    recover(system)


EVERYTHING = {
    "links": 2, "regions": 3, "fixed_point": True, "parts": True, "half": True, "bfp": True,
}


@pytest.mark.parametrize("options", [{}, pytest.param(EVERYTHING, marks=pytest.mark.full)], ids=str)
def test_emitted_verilog_is_lint_clean(options, tmp_path):
    if not has_verilator():
        pytest.skip("needs verilator")
    config = replace(preset("test"), **options)
    (path, _) = emit_files(SwitchDma(config), tmp_path, name="switch_dma", style="sv")

    assert not find_verilator().lint([WAIVERS_SV, path], top="switch_dma")


@pytest.mark.full
@pytest.mark.parametrize("regions", [1, 2])
def test_no_output_depends_on_an_input_in_the_same_cycle(regions, tmp_path):
    small = SwitchDmaConfig(
        payload_flits=2, alu_stages=1, buffer_packets=1, credits=1, waves=2, wave_blocks=1,
        read_ahead=1, endpoints=2, max_burst=2, outstanding_bursts=1, address_bits=24,
        descriptors=2, regions=regions, fixed_point=True, parts=True, half=True,
    )
    assert_moore(SwitchDma(small), tmp_path)

# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Pull: loads through switches, every operand in exactly one answer, and no standstill."""


from dataclasses import replace

import numpy as np
import pytest

from hw.fp.ops import ReduceOp
from hw.switch.packet import Kind, Traffic, encode
from sim.cycles.switch.fabric import Fabric
from sim.rtl.switch.orders import folded, replay
from tb.switch.endpoint import START, payload
from tb.switch.system import System
from tests.hw.switch.systems import (
    BLOCK,
    OPS,
    SMALLEST,
    TEST,
    TREE_LINKS,
    WORDS,
    check_pushed,
    draw,
    finish,
    pair,
    push_all,
    single,
    tree,
)

THREE = replace(TEST, entries=3)


def pull_all(system, blocks, ops=OPS, *, own=True, seed=1, region=0, members=None,
             first=0):
    """Every member holds an operand for every block, and loads its share of the sums."""
    rng = np.random.default_rng(seed)
    members = list(range(len(system.endpoints)) if members is None else members)
    operands = {}
    for number in range(first, first + blocks):
        op = ops[number % len(ops)]
        words = {k: draw(rng, op) for k in members}
        operands[BLOCK * number] = op, words
        for k in members:
            system.endpoints[k].memory[region, BLOCK * number] = words[k]
    for number in first + rng.permutation(blocks):
        address = BLOCK * int(number)
        requester = members[int(number) % len(members)]
        tag = int(rng.integers(256))
        system.endpoints[requester].load(operands[address][0], region, address, own=own, tag=tag)
    return operands


def check(system, operands, *, region=0, members=None, own=True):
    """All members have the same result for each address, and it is the sum of all operands in the
    order that the tables and the requester logged, each operand once."""
    members = list(range(len(system.endpoints)) if members is None else members)
    for k in members:
        results = system.endpoints[k].results
        assert {address for number, address in results if number == region} == set(operands)
    loads = {
        key[:2]: (end.number, key[2], load)
        for end in system.endpoints if end.number in members for key, load in end.loads.items()
    }
    answers = system.log.answers
    for address, (op, values) in operands.items():
        requester, tag, load = loads[region, address]
        key = (region, address, requester, tag)
        sums, seen = [], []
        for count, words, source in load.parts:
            total, endpoints = replay(
                answers, lambda e, to=requester: system.path(e, to), key, (source, count),
                op, values,
            )
            assert total.tobytes() == words.tobytes()
            sums.append(total)
            seen += endpoints
        if own:
            sums.append(values[requester])
            seen.append(requester)
        assert sorted(seen) == members, "not every operand once"
        wanted = folded(op, sums)
        found = [system.endpoints[k].results[region, address][0] for k in members]
        assert all(each.tobytes() == wanted.tobytes() for each in found)
        if op is ReduceOp.SUM_I32:
            assert np.array_equal(wanted, sum(values.values(), np.zeros(WORDS, np.int32)))


def counted(system, name):
    return sum(switch.counters().get(name, 0) for switch in system.switches)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("gaps, stalls, latency", [(0, 0, 1), (0.3, 0.7, 4)])
def test_four_members_pull_every_sum(gaps, stalls, latency, own):
    system = single(gaps=gaps, stalls=stalls, latency=latency, seed=int(10 * gaps))
    operands = pull_all(system, 40, own=own, seed=latency)

    finish(system, timeout=0)

    check(system, operands, own=own)
    counters = system.switches[0].counters()
    assert counters["completed"] == 40 and counters["stalled"] > 0
    assert set(counters) == {"completed", "stalled"}
    assert all(len(load.parts) == 1 for end in system.endpoints for load in end.loads.values())


@pytest.mark.parametrize("make", [pair, tree])
@pytest.mark.parametrize(
    "gaps, stalls, config", [(0, 0, TEST), (0.3, 0.6, SMALLEST), (0.2, 0.3, THREE)]
)
def test_members_on_several_switches_pull_every_sum(make, gaps, stalls, config):
    own = config is not THREE
    system = make(config, gaps=gaps, stalls=stalls, latency=3, seed=config.entries)
    operands = pull_all(system, 60, seed=config.entries, own=own)

    finish(system, timeout=0)

    check(system, operands, own=own)
    assert counted(system, "completed") > 60, "no switch on the way has added anything"
    assert counted(system, "stalled") > 0
    if config is SMALLEST:
        assert counted(system, "bypassed") > 0 and counted(system, "passed") > 0
    assert not any(name.startswith("dropped") for each in system.switches
                   for name in each.counters())


@pytest.mark.parametrize("make", [single, pair, tree])
@pytest.mark.parametrize("speedup", [1, 2])
def test_one_entry_and_buffers_of_one_packet_are_enough(make, speedup):
    system = make(replace(SMALLEST, speedup=speedup), latency=2, stalls=0.5)
    operands = pull_all(system, 30, seed=5)

    finish(system, timeout=0)

    check(system, operands)


@pytest.mark.full
@pytest.mark.parametrize("config", [TEST, THREE])
@pytest.mark.parametrize("make", [single, pair])
def test_with_one_column_units_and_links_share_inputs(make, config):
    own = config is not THREE
    system = make(replace(config, speedup=1), latency=3, seed=config.entries)
    operands = pull_all(system, 120, seed=8, own=own)

    finish(system, timeout=0)

    check(system, operands, own=own)
    assert counted(system, "completed") > 60


@pytest.mark.parametrize("make", [single, tree])
@pytest.mark.parametrize("timeout", [1, 20])
def test_entries_that_are_given_up_lose_no_operand(make, timeout):
    system = make(THREE, latency=2, stalls=0.85, seed=timeout)
    operands = pull_all(system, 30, seed=7)

    finish(system, timeout=timeout)

    check(system, operands)
    assert counted(system, "expired") > 0 and counted(system, "passed") > 0
    assert any(len(load.parts) > 1 for end in system.endpoints for load in end.loads.values())


@pytest.mark.parametrize("make", [single, tree])
def test_answers_are_taken_while_no_request_is(make):
    system = make(SMALLEST, stalls=0.3)
    operands = pull_all(system, 60, seed=6)
    for end in system.endpoints:
        end.closed.add(Traffic.REQUEST.value)
    system.settle(quiet=150)
    assert not any(end.reads or end.queues[1] or end.sending for end in system.endpoints)
    assert any(end.queues[0] for end in system.endpoints), "no request was blocked"
    assert any(end.answered for end in system.endpoints)

    for end in system.endpoints:
        end.closed.clear()
    finish(system, timeout=0)
    check(system, operands)


@pytest.mark.parametrize("members", [2, 3])
def test_few_members_pull_every_sum(members):
    system = single(members=members, stalls=0.3)
    operands = pull_all(system, 12, seed=members)

    finish(system, timeout=0)

    check(system, operands)


@pytest.mark.parametrize("make, links", [(single, [range(4)]), (tree, TREE_LINKS)])
@pytest.mark.parametrize("config", [SMALLEST, THREE])
def test_pushes_and_loads_share_tables(make, links, config):
    system = make(config, stalls=0.4, gaps=0.1, latency=2, seed=config.entries)
    members = list(range(len(system.endpoints)))
    system.endpoints[0].expected[1] = len(members)  # one mapping for all
    system.region(members, region=1, links=links)
    pulled = pull_all(system, 24, seed=1)
    pushed = push_all(system, members, 24, OPS, seed=2, region=1)

    finish(system, timeout=300)

    check(system, pulled)
    check_pushed(system, members, pushed, region=1)
    assert counted(system, "evicted") > 0
    assert config is THREE or counted(system, "stalled") > 0


def test_a_load_that_waits_needs_no_time_out_to_get_the_entry_of_a_pushed_sum():
    system = single(SMALLEST)
    system.endpoints[0].expected[1] = 4
    system.region(range(4), region=1, links=[range(4)])
    for k in (0, 1, 2):
        system.endpoints[k].push(ReduceOp.SUM_I32, 1, 0, np.ones(WORDS, np.int32))
    system.settle(quiet=150)
    assert not system.switches[0].output("idle"), "the sum is not in a table"
    operands = pull_all(system, 8)

    finish(system, timeout=0)

    check(system, operands)
    assert counted(system, "evicted") == 1


def test_an_operand_that_cannot_be_read_poisons_its_sum_alone():
    system = tree()
    operands = pull_all(system, 16)
    lost = BLOCK * 5
    del system.endpoints[3].memory[0, lost]
    requester = next(end for end in system.endpoints if any(key[1] == lost for key in end.loads))
    assert requester.number != 3

    finish(system, timeout=0)

    assert all(end.poisoned == {(0, lost)} for end in system.endpoints)
    assert all(set(end.results) == {(0, address) for address in operands}
               for end in system.endpoints)


def _packet(kind, **fields):
    header = encode({"kind": kind, "op": 3, **fields}) | START
    return [header, *payload(np.zeros(WORDS, np.int32))] if kind.value & 4 else [header]


BAD = {
    "region": [_packet(Kind.LOAD, region=1, count=3), _packet(Kind.RESPONSE, region=50, count=1),
               _packet(Kind.SYNC, region=63)],
    "alignment": [_packet(Kind.LOAD, address=4, count=3)],
    # Loads in the name of another, and of one that does not exist; answers to such a one.
    "route": [_packet(Kind.LOAD, source=2, count=3), _packet(Kind.LOAD, source=7, count=3),
              _packet(Kind.RESPONSE, destination=7, count=1)],
    "count": [_packet(Kind.LOAD, count=count) for count in (0, 2, 5)],
    "truncated": [_packet(Kind.RESPONSE, destination=1, count=1)[:-2]],
    "excess": [_packet(Kind.RESPONSE, destination=1, count=count) for count in (0, 5)],
    "damaged": [[_packet(Kind.LOAD, count=3)[0] ^ 1 << 40]],
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_packets_are_dropped_whole_and_counted(kind):
    system = single(stalls=0.2)
    operands = pull_all(system, 24)
    end = system.endpoints[0]
    for place, packet in enumerate(BAD[kind]):
        queue = end.queues[packet[0] >> 1 & 3]
        queue.insert(min(2 * place + 1, len(queue)), packet)
    if kind == "truncated":
        end.tell(0, 0)

    finish(system, timeout=0, lost=int(kind == "damaged"))

    check(system, operands)
    counters = system.switches[0].counters()
    assert {name: n for name, n in counters.items() if name.startswith("dropped")} == {
        f"dropped_{kind}": len(BAD[kind])
    }
    assert system.switches[0].ask("interrupt") == {"dropped": 1, "fault": 0}


@pytest.mark.parametrize("flits", [1, WORDS // 4])
def test_a_packet_without_data_but_with_flits_behind_it_is_dropped(flits):
    system = single()
    operands = pull_all(system, 12)
    load = _packet(Kind.LOAD, count=3)
    system.endpoints[0].queues[0].insert(1, [*load, *payload(np.zeros(WORDS, np.int32))[:flits]])

    finish(system, timeout=0)

    check(system, operands)
    assert counted(system, "dropped_damaged") == 1


def test_a_load_that_is_sent_twice_is_answered_once():
    system = single()
    operands = pull_all(system, 12)
    queue = system.endpoints[0].queues[0]
    queue.insert(1, queue[0])

    finish(system, timeout=0)

    check(system, operands)
    assert counted(system, "dropped_duplicate") == 1


def test_an_answer_of_another_operation_does_not_spoil_the_sum():
    system = single()
    operands = pull_all(system, 12)
    end = system.endpoints[2]
    answer = end.answer
    wrong = next(iter(system.endpoints[1].loads))[1]
    end.answer = lambda header: answer(
        {**header, "op": header["op"] ^ (header["address"] == wrong)}
    )

    finish(system, timeout=400)

    assert counted(system, "dropped_mismatch") == 1
    load = next(load for key, load in system.endpoints[1].loads.items() if key[1] == wrong)
    assert [count for count, _, _ in load.parts] == [2]  # given up, and not complete
    assert all(set(end.results) == {(0, address) for address in operands if address != wrong}
               for end in system.endpoints)


def test_a_stranger_is_neither_answered_nor_asked():
    system = System(TEST, Fabric.flat(4), expected={0: 3})
    system.region([0, 1, 2], links=[range(3)])
    operands = pull_all(system, 12, members=[0, 1, 2])
    stranger = system.endpoints[3]
    stranger.load(ReduceOp.SUM_I32, 0, 0)
    stranger.tell(0, 1)
    system.endpoints[0].queues[1].append(_packet(Kind.RESPONSE, destination=3, count=1))

    finish(system, timeout=0)

    check(system, operands, members=[0, 1, 2])
    assert not stranger.results and not stranger.answered
    assert counted(system, "dropped_member") == 3


def test_a_region_whose_members_do_not_match_its_switches_is_refused_and_others_go_on():
    system = pair()
    system.endpoints[0].expected[1] = 6
    system.region(range(6), region=1, links=[range(4)] * 2)
    last = TEST.ports - 1
    # Switch 1 is told that nobody is behind its cable, and then that all are.
    dropped = 0
    for wrong in (0, 6):
        system.switches[1].write("behind", TEST.ports + last, members=wrong)
        operands = pull_all(system, 6, first=6 * (wrong > 0))
        system.endpoints[0].load(ReduceOp.SUM_I32, 1, 0, tag=wrong)
        finish(system, timeout=100)
        dropped += 1
        assert system.switches[1].counters()["dropped_count"] == dropped
    assert len(operands) == 6 and all(len(end.results) == 12 for end in system.endpoints)


def test_a_region_is_programmed_anew_while_the_switch_is_idle():
    system = single(stalls=0.3)
    before = pull_all(system, 12)
    finish(system, timeout=0)
    check(system, before)

    for end in system.endpoints:
        end.results.clear()
        end.loads.clear()
    system.endpoints[0].expected[0] = 3
    system.region([0, 2, 3], links=[[0, 2, 3]])
    system.switches[0].write("behind", 1, members=0)
    after = pull_all(system, 12, members=[0, 2, 3], first=20)
    finish(system, timeout=0)
    check(system, after, members=[0, 2, 3])
    assert not system.endpoints[1].results

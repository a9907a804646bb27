# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Epochs at switches: what is older is forgotten before others hear of it; rows that are in use;
links out of service; credits counted anew."""

import random
from dataclasses import replace

import numpy as np
import pytest

from hw.common.axi import AXIResponse
from hw.fp.ops import ReduceOp
from hw.switch.packet import LINK_CLASS, AbortCause, encode, kinds_of
from tb.switch.endpoint import START
from tests.hw.switch.systems import (
    BLOCK,
    OPS,
    SMALLEST,
    TEST,
    WORDS,
    check_pushed,
    draw,
    pair,
    push_all,
    single,
    tree,
)

OKAY, SLVERR = AXIResponse.OKAY.value, AXIResponse.SLVERR.value


def tell_all(system, epoch, *, region=0, members=None, **said):
    """Every member comes to *epoch*, and all have heard that."""
    members = range(len(system.endpoints)) if members is None else members
    for k in members:
        system.endpoints[k].tell(region, epoch, **said)
    system.settle(quiet=100)


def told(end, epoch, region=0):
    """From whom an endpoint has heard that they are in *epoch*."""
    return sorted(source for number, source, notice in end.notices
                  if number == region and notice.epoch == epoch)


def status(switch):
    return switch.ask("held")["regions"]


def leave_operands(system, seed, *, members, epoch=0, blocks=2):
    """Some members push operands that never become sums."""
    rng = np.random.default_rng(seed)
    for number in range(blocks):
        for k in members:
            system.endpoints[k].push(ReduceOp.SUM_I32, 0, BLOCK * number,
                                     draw(rng, ReduceOp.SUM_I32), epoch=epoch & 7)
    system.settle(quiet=150)


def credits_are_home(system):
    return all(end.credits == [system.config.buffer_packets] * 3 for end in system.endpoints)


@pytest.mark.parametrize("make", [single, pair, tree])
def test_operands_that_an_epoch_left_meet_none_of_an_epoch_with_the_same_low_bits(make):
    system = make()
    for switch in system.switches:
        switch.write("timeout", cycles=0)
    everyone = range(len(system.endpoints))
    leave_operands(system, 1, members=everyone[:-1])
    assert any(status(switch) for switch in system.switches)

    tell_all(system, 8)

    assert not any(status(switch) for switch in system.switches)
    assert not any(end.sums or end.results for end in system.endpoints)
    system.log.clear()
    operands = push_all(system, everyone, 12, OPS)
    for switch in system.switches:
        switch.write("timeout", cycles=200)
    system.settle(quiet=600)
    check_pushed(system, everyone, operands)
    assert credits_are_home(system)


def test_all_hear_each_of_the_others_once():
    system = tree()

    tell_all(system, 3)

    for end in system.endpoints:
        assert told(end, 3) == [k for k in range(8) if k != end.number]
    assert credits_are_home(system)


def test_a_link_that_has_not_come_to_the_epoch_brings_nothing():
    system = single()
    system.endpoints[0].tell(0, 1)
    system.settle(quiet=150)
    leave_operands(system, 1, members=[1, 2], blocks=3)
    assert status(system.switches[0]) == 0
    assert system.switches[0].counters()["dropped_epoch"] == 6
    assert credits_are_home(system)

    for k in (1, 2, 3):
        system.endpoints[k].tell(0, 1)
    system.settle(quiet=150)
    operands = push_all(system, range(4), 8, OPS)
    system.switches[0].write("timeout", cycles=200)
    system.settle(quiet=600)

    check_pushed(system, range(4), operands)


@pytest.mark.parametrize("seed", range(4))
def test_notices_of_many_epochs_at_once_end_in_the_last(seed):
    """Each endpoint comes to epochs of its own, all at once, with old operands between."""
    system = tree(seed=seed, gaps=0.2, stalls=0.3)
    rng = random.Random(seed)
    for end in system.endpoints:
        epochs = sorted(rng.sample(range(1, 40), 8))
        for epoch in epochs:
            if rng.random() < 0.5:
                end.push(ReduceOp.SUM_I32, 0, 0, np.ones(WORDS, np.int32), epoch=epoch & 7)
            end.tell(0, epoch)
    system.settle(quiet=400)
    tell_all(system, 40)
    assert credits_are_home(system)
    for end in system.endpoints:
        assert set(told(end, 40)) == set(range(8)) - {end.number}
        end.sums.clear()
    system.log.clear()
    for end in system.endpoints:
        end.results.clear()

    operands = push_all(system, range(8), 8, OPS, seed=seed)
    for switch in system.switches:
        switch.write("timeout", cycles=200)
    system.settle(quiet=800)

    check_pushed(system, range(8), operands)


def test_who_joins_is_answered_by_its_switch_alone():
    system = tree()
    tell_all(system, 0, fresh=1)
    for end in system.endpoints:
        answers = [(source, notice.epoch) for _, source, notice in end.notices]
        assert answers == [(end.number, 0)]
    tell_all(system, 0)
    tell_all(system, 5)
    for end in system.endpoints:
        end.notices.clear()

    # It was a member of epoch 5, so it begins the next one.
    system.endpoints[2].tell(0, 0, fresh=1)
    system.settle(quiet=150)

    answer = [(source, notice) for _, source, notice in system.endpoints[2].notices]
    assert [(source, notice.epoch, notice.origin) for source, notice in answer] == [(2, 6, 2)]
    assert AbortCause(answer[0][1].cause) is AbortCause.RESET and not answer[0][1].fresh
    assert all(not end.notices for end in system.endpoints if end.number != 2)
    assert credits_are_home(system)

    # Epoch 7 begins without it: it is told of that one. Who knows of a later one is to begin that.
    for k in (0, 1, 3, 4, 5, 6, 7):
        system.endpoints[k].tell(0, 7)
    system.settle(quiet=150)
    for epoch, wanted in ((0, 7), (9, 9)):
        system.endpoints[2].notices.clear()
        system.endpoints[2].tell(0, epoch, fresh=1)
        system.settle(quiet=150)
        assert [notice.epoch for _, _, notice in system.endpoints[2].notices] == [wanted]


@pytest.mark.parametrize("wait", range(0, 60, 4))
def test_who_joins_while_its_region_is_purged_is_answered(wait):
    system = single()
    system.switches[0].write("timeout", cycles=0)
    leave_operands(system, 1, members=[0, 1, 3])
    system.endpoints[0].tell(0, 1)
    system.step(wait)
    system.endpoints[2].tell(0, 0, fresh=1)
    system.endpoints[3].tell(0, 2)
    system.settle(quiet=150)

    answers = [notice.epoch for _, source, notice in system.endpoints[2].notices if source == 2]
    assert len(answers) == 1 and answers[0] in (0, 1, 2)
    assert told(system.endpoints[2], 2) == [3]
    assert credits_are_home(system)


ROWS = [
    ("region", 0, {"valid": 0, "expected": 3}),
    ("targets", 0, {"ports": 0}),
    ("behind", 1, {"members": 7}),
    ("home", 2, {"endpoint": 3}),
]


@pytest.mark.parametrize("delay", range(0, 45, 4))
@pytest.mark.parametrize("told_before", [False, True])
def test_who_joins_during_a_purge_is_answered(told_before, delay):
    """Its answer is not purged; and what it has told counts, though that waits for the purge."""
    system = single(config=replace(TEST, queue_packets=4))
    switch = system.switches[0]
    switch.write("timeout", cycles=0)
    leave_operands(system, 1, members=[0, 1, 3])
    joins = system.endpoints[2]

    (joins if told_before else system.endpoints[0]).tell(0, 1)
    system.step(delay)
    joins.tell(0, 0, fresh=1)
    system.settle(quiet=150)

    (answer,) = [notice for _, source, notice in joins.notices if source == 2]
    assert answer.epoch == (2 if told_before else answer.epoch)
    assert answer.epoch in (0, 1, 2) and AbortCause(answer.cause) is AbortCause.RESET
    assert credits_are_home(system) and status(switch) == 0


def test_rows_of_a_region_of_which_something_is_held_cannot_be_written():
    system = single()
    switch = system.switches[0]
    switch.write("timeout", cycles=0)
    leave_operands(system, 1, members=[0, 1])
    assert status(switch) == 1
    for name, index, fields in ROWS:
        assert switch.offer(name, index, **fields) == SLVERR
    assert switch.offer("route", 3, valid=1, local=1, port=2) == SLVERR
    # Those of another region can.
    assert switch.offer("region", 1, valid=1, expected=2) == OKAY
    assert switch.offer("targets", 1, ports=3) == OKAY
    assert switch.offer("timeout", cycles=0) == OKAY

    assert switch.offer("purge", regions=1) == OKAY
    system.step(200)

    assert status(switch) == 0
    counters = switch.counters()
    assert counters["purged"] == 2 and "expired" not in counters  # entries
    for name, index, fields in ROWS:
        assert switch.offer(name, index, **fields) == OKAY


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("config", [TEST, SMALLEST], ids=["test", "smallest"])
def test_after_any_write_at_any_moment_the_next_sums_are_right(config, seed):
    rng = random.Random(seed)
    system = single(config, seed=seed, gaps=0.1, stalls=0.2)
    switch = system.switches[0]
    switch.write("timeout", cycles=200)
    push_all(system, range(4), 12, [ReduceOp.SUM_I32], seed=seed)
    for end in system.endpoints:  # results of tables that were changed are not looked at
        end.take = lambda kind, header, flits: None
    system.step(rng.randrange(20, 600))
    writable = [name for name, each in switch.map.registers.items() if each.access in ("rw", "wo")]
    for _ in range(3):
        name = rng.choice(writable)
        register = switch.map.registers[name]
        index = None if register.count is None else rng.randrange(register.count)
        fields = {each.name: rng.choice([0, rng.randrange(1 << each.width)])
                  for each in register.fields}
        assert switch.offer(name, index, **fields) in (OKAY, SLVERR)
        system.step(rng.randrange(50))

    # As the page says: ports back to service, what is held given up, tables as they were.
    for p in range(config.ports):
        assert switch.offer("port_control", p, disable=0, resync=0) == OKAY
    switch.offer("timeout", cycles=0)
    assert switch.offer("purge", regions=0b11) == OKAY
    for end in system.endpoints:
        end.queues[0].clear()
        end.queues[1].clear()
        end.queues[2].clear()
    system.settle(quiet=200)
    assert status(switch) == 0
    for p in range(config.ports):
        assert switch.offer("port_control", p, disable=0, resync=1) == OKAY
    system.settle(quiet=1000)
    assert switch.output("idle")
    system.region([0, 1, 2, 3], links=[range(4)])
    for end in system.endpoints:
        del end.take
        end.results.clear()
        end.sums.clear()
    system.log.clear()
    tell_all(system, 1)
    assert credits_are_home(system)
    switch.write("timeout", cycles=200)
    operands = push_all(system, range(4), 10, OPS, seed=seed + 1)
    system.settle(quiet=700)
    check_pushed(system, range(4), operands)


def test_a_link_out_of_service_takes_and_brings_nothing_and_stops_nobody():
    system = single()
    switch = system.switches[0]
    switch.write("timeout", cycles=200)
    dead = system.endpoints[2]
    dead.closed = {0, 1, 2}  # takes nothing any more
    push_all(system, range(4), 40, [ReduceOp.SUM_I32])
    system.settle(quiet=600)
    assert status(switch) == 1  # results for it

    assert switch.offer("port_control", 2, disable=1) == OKAY
    system.settle(quiet=400)
    tell_all(system, 1, members=[0, 1, 3])
    assert status(switch) == 0
    system.region([0, 1, 3], links=[[0, 1, 3]])
    tell_all(system, 2, members=[0, 1, 3])
    for end in system.endpoints:
        end.expected[0] = 3
        end.results.clear()
        end.sums.clear()
    system.log.clear()
    operands = push_all(system, [0, 1, 3], 12, OPS)
    system.settle(quiet=700)

    check_pushed(system, [0, 1, 3], operands)
    ends = [system.endpoints[k] for k in (0, 1, 3)]
    assert all(end.credits == [system.config.buffer_packets] * 3 for end in ends)

    # It comes back: its buffers are read, credits are counted anew.
    dead.closed = set()
    system.settle(quiet=100)
    assert switch.offer("port_control", 2, disable=0, resync=1) == OKAY
    system.settle(quiet=1000)
    assert credits_are_home(system)
    system.region([0, 1, 2, 3], links=[range(4)])
    tell_all(system, 3)
    for end in system.endpoints:
        end.expected[0] = 4
        end.results.clear()
        end.sums.clear()
    system.log.clear()
    operands = push_all(system, range(4), 12, OPS)
    system.settle(quiet=700)
    check_pushed(system, range(4), operands)


@pytest.mark.parametrize("seed", range(3))
def test_credits_that_were_lost_come_back(seed):
    """Credits vanish on both directions of links; each end in turn has them counted anew."""
    rng = random.Random(seed)
    system = pair(seed=seed, gaps=0.1, stalls=0.1)
    for end in system.endpoints:
        end.credits = [rng.randrange(system.config.buffer_packets + 1) for _ in range(3)]
    thief = system.endpoints[0]
    thief.held[2].extend([None] * system.config.credits)
    thief.held[2].clear()
    for end in system.endpoints[:3]:
        end.recount()
    for p in range(4):
        switch = system.switches[1]
        assert switch.offer("port_control", p, disable=0, resync=1) == OKAY
    system.settle(quiet=1500)
    for end in system.endpoints:
        end.recount()
    system.settle(quiet=1500)

    assert credits_are_home(system)
    for switch in system.switches:
        for p in range(4):
            assert switch.ask("port_status", p) == {"counting": 0, "credits_home": 1}
    operands = push_all(system, range(6), 12, OPS, seed=seed)
    for switch in system.switches:
        switch.write("timeout", cycles=200)
    system.settle(quiet=700)
    check_pushed(system, range(6), operands)


def test_credits_are_counted_anew_in_the_middle_of_traffic():
    system = pair(gaps=0.1, stalls=0.2)
    for switch in system.switches:
        switch.write("timeout", cycles=200)
    operands = push_all(system, range(6), 40, OPS)
    rng = random.Random(1)
    for _ in range(6):
        system.step(rng.randrange(200, 500))
        switch = rng.choice(system.switches)
        assert switch.offer(
            "port_control", rng.randrange(4), disable=0, resync=1) == OKAY
        rng.choice(system.endpoints).recount()
    system.settle(quiet=1500)

    check_pushed(system, range(6), operands)
    assert credits_are_home(system)


def test_unknown_kinds_give_their_credit_back():
    system = single()
    kinds = [each for each in range(16)
             if each & 3 != LINK_CLASS and each not in {kind.value for kind in kinds_of(False)}]
    for kind in kinds:
        packet = [encode({"kind": kind, "source": 0}) | START, *[0] * (8 * (kind >> 2 & 1))]
        system.endpoints[0].queues[kind & 3].extend([packet] * 5)
    system.settle(quiet=200)

    assert credits_are_home(system)
    assert system.switches[0].counters()["dropped_damaged"] == 5 * len(kinds)

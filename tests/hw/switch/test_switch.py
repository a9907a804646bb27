# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Whole switches: every operand in exactly one sum, every sum at every member, no standstill."""

from dataclasses import replace

import numpy as np
import pytest

from gen.configured import compile_configured
from gen.verilator import find_verilator, has_verilator
from gen.verilog import WAIVERS_SV, emit_files
from hw.fp.ops import ReduceOp
from hw.switch.packet import STOPPED_CYCLES, Kind, encode
from hw.switch.switch import Switch
from sim.cycles.switch.fabric import Fabric
from sim.rtl.switch.writes import route_writes
from tb.switch.endpoint import START, payload
from tb.switch.system import System
from tests.hw.switch.systems import (
    BLOCK,
    OPS,
    SMALLEST,
    TEST,
    WORDS,
    check_pushed,
    finish,
    pair,
    push_all,
    single,
)


@pytest.mark.parametrize(
    "gaps, stalls, latency", [(0, 0, 1), (0.3, 0, 4), (0, 0.9, 2), (0.4, 0.7, 9)]
)
def test_four_members_get_every_sum(gaps, stalls, latency):
    system = single(gaps=gaps, stalls=stalls, latency=latency, seed=int(100 * gaps + latency))
    members = range(4)
    operands = push_all(system, members, 40, OPS, seed=latency)

    finish(system)

    check_pushed(system, members, operands)
    counted = system.switches[0].counters()
    assert counted.get("evicted", 0) > 0 and counted.get("completed", 0) > 0, counted
    assert not any(name.startswith("dropped") for name in counted), counted


@pytest.mark.parametrize("gaps, stalls", [(0, 0), (0.3, 0.6)])
def test_six_members_on_two_switches(gaps, stalls):
    system = pair(gaps=gaps, stalls=stalls, latency=5)
    members = range(6)
    operands = push_all(system, members, 24, OPS, seed=3)

    finish(system)

    check_pushed(system, members, operands)
    for switch in system.switches:
        counted = switch.counters()
        assert counted["evicted"] > 0, counted
        assert not any(name.startswith("dropped") for name in counted), counted


@pytest.mark.parametrize("config", [SMALLEST, replace(SMALLEST, multicast_partials=True)])
@pytest.mark.parametrize("make, members", [(single, 4), (pair, 6)])
def test_one_entry_and_buffers_of_one_packet_are_enough(make, members, config):
    system = make(config, latency=2, stalls=0.5)
    operands = push_all(system, range(members), 20, OPS, seed=5)

    finish(system)

    check_pushed(system, range(members), operands)
    assert sum(switch.counters()["evicted"] for switch in system.switches) > 20


def test_a_link_and_its_unit_may_share_their_ways():
    cycles = []
    for speedup in (1, 2):
        system = pair(replace(SMALLEST, speedup=speedup), latency=2, seed=7)
        operands = push_all(system, range(6), 20, OPS, seed=7)
        finish(system)
        check_pushed(system, range(6), operands)
        cycles.append(system.cycle)
    assert cycles[0] > cycles[1]


def test_operands_are_taken_while_no_home_endpoint_can_send():
    system = single(SMALLEST)
    operands = push_all(system, range(4), 30, [ReduceOp.SUM_I32], seed=6)
    for end in system.endpoints:
        end.queue, held = _held_back(end)
        end.held_back = held
    system.settle(quiet=150)
    waiting = [len(end.held_back) for end in system.endpoints]
    assert sum(waiting) > 0, "no result had to come from a home endpoint"
    assert not any(any(end.queues) for end in system.endpoints), "operands were not taken"

    for end in system.endpoints:
        del end.queue
        for kind, words, fields in end.held_back:
            end.queue(kind, words, **fields)
    finish(system)
    check_pushed(system, range(4), operands)


def _held_back(end):
    """A `queue` of an endpoint that keeps what it is given: its output is blocked."""
    held = []

    def queue(kind, words, **fields):
        held.append((kind, words, fields))

    return queue, held


def _doubled(kind, at, **fields):
    """A packet of which a flit came twice."""
    flits = _damaged(kind, **fields)
    return [*flits[: at + 1], *flits[at:]]


def _damaged(kind, **fields):
    """A packet of the test's region, as flits on the wire."""
    header = encode({"kind": kind, "op": 3, "count": 1, **fields})
    return [header | START, *payload(np.zeros(WORDS, np.int32))]


BAD = {
    "damaged by doubled flits": lambda: [
        _doubled(Kind.PUSH, at, address=BLOCK * (90 + at)) for at in (1, 4, 8)
    ] + [_doubled(Kind.RESULT, 3)],
    "damaged": lambda: [[flit ^ (flit >> 128) << 40 for flit in _damaged(Kind.PUSH)]],
    "damaged format": lambda: [_damaged(Kind.PUSH, op=0, format=1)],
    "region": lambda: [_damaged(Kind.PUSH, region=1), _damaged(Kind.RESULT, region=60)],
    "alignment": lambda: [_damaged(Kind.PUSH, address=4), _damaged(Kind.PARTIAL, address=1)],
    "route": lambda: [_damaged(Kind.PARTIAL, destination=7), _damaged(Kind.PARTIAL, destination=0)],
    "truncated": lambda: [_damaged(Kind.PUSH, address=BLOCK * 99)[:-3]],
    "excess": lambda: [_damaged(Kind.PUSH, address=BLOCK * 98, count=5),
                       _damaged(Kind.PUSH, address=BLOCK * 98, count=0)],
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_packets_are_dropped_whole_and_counted(kind):
    system = single()
    operands = push_all(system, range(4), 12, OPS)
    end = system.endpoints[0]
    packets = BAD[kind]()
    for place, packet in enumerate(packets):
        end.queues[packet[0] >> 1 & 3].insert(3 * place + 2, packet)

    counter = kind.split()[0]
    # Of a damaged header the class is not known, nor whose credit it was.
    finish(system, lost=int(kind == "damaged"))

    check_pushed(system, range(4), operands)
    counted = system.switches[0].counters()
    assert counted[f"dropped_{counter}"] == len(packets)
    assert sum(n for name, n in counted.items() if name.startswith("dropped")) == len(packets)
    assert system.switches[0].ask("interrupt") == {"dropped": 1, "fault": 0}


@pytest.mark.parametrize("kind", [Kind.PUSH, Kind.PARTIAL, Kind.RESPONSE])
def test_nothing_goes_back_by_the_link_that_it_came_by(kind):
    """Behind that link is another switch, whose route leads here: it would come again for ever."""
    system = single()
    (node,), end = system.switches, system.endpoints[0]
    node.perform(route_writes([0, 1, 2, 3, 0], [True] * 4 + [False]))
    homes = range(0, 8 * BLOCK, BLOCK)
    for row in range(TEST.homes):
        node.write("home", row, endpoint=4)
    system.settle(quiet=5)
    for address in homes:
        end.queues[kind.value & 3].append(_damaged(kind, destination=4, address=address))

    system.step(400)

    sent = sum(system.system.link_activity(0, p).flits for p in range(4))
    assert node.counters() == {"dropped_route": len(homes)} and not sent
    assert node.output("idle") and end.credits == [TEST.buffer_packets] * 3


def test_a_port_that_is_no_member_is_not_heard():
    system = System(TEST, Fabric.flat(4), expected={0: 3})
    system.region([0, 1, 2], links=[range(3)])
    operands = push_all(system, range(3), 10, OPS)
    stranger = system.endpoints[3]
    for k in range(5):
        stranger.push(ReduceOp.SUM_I32, 0, BLOCK * k, np.ones(WORDS, np.int32))

    finish(system)

    check_pushed(system, range(3), operands)
    assert not stranger.results
    assert system.switches[0].counters()["dropped_member"] == 5


def test_regions_of_other_members_do_not_meet():
    system = System(TEST, Fabric.flat(4), expected={0: 4, 1: 2}, stalls=0.3)
    system.region([0, 1, 2, 3], links=[range(4)])
    system.region([1, 3], region=1, links=[[1, 3]], homes=[3])
    operands = [push_all(system, range(4), 16, OPS, seed=8),
                push_all(system, [1, 3], 16, [ReduceOp.SUM_I32], seed=9, region=1)]

    finish(system)

    check_pushed(system, range(4), operands[0])
    check_pushed(system, [1, 3], operands[1], region=1)
    assert not any(region == 1 for end in system.endpoints[::2] for region, _ in end.results)


def test_what_is_sent_without_a_credit_is_dropped():
    system = single()
    end, *others = system.endpoints
    end.limit = end.credits[2] = TEST.buffer_packets + 3
    for other in others:
        other.stalls = 1.0
    for block in range(8):
        end.queue(Kind.RESULT, np.zeros(WORDS, np.int32), op=3, address=BLOCK * block, count=4)
    system.settle(quiet=150)
    # Some are at the others, as many in the buffer, and no credit is left.
    assert system.switches[0].counters() == {"dropped_overflow": 3}

    for other in others:
        other.stalls = 0.0
    system.settle(quiet=150)
    assert all(len(other.results) == 8 - 3 for other in others)


def test_results_pass_those_for_a_link_that_takes_none_without_limit():
    system = System(replace(TEST, buffer_packets=8, queue_packets=3), Fabric.flat(4),
                    expected={0: 3, 1: 3})
    system.region([0, 1, 3], links=[[0, 1, 3]])
    system.region([0, 1, 2], region=1, links=[[0, 1, 2]])
    sender, both, other, stopped = system.endpoints
    stopped.closed = {2}
    for region, blocks in enumerate((6, 60)):
        for block in range(blocks):
            sender.queue(Kind.RESULT, np.zeros(WORDS, np.int32), op=3, region=region, count=3,
                         address=BLOCK * block)

    system.settle(quiet=2 * STOPPED_CYCLES)
    assert len(stopped.results) == TEST.credits
    assert len(both.results) == 66 and len(other.results) == 60

    stopped.closed = set()
    system.settle(quiet=2 * STOPPED_CYCLES)
    assert len(stopped.results) == 6
    assert sender.credits == [8, 8, 8]


def test_operands_of_another_operation_or_epoch_are_dropped():
    system = single()
    one = np.ones(WORDS, np.int32)
    for k, end in enumerate(system.endpoints):
        end.push(ReduceOp.SUM_I32, 0, 0, one, epoch=int(k == 2))
    finish(system)

    counted = system.switches[0].counters()
    assert counted in ({"dropped_mismatch": 1, "expired": 1}, {"dropped_mismatch": 3, "expired": 1})
    assert not any(end.results for end in system.endpoints)


def test_latency_of_a_free_switch_is_as_stated():
    system = single(latency=1)
    end = system.endpoints[0]
    end.queue(Kind.RESULT, np.zeros(WORDS, np.int32), op=3, region=0, address=0, count=4)
    seen = {}
    while len(seen) < 3:
        system.step()
        for p in range(1, 4):
            if system.switches[0].output(f"link_{p}_tx_valid"):
                seen.setdefault(p, system.cycle)
    # A flit sent in a cycle is at rx in the next one; so is what is shown after a cycle.
    assert set(seen.values()) == {end.sent_at[-1] + 1 + Switch.latency}


def test_timing_of_the_links_does_not_reach_into_a_cycle():
    assert compile_configured(Switch, TEST, name="switch").single_pass


@pytest.mark.full
@pytest.mark.parametrize("formats", [False, True])
def test_verilator_finds_nothing_to_say_about_the_emitted_switch(formats, tmp_path):
    if not has_verilator():
        pytest.skip("needs verilator")
    switch = Switch(replace(TEST, half=formats, bfp=formats))
    (path, _) = emit_files(switch, tmp_path, name="switch", style="sv")

    assert not find_verilator().lint([WAIVERS_SV, path], top="switch")

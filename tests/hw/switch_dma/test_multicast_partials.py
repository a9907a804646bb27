# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Partials that are multicast to all members: sums, their order, and every exit once more."""

from dataclasses import replace

import pytest

from hw.fp.ops import ReduceOp
from hw.switch.packet import Format
from tb.switch_dma.fabric import AllReduce, flat, join, smallest, two_levels
from tests.hw.switch_dma import test_switch_dma as base
from tests.hw.switch_dma.test_switch_dma import QUIET, counted, evicted

SWITCH = replace(base.SWITCH, multicast_partials=True)
DMA = replace(base.DMA, multicast_partials=True)
SMALLEST = smallest(SWITCH, DMA)
FORMATS = (
    replace(SWITCH, half=True, bfp=True),
    replace(DMA, half=True, bfp=True, fixed_point=True, parts=True),
)


def apart(system, *jobs, wait=150):
    """Start the jobs on one node after the other, run to the end, check each."""
    for job in jobs:
        for node in job.nodes:
            job.start([node])
            system.step(wait)
    system.settle(quiet=QUIET)
    for job in jobs:
        job.check()


@pytest.mark.parametrize("mode", ["push", "pull"])
@pytest.mark.parametrize("make, members", [(flat, 3), (two_levels, 8)])
@pytest.mark.parametrize("stalls", [0.0, 0.7])
def test_all_members_add_in_one_order(make, members, stalls, mode):
    """Buffers of one packet, tables of one entry; members that begin apart. `check` compares what
    all members have, bit for bit, and in which order each has added."""
    system = join(make(*SMALLEST, members, mode=mode, stalls=stalls, seed=4, timeout=60))
    job = AllReduce(system, ReduceOp.SUM_F32, 900, seed=members)
    before = counted(system, "flits_sent")

    apart(system, job)

    assert evicted(system) > 5
    if mode == "push":  # what is not completed by a table every member completes for itself
        done = counted(system, "finished")
        assert done > 5 * members and done % members == 0
        assert counted(system, "results") == members * 29
        flits = system.dma.packet_flits * counted(system, "operands")
        assert counted(system, "flits_sent") - before == flits, "more than operands was sent"
    for status in system.ask("status"):
        assert status["outstanding"] == 0 and status["idle"] == 1, status


def test_an_order_of_its_own_is_found():
    """The check of `test_all_members_add_in_one_order`."""
    system = join(flat(*SMALLEST, 3, timeout=60))
    job = AllReduce(system, ReduceOp.SUM_F32, 300, seed=1)
    apart(system, job)
    orders = next(each for each in system.log.took.values() if len(set(each[0])) > 1)
    orders[1].reverse()

    with pytest.raises(AssertionError, match="in different orders"):
        job.check()


@pytest.mark.parametrize("test", [
    pytest.param(lambda: base.test_abort_by_software(200, "push"), id="abort"),
    pytest.param(lambda: base.test_disagreement_is_found_by_all({"elements": 450}, "push"),
                 id="disagreement"),
    pytest.param(lambda: base.test_a_refused_read_is_known_to_all_through_partials(1, "push"),
                 id="read"),
    pytest.param(lambda: base.test_an_endpoint_that_is_reset_alone(True, "push"), id="reset"),
    pytest.param(lambda: base.test_the_watchdog_ends_what_an_endpoint_does_not_join_in("push"),
                 id="watchdog"),
    pytest.param(lambda: base.test_waves_differ({"size_log2": 0, "outstanding": 4}, "push"),
                 id="waves"),
    pytest.param(lambda: base.test_random_troubles(2, "push"), id="troubles, push",
                 marks=pytest.mark.full),
    pytest.param(lambda: base.test_random_troubles(3, "pull"), id="troubles, pull",
                 marks=pytest.mark.full),
])
def test_exits_are_those_of_partials_for_the_home_endpoint(test, monkeypatch):
    switch, dma = SMALLEST
    monkeypatch.setattr(base, "SWITCH", switch)
    monkeypatch.setattr(base, "DMA", dma)
    test()


@pytest.mark.full
@pytest.mark.parametrize("more", [
    {"format": Format.FP16}, {"format": Format.BFP}, {"fixed": True},
])
def test_sums_of_words_whatever_travels(more):
    """Every member rounds, or converts, the same sum."""
    system = join(flat(*FORMATS, 4, stalls=0.3, timeout=60))

    apart(system, AllReduce(system, ReduceOp.SUM_F32, 333, **more))

    assert evicted(system) > 0 and counted(system, "finished") > 4


def test_wider_units_are_refused():
    with pytest.raises(ValueError, match="lanes must be 4 with multicast_partials, not 8"):
        replace(FORMATS[0], lanes=8)

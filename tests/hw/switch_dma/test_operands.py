# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Operands on their way from memory to packets: limits that are out of range, and an early end."""

from dataclasses import replace

import pytest
from amaranth.utils import exact_log2

from hw.fp.ops import ReduceOp
from hw.switch.config import preset as switch_preset
from hw.switch_dma.config import preset
from tb.switch_dma.fabric import AllReduce, flat, join

SWITCH = replace(switch_preset("test"), trace=True)
DMA = replace(preset("test"), trace=True)
QUIET = 700


@pytest.fixture(params=["push", "pull"])
def mode(request):
    """How operands are reduced."""
    return request.param


def _cycles(mode, size_log2, outstanding):
    """Run an all-reduce with waves of that size, and so many of them; returns its cycles."""
    system = flat(SWITCH, DMA, 2, mode=mode)
    for node in system.nodes:
        node.write("waves", size_log2=size_log2, outstanding=outstanding)
    join(system)
    job = AllReduce(system, ReduceOp.SUM_I32, 640)
    begin = system.cycle
    job.start()
    system.run(lambda: all(node.output("irq") for node in system.nodes))
    took = system.cycle - begin
    system.settle(quiet=QUIET)
    job.check()
    return took


def test_limits_out_of_range_are_the_nearest_there_are(mode):
    least = _cycles(mode, 0, 1)
    assert _cycles(mode, 0, 0) == least
    most = _cycles(mode, exact_log2(DMA.wave_blocks), DMA.waves)
    assert _cycles(mode, 15, 63) == most < least


def test_a_refused_read_of_what_was_given_up_spoils_nothing_else(mode):
    """Given up in the middle of the packet whose first beat was refused."""
    system = join(flat(SWITCH, DMA, 2, mode=mode), watchdog=20_000)
    reads = system.nodes[0]
    reads.node.pace_memory(200, ["r"])
    job = AllReduce(system, ReduceOp.SUM_I32, 500)
    reads.refuse(reads=range(job.source, job.source + 16))
    job.start()
    beats = 0
    while not beats:
        beats = system.ask("beats_read", 0, nodes=[reads])[0]["count"]
    assert beats < DMA.payload_flits
    reads.write("control", abort=1)
    system.settle(quiet=QUIET)

    assert all(each["aborted"] and not each["invalid"] for each in system.ask("interrupt"))
    reads.node.pace_memory()
    reads.node.heal_memory()
    for node in system.nodes:
        node.write("interrupt", aborted=1, memory=1)
    job = AllReduce(system, ReduceOp.SUM_F32, 300, seed=8)
    job.start()
    system.settle(quiet=QUIET)
    job.check(epoch=system.ask("epoch")[0]["value"])
    assert all(each["done"] and not each["invalid"] for each in system.ask("interrupt"))

# SPDX-License-Identifier: Apache-2.0
"""Faults and resets of endpoints on switches that are run cycle by cycle."""

from dataclasses import replace

import pytest

from hw.fp.ops import ReduceOp
from hw.link.retry_frame import RetryConfig
from hw.switch.config import preset as switch_preset
from hw.switch_dma.config import preset
from tb.switch_dma.fabric import AllReduce, flat, join

SWITCH = replace(switch_preset("test"), trace=True)
DMA = replace(preset("test"), trace=True)
RETRY = RetryConfig(slots=8, timeout_cycles=100, tries=30)


def test_frames_that_are_mangled_are_dropped_and_sent_again():
    system = join(flat(SWITCH, DMA, 3, retry=RETRY))
    job = AllReduce(system, ReduceOp.SUM_F32, 700)
    for wire in system.wires:
        system.system.strain(*wire, mangling=0.2)
    job.start()
    system.settle(quiet=700)
    job.check()

    met = system.met()
    assert met["damaged"] > 30 and met["lost"] == met["repeated"] == 0
    assert all(node.output("damaged") for node in system.nodes)


def test_a_wire_that_is_cut_brings_no_credits_and_another_no_packets():
    system = join(flat(SWITCH, DMA, 3))
    before = system.flits(0, 0)
    system.system.cut(*system.to_node((0, 0)))
    system.system.cut(*system.to_switch((0, 1)))
    AllReduce(system, ReduceOp.SUM_I32, 3200).start()
    system.settle(quiet=300)

    assert system.flits(0, 0) - before == DMA.packet_flits * SWITCH.buffer_packets
    assert len(system.log.taken) > 1
    assert all(1 not in sources for sources in system.log.taken.values())


def test_a_host_gives_up_what_it_had_to_do_when_its_engine_is_reset():
    system = flat(SWITCH, DMA, 2)
    node = system.nodes[0]
    given = [node.write("watchdog", cycles=k) for k in range(5)]
    system.step(6)
    later = node.write("watchdog", cycles=9)
    node.restart()

    assert given[0].response == 0 and {given[-1].response, later.response} == {4}
    assert node.ask("watchdog")["cycles"] == 0


def test_a_tap_is_for_links_without_retry():
    system = flat(SWITCH, DMA, 2)
    assert system.added(system.tap(system.to_node((0, 1)))) == 0
    with pytest.raises(ValueError, match=r"has 1 link ports, so no port 7$"):
        system.tap((0, 7))

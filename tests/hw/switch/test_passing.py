# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Packets that pass others at a switch, as its links show them."""

from dataclasses import replace

import numpy as np

from hw.fp.ops import ReduceOp
from hw.switch.packet import Kind
from tests.hw.switch.systems import BLOCK, TEST, WORDS, single


def _first_flits(system, ports, cycles):
    """Cycles at which packets with data begin on the links of *ports*."""
    begun, left = {p: [] for p in ports}, dict.fromkeys(ports, 0)
    for _ in range(cycles):
        system.step()
        for p in ports:
            if system.switches[0].output(f"link_{p}_tx_valid"):
                if not left[p]:
                    begun[p].append(system.cycle)
                    left[p] = 1 + TEST.payload_flits
                left[p] -= 1
    return begun


def test_a_packet_for_a_free_link_passes_one_whose_column_a_unit_has():
    """A port's link and unit share a column of the crossbar. While operands come to the unit, two
    sums go to its link and one, the youngest, to another: that need not wait for the unit's turn.
    """
    passed = []
    for late in range(1 + TEST.payload_flits):
        system = single(replace(TEST, buffer_packets=8, queue_packets=3), latency=1)
        operands, sums = system.endpoints[0], system.endpoints[2]
        zeros = np.zeros(WORDS, np.int32)
        for row in range(TEST.homes):
            system.switches[0].write("home", row, endpoint=1)
        system.settle(quiet=5)
        for block in range(8):
            operands.push(ReduceOp.SUM_I32, 0, BLOCK * block, zeros)
        system.step(11 + late)
        for block, to in enumerate((1, 1, 3), start=90):
            sums.queue(Kind.PARTIAL, zeros, op=3, region=0, count=2, destination=to,
                       address=BLOCK * block)
        begun = _first_flits(system, (1, 3), 100)
        passed.append(begun[3][0] < begun[1][1])
    assert sum(passed) >= TEST.payload_flits // 2, "it waits in whatever cycle it comes"

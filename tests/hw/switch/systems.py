# SPDX-License-Identifier: Apache-2.0
"""Compiled switches with Python endpoints, and what tests of them share."""

from dataclasses import replace

import numpy as np

from hw.fp.ops import ReduceOp
from hw.switch.config import preset
from sim.cycles.switch.fabric import Fabric
from sim.rtl.switch.orders import folded
from tb.switch.system import System

TEST = replace(preset("test"), trace=True)
SMALLEST = replace(TEST, entries=1, buffer_packets=1, credits=1, queue_packets=1)
TREE_LINKS = [range(4), *[[0, 1, 3]] * 4]
"""Ports of `tree` that are used, by switch."""
BLOCK = TEST.payload_flits
WORDS = TEST.payload_bytes // 4


def single(config=TEST, members=4, **options):
    """One switch with an endpoint at each of its first ports, all of them one region."""
    return _system(config, Fabric.flat(members), **options)


def pair(config=TEST, **options):
    """Two switches with three endpoints each, joined by their last ports."""
    last = config.ports - 1
    places = [(s, p) for s in range(2) for p in range(last)]
    return _fabric(config, places, [((0, last), (1, last))], [range(config.ports)] * 2,
                   lambda s: last, **options)


def tree(config=TEST, **options):
    """A root switch and four below it, with two endpoints each."""
    places = [(s, p) for s in range(1, 5) for p in (0, 1)]
    cables = [((0, s - 1), (s, 3)) for s in range(1, 5)]
    return _fabric(config, places, cables, TREE_LINKS, lambda s: 3, **options)


def _fabric(config, places, cables, links, up, **options):
    """Endpoints at *places*; port *up* of a switch leads to the others'."""
    def port(s, there, p):
        return p if there == s else there - 1 if len(links) > 2 and s == 0 else up(s)

    routes = [[port(s, *place) for place in places] for s in range(len(links))]
    fabric = Fabric(places=[[place] for place in places], cables=cables, trees=[links],
                    homes=[range(len(places))], routes=routes)
    return _system(config, fabric, **options)


def _system(config, fabric, **options):
    members = len(fabric.places)
    system = System(config, fabric, expected={0: members}, **options)
    system.region(range(members), links=fabric.trees[0])
    return system


def draw(rng, op):
    if op is ReduceOp.SUM_I32:
        return rng.integers(-(1 << 31), 1 << 31, WORDS).astype(np.int32)
    return (rng.standard_normal(WORDS) * 10.0 ** rng.integers(-6, 7, WORDS)).astype(np.float32)


OPS = [ReduceOp.SUM_F32, ReduceOp.SUM_I32, ReduceOp.MAX_F32, ReduceOp.MIN_F32]


def finish(system, *, timeout=200, lost=0):
    """Run to the end; entries of which a part is at an endpoint are timed out. Endpoint 0 has then
    *lost* requests' credits, and the others have all."""
    for switch in system.switches:
        switch.write("timeout", cycles=timeout)
    system.settle(quiet=2 * timeout + 150)
    for switch in system.switches:
        assert switch.output("idle")
    most = system.config.buffer_packets
    for end in system.endpoints:
        assert end.credits == [most - (lost if end.number == 0 else 0), most, most]
        assert not any(end.queues)


def push_all(system, members, blocks, ops, *, seed=1, region=0):
    """Every member pushes an operand for every block; returns them by address."""
    rng = np.random.default_rng(seed)
    operands = {}
    for number in range(blocks):
        op = ops[number % len(ops)]
        operands[BLOCK * number] = op, [draw(rng, op) for _ in members]
    for k, member in enumerate(members):
        # The first half in any order, for evictions; the second in order, so that some complete.
        order = [*rng.permutation(blocks // 2), *range(blocks // 2, blocks)]
        for number in order:
            op, words = operands[BLOCK * int(number)]
            system.endpoints[member].push(op, region, BLOCK * int(number), words[k])
    return operands


def check_pushed(system, members, operands, *, region=0):
    """All members have the same result for each address: the sum of all operands in the order in
    which the table of its home took them, parted as its partials were."""
    ends = [system.endpoints[k] for k in members]
    for end in ends:
        addresses = {address for number, address in end.results if number == region}
        assert addresses == set(operands), f"endpoint {end.number}"
    taken = system.log.taken
    for address, (op, words) in operands.items():
        order = taken[0, region, address]
        assert sorted(order) == sorted(members)
        found = [end.results[region, address] for end in ends]
        parts = next((parts for _, parts in found if parts is not None), [(len(words), None, None)])
        assert sum(count for count, _, _ in parts) == len(words)
        left = [words[list(members).index(k)] for k in order]
        sums = []
        for count, _, _ in parts:
            sums.append(folded(op, left[:count]))
            left = left[count:]
        assert all(part is None or np.array_equal(part, each)
                   for (_, part, _), each in zip(parts, sums))
        wanted = folded(op, sums)
        assert all(each.tobytes() == wanted.tobytes() for each, _ in found)
        if op is ReduceOp.SUM_I32:
            assert np.array_equal(wanted, sum(words[1:], words[0]))

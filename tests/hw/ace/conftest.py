# SPDX-License-Identifier: Apache-2.0
"""Rings of compiled engines, and one engine between neighbours that do what they like."""

import numpy as np
import pytest

from hw.ace.config import preset
from hw.fp.ops import ReduceOp
from sim.collectives.fsm_program import PROGRAM_ENTRY
from sim.collectives.partition import Partition
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.ring import AceRing
from tests.hw.ace.neighbours import Job, Neighbours
from tests.hw.ace.rig import Rig

PATIENCE = 1_000_000
"""Cycles after which a collective of these tests hangs; the longest takes a tenth of them."""


class ShortRing(AceRing):
    """A ring whose collectives are short, so that one that hangs fails in seconds."""

    def run(self, *requests, max_cycles=PATIENCE, **options):
        return super().run(*requests, max_cycles=max_cycles, **options)


@pytest.fixture
def engine():
    """Builds the smallest engine as a rank of a ring."""

    def build(*, rank=0, nodes=3, seed=0, stalls=0.2, config=None, **options):
        rig = Rig(config or preset("test"), seed=seed, stalls=stalls)
        rig.set_up(rank=rank, nodes=nodes, **options)
        return rig

    return build


@pytest.fixture
def jobs():
    """Makes collectives with random data: (collective, op, elements, block) each."""

    def make(rig, nodes, kinds):
        config = rig.config
        rng = np.random.default_rng(rig.random.randrange(2**32))
        made, at = [], 0
        for name, (collective, op, elements, block) in enumerate(kinds):
            if op is ReduceOp.SUM_I32:
                arrays = [rng.integers(0, 2**32, elements, np.uint32) for _ in range(nodes)]
            else:
                arrays = [rng.standard_normal(elements).astype(np.float32) for _ in range(nodes)]
            partition = Partition.plan(
                elements, nodes, queues=1, lanes=config.lanes,
                packet_elements=config.packet_elements, slot_elements=config.slot_elements,
                block=block,
            )
            size = -(-4 * elements // 128) * 128
            made.append(Job(collective, op, arrays, partition, 7 + name, at, at + size))
            at += 2 * size
        assert at <= len(rig.memory)
        return made

    return make


@pytest.fixture
def converse():
    """Runs jobs on an engine whose neighbours send in random order, and checks everything."""

    def run(rig, rank, nodes, jobs, *, ready="random", before_start=0, each_cycle=lambda: None):
        neighbours = Neighbours(rig, rank, nodes, jobs, ready)
        neighbours.store_inputs()
        for _ in range(before_start):
            neighbours.act()
            rig.step()
        neighbours.start()

        def done():
            neighbours.act()
            each_cycle()
            return neighbours.done

        rig.until(done, limit=60_000, why="all packets")
        rig.until_idle()
        for got, expected in neighbours.results():
            np.testing.assert_array_equal(got, expected)
        return neighbours

    return run


@pytest.fixture
def collective():
    """The collectives by name."""
    return PROGRAM_ENTRY


@pytest.fixture
def ring():
    """Builds a ring of the smallest engines."""

    def build(nodes, *, config="test", options=None, **settings):
        settings = {"memory_bytes": 1 << 16} | settings
        return ShortRing(config, Surroundings(nodes=nodes, **settings), **(options or {}))

    return build


@pytest.fixture
def vectors():
    """Random vectors for an operation, one per rank; with the values that need care if *odd*."""

    def make(nodes, elements, *, op=ReduceOp.SUM_F32, odd=False, seed=0):
        rng = np.random.default_rng(seed)
        if op is ReduceOp.SUM_I32:
            return [rng.integers(0, 2**32, elements, np.uint32) for _ in range(nodes)]
        arrays = [rng.standard_normal(elements).astype(np.float32) for _ in range(nodes)]
        if odd:
            special = np.array(
                [0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC12345, 0x80000000, 0, 1,
                 0x80000001, 0x007FFFFF, 0x7F7FFFFF, 0xFF7FFFFF], np.uint32,
            ).view(np.float32)
            for array in arrays:
                where = rng.random(elements) < 0.4
                array[where] = rng.choice(special, int(where.sum()))
        return arrays

    return make

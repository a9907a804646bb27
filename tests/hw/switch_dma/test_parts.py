# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""All-gather, broadcast and reduce-scatter: a part of the vector is sent, or stored, alone."""

from dataclasses import replace

import numpy as np
import pytest

from hw.fp.ops import ReduceOp
from hw.switch.config import preset as switch_preset
from hw.switch.packet import AbortCause
from hw.switch_dma.config import preset
from hw.switch_dma.layouts import Part
from hw.switch_dma.registers import CommandError
from tb.switch_dma.fabric import AllReduce, Restriction, flat, join, shares, two_levels
from tests.hw.switch_dma.test_switch_dma import (
    QUIET,
    counted,
    evicted,
    expect_abort,
    finish,
    recover,
)

SWITCH = replace(switch_preset("test"), trace=True)
DMA = replace(preset("test"), trace=True, fixed_point=True, parts=True)
SIZE = DMA.block_elements

both_modes = pytest.mark.parametrize("mode", ["push", "pull"])


def staggered(system, job):
    for node in system.nodes:
        job.start([node])
        system.step(150)
    system.settle(quiet=QUIET)
    job.check()


@both_modes
@pytest.mark.parametrize("make, members, entries", [(flat, 4, 1), (two_levels, 5, 2)])
def test_all_gather(make, members, entries, mode):
    """Any bits, NaNs among them, come through; what others send is not read."""
    system = join(make(replace(SWITCH, entries=entries), DMA, members, mode=mode, stalls=0.3,
                       timeout=60))
    parts = shares(system, 333)
    job = AllReduce(system, ReduceOp.SUM_I32, 333, only=Restriction(Part.SEND, parts))
    staggered(system, job)

    together = np.concatenate([words[slice(*part)] for words, part in zip(job.inputs, parts)])
    assert all(np.array_equal(words, together) for words in job.results())
    assert counted(system, "beats_read") == -(-333 // 4)
    assert evicted(system) > 0


@both_modes
@pytest.mark.parametrize("root", [0, 2])
def test_broadcast(root, mode):
    system = join(flat(replace(SWITCH, entries=1), DMA, 3, mode=mode, timeout=60))
    parts = [(0, 200) if k == root else (0, 0) for k in range(3)]
    job = AllReduce(system, ReduceOp.SUM_I32, 200, only=Restriction(Part.SEND, parts))
    staggered(system, job)

    assert all(np.array_equal(words, job.inputs[root]) for words in job.results())
    assert evicted(system) > 0


@both_modes
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("elements", [31, 333])
def test_reduce_scatter(elements, fixed, mode):
    """Every member has its part of the sum, and what lies beside it in memory stays."""
    system = join(flat(replace(SWITCH, entries=2), DMA, 4, mode=mode, stalls=0.2, timeout=60))
    only = Restriction(Part.STORE, shares(system, elements))
    job = AllReduce(system, ReduceOp.SUM_F32, elements, fixed=fixed, only=only)
    staggered(system, job)

    assert counted(system, "results") == sum(-(-(end - begin) // SIZE) for begin, end in only.spans)
    assert elements < 100 or evicted(system) > 0


@pytest.mark.full
@pytest.mark.parametrize("links", [2])
def test_parts_on_several_links(links):
    system = join(flat(SWITCH, replace(DMA, links=links), 3))
    base = [0] * links
    for part in (Part.SEND, Part.STORE):
        base = finish(system, AllReduce(system, ReduceOp.SUM_I32, 500,
                                        only=Restriction(part, shares(system, 500))), base=base)
    finish(system, AllReduce(system, ReduceOp.MAX_F32, 77), base=base)


@both_modes
def test_members_that_differ_in_it_disagree(mode):
    system = join(flat(SWITCH, DMA, 3, mode=mode))
    only = Restriction(Part.STORE, shares(system, 200))
    job = AllReduce(system, ReduceOp.SUM_I32, 200, only=only)
    job.start(system.nodes[1:])
    job.start(system.nodes[:1], part=Part.SEND)
    system.settle(quiet=QUIET)

    expect_abort(system, AbortCause.DISAGREEMENT)
    recover(system)


@both_modes
def test_a_refused_read_is_known_to_all(mode):
    system = join(flat(SWITCH, DMA, 3, mode=mode))
    job = AllReduce(system, ReduceOp.SUM_I32, 200, only=Restriction(Part.SEND, shares(system, 200)))
    inside, outside = (job.source + 4 * job.parts[1][0], job.source)
    system.nodes[1].refuse(reads=range(outside, outside + 16))  # not read
    job.start()
    system.settle(quiet=QUIET)
    job.check()
    assert not any(each["invalid"] for each in system.ask("interrupt"))

    system.nodes[1].refuse(reads=range(inside, inside + 16))
    job.start()
    system.settle(quiet=QUIET)
    assert all(each["invalid"] for each in system.ask("interrupt"))
    assert all(each["read"] for each in system.ask("invalid"))


@pytest.mark.parametrize("begin, end, more", [(4, 64, {}), (0, 65, {}), (0, 224, {}), (64, 32, {}),
                                              (0, 64, {"fixed": 1, "exponent": 130,
                                                       "op": ReduceOp.SUM_F32})])
def test_parts_that_cannot_be_are_refused(begin, end, more):
    system = join(flat(SWITCH, DMA, 2))
    job = AllReduce(system, ReduceOp.SUM_I32, 200, only=Restriction(Part.SEND, [(begin, end)] * 2))
    job.start(**more)
    system.settle(quiet=20)
    assert {each["error"] for each in system.ask("refusal")} == {CommandError.PART.value}

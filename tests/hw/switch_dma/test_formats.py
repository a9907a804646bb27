# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Operands and results in 16 bits and in block floating point, sums of words between."""

from dataclasses import replace

import numpy as np
import pytest
from amaranth.sim import Simulator

from hw.fp.ops import ReduceOp
from hw.switch.config import SwitchConfig
from hw.switch.config import preset as switch_preset
from hw.switch.packet import AbortCause, Format, encode
from hw.switch_dma.config import SwitchDmaConfig, preset
from hw.switch_dma.control import Control
from hw.switch_dma.layouts import Part
from hw.switch_dma.registers import CommandError
from tb.switch_dma.fabric import AllReduce, Restriction, flat, join, shares, smallest, two_levels
from tests.families import full
from tests.hw.switch_dma.test_switch_dma import (
    QUIET,
    counted,
    evicted,
    expect_abort,
    finish,
    recover,
    switch_count,
)

SWITCH = replace(switch_preset("test"), trace=True, half=True, bfp=True)
DMA = replace(preset("test"), trace=True, half=True, bfp=True, fixed_point=True, parts=True)

modes = pytest.mark.parametrize("mode", ["push", "pull", "whole"])
formats = pytest.mark.parametrize("format", [Format.FP16, Format.BF16, Format.BFP])
USUAL = [(Format.FP16, 4), (Format.BF16, 4), (Format.BFP, 4), (Format.BFP, 16)]
formats_and_lanes = pytest.mark.parametrize("format, lanes", [
    pytest.param(format, lanes, marks=() if (format, lanes) in USUAL else pytest.mark.full)
    for format in (Format.FP16, Format.BF16, Format.BFP) for lanes in (4, 8, 16)
])


def all_reduce(system, op, elements, format, **more):
    return AllReduce(system, op, elements, format=format, **more)


@modes
@formats_and_lanes
def test_sums_are_rounded_once(format, mode, lanes):
    """Of the sum of words in the order that was logged, tables that overflow or not."""
    system = join(flat(replace(SWITCH, lanes=lanes), DMA, 4, mode=mode, stalls=0.3, timeout=60))
    job = all_reduce(system, ReduceOp.SUM_F32, 333, format)
    for node in system.nodes:
        job.start([node])
        system.step(150)
    system.settle(quiet=QUIET)
    job.check()

    assert evicted(system) > 0


@pytest.mark.parametrize("mode", ["push", "pull"])
@pytest.mark.parametrize("least, lanes", [
    (False, 4), *full(((True, 4), (True, 8), (False, 16))),
])
@formats
def test_two_levels_and_members_that_begin_apart(format, least, lanes, mode):
    """With tables of one entry and buffers of one packet, and larger ones."""
    switch, dma = smallest(SWITCH, DMA) if least else (SWITCH, DMA)
    switch = replace(switch, lanes=lanes)
    system = join(two_levels(switch, dma, 6, mode=mode, stalls=0.4, seed=4))
    job = all_reduce(system, ReduceOp.SUM_F32, 500, format, seed=2)
    for node in system.nodes:
        job.start([node])
        system.settle(quiet=100)
    system.settle(quiet=QUIET)

    job.check()
    assert counted(system, "partials") > 0 and counted(system, "finished") > 0
    assert mode == "pull" or switch_count(system, "evicted", "expired") > 0
    assert mode == "push" or not least or switch_count(system, "bypassed") > 0
    assert not any(counted(system, f"dropped_{name}") for name in ("stale", "unknown", "excess"))


@formats
@pytest.mark.parametrize("elements", [1, 2, 7, 8, 9, 31, 32, 33])
def test_lengths(elements, format):
    system = join(flat(SWITCH, DMA, 2, mode="push" if elements % 2 else "pull"))

    finish(system, all_reduce(system, ReduceOp.SUM_F32, elements, format, seed=elements))


@pytest.mark.parametrize("links, lanes", [
    (1, 4), (1, 16), *full(((1, 8), (2, 4)))
])
def test_one_after_the_other_in_all_formats(links, lanes):
    """Minimum and maximum, too; words as they were."""
    system = join(flat(replace(SWITCH, lanes=lanes), replace(DMA, links=links), 3, stalls=0.2))
    base = [0] * links
    for op in (ReduceOp.SUM_F32, ReduceOp.MIN_F32, ReduceOp.MAX_F32):
        for format in Format:
            base = finish(system, all_reduce(system, op, 77, format, seed=op.value), base=base)
    base = finish(system, AllReduce(system, ReduceOp.SUM_I32, 77), base=base)
    finish(system, AllReduce(system, ReduceOp.SUM_F32, 77, fixed=True), base=base)


@pytest.mark.parametrize("format, share", [(Format.FP16, 5), (Format.BF16, 5), (Format.BFP, 4)])
def test_what_travels(format, share):
    """Packets of so many flits in place of nine; contracts and notices are of words."""
    sent = {}
    for each in (Format.WORDS, format):
        system = join(flat(SWITCH, DMA, 4))
        for node in system.nodes:
            node.write("waves", size_log2=0, outstanding=1)
        system.settle(quiet=10)
        before = system.flits(0, 0)
        finish(system, all_reduce(system, ReduceOp.SUM_F32, 32 * 40, each))
        sent[each] = system.flits(0, 0) - before
        assert counted(system, "partials") == 0
    assert sent == {Format.WORDS: 9 * 41, format: share * 40 + 9}


def test_sums_that_16_bits_do_not_hold():
    """They are infinite, and subnormal ones are rounded as all others."""
    system = join(flat(SWITCH, DMA, 3))
    job = all_reduce(system, ReduceOp.SUM_F32, 64, Format.FP16)
    for node, words in zip(system.nodes, job.inputs):
        words[:8], words[8:16] = 40_000, -65_504
        words[16:64] = np.arange(48) * np.float32(2.0**-24) * (1 + node.number)
        node.put(job.source, job._stored(words))
    finish(system, job)
    result = job.results()[0].view(np.float16)
    assert (result[:8] == np.inf).all() and (result[8:16] == -np.inf).all()
    assert np.array_equal(result[16:].astype(float), np.arange(48) * 6 * 2.0**-24)


@pytest.mark.parametrize("mode", ["push", "pull"])
@formats
def test_reduce_scatter(format, mode):
    system = join(flat(SWITCH, DMA, 3, mode=mode))
    only = Restriction(Part.STORE, shares(system, 200))
    finish(system, all_reduce(system, ReduceOp.SUM_F32, 200, format, only=only))


# ---- Exits.


@pytest.mark.parametrize("mode", ["push", "pull"])
@pytest.mark.parametrize("format, after", [(Format.FP16, 150), (Format.BFP, 60),
                                           (Format.BFP, 190)])
def test_abort(format, after, mode):
    """In the midst of packets that are being compressed; the next one works in any format."""
    system = join(flat(SWITCH, DMA, 4, mode=mode, stalls=0.2, seed=after))
    job = all_reduce(system, ReduceOp.SUM_F32, 1500, format)
    job.start()
    system.step(after)
    system.nodes[1].write("control", abort=1)
    system.settle(quiet=QUIET)

    expect_abort(system, AbortCause.SOFTWARE, origin=1)
    recover(system)
    finish(system, all_reduce(system, ReduceOp.SUM_F32, 99, format), epoch=1, base=[12])


@pytest.mark.parametrize("mode", ["push", "pull"])
@pytest.mark.parametrize("mine, other", [(Format.FP16, Format.BF16), (Format.BFP, Format.WORDS),
                                         (Format.WORDS, Format.FP16)])
def test_members_that_differ_in_it_disagree(mine, other, mode):
    system = join(flat(SWITCH, DMA, 3, mode=mode))
    job = all_reduce(system, ReduceOp.SUM_F32, 200, mine)
    job.start(system.nodes[1:])
    job.start(system.nodes[:1], format=other)
    system.settle(quiet=QUIET)

    expect_abort(system, AbortCause.DISAGREEMENT)
    assert mode == "pull" or switch_count(system, "dropped_mismatch") > 0
    recover(system)


def test_a_result_of_another_format_is_not_stored():
    """It does not come twice, so the watchdog ends the all-reduce."""
    system = join(flat(SWITCH, DMA, 3), watchdog=500, tries=1)
    wire = system.to_node((0, 2))
    # The contract stays as it is; the checksum is that of the other format.
    system.hit(wire, 0, encode({"format": Format.FP16}) ^ encode({"format": Format.BF16}))
    job = all_reduce(system, ReduceOp.SUM_F32, 64, Format.FP16)
    job.start()
    system.settle(quiet=QUIET + 2 * 500)

    assert system.system.struck(*wire) == 2
    assert counted(system, "dropped_unknown") == 1
    expect_abort(system, AbortCause.WATCHDOG)
    recover(system)


@formats
def test_a_refused_read_is_known_to_all(format):
    system = join(flat(SWITCH, DMA, 3))
    job = all_reduce(system, ReduceOp.SUM_F32, 200, format)
    system.nodes[2].refuse(reads=range(job.source + 16, job.source + 32))
    job.start()
    system.settle(quiet=QUIET)
    assert all(each["invalid"] for each in system.ask("interrupt"))
    assert all(each["read"] and not each["write"] for each in system.ask("invalid"))


@pytest.mark.parametrize(
    "given",
    [
        {"op": ReduceOp.SUM_I32},
        {"fixed": 1, "exponent": 130},
        {"part": Part.SEND, "begin": 0, "end": 32},
    ],
)
def test_formats_that_cannot_be_are_refused(given):
    system = join(flat(SWITCH, DMA, 2))
    job = all_reduce(system, ReduceOp.SUM_F32, 64, Format.FP16)
    job.start(**given)
    system.settle(quiet=20)
    assert {each["error"] for each in system.ask("refusal")} == {CommandError.FORMAT.value}


@pytest.mark.parametrize(
    "has, format, error",
    [
        ({"half": True}, Format.BFP, CommandError.FORMAT),
        ({"half": True}, Format.FP16, CommandError.NONE),
        ({"bfp": True}, Format.FP16, CommandError.FORMAT),
        ({"bfp": True}, Format.BF16, CommandError.FORMAT),
        ({"bfp": True}, Format.BFP, CommandError.NONE),
    ],
)
def test_a_format_that_the_endpoint_lacks_is_refused(has, format, error):
    control = Control(replace(preset("test"), **has))
    seen = []

    async def bench(ctx):
        ctx.set(control.node.members, 2)
        ctx.set(control.memory_end, (1 << 32) - 1)
        ctx.set(control.state.joined, 1)
        ctx.set(control.command.elements, 64)
        ctx.set(control.command.format, format)
        ctx.set(control.command_strobe, 1)
        await ctx.tick()
        ctx.set(control.command_strobe, 0)
        for _ in range(3):
            await ctx.tick()
            if ctx.get(control.refused) or ctx.get(control.accepted):
                seen.append(ctx.get(control.error))

    simulator = Simulator(control)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert seen == [error]


@pytest.mark.parametrize("kind", [SwitchConfig, SwitchDmaConfig])
def test_blocks_must_fit_packets(kind):
    with pytest.raises(ValueError, match="payload_flits"):
        kind(bfp=True, payload_flits=2, alu_stages=1)
    with pytest.raises(TypeError, match="half"):
        kind(half=1)


@pytest.mark.parametrize("given, message", [
    ({"lanes": 8}, "4 without a format of half or bfp, not 8: words come 4 in a cycle"),
    ({"lanes": 2}, "one of 4, 8, 16, not 2"),
    ({"lanes": 2, "half": True}, "one of 4, 8, 16, not 2"),
    ({"lanes": 16, "bfp": True, "payload_flits": 4}, "one of 4, 8, not 16"),
])
def test_units_are_no_wider_than_packets_gain(given, message):
    with pytest.raises(ValueError, match=f"^lanes must be {message}$"):
        SwitchConfig(**given)


def test_memory_is_as_large_as_vectors_of_two_bytes_need():
    system = join(flat(SWITCH, DMA, 2))
    end = 0x2000 + 2 * 200
    for node in system.nodes:
        node.write("memory_end_low", value=end - 1)
    job = all_reduce(system, ReduceOp.SUM_F32, 200, Format.FP16)
    job.start(source=0x1000, destination=0x2000)
    system.settle(quiet=QUIET)
    assert not any(each["refused"] for each in system.ask("interrupt"))
    for more in ({"destination": 0x2010}, {"destination": 0x2000, "elements": 201},
                 {"destination": 0x2000, "format": Format.BFP}):
        job.start(source=0x1000, **more)
        system.settle(quiet=QUIET)
        assert all(each["refused"] for each in system.ask("interrupt"))
        assert {each["error"] for each in system.ask("refusal")} == {CommandError.ADDRESS.value}
        for node in system.nodes:
            node.write("interrupt", refused=1)

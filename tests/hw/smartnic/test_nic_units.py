# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The parts of the NIC by themselves, and what is true of it as a whole."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from gen.verilator import find_verilator, has_verilator
from gen.verilog import emit_files
from hw.common.engine_registers import VERSION
from hw.common.testing import check_stream, random_stalls, simulate, sink, source
from hw.fp.ops import ReduceOp
from hw.smartnic.config import PRESETS, SmartNicConfig, preset
from hw.smartnic.control import Control, Planner
from hw.smartnic.nic import SmartNic
from hw.smartnic.registers import NIC_ID, CommandError, register_map
from hw.smartnic.sequencer import BlockSequencer
from sim.collectives.partition import NicPartition
from sim.hosts.surroundings import Surroundings
from sim.rtl.smartnic.ring import NicRing
from tests.families import full
from tests.hw.common.attributes import assert_attributes
from tests.hw.common.prover import assert_moore

TEST = preset("test")
WAIVERS = Path(__file__).parents[3] / "gen" / "waivers.vlt"


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"bus_bytes": 16}, "bus_bytes must be one of 32, 64, 128, not 16"),
        ({"engines": 0}, "engines must be an integer from 1 to 8, not 0"),
        ({"block_beats": 48}, "block_beats must be a power of two from 64"),
        ({"frame_beats": 256}, "frame_beats must be a power of two from 2 to 128"),
        ({"receive_beats": 600}, "receive_beats must be an integer from 704 to"),
        ({"ethernet": 2}, "ethernet must be a bool, not 2"),
        ({"codec": "bfp17"}, "codec must be one of 'none', 'bfp16', "),
        ({"codec": "bfp16_stochastic"}, "codec must be a format that rounds to "),
        ({"codec": "3e8m8"}, "BlockFormat elements must be a power of two"),
        (
            {"codec": "64e8m8", "bus_bytes": 32, "block_beats": 4, "frame_beats": 4,
             "compressed_frame_beats": 1},
            "block_beats must be at least 8 to hold a block of '64e8m8', not 4",
        ),
    ],
)
def test_bad_configuration_is_refused_by_name_and_value(changes, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        SmartNicConfig(**changes)
    assert str(caught.value).startswith(message)


def test_codec_is_a_preset_or_spelt_out():
    assert replace(TEST, codec="none").codec_format is None
    assert replace(TEST, codec="16e8m8").codec_format == TEST.codec_format
    assert replace(TEST, codec="32e5m4").codec_format.block_bits == 5 + 32 * 4


def test_preset_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(ValueError, match=r"^preset must be one of 'test', '40g', '100g', '400g'"):
        preset("10g")


def descriptors(rng, count):
    for _ in range(count):
        nodes = int(rng.choice([2, 3, 16, 255, 256, rng.integers(2, 257)]))
        yield {
            "source": 32 * int(rng.integers(1 << 20)),
            "destination": 32 * int(rng.integers(1 << 20)),
            "elements": int(rng.choice([1, 2**32 - 1, int(2 ** (32 * rng.random()))])),
            "rank": int(rng.integers(nodes)),
            "nodes": nodes,
            "op": 0,
            "compress": int(rng.integers(2)),
            "tag": 0,
        }


def planned(config, given):
    plan = NicPartition(elements=given["elements"], nodes=given["nodes"], config=config)
    return {
        **{name: given[name] for name in ("source", "destination", "rank", "op", "compress")},
        "beats": plan.beats,
        "tail_lanes": (given["elements"] - 1) % config.lanes,
        "rounds": plan.rounds,
        "rest": plan.rest_beats,
        "last_rank": given["nodes"] - 1,
    }


@pytest.mark.parametrize("codec", ["none", "bfp16", "64e8m4"])
def test_planner_cuts_vectors_as_the_golden_model_does(codec):
    config = replace(TEST, codec=codec)
    given = list(descriptors(np.random.default_rng(1), 40))
    expected = [planned(config, each) for each in given]
    dut = Planner(config)

    simulate(
        dut,
        source(dut.i, given, random_stalls(1, 0.3)),
        sink(
            dut.o, [dut.o.payload.shape().const(each) for each in expected], random_stalls(2, 0.3)
        ),
        checks=[check_stream(dut.o)],
    )


@pytest.mark.parametrize("address_bits", [24, 32, 33, 64])
def test_vector_that_does_not_end_in_memory_is_refused_at_any_address_width(address_bits):
    dut = Control(replace(TEST, address_bits=address_bits))
    memory = 1 << address_bits
    vectors = [
        (address, elements)
        for address in (0, memory // 2, memory - 32)
        for elements in (1, 8, 9, 2**22, 2**22 + 1, 2**30 + 1, 2**31 + 1, 2**32 - 1)
    ]

    async def give(ctx):
        blank = {"rank": 0, "nodes": 2, "op": 0, "compress": 0, "tag": 0}
        for (address, elements), missing in product(vectors, (0, 1)):
            ctx.set(dut.memory_end, memory - 1 - missing)
            ctx.set(dut.flush, 1)  # of the commands before
            await ctx.tick()
            ctx.set(dut.flush, 0)
            for fields in ((address, 0), (0, address)):
                for unreachable in (0, 1):
                    given = {"source": fields[0], "destination": fields[1], "elements": elements}
                    ctx.set(dut.unreachable, unreachable)
                    fits = address + 4 * elements <= memory - missing and not unreachable
                    expected = CommandError.NONE if fits else CommandError.ADDRESS
                    assert await judged(ctx, dut, blank | given) == expected, given

    simulate(dut, give)


async def judged(ctx, dut, command):
    """What a control unit says of *command*."""
    ctx.set(dut.command, dut.command.shape().const(command))
    ctx.set(dut.command_strobe, 1)
    await ctx.tick()
    ctx.set(dut.command_strobe, 0)
    await ctx.tick()
    error = CommandError(ctx.get(dut.error))
    assert ctx.get(dut.accepted) == (error is CommandError.NONE)
    assert ctx.get(dut.refused) == (error is not CommandError.NONE)
    await ctx.tick()
    return error


@pytest.mark.parametrize("codec", ["none", "bfp16"])
def test_commands_are_judged_at_the_edges_of_what_is_allowed(codec):
    config = replace(TEST, codec=codec, descriptors=64)
    compresses = CommandError.NONE if codec != "none" else CommandError.COMPRESSION
    good = {"source": 32, "destination": 64, "elements": 5, "rank": 1, "nodes": 2, "op": 0,
            "compress": 0, "tag": 3}  # fmt: skip
    cases = [
        ({}, CommandError.NONE),
        ({"nodes": 1, "rank": 0}, CommandError.NODES),
        ({"nodes": 256, "rank": 255}, CommandError.NONE),
        ({"nodes": 257}, CommandError.NODES),
        ({"rank": 2}, CommandError.RANK),
        ({"rank": 3, "nodes": 4}, CommandError.NONE),
        ({"rank": 4, "nodes": 4}, CommandError.RANK),
        ({"elements": 0}, CommandError.EMPTY),
        ({"elements": 1}, CommandError.NONE),
        ({"source": 32 + 16}, CommandError.ALIGNMENT),
        ({"destination": 64 + 1}, CommandError.ALIGNMENT),
        ({"op": ReduceOp.SUM_I32.value}, CommandError.NONE),
        ({"compress": 1}, compresses),
        ({"op": ReduceOp.MAX_F32.value, "compress": 1}, compresses),
        ({"op": ReduceOp.SUM_I32.value, "compress": 1}, CommandError.COMPRESSION),
    ]
    dut = Control(config)

    async def give(ctx):
        ctx.set(dut.memory_end, (1 << config.address_bits) - 1)
        for changes, expected in cases:
            assert await judged(ctx, dut, good | changes) == expected, changes
        room = config.descriptors - sum(error is CommandError.NONE for _, error in cases)
        for _ in range(room):
            assert await judged(ctx, dut, good) == CommandError.NONE
        assert await judged(ctx, dut, good) == CommandError.FULL
        for condition in (dut.flush, dut.unaware):
            ctx.set(condition, 1)
            assert await judged(ctx, dut, good) == CommandError.ABORTING
            ctx.set(condition, 0)

    simulate(dut, give)


def items(config, job, *, engine, gather):
    """What a sequencer must make of a job."""
    nodes = job["last_rank"] + 1
    lengths = [config.block_beats] * job["rounds"] + [job["rest"]] * (job["rest"] != 0)
    base = 0
    for number, length in enumerate(lengths):
        for passed in range(nodes):
            first = base + (job["rank"] + gather - passed) % nodes * length
            left = job["beats"] - first
            if number % config.engines == engine:
                yield {
                    "address": (job["destination" if gather else "source"] + first * 32) % 2**32,
                    "beats": length,
                    "valid": max(0, min(left, length)),
                    "some": int(left > 0),
                    "tail": int(0 < left <= length),
                    "tail_lanes": job["tail_lanes"],
                    "first": int(passed == 0),
                    "last": int(passed == nodes - 1),
                    "start": int(number == 0 and passed == 0),
                    "end": 0,
                    "op": job["op"],
                    "compress": job["compress"],
                }
        base += nodes * length
    if gather:
        yield {"beats": 0, "valid": 0, "some": 0, "end": 1}


@pytest.mark.parametrize("gather", [False, True])
@pytest.mark.parametrize("engines, engine", [(1, 0), (3, 0), (3, 2)])
def test_sequencer_walks_all_blocks_in_the_order_of_its_flow(engines, engine, gather):
    config = replace(TEST, engines=engines)
    rng = np.random.default_rng(2)
    jobs = []
    for given in descriptors(rng, 12):
        nodes = int(rng.integers(2, 9))
        given |= {"nodes": nodes, "rank": int(rng.integers(nodes))}
        given["elements"] = int(rng.integers(1, 200 * nodes))
        jobs.append(planned(config, given))
    expected = [i for job in jobs for i in items(config, job, engine=engine, gather=gather)]
    dut = BlockSequencer(config, engine=engine, gather=gather)
    stalls = random_stalls(3, 0.3)

    async def check(ctx):
        for index, want in enumerate(expected):
            while True:
                ctx.set(dut.o.ready, not next(stalls))
                _, _, taken, got = await ctx.tick().sample(dut.o.valid & dut.o.ready, dut.o.payload)
                if taken:
                    break
            # An item of no beats has no other field that counts.
            found = {name: int(getattr(got, name)) for name in want if name != "op"}
            assert found == {n: v for n, v in want.items() if n != "op"}, f"item {index}"

    assert len(expected) > 20
    simulate(dut, source(dut.job, jobs, random_stalls(4, 0.3)), check)


@pytest.mark.full
def test_no_output_of_the_nic_depends_on_an_input_in_the_same_cycle(tmp_path):
    assert_moore(SmartNic(replace(TEST, codec="none", alu_stages=1)), tmp_path)


@pytest.mark.parametrize(
    "name",
    ["test", *full(name for name in PRESETS if name != "test")],
)
def test_verilator_finds_nothing_to_say_about_the_nic(name, tmp_path):
    if not has_verilator():
        pytest.skip("needs Verilator")
    (path, _) = emit_files(SmartNic(preset(name)), tmp_path, name="nic", style="plain")
    assert not find_verilator().lint([WAIVERS, path], top="nic")


def test_register_document_names_every_counter_and_interrupt():
    text = register_map(TEST).markdown()
    for name in ("beats_read", "dropped_gap", "ring_wait", "aborted", "completed", "refusal"):
        assert f"`{name}" in text
    # Without Ethernet there are no addresses to set.
    assert "own_address_low" in text
    assert "own_address_low" not in register_map(replace(TEST, ethernet=False)).markdown()


def test_registers_hold_after_reset_what_the_document_says():
    ring = NicRing(TEST, Surroundings(nodes=2))
    node = ring.system.nodes[0]
    node.reset_engine()
    node.delay(10)
    assert ring.registers.registers["identity"].init == NIC_ID | VERSION << 16

    for name, register in ring.registers.registers.items():
        if register.access != "wo":
            for index in range(register.words):
                found = ring.read(node, name, index)
                assert register.pack(**found) == register.init, name


def test_every_memory_port_says_what_kind_of_access_it_makes():
    assert_attributes(NicRing.compiled(TEST), TEST.engines)

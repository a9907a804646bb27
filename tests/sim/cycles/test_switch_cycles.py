# SPDX-License-Identifier: Apache-2.0
"""The cycle model of switches and endpoints beside their RTL: same cycles, same events."""

from dataclasses import replace

import numpy as np
import pytest

from hw.fp.ops import ReduceOp
from hw.switch.config import SwitchConfig
from hw.switch.config import preset as switch_preset
from hw.switch.packet import Kind
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.config import preset as dma_preset
from sim.cycles.switch.fabric import Fabric
from sim.cycles.switch.messages import MessageModel, ring_messages, tree_messages
from sim.cycles.switch.model import AllReduceJob, SwitchModel, SwitchSettings
from sim.endpoint.switch_hardware import behind_others, oldest_first
from tb.switch_dma.fabric import AllReduce, flat, join, smallest, two_levels
from tb.switch_dma.twin import Race
from tests.families import full, quick

SWITCH = replace(switch_preset("test"), trace=True)
DMA = replace(dma_preset("test"), trace=True)
LARGE = SwitchConfig(ports=16, regions=8, endpoints=128)
SIX = SwitchDmaConfig(links=6, endpoints=128)


def race(make, members, elements, given=(), *, switch=SWITCH, dma=DMA, **options):
    system = join(make(switch, dma, members, **options))
    job = AllReduce(system, ReduceOp.SUM_F32, elements, seed=members)
    result = Race(system, job, [*given, *[0] * (members - len(given))])
    job.check()
    return result


@pytest.mark.parametrize("make, members, elements, given, options", [
    (flat, 4, 2000, (), {}),
    (flat, 2, 1, (0, 50), {}),
    (flat, 3, 1001, (70, 0, 30), {"stalls": 0.4, "latency": 9}),
    (flat, 4, 1500, (), {"timeout": 0}),
    (two_levels, 8, 1200, (5, 90, 0, 40, 60, 0, 20, 110), {"timeout": 100}),
    (two_levels, 7, 900, (), {"stalls": 0.3, "latency": 5}),
    (flat, 4, 1500, (), {"mode": "pull"}),
    (flat, 2, 1, (0, 50), {"mode": "pull"}),
    (flat, 3, 1001, (70, 0, 30), {"mode": "whole", "stalls": 0.4, "latency": 9}),
    (two_levels, 8, 900, (5, 90, 0, 40, 60, 0, 20, 110), {"mode": "whole", "timeout": 60}),
    (two_levels, 7, 900, (), {"mode": "pull", "stalls": 0.3, "latency": 5}),
    *full((
        (flat, 3, 900, (0, 120, 200), {"dma": replace(DMA, links=2)}),
        (flat, 3, 900, (0, 120, 200), {"mode": "pull", "dma": replace(DMA, links=2)}),
        # Own operands and those of others wait for a memory that hardly answers.
        (flat, 2, 1000, (), {"mode": "pull", "stalls": 0.9, "dma": replace(DMA, read_ahead=1)}),
    )),
])
def test_the_model_takes_the_cycles_of_the_rtl(make, members, elements, given, options):
    result = race(make, members, elements, given, **options)

    assert result.modelled.tolist() == result.rtl.tolist()
    assert result.counts == result.counted


@pytest.mark.parametrize("elements, given, options", [
    (1200, (5, 90, 0, 40, 60, 0, 20, 110), {"timeout": 100}),
    (900, (), {"stalls": 0.3, "latency": 5}),
    (600, (), {"mode": "whole", "timeout": 60}),
])
def test_links_get_the_oldest_operand_first_as_in_the_rtl(elements, given, options):
    """Three bits of age wrap around within the eight blocks that may be under way."""
    aged = race(two_levels, 8, elements, given, switch=replace(SWITCH, age_bits=3), **options)

    assert aged.modelled.tolist() == aged.rtl.tolist()
    assert aged.counts == aged.counted


@pytest.mark.parametrize("make, members", [(flat, 3), (two_levels, 8)])
@pytest.mark.parametrize("stalls, multicast", quick(1, [(0.5, True), (0.0, False), (0.5, False)]))
def test_tables_of_one_entry_and_buffers_of_one_packet(make, members, stalls, multicast):
    switch, dma = (replace(each, multicast_partials=multicast) for each in smallest(SWITCH, DMA))
    given = [100 * k for k in range(members)]

    result = race(make, members, 900, given, switch=switch, dma=dma, stalls=stalls, seed=4)

    assert result.counts["evicted"] + result.counts["expired"] > 20
    assert result.counts["finished"] > 5
    assert result.modelled.tolist() == result.rtl.tolist()
    assert result.counts == result.counted


@pytest.mark.parametrize("mode, endpoints, elements, timeout, seed", [
    ("push", 8, 8192, 3, 5), ("push", 8, 32_768, 3, 1), ("pull", 8, 32_768, 3, 3),
    ("pull", 4, 8192, 20, 6),
])
def test_results_of_homes_never_wait_for_one_another(mode, endpoints, elements, timeout, seed):
    """Many blocks under way, whose sums all leave early, memories that stall, a credit each: with
    results that take a sum before the transmitter has room for it, these stand still for ever."""
    switch = SwitchConfig(ports=8, entries=1, buffer_packets=1, credits=1, queue_packets=1,
                          endpoints=8)
    dma = SwitchDmaConfig(buffer_packets=1, credits=1, endpoints=8)
    around = SwitchSettings(timeout_cycles=timeout, stalls=0.9, seed=seed)
    jobs = [AllReduceJob(elements=elements, mode=mode)]
    model = SwitchModel(switch, dma, Fabric.flat(endpoints), around, jobs)

    model.run()

    assert model.counts().lanes["finished"] > 50


def multicast():
    """Six members at three leaves whose memories hardly answer, and tables of one entry."""
    switch, dma = (replace(each, multicast_partials=True) for each in smallest(SWITCH, DMA))
    switch = replace(switch, ports=8, trace=False)
    reads = np.random.default_rng(6).integers(1, 120, 6).tolist()
    around = SwitchSettings(stalls=0.97, seed=6, timeout_cycles=12, read_latency_cycles=reads)
    made = SwitchModel(switch, dma, Fabric.two_levels(6, leaf=3), around,
                       [AllReduceJob(elements=32 * 100)])
    made.run()
    return made


def test_members_that_add_for_themselves_have_room_for_the_next_blocks(monkeypatch):
    """Others are done with a block that is not complete here, and the next one falls to its place:
    that is why there are twice as many."""
    counts = multicast().counts()
    assert counts.lanes["finished"] % 6 == 0 and counts.lanes["finished"] > 6 * 20
    assert counts.lanes["results"] == 6 * 100

    monkeypatch.setattr(SwitchDmaConfig, "sums", SwitchDmaConfig.slots)
    with pytest.raises(RuntimeError, match="came twice"):
        multicast()


def test_both_must_multicast_partials():
    with pytest.raises(ValueError, match="multicast_partials must be True as the switches have it"):
        SwitchModel(replace(SWITCH, multicast_partials=True), DMA, Fabric.flat(2), SwitchSettings(),
                    [])


@pytest.mark.full
@pytest.mark.parametrize("mode", ["pull", "whole"])
def test_loads_that_wait_for_the_only_entry_and_that_pass_it(mode):
    switch, dma = smallest(SWITCH, DMA)

    result = race(two_levels, 4, 700, switch=switch, dma=dma, mode=mode, stalls=0.2, timeout=80)

    assert min(result.counts[name] for name in ("stalled", "bypassed", "passed", "expired")) > 5
    assert result.modelled.tolist() == result.rtl.tolist()
    assert result.counts == result.counted


def model(fabric, elements, *, around=None, dma=SIX, modes=("push",)):
    around = around or SwitchSettings()
    jobs = [AllReduceJob(elements=elements, mode=mode) for mode in modes]
    return SwitchModel(LARGE, dma, fabric, around, jobs)


def test_sixteen_endpoints_in_two_groups():
    dgx = model(Fabric.dgx_2(), 96 * 1000)
    dgx.run()

    counts = dgx.counts()
    assert counts.lanes["results"] == 16 * 3000
    assert counts.units["completed"] + counts.lanes["finished"] == 3000 + 6
    assert (dgx.flits() >= 9 * 501).all()
    assert dgx.completions().max() < 1.2 * 9 * 500


def test_sixteen_endpoints_pull():
    dgx = model(Fabric.dgx_2(), 96 * 1000, modes=["pull"])
    dgx.run()

    counts = dgx.counts()
    assert counts.lanes["results"] == 16 * 3000
    assert counts.lanes["loads"] == 3000 and counts.lanes["answers"] == 15 * 3000
    assert counts.lanes["finished"] >= 3000  # and contracts that came in parts
    assert counts.lanes["operands"] == 16 * 6  # contracts
    assert counts.units["stalled"]
    # Nine flits a block, as answer or result, and loads in turn.
    assert (dgx.flits().sum(axis=0) == 16 * (9 * 501) + 500).all()


@pytest.mark.parametrize("entries", [4, 32])
def test_answers_do_not_wait_for_results_that_are_replicated(entries):
    blocks, p = 2000, 16
    switch = replace(LARGE, entries=entries)
    dgx = SwitchModel(switch, replace(SIX, links=1), Fabric.dgx_2(planes=1), SwitchSettings(),
                      [AllReduceJob(elements=32 * blocks, mode="pull")])
    dgx.run()

    # Of p blocks an endpoint receives an answer, the other results and loads; at links' rate but
    # for the beginning and what arbitration costs.
    least = blocks / p * (switch.packet_flits * p + p - 1)
    assert dgx.completions().max() < 1.09 * least


def test_deeper_buffers_are_those_of_a_configuration_that_has_them():
    def completions(configured, around):
        switch = replace(LARGE, buffer_packets=configured, credits=configured)
        dma = replace(SIX, links=1, buffer_packets=configured, credits=configured)
        dgx = SwitchModel(switch, dma, Fabric.dgx_2(planes=1), around,
                          [AllReduceJob(elements=32 * 300)])
        dgx.run()
        return dgx.completions().tolist()

    far = SwitchSettings(latency_cycles=100)
    assert completions(2, replace(far, buffer_packets=24)) == completions(24, far)
    assert completions(2, far) > completions(24, far)


@pytest.mark.parametrize("endpoints, mode", [(64, "pull"), (128, "push"), (128, "whole")])
def test_fat_trees(endpoints, mode):
    around = SwitchSettings(timeout_cycles=2000)
    tree = model(Fabric.fat_tree(endpoints, planes=1), 32 * 100, around=around,
                 dma=replace(SIX, links=1), modes=[mode])
    tree.run()

    counts = tree.counts()
    assert counts.lanes["results"] == endpoints * 100
    if mode == "push":
        assert counts.units["completed"] + counts.lanes["finished"] == 101
    else:
        assert counts.lanes["finished"] >= 100


@pytest.mark.parametrize("fabric, leaf", [
    (Fabric.two_levels(12, leaf=4), 4),
    (Fabric.pair(8, cables=4), 8),
    (Fabric.spines(32, leaf=8, cables=2, ports=16), 8),
    (Fabric.fat_tree(128, planes=1), 8),
], ids=["two levels", "pair", "spines", "128"])
def test_successive_blocks_have_homes_at_different_leaves(fabric, leaf):
    leaves = len(fabric.places) // leaf
    for homes in fabric.homes:
        turns = np.reshape([home // leaf for home in homes], (-1, leaves))
        assert (np.sort(turns, axis=1) == np.arange(leaves)).all()


def test_rows_that_are_fewer_than_homes_are_of_all_leaves():
    """16 rows, and 32 endpoints at 4 leaves with a link each to one spine."""
    fabric = Fabric.spines(32, leaf=8, cables=1, ports=16)
    tree = SwitchModel(LARGE, replace(SIX, links=1), fabric, SwitchSettings(), [])
    rows = tree.state.home[0] // 8
    assert np.bincount(rows, minlength=4).tolist() == [4] * 4


def test_pushes_between_leaves_wait_behind_others_however_deep_buffers_are():
    """Operands keep their order: a spine's links are idle while inputs wait for another one."""
    leaves, blocks = 5, 1000
    fabric = Fabric.spines(8 * leaves, leaf=8, cables=8, ports=16)
    dma = replace(SIX, links=1, waves=32, read_ahead=64)

    def pushed(**around):
        tree = SwitchModel(replace(LARGE, entries=32), dma, fabric, SwitchSettings(**around),
                           [AllReduceJob(elements=32 * blocks)])
        tree.run()
        cycles = tree.completions().max()
        down = tree.state.output["flits"][16 * leaves : 16 * fabric.switches]
        assert tree.counts().units["evicted"] == 0
        return cycles, down[down > 0].mean() / cycles

    bare, deep = pushed(buffer_packets=40), pushed(buffer_packets=160)
    passing = pushed(buffer_packets=40, operands_pass=True)
    left = behind_others(leaves) * 9 / 8  # with results
    assert 0.85 * left < min(bare[1], deep[1]) <= max(bare[1], deep[1]) < 1.05 * left
    assert deep[0] > 0.95 * bare[0]
    assert passing[0] < 0.88 * bare[0]


@pytest.mark.parametrize("entries", [4, 32])
def test_pushes_between_leaves_are_steady_where_the_oldest_operand_goes_first(entries):
    """The operands of a leaf for a block follow each other, so leaves come to a link by turns."""
    dma = replace(SIX, links=1, waves=32, read_ahead=64)
    switch = replace(LARGE, entries=entries, age_bits=8)
    ends = []
    for blocks in (300, 600, 1200):
        tree = SwitchModel(switch, dma, Fabric.fat_tree(64, planes=1),
                           SwitchSettings(buffer_packets=40), [AllReduceJob(elements=32 * blocks)])
        tree.run()
        assert tree.counts().units["evicted"] == 0
        ends.append(tree.completions().max())
    first, second = 300 * 9 / (ends[1] - ends[0]), 600 * 9 / (ends[2] - ends[1])
    assert second == pytest.approx(first, rel=0.02)
    assert second == pytest.approx(oldest_first(8, 8) * 8 / 7, rel=0.03)


def test_pushes_that_all_begin_in_one_cycle_wait_for_the_same_home_at_first():
    ends = []
    for apart in (0, 500):
        tree = SwitchModel(
            LARGE, replace(SIX, links=1, waves=32, read_ahead=64), Fabric.fat_tree(64, planes=1),
            SwitchSettings(buffer_packets=40), [AllReduceJob(elements=32 * 300)],
            [[7919 * endpoint % (apart + 1)] for endpoint in range(64)],
        )
        tree.run()
        ends.append(tree.completions().max())
    assert ends[1] < 0.8 * ends[0]


@pytest.mark.parametrize("mode, kinds", [
    ("push", {Kind.PUSH, Kind.PARTIAL, Kind.SUBTOTAL, Kind.RESULT}),
    # Beside results of the one direction go loads; the other acknowledges beside answers.
    ("pull", {Kind.PUSH, Kind.PARTIAL, Kind.SUBTOTAL, Kind.RESPONSE}),
])
def test_acknowledgements_take_a_flit_of_ten(mode, kinds):
    bare, full = (model(Fabric.flat(2, planes=6), 192_000, modes=[mode],
                        around=SwitchSettings(acknowledged=each)) for each in (False, True))
    beside = int(full.state.output["beside"].max())
    assert {kind for kind in Kind if beside >> kind.value & 1} == kinds
    assert not bare.state.output["beside"].any()

    if mode == "push":
        bare.run()
        full.run()
        assert 0 < bare.completions().max() - 9 * 1001 < 400
        assert 0 < full.completions().max() - 10 * 1001 < 400


def test_jobs_one_after_the_other():
    four = model(Fabric.flat(4, planes=6), 960, modes=["push", "pull", "pull", "push"])
    four.run()

    ends = four.completions()
    assert (np.diff(ends, axis=1) > 50).all() and four.counts().lanes["results"] == 4 * 4 * 30


@pytest.mark.parametrize("low", [0, 3], ids=["lost", "twice"])
def test_an_operand_that_is_lost_or_comes_twice_is_found(low):
    broken = model(Fabric.flat(4, planes=6), 96_000)
    broken.run(300)
    held = broken.state.held["low"]
    held[held > 0] = low

    with pytest.raises(RuntimeError, match=r"^an operand came twice, or a result lacks one$"):
        broken.run()


def test_a_link_without_credits_stands_still():
    broken = model(Fabric.flat(4, planes=6), 96_000)
    broken.run(300)
    broken.state.pool["level"][:] = -1000

    with pytest.raises(RuntimeError, match=r"^nothing moves before cycle "):
        broken.run()


def test_a_link_of_more_latency_than_anything_else_is_waited_for():
    around = SwitchSettings(latency_cycles=150_000)
    slow = model(Fabric.flat(4, planes=6), 96, around=around)
    slow.run()

    assert slow.done and slow.now > 2 * 150_000


def software(program, *, fence=False):
    around = SwitchSettings(latency_cycles=5)
    model = MessageModel(replace(LARGE, ports=4), replace(SIX, links=1), Fabric.flat(4), around,
                         program, fence=fence, work_cycles=10)
    model.run()
    return model


@pytest.mark.parametrize("channels", [1, 2])
def test_a_ring_sends_what_rings_send(channels):
    ring = software(ring_messages(4, 2048, channels=channels, chunk_bytes=256))

    assert (ring.flits() == 9 * 2 * 3 * 2048 // 4 // 128).all()


def test_a_fence_costs_two_more_ways_at_every_step():
    program = ring_messages(4, 512, channels=1, chunk_bytes=512)
    plain, fenced = software(program), software(program, fence=True)

    way = plain.cycles / 6 - 10  # of a packet with data
    assert 2 * 5 + 2 * 17 < way < 2 * 5 + 2 * 17 + 20
    assert 6 * way < fenced.cycles - plain.cycles < 6 * 2 * way
    # An acknowledgement for every message, and a flag.
    assert (fenced.flits() == plain.flits() + 2 * 6).all()


def test_chunks_follow_each_other_through_both_trees():
    whole = software(tree_messages(4, 4096, channels=1, chunk_bytes=4096))
    pieces = software(tree_messages(4, 4096, channels=4, chunk_bytes=512))

    # Every endpoint but the root sends up, and gets down, each byte once.
    assert whole.flits().sum() == pieces.flits().sum() == 9 * 2 * 3 * 4096 // 128
    assert pieces.cycles < 0.7 * whole.cycles


@pytest.mark.parametrize("endpoints", [2, 3, 8, 16])
@pytest.mark.parametrize("make", [ring_messages, tree_messages])
def test_every_operand_comes_to_every_endpoint(make, endpoints):
    # Of each chunk that is sent down or on, what the sender has got before. A ring sends each of
    # its chunks to all; the sets of a tree grow on the way up.
    program = make(endpoints, 1 << 12, channels=2, chunk_bytes=1 << 8)
    waits = {}
    for first, then in program.after:
        assert program.target[first] == program.source[then]
        waits.setdefault(then, []).append(first)
    has = []
    for number, source in enumerate(program.source):
        before = [has[each] for each in waits.get(number, [])]
        has.append({source}.union(*before))
    for target in range(endpoints):
        reached = [has[n] | {target} for n in range(len(has)) if program.target[n] == target]
        assert set(range(endpoints)) in reached


@pytest.mark.parametrize("switch, dma, fabric, words", [
    (LARGE, SIX, Fabric.flat(1), "endpoints must be from 2 to 128, not 1"),
    (replace(LARGE, payload_flits=16), SIX, Fabric.flat(2, planes=6),
     "payload_flits must be 16 as the switches have it, not 8"),
    (LARGE, replace(SIX, credits=9), Fabric.flat(2, planes=6),
     "credits of the endpoint must be at most the buffer's 8 packets, not 9"),
    (replace(LARGE, speedup=1), SIX, Fabric.dgx_2(), "speedup must be 2 in the cycle model, not 1"),
    (replace(LARGE, half=True), SIX, Fabric.dgx_2(),
     "half must be False in the cycle model: its packets are of words"),
    (LARGE, replace(SIX, bfp=True), Fabric.dgx_2(),
     "bfp must be False in the cycle model: its packets are of words"),
    (replace(LARGE, regions=4), SIX, Fabric.dgx_2(), "regions must be at least 8, not 4"),
    (LARGE, SIX, Fabric.flat(2), "links must be 1 of each endpoint, not 6"),
])
def test_what_does_not_fit_is_refused(switch, dma, fabric, words):
    with pytest.raises(ValueError, match=f"^{words}$"):
        SwitchModel(switch, dma, fabric, SwitchSettings(), [AllReduceJob(elements=1)])


@pytest.mark.parametrize("modes, acknowledged, words", [
    (["pull", "whole"], False, "jobs must have one mode, not pull, whole"),
    (["pull", "push"], True, "jobs must have one mode, not pull, push"),
    (["store"], False, "mode must be one of push, pull, whole, not 'store'"),
])
def test_modes_that_do_not_fit_are_refused(modes, acknowledged, words):
    with pytest.raises(ValueError, match=f"^{words}$"):
        model(Fabric.flat(2, planes=6), 1, around=SwitchSettings(acknowledged=acknowledged),
              modes=modes)


@pytest.mark.parametrize("mode", ["push", "pull", "whole"])
@pytest.mark.parametrize("latency", [3, 50])
def test_transits_of_packets_that_meet_no_others(mode, latency):
    # Endpoints that begin apart; results and answers of one block.
    star = SwitchModel(
        LARGE, replace(SIX, links=1), Fabric.flat(3), SwitchSettings(latency_cycles=latency),
        [AllReduceJob(elements=32, mode=mode)], [[0], [5000], [10_000]],
    )
    with pytest.raises(RuntimeError, match=r"^packets are under way"):
        star.transits()
    star.run()
    transits = star.transits()

    # Stored as a whole (9 flits behind 7 cycles and the link), granted 3 cycles later, and at the
    # table after 6.
    push, result = transits[Kind.PUSH], transits[Kind.RESULT]
    assert push.travel >= 9 + 7 + latency + 3 + 6 and push.held == push.travel - 25 - latency
    assert push.packets == (6 if mode == "push" else 3)
    assert result.packets == (6 if mode == "push" else 5) and result.held == result.queued == 0
    if mode != "push":
        load = transits[Kind.LOAD]
        assert load.packets == (2 if mode == "pull" else 3)
        # Two links, the way to the table (5), the table (3), and buffers (3 each).
        assert load.travel == 2 * (1 + latency) + 7 + 6 + 5 + 3 + 3 * 3
        assert load.held == 0

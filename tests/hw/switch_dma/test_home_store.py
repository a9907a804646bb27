# SPDX-License-Identifier: Apache-2.0
"""The home store beside a model of it: sums by count, whatever becomes of the output."""

import itertools
import random
from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from amaranth.sim import Simulator

from hw.fp.ops import ReduceOp
from hw.switch.packet import HEADER, Kind, decode, encode
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.home import HomeStore
from hw.switch_dma.layouts import each_region
from sim.rtl.switch.orders import dtype_of, fold
from tb.switch.endpoint import payload, words_of

CONFIG = SwitchDmaConfig(payload_flits=4, alu_stages=3, waves=4, wave_blocks=1)
MEMBERS, OWN, EPOCH = 4, 2, 5


def packet(number, op, words, count, **fields):
    address = (EPOCH << CONFIG.number_bits | number) * CONFIG.payload_flits
    header = encode({"kind": Kind.PARTIAL, "op": op.value, "region": 1, "address": address,
                     "count": count, "destination": OWN, "epoch": EPOCH, **fields})
    return [header, *payload(words)]


def drive(*groups, gaps=0.0, blocked=lambda cycle: False, forget=None, cycles=600, seed=1,
          blocks=lambda number: (0, 1, 0), config=CONFIG):
    """Offer packets, each group when four results of the one before have left; returns what leaves,
    the events, and the cycle in which each flit was taken. *blocks* says of a number whether it is
    ahead, near, asked for. *forget* is a range of cycles in which those of the last region are
    forgotten; the members of region *k* + 1 are at row *k*."""
    dut = HomeStore(config)
    rng = random.Random(seed)
    out, events, taken = [], [], []
    names = ("added", "finished", "stale", "misled", "unknown", "excess", "mismatch", "overflow")

    async def bench(ctx):
        for row, member in enumerate(each_region(config, dut.member)):
            ctx.set(member.node, {"endpoint": OWN, "members": MEMBERS, "region": 1 + row})
            ctx.set(member.epoch, EPOCH - row)
        later = deque(groups)
        flits = deque()
        leaving = []
        for cycle in range(cycles):
            if later and not flits and len(out) == 4 * (len(groups) - len(later)):
                flits.extend((flit, k == 0, k == CONFIG.payload_flits)
                             for each in later.popleft() for k, flit in enumerate(each))
            offers = bool(flits) and (cycle == 0 or rng.random() >= gaps)
            if offers:
                data, first, last = flits[0]
                ctx.set(dut.i.p, {"data": data, "first": first, "last": last})
            ctx.set(dut.i.valid, offers)
            part = dut.part
            answers = (part.ahead, part.near, part.asked_for)
            for answer, value in zip(answers, blocks(ctx.get(part.number))):
                ctx.set(answer, value)
            ctx.set(dut.o.ready, not blocked(cycle))
            forgets = forget is not None and cycle in forget
            ctx.set(dut.forget, forgets << config.regions - 1)
            events.extend(name for name in names if ctx.get(getattr(dut, name)))
            if ctx.get(dut.o.valid) and not blocked(cycle):
                leaving.append(ctx.get(dut.o.p.data))
                if ctx.get(dut.o.p.last):
                    out.append(leaving)
                    leaving = []
            moves = offers and ctx.get(dut.i.ready)
            await ctx.tick()
            if moves:
                taken.append(cycle)
                flits.popleft()
        assert not flits and not later, "not all was taken"
        assert not leaving

    simulator = Simulator(dut)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    return out, events, taken


def partials(rounds, *, seed=1):
    """Partials of successive blocks, four blocks at a time in any order; and their sums."""
    rng = np.random.default_rng(seed)
    flow, sums = [], {}
    for first in range(0, 4 * rounds, 4):
        group = []
        for number in range(first, first + 4):
            op = ReduceOp(int(rng.integers(4)))
            counts = [[1, 3], [2, 2], [1, 1, 2], [1, 1, 1, 1]][int(rng.integers(4))]
            poison = int(rng.integers(4)) == 0
            for place, count in enumerate(counts):
                words = (1000 * rng.standard_normal(CONFIG.block_elements)).astype(dtype_of(op))
                group.append((number, op, words, count, int(poison and place == 1)))
        for index in rng.permutation(len(group)):
            number, op, words, count, poison = group[index]
            flow.append(packet(number, op, words, count, poison=poison))
            if number in sums:
                words, poison = fold(op, sums[number][0], words), poison | sums[number][1]
            sums[number] = words, poison, op
    return flow, sums


def check(out, sums):
    numbers = []
    for header, *flits in out:
        number, op, count, poison = read(header)
        words, wanted_poison, wanted_op = sums[number]
        assert (op, count, poison) == (wanted_op, MEMBERS, wanted_poison)
        assert words_of(flits, words.dtype).tobytes() == words.tobytes(), number
        numbers.append(number)
    assert sorted(numbers) == sorted(sums)


def read(flit):
    """Fields of a result; its checksum is made where packets are sent."""
    fields = HEADER.from_bits(flit)
    assert fields.kind == Kind.RESULT and fields.epoch == EPOCH and fields.source == OWN
    number = fields.address // CONFIG.payload_flits & (1 << CONFIG.number_bits) - 1
    return number, ReduceOp(fields.op), fields.count, fields.poison


@pytest.mark.parametrize("gaps, seed", [(0.0, 1), (0.5, 2), (0.0, 3)])
def test_sums_are_those_of_the_order_of_arrival(gaps, seed):
    flow, sums = partials(3, seed=seed)
    rng = random.Random(seed)
    stalls = [rng.random() < gaps for _ in range(2000)]

    # A block comes again into a slot only when its result has left, as wave control has it.
    groups = [[each for each in flow if first <= read_number(each) < first + 4]
              for first in range(0, 12, 4)]
    out, events, _ = drive(*groups, gaps=gaps, blocked=lambda cycle: stalls[cycle], cycles=1200)

    check(out, sums)
    assert events.count("added") == len(flow) and events.count("finished") == 12


def read_number(flits):
    fields = decode(flits[0])
    return fields["address"] // CONFIG.payload_flits & (1 << CONFIG.number_bits) - 1


def test_partials_are_taken_without_a_gap_although_nothing_leaves():
    flow, sums = partials(1)
    out, events, taken = drive(flow, blocked=lambda cycle: cycle < 500, cycles=700)

    assert taken == sorted(taken) and taken[-1] < 500
    # Two results fit behind the store; each of them delays the input by its own length at most.
    assert taken[-1] <= (len(flow) + 2) * CONFIG.packet_flits
    check(out, sums)
    assert events.count("finished") == 4


def test_a_complete_sum_leaves_between_partials_that_keep_coming():
    words = np.arange(CONFIG.block_elements, dtype=np.int32)
    op = ReduceOp.SUM_I32
    flow = [packet(0, op, words, MEMBERS), *[packet(1, op, words, 1)] * MEMBERS]
    out, _, taken = drive(flow)

    check(out, {0: (words, 0, op), 1: (MEMBERS * words, 0, op)})
    pauses = [later - earlier - 1 for earlier, later in itertools.pairwise(taken)]
    # The sum has its turn after the partial that was under way, and delays the next one once.
    assert max(pauses[: 3 * CONFIG.packet_flits - 1]) == CONFIG.packet_flits
    assert sum(pauses) <= CONFIG.packet_flits + len(flow)


def test_what_does_not_belong_is_dropped_whole():
    words = np.arange(CONFIG.block_elements, dtype=np.int32)
    op = ReduceOp.SUM_I32
    flow = [
        packet(0, op, words, 1),
        packet(0, op, words, 1, epoch=4),  # stale
        packet(0, op, words, 1, destination=1),  # misled
        packet(0, op, words, 4),  # too many
        packet(0, op, words, 0),  # none
        packet(0, ReduceOp.MAX_F32, words, 1),  # mismatch
        packet(4, op, words, 1),  # the slot of block 0
        packet(0, op, words, 3),
    ]
    out, events, _ = drive(flow)

    check(out, {0: (2 * words, 0, op)})
    assert sorted(events) == sorted(["added", "stale", "misled", "excess", "excess", "mismatch",
                                     "overflow", "added", "finished"])


def test_what_a_block_does_not_wait_for_is_dropped_whole():
    blocks = {
        0: (0, 1, 0),  # pushed
        1: (0, 1, 1),  # loaded
        2: (0, 0, 0),  # done
        3: (1, 1, 0),  # not begun here
        6: (1, 0, 0),  # nobody may have begun it
        7: (1, 0, 0),  # the same, and the slot is taken
        11: (0, 0, 0),  # done, and the slot is taken
    }
    words = np.arange(CONFIG.block_elements, dtype=np.int32)
    op, answer = ReduceOp.SUM_I32, {"kind": Kind.RESPONSE}
    unknown = [
        packet(0, op, words, 1, **answer), packet(1, op, words, 1), packet(2, op, words, 1),
        packet(2, op, words, 1, **answer), packet(3, op, words, 1, **answer),
        packet(6, op, words, 1), packet(6, op, words, 1, **answer),
    ]
    good = [packet(0, op, words, 4), packet(3, op, words, 3), packet(1, op, words, 4, **answer)]
    last = [packet(7, op, words, 1), packet(11, op, words, 1), packet(3, op, words, 1)]
    out, events, _ = drive(
        [*unknown, *good, *last], blocks=lambda number: blocks.get(number, (0, 0, 0))
    )

    check(out, {0: (words, 0, op), 1: (words, 0, op), 3: (2 * words, 0, op)})
    assert events.count("unknown") == len(unknown) + 1 and events.count("overflow") == 1
    assert events.count("added") == 4


def test_forgotten_sums_are_gone():
    words = np.arange(CONFIG.block_elements, dtype=np.int32)
    op = ReduceOp.SUM_I32
    flow = [packet(0, op, words, 3), packet(1, op, words, 2), packet(2, op, words, 1)]
    late = [packet(number, op, words, 4) for number in range(3)]
    # Until the second packet is in, and while the third begins.
    out, events, _ = drive([*flow, *late], forget=range(2 * CONFIG.packet_flits - 2,
                                                        2 * CONFIG.packet_flits + 1))

    check(out, dict.fromkeys(range(3), (words, 0, op)))
    assert events.count("stale") == 1 and events.count("excess") == 0


def test_every_region_has_slots_of_its_own():
    """Blocks of one number in three regions, whose epochs differ; a sum cannot be complete before
    its block has been begun here, and what is forgotten of one region stays of the others."""
    words = np.arange(CONFIG.block_elements, dtype=np.int32)
    op = ReduceOp.SUM_I32

    def part(row, number, count, factor=1):
        epoch = EPOCH - row
        address = (epoch << CONFIG.number_bits | number) * CONFIG.payload_flits
        return packet(number, op, factor * words, count, region=1 + row, epoch=epoch,
                      address=address)

    flow = [
        *(part(row, 1, 2, 1 + row) for row in range(3)),
        part(1, 6, 4),  # the number of a slot in use, and complete too early
        part(1, 3, 3), part(1, 3, 1), part(1, 6, 4),  # the last of them too early
        part(0, 1, 2, 10), part(2, 1, 4, 7), part(1, 1, 2, 10),
    ]
    forget = range(6 * CONFIG.packet_flits - 2, 7 * CONFIG.packet_flits - 2)
    out, events, _ = drive(
        flow, config=replace(CONFIG, regions=3), cycles=200, forget=forget,
        blocks=lambda number: (int(number in (3, 6)), 1, 0),
    )

    sums = {}
    for header, *flits in out:
        fields = HEADER.from_bits(header)
        assert (fields.count, fields.source) == (MEMBERS, OWN)
        assert fields.epoch == EPOCH - fields.region + 1
        assert fields.address >> 25 == fields.epoch
        sums.setdefault(fields.region, []).append(words_of(flits, np.int32))
    assert {region: len(found) for region, found in sums.items()} == {1: 1, 2: 1, 3: 1}
    for region, factor in ((1, 11), (2, 12), (3, 7)):
        assert np.array_equal(sums[region][0], factor * words), region
    assert events.count("excess") == 3 and events.count("finished") == 3


def test_members_may_be_done_with_a_block_that_is_not_complete_here():
    """Partials that are multicast: of a block under way, and of one that has its place in the
    window of a member that is further. Of what was loaded the others need the result, too."""
    config = replace(CONFIG, multicast_partials=True)
    words = np.arange(CONFIG.block_elements, dtype=np.int32)
    op, here = ReduceOp.SUM_I32, {"kind": Kind.SUBTOTAL, "destination": 1}
    flow = [
        packet(0, op, words, 1, **here),
        packet(CONFIG.slots, op, 2 * words, 3, **here),
        packet(2 * CONFIG.slots, op, words, 1, **here),  # nobody can be there
        packet(1, op, words, 4, kind=Kind.RESPONSE),
        packet(1, op, words, 4, kind=Kind.RESPONSE, destination=1),  # misled
        packet(0, op, words, 3, **here),
        packet(CONFIG.slots, op, words, 1, **here),
    ]
    out, events, _ = drive(flow, config=config, blocks=lambda number: (0, 1, int(number == 1)))

    check(out, {0: (2 * words, 0, op), 1: (words, 0, op), CONFIG.slots: (3 * words, 0, op)})
    alone = {read(header)[0]: HEADER.from_bits(header).tag for header, *_ in out}
    assert alone == {0: 1, 1: 0, CONFIG.slots: 1}
    assert events.count("overflow") == events.count("misled") == 1

# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The reduction table of a port against a model of it, and its timing claims."""

import random
from collections import deque
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gen.compile import compile_model
from hw.fp.ops import ReduceOp
from hw.switch.layouts import LOAD_HEADER
from hw.switch.packet import Kind, encode
from hw.switch.reduction_unit import EVENTS, ReductionUnit
from sim.rtl.switch.orders import fold
from tb.switch.endpoint import words_of
from tests.families import quick
from tests.hw.switch.rig import PAYLOAD_FLITS, Bench, packet, packets_of
from tests.hw.switch.table_model import Operand, TableModel

WORDS = 4 * PAYLOAD_FLITS
BLOCK = PAYLOAD_FLITS
REGIONS = 3  # of what is drawn


@cache
def model(entries, stages=3, lanes=4):
    unit = ReductionUnit(entries=entries, alu_stages=stages, lanes=lanes, regions=REGIONS)
    return compile_model(unit, name=f"reduction_unit_{entries}_{stages}_{lanes}")


def beats(operands, expected, lanes=4):
    """Beats of the unit's input."""
    return [
        flit | expected << 32 * lanes + 2
        for each in operands
        for flit in packet(
            each.words, lanes, op=each.op.value, region=each.region, address=each.address,
            count=each.count, epoch=each.epoch, poison=each.poison, destination=each.destination,
            tag=each.tag, source=each.source, kind=Kind.RESPONSE if each.pull else Kind.PUSH,
        )
    ]


def draw_words(rng, op):
    if op is ReduceOp.SUM_I32:
        return rng.integers(-(1 << 31), 1 << 31, WORDS).astype(np.int32)
    # Of very different magnitude, so that the order of additions is seen in the sum.
    return (rng.standard_normal(WORDS) * 10.0 ** rng.integers(-6, 7, WORDS)).astype(np.float32)


def draw(seed, count, *, addresses, expected, faults=False):
    """Operands of a few addresses in any order, of several operations and regions."""
    rng = np.random.default_rng(seed)
    operands = []
    for _ in range(count):
        number = int(rng.integers(addresses))
        op = ReduceOp(number % 4)
        many = int(rng.integers(1, expected + 1)) if rng.random() < 0.1 else 1
        operand = Operand(op, number % REGIONS, BLOCK * (number // 2), draw_words(rng, op), many,
                          destination=number % 5, poison=int(rng.random() < 0.05))
        if faults and rng.random() < 0.1:
            kind = rng.integers(3)
            operand.epoch = int(kind == 0)
            operand.count = [1, 0, expected + 1][kind]
        operands.append(operand)
    return operands


def flow(
    operands, expected, *, entries, stages=3, lanes=4, gaps=0.0, stalls=0.0, seed=1, timeout=0
):
    """Pass *operands* through a unit."""
    bench = Bench(model(entries, stages, lanes), {"i": beats(operands, expected, lanes)},
                  ["partial", "result"], gaps=gaps, stalls=stalls, seed=seed)
    bench.instance.set("timeout", timeout)
    bench.run(events=EVENTS, quiet=200 + 2 * timeout)
    return bench


def described(header, words):
    kept = ("kind", "region", "address", "op", "count", "epoch", "poison", "destination", "source",
            "tag")
    return tuple(header[name] for name in kept), words


def left(bench, stream, lanes=4):
    """Packets that left by *stream*."""
    found = packets_of(bench.taken[stream], lanes)
    assert all(header["offload"] for header, _ in found)
    return [described(header, words_of(flits, np.uint32).tolist()) for header, flits in found]


def wanted(operands, kind):
    """The same of the sums of a model, those that were pushed as *kind*."""
    return [
        described(
            {"kind": (Kind.RESPONSE if each.pull else kind).value,
             "region": each.region, "address": each.address, "op": each.op.value,
             "count": each.count, "epoch": each.epoch, "poison": each.poison,
             "destination": each.destination, "tag": each.tag,
             "source": each.source if each.pull else each.destination},
            each.words.view(np.uint32).tolist(),
        )
        for each in operands
    ]


@pytest.mark.parametrize("gaps, stalls", [(0, 0.5), (0.3, 0.3)])
@pytest.mark.parametrize(
    "entries, stages, lanes",
    # Beats of a packet: more than stages, as many, fewer.
    quick(3, [(1, 3, 4), (32, 3, 4), (2, 0, 4), (4, 3, 8), (3, 6, 8), (2, 2, 16),
              (3, 6, 4), (4, 3, 4), (2, 4, 8), (1, 1, 16), (4, 3, 16)]),
)
def test_unit_does_what_the_model_of_its_table_does(entries, stages, lanes, gaps, stalls):
    expected = 4
    operands = draw(entries, 400, addresses=2 * entries, expected=expected, faults=True)
    table = TableModel(entries, expected)
    for each in operands:
        table.take(each)

    bench = flow(operands, expected, entries=entries, stages=stages, lanes=lanes, gaps=gaps,
                 stalls=stalls)

    assert left(bench, "result", lanes) == wanted(table.results, Kind.RESULT)
    assert left(bench, "partial", lanes) == wanted(table.partials, Kind.PARTIAL)
    assert bench.counts == dict.fromkeys(EVENTS, 0) | {
        "evicted": len(table.partials), "completed": len(table.results),
        "excess": table.excess, "mismatch": table.mismatch,
    }
    assert min(len(table.results), len(table.partials), table.excess, table.mismatch) > 0
    assert bench.instance.get("occupied") == len(table.table)


@pytest.mark.parametrize("gaps, stalls", [(0, 0), (0.3, 0.3)])
@pytest.mark.parametrize("timeout, lanes", [(1, 4), (40, 4), (400, 4), (1, 8), (1, 16), (20, 16)])
def test_every_operand_leaves_exactly_once_whatever_is_timed_out(timeout, lanes, gaps, stalls):
    expected = 3
    operands = draw(7, 300, addresses=6, expected=1)
    bench = flow(operands, expected, entries=4, lanes=lanes, gaps=gaps, stalls=stalls,
                 timeout=timeout)

    leaving = {}
    for stream in ("partial", "result"):
        for header, flits in packets_of(bench.taken[stream], lanes):
            key = (header["region"], header["address"])
            packets = leaving.setdefault(key, {"partial": [], "result": []})
            packets[stream].append((header["count"], words_of(flits, np.uint32).tolist()))
            assert (header["count"] == expected) == (stream == "result")
    for key, packets in leaving.items():
        arrived = [each for each in operands if (each.region, each.address) == key]
        assert splits(arrived, packets["partial"], packets["result"]), key
    assert bench.counts["expired"] > 0
    assert bench.counts["excess"] == bench.counts["mismatch"] == 0
    assert bench.instance.get("idle")


def splits(operands, *streams):
    """Whether the packets of *streams*, each in its order, are the sums of successive *operands*,
    each operand in one of them."""
    if not operands:
        return not any(streams)
    for number, stream in enumerate(streams):
        if stream:
            (count, words), *later = stream
            total = operands[0].words
            for each in operands[1:count]:
                total = fold(each.op, total, each.words)
            others = [later if k == number else each for k, each in enumerate(streams)]
            if total.view(np.uint32).tolist() == words and splits(operands[count:], *others):
                return True
    return False


def test_an_entry_is_timed_out_after_one_to_two_periods_without_an_operand():
    period = 500
    for start in (0, 123, 499):
        bench = Bench(model(4), {"i": []}, ["partial", "result"])
        bench.instance.set("timeout", period)
        for _ in range(start):
            bench.step(EVENTS)
        operands = draw(1, 2, addresses=1, expected=1)
        bench.waiting["i"].extend(beats(operands, 3))
        bench.run(events=EVENTS, quiet=3 * period)

        last_header = bench.accepted["i"][PAYLOAD_FLITS + 1]
        waited = bench.cycles_taken["partial"][0] - last_header
        assert period <= waited <= 2 * period + PAYLOAD_FLITS + 20
        assert bench.counts["expired"] == 1


@pytest.mark.parametrize("period", [37, 100])
def test_periods_are_as_long_as_stated(period):
    """Entries leave with the end of a period, so their times are whole periods apart."""
    bench = Bench(model(4), {"i": []}, ["partial", "result"])
    bench.instance.set("timeout", period)
    rng, left_at = random.Random(period), []
    for operand in draw(1, 8, addresses=1, expected=1):
        bench.waiting["i"].extend(beats([operand], 3))
        for _ in range(2 * period + 40 + rng.randrange(period)):
            bench.step(EVENTS)
            if bench.instance.get("expired"):
                left_at.append(bench.cycle)

    assert len(left_at) == 8
    assert {(time - left_at[0]) % period for time in left_at} == {0}


@pytest.mark.parametrize("after", [101, 115, 130])
@pytest.mark.parametrize("start", [0, 33, 77])
def test_an_operand_in_a_later_period_begins_the_age_of_its_entry_anew(start, after):
    """The second comes when the first has seen a whole period end: the entry stays for one to two
    periods from then on."""
    period = 100
    bench = Bench(model(4), {"i": []}, ["partial", "result"])
    bench.instance.set("timeout", period)
    for _ in range(start):
        bench.step(EVENTS)
    first, second = draw(1, 2, addresses=1, expected=1)
    bench.waiting["i"].extend(beats([first], 3))
    for _ in range(after - PAYLOAD_FLITS):
        bench.step(EVENTS)
    bench.waiting["i"].extend(beats([second], 3))
    bench.run(events=EVENTS, quiet=3 * period)

    (count,) = (header["count"] for header, _ in packets_of(bench.taken["partial"]))
    assert count == 2
    waited = bench.cycles_taken["partial"][0] - bench.accepted["i"][PAYLOAD_FLITS + 1]
    assert period <= waited <= 2 * period + PAYLOAD_FLITS + 20


@pytest.mark.parametrize("stages, lanes, period", quick(4, [
    (0, 4, 9), (3, 4, 9), (6, 8, 7), (3, 16, 4), (6, 4, 9), (3, 8, 5), (4, 8, 5), (1, 16, 3),
    (2, 16, 3),
]))
def test_latency_and_rate_are_as_stated(stages, lanes, period):
    unit = ReductionUnit(entries=4, alu_stages=stages, lanes=lanes)
    expected = 8
    hits = [Operand(ReduceOp.SUM_F32, 0, BLOCK * (k // expected), np.ones(WORDS, np.float32))
            for k in range(25 * expected)]
    bench = flow(hits, expected, entries=4, stages=stages, lanes=lanes)

    # Operands of one entry back to back: a beat in every cycle, or a packet in as many as stated.
    accepted = bench.accepted["i"]
    size = len(accepted) // len(hits)
    assert period == max(size, stages + 1)
    headers = np.diff(accepted[::size])
    assert headers.max() == period and headers[4:].min() == period
    completing = accepted[(expected - 1) * size]
    assert bench.cycles_taken["result"][0] - completing == unit.latency + (period - size)


@pytest.mark.parametrize("entries, lanes", [(1, 4), (4, 4), (32, 4), (4, 8), (4, 16)])
def test_evictions_cost_no_cycle(entries, lanes):
    operands = [Operand(ReduceOp.SUM_I32, 0, BLOCK * k, np.full(WORDS, k, np.int32))
                for k in range(200)]
    bench = flow(operands, 2, entries=entries, stages=2, lanes=lanes)

    accepted = bench.accepted["i"]
    assert accepted == list(range(accepted[0], accepted[0] + len(accepted)))
    assert bench.counts["evicted"] == 200 - entries


def test_operands_wait_for_the_queue_that_they_need_and_for_nothing_else():
    rng = random.Random(3)
    same = [Operand(ReduceOp.SUM_I32, 0, 0, np.full(WORDS, k, np.int32)) for k in range(40)]
    apart = [Operand(ReduceOp.SUM_I32, 0, BLOCK * rng.randrange(1, 50), each.words)
             for each in same]
    for operands, blocked, expected in ((same, "partial", 2), (apart, "result", 500)):
        bench = Bench(model(1), {"i": beats(operands, expected)}, ["partial", "result"])
        bench.stalls[blocked] = 1.0
        bench.run(events=EVENTS)
        assert not bench.taken[blocked]

    bench = Bench(model(1), {"i": beats(apart, 500)}, ["partial", "result"])
    bench.stalls["partial"] = 1.0
    with pytest.raises(AssertionError, match="stuck"):
        bench.run(events=EVENTS)
    bench.stalls["partial"] = 0.0
    bench.run(events=EVENTS)


@pytest.mark.parametrize("full, free", [("partial", "result"), ("result", "partial")])
def test_operands_pass_a_queue_that_is_full_if_they_go_to_the_other(full, free):
    def operands(queue, number, first):
        """Operands of different blocks; one more of those that are evicted stays in the table."""
        number += queue == "partial"
        words = np.arange(WORDS, dtype=np.int32)
        blocks = (Operand(ReduceOp.SUM_I32, 0, BLOCK * (first + k), words) for k in range(number))
        return beats(blocks, 1 if queue == "result" else 500)

    bench = Bench(model(1), {"i": operands(full, 3, 0)}, ["partial", "result"])
    bench.stalls[full] = 1.0
    bench.run(events=EVENTS)
    assert bench.counts["evicted"] + bench.counts["completed"] == 3

    bench.waiting["i"].extend(operands(free, 20, 100))
    bench.run(events=EVENTS)
    assert len(packets_of(bench.taken[free], 4)) == 20
    assert not bench.taken[full]


def load_of(load, expected, *, first=False):
    """A load as the unit gets it."""
    header = encode({
        "kind": Kind.LOAD, "op": load.op.value, "region": load.region, "address": load.address,
        "tag": load.tag, "source": load.destination, "epoch": load.epoch, "count": expected,
    })
    aside = LOAD_HEADER.const({"expected": expected, "first": first}).as_bits()
    return header | aside


class Puller:
    """Loads and what they are answered, among operands that are pushed, at random; a model of the
    table does what the unit is seen to take, in that order."""

    def __init__(self, entries, *, seed, loads, pushes, first=False, gaps=0.0, stalls=0.0,
                 faults=True, members=4):
        self.rng = np.random.default_rng(seed)
        self.members = members
        self.table = TableModel(entries, members)
        self.pushed = draw(seed, pushes, addresses=2 * entries, expected=members, faults=faults)
        self.pool = []  # answers to come, in any order
        self.most = 2 * entries + 2  # so many, before another load is sent
        self.faults = faults
        self.waiting = []  # loads that the unit has not settled
        for number in range(loads):
            self.waiting.append(Operand(
                ReduceOp(number % 4), number % 3, BLOCK * int(self.rng.integers(3)),
                np.zeros(WORDS, np.int32), 0, epoch=number % 2, pull=True,
                destination=int(self.rng.integers(3)), tag=number % 64,
            ))
            if faults and number % 9 == 8:
                self.waiting.append(self.waiting[-1])  # the same load again
        self.asked = [int(self.rng.integers(1, members)) for _ in self.waiting]
        self.loads = deque(load_of(load, asked, first=first)
                           for load, asked in zip(self.waiting, self.asked))
        self.bench = Bench(model(entries), {"i": [], "load": []},
                           ["partial", "result", "request"], gaps=gaps, stalls=stalls, seed=seed)
        self.bench.instance.set("timeout", 0)
        self.offered = []  # operands, in the order of offer
        self.settled = 0
        self.shown = False

    def run(self):
        bench, quiet = self.bench, 0
        while quiet < 300:
            assert bench.cycle < 100_000
            if self.loads and not bench.waiting["load"] and len(self.pool) < self.most:
                bench.waiting["load"].append(self.loads.popleft())
            pools = [pool for pool in (self.pushed, self.pool) if pool]
            if not bench.waiting["i"] and pools and self.rng.random() < 0.8:
                pool = pools[int(self.rng.integers(len(pools)))]
                self.offered.append(pool.pop(int(self.rng.integers(len(pool)))))
                bench.waiting["i"].extend(beats(self.offered[-1:], self.members))
            accepted, sent = len(bench.accepted["i"]), len(bench.taken["request"])
            bench.step(EVENTS)
            number, place = divmod(accepted, PAYLOAD_FLITS + 1)
            begun = len(bench.accepted["i"]) > accepted and place == 0
            operand = self.offered[number] if begun else None
            # A load sees the table as it was before an operand of the same cycle, and an operand
            # does not see the load's entry.
            load = self.follow()
            if load and operand and load[0].key == operand.key:
                self.table.take(operand)
                operand = None
            if load:
                self.table.load(*load)
            if operand:
                self.table.take(operand)
            busy = self.pushed or self.pool or self.loads or any(bench.waiting.values())
            moved = len(bench.accepted["i"]) > accepted or len(bench.taken["request"]) > sent
            quiet = 0 if busy or moved else quiet + 1

    def follow(self):
        """The load that was settled in the cycle that has passed, if one was."""
        get = self.bench.instance.get
        shown, before = get("request_valid"), self.shown
        self.shown = shown
        if not get("duplicate") and (before or not shown):
            return None
        load = self.waiting[self.settled], self.asked[self.settled]
        self.settled += 1
        if not get("duplicate"):
            self.answer(*load)
        return load

    def answer(self, load, asked):
        """Put answers to a load among what is to come: in several packets, some of them wrong."""
        rest, source = asked, 0
        while rest:
            count = int(self.rng.integers(1, rest + 1)) if self.rng.random() < 0.2 else 1
            each = replace(load, words=draw_words(self.rng, load.op), count=count, source=source,
                           poison=int(self.rng.random() < 0.05))
            self.pool.append(each)
            if self.faults and self.rng.random() < 0.1:
                self.pool.append(replace(each, epoch=load.epoch ^ 1))
                self.pool.append(replace(each, count=[0, self.members + 1][source % 2]))
            rest, source = rest - count, source + 1


@pytest.mark.parametrize(
    "entries, pushes, gaps, stalls",
    [(1, 0, 0, 0.5), (1, 100, 0.3, 0.3), (3, 0, 0.3, 0), (3, 100, 0, 0.5), (32, 200, 0.2, 0.2)],
)
def test_unit_answers_loads_as_the_model_of_its_table_does(entries, pushes, gaps, stalls):
    puller = Puller(entries, seed=entries, loads=120, pushes=pushes, gaps=gaps, stalls=stalls)
    puller.run()

    table, bench = puller.table, puller.bench
    assert puller.settled == len(puller.waiting)
    assert left(bench, "partial") == wanted(table.partials, Kind.PARTIAL)
    assert left(bench, "result") == wanted(table.results, Kind.RESULT)
    assert bench.counts == {
        "completed": table.completed, "evicted": table.evicted, "expired": 0, "stalled": 0,
        "bypassed": table.bypassed, "passed": table.passed, "excess": table.excess,
        "mismatch": table.mismatch, "duplicate": table.duplicate, "purged": 0, "load_purged": 0,
    }
    assert min(table.completed, table.excess, table.passed) > 0
    assert entries < 3 or table.mismatch > 0
    assert entries < 32 or table.duplicate > 0
    assert entries > 3 or table.bypassed > 0
    assert entries > 3 or not pushes or table.evicted > 0
    assert bench.instance.get("occupied") == len(table.table)


@pytest.mark.parametrize("entries", [1, 3, 32])
def test_first_loads_wait_for_an_entry_and_all_are_answered_whole(entries):
    puller = Puller(entries, seed=5, loads=60, pushes=0, first=True, gaps=0.2, stalls=0.4,
                    faults=False)
    puller.run()

    answers = packets_of(puller.bench.taken["partial"])
    assert sorted(header["count"] for header, _ in answers) == sorted(puller.asked)
    assert puller.bench.counts["completed"] == 60
    assert puller.bench.counts["passed"] == puller.bench.counts["bypassed"] == 0
    assert entries == 32 or puller.bench.counts["stalled"] > 0
    assert puller.bench.instance.get("idle")


def test_a_pushed_sum_gives_way_to_a_load_that_waits_and_an_answer_does_not():
    sums = [Operand(ReduceOp.SUM_I32, 0, BLOCK * k, np.full(WORDS, k, np.int32), destination=k)
            for k in range(2)]
    answers = [replace(each, pull=True, count=0, tag=7) for each in sums]
    bench = Bench(model(2), {"i": beats(sums, 4), "load": []}, ["partial", "result", "request"])
    bench.run(events=EVENTS)
    bench.waiting["load"].extend(
        load_of(each, 3, first=True) for each in (*answers, replace(answers[0], tag=8))
    )
    bench.run(events=EVENTS)

    assert left(bench, "partial") == wanted(sums, Kind.PARTIAL)
    assert len(bench.taken["request"]) == 2
    assert bench.counts["evicted"] == 2 and bench.counts["stalled"] == 3
    bench.instance.set("timeout", 40)
    bench.run(events=EVENTS)
    # An answer without an operand is only forgotten, when its time is over.
    assert len(bench.taken["request"]) == 3
    assert bench.counts["expired"] == 3 and len(packets_of(bench.taken["partial"])) == 2
    assert bench.instance.get("idle")


@pytest.mark.parametrize("blocked", [False, True])
def test_answers_are_taken_while_a_load_waits_or_requests_are_blocked(blocked):
    load = Operand(ReduceOp.SUM_I32, 0, 0, np.ones(WORDS, np.int32), 0, pull=True)
    others = [replace(load, count=1, tag=3 + k) for k in range(30)]
    loads = [load_of(load, 3), load_of(replace(load, tag=1), 3, first=True)][: 2 - blocked]
    bench = Bench(model(1), {"i": [], "load": loads}, ["partial", "result", "request"])
    bench.stalls["request"] = float(blocked)
    bench.run(events=EVENTS)
    bench.waiting["i"].extend(beats([replace(load, count=1), *others], 4))
    bench.run(events=EVENTS)

    assert bench.counts["passed"] == 30
    assert len(bench.taken["request"]) == (0 if blocked else 1)
    assert bench.counts["stalled"] == (0 if blocked else 1)


def test_parameters_that_would_break_the_pipeline_are_refused():
    for arguments, message in (
        ({"entries": 0}, "ReductionUnit entries must be an integer from 1 to 32, not 0"),
        ({"entries": 33}, "ReductionUnit entries must be an integer from 1 to 32, not 33"),
        ({"entries": 1, "payload_flits": 4, "alu_stages": 4},
         "ReductionUnit payload_flits must be a power of two at least 5, not 4"),
        ({"entries": 1, "payload_flits": 1, "alu_stages": 0},
         "ReductionUnit payload_flits must be a power of two at least 2, not 1"),
        ({"entries": 1, "queue_packets": 0},
         "ReductionUnit queue_packets must be an integer at least 1, not 0"),
        ({"entries": 1, "lanes": 6}, "ReductionUnit lanes must be one of 4, 8, 16, not 6"),
        ({"entries": 1, "payload_flits": 4, "lanes": 16},
         "ReductionUnit lanes must be at most 8, not 16"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            ReductionUnit(**arguments)


def test_unit_settles_in_one_evaluation():
    assert model(4).single_pass

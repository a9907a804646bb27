# amaranth: UnusedElaboratable=no
"""The reduction table of a port against a model of it, and its timing claims."""

import random
from functools import cache

import numpy as np
import pytest

from gen.compile import compile_model
from hw.fp.ops import ReduceOp
from hw.switch.packet import Kind
from hw.switch.reduction_unit import ReductionUnit
from tb.switch.endpoint import fold, words_of
from tests.hw.switch.rig import PAYLOAD_FLITS, Bench, packet, packets_of
from tests.hw.switch.table_model import Operand, TableModel

EVENTS = ("evicted", "expired", "completed", "excess", "mismatch")
WORDS = 4 * PAYLOAD_FLITS
BLOCK = PAYLOAD_FLITS


@cache
def model(entries, stages=3):
    unit = ReductionUnit(entries=entries, alu_stages=stages)
    return compile_model(unit, name=f"reduction_unit_{entries}_{stages}")


def beats(operands, expected):
    """Beats of the unit's input."""
    return [
        flit | expected << 130
        for each in operands
        for flit in packet(
            each.words, op=each.op.value, region=each.region, address=each.address,
            count=each.count, epoch=each.epoch, poison=each.poison, destination=each.destination,
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
        operand = Operand(op, number % 3, BLOCK * (number // 2), draw_words(rng, op), many,
                          destination=number % 5, poison=int(rng.random() < 0.05))
        if faults and rng.random() < 0.1:
            kind = rng.integers(3)
            operand.epoch = int(kind == 0)
            operand.count = [1, 0, expected + 1][kind]
        operands.append(operand)
    return operands


def flow(operands, expected, *, entries, stages=3, gaps=0.0, stalls=0.0, seed=1, timeout=0):
    """Pass *operands* through a unit."""
    bench = Bench(model(entries, stages), {"i": beats(operands, expected)},
                  ["partial", "result"], gaps=gaps, stalls=stalls, seed=seed)
    bench.instance.set("timeout", timeout)
    bench.run(events=EVENTS, quiet=200 + 2 * timeout)
    return bench


def described(header, words):
    kept = ("region", "address", "op", "count", "epoch", "poison", "destination", "source")
    return tuple(header[name] for name in kept), words


def left(bench, stream, kind):
    """Packets that left by *stream*."""
    found = packets_of(bench.taken[stream])
    assert all(header["kind"] == kind.value and header["offload"] for header, _ in found)
    return [described(header, words_of(flits, np.uint32).tolist()) for header, flits in found]


def wanted(operands):
    return [
        described(
            {"region": each.region, "address": each.address, "op": each.op.value,
             "count": each.count, "epoch": each.epoch, "poison": each.poison,
             "destination": each.destination, "source": each.destination},
            each.words.view(np.uint32).tolist(),
        )
        for each in operands
    ]


@pytest.mark.parametrize("gaps, stalls", [(0, 0.5), (0.3, 0.3)])
@pytest.mark.parametrize("entries, stages", [(1, 3), (2, 0), (3, 6), (4, 3), (32, 3)])
def test_unit_does_what_the_model_of_its_table_does(entries, stages, gaps, stalls):
    expected = 4
    operands = draw(entries, 400, addresses=2 * entries, expected=expected, faults=True)
    table = TableModel(entries, expected)
    for each in operands:
        table.take(each)

    bench = flow(operands, expected, entries=entries, stages=stages, gaps=gaps, stalls=stalls)

    assert left(bench, "result", Kind.RESULT) == wanted(table.results)
    assert left(bench, "partial", Kind.PARTIAL) == wanted(table.partials)
    assert bench.counts == {
        "evicted": len(table.partials), "expired": 0, "completed": len(table.results),
        "excess": table.excess, "mismatch": table.mismatch,
    }
    assert min(len(table.results), len(table.partials), table.excess, table.mismatch) > 0
    assert bench.instance.get("occupied") == len(table.table)


@pytest.mark.parametrize("gaps, stalls", [(0, 0), (0.3, 0.3)])
@pytest.mark.parametrize("timeout", [1, 40, 400])
def test_every_operand_leaves_exactly_once_whatever_is_timed_out(timeout, gaps, stalls):
    expected = 3
    operands = draw(7, 300, addresses=6, expected=1)
    bench = flow(operands, expected, entries=4, gaps=gaps, stalls=stalls, timeout=timeout)

    leaving = {}
    for stream in ("partial", "result"):
        for header, flits in packets_of(bench.taken[stream]):
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


@pytest.mark.parametrize("stages", [0, 3, 6])
def test_latency_and_rate_are_as_stated(stages):
    unit = ReductionUnit(entries=4, alu_stages=stages)
    expected = 8
    hits = [Operand(ReduceOp.SUM_F32, 0, BLOCK * (k // expected), np.ones(WORDS, np.float32))
            for k in range(25 * expected)]
    bench = flow(hits, expected, entries=4, stages=stages)

    # Operands of one entry back to back: a flit in every cycle.
    accepted = bench.accepted["i"]
    assert accepted == list(range(accepted[0], accepted[0] + len(accepted)))
    completing = accepted[(expected - 1) * (PAYLOAD_FLITS + 1)]
    assert bench.cycles_taken["result"][0] - completing == unit.latency


@pytest.mark.parametrize("entries", [1, 4, 32])
def test_evictions_cost_no_cycle(entries):
    operands = [Operand(ReduceOp.SUM_I32, 0, BLOCK * k, np.full(WORDS, k, np.int32))
                for k in range(200)]
    bench = flow(operands, 2, entries=entries)

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
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            ReductionUnit(**arguments)


def test_unit_settles_in_one_evaluation():
    assert model(4).single_pass

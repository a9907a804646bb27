# SPDX-License-Identifier: Apache-2.0
"""Memory that refuses, ranks that disagree, rings that stand still: every rank says so, and the
next all-reduce is exact."""

from dataclasses import replace

import numpy as np
import pytest

from gen.verilog import emit
from hw.common.axi import aligned
from hw.fp.ops import ReduceOp
from hw.smartnic.config import preset
from hw.smartnic.engine import RingEngine, events_layout
from hw.smartnic.layouts import AbortCause, HeaderLayout
from hw.smartnic.registers import CommandError
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.rtl.driver import Request
from sim.rtl.errors import (
    CommandRefusedError,
    DisagreementError,
    MemoryAccessError,
    NoProgressError,
    PacketDroppedError,
)
from sim.rtl.harness.specs import HeaderFault
from sim.rtl.harness.system import CycleLimitError
from sim.rtl.smartnic.ring import NicRing

TEST = preset("test")
NODES = 3
ELEMENTS = 1003  # the last beat is not full
BEATS = -(-ELEMENTS // TEST.lanes)
WHERE = {"first": 0, "middle": BEATS // 2, "last": BEATS - 1}


def ring_of(nodes=NODES, *, stalls=0.0, config=TEST, **options):
    settings = Surroundings(
        nodes=nodes, latency_cycles=9, link_stalls=stalls, memory_stalls=stalls
    )
    return NicRing(config, settings, **options)


def vectors(nodes=NODES, elements=ELEMENTS):
    rng = np.random.default_rng(elements)
    return [rng.standard_normal(elements).astype(np.float32) for _ in range(nodes)]


def assert_exact(ring, outputs, arrays, compress=False):
    golden = ring.golden(arrays, compress=compress)
    for output in outputs:
        np.testing.assert_array_equal(output.view(np.uint32), golden.view(np.uint32))


def assert_usable(ring, compress=False):
    arrays = vectors(len(ring.system.nodes))
    outputs = ring.all_reduce(arrays, compress=compress, max_cycles=60_000)
    assert_exact(ring, outputs, arrays, compress)


def invalid(node, ring):
    return ring.read(node, "invalid")


# ---- Memory.


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("rank", [0, 2])
def test_one_beat_that_cannot_be_read_makes_the_result_invalid_on_every_rank(
    where, compress, rank
):
    ring = ring_of(stalls=0.2 if rank else 0.0)
    arrays = vectors()
    good = Request(inputs=arrays, compress=compress)
    # Only one of three all-reduces, of which the first has its vector at 0 and the second behind
    # the first one's result.
    span = aligned(4 * ELEMENTS)
    node = ring.system.nodes[rank]
    node.fail_memory(2 * span + TEST.bus_bytes * WHERE[where], 1, writes=False)

    with pytest.raises(MemoryAccessError, match=r"reports: .*invalid"):
        ring.run(good, good, good, max_cycles=90_000)

    assert {r: type(error) for r, error in ring.reports.items()} == dict.fromkeys(
        range(NODES), MemoryAccessError
    )
    for r, error in ring.reports.items():
        assert ("memory refused a read" in str(error)) and (
            ("at another rank" in str(error)) == (r != rank)
        )
    for each in ring.system.nodes:
        assert invalid(each, ring) == {"read": 1, "write": 0, "tag": 1, "count": 1}
        assert ring.read(each, "completed") == {"count": 3, "error": 0, "tag": 2}
    node.heal_memory()
    assert_usable(ring, compress)
    assert all(invalid(each, ring)["count"] == 1 for each in ring.system.nodes)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("compress", [False, True])
def test_one_beat_that_cannot_be_written_makes_the_result_invalid_there_only(where, compress):
    ring = ring_of()
    arrays = vectors()
    good = Request(inputs=arrays, compress=compress)
    span = aligned(4 * ELEMENTS)
    node = ring.system.nodes[1]
    node.fail_memory(span + TEST.bus_bytes * WHERE[where], 1, reads=False)

    with pytest.raises(
        MemoryAccessError, match=r"rank 1 reports: memory, invalid \(memory refused a write\)"
    ):
        ring.run(good, good, max_cycles=60_000)

    assert set(ring.reports) == {1}
    assert invalid(node, ring) == {"read": 0, "write": 1, "tag": 0, "count": 1}
    for each in ring.system.nodes:
        assert ring.read(each, "completed") == {"count": 2, "error": 0, "tag": 1}
    node.heal_memory()
    assert_usable(ring)


@pytest.mark.parametrize("part", ["source", "destination"])
@pytest.mark.parametrize("bit", [TEST.address_bits, 63])
def test_addresses_that_memory_ports_do_not_have_are_refused(part, bit):
    ring = ring_of()
    node = ring.system.nodes[1]
    good = {"elements": ELEMENTS, "source": 0, "destination": aligned(4 * ELEMENTS)}

    ring.start(node, Command(**good | {part: good[part] | 1 << bit}))
    ring.system.run(max_cycles=5000)

    assert ring.read(node, "refusal")["error"] == CommandError.ADDRESS.value
    with pytest.raises(CommandRefusedError, match="rank 1 refused a command: address"):
        ring.acknowledge(1, node)
    assert_usable(ring)


def test_every_command_of_a_queue_has_a_record_of_its_own():
    """Two of three all-reduces that are not valid, and a refused command: each is named."""
    ring = ring_of()
    good = Request(inputs=vectors())
    span = aligned(4 * ELEMENTS)
    nodes = ring.system.nodes
    nodes[0].fail_memory(0, 1, writes=False)
    nodes[1].fail_memory(4 * span + span, 1, reads=False)

    with pytest.raises(MemoryAccessError):
        ring.run(good, good, good, max_cycles=90_000)

    clear = {"valid": 1, "overrun": 0, "read": 0, "write": 0, "error": 0}
    for rank, node in enumerate(nodes):
        assert ring.take_records(node) == [
            {**clear, "read": 1, "tag": 0}, {**clear, "tag": 1},
            {**clear, "write": int(rank == 1), "tag": 2},
        ]
    ring.start(nodes[2], Command(elements=ELEMENTS, source=1, destination=span))
    ring.system.run(max_cycles=5000)
    (record,) = ring.take_records(nodes[2])
    assert record["error"] == CommandError.ALIGNMENT.value


def test_completion_carries_the_error_of_the_last_all_reduce():
    ring = ring_of()
    ring.system.nodes[2].fail_memory(0, 1, writes=False)

    with pytest.raises(MemoryAccessError):
        ring.all_reduce(vectors(), max_cycles=60_000)

    for node in ring.system.nodes:
        assert ring.read(node, "completed")["error"] == 1


def test_every_engine_of_a_nic_tells_of_its_own_errors():
    config = replace(TEST, engines=2, ethernet=False, codec="mxint8", compressed_frame_beats=1)
    for beat in (0, 30, BEATS - 1):
        ring = ring_of(config=config)
        ring.system.nodes[1].fail_memory(config.bus_bytes * beat, 1, writes=False)
        with pytest.raises(MemoryAccessError):
            ring.all_reduce(vectors(), max_cycles=60_000)
        assert set(ring.reports) == {0, 1, 2}
        ring.system.nodes[1].heal_memory()
        assert_usable(ring, compress=True)


# ---- Disagreement.

GOOD = Command(elements=600, source=0, destination=8192)
CHANGES = {
    "op": {"op": ReduceOp.MAX_F32},
    "a few elements": {"elements": 596},
    "one element": {"elements": 599},
    "half the elements": {"elements": 300},
    "compression": {"compress": True},
}


def disagree(ring, odd, command, *, tag=7, skew=0):
    """One rank is given something else; what all ranks report."""
    for rank, node in enumerate(ring.system.nodes):
        if rank == odd:
            node.delay(skew)
            ring.start(node, command, number=tag)
        else:
            ring.start(node, GOOD, number=7)
    ring.system.run(max_cycles=30_000)
    reports = {}
    for rank, node in enumerate(ring.system.nodes):
        assert ring.read(node, "completed")["count"] == 0
        assert ring.read(node, "abort")["cause"] == AbortCause.DISAGREEMENT.value
        with pytest.raises(DisagreementError, match=r"aborted \(disagreement at rank \d\)"):
            ring.acknowledge(rank, node)
        reports[rank] = ring.read(node, "abort")["rank"]
    ring.system.run(max_cycles=1000)
    return reports


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("odd", [0, 1])
def test_ranks_that_are_given_different_all_reduces_all_give_up(change, odd):
    ring = ring_of()

    reports = disagree(ring, odd, replace(GOOD, **CHANGES[change]), skew=900 * odd)

    # The odd one or the one after it has found out.
    assert set(reports.values()) <= {odd, (odd + 1) % NODES}
    assert_usable(ring)


def test_tags_are_compared_too():
    ring = ring_of()

    disagree(ring, 2, GOOD, tag=8)

    assert_usable(ring)


@pytest.mark.parametrize("fields", [{"rank": 0, "nodes": 3}, {"rank": 1, "nodes": 4}])
def test_a_rank_with_another_place_or_ring_is_found(fields):
    ring = ring_of()
    node = ring.system.nodes[1]
    ring.write(node, "node", **fields)

    disagree(ring, 1, GOOD)

    ring.write(node, "node", rank=1, nodes=NODES)
    assert_usable(ring)


def test_the_second_of_two_queued_all_reduces_differs():
    ring = ring_of()
    arrays = vectors(elements=600)
    for rank, node in enumerate(ring.system.nodes):
        ring.store(node, GOOD, arrays[rank])
        ring.start(node, GOOD, number=0)
        second = replace(GOOD, destination=16384, op=ReduceOp.MIN_F32 if rank == 1 else GOOD.op)
        ring.start(node, second, number=1)
    ring.system.run(max_cycles=30_000)
    for rank, node in enumerate(ring.system.nodes):
        assert ring.read(node, "abort")["cause"] == AbortCause.DISAGREEMENT.value
        if ring.read(node, "completed")["count"]:
            np.testing.assert_array_equal(
                ring.result(node, GOOD, rank), ring.golden(arrays).view(np.uint32)
            )
        with pytest.raises(DisagreementError):
            ring.acknowledge(rank, node)
    ring.system.run(max_cycles=1000)
    assert_usable(ring)


# ---- Rings that stand still.


def test_watchdog_gives_up_when_a_node_never_starts():
    ring = ring_of(watchdog_cycles=3000)
    for node in ring.system.nodes[1:]:
        ring.start(node, GOOD)

    ring.system.run(max_cycles=20_000)

    for rank, node in enumerate(ring.system.nodes):
        with pytest.raises(NoProgressError, match=r"\(watchdog at rank [12]\)"):
            ring.acknowledge(rank, node)
    ring.system.run(max_cycles=1000)
    assert_usable(ring)


def test_watchdog_may_report_only():
    ring = ring_of()
    arrays = vectors(elements=600)
    for rank, node in enumerate(ring.system.nodes):
        ring.store(node, GOOD, arrays[rank])
        ring.write(node, "watchdog", cycles=1000)
        if rank:
            ring.start(node, GOOD)
    ring.system.run(drain=False)
    ring.system.advance(ring.system.cycle + 3000)
    for rank, node in enumerate(ring.system.nodes):
        causes = ring.read(node, "interrupt")
        assert causes["stalled"] == (rank > 0) and not causes["aborted"]
    ring.start(ring.system.nodes[0], GOOD)
    ring.system.run(max_cycles=30_000)
    for rank, node in enumerate(ring.system.nodes):
        assert ring.read(node, "completed")["count"] == 1
        np.testing.assert_array_equal(
            ring.result(node, GOOD, rank), ring.golden(arrays).view(np.uint32)
        )
        ring.acknowledge(rank, node)  # no error


def test_watchdog_says_nothing_while_something_moves():
    ring = ring_of(watchdog_cycles=400, stalls=0.5)
    arrays = vectors(elements=4000)

    assert_exact(ring, ring.all_reduce(arrays, max_cycles=60_000), arrays)

    assert ring.last_run.cycles > 4 * 400


def without_credits(lost, **options):
    """The first credit frames of rank 1 get lost."""
    bit = dict(HeaderLayout.as_shape())["version"].offset
    faults = [HeaderFault(node=1, port=1, packet=2 * frame, bits=(bit,)) for frame in range(lost)]
    return ring_of(faults=faults, **options)


def test_lost_credit_frames_are_made_good_by_the_watchdog():
    arrays = vectors(elements=4000)
    for lost in range(1, 40):
        try:
            with pytest.raises(PacketDroppedError):  # the next one made them good
                without_credits(lost).all_reduce(arrays, max_cycles=30_000)
        except CycleLimitError:
            break
    else:
        pytest.fail("the ring never stands still")

    ring = without_credits(lost, watchdog_cycles=2000)
    with pytest.raises(PacketDroppedError, match=r"rank 0 reports: dropped$"):
        ring.all_reduce(arrays, max_cycles=60_000)

    # The frames are reported by the rank that could not read them; nobody gave up.
    assert set(ring.reports) == {0}
    command = Command(elements=4000, destination=aligned(16000))
    golden = ring.golden(arrays).view(np.uint32)
    for rank, node in enumerate(ring.system.nodes):
        np.testing.assert_array_equal(ring.result(node, command, rank), golden)


@pytest.mark.parametrize("number, sets", [(0, "events_q[{}] <= "), (1, "events[{}] = 1'b0;")])
def test_an_engine_drives_its_disagreement_or_says_that_it_has_none(number, sets):
    """Without a driver the text would have a register for it, where the netlist has a constant."""
    engine = RingEngine(replace(TEST, engines=2), number=number)
    text = emit(engine, name="ring_engine").text
    assert sets.format(events_layout()["disagreed"].offset) in text

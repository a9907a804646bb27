# SPDX-License-Identifier: Apache-2.0
"""Aborts of compiled NICs: however they meet, all come to one epoch and can go on."""

import random
from dataclasses import replace

import numpy as np
import pytest

from hw.smartnic.abort import RETRY_CYCLES
from hw.smartnic.config import preset
from hw.smartnic.layouts import AbortCause, HeaderLayout
from hw.smartnic.registers import INTERRUPTS, CommandError
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.rtl.errors import CommandRefusedError, GivenUpError
from sim.rtl.harness.specs import HeaderFault
from sim.rtl.smartnic.ring import NicRing

TEST = preset("test")
NODES = 3
COMMAND = Command(elements=900, destination=8192)


def ring_of(nodes=NODES, *, read_latency_cycles=20, **options):
    settings = Surroundings(
        nodes=nodes, latency_cycles=9, read_latency_cycles=read_latency_cycles
    )
    return NicRing(TEST, settings, **options)


def begin(ring, cycles):
    """Two all-reduces are under way for some time."""
    for node in ring.system.nodes:
        for _ in range(2):
            ring.start(node, COMMAND)
    ring.system.advance(ring.system.cycle + cycles)


def settled(ring):
    """All are idle and at one epoch, which is returned; interrupts are cleared."""
    ring.system.run(max_cycles=60_000)
    states = [ring.read(node, "status") for node in ring.system.nodes]
    assert all(state["idle"] and not state["outstanding"] for state in states)
    (epoch,) = {state["epoch"] for state in states}
    for node in ring.system.nodes:
        ring.write(node, "interrupt", **dict.fromkeys(INTERRUPTS, 1))
    ring.system.run(max_cycles=1000)
    return epoch


def assert_exact(ring, compress=False):
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(500).astype(np.float32) for _ in ring.system.nodes]
    golden = ring.golden(arrays, compress=compress)
    for output in ring.all_reduce(arrays, compress=compress, max_cycles=60_000):
        np.testing.assert_array_equal(output.view(np.uint32), golden.view(np.uint32))


@pytest.mark.parametrize("latency", [20, 300, 2000])
def test_two_aborts_in_a_row(latency):
    ring = ring_of(read_latency_cycles=latency)
    for gap in (0, 5, 40, 400, 2500):
        begin(ring, 700)
        ring.abort(0)
        ring.system.nodes[0].delay(gap)
        ring.abort(0)

        settled(ring)

        assert_exact(ring)


@pytest.mark.parametrize("seed", range(4))
def test_hosts_abort_on_their_own_timeouts(seed):
    rng = random.Random(seed)
    ring = ring_of(read_latency_cycles=300)
    for _ in range(3):
        begin(ring, rng.randrange(1500))
        for rank, node in enumerate(ring.system.nodes):
            node.delay(rng.randrange(2500))
            ring.abort(rank)

        settled(ring)

        assert_exact(ring, compress=True)


def test_abort_forgets_the_errors_of_what_it_cuts_off():
    """Wherever they are: in blocks, in verdicts, or of one of two engines that was done first."""
    config = replace(TEST, engines=2, ethernet=False, codec="none")
    settings = Surroundings(nodes=NODES, latency_cycles=9, memory_stalls=0.4, seed=2)
    ring = NicRing(config, settings)
    for cycles in range(60, 1500, 24):
        ring.system.nodes[1].fail_memory(0, 4 * COMMAND.elements, writes=False)
        begin(ring, cycles)
        ring.abort(0)
        settled(ring)
        ring.system.nodes[1].heal_memory()

        assert_exact(ring)


def test_abort_in_every_cycle_of_another_ones():
    ring = ring_of(4)
    for delay in range(60):
        ring.abort(0)
        ring.system.nodes[1].delay(delay)
        ring.abort(1)

        settled(ring)
    assert_exact(ring)


@pytest.mark.parametrize("epoch", [0, 1, 128, 255])
@pytest.mark.parametrize("busy", [False, True])
def test_nic_that_was_reset_alone_and_aborts_is_in_step(epoch, busy):
    ring = ring_of()
    for _ in range(epoch):
        ring.abort(0)
        ring.system.run(max_cycles=5000)
    settled(ring)
    assert_exact(ring)
    if busy:
        begin(ring, 600)

    ring.reset(1)

    assert settled(ring) > epoch
    assert_exact(ring)


@pytest.mark.parametrize("epoch", [1, 128, 255])
def test_nic_that_was_reset_unnoticed_is_found_by_the_next_all_reduce(epoch):
    ring = ring_of()
    for _ in range(epoch):
        ring.abort(2)
        ring.system.run(max_cycles=5000)
    settled(ring)
    ring.reset(1, abort=False)

    with pytest.raises(GivenUpError, match=r"aborted.* \(reset at rank \d\)"):
        assert_exact(ring)

    assert set(ring.reports) == {0, 1, 2}
    assert settled(ring) == epoch + 1
    assert_exact(ring)


def lost(node, port):
    """The first frame of a port gets another version, so it is dropped."""
    bit = dict(HeaderLayout.as_shape())["version"].offset
    return HeaderFault(node=node, port=port, packet=0, bits=(bit,))


@pytest.mark.parametrize("ports", [(0,), (1,), (0, 1)])
def test_lost_abort_frames_are_sent_again(ports):
    ring = ring_of(faults=[lost(0, port) for port in ports])

    ring.abort(0)
    ring.system.run(max_cycles=60_000)

    # If only one gets lost the news comes the other way round.
    assert (ring.system.cycle > RETRY_CYCLES) == (ports == (0, 1))
    assert settled(ring) == 1
    assert_exact(ring)


def test_every_rank_says_why_and_where_it_began():
    ring = ring_of()
    begin(ring, 300)
    ring.abort(2)
    ring.system.run(max_cycles=5000)

    for node in ring.system.nodes:
        assert ring.read(node, "abort") == {"cause": AbortCause.SOFTWARE.value, "rank": 2}


def test_command_is_refused_until_the_abort_is_acknowledged():
    ring = ring_of()
    ring.abort(0)
    ring.system.run(max_cycles=5000)
    node = ring.system.nodes[1]

    ring.start(node, COMMAND)
    ring.system.run(max_cycles=5000)

    assert ring.read(node, "refusal")["error"] == CommandError.ABORTING.value
    with pytest.raises(CommandRefusedError, match="rank 1 refused a command: aborting"):
        ring.acknowledge(1, node)
    settled(ring)
    assert_exact(ring)


def test_frame_that_an_abort_cuts_off_is_never_taken_for_data():
    # Reads of the second all-reduce are under way for long, so rank 1 hears of the abort late
    # enough to complete the first one with what rank 0 has sent until then.
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(COMMAND.elements).astype(np.float32) for _ in range(NODES)]

    def started(abort_after):
        ring = ring_of(read_latency_cycles=400)
        for node, array in zip(ring.system.nodes, arrays):
            ring.store(node, COMMAND, array)
            ring.start(node, COMMAND)
            ring.start(node, Command(elements=2000, source=16384, destination=32768))
        first, *others = ring.system.nodes
        if abort_after is not None:
            first.delay(abort_after)
            ring.abort(0)
        begun = ring.system.cycle
        tickets = [
            node.wait_at_least(ring.registers.offset("completed"), value=1, mask=1)
            for node in others
        ]
        return ring, begun, tickets

    ring, begun, tickets = started(None)
    ring.system.run(max_cycles=30_000)
    ends = [ticket.cycle - begun for ticket in tickets]

    completed = tried = 0
    for delay in range(min(ends) - 250, max(ends), 5):
        ring, _, _ = started(delay)
        ring.system.advance(ring.system.cycle + max(ends) + 3000)
        ring.system.give_up_waits()
        golden = ring.golden(arrays).view(np.uint32)
        for rank in (1, 2):
            tried += 1
            if ring.read(ring.system.nodes[rank], "completed")["count"]:
                completed += 1
                np.testing.assert_array_equal(
                    ring.result(ring.system.nodes[rank], COMMAND, rank), golden
                )
    assert 0 < completed < tried

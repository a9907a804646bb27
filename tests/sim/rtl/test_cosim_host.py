# SPDX-License-Identifier: Apache-2.0
"""Host scripts: registers, waits, and what happens when they do not end."""

import os
import re
import signal
import threading
import time

import pytest

from sim.rtl.harness.system import CycleLimitError, ProtocolError, StuckError, System

OUTSIDE = 0x40


@pytest.fixture
def idle_pair(ring_of):
    """Two nodes whose engines have done their work."""
    system = ring_of(2, 1)
    system.run()
    return system


def test_a_register_keeps_what_was_written(idle_pair, registers):
    node = idle_pair.nodes[1]
    node.write(registers.source, 0xDEADBEE0)
    ticket = node.read(registers.source)
    other = idle_pair.nodes[0].read(registers.source)

    idle_pair.run()

    assert (ticket.value, ticket.response, other.value) == (0xDEADBEE0, 0, 0)


def test_a_delay_lasts_as_long_as_it_says(idle_pair):
    first, second = (idle_pair.nodes[0].delay(cycles) for cycles in (10, 100))

    idle_pair.run()

    assert second.cycle - first.cycle == 101  # the next operation starts one cycle later


def test_waiting_for_a_register_ends_when_its_masked_bits_match(ring_of, registers):
    system = ring_of(2, 10, wait=False)
    node = system.nodes[0]
    ticket = node.wait_register(registers.status, value=1, mask=0xFF, poll_cycles=8)
    system.nodes[1].wait_irq()

    system.run(drain=False)

    assert ticket.value == 1
    assert (node.memory[32768 : 32768 + 640] == system.nodes[1].memory[:640]).all()


def test_values_of_operations_not_run_yet_are_refused(idle_pair, registers):
    ticket = idle_pair.nodes[0].read(registers.status)

    assert not ticket.done
    with pytest.raises(RuntimeError, match=r"^the operation is not completed yet"):
        _ = ticket.value


def test_an_error_response_ends_the_run_unless_allowed(idle_pair):
    tickets = [idle_pair.nodes[0].read(OUTSIDE, allow_error=True),
               idle_pair.nodes[0].write(OUTSIDE, 1, allow_error=True)]
    idle_pair.run()
    assert [ticket.response for ticket in tickets] == [2, 2]

    idle_pair.nodes[0].read(OUTSIDE)
    with pytest.raises(ProtocolError, match="csr: read of 0x40 was answered with error response 2"):
        idle_pair.run()


def test_the_cycle_limit_names_what_is_not_finished(ring_of):
    system = ring_of(3, 10)

    with pytest.raises(CycleLimitError) as caught:
        system.run(max_cycles=60)

    text = str(caught.value)
    assert text.startswith("not finished after 60 cycles: node 0: in operation 5 (wait_irq) since ")
    assert re.search(r"; node 2: .*, busy, mem 0 has \d+ reads and \d+ writes open", text)
    assert system.run().end_cycle > 60  # and the run can be continued


def test_hosts_that_wait_for_nothing_are_reported_at_once(idle_pair):
    idle_pair.nodes[1].wait_irq()

    with pytest.raises(StuckError, match=r"node 1: in operation 7 \(wait_irq\) since cycle"):
        idle_pair.run()

    assert idle_pair.cycle < 2000


def test_progress_is_reported_about_twice_a_second(idle_pair):
    seen = []
    idle_pair.nodes[0].wait_register(0, value=0x1000)
    start = time.perf_counter()

    def progress(cycle, nodes_done):
        seen.append((cycle, nodes_done))
        if len(seen) == 2:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        idle_pair.run(progress=progress)

    assert 0.9 < time.perf_counter() - start < 10
    assert seen[1][0] > seen[0][0]
    assert [done for _, done in seen] == [1, 1]


def test_ctrl_c_ends_a_run(idle_pair):
    idle_pair.nodes[0].wait_register(0, value=0x1000)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            idle_pair.run()
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_outputs_can_be_read_between_runs(idle_pair):
    assert idle_pair.nodes[0].output("idle") == 1


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda n: n.write(-1, 0), "address must be in 0 to 0xffffffff, not -0x1"),
        (lambda n: n.write(0, 2**32), "value must be in 0 to 0xffffffff, not 0x100000000"),
        (lambda n: n.delay(-1), "cycles must be at least 0, not -1"),
        (lambda n: n.wait_register(0, value=2, mask=1),
         "value 0x2 has bits outside mask 0x1: it never matches"),
        (lambda n: n.output("nothing"), "has no output 'nothing'"),
    ],
)
def test_impossible_operations_are_refused(idle_pair, call, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        call(idle_pair.nodes[0])


def test_a_system_needs_a_node():
    with pytest.raises(ValueError, match=r"^nodes must hold at least one node$"):
        System([])

# SPDX-License-Identifier: Apache-2.0
"""Windows, threads, lanes and skipped nodes change the speed of a run and nothing else."""

import numpy as np
import pytest

PACKETS = 25
LATENCIES = [(7, 9), (12, 7), (8, 30)]


@pytest.fixture
def observe(ring_of, registers, payload_arrived):
    """Everything that a run with two phases and random stalls lets one see."""

    def run(**options):
        system = ring_of(3, PACKETS, latencies=LATENCIES, stalls=0.2, seed=3, record_beats=True,
                         bucket_cycles=50, **options)
        results = [system.run(start_skew_cycles=300, max_cycles=50_000)]
        assert payload_arrived(system, PACKETS * 64)
        for node in system.nodes:
            node.delay(1000 + 400 * node.number)
            node.write(registers.control, 1)
            node.wait_irq()
            node.write(registers.status, 0)
        ticks = [node.read(registers.ticks) for node in system.nodes]
        results.append(system.run(max_cycles=50_000))
        seen = [[(r.first_cycle, r.end_cycle, r.last_host_cycle) for r in results]]
        seen += [(ticket.value, ticket.cycle) for ticket in ticks]
        for node in system.nodes:
            seen.append(node.memory.tobytes())
            activity = [system.link_activity(node.number, port) for port in range(2)]
            activity.append(system.memory_activity(node.number, 0))
            for record in activity:
                seen += [v.tolist() if isinstance(v, np.ndarray) else v
                         for v in vars(record).values()]
        return seen, sum(r.stepped_node_cycles for r in results), results[-1].node_cycles

    return run


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("window_cycles", [1, 2, 5, 7])
def test_windows_and_threads_give_identical_cycles_and_bits(observe, window_cycles, threads):
    assert observe(window_cycles=window_cycles, threads=threads)[0] == observe()[0]


@pytest.mark.parametrize("options", [{}, {"threads": 2, "window_cycles": 5}, {"skip_idle": False}])
def test_nodes_in_lanes_give_identical_cycles_bits_and_steps(observe, options):
    """Three nodes in two models of two lanes."""
    assert observe(lanes=2, **options) == observe(**options)


def test_an_engine_in_a_lane_is_not_reset_alone(ring_of):
    with pytest.raises(ValueError, match="the engine of node 1 shares a model with others, in l"):
        ring_of(3, 5, lanes=2).nodes[1].reset_engine()


@pytest.mark.parametrize("window_cycles", [1, 7])
def test_skipping_nodes_at_rest_changes_only_the_number_of_steps(observe, window_cycles):
    seen, steps, _ = observe(skip_idle=True, window_cycles=window_cycles)
    seen_all, all_steps, _ = observe(skip_idle=False)

    assert seen == seen_all
    assert steps < 0.8 * all_steps


def test_seed_decides_stalls_and_skews(ring_of):
    def end(seed):
        return ring_of(3, 10, stalls=0.2, seed=seed).run(start_skew_cycles=99).last_host_cycle

    assert end(1) == end(1)
    assert end(1) != end(2)


def test_an_engine_that_is_never_idle_is_stepped_in_every_cycle(ring_of):
    result = ring_of(2, 5, bug="never_idle").run(drain=False)

    assert result.stepped_node_cycles == result.node_cycles


@pytest.mark.parametrize("bus_bytes", [16, 32, 64, 128])
def test_every_bus_width_carries_the_same_bytes(ring_of, payload_arrived, bus_bytes):
    system = ring_of(3, 12, bus_bytes=bus_bytes, stalls=0.1)

    system.run(max_cycles=20_000)

    assert payload_arrived(system, 12 * 4 * bus_bytes)
    assert all((node.memory[32768 + 48 * bus_bytes :] == 0).all() for node in system.nodes)

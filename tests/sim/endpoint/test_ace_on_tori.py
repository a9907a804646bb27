# SPDX-License-Identifier: Apache-2.0
"""Event ACE on tori: near the cycle model of the engines, whatever the style."""

import pytest

from sim.endpoint.latencies import EventLatencies
from sim.run import run

STYLES = "baseline", "enhanced", "dimension_ordered", "multi_colour", "halves"


def described(level, shape, style, collective, size_bytes, *, latency_s=60e-9, **endpoint):
    ports = 2 * len(shape)
    return {
        "topology": {
            "kind": "torus", "shape": list(shape), "bandwidth_bytes_per_s": 16e9,
            "latency_s": latency_s,
        },
        "endpoint": {
            "kind": "ace", "level": level, "preset": "duo", "ports": ports, "alus": ports,
            "fsms": 2 * ports, "max_nodes": 64, "memory_ports": ports, "banks": 16,
            "program_words": 1024, "sram_bytes": ports << 17, "rx_packets": 64, "tx_packets": 8,
            "npu": {"clock_hz": 1e9}, **endpoint,
        },
        "algorithm": {"style": style},
        "workload": {"collective": collective, "size_bytes": size_bytes},
        "run": {"passes": 1},
    }


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("shape", [(2, 4), (3, 3, 2)], ids=str)
def test_small_collectives_take_the_time_of_the_engines(shape, collective, style):
    """READY of every phase, packets made one by one and hops: 20 to 35 % too early without."""
    events, cycles = (
        run(described(level, shape, style, collective, 1024)).time_s
        for level in ("events", "cycles")
    )
    assert events == pytest.approx(cycles, rel=0.08)


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter", "all_gather"])
def test_loads_and_stores_take_the_time_of_the_memory_ports(collective):
    for ports in (1, 4):
        events, cycles = (
            run(described(level, (2, 4), "multi_colour", collective, 1 << 18, memory_ports=ports))
            .time_s for level in ("events", "cycles")
        )
        assert events == pytest.approx(cycles, rel=0.12), ports


@pytest.mark.parametrize("shape", [(4, 4), (2, 2, 2)], ids=str)
def test_completions_are_seen_at_polls(shape):
    """Memories of all latencies over a period make two different ends, a period apart."""
    known = EventLatencies.stored()
    ends = []
    for write in range(1, known.ace_poll + 2):
        made = described("events", shape, "baseline", "all_reduce", 4)
        made["memory"] = {"write_latency_s": write * 1e-9}
        ends.append(round(run(made).time_s * 1e9, 3))
    assert len(set(ends)) == 2 and max(ends) - min(ends) == known.ace_poll
    assert all((end - known.ace_first_poll) % known.ace_poll == 0 for end in ends)


@pytest.mark.parametrize("shape, style, collective, size_bytes, latency_s, most", [
    # A packet for each block, however short, from one FSM.
    ((4, 4, 4), "baseline", "reduce_scatter", 4, 60e-9, 0.05),
    # Empty packets of a run.
    ((4, 4, 4), "halves", "all_reduce", 4, 16e-9, 0.05),
    # Many chunks are admitted one after the other.
    ((3, 2, 2), "dimension_ordered", "all_reduce", 1024, 30e-9, 0.03),
    # Credits come back in groups after a round trip.
    ((2, 3, 2), "baseline", "all_gather", 4096, 500e-9, 0.03),
    # The oldest chunks first, on links and on to the next phase.
    ((2, 2, 2), "baseline", "all_reduce", 65536, 16e-9, 0.1),
    # FSMs make one packet ahead for a link: younger chunks have what the oldest leave.
    ((2, 2), "halves", "all_reduce", 65536, 16e-9, 0.06),
], ids=str)
def test_what_bounds_a_collective_is_known(
    shape, style, collective, size_bytes, latency_s, most
):
    events, cycles = (
        run(described(
            level, shape, style, collective, size_bytes, latency_s=latency_s, contexts=4,
            sram_bytes=2 * len(shape) * 2 << 16,
        )).time_s
        for level in ("events", "cycles")
    )
    assert events == pytest.approx(cycles, rel=most)


@pytest.mark.parametrize("shape, collective, size_bytes, most", [
    # Everything goes through one copy unit in the phase that a gather lacks.
    ((2, 2, 2), "all_gather", 65536, 0.04),
    ((4, 3), "all_gather", 262144, 0.06),
    ((2, 4), "reduce_scatter", 1024, 0.06),
    ((4, 4), "all_reduce", 262144, 0.06),
    # A command for each packet, however short, and READY when the chunk has its next place.
    ((4, 4, 4), "all_gather", 4, 0.2),
    ((4, 4, 4), "reduce_scatter", 4, 0.06),
    ((2, 2), "all_reduce", 4, 0.04),
], ids=str)
def test_partitions_by_phase_cost_what_they_cost_the_engines(shape, collective, size_bytes, most):
    phases = len(shape) + 1
    events, cycles = (
        run(described(
            level, shape, "enhanced", collective, size_bytes, contexts=4, partitions="phase",
            phases=phases, fsms=4 * phases, sram_bytes=(phases + 1) << 18,
        )).time_s
        for level in ("events", "cycles")
    )
    assert events == pytest.approx(cycles, rel=most)


@pytest.mark.parametrize("links", [(16e9, 4e9), (4e9, 16e9)], ids=str)
def test_chunks_take_the_paths_of_the_fsms_on_unlike_links(links):
    times = []
    for level in ("events", "cycles"):
        made = described(level, (2, 5), "multi_colour", "all_reduce", 1 << 18)
        made["topology"] = {}
        made["dimension"] = [
            {"kind": "ring", "size": size, "bandwidth_bytes_per_s": rate, "latency_s": 60e-9}
            for size, rate in zip((2, 5), links, strict=True)
        ]
        times.append(run(made).time_s)
    assert times[0] == pytest.approx(times[1], rel=0.08)


def test_a_group_of_some_dimensions_is_no_torus_of_engines():
    """Its plan has the phases of those dimensions alone, which the hardware does not run."""
    made = described("events", (2, 4), "enhanced", "all_reduce", 4096)
    made["workload"] |= {"dimensions": [1]}
    assert run(made).time_s > 0


def test_more_nodes_than_a_slot_has_beats_run_as_bounds_alone():
    """No engine of that size runs them; the event level did before it knew tori."""
    made = described("events", (16, 16, 16), "multi_colour", "all_reduce", 4096)
    made["endpoint"] = {"kind": "ace", "level": "events", "preset": "isca21"}
    assert run(made).time_s > 0

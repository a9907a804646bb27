"""Event ACE on tori: near the cycle model of the engines, whatever the style."""

import pytest

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
    assert events == pytest.approx(cycles, rel=0.15)


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter", "all_gather"])
def test_loads_and_stores_take_the_time_of_the_memory_ports(collective):
    for ports in (1, 4):
        events, cycles = (
            run(described(level, (2, 4), "multi_colour", collective, 1 << 18, memory_ports=ports))
            .time_s for level in ("events", "cycles")
        )
        assert events == pytest.approx(cycles, rel=0.16), ports


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

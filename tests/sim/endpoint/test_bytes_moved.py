"""Bytes that units of endpoints move: what the collective needs, and never more than they can."""

import numpy as np
import pytest

import foldwire as fw

SIZE = 4 << 20
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather")


def described(shape, kind, collective, style="multi_colour", **endpoint):
    return fw.run({
        "topology": {
            "kind": "torus", "shape": list(shape), "bandwidth_bytes_per_s": 64e9,
            "latency_s": 5e-8,
        },
        "algorithm": {"style": style},
        "endpoint": {"kind": kind, **endpoint},
        "workload": {"collective": collective, "size_bytes": SIZE},
        "run": {"passes": 1},
    })


def moved(run):
    """Bytes by unit of NPU 0, over the size of the collective."""
    record = run.record
    return {
        name: float(each[0]) / SIZE for name, each in zip(record.unit_names, record.unit_bytes)
    }


@pytest.mark.parametrize("style", ["multi_colour", "baseline", "enhanced", "hamiltonian"])
@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("shape", [(4, 4), (3, 3, 3)], ids=str)
def test_ace_reads_and_writes_memory_once_and_its_sram_no_faster_than_it_can(
    shape, collective, style
):
    run = described(shape, "ace", collective, style)
    found, nodes, ace = moved(run), int(np.prod(shape)), run.description.endpoint
    result = {"all_reduce": 1, "reduce_scatter": 1 / nodes, "all_gather": nodes}[collective]
    for name in ("TX DMA", "bus to engine"):
        assert found[name] == pytest.approx(1, rel=1e-3)
    for name in ("RX DMA",):
        assert found[name] == pytest.approx(result, rel=1e-3)
    record = run.record
    sram = record.unit_names.index("SRAM")
    rate = ace.sram_accesses * ace.bus_bytes / ace.npu.cycle_s
    busy_s = float(record.unit_busy_fs[sram][0]) * 1e-15
    assert float(record.unit_bytes[sram][0]) == pytest.approx(busy_s * rate, rel=0.02)
    assert float(record.unit_bytes[sram][0]) <= 1.001 * rate * run.time_s


def test_a_ring_of_the_hardware_moves_its_results_once():
    for collective, result in (("all_reduce", 1), ("reduce_scatter", 0.25), ("all_gather", 4)):
        run = fw.run({
            "topology": {"kind": "ring", "shape": [4], "bandwidth_bytes_per_s": 19e9},
            "endpoint": {"kind": "ace", "preset": "ring"},
            "workload": {"collective": collective, "size_bytes": SIZE},
            "run": {"passes": 1},
        })
        found = moved(run)
        assert found["TX DMA"] == pytest.approx(1, rel=1e-3)
        assert found["RX DMA"] == pytest.approx(result, rel=1e-3)


def test_a_sum_of_the_cores_reads_memory_twice():
    found = moved(described((8,), "baseline", "reduce_scatter", "baseline"))
    # 7 of 8 blocks are sent; all but the first are sums of two operands, and the last one is made.
    assert found["memory read"] == pytest.approx(found["cores"])
    assert found["memory read"] > found["bus to fabric"] + 0.7

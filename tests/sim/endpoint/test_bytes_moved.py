# SPDX-License-Identifier: Apache-2.0
"""Bytes that units of endpoints add, read and write: what the collective needs, from arithmetic
that knows no simulator, and never more than they can."""

import math

import numpy as np
import pytest

import foldwire as fw
from bench._conserved import above_rates, capacities, sums_per_byte, wrong_sums
from sim.collectives.execute import what_is_wrong
from sim.collectives.plan import plan_collective
from sim.endpoint.kinds import KINDS
from sim.workload.graph import CollectiveKind

SIZE = 3 << 20
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather")
STYLES = ("baseline", "enhanced", "dimension_ordered", "multi_colour", "halves")
SHAPES = ((4,), (4, 4), (2, 4), (4, 4, 4), (2, 4, 8), (4, 1, 2))
BASELINES = sorted(each for each in KINDS if each.startswith("baseline"))


def described(shape, kind, collective, style="multi_colour", topology="torus", **others):
    algorithm = {"style": style, **others.pop("algorithm", {})}
    return fw.run({
        "topology": {
            "kind": topology, "shape": list(shape), "bandwidth_bytes_per_s": 64e9,
            "latency_s": 5e-8,
        },
        "algorithm": algorithm,
        "endpoint": {"kind": kind, **others},
        "workload": {"collective": collective, "size_bytes": SIZE},
        "scheduler": {"chunk_bytes": 1 << 16, "concurrency": 8},
        "run": {"passes": 1, "fold": "off"},
    })


def moved(run, mean=False):
    """Bytes by unit of NPU 0 over the size of the collective, or the mean over NPUs."""
    record = run.record
    return {
        name: float(each.mean() if mean else each[0]) / SIZE
        for name, each in zip(record.unit_names, record.unit_bytes)
    }


def halves(sizes, collective, style):
    """Phases as (collective, size of the group, data of a node before it over the whole)."""
    sizes = [size for size in sizes if size > 1]
    scatter, gather, data = [], [], 1.0
    for size in sizes:
        scatter.append(("reduce_scatter", size, data))
        data /= size
        gather.insert(0, ("all_gather", size, data))
    if collective == "reduce_scatter":
        return scatter
    if collective == "all_gather":
        data = 1.0
        made = []
        for size in reversed(sizes):
            made.append(("all_gather", size, data))
            data *= size
        return made
    if style == "baseline" or (len(sizes) == 1 and style != "halves"):
        return [("all_reduce", size, 1.0) for size in sizes]
    if style == "enhanced":
        middle = [("all_reduce", size, 1 / sizes[0]) for size in sizes[1:]]
        return [scatter[0], *middle, gather[-1]]
    if style == "dimension_ordered":
        return [*scatter[:-1], ("all_reduce", *scatter[-1][1:]), *gather[1:]]
    return scatter + gather


RESULT = {"all_reduce": lambda n: 1, "reduce_scatter": lambda n: 1 / n, "all_gather": lambda n: n}


def sram_of_rings(sizes, collective, style):
    """Reads and writes of an SRAM in which a chunk is written once and read once, sums go out as
    they are made, and every phase reads what it sends first."""
    reads, writes = RESULT[collective](math.prod(sizes)), 1.0
    for kind, size, data in halves(sizes, collective, style):
        if kind == "all_gather":
            reads += data
            writes += (size - 1) * data
        else:
            reads += data / size + data * (size - 1) / size  # what goes first, and operands
            writes += data / size  # sums that stay
        if kind == "all_reduce":
            writes += data * (size - 1) / size
    return reads, writes


def test_the_arithmetic_is_that_of_a_4x4x4_torus():
    reads, writes = sram_of_rings((4, 4, 4), "all_reduce", "dimension_ordered")
    sent = 2 * 63 / 64
    assert (reads / sent, writes / sent) == (pytest.approx(4 / 3), pytest.approx(1.1746, rel=1e-4))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_ace_adds_every_contribution_once_and_stores_what_stays(shape, collective, style):
    if style == "multi_colour" and len(set(shape)) > 1:
        # Each colour has an order of its own.
        style = "halves"
    run = described(shape, "ace", collective, style)
    found, nodes = moved(run), int(np.prod(shape))
    added = sums_per_byte(shape, CollectiveKind(collective), style)
    assert found.get("ALUs", 0) == pytest.approx(added, rel=1e-3)
    assert found["SRAM"] == pytest.approx(sum(sram_of_rings(shape, collective, style)), rel=1e-3)
    for name, much in (("TX DMA", 1), ("bus to engine", 1), ("RX DMA", RESULT[collective](nodes)),
                       ("bus from engine", RESULT[collective](nodes))):
        assert found[name] == pytest.approx(much, rel=1e-3)
    assert list(above_rates(run)) == []


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cores_read_what_they_send_and_every_contribution(shape, collective, style):
    """1.5 reads per byte sent for all-reduces, as ISCA 2021 has it, but for sums that are stored
    before they are sent, or kept: their operands are read apart."""
    if style == "multi_colour" and len(set(shape)) > 1:
        style = "halves"
    run = described(shape, "baseline_comm_opt", collective, style)
    sent = added = stored = 0.0
    phases = halves(shape, collective, style)
    for (kind, size, data), (then, *_) in zip(phases, [*phases[1:], ("",)]):
        way = data * (size - 1) * (1 if kind == "all_gather" else 1 / size)
        sent += 2 * way if kind == "all_reduce" else way
        added += 0 if kind == "all_gather" else way
        if kind == "reduce_scatter" and then not in ("reduce_scatter", "all_reduce"):
            stored += data / size
    kept = sum(data / size for kind, size, data in phases if kind == "all_reduce")
    found = moved(run)
    assert found["memory read"] == pytest.approx(sent + added + stored, rel=1e-3)
    assert found["cores"] == pytest.approx(found["memory read"])
    assert found["memory write"] == pytest.approx(sent + stored + kept, rel=1e-3)
    for name in ("bus to fabric", "bus from fabric"):
        assert found[name] == pytest.approx(sent, rel=1e-3)
    if collective == "all_reduce" and not stored:
        assert found["memory read"] / found["bus to fabric"] == pytest.approx(1.5, rel=1e-3)
    assert list(above_rates(run)) == []


ALGORITHMS = {
    # Reads and writes per byte of sums, beside those of what is sent and received.
    "ring": (1, 1 / 7), "halving_doubling": (1, 1 / 7), "direct": (2, 1), "tree": (2, 1),
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("topology", ["ring", "switch"])
def test_every_algorithm_adds_every_contribution_once(algorithm, topology):
    added = 7 / 8
    choice = {"reductions": [algorithm]}
    run = described((8,), "ace", "all_reduce", "baseline", topology, algorithm=choice)
    assert moved(run, mean=True)["ALUs"] == pytest.approx(added, rel=1e-3)
    assert [*wrong_sums(run), *above_rates(run)] == []
    run = described((8,), "baseline_comm_opt", "all_reduce", "baseline", topology,
                    algorithm=choice)
    found = moved(run, mean=True)
    sent = found["bus to fabric"]
    assert sent == pytest.approx(2 * added, rel=1e-3)
    reads, writes = ALGORITHMS[algorithm]
    assert found["memory read"] == pytest.approx(sent + reads * added, rel=1e-3)
    assert found["memory write"] == pytest.approx(sent + writes * added, rel=1e-3)
    assert [*wrong_sums(run), *above_rates(run)] == []


@pytest.mark.parametrize("kind", ["ace", "ace_v1", *BASELINES])
@pytest.mark.parametrize("style", ["multi_colour", "hamiltonian"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_no_unit_is_above_its_rate_on_a_torus_of_unlike_sizes(kind, style, collective):
    run = described((3, 5, 4), kind, collective, style)
    assert [*wrong_sums(run), *above_rates(run)] == []
    assert set(capacities(run.description.endpoint)) >= set(run.record.unit_names)


@pytest.mark.parametrize("shape", [(4,), (4, 4), (2, 4, 2)], ids=str)
@pytest.mark.parametrize("style", ["baseline", "enhanced", "multi_colour"])
@pytest.mark.parametrize("half_duplex", [False, True])
def test_a_nic_passes_every_own_block_and_every_contribution_through_its_adders(
    shape, style, half_duplex
):
    run = described(shape, "smartnic", "all_reduce", style, half_duplex=half_duplex)
    found = moved(run)
    begins = math.prod(shape) if len(shape) == 1 else shape[0]
    added = sums_per_byte(shape, CollectiveKind.ALL_REDUCE, style)
    if style != "multi_colour":
        assert found["adders"] == pytest.approx(added + 1 / begins, rel=1e-3)
    bus = {"host bus": 2} if half_duplex else {"host read": 1, "host write": 1}
    for name, much in bus.items():
        assert found[name] == pytest.approx(much, rel=1e-3)
    assert [*wrong_sums(run), *above_rates(run)] == []


@pytest.mark.parametrize("latency_s", [5e-8, 2e-6])
@pytest.mark.parametrize("nodes", [3, 4, 8])
def test_a_ring_of_the_hardware_moves_its_results_once(nodes, latency_s):
    """Its SRAM counts the beats that it reads: what goes first, operands, and results."""
    for collective in COLLECTIVES:
        run = fw.run({
            "topology": {"kind": "ring", "shape": [nodes], "bandwidth_bytes_per_s": 19e9},
            "endpoint": {"kind": "ace", "preset": "ring"},
            "memory": {"read_latency_s": latency_s, "write_latency_s": latency_s},
            "workload": {"collective": collective, "size_bytes": SIZE},
            "run": {"passes": 1},
        })
        found, result = moved(run), RESULT[collective](nodes)
        assert found["TX DMA"] == pytest.approx(1, rel=1e-2)
        for name in ("RX DMA", "writes"):
            assert found.get(name, result) == pytest.approx(result, rel=1e-2)
        assert found["SRAM"] == pytest.approx(1 + result, rel=1e-2)
        config = run.description.engine.config
        busy_s = run.record.unit_busy_fs[run.record.unit_names.index("SRAM")][0] * 1e-15
        clock = run.description.engine.clock_hz
        assert found["SRAM"] * SIZE <= 1.005 * busy_s * config.banks * config.bus_bytes * clock


def test_hardware_nics_read_add_and_write_every_element_once():
    run = fw.run({
        "topology": {"kind": "ring", "shape": [4], "bandwidth_bytes_per_s": 5e9},
        "endpoint": {"kind": "smartnic", "preset": "40g"},
        "workload": {"collective": "all_reduce", "size_bytes": SIZE},
        "run": {"passes": 1},
    })
    found = moved(run)
    for unit in ("host read", "adders", "gathering"):
        much = sum(each for name, each in found.items() if name.startswith(unit))
        assert much == pytest.approx(1, rel=1e-2)


@pytest.mark.parametrize("mode", ["push", "pull"])
def test_switches_add_what_endpoints_do_not(mode):
    """What enters a switch beyond what leaves it, but for copies, are its sums."""
    run = fw.run({
        "topology": {"kind": "switch", "shape": [8], "bandwidth_bytes_per_s": 25e9},
        "endpoint": {"kind": "in_switch", "mode": mode},
        "workload": {"collective": "all_reduce", "size_bytes": SIZE},
        "run": {"passes": 1},
    })
    network = run.network
    up = sum(
        float(amount) for link, amount in zip(run.record.links, run.record.link_bytes)
        if link.source < network.nodes
    ) / SIZE
    plan = plan_collective(
        network, CollectiveKind.ALL_REDUCE, run.system.algorithms[CollectiveKind.ALL_REDUCE],
        in_switch=run.description.endpoint.in_switch,
    )
    assert what_is_wrong(network, plan, CollectiveKind.ALL_REDUCE, elements=64) is None
    # Pushed are 8 operands of each element; pulled 7, and the sum, which its reader multicasts.
    assert up == pytest.approx(8, rel=1e-3)

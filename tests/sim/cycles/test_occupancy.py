# SPDX-License-Identifier: Apache-2.0
"""Work of the parts of ACE's engine in its cycle model: what must be moved, and RTL's counters."""

import numpy as np
import pytest

from sim.cycles.ace import occupancy
from sim.cycles.ace.events import WINDOW
from sim.hosts.activity import UnitActivity
from sim.run import run
from sim.workload.graph import CollectiveKind

BUS = 16
NODES = 4


def described(
    level: str, *, kind: str = "all_reduce", size_bytes: int = 1 << 14, style: str = "halves",
    **options,
):
    return {
        "topology": {
            "kind": "torus", "shape": [2, 2], "bandwidth_bytes_per_s": 16e9, "latency_s": 16e-9,
        },
        "endpoint": {
            "kind": "ace", "level": level, "preset": "duo", "ports": 4, "alus": 4, "fsms": 4,
            "max_nodes": 16, "memory_ports": 2, "program_words": 256, "sram_bytes": 1 << 16,
            "npu": {"clock_hz": 1e9}, **options,
        },
        "algorithm": {"style": style},
        "workload": {"collective": kind, "size_bytes": size_bytes},
        "run": {"passes": 1},
    }


def moved(record, name: str) -> np.ndarray:
    return record.unit_bytes[record.unit_names.index(name)]


@pytest.mark.full
@pytest.mark.parametrize("kind", [each.value for each in CollectiveKind][:3])
@pytest.mark.parametrize("style", ["halves", "baseline", "multi_colour"])
@pytest.mark.parametrize("size_bytes", [1 << 14, 5 << 12])
def test_memory_ports_move_what_those_of_the_rtl_do(kind, style, size_bytes):
    model, rtl = (
        run(described(level, kind=kind, style=style, size_bytes=size_bytes)).record
        for level in ("cycles", "rtl")
    )

    for name in ("memory read", "memory write"):
        assert (moved(model, name) == moved(rtl, name)).all(), name
        number, other = (each.unit_names.index(name) for each in (model, rtl))
        assert (model.unit_busy_fs[number] == rtl.unit_busy_fs[other]).all()
        assert model.unit_servers[number] == rtl.unit_servers[other] == 2


def test_every_block_is_read_and_written_as_often_as_its_phases_need():
    """`halves` on 2 x 2: half of the vector is sent and half added to, then a quarter each; a
    quarter of sums goes back, then half. Read: what is sent, added to, and the result. Written: the
    vector, sums, and what comes back."""
    size = 1 << 14
    record = run(described("cycles", size_bytes=size)).record

    added = back = size // 2 + size // 4
    assert (moved(record, "ALUs") == added).all()
    assert (moved(record, "SRAM reads") == (added + back) + added + size).all()
    assert (moved(record, "SRAM writes") == size + added + back).all()


@pytest.mark.parametrize("ports", ["1r1w", "1rw"])
def test_series_add_up_to_what_units_did(ports):
    record = run(described("cycles", bank_ports=ports, size_bytes=1 << 15)).record

    assert record.unit_series_fs.shape[1] == record.link_series_fs.shape[1]
    assert (record.unit_series_fs.sum(axis=1) == record.unit_busy_fs.sum(axis=1)).all()
    assert (record.unit_busy_fs > 0).all()
    # A question of an FSM takes several cycles and may end in the next bucket.
    beats = [n for n, name in enumerate(record.unit_names) if name != "FSMs"]
    servers = np.array(record.unit_servers)[beats, None] * NODES
    assert (record.unit_series_fs[beats] <= servers * record.bucket_fs).all()


@pytest.mark.parametrize(
    "changes, name, share",
    [
        ({"banks": 1, "bank_ports": "1rw", "alus": 4}, "SRAM", 90),
        (
            {"banks": 8, "memory_ports": 4, "fsms": 8, "rx_packets": 64, "sram_bytes": 1 << 17},
            "links of dimension", 70,
        ),
    ],
    ids=["memory", "links"],
)
def test_a_run_says_what_was_busiest(changes, name, share):
    done = run(described("cycles", size_bytes=1 << 18, style="multi_colour", **changes))
    begin = "busiest in the middle half of the run: "
    said = [each for each in done.record.notes if each.startswith(begin)]

    assert len(said) == 1
    what, of_time = said[0].partition(": ")[2].split(",", 1)
    assert what.startswith(name) and int(of_time.split()[0]) >= share
    assert ("; links of dimension" in of_time) == (name == "SRAM")


def test_windows_widen_as_a_run_goes_on():
    class State:
        registers = np.zeros(5, np.int64)
        work = np.zeros((2, len(occupancy.UNITS)), np.int64)
        work_over_time = np.zeros((len(occupancy.UNITS), occupancy.WINDOWS), np.int64)

    rng = np.random.default_rng(1)
    cycles = np.sort(rng.integers(0, 5 * occupancy.WINDOWS, 3000)).tolist()
    for cycle in cycles:
        occupancy.worked(State, cycle % 2, occupancy.ALUS, cycle, 1 + cycle % 3)

    window = 1 << State.registers[WINDOW]
    assert window == 8
    wanted = np.bincount(
        np.array(cycles) // window, [1 + each % 3 for each in cycles], occupancy.WINDOWS
    )
    assert (State.work_over_time[occupancy.ALUS] == wanted).all()
    assert State.work[:, occupancy.ALUS].sum() == wanted.sum()
    assert State.work_over_time.sum() == wanted.sum()


def test_buckets_take_their_part_of_windows():
    unit = UnitActivity(
        servers=1, cycles=np.array([12]), beats=np.array([12]), window_cycles=4,
        cycles_per_window=np.array([4, 2, 6, 0]),
    )

    assert unit.per_bucket(0, 8, 2).tolist() == [6, 6]
    assert unit.per_bucket(2, 4, 3).tolist() == [3, 4, 3]
    assert unit.per_bucket(8, 16, 1).tolist() == [6]

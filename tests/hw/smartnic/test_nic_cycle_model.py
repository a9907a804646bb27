# SPDX-License-Identifier: Apache-2.0
"""The cycle model against the RTL, and the golden model against sums done one by one."""

from dataclasses import fields, replace

import numpy as np
import pytest

from hw.common.axi import aligned
from hw.fp.model import reduce
from hw.fp.ops import ReduceOp
from hw.smartnic.config import preset
from sim.collectives.golden import nic_all_reduce
from sim.collectives.partition import NicPartition
from sim.cycles.smartnic.model import NicModel
from sim.hosts.command import Command
from sim.hosts.script import Compute, Interrupt, Issue, Reached
from sim.hosts.surroundings import Surroundings
from sim.runs.scripts import draw_inputs, run_engines
from sim.workload.graph import CollectiveKind

# Small queues that run over all the time, unlike the published ones: the hardest for the model.
CONFIG = preset("test")
RING = Surroundings(nodes=3, latency_cycles=20, write_latency_cycles=10)
STEPS = [Issue(command=0), Interrupt()]


def place(*sizes: tuple[int, bool]) -> list[Command]:
    """Commands of (elements, compress), their vectors one behind the other."""
    commands = []
    free = 0
    for elements, compress in sizes:
        size = aligned(4 * elements)
        commands.append(
            Command(elements=elements, compress=compress, source=free, destination=free + size)
        )
        free += 2 * size
    return commands


def check(config, ring, commands, scripts):
    """The model takes the cycles of the RTL, step by step, and its links carry the same beats."""
    inputs = draw_inputs(commands, ring.nodes, seed=1)
    rtl = run_engines("smartnic", config, ring, commands, scripts, inputs, trace=True)
    model = NicModel(config, ring, commands, scripts, start_cycle=rtl.begin, trace=True)
    model.run()
    assert rtl.checked == ring.nodes * len(commands) and rtl.wrong == 0
    assert [model.steps(rank).tolist() for rank in range(ring.nodes)] == rtl.steps
    for (rank, port), expected in rtl.links.items():
        found = model.link_activity(rank, port)
        for field in fields(found):
            np.testing.assert_array_equal(
                getattr(found, field.name), getattr(expected, field.name), err_msg=field.name
            )


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize(
    "nodes, elements", [(2, 1), (2, 700), (3, 41), (3, 1500), (5, 20), (5, 400), (8, 90)]
)
def test_an_all_reduce_takes_the_cycles_of_the_rtl(nodes, elements, compress):
    ring = replace(RING, nodes=nodes)
    check(CONFIG, ring, place((elements, compress)), [STEPS] * nodes)


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize(
    "changes",
    [
        {"link_stalls": 0.2},
        {"memory_stalls": 0.3},
        {"host_stalls": 0.3},
        {"link_stalls": 0.4, "memory_stalls": 0.5, "host_stalls": 0.2},
        {"beats_per_cycle": 0.4},
        {"host_bytes_per_cycle": 20.0},
        {"latency_cycles": 1, "read_latency_cycles": 3, "write_latency_cycles": 1},
        {"latency_cycles": 150, "read_latency_cycles": 200, "memory_stalls": 0.1},
    ],
    ids=str,
)
def test_stalls_paces_and_latencies_are_those_of_the_rtl(changes, compress):
    check(CONFIG, replace(RING, **changes, seed=5), place((900, compress)), [STEPS] * 3)


QUEUED = [
    Issue(command=0), Issue(command=1), Compute(cycles=40), Issue(command=2), Reached(count=2),
    Issue(command=3), Reached(count=4),
]


@pytest.mark.parametrize("stalls", [0.0, 0.15])
@pytest.mark.parametrize("engines", [1, 2])
def test_queued_all_reduces_of_hosts_that_start_late_take_the_cycles_of_the_rtl(engines, stalls):
    config = replace(CONFIG, engines=engines)
    ring = replace(
        RING, latency_cycles=7, link_stalls=stalls, memory_stalls=stalls, host_stalls=stalls
    )
    commands = place((300, False), (5, True), (1700, True), (40, False))
    check(config, ring, commands, [[Compute(cycles=61 * rank), *QUEUED] for rank in range(3)])


def test_a_published_nic_takes_the_cycles_of_the_rtl():
    ring = replace(RING, latency_cycles=60, link_stalls=0.05, memory_stalls=0.05)
    commands = place((50_000, True), (9000, False))
    script = [Issue(command=0), Issue(command=1), Reached(count=2)]
    check(preset("40g"), ring, commands, [script] * 3)


def test_a_run_in_windows_is_the_same_run():
    ring = replace(RING, nodes=4, latency_cycles=7)
    runs = []
    for window in (1, 5, 10**6):
        model = NicModel(CONFIG, ring, place((1200, True)), [STEPS] * 4)
        now = 0
        while not model.done:
            now += window
            model.run(now)
        runs.append(model.completions().tolist())
    assert runs[0] == runs[1] == runs[2]


def test_hosts_that_wait_for_nothing_come_to_no_end():
    scripts = [[Issue(command=0), Reached(count=1)], [], []]
    model = NicModel(CONFIG, RING, place((100, False)), scripts)
    model.run()
    assert not model.done
    assert model.steps(0).tolist() == [17, -1]
    assert (model.completions() == -1).all()


def test_more_commands_than_a_nic_queues_are_refused():
    count = CONFIG.descriptors + 1
    script = [*(Issue(command=number) for number in range(count)), Reached(count=count)]
    model = NicModel(CONFIG, RING, place(*[(3000, False)] * count), [script] * 3)
    with pytest.raises(
        RuntimeError, match=r"^the NIC of rank 0 refuses command 4: 4 all-reduces are outstanding$"
    ):
        model.run()


def test_vectors_of_different_shapes_are_refused():
    for shapes in ([(4,), (5,)], [(2, 3), (2, 3)]):
        with pytest.raises(ValueError, match=r"^arrays must be vectors of one length, not of sha"):
            nic_all_reduce([np.zeros(shape, np.float32) for shape in shapes], CONFIG)
    with pytest.raises(ValueError, match=r"^arrays must be from 2 to 256 vectors, not 0$"):
        nic_all_reduce([], CONFIG)


@pytest.mark.parametrize(
    "codec, changes, text",
    [
        ("none", {"compress": True}, "compress must be False for codec 'none' and sum_f32"),
        ("bfp16", {"source": 16}, "source must be a multiple of 32 bytes, not 16"),
        ("bfp16", {"block": 8}, "block must be None for NICs, not 8"),
        (
            "bfp16",
            {"collective": CollectiveKind.ALL_GATHER},
            "collective must be all_reduce for NICs, not all_gather",
        ),
    ],
)
def test_what_a_nic_does_not_do_is_refused(codec, changes, text):
    command = Command(**{"elements": 10, **changes})
    with pytest.raises(ValueError, match=f"^{text}$"):
        NicModel(replace(CONFIG, codec=codec), RING, [command], [STEPS] * 3)
    with pytest.raises(ValueError, match=r"^nodes must be from 2 to 256, not 300$"):
        NicModel(CONFIG, replace(RING, nodes=300), place((1, False)), [STEPS] * 300)


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize("nodes, elements", [(2, 5), (3, 200), (4, 1001)])
def test_golden_model_is_the_ring_walked_hop_by_hop(nodes, elements, compress):
    config = preset("test")
    fmt = config.codec_format
    rng = np.random.default_rng(nodes)
    arrays = [rng.standard_normal(elements).astype(np.float32) for _ in range(nodes)]
    plan = NicPartition(elements=elements, nodes=nodes, config=config)
    padded = [np.zeros(nodes * plan.share_beats * config.lanes, np.float32) for _ in arrays]
    for target, array in zip(padded, arrays):
        target[:elements] = array
    final = [each.copy() for each in padded]
    lengths = [config.block_beats] * plan.rounds + [plan.rest_beats]
    base = 0
    for length in lengths:
        size = length * config.lanes
        for block in range(nodes):
            piece = slice(base + block * size, base + (block + 1) * size)
            travelling = padded[block][piece]
            # 2 (N - 1) hops: what is sent is compressed on every one of them.
            for hop in range(1, 2 * nodes - 1):
                rank = (block + hop) % nodes
                travelling = fmt.quantize(travelling) if compress else travelling
                if hop < nodes:
                    travelling = reduce(ReduceOp.SUM_F32, padded[rank][piece], travelling)
                if hop >= nodes - 1:
                    kept = fmt.quantize(travelling) if compress else travelling
                    final[rank][piece] = kept
        base += nodes * size

    golden = nic_all_reduce(arrays, config, compress=compress)

    for rank in range(nodes):
        np.testing.assert_array_equal(
            final[rank][:elements].view(np.uint32), golden.view(np.uint32)
        )


def test_golden_model_refuses_compression_without_a_codec():
    with pytest.raises(ValueError, match=r"^compress must be False for a NIC"):
        nic_all_reduce([np.ones(3, np.float32)] * 2, replace(CONFIG, codec="none"), compress=True)

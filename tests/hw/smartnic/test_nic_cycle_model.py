"""The cycle model against the RTL, and the golden model against sums done one by one."""

from dataclasses import replace

import numpy as np
import pytest

from hw.fp.model import reduce
from hw.fp.ops import ReduceOp
from hw.smartnic.config import preset
from sim.collectives.smartnic_golden import Plan, all_reduce
from sim.cycles.ring import RingSettings
from sim.cycles.smartnic.cycle_model import CycleModel
from sim.rtl.nic_ring import NicRing

# Small queues that run over all the time, unlike the published ones: the hardest for the model.
CONFIG = preset("test")


def test_model_takes_the_cycles_of_the_rtl():
    errors = []
    for compress in (False, True):
        for nodes, elements in ((2, 1), (2, 700), (3, 41), (3, 1500), (5, 20), (5, 400), (8, 90)):
            ring = NicRing(
                CONFIG, RingSettings(nodes=nodes, latency_cycles=20, write_latency_cycles=10)
            )
            arrays = [np.ones(elements, np.float32)] * nodes
            ring.all_reduce(arrays, compress=compress, max_cycles=50_000)
            rtl = [ring.read(node, "busy", 0)["count"] for node in ring.system.nodes]

            model = CycleModel(config=CONFIG, nodes=nodes, latency_cycles=20)
            cycles = model.all_reduce(elements, compress=compress)

            errors.append(abs(max(cycles) / max(rtl) - 1))
    assert np.median(errors) <= 0.005
    assert max(errors) <= 0.03


def test_vectors_of_different_shapes_are_refused():
    for shapes in ([(4,), (5,)], [(2, 3), (2, 3)]):
        with pytest.raises(ValueError, match=r"^arrays must be vectors of one length, not of sha"):
            all_reduce([np.zeros(shape, np.float32) for shape in shapes], CONFIG)
    with pytest.raises(ValueError, match=r"^arrays must be from 2 to 256 vectors, not 0$"):
        all_reduce([], CONFIG)


@pytest.mark.parametrize("name", ["latency_cycles", "read_latency_cycles", "write_latency_cycles"])
def test_negative_latency_is_refused(name):
    with pytest.raises(ValueError, match=f"^{name} must be an integer at least 0, not -1$"):
        CycleModel(config=CONFIG, nodes=2, **{name: -1})


def test_model_refuses_what_the_nic_does():
    model = CycleModel(config=replace(CONFIG, codec="none"), nodes=2)
    with pytest.raises(ValueError, match=r"^compress must be False for a NIC"):
        model.all_reduce(10, compress=True)
    with pytest.raises(ValueError, match=r"^elements must be at least 1, not 0$"):
        model.all_reduce(0)
    with pytest.raises(ValueError, match=r"^nodes must be from 2 to 256, not 1$"):
        CycleModel(config=CONFIG, nodes=1)
    with pytest.raises(ValueError, match=r"^config engines must be 1 for the model, not 4$"):
        CycleModel(config=preset("400g"), nodes=2)


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize("nodes, elements", [(2, 5), (3, 200), (4, 1001)])
def test_golden_model_is_the_ring_walked_hop_by_hop(nodes, elements, compress):
    config = preset("test")
    fmt = config.codec_format
    rng = np.random.default_rng(nodes)
    arrays = [rng.standard_normal(elements).astype(np.float32) for _ in range(nodes)]
    plan = Plan(elements=elements, nodes=nodes, config=config)
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

    golden = all_reduce(arrays, config, compress=compress)

    for rank in range(nodes):
        np.testing.assert_array_equal(
            final[rank][:elements].view(np.uint32), golden.view(np.uint32)
        )


def test_golden_model_refuses_compression_without_a_codec():
    with pytest.raises(ValueError, match=r"^compress must be False for a NIC"):
        all_reduce([np.ones(3, np.float32)] * 2, replace(CONFIG, codec="none"), compress=True)

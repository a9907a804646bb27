# SPDX-License-Identifier: Apache-2.0
"""Ordinary packets beside all-reduces: none is lost, and the reduction is as it was."""

from dataclasses import replace

import numpy as np
import pytest

from hw.switch.config import SwitchConfig
from hw.switch_dma.config import SwitchDmaConfig
from sim.cycles.switch.fabric import Fabric
from sim.cycles.switch.model import AllReduceJob, SwitchModel, SwitchSettings
from sim.endpoint.background import Background

SWITCH = SwitchConfig(ports=16, regions=8, endpoints=128)
DMA = SwitchDmaConfig(links=2, endpoints=128)
FABRICS = {
    "one switch": Fabric.flat(4, planes=2),
    "two levels": Fabric.two_levels(5, leaf=2, planes=2),
    "groups": Fabric.dgx_2(planes=2),
}


def reduced(
    fabric, background, *, mode="push", elements=16_000, around=None, given=None, switch=SWITCH,
):
    around = around or SwitchSettings(timeout_cycles=500)
    jobs = [AllReduceJob(elements=elements, mode=mode)]
    if given is not None:
        given = [[given]] * len(fabric.places)
    model = SwitchModel(switch, DMA, fabric, around, jobs, given, background=background)
    model.run()
    return model


def ordinary_flits(model):
    """Sent by endpoints; sent to them by switches."""
    output, first = model.state.output["ordinary"], int(model.state.c["lane_output"][0])
    ports = [w * SWITCH.ports + p for spots in model.fabric.places for w, p in spots]
    return int(output[first:].sum()), int(output[ports].sum())


@pytest.mark.parametrize("mode", ["push", "pull"])
@pytest.mark.parametrize("name, kind, pattern, load", [
    ("one switch", "store", "uniform", 0.6), ("one switch", "message", "uniform", 1.0),
    ("two levels", "store", "uniform", 1.0), ("two levels", "message", "permutation", 0.3),
    ("groups", "store", "permutation", 0.9), ("groups", "message", "uniform", 0.3),
])
def test_every_packet_comes_once_and_every_operand_is_reduced(name, kind, pattern, load, mode):
    fabric = FABRICS[name]
    model = reduced(fabric, Background(load=load, pattern=pattern, kind=kind), mode=mode)

    state, p, links = model.state, len(fabric.places), DMA.links
    sent = state.sent_to.reshape(p, links, p)
    assert (sent == state.taken_from.reshape(p, links, p).transpose(2, 1, 0)).all()
    assert not sent[np.arange(p), :, np.arange(p)].any()
    packets = int(sent.sum())
    assert packets == model.ordinary().packets > 100
    assert ordinary_flits(model) == (9 * packets, 9 * packets)
    # What is reduced is what it is without them; the run ends with the last of both.
    assert model.counts().lanes["results"] == p * 500
    assert model.done and model.completions().max() <= model.now
    if pattern == "permutation":
        goals = sent.sum(axis=1) > 0
        assert (goals.sum(axis=0) == 1).all() and (goals.sum(axis=1) == 1).all()
    else:
        assert (sent.sum(axis=1) + np.eye(p) > 0).all()


@pytest.mark.parametrize("load", [0.2, 0.3])
def test_packets_pass_partials_that_wait_for_the_home_store(load):
    # One entry a port: nearly all operands go to their home, which adds them and sends results.
    model = reduced(FABRICS["one switch"], Background(load=load), elements=32_000,
                    switch=replace(SWITCH, entries=1), around=SwitchSettings(timeout_cycles=200))

    counts = model.counts()
    assert counts.lanes["partials"] > 2000 and counts.lanes["results"] == 4 * 1000
    assert ordinary_flits(model) == (9 * model.ordinary().packets,) * 2


@pytest.mark.parametrize("mode", ["push", "pull"])
def test_no_load_is_no_background(mode):
    without, nothing = (
        reduced(FABRICS["groups"], background, mode=mode)
        for background in (None, Background(load=0, seed=7))
    )

    assert nothing.now == without.now and nothing.ordinary() is None
    for one, other in zip(without.state, nothing.state):
        if one.dtype == without.state.c.dtype:
            other["ordinary_kind"] = 0
        if one.dtype != without.state.source.dtype:
            assert (one == other).all()


def test_a_seed_gives_the_same_packets_and_another_one_others():
    def found(seed):
        model = reduced(FABRICS["one switch"], Background(load=0.4, seed=seed))
        return model.completions().tolist(), model.state.sent_to.tolist(), model.ordinary()

    assert found(1) == found(1) != found(2)


@pytest.mark.parametrize("load", [0.05, 0.5])
@pytest.mark.parametrize("acknowledged", [False, True])
@pytest.mark.parametrize("kind", ["store", "message"])
def test_packets_take_the_share_of_links_that_is_asked_for(load, acknowledged, kind):
    cycles = 30_000
    around = SwitchSettings(acknowledged=acknowledged)
    model = reduced(FABRICS["one switch"], Background(load=load, kind=kind), elements=1,
                    around=around, given=cycles)

    used = model.ordinary().packets * (10 if acknowledged else 9) / (8 * model.now)
    assert used == pytest.approx(load, rel=0.1)
    # An acknowledgement goes beside each, or beside none.
    flits, ends = ordinary_flits(model)[0], model.state.output["ordinary"] > 0
    assert flits == 9 * model.ordinary().packets
    beside = model.state.output["beside"][ends] >> model.state.c["ordinary_kind"][0] & 1
    assert (beside == acknowledged).all()


@pytest.mark.parametrize("latency", [3, 50])
def test_latency_of_packets_that_meet_no_others_is_that_of_two_links_and_a_switch(latency):
    # Of a permutation packets of different endpoints meet nowhere.
    around = SwitchSettings(latency_cycles=latency)
    model = reduced(FABRICS["one switch"], Background(load=0.001, pattern="permutation"),
                    elements=1, around=around, given=200_000)
    found = model.ordinary()

    # Nine flits, 7 and 6 cycles beyond the links, and granted 3 cycles after they are stored.
    assert found.travel == pytest.approx(2 * (9 + latency + 3) + 7 + 6, abs=1)
    assert found.held == pytest.approx(0, abs=1)
    # Stored for nine cycles before, and then asked for.
    assert found.queued == pytest.approx(8 + 3, abs=1)


@pytest.mark.parametrize("kind", ["store", "message"])
def test_traffic_and_all_reduce_slow_each_other(kind):
    background = Background(load=0.5, kind=kind)
    alone = reduced(FABRICS["groups"], None, elements=64_000)
    beside = reduced(FABRICS["groups"], background, elements=64_000)
    idle = reduced(FABRICS["groups"], background, elements=1, given=10_000)

    assert beside.completions().max() > 1.2 * alone.completions().max()
    assert beside.ordinary().travel > 1.1 * idle.ordinary().travel


def test_a_packet_at_a_wrong_endpoint_is_found():
    model = SwitchModel(SWITCH, DMA, FABRICS["one switch"], SwitchSettings(),
                        [AllReduceJob(elements=64_000)], background=Background(load=0.5))
    model.run(200)
    # A table of routes that leads elsewhere.
    model.state.route[:] = np.roll(model.state.route, 1, axis=1)

    with pytest.raises(RuntimeError, match=r"^an ordinary packet came to a wrong endpoint, twice"):
        model.run(500)


def test_a_packet_that_is_lost_is_found_by_the_next_one():
    model = SwitchModel(SWITCH, DMA, FABRICS["one switch"], SwitchSettings(),
                        [AllReduceJob(elements=64_000)], background=Background(load=0.5))
    model.run(200)
    model.state.sent_to[:] += 1

    with pytest.raises(RuntimeError, match=r"^an ordinary packet came to a wrong endpoint, twice"):
        model.run()


def test_an_all_reduce_that_stands_still_is_found_beside_traffic_that_does_not():
    model = SwitchModel(SWITCH, replace(DMA, links=1), Fabric.flat(2), SwitchSettings(),
                        [AllReduceJob(elements=64_000)], background=Background(load=0.1))
    model.run(300)
    first = model.state.buffer["pool"][: SWITCH.ports]
    model.state.pool["level"][first] = -1_000_000  # credits of operands

    with pytest.raises(RuntimeError, match=r"^nothing moves before cycle "):
        model.run()


@pytest.mark.parametrize("values, words", [
    ({"load": -0.1}, "load must be from 0 to 1, not -0.1"),
    ({"load": 1.5}, "load must be from 0 to 1, not 1.5"),
    ({"load": float("nan")}, "load must be from 0 to 1, not nan"),
    ({"load": "half"}, "load must be from 0 to 1, not 'half'"),
    ({"load": True}, "load must be from 0 to 1, not True"),
    ({"load": 0.5, "pattern": "all"}, "pattern must be one of uniform, permutation, not 'all'"),
    ({"load": 0.5, "kind": "load"}, "kind must be one of store, message, not 'load'"),
])
def test_what_cannot_be_is_refused_in_one_line(values, words):
    with pytest.raises(ValueError, match=f"^{words}$"):
        Background(**values)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ages_of_operands_help_beside_stores_too(seed):
    """Stores have no age: sorted by their numbers, systems would be slower than with turns."""
    fabric = Fabric.spines(32, leaf=8, cables=8, ports=16)
    dma = SwitchDmaConfig(endpoints=128, waves=32, read_ahead=64, outstanding_bursts=64,
                          buffer_packets=40, credits=40)
    done = []
    for bits in (0, 8):
        switch = replace(SWITCH, entries=8, buffer_packets=40, credits=40, age_bits=bits)
        around = SwitchSettings(timeout_cycles=4000)
        jobs = [AllReduceJob(elements=1 << 16)]
        background = Background(load=0.3, kind="store", seed=seed)
        model = SwitchModel(switch, dma, fabric, around, jobs, background=background)
        model.run()
        done.append(int(model.completions().max()))

    assert done[1] < done[0]


@pytest.mark.parametrize("kind", ["store", "message"])
@pytest.mark.parametrize("load", [0.3, 0.7, 1.0])
def test_ordinary_packets_share_a_column_with_operands(kind, load):
    """All operands are for one unit: its port has a flit of them or of ordinary packets a cycle, by
    turns."""
    fabric = replace(FABRICS["one switch"], homes=[[0]])
    background = Background(load=load, pattern="permutation", kind=kind)
    model = reduced(fabric, background, elements=64_000)

    operands = model.state.unit["free"].reshape(-1, SWITCH.ports)
    p, links = len(fabric.places), DMA.links
    ordinary = model.state.sent_to.reshape(p, links, p).sum(axis=0)
    for goal, spots in enumerate(fabric.places):
        for link, (w, port) in enumerate(spots):
            flits = 9 * int(operands[w, port] + ordinary[link, goal])
            assert flits <= model.now
            if goal == 0:
                assert flits > 0.85 * model.now and ordinary[link, goal] > 100
                assert model.completions().max() < 2.2 * 9 * operands[w, port]

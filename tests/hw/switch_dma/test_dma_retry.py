# SPDX-License-Identifier: Apache-2.0
"""Switches and endpoints over wires that lose, repeat and damage frames: exact all the same."""

import random
from dataclasses import replace

import pytest

from hw.fp.ops import ReduceOp
from hw.link.retry_frame import RetryConfig
from hw.switch.config import preset as switch_preset
from hw.switch.packet import Format
from hw.switch.recount import GUARD_CYCLES
from hw.switch_dma.config import preset
from tb.switch_dma.fabric import AllReduce, flat, join, two_levels
from tests.families import full

SWITCH = replace(switch_preset("test"), trace=True)
DMA = replace(preset("test"), trace=True)
RETRY = RetryConfig(slots=8, timeout_cycles=100, tries=30)
QUIET = 2 * GUARD_CYCLES + 400
IMPATIENT = RetryConfig(slots=8, timeout_cycles=100, tries=4, keepalive_cycles=2500)


@pytest.fixture(params=["push", "pull"])
def mode(request):
    """How operands are reduced."""
    return request.param


@pytest.mark.parametrize("mode, make, members, elements, probability", [
    ("push", flat, 4, 701, 0.0), ("push", flat, 4, 701, 0.05), ("push", flat, 3, 65, 0.15),
    ("push", two_levels, 8, 200, 0.05), ("pull", flat, 4, 701, 0.05),
    ("pull", two_levels, 8, 200, 0.05),
])
def test_all_reduces_are_exact(mode, make, members, elements, probability):
    exact(SWITCH, DMA, Format.WORDS, mode, make, members, elements, probability)


@pytest.mark.full
@pytest.mark.parametrize("mode", ["push", "pull"])
@pytest.mark.parametrize("format", [Format.FP16, Format.BFP])
def test_shorter_packets_have_shorter_frames(format, mode):
    short = {"half": True, "bfp": True}
    exact(replace(SWITCH, **short), replace(DMA, **short), format, mode, flat, 4, 701, 0.05)


def exact(switch, dma, format, mode, make, members, elements, probability):
    system = join(make(switch, dma, members, stalls=0.1, retry=RETRY, faults=probability,
                       mode=mode))

    first = AllReduce(system, ReduceOp.SUM_F32, elements, seed=members, format=format)
    first.start()
    system.settle(quiet=700)
    first.check()

    assert not any(system.links("failed"))
    assert all(count > 3 for count in system.met().values()) or not probability
    for status in system.ask("status"):
        assert status["outstanding"] == 0 and status["idle"] == 1
    for switch in system.switches:
        assert switch.ask("status")["idle"]
        assert not any(name.startswith("dropped") for name in switch.counters())


def ends(system, node):
    """The wires from a node's switch, and to it."""
    (spot,) = system.places[node]
    return system.to_node(spot), system.to_switch(spot)


def clear(system):
    """All interrupts."""
    for node in system.nodes:
        causes = (field.name for field in node.map.registers["interrupt"].fields)
        node.write("interrupt", **dict.fromkeys(causes, 1))
    for switch in system.switches:
        switch.write("interrupt", link=1, dropped=1, fault=1)
    system.step(60)


@pytest.mark.parametrize("ways", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize(
    "seed", [0, *full(range(1, 9))]
)
def test_a_cable_that_is_cut_and_mended_costs_time_alone(seed, ways, mode):
    """Registers and an interrupt of both ends tell of it; nobody is reset, nothing is lost."""
    rng = random.Random(seed)
    system = join(flat(SWITCH, DMA, 3, stalls=0.1, retry=IMPATIENT, mode=mode, seed=seed))
    victim = rng.randrange(3)
    _, port = system.places[victim][0]
    node, switch = system.nodes[victim], system.switches[0]
    base, seen = [0], 0
    for turn in range(3):
        clear(system)
        job = AllReduce(system, ReduceOp.SUM_F32, 300, seed=turn)
        job.start()
        system.step(rng.randrange(600))
        for way in ways:
            system.system.cut(*ends(system, victim)[way])
        system.step(rng.choice((30, 400)) if turn < 2 else 6000)
        failed = system.links("failed")
        if turn == 2:
            (status,) = system.ask("link_status", 0, nodes=[node])
            for each in (status, switch.ask("port_status", port)):
                assert (each["up"], each["failed"]) == (0, 1)
            others = [k for k in range(3) if k != victim]
            for k in others:
                assert switch.ask("port_status", system.places[k][0][1])["up"] == 1
            (answer,) = system.ask("interrupt", nodes=[node])
            assert answer["link"] and switch.ask("interrupt")["link"]
            clear(system)
        for way in ways:
            system.system.cut(*ends(system, victim)[way], mended=True)
        system.settle(quiet=900)
        job.check(base=base)
        base = [base[0] + 1 + -(-300 // DMA.block_elements)]
        seen += any(failed)
        if any(failed):  # and that they work again
            (answer,) = system.ask("interrupt", nodes=[node])
            assert answer["link"] and switch.ask("interrupt")["link"]
        assert all(system.links("up")) and not any(system.links("failed"))
        assert switch.ask("status")["idle"]
    assert seen
    (resent,) = system.ask("port_resent", 0, nodes=[node])
    assert resent["count"] + switch.ask("port_resent", port)["count"] > 0
    assert not any(name.startswith("dropped") for name in switch.counters())


def test_a_switch_is_told_that_an_endpoint_was_reset(mode):
    system = join(flat(SWITCH, DMA, 3, retry=IMPATIENT, mode=mode))
    clear(system)
    node, switch = system.nodes[1], system.switches[0]

    node.restart()
    system.run(lambda: not all(system.links("up")))
    system.run(lambda: all(system.links("up")))

    assert switch.ask("interrupt")["link"]
    for k in range(3):
        status = switch.ask("port_status", system.places[k][0][1])
        assert (status["up"], status["failed"]) == (1, 0)
    assert not any(each["link"] for each in system.ask("interrupt"))


def test_an_endpoint_is_told_that_its_switch_was_reset(mode):
    """By its interrupt, which the recipe of set-up enables."""
    system = join(flat(SWITCH, DMA, 3, retry=IMPATIENT, mode=mode))
    clear(system)

    system.restart_switches(0)
    system.run(lambda: not all(system.links("up")))
    system.run(lambda: all(system.links("up")))
    system.settle(quiet=QUIET)

    for node, causes in zip(system.nodes, system.ask("interrupt")):
        assert [name for name, on in causes.items() if on] == ["link"]
        assert node.output("irq")


@pytest.mark.parametrize("make, members, victim", [
    (flat, 3, "endpoint"), (flat, 3, "switch"), (two_levels, 6, "root"),
])
def test_a_reset_of_one_end_costs_no_credit(make, members, victim, mode):
    """Three in a row in mid-run, now and then with the cable cut: buffers hold two packets of a
    class. Nobody has to ask for it; an endpoint that was reset need not even join."""
    rng = random.Random(members)
    system = join(make(SWITCH, DMA, members, retry=IMPATIENT, mode=mode, seed=members))
    assert SWITCH.credits == DMA.credits == 2
    for turn in range(3):
        AllReduce(system, ReduceOp.SUM_I32, 900, seed=turn).start()
        system.step(rng.randrange(100, 700))
        cut = [wire for wire in ends(system, 0) if rng.random() < 0.5]
        for wire in cut:
            system.system.cut(*wire)
        system.step(rng.randrange(100))
        if victim == "endpoint":
            system.nodes[0].restart()
        else:
            system.restart_switches(0 if victim == "switch" else system.peer[leaf_of(system)][0])
        for wire in cut:
            system.system.cut(*wire, mended=True)
        system.run(lambda: not all(system.links("up")))
        system.run(lambda: all(system.links("up")))
        system.settle(quiet=QUIET)
        all_credits_are_home(system)

        if victim == "endpoint":
            system.nodes[0].configure(members=members)
            system.nodes[0].join()
        else:
            system.nodes[rng.randrange(members)].write("control", abort=1)
        system.settle(quiet=QUIET)
        clear(system)
        job = AllReduce(system, ReduceOp.SUM_I32, 300, seed=10 + turn)
        job.start()
        system.settle(quiet=QUIET)
        for words in job.results():
            assert (words == sum(job.inputs)).all()
        all_credits_are_home(system)


def leaf_of(system):
    """The port of the first endpoint's switch that leads to another switch."""
    ((switch, _),) = system.places[0]
    return next(end for end in system.peer if end[0] == switch)


def all_credits_are_home(system):
    """At both ends of every link."""
    ports = [system.switches[s].ask("port_status", p) for s, p in (*system.peer, *system.at)]
    for each in (*system.ask("link_status", 0), *ports):
        assert (each["counting"], each["credits_home"]) == (0, 1)


def test_counters_of_links_are_those_of_their_events():
    system = join(flat(SWITCH, DMA, 2, retry=RETRY, faults=0.05))
    job = AllReduce(system, ReduceOp.SUM_I32, 700)
    job.start()
    system.settle(quiet=700)
    job.check()
    system.strain()
    system.settle(quiet=700)

    for name in ("resent", "damaged", "repeated"):
        for node in system.nodes:
            (count,) = system.ask(f"port_{name}", 0, nodes=[node])
            assert count["count"] == node.output(name) > 0
        switch = system.switches[0]
        counts = [switch.ask(f"port_{name}", p)["count"] for p in range(SWITCH.ports)]
        assert sum(counts) == switch.output(name) and sum(map(bool, counts)) == 2

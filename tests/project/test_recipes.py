# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The manuals' recipes, followed word for word."""

import re

import numpy as np
import pytest

from foldwire.catalog import build
from foldwire.handoff import ace, smartnic
from foldwire.handoff.manual import manual
from foldwire.handoff.pair import pair_data
from hw.fp.ops import ReduceOp
from hw.switch.packet import AbortCause
from sim.cycles.switch.fabric import Fabric
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.ring import AceRing
from sim.rtl.smartnic.ring import NicRing
from sim.rtl.switch.stepped import SteppedFabric

MEMBERS, ELEMENTS, SOURCE, DESTINATION = 4, 150, 0x1000, 0x2000


class Stranger:
    """Knows the manuals alone: what they say to write, as it stands there."""

    def __init__(self):
        designs = {engine: build(engine, "test", {}) for engine in ("switch", "switch-dma")}
        self.texts = {engine: manual(design) for engine, design in designs.items()}
        configs = [designs[engine].component.config for engine in ("switch", "switch-dma")]
        self.system = SteppedFabric(*configs, Fabric.flat(MEMBERS))

    def recipe(self, engine, title):
        return self.texts[engine].partition(f"## Recipe: {title}\n")[2].partition("\n## ")[0]

    def words(self, engine, title):
        """Name, index and word of each write of a recipe."""
        rows = re.findall(r"^\| `0x\w+` \| `(\w+)(?:\[(\d+)\])?` \| `(0x\w+)` \|$",
                          self.recipe(engine, title), re.MULTILINE)
        assert rows
        return [(name, int(index) if index else None, int(word, 0)) for name, index, word in rows]

    def set_up(self):
        system = self.system
        (switch,) = system.switches
        for name, index, word in self.words("switch", "set up"):
            switch.write(name, index, **switch.map.registers[name].unpack(word))
        for number, node in enumerate(system.nodes):
            for name, index, word in self.words("switch-dma", "set up"):
                fields = node.map.registers[name].unpack(word)
                if name == "node":
                    assert fields["endpoint"] == 1 and fields["members"] == MEMBERS
                    fields["endpoint"] = number
                node.write(name, index, **fields)
        system.settle(quiet=1200)  # credits are counted anew at the first join
        assert all(each["ready"] for each in system.ask("status"))

    def start(self, nodes, mode):
        (pull,) = re.findall(r"by pull, `command` is `(0x\w+)`",
                             self.recipe("switch-dma", "start"))
        for node in nodes:
            for name, index, word in self.words("switch-dma", "start"):
                word = int(pull, 0) if name == "command" and mode == "pull" else word
                node.write(name, index, **node.map.registers[name].unpack(word))

    def wait(self, cycles):
        """Almost so many cycles pass, and nobody moves; then until a rank raises an interrupt."""
        system = self.system
        system.settle(quiet=3000)
        system.step(cycles - 6000)
        assert not any(node.output("irq") for node in system.nodes)
        system.run(lambda: any(node.output("irq") for node in system.nodes), deadline=10_000)
        system.settle(quiet=500)


@pytest.fixture
def stranger():
    return Stranger()


def operands(system):
    rng = np.random.default_rng(1)
    vectors = rng.integers(-(1 << 20), 1 << 20, (MEMBERS, ELEMENTS)).astype(np.int32)
    for node, vector in zip(system.nodes, vectors):
        node.put(SOURCE, vector)
        node.put(DESTINATION, np.zeros(ELEMENTS, np.int32))
    return vectors.sum(axis=0, dtype=np.int32)


def exact(system, total):
    for node, record in zip(system.nodes, system.ask("completion")):
        assert record == {"valid": 1, "overrun": 0, "read": 0, "write": 0, "error": 0, "tag": 0}
        node.write("completion_taken", taken=1)
        assert np.array_equal(node.words(DESTINATION, ELEMENTS, np.int32), total)


@pytest.mark.parametrize("mode", ["push", "pull"])
def test_the_recipes_of_the_manuals_work_and_a_late_rank_is_reported(stranger, mode):
    system = stranger.system
    stranger.set_up()
    total = operands(system)
    stranger.start(system.nodes, mode)
    system.settle(quiet=500)
    exact(system, total)
    assert all(each["done"] for each in system.ask("interrupt"))
    assert all(node.output("irq") for node in system.nodes)
    for node in system.nodes:
        node.write("interrupt", done=1)

    # One of the members does not come.
    stranger.start(system.nodes[:3], mode)
    patience = {name: word for name, _, word in stranger.words("switch-dma", "set up")}
    cycles = system.nodes[0].map.registers["watchdog"].unpack(patience["watchdog"])["cycles"]
    stranger.wait(cycles)

    answers = system.ask("interrupt")
    assert any(each["stalled"] for each in answers[:3])
    assert all(each["aborted"] for each in answers)
    assert {each["cause"] for each in system.ask("abort")} == {AbortCause.WATCHDOG.value}
    assert not any(each["valid"] for each in system.ask("completion"))
    # And by the recipe they go on.
    for node in system.nodes:
        node.write("interrupt", aborted=1, stalled=1)
    system.settle(quiet=500)
    assert all(each["ready"] for each in system.ask("status"))
    total = operands(system)
    stranger.start(system.nodes, mode)
    system.settle(quiet=500)
    exact(system, total)
    assert not system.switches[0].ask("interrupt")["dropped"]


def test_the_time_out_of_the_recipes_is_shorter_than_the_watchdog(stranger):
    words = {name: word for name, _, word in stranger.words("switch", "set up")}
    period = stranger.system.switches[0].map.registers["timeout"].unpack(words["timeout"])
    watchdog = {name: word for name, _, word in stranger.words("switch-dma", "set up")}["watchdog"]
    limit = stranger.system.nodes[0].map.registers["watchdog"].unpack(watchdog)
    assert 0 < 2 * period["cycles"] < limit["cycles"] and limit["abort"]


class Pair:
    """Two engines of a ring, told by their manual alone."""

    def __init__(self, engine):
        design = build(engine, "test", {})
        pair = {"ace": ace.PAIR, "smartnic": smartnic.PAIR}[engine]
        self.text, data = manual(design), pair_data(design, design.component.config, pair)
        # The manual has the words of rank 0, without programs; those of rank 1 differ by its place.
        told, places = self.writes("set up"), data["set_up"]
        assert places[0][: len(told)] == told
        programs = {design.registers.offset(name) for name in design.registers.registers
                    if name.startswith("program")}
        assert {offset for offset, _ in places[0][len(told) :]} <= programs

        class Told(AceRing if engine == "ace" else NicRing):
            def start_system(self):
                for node, writes in zip(self.nodes, places):
                    for offset, word in writes:
                        node.write(offset, word)
                self.system.run(max_cycles=100_000)

        settings = Surroundings(nodes=2, memory_bytes=data["memory_bytes"])
        self.ring = Told(design.component.config, settings)
        (job, *_) = data["jobs"]
        self.command = Command(elements=ELEMENTS, op=ReduceOp.SUM_I32, source=data["bus_bytes"],
                               destination=1 << 10)
        assert job["elements"] == ELEMENTS and job["op"] == self.command.op.name
        self.registers = design.registers
        self.patience = self.registers.registers["watchdog"].unpack(
            dict(places[0])[self.registers.offset("watchdog")]
        )["cycles"]

    def writes(self, title):
        """Offset and word of each write of a recipe."""
        recipe = self.text.partition(f"## Recipe: {title}\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| `(0x\w+)` \| `\w+` \| `(0x\w+)` \|$", recipe, re.MULTILINE)
        assert rows
        return [(int(offset, 0), int(word, 0)) for offset, word in rows]

    def start(self, nodes):
        for node in nodes:
            for offset, word in self.writes("start"):
                node.write(offset, word)

    def exact(self):
        """An all-reduce of both is what numpy says."""
        ring = self.ring
        rng = np.random.default_rng(1)
        vectors = rng.integers(-(1 << 20), 1 << 20, (2, ELEMENTS)).astype(np.int32)
        for node, vector in zip(ring.nodes, vectors):
            ring.store(node, self.command, vector)
        self.start(ring.nodes)
        ring.system.run(max_cycles=100_000)
        total = vectors.sum(axis=0, dtype=np.int32)
        for rank, node in enumerate(ring.nodes):
            found = ring.result(node, self.command, rank)
            assert np.array_equal(found.view(np.int32), total)
            (record,) = ring.take_records(node)
            names = ("valid", "collective", "tag")
            assert not any(on for name, on in record.items() if name not in names)
            assert self.causes(node) == {"done"}
            ring.write(node, "interrupt", done=1)

    def causes(self, node):
        return {name for name, on in self.ring.read(node, "interrupt").items() if on}


@pytest.mark.parametrize("engine, reported", [
    ("ace", [{"stalled"}, set()]), ("smartnic", [{"stalled", "aborted"}, {"aborted"}]),
])
def test_the_recipes_of_rings_work_and_a_late_rank_is_reported(engine, reported):
    pair = Pair(engine)
    ring = pair.ring
    pair.exact()

    # The other one does not come.
    pair.start(ring.nodes[:1])
    ring.system.run(drain=False)
    ring.system.advance(ring.system.cycle + pair.patience - 1000)
    assert not any(node.output("irq") for node in ring.nodes)
    ring.system.advance(ring.system.cycle + 5000)
    assert [pair.causes(node) for node in ring.nodes] == reported
    assert ring.nodes[0].output("irq")

    # And by the recipe they go on.
    for node in ring.nodes:
        if engine == "ace":
            ring.write(node, "control", abort=1, epoch=1)
    ring.system.run(max_cycles=10_000)
    for node in ring.nodes:
        state = ring.read(node, "status")
        assert state["idle"] and not state.get("aborting")
        ring.take_records(node)
        ring.write(node, "interrupt", **dict.fromkeys(pair.causes(node), 1))
    ring.system.run(max_cycles=10_000)
    pair.exact()

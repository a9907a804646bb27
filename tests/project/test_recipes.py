# amaranth: UnusedElaboratable=no
"""The manuals of switch and endpoint, followed word for word."""

import re

import numpy as np
import pytest

from foldwire.catalog import build
from foldwire.handoff.manual import manual
from hw.switch.packet import AbortCause
from tb.switch_dma.system import DmaSystem

MEMBERS, ELEMENTS, SOURCE, DESTINATION = 4, 150, 0x1000, 0x2000


class Stranger:
    """Knows the manuals alone: what they say to write, as it stands there."""

    def __init__(self):
        designs = {engine: build(engine, "test", {}) for engine in ("switch", "switch-dma")}
        self.texts = {engine: manual(design, engine) for engine, design in designs.items()}
        configs = [designs[engine].component.config for engine in ("switch", "switch-dma")]
        self.system = DmaSystem(*configs, [[(0, k)] for k in range(MEMBERS)])

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
        for each in (*system.switches, *(node.pins for node in system.nodes)):
            each.instance.cycle(cycles - 6000)
        assert not any(node.pins.get("irq") for node in system.nodes)
        system.run(lambda: any(node.pins.get("irq") for node in system.nodes), deadline=10_000)
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
    assert all(node.pins.get("irq") for node in system.nodes)
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
    assert not system.switches[0].read("interrupt")["dropped"]


def test_the_time_out_of_the_recipes_is_shorter_than_the_watchdog(stranger):
    words = {name: word for name, _, word in stranger.words("switch", "set up")}
    period = stranger.system.switches[0].map.registers["timeout"].unpack(words["timeout"])
    watchdog = {name: word for name, _, word in stranger.words("switch-dma", "set up")}["watchdog"]
    limit = stranger.system.nodes[0].map.registers["watchdog"].unpack(watchdog)
    assert 0 < 2 * period["cycles"] < limit["cycles"] and limit["abort"]

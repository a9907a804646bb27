# SPDX-License-Identifier: Apache-2.0
"""Rings of ACE engines over wires that lose, repeat and damage frames: bit-exact all the same."""

import numpy as np
import pytest

from gen.configured import compile_configured
from hw.ace.config import preset
from hw.ace.registers import INTERRUPTS, register_map
from hw.ace.retry import RetryAce, RetryAceConfig
from hw.link.retry_frame import RetryConfig
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.ring import AceRing
from sim.rtl.errors import GivenUpError, PacketDroppedError
from sim.rtl.harness.specs import ExternalLink, HeaderFault, LinkDirection, LinkSpec, NodeSpec
from sim.rtl.harness.system import System
from tb.link.lossy import bad_wires

RETRY = RetryConfig(slots=16, timeout_cycles=180, tries=30)
IMPATIENT = RetryConfig(slots=16, timeout_cycles=180, tries=3, keepalive_cycles=2500)


def vectors(nodes, elements):
    return [np.random.default_rng(rank).standard_normal(elements).astype(np.float32)
            for rank in range(nodes)]


def struck(ring):
    return sum(ring.system.struck(rank, port) for rank in ring.ranks for port in (0, 1))


@pytest.mark.parametrize("nodes, latency, probability, stalls", [
    (2, 1, 0.0, 0.0), (4, 5, 0.01, 0.0), (4, 40, 0.1, 0.0), (3, 9, 0.05, 0.2),
])
def test_all_reduces_are_exact(nodes, latency, probability, stalls):
    settings = Surroundings(nodes=nodes, latency_cycles=latency, memory_bytes=1 << 17,
                            link_stalls=stalls, memory_stalls=stalls, seed=nodes,
                            retry=RETRY, **bad_wires(probability))
    ring = AceRing(preset("test"), settings)

    for elements in (3000, 17):
        inputs = vectors(nodes, elements)
        for result in ring.all_reduce(inputs):
            assert result.tobytes() == ring.golden(inputs).tobytes()

    assert struck(ring) > 5 * nodes or not probability
    # What was lost was repeated: the engines have not seen any of it.
    for node in ring.system.nodes:
        for name in ("damaged", "repeated"):
            assert [ring.read(node, name, port)["count"] for port in (0, 1)] == [0, 0]


def test_the_same_faults_without_retry_are_reported():
    settings = Surroundings(nodes=4, latency_cycles=5, memory_bytes=1 << 17, seed=1,
                            **bad_wires(0.01))
    ring = AceRing(preset("test"), settings)

    with pytest.raises((PacketDroppedError, GivenUpError)):
        ring.all_reduce(vectors(4, 3000))


def test_a_node_that_is_reset_alone_joins_again():
    settings = Surroundings(nodes=4, latency_cycles=5, memory_bytes=1 << 17, seed=1,
                            retry=RETRY, **bad_wires(0.02))
    ring = AceRing(preset("test"), settings)
    inputs = vectors(4, 1000)
    assert ring.all_reduce(inputs)[0].tobytes() == ring.golden(inputs).tobytes()

    node = ring.system.nodes[2]
    node.reset_engine()
    ring.perform(node, ring.set_up(2))
    ring.system.run(drain=False)
    ring.recover()

    assert all(each.tobytes() == ring.golden(inputs).tobytes()
               for each in ring.all_reduce(inputs))


class Plugged:
    """An engine whose links 0 and 1 are joined by a cable of a few cycles, and its registers."""

    def __init__(self):
        config = RetryAceConfig(ace=preset("test"), retry=IMPATIENT, trace=True)
        engine = compile_configured(RetryAce, config, name="retry_ace")
        self.map, self.ports = register_map(config.ace, retry=True), config.ace.ports
        cable = LinkSpec(node_a=0, port_a=0, node_b=0, port_b=1,
                         forward=LinkDirection(latency_cycles=3))
        others = [ExternalLink(node=0, port=port) for port in range(2, self.ports)]
        self.system = System([NodeSpec(engine=engine)], [cable], external=others, skip_idle=False)
        (self.node,) = self.system.nodes

    def write(self, name, **fields):
        self.node.write(self.map.offset(name), self.map.registers[name].pack(**fields))

    def read(self, name, index=None):
        ticket = self.node.read(self.map.offset(name, index))
        self.step(20)
        return self.map.registers[name].unpack(ticket.value)

    def step(self, cycles):
        self.system.advance(self.system.cycle + cycles)

    def states(self):
        found = [self.read("link_status", k) for k in range(2)]
        return [(each["up"], each["failed"]) for each in found]


@pytest.mark.parametrize("ways", [(0,), (1,), (0, 1)])
def test_registers_and_an_interrupt_tell_of_a_cable_that_is_cut_and_mended(ways):
    engine = Plugged()
    causes = {field.name for field in engine.map.registers["interrupt_enable"].fields}
    assert causes == {*INTERRUPTS, "link"}
    engine.write("interrupt_enable", link=1)
    engine.step(3000)
    assert engine.states() == [(1, 0), (1, 0)]
    assert not engine.node.output("irq") and not engine.read("interrupt")["link"]

    for way in ways:
        engine.system.cut(0, way)
    engine.step(8000)
    # Neither end sends where one does not hear the other.
    assert engine.states() == [(0, 1), (0, 1)]
    assert engine.node.output("irq") and engine.read("interrupt")["link"]
    engine.write("interrupt", link=1)
    engine.step(10)
    assert not engine.node.output("irq")

    for way in range(2):
        engine.system.cut(0, way, mended=True)
    sent = engine.system.link_activity(0, 0).header_flits
    engine.system.inject(HeaderFault(node=0, port=0, packet=sent, bits=(100,)))
    engine.step(8000)
    assert engine.states() == [(1, 0), (1, 0)]
    assert engine.node.output("irq")
    for name in ("resent", "damaged", "repeated"):
        counts = [engine.read(f"port_{name}", k)["count"] for k in range(engine.ports)]
        assert sum(counts) == engine.node.output(name)
        assert sum(counts) == 1 or name != "damaged"

# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""`gen.netlist` writes what Amaranth writes, and what it refuses, Amaranth refuses."""

import gc

import pytest
from amaranth.back import rtlil
from amaranth.hdl import (
    Array,
    Cat,
    ClockDomain,
    Const,
    Instance,
    Module,
    Mux,
    Print,
    Signal,
    _ast,
    _nir,
)
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from gen import netlist
from gen.rtlil import MacroPlatform, to_rtlil, top_ports
from hw.ace.config import preset
from hw.ace.engine import AceEngine
from hw.bfp.encoder import BlockEncoder
from hw.bfp.format import BlockFormat
from hw.fp.adder import FPAdder
from tests.gen.random_design import RandomDesign


def both(make, platform=lambda: None):
    """Texts (or errors) of *make*, by us and by Amaranth."""
    component = make()
    ours = outcome(
        lambda: netlist.convert(
            component, name="top", platform=platform(), ports=top_ports(component)
        )
    )
    design = make()
    theirs = outcome(
        lambda: rtlil.convert(
            design, name="top", platform=platform(), ports=top_ports(design), emit_src=False
        )
    )
    return ours, theirs


def outcome(act):
    try:
        return act()
    except Exception as error:
        return type(error), str(error)


class Part(wiring.Component):
    """Everything that a netlist can hold and our engines have little of."""

    def __init__(self, tied):
        self._tied = tied
        super().__init__({"a": In(70), "b": In(70), "y": Out(70), "quotient": Out(8), "z": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.domains.slow = ClockDomain(async_reset=True, clk_edge="neg", local=True)
        nothing, never, unused = Signal(0), Signal(5, init=9), Signal(3)
        m.d.comb += nothing.eq(self.a[:0])
        m.d.comb += unused.eq(never)
        m.submodules.rows = rows = Memory(shape=9, depth=5, init=[1, 2, 3], attrs={"kind": "small"})
        first = rows.write_port(granularity=3)
        read = rows.read_port(transparent_for=[first])
        late = rows.read_port(domain="comb")
        m.d.comb += [
            first.addr.eq(self.a), first.en.eq(self.b[:3]), first.data.eq(self.a[5:]),
            read.addr.eq(self.b), late.addr.eq(self.a[3:]),
        ]
        made = Signal(12)
        m.submodules.box = Instance(
            "box", ("p", "SIZE", 3), ("p", "TEXT", 'say "so"'), ("a", "keep", 1),
            ("i", "x", Cat(self.a[:3], self._tied, self.a[:3])), ("o", "p", made[:5]),
            ("o", "q", made[5:]),
        )
        layout = data.StructLayout({"low": 3, "high": data.ArrayLayout(4, 2)})
        held = Signal(layout, init={"low": 2})
        m.d.slow += held.low.eq(made)
        # One signal, driven bit by bit from three places.
        m.submodules.other = other = Module()
        shared = Signal(6)
        m.d.comb += shared[:2].eq(self.a)
        m.d.sync += shared[2:4].eq(self.b)
        other.d.comb += shared[4:].eq(made[3:] + never)
        # A vector whose bits follow one another is no loop.
        ripple = Signal(9)
        m.d.comb += ripple[0].eq(self.a[0])
        for bit in range(8):
            m.d.comb += ripple[bit + 1].eq(ripple[bit] ^ self.b[bit])
        pick = Array([self.a[:8].as_signed(), self.b[:8], Const(-3, 8)])[self.a[-2:]]
        with m.Switch(self.a[:4]):
            with m.Case("1--0", 3):
                m.d.comb += self.y.word_select(self.b[:2], 7).eq(pick)
            with m.Case():
                m.d.comb += Mux(self.b[0], self.y[:9], self.y[20:29]).eq(held.as_value())
            with m.Default():
                m.d.sync += Print(held)
                m.d.comb += self.y.eq(Cat(ripple, shared, read.data, late.data, unused))
        m.d.comb += self.quotient.eq(
            self.a[:8].as_signed() // self.b[:5].as_signed() + self.a[:9] % self.b[7:12]
            - (self.a[3:9] << self.b[:3]) + (-self.b[3:]).as_signed()
        )
        m.d.comb += self.z.eq((made.as_signed() < -2) & made.any() & ~nothing.any())
        return m


class Several(wiring.Component):
    """The same part in three places, with constants, common nets and unused outputs."""

    a: In(70)
    y: Out(70)

    def elaborate(self, platform):
        m = Module()
        m.submodules.empty = Module()
        for index, tied in enumerate((0, 1, 1)):
            m.submodules[f"part_{index}"] = part = Part(tied)
            m.d.comb += [part.a.eq(self.a if index else Cat(self.a[:9], Const(5, 61))),
                         part.b.eq(self.a ^ index)]
            if index < 2:
                m.d.sync += self.y.eq(self.y ^ part.y)
        return m


@pytest.mark.parametrize(
    "make",
    [Several, *(lambda seed=seed: RandomDesign(seed) for seed in range(12)),
     lambda: FPAdder(stages=2), lambda: BlockEncoder(BlockFormat(elements=4), lanes=2)],
)
def test_the_text_is_that_of_amaranth(make, monkeypatch):
    asked = []
    original = rtlil.convert_fragment
    monkeypatch.setattr(
        rtlil, "convert_fragment", lambda *a, **k: asked.append(1) or original(*a, **k)
    )

    ours, theirs = both(make)

    assert isinstance(ours, str), ours
    assert ours == theirs
    assert len(asked) == 1, "ours is Amaranth's own way too: another release, or a false alarm"


def test_the_text_of_an_engine_is_that_of_amaranth():
    ours, theirs = both(lambda: AceEngine(preset("test")), MacroPlatform)

    assert ours == theirs


class Wrong(wiring.Component):
    a: In(4)
    y: Out(4)

    def __init__(self, fault):
        self._fault = fault
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = Module()
        x = Signal(4, name="x")
        if self._fault == "loop":
            m.d.comb += x.eq(self.y + 1)
            inner.d.comb += self.y.eq(Mux(self.a[0], x, self.a))
        elif self._fault == "loop of bits":
            m.d.comb += [x[0].eq(~x[1]), x[1].eq(x[2]), x[2].eq(x[0]), self.y.eq(x)]
        elif self._fault == "loop of wires":
            m.d.comb += x.eq(self.y)
            inner.d.comb += self.y.eq(x)
        elif self._fault == "two modules":
            m.d.comb += self.y.eq(self.a)
            inner.d.comb += self.y.eq(x)
        elif self._fault == "driven input":
            inner.d.comb += self.a.eq(1)
        elif self._fault == "two instances":
            m.submodules += Instance("box", o_q=self.y), Instance("box", o_q=self.y[2])
        elif self._fault == "too wide":
            m.d.comb += self.y.eq(Signal(70000) + 1)
        return m


@pytest.mark.parametrize(
    "fault",
    ["loop", "loop of bits", "loop of wires", "two modules", "driven input", "two instances",
     "too wide"],
)
def test_errors_are_those_of_amaranth(fault):
    ours, theirs = both(lambda: Wrong(fault))

    assert isinstance(theirs, tuple)
    assert ours == theirs


def test_a_loop_within_a_memory_with_asynchronous_reads_is_found():
    class Loop(wiring.Component):
        y: Out(2)

        def elaborate(self, platform):
            m = Module()
            m.submodules.rows = rows = Memory(shape=2, depth=4, init=[1, 2, 3, 0])
            read = rows.read_port(domain="comb")
            m.d.comb += [read.addr.eq(read.data), self.y.eq(read.data)]
            return m

    ours, theirs = both(Loop)

    assert ours == theirs
    assert ours[0] is _nir.CombinationalCycle


@pytest.mark.parametrize("fault", [None, "loop"])
def test_amaranth_is_left_as_it_was(fault):
    before = (dict(vars(_nir.Value)), _ast.SignalDict, _nir.SignalDict,
              vars(data.StructLayout)["size"], gc.isenabled())

    outcome(lambda: to_rtlil(Wrong(fault), name="top"))

    assert before == (dict(vars(_nir.Value)), _ast.SignalDict, _nir.SignalDict,
                      vars(data.StructLayout)["size"], gc.isenabled())


def test_another_amaranth_goes_its_own_way(monkeypatch):
    monkeypatch.setattr(netlist, "FITS", False)
    monkeypatch.setattr(netlist, "_build", None)

    ours, theirs = both(Several)

    assert ours == theirs

# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Modules are merged when they are equal, and only then."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from gen.merge import merge_modules
from gen.rtlil import to_rtlil


class Leaf(wiring.Component):
    def __init__(self, *, init=5, word=9, add=True, attribute=None):
        self.init, self.word, self.add, self.attribute = init, word, add, attribute
        super().__init__({"x": In(8), "y": Out(8)})

    def elaborate(self, platform):
        m = Module()
        attrs = {} if self.attribute is None else {"note": self.attribute}
        held = Signal(8, init=self.init, attrs=attrs)
        m.submodules.rows = rows = Memory(shape=8, depth=4, init=[1, 2, self.word, 4])
        read = rows.read_port()
        m.d.sync += held.eq(held + self.x if self.add else held - self.x)
        m.d.comb += [read.addr.eq(self.x), self.y.eq(held ^ read.data)]
        return m


class Pair(wiring.Component):
    """Two leaves, each between registers so that both see signals of the same kind."""

    def __init__(self, first, second):
        self.leaves = [first, second]
        super().__init__({"i": In(8), "o": Out(8)})

    def elaborate(self, platform):
        m = Module()
        total = 0
        for index, leaf in enumerate(self.leaves):
            m.submodules[f"leaf_{index}"] = leaf
            register = Signal(8, name="register")
            m.d.sync += register.eq(self.i + index)
            m.d.comb += leaf.x.eq(register)
            total = total ^ leaf.y
        m.d.comb += self.o.eq(total)
        return m


def merged(first, second):
    return merge_modules(to_rtlil(Pair(first, second), name="pair"), top="pair")


def test_equal_modules_become_one():
    design = merged(Leaf(), Leaf())
    assert design.instances == {"pair": 1, "pair_leaf": 2}
    assert design.places["pair"] == ["pair"] and len(design.places["pair_leaf"]) == 2


@pytest.mark.parametrize(
    "other",
    [
        Leaf(init=4),
        Leaf(word=8),
        Leaf(add=False),
        Leaf(attribute="kept"),
    ],
    ids=["initial value", "word of a memory", "operator", "attribute"],
)
def test_modules_that_differ_in_anything_stay_apart(other):
    assert merged(Leaf(), other).instances == {"pair": 1, "pair_leaf_0": 1, "pair_leaf_1": 1}


RTLIL = """
module \\top
  wire width 4 \\n
  cell \\top.a \\a
    connect \\port$7$0 \\n
  end
  cell \\top.b \\b
    connect \\port$91$0 \\n
  end
end
attribute \\src "here.py:1"
module \\top.a
  wire width 4 {direction} 0 \\port$7$0
  wire width 4 $3
connect $3 \\port$7$0
end
attribute \\src "there.py:2"
module \\top.b
  wire width 4 input 0 \\port$91$0
  wire width 4 $8
connect $8 \\port$91$0
end
"""


def test_only_source_locations_and_private_names_are_normalised():
    assert merge_modules(RTLIL.format(direction="input"), top="top").instances["top_a"] == 2


def test_modules_that_differ_in_a_port_direction_stay_apart():
    design = merge_modules(RTLIL.format(direction="inout"), top="top")
    assert design.instances == {"top": 1, "top_a": 1, "top_b": 1}


def test_ports_of_a_merged_module_are_connected_by_their_new_names():
    text = merge_modules(RTLIL.format(direction="input"), top="top").text
    assert text.count("connect \\port_0 \\n") == 2
    assert "port$" not in text


class Nest(wiring.Component):
    i: In(8)
    o: Out(8)

    def __init__(self, pairs):
        self.pairs = pairs
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        total = 0
        for index, pair in enumerate(self.pairs):
            m.submodules[f"pair_{index}"] = pair
            register = Signal(8, name="register")
            m.d.sync += register.eq(self.i + index)
            m.d.comb += pair.i.eq(register)
            total = total ^ pair.o
        m.d.comb += self.o.eq(total)
        return m


def test_parents_are_merged_only_when_their_children_were():
    same = Nest([Pair(Leaf(), Leaf()), Pair(Leaf(), Leaf())])
    assert merge_modules(to_rtlil(same, name="nest"), top="nest").instances == {
        "nest": 1, "nest_pair": 2, "nest_leaf": 4,
    }
    one_differs = Nest([Pair(Leaf(), Leaf()), Pair(Leaf(), Leaf(init=77))])
    instances = merge_modules(to_rtlil(one_differs, name="nest"), top="nest").instances
    assert sorted(instances.values()) == [1, 1, 1, 1, 3]

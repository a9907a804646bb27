# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Modules that differ in numbers only are one with parameters."""

import re

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from gen.sv.families import Member, unified
from gen.sv.proof import READERS, check, design
from gen.sv.tree import (
    Assignment,
    Code,
    Line,
    ModuleText,
    PortLine,
    Ref,
    bits,
    constant,
    plain,
    vector,
)
from gen.sv.writer import module_lines
from hw.common.arbiter import RoundRobinArbiter
from hw.common.fifo import StreamFIFO

SIZES = ((5, 3), (9, 8), (5, 12))


class Queues(wiring.Component):
    """FIFOs of several sizes, and arbiters."""

    def __init__(self):
        super().__init__({
            **{f"i_{n}": In(stream.Signature(width)) for n, (width, _) in enumerate(SIZES)},
            **{f"o_{n}": Out(stream.Signature(width)) for n, (width, _) in enumerate(SIZES)},
            "requests": In(6), "few": Out(3), "many": Out(5),
        })

    def elaborate(self, platform):
        m = Module()
        for n, (width, depth) in enumerate(SIZES):
            m.submodules[f"fifo_{n}"] = fifo = StreamFIFO(width, depth, memory=False)
            wiring.connect(m, wiring.flipped(getattr(self, f"i_{n}")), fifo.i)
            wiring.connect(m, fifo.o, wiring.flipped(getattr(self, f"o_{n}")))
        for name, n, grant in (("first", 3, self.few), ("second", 5, self.many)):
            m.submodules[name] = turns = RoundRobinArbiter(n)
            m.d.comb += [turns.requests.eq(self.requests), grant.eq(turns.grant),
                         turns.advance.eq(self.requests[5])]
        return m


def test_a_library_block_is_one_module_at_several_sizes_and_proved_at_each():
    made = design(Queues)
    for line in ("top_stream_fifo #(.WIDTH(5), .DEPTH(3)) fifo_0 (",
                 "top_stream_fifo #(.WIDTH(9), .DEPTH(8)) fifo_1 (",
                 "top_round_robin_arbiter second (",
                 "logic [WIDTH-1:0] rows [0:DEPTH-1];"):
        assert line in made.text, line
    assert max(map(len, made.text.splitlines())) <= 100
    checked = check(made)
    assert checked.proved, checked.why
    # Parameters make four questions of two modules, and FIFOs of one size are one.
    assert (checked.parts, checked.questions) == (6, 6)


@pytest.mark.parametrize(
    ("old", "new"),
    [(r"DEPTH\(8\)", "DEPTH(7)"), (r"DEPTH - 1", "DEPTH - 2"), (r"\.WIDTH\(9\)", ".WIDTH(8)")],
)
def test_a_wrong_parameter_is_found(old, new):
    made = design(Queues)
    planted, count = re.subn(old, new, made.text, count=1)
    assert count
    for reader in READERS:
        assert check(made, planted, readers=[reader], first=True).wrong


def module(width, depth, other=0, below=()):
    at = Code("(at == ", constant(depth - 1, (depth - 1).bit_length()), ")")
    value = Code(at, " & ", Ref("i", bits(other, 1)))
    return ModuleText(
        above=(),
        ports=(PortLine("input", vector(width), "i", ""), PortLine("output", vector(1), "o", "")),
        body=(
            Line(Code(vector((depth - 1).bit_length()), " at;")),
            Line(Assignment("assign ", Ref("o"), "=", value), "hw/part.py:12"),
            *below,
        ),
    )


def text(one):
    return "\n".join(module_lines(one, "part"))


def test_a_number_that_no_parameter_explains_keeps_modules_apart():
    sizes = [(4, 8, 0), (6, 16, 0), (4, 16, 1), (5, 8, 1)]
    made = unified([
        Member(module(*size), {"WIDTH": size[0], "DEPTH": size[1]}) for size in sizes
    ])
    assert [one.values for one in made] == [
        {0: {"WIDTH": 4, "DEPTH": 8}, 1: {"WIDTH": 6, "DEPTH": 16}},
        {2: {"WIDTH": 4, "DEPTH": 16}, 3: {"WIDTH": 5, "DEPTH": 8}},
    ]
    assert "DEPTH_BITS'(DEPTH - 1)) & i[0];  // hw/part.py:12" in text(made[0])
    alone = unified([Member(module(4, 8), {}), Member(module(4, 8, 1), {})])
    assert [one.text for one in alone] == [module(4, 8), module(4, 8, 1)]


def test_only_numbers_that_the_module_uses_become_parameters():
    inner = Line(Code("part #(.N(", plain(2), ")) inner (.i(i[0]), .o(o));"), "N parts")
    (one,) = unified([
        Member(module(width, 8, below=[inner]), {"WIDTH": width, "DEPTH": 8, "N": 2})
        for width in (4, 6)
    ])
    assert one.values == {0: {"WIDTH": 4}, 1: {"WIDTH": 6}}
    assert "N = 2" not in text(one)


class Even(wiring.Component):
    """FIFOs; the width of one is that of its addresses."""

    i: In(stream.Signature(8)).array(2)
    o: Out(stream.Signature(8)).array(2)

    def elaborate(self, platform):
        m = Module()
        for n, depth in enumerate((12, 256)):
            m.submodules[f"queue_{n}"] = queue = StreamFIFO(8, depth, memory=False)
            wiring.connect(m, wiring.flipped(self.i[n]), queue.i)
            wiring.connect(m, queue.o, wiring.flipped(self.o[n]))
        return m


def test_numbers_that_are_equal_by_chance_keep_nothing_apart():
    made = design(Even)
    assert made.text.count("module top_stream_fifo #(") == made.text.count("module top_stream") == 1
    assert "  logic [DEPTH_BITS-1:0] free, next_read;" in made.text
    checked = check(made)
    assert checked.proved, checked.why

# amaranth: UnusedElaboratable=no
"""Text without marks of a generator: constants that decide nothing, branches that do nothing."""

import importlib.util
import re

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from bench._handoff_patterns import found
from bench.verilog import lint, slang
from gen.sv.proof import check, design
from gen.verilator import has_verilator
from gen.verilog import emit, emit_files


class Settings(wiring.Component):
    """Logic with features that are left out."""

    def __init__(self):
        super().__init__({"a": In(8), "b": In(8), "go": In(1), "kind": In(3), "o": Out(8),
                          "few": Out(2), "row": Out(8), "picked": Out(3), "steps": Out(8)})

    def elaborate(self, platform):
        m = Module()
        off, on = Signal(), Signal(init=1)  # nothing drives them
        m.submodules.rows = rows = Memory(shape=8, depth=4, init=[])
        write, read = rows.write_port(), rows.read_port()
        m.d.comb += [
            write.addr.eq(self.a), write.data.eq(self.b), write.en.eq(self.go),
            read.addr.eq(self.kind), read.en.eq(on), self.row.eq(read.data),
            self.few.eq(Cat((self.a & 0x5A).xor() ^ off, ~(self.go & ~off))),
            self.picked.eq(Mux(self.a % 1 == 0, Mux(self.go, self.b[0], 0), off | self.kind)),
            self.steps.eq((self.a * 1) + 0),
        ]
        with m.If(self.kind == 1):
            pass
        with m.Elif(self.go):
            m.d.comb += self.o.eq(self.a)
        with m.Elif(self.b[3]):
            pass
        with m.Elif(self.b[2] | self.b[1]):
            pass
        with m.Else():
            m.d.comb += self.o.eq(self.b)
        return m


def test_constants_and_branches_that_do_nothing_are_not_written():
    made = design(Settings)
    proof = check(made)
    assert proof.proved, proof.why
    text = emit(Settings(), name="top").text
    assert {name: count for name, count in found(text).items() if count} == {}
    assert "if (kind != 3'd1) begin\n" in text
    assert "end else if (~b[3] & ~(b[2] | b[1])) begin" in text
    assert re.search(r"^ +\w+_read_data <= rows\[|^ +row <= rows\[", text, re.M)


@pytest.mark.parametrize("line, name", [
    ("x = a % 1'b1;", "operand that changes nothing"),
    ("x = ^a ^ 1'b0;", "operand that changes nothing"),
    ("x = (1'b0 | a);", "operand that changes nothing"),
    ("x = a + 8'd0;", "operand that changes nothing"),
    ("if (1'b1) x = a;", "condition that is known"),
    ("x = b & (1'b0 == 1'b0);", "condition that is known"),
    ("x = ~(a) ? b : 1'b0;", "choice of nothing"),
    ("if (a) begin\nend else begin", "empty branch"),
    ("if (a) begin  // why\n  // because\nend", "empty branch"),
])
def test_each_pattern_is_seen(line, name):
    assert found(line)[name] >= 1
    assert found("// SPDX")["no licence"] == found(line)["no default_nettype"] == 1


def test_names_that_are_not_declared_are_refused_in_the_text_alone(tmp_path):
    text = emit(Settings(), name="top").text
    assert text.count("`default_nettype none\n") == 1
    assert text.endswith("`default_nettype wire\n")  # what is compiled behind it may rely on it
    assert not re.search(r"^ *input +logic", text, re.M)
    assert "default_nettype" not in emit(Settings(), name="top", style="plain").text


@pytest.mark.skipif(not has_verilator() or importlib.util.find_spec("pyslang") is None,
                    reason="needs Verilator and slang")
def test_linters_say_nothing(tmp_path):
    (path, _) = emit_files(Settings(), tmp_path, name="top")
    assert lint(path, "top") == slang(path) == ""

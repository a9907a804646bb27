# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Text without marks of a generator: constants that decide nothing, branches that do nothing."""

import importlib.util
import re

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, enum, wiring
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
                          "few": Out(2), "row": Out(8), "picked": Out(3), "steps": Out(8),
                          "held": Out(8), "same": Out(8)})

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
            self.steps.eq(Mux(self.b >= 0, (self.a * 1) + 0, 7)),
        ]
        with m.If(self.go >= 0):
            m.d.comb += self.same.eq(self.a)
        with m.If(self.kind <= 7):
            m.d.sync += self.held.eq(self.b)
        with m.Elif(self.go):
            m.d.sync += self.held.eq(0)
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
    for line in ("assign steps = a;", "assign same = a;", "\n    held <= b;\n"):
        assert line in text, line
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
    ("  assign x = {^(a & 40'h123456789), b};", "parity of a mask outside of a function"),
    ("  localparam logic [1:0] IDLE = 2'd0;", "state or code without a type"),
    ("  logic [1:0] a, fsm_state;", "state or code without a type"),
    ("} top_i_t;", "type named by a number or a direction"),
    ("} top_header_2_t;", "type named by a number or a direction"),
    ("if (a) begin\nend else begin", "empty branch"),
    ("if (a) begin  // why\n  // because\nend", "empty branch"),
])
def test_each_pattern_is_seen(line, name):
    assert found(line)[name] >= 1
    assert found("// SPDX")["no licence"] == found(line)["no default_nettype"] == 1


LAYOUT = data.StructLayout({"last": 1, "data": 8})
OTHER = data.StructLayout({"last": 1, "data": 7})


class Queue(wiring.Component):
    """Holds a beat of any shape."""

    def __init__(self, shape):
        self.shape = shape
        super().__init__({"i": In(shape), "o": Out(shape)})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.o.eq(self.i)
        return m


class Splitter(wiring.Component):
    """Takes beats by a port that is called after its direction."""

    i: In(OTHER)
    o: Out(OTHER)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += [self.o.last.eq(self.i.data[0]), self.o.data.eq(self.i.data + self.i.last)]
        return m


class Beats(wiring.Component):
    """A queue and a splitter."""

    a: In(9)
    b: In(8)
    x: Out(8)
    y: Out(7)

    def elaborate(self, platform):
        m = Module()
        m.submodules.requests_1 = queue = Queue(LAYOUT)
        m.submodules.cut = cut = Splitter()
        m.d.comb += [queue.i.eq(self.a), self.x.eq(queue.o.data + queue.o.last),
                     cut.i.eq(self.b), self.y.eq(cut.o.data + cut.o.last)]
        return m


def test_types_are_named_after_what_holds_them_or_passes_them():
    text = emit(Beats(), name="top").text
    assert set(re.findall(r"^} (\w+);", text, re.M)) == {"top_request_t", "top_splitter_input_t"}


MASKS = (0x8A5, 0x1452, 0xFFFF, 0x3A29, 0)


def digest_of(word, salt):
    """Bits that are parities of both."""
    return Cat((word & mask).xor() ^ (salt & mask >> 8).xor() ^ (n & 1)
               for n, mask in enumerate(MASKS))


class Digester(wiring.Component):
    """Digests what it is given."""

    a: In(16)
    b: In(8)
    o: Out(6)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.o.eq(digest_of(self.a, self.b))
        return m


class Digests(wiring.Component):
    """Digests twice, in modules that are not the same."""

    a: In(16)
    b: In(8)
    x: Out(6)
    y: Out(5)
    few: Out(3)

    def elaborate(self, platform):
        m = Module()
        m.submodules.one = one = Digester()
        m.d.comb += [one.a.eq(self.a), one.b.eq(self.b), self.x.eq(one.o),
                     self.y.eq(digest_of(Cat(self.b, self.a[:8]), self.b)),
                     self.few.eq(Cat((self.a & mask).xor() for mask in MASKS[:3]))]
        return m


def test_a_digest_is_one_function_of_all_modules_and_proved():
    made = design(Digests)
    proof = check(made)
    assert proof.proved, proof.why
    assert re.findall(r"^function automatic (.*);", made.text, re.M) == [
        "logic [4:0] top_digest(input logic [15:0] word_0, input logic [7:0] word_1)"
    ]
    assert "o <= {1'd0, top_digest(a, b)};" in made.text or "top_digest(a, b)" in made.text
    assert "assign y = top_digest({a[7:0], b}, b);" in made.text
    planted = made.text.replace("word_0 & 16'd2213", "word_0 & 16'd2212")
    assert planted != made.text and len(check(made, planted, readers=["yosys"]).wrong) == 2


class Kind(enum.Enum, shape=3):
    """Codes with gaps."""

    NONE = 0
    PUSH = 3
    PULL = 5


class Walker(wiring.Component):
    """States, and codes that are given by name or come from outside."""

    go: In(1)
    given: In(3)
    kind: Out(Kind)
    taken: Out(Kind)
    state: Out(1)

    def elaborate(self, platform):
        m = Module()
        said, seen = Signal(Kind), Signal(Kind)
        m.d.comb += [self.kind.eq(said), self.taken.eq(seen)]
        m.d.sync += seen.eq(self.given)
        with m.FSM():
            with m.State("IDLE"), m.If(self.go):
                m.d.sync += said.eq(Kind.PUSH)
                m.next = "WALK"
            with m.State("WALK"):
                m.d.comb += self.state.eq(seen == Kind.PULL)
                m.d.sync += said.eq(Mux(self.go, Kind.PULL, Kind.NONE))
                m.next = "REST"
            with m.State("REST"):
                m.next = "IDLE"
        return m


def test_states_and_codes_are_enumerations_and_proved():
    made = design(Walker)
    proof = check(made)
    assert proof.proved, proof.why
    for line in (
        "  typedef enum logic [1:0] {IDLE = 2'd0, WALK = 2'd1, REST = 2'd2} state_e;",
        "  typedef enum logic [2:0] {KIND_NONE = 3'd0, KIND_PUSH = 3'd3, KIND_PULL = 3'd5} kind_e;",
        "  state_e fsm_state;",
        "said <= go ? KIND_PULL : KIND_NONE;", "fsm_state <= WALK;",
        "      REST: fsm_state <= IDLE;",
    ):
        assert line in made.text, line
    assert not re.search(r"^ +kind_e .*seen", made.text, re.M)  # it may have any value
    planted = made.text.replace("REST = 2'd2}", "REST = 2'd3}")
    assert planted != made.text and check(made, planted, readers=["yosys"]).wrong


class Flushed(wiring.Component):
    """Two counters that a flush puts back, to *value*; a third one, with *more*, stays."""

    flush: In(2)
    value: Out(4)
    other: Out(4)
    third: Out(4)

    def __init__(self, value=0, more=False):
        super().__init__()
        self._value, self._more = value, more

    def elaborate(self, platform):
        m = Module()
        m.d.sync += [self.value.eq(self.value + 1), self.other.eq(self.other ^ self.value)]
        if self._more:
            m.d.sync += self.third.eq(self.third + 1)
        else:
            m.d.comb += self.third.eq(self.other)
        with m.If(self.flush[0] & ~self.flush[1]):
            m.d.sync += [self.value.eq(self._value), self.other.eq(0)]
        return m


@pytest.mark.parametrize(
    "how, line",
    [
        ({}, "    if (rst | (flush[0] & ~flush[1])) begin value <= 4'd0; other <= 4'd0; end\n"),
        ({"more": True}, "    if (flush[0] & ~flush[1]) begin value <= 4'd0; other <= 4'd0; end"),
        ({"value": 2}, "    if (flush[0] & ~flush[1]) begin  // test_sv_patterns.py:"),
    ],
    ids=["all", "some", "another value"],
)
def test_what_does_as_a_reset_does_stands_beside_it_and_is_proved(how, line):
    made = design(lambda: Flushed(**how))
    proof = check(made)
    assert proof.proved, proof.why
    assert line in made.text
    planted = made.text.replace("flush[0] & ~flush[1]", "flush[0]", 1)
    assert planted != made.text and check(made, planted, readers=["yosys"]).wrong


def test_names_that_are_not_declared_are_refused_in_the_text_alone(tmp_path):
    text = emit(Settings(), name="top").text
    assert text.count("`default_nettype none\n") == 1
    assert text.endswith("`default_nettype wire\n")  # what is compiled behind it may rely on it
    assert not re.search(r"^ *input +logic", text, re.M)
    assert "default_nettype" not in emit(Settings(), name="top", style="plain").text


@pytest.mark.skipif(not has_verilator() or importlib.util.find_spec("pyslang") is None,
                    reason="needs Verilator and slang")
@pytest.mark.parametrize("make", [Settings, Beats, Digests, Walker])
def test_linters_say_nothing(make, tmp_path):
    (path, _) = emit_files(make(), tmp_path, name="top")
    assert lint(path, "top") == slang(path) == ""

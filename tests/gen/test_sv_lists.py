# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Lists of the source as arrays and loops: each loop says what its pieces said."""

import importlib.util
import random
import re
from collections import Counter
from itertools import pairwise

import pytest
from amaranth.hdl import Array, Cat, Const, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bench.verilog import apart, lint, slang
from gen.sv.layout import printed
from gen.sv.lists import compressed, numbered
from gen.sv.loops import parsed, rolled, statements, unrolled
from gen.sv.proof import READERS, check, design
from gen.sv.tree import Assignment, Code, Line, Ref, Unary, bits, constant
from gen.verilator import has_verilator
from gen.verilog import emit

ROW = data.StructLayout({"who": 2, "what": 6})


class Lane(wiring.Component):
    """Holds a row."""

    row: In(ROW)
    take: In(1)
    gate: In(1)
    held: Out(ROW)
    busy: Out(3)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.take & ~self.gate):
            m.d.sync += [self.held.eq(self.row), self.busy.eq(self.busy + 1)]
        return m


class Lanes(wiring.Component):
    """Rows that lanes hold, and who holds which."""

    row: In(ROW).array(4)
    pick: In(2)
    told: Out(ROW).array(4)
    count: Out(4).array(4)
    sums: Out(3).array(3, 2)
    chosen: Out(6)
    mine: Out(1)
    same: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.same.eq(Cat((row.who == self.pick) & row.what[0] for row in self.row))
        lanes = [Lane() for _ in range(4)]
        before = [Signal(4, name=f"before_{n}") for n in range(4)]
        for n, lane in enumerate(lanes):
            m.submodules[f"lane_{n}"] = lane
            m.d.comb += [
                lane.row.eq(self.row[n]),
                lane.take.eq(self.row[n].who == n),
                lane.gate.eq(lanes[n * 3 % 4].busy[0]),  # not in the order of the lanes
                self.told[n].who.eq(n),
                self.told[n].what.eq(lane.held.what ^ self.row[3 - n].what),
            ]
            m.d.sync += [before[n].eq(self.count[n]), self.count[n].eq(before[n] + lane.busy)]
            with m.If(lane.held.who == n):
                m.d.comb += self.mine.eq(1)
        for a in range(3):
            for b in range(2):
                m.d.comb += self.sums[a][b].eq(self.row[a].who + b)
        m.d.comb += self.chosen.eq(Array(lane.held.what for lane in lanes)[self.pick])
        return m


class Outer(wiring.Component):
    """The ports of a top are plain vectors; those inside are arrays."""

    row: In(ROW).array(4)
    pick: In(2)
    told: Out(ROW).array(4)
    count: Out(4).array(4)
    sums: Out(3).array(3, 2)
    chosen: Out(6)
    mine: Out(1)
    same: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.submodules.lanes = lanes = Lanes()
        wiring.connect(m, wiring.flipped(self), lanes)
        return m


def test_lists_are_proved_equal_to_amaranths_netlist():
    made = design(Outer)
    checked = check(made)
    assert checked.proved, checked.why
    assert checked.state == sum(part.state for part in made.record.all()) == 16


def test_lists_are_written_as_arrays_and_loops():
    text = design(Outer).text.partition("module top_lanes")[2]
    for line in (
        r"input  wire logic \[3:0\]\[7:0\] +row,  // top_row_t each",
        r"output logic \[2:0\]\[1:0\]\[2:0\] +sums",
        r"for \(genvar i = 0; i < 4; i\+\+\) begin : each_lane",
        r"top_lane lane \(",
        r"count <= '0;",
        r"assign same\[i\] = \(row_who(_\d)? == pick\) & row_what",
    ):
        assert re.search(line, text), line
    assert not re.search(r"\b(lane|row|told|count|sums|before)_\d", text)


@pytest.mark.parametrize(
    ("old", "new"),
    [(r"\.row\(row\[i\]\)", ".row(row[3 - i])"), (r"k < 4; k\+\+\) begin\n +before", None),
     (r"2'\(i\)", "2'(i + 1)"), (r"count <= '0", "count <= 16'd1")],
)
def test_a_wrong_number_in_a_loop_is_found(old, new):
    outer = design(Outer)
    made = (lambda match: match[0].replace("4", "3")) if new is None else new
    planted, count = re.subn(old, made, outer.text)
    assert count
    for reader in READERS:
        assert check(outer, planted, readers=[reader], first=True).wrong


@pytest.mark.parametrize("seed", range(20))
def test_a_loop_says_what_its_pieces_said(seed):
    draw = random.Random(seed)
    pieces = []
    for _ in range(draw.randint(1, 4)):
        a, b, c = (draw.randint(-2, 3) for _ in range(3))
        for x in range(draw.randint(1, 5)):
            for y in range(draw.randint(1, 4)):
                low = 40 + a * x + b * y
                target = Ref("to", bits(low, 1), bits(low, 4))
                value = Code(Ref("from", bits(20 + c * x, 1)), " + ", constant(y + 100, 9))
                pieces.append((Line(Assignment("assign ", target, "=", value)),))
    draw.shuffle(pieces)
    items = rolled([parsed(lines, place) for place, lines in enumerate(pieces)])
    assert Counter(each for item in items for each in unrolled(item)) == Counter(pieces)
    assert len(items) <= len(pieces)


def clocked(target, value):
    return [Line(Assignment("", target, "<=", value))]


def test_statements_of_a_loop_keep_their_order():
    parts = [clocked(Ref("to", bits(n, 1)), constant(m, 1)) for n in range(4) for m in (0, 1)]
    assert list(printed(statements(parts, {}, lambda _: False, 2), 2)) == [
        "  for (int k = 0; k < 4; k++) begin", "    to[k] <= 1'b0;", "    to[k] <= 1'b1;", "  end"
    ]
    other = [clocked(Ref("a", bits(0, 1)), "b"), clocked(Ref("a", bits(1, 1)), "b"),
             clocked(Ref("c"), "d"), clocked(Ref("a", bits(2, 1)), "b")]
    assert statements(other, {}, lambda _: False, 2) == tuple(line for (line,) in other)


def test_all_elements_are_the_array():
    dims = {"a": (2, 3), "b": (4,)}
    both = [Ref("a", bits(m, 1), bits(n, 1)) for m in (1, 0) for n in (2, 1, 0)]
    few = [Ref("b", bits(n, 1)) for n in (3, 2, 1)]
    assert compressed([*both, *few], dims) == [Ref("a"), *few]
    zeros = [clocked(Ref("c", bits(m, 1), bits(n, 1)), constant(0, 1))
             for m in range(4) for n in range(3)]
    assert statements(zeros, {"c": (4, 3)}, lambda _: False, 2) == tuple(clocked(Ref("c"), "'0"))


def test_a_cast_behind_a_prefix_operator_is_in_parentheses():
    parts = [clocked(Ref("to", bits(n, 1)), Unary("~", constant(n, 4))) for n in range(4)]
    (line,) = printed(statements(parts, {}, lambda _: False, 0))
    assert line == "for (int k = 0; k < 4; k++) to[k] <= ~(4'(k));"


def test_only_equal_things_that_are_numbered_without_a_gap_are_a_list():
    names = {"a_0": 1, "a_1": 1, "b_0": 1, "b_1": 2, "c_4": 1, "c_5": 1, "d": 1, "e_0": 1, "e_2": 1}
    assert numbered(names) == {
        "a_0": ("a", 0), "a_1": ("a", 1), "c_4": ("c", 0), "c_5": ("c", 1)
    }


class Chain(wiring.Component):
    """Each link follows from the one before, so no array: a simulator would see a loop."""

    i: In(4)
    o: Out(4)

    def elaborate(self, platform):
        m = Module()
        link = [Signal(4, name=f"link_{n}") for n in range(4)]
        m.d.comb += [link[0].eq(self.i), self.o.eq(link[3])]
        for one, other in pairwise(link):
            with m.If(one[0]):
                m.d.comb += other.eq(one + self.i)
        return m


def test_elements_that_depend_on_one_another_are_no_array():
    made = design(Chain)
    assert "link_1" in made.text and "link[" not in made.text
    assert check(made).proved


EVENT = data.StructLayout({"came": 1, "kind": data.StructLayout({"code": 3, "wrong": 1})})


class Notices(wiring.Component):
    """Structures that are put together, link by link, and leave as bits."""

    kind: In(3)
    fresh: In(3)
    o: Out(9).array(3)

    def elaborate(self, platform):
        m = Module()
        for n, o in enumerate(self.o):
            event = Signal(EVENT, name=f"event_{n}")
            m.d.comb += [
                event.came.eq(1), event.kind.code.eq(self.kind), event.kind.wrong.eq(self.fresh[n]),
                o.eq(Cat(event, self.kind + n)),
            ]
        return m


@pytest.mark.skipif(not has_verilator(), reason="needs Verilator")
def test_no_array_is_declared_of_structures_that_their_loop_alone_reads(tmp_path):
    made = design(Notices)
    assert "one_event" in made.text and not re.search(r"\bevent\b", made.text)
    path = tmp_path / "notices.sv"
    path.write_text(made.text)
    assert lint(path, made.top) == ""
    assert check(made).proved


class Port(wiring.Component):
    """One of several that differ in their number."""

    i: In(8)
    others: In(4)
    o: Out(8)
    event: Out(EVENT)

    def __init__(self, *, port):
        self._port = port
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        mask = Const(1 << self._port, 4)
        held = Signal(8)
        with m.If(self.others[self._port] | (self.others & ~mask).any()):
            m.d.sync += held.eq(self.i + self._port)
        m.d.comb += [
            self.o.eq(held ^ mask), self.event.came.eq(self.i[0]),
            self.event.kind.code.eq(held[:3]), self.event.kind.wrong.eq(held.all()),
        ]
        return m


class Ports(wiring.Component):
    """A list of them, joined to ports of the top, to a constant and to one another."""

    def __init__(self):
        super().__init__({
            "link": Out(wiring.Signature({"i": In(8), "o": Out(8), "late": Out(8)})).array(4),
            "at": In(5), "write": In(1), "o": Out(8), "bad": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        rows = [Signal(8) for _ in range(12)]
        counted = [Signal(4) for _ in range(4)]
        wrong = []
        for n, link in enumerate(self.link):
            m.submodules[f"port_{n}"] = port = Port(port=n)
            m.d.comb += [
                port.i.eq(link.i), link.o.eq(port.o),
                port.others.eq(3 if n == 2 else self.at[:4] & rows[n][:4] & counted[n]),
            ]
            m.d.sync += link.late.eq(port.o)
            with m.If(port.event.came):
                m.d.sync += counted[n].eq(counted[n] + port.event.kind.code)
            wrong.append(port.event.kind.wrong)
        with m.Switch(self.at):
            for n, row in enumerate(rows):
                with m.Case(3 + n):
                    m.d.comb += self.o.eq(row)
                    with m.If(self.write):
                        m.d.sync += row.eq(self.link[0].i ^ (2 * n + 1))
            with m.Default():
                m.d.comb += self.bad.eq(Cat(wrong).any())
        return m


def test_parts_that_differ_in_their_number_are_a_list_with_a_parameter():
    made = design(Ports)
    assert re.search(r"port #\(\.PORT\((\w)\)\) port \(", made.text)
    assert "localparam int PORT_MASK = 1 << PORT" in made.text
    checked = check(made)
    assert checked.proved, checked.why


def test_arms_of_a_case_and_fields_of_a_list_are_loops():
    text = design(Ports).text
    assert len(re.findall(r"if \(at == 5'\(k \+ 3\)\)", text)) == 2
    assert "<= counted[1] + 4'(port_event_kind_code[1]);" in text
    assert "assign {link_3_o, link_2_o, link_1_o, link_0_o} = link_o;" in text
    assert "assign {link_3_late, link_2_late, link_1_late, link_0_late} = link_late;" in text


class Shelves(wiring.Component):
    """Rows of registers, each with a flag, that move up; they are read by number."""

    go: In(3)
    i: In(4)
    at: In(6)
    o: Out(4)
    row: In(1)

    def elaborate(self, platform):
        m = Module()
        shelves = [[Signal(4, name=f"place_{k}_{n}") for n in range(5)] for k in range(3)]
        flags = [[Signal(name=f"row_{k}_{n}") for n in range(5)] for k in range(3)]
        for k, (shelf, flag) in enumerate(zip(shelves, flags, strict=True)):
            with m.If(self.go[k]):
                m.d.sync += [shelf[0].eq(self.i), flag[0].eq(self.row)]
            for n in range(4):
                with m.If(self.go[k] & flag[n]):
                    m.d.sync += shelf[n + 1].eq(shelf[n])
                m.d.sync += flag[n + 1].eq(flag[n] ^ self.row)
        with m.Switch(self.at):
            with m.Case(1):
                m.d.sync += self.o.eq(self.i)
            for k, shelf in enumerate(shelves):
                for n, place in enumerate(shelf):
                    with m.Case(9 * k + n + 2):
                        m.d.sync += self.o.eq(place)
        return m


def test_a_table_is_one_array_and_its_loops_are_nested():
    made = design(Shelves)
    # What is called as the list is not part of it, and would be mistaken for it.
    for line in ("  logic [2:0][4:0][3:0] place;", "  logic [3:0] row_0, row_1, row_2;",
                 "      default: begin", "        for (int k = 0; k < 5; k++) begin",
                 "          case (at)", "            6'(k + 11): o <= place[1][k];"):
        assert line in made.text.splitlines(), line
    checked = check(made)
    assert checked.proved, checked.why
    for old, new in (("place[1][k]", "place[2][k]"), ("6'(k + 11)", "6'(k + 12)")):
        assert check(made, made.text.replace(old, new), readers=["yosys"]).wrong


def test_loops_stand_within_loops_that_repeat_them():
    a, b = "a", "b"
    parts = []
    for m in range(3):
        for n in range(4):
            parts += [clocked(Ref(a, bits(m, 1), bits(n + 1, 1)), Ref(b, bits(m, 1), bits(n, 1))),
                      clocked(Ref(b, bits(m, 1), bits(n + 1, 1)), "c")]
        parts.append(clocked(Ref("d", bits(m, 1)), "c"))
    assert list(printed(statements(parts, {}, lambda _: False, 0))) == [
        "for (int m = 0; m < 3; m++) begin",
        "  for (int k = 0; k < 4; k++) begin",
        "    a[m][k + 1] <= b[m][k];",
        "    b[m][k + 1] <= c;",
        "  end",
        "  d[m] <= c;",
        "end",
    ]


class Ranges(wiring.Component):
    """Neighbouring values that do the same."""

    at: In(6)
    low: Out(1)
    inner: Out(1)
    outside: Out(1)

    def elaborate(self, platform):
        m = Module()
        with m.Switch(self.at):
            with m.Case(*range(20)):
                m.d.comb += self.low.eq(1)
        with m.Switch(self.at):
            with m.Case(*range(9, 31)):
                m.d.comb += self.inner.eq(1)
        with m.Switch(self.at):
            with m.Case(*range(7, 63)):
                pass
            with m.Default():
                m.d.comb += self.outside.eq(1)
        return m


def test_neighbouring_values_are_a_range():
    made = design(Ranges)
    assert "if (at <= 6'd19) low = 1'b1;" in made.text
    assert "if ((at >= 6'd9) & (at <= 6'd30)) inner = 1'b1;" in made.text
    assert "if ((at < 6'd7) | (at > 6'd62)) outside = 1'b1;" in made.text
    checked = check(made)
    assert checked.proved, checked.why


class Windows(wiring.Component):
    """Parts of elements at places that are not known."""

    at: In(2)
    i: In(8)
    o: Out(2)

    def elaborate(self, platform):
        m = Module()
        held = [Signal(8, name=f"held_{n}") for n in range(3)]
        with m.Switch(held[1][3:6]):
            with m.Case(2):
                m.d.sync += held[0].eq(self.i)
            with m.Case(3, 5):
                m.d.sync += held[2].eq(held[0])
        for one in held:
            m.d.sync += one.word_select(self.at, 2).eq(self.i[:2])
        m.d.comb += self.o.eq(
            held[0].bit_select(self.at, 2) ^ held[1].word_select(self.at, 2) ^ held[2][3:5]
        )
        return m


def test_parts_of_elements_at_unknown_places_are_proved_equal():
    made = design(Windows)
    checked = check(made)
    assert checked.proved, checked.why


def test_each_module_goes_into_a_file_of_its_own(tmp_path):
    files = apart(emit(Lanes(), name="lanes").text, tmp_path)
    assert [file.name for file in files] == ["types.sv", "lanes.sv", "lanes_lane.sv"]
    assert "typedef struct packed" in files[0].read_text()


@pytest.mark.skipif(importlib.util.find_spec("pyslang") is None, reason="needs pyslang")
def test_slang_hears_of_a_second_process(tmp_path):
    path = tmp_path / "bad.sv"
    path.write_text(
        "module bad (input logic clk, output logic o);\n"
        "initial o = 0;\nalways_ff @(posedge clk) o <= ~o;\nendmodule\n"
    )
    assert "error" in slang(path)


class Wide(wiring.Component):
    """Registers of 20 lists of bits."""

    def __init__(self, width):
        self.width = width
        super().__init__({"put": In(width), "which": In(5), "row": Out(width).array(20)})

    def elaborate(self, platform):
        m = Module()
        for n, row in enumerate(self.row):
            with m.If(self.which == n):
                m.d.sync += row.eq(self.put)
        return m


@pytest.mark.parametrize("width, whole", [(409, True), (512, False)])
def test_zeros_of_more_bits_than_linters_like_are_written_one_by_one(width, whole, tmp_path):
    text = emit(Wide(width), name="wide").text

    assert ("row <= '0" in text) == whole
    assert (f"row[k] <= {width}'d0;" in text) != whole
    if has_verilator():
        (tmp_path / "wide.sv").write_text(text)
        assert lint(tmp_path / "wide.sv", "wide") == ""

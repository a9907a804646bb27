# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Models of our own generator agree with CXXRTL; what it has no code for is left to that."""

import random
import re

import numpy as np
import pytest
from amaranth.back import rtlil as amaranth_rtlil
from amaranth.hdl import Assert, ClockDomain, Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from bench.codegen import differing, models_of
from bench.random_netlists import (
    CELLS,
    random_cells,
    random_choices,
    random_memories,
    random_registers,
    random_tree,
)
from foldwire.catalog import build
from gen import compile as compiling
from gen.cache import set_announcer
from gen.compile import compile_model, compile_rtlil
from gen.native import generate as generating
from gen.native.cells import result_of
from gen.native.generate import LARGE_CELLS
from gen.native.netlist import Cell
from gen.rtlil import DesignPort, component_ports
from gen.yosys import run_yosys
from sim.engines import registry

ROWS = 400


@pytest.fixture
def quickly_compiled(monkeypatch):
    """Without optimisation, which takes most of the time and is not what is tested."""
    monkeypatch.setenv("FOLDWIRE_CXXFLAGS", "-O0")


@pytest.fixture
def told():
    lines = []
    before = set_announcer(lines.append)
    yield lines
    set_announcer(before)


def test_every_cell_that_is_known_is_among_the_random_ones():
    known = {kind for kind in CELLS if result_of(Cell("", kind, {}, {}))}
    assert known == set(CELLS)


@pytest.mark.parametrize(
    "design",
    [
        random_cells(1, cells=len(CELLS) * 3 // 2),
        random_memories(1),
        pytest.param(random_memories(5, memories=2), marks=pytest.mark.full),
        random_tree(1, cells=15),
        random_choices(1),
        random_registers(2),
        pytest.param(random_registers(3), marks=pytest.mark.full),
    ],
    ids=["cells", "memories", "more memories", "tree", "choices", "registers", "more registers"],
)
def test_random_designs_equal_those_of_cxxrtl(design, quickly_compiled, cache):
    native, cxxrtl = models_of(*design, cache_dir=cache)
    assert (native.generator, cxxrtl.generator) == ("native", "cxxrtl")
    assert differing(native, cxxrtl, rows=ROWS, seed=1) == []


@pytest.mark.parametrize("make", [random_cells, random_tree, random_choices, random_registers])
def test_random_designs_leave_nothing_undefined(make, tmp_path):
    """Yosys, which CXXRTL's models come from, would choose; and makes more of it undefined."""
    steps = []
    for seed in range(12):
        (tmp_path / f"{seed}.il").write_text(make(seed)[0])
        steps += [f"read_rtlil {seed}.il", "hierarchy -top fw_top", "flatten", "opt_expr",
                  f"write_rtlil {seed}.out.il", "design -reset"]
    run_yosys(steps, cwd=tmp_path)
    for seed in range(12):
        lines = (tmp_path / f"{seed}.out.il").read_text().splitlines()
        undefined = [line for line in lines if re.search(r"^ *connect .*'[01]*x", line)]
        assert not undefined, seed


@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("width", [1, 7, 40, 90])
def test_quotients_and_remainders_are_rounded_down_before_they_are_cut(
    signed, width, quickly_compiled, cache
):
    sizes = {"a": 70, "b": 33}
    parameters = {"A_SIGNED": signed, "A_WIDTH": 70, "B_SIGNED": signed, "B_WIDTH": 33,
                  "Y_WIDTH": width}
    text = "\n".join([
        "attribute \\top 1\nmodule \\fw_top",
        *(f"  wire width {size} input {n + 1} \\{name}"
          for n, (name, size) in enumerate(sizes.items())),
        f"  wire width {width} output 3 \\q\n  wire width {width} output 4 \\r",
        *(_cell(kind, f"${kind[1:]}", {"A": "\\a", "B": "\\b", "Y": f"\\{out}"}, **parameters)
          for kind, out in (("$divfloor", "q"), ("$modfloor", "r"))),
        "end\n",
    ])
    ports = [*(DesignPort(name=name, width=size, is_input=True) for name, size in sizes.items()),
             *(DesignPort(name=name, width=width, is_input=False) for name in "qr")]
    model = compile_rtlil(text, ports, name="floor", cache_dir=cache, generator="native")

    rng = random.Random(width)
    with model.instance() as instance:
        for _ in range(200):
            values = {name: rng.getrandbits(size) >> rng.randrange(size)
                      for name, size in sizes.items()}
            values["b"] |= 1
            for name, value in values.items():
                instance.set(name, value)
            a, b = (value - (signed << sizes[name] if value >> sizes[name] - 1 else 0)
                    for name, value in values.items())
            low = (1 << width) - 1
            assert (instance.get("q"), instance.get("r")) == (a // b & low, a % b & low), (a, b)


def _cell(kind, name, ports, **parameters):
    lines = [f"  cell {kind} {name}"]
    lines += [f"    parameter \\{key} {value}" for key, value in parameters.items()]
    lines += [f"    connect \\{key} {value}" for key, value in ports.items()]
    return "\n".join([*lines, "  end"])


def _crossing():
    """RTLIL of a module of which one output goes back into it: no loop by bits, one by ports.

    The rest of it makes it large enough to be kept apart.
    """
    unary = {"A_SIGNED": 0, "A_WIDTH": 1, "Y_WIDTH": 1}
    binary = {"A_SIGNED": 0, "A_WIDTH": 8, "B_SIGNED": 0, "B_WIDTH": 8, "Y_WIDTH": 8}
    chain = [f"  wire width 8 \\c{step}" for step in range(1, LARGE_CELLS + 1)]
    chain += [
        _cell("$add", f"$a{step}", {"A": f"\\c{step}", "B": f"{{ \\c{step} [6:0] 1'1 }}",
                                   "Y": f"\\c{step + 1}"}, **binary)
        for step in range(LARGE_CELLS)
    ]
    inner = "\n".join([
        "module \\inner",
        "  wire width 1 input 1 \\clk\n  wire width 2 input 2 \\x",
        "  wire width 2 output 3 \\o\n  wire width 8 output 4 \\c0",
        *chain,
        _cell("$dff", "$d", {"CLK": "\\clk", "D": f"\\c{LARGE_CELLS}", "Q": "\\c0"},
              WIDTH=8, CLK_POLARITY=1),
        *[_cell("$not", f"$n{n}", {"A": f"\\x [{n}]", "Y": f"\\o [{n}]"}, **unary)
          for n in range(2)],
        "end",
    ])
    top = "\n".join([
        "attribute \\top 1\nmodule \\fw_top",
        "  wire width 1 input 1 \\clk\n  wire width 1 input 2 \\a",
        "  wire width 2 output 3 \\o\n  wire width 8 output 4 \\large",
        _cell("\\inner", "\\inner", {"clk": "\\clk", "x": "{ \\o [0] \\a }", "o": "\\o",
                                      "c0": "\\large"}),
        "end\n",
    ])
    ports = [
        DesignPort(name=name, width=width, is_input=name == "a")
        for name, width in (("a", 1), ("o", 2), ("large", 8))
    ]
    return f"{top}\n{inner}\n", ports


def test_a_module_that_would_make_a_loop_is_dissolved(quickly_compiled, cache, monkeypatch):
    dissolved = []

    def run_yosys(steps, *, cwd, meanwhile):
        steps_ = dict(step for step in steps if not isinstance(step, str))
        dissolved.append(steps_["keep_large"]["dissolved"])
        return compiling.run_yosys(steps, cwd=cwd)

    monkeypatch.setattr(generating, "run_yosys", run_yosys)
    model = compile_rtlil(*_crossing(), name="crossing", cache_dir=cache, generator="native")
    assert dissolved == [[], ["inner"]]
    instance = model.instance()
    for value in (0, 1, 1, 0):
        instance.set("a", value)
        assert instance.get("o") == (1 - value | value << 1)


def test_modules_inside_have_names_of_their_own_however_many_cells_there_are(
    quickly_compiled, cache, monkeypatch
):
    """Members are numbered by cell, and numbers such as 64 made them names of types."""
    monkeypatch.setattr(generating, "LARGE_CELLS", 0)
    m, last = Module(), Signal(8)
    first = last
    for n in range(66):
        inner, following = Module(), Signal(8, name=f"value_{n}")
        inner.d.sync += following.eq(last + (n + 1))
        m.submodules[f"inner_{n}"] = inner
        last = following
    source = amaranth_rtlil.convert(m, ports=[first, last], name="fw_top", emit_src=False)
    ports = [
        DesignPort(name=each.name, width=8, is_input=each is first) for each in (first, last)
    ]
    compile_rtlil(source, ports, name="many", cache_dir=cache, generator="native")


def test_a_long_chain_of_choices_is_not_nested_without_end(quickly_compiled, cache, monkeypatch):
    """The lowest select that is set wins among 600, each with a value of its own."""
    count = 600
    texts = []

    def write_model(*arguments):
        files = write(*arguments)
        texts.extend(files.values())
        return files

    write = generating.write_model
    monkeypatch.setattr(generating, "write_model", write_model)
    wires = [f"  wire width 16 \\v{n}" for n in range(count + 1)]
    cells = []
    for n in range(count):
        # The other arm is a sum that nothing else reads, so that it is worth a branch.
        cells.append(_cell("$add", f"$a{n}", {"A": f"\\v{n + 1}", "B": "16'1", "Y": f"\\s{n}"},
                           A_SIGNED=0, A_WIDTH=16, B_SIGNED=0, B_WIDTH=16, Y_WIDTH=16))
        cells.append(_cell("$mux", f"$m{n}", {"A": f"\\s{n}", "B": f"16'{n:016b}",
                                              "S": f"\\select [{n}]", "Y": f"\\v{n}"}, WIDTH=16))
        wires.append(f"  wire width 16 \\s{n}")
    text = "\n".join(["attribute \\top 1\nmodule \\fw_top",
                      f"  wire width {count} input 1 \\select\n  wire width 16 output 2 \\o",
                      *wires, *cells, f"  connect \\v{count} 16'0", "  connect \\o \\v0", "end\n"])
    ports = [DesignPort(name="select", width=count, is_input=True),
             DesignPort(name="o", width=16, is_input=False)]

    model = compile_rtlil(text, ports, name="chain", cache_dir=cache, generator="native")

    depth = deepest = 0
    for brace in "".join(texts):
        depth += (brace == "{") - (brace == "}")
        deepest = max(deepest, depth)
    assert model.generator == "native" and 20 < deepest < 40
    instance = model.instance()
    for first in (0, 1, 29, 30, 31, 299, 598, 599):
        instance.set("select", 1 << first | 1 << 599)
        assert instance.get("o") == 2 * first
    instance.set("select", 0)
    assert instance.get("o") == count


LOOP = """
attribute \\top 1
module \\fw_top
  wire width 1 input 1 \\a
  wire width 1 output 2 \\o
  cell $and $held
    parameter \\A_SIGNED 0
    parameter \\A_WIDTH 1
    parameter \\B_SIGNED 0
    parameter \\B_WIDTH 1
    parameter \\Y_WIDTH 1
    connect \\A \\a
    connect \\B \\o
    connect \\Y \\o
  end
end
"""


def test_a_real_loop_is_left_to_cxxrtl_with_a_message(quickly_compiled, cache, told):
    ports = [
        DesignPort(name="a", width=1, is_input=True),
        DesignPort(name="o", width=1, is_input=False),
    ]
    model = compile_rtlil(LOOP, ports, name="held", cache_dir=cache, generator="native")
    assert model.generator == "cxxrtl" and not model.single_pass
    why = "no native code for a loop through logic in module fw_top; CXXRTL takes its place"
    assert f"held: {why}" in told


class Checked(wiring.Component):
    """A statement that has no meaning for a model."""

    a: In(4)
    o: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += Assert(self.a != 9)
        m.d.sync += self.o.eq(self.a + 1)
        return m


def test_what_has_no_native_code_is_left_to_cxxrtl_with_a_message(quickly_compiled, cache, told):
    first, again = (
        compile_model(Checked(), name="checked", cache_dir=cache, generator="native")
        for _ in range(2)
    )
    assert first.generator == "cxxrtl" and first.path == again.path
    line = "checked: no native code for cell $check; CXXRTL takes its place"
    assert told.count(line) == 2  # not only when it is compiled


class Falling(wiring.Component):
    a: In(4)
    o: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain(clk_edge="neg")
        m.d.sync += self.o.eq(self.a)
        return m


def test_a_falling_edge_is_refused(cache):
    with pytest.raises(ValueError, match=r"^Falling: clock domain 'sync' has a falling edge"):
        compile_model(Falling(), cache_dir=cache, generator="native")
    component = Falling()
    text = amaranth_rtlil.convert(component, name="fw_top", emit_src=False)
    with pytest.raises(ValueError, match="rising edges; this one has negative edges"):
        compile_rtlil(text, component_ports(component), cache_dir=cache, generator="native")


def test_the_generator_is_chosen_by_argument_or_environment(mixed, cache, monkeypatch):
    monkeypatch.setenv("FOLDWIRE_CXXFLAGS", "-O0")
    monkeypatch.setenv("FOLDWIRE_MODELS", "cxxrtl")
    assert compile_model(mixed, name="mixed", cache_dir=cache).generator == "cxxrtl"
    monkeypatch.delenv("FOLDWIRE_MODELS")
    assert compile_model(mixed, name="mixed", cache_dir=cache).generator == "native"
    monkeypatch.setenv("FOLDWIRE_MODELS", "verilator")
    with pytest.raises(ValueError, match="FOLDWIRE_MODELS must be native or cxxrtl, not 'veri"):
        compile_model(mixed, cache_dir=cache)
    with pytest.raises(ValueError, match="generator must be native or cxxrtl, not 'nativ'"):
        compile_model(mixed, cache_dir=cache, generator="nativ")


def test_the_same_design_gives_the_same_text(mixed, tmp_path):
    texts = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        source = compiling._source(type(mixed)())
        (folder / "model.il").write_text(source.rtlil)
        (folder / "macros.v").write_text(source.macros)
        texts.append(compiling._by_ourselves(folder, source).files)
    assert texts[0] == texts[1]
    assert "// folded" in texts[0]["model.h"]  # registers say what they are called in the source


def test_inputs_that_stay_are_not_taken_for_no_clock(mixed, cache):
    """Nothing is skipped that a register still changes."""
    instance = compile_model(mixed, name="mixed", cache_dir=cache, generator="native").instance()
    instance.set("step", 3)
    seen = instance.run({"data": np.zeros(5, int)}, ["follows_input"])["follows_input"]
    assert len(set(seen.tolist())) == 5


class Rewritten(wiring.Component):
    """A memory that is written in every cycle, as the rows of queues are."""

    i: In(70)
    mask: In(2)
    o: Out(70)

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=unsigned(70), depth=4, init=[])
        write, read = memory.write_port(granularity=35), memory.read_port(domain="comb")
        m.d.comb += [write.data.eq(self.i), write.en.eq(self.mask), self.o.eq(read.data)]
        return m


@pytest.mark.parametrize("lanes", [1, 2])
def test_writes_that_change_nothing_wake_nobody(lanes, quickly_compiled, cache):
    instance = compile_model(Rewritten(), cache_dir=cache, lanes=lanes).instance()
    instance.set("mask", 3)
    for value in (0, 5, 5 << 35 | 7, 1 << 69):
        instance.set("i", value)
        instance.cycle()  # the row changes
        assert not instance.idle or value == 0
        instance.cycle()
        assert instance.idle
        assert instance.get("o") == value
    instance.set("mask", 1)
    instance.set("i", 9)
    assert not instance.idle
    instance.cycle(1 << 60)  # what is idle takes no time
    assert instance.idle and instance.get("o") == 1 << 69 | 9
    for wrong in (-1, 1 << 64):
        with pytest.raises(ValueError, match=rf"n must be from 0 to 2\*\*64 - 1, not {wrong}$"):
            instance.cycle(wrong)
    instance.close()
    with pytest.raises(ValueError, match="this instance is closed"):
        instance.idle  # noqa: B018


def test_cxxrtl_does_not_know_what_is_idle(mixed, cache):
    instance = compile_model(mixed, name="mixed", cache_dir=cache, generator="cxxrtl").instance()
    instance.cycle(5)
    assert not instance.idle


@pytest.mark.parametrize(
    "name", [name for record in registry.records() for name in record.blueprints]
)
def test_engines_without_work_are_idle(name):
    design = build(name, "test", {})
    instance = compile_model(design.component, name=design.top).instance()
    instance.set("rst", 1)
    instance.cycle(2)
    instance.set("rst", 0)
    instance.cycle(200)
    assert instance.idle


def test_sums_of_registers_that_are_not_zero_survive_the_optimiser(cache):
    """With the flags that users get: GCC 12.2 at -O2 made 255 of a sum that is 1."""

    class Nonzero(wiring.Component):
        i: In(5).array(8)
        o: Out(8)
        some: Out(1).array(8)

        def elaborate(self, platform):
            m = Module()
            held = [Signal(5, name=f"held_{n}") for n in range(8)]
            m.d.sync += [mine.eq(given) for mine, given in zip(held, self.i, strict=True)]
            some = [mine != 0 for mine in held]
            m.d.comb += [out.eq(bit) for out, bit in zip(self.some, some, strict=True)]
            m.d.comb += self.o.eq(sum(some))
            return m

    instance = compile_model(Nonzero(), name="nonzero", cache_dir=cache).instance()
    rng = np.random.default_rng(1)
    given = {f"i_{n}": rng.integers(0, 2, 200) * rng.integers(0, 32, 200) for n in range(8)}
    seen = instance.run(given, ["o"])["o"]
    wanted = sum((values != 0).astype(int) for values in given.values())
    assert seen.tolist() == wanted.tolist()

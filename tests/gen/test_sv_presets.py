# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Presets as SystemVerilog: three readers have nothing to say, and small ones are proved."""

import importlib.util
import re

import pytest

from bench._handoff_patterns import found
from bench._proofs import preset
from bench.verilog import lint, slang
from foldwire.catalog import CATALOG, build
from foldwire.cli import main
from gen.sv.proof import check, questions, read
from gen.sv.question import prove
from gen.verilator import has_verilator
from gen.verilog import emit_files
from gen.yosys import run_yosys
from tests.families import full

SMALL = ("ace/test", "switch/test", "adder/binary32", "alu/4-lanes")
PRESETS = [f"{name}/{preset}" for name, entry in CATALOG.items() for preset in entry.presets]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(each, marks=[] if each in SMALL else [pytest.mark.full]) for each in PRESETS
    ],
)
def emitted(request, tmp_path_factory):
    """The file of a preset, and the name of its top module."""
    made = build(*request.param.split("/"), {})
    folder = tmp_path_factory.mktemp("sv")
    (path, _) = emit_files(made.component, folder, name=made.top, header=made.parameters)
    return path, made.top


def test_the_small_presets_are_presets():
    assert set(SMALL) < set(PRESETS)


def test_verilator_says_nothing(emitted):
    if not has_verilator():
        pytest.skip("needs Verilator")
    assert lint(*emitted) == ""


def test_slang_says_nothing(emitted):
    if importlib.util.find_spec("pyslang") is None:
        pytest.skip("needs pyslang")
    assert slang(emitted[0]) == ""


def test_a_reviewer_finds_nothing_to_object_to(emitted):
    text = emitted[0].read_text(encoding="utf-8")
    assert {pattern: count for pattern, count in found(text).items() if count} == {}


def test_yosys_says_nothing(emitted):
    path, top = emitted
    log = run_yosys(
        [f"read_verilog -sv {path.name}", f"hierarchy -check -top {top}", "proc", "check -assert"],
        cwd=path.parent,
    )
    assert re.findall(r"^.*(?:Warning|ERROR):.*$", log, re.M) == []


@pytest.mark.parametrize("name", [
    "adder/binary16", "alu/4-lanes",
    *full(each for each in PRESETS if each.endswith("/test")),
])
def test_a_preset_is_proved_as_it_is_emitted(name):
    made = preset(name)
    checked = check(made, timeout=900)
    assert checked.proved, checked.why
    assert checked.parts == sum(1 for _ in made.record.all())


@pytest.mark.full
def test_messages_to_several_fsms_are_proved_as_they_are_emitted():
    """The top of an engine, where loops move them with a bit for each FSM."""
    made = preset("ace/ring")

    modules = read(made.text, made.top, "yosys")
    asked = questions(made.modules, modules, made.top, made.record)
    (top,) = [key for key, (_, path) in asked.places.items() if path == made.top]

    assert asked.wrong == []
    assert prove(asked.questions[top]).proved


@pytest.mark.full
@pytest.mark.skipif(not has_verilator(), reason="needs Verilator")
def test_the_small_switch_with_16_ports_is_lint_clean(tmp_path):
    assert main(["gen", "switch", "--ports", "16", "-o", str(tmp_path)]) == 0

    path = tmp_path / "switch_test.sv"
    assert "//   ports = 16\n" in path.read_text()
    assert lint(path, "switch_test") == ""
    if importlib.util.find_spec("pyslang") is not None:
        assert slang(path) == ""


@pytest.mark.skipif(not has_verilator(), reason="needs Verilator")
def test_a_width_that_does_not_fit_is_heard_of(tmp_path):
    path = tmp_path / "bad.sv"
    path.write_text("module bad (input logic [3:0] a, output logic o); assign o = a; endmodule\n")
    assert "WIDTH" in lint(path, "bad")


@pytest.mark.skipif(importlib.util.find_spec("pyslang") is None, reason="needs pyslang")
def test_a_name_that_is_not_declared_is_heard_of(tmp_path):
    path = tmp_path / "bad.sv"
    path.write_text("module bad (output logic o); assign o = a; endmodule\n")
    assert "error" in slang(path)

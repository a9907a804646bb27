# SPDX-License-Identifier: Apache-2.0
"""Manifests and descriptions that are handed over, read by the tools that they are for."""

import json
import shutil

import pytest

from bench import _manifests
from foldwire.catalog import build
from foldwire.cli import main
from foldwire.emission import write_verilog
from foldwire.handoff.ipxact import ip_xact
from foldwire.handoff.packages import sources_of
from foldwire.handoff.rdl import system_rdl
from foldwire.handoff.write import licence_text

ENGINES = ("ace", "smartnic", "switch", "switch-dma")
WRITTEN = ("adder", "ace")


@pytest.fixture(scope="module")
def designs():
    return {name: build(name, None, {}) for name in ("adder", *ENGINES)}


@pytest.fixture(scope="module")
def folder(designs, tmp_path_factory):
    """One folder for two designs; the first one is also alone in another."""
    made = tmp_path_factory.mktemp("handed")
    write_verilog(designs["adder"], made / "alone")
    for name in WRITTEN:
        write_verilog(designs[name], made / "all")
    return made


def manifest(folder, top):
    return json.loads((folder / f"{top}.json").read_text())


def sources(folder, top):
    return sources_of((folder / f"{top}.f").read_text())


def changed(folder, tmp_path, name, pattern, replacement):
    """A copy of *folder* with a fault in a file."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    text = (copy / name).read_text()
    assert pattern in text
    (copy / name).write_text(text.replace(pattern, replacement, 1))
    return copy


@pytest.mark.parametrize("name", WRITTEN)
def test_fusesoc_lists_the_core_and_exports_its_sources(name, designs, folder, tmp_path):
    top, place = designs[name].top, folder / "all"

    assert _manifests.fusesoc(place, top, sources(place, top), tmp_path) == []


@pytest.mark.parametrize(("pattern", "replacement"), [
    ("files: [adder_binary32.sv]", "files: [adder.sv]"),
    ("filesets: [rtl, waivers]", "filesets: 7"), ("CAPI=2:", "CAPI=1:"),
])
def test_a_fault_of_a_core_file_is_found(pattern, replacement, folder, tmp_path):
    place = changed(folder / "alone", tmp_path, "adder_binary32.core", pattern, replacement)
    (tmp_path / "scratch").mkdir()

    assert _manifests.fusesoc(
        place, "adder_binary32", ["adder_binary32.sv"], tmp_path / "scratch")


def test_benders_manifest_has_all_designs_of_the_folder(designs, folder, tmp_path):
    assert _manifests.bender(folder / "alone", {"adder_binary32": ["adder_binary32.sv"]}) == []
    tops = [designs[name].top for name in WRITTEN]
    assert _manifests.bender(
        folder / "all", {top: sources(folder / "all", top) for top in tops}) == []
    for number, (pattern, replacement) in enumerate([
        ("sources:", "source:"), ("  name:", "  title:"), ("  - adder_b", "  - adder_c"),
        ("package:", "package: ["),
    ]):
        place = tmp_path / str(number)
        place.mkdir()
        faulty = changed(folder / "alone", place, "Bender.yml", pattern, replacement)
        assert _manifests.bender(faulty, {"adder_binary32": ["adder_binary32.sv"]}), pattern


@pytest.mark.parametrize("name", ENGINES)
def test_descriptions_of_registers_are_the_register_map(name, designs, tmp_path):
    registers, top = designs[name].registers, designs[name].top
    about = {"name": top, "style": "sv", "clock": "clk", "reset": None, "ports": []}
    (tmp_path / "it.rdl").write_text(system_rdl(registers, name=top))
    (tmp_path / "it.xml").write_text(ip_xact(registers, about, [f"{top}.sv"]))

    assert _manifests.system_rdl(tmp_path / "it.rdl", top, registers) == []
    assert _manifests.ip_xact(tmp_path / "it.xml", registers, about) == []


def test_ports_and_buses_of_the_component_are_those_of_the_manifest(designs, folder):
    place = folder / "all"

    assert _manifests.ip_xact(
        place / "ace_test.xml", designs["ace"].registers, manifest(place, "ace_test")) == []


def test_a_design_without_registers_is_a_component_too(folder):
    place = folder / "alone"
    assert _manifests.ip_xact(
        place / "adder_binary32.xml", None, manifest(place, "adder_binary32")) == []
    assert not (place / "adder_binary32.rdl").exists()


RDL_FAULTS = [
    ("\\elements @ 0x48", "\\elements @ 0x148"), ("\\rank [16:0]", "\\rank [15:0]"),
    ("= 4'h2;", "= 4'h3;"), ("onwrite = woclr; ", ""), ("sw = w; hw = r;", "sw = rw; hw = r;"),
    ("\\damaged [2]", "\\damaged [3]"), ("\\SUM_F32 = 2'd0", "\\SUM_F32 = 2'd4"),
    ("addrmap ace_test {", "addrmap {"),
]
XML_FAULTS = [
    ("addressOffset>'h48<", "addressOffset>'h4a<"), ("bitWidth>17<", "bitWidth>16<"),
    ("value>'h2<", "value>'h3<"), ("oneToClear", "oneToSet"), ("write-only", "read-write"),
    ("dim>2<", "dim>3<"), ("left>11<", "left>12<"), ("name>csr_wdata<", "name>csr_data<"),
    ("direction>out<", "direction>in<"), ("name>mem_0<", "name>memory<"),
]


@pytest.mark.parametrize(("pattern", "replacement"), RDL_FAULTS)
def test_a_fault_of_system_rdl_is_found(pattern, replacement, designs, folder, tmp_path):
    place = changed(folder / "all", tmp_path, "ace_test.rdl", pattern, replacement)

    assert _manifests.system_rdl(place / "ace_test.rdl", "ace_test", designs["ace"].registers)


@pytest.mark.parametrize(("pattern", "replacement"), XML_FAULTS)
def test_a_fault_of_ip_xact_is_found(pattern, replacement, designs, folder, tmp_path):
    place = changed(folder / "all", tmp_path, "ace_test.xml", pattern, replacement)

    assert _manifests.ip_xact(
        place / "ace_test.xml", designs["ace"].registers, manifest(place, "ace_test"))


def test_the_licence_lies_in_the_folder(folder):
    text = (folder / "alone" / "LICENSES" / "Apache-2.0.txt").read_text()

    assert text == licence_text()
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text


def test_a_package_of_somebody_else_is_not_overwritten(designs, tmp_path):
    theirs = "package:\n  name: magic-chip\n"
    (tmp_path / "Bender.yml").write_text(theirs)

    with pytest.raises(ValueError, match="is there already and not of Foldwire"):
        write_verilog(designs["adder"], tmp_path)

    assert (tmp_path / "Bender.yml").read_text() == theirs


def test_manifests_of_a_split_design_have_what_its_sources_include(tmp_path):
    assert main(["gen", "alu", "--preset", "4-lanes", "--split", "-o", str(tmp_path / "rtl")]) == 0
    folder = tmp_path / "rtl"
    top = "alu_4_lanes"
    first, *files = (folder / f"{top}.f").read_text().split()
    assert first == "+incdir+." and len(files) > 1
    core = (folder / f"{top}.core").read_text()
    assert f"{top}_types.svh: {{is_include_file: true}}" in core
    assert not _manifests.fusesoc(folder, top, [*files, f"{top}_types.svh"], tmp_path)
    assert "include_dirs: [.]" in (folder / "Bender.yml").read_text()
    assert not _manifests.bender(folder, {top: files})

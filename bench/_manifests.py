# SPDX-License-Identifier: Apache-2.0
"""Files that are handed over, read by the tools that they are for, and compared with the design.

Each check returns what is wrong, a line each.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from hw.common.register_map import WORD_BYTES, RegisterMap

__all__ = ["bender", "fusesoc", "ip_xact", "system_rdl"]

_Registers = dict[str, tuple[int, int | None, list[tuple[Any, ...]]]]
"""Offset, elements and fields of each register; of a field name, place, bits, reset, access."""

_SOFTWARE = {"rw": ("rw", None), "ro": ("r", None), "wo": ("w", None), "w1c": ("rw", "woclr")}


# ---- FuseSoC.


def fusesoc(folder: Path, top: str, sources: Sequence[str], scratch: Path) -> list[str]:
    """FuseSoC finds the core and exports its sources for each target."""
    name = next(iter(_lines(folder / f"{top}.core", "name:")), "")
    listed = _fusesoc(folder, scratch, "core", "list")
    if name not in listed.stdout:
        return [f"fusesoc does not list {name!r}: {(listed.stdout + listed.stderr)[-500:]}"]
    problems = []
    for target, files in (("lint", [*sources, f"{top}.vlt"]), ("synth", [*sources, f"{top}.sdc"])):
        build = scratch / f"{top}-{target}"
        tool = [] if target == "lint" else ["--tool", "vivado"]
        done = _fusesoc(
            folder, scratch, "run", "--setup", "--no-export", f"--build-root={build}",
            f"--target={target}", *tool, name,
        )
        made = "\n".join(path.read_text() for path in build.rglob("*.eda.yml"))
        missing = [file for file in files if file not in made]
        if done.returncode != 0 or missing:
            problems.append(f"{target}: {missing or 'refused'}: {done.stderr[-500:]}")
        missing = [file for file in files if not (folder / file).is_file()]
        problems += [f"{target}: no file {file}" for file in missing]
    return problems


def _fusesoc(folder: Path, scratch: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("fusesoc")
    # Neither the user's libraries nor what a build leaves in a folder.
    environment = {**os.environ, "HOME": str(scratch), "XDG_CONFIG_HOME": str(scratch)}
    (scratch / "fusesoc.conf").touch()
    command = [str(program), "--config", str(scratch / "fusesoc.conf"), "--cores-root", str(folder)]
    return subprocess.run(
        [*command, *arguments], cwd=scratch, env=environment, capture_output=True, text=True
    )


def _lines(path: Path, key: str) -> Iterator[str]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(key):
            yield line.removeprefix(key).strip()


# ---- Bender.

_MANIFEST = {"package", "remotes", "dependencies", "dev_dependencies", "sources", "plugins",
             "export_include_dirs", "frozen", "workspace", "vendor_package"}
_GROUP = {"target", "include_dirs", "defines", "files"}


def bender(folder: Path, designs: Mapping[str, Sequence[str]]) -> list[str]:
    """The manifest is as its documentation has it, and has the sources of `designs`."""
    import yaml

    try:
        manifest = yaml.safe_load((folder / "Bender.yml").read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        return [f"no YAML: {error}"]
    problems = [f"unknown key {key!r}" for key in set(manifest) - _MANIFEST]
    name = manifest.get("package", {}).get("name")
    if not isinstance(name, str):
        problems.append(f"package.name must be a string, not {name!r}")
    found: dict[Any, list[str]] = {}
    for source in manifest.get("sources", []):
        group: Any = {"files": [source]} if isinstance(source, str) else source
        problems += [f"unknown key {key!r} of sources" for key in set(group) - _GROUP]
        found.setdefault(group.get("target"), []).extend(group.get("files", []))
    expected = {(top if len(designs) > 1 else None): [*each] for top, each in designs.items()}
    if found != expected:
        problems.append(f"sources must be {expected}, not {found}")
    return problems + [
        f"no file {file}" for files in found.values() for file in files
        if not (folder / file).is_file()
    ]


# ---- Registers.


def system_rdl(path: Path, top: str, registers: RegisterMap) -> list[str]:
    """systemrdl-compiler elaborates the same registers."""
    from systemrdl import RDLCompileError, RDLCompiler

    printer = _Quiet()
    compiler = RDLCompiler(message_printer=printer)
    try:
        compiler.compile_file(str(path))
        found = _elaborated(compiler.elaborate(top_def_name=top).top)
    except RDLCompileError as error:
        return [f"refused: {error}; {printer.said}"]
    return _differences(found, registers)


def ip_xact(path: Path, registers: RegisterMap | None, manifest: Mapping[str, Any]) -> list[str]:
    """peakrdl-ipxact imports the same registers; ports and buses are those of the design."""
    from peakrdl_ipxact import IPXACTImporter
    from systemrdl import RDLCompileError, RDLCompiler

    problems = _ports(path, manifest)
    if registers is not None:
        problems += _accesses(path, registers)
        printer = _Quiet()
        compiler = RDLCompiler(message_printer=printer)
        try:
            IPXACTImporter(compiler).import_file(str(path))
            found = _elaborated(compiler.elaborate().top)
        except (RDLCompileError, ValueError) as error:
            return [*problems, f"refused: {error}; {printer.said}"]
        problems += _differences(found, registers)
    return problems


class _Quiet:
    """Keeps messages of the compiler."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def print_message(self, severity: Any, text: str, src_ref: Any) -> None:
        self.said.append(text)


def _elaborated(top: Any) -> _Registers:
    from systemrdl.node import RegNode

    found: _Registers = {}
    for node in top.descendants(unroll=False):
        if isinstance(node, RegNode):
            assert node.get_property("regwidth") == 8 * WORD_BYTES
            count = None
            if node.is_array:
                (count,) = node.array_dimensions
                assert node.array_stride == WORD_BYTES
            fields = [
                (
                    each.inst_name, each.lsb, each.width, each.get_property("reset"),
                    each.get_property("sw").name,
                    getattr(each.get_property("onwrite"), "name", None),
                    _encoded(each.get_property("encode")),
                )
                for each in node.fields()
            ]
            place = node.parent.absolute_address + node.raw_address_offset
            found[node.inst_name] = place, count, fields
    return found


def _encoded(enumeration: Any) -> dict[str, int]:
    return {} if enumeration is None else {each.name: each.value for each in enumeration}


def _differences(found: _Registers, registers: RegisterMap) -> list[str]:
    expected: _Registers = {}
    for entry in registers.to_dict()["registers"]:
        fields = [
            (field["name"], field["lsb"], field["width"], field["init"],
             *_SOFTWARE[entry["access"]], field["choices"])
            for field in entry["fields"]
        ]
        expected[entry["name"]] = entry["offset"], entry["count"], fields
    return [
        f"{name} must be {expected.get(name)}, not {found.get(name)}"
        for name in {**expected, **found} if expected.get(name) != found.get(name)
    ]


# ---- Component.


def _accesses(path: Path, registers: RegisterMap) -> list[str]:
    """Access of whole registers, which importers take from their fields."""
    tree = ElementTree.parse(path)
    space = {"x": tree.getroot().tag[1:].partition("}")[0]}
    found = {
        each.findtext("x:name", "", space): each.findtext("x:access", "", space)
        for each in tree.iterfind(".//x:register", space)
    }
    words = {"rw": "read-write", "w1c": "read-write", "ro": "read-only", "wo": "write-only"}
    return [
        f"access of {name} must be {words[register.access]}, not {found.get(name)!r}"
        for name, register in registers.registers.items()
        if found.get(name) != words[register.access]
    ]


def _ports(path: Path, manifest: Mapping[str, Any]) -> list[str]:
    tree = ElementTree.parse(path)
    space = {"x": tree.getroot().tag[1:].partition("}")[0]}

    def text(of: Any, where: str) -> str:
        return str(of.findtext(where, "", space))

    found = {}
    for port in tree.iterfind("x:model/x:ports/x:port", space):
        left = text(port, "x:wire/x:vectors/x:vector/x:left") or "0"
        found[text(port, "x:name")] = int(left) + 1, text(port, "x:wire/x:direction") == "in"
    expected = {port["name"]: (port["width"], port["is_input"]) for port in manifest["ports"]}
    if manifest["clock"]:
        expected[manifest["clock"]] = 1, True
    if manifest["reset"]:
        expected[manifest["reset"]["port"]] = 1, True
    problems = [] if found == expected else [f"ports must be {expected}, not {found}"]
    mapped = [
        text(each, "x:physicalPort/x:name") for each in tree.iterfind(".//x:portMap", space)
    ]
    problems += [f"a bus has {name!r}, which is no port" for name in mapped if name not in expected]
    interfaces = tree.iterfind("x:busInterfaces/x:busInterface", space)
    buses = {text(each, "x:name") for each in interfaces}
    wanted = {
        name.rpartition("_")[0] for name in expected if name.endswith(("_awaddr", "_tdata"))
    }
    return problems if buses == wanted else [*problems, f"buses must be {wanted}, not {buses}"]

# SPDX-License-Identifier: Apache-2.0
"""Manifests of package managers for hardware: FuseSoC's core file and Bender's package."""

from collections.abc import Iterable, Mapping, Sequence

from foldwire.version import __version__

__all__ = ["VENDOR", "bender_package", "fusesoc_core", "is_own_package", "sources_of"]

VENDOR = "foldwire"
LIBRARY = "rtl"
_LICENCE = "# SPDX-License-Identifier: Apache-2.0\n"


def fusesoc_core(
    top: str, sources: Sequence[str], *, summary: str, included: Sequence[str] = (),
    others: Iterable[str] = (),
) -> str:
    """FuseSoC's core file (CAPI 2) of the module `top`; `included`: files that sources include,
    `others`: files that are no sources.

    Targets: ``default`` for other cores, ``lint`` by Verilator, ``synth`` with the constraints.
    """
    kind = "systemVerilogSource" if sources[0].endswith(".sv") else "verilogSource-2005"
    filesets = {
        "rtl": (kind, [*(f"{each}: {{is_include_file: true}}" for each in included), *sources]),
        "waivers": ("vlt", [f"{top}.vlt"]),
        "sdc": ("SDC", [f"{top}.sdc"]),
        "xdc": ("xdc", [f"{top}.sdc"]),
        "others": ("user", list(others)),
    }
    lines = [
        "CAPI=2:", _LICENCE, f"name: {VENDOR}:{LIBRARY}:{top}:{__version__}",
        f"description: {summary}", "license: Apache-2.0", "", "filesets:",
    ]
    for name, (file_type, files) in filesets.items():
        if files:
            listed = ", ".join(files)
            lines += [f"  {name}:", f"    files: [{listed}]", f"    file_type: {file_type}"]
    lines += [
        "", "targets:",
        "  default:",
        "    filesets: [rtl]",
        f"    toplevel: {top}",
        "  lint:",
        "    filesets: [rtl, waivers]",
        f"    toplevel: {top}",
        "    flow: lint",
        "    flow_options:",
        "      tool: verilator",
        "      verilator_options: [-Wall]",
        "  synth:  # Vivado reads the same constraints as XDC",
        '    filesets: [rtl, "tool_vivado ? (xdc)", "!tool_vivado ? (sdc)"]',
        f"    toplevel: {top}",
    ]
    return "\n".join(lines) + "\n"


def bender_package(designs: Mapping[str, Sequence[str]], *, includes: bool = False) -> str:
    """Bender's manifest of a folder; `designs`: sources of each, by its top module. With *includes*
    some of them include files of the folder.

    Several designs may have SRAM macros of one name: each is then under a target of its own name.
    """
    lines = [
        f"{_LICENCE.rstrip()}", "package:",
        f"  name: {VENDOR}_{next(iter(designs)) if len(designs) == 1 else LIBRARY}",
        f"  description: \"{', '.join(designs)}: emitted by Foldwire {__version__}\"",
        "", "sources:",
    ]
    for top, sources in designs.items():
        keys = [f"target: {top}"] if len(designs) > 1 else []
        keys += ["include_dirs: [.]"] if includes else []
        if keys:
            first, *rest = [*keys, "files:"]
            lines += [f"  - {first}", *(f"    {key}" for key in rest)]
            lines += [f"      - {source}" for source in sources]
        else:
            lines += [f"  - {source}" for source in sources]
    return "\n".join(lines) + "\n"


def is_own_package(text: str) -> bool:
    """True for a manifest that `bender_package` has made."""
    return f"\n  name: {VENDOR}_" in text


def sources_of(file_list: str) -> list[str]:
    """Sources in the text of a file list: what is no option and no comment."""
    lines = (line.strip() for line in file_list.splitlines())
    return [line for line in lines if line and not line.startswith(("+", "-", "#", "//"))]

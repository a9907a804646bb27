# SPDX-License-Identifier: Apache-2.0
"""An example of a driver in C, on the functions of the C header."""

from pathlib import Path

from foldwire.catalog import Design
from foldwire.handoff.header import c_header
from foldwire.handoff.part import handoff_of

__all__ = ["driver_files"]

_DRIVERS = Path(__file__).parent / "drivers"


def driver_files(design: Design) -> dict[str, str]:
    """C header of the registers, and an example that includes it if there is one."""
    registers, handoff, top = design.registers, handoff_of(design), design.top
    assert registers is not None
    header = c_header(
        registers, name=top, parameters={**design.parameters, **handoff.constants(design)},
        codes=handoff.codes, layouts=handoff.layouts,
    )
    files = {f"{top}.h": header}
    if handoff.driver:
        text = (_DRIVERS / handoff.driver).read_text(encoding="utf-8")
        text = text.replace("engine.h", f"{top}.h").replace("engine_", f"{top}_")
        files[f"{top}-example.c"] = text.replace("ENGINE_", f"{top.upper()}_")
    return files

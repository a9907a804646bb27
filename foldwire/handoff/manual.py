# SPDX-License-Identifier: Apache-2.0
"""The programmer's manual of an engine: how software drives it, then every register.

Sequences of writes are those that the drivers make, tables of causes and errors those of the
register map; recipes in words name registers and fields, which must exist.
"""

import re

from foldwire.catalog import Design
from foldwire.handoff.frames import ports_table
from foldwire.handoff.part import handoff_of
from foldwire.handoff.sections import table
from hw.common.register_map import RegisterMap

__all__ = ["manual"]

_MEMORY = """\
## Memory and order

- Masters read and write memory as normal, not cached, not bufferable (`AxCACHE` 0b0010), and do not
  look into caches of processors (`AxPROT` 0b010: unprivileged, not secure, data). Where these are
  not coherent with the engine, software writes lines of the source back to memory before it writes
  `command`, and invalidates lines of the destination before it reads them; until the record of the
  command has come, it writes neither vector, and no line that has a part of either.
- Words of the source must be in memory before `command` is written: a barrier of writes comes
  first (`writel` has one; by the functions of the C header, software puts it there). Registers are
  device memory: their writes must arrive in the order of the program, and must not be joined.
- `command` is a write of its own with the parameters as they stand then; as soon as it is answered,
  parameters may be written for the next one.
- A command is over when memory has answered the last write of its result. So whoever has read its
  record from `completion`, and reads memory after that (a barrier of reads between), finds the
  result.
"""

_PARTS_RECIPE = """
## Recipe: all-gather, broadcast, reduce-scatter

Write `part_begin` and `part_end`, each member its own, before `command` with `command.part`: SEND
for an all-gather, or a broadcast, in which all but the root have no part; STORE for a
reduce-scatter. The parts of all members cover the vector once. Addresses and
`elements` are those of the whole vector.
"""

_FIXED_POINT_RECIPE = """
## Recipe: the same bits in every run

FP32 sums of `command.op` SUM_F32 depend on what comes first. With `command.fixed` set they do not:

1. on every member, find the largest exponent field (bits 30 to 23) of the vector;
2. find the largest of all members, at least 1, for example by an all-reduce of one element;
3. give the command with it in `command.exponent`, the same on all members.

A number with a larger exponent, an infinity or a NaN is found when it is read: `invalid.read` is
set on all members, and `outside` counts on the one that had it.
"""


def manual(design: Design) -> str:
    """The manual as Markdown.

    Raises
    ------
    ValueError
        The text names a register or field that the engine does not have.
    """
    registers, handoff = design.registers, handoff_of(design)
    assert registers is not None
    recipes = handoff.recipes
    if design.parameters.get("fixed_point"):
        recipes += _FIXED_POINT_RECIPE
    if design.parameters.get("parts"):
        recipes += _PARTS_RECIPE
    if "completion" in registers.registers:
        recipes += "\n" + _MEMORY
    _check_names(recipes, registers)
    parts = [
        f"# Programmer's manual of {design.top}",
        "Generated with the Verilog beside it; offsets and names are those of the C header.",
        table("Configuration", ("parameter", "value"), design.parameters.items()),
        *handoff.set_up(design),
        recipes.rstrip(),
        table("Interrupts", ("bit of `interrupt`", "meaning"), handoff.interrupts.items()),
        *handoff.more(design),
        ports_table(design),
        *filter(None, [handoff.packets(design)]),
    ]
    document = re.sub("^#", "##", registers.markdown(), flags=re.MULTILINE)
    return "\n\n".join([*parts, document])


def _check_names(text: str, registers: RegisterMap) -> None:
    for name in re.findall(r"`([a-z_]+(?:\.[a-z_]+)?)`", text):
        register, _, field = name.partition(".")
        if register in ("irq", "writel"):
            continue
        known = registers.registers.get(register)
        if known is None or (field and field not in {each.name for each in known.fields}):
            raise ValueError(f"the manual names `{name}`, which {registers.name} does not have")
